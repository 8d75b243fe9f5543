"""Barriers and warp operations: a thread says what it waits for, suspends, and reads the result when resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed, unsupported
from .modifiers import Modifiers
from .records import ThreadField, Wait
from .table import Table
from .types import BITS, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
_REDUCTIONS = {"add": 0, "min.s32": 1, "max.s32": 2, "min.u32": 3, "max.u32": 4, "and": 5, "or": 6, "xor": 7}


def _set(t: Translator, field: ThreadField, value: str, llvm: str = "i32") -> None:
    t.b.store(llvm, value, t.thread_field(field))


def _get(t: Translator, field: ThreadField, llvm: str = "i32") -> str:
    return t.b.load(llvm, t.thread_field(field))


def _flag(t: Translator) -> str:
    return t.b.compare("ne", "i32", _get(t, ThreadField.FLAG), "0")


def _require_sync(i: Instruction, m: Modifiers) -> None:
    if not m.flag("sync"):
        raise unsupported(i, "warp operations without .sync, which PTX has withdrawn for sm_70 and later")
    m.flag("aligned")


@TABLE("shfl")
def shfl(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Reads another lane's register."""
    _require_sync(i, m)
    mode = m.take(*_SHUFFLES)
    type_ = m.type()
    if not mode:
        raise malformed(i, "the mode is missing")
    destination = t.operand(0)
    _set(t, ThreadField.VALUE, t.b.resize(t.read(t.operand(1), type_), vector(type_), "i64"), "i64")
    _set(t, ThreadField.B, t.read(t.operand(2), "u32"))
    _set(t, ThreadField.C, t.read(t.operand(3), "u32"))
    _set(t, ThreadField.MASK, t.read(t.operand(4), "u32"))
    _set(t, ThreadField.MODE, str(_SHUFFLES.index(mode)))
    t.suspend(Wait.SHFL)
    if isinstance(destination, ast.Pair):
        t.write(destination.second, "pred", _flag(t))
        destination = destination.first
    t.write(destination, type_, _get(t, ThreadField.RESULT))


@TABLE("vote")
def vote(t: Translator, i: Instruction, m: Modifiers) -> None:
    """all, any, uni, ballot of a predicate."""
    _require_sync(i, m)
    mode = m.take(*_VOTES)
    if not mode:
        raise malformed(i, "the mode is missing")
    type_ = m.type()
    _set(t, ThreadField.VALUE, t.b.resize(t.read(t.operand(1), "pred"), "i1", "i64"), "i64")
    _set(t, ThreadField.MASK, t.read(t.operand(2), "u32"))
    _set(t, ThreadField.MODE, str(_VOTES.index(mode)))
    t.suspend(Wait.VOTE)
    if mode == "ballot":
        t.write(t.operand(0), type_, _get(t, ThreadField.RESULT))
    else:
        t.write(t.operand(0), "pred", _flag(t))


@TABLE("match")
def match(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Which lanes hold the same value."""
    every = m.take("any", "all") == "all"
    _require_sync(i, m)
    type_ = m.type()
    value = t.read(t.operand(1), type_)
    _set(t, ThreadField.VALUE, t.b.resize(value, vector(type_), "i64"), "i64")
    _set(t, ThreadField.MASK, t.read(t.operand(2), "u32"))
    _set(t, ThreadField.MODE, str(int(every)))
    t.suspend(Wait.MATCH)
    destination = t.operand(0)
    if isinstance(destination, ast.Pair):
        t.write(destination.second, "pred", _flag(t))
        destination = destination.first
    t.write(destination, "b32", _get(t, ThreadField.RESULT))


@TABLE("redux")
def redux(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Reduces over the lanes of a mask."""
    _require_sync(i, m)
    operation = m.take("add", "min", "max", "and", "or", "xor")
    type_ = m.type()
    key = f"{operation}.{type_}" if operation in ("min", "max") else operation
    if key not in _REDUCTIONS or BITS[vector(type_)] != 32 or type_ == "f32":
        raise unsupported(i)
    _set(t, ThreadField.VALUE, t.b.resize(t.read(t.operand(1), type_), "i32", "i64"), "i64")
    _set(t, ThreadField.MASK, t.read(t.operand(2), "u32"))
    _set(t, ThreadField.MODE, str(_REDUCTIONS[key]))
    t.suspend(Wait.REDUX)
    t.write(t.operand(0), type_, _get(t, ThreadField.RESULT))


@TABLE("elect")
def elect(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Chooses the lowest lane of a mask."""
    _require_sync(i, m)
    _set(t, ThreadField.MASK, t.read(t.operand(1), "u32"))
    t.suspend(Wait.ELECT)
    destination = t.operand(0)
    if not isinstance(destination, ast.Pair):
        raise malformed(i, "it yields a lane and a predicate")
    t.write(destination.second, "pred", _flag(t))
    t.write(destination.first, "b32", _get(t, ThreadField.RESULT))


@TABLE("activemask")
def activemask(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The lanes that stand at this instruction."""
    type_ = m.type()
    t.suspend(Wait.ACTIVEMASK)
    t.write(t.operand(0), type_, _get(t, ThreadField.RESULT))


@TABLE("bar", "barrier")
def barrier(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Barriers of the block and of the warp."""
    if m.flag("warp"):
        m.flag("sync")
        _set(t, ThreadField.MASK, t.read(t.operand(0), "u32"))
        t.suspend(Wait.WARP_SYNC)
        return
    if "cluster" in m.rest:
        raise unsupported(i, "clusters")
    m.flag("cta")
    kind = m.take("sync", "arrive", "red")
    m.flag("aligned")
    if kind == "red":
        _reducing(t, i, m)
        return
    number = t.read(t.operand(0), "u32")
    count = t.read(t.operand(1), "u32") if len(i.operands) > 1 else "0"
    if kind == "arrive":
        arguments = [("ptr", "%blk"), ("ptr", "%thr"), ("i32", number), ("i32", count)]
        t.b.helper("void", "arrive", arguments)
    elif kind == "sync":
        _set(t, ThreadField.MASK, number)
        _set(t, ThreadField.MODE, count)
        t.suspend(Wait.BARRIER)
    else:
        raise unsupported(i)


def _reducing(t: Translator, i: Instruction, m: Modifiers) -> None:
    """bar.red: a barrier that yields the count, conjunction or disjunction of a predicate."""
    operation = m.take("popc", "and", "or")
    type_ = m.type()
    count = t.read(t.operand(2), "u32") if len(i.operands) > 3 else "0"
    predicate = t.read(i.operands[-1], "pred")
    _set(t, ThreadField.MASK, t.read(t.operand(1), "u32"))
    _set(t, ThreadField.MODE, count)
    _set(t, ThreadField.VALUE, t.b.resize(predicate, "i1", "i64"), "i64")
    _set(t, ThreadField.B, str(("popc", "and", "or").index(operation)))
    t.suspend(Wait.BARRIER_RED)
    if operation == "popc":
        t.write(t.operand(0), type_, _get(t, ThreadField.RESULT))
    else:
        t.write(t.operand(0), "pred", _flag(t))

"""Comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import halves
from .errors import malformed, unsupported
from .modifiers import Modifiers
from .table import Table
from .types import FLOATS, HALVES, PACKED, is_signed, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord"}
_UNORDERED = {"equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "nan": "uno"}
_FLOAT = {**_ORDERED, **_UNORDERED}
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_OPERATORS = (*_FLOAT, *_UNSIGNED)


def compared(t: Translator, operator: str, type_: str, a: str, b: str, flush: bool) -> str:
    """One comparison of two values."""
    if type_ in FLOATS:
        if operator not in _FLOAT:
            raise malformed(t.instruction, f".{operator} does not compare floating-point values")
        if type_ in HALVES:
            a, b = (halves.widen(t, v, type_, flush) for v in (a, b))
            return t.b.compare(_FLOAT[operator], "float", a, b)
        if flush:
            a, b = (t.b.prelude("float", "flush", [("float", v)]) for v in (a, b))
        return t.b.compare(_FLOAT[operator], vector(type_), a, b)
    if operator in _UNSIGNED:
        predicate = _UNSIGNED[operator]
    elif operator in ("eq", "ne"):
        predicate = operator
    elif operator in ("lt", "le", "gt", "ge"):
        predicate = ("s" if is_signed(type_) else "u") + operator
    else:
        raise malformed(t.instruction, f".{operator} does not compare integers")
    return t.b.compare(predicate, vector(type_), a, b)


def _operator(i: Instruction, m: Modifiers) -> tuple[str, str]:
    """The comparison and the boolean operation behind it."""
    for name in m.rest:
        if name in _OPERATORS:
            m.rest.remove(name)
            return name, m.take("and", "or", "xor")
    raise malformed(i, "the comparison is missing")


@TABLE("setp")
def setp(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Compares into one predicate, or into two: the result and its complement, each combined with c."""
    type_ = m.type()
    operator, boolean = _operator(i, m)
    flush = m.flag("ftz")
    destination = t.operand(0)
    if type_ in PACKED:
        _setp_packed(t, i, operator, boolean, type_, flush)
        return
    result = compared(t, operator, type_, t.read(t.operand(1), type_), t.read(t.operand(2), type_), flush)
    complement = ""
    if isinstance(destination, ast.Pair):
        complement = t.b.binary("xor", "i1", result, "true")
    if boolean:
        other = t.read(t.operand(3), "pred")
        result = t.b.binary(boolean, "i1", result, other)
        complement = complement and t.b.binary(boolean, "i1", complement, other)
    if isinstance(destination, ast.Pair):
        t.write(destination.first, "pred", result)
        t.write(destination.second, "pred", complement)
    else:
        t.write(destination, "pred", result)


def _setp_packed(t: Translator, i: Instruction, operator: str, boolean: str, type_: str, flush: bool) -> None:
    """Two comparisons, of the low and the high elements, into two predicates."""
    destination = t.operand(0)
    if not isinstance(destination, ast.Pair):
        raise unsupported(i, "a packed comparison into one predicate")
    element = PACKED[type_]
    a, b = (halves.split(t, t.read(t.operand(k), type_), type_) for k in (1, 2))
    for lane, target in enumerate((destination.first, destination.second)):
        result = compared(t, operator, element, a[lane], b[lane], flush)
        if boolean:
            result = t.b.binary(boolean, "i1", result, t.read(t.operand(3), "pred"))
        t.write(target, "pred", result)


@TABLE("set")
def set_(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Compares into a register: all ones or 1.0 where true, else zero."""
    source, target = m.type(), m.type()
    operator, boolean = _operator(i, m)
    flush = m.flag("ftz")
    element = PACKED.get(source, source)
    values = [t.read(t.operand(k), source) for k in (1, 2)]
    lanes = [halves.split(t, v, source) if source in PACKED else [v] for v in values]
    results = []
    for a, b in zip(*lanes):
        result = compared(t, operator, element, a, b, flush)
        if boolean:
            result = t.b.binary(boolean, "i1", result, t.read(t.operand(3), "pred"))
        results.append(result)
    if source in PACKED:
        one = {"f16x2": "15360", "bf16x2": "16256"}.get(target, "-1")
        value = halves.join(t, [t.b.select(r, "i16", one, "0") for r in results], "f16x2")
    else:
        llvm = vector(target)
        one = {"f32": "1.0", "f64": "1.0", "f16": "15360", "bf16": "16256"}.get(target, "-1")
        value = t.b.select(results[0], llvm, one, "0.0" if llvm in ("float", "double") else "0")
    t.write(t.operand(0), target, value, loose=True)


@TABLE("selp")
def selp(t: Translator, i: Instruction, m: Modifiers) -> None:
    """a if the predicate holds, else b."""
    type_ = m.type()
    a, b = t.read(t.operand(1), type_), t.read(t.operand(2), type_)
    t.write(t.operand(0), type_, t.b.select(t.read(t.operand(3), "pred"), vector(type_), a, b))


@TABLE("slct")
def slct(t: Translator, i: Instruction, m: Modifiers) -> None:
    """a if c is at least zero, else b. NaN is not."""
    condition, type_ = m.type(), m.type()
    flush = m.flag("ftz")
    c = t.read(t.operand(3), condition)
    if condition == "f32":
        if flush:
            c = t.b.prelude("float", "flush", [("float", c)])
        chosen = t.b.compare("oge", "float", c, "0.0")
    else:
        chosen = t.b.compare("sge", "i32", c, "0")
    a, b = t.read(t.operand(1), type_), t.read(t.operand(2), type_)
    t.write(t.operand(0), type_, t.b.select(chosen, vector(type_), a, b))

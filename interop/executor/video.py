"""Video instructions (PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions").

Operands are parts of 32-bit registers, extended by sign or zero into wider integers, in which the operation is exact.
The result is clamped where ``.sat`` is given, and then accumulated, compared with, or put into a third operand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed
from .modifiers import Modifiers
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_WIDE = "i64"  # sums of two parts
_SCALAR_PART = re.compile(r"(.+)\.([bh])([0-3])")
_SIMD_PART = re.compile(r"(.+)\.([bh])([0-7]+)")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_MERGES = ("add", "min", "max")


def _part(t: Translator, word: str, bits: int, index: int, signed: bool, wide: str) -> str:
    """Element `index` of `bits` bits of a register, extended."""
    b = t.b
    if bits == 32:
        return b.resize(word, "i32", wide, signed)
    moved = b.binary("lshr", "i32", word, str(bits * index)) if index else word
    return b.resize(b.resize(moved, "i32", f"i{bits}"), f"i{bits}", wide, signed)


def _clamped(t: Translator, value: str, bits: int, signed: bool, wide: str) -> str:
    """Into the range of an integer of `bits` bits."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return t.b.intrinsic("smax", wide, t.b.intrinsic("smin", wide, value, str(high)), str(low))


# ---- one result ----


@dataclass(frozen=True)
class _Selected:
    """A register and which of its parts is meant; 32 bits without a selector."""

    register: ast.Operand
    bits: int = 32
    index: int = 0
    negated: bool = False


def _selected(i: Instruction, operand: ast.Operand) -> _Selected:
    negated = isinstance(operand, ast.Minus)
    if isinstance(operand, ast.Minus):
        operand = operand.base
    match = _SCALAR_PART.fullmatch(operand.text) if isinstance(operand, ast.Name) else None
    if match is None:
        return _Selected(operand, negated=negated)
    bits, index = (8 if match[2] == "b" else 16), int(match[3])
    if bits * index >= 32:
        raise malformed(i, f".{match[2]}{match[3]} selects no part of a register")
    return _Selected(ast.Name(match[1]), bits, index, negated)


def _source(t: Translator, i: Instruction, index: int, signed: bool, wide: str = _WIDE) -> str:
    chosen = _selected(i, t.operand(index))
    return _part(t, t.read(chosen.register, "b32"), chosen.bits, chosen.index, signed, wide)


def _types(i: Instruction, m: Modifiers, count: int) -> list[str]:
    types = [x for x in m.rest if x in ("u32", "s32")]
    if len(types) != count:
        raise malformed(i, f"{count} types are expected")
    m.drop("u32", "s32")
    return types


def _finish(t: Translator, i: Instruction, m: Modifiers, value: str, signed: bool, wide: str, saturated: bool) -> None:
    """Clamps, combines with the third operand, and writes."""
    b = t.b
    destination = _selected(i, t.operand(0))
    if saturated:
        value = _clamped(t, value, destination.bits, signed, wide)
    result = b.resize(value, wide, "i32")
    second = m.take(*_MERGES)
    if second:
        c = t.read(t.operand(3), "b32")
        if second == "add":
            result = b.binary("add", "i32", result, c)
        else:
            result = b.intrinsic(f"{'s' if signed else 'u'}{second}", "i32", result, c)
    elif destination.bits < 32:
        result = _merged(t, result, t.read(t.operand(3), "b32"), destination.bits, destination.index)
    t.write(destination.register, "b32", result)


def _merged(t: Translator, value: str, into: str, bits: int, index: int) -> str:
    """`into` with one part replaced."""
    b = t.b
    mask = ((1 << bits) - 1) << bits * index
    moved = b.binary("shl", "i32", value, str(bits * index)) if index else value
    kept = b.binary("and", "i32", into, str(~mask))
    return b.binary("or", "i32", kept, b.binary("and", "i32", moved, str(mask)))


@TABLE("vadd", "vsub", "vabsdiff", "vmin", "vmax")
def scalar(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Sum, difference, distance, smaller, larger of two parts."""
    target, first, second = _types(i, m, 3)
    saturated = m.flag("sat")
    a, b_ = _source(t, i, 1, first == "s32"), _source(t, i, 2, second == "s32")
    _finish(t, i, m, _operate(t, i.opcode[1:], a, b_), target == "s32", _WIDE, saturated)


def _operate(t: Translator, operation: str, a: str, b_: str) -> str:
    b = t.b
    if operation in ("add", "sub"):
        return b.binary(operation, _WIDE, a, b_)
    if operation in ("min", "max"):
        return b.intrinsic(f"s{operation}", _WIDE, a, b_)
    if operation == "absdiff":
        return b.intrinsic("abs", _WIDE, b.binary("sub", _WIDE, a, b_), extra=[("i1", "false")])
    total = b.binary("add", _WIDE, a, b_)  # avrg: halves are rounded away from zero upwards, and down below zero
    up = b.resize(b.compare("sge", _WIDE, total, "0"), "i1", _WIDE)
    return b.binary("ashr", _WIDE, b.binary("add", _WIDE, total, up), "1")


@TABLE("vshl", "vshr")
def shift(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Shifts of a part; the amount is taken modulo 32 or bounded by it."""
    target, first, second = _types(i, m, 3)
    if second != "u32":
        raise malformed(i, "the amount is of type .u32")
    saturated = m.flag("sat")
    mode = m.take("clamp", "wrap")
    if not mode:
        raise malformed(i, ".clamp or .wrap is missing")
    b, wide = t.b, "i128"
    value, amount = _source(t, i, 1, first == "s32", wide), _source(t, i, 2, False, wide)
    amount = b.intrinsic("umin", wide, amount, "32") if mode == "clamp" else b.binary("and", wide, amount, "31")
    moved = b.binary("shl" if i.opcode == "vshl" else "ashr", wide, value, amount)
    _finish(t, i, m, moved, target == "s32", wide, saturated)


@TABLE("vset")
def compare(t: Translator, i: Instruction, m: Modifiers) -> None:
    """1 where a comparison of two parts holds, else 0."""
    first, second = _types(i, m, 2)
    holds = _compared(
        t, i, m, _source(t, i, 1, first == "s32"), _source(t, i, 2, second == "s32"), m.take(*_COMPARISONS)
    )
    _finish(t, i, m, holds, False, _WIDE, False)


def _compared(t: Translator, i: Instruction, m: Modifiers, a: str, b_: str, operator: str) -> str:
    if not operator:
        raise malformed(i, "the comparison is missing")
    predicate = operator if operator in ("eq", "ne") else f"s{operator}"
    return t.b.resize(t.b.compare(predicate, _WIDE, a, b_), "i1", _WIDE)


@TABLE("vmad")
def multiply_add(t: Translator, i: Instruction, m: Modifiers) -> None:
    """a * b + c, of parts, shifted right by 0, 7 or 15; operands may be negated, or 1 be added."""
    _, first, second = _types(i, m, 3)
    plus_one, saturated = m.flag("po"), m.flag("sat")
    scale = int(m.take("shr7", "shr15", default="shr0")[3:])
    b, wide = t.b, "i128"
    a, b_ = _selected(i, t.operand(1)), _selected(i, t.operand(2))
    c = _selected(i, t.operand(3))
    negative = a.negated != b_.negated
    if plus_one and (a.negated or b_.negated or c.negated):
        raise malformed(i, ".po takes no negated operands")
    signed = "s32" in (first, second) or negative or c.negated
    words = [t.read(x.register, "b32") for x in (a, b_, c)]
    product = b.binary(
        "mul",
        wide,
        _part(t, words[0], a.bits, a.index, first == "s32", wide),
        _part(t, words[1], b_.bits, b_.index, second == "s32", wide),
    )
    addend = b.resize(words[2], "i32", wide, signed)
    if negative:
        product = b.binary("sub", wide, "0", product)
    if c.negated:
        addend = b.binary("sub", wide, "0", addend)
    total = b.binary("add", wide, product, addend)
    if plus_one:
        total = b.binary("add", wide, total, "1")
    if scale:
        total = b.binary("ashr", wide, total, str(scale))
    if saturated:
        total = _clamped(t, total, 32, signed, wide)
    t.write(t.operand(0), "b32", b.resize(total, wide, "i32"))


# ---- two or four results ----


def _simd_part(i: Instruction, operand: ast.Operand, bits: int, default: list[int]) -> tuple[ast.Operand, list[int]]:
    """A register and the numbers of its parts, the lowest lane's first: ``%r1.b7610`` is [0, 1, 6, 7]."""
    match = _SIMD_PART.fullmatch(operand.text) if isinstance(operand, ast.Name) else None
    if match is None:
        return operand, default
    digits = [int(d) for d in reversed(match[3])]
    if match[2] != ("b" if bits == 8 else "h") or max(digits) >= 64 // bits:
        raise malformed(i, f".{match[2]}{match[3]} selects no parts of {bits} bits")
    return ast.Name(match[1]), digits


def _simd(t: Translator, i: Instruction, m: Modifiers, operation: str, bits: int) -> None:
    lanes = 32 // bits
    b = t.b
    compares = operation == "set"
    types = _types(i, m, 2 if compares else 3)
    target = "u32" if compares else types[0]
    operator = m.take(*_COMPARISONS) if compares else ""
    saturated, accumulates = m.flag("sat"), m.flag("add")
    if saturated and accumulates:
        raise malformed(i, ".sat and .add exclude each other")
    destination, mask = _simd_part(i, t.operand(0), bits, list(range(lanes)))
    first, from_a = _simd_part(i, t.operand(1), bits, list(range(lanes)))
    second, from_b = _simd_part(i, t.operand(2), bits, list(range(lanes, 2 * lanes)))
    if len(from_a) != lanes or len(from_b) != lanes or max(mask) >= lanes:
        raise malformed(i, f"{lanes} parts are selected")
    words = [t.read(first, "b32"), t.read(second, "b32")]
    result = t.read(t.operand(3), "b32")

    def lane(selector: list[int], k: int, type_: str) -> str:
        return _part(t, words[selector[k] // lanes], bits, selector[k] % lanes, type_ == "s32", _WIDE)

    for k in mask:
        x, y = lane(from_a, k, types[-2]), lane(from_b, k, types[-1])
        value = _compared(t, i, m, x, y, operator) if compares else _operate(t, operation, x, y)
        if saturated:
            value = _clamped(t, value, bits, target == "s32", _WIDE)
        narrow = b.resize(value, _WIDE, "i32")
        result = b.binary("add", "i32", result, narrow) if accumulates else _merged(t, narrow, result, bits, k)
    t.write(destination, "b32", result)


def _register(operation: str, lanes: int) -> None:
    bits = 32 // lanes

    @TABLE(f"v{operation}{lanes}")
    def simd(t: Translator, i: Instruction, m: Modifiers) -> None:
        _simd(t, i, m, operation, bits)


for _operation in ("add", "sub", "avrg", "absdiff", "min", "max", "set"):
    for _lanes in (2, 4):
        _register(_operation, _lanes)

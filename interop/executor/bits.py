"""Bits: logic, shifts, fields, permutations, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed
from .modifiers import Modifiers
from .table import Table
from .types import BITS, is_signed, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


@TABLE("and", "or", "xor")
def logic(t: Translator, i: Instruction, m: Modifiers) -> None:
    """and, or, xor of bits and predicates."""
    type_ = m.type()
    a, b = t.read(t.operand(1), type_), t.read(t.operand(2), type_)
    t.write(t.operand(0), type_, t.b.binary(i.opcode, vector(type_), a, b))


@TABLE("not")
def invert(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Every bit inverted."""
    type_ = m.type()
    llvm = vector(type_)
    ones = "true" if llvm == "i1" else "-1"
    t.write(t.operand(0), type_, t.b.binary("xor", llvm, t.read(t.operand(1), type_), ones))


@TABLE("cnot")
def logical_not(t: Translator, i: Instruction, m: Modifiers) -> None:
    """1 for zero, else 0."""
    type_ = m.type()
    llvm = vector(type_)
    zero = t.b.compare("eq", llvm, t.read(t.operand(1), type_), "0")
    t.write(t.operand(0), type_, t.b.resize(zero, "i1", llvm))


@TABLE("shl", "shr")
def shift(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Shifts. Amounts past the width shift everything out; LLVM's would be undefined."""
    type_ = m.type()
    llvm = vector(type_)
    bits = BITS[llvm]
    arithmetic = i.opcode == "shr" and is_signed(type_)
    operation = {"shl": "shl", "shr": "ashr" if arithmetic else "lshr"}[i.opcode]
    value = t.read(t.operand(1), type_)
    t.write(t.operand(0), type_, shifted(t, operation, llvm, value, t.read(t.operand(2), "u32", loose=True), bits))


def shifted(t: Translator, operation: str, llvm: str, value: str, amount: str, bits: int) -> str:
    """`value` shifted by a 32-bit amount of any size."""
    b = t.b
    if amount.isdecimal():  # most amounts are constants, and what is known to be evenly spaced stays so
        if int(amount) < bits:
            return b.binary(operation, llvm, value, amount)
        return b.binary(operation, llvm, value, str(bits - 1)) if operation == "ashr" else "0"
    if operation == "ashr":
        bounded = b.resize(b.intrinsic("umin", "i32", amount, str(bits - 1)), "i32", llvm)
        return b.binary(operation, llvm, value, bounded)
    inside = b.compare("ult", "i32", amount, str(bits))
    return b.select(inside, llvm, b.binary(operation, llvm, value, b.resize(amount, "i32", llvm)), "0")


def _extent(t: Translator, index: int, bits: int) -> str:
    """The position or length of a field. Of 32-bit fields the low byte counts; of 64-bit ones, on the hardware, all."""
    value = t.read(t.operand(index), "u32", loose=True)
    return t.b.binary("and", "i32", value, "255") if bits == 32 else value


@TABLE("bfe")
def extract_field(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The field of c bits at b; signed: extended from its top bit, or from a's where the field reaches past it."""
    type_ = m.type()
    llvm = vector(type_)
    bits = BITS[llvm]
    value, position, length = t.read(t.operand(1), type_), _extent(t, 2, bits), _extent(t, 3, bits)
    b = t.b
    if is_signed(type_):
        moved = shifted(t, "ashr", llvm, value, position, bits)
        bounded = b.intrinsic("umin", "i32", length, str(bits))
        rest = b.binary("sub", "i32", str(bits), bounded)
        left = shifted(t, "shl", llvm, moved, rest, bits)
        extended = shifted(t, "ashr", llvm, left, rest, bits)
        value = b.select(b.compare("eq", "i32", length, "0"), llvm, "0", extended)
    else:
        moved = shifted(t, "lshr", llvm, value, position, bits)
        value = b.binary("and", llvm, moved, _low_bits(t, llvm, length, bits))
    t.write(t.operand(0), type_, value)


def _low_bits(t: Translator, llvm: str, length: str, bits: int) -> str:
    """As many ones as `length` says; all ones from the width on."""
    past = shifted(t, "shl", llvm, "1", length, bits)
    return t.b.binary("sub", llvm, past, "1")


@TABLE("bfi")
def insert_field(t: Translator, i: Instruction, m: Modifiers) -> None:
    """b with the low d bits of a put in at c."""
    type_ = m.type()
    llvm = vector(type_)
    bits = BITS[llvm]
    field, base = t.read(t.operand(1), type_), t.read(t.operand(2), type_)
    position, length = _extent(t, 3, bits), _extent(t, 4, bits)
    b = t.b
    mask = shifted(t, "shl", llvm, _low_bits(t, llvm, length, bits), position, bits)
    moved = shifted(t, "shl", llvm, field, position, bits)
    kept = b.binary("and", llvm, base, b.binary("xor", llvm, mask, "-1"))
    t.write(t.operand(0), type_, b.binary("or", llvm, kept, b.binary("and", llvm, moved, mask)))


@TABLE("bfind")
def find_leading(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The position of the top bit that differs from the sign; -1 when there is none."""
    shift_amount = m.flag("shiftamt")
    type_ = m.type()
    llvm = vector(type_)
    bits = BITS[llvm]
    b = t.b
    value = t.read(t.operand(1), type_)
    if is_signed(type_):
        value = b.binary("xor", llvm, value, b.binary("ashr", llvm, value, str(bits - 1)))
    leading = b.intrinsic("ctlz", llvm, value, extra=[("i1", "false")])
    leading = b.resize(leading, llvm, "i32")
    found = leading if shift_amount else b.binary("sub", "i32", str(bits - 1), leading)
    t.write(t.operand(0), "u32", b.select(b.compare("eq", llvm, value, "0"), "i32", "-1", found))


@TABLE("clz", "popc")
def count(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Leading zeros; ones."""
    type_ = m.type()
    llvm = vector(type_)
    value = t.read(t.operand(1), type_)
    if i.opcode == "clz":
        counted = t.b.intrinsic("ctlz", llvm, value, extra=[("i1", "false")])
    else:
        counted = t.b.intrinsic("ctpop", llvm, value)
    t.write(t.operand(0), "u32", t.b.resize(counted, llvm, "i32"))


@TABLE("brev")
def reverse(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The bits in the opposite order."""
    type_ = m.type()
    t.write(t.operand(0), type_, t.b.intrinsic("bitreverse", vector(type_), t.read(t.operand(1), type_)))


@TABLE("lop3")
def lop3(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Any logical function of three operands, given as its table of truth; with `.or`/`.and` a predicate as well."""
    m.type()
    combine = m.take("or", "and")
    a, b_, c = (t.read(t.operand(k), "b32") for k in (1, 2, 3))
    table = t.operand(4)
    if not isinstance(table, ast.Integer) or not 0 <= table.value < 256:
        raise malformed(i, "the table must be a constant in 0 … 255")
    b = t.b
    inverse = [b.binary("xor", "i32", v, "-1") for v in (a, b_, c)]
    value = "0"
    for row in range(8):
        if table.value >> row & 1:
            terms = [v if row >> (2 - k) & 1 else inverse[k] for k, v in enumerate((a, b_, c))]
            both = b.binary("and", "i32", terms[0], terms[1])
            value = b.binary("or", "i32", value, b.binary("and", "i32", both, terms[2]))
    destination = t.operand(0)
    if combine:
        if not isinstance(destination, ast.Pair):
            raise malformed(i, "a predicate is missing behind the destination")
        other = t.read(t.operand(5), "pred")
        t.write(destination.second, "pred", b.binary(combine, "i1", b.compare("ne", "i32", value, "0"), other))
        destination = destination.first
    t.write(destination, "b32", value)


@TABLE("shf")
def funnel_shift(t: Translator, i: Instruction, m: Modifiers) -> None:
    """A shift of the 64 bits b:a of which 32 are kept."""
    m.type()
    left = m.take("l", "r") == "l"
    clamp = m.take("clamp", "wrap") == "clamp"
    low, high = t.read(t.operand(1), "b32"), t.read(t.operand(2), "b32")
    amount = t.read(t.operand(3), "u32")
    b = t.b
    bounded = b.intrinsic("umin", "i32", amount, "32") if clamp else b.binary("and", "i32", amount, "31")
    top = b.binary("shl", "i64", b.resize(high, "i32", "i64"), "32")
    both = b.binary("or", "i64", top, b.resize(low, "i32", "i64"))
    moved = b.binary("shl" if left else "lshr", "i64", both, b.resize(bounded, "i32", "i64"))
    if left:
        moved = b.binary("lshr", "i64", moved, "32")
    t.write(t.operand(0), "b32", b.resize(moved, "i64", "i32"))


@TABLE("prmt")
def permute(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Four of the eight bytes of a and b, each as it is or as its sign; named modes compute the choice from c."""
    m.type()
    mode = m.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    low, high, choice = (t.read(t.operand(k), "b32") for k in (1, 2, 3))
    b = t.b
    both = b.binary(
        "or", "i64", b.binary("shl", "i64", b.resize(high, "i32", "i64"), "32"), b.resize(low, "i32", "i64")
    )
    result = "0"
    for index in range(4):
        selector = _selector(t, mode, index, choice)
        position = b.binary("shl", "i32", b.binary("and", "i32", selector, "7"), "3")
        moved = b.binary("lshr", "i64", both, b.resize(position, "i32", "i64"))
        byte = b.resize(moved, "i64", "i8")
        if not mode:
            replicate = b.compare("ne", "i32", b.binary("and", "i32", selector, "8"), "0")
            byte = b.select(replicate, "i8", b.binary("ashr", "i8", byte, "7"), byte)
        wide = b.resize(byte, "i8", "i32")
        if index:
            wide = b.binary("shl", "i32", wide, str(8 * index))
        result = b.binary("or", "i32", result, wide)
    t.write(t.operand(0), "b32", result)


def _selector(t: Translator, mode: str, index: int, choice: str) -> str:
    """Which byte becomes byte `index` of the result."""
    b = t.b
    if not mode:
        return b.binary("lshr", "i32", choice, str(4 * index))
    c = b.binary("and", "i32", choice, "3")
    if mode == "f4e":
        return b.binary("add", "i32", c, str(index))
    if mode == "b4e":
        return b.binary("and", "i32", b.binary("sub", "i32", c, str(index)), "7")
    if mode == "rc8":
        return c
    if mode in ("ecl", "ecr"):
        return b.intrinsic("umax" if mode == "ecl" else "umin", "i32", c, str(index))
    half = b.binary("shl", "i32", b.binary("and", "i32", c, "1"), "1")
    return b.binary("or", "i32", half, str(index & 1))


@TABLE("bmsk")
def bit_mask(t: Translator, i: Instruction, m: Modifiers) -> None:
    """b ones from bit a on; `.wrap` takes both modulo 32, `.clamp` cuts off what lies past the top."""
    m.type()
    clamp = m.take("clamp", "wrap") == "clamp"
    b = t.b
    start, length = t.read(t.operand(1), "u32"), t.read(t.operand(2), "u32")
    if not clamp:
        start, length = b.binary("and", "i32", start, "31"), b.binary("and", "i32", length, "31")
    ones = _low_bits(t, "i32", length, 32)
    t.write(t.operand(0), "b32", shifted(t, "shl", "i32", ones, start, 32))


@TABLE("szext")
def extend(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The low b bits of a, extended by sign or zero."""
    type_ = m.type()
    clamp = m.take("clamp", "wrap") == "clamp"
    b = t.b
    value, length = t.read(t.operand(1), type_), t.read(t.operand(2), "u32")
    length = b.intrinsic("umin", "i32", length, "32") if clamp else b.binary("and", "i32", length, "31")
    rest = b.binary("sub", "i32", "32", length)
    left = shifted(t, "shl", "i32", value, rest, 32)
    result = shifted(t, "ashr" if is_signed(type_) else "lshr", "i32", left, rest, 32)
    t.write(t.operand(0), type_, result)


@TABLE("fns")
def find_set(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The n-th set bit of a mask from a position on."""
    m.type()
    arguments = [("i32", t.read(t.operand(k), type_)) for k, type_ in ((1, "b32"), (2, "u32"), (3, "s32"))]
    t.write(t.operand(0), "b32", t.b.helper("i32", "fns", arguments))

"""Integer arithmetic. `add`, `sub`, `mul` … of floating-point types go on to :mod:`interop.executor.floats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import floats, packed
from .errors import unsupported
from .modifiers import Modifiers
from .table import Table
from .types import BITS, FLOATS, PACKED, is_signed, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


def _type(t: Translator, i: Instruction, m: Modifiers) -> str | None:
    """The instruction's type if it is one of integers; None when another family has taken the instruction."""
    type_ = m.type()
    if type_ in PACKED:
        packed.elementwise(t, i, m, type_)
    elif type_ in FLOATS:
        floats.arithmetic(t, i, m, type_)
    else:
        return type_
    return None


def _sources(t: Translator, type_: str, count: int = 2) -> list[str]:
    return [t.read(t.operand(k + 1), type_) for k in range(count)]


@TABLE("add", "sub")
def add(t: Translator, i: Instruction, m: Modifiers) -> None:
    """add, sub; `.sat` of s32; `.cc` sets the carry flag, on the hardware: where a difference did not borrow."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    llvm = vector(type_)
    a, b = _sources(t, type_)
    if m.flag("sat"):
        kind = "s" if is_signed(type_) else "u"
        value = t.b.intrinsic(f"{kind}{i.opcode}.sat", llvm, a, b)
    elif m.flag("cc"):
        value, carry = _overflowing(t, i.opcode, llvm, a, b)
        _set_carry(t, _flipped(t, carry) if i.opcode == "sub" else carry)
    else:
        value = t.b.binary(i.opcode, llvm, a, b)
    t.write(t.operand(0), type_, value)


def _overflowing(t: Translator, operation: str, llvm: str, a: str, b: str) -> tuple[str, str]:
    """An unsigned sum or difference, and whether it carried or borrowed."""
    name = f"llvm.u{operation}.with.overflow.{llvm}"
    pair = f"{{ {llvm}, i1 }}"
    both = t.b.call(pair, name, [(llvm, a), (llvm, b)])
    return t.b.extract_value(pair, both, 0), t.b.extract_value(pair, both, 1)


def _carry(t: Translator) -> str:
    """Memory of the carry flag of the current function."""
    if not t.frame.carry:
        t.frame.carry = t.b.alloca("i1")
        t.b.entry.append(f"  store i1 false, ptr {t.frame.carry}")
    return t.frame.carry


def _set_carry(t: Translator, carry: str) -> None:
    t.b.store("i1", carry, _carry(t))


@TABLE("addc", "subc")
def add_with_carry(t: Translator, i: Instruction, m: Modifiers) -> None:
    """addc, subc: take the carry flag in; `.cc` sets it."""
    type_ = m.type()
    llvm = vector(type_)
    a, b = _sources(t, type_)
    operation = i.opcode[:3]
    flag = t.b.load("i1", _carry(t))
    carry = t.b.resize(_flipped(t, flag) if operation == "sub" else flag, "i1", llvm)
    first, out1 = _overflowing(t, operation, llvm, a, b)
    value, out2 = _overflowing(t, operation, llvm, first, carry)
    if m.flag("cc"):
        out = t.b.binary("or", "i1", out1, out2)
        _set_carry(t, _flipped(t, out) if operation == "sub" else out)
    t.write(t.operand(0), type_, value)


def _flipped(t: Translator, flag: str) -> str:
    return t.b.binary("xor", "i1", flag, "true")


def _product(t: Translator, part: str, type_: str, a: str, b: str) -> tuple[str, str]:
    """A product and its PTX type: the low or high half, or all of it (`wide`)."""
    llvm = vector(type_)
    if part == "lo":
        return t.b.binary("mul", llvm, a, b), type_
    bits = BITS[llvm]
    double = f"i{2 * bits}"
    wide = [t.b.resize(v, llvm, double, is_signed(type_)) for v in (a, b)]
    value = t.b.binary("mul", double, *wide)
    if part == "wide":
        return value, f"{type_[0]}{2 * bits}"
    return t.b.resize(t.b.binary("lshr", double, value, str(bits)), double, llvm), type_


@TABLE("mul")
def mul(t: Translator, i: Instruction, m: Modifiers) -> None:
    """mul.lo, .hi, .wide."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    part = m.take("lo", "hi", "wide", default="lo")
    value, result = _product(t, part, type_, *_sources(t, type_))
    t.write(t.operand(0), result, value)


@TABLE("mad")
def mad(t: Translator, i: Instruction, m: Modifiers) -> None:
    """mad.lo, .hi, .wide; `.hi.sat` of s32; `.cc` sets the carry flag."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    part = m.take("lo", "hi", "wide", default="lo")
    value, result = _product(t, part, type_, *_sources(t, type_))
    llvm = vector(result)
    c = t.read(t.operand(3), result)
    if m.flag("sat"):
        value = t.b.intrinsic("sadd.sat", llvm, value, c)
    elif m.flag("cc"):
        value, carry = _overflowing(t, "add", llvm, value, c)
        _set_carry(t, carry)
    else:
        value = t.b.binary("add", llvm, value, c)
    t.write(t.operand(0), result, value)


@TABLE("madc")
def mad_with_carry(t: Translator, i: Instruction, m: Modifiers) -> None:
    """madc.lo, .hi: take the carry flag in; `.cc` sets it."""
    type_ = m.type()
    llvm = vector(type_)
    value, _ = _product(t, m.take("lo", "hi", default="lo"), type_, *_sources(t, type_))
    carry = t.b.resize(t.b.load("i1", _carry(t)), "i1", llvm)
    first, out1 = _overflowing(t, "add", llvm, value, t.read(t.operand(3), type_))
    value, out2 = _overflowing(t, "add", llvm, first, carry)
    if m.flag("cc"):
        _set_carry(t, t.b.binary("or", "i1", out1, out2))
    t.write(t.operand(0), type_, value)


@TABLE("mul24", "mad24")
def mul24(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Products of 24-bit operands: the low 32 bits, or bits 16 to 47."""
    type_ = m.type()
    part = m.take("lo", "hi", default="lo")
    operation = "ashr" if is_signed(type_) else "lshr"
    wide = []
    for value in _sources(t, type_):
        top = t.b.binary("shl", "i32", value, "8")
        wide.append(t.b.resize(t.b.binary(operation, "i32", top, "8"), "i32", "i64", is_signed(type_)))
    product = t.b.binary("mul", "i64", *wide)
    if part == "hi":
        product = t.b.binary("lshr", "i64", product, "16")
    value = t.b.resize(product, "i64", "i32")
    if i.opcode == "mad24":
        c = t.read(t.operand(3), type_)
        value = t.b.intrinsic("sadd.sat", "i32", value, c) if m.flag("sat") else t.b.binary("add", "i32", value, c)
    t.write(t.operand(0), type_, value)


@TABLE("sad")
def sad(t: Translator, i: Instruction, m: Modifiers) -> None:
    """c + |a - b|."""
    type_ = m.type()
    llvm = vector(type_)
    a, b, c = _sources(t, type_, 3)
    larger = t.b.compare("sgt" if is_signed(type_) else "ugt", llvm, a, b)
    difference = t.b.select(larger, llvm, t.b.binary("sub", llvm, a, b), t.b.binary("sub", llvm, b, a))
    t.write(t.operand(0), type_, t.b.binary("add", llvm, c, difference))


@TABLE("div", "rem")
def div(t: Translator, i: Instruction, m: Modifiers) -> None:
    """div, rem. By zero, which PTX leaves open: all ones, as on the hardware; no host exception."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    llvm = vector(type_)
    a, b = _sources(t, type_)
    zero = t.b.compare("eq", llvm, b, "0")
    unsafe = zero
    if is_signed(type_):
        smallest = t.b.compare("eq", llvm, a, str(-(1 << (BITS[llvm] - 1))))
        overflow = t.b.binary("and", "i1", smallest, t.b.compare("eq", llvm, b, "-1"))
        unsafe = t.b.binary("or", "i1", zero, overflow)
    divisor = t.b.select(unsafe, llvm, "1", b)
    sign = "s" if is_signed(type_) else "u"
    value = t.b.binary(f"{sign}{i.opcode}", llvm, a, divisor)
    t.write(t.operand(0), type_, t.b.select(zero, llvm, "-1", value))


@TABLE("abs", "neg")
def absolute(t: Translator, i: Instruction, m: Modifiers) -> None:
    """abs, neg. The smallest integer stays what it is."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    llvm = vector(type_)
    a = t.read(t.operand(1), type_)
    if i.opcode == "abs":
        value = t.b.intrinsic("abs", llvm, a, extra=[("i1", "false")])
    else:
        value = t.b.binary("sub", llvm, "0", a)
    t.write(t.operand(0), type_, value)


@TABLE("min", "max")
def minimum(t: Translator, i: Instruction, m: Modifiers) -> None:
    """min, max; `.relu` of signed types clamps at zero."""
    type_ = _type(t, i, m)
    if type_ is None:
        return
    llvm = vector(type_)
    if type_[0] == "b":
        raise unsupported(i, "min and max need a signed or an unsigned type")
    a, b = _sources(t, type_)
    value = t.b.intrinsic(f"{'s' if is_signed(type_) else 'u'}{i.opcode}", llvm, a, b)
    if m.flag("relu"):
        value = t.b.intrinsic("smax", llvm, value, "0")
    t.write(t.operand(0), type_, value)


def _dot(t: Translator, m: Modifiers, chunks: list[tuple[str, str]]) -> str:
    """Sum of products of 32-bit integers."""
    total = t.read(t.operand(3), "b32")
    for a, b in chunks:
        total = t.b.binary("add", "i32", total, t.b.binary("mul", "i32", a, b))
    return total


def _part(t: Translator, value: str, index: int, bits: int, signed: bool) -> str:
    """The element at `index` of a packed 32-bit register, extended."""
    shifted = t.b.binary("lshr", "i32", value, str(index * bits)) if index else value
    return t.b.resize(t.b.resize(shifted, "i32", f"i{bits}"), f"i{bits}", "i32", signed)


@TABLE("dp4a")
def dp4a(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Four products of bytes, added to c."""
    b_type, a_type = m.type(), m.type()
    a, b = t.read(t.operand(1), "b32"), t.read(t.operand(2), "b32")
    chunks = [
        (_part(t, a, k, 8, is_signed(a_type)), _part(t, b, k, 8, is_signed(b_type))) for k in range(4)
    ]  # fmt: skip
    t.write(t.operand(0), "b32", _dot(t, m, chunks))


@TABLE("dp2a")
def dp2a(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Two products of 16-bit elements of a and bytes of b (its low or high half), added to c."""
    b_type, a_type = m.type(), m.type()
    first = 2 if m.take("lo", "hi") == "hi" else 0
    a, b = t.read(t.operand(1), "b32"), t.read(t.operand(2), "b32")
    chunks = [
        (_part(t, a, k, 16, is_signed(a_type)), _part(t, b, first + k, 8, is_signed(b_type))) for k in range(2)
    ]  # fmt: skip
    t.write(t.operand(0), "b32", _dot(t, m, chunks))

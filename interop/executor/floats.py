"""Floating-point arithmetic of f32, f64 and the half formats; approximate functions.

Products and sums are never contracted: what is one operation in the PTX is one here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import halves, nans
from .errors import unsupported
from .modifiers import Modifiers
from .table import Table
from .types import HALVES, PACKED, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

ROUNDING = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
"""Rounding modes as the C runtime numbers them."""


@dataclass(frozen=True)
class Options:
    """What the modifiers of an arithmetic instruction ask for."""

    mode: int = 0
    flush: bool = False
    saturate: bool = False
    relu: bool = False
    nan: bool = False
    xorsign: bool = False
    absolute: bool = False
    any_nan: bool = False  # the result may be any NaN
    far: bool = False  # div.approx of f32


def options(i: Instruction, m: Modifiers) -> Options:
    """Takes the modifiers that arithmetic has. Approximate forms are computed exactly."""
    xorsign = m.flag("xorsign")
    absolute = m.flag("abs") if i.opcode in ("min", "max") else False
    approximate = m.flag("approx") if i.opcode in ("div", "rcp", "sqrt") else False
    if i.opcode == "div":
        m.flag("full")
    return Options(
        ROUNDING[m.take("rn", "rz", "rm", "rp", default="rn")],
        m.flag("ftz"),
        m.flag("sat"),
        m.flag("relu"),
        m.flag("NaN"),
        xorsign,
        absolute,
        m.flag(nans.ANY),
        approximate and i.opcode == "div",
    )


def arithmetic(t: Translator, i: Instruction, m: Modifiers, type_: str) -> None:
    """add, sub, mul, mad, fma, div, abs, neg, min, max, sqrt, rcp of a scalar type."""
    values = [t.read(operand, type_) for operand in i.operands[1:]]
    t.write(t.operand(0), type_, operate(t, i, type_, values, options(i, m)))


def operate(t: Translator, i: Instruction, type_: str, values: Sequence[str], o: Options) -> str:
    """One arithmetic operation on values."""
    expected = {"add": 2, "sub": 2, "mul": 2, "div": 2, "mad": 3, "fma": 3, "min": 2, "max": 2}.get(i.opcode, 1)
    if len(values) != expected and not (i.opcode in ("min", "max") and len(values) == 3):
        raise unsupported(i, f"it has {len(values)} sources, expected {expected}")
    if i.opcode in ("abs", "neg"):
        return _sign(t, i.opcode, type_, values[0], o)
    if type_ in HALVES:
        return _half(t, i, type_, values, o)
    llvm = vector(type_)
    if o.flush:
        values = [t.b.prelude("float", "flush", [("float", v)]) for v in values]
    if i.opcode in ("min", "max"):
        result = _extreme(t, i, llvm, values, o)
    else:
        result = _directed(t, i, llvm, values, o.mode) if o.mode else _nearest(t, i, llvm, values)
    if o.relu:
        raise unsupported(i, "the modifier .relu of this type")
    if o.far:
        result = _far_quotient(t, values, result)
    if o.flush:
        result = t.b.prelude("float", "flush", [("float", result)])
        if i.opcode in _TINY:
            result = _without_tiny(t, i, values, result, o.mode)
    if o.saturate:
        return saturate(t, llvm, result)
    return nans.canonical(t, result) if type_ == "f32" and not o.any_nan else result


_TINY = {"mul": (0,), "fma": (0, 2), "mad": (0, 2), "div": (0,), "rcp": ()}
"""Operations that may round up to the smallest normal number, and the operands that scale their results."""


def _without_tiny(t: Translator, i: Instruction, values: Sequence[str], result: str, mode: int) -> str:
    """Zero where the result is subnormal before it is rounded to a subnormal's places, as the hardware flushes: it is
    computed once more, 2^64 times as large. Where that overflows, nothing is small."""
    b = t.b
    scaled = [b.binary("fmul", "float", v, _TWO_64) if k in _TINY[i.opcode] else v for k, v in enumerate(values)]
    if i.opcode == "rcp":
        i, scaled = replace(i, opcode="div"), [_TWO_64, *scaled]
    probe = _directed(t, i, "float", scaled, mode) if mode else _nearest(t, i, "float", scaled)
    tiny = b.compare("olt", "float", b.intrinsic("fabs", "float", probe), "0x3C10000000000000")  # 2^-62
    return b.select(tiny, "float", b.intrinsic("copysign", "float", "0.0", probe), result)


_TWO_64 = "0x43F0000000000000"


def _far_quotient(t: Translator, values: Sequence[str], result: str) -> str:
    """div.approx by more than 2^126, whose reciprocal the hardware takes for zero."""
    b = t.b
    far = b.compare("ogt", "float", b.intrinsic("fabs", "float", values[1]), "0x47D0000000000000")
    zero = b.binary("fmul", "float", values[0], b.intrinsic("copysign", "float", "0.0", values[1]))
    return b.select(far, "float", zero, result)


def saturate(t: Translator, llvm: str, value: str) -> str:
    """Into [0, 1]; NaN becomes 0."""
    above = t.b.select(t.b.compare("ogt", llvm, value, "0.0"), llvm, value, "0.0")
    return t.b.select(t.b.compare("olt", llvm, above, "1.0"), llvm, above, "1.0")


def _sign(t: Translator, opcode: str, type_: str, value: str, o: Options) -> str:
    if type_ in HALVES:
        if o.flush:
            value = halves.flush_half(t, value, type_)
        magnitude = t.b.binary("and", "i16", value, "32767")
        result = magnitude if opcode == "abs" else t.b.binary("xor", "i16", value, "-32768")
        nan = t.b.compare("ugt", "i16", magnitude, {"f16": "31744", "bf16": "32640"}[type_])
        return t.b.select(nan, "i16", "32767", result)
    llvm = vector(type_)
    if o.flush:
        value = t.b.prelude("float", "flush", [("float", value)])
    result = t.b.intrinsic("fabs", llvm, value) if opcode == "abs" else t.b.negate(llvm, value)
    if type_ == "f32":
        return result if o.any_nan else nans.canonical(t, result)
    return t.b.select(t.b.compare("uno", llvm, value, value), llvm, quiet(t, value), result)


def quiet(t: Translator, value: str) -> str:
    """An f64 NaN, which keeps sign and payload, made quiet."""
    bits = t.b.binary("or", "i64", t.b.bitcast(value, "double", "i64"), str(1 << 51))
    return t.b.bitcast(bits, "i64", "double")


def _nearest(t: Translator, i: Instruction, llvm: str, values: Sequence[str]) -> str:
    if i.opcode in ("fma", "mad"):
        return t.b.intrinsic("fma", llvm, *values)
    if i.opcode == "sqrt":
        return t.b.intrinsic("sqrt", llvm, *values)
    if i.opcode == "rcp":
        return t.b.binary("fdiv", llvm, "1.0", values[0])
    return t.b.binary("f" + i.opcode, llvm, *values)


def _directed(t: Translator, i: Instruction, llvm: str, values: Sequence[str], mode: int) -> str:
    """rz, rm, rp: by the C runtime, which sets the host's rounding mode."""
    operation, values = i.opcode, list(values)
    if operation == "rcp":
        operation, values = "div", ["1.0", values[0]]
    elif operation == "mad":
        operation = "fma"
    name = f"{operation}_{'f32' if llvm == 'float' else 'f64'}"
    return t.b.helper(llvm, name, [*((llvm, v) for v in values), ("i32", str(mode))])


def _extreme(t: Translator, i: Instruction, llvm: str, values: Sequence[str], o: Options) -> str:
    """min, max. NaN loses against a number, or wins with `.NaN`; -0 is less than +0."""
    b, sign = t.b, ""
    if o.xorsign:
        bits = "i32" if llvm == "float" else "i64"
        sign = b.binary("xor", bits, *(b.bitcast(v, llvm, bits) for v in values[:2]))
        sign = b.bitcast(sign, bits, llvm)
    if o.absolute:
        values = [b.intrinsic("fabs", llvm, v) for v in values]
    result = values[0]
    for value in values[1:]:
        result = (_propagating if o.nan else _numeric)(t, i.opcode, llvm, result, value)
    return b.intrinsic("copysign", llvm, result, sign) if sign else result


def _propagating(t: Translator, opcode: str, llvm: str, a: str, b: str) -> str:
    return t.b.intrinsic(f"{opcode}imum", llvm, a, b)


def _numeric(t: Translator, opcode: str, llvm: str, a: str, b: str) -> str:
    """The lesser or greater number; NaN only where both are.

    Not ``llvm.minimumnum``: LLVM 22 translates it for x86-64 with the operands of `vmin` the wrong way round where it
    knows that one of them is no NaN, and the other's NaN comes out.
    """
    bits = "i32" if llvm == "float" else "i64"
    chosen = t.b.select(t.b.compare("olt" if opcode == "min" else "ogt", llvm, a, b), llvm, a, b)
    # Equal numbers are the same bits or zeros of both signs.
    same = t.b.binary("or" if opcode == "min" else "and", bits, t.b.bitcast(a, llvm, bits), t.b.bitcast(b, llvm, bits))
    chosen = t.b.select(t.b.compare("oeq", llvm, a, b), llvm, t.b.bitcast(same, bits, llvm), chosen)
    return t.b.select(t.b.compare("uno", llvm, b, b), llvm, a, chosen)


def _half(t: Translator, i: Instruction, type_: str, values: Sequence[str], o: Options) -> str:
    """Half formats: computed in a format wide enough that rounding twice is rounding once."""
    if o.mode and i.opcode in ("add", "sub", "mul"):
        raise unsupported(i)
    if o.flush:
        values = [halves.flush_half(t, v, type_) for v in values]
    floats = [halves.widen(t, v, type_) for v in values]
    b = t.b
    if i.opcode in ("min", "max"):
        result = halves.narrow(t, _extreme(t, i, "float", floats, o), type_)
    elif i.opcode in ("fma", "mad"):
        wide = [("double", b.cast("fpext", v, "float", "double")) for v in floats]
        bfloat = ("i32", str(int(type_ == "bf16")))
        result = b.helper("i16", "fma_half", [*wide, bfloat, ("i32", str(o.mode))])
    elif i.opcode == "mul":
        # In f64, since the product of two bf16 may be below f32's subnormals.
        product = b.binary("fmul", "double", *(b.cast("fpext", v, "float", "double") for v in floats))
        if type_ == "f16":
            result = halves.narrow(t, b.cast("fptrunc", product, "double", "float"), type_)
            if o.flush:  # what is subnormal before it is rounded
                small = b.compare("olt", "double", b.intrinsic("fabs", "double", product), "0x3F10000000000000")
                result = b.select(small, "i16", b.binary("and", "i16", result, "-32768"), result)
        else:
            result = halves.narrow_double(t, product, type_)
    elif i.opcode in ("add", "sub"):
        result = halves.narrow(t, b.binary("f" + i.opcode, "float", *floats), type_)
    else:
        raise unsupported(i)
    if o.flush:
        result = halves.flush_half(t, result, type_)
    if o.saturate or o.relu:
        value = halves.widen(t, result, type_)
        if o.saturate:
            result = halves.narrow(t, saturate(t, "float", value), type_)
        else:
            negative = b.compare("ole", "float", value, "0.0")  # -0 too
            result = b.select(negative, "i16", "0", halves.narrow(t, value, type_))
    return result


@TABLE(nans.MEND)
def mend(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The NaN that the hardware yields, in a register that may hold another."""
    type_ = m.type()
    t.write(t.operand(0), type_, nans.canonical(t, t.read(t.operand(0), type_)))


@TABLE("fma", "sqrt", "rcp")
def fused(t: Translator, i: Instruction, m: Modifiers) -> None:
    """fma, sqrt, rcp."""
    type_ = m.type()
    if type_ in PACKED:
        from . import packed

        packed.elementwise(t, i, m, type_)
    elif type_ == "f64" and i.opcode == "rcp" and m.flag("approx"):
        _gross(t, i, m, lambda x: t.b.binary("fdiv", "double", "1.0", x))
    else:
        arithmetic(t, i, m, type_)


def _gross(t: Translator, i: Instruction, m: Modifiers, compute: Callable[[str], str]) -> None:
    """rcp and rsqrt `.approx.ftz.f64`: only the upper 32 bits of operand and result count."""
    m.flag("ftz")
    b = t.b

    def upper(value: str) -> str:
        bits = b.binary("and", "i64", b.bitcast(value, "double", "i64"), str(-(1 << 32)))
        return b.bitcast(bits, "i64", "double")

    def flushed(value: str) -> str:
        small = b.compare("olt", "double", b.intrinsic("fabs", "double", value), "0x0010000000000000")
        return b.select(small, "double", b.intrinsic("copysign", "double", "0.0", value), value)

    result = flushed(upper(compute(flushed(upper(t.read(t.operand(1), "f64"))))))
    nan = b.compare("uno", "double", result, result)
    bits = b.select(nan, "i64", str(0x7FFFFFFF << 32), b.bitcast(result, "double", "i64"))
    t.write(t.operand(0), "f64", b.bitcast(bits, "i64", "double"))


@TABLE("rsqrt")
def rsqrt(t: Translator, i: Instruction, m: Modifiers) -> None:
    """1 / sqrt(a)."""
    type_ = m.type()
    m.flag("approx")

    def compute(llvm: str, x: str) -> str:
        return t.b.binary("fdiv", llvm, "1.0", t.b.intrinsic("sqrt", llvm, x))

    if type_ == "f64" and "ftz" in m.rest:
        _gross(t, i, m, lambda x: compute("double", x))
    elif type_ == "f64":
        t.write(t.operand(0), type_, compute("double", t.read(t.operand(1), type_)))
    else:
        any_nan = m.flag(nans.ANY)
        result = _flushed(t, m.flag("ftz"), t.read(t.operand(1), type_), lambda x: compute("float", x))
        t.write(t.operand(0), type_, result if any_nan else nans.canonical(t, result))


def _flushed(t: Translator, flush: bool, value: str, compute: Callable[[str], str]) -> str:
    """A function of f32 with subnormal operand and result taken as zero where `.ftz` says so."""
    if not flush:
        return compute(value)
    value = t.b.prelude("float", "flush", [("float", value)])
    return t.b.prelude("float", "flush", [("float", compute(value))])


@TABLE("ex2", "lg2", "sin", "cos", "tanh")
def approximate(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The approximate functions, of f32 and, for ex2 and tanh, of half formats."""
    type_ = m.type()
    m.flag("approx")
    flush = m.flag("ftz")

    def compute(x: str) -> str:
        return t.b.prelude("float", i.opcode, [("float", x)])

    if type_ == "f32":
        any_nan = m.flag(nans.ANY)
        result = _flushed(t, flush, t.read(t.operand(1), type_), compute)
        t.write(t.operand(0), type_, result if any_nan else nans.canonical(t, result))
        return
    element = PACKED.get(type_, type_)
    if i.opcode not in ("ex2", "tanh") or element not in HALVES:
        raise unsupported(i)
    value = t.read(t.operand(1), type_)
    parts = halves.split(t, value, type_) if type_ in PACKED else [value]
    results = [halves.narrow(t, compute(halves.widen(t, part, element, flush)), element) for part in parts]
    if flush:
        results = [halves.flush_half(t, r, element) for r in results]
    t.write(t.operand(0), type_, halves.join(t, results, type_) if type_ in PACKED else results[0])


@TABLE("copysign")
def copysign(t: Translator, i: Instruction, m: Modifiers) -> None:
    """b with the sign of a."""
    type_ = m.type()
    a, b = t.read(t.operand(1), type_), t.read(t.operand(2), type_)
    t.write(t.operand(0), type_, t.b.intrinsic("copysign", vector(type_), b, a))


# Bits of llvm.is.fpclass. PTX counts zeros as normal numbers.
_CLASSES = {
    "finite": 0x1F8, "infinite": 0x204, "number": 0x3FC, "notanumber": 0x003, "normal": 0x168, "subnormal": 0x090,
}  # fmt: skip


@TABLE("testp")
def testp(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Which kind of number a is."""
    type_ = m.type()
    test = m.take(*_CLASSES)
    if not test:
        raise unsupported(i)
    llvm = vector(type_)
    name = "llvm.is.fpclass." + {"float": "f32", "double": "f64"}[llvm]
    # The second argument must be a constant, which the declaration's `immarg` has LLVM check.
    value = t.b.call("i1", name, [(llvm, t.read(t.operand(1), type_)), ("i32", str(_CLASSES[test]))])
    t.write(t.operand(0), "pred", value)

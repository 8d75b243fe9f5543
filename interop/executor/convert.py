"""Moves and conversions: mov, cvt, cvta, isspacep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import halves, misc, nans
from .errors import malformed, unsupported
from .floats import ROUNDING, saturate
from .modifiers import Modifiers
from .records import BlockField
from .scopes import Memory
from .storage import parameter_offsets
from .table import Table
from .types import BITS, FLOATS, HALVES, PACKED, is_integer, is_signed, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_EIGHTS = ("e4m3x2", "e5m2x2")
_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@TABLE("mov")
def mov(t: Translator, i: Instruction, m: Modifiers) -> None:
    """mov, with packing into and unpacking from vectors."""
    type_ = m.type()
    destination, source = t.operand(0), t.operand(1)
    if isinstance(source, ast.Vector):
        t.write(destination, type_, _pack(t, source, type_))
    elif isinstance(destination, ast.Vector):
        _unpack(t, destination, type_, t.read(source, type_))
    else:
        # Old PTX moves wide special registers into narrow ones.
        t.write(destination, type_, t.read(source, type_, loose=False))


def _part(t: Translator, items: int, type_: str) -> str:
    bits = BITS[vector(type_)]
    if items not in (2, 4, 8) or bits % items or bits // items < 8:
        raise malformed(t.instruction, f"{items} elements do not make up {bits} bits")
    return f"b{bits // items}"


def _pack(t: Translator, source: ast.Vector, type_: str) -> str:
    part = _part(t, len(source.items), type_)
    whole, element = f"i{BITS[vector(type_)]}", vector(part)
    value = "0"
    for index, item in enumerate(source.items):
        wide = t.b.resize(t.read(item, part), element, whole)
        if index:
            wide = t.b.binary("shl", whole, wide, str(index * BITS[element]))
        value = t.b.binary("or", whole, value, wide)
    return t.b.bitcast(value, whole, vector(type_))


def _unpack(t: Translator, destination: ast.Vector, type_: str, value: str) -> None:
    part = _part(t, len(destination.items), type_)
    whole, element = f"i{BITS[vector(type_)]}", vector(part)
    value = t.b.bitcast(value, vector(type_), whole)
    for index, item in enumerate(destination.items):
        moved = t.b.binary("lshr", whole, value, str(index * BITS[element])) if index else value
        t.write(item, part, t.b.resize(moved, whole, element))


# ---- cvt ----


@TABLE("cvt")
def cvt(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Conversion between any two of the integer and floating-point types."""
    if m.flag("pack"):
        misc.cvt_pack(t, i, m)
        return
    source, target = m.type(), m.type()
    if target in _EIGHTS:
        _cvt_eights(t, i, m, source, target)
        return
    if source in _EIGHTS:
        _cvt_from_eights(t, i, m, source, target)
        return
    if target == "tf32":
        _cvt_tf32(t, i, m, source)
        return
    if target in PACKED:
        _cvt_packed(t, i, m, source, target)
        return
    for type_ in (source, target):
        if not (is_integer(type_) or type_ in FLOATS):
            raise unsupported(i, f"the type .{type_}")
    flush = m.flag("ftz")
    value = t.read(t.operand(1), source, loose=True)
    integral = m.take(*_INTEGRAL)
    rounding = m.take("rn", "rz", "rm", "rp")
    clamp = m.flag("sat")
    relu = m.flag("relu")
    if source in FLOATS and target in FLOATS:
        result = _float_to_float(t, source, target, value, integral, ROUNDING[rounding or "rn"], flush)
        if clamp or relu:
            result = _clamp(t, target, result, clamp)
    elif source in FLOATS:
        if not integral:
            raise malformed(i, "a conversion to an integer needs .rni, .rzi, .rmi or .rpi")
        result = _float_to_integer(t, source, target, value, integral, flush)
    elif target in FLOATS:
        result = _integer_to_float(t, source, target, value, ROUNDING[rounding or "rn"])
        if clamp:
            result = _clamp(t, target, result, True)
    else:
        result = _integer_to_integer(t, source, target, value, clamp)
    t.write(t.operand(0), target, result, loose=True)


def _integer_to_integer(t: Translator, source: str, target: str, value: str, clamp: bool) -> str:
    from_, to = vector(source), vector(target)
    b = t.b
    if clamp:
        # One bit more than either holds the source's values and the target's bounds.
        wide = "i128" if max(BITS[from_], BITS[to]) == 64 else "i64"
        value = b.resize(value, from_, wide, is_signed(source))
        bits = BITS[to]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(target) else (0, (1 << bits) - 1)
        value = b.intrinsic("smin", wide, b.intrinsic("smax", wide, value, str(low)), str(high))
        return b.resize(value, wide, to)
    return b.resize(value, from_, to, is_signed(source))


def _as_float(t: Translator, type_: str, value: str, flush: bool) -> tuple[str, str]:
    """A floating-point value in a type that LLVM computes with."""
    if type_ in HALVES:
        return halves.widen(t, value, type_), "float"
    if flush and type_ == "f32":
        value = t.b.prelude("float", "flush", [("float", value)])
    return value, vector(type_)


def _float_to_integer(t: Translator, source: str, target: str, value: str, integral: str, flush: bool) -> str:
    """Rounds, then clamps to the target's range. NaN becomes 0 or, where 64 bits are involved, the top bit alone."""
    value, llvm = _as_float(t, source, value, flush)
    value = t.b.intrinsic(_INTEGRAL[integral], llvm, value)
    to = vector(target)
    name = f"llvm.fpto{'s' if is_signed(target) else 'u'}i.sat.{to}.{'f32' if llvm == 'float' else 'f64'}"
    result = t.b.call(to, name, [(llvm, value)])
    if source != "f64" and BITS[to] != 64:
        return result
    nan = t.b.compare("uno", llvm, value, value)
    return t.b.select(nan, to, str(-(1 << (BITS[to] - 1))), result)


def _integer_to_float(t: Translator, source: str, target: str, value: str, mode: int) -> str:
    from_ = vector(source)
    signed = is_signed(source)
    if target not in HALVES and mode == 0:
        return t.b.cast("sitofp" if signed else "uitofp", value, from_, vector(target))
    wide = t.b.resize(value, from_, "i64", signed)
    kind = "s64" if signed else "u64"
    if target in HALVES:
        arguments = [("i64", wide), ("i32", str(int(target == "bf16"))), ("i32", str(mode))]
        return t.b.helper("i16", f"{kind}_to_half", arguments)
    return t.b.helper(vector(target), f"{kind}_to_{target}", [("i64", wide), ("i32", str(mode))])


def _float_to_float(t: Translator, source: str, target: str, value: str, integral: str, mode: int, flush: bool) -> str:
    """Which NaN comes out follows the hardware: f64 and bf16 keep payloads, f16 and most forms of f32 do not."""
    b = t.b
    if source == target and not integral:
        return _same(t, source, value, flush)
    # The hardware flushes nothing on the way to a half format; only directed rounding shows it.
    value, llvm = _as_float(t, source, value, flush and target not in HALVES)
    if integral:
        value = b.intrinsic(_INTEGRAL[integral], llvm, value)
    if target in HALVES:
        if mode == 0 and llvm == "float":
            return halves.narrow(t, value, target)
        if llvm == "double":
            result = halves.narrow_double(t, value, target, mode)
            return b.select(b.compare("uno", llvm, value, value), "i16", _half_nan(t, value, target), result)
        return halves.narrow_double(t, b.cast("fpext", value, llvm, "double"), target, mode)
    if llvm == "float" and (integral or flush or (source, target) == ("f16", "f32")):
        value = nans.canonical(t, value)
    to = vector(target)
    if llvm == to:
        return value
    if to == "double":
        return b.cast("fpext", value, llvm, to)
    if mode:
        result = b.helper("float", "f64_to_f32", [("double", value), ("i32", str(mode))])
    else:
        result = b.cast("fptrunc", value, llvm, to)
    return b.prelude("float", "flush", [("float", result)]) if flush else result


def _same(t: Translator, type_: str, value: str, flush: bool) -> str:
    """A conversion of a type to itself. The hardware has none for f32 without `.ftz`, where it copies."""
    b = t.b
    if type_ == "f16":
        nan = b.compare("ugt", "i16", b.binary("and", "i16", value, "32767"), "31744")
        return b.select(nan, "i16", "32767", value)
    if flush and type_ == "f32":
        return nans.canonical(t, b.prelude("float", "flush", [("float", value)]))
    return value


def _half_nan(t: Translator, value: str, target: str) -> str:
    """The NaN of a half format with sign and top of the payload of an f64 NaN, quiet."""
    b = t.b
    digits, quiet = (10, 0x7E00) if target == "f16" else (7, 0x7FC0)
    bits = b.bitcast(value, "double", "i64")
    sign = b.binary("and", "i64", b.binary("lshr", "i64", bits, "48"), "32768")
    payload = b.binary("and", "i64", b.binary("lshr", "i64", bits, str(52 - digits)), str((1 << digits) - 1))
    return b.resize(b.binary("or", "i64", b.binary("or", "i64", sign, payload), str(quiet)), "i64", "i16")


def _clamp(t: Translator, target: str, value: str, saturating: bool) -> str:
    """`.sat`: into [0, 1], NaN to 0; `.relu`: negative to 0, NaN stays."""
    llvm = "float" if target in HALVES else vector(target)
    if target in HALVES:
        value = halves.widen(t, value, target)
    if saturating:
        value = saturate(t, llvm, value)
    else:
        value = t.b.select(t.b.compare("ole", llvm, value, "0.0"), llvm, "0.0", value)
    return halves.narrow(t, value, target) if target in HALVES else value


def _cvt_packed(t: Translator, i: Instruction, m: Modifiers, source: str, target: str) -> None:
    """cvt.rn.f16x2.f32 d, a, b: a becomes the high element, b the low one."""
    element = PACKED[target]
    if source != "f32" or element not in HALVES or len(i.operands) != 3:
        raise unsupported(i)
    mode = ROUNDING[m.take("rn", "rz", "rm", "rp", default="rn")]
    relu, flush = m.flag("relu"), m.flag("ftz")
    results = []
    for index in (2, 1):
        value = _float_to_float(t, "f32", element, t.read(t.operand(index), "f32"), "", mode, flush)
        results.append(_clamp(t, element, value, False) if relu else value)
    t.write(t.operand(0), target, halves.join(t, results, target))


# ---- formats of tensor instructions ----


def _cvt_eights(t: Translator, i: Instruction, m: Modifiers, source: str, target: str) -> None:
    """Two numbers to two 8-bit ones; what is out of range becomes the largest number. NaN keeps no sign."""
    if not m.flag("satfinite") or not m.flag("rn"):
        raise malformed(i, "a conversion to an 8-bit format is .rn.satfinite")
    relu = m.flag("relu")
    b = t.b
    if source == "f32":
        values = [t.read(t.operand(k), "f32") for k in (2, 1)]
    elif source == "f16x2":
        values = [halves.widen(t, v, "f16") for v in halves.split(t, t.read(t.operand(1), source), source)]
    else:
        raise unsupported(i)
    result = "0"
    for index, value in enumerate(values):
        if relu:
            value = b.select(b.compare("ole", "float", value, "0.0"), "float", "0.0", value)
        arguments = [("double", b.cast("fpext", value, "float", "double")), ("i32", str(_EIGHTS.index(target)))]
        byte = b.helper("i32", "f64_to_f8", arguments)
        result = b.binary("or", "i32", result, b.binary("shl", "i32", byte, str(8 * index)) if index else byte)
    t.write(t.operand(0), target, b.resize(result, "i32", "i16"))


def _cvt_from_eights(t: Translator, i: Instruction, m: Modifiers, source: str, target: str) -> None:
    """Two 8-bit numbers to halves; exact. e5m2 is the upper byte of f16, e4m3 is f16 with another bias."""
    if target != "f16x2" or not m.flag("rn"):
        raise unsupported(i)
    relu = m.flag("relu")
    b = t.b
    both = t.read(t.operand(1), source)
    results = []
    for byte in (b.binary("shl", "i16", both, "8"), b.binary("and", "i16", both, "-256")):
        if source == "e5m2x2":
            value = halves.widen(t, byte, "f16")
        else:
            magnitude = b.binary("lshr", "i16", b.binary("and", "i16", byte, "32512"), "1")
            shifted = b.binary("or", "i16", magnitude, b.binary("and", "i16", byte, "-32768"))
            value = b.binary("fmul", "float", halves.widen(t, shifted, "f16"), "256.0")
            nan = b.compare("eq", "i16", magnitude, "16256")
            value = b.select(nan, "float", "0x7FF8000000000000", value)
        if relu:
            value = b.select(b.compare("ole", "float", value, "0.0"), "float", "0.0", value)
        results.append(halves.narrow(t, value, "f16"))
    t.write(t.operand(0), target, halves.join(t, results, target))


def _cvt_tf32(t: Translator, i: Instruction, m: Modifiers, source: str) -> None:
    """f32 with 10 digits behind the point, in the upper bits of 32."""
    rounding = m.take("rna", "rn", "rz")
    relu = m.flag("relu")
    if source != "f32" or not rounding:
        raise unsupported(i)
    b = t.b
    value = t.read(t.operand(1), source)
    bits = b.bitcast(value, "float", "i32")
    finite = b.compare("ult", "i32", b.binary("and", "i32", bits, "2147483647"), "2139095040")
    if rounding == "rna":
        rounded = b.binary("add", "i32", bits, "4096")
    elif rounding == "rn":
        odd = b.binary("and", "i32", b.binary("lshr", "i32", bits, "13"), "1")
        rounded = b.binary("add", "i32", bits, b.binary("add", "i32", odd, "4095"))
    else:
        rounded = bits
    result = b.binary("and", "i32", b.select(finite, "i32", rounded, bits), "-8192")
    if relu:
        result = b.select(b.compare("ole", "float", value, "0.0"), "i32", "0", result)
    if rounding != "rna":  # which only cuts a NaN off, as it does infinities
        result = b.select(b.compare("uno", "float", value, value), "i32", str(0x7FFFE000), result)
    t.write(t.operand(0), "b32", result)


# ---- addresses ----


@TABLE("cvta")
def cvta(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Between an address of one state space and a generic one. Only those of windows differ from the host's."""
    type_ = m.type()
    inward = m.flag("to")
    space = m.take("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry")
    if type_ != "u64":
        raise unsupported(i, "32-bit generic addresses")
    value = t.read(t.operand(1), type_)
    if space.startswith("shared") or (space == "local" and t.window):
        base = t.b.integer_of(t.window.pointer if space == "local" else t.shared)
        value = t.b.binary("sub" if inward else "add", "i64", value, base)
    t.write(t.operand(0), type_, value)


@TABLE("isspacep")
def isspacep(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Whether a generic address lies in a state space."""
    space = m.take("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry")
    b = t.b
    address = t.read(t.operand(1), "u64")
    if space == "local":
        result = _is_local(t, address)
    elif space.startswith("shared"):
        result = is_shared(t, address)
    elif space == "const":
        result = _is_const(t, address)
    elif space in ("param", "param::entry"):
        offset = b.binary("sub", "i64", address, t.block_field("i64", int(BlockField.PARAMS)))
        result = b.compare("ult", "i64", offset, str(parameter_offsets(t.plan.function.params)[1]))
    elif space == "global":
        others = b.binary("or", "i1", _is_local(t, address), is_shared(t, address))
        result = b.binary("xor", "i1", b.binary("or", "i1", others, _is_const(t, address)), "true")
    else:
        raise malformed(i, "the state space is missing")
    t.write(t.operand(0), "pred", result)


def is_shared(t: Translator, address: str) -> str:
    """Whether a generic address (``i64``) lies in shared memory."""
    b = t.b
    offset = b.binary("sub", "i64", address, b.integer_of(t.shared))
    size = b.resize(t.block_field("i32", int(BlockField.SHARED_BYTES)), "i32", "i64")
    return b.compare("ult", "i64", offset, size)


def _is_local(t: Translator, address: str) -> str:
    flag = t.b.helper("i32", "is_local", [("ptr", "%blk"), ("i64", address)])
    return t.b.compare("ne", "i32", flag, "0")


def _is_const(t: Translator, address: str) -> str:
    b = t.b
    result = "false"
    for variable in t.plan.module.variables:
        if variable.space != "const" or variable.linkage == "extern":
            continue
        memory = t.storage.module_variable(variable.name)
        assert isinstance(memory, Memory)
        offset = b.binary("sub", "i64", address, t.address_of(memory, "i64"))
        result = b.binary("or", "i1", result, b.compare("ult", "i64", offset, str(variable.size)))
    return result

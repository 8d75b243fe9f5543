"""What single PTX instructions compute, on Python integers that hold a register's bits.

Written from the PTX ISA, chapter "Instruction Set", without regard to the translator. Every function takes and yields
bit patterns; NaN results are the canonical ones of the ISA (0x7FFFFFFF for f32).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

Pure = Callable[..., Any]


class Undefined(Exception):
    """A value was used that PTX leaves open."""


class Nan(int):
    """The bits of a NaN that an operation yielded. Devices differ in them, so only floating-point operations, moves and
    selections may see one."""

    def _open(self, *_: object) -> int:
        raise Undefined("the bits of a NaN are used")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __add__ = __radd__ = __sub__ = __rsub__ = _open
    __mul__ = __rmul__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __invert__ = __neg__ = _open


F32_NAN, F64_NAN, F16_NAN = Nan(0x7FFFFFFF), Nan(0x7FF8000000000000), 0x7FFF


def width(type_: str) -> int:
    """Bits of a type: ``s32`` is 32."""
    return 1 if type_ == "pred" else int(type_[1:])


def signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def number(value: int, type_: str) -> int:
    """The integer that a bit pattern of an integer type stands for."""
    bits = width(type_)
    return signed(value, bits) if type_[0] == "s" else value & ((1 << bits) - 1)


# ---- floating point ----


def unpack32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def pack32(value: float) -> int:
    """Rounded to nearest even from f64; the callers see to it that rounding twice does no harm."""
    if value != value:
        return F32_NAN
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def unpack64(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def pack64(value: float) -> int:
    return F64_NAN if value != value else int(struct.unpack("<Q", struct.pack("<d", value))[0])


def unpack16(bits: int) -> float:
    return float(struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0])


def pack16(value: float) -> int:
    if value != value:
        return F16_NAN
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


_UNPACK = {"f16": unpack16, "f32": unpack32, "f64": unpack64}
_PACK = {"f16": pack16, "f32": pack32, "f64": pack64}


def _divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _multiply(a: float, b: float) -> float:
    return a * b


def _root(a: float) -> float:
    return a if a == 0 else math.sqrt(a) if a > 0 else math.nan


def _odd(value: Fraction) -> float:
    """The f64 next to a nonzero value, rounded to odd: rounding it once more, to a narrower format, is exact."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    rest = value - Fraction(near)
    if rest == 0:
        return near
    bits = pack64(near)
    if bits & 1:
        return near
    return math.nextafter(near, math.inf if rest > 0 else -math.inf)


def fused(a: float, b: float, c: float, type_: str) -> float:
    """a * b + c, rounded once; for formats narrower than f64 rounded to odd, for `_PACK` to round."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 or c == 0 else 0.0
    if type_ != "f64":
        return _odd(exact)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _extreme(a: float, b: float, largest: bool) -> float:
    if a != a:
        return b
    if b != b:
        return a
    if a == b == 0:
        negative = math.copysign(1, a) < 0, math.copysign(1, b) < 0
        return -0.0 if (all(negative) if largest else any(negative)) else 0.0
    return max(a, b) if largest else min(a, b)


def _saturate(value: float) -> float:
    return 0.0 if value != value or value <= 0 else min(value, 1.0)


def _float(head: str, mods: list[str], type_: str) -> Pure:
    un, pack = _UNPACK[type_], _PACK[type_]
    top = 1 << (width(type_) - 1)
    if head in ("abs", "neg"):
        return lambda a: pack(a) if (a := un(a)) != a else pack(abs(a) if head == "abs" else -a)
    if head == "copysign":
        return lambda a, b: pack(un(b)) if isinstance(b, Nan) else (a & top) | (b & (top - 1))
    two: dict[str, Callable[[float, float], float]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": _multiply, "div": _divide,
        "min": lambda a, b: _extreme(a, b, False), "max": lambda a, b: _extreme(a, b, True),
    }  # fmt: skip
    if head in two:
        compute = two[head]
        if "sat" in mods:
            return lambda a, b: pack(_saturate(_UNPACK[type_](pack(compute(un(a), un(b))))))
        return lambda a, b: pack(compute(un(a), un(b)))
    if head == "fma":
        return lambda a, b, c: pack(fused(un(a), un(b), un(c), type_))
    if head == "sqrt":
        return lambda a: pack(_root(un(a)))
    if head == "rcp":
        return lambda a: pack(_divide(1.0, un(a)))
    raise NotImplementedError(f"{head}.{type_}")


# ---- comparisons ----

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def comparison(operator: str, type_: str) -> Callable[[int, int], int]:
    """A comparison of two bit patterns."""
    if type_[0] == "f":
        un = _UNPACK[type_]
        if operator in ("num", "nan"):
            return lambda a, b: int((un(a) != un(a) or un(b) != un(b)) == (operator == "nan"))
        unordered = operator not in _COMPARE
        test = _COMPARE[operator.removesuffix("u") if unordered else operator]

        def compare(a: int, b: int) -> int:
            x, y = un(a), un(b)
            return int(unordered) if x != x or y != y else int(test(x, y))

        return compare
    test = _COMPARE[_UNSIGNED.get(operator, operator)]
    if operator in _UNSIGNED:
        type_ = "u" + type_[1:]
    return lambda a, b: int(test(number(a, type_), number(b, type_)))


def _setp(mods: list[str], type_: str) -> Pure:
    """Yields both predicates; the caller drops the one that is not asked for."""
    compare = comparison(mods[0], type_)
    if len(mods) == 1:
        return lambda a, b: ((r := compare(a, b)), 1 - r)
    combine = _BOOLEAN[mods[1]]
    return lambda a, b, c: (combine(r := compare(a, b), c), combine(1 - r, c))


# ---- integers ----


def _quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _shift_left(a: int, n: int, bits: int) -> int:
    n &= 0xFFFFFFFF
    return 0 if n >= bits else (a << n) & ((1 << bits) - 1)


def _shift_right(a: int, n: int, type_: str) -> int:
    bits = width(type_)
    return (number(a, type_) >> min(n & 0xFFFFFFFF, bits)) & ((1 << bits) - 1)


def _bfe(a: int, pos: int, length: int, type_: str) -> int:
    """As the manual's pseudocode has it: past the top the sign is repeated."""
    bits = width(type_)
    pos, length, mask = pos & 0xFF, length & 0xFF, (1 << bits) - 1
    a &= mask
    if type_[0] == "u" or length == 0:
        sign = 0
    else:
        sign = a >> min(pos + length - 1, bits - 1) & 1
    kept = min(length, max(bits - pos, 0))
    value = a >> pos & ((1 << kept) - 1) if kept else 0
    return (value | (mask & ~((1 << kept) - 1) if sign else value)) & mask


def _bfi(a: int, b: int, pos: int, length: int, bits: int) -> int:
    pos, length, mask = pos & 0xFF, length & 0xFF, (1 << bits) - 1
    field = (((1 << length) - 1) << pos) & mask
    return (b & ~field | (a << pos) & field) & mask


def _bfind(a: int, type_: str) -> int:
    value = number(a, type_)
    return ((value if value >= 0 else ~value).bit_length() - 1) & 0xFFFFFFFF


def _prmt(a: int, b: int, c: int) -> int:
    source = (b & 0xFFFFFFFF) << 32 | (a & 0xFFFFFFFF)
    result = 0
    for k in range(4):
        choice = c >> 4 * k & 15
        byte = source >> 8 * (choice & 7) & 0xFF
        if choice & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << 8 * k
    return result


def _lop3(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result & 0xFFFFFFFF


def _funnel(mods: list[str]) -> Pure:
    def shift(a: int, b: int, n: int) -> int:
        both = (b & 0xFFFFFFFF) << 32 | (a & 0xFFFFFFFF)
        n = min(n & 0xFFFFFFFF, 32) if "clamp" in mods else n & 31
        return (both << n >> 32 if mods[0] == "l" else both >> n) & 0xFFFFFFFF

    return shift


def _dot4(a: int, b: int, c: int, types: tuple[str, str]) -> int:
    total = c
    for k in range(0, 32, 8):
        total += number(a >> k, types[0][0] + "8") * number(b >> k, types[1][0] + "8")
    return total & 0xFFFFFFFF


def _multiplication(head: str, mods: list[str], type_: str) -> Pure:
    bits = width(type_)
    part = mods[0] if mods else "lo"
    out = (1 << (2 * bits if part == "wide" else bits)) - 1
    shift = bits if part == "hi" else 0
    if head == "mul":
        return lambda a, b: (number(a, type_) * number(b, type_) >> shift) & out
    return lambda a, b, c: ((number(a, type_) * number(b, type_) >> shift) + c) & out


def _mul24(head: str, mods: list[str], type_: str) -> Pure:
    def operand(value: int) -> int:
        return signed(value, 24) if type_[0] == "s" else value & 0xFFFFFF

    shift = 16 if mods[0] == "hi" else 0
    if head == "mul24":
        return lambda a, b: (operand(a) * operand(b) >> shift) & 0xFFFFFFFF
    return lambda a, b, c: ((operand(a) * operand(b) >> shift) + c) & 0xFFFFFFFF


def _integer(head: str, mods: list[str], type_: str) -> Pure:
    bits = width(type_)
    mask = (1 << bits) - 1
    if head in ("add", "sub") and "sat" in mods:
        low, high, sign = -(1 << 31), (1 << 31) - 1, 1 if head == "add" else -1
        return lambda a, b: max(low, min(high, signed(a, 32) + sign * signed(b, 32))) & mask
    table: dict[str, Pure] = {
        "add": lambda a, b: (a + b) & mask,
        "sub": lambda a, b: (a - b) & mask,
        "div": lambda a, b: _quotient(number(a, type_), number(b, type_)) & mask,
        "rem": lambda a, b: (
            (number(a, type_) - number(b, type_) * _quotient(number(a, type_), number(b, type_))) & mask
        ),
        "min": lambda a, b: min(number(a, type_), number(b, type_)) & mask,
        "max": lambda a, b: max(number(a, type_), number(b, type_)) & mask,
        "sad": lambda a, b, c: (c + abs(number(a, type_) - number(b, type_))) & mask,
        "abs": lambda a: abs(number(a, type_)) & mask,
        "neg": lambda a: -a & mask,
        "and": lambda a, b: a & b & mask,
        "or": lambda a, b: (a | b) & mask,
        "xor": lambda a, b: (a ^ b) & mask,
        "not": lambda a: ~a & mask,
        "cnot": lambda a: int(a & mask == 0),
        "shl": lambda a, n: _shift_left(a, n, bits),
        "shr": lambda a, n: _shift_right(a, n, "u" + type_[1:] if type_[0] == "b" else type_),
        "popc": lambda a: (a & mask).bit_count(),
        "clz": lambda a: bits - (a & mask).bit_length(),
        "brev": lambda a: int(f"{a & mask:0{bits}b}"[::-1], 2),
        "bfind": lambda a: _bfind(a, type_),
        "bfe": lambda a, pos, length: _bfe(a, pos, length, type_),
        "bfi": lambda a, b, pos, length: _bfi(a, b, pos, length, bits),
        "mov": lambda a: a if isinstance(a, Nan) else a & mask,
    }
    if head in table:
        return table[head]
    raise NotImplementedError(f"{head}.{type_}")


# ---- conversions ----

_ROUND: dict[str, Callable[[float], float]] = {
    "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
}  # fmt: skip


def _cvt(mods: list[str], target: str, source: str) -> Pure:
    bits = width(target)
    mask = (1 << bits) - 1
    if source[0] == "f" and target[0] == "f":
        un, pack = _UNPACK[source], _PACK[target]
        return lambda a: pack(un(a))
    if source[0] == "f":
        un, to_integral = _UNPACK[source], _ROUND[mods[0]]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, mask)

        def to_integer(a: int) -> int:
            value = un(a)
            if value != value:
                return 0 if source != "f64" and bits != 64 else 1 << (bits - 1)
            if math.isinf(value):
                return (high if value > 0 else low) & mask
            return max(low, min(high, int(to_integral(value)))) & mask

        return to_integer
    if target[0] == "f":
        pack = _PACK[target]
        if target == "f64":
            return lambda a: pack(float(number(a, source)))
        return lambda a: pack(_odd(Fraction(n)) if (n := number(a, source)) else 0.0)
    if "sat" in mods:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, mask)
        return lambda a: max(low, min(high, number(a, source))) & mask
    return lambda a: number(a, source) & mask


# ---- all ----


def _selections(head: str, mods: list[str], type_: str) -> Pure | None:
    if head == "selp":
        return lambda a, b, p: a if p & 1 else b
    if head == "slct":
        if type_ == "f32":
            return lambda a, b, c: a if unpack32(c) >= 0 else b
        return lambda a, b, c: a if signed(c, 32) >= 0 else b
    if head == "set":  # set.CMP.dtype.stype
        compare = comparison(mods[0], type_)
        one = 0x3F800000 if mods[-1] == "f32" else 0xFFFFFFFF
        return lambda a, b: one if compare(a, b) else 0
    if head == "testp":
        un = _UNPACK[type_]
        tests: dict[str, Callable[[float], bool]] = {
            "finite": math.isfinite, "infinite": math.isinf, "number": lambda x: x == x, "notanumber": lambda x: x != x,
        }  # fmt: skip
        return lambda a: int(tests[mods[0]](un(a)))
    return None


@cache
def pure(op: str) -> Pure:
    """The function of an instruction without side effects.

    >>> pure("mul.wide.s32")(-2, 3) == 2**64 - 6
    True

    :raises NotImplementedError: for an instruction that generated kernels do not have.
    """
    parts = op.split(".")
    head, mods, type_ = parts[0], parts[1:-1], parts[-1]
    chosen = _selections(head, mods, type_)
    if chosen is not None:
        return chosen
    if head == "setp":
        return _setp(mods, type_)
    if head == "cvt":
        return _cvt(mods[:-1], mods[-1], type_)
    if head in ("prmt", "lop3"):
        return _prmt if head == "prmt" else _lop3
    if head == "shf":
        return _funnel(mods)
    if head == "dp4a":
        return lambda a, b, c: _dot4(a, b, c, (mods[0], type_))
    if type_ == "pred":
        return {**_BOOLEAN, "not": lambda a: 1 - a, "mov": lambda a: a & 1}[head]
    if type_ in _UNPACK and head != "mov":
        return _float(head, mods, type_)
    if head in ("mul", "mad"):
        return _multiplication(head, mods, type_)
    if head in ("mul24", "mad24"):
        return _mul24(head, mods, type_)
    return _integer(head, mods, type_)

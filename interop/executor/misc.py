"""Single instructions without a family: cache policies, packing with saturation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from .errors import malformed, unsupported
from .modifiers import Modifiers
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


@TABLE("createpolicy")
def createpolicy(t: Translator, i: Instruction, m: Modifiers) -> None:
    """A policy for caches, which accesses take as a hint without effect: its value is opaque."""
    kind = m.take("fractional", "range", "cvt")
    if not kind:
        raise malformed(i, "it is .fractional, .range or .cvt")
    m.drop("global", "L2", "b64")
    m.drop_prefixes("L2::")
    t.write(t.operand(0), "b64", str(0x1000000000000000))


_PACKED_BITS = {"u2": 2, "s2": 2, "u4": 4, "s4": 4, "u8": 8, "s8": 8, "u16": 16, "s16": 16}


def cvt_pack(t: Translator, i: Instruction, m: Modifiers) -> None:
    """cvt.pack: two s32, clamped to narrow integers and packed, in front of what a third operand holds."""
    target = next((x for x in m.rest if x in _PACKED_BITS), "")
    if not target or "s32" not in m.rest or not m.flag("sat"):
        raise unsupported(i)
    bits, signed = _PACKED_BITS[target], target[0] == "s"
    m.drop(target, "s32", "b32")
    b = t.b
    mask = (1 << bits) - 1
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, mask)
    parts = []
    for index in (2, 1):
        value = b.intrinsic("smin", "i32", t.read(t.operand(index), "b32"), str(high))
        value = b.intrinsic("smax", "i32", value, str(low))
        parts.append(b.binary("and", "i32", value, str(mask)))
    result = b.binary("or", "i32", parts[0], b.binary("shl", "i32", parts[1], str(bits)))
    if bits < 16:
        rest = b.binary("shl", "i32", t.read(t.operand(3), "b32"), str(2 * bits))
        result = b.binary("or", "i32", result, rest)
    t.write(t.operand(0), "b32", result)

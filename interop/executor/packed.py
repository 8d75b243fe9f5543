"""Arithmetic of registers that hold two elements: f16x2, bf16x2, f32x2, u16x2, s16x2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import floats, halves
from .errors import unsupported
from .modifiers import Modifiers
from .table import Table
from .types import FLOATS, PACKED

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()  # every opcode here belongs to another family, which hands packed types over


def elementwise(t: Translator, i: Instruction, m: Modifiers, type_: str) -> None:
    """The same operation on the low and on the high elements."""
    element = PACKED[type_]
    sources = [halves.split(t, t.read(operand, type_), type_) for operand in i.operands[1:]]
    if element in FLOATS:
        chosen = floats.options(i, m)
        results = [floats.operate(t, i, element, [s[lane] for s in sources], chosen) for lane in range(2)]
    else:
        results = [_integer(t, i, m, element, [s[lane] for s in sources]) for lane in range(2)]
        if m.flag("relu"):
            results = [t.b.intrinsic("smax", "i16", r, "0") for r in results]
    t.write(t.operand(0), type_, halves.join(t, results, type_))


def _integer(t: Translator, i: Instruction, m: Modifiers, element: str, values: list[str]) -> str:
    if i.opcode in ("add", "sub"):
        return t.b.binary(i.opcode, "i16", *values)
    if i.opcode in ("min", "max"):
        return t.b.intrinsic(f"{element[0]}{i.opcode}", "i16", *values)
    if i.opcode == "neg":
        return t.b.binary("sub", "i16", "0", values[0])
    raise unsupported(i)

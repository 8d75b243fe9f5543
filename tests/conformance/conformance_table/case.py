"""One conformance case: an instruction (or a few), what goes in, what comes out, how exact it has to be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .values import default_rows

BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "tf32": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "b64": 64, "u64": 64,
    "s64": 64, "f64": 64,
}  # fmt: skip
"""Operand types of the table and their widths."""


@dataclass(frozen=True)
class Bound:
    """How far an approximate result may be from the recorded one.

    :ivar ulp: units in the last place.
    :ivar absolute: or this far in absolute terms.
    :ivar isa: what the PTX ISA itself promises against the exact result.
    :ivar payload: a NaN may be that of another NaN operand, and quiet or not.
    """

    ulp: int = 0
    absolute: float = 0.0
    isa: str = ""
    payload: bool = False

    def __str__(self) -> str:
        parts = [ulps(self.ulp)] if self.ulp else []
        parts += [f"{self.absolute:.1e} absolute"] if self.absolute else []
        return " or ".join(parts + (["another operand's NaN"] if self.payload else []))


def ulps(count: int) -> str:
    """A number of units in the last place as text; where the lower words of f64 do not count, in the upper words."""
    return f"{count >> 32} ulp of the upper word" if count >> 32 else f"{count} ulp"


@dataclass(frozen=True)
class Operand:
    """A register of a case: ``%name`` in its text."""

    name: str
    type: str

    @property
    def bits(self) -> int:
        return BITS[self.type]


@dataclass(frozen=True)
class Case:
    """Text from input registers to output registers; every thread runs it on a row of inputs.

    Besides its operands the text may use ``%i`` (the thread's number), ``%lane``, ``%m`` (the address of 64 bytes of
    global memory of its own, aligned to 64, contents arbitrary), ``%base`` (that of thread 0), and 32-bit and 64-bit
    registers ``%r0`` … ``%r9`` and ``%q0`` … ``%q9``, and predicates ``%p0`` … ``%p9``.

    :ivar name: unique in the whole table.
    :ivar rows: a row of operands' bits for each thread.
    :ivar block: threads in a block. The rows are a whole number of blocks where `together`.
    :ivar together: threads work with each other, so that all of a block run the text.
    :ivar declarations: shared variables and further registers.
    :ivar target: the lowest architecture.
    """

    name: str
    text: str
    outs: tuple[Operand, ...]
    ins: tuple[Operand, ...]
    rows: tuple[tuple[int, ...], ...] = field(repr=False)
    bound: Bound | None = None
    block: int = 64
    together: bool = False
    declarations: str = ""
    target: str = "sm_80"

    @property
    def digest(self) -> str:
        """Changes whenever a recorded result would no longer answer this case."""
        parts = (self.text, self.outs, self.ins, self.rows, self.block, self.together, self.declarations, self.target)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    @property
    def opcode(self) -> str:
        """The first word of the name, as in ``add`` of ``add.sat.s32``."""
        return self.name.split(".")[0].split(" ")[0]


def operands(text: str) -> tuple[Operand, ...]:
    """
    >>> operands("a:f32 b:u16")
    (Operand(name='a', type='f32'), Operand(name='b', type='u16'))
    """
    return tuple(Operand(*item.split(":")) for item in text.split())


def case(
    text: str,
    outs: str,
    ins: str,
    rows: Iterable[Sequence[int]] | None = None,
    *,
    name: str = "",
    bound: Bound | None = None,
    block: int = 64,
    together: bool = False,
    declarations: str = "",
    target: str = "sm_80",
) -> Case:
    """A case; its name is the instruction's dotted opcode, its rows are corner values, unless given."""
    sources = operands(ins)
    if rows is None:
        rows = default_rows([o.type for o in sources])
    masked = tuple(
        tuple(value & ((1 << o.bits) - 1) for value, o in zip(row, sources, strict=True)) for row in rows
    )  # fmt: skip
    title = name or text.split()[0]
    return Case(title, text, operands(outs), sources, masked, bound, block, together, declarations, target)

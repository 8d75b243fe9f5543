"""Fragments of matrices: how an instruction is described to the C runtime, and how registers get there and back.

``cpp_shim/src/interop_cpu_matrix.h`` has the same numbers and says how a warp's fragments lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from .records import ThreadField, Wait

if TYPE_CHECKING:
    from .translator import Translator

WARP = 32
MAX_WORDS = 32
"""Most registers of 32 bits that an instruction takes and yields: ``INTEROP_CPU_MATRIX_WORDS``."""


class Operation(IntEnum):
    """``enum interop_cpu_matrix_operation``."""

    MMA = 0
    LDMATRIX = 1
    STMATRIX = 2
    MOVMATRIX = 3
    WMMA_LOAD = 4
    WMMA_STORE = 5


class Kind(IntEnum):
    """What the elements are: ``enum interop_cpu_matrix_kind``."""

    F16 = 0
    BF16 = 1
    TF32 = 2
    F64 = 3
    INT8 = 4
    INT4 = 5
    B1 = 6
    QUAD = 7
    WORD = 8


BITS = {Kind.F16: 16, Kind.BF16: 16, Kind.TF32: 32, Kind.F64: 64, Kind.INT8: 8, Kind.INT4: 4, Kind.B1: 1, Kind.WORD: 32}
"""Width of an element in memory."""


class Flag(IntFlag):
    """``enum interop_cpu_matrix_flag``."""

    NONE = 0
    A_COLUMNS = 1 << 14
    B_ROWS = 1 << 15
    A_SIGNED = 1 << 16
    B_SIGNED = 1 << 17
    SATURATE = 1 << 18
    C_HALF = 1 << 19
    D_HALF = 1 << 20
    BITS_AND = 1 << 21
    SPARSE = 1 << 22


@dataclass(frozen=True)
class Shape:
    """Extents in blocks of 8 rows, of 8 columns, and of 16 bytes along the inner dimension.

    >>> Shape.of((16, 8, 16), Kind.BF16)
    Shape(rows=2, columns=1, depth=2)
    """

    rows: int
    columns: int
    depth: int

    @classmethod
    def of(cls, extents: tuple[int, int, int], kind: Kind) -> Shape:
        """The blocks of a shape ``m``, ``n``, ``k``."""
        m, n, k = extents
        return cls(m // 8, n // 8, max(k * BITS[kind] // 128, 1))


def encode(
    operation: Operation, kind: Kind, shape: Shape, flags: Flag = Flag.NONE, role: int = 0, selector: int = 0
) -> int:
    """The word that describes an instruction.

    >>> hex(encode(Operation.MMA, Kind.BF16, Shape(2, 1, 2)))
    '0x1110'
    """
    sizes = [
        (extent.bit_length() - 1) << at for extent, at in zip((shape.rows, shape.columns, shape.depth), (8, 10, 12))
    ]
    return operation | kind << 4 | sum(sizes) | flags | role << 24 | selector << 26


def perform(t: Translator, code: int, inputs: Sequence[tuple[str, str]], results: Sequence[str]) -> list[str]:
    """Has the whole warp perform `code` on values of types ``i32`` and ``i64``; what it yields.

    A thread stores its registers into its column of the warp's fragments and waits; the scheduler calls the runtime's
    ``cpu_matrix`` once all lanes have come.
    """
    row = sum(_words(type_) for type_ in results)
    assert row + sum(_words(type_) for type_, _ in inputs) <= MAX_WORDS
    for type_, value in inputs:
        t.b.store(type_, value, _place(t, type_, row))
        row += _words(type_)
    t.b.store("i32", "-1", t.thread_field(ThreadField.MASK))
    t.b.store("i32", str(code), t.thread_field(ThreadField.MODE))
    t.suspend(Wait.MATRIX)
    values, row = [], 0
    for type_ in results:
        values.append(t.b.load(type_, _place(t, type_, row)))
        row += _words(type_)
    return values


def _words(type_: str) -> int:
    return 2 if type_ == "i64" else 1


def _place(t: Translator, type_: str, row: int) -> str:
    """Where this lane's value of a register lies. Values of 64 bits are a row of their own width."""
    if not t.fragment:
        t.fragment = True
        t.b.module.declare("ptr", f"{t.b.module.prefix}cpu_fragment", ["ptr", "ptr"])
        t.b.entry += [
            f"  %fragment = call ptr @{t.b.module.prefix}cpu_fragment(ptr %blk, ptr %thr)",
            "  %fragment.bits = ptrtoint ptr %fragment to i64",
            f"  %fragment.lane = and i64 %fragment.bits, {4 * WARP - 1}",
            "  %fragment.wide = getelementptr i8, ptr %fragment, i64 %fragment.lane",
        ]
    return t.b.offset("%fragment.wide" if type_ == "i64" else "%fragment", 4 * WARP * row)

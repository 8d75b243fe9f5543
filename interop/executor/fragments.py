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
    """Extents in blocks of 8 rows, of 8 columns, and of 16 bytes along the inner dimension (32 for f64).

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
        return cls(m // 8, n // 8, 1 if kind == Kind.F64 else k * BITS[kind] // 128)


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
    """Has the whole warp perform `code` on values of types ``i32`` and ``i64``; what it yields."""
    count = sum(_words(type_) for type_ in results)
    words = [word for type_, value in inputs for word in _split(t, type_, value)]
    assert count + len(words) <= MAX_WORDS
    rows = iter(t.exchange(code, words, count))
    return [_join(t, next(rows), next(rows)) if type_ == "i64" else next(rows) for type_ in results]


def exchange(t: Translator, code: int, words: Sequence[str], count: int) -> list[str]:
    """One lane's part in a matrix instruction that takes `words` of 32 bits and yields `count` of them.

    The thread stores its registers into its column of the warp's fragments and waits; the scheduler calls the
    runtime's ``cpu_matrix`` once all lanes have come.
    """
    # Each lane keeps to its own column: those that go on first must not disturb what others have yet to read.
    for row, word in enumerate(words, count):
        t.b.store("i32", word, _place(t, row))
    t.b.store("i32", "-1", t.thread_field(ThreadField.MASK))
    t.b.store("i32", str(code), t.thread_field(ThreadField.MODE))
    t.suspend(Wait.MATRIX)
    return [t.b.load("i32", _place(t, row)) for row in range(count)]


def _words(type_: str) -> int:
    return 2 if type_ == "i64" else 1


def _split(t: Translator, type_: str, value: str) -> list[str]:
    """A register as words of 32 bits, the low one first."""
    if type_ != "i64":
        return [value]
    return [t.b.resize(part, "i64", "i32") for part in (value, t.b.binary("lshr", "i64", value, "32"))]


def _join(t: Translator, low: str, high: str) -> str:
    upper = t.b.binary("shl", "i64", t.b.resize(high, "i32", "i64"), "32")
    return t.b.binary("or", "i64", upper, t.b.resize(low, "i32", "i64"))


def _place(t: Translator, row: int) -> str:
    """Where this lane's word of a row lies."""
    if not t.fragment:
        t.fragment = True
        t.b.module.declare("ptr", f"{t.b.module.prefix}cpu_fragment", ["ptr", "ptr"])
        t.b.entry.append(f"  %fragment = call ptr @{t.b.module.prefix}cpu_fragment(ptr %blk, ptr %thr)")
    return t.b.offset("%fragment", 4 * WARP * row)

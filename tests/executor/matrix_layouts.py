"""Where the elements of mma's matrices lie, as the PTX ISA (9.7.14.5) gives it shape by shape: lane and element index
to row and column. Written from its formulas, and not as the runtime computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Place = Callable[[int, int], tuple[int, int]]  # group, thread in group, of a lane; then element


@dataclass(frozen=True)
class Layout:
    """One shape: its extents, elements per thread in A and B, and their rows and columns."""

    m: int
    n: int
    k: int
    bits: int
    a: Callable[[int, int, int], tuple[int, int]]
    b: Callable[[int, int, int], tuple[int, int]]

    @property
    def a_count(self) -> int:
        return self.m * self.k // 32

    @property
    def b_count(self) -> int:
        return self.n * self.k // 32


LAYOUTS = {
    "m8n8k4.f64": Layout(8, 8, 4, 64, lambda g, t, i: (g, t), lambda g, t, i: (t, g)),
    "m16n8k4.tf32": Layout(16, 8, 4, 32, lambda g, t, i: (g if i == 0 else g + 8, t), lambda g, t, i: (t, g)),
    "m16n8k8.tf32": Layout(
        16, 8, 8, 32,
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g),
    ),
    "m16n8k8.half": Layout(
        16, 8, 8, 16,
        lambda g, t, i: (g if i in (0, 1) else g + 8, t * 2 + (i & 1)),
        lambda g, t, i: (t * 2 + i, g),
    ),
    "m16n8k16.half": Layout(
        16, 8, 16, 16,
        lambda g, t, i: (g if 0 <= i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
        lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    ),
    "m8n8k16.int8": Layout(8, 8, 16, 8, lambda g, t, i: (g, t * 4 + i), lambda g, t, i: (t * 4 + i, g)),
    "m16n8k16.int8": Layout(
        16, 8, 16, 8, lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)), lambda g, t, i: (t * 4 + i, g)
    ),
    "m16n8k32.int8": Layout(
        16, 8, 32, 8,
        lambda g, t, i: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
        lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    ),
    "m8n8k32.int4": Layout(8, 8, 32, 4, lambda g, t, i: (g, t * 8 + i), lambda g, t, i: (t * 8 + i, g)),
    "m16n8k32.int4": Layout(
        16, 8, 32, 4, lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)), lambda g, t, i: (t * 8 + i, g)
    ),
    "m16n8k64.int4": Layout(
        16, 8, 64, 4,
        lambda g, t, i: (g if 0 <= i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32)),
        lambda g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g),
    ),
    "m8n8k128.b1": Layout(8, 8, 128, 1, lambda g, t, i: (g, t * 32 + i), lambda g, t, i: (t * 32 + i, g)),
    "m16n8k128.b1": Layout(
        16, 8, 128, 1, lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31)), lambda g, t, i: (t * 32 + i, g)
    ),
    "m16n8k256.b1": Layout(
        16, 8, 256, 1,
        lambda g, t, i: (g if 0 <= i < 32 or 64 <= i < 96 else g + 8, t * 32 + (i & 31) + (0 if i < 64 else 128)),
        lambda g, t, i: (t * 32 + (i & 31) + (0 if i < 32 else 128), g),
    ),
}  # fmt: skip


def accumulator(m: int) -> Callable[[int, int, int], tuple[int, int]]:
    """c0, c1 in the group's row; with 16 rows c2, c3 in the row 8 further."""
    return lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))


def spread(matrix: np.ndarray, count: int, place: Callable[[int, int, int], tuple[int, int]]) -> np.ndarray:
    """A matrix's elements by lane: ``[lane, element]``."""
    out = np.empty((32, count), matrix.dtype)
    for lane in range(32):
        for i in range(count):
            out[lane, i] = matrix[place(lane >> 2, lane % 4, i)]
    return out


def collect(
    elements: np.ndarray, extents: tuple[int, int], place: Callable[[int, int, int], tuple[int, int]]
) -> np.ndarray:
    """The matrix that ``[lane, element]`` make up; every element is set once."""
    out = np.zeros(extents, elements.dtype)
    seen = np.zeros(extents, int)
    for lane in range(32):
        for i in range(elements.shape[1]):
            out[place(lane >> 2, lane % 4, i)] = elements[lane, i]
            seen[place(lane >> 2, lane % 4, i)] += 1
    assert (seen == 1).all()
    return out


def pack(elements: np.ndarray, bits: int) -> np.ndarray:
    """``[lane, element]`` as ``[lane, register]`` of 32 bits, or 64 for f64; element 0 in the low bits."""
    if bits >= 32:
        return np.ascontiguousarray(elements).view(f"u{bits // 8}")
    if bits >= 8:
        return np.ascontiguousarray(elements).view(np.uint32)
    each = 32 // bits
    values = (elements.astype(np.int64) & ((1 << bits) - 1)).reshape(32, -1, each)
    return (values << (np.arange(each) * bits)).sum(axis=2).astype(np.uint32)

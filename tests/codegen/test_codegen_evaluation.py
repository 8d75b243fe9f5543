"""What is evaluated, how often, and in which order; and shifts by any amount. Kernels run on the CPU device."""

from __future__ import annotations

import numpy as np

import interop as io
from interop import simt


@io.device
def _stored(y, i, value):  # type: ignore[no-untyped-def]
    y[i] = value
    return i


@io.device
def _counted(count, i):  # type: ignore[no-untyped-def]
    count[i] += 1
    return i


@simt.kernel(block=4, grid="1")
def one_of_two(y: io.DisjointSlice[io.f32], z: io.DisjointSlice[io.f32]) -> None:
    i = simt.global_index()
    j = _stored(y, i, 1.0) if i < 2 else _stored(y, i, 2.0)
    z[j] = 5.0


@simt.kernel(block=4, grid="1")
def add_at(y: io.DisjointSlice[io.f32], count: io.DisjointSlice[io.i32]) -> None:
    i = simt.global_index()
    y[_counted(count, i)] += 10.0


@simt.kernel(block=64, grid="ceil_div(len(x), block.x)")
def shifts(
    x: io.Slice[io.i64],
    by: io.Slice[io.u64],
    left: io.DisjointSlice[io.i64],
    right: io.DisjointSlice[io.i64],
    logical: io.DisjointSlice[io.u64],
) -> None:
    i = simt.global_index()
    if i < len(x):
        left[i] = x[i] << by[i]
        right[i] = x[i] >> by[i]
        logical[i] = io.u64(x[i]) >> by[i]


def test_a_conditional_expression_runs_its_own_side_only() -> None:
    y, z = np.full(4, np.nan, np.float32), np.full(4, np.nan, np.float32)
    one_of_two(y, z)
    assert y.tolist() == [1, 1, 2, 2]
    assert z.tolist() == [5, 5, 5, 5]


def test_an_augmented_assignment_evaluates_its_index_once() -> None:
    y, count = np.arange(4, dtype=np.float32), np.zeros(4, np.int32)
    add_at(y, count)
    assert y.tolist() == [10, 11, 12, 13]
    assert count.tolist() == [1, 1, 1, 1]


def test_shifts_of_64_bits_see_all_bits_of_the_amount() -> None:
    amounts = [0, 1, 31, 32, 63, 64, 65, 2**31, 2**32, 2**32 + 1, 2**63, 2**63 + 1, 2**64 - 1]
    values = [5, -5, 2**63 - 1, -(2**63)]
    x = np.array([v for v in values for _ in amounts], np.int64)
    by = np.array(amounts * len(values), np.uint64)
    left, right, logical = np.full_like(x, 7), np.full_like(x, 7), np.full_like(by, 7)
    shifts(x, by, left, right, logical)
    for n, (value, amount) in enumerate(zip(x.tolist(), by.tolist())):
        few = min(amount, 64)
        assert int(left.view(np.uint64)[n]) == (value << few) % 2**64
        assert right[n] == value >> few
        assert logical[n] == (value % 2**64) >> few

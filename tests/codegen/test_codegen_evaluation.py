"""What is evaluated, how often, and in which order; and shifts by any amount. Kernels run on the CPU device."""

from __future__ import annotations

import numpy as np
import pytest

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


def _to_bf16_kernel(source: object) -> io.Launchable:
    @simt.kernel(block=128, grid="ceil_div(len(y), block.x)", requires=["len(x) == len(y)"])
    def to_bf16(x: io.Slice[source], y: io.DisjointSlice[io.bf16]) -> None:  # type: ignore[valid-type]
        i = simt.global_index()
        if i < len(y):
            y[i] = io.bf16(x[i])

    return to_bf16


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_round_to_bf16_once(dtype: type) -> None:
    """The halfway cases and their neighbours in every binade, and random numbers, against exact rational rounding."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    info = np.iinfo(dtype)
    numbers = {0, 1, info.min, info.max, info.max - 1, 16842753}
    for exponent in range(9, info.bits):
        halfway = (2 * 0x80 + 1) << (exponent - 8)
        numbers |= {sign * (halfway + near) for near in (-1, 0, 1) for sign in (1, -1)}
    random = np.random.default_rng().integers(info.min, info.max, 500, dtype=dtype, endpoint=True)
    x = np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype=dtype)
    x = np.concatenate([x, random])
    y = np.full(len(x), np.nan, dtype=ml_dtypes.bfloat16)
    kernel = _to_bf16_kernel(getattr(io, f"{'i' if info.min else 'u'}{info.bits}"))
    kernel(x, y)
    expected = [_nearest_bf16(int(n)) for n in x]
    assert [int(v) for v in y.astype(np.float64)] == expected


def _nearest_bf16(n: int) -> int:
    """`n` at 8 significant bits, ties to even, in integers."""
    shift = max(abs(n).bit_length() - 8, 0)
    kept, lost, half = abs(n) >> shift, abs(n) & ((1 << shift) - 1), (1 << shift) >> 1
    kept += lost > half or (shift > 0 and lost == half and kept & 1)
    return (kept << shift) * (1 if n >= 0 else -1)

"""Advice in messages about arrays: following it must never lose a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interop as io
from interop import simt


@simt.kernel(block=32, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
def add(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
    i = simt.global_index()
    if i < len(y):
        y[i] += a * x[i]


@simt.kernel(block=(8, 8), grid="(1, 1)")
def fill(dst: io.DisjointTensor[io.f32, 2], n: io.i32):
    p = simt.global_index(2)
    if p.row < dst.shape[0] and p.col < dst.shape[1]:
        dst[p] = io.f32(n)


def message(*arguments: Any, kernel: Any = add) -> str:
    with pytest.raises(io.ArgumentTypeError) as caught:
        kernel(*arguments)
    return str(caught.value)


def f32(count: int = 8) -> Any:
    return np.random.default_rng().standard_normal(count, np.float32)


UNALIGNED = np.zeros(8, np.dtype([("flag", "u1"), ("value", "f4")]))["value"]
UNFIT = {
    "dtype": (lambda: f32().astype(np.float64), "but the array holds f64: pass x.astype(np.float32)",
              "make a copy of type f32, launch on that, and copy the result back"),
    "stride": (lambda: f32(16)[::2], "pass np.ascontiguousarray(x)",
               "make a contiguous copy, launch on that, and copy the result back"),
    "bytes of a stride": (lambda: UNALIGNED, "pass np.ascontiguousarray(x)",
                          "make a copy that can be passed, launch on that, and copy the result back"),
    "byte order": (lambda: f32().astype(">f4"), "pass x.astype(x.dtype.newbyteorder('='))",
                   "make a copy that can be passed, launch on that, and copy the result back"),
    "masked": (lambda: np.ma.masked_array(f32(), [0] * 8), "pass x.filled(value) or x.data",
               "make a copy that can be passed, launch on that, and copy the result back"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_read_is_converted_and_what_is_written_copied_back(case: str) -> None:
    make, for_read, for_written = UNFIT[case]
    assert message(make(), f32(), 1.0).endswith(for_read)
    written = message(f32(), make(), 1.0)
    assert written.startswith("add: y") and written.endswith(for_written)
    assert "pass" not in written.rpartition(": ")[2].replace("can be passed", "")


@pytest.mark.parametrize("case", ["dtype", "stride", "bytes of a stride", "byte order"])
def test_the_advice_works(case: str) -> None:
    make = UNFIT[case][0]
    x, y = make(), f32()
    expected = y + x.astype(np.float32)
    advice = message(x, y, 1.0).rpartition(": pass ")[2]
    add(eval(advice, {"np": np, "x": x}), y, 1.0)
    assert np.allclose(y, expected)

    target = make()
    expected = x + target.astype(np.float32)
    copy = np.array(target, np.float32, order="C")
    add(np.ascontiguousarray(x, np.float32), copy, 1.0)
    target[...] = copy
    assert np.allclose(target, expected)


def test_read_only_and_overlapping_arrays() -> None:
    y = f32()
    y.flags.writeable = False
    assert message(f32(), y, 1.0).endswith("make a writable copy, launch on that, and use the copy from there on")
    window = np.lib.stride_tricks.as_strided(f32(), (4, 4), (4, 4))
    assert message(window, 1, kernel=fill).endswith("make a copy, launch on that, and copy the result back")


def test_numbers_in_arrays_are_named_as_the_parameter() -> None:
    assert message(f32(), f32(), np.array(1.0)).endswith("0-dimensional numpy.ndarray is given: pass a.item()")
    assert message(np.zeros((8, 8), np.float32), np.array(3), kernel=fill).endswith("pass n.item()")

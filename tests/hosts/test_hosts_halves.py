"""Half precision in C: every half to float, and floats to the nearest half, as NumPy and ml_dtypes do it."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_support import HERE, WARNINGS, run_tool

from interop.exporting import shim_path

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("halves") / "halves.so"
    flags = ["-std=c11", "-O1", *WARNINGS, "-shared", "-fPIC", f"-I{shim_path() / 'include'}"]
    run_tool(["gcc", *flags, HERE / "halves.c", "-o", library])
    return ctypes.CDLL(str(library))


def convert(function: Any, array: Any, dtype: Any) -> Any:
    result = np.full(array.shape, 7, dtype)
    function(array.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.size))
    return result


@pytest.mark.parametrize("name", TYPES)
def test_every_half_to_float(halves: ctypes.CDLL, name: str) -> None:
    bits = np.arange(65536).astype(np.uint16)
    found = convert(getattr(halves, f"{name}_to"), bits, np.float32)
    np.testing.assert_array_equal(found, bits.view(TYPES[name]).astype(np.float32))


@pytest.mark.parametrize("name", TYPES)
def test_floats_round_to_the_nearest_half_and_ties_to_even(halves: ctypes.CDLL, name: str) -> None:
    random = np.random.default_rng(3)
    every = np.arange(65536).astype(np.uint16).view(TYPES[name]).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    between = (every[1:].astype(np.float64) + every[:-1]) / 2  # ties, and their neighbours
    ties = between.astype(np.float32)
    anything = random.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    floats = np.concatenate([every, ties, np.nextafter(ties, np.inf, dtype=np.float32), -ties, anything])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = floats.astype(TYPES[name])
    found = convert(getattr(halves, f"{name}_from"), floats, np.uint16).view(TYPES[name])
    nan = np.isnan(floats)
    assert np.isnan(found[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(found[~nan].view(np.uint16), expected[~nan].view(np.uint16))

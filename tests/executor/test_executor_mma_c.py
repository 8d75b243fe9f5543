"""The C functions of matrix instructions by themselves: the fast way and the portable one give the same bits."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from interop.executor.fragments import Flag, Kind, Operation, Shape, encode

SHIM = Path(__file__).parents[2] / "cpp_shim" / "src"
RNG = np.random.default_rng(23)
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", f"-I{SHIM}", "-fPIC", "-shared"]


@pytest.fixture(scope="module")
def multiply(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The runtime as it is chosen on this machine, and in portable C only."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    folder = tmp_path_factory.mktemp("mma")
    sources = sorted(SHIM.glob("interop_cpu*.c"))
    found = []
    for name, define in (("fast", []), ("portable", ["-DINTEROP_CPU_PORTABLE"])):
        command = ["gcc", *FLAGS, *define, *map(str, sources), "-lm", "-o", f"{name}.so"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        found.append(ctypes.CDLL(str(folder / f"{name}.so")))
    return found[0], found[1]


def corners(kind: Kind, shape: tuple[int, ...]) -> np.ndarray:
    """Registers full of bits at random, with zeros, infinities, NaN and subnormals among them."""
    words = RNG.integers(0, 2**32, shape, dtype=np.uint32)
    if kind in (Kind.F16, Kind.BF16):
        exponent = 0x7C00 if kind == Kind.F16 else 0x7F80
        special = np.array([0, 0x8000, 1, 0x8001, exponent, 0x8000 | exponent, exponent | 1, 0x3C00, 0x3F80], np.uint16)
        halves = words.view(np.uint16)
    else:
        special = np.array([0, 2**31, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0x3F800000, 0x00002000], np.uint32)
        halves = words
    where = RNG.random(halves.shape) < 0.05
    halves[where] = RNG.choice(special, where.sum())
    return words


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.TF32, Kind.INT8, Kind.INT4, Kind.B1])
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_both_ways_give_the_same_bits(
    multiply: tuple[ctypes.CDLL, ctypes.CDLL], kind: Kind, rows: int, depth: int
) -> None:
    columns = 2 if rows < 4 and depth < 4 else 1
    a, b, c, d = rows * depth, columns * depth, rows * columns * 2, rows * columns * 2
    for trial in range(20):
        flags = Flag.NONE
        for flag in (Flag.A_SIGNED, Flag.B_SIGNED, Flag.SATURATE, Flag.BITS_AND):
            flags |= flag if RNG.integers(2) else Flag.NONE
        inputs = np.concatenate([corners(kind, (a + b, 32)), corners(Kind.WORD, (c, 32))])
        if trial % 2 and kind in (Kind.F16, Kind.BF16):  # numbers of one size, so that rounding matters
            inputs.view(np.uint16)[: 2 * (a + b)] &= 0x8FFF if kind == Kind.F16 else 0x80FF
            inputs.view(np.uint16)[: 2 * (a + b)] |= 0x3000 if kind == Kind.F16 else 0x3F00
            inputs[a + b :] = RNG.standard_normal((c, 32), dtype=np.float32).view(np.uint32)
        results = []
        for library in multiply:
            words = np.concatenate([np.full((d, 32), 0xA5A5A5A5, np.uint32), inputs])
            code = encode(Operation.MMA, kind, Shape(rows, columns, depth), flags)
            library.interop_cpu_matrix_multiply(ctypes.c_uint32(code), words.ctypes.data_as(ctypes.c_void_p))
            assert np.array_equal(words[d:], inputs)
            results.append(words[:d])
        assert np.array_equal(*results)
        assert (results[0] != 0xA5A5A5A5).any(axis=1).all()

"""Python and C must give the same verdict, with the same words and the same results, on random calls."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import export_kernels
import numpy as np
import pytest
import simt_kernels
from host_support import LIBRARIES, compile_library, run_tool

import abi
from interop.runtime import Launchable

CALLS = 400


class Slice(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_uint64)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * 2),
        ("strides", ctypes.c_int64 * 2),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.POINTER(ctypes.c_uint32 * 3)),
        ("block", ctypes.POINTER(ctypes.c_uint32 * 3)),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("exact", ctypes.c_bool),
    ]


class Library:
    """The exported library, called through ctypes as any foreign language would."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.mix_last_error.restype = ctypes.c_char_p
        self.c.mix_bundle_hash.restype = ctypes.c_char_p
        self.module = ctypes.c_void_p()
        cpu = (ctypes.c_int32 * 2)(1, 0)
        which = ctypes.c_uint64.from_buffer(cpu)  # an 8-byte struct goes in one register
        status = self.c.mix_load_checked(which, self.c.mix_bundle_hash(), b"", ctypes.byref(self.module))
        assert status == 0, self.c.mix_last_error()

    def call(self, name: str, config: Config, *arguments: Any) -> str:
        """The message, empty when the call went well."""
        status = getattr(self.c, f"mix_{name}_ex")(self.module, ctypes.byref(config), *arguments)
        return str(self.c.mix_last_error().decode()) if status else ""


@pytest.fixture(scope="module")
def shared(mix: Path, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("shared")
    objects = compile_library(mix, "mix", folder, ["-O1", "-fPIC"])
    run_tool(["gcc", "-shared", *objects, *LIBRARIES, "-o", folder / "libmix.so"])
    return Library(folder / "libmix.so")


def pick(random: np.random.Generator, *choices: Any) -> Any:
    return choices[int(random.integers(len(choices)))]


GRIDS = [None, None, None, 1, 0, (4,), (0,), (2, 1), (1, 2), (2, 0), (0, 2), (1, 1, 1), (2, 0, 1), (1, 1, 0)]
GRIDS += [(0, 0, 0), (1, 1, 70000), (3, 65536, 1)]


def random_config(random: np.random.Generator, blocks: list[Any]) -> tuple[Any, Any, Any]:
    """Grid, block and shared memory as Python takes them; None is "from the contract"."""
    grid = pick(random, *GRIDS)
    shared = pick(random, None, None, None, 16, 4096, 300000)
    return grid, pick(random, *blocks), shared


def as_config(grid: Any, block: Any, shared: Any) -> Config:
    """The configuration as C has it: short forms where they say the same, as initialisers make them, else exact."""
    given = {"grid": _tuple(grid), "block": _tuple(block)}
    exact = any(d is not None and len(d) > 1 and d[-1] == 0 for d in given.values())
    config = Config(shared=shared or 0, exact=exact)
    for what, dims in given.items():
        if dims is not None:
            rest = (1 if exact else 0,) * (3 - len(dims))
            setattr(config, what, ctypes.pointer((ctypes.c_uint32 * 3)(*dims, *rest)))
    return config


def _tuple(dims: Any) -> tuple[int, ...] | None:
    return (dims,) if isinstance(dims, int) else dims


def from_python(kernel: export_kernels.HandMade, config: tuple[Any, Any, Any], arguments: Any) -> str:
    grid, block, shared = config
    try:
        Launchable(kernel.program)[grid, block, None, shared](*arguments)
    except abi.Error as error:
        return str(error)
    return ""


def slice_of(array: Any) -> Slice:
    return Slice(array.ctypes.data, array.size)


def tensor_of(array: Any) -> Tensor:
    strides = [s // array.itemsize for s in array.strides]
    return Tensor(array.ctypes.data, (ctypes.c_int64 * 2)(*array.shape), (ctypes.c_int64 * 2)(*strides))


def test_slices_overlap_alignment_and_launches(shared: Library) -> None:
    random, told = np.random.default_rng(11), set()
    kernel = export_kernels.saxpy()
    blocks = [None, None, None, 256, (256, 1), (128, 1, 1), (256, 2), (2048, 1, 1), 0, (256, 0), (256, 1, 0)]
    for _ in range(CALLS):
        memory = random.random(4000, dtype=np.float32)
        copy = memory.copy()
        start, n = int(random.integers(0, 1500)), int(random.integers(0, 1200))
        m = pick(random, n, n, n, max(n - 1, 0), n + 3)
        x_start = pick(random, 2800, 2800, start + n, max(start - m, 0), start)
        shift = pick(random, 0, 0, 0, 0, 2)  # bytes
        ours = [_view(memory, x_start, m, shift), memory[start : start + n]]
        theirs = [_view(copy, x_start, m, shift), copy[start : start + n]]
        config = random_config(random, blocks)
        expected = from_python(kernel, config, (*ours, 0.75))
        found = shared.call("saxpy", as_config(*config), *map(slice_of, theirs), ctypes.c_float(0.75))
        assert found == expected
        np.testing.assert_array_equal(copy, memory)
        told.add(_gist(expected))
    assert len(told) >= 7, told


def _view(memory: Any, start: int, count: int, shift: int) -> Any:
    count = min(count, memory.size - start - 1)
    return np.frombuffer(memory.data, np.float32, count, 4 * start + shift)


def _gist(message: str) -> str:
    """The message without its numbers."""
    return "".join(c for c in message if not c.isdigit())


def test_tensors_strides_and_their_rules(shared: Library) -> None:
    random, told = np.random.default_rng(12), set()
    kernel = export_kernels.transpose()
    for _ in range(CALLS):
        rows, columns = (int(n) for n in random.integers(0, 40, 2))
        memory = random.integers(0, 1000, 3 * 1600, dtype=np.int32)
        shape = pick(random, (columns, rows), (columns, rows), (columns, rows), (columns + 1, rows), (rows, columns))
        steps = pick(random, 1, 1, 2, 0)
        where = pick(random, 3200, 3200, 3200, 1000)
        arrays = []
        for m in (memory, memory.copy()):
            src = np.lib.stride_tricks.as_strided(m, (rows, columns), (4 * columns, 4))
            src = pick(np.random.default_rng(rows), src, src[::-1], src.T.copy().T)
            dst = np.lib.stride_tricks.as_strided(m[where:], shape, (4 * shape[1] * min(steps, 1), 4))
            arrays.append((m, src, dst))
        (ours, *arguments), (theirs, *c_arguments) = arrays
        config = random_config(random, [None, None, (16, 16), (16, 16, 1), (16, 8), (16, 0), 16, 0])
        expected = from_python(kernel, config, arguments)
        assert shared.call("transpose", as_config(*config), *map(tensor_of, c_arguments)) == expected
        np.testing.assert_array_equal(theirs, ours)
        told.add(_gist(expected))
    assert len(told) >= 6, told


def test_hidden_parameters_and_bounded_blocks(shared: Library) -> None:
    random, told = np.random.default_rng(13), set()
    kernel = export_kernels.scale()
    for _ in range(CALLS):
        y = random.random(int(random.integers(0, 500)), dtype=np.float32)
        copy = y.copy()
        config = random_config(random, [None, 128, (64, 2), (64, 4, 1), (7, 1, 1), 0, (64, 0), (8, 1, 0), (1, 1, 65)])
        expected = from_python(kernel, config, (y, 1.5))
        assert shared.call("scale", as_config(*config), slice_of(copy), ctypes.c_float(1.5)) == expected
        np.testing.assert_array_equal(copy, y)
        told.add(_gist(expected))
    assert len(told) >= 6, told


def test_dynamic_shared_memory_and_multiples(shared: Library) -> None:
    random, told = np.random.default_rng(14), set()
    kernel = export_kernels.block_sums()
    for _ in range(CALLS):
        values = random.random(int(random.integers(1, 700)))
        block = pick(random, None, None, 128, (96, 1, 1), (1024, 1), 0, (64, 0))
        sums = np.full(-(-values.size // max((_tuple(block) or (64,))[0], 1)) + pick(random, 0, 0, 0, 1), np.nan)
        copy = sums.copy()
        grid, shared_bytes = pick(random, None, None, 0, (1, 1, 70000)), pick(random, None, None, 8192, 300000)
        config = (grid, block, shared_bytes)
        expected = from_python(kernel, config, (values, sums))
        assert shared.call("new_", as_config(*config), slice_of(values), slice_of(copy)) == expected
        np.testing.assert_array_equal(copy, sums)
        told.add(_gist(expected))
    assert len(told) >= 4, told


def test_kernel_that_stops_is_told_alike(shared: Library) -> None:
    src, index = np.arange(150, dtype=np.float32), np.arange(100, dtype=np.int32)
    index[77] = 150
    with pytest.raises(abi.ExecutionError) as stopped:
        simt_kernels.gather(src, index, np.zeros(100, np.float32))
    dst = np.zeros(100, np.float32)
    assert shared.call("gather", as_config(None, None, None), *map(slice_of, (src, index, dst))) == str(stopped.value)
    index[77] = 149
    assert shared.call("gather", as_config(None, None, None), *map(slice_of, (src, index, dst))) == ""
    np.testing.assert_array_equal(dst, src[index])

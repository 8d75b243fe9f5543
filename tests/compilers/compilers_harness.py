"""What the tests of whole kernels share: where PTX comes from, parameter buffers, random numbers, poisoned outputs.

Each kernel is tested twice: from the PTX kept under ``data/``, and from PTX made on the spot where its compiler is
installed. `make/make_TOOL.py FOLDER` made the former and makes the latter; ``data/README.md`` has the versions.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from interop import ptx
from interop.executor import compile_kernel

HERE = Path(__file__).resolve().parent
DATA, MAKE = HERE / "data", HERE / "make"

RNG = np.random.default_rng()
"""Random inputs: seeded anew before each test by ``conftest.py``, which prints the seed."""

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cache
def _entry(text: str, symbol: str) -> ptx.Function:
    return ptx.parse(text).entries[symbol]


def pack(text: str, symbol: str, values: Sequence[object]) -> bytes:
    """The parameter buffer of an ``.entry``: an array gives its address, ``bytes`` stand for themselves, a NumPy scalar
    for its bytes, Python's numbers take the type of the parameter.

    >>> pack(".version 8.0\\n.target sm_80\\n.entry k(.param .u8 a, .param .f32 b) { ret; }", "k", [1, 1.5]).hex()
    '010000000000c03f'
    """
    params = _entry(text, symbol).params
    assert len(values) == len(params), f"{symbol} has {len(params)} parameters, not {len(values)}"
    buffer = bytearray()
    for variable, value in zip(params, values):
        buffer += bytes(-len(buffer) % variable.alignment)
        data = _bytes_of(value, variable)
        assert len(data) == variable.size, f"{variable.name} has {variable.size} bytes, not {len(data)}"
        buffer += data
    return bytes(buffer)


def _bytes_of(value: object, variable: ptx.Variable) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, np.ndarray):
        return struct.pack("<Q", value.ctypes.data)
    if isinstance(value, float):
        return struct.pack("<d" if variable.size == 8 else "<f", value)
    assert isinstance(value, int), value
    return struct.pack("<" + _FORMATS[variable.size], value & (1 << 8 * variable.size) - 1)


def poisoned(shape: int | tuple[int, ...], dtype: object = np.float32) -> np.ndarray:
    """An array that is wrong until it is written: NaN, or a pattern no kernel makes by accident."""
    out = np.empty(shape, dtype)
    if out.dtype.kind == "f" and out.dtype.itemsize > 1:
        out.fill(np.nan)
    else:
        out.view(np.uint8).fill(0xA5)
    return out


@dataclass(frozen=True)
class Made:
    """A kernel of a compiler and how it is launched."""

    text: str
    symbol: str
    threads: int = 0
    shared: int = 0
    hidden: int = 0

    def __call__(self, grid: object, block: object, *values: object, **options: int) -> None:
        """Launches it. `values` are the parameters as :func:`pack` takes them, without the hidden ones."""
        options.setdefault("shared", self.shared)
        params = pack(self.text, self.symbol, [*values, *[0] * self.hidden])
        compile_kernel(self.text, self.symbol).launch(params, grid, block, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Source:
    """PTX of one tool: a folder with ``NAME.ptx`` and ``launch.json``."""

    folder: Path

    def kernel(self, name: str, hidden: int = 0) -> Made:
        """The kernel kept as `name`; `hidden` null parameters follow those of its source."""
        launch = json.loads((self.folder / "launch.json").read_text())[name]
        text = (self.folder / f"{launch.get('file', name)}.ptx").read_text()
        return Made(text, launch["symbol"], launch.get("threads", 0), launch.get("shared", 0), hidden)


def kept(tool: str) -> Source:
    """The PTX of `tool` that is kept with the tests."""
    return Source(DATA / tool)


def fresh(tool: str, module: str, folder: Path, *options: str) -> Source:
    """PTX that the installed tool makes now; skips the test where `module` cannot be imported.

    A tool that is installed elsewhere is found through ``INTEROP_PYTHON_TRITON`` and the like, the path of a Python.
    """
    python = os.environ.get(f"INTEROP_PYTHON_{tool.upper()}")
    if python is None and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: only the PTX kept in tests/compilers/data/{tool} is tested")
    command = [python or sys.executable, str(MAKE / f"make_{tool}.py"), str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return Source(folder)


@dataclass(frozen=True)
class Cuda:
    """A file of ``make/cuda`` as one compiler translates it: NVRTC now, with `options`, or another one kept as data."""

    name: str
    label: str
    options: tuple[str, ...] = ()

    @property
    def fast(self) -> bool:
        """Whether it was compiled with approximate mathematics."""
        return self.label.endswith("fast")

    @property
    def text(self) -> str:
        """The PTX."""
        if self.label.startswith("kept-"):
            return (DATA / self.label.removeprefix("kept-") / f"{self.name}.ptx").read_text()
        return _nvrtc(self.name, self.options)

    def kernel(self, symbol: str = "", **launch: int) -> Made:
        """One of its kernels: the one that bears its name, or `symbol`."""
        return Made(self.text, symbol or self.name, **launch)


@cache
def _nvrtc(name: str, options: tuple[str, ...]) -> str:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-python")
    sys.path.insert(0, str(MAKE))
    try:
        from make_cuda import nvrtc  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(MAKE))
    try:
        return str(nvrtc(name, list(options)))
    except RuntimeError as problem:
        if "error" in str(problem):
            raise
        pytest.skip(f"NVRTC is not installed: {problem}")

"""One export and one build of each kind for all host tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "exporting"))

import export_kernels
import simt_kernels
from host_support import HERE, LIBRARIES, SANITIZE, WARNINGS, Program, compile_library, run_tool

from interop.exporting import Example, export


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in for the driver, for LD_LIBRARY_PATH."""
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run_tool(["gcc", *flags, HERE / "fake_driver.c", "-o", folder / "libcuda.so.1", "-lpthread"])
    return folder


@pytest.fixture(scope="session")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kernels exported as ``mix``, each with a stored example."""
    random = np.random.default_rng(7)
    saxpy, scale, transpose, widths, sums = export_kernels.all_kernels()
    x, y = random.random((2, 1000), dtype=np.float32)
    picture = random.integers(-1000, 1000, (37, 21), dtype=np.int32)
    point = b"p" + bytes(7) + np.array([1.5, -2.25]).tobytes()
    scalars = (True, -128, 65535, -(2**31), 2**63, 0.1, 0.1, 0.1, point)
    examples = [
        Example(saxpy, (x, y, 0.3)),
        Example(scale, (y, 1.7)),
        Example(transpose, (picture, np.full((21, 37), -1, np.int32))),
        Example(widths, (np.full(12, np.nan), *scalars)),
        Example(sums, (random.random(1000), np.full(16, np.nan))),
    ]
    reverse, gather = simt_kernels.reverse_blocks, simt_kernels.gather
    index = random.integers(0, 1000, 100, dtype=np.int32)
    examples += [
        Example(reverse, (x[:150], np.full(150, np.nan, np.float32), 0.5)),
        Example(gather, (x, index, np.zeros(100, np.float32)), expected=[x[index]]),
    ]
    folder = tmp_path_factory.mktemp("exports") / "mix"
    export([*export_kernels.all_kernels(), reverse, gather], folder, name="mix", examples=examples, version="1.2.3")
    return folder


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another export of one kernel under another name, for older processors."""
    scale = export_kernels.scale()
    example = Example(scale, (np.random.default_rng(8).random(512, dtype=np.float32), 1.7))
    folder = tmp_path_factory.mktemp("exports") / "second"
    export([scale], folder, name="second", examples=[example], arch=(), levels=("x86-64-v2",))
    return folder


@pytest.fixture(scope="session")
def library(mix: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The objects of ``mix``, compiled with the address and undefined-behaviour sanitizers."""
    return compile_library(mix, "mix", tmp_path_factory.mktemp("library"), ["-g", "-O1", *SANITIZE])


@pytest.fixture(scope="session")
def make_host(
    mix: Path, library: list[Path], fake_driver: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Program]:
    """Builds a host from its source, with sanitizers, and without them when first asked for."""

    @lru_cache
    def plain_library() -> list[Path]:
        return compile_library(mix, "mix", tmp_path_factory.mktemp("plain"), ["-O2"])

    def build(compiler: str, source: str, flags: Sequence[str], objects: Sequence[Path]) -> Path:
        program = tmp_path_factory.mktemp("host") / "host"
        standard = "-std=c11" if compiler == "gcc" else "-std=c++17"
        command = [compiler, standard, "-g", *WARNINGS, *flags, f"-I{mix / 'include'}", HERE / source]
        run_tool([*command, *objects, *LIBRARIES, "-o", program])
        return program

    def make(compiler: str, source: str) -> Program:
        plain = lru_cache(lambda: build(compiler, source, ["-O2"], plain_library()))
        return Program(build(compiler, source, SANITIZE, library), fake_driver, plain)

    return make


@pytest.fixture(scope="session")
def c_host(make_host: Callable[[str, str], Program]) -> Program:
    return make_host("gcc", "host.c")


@pytest.fixture(scope="session")
def c_context(make_host: Callable[[str, str], Program]) -> Program:
    return make_host("gcc", "contexts.c")


@pytest.fixture(scope="session")
def cpp_host(make_host: Callable[[str, str], Program]) -> Program:
    return make_host("g++", "host.cpp")

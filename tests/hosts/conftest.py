"""One export and one build of each kind for all host tests."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "exporting"))

import export_kernels  # noqa: E402
import simt_kernels  # noqa: E402

from interop.exporting import Example, export  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
LIBRARIES = ["-ldl", "-lm", "-lpthread"]


def run_tool(command: Sequence[object], **options: object) -> str:
    """Runs a command that must succeed; its output is in the failure's message."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


def compile_library(folder: Path, name: str, out: Path, flags: Sequence[str]) -> list[Path]:
    """Compiles an exported folder's sources; returns the objects to link, the CPU code among them."""
    out.mkdir(parents=True, exist_ok=True)

    def one(source: Path) -> Path:
        target = out / f"{source.stem}.o"
        include = [f"-I{folder / 'include'}", f"-I{folder / 'src'}", f"-DINTEROP_PREFIX={name}_"]
        run_tool(["gcc", "-std=c11", *WARNINGS, *flags, *include, "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(one, sorted((folder / "src").glob("*.c"))))
    return built + sorted((folder / "objects").glob("*.o"))


@dataclass(frozen=True)
class Program:
    """A built host. It runs in an environment of nothing but what is given.

    ``plain`` gives the same program built without sanitizers, which do not get on with a real driver's memory.
    """

    path: Path
    fake_driver: Path
    plain: Callable[[], Path]

    def run(self, *arguments: str, status: int = 0, **environment: str) -> str:
        """Its output; the device ``fake`` is CUDA with the stand-in for the driver."""
        device, *rest = arguments
        path, variables = self.path, {"ASAN_OPTIONS": "detect_leaks=1", **environment}
        if device.startswith("fake"):
            device = device.replace("fake", "cuda")
            variables["LD_LIBRARY_PATH"] = str(self.fake_driver)
        elif device == "cuda" and "LD_LIBRARY_PATH" not in environment:
            path = self.plain()
            variables["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
        command = [str(path), device, *rest]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


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


def has_driver() -> bool:
    """Whether this machine has an NVIDIA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


without_driver = pytest.mark.skipif(has_driver(), reason="the machine has an NVIDIA driver")


def cmake_tool(name: str) -> str:
    """CMake of this Python's environment, else of the machine."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found

"""What the host tests share: compilers, built programs, tools."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

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
    return built + sorted((folder / "images").glob("*.o"))


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

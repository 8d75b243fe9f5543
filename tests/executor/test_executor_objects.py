"""Objects for programs without Python: linked by gcc with the C runtime, they give the bits that the JIT path gives."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from executor_harness import HEADER, cuda

from abi import Error, SymbolNotFound, UnsupportedError
from interop.executor import compile_kernel, compile_object, record_symbol

SHIM = Path(__file__).resolve().parents[2] / "cpp_shim" / "src"
SOURCE = """__device__ float scale = 0.75f; __constant__ float taps[3] = {0.25f, 0.5f, 0.25f};
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }
extern "C" __global__ void smooth(const float* x, float* y, float a, int n) {
  __shared__ float s[130]; int i = blockIdx.x * 128 + threadIdx.x, t = threadIdx.x + 1;
  s[t] = i < n ? x[i] : 0; if (threadIdx.x == 0) { s[0] = i ? x[i - 1] : 0; s[129] = i + 128 < n ? x[i + 128] : 0; }
  __syncthreads();
  if (i < n) y[i] = scale * (taps[0] * s[t - 1] + taps[1] * s[t] + taps[2] * s[t + 1])
    + a * __expf(x[i]) * __sinf(x[i]) + rsqrtf(x[i] * x[i] + 1) + tanhf(x[i]); }
"""
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "interop_cpu.h"
#define DECLARE(level) extern const interop_cpu_kernel mix_cpu_saxpy_##level, mix_cpu_smooth_##level;
DECLARE(x86_64_v2) DECLARE(x86_64_v3)
enum { N = 5003 };
static float x[N], y[N];
int main(int argc, char **argv) {
    const interop_cpu_kernel *kernels[] = {&mix_cpu_saxpy_x86_64_v2, &mix_cpu_smooth_x86_64_v2,
                                          &mix_cpu_saxpy_x86_64_v3, &mix_cpu_smooth_x86_64_v3};
    const interop_cpu_kernel *kernel = kernels[atoi(argv[1])];
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    if (argc != 4 || !in || !out || fread(x, 4, N, in) != N || fread(y, 4, N, in) != N) return 2;
    struct { float *x, *y; float a; int n; } p = {x, y, 1.7f, N};
    const uint32_t grid[3] = {(N + 127) / 128, 1, 1}, block[3] = {128, 1, 1};
    interop_cpu_error error;
    int32_t status = mix_cpu_launch(kernel, &p, sizeof p, grid, block, 0, 2, &error);
    if (status) { fprintf(stderr, "%s\n", error.message); return 3; }
    return fwrite(y, 4, N, out) == N && fclose(out) == 0 ? 0 : 4;
}
"""
FLAGS = [
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-pthread",
    "-DINTEROP_PREFIX=mix_",
    f"-I{SHIM}",
]


def gcc(*arguments: object, cwd: Path) -> None:
    done = subprocess.run(["gcc", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A position-independent executable with objects of two levels, and a shared library of the same."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    folder = tmp_path_factory.mktemp("objects")
    ptx = cuda(SOURCE)
    objects = []
    for level in ("x86-64-v2", "x86-64-v3"):
        (folder / f"{level}.o").write_bytes(compile_object(ptx, ["saxpy", "smooth"], prefix="mix_", level=level))
        objects.append(f"{level}.o")
    (folder / "main.c").write_text(MAIN)
    runtime = sorted(SHIM.glob("interop_cpu*.c"))
    gcc(*FLAGS, "-fPIE", "-pie", "main.c", *objects, *runtime, "-lm", "-o", "program", cwd=folder)
    gcc(*FLAGS, "-fPIC", "-shared", "-Wl,-z,defs", *objects, *runtime, "-lm", "-o", "library.so", cwd=folder)
    return folder / "program"


@pytest.mark.parametrize(("index", "symbol"), [(0, "saxpy"), (1, "smooth"), (2, "saxpy"), (3, "smooth")])
def test_a_linked_kernel_gives_the_bits_of_the_jit_path(program: Path, index: int, symbol: str, tmp_path: Path) -> None:
    n = 5003
    rng = np.random.default_rng(index)
    x, y = rng.standard_normal(n, dtype=np.float32), rng.standard_normal(n, dtype=np.float32)
    (tmp_path / "in").write_bytes(x.tobytes() + y.tobytes())
    subprocess.run([program, str(index), tmp_path / "in", tmp_path / "out"], check=True, timeout=60)
    compile_kernel(cuda(SOURCE), symbol).launch(struct.pack("<QQfi", x.ctypes.data, y.ctypes.data, 1.7, n), 40, 128)
    assert np.array_equal(np.fromfile(tmp_path / "out", np.uint32), y.view(np.uint32))
    assert np.isfinite(y).all()


def test_the_stack_is_not_executable_and_libraries_load_twice(program: Path) -> None:
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    stack = next(line for line in headers.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack
    text = """import ctypes, _ctypes, sys
for _ in range(3):
    library = ctypes.CDLL(sys.argv[1])
    kernel = ctypes.c_char.in_dll(library, "mix_cpu_saxpy_x86_64_v3")
    x = (ctypes.c_float * 100000)(*[1.0] * 100000); y = (ctypes.c_float * 100000)(*[2.0] * 100000)
    class P(ctypes.Structure):
        _fields_ = [("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("a", ctypes.c_float), ("n", ctypes.c_int)]
    p = P(ctypes.addressof(x), ctypes.addressof(y), 3.0, 100000)
    three = ctypes.c_uint32 * 3
    status = library.mix_cpu_launch(ctypes.byref(kernel), ctypes.byref(p), ctypes.c_size_t(24), three(100000, 1, 1),
                                    three(1, 1, 1), 0, 4, None)
    assert status == 0 and y[99999] == 5.0
    _ctypes.dlclose(library._handle)
print("done")
"""
    import sys

    done = subprocess.run(
        [sys.executable, "-c", text, program.with_name("library.so")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "done\n", done.stderr


def test_the_same_input_gives_the_same_bytes_and_only_known_symbols(tmp_path: Path) -> None:
    ptx = cuda(SOURCE)
    first = compile_object(ptx, ["saxpy", "smooth"], prefix="mix_")
    assert first == compile_object(ptx, ["saxpy", "smooth"], prefix="mix_")
    (tmp_path / "k.o").write_bytes(first)
    listing = subprocess.run(["nm", tmp_path / "k.o"], capture_output=True, text=True, check=True).stdout
    defined = {line.split()[-1] for line in listing.splitlines() if line.split()[-2] in "BDRT"}
    undefined = {line.split()[-1] for line in listing.splitlines() if line.split()[-2] == "U"}
    assert defined == {record_symbol("mix_", s, "x86-64-v3") for s in ("saxpy", "smooth")}
    assert undefined <= {"mix_cpu_frame", "_GLOBAL_OFFSET_TABLE_", "memset", "memcpy"}


def test_bad_requests_are_refused() -> None:
    text = HEADER + ".visible .entry k() { ret; }"
    with pytest.raises(UnsupportedError, match="'x86-64-v9' is not an instruction-set level"):
        compile_object(text, ["k"], prefix="mix_", level="x86-64-v9")
    with pytest.raises(SymbolNotFound):
        compile_object(text, ["nope"], prefix="mix_")
    with pytest.raises(Error, match="names of one or more kernels"):
        compile_object(text, [], prefix="mix_")

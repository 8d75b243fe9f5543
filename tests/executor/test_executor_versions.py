"""Versions for several lanes in objects: the runtime takes what suits a block, with the bits of the JIT path, on two
threads, from C and from C++, and under the sanitizers."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from executor_harness import cuda

from interop.executor import compile_kernel, compile_object

SHIM = Path(__file__).resolve().parents[2] / "cpp_shim" / "src"
SOURCE = """
extern "C" __global__ void plain(const float *x, float *y, float a, int n) {
  int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; for (int k = 0; k < (i & 7); k++) v = v * a + y[i]; y[i] = __expf(-v * v) + v; } }
extern "C" __global__ void waiting(const float *x, float *y, float a, int n) {
  __shared__ float s[1024];
  int size = blockDim.x * blockDim.y, t = threadIdx.y * blockDim.x + threadIdx.x, i = blockIdx.x * size + t;
  s[t] = i < n ? x[i] : a;
  __syncthreads();
  for (int k = 1; k < 6; k++) { float v = s[(t + k) % size]; __syncthreads(); s[t] = s[t] * a + v; __syncthreads(); }
  if (i < n) y[i] = s[t]; }
extern "C" __global__ void together(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : a;
  for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
  if (i < n) y[i] = v; }
extern "C" __global__ void __launch_bounds__(1024) counting(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd((unsigned *)&y[i / 100], (unsigned)(x[i] > a)); y[n / 2 + i / 2] = x[i / 2 * 2]; } }
"""
SYMBOLS = ("plain", "waiting", "together", "counting")
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
N = 5003
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "interop_cpu.h"
#ifdef __cplusplus
extern "C" {
#endif
@DECLARE@
const interop_cpu_kernel *mix_cpu_version_for(const interop_cpu_kernel *kernel, const uint32_t block[3]);
#ifdef __cplusplus
}
#endif
enum { N = 5003 };
static float x[N], y[N];
int main(int argc, char **argv) {
    static const interop_cpu_kernel *const kernels[] = {@TABLE@};
    FILE *in = argc == 6 ? fopen(argv[4], "rb") : NULL, *out = argc == 6 ? fopen(argv[5], "wb") : NULL;
    if (in == NULL || out == NULL || fread(x, 4, N, in) != N || fread(y, 4, N, in) != N) return 2;
    const interop_cpu_kernel *kernel = kernels[atoi(argv[1])];
    const uint32_t block[3] = {(uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), 1};
    const uint32_t size = block[0] * block[1], grid[3] = {(N + size - 1) / size, 1, 1};
    struct { float *x, *y; float a; int n; } p = {x, y, 0.37f, N};
    interop_cpu_error error;
    if (mix_cpu_launch(kernel, &p, sizeof p, grid, block, 0, 2, &error)) {
        fprintf(stderr, "%s\\n", error.message);
        return 3;
    }
    const interop_cpu_kernel *version = mix_cpu_version_for(kernel, block);
    printf("%s %u\\n", version->symbol, version->lanes);
    return fwrite(y, 4, N, out) == N && fclose(in) == 0 && fclose(out) == 0 ? 0 : 4;
}
"""
BUILDS = {
    "c": ("gcc", "-std=c11", "-O2"),
    "cpp": ("g++", "-std=c++17", "-O2"),
    "address": ("gcc", "-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "thread": ("gcc", "-std=c11", "-O1", "-g", "-fsanitize=thread"),
}
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-DINTEROP_PREFIX=mix_", f"-I{SHIM}")
BLOCKS = [(256, 1), (100, 1), (16, 16), (8, 4), (48, 2), (24, 1), (33, 3), (7, 1), (2, 5), (1, 64), (40, 1), (32, 8)]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an object for each level and the main program's source."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("no gcc on this machine")
    folder = tmp_path_factory.mktemp("versions")
    names = []
    for level in LEVELS:
        (folder / f"{level}.o").write_bytes(compile_object(cuda(SOURCE), SYMBOLS, prefix="mix_", level=level))
        names += [f"mix_cpu_{symbol}_{level.replace('-', '_')}" for symbol in SYMBOLS]
    text = MAIN.replace("@DECLARE@", "".join(f"extern const interop_cpu_kernel {name};\n" for name in names))
    text = text.replace("@TABLE@", ", ".join(f"&{name}" for name in names))
    for name in ("main.c", "main.cpp"):
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def program(objects: Path) -> Callable[[str], Path]:
    """Builds the program in one of the ways, once."""

    def build(way: str) -> Path:
        path = objects / way
        if not path.exists():
            compiler, *flags = BUILDS[way]
            main = "main.cpp" if way == "cpp" else "main.c"
            run(compiler, *flags, *WARNINGS, "-c", main, "-o", f"main.{way}.o", cwd=objects)
            c_flags = [f for f in flags if f != "-std=c++17"]
            for source in sorted(SHIM.glob("interop_cpu*.c")):
                run("gcc", *c_flags, *WARNINGS, "-c", source, "-o", f"{source.stem}.{way}.o", cwd=objects)
            parts = [f"{source.stem}.{way}.o" for source in SHIM.glob("interop_cpu*.c")]
            levels = [f"{level}.o" for level in LEVELS]
            run(compiler, *flags, "-pthread", f"main.{way}.o", *parts, *levels, "-lm", "-o", path, cwd=objects)
        return path

    return build


def expected_lanes(symbol: str, level: str, block: tuple[int, int]) -> int:
    """Objects have versions for rows of whole strands of 8, 16 and 32 lanes, and one of 32 for all others."""
    if level == "x86-64-v2" or (symbol == "together" and block[0] % 32 and block[1] > 1):
        return 1
    if symbol == "together" or block[0] % 32 == 0 or block[0] > 64:
        return 32
    if block[0] % 16 == 0:
        return 16
    if block[0] % 8 == 0:
        return 8
    return 32 if block[0] > 2 else 1


def blocks(symbol: str) -> list[tuple[int, int]]:
    """Shuffles from threads that do not exist yield anything, so that there warps must be whole."""
    return [block for block in BLOCKS if symbol != "together" or block[0] * block[1] % 32 == 0]


def have(level: str) -> bool:
    flags = Path("/proc/cpuinfo").read_text().split()
    return {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}[level] in flags


def check(program: Path, level: str, symbol: str, block: tuple[int, int], folder: Path) -> None:
    rng = np.random.default_rng(block[0])
    x, y = rng.standard_normal(N, dtype=np.float32), rng.standard_normal(N, dtype=np.float32)
    if symbol == "counting":
        y.view(np.uint32)[:] = rng.integers(0, 1000, N)
    (folder / "in").write_bytes(x.tobytes() + y.tobytes())
    index = LEVELS.index(level) * len(SYMBOLS) + SYMBOLS.index(symbol)
    said = run(program, index, block[0], block[1], folder / "in", folder / "out", cwd=folder)
    assert said == f"{symbol} {expected_lanes(symbol, level, block)}\n"
    kernel = compile_kernel(cuda(SOURCE), symbol, checks=False)
    grid = -(-N // (block[0] * block[1]))
    kernel.launch(struct.pack("<QQfi", x.ctypes.data, y.ctypes.data, 0.37, N), grid, block)
    assert np.array_equal(np.fromfile(folder / "out", np.uint32), y.view(np.uint32)), (level, symbol, block)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_each_block_has_its_version_and_the_bits_of_the_jit_path(
    program: Callable[[str], Path], level: str, symbol: str, tmp_path: Path
) -> None:
    if not have(level):
        pytest.skip(f"this processor is none of {level}")
    for block in blocks(symbol):
        check(program("c"), level, symbol, block, tmp_path)


@pytest.mark.parametrize("way", ["cpp", "address", "thread"])
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_from_cpp_and_under_sanitizers(program: Callable[[str], Path], way: str, symbol: str, tmp_path: Path) -> None:
    for level in (level for level in LEVELS if have(level)):
        for block in blocks(symbol)[:3]:
            check(program(way), level, symbol, block, tmp_path)


def test_a_kernel_for_one_block_has_one_version(tmp_path: Path) -> None:
    source = 'extern "C" __global__ void __launch_bounds__(128) k(float *x) { x[threadIdx.x] += 1; }'
    text = cuda(source).replace(".maxntid 128", ".reqntid 128")
    assert ".reqntid" in text
    (tmp_path / "k.o").write_bytes(compile_object(text, ["k"], prefix="mix_"))
    listing = run("nm", "k.o", cwd=tmp_path)
    assert {line.split()[-1] for line in listing.splitlines() if "version." in line} == {"version.k.32w"}

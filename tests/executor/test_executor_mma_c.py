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


DRIVER = r"""#include <stdio.h>
#include <stdlib.h>
#include "interop_cpu_matrix.h"
/* Arguments in threes: the instruction, the row of the operands' addresses (-1: none), how many rows there are. */
int main(int count, char **arguments) {
    interop_cpu_block *block = calloc(1, sizeof *block);
    unsigned char *shared = aligned_alloc(128, 4096);
    uint32_t state = 12345, sum = 0;
    block->shared = shared;
    block->shared_bytes = 4096;
    for (int i = 0; i < 4096; i++) shared[i] = (unsigned char)(i * 37);
    for (int i = 1; i + 2 < count; i += 3) {
        const uint32_t code = (uint32_t)strtoul(arguments[i], NULL, 0);
        const int address = atoi(arguments[i + 1]), rows = atoi(arguments[i + 2]);
        interop_cpu_lanes *words = malloc((size_t)rows * sizeof *words);
        for (int r = 0; r < rows; r++)
            for (int lane = 0; lane < 32; lane++) {
                words[r].at[lane] = state >> 3;
                state = state * 1664525 + 1013904223;
            }
        const uint32_t operation = interop_cpu_matrix_field(code, 0, 4);
        const int same = operation == INTEROP_CPU_WMMA_LOAD || operation == INTEROP_CPU_WMMA_STORE;
        for (int lane = 0; address >= 0 && lane < 32; lane++) {
            interop_cpu_set_wide(words + address, (uint32_t)lane, (uintptr_t)shared + (same ? 0 : 16 * (unsigned)lane));
            if (same) words[address + 2].at[lane] = 32;
        }
        interop_cpu_matrix(block, code, 1, UINT32_MAX, words);
        for (int r = 0; r < rows; r++) for (int lane = 0; lane < 32; lane++) sum = sum * 31 + words[r].at[lane];
        free(words);
    }
    printf("%u\n", sum);
    free(shared);
    free(block);
    return 0; }
"""


def every_instruction() -> list[tuple[int, int, int]]:
    """All that matrix.py and wmma.py emit: the word, the row where an address stands or -1, and rows in all."""
    found = []
    large = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
    shapes = {
        Kind.F16: [(16, 8, 8), (16, 8, 16), *large],
        Kind.BF16: [(16, 8, 8), (16, 8, 16), *large],
        Kind.TF32: [(16, 8, 4), (16, 8, 8), (16, 16, 8)],
        Kind.F64: [(8, 8, 4)],
        Kind.INT8: [(8, 8, 16), (16, 8, 16), (16, 8, 32), *large],
        Kind.INT4: [(8, 8, 32), (16, 8, 32), (16, 8, 64)],
        Kind.B1: [(8, 8, 128), (16, 8, 128), (16, 8, 256)],
    }
    for kind, all_extents in shapes.items():
        for extents in all_extents:
            shape = Shape.of(extents, kind)
            wide = 2 if kind == Kind.F64 else 1
            a, b, c = (
                shape.rows * shape.depth * wide,
                shape.columns * shape.depth * wide,
                extents[0] * extents[1] // 32 * wide,
            )
            for flags in (Flag.NONE, Flag.A_SIGNED | Flag.B_SIGNED | Flag.SATURATE | Flag.BITS_AND):
                found.append((encode(Operation.MMA, kind, shape, flags), -1, 2 * c + a + b))
            if kind == Kind.F16:
                code = encode(Operation.MMA, kind, shape, Flag.C_HALF | Flag.D_HALF)
                found.append((code, -1, c + a + b))
            for role, used in ((0, a), (1, b)):
                for flag in (Flag.NONE, Flag.A_COLUMNS if role == 0 else Flag.B_ROWS):
                    if flag == Flag.NONE or kind not in (Kind.INT4, Kind.B1):
                        found.append((encode(Operation.WMMA_LOAD, kind, shape, flag, role), used, used + 3))
            element = kind if kind == Kind.F64 else Kind.WORD
            code = [encode(o, element, shape, f, 2) for o in (Operation.WMMA_LOAD, Operation.WMMA_STORE)
                    for f in (Flag.NONE, Flag.A_COLUMNS)]  # fmt: skip
            found += [(code[0], c, c + 3), (code[1], c, c + 3), (code[2], 0, c + 3), (code[3], 0, c + 3)]
    for flags in (Flag.NONE, Flag.A_COLUMNS | Flag.B_ROWS):
        found.append((encode(Operation.MMA, Kind.QUAD, Shape(1, 1, 1), flags), -1, 20))
        found.append((encode(Operation.MMA, Kind.QUAD, Shape(1, 1, 1), flags | Flag.C_HALF | Flag.D_HALF), -1, 12))
        for count in (1, 2, 4):
            flag = flags & Flag.A_COLUMNS
            found.append((encode(Operation.LDMATRIX, Kind.F16, Shape(1, 1, count), flag), count, count + 2))
            found.append((encode(Operation.STMATRIX, Kind.F16, Shape(1, 1, count), flag), 0, count + 2))
    found.append((encode(Operation.MOVMATRIX, Kind.F16, Shape(1, 1, 1)), -1, 2))
    return found


def test_no_instruction_leaves_its_fragments(tmp_path: Path) -> None:
    """Address and undefined-behaviour sanitizers, with and without AVX2; the results are the same."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    (tmp_path / "main.c").write_text(DRIVER)
    results = []
    for define in ([], ["-DINTEROP_CPU_PORTABLE"]):
        command = [
            "gcc", "-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread",
            f"-I{SHIM}", *define, "main.c", *map(str, sorted(SHIM.glob("interop_cpu*.c"))), "-lm", "-o", "program",
        ]  # fmt: skip
        built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        if "cannot find -lasan" in built.stderr or "libasan" in built.stderr:
            pytest.skip("gcc's sanitizers are not installed")
        assert built.returncode == 0, built.stderr
        words = [str(number) for instruction in every_instruction() for number in instruction]
        done = subprocess.run(["./program", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        results.append(done.stdout)
    assert results[0] == results[1] != ""

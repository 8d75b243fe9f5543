"""What is known of a register across the lanes of a strand holds for the values themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers
from hypothesis import given, settings
from hypothesis import strategies as st

from abi import ArgumentRangeError
from interop.executor import compile_kernel
from interop.executor.vector_kinds import (
    UNIFORM,
    VARYING,
    Affine,
    Kind,
    Widened,
    add,
    bitwise,
    extended,
    join,
    scaled,
    shifted_right,
    zeros_of,
)

MASK = 2**32 - 1
LANES = st.sampled_from([8, 16, 32])
STRIDES = st.sampled_from([0, 1, 2, 4, 12, 64, -4, 1 << 20, 1 << 27])
CONSTANTS = st.one_of(st.integers(0, MASK), st.sampled_from([0, 1, 12, 31, 96, 127, 128, 2**31, MASK, MASK - 31]))


def values(base: int, kind: Kind, lanes: int, bits: int = 32) -> list[int]:
    """Each lane's value: what the kind says of its base."""
    assert isinstance(kind, Affine) and base % (1 << min(kind.zeros, bits)) == 0
    return [(base + kind.stride * lane) % (1 << bits) for lane in range(lanes)]


def holds(found: Kind | None, wanted: list[int], lanes: int, bits: int = 32) -> None:
    """`wanted` is of the kind `found`, where that says anything."""
    if found in (None, VARYING):
        return
    assert wanted == values(wanted[0], found, lanes, bits)


@st.composite
def affine(draw: st.DrawFn) -> tuple[int, Affine]:
    zeros = draw(st.sampled_from([0, 2, 3, 4, 5, 7, 10, 31, 32, 64]))
    base = draw(st.integers(0, MASK)) >> min(zeros, 32) << zeros
    return base & MASK, Affine(draw(STRIDES), zeros)


@settings(max_examples=400)
@given(affine(), CONSTANTS, st.integers(0, 31), LANES)
def test_operations_with_constants(given_: tuple[int, Affine], constant: int, count: int, lanes: int) -> None:
    base, kind = given_
    before = values(base, kind, lanes)
    holds(bitwise("and", kind, constant, lanes), [v & constant for v in before], lanes)
    holds(bitwise("or", kind, constant, lanes), [v | constant for v in before], lanes)
    holds(bitwise("xor", kind, constant, lanes), [v ^ constant for v in before], lanes)
    holds(shifted_right(kind, count, lanes), [v >> count for v in before], lanes)
    holds(scaled(kind, constant), [v * constant & MASK for v in before], lanes)
    holds(add(kind, Affine(0, zeros_of(constant))), [(v + constant) & MASK for v in before], lanes)
    holds(add(Affine(0, zeros_of(constant)), kind, -1), [(constant - v) & MASK for v in before], lanes)
    signed = [v - (v >> 31 << 32) for v in before]
    holds(shifted_right(kind, count, lanes), [v >> count & MASK for v in signed], lanes)
    for widened, wide in ((before, extended(kind, False, lanes)), (signed, extended(kind, True, lanes))):
        if isinstance(wide, Affine):
            holds(wide, [v % 2**64 for v in widened], lanes, 64)
        else:
            assert isinstance(wide, Widened) or wide == VARYING


def test_what_a_thread_index_is_good_for() -> None:
    tid = Affine(1, 5)
    assert bitwise("and", tid, 127, 32) == Affine(1) and bitwise("and", tid, 96, 32) == UNIFORM
    assert bitwise("and", Affine(4, 7), 1020, 32) == Affine(4)
    assert bitwise("and", tid, 12, 32) is None and bitwise("or", tid, 128, 32) == Affine(1)
    assert shifted_right(tid, 5, 32) == UNIFORM and shifted_right(scaled(tid, 4), 2, 32) == Affine(1)
    assert extended(add(Affine(0, 5), tid), True, 32) == Affine(1)
    assert isinstance(extended(add(Affine(0, 4), tid), True, 32), Widened)
    assert join(Affine(1, 5), Affine(1, 3)).zeros == 3  # type: ignore[union-attr]


INDICES: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    ("and.b32 %v, %t, 127;", lambda t: t & 127),
    ("and.b32 %v, %t, 12;", lambda t: t & 12),
    ("and.b32 %v, %t, 96;", lambda t: t & 96),
    ("shr.u32 %v, %t, 5;", lambda t: t >> 5),
    ("shr.u32 %v, %t, 3; and.b32 %v, %v, 12;", lambda t: t >> 3 & 12),
    ("or.b32 %v, %t, 256; xor.b32 %v, %v, 64;", lambda t: (t | 256) ^ 64),
    ("shl.b32 %v, %t, 3; shr.u32 %v, %v, 2;", lambda t: t << 3 >> 2),
    ("mul.lo.u32 %v, %n, 3; add.u32 %v, %v, %t; and.b32 %v, %v, 1023;", lambda t: (3 * (t.max() + 1) + t) & 1023),
    ("mov.u32 %v, %t; setp.lt.u32 %p, %n, 40; @%p or.b32 %v, %v, 4096;", lambda t: t | (4096 if len(t) < 40 else 0)),
]


@pytest.mark.parametrize("lanes", [1, 8, 16, 32, None])
@pytest.mark.parametrize("block", [32, 64, 96, 256, 8, 16, 48, 33, 40, 100, 7])
def test_addresses_made_of_thread_indices(lanes: int | None, block: int) -> None:
    """Stores a value to its own place, for rows of whole strands and others."""
    body = ""
    for number, (text, _) in enumerate(INDICES):
        body += f"{text} st.global.u32 [%a+{number * 4096}], %v;\n"
    text = f"""{HEADER}.visible .entry k(.param .u64 out) {{
.reg .u32 %t, %v, %n; .reg .u64 %a, %w; .reg .pred %p;
ld.param.u64 %a, [out]; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mul.wide.u32 %w, %t, 4; add.u64 %a, %a, %w;
{body} ret; }}"""
    out = np.full((len(INDICES), 1024), 0xA5A5A5A5, np.uint32)
    compile_kernel(text, "k", lanes=lanes).launch(pointers(out), 1, block)
    thread = np.arange(block, dtype=np.uint32)
    for row, (line, function) in zip(out, INDICES):
        assert np.array_equal(row[:block], function(thread)), line
        assert (row[block:] == 0xA5A5A5A5).all()


@pytest.mark.parametrize("symbol", [
    "saxpy", "saxpy_stride", "stencil", "block_sum", "matmul_tiles", "histogram", "barriers", "shuffles", "mandelbrot",
])  # fmt: skip
def test_kernels_of_the_benchmark_have_vectors(symbol: str) -> None:
    """Loops that lanes leave at different times end in front of a barrier, and the kernel in such a loop."""
    source = Path(__file__).resolve().parents[2] / "benchmarks" / "cpu_bench" / "kernels.cu"
    assert compile_kernel(cuda(source.read_text()), symbol, lanes=32).param_bytes > 0


def test_the_runtime_refuses_a_block_that_the_code_is_not_for() -> None:
    kernel = compile_kernel(f"{HEADER}.visible .entry k() {{ ret; }}", "k", lanes=32)
    kernel.launch(b"", 1, 64)
    kernel._chosen[33, 1, 1] = kernel._chosen[64, 1, 1]
    with pytest.raises(ArgumentRangeError, match="rows of a multiple of 32 threads, not of 33"):
        kernel.launch(b"", 1, 33)

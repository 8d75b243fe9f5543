"""Kernels that use dynamic shared memory: found in the image, and never launched without somebody saying how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interop as io
from interop.importing.dynamic_shared import dynamic_shared

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
ARRAY = ".extern .shared .align 16 .b8 s[];\n"
USE = "{ .reg .b64 %r; mov.u64 %r, s; ret; }"
TEXTS = {
    "a kernel itself": (ARRAY + f".entry f() {USE} .entry g() {{ ret; }}", {"f"}),
    "nobody": (ARRAY + ".entry f() { ret; } .entry g() { ret; }", set()),
    "not declared": (".shared .b8 s[4];\n" + f".entry f() {USE} .entry g() {USE}", set()),
    "an array of no elements": (".shared .align 4 .b8 s[0];\n" + f".entry f() {USE} .entry g() {{ ret; }}", {"f"}),
    "a function of a function": (
        ARRAY + f".func c() {USE} .func b() {{ call c; ret; }} .entry f() {{ ret; }} .entry g() {{ call b; ret; }}",
        {"g"},
    ),
    "recursion": (ARRAY + ".func b() { call b; ret; } .entry f() { call b; ret; } .entry g() { ret; }", set()),
    "a table of functions": (
        ARRAY + f".func c() {USE} .global .u64 table[1] = {{c}};\n"
        ".entry f() { .reg .b64 %r; mov.u64 %r, table; ret; } .entry g() { ret; }",
        {"f"},
    ),
    "its own declaration": (
        ".entry f() { .extern .shared .align 4 .b8 own[]; .reg .b64 %r; mov.u64 %r, own; ret; } .entry g() { ret; }",
        {"f"},
    ),
    "inside a block": (ARRAY + f".entry f() {{ {USE} }} .entry g() {{ ret; }}", {"f"}),
    "text that the reader does not know": (ARRAY + f".entry f() {USE} .entry g() {{ new.thing ??; }}", {"f", "g"}),
}


@pytest.mark.parametrize("case", TEXTS)
def test_which_kernels_use_it(case: str) -> None:
    text, expected = TEXTS[case]
    assert dynamic_shared(HEAD + text, ["f", "g"]) == expected


SOURCE = r"""
extern "C" __global__ void mirror(float *y, int n)
{
    extern __shared__ float s[];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    y[i] = s[n - 1 - i];
}
extern "C" __global__ void plain(float *y) { y[threadIdx.x] += 1; }
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


def test_the_call_must_say_how_much(module: Any) -> None:
    assert module.mirror.program().kernel.launch.shared == ""
    assert module.plain.program().kernel.launch.shared == "0"
    y = np.arange(4, dtype=np.float32)
    with pytest.raises(io.ArgumentTypeError) as caught:
        module.mirror[1, 4](y, 4)
    assert str(caught.value) == (
        "mirror: its description has no rule for dynamic shared memory, so the call must give it: "
        "kernel[grid, block, stream, shared](...), or its declaration: shared=..."
    )
    assert np.array_equal(y, np.arange(4))
    module.mirror[1, 4, None, 16](y, 4)
    assert np.array_equal(y, np.arange(4)[::-1])
    module.plain[1, 4](y)
    assert np.array_equal(y, np.arange(4)[::-1] + 1)


def test_a_declaration_may_give_the_rule(module: Any) -> None:
    @io.foreign(module, block=64, grid="1")
    def mirror(y: io.InOut[io.f32], n: io.i32): ...

    @io.foreign(module, "mirror", block=64, grid="1", shared="4 * n")
    def ruled(y: io.InOut[io.f32], n: io.i32): ...

    assert mirror.program().kernel.launch.shared == ""
    y = np.random.default_rng().standard_normal(64, np.float32)
    expected = y[::-1].copy()
    with pytest.raises(io.ArgumentTypeError, match="no rule for dynamic shared memory"):
        mirror(y, 64)
    ruled(y, 64)
    assert np.array_equal(y, expected)

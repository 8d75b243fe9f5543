"""What generated kernels found in the vector path, each as the smallest kernel that shows it."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, pointers

from interop.executor import compile_kernel

LANES = [1, 8, 16, 32]


def results(body: str, lanes: int, threads: int = 64) -> list[int]:
    """A word of each thread, %d, made from its number %t and its element %x of an array of noise."""
    out = np.full(threads, 0xDEADBEEF, np.uint32)
    noise = np.random.default_rng(7).integers(0, 1 << 32, threads, dtype=np.uint32)
    text = f"""{HEADER}.visible .entry k(.param .u64 x, .param .u64 out) {{
        .reg .b64 %a, %o; .reg .b32 %t, %x, %d, %r<9>;
        .reg .pred %p<4>; mov.u32 %t, %tid.x; ld.param.u64 %a, [x]; ld.param.u64 %o, [out];
        mad.wide.u32 %a, %t, 4, %a; mad.wide.u32 %o, %t, 4, %o; ld.global.u32 %x, [%a];
        {body} st.global.u32 [%o], %d; ret; }}"""
    compile_kernel(text, "k", lanes=lanes).launch(pointers(noise, out), 1, threads)
    return [int(v) for v in out]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("body", ["mad.hi.s32 %d, %x, 0, %t;", "mul.lo.u32 %d, %x, 0;", "mad.lo.s32 %d, 0, %x, %t;"])
def test_products_with_zero(body: str, lanes: int) -> None:
    assert results(body, lanes) == (list(range(64)) if "%t" in body else [0] * 64)


@pytest.mark.parametrize("lanes", [1, 32])
def test_an_affine_value_is_shuffled_over_a_distance_of_each_lane(lanes: int) -> None:
    got = results("and.b32 %r0, %x, 31; shfl.sync.idx.b32 %d, %t, %r0, 31, -1;", lanes)
    noise = np.random.default_rng(7).integers(0, 1 << 32, 64, dtype=np.uint32)
    assert got == [t // 32 * 32 + int(noise[t]) % 32 for t in range(64)]

"""Loops whose end stands in front of their beginning in the text, as LLVM lays some of them out."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, pointers

from interop.executor import compile_kernel

LOOP = """.visible .entry k(.param .u64 out) {
.reg .pred %p, %q; .reg .b32 %t, %k, %v, %m; .reg .b64 %a;
mov.u32 %t, %tid.x; ld.param.u64 %a, [out]; mad.wide.u32 %a, %t, 4, %a; mov.u32 %k, %t; bra.uni head;
latch: st.global.u32 [%a], %v; add.s64 %a, %a, 128; add.u32 %k, %k, 32; setp.lt.u32 %q, %k, 96;
@%q bra head; bra.uni done;
head: and.b32 %m, %k, 7; setp.eq.u32 %p, %m, 0; mov.u32 %v, 1000; @%p bra latch; mad.lo.u32 %v, %k, 3, 7; bra.uni latch;
done: BAR ret; }"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_the_end_of_a_loop_in_front_of_its_beginning(barrier: str) -> None:
    kernel = compile_kernel(HEADER + LOOP.replace("BAR", barrier), "k")
    k = np.arange(96)
    for block in (32, 7):  # a row that makes strands, and one that does not
        out = np.full(96, 7, np.uint32)
        kernel.launch(pointers(out), 1, block)
        wanted = np.where(k % 8 == 0, 1000, 3 * k + 7)
        assert np.array_equal(out, np.where(k % 32 < block, wanted, 7))

"""`exit` behind a trap, which is how LLVM ends code that is never reached: it is no way out of a function."""

from __future__ import annotations

import math

import numpy as np
import pytest
from executor_harness import pointers, run

from abi import ExecutionError

FACTORIAL = """.func (.param .b32 r) factorial(.param .b32 n) {
.reg .b32 %n, %m; .reg .pred %p; ld.param.u32 %n, [n];
setp.gt.u32 %p, %n, 12; @%p bra over; setp.lt.u32 %p, %n, 2; @%p bra one;
{ .param .b32 a, b; sub.u32 %m, %n, 1; st.param.b32 [a], %m; call.uni (b), factorial, (a); ld.param.b32 %m, [b]; }
mul.lo.u32 %n, %n, %m; st.param.b32 [r], %n; ret;
one: st.param.b32 [r], 1; ret;
over: TRAP
}
.visible .entry k(.param .u64 out, .param .u64 of) { .reg .b64 %o; .reg .b32 %t, %r;
ld.param.u64 %o, [of]; cvt.u32.u64 %r, %o; mov.u32 %t, %tid.x; add.u32 %t, %t, %r;
{ .param .b32 a, b; st.param.b32 [a], %t; call.uni (b), factorial, (a); ld.param.b32 %r, [b]; }
ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %r; ret; }"""


def test_exit_behind_a_trap_in_a_recursive_function() -> None:
    out = np.full(8, 7, np.uint32)
    text = FACTORIAL.replace("TRAP", "trap; exit;")
    run(text, "k", pointers(out, 3), 1, 8)
    assert out.tolist() == [6, 24, 120, 720, 5040, 40320, 362880, 3628800]
    with pytest.raises(ExecutionError, match=r"trap.*thread \(7, 0, 0\)"):
        run(text, "k", pointers(out, 6), 1, 8)


def test_exit_in_a_recursive_function_ends_the_thread() -> None:
    out = np.full(8, 0xA5A5A5A5, np.uint32)
    run(FACTORIAL.replace("TRAP", "exit;"), "k", pointers(out, 9), 1, 8)
    assert out.tolist() == [math.factorial(n) for n in range(9, 13)] + [0xA5A5A5A5] * 4


@pytest.mark.parametrize("end", ["@%p trap; exit;", "trap; on: exit;"])
def test_a_trap_in_front_of_an_exit_that_may_run(end: str) -> None:
    out = np.full(8, 0xA5A5A5A5, np.uint32)
    text = FACTORIAL.replace("TRAP", end)
    run(text, "k", pointers(out, 5), 1, 8)
    assert out.tolist() == [math.factorial(n) for n in range(5, 13)]
    if end.startswith("trap"):
        with pytest.raises(ExecutionError, match="trap"):
            run(text, "k", pointers(out, 9), 1, 8)

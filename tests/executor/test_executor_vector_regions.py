"""Control flow of the vector path: regions that touch, loops whose text runs backwards, lanes that leave."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, pointers

from interop.executor import compile_kernel

HEAD = """.visible .entry k(.param .u64 out) {
.reg .b64 %rd<4>; .reg .b32 %r<12>; .reg .pred %p<6>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0; and.b32 %r1, %r0, 7;
mov.u32 %r2, 0; mov.u32 %r3, 0;
"""
TAIL = "st.global.u32 [%rd1], %r3; ret; }"

# A loop that lanes leave at different times, and right behind it another one.
TWO_LOOPS = """
A: setp.ge.u32 %p0, %r2, %r1; @%p0 bra B; add.u32 %r3, %r3, 10; add.u32 %r2, %r2, 1; bra A;
B: setp.eq.u32 %p1, %r2, 0; @%p1 bra C; add.u32 %r3, %r3, 1; sub.u32 %r2, %r2, 1; bra B;
C:
"""
# The end of the loop stands in front of its beginning, as LLVM writes it.
BACKWARDS = """
bra HEAD;
LATCH: add.u32 %r2, %r2, 1; setp.le.u32 %p2, %r2, %r1; @%p2 bra HEAD; bra DONE;
HEAD: and.b32 %r4, %r2, 1; setp.eq.u32 %p3, %r4, 0; @%p3 bra LATCH; add.u32 %r3, %r3, 11; bra LATCH;
DONE: sub.u32 %r3, %r3, 0;
"""
# Lanes go around again from two places.
TWICE = """
TOP: setp.gt.u32 %p0, %r2, %r1; @%p0 bra END; add.u32 %r2, %r2, 1; and.b32 %r4, %r2, 1; setp.eq.u32 %p1, %r4, 0;
@%p1 bra TOP; add.u32 %r3, %r3, 11; bra TOP;
END: sub.u32 %r3, %r3, 0;
"""


def _odd(limit: int) -> int:
    return sum(11 for k in range(1, limit + 1) if k % 2)


@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (TWO_LOOPS, lambda t: 11 * (t % 8)),
        (BACKWARDS, lambda t: _odd(t % 8)),
        (TWICE, lambda t: _odd(t % 8 + 1)),
        (TWO_LOOPS + TWICE.replace("%r3, 11", "%r3, 0"), lambda t: 11 * (t % 8)),
    ],
    ids=["two loops", "backwards", "twice", "three loops"],
)
def test_loops(lanes: int, body: str, wanted: object) -> None:
    out = np.full(96, 0xA5A5A5A5, np.uint32)
    compile_kernel(HEADER + HEAD + body + TAIL, "k", lanes=lanes).launch(pointers(out), 1, 96)
    assert out.tolist() == [wanted(t) for t in range(96)]  # type: ignore[operator]


@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_a_loop_that_lanes_leave_together_with_the_kernel(lanes: int) -> None:
    body = """A: add.u32 %r2, %r2, 1; add.u32 %r3, %r3, 3; st.global.u32 [%rd1], %r3; setp.gt.u32 %p0, %r2, %r1;
    @%p0 bra E; bra A; E: ret; }"""
    out = np.full(96, 0xA5A5A5A5, np.uint32)
    compile_kernel(HEADER + HEAD + body, "k", lanes=lanes).launch(pointers(out), 1, 96)
    assert out.tolist() == [3 * (t % 8 + 1) for t in range(96)]

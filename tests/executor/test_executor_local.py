"""Local memory that is addressed in 32 bits: a window, in which both widths of address are offsets."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import pointers, run

from abi import UnsupportedError

WINDOW = """.visible .entry k(.param .u64 out) {
.local .align 8 .b8 first[12]; .local .align 16 .b8 second[16];
.reg .b32 %short, %r<8>; .reg .b64 %wide, %o; .reg .pred %p;
mov.u32 %r0, %tid.x; mad.lo.u32 %r1, %r0, 16, 0; ld.param.u64 %o, [out]; mad.wide.u32 %o, %r0, 16, %o;
st.local.u32 [first+8], %r0;                        // by name
mov.b32 %short, second; st.local.v2.u32 [%short+8], {%r1, %r0};
add.u32 %short, %short, 4; BAR
ld.local.u32 %r2, [%short+4]; ld.local.u32 %r3, [second+12]; st.global.v2.u32 [%o], {%r2, %r3};
cvt.u64.u32 %wide, %short; ld.local.u32 %r4, [%wide+8]; // 64 bits wide, but still in .local
cvta.local.u64 %wide, %wide; st.u32 [%wide+8], 77;      // generic
ld.local.u32 %r5, [second+12]; isspacep.local %p, %wide; @%p add.u32 %r5, %r5, 1;
cvta.to.local.u64 %wide, %wide; cvt.u32.u64 %r6, %wide; sub.u32 %r6, %r6, %short; add.u32 %r5, %r5, %r6;
ld.local.u32 %r7, [first+8]; add.u32 %r4, %r4, %r7; st.global.v2.u32 [%o+8], {%r4, %r5}; ret; }"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_short_addresses_of_local_variables(barrier: str) -> None:
    out = np.full((70, 4), 0xA5A5A5A5, np.uint32)
    run(WINDOW.replace("BAR", barrier), "k", pointers(out), 1, 70)
    thread = np.arange(70)
    assert np.array_equal(out, np.stack([16 * thread, thread, 2 * thread, np.full(70, 78)], axis=1))


def test_short_addresses_do_not_leave_the_kernel() -> None:
    text = """.func f() { ret; }
    .entry k() { .local .b32 x; .reg .b32 %r; mov.u32 %r, x; st.local.u32 [%r], 1; call f; ret; }"""
    with pytest.raises(UnsupportedError, match=r"line 5.*mov\.u32 %r, x.*32-bit address of a \.local"):
        run(text, "k", b"")


ALIAS = """.visible .entry k(.param .u64 out) {
.local .align 8 .b8 l[16]; .reg .b32 %t, %r<3>; .reg .b64 %a, %o;
mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 8, %o;
st.local.u32 [l+8], %t; mov.u64 %a, l; MAKE
st.SPACE.u32 [%a+8], 77; ld.local.u32 %r1, [l+8];            // what is stored through an address is seen by name
st.local.u32 [l+8], 5; BAR atom.SPACE.add.u32 %r2, [%a+8], %t; ld.local.u32 %r2, [l+8];
st.global.v2.u32 [%o], {%r1, %r2}; ret; }"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
@pytest.mark.parametrize("space", [".local", ""])
def test_computed_addresses_of_local_variables_are_theirs(space: str, barrier: str) -> None:
    out = np.full((70, 2), 0xA5A5A5A5, np.uint32)
    text = ALIAS.replace("MAKE", "" if space else "cvta.local.u64 %a, %a;").replace("BAR", barrier)
    if space:  # atomics take no local memory
        text = text.replace("atom.SPACE.add.u32 %r2, [%a+8], %t", "add.u32 %r0, %t, 5; st.local.u32 [%a+8], %r0")
    run(text.replace(".SPACE", space), "k", pointers(out), 1, 70)
    assert np.array_equal(out, np.stack([np.full(70, 77), np.arange(70) + 5], axis=1))

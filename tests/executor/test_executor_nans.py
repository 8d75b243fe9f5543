"""The NaN of f32 arithmetic: the hardware's wherever its bits show, and payloads kept where nothing is computed."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, pointers

from interop import ptx
from interop.executor import compile_kernel
from interop.executor.analysis import instructions
from interop.executor.nans import ANY, MEND, mend

PAYLOAD = 0x7FC12345
CANONICAL = 0x7FFFFFFF

KERNEL = """.visible .entry k(.param .u64 x, .param .u64 y) {
.reg .u64 %x, %y; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<3>;
ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
BODY
ret; }"""


def run(body: str, *inputs: int, count: int = 1) -> list[int]:
    """What a body with the inputs' addresses in %x and outputs in %y stores."""
    x, y = np.array(inputs, np.uint32), np.full(count, 0xA5A5A5A5, np.uint32)
    compile_kernel(HEADER + KERNEL.replace("BODY", body), "k").launch(pointers(x, y), 1, 1)
    return [int(v) for v in y]


LOAD = "ld.global.f32 %f0, [%x]; ld.global.f32 %f1, [%x+4];\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # What is computed is mended where it is stored, moved, chosen, packed, looked at.
        ("add.f32 %f2, %f0, %f1; st.global.f32 [%y], %f2;", CANONICAL),
        ("add.f32 %r2, %f0, %f1; st.global.b32 [%y], %r2;", CANONICAL),
        ("mul.f32 %f2, %f0, %f1; mov.b32 %r1, %f2; st.global.u32 [%y], %r1;", CANONICAL),
        ("mul.f32 %f2, %f0, %f1; mov.b32 %r1, %f2; and.b32 %r2, %r1, -1; st.global.u32 [%y], %r2;", CANONICAL),
        ("neg.f32 %f2, %f0; mov.b64 %d0, {%f2, %f1}; cvt.u32.u64 %r1, %d0; st.global.u32 [%y], %r1;", CANONICAL),
        ("fma.rn.f32 %f2, %f0, %f1, %f1; mov.f32 %f3, %f2; mov.f32 %f4, %f3; st.global.f32 [%y], %f4;", CANONICAL),
        ("neg.f32 %f2, %f0; setp.gt.f32 %p0, %f1, 0f00000000; selp.f32 %f3, %f2, %f1, %p0; st.global.f32 [%y], %f3;",
         CANONICAL),
        ("mov.f32 %f2, 0f00000000; mov.u32 %r0, 0;\\nL: add.f32 %f3, %f2, %f0; mov.f32 %f2, %f3; add.u32 %r0, %r0, 1;"
         "setp.lt.u32 %p0, %r0, 9; @%p0 bra L; st.global.f32 [%y], %f2;", CANONICAL),
        ("{ .reg .f32 t; abs.f32 t, %f0; st.global.f32 [%y], t; }", CANONICAL),
        ("sqrt.rn.f32 %f2, 0fBF800000; st.global.f32 [%y], %f2;", CANONICAL),
        ("add.f32 %f2, %f0, %f1; cvt.f64.f32 %d0, %f2; mov.b64 {%r0, %r1}, %d0; st.global.u32 [%y], %r1;", CANONICAL),
        # A register that also gets what is only copied: the payload of one, the hardware's NaN of the other.
        ("mov.f32 %f2, %f0; setp.lt.f32 %p0, %f1, 0f00000000; @%p0 add.f32 %f2, %f0, %f1; st.global.f32 [%y], %f2;",
         PAYLOAD),
        ("mov.f32 %f2, %f0; setp.gt.f32 %p0, %f1, 0f00000000; @%p0 add.f32 %f2, %f0, %f1; st.global.f32 [%y], %f2;",
         CANONICAL),
        # What nothing computes keeps its bits.
        ("st.global.f32 [%y], %f0;", PAYLOAD),
        ("mov.f32 %f2, %f0; mov.b32 %r0, %f2; st.global.u32 [%y], %r0;", PAYLOAD),
        ("mov.f32 %f2, 0f7FC12345; st.global.f32 [%y], %f2;", PAYLOAD),
        ("setp.gt.f32 %p0, %f1, 0f00000000; selp.f32 %f3, %f0, %f1, %p0; st.global.f32 [%y], %f3;", PAYLOAD),
    ],
)  # fmt: skip
def test_bits_of_a_nan(body: str, expected: int) -> None:
    one = int(np.float32(1).view(np.uint32))
    assert run(LOAD + body.replace("\\n", "\n"), PAYLOAD, one) == [expected]


def test_calls_get_and_give_the_hardwares_nan() -> None:
    text = HEADER + """
    .func (.reg .b32 r) bits(.reg .f32 a) { mov.b32 r, a; ret; }
    .func (.param .f32 r) twice(.param .f32 a) {
      .reg .f32 %a, %b; ld.param.f32 %a, [a]; add.f32 %b, %a, %a; st.param.f32 [r], %b; ret; }
    """ + KERNEL.replace("BODY", LOAD + """
    add.f32 %f2, %f0, %f1; call (%r0), bits, (%f2); st.global.u32 [%y], %r0;
    { .param .f32 p; .param .f32 q; st.param.f32 [p], %f0; call (q), twice, (p); ld.param.f32 %f3, [q]; }
    st.global.f32 [%y+4], %f3;""")  # fmt: skip
    x, y = np.array([PAYLOAD, 0], np.uint32), np.full(2, 0xA5A5A5A5, np.uint32)
    compile_kernel(text, "k").launch(pointers(x, y), 1, 1)
    assert y.tolist() == [CANONICAL, CANONICAL]


def test_chains_of_arithmetic_are_mended_once() -> None:
    body = (
        LOAD
        + """mov.f32 %f2, 0f00000000; mov.u32 %r0, 0;
    L: fma.rn.f32 %f3, %f0, %f1, %f2; mul.f32 %f2, %f3, %f0; add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 9; @%p0 bra L;
    st.global.f32 [%y], %f2; st.global.u32 [%y+4], %r0;"""
    )
    module = mend(ptx.parse(HEADER + KERNEL.replace("BODY", body)))
    found = list(instructions(module.entries["k"].body or ()))
    assert [i.opcode for i in found].count(MEND) == 1
    at = next(k for k, i in enumerate(found) if i.opcode == MEND)
    assert found[at + 1].opcode == "st" and found[at].operands == found[at + 1].operands[1:]
    assert [ANY in i.modifiers for i in found if i.opcode in ("fma", "mul")] == [True, True]
    assert not any(ANY in i.modifiers for i in found if i.opcode == "add")


def test_integers_are_left_alone() -> None:
    body = "mov.b32 %r0, 0; mov.b32 %r1, %r0; add.u32 %r2, %r1, 1; st.global.u32 [%y], %r2;"
    text = HEADER + KERNEL.replace("BODY", body)
    assert mend(ptx.parse(text)).entries["k"].body == ptx.parse(text).entries["k"].body

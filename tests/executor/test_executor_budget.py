"""Kernels that do not end: a time budget stops them and says where they were; a flag of another thread stops them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers

from abi import ArgumentRangeError, ExecutionError
from interop.executor import compile_kernel

REGISTERS = ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;"


def kernel(body: str, params: str = ".param .u64 x") -> str:
    """A kernel whose body begins in line 5."""
    return f"{HEADER}.visible .entry k({params}) {{ {REGISTERS}\n{body}\nret; }}"


ENDLESS = {
    "empty": "LOOP:\nbra LOOP;",
    "arithmetic": "mov.u32 %r0, 1; LOOP:\nadd.u32 %r0, %r0, 3; setp.ne.u32 %p0, %r0, %r1; @!%p0 bra LOOP;\nbra LOOP;",
    "stores": "ld.param.u64 %rd0, [x]; LOOP:\nadd.u32 %r0, %r0, 1; st.global.u32 [%rd0], %r0; bra.uni LOOP;",
    "switch": "mov.u32 %r0, 0; LOOP:\nts: .branchtargets LOOP, LOOP; brx.idx %r0, ts;",
    "nested": "OUTER: mov.u32 %r0, 0; INNER: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 5;\n@%p0 bra INNER; bra OUTER;",
    "called": ".reg .b32 t; call f, ();",
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_kernel_ends_with_its_budget(name: str, threads: int) -> None:
    text = kernel(ENDLESS[name]).replace(HEADER, HEADER + ".func f() { LOOP: bra LOOP; } ")
    x = np.zeros(4, np.uint32)
    start = time.monotonic()
    with pytest.raises(ExecutionError) as error:
        compile_kernel(text, "k").launch(pointers(x), 4, 32, threads=threads, budget=0.15)
    taken = time.monotonic() - start
    assert 0.14 < taken < 2
    assert str(error.value).startswith(
        "k: did not end within its time budget of 0.15 s; one thread is in a loop (ptx line"
    )
    assert ", thread (0, 0, 0)" in str(error.value)


def test_the_budget_says_where_the_other_threads_wait() -> None:
    body = """mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 5; @%p0 bra WAIT;
LOOP: add.u32 %r1, %r1, 1; bra LOOP;
WAIT: bar.sync 0;"""
    with pytest.raises(ExecutionError) as error:
        compile_kernel(kernel(body), "k").launch(pointers(0), 1, 64, budget=0.1)
    assert str(error.value) == (
        "k: did not end within its time budget of 0.1 s; one thread is in a loop (ptx line 6), 5 threads, from "
        "(0, 0, 0) on, at barrier 0 (ptx line 7); 58 can go on, block (0, 0, 0), thread (5, 0, 0)"
    )


def test_a_loop_that_waits_for_memory_ends_with_its_budget() -> None:
    x = np.zeros(1, np.uint32)
    body = "ld.param.u64 %rd0, [x]; LOOP:\nld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra LOOP;"
    with pytest.raises(ExecutionError) as error:
        compile_kernel(kernel(body), "k").launch(pointers(x), 1, 64, budget=0.1)
    assert "did not end within its time budget of 0.1 s" in str(error.value) and "(ptx line 6)" in str(error.value)


def test_many_short_blocks_end_with_the_budget_as_well() -> None:
    """No loop anywhere: the launch is cut between blocks."""
    x = np.zeros(1, np.uint64)
    text = kernel("ld.param.u64 %rd0, [x]; atom.global.add.u64 %rd1, [%rd0], 1;")
    start = time.monotonic()
    with pytest.raises(ExecutionError, match=r"k: did not end within its time budget of 0\.05 s$"):
        compile_kernel(text, "k").launch(pointers(x), (2**31 - 1, 60000), 64, threads=2, budget=0.05)
    assert time.monotonic() - start < 2 and x[0] > 0


def test_a_launch_within_its_budget_succeeds() -> None:
    x = np.zeros(1, np.uint64)
    launched = compile_kernel(kernel("ld.param.u64 %rd0, [x]; red.global.add.u64 [%rd0], 1;"), "k")
    for budget in (30.0, 1e9, 5):
        launched.launch(pointers(x), 100, 32, budget=budget)
    assert x[0] == 9600
    with pytest.raises(ArgumentRangeError, match="a time budget of -1 s is not possible"):
        launched.launch(pointers(x), 1, 1, budget=-1)
    with pytest.raises(ArgumentRangeError, match="a time budget of nan s is not possible"):
        launched.launch(pointers(x), 1, 1, budget=float("nan"))


def test_the_environment_gives_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = compile_kernel(kernel(ENDLESS["empty"]), "k")
    monkeypatch.setenv("INTEROP_CPU_BUDGET_SECONDS", "0.1")
    with pytest.raises(ExecutionError, match=r"time budget of 0\.1 s"):
        launched.launch(pointers(0), 1, 1)
    with pytest.raises(ExecutionError, match=r"time budget of 0\.05 s"):
        launched.launch(pointers(0), 1, 1, budget=0.05)
    monkeypatch.setenv("INTEROP_CPU_BUDGET_SECONDS", "soon")
    with pytest.raises(ArgumentRangeError, match="INTEROP_CPU_BUDGET_SECONDS is a number of seconds, not 'soon'"):
        launched.launch(pointers(0), 1, 1)


def test_the_source_line_of_the_loop_is_named() -> None:
    source = """extern "C" __global__ void spin(volatile int* x, int n) {
  int i = n;
  while (i != 1)
    i = i * 2 + 4;
  *x = i;
}"""
    x = np.zeros(1, np.int32)
    with pytest.raises(ExecutionError, match=r"in a loop \(ptx line \d+, \S*test\.cu:[34]\)"):
        compile_kernel(cuda(source, "-lineinfo"), "spin").launch(
            pointers(x) + (4).to_bytes(4, "little"), 1, 1, budget=0.1
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadlock_names_the_source_lines(threads: int) -> None:
    source = """extern "C" __global__ void stuck(int* x) {
  if (threadIdx.x < 3)
    asm volatile("bar.sync 1, 64;");
  else
    asm volatile("bar.sync 2, 64;");
  x[threadIdx.x] = 1;
}"""
    x = np.zeros(64, np.int32)
    with pytest.raises(ExecutionError) as error:
        compile_kernel(cuda(source, "-lineinfo"), "stuck").launch(pointers(x), 3, 64, threads=threads)
    said = str(error.value)
    assert "deadlock: no thread of the block can go on: 3 threads, from (0, 0, 0) on, at barrier 1 (ptx line" in said
    assert "test.cu:3); 61 threads, from (3, 0, 0) on, at barrier 2 (ptx line" in said and "test.cu:5), block (" in said

"""Memory that kernels ask for while they run: the heap, and stacks of threads that are suspended."""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers
from support.assemble import assemble_everywhere

from abi import ExecutionError
from interop.executor import compile_kernel

LEVELS = [(), ("-G",)]

HEAP = """
extern "C" __global__ void lists(unsigned long long* sums, int n) {
  struct Node { Node* next; int value; }; Node* head = nullptr;
  for (int i = 0; i < n; ++i) { Node* node = new Node; node->next = head; node->value = i * (threadIdx.x + 1);
    head = node; }
  BARRIER
  unsigned long long sum = 0;
  while (head) { Node* next = head->next; sum += head->value; delete head; head = next; }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum; }
extern "C" __global__ void sizes(char** out, const unsigned long long* bytes) { int i = threadIdx.x;
  char* p = (char*)malloc(bytes[i]); out[i] = p;
  if (p) for (unsigned long long k = 0; k < bytes[i]; ++k) p[k] = (char)i; }
extern "C" __global__ void check(char** in, const unsigned long long* bytes, int* wrong) { int i = threadIdx.x;
  for (unsigned long long k = 0; in[i] && k < bytes[i]; ++k) wrong[i] += in[i][k] != (char)i; free(in[i]); }
extern "C" __global__ void leak() { void* volatile p = malloc(100); *(volatile char*)p = 1; }
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_lists_in_the_heap(options: tuple[str, ...], barrier: str) -> None:
    sums = np.full(300, 2**64 - 1, np.uint64)
    kernel = compile_kernel(cuda(HEAP.replace("BARRIER", barrier), *options), "lists")
    kernel.launch(bytes(pointers(sums)) + struct.pack("<i", 50), 3, 100, threads=2)
    assert np.array_equal(sums, np.tile(np.arange(1, 101) * (49 * 50 // 2), 3).astype(np.uint64))


def test_blocks_do_not_overlap_and_outlive_the_kernel() -> None:
    rng = np.random.default_rng(7)
    text = cuda(HEAP.replace("BARRIER", ""))
    bytes_ = np.concatenate([rng.integers(1, 5000, 126), [0, 1]]).astype(np.uint64)
    for _ in range(3):
        out, wrong = np.full(128, 2**64 - 1, np.uint64), np.zeros(128, np.int32)
        compile_kernel(text, "sizes").launch(pointers(out, bytes_), 1, 128)
        assert (out % 16 == 0).all() and out.all()
        order = np.argsort(out)
        assert (out[order][:-1] + bytes_[order][:-1] <= out[order][1:]).all()
        compile_kernel(text, "check").launch(pointers(out, bytes_, wrong), 1, 128)
        assert not wrong.any()


def test_what_is_too_large_is_a_null_pointer() -> None:
    text = cuda(HEAP.replace("BARRIER", ""))
    bytes_ = np.array([2**63, 2**64 - 1, 2**40, 2**31, 2**64 - 16], np.uint64)
    out = np.full(5, 1, np.uint64)
    compile_kernel(text, "sizes").launch(pointers(out, bytes_), 1, 5)
    assert not out.any()


def test_a_heap_that_is_full_gives_null_pointers_and_leaks_do_no_harm() -> None:
    """In a process of its own, whose heap holds 1 MB."""
    script = """
    import sys; sys.path[:0] = ["tests", "tests/executor"]
    import numpy as np
    from executor_harness import cuda, pointers
    from interop.executor import compile_kernel
    from test_executor_dynamic import HEAP
    text = cuda(HEAP.replace("BARRIER", ""))
    sizes, check = compile_kernel(text, "sizes"), compile_kernel(text, "check")
    bytes_ = np.full(64, 100_000, np.uint64)
    for _ in range(3):
        out, wrong = np.full(64, 1, np.uint64), np.zeros(64, np.int32)
        sizes.launch(pointers(out, bytes_), 1, 64)
        assert np.count_nonzero(out) == 8, out  # of 128 KiB each
        check.launch(pointers(out, bytes_, wrong), 1, 64)
        assert not wrong.any()
    small = np.full(8, 1000, np.uint64)
    compile_kernel(text.replace("st.volatile.u8", "// st.volatile.u8"), "leak").launch(b"", 100, 100)
    sizes.launch(pointers(out, small), 1, 8)
    assert not out[:8].any()
    """
    environment = {"INTEROP_CPU_HEAP_BYTES": str(1 << 20), "PYTHONPATH": "."}
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_a_second_free_and_a_foreign_pointer_stop_the_kernel(barrier: str) -> None:
    source = f"""
extern "C" __global__ void twice(char* other, int which) {{ {barrier} char* p = (char*)malloc(40);
  if (which == 0) {{ free(p); free(p); }} if (which == 1) free(p + 16); if (which == 2) free(other);
  if (which == 3) free(p + 1); if (which == 4) free(nullptr); }}"""
    kernel = compile_kernel(cuda(source), "twice")
    other = np.zeros(64, np.uint8)
    for which in range(4):
        with pytest.raises(ExecutionError, match=r"free of 0x[0-9a-f]+, which malloc did not return or which is free"):
            kernel.launch(bytes(pointers(other)) + struct.pack("<i", which), 1, 1)
    kernel.launch(bytes(pointers(other)) + struct.pack("<i", 4), 1, 1)


def test_aligned_blocks() -> None:
    text = assemble_everywhere(
        HEADER
        + """.extern .func (.param .b64 r) malloc(.param .b64 n);
.visible .entry plain(.param .u64 p) { .reg .b64 %p, %v; .param .b64 n, out; ld.param.u64 %p, [p];
  st.param.b64 [n], 24; call (out), malloc, (n); ld.param.b64 %v, [out]; st.global.u64 [%p], %v; ret; }"""
    )
    aligned = (
        HEADER
        + """.extern .func (.param .b64 r) __nv_aligned_device_malloc(.param .b64 n, .param .b64 a);
.visible .entry k(.param .u64 p, .param .u64 a) { .reg .b64 %p, %v, %i, %a; .reg .b32 %t; .param .b64 n, a0, out;
  ld.param.u64 %p, [p]; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mul.wide.u32 %i, %t, 8; add.u64 %p, %p, %i;
  st.param.b64 [n], 24; st.param.b64 [a0], %a;
  call (out), __nv_aligned_device_malloc, (n, a0); ld.param.b64 %v, [out]; st.global.u64 [%p], %v; ret; }"""
    )
    out = np.full(40, 1, np.uint64)
    compile_kernel(text, "plain").launch(pointers(out), 1, 1)
    assert out[0] % 16 == 0 and out[0] > 1
    kernel = compile_kernel(aligned, "k")
    for align in (1, 8, 64, 4096):
        kernel.launch(pointers(out, align), 1, 40)
        assert (out % align == 0).all() and out.all() and len(np.unique(out)) == 40
    kernel.launch(pointers(out, 48), 1, 40)
    assert not out.any()


ALLOCA = """
.visible .entry k(.param .u64 p, .param .u64 n) { .reg .b64 %p, %n, %m, %at, %i, %v, %s, %top; .reg .pred %q;
  .reg .b32 %t;
  ld.param.u64 %p, [p]; ld.param.u64 %n, [n]; mov.u32 %t, %tid.x; cvt.u64.u32 %m, %t;
  mov.u64 %s, 0;
  stacksave.u64 %top;
AGAIN: add.u64 %v, %m, %n; shl.b64 %v, %v, 3; alloca.u64 %at, %v, 32;
  and.b64 %i, %at, 31; setp.ne.u64 %q, %i, 0; @%q trap;
  add.u64 %i, %m, %n;
FILL: sub.u64 %i, %i, 1; shl.b64 %v, %i, 3; add.u64 %v, %at, %v; st.local.u64 [%v], %m; setp.ne.u64 %q, %i, 0;
  @%q bra FILL;
  BARRIER
  add.u64 %i, %m, %n;
READ: sub.u64 %i, %i, 1; shl.b64 %v, %i, 3; add.u64 %v, %at, %v; ld.local.u64 %v, [%v]; add.u64 %s, %s, %v;
  setp.ne.u64 %q, %i, 0; @%q bra READ;
  stackrestore.u64 %top; sub.u64 %n, %n, 1; setp.ne.u64 %q, %n, 0; @%q bra AGAIN;
  shl.b64 %m, %m, 3; add.u64 %p, %p, %m; st.global.u64 [%p], %s; ret; }
"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_memory_from_the_stack(barrier: str) -> None:
    """Each thread's memory is its own, also across barriers, and aligned as asked."""
    text = assemble_everywhere(HEADER + ALLOCA.replace("BARRIER", barrier))
    out = np.full(70, 2**64 - 1, np.uint64)
    kernel = compile_kernel(text, "k")
    kernel.launch(pointers(out, 300), 1, 70)
    m, n = np.arange(70), np.arange(1, 301)
    assert np.array_equal(out, (m[:, None] * (m[:, None] + n)).sum(1).astype(np.uint64))


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_what_is_restored_is_used_again(barrier: str) -> None:
    """A hundred thousand allocations of one thread would not fit side by side."""
    text = assemble_everywhere(
        HEADER
        + f""".visible .entry k(.param .u64 p) {{ .reg .b64 %p, %at, %top; .reg .b32 %t, %v; .reg .pred %q;
  ld.param.u64 %p, [p]; mov.u32 %t, 0;
L: stacksave.u64 %top; alloca.u64 %at, 40000; st.local.u32 [%at+39996], %t; {barrier} ld.local.u32 %v, [%at+39996];
  stackrestore.u64 %top; setp.ne.u32 %q, %v, %t; @%q trap;
  add.u32 %t, %t, 1; setp.lt.u32 %q, %t, 100000; @%q bra L; st.global.u32 [%p], %t; ret; }}"""
    )
    out = np.zeros(1, np.uint32)
    compile_kernel(text, "k").launch(pointers(out), 1, 4)
    assert out[0] == 100000


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_function_gives_its_memory_back_when_it_returns(barrier: str) -> None:
    """A thousand calls take no more than one."""
    text = assemble_everywhere(
        HEADER
        + f""".func (.param .b64 r) f(.param .b64 x) {{ .reg .b64 %x, %at; ld.param.b64 %x, [x]; alloca.u64 %at, 4000;
  st.local.u64 [%at], %x; {barrier} ld.local.u64 %x, [%at]; add.u64 %x, %x, 1; st.param.b64 [r], %x; ret; }}
.visible .entry k(.param .u64 p) {{ .reg .b64 %p, %v; .reg .b32 %t; .reg .pred %q; .param .b64 x, out;
  ld.param.u64 %p, [p]; mov.u32 %t, 0; mov.u64 %v, 0;
L: st.param.b64 [x], %v; call (out), f, (x); ld.param.b64 %v, [out]; add.u32 %t, %t, 1; setp.lt.u32 %q, %t, 100000;
  @%q bra L; st.global.u64 [%p], %v; ret; }}"""
    )
    out = np.zeros(1, np.uint64)
    compile_kernel(text, "k").launch(pointers(out), 1, 4)
    assert out[0] == 100000


def test_memory_that_does_not_fit_a_suspended_stack_stops_the_kernel() -> None:
    text = HEADER + (
        ".visible .entry k(.param .u64 n) { .reg .b64 %n, %at;\nld.param.u64 %n, [n];\nalloca.u64 %at, %n;"
        " st.local.u8 [%at], 1; bar.sync 0; ret; }"
    )
    kernel = compile_kernel(text, "k")
    for size in (2**63, 2**64 - 1, 99999999999, 2**28 + 1):
        with pytest.raises(
            ExecutionError, match=rf"no room for {size} bytes \(ptx line 6\), block \(0, 0, 0\), thread"
        ):
            kernel.launch(pointers(size), 1, 32)
    kernel.launch(pointers(4096), 1, 1024)

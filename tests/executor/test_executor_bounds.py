"""Bounds checks: what a kernel may touch, what is said of an access to anything else, and what is never refused."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers
from hypothesis import given, settings
from hypothesis import strategies as st

from abi import ExecutionError
from interop.executor import compile_kernel
from interop.executor.host import MemoryRange

REGISTERS = ".reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .f32 %f<8>; .reg .b16 %h<4>; .reg .pred %p<4>;"
INDEX = (
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r0, %r1, %r2;"
    "ld.param.u64 %rd0, [x]; cvta.to.global.u64 %rd1, %rd0; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;"
)


def kernel(body: str, params: str = ".param .u64 x", extra: str = "") -> str:
    """A kernel whose body begins in line 5."""
    return f"{HEADER}{extra}.visible .entry k({params}) {{ {REGISTERS}\n{body}\nret; }}"


def guarded(count: int, dtype: object = np.uint32, around: int = 64) -> np.ndarray:
    """An array in the middle of a larger one, so that a missed access would do no harm."""
    return np.full(count + 2 * around, 0xA5, np.uint8).repeat(np.dtype(dtype).itemsize).view(dtype)[around:-around]


def of(array: np.ndarray, name: str = "x", writable: bool = True) -> MemoryRange:
    return MemoryRange(array.ctypes.data, array.nbytes, writable, name)


def refused(
    text: str, params: bytes, ranges: Sequence[MemoryRange], grid: object = 1, block: object = 1, shared: int = 0
) -> str:
    with pytest.raises(ExecutionError) as error:
        compile_kernel(text, "k").launch(params, grid, block, shared, ranges=ranges)  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_the_first_thread_behind_the_end_is_named(barrier: str) -> None:
    x = guarded(100)
    text = kernel(f"{INDEX} {barrier}\nst.global.u32 [%rd3], %r3;")
    said = refused(text, pointers(x), [of(x)], 4, 32)
    assert said == (
        "k: out of bounds: writes 4 bytes right behind the end of x (400 bytes) (ptx line 6), "
        "block (3, 0, 0), thread (4, 0, 0)"
    )
    assert np.array_equal(x[:96], np.arange(96))  # the strand in which it happens writes nothing
    compile_kernel(text, "k").launch(pointers(x), 5, 20, ranges=[of(x)])
    assert np.array_equal(x, np.arange(100))


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("ld.global.u32 %r4, [%rd1+400];", "reads 4 bytes right behind the end of x (400 bytes)"),
        ("ld.global.u32 %r4, [%rd1+420];", "reads 4 bytes 20 bytes behind the end of x (400 bytes)"),
        ("ld.global.u32 %r4, [%rd1+-8];", "reads 4 bytes 8 bytes before the beginning of x (400 bytes)"),
        ("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+392];",
         "reads 16 bytes across the end of x (400 bytes), of which 8 are left there"),
        ("st.global.v2.u64 [%rd1+400], {%rd4, %rd5};", "writes 16 bytes right behind the end of x"),
        ("ld.volatile.global.u32 %r4, [%rd1+400];", "reads 4 bytes right behind"),
        ("ld.u8 %r4, [%rd0+400];", "reads 1 byte right behind the end of x"),
        ("atom.global.add.u64 %rd4, [%rd1+400], 1;", "updates 8 bytes right behind the end of x"),
        ("red.global.add.f32 [%rd1+400], %f0;", "updates 4 bytes right behind the end of x"),
        ("atom.global.cas.b32 %r4, [%rd1+400], 1, 2;", "updates 4 bytes right behind the end of x"),
        ("cp.async.ca.shared.global [s], [%rd1+392], 16;", "reads 16 bytes across the end of x"),
        ("mov.u32 %r9, 12; cp.async.ca.shared.global [s], [%rd1+392], 16, %r9;", "reads 1 byte 3 bytes behind the end"),
        ("mov.u64 %rd4, 8; sub.u64 %rd4, %rd4, %rd4; add.u64 %rd4, %rd4, %rd0; sub.u64 %rd4, %rd4, %rd0;"
         "ld.global.u32 %r4, [%rd4+8];", "reads 4 bytes at the null pointer plus 8"),
        ("add.u64 %rd4, %rd0, 0x100000000000; ld.global.u32 %r4, [%rd4];", "far from every buffer"),
        ("st.shared.u32 [%r4+64], %r3;", "writes 4 bytes right behind the end of the block's shared memory (64"),
        ("ld.shared.v2.u64 {%rd4, %rd5}, [s+56];", "reads 16 bytes across the end of the block's shared memory (64"),
        ("mov.u32 %r4, -4; ld.shared.u32 %r5, [%r4];", "reads 4 bytes 4294967228 bytes behind the end of the block's"),
        ("atom.shared.add.u32 %r5, [%r4+-4], 1;", "updates 4 bytes 4294967228 bytes behind the end of the block's"),
        ("mov.u64 %rd4, g; ld.global.u32 %r4, [%rd4+16];", "reads 4 bytes right behind the end of g (16 bytes)"),
        ("ld.global.u32 %r4, [g+16];", "reads 4 bytes right behind the end of g (16 bytes)"),
        ("mov.u64 %rd4, c; ld.const.u32 %r4, [%rd4+-4];", "before the beginning of c (8 bytes)"),
    ],
)  # fmt: skip
def test_every_kind_of_access_is_checked(access: str, words: str) -> None:
    x = guarded(100)
    extra = ".global .align 16 .b32 g[4]; .const .align 8 .b32 c[2] = {1, 2}; "
    body = f"{INDEX} .shared .align 16 .b32 s[16]; mov.u32 %r4, s; mov.u32 %r5, s; \n{access}"
    said = refused(kernel(body, extra=extra), pointers(x), [of(x)])
    assert words in said and "(ptx line 6), block (0, 0, 0), thread (0, 0, 0)" in said


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 %r4, [%rd1+396];",
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+384];",
        "st.global.u8 [%rd1+399], %r3;",
        "cp.async.ca.shared.global [s], [%rd1+384], 16;",
        "mov.u32 %r9, 8; cp.async.ca.shared.global [s], [%rd1+392], 16, %r9;",
        "mov.u32 %r9, 0; cp.async.ca.shared.global [s], [%rd1+1392], 16, %r9;",
        "st.shared.u32 [%r4+60], %r3;",
        "mov.u32 %r4, -4; st.shared.u32 [%r4+4], %r3;",
        "cvta.shared.u64 %rd4, %rd5; st.u32 [%rd4+60], %r3;",
        "mov.u64 %rd4, g; st.global.u32 [%rd4+12], %r3;",
        "mov.u64 %rd4, c; cvta.const.u64 %rd4, %rd4; ld.u32 %r4, [%rd4+4];",
        "mov.u64 %rd4, l; st.local.u32 [%rd4+12], %r3;",
        "mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4; st.u32 [%rd4+12], %r3;",
        "mov.b64 %rd4, x; cvta.param.u64 %rd4, %rd4; ld.u64 %rd5, [%rd4];",
        "prefetch.global.L2 [%rd1+4000];",
    ],
)
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_what_is_allowed_runs(access: str, barrier: str) -> None:
    x = guarded(100)
    extra = ".global .align 16 .b32 g[4]; .const .align 8 .b32 c[2] = {1, 2}; "
    body = (
        f"{INDEX} .shared .align 16 .b32 s[16]; .local .align 16 .b32 l[4]; mov.u32 %r4, s; mov.u64 %rd5, s;\n"
        f"{barrier} {access} {barrier}"
    )
    compile_kernel(kernel(body, extra=extra), "k").launch(pointers(x), 2, 3, ranges=[of(x)])


def test_a_buffer_that_is_only_read_is_not_written() -> None:
    x = guarded(8)
    x[:] = 7
    said = refused(kernel(f"{INDEX}\nst.global.u32 [%rd3], %r3;"), pointers(x), [of(x, "weights", False)])
    assert "writes 4 bytes in weights, which is only read (ptx line 6)" in said
    assert (x == 7).all()
    compile_kernel(kernel(f"{INDEX}\nld.global.u32 %r4, [%rd3];"), "k").launch(
        pointers(x), 1, 8, ranges=[of(x, "weights", False)]
    )


def test_buffers_may_overlap_and_lie_in_any_order() -> None:
    whole = guarded(1000)
    ranges = [
        MemoryRange(whole.ctypes.data + 4 * a, 4 * (b - a), writable, f"part{a}")
        for a, b, writable in [(900, 1000, True), (0, 500, True), (100, 200, False), (150, 160, True), (500, 800, True)]
    ]
    text = kernel(f"{INDEX}\nst.global.u32 [%rd3], %r3;")
    compiled = compile_kernel(text, "k")
    compiled.launch(pointers(whole), 8, 100, ranges=ranges)
    assert np.array_equal(whole[:800], np.arange(800)) and (whole[800:] == 0xA5A5A5A5).all()
    said = refused(text, pointers(whole), ranges, 9, 100)
    assert "right behind the end of part500 (1200 bytes)" in said and "block (8, 0, 0), thread (0, 0, 0)" in said


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_buffers_and_accesses(data: st.DataObject) -> None:
    """Against a model: the access is allowed exactly where some buffer holds all of it."""
    arena = np.zeros(4096, np.uint8)
    spans = data.draw(
        st.lists(st.tuples(st.integers(512, 3000), st.integers(1, 600), st.booleans()), min_size=1, max_size=40)
    )
    ranges = [MemoryRange(arena.ctypes.data + a, n, w, "") for a, n, w in spans]
    offset = data.draw(st.one_of(st.integers(500, 3700), st.sampled_from([a + n for a, n, _ in spans])))
    size, writes = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.booleans())
    operation = f"st.global.u{8 * size} [%rd1], %rd2;" if writes else f"ld.global.u{8 * size} %rd2, [%rd1];"
    launched = compile_kernel(kernel(f"ld.param.u64 %rd1, [x];\n{operation}"), "k")
    if any(a <= offset and offset + size <= a + n and (w or not writes) for a, n, w in spans):
        launched.launch(pointers(arena.ctypes.data + offset), 1, 1, ranges=ranges)
    else:
        with pytest.raises(ExecutionError, match="out of bounds"):
            launched.launch(pointers(arena.ctypes.data + offset), 1, 1, ranges=ranges)


def test_a_launch_forgets_what_the_one_before_was_allowed() -> None:
    a, b = guarded(32), guarded(32)
    launched = compile_kernel(kernel(f"{INDEX}\nst.global.u32 [%rd3], %r3;"), "k")
    for _ in range(3):
        launched.launch(pointers(a), 1, 32, ranges=[of(a)])
        with pytest.raises(ExecutionError, match="out of bounds"):
            launched.launch(pointers(a), 1, 32, ranges=[of(b)])
        with pytest.raises(ExecutionError, match="out of bounds"):
            launched.launch(pointers(a), 1, 32, ranges=[])
        launched.launch(pointers(a), 1, 32)  # nothing is known


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    text = kernel(
        "mov.u32 %r0, d; ld.param.u64 %rd0, [x]; cvt.u32.u64 %r1, %rd0; add.u32 %r0, %r0, %r1;\n"
        "st.shared.u32 [%r0], %r1;",
        extra=".extern .shared .align 4 .b8 d[]; ",
    )
    launched = compile_kernel(text, "k")
    launched.launch(pointers(124), 1, 1, 128)
    with pytest.raises(ExecutionError, match=r"writes 4 bytes right behind .* shared memory \(128 bytes\)"):
        launched.launch(pointers(128), 1, 1, 128)


SAXPY = """extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}"""


@pytest.mark.parametrize("options", [(), ("-G",), ("-lineinfo",)])
def test_the_source_line_is_named_where_there_are_line_tables(options: tuple[str, ...]) -> None:
    x, y = guarded(64, np.float32), guarded(100, np.float32)
    x[:], y[:] = 1, 2
    launched = compile_kernel(cuda(SAXPY, *options), "saxpy")
    params = struct.pack("<QQfi", x.ctypes.data, y.ctypes.data, 3.0, 100)
    with pytest.raises(ExecutionError) as error:
        launched.launch(params, 1, 128, ranges=[of(x), of(y, "y")])
    place = r"ptx line \d+, \S*test\.cu:4" if options else r"ptx line \d+"
    assert re.search(
        rf"reads 4 bytes right behind the end of x \(256 bytes\) \({place}\), block \(0, 0, 0\), thread \(64, 0, 0\)",
        str(error.value),
    ), str(error.value)
    launched.launch(struct.pack("<QQfi", x.ctypes.data, y.ctypes.data, 3.0, 64), 1, 128, ranges=[of(x), of(y, "y")])


POINTERS = r"""
struct Node { int value; Node* next; };
__device__ __noinline__ float pick(float* const* rows, int i, long long lda) { return rows[i][lda]; }
extern "C" __global__ void rows(float* const* table, long long lda, float* out) {
  out[threadIdx.x] = pick(table, threadIdx.x, lda) + table[threadIdx.x][lda];
}
extern "C" __global__ void list(Node* first, int* out) {
  int sum = 0;
  for (Node* n = first; n; n = n->next) sum += n->value;
  *out = sum;
}
extern "C" __global__ void spilled(float* const* table, float* out, int n) {
  float* local[4];
  for (int i = 0; i < n; i++) local[(i * 3) & 3] = table[i];
  out[threadIdx.x] = local[threadIdx.x & 3][0];
}
__device__ float* global_table[4];
extern "C" __global__ void publish(float* const* table) { global_table[threadIdx.x] = table[threadIdx.x]; }
extern "C" __global__ void consume(float* out) { out[threadIdx.x] = *global_table[threadIdx.x]; }
extern "C" __global__ void bytes(const signed char* const* table, const long long* at, long long more, int* out) {
  out[threadIdx.x] = table[threadIdx.x][at[threadIdx.x] + more];
}
extern "C" __global__ void shared(float* const* table, float* out) {
  __shared__ float* kept[32];
  kept[threadIdx.x] = table[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = *kept[threadIdx.x ^ 1];
}
"""


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_pointers_that_lie_in_memory_lead_anywhere(options: tuple[str, ...]) -> None:
    """No false alarm: only the table is passed, not what it points to."""
    text = cuda(POINTERS, *options)
    rows = [np.full(8, 10.0 + k, np.float32) for k in range(4)]
    table = np.array([r.ctypes.data for r in rows], np.uint64)
    out = guarded(4, np.float32)

    def launch(name: str, *values: object, passed: Sequence[np.ndarray]) -> None:
        params = b"".join(struct.pack("<Q", v.ctypes.data if isinstance(v, np.ndarray) else v) for v in values)  # type: ignore[arg-type]
        compile_kernel(text, name).launch(params, 1, 4, ranges=[of(a, "") for a in passed])

    launch("rows", table, 3, out, passed=[table, out])
    assert out.tolist() == [20, 22, 24, 26]
    launch("spilled", table, out, 4, passed=[table, out])
    assert sorted(out.tolist()) == [10, 11, 12, 13]
    launch("publish", table, passed=[table])
    launch("consume", out, passed=[out])
    assert out.tolist() == [10, 11, 12, 13]
    launch("shared", table, out, passed=[table, out])
    assert out.tolist() == [11, 10, 13, 12]
    letters = [np.arange(16, dtype=np.int8) for _ in range(4)]
    numbers, at = np.zeros(4, np.int32), np.array([1, 2, 3, 4], np.int64)
    names = np.array([r.ctypes.data for r in letters], np.uint64)
    launch("bytes", names, at, 5, numbers, passed=[names, at, numbers])
    assert numbers.tolist() == [6, 7, 8, 9]
    nodes = np.zeros((3, 2), np.uint64)
    nodes[:, 0] = [5, 6, 7]
    nodes[:2, 1] = [nodes[2].ctypes.data, 0]
    nodes[2, 1] = nodes[1].ctypes.data
    launch("list", nodes, numbers, passed=[nodes[:1], numbers[:1]])
    assert numbers[0] == 18


INDEXED = r"""
extern "C" __global__ void gather(const float* x, const long long* at, float* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = x[at[i]];
}
__device__ __noinline__ void put(float* y, long long i, float v) { y[i] = v; }
extern "C" __global__ void called(float* y, int n) { put(y, threadIdx.x, 1.0f); }
"""


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_indices_that_lie_in_memory_are_checked(options: tuple[str, ...]) -> None:
    text = cuda(INDEXED, *options)
    x, y = guarded(10, np.float32), guarded(4, np.float32)
    x[:] = np.arange(10)
    at = np.array([9, 0, 10, 3], np.int64)
    params = struct.pack("<QQQi", x.ctypes.data, at.ctypes.data, y.ctypes.data, 4)
    with pytest.raises(ExecutionError, match=r"right behind the end of x \(40 bytes\).*thread \(2, 0, 0\)"):
        compile_kernel(text, "gather").launch(params, 1, 4, ranges=[of(x), of(at, "at"), of(y, "y")])
    with pytest.raises(ExecutionError, match=r"right behind the end of y \(16 bytes\).*thread \(4, 0, 0\)"):
        compile_kernel(text, "called").launch(struct.pack("<Qi", y.ctypes.data, 0), 1, 5, ranges=[of(y, "y")])
    compile_kernel(text, "called").launch(struct.pack("<Qi", y.ctypes.data, 0), 1, 4, ranges=[of(y, "y")])
    assert (y == 1).all()


def test_checks_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    x = guarded(8)
    text = kernel(f"{INDEX}\nst.global.u32 [%rd3+32], %r3;")
    compile_kernel(text, "k", checks=False).launch(pointers(x), 1, 4, ranges=[of(x)])
    assert refused(text, pointers(x), [of(x)])
    monkeypatch.setenv("INTEROP_CPU_CHECKS", "0")
    compile_kernel(text, "k").launch(pointers(x), 1, 4, ranges=[of(x)])

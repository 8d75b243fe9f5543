"""Atomics of every type and vector width, by several threads of the host; fences and ordered accesses."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers, run
from support.assemble import assemble, assemble_everywhere

from abi import ExecutionError, UnsupportedError
from interop.executor import compile_kernel

THREADS = 3

HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def aligned(count: int, dtype: object, alignment: int = 32) -> np.ndarray:
    """Poisoned memory at a multiple of `alignment`."""
    size = np.dtype(dtype).itemsize  # type: ignore[call-overload]
    raw = np.full(count * size + alignment, 0xA5, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + count * size].view(dtype)  # type: ignore[call-overload]


_HALF_VECTORS = [
    *((half, width) for half in ("f16", "bf16") for width in (2, 4, 8)),
    *((pair, width) for pair in ("f16x2", "bf16x2") for width in (2, 4)),
]
VECTORS = [("add", "f32", 2), ("add", "f32", 4)] + [
    (operation, *vector) for operation in ("add", "min", "max") for vector in _HALF_VECTORS
]


@pytest.mark.parametrize(("operation", "type_", "width"), VECTORS)
@pytest.mark.parametrize("opcode", ["atom", "red"])
def test_vectors(operation: str, type_: str, width: int, opcode: str) -> None:
    """Small integers in all formats: sums are exact, so that the order does not matter."""
    packed = type_.endswith("x2")
    element = type_.removesuffix("x2")
    dtype = np.dtype(np.float32) if element == "f32" else HALVES[element]
    register, bits = ("f32", 32) if element == "f32" else ("b32", 32) if packed else ("b16", 16)
    count = width * (2 if packed else 1)
    names = ", ".join(f"%v{k}" for k in range(width))
    old = ", ".join(f"%o{k}" for k in range(width))
    noftz = "" if element == "f32" else ".noftz"
    loads = " ".join(f"ld.global.{register} %v{k}, [%s+{k * bits // 8}];" for k in range(width))
    destination = f"{{{old}}}, " if opcode == "atom" else ""
    text = (
        HEADER
        + f""".visible .entry k(.param .u64 out, .param .u64 source) {{ .reg .b64 %p, %s; .reg .b32 %t, %c;
  .reg .{register} %v<{width}>, %o<{width}>; ld.param.u64 %p, [out]; ld.param.u64 %s, [source];
  mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; xor.b32 %t, %t, %c; and.b32 %t, %t, 7;
  mad.wide.u32 %s, %t, {width * bits // 8}, %s; {loads}
  {opcode}.global.v{width}.{type_}.{operation}{noftz} {destination}[%p], {{{names}}}; ret; }}"""
    )
    text = text.replace(f".v{width}.{type_}.{operation}{noftz}", f".{operation}{noftz}.v{width}.{type_}")
    assemble(text, "sm_90")
    rng = np.random.default_rng(width)
    source = aligned(8 * count, dtype)
    source[:] = rng.integers(-2, 3, 8 * count).astype(np.float32).astype(dtype)
    out = aligned(count, dtype)
    out[:] = np.zeros(count, np.float32).astype(dtype)
    blocks, threads = (4, 8) if operation == "add" else (16, 32)
    compile_kernel(text, "k").launch(
        pointers(out.view(np.uint8), source.view(np.uint8)), blocks, threads, threads=THREADS
    )
    table = source.astype(np.float64).reshape(8, count)
    if operation == "add":
        wanted = table.sum(0) * blocks * threads / 8
    else:
        wanted = np.minimum(table.min(0), 0) if operation == "min" else np.maximum(table.max(0), 0)
    assert np.array_equal(out.astype(np.float64), wanted)


WIDE = """.visible .entry k(.param .u64 place, .param .u64 bad) {
  .reg .b64 %p, %lo, %hi, %i, %q; .reg .b128 %old, %new, %seen;
  .reg .pred %same; .reg .b32 %t;
  ld.param.u64 %p, [place]; mov.u32 %t, 0;
NEXT: ld.SPACE.b128 %old, [%p];
AGAIN: mov.b128 {%lo, %hi}, %old; add.u64 %lo, %lo, 1; sub.u64 %hi, %hi, 1; mov.b128 %new, {%lo, %hi};
  atom.cas.b128 %seen, [%p], %old, %new; mov.b128 {%lo, %hi}, %seen; mov.b128 {%i, %q}, %old;
  setp.eq.u64 %same, %lo, %i; setp.eq.and.u64 %same, %hi, %q, %same; mov.b128 %old, %seen; @!%same bra AGAIN;
  add.u64 %i, %lo, %hi; setp.ne.u64 %same, %i, 77; ld.param.u64 %q, [bad]; @%same st.global.u64 [%q], %i;
  add.u32 %t, %t, 1; setp.lt.u32 %same, %t, 100; @%same bra NEXT; ret; }"""


@pytest.mark.parametrize("space", ["relaxed.sys.global", "relaxed.gpu", "global"])
def test_compare_and_swap_of_128_bits(space: str) -> None:
    """Both halves change together: no thread ever sees one without the other, except through a weak load."""
    text = HEADER.replace("8.6", "8.8") + WIDE.replace("SPACE", space)
    assemble(text, "sm_90")
    place, bad = aligned(2, np.uint64), np.zeros(1, np.uint64)
    place[:] = [7, 70]
    compile_kernel(text, "k").launch(pointers(place, bad), 40, 8, threads=THREADS)
    assert place.tolist() == [7 + 32000, (70 - 32000) % 2**64] and not bad.any()


def test_exchange_of_128_bits() -> None:
    """What each thread takes out was put in once: nothing is lost and nothing torn."""
    text = (
        HEADER.replace("8.6", "8.8")
        + """.visible .entry k(.param .u64 place, .param .u64 out) { .reg .b64 %p, %o, %lo, %hi; .reg .b128 %new, %old;
  .reg .b32 %t, %c, %n; ld.param.u64 %p, [place]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
  mov.u32 %n, %ntid.x; mad.lo.u32 %t, %c, %n, %t; mad.wide.u32 %o, %t, 16, %o; add.u32 %t, %t, 1; cvt.u64.u32 %lo, %t;
  not.b64 %hi, %lo; mov.b128 %new, {%lo, %hi}; atom.global.exch.b128 %old, [%p], %new; st.global.b128 [%o], %old; ret;
  }"""
    )
    assemble(text, "sm_90")
    place, out = aligned(2, np.uint64), aligned(2 * 4096, np.uint64)
    place[:] = [0, 2**64 - 1]
    compile_kernel(text, "k").launch(pointers(place, out), 64, 64, threads=THREADS)
    pairs = np.concatenate([out.reshape(-1, 2), place.reshape(1, 2)])
    assert np.array_equal(pairs[:, 1], ~pairs[:, 0])
    assert np.array_equal(np.sort(pairs[:, 0]), np.arange(4097, dtype=np.uint64))


@pytest.mark.parametrize("instruction", ["atom.cas.b128 %x, [%p], %x, %x", "ld.relaxed.gpu.b128 %x, [%p]"])
def test_a_misaligned_address_of_128_bits_stops_the_kernel(instruction: str) -> None:
    text = (
        HEADER
        + f".entry k(.param .u64 p) {{ .reg .b64 %p; .reg .b128 %x; ld.param.u64 %p, [p];\n{instruction}; ret; }}"
    )
    place = aligned(4, np.uint64)
    with pytest.raises(ExecutionError, match=r"the address 0x[0-9a-f]+ is no multiple of 16 \(ptx line 5\), block"):
        compile_kernel(text, "k").launch(pointers(place[1:]), 1, 1)


def test_wide_accesses() -> None:
    """Vectors of 256 bits, and 128-bit registers, wherever they lie."""
    text = (
        HEADER.replace("8.6", "8.8").replace("sm_90", "sm_100")
        + """.visible .entry k(.param .u64 x, .param .u64 y) { .reg .b64 %x, %y, %d<4>; .reg .b32 %r<8>; .reg .b128 %q;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
  ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%x];
  st.global.v8.b32 [%y], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};
  ld.global.v4.b64 {%d0, %d1, %d2, %d3}, [%x]; st.global.v4.b64 [%y+32], {%d3, _, %d1, %d0};
  ld.global.b128 %q, [%x+16]; st.global.b128 [%y+64], %q; ret; }"""
    ).replace("%d3, _,", "%d3, %d2,")
    assemble(text, "sm_100")
    x, y = aligned(8, np.uint32), aligned(20, np.uint32)
    x[:] = np.arange(8) + 100
    compile_kernel(text, "k").launch(pointers(x, y), 1, 1)
    assert y[:8].tolist() == x[::-1].tolist()
    assert y[8:16].tolist() == x.view(np.uint64)[::-1].copy().view(np.uint32).tolist() and np.array_equal(y[16:], x[4:])
    odd = np.full(72, 0xA5, np.uint8)[4:].view(np.uint32)[:16]
    weak = (
        HEADER
        + """.visible .entry k(.param .u64 x) { .reg .b64 %x; .reg .b128 %q; ld.param.u64 %x, [x];
      ld.global.b128 %q, [%x]; st.global.b128 [%x+16], %q; ret; }"""
    )
    odd[:4] = [1, 2, 3, 4]
    compile_kernel(weak, "k").launch(pointers(odd), 1, 1)
    assert odd[4:8].tolist() == [1, 2, 3, 4]


SCOPED = """
#include <cuda/atomic>
extern "C" __global__ void k(unsigned* counters, double* sum, unsigned long long* large, float* smallest) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> a(counters[0]); a.fetch_add(1, cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned, cuda::thread_scope_system> b(counters[1]); b.fetch_max(threadIdx.x);
  cuda::atomic_ref<unsigned, cuda::thread_scope_block> c(counters[2]); c.fetch_or(1u << threadIdx.x % 32);
  cuda::atomic_ref<double, cuda::thread_scope_device> d(*sum); d.fetch_add(0.25, cuda::memory_order_acq_rel);
  cuda::atomic_ref<unsigned long long> e(*large); unsigned long long seen = e.load();
  while (!e.compare_exchange_weak(seen, seen * 3 + 1)) {}
  cuda::atomic_ref<float, cuda::thread_scope_device> f(*smallest);
  float old = f.load(cuda::memory_order_acquire);
  while (old > -float(threadIdx.x) && !f.compare_exchange_strong(old, -float(threadIdx.x))) {}
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);
  atomicInc(&counters[3], 1000u); atomicExch(&counters[4], 9u);
}
"""


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_atomics_of_the_standard_library(options: tuple[str, ...]) -> None:
    counters, total = np.zeros(5, np.uint32), np.zeros(1)
    large, smallest = np.zeros(1, np.uint64), np.zeros(1, np.float32)
    text = cuda(SCOPED, "-std=c++17", *options)
    compile_kernel(text, "k").launch(pointers(counters, total, large, smallest), 20, 64, threads=THREADS)
    assert counters.tolist() == [1280, 63, 2**32 - 1, 1280 - 1001, 9] and total[0] == 320 and smallest[0] == -63
    wanted = 0
    for _ in range(1280):
        wanted = (wanted * 3 + 1) % 2**64
    assert large[0] == wanted


FENCES = [
    "membar.cta", "membar.gl", "membar.sys", "membar.proxy.alias", "fence.sc.cta", "fence.acq_rel.gpu", "fence.sc.sys",
    "fence.acq_rel.cluster", "fence.proxy.alias", "fence.proxy.async", "fence.proxy.async.global",
    "fence.proxy.async.shared::cta", "fence.acquire.gpu", "fence.release.gpu",
    "fence.acquire.sync_restrict::shared::cluster.cluster", "fence.release.sync_restrict::shared::cta.cluster",
]  # fmt: skip


def test_fences_of_all_spellings() -> None:
    """A message from block to block through weak accesses between fences and relaxed ones of a flag."""
    body = " ".join(f"{fence};" for fence in FENCES)
    assemble(HEADER + f".entry k() {{ {body} ret; }}", "sm_90")
    run(f".entry k() {{ {body} ret; }}", "k", b"", 2, 32)
    for fence in ("fence.proxy.tensormap::generic.release.gpu", "fence.proxy.wobble"):
        with pytest.raises(UnsupportedError, match=fence.split(".")[2]):
            run(f".entry k() {{ {fence}; ret; }}", "k", b"")


def test_hints_for_caches() -> None:
    text = assemble_everywhere(
        HEADER
        + """.visible .entry k(.param .u64 x, .param .u64 y) { .reg .b64 %x, %y, %c, %d, %e; .reg .b32 %r, %s;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
  createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %c, 0.5;
  createpolicy.fractional.L2::evict_first.b64 %d;
  createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %e, [%x], 64, 128;
  prefetch.global.L1 [%x]; prefetch.local.L2 [%x]; prefetchu.L1 [%x]; prefetch.global.L2::evict_normal [%x];
  applypriority.global.L2::evict_normal [%x], 128;
  ld.global.L2::cache_hint.u32 %r, [%x], %c; ld.global.nc.L1::no_allocate.L2::cache_hint.L2::64B.u32 %s, [%x+4], %d;
  add.u32 %r, %r, %s; st.global.L2::cache_hint.u32 [%y], %r, %e;
  atom.global.add.L2::cache_hint.u32 %s, [%y], 5, %c; red.global.add.L2::cache_hint.u32 [%y], %s, %d;
  st.weak.global.L1::no_allocate.u32 [%y+4], %s; ld.volatile.global.u32 %s, [%x];
  st.mmio.relaxed.sys.global.u32 [%y+8], %s; ld.mmio.relaxed.sys.global.u32 %s, [%y+8]; st.global.wt.u32 [%y+12], %s;
  ret; }"""
    )
    x, y = aligned(64, np.uint32, 128), np.full(4, 0xA5A5A5A5, np.uint32)
    x[:2] = [30, 12]
    compile_kernel(text, "k").launch(pointers(x, y), 1, 1)
    assert y.tolist() == [42 + 5 + 42, 42, 30, 30]


def test_a_message_between_blocks() -> None:
    """Released by one block and acquired by another that spins: the payload is there."""
    text = assemble_everywhere(
        HEADER
        + """.visible .entry k(.param .u64 m) { .reg .b64 %m; .reg .b32 %c, %f, %v; .reg .pred %p;
  ld.param.u64 %m, [m]; mov.u32 %c, %ctaid.x; setp.eq.u32 %p, %c, 0; @%p bra SEND;
WAIT: ld.acquire.gpu.global.u32 %f, [%m]; setp.eq.u32 %p, %f, 0; @%p bra WAIT;
  ld.global.u32 %v, [%m+64]; st.global.u32 [%m+128], %v; ret;
SEND: st.global.u32 [%m+64], 1234; st.release.gpu.global.u32 [%m], 1; ret; }"""
    )
    kernel = compile_kernel(text, "k")
    for _ in range(50):
        memory = np.zeros(64, np.uint32)
        kernel.launch(pointers(memory), 2, 1, threads=2)
        assert memory[32] == 1234


def test_launches_at_once_count_in_one_place() -> None:
    """Halves are updated by compare-and-swap, and no update is lost."""
    place = np.zeros(2, np.float16)
    kernel = compile_kernel(
        HEADER
        + """.visible .entry k(.param .u64 p) { .reg .b64 %p; .reg .b16 %v, %o; ld.param.u64 %p, [p];
  mov.b16 %v, 0x3C00; atom.global.add.noftz.f16 %o, [%p+2], %v; ret; }""",
        "k",
    )
    workers = [threading.Thread(target=kernel.launch, args=(pointers(place.view(np.uint16)), 16, 32)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert place.tolist() == [0, 2048]


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.u32 [%p], %r, [%p];", "clusters of several"),
        ("atom.global.add.b128 %q, [%p], %q;", "atom.global.add.b128"),
        ("atom.global.min.f32 %f, [%p], %f;", "atom.global.min.f32"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%p], %r, [%p];", "st.async"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(instruction: str, words: str) -> None:
    registers = ".reg .b64 %p; .reg .b32 %r; .reg .b128 %q; .reg .f32 %f;"
    with pytest.raises(UnsupportedError, match=words):
        run(f".entry k() {{ {registers} {instruction} ret; }}", "k", b"")

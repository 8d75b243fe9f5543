"""mbarrier objects: counts, phases, parity, transactions, states; and what uses them wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers, run
from support.assemble import assemble_everywhere

from abi import ExecutionError, UnsupportedError
from interop.executor import compile_kernel

SM_80 = HEADER.replace("sm_90", "sm_80")
RNG = np.random.default_rng(3)

KERNEL = """.visible .entry k(.param .u64 out) {{ .shared .align 8 .b64 bar[2]; .reg .b64 %s<16>;
.reg .b32 %r<8>, %n<16>;
.reg .pred %p<16>; .reg .u64 %o; .reg .u32 %b; ld.param.u64 %o, [out]; mov.u32 %b, bar;
{body}
ret; }}"""


def kept(predicates: str) -> str:
    """Stores predicates, in their order, as words."""
    return "\n".join(
        f"selp.u32 %r0, 1, 0, {name}; st.global.u32 [%o+{4 * k}], %r0;" for k, name in enumerate(predicates.split())
    )


def test_phases_of_a_single_thread() -> None:
    """Each arrival takes one from the count; a phase ends with the last one, and the next has as many again."""
    body = f"""mbarrier.init.shared.b64 [%b], 2;
    mbarrier.test_wait.parity.shared.b64 %p0, [bar], 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 1;
    mbarrier.arrive.shared.b64 %s0, [%b];
    mbarrier.test_wait.shared.b64 %p2, [%b], %s0;
    mbarrier.arrive.release.cta.shared::cta.b64 %s1, [%b];
    mbarrier.test_wait.shared.b64 %p3, [%b], %s1;
    mbarrier.test_wait.parity.shared.b64 %p4, [%b], 0;
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p5, [%b], 1, 20;
    mbarrier.arrive.shared.b64 _, [%b], 2;
    mbarrier.test_wait.parity.shared.b64 %p6, [%b], 1;
    mbarrier.pending_count.b64 %n0, %s0; mbarrier.pending_count.b64 %n1, %s1;
    {kept("%p0 %p1 %p2 %p3 %p4 %p5 %p6")}
    st.global.u32 [%o+28], %n0; st.global.u32 [%o+32], %n1; mbarrier.inval.shared.b64 [%b];"""
    assemble_everywhere(HEADER + KERNEL.format(body=body))
    out = np.full(9, 77, np.uint32)
    run(KERNEL.format(body=body), "k", pointers(out), 1, 1)
    assert out.tolist() == [0, 1, 0, 1, 1, 0, 1, 2, 1]


def test_dropping_and_arriving_for_several() -> None:
    """arrive_drop counts as an arrival, and later phases expect one less."""
    body = f"""mbarrier.init.b64 [%s9], 5;
    mbarrier.arrive.noComplete.shared.b64 %s0, [%b], 2;
    mbarrier.arrive_drop.noComplete.shared.b64 %s1, [%b], 2;
    mbarrier.arrive_drop.shared.b64 %s2, [%b];
    mbarrier.test_wait.shared.b64 %p0, [%b], %s0;
    mbarrier.arrive.shared.b64 %s3, [%b];
    mbarrier.test_wait.shared.b64 %p1, [%b], %s3;
    mbarrier.arrive.shared.b64 %s4, [%b];
    mbarrier.test_wait.shared.b64 %p2, [%b], %s3;
    mbarrier.pending_count.b64 %n1, %s1; mbarrier.pending_count.b64 %n3, %s3;
    {kept("%p0 %p1 %p2")} st.global.u32 [%o+12], %n1; st.global.u32 [%o+16], %n3;"""
    body = "cvt.u64.u32 %s9, %b; cvta.shared.u64 %s9, %s9;\n" + body
    assemble_everywhere(SM_80 + KERNEL.format(body=body))
    out = np.full(5, 77, np.uint32)
    run(KERNEL.format(body=body), "k", pointers(out), 1, 1)
    assert out.tolist() == [1, 0, 1, 3, 2]


def test_transactions() -> None:
    """A phase ends when arrivals and bytes have both come, in whatever order."""
    body = f"""mbarrier.init.shared.b64 [%b], 1;
    mbarrier.arrive.expect_tx.shared.b64 %s0, [%b], 96;
    mbarrier.test_wait.shared.b64 %p0, [%b], %s0;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 64;
    mbarrier.test_wait.shared.b64 %p1, [%b], %s0;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;
    mbarrier.test_wait.shared.b64 %p2, [%b], %s0;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 8;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;
    mbarrier.arrive.shared.b64 %s1, [%b];
    mbarrier.test_wait.shared.b64 %p3, [%b], %s1;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 8;
    mbarrier.test_wait.shared.b64 %p4, [%b], %s1;
    {kept("%p0 %p1 %p2 %p3 %p4")}"""
    out = np.full(5, 77, np.uint32)
    run(KERNEL.format(body=body), "k", pointers(out), 1, 1)
    assert out.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("mbarrier.init.shared.b64 [%b], 0;", "counts 1 to 1048575 arrivals"),
        ("mbarrier.init.shared.b64 [%b], 1048576;", "counts 1 to 1048575 arrivals"),
        ("add.u32 %b, %b, 4; mbarrier.init.shared.b64 [%b], 1;", "not aligned to 8 bytes"),
        ("mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.shared.b64 _, [%b], 3;", "more arrivals than"),
        (
            "mbarrier.init.shared.b64 [%b], 2; mbarrier.inval.shared.b64 [%b]; mbarrier.arrive.shared.b64 _, [%b];",
            "more arrivals than",
        ),
        (
            "mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.noComplete.shared.b64 _, [%b], 2;",
            "an arrival with .noComplete completes the phase",
        ),
        (
            "mbarrier.init.shared.b64 [%b], 2; mbarrier.expect_tx.relaxed.cta.shared.b64 [%b], 1048576;",
            "the transactions of an mbarrier exceed",
        ),
    ],
)
def test_what_is_wrong_ends_the_kernel(body: str, why: str) -> None:
    with pytest.raises(ExecutionError, match=rf"{why}.* \(ptx line \d+\), block \(0, 0, 0\), thread \(0, 0, 0\)"):
        run(KERNEL.format(body=body), "k", pointers(np.zeros(32)), 1, 1)


PIPELINE = """extern "C" __global__ void k(const int* in, long long* out, int rounds) {
  __shared__ int tile[64]; __shared__ __align__(8) unsigned long long full, empty;
  unsigned f = (unsigned)__cvta_generic_to_shared(&full), e = (unsigned)__cvta_generic_to_shared(&empty), ok;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(f));
    asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(e));
  }
  __syncthreads();
  long long sum = 0;
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x < 64) {
      if (r > 0) do
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(ok) : "r"(e), "r"((r - 1) & 1) : "memory"); while (!ok);
      tile[threadIdx.x] = in[(blockIdx.x * rounds + r) * 64 + threadIdx.x];
      asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(f) : "memory");
    } else {
      do asm volatile("{ .reg .pred p; mbarrier.TEST.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(ok) : "r"(f), "r"(r & 1) : "memory"); while (!ok);
      sum = sum * 3 + tile[127 - threadIdx.x];
      asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(e) : "memory");
    } }
  if (threadIdx.x >= 64) out[blockIdx.x * 64 + threadIdx.x - 64] = sum; }"""


@pytest.mark.parametrize(("test", "arch"), [("test_wait", "compute_80"), ("try_wait", "compute_90")])
def test_producers_and_consumers(test: str, arch: str) -> None:
    """Two warps fill a tile, two others use it; a wait in a loop lets the others run."""
    blocks, rounds = 5, 7
    data, out = RNG.integers(-999, 999, (blocks, rounds, 64), dtype=np.int32), np.full((blocks, 64), -1, np.int64)
    ptx = cuda(PIPELINE.replace("TEST", test), arch=arch)
    compile_kernel(ptx, "k").launch(pointers(data, out) + np.int32(rounds).tobytes(), blocks, 128, threads=2)
    wanted = np.zeros((blocks, 64), np.int64)
    for r in range(rounds):
        wanted = wanted * 3 + data[:, r, ::-1]
    assert np.array_equal(out, wanted)


def test_a_wait_for_nobody_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTEROP_CPU_SPIN_SECONDS", "0.2")
    body = """mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.shared.b64 %s0, [%b];
    again: mbarrier.test_wait.shared.b64 %p0, [%b], %s0; @!%p0 bra again;"""
    with pytest.raises(ExecutionError, match="deadlock"):
        run(KERNEL.format(body=body), "k", pointers(np.zeros(32)), 1, 1)


BARRIER = """#include <cuda/barrier>
#include <cuda/pipeline>
extern "C" __global__ void k(const int* in, int* out) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier bar; __shared__ int tile[96];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int r = 0; r < 4; r++) {
    cuda::memcpy_async(&tile[threadIdx.x], &in[(r * gridDim.x + blockIdx.x) * 96 + threadIdx.x], sizeof(int), bar);
    bar.arrive_and_wait();
    out[(r * gridDim.x + blockIdx.x) * 96 + threadIdx.x] = tile[95 - threadIdx.x] + r;
    bar.wait(bar.arrive());
  } }"""


@pytest.mark.parametrize("strict", ["", "1"])
def test_the_barriers_of_libcudacxx(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTEROP_CPU_STRICT_COPIES", strict)
    data, out = RNG.integers(-999, 999, (4, 3, 96), dtype=np.int32), np.full((4, 3, 96), -1, np.int32)
    compile_kernel(cuda(BARRIER, "-std=c++17"), "k").launch(pointers(data, out), 3, 96)
    assert np.array_equal(out, data[:, :, ::-1] + np.arange(4, dtype=np.int32)[:, None, None])


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("wgmma.fence.sync.aligned;", "matrix products of warp groups, which need sm_90a"),
        ("mapa.shared::cluster.u32 %r0, %b, 1;", "clusters"),
        ("cp.async.bulk.commit_group;", "bulk copies, which need sm_90"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%o], 16, [%b];", "bulk copies"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%o], [%b], 16;", "bulk copies"),
        ("multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%o];", "memory of several devices"),
        ("tcgen05.fence::before_thread_sync;", "tensor memory, which needs sm_100a"),
        ("barrier.cluster.arrive;", "clusters"),
    ],
)
def test_what_needs_newer_devices_is_refused_by_name(instruction: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"ptx line 7: `{instruction.split('.')[0]}.*: .*{why}"):
        compile_kernel(HEADER + KERNEL.format(body=instruction), "k")


def test_advice_of_newer_devices_does_nothing() -> None:
    body = """griddepcontrol.wait; setmaxnreg.inc.sync.aligned.u32 200; fence.mbarrier_init.release.cluster;
    st.global.u32 [%o], 5; setmaxnreg.dec.sync.aligned.u32 24; griddepcontrol.launch_dependents;"""
    out = np.full(1, 77, np.uint32)
    run(KERNEL.format(body=body), "k", pointers(out), 1, 1)
    assert out[0] == 5

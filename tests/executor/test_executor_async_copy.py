"""cp.async, at once and as late as PTX allows."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers, run
from support.assemble import assemble_everywhere

from interop.executor import compile_kernel

SM_80 = HEADER.replace("sm_90", "sm_80")
RNG = np.random.default_rng(31)

KERNEL = """.visible .entry k(.param .u64 in, .param .u64 out) {{ .shared .align 16 .b8 tile[4096];
.reg .b32 %r<8>; .reg .u64 %in, %out, %x; .reg .u32 %t, %s; .reg .pred %p<4>;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, tile; mad.lo.u32 %s, %t, 64, %s;
mad.wide.u32 %in, %t, 64, %in; mad.wide.u32 %out, %t, 64, %out;
st.shared.v4.b32 [%s], {{-1, -1, -1, -1}}; st.shared.v4.b32 [%s+16], {{-1, -1, -1, -1}};
st.shared.v4.b32 [%s+32], {{-1, -1, -1, -1}}; st.shared.v4.b32 [%s+48], {{-1, -1, -1, -1}};
{body}
ret; }}"""


def keep(offset: int, count: int = 4) -> str:
    """Copies words of the tile, as they are now, to the output."""
    return "\n".join(
        f"ld.shared.b32 %r0, [%s+{k}]; st.global.b32 [%out+{k}], %r0;" for k in range(offset, offset + 4 * count, 4)
    )


def tiles(body: str, monkeypatch: pytest.MonkeyPatch, strict: bool, threads: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Runs a body; 16 words of input and of output for each thread."""
    monkeypatch.setenv("INTEROP_CPU_STRICT_COPIES", "1" if strict else "0")
    text = KERNEL.format(body=body)
    assemble_everywhere(SM_80 + text)
    source, out = RNG.integers(0, 2**31, (threads, 16), dtype=np.int32), np.full((threads, 16), 77, np.int32)
    run(text, "k", pointers(source, out), 1, threads)
    return source, out


@pytest.mark.parametrize(("strict", "lanes"), [(False, "1"), (False, "8"), (False, "32"), (True, "32")])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_sizes_and_sources(strict: bool, lanes: str, barrier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """4, 8 and 16 bytes; a number of bytes, or a predicate, that says how much is read: the rest is zero."""
    monkeypatch.setenv("INTEROP_CPU_LANES", lanes)
    body = f"""{barrier} cp.async.ca.shared.global [%s], [%in], 4;
    cp.async.ca.shared::cta.global.L2::128B [%s+8], [%in+8], 8;
    cp.async.cg.shared.global [%s+16], [%in+16], 16;
    mov.u32 %r1, 7; cp.async.cg.shared.global [%s+32], [%in+32], 16, %r1;
    setp.lt.u32 %p0, %t, 20; cp.async.ca.shared.global [%s+48], [%in+48], 8, %p0;
    cp.async.ca.shared.global [%s+56], [%in+56], 4, 0;
    cp.async.wait_all; {keep(0, 16)}"""
    source, out = tiles(body, monkeypatch, strict)
    wanted = source.copy()
    wanted[:, 1] = wanted[:, 15] = -1
    wanted.view(np.uint8)[:, 32 + 7 : 48] = 0
    wanted[:20, 12:14] = 0
    wanted[:, 14] = 0
    assert np.array_equal(out, wanted)


GROUPS = f"""cp.async.ca.shared.global [%s], [%in], 16; cp.async.commit_group;
    cp.async.ca.shared.global [%s+16], [%in+16], 16; cp.async.commit_group;
    cp.async.commit_group;
    cp.async.ca.shared.global [%s+32], [%in+32], 16;
    cp.async.wait_group {{open}};
    {keep(0, 16)}"""


@pytest.mark.parametrize(("open_", "arrived"), [(3, 0), (2, 4), (1, 8), (0, 8)])
def test_strict_copies_arrive_with_their_group(open_: int, arrived: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tiles(GROUPS.format(open=open_), monkeypatch, True)
    assert np.array_equal(out[:, :arrived], source[:, :arrived])
    assert (out[:, arrived:] == -1).all()
    source, out = tiles(GROUPS.format(open=open_), monkeypatch, False)
    assert np.array_equal(out[:, :12], source[:, :12]) and (out[:, 12:] == -1).all()


def test_strict_copies_read_when_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source as it is then; waiting is each thread's own, and what nobody waits for never comes."""
    body = f"""cp.async.ca.shared.global [%s], [%in], 8; st.global.b32 [%in+4], 123; setp.lt.u32 %p0, %t, 8;
    @%p0 cp.async.wait_all; {keep(0, 4)} @%p0 bra done; cp.async.wait_all; {keep(0, 1)} done:"""
    source, out = tiles(body, monkeypatch, True)
    assert (source[:, 1] == 123).all()
    assert np.array_equal(out[:8, :2], source[:8, :2])
    assert np.array_equal(out[8:, 0], source[8:, 0]) and (out[8:, 1] == -1).all()


def test_blocks_do_not_inherit_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTEROP_CPU_STRICT_COPIES", "1")
    body = f"""mov.u32 %r2, %ctaid.x; mad.wide.u32 %out, %r2, 64, %out; setp.eq.u32 %p0, %r2, 0;
    @%p0 cp.async.ca.shared.global [%s], [%in], 16; cp.async.wait_group 1; @%p0 exit; cp.async.wait_all; {keep(0, 4)}"""
    source, out = RNG.integers(0, 2**31, 16, dtype=np.int32), np.full((5, 16), 77, np.int32)
    run(KERNEL.format(body=body), "k", pointers(source, out), 5, 1, threads=1)
    assert (out[1:, :4] == -1).all()


PIPELINE = """#include <cuda_pipeline.h>
extern "C" __global__ void k(const float4* in, float4* out, int n) {
  __shared__ float4 tile[2][64];
  int i = threadIdx.x, stages = n / 64;
  __pipeline_memcpy_async(&tile[0][i], &in[i], sizeof(float4)); __pipeline_commit();
  for (int s = 0; s < stages; s++) {
    if (s + 1 < stages) { __pipeline_memcpy_async(&tile[(s + 1) & 1][i], &in[(s + 1) * 64 + i], sizeof(float4)); }
    __pipeline_commit(); __pipeline_wait_prior(WAIT); __syncthreads();
    float4 v = tile[s & 1][63 - i]; out[s * 64 + i] = make_float4(v.w, v.z, v.y, v.x + s); __syncthreads(); } }"""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("options", [(), ("-G",)])
def test_a_pipeline_of_cuda(strict: bool, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Right in both modes; where it waits for one group too few, the strict mode shows it."""
    monkeypatch.setenv("INTEROP_CPU_STRICT_COPIES", "1" if strict else "")
    n = 320
    source = RNG.standard_normal((n, 4)).astype(np.float32)
    wanted = source.reshape(-1, 64, 4)[:, ::-1, ::-1].copy()
    wanted[:, :, 3] += np.arange(n // 64, dtype=np.float32)[:, None]
    for wait, right in ((1, True), (2, not strict)):
        out = np.full_like(source, np.nan)
        kernel = compile_kernel(cuda(PIPELINE.replace("WAIT", str(wait)), *options), "k")
        kernel.launch(pointers(source, out) + np.int32(n).tobytes(), 1, 64)
        assert np.array_equal(out.reshape(wanted.shape), wanted) == right

"""Mutated PTX through the whole translation, in a process of its own: it is compiled or refused, and never crashes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import translation_fuzz
from executor_harness import HEADER, cuda

DATA = Path(__file__).resolve().parents[1] / "compilers" / "data"
COUNT = int(os.environ.get("INTEROP_FUZZ", "60"))

KERNELS = """
__device__ float table[4]; __constant__ int offsets[3] = {1, 2, 3};
struct Pair { float x; int n; };
__device__ __noinline__ int recursive(int n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }
extern "C" __global__ void mixed(const float* x, float* y, Pair p, int n) {
  __shared__ float s[64]; float local[8]; int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x & 63;
  for (int k = 0; k < 8; k++) local[k] = x[(i + offsets[k % 3]) % n] * p.x;
  s[t] = local[p.n & 7] + table[t & 3]; __syncthreads();
  float v = s[63 - t]; for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  switch (p.n) { case 0: v *= 2; break; case 1: v = sqrtf(v); break; case 2: v = expf(v); break;
    case 7: v = 1 / v; }
  if (i < n) atomicAdd(&y[i], v + recursive(p.n & 7)); }
extern "C" __global__ void wide(unsigned long long* a, const short* b, double* d, int n) {
  int i = threadIdx.x; if (i >= n) return;
  unsigned long long u = a[i] * 0x9E3779B97F4A7C15ull; u ^= u >> 31; d[i] = fma((double)b[i], d[i], (double)u);
  a[i] = __brevll(u) + __popcll(u) + (u / (unsigned long long)(b[i] | 1));
  if (__any_sync(__activemask(), u & 1)) d[i] += 1; }
"""


def texts() -> list[str]:
    found = [cuda(KERNELS), cuda(KERNELS, "-G")]
    return found + [p.read_text() for p in sorted(DATA.rglob("*.ptx")) if p.stat().st_size < 20000]


class Worker:
    """The other process; started anew when it dies."""

    def __init__(self) -> None:
        environment = {**os.environ, "INTEROP_CACHE": "0"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(translation_fuzz.__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def translate(self, text: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else f"died: {self.process.wait()}"


def test_mutated_kernels_are_compiled_or_refused(tmp_path: Path) -> None:
    seed = int(os.environ.get("INTEROP_FUZZ_SEED", random.SystemRandom().randrange(1 << 30)))
    rng, worker, sources = random.Random(seed), Worker(), texts()
    answers = []
    for number in range(COUNT):
        text = translation_fuzz.mutate(rng.choice(sources), sources, rng)
        answer = worker.translate(text)
        if not answer.startswith(("compiled", "refused")):
            (tmp_path / "broken.ptx").write_text(text)
            pytest.fail(f"seed {seed}, number {number}, {tmp_path / 'broken.ptx'}: {answer}")
        answers.append(answer.partition(":")[0])
    worker.process.kill()
    assert {"compiled", "refused"} <= set(answers), f"seed {seed}: one kind of answer only"


@pytest.mark.parametrize(
    "body",
    [
        "L:\n" * 20000 + "bra L;",
        "".join(f"L{k}: bra L{k};\n" for k in range(3000)),
        "".join(f"add.u32 %r1, %r1, {k};\n" for k in range(5000)),
        "{" * 200 + "add.u32 %r1, %r1, 1;" + "}" * 200,
        ".reg .b32 %q<1000000000>; mov.u32 %q999999999, 1;",
        ".local .b8 big[2000000000]; mov.u64 %rd1, big;",
        ".shared .b8 big[4000000000]; mov.u32 %r1, big;",
        "mov.u32 %r1, 99999999999999999999999999;",
        "mov.u32 %r1, %r1+18446744073709551615;",
        "ld.global.u32 %r1, [%rd1+18446744073709551615];",
        "ld.shared.u32 %r1, [%r1+-9223372036854775808];",
        "ld.param.u64 %rd1, [x+4000000000];",
        "st.global.v4.b64 [%rd1], {%rd1, %rd1, %rd1, %rd1};",
        "call k, ();",
        "a: .branchtargets a; mov.u32 %r1, 0; brx.idx %r1, a;",
        "alloca.u64 %rd1, 8, 1048576;",
    ],
    ids=range(16),
)
def test_extreme_bodies(body: str) -> None:
    text = f"{HEADER}.visible .entry k(.param .u64 x) {{ .reg .b32 %r<4>; .reg .b64 %rd<4>; {body} ret; }}"
    worker = Worker()
    answer = worker.translate(text)
    worker.process.kill()
    assert answer.startswith(("compiled", "refused")), answer

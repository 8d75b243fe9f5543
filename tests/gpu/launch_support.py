"""What the launch tests share: arrays on either device, and PTX with known behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np

import interop as io
from abi import Access, Image, ImageKind, Kernel, Launch, Param, Program, Requirement, assign_slots, parse_type
from abi.ptx_signature import read_signatures
from abi.rules import with_implied
from interop import simt
from interop.runtime import Device, Launchable, to_device

SOURCE = r"""
extern "C" __global__ void saxpy(const float *x, float *y, float a, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void where(unsigned *out)
{
    unsigned long long block = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1u + (unsigned)block * 1000u + thread);
}
extern "C" __global__ void shared_sum(const int *x, int *out, int n)
{
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    if (threadIdx.x == 0) { int s = 0; for (int i = 0; i < n; i++) s += tile[i]; *out = s; }
}
extern "C" __global__ void static_and_dynamic(int *out, int n)
{
    __shared__ unsigned char one[1];
    extern __shared__ unsigned char bytes[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) bytes[i] = (unsigned char)i;
    if (threadIdx.x == 0) one[0] = 7;
    __syncthreads();
    if (threadIdx.x == 0) *out = bytes[n - 1] + one[0];
}
extern "C" __global__ void __launch_bounds__(128) bounded(int *out) { out[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void load4(const float4 *x, float *out)
{
    float4 v = x[threadIdx.x];
    out[threadIdx.x] = v.x + v.w;
}
extern "C" __global__ void last_byte(unsigned char *x, long long n) { x[n - 1] = 77; }
struct Mixed { float a; float3 b; double c; char d[3]; };
extern "C" __global__ void by_value(Mixed m, double *out)
{
    out[0] = m.a; out[1] = m.b.x; out[2] = m.b.z; out[3] = m.c; out[4] = m.d[2];
}
extern "C" __global__ void nothing() {}
"""


@simt.kernel(block=256, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
def axpy(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
    """y <- a*x + y."""
    i = simt.global_index()
    if i < len(y):
        y[i] = a * x[i] + y[i]


@simt.kernel(
    block=(32, 8),
    grid="(ceil_div(dim(dst, 1), 32), ceil_div(dim(dst, 0), 8))",
    requires=["dim(src, 0) == dim(dst, 0)", "dim(src, 1) == dim(dst, 1)"],
)
def double2d(src: io.Tensor[io.f32, 2], dst: io.DisjointTensor[io.f32, 2]):
    """dst <- 2*src."""
    p = simt.global_index(2)
    row, col = p
    if row < dst.shape[0] and col < dst.shape[1]:
        dst[p] = src[row, col] + src[row, col]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape, dtype=np.float32)


def on(device: Device, array: np.ndarray) -> Any:
    """The array itself on the CPU device, a copy in its memory on a GPU."""
    return array if device.kind == "cpu" else to_device(array, device)


def host(array: Any) -> np.ndarray:
    """The elements as NumPy's, after the work that was queued before."""
    return array if isinstance(array, np.ndarray) else array.to_host()


def poisoned(shape: Any, dtype: Any) -> np.ndarray:
    """An array full of a value that no kernel writes."""
    result = np.empty(shape, dtype)
    result.view(np.uint8)[...] = 0xA5
    return result


def ptx_kernel(
    ptx: str,
    symbol: str,
    params: dict[str, tuple[str, Access]],
    launch: Launch | None = None,
    requires: tuple[str, ...] = (),
    fill: dict[str, str] | None = None,
) -> Launchable:
    """A kernel whose description is written by hand, in convention interop-1."""
    placed = assign_slots(
        [Param(n, parse_type(t), access, fill=(fill or {}).get(n)) for n, (t, access) in params.items()]
    )
    kernel = Kernel(symbol, symbol, "ptx", placed, launch or Launch(), tuple(Requirement(r) for r in requires))
    header = read_signatures(ptx).header
    image = Image(ImageKind.PTX, header.target, ptx.encode(), (symbol,), header.version)
    program = Program(with_implied(kernel), (image,))
    return Launchable(lambda: program)


# Copies the parameter buffer, byte by byte, to the global address in its last 8 bytes.
def mirror_ptx(declarations: list[str], total: int) -> str:
    """PTX of a kernel ``mirror`` that stores the first `total` bytes of its parameters through a last pointer."""
    params = [f".param {d} p{i}" for i, d in enumerate(declarations)] + [".param .u64 out"]
    lines, offset = [], 0
    for i, d in enumerate(declarations):
        size, align = _size(d)
        offset = (offset + align - 1) // align * align
        for byte in range(size):
            lines.append(f"  ld.param.u8 %r, [p{i}+{byte}];\n  st.global.u8 [%a+{offset + byte}], %r;")
        offset += size
    assert offset <= total
    body = "\n".join(lines)
    return (
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        f".visible .entry mirror(\n  {', '.join(params)}\n)\n{{\n"
        "  .reg .b16 %r;\n  .reg .b64 %a;\n  ld.param.u64 %a, [out];\n  cvta.to.global.u64 %a, %a;\n"
        f"{body}\n  ret;\n}}\n"
    )


def _size(declaration: str) -> tuple[int, int]:
    """Size and alignment of a scalar PTX type such as ``.u32``."""
    bits = int(declaration.lstrip(".usfb"))
    return bits // 8, bits // 8

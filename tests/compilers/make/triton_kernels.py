"""Kernels in Triton, and what each is compiled for: see :data:`KERNELS`."""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


@triton.jit
def softmax(out, src, stride_out, stride_src, columns, BLOCK: tl.constexpr):
    """One row a program; the row fits into BLOCK."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(src + row * stride_src + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride_out + column, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def layernorm(out, mean, rstd, src, weight, bias, columns, eps, BLOCK: tl.constexpr):
    """One row a program, BLOCK columns at a time: mean, then variance around it, then the result."""
    row = tl.program_id(0)
    src += row * columns
    out += row * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(src + c, mask=c < columns, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        d = tl.where(c < columns, tl.load(src + c, mask=c < columns, other=0.0).to(tl.float32) - m, 0.0)
        squares += d * d
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        inside = c < columns
        x = tl.load(src + c, mask=inside, other=0.0).to(tl.float32)
        y = (x - m) * r * tl.load(weight + c, mask=inside, other=0.0) + tl.load(bias + c, mask=inside, other=0.0)
        tl.store(out + c, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def matmul(c, a, b, m, n, k, stride_c, stride_a, stride_b, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           PRECISION: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """C = A @ B, all row-major, any extents."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for start in range(0, k, BK):
        depth = start + inner
        ta = tl.load(a + rows[:, None] * stride_a + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k),
                     other=0)  # fmt: skip
        tb = tl.load(b + depth[:, None] * stride_b + columns[None, :],
                     mask=(depth[:, None] < k) & (columns[None, :] < n), other=0)  # fmt: skip
        acc = tl.dot(ta, tb, acc, input_precision=PRECISION, out_dtype=ACC)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * stride_c + columns[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(out, q, k, v, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
              PRECISION: tl.constexpr):  # fmt: skip
    """softmax(scale q k^T) v for one head in blocks of BN keys, with a running maximum and sum."""
    head = tl.program_id(1).to(tl.int64) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    tq = tl.load(q + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        keys = start + tl.arange(0, BN)
        tk = tl.load(k + head + keys[None, :] * D + d[:, None], mask=keys[None, :] < length, other=0.0)
        s = tl.dot(tq, tk, input_precision=PRECISION) * scale
        visible = keys[None, :] < length
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        s = tl.where(visible, s, -1e30)
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2((s - new[:, None]) * 1.4426950408889634)
        shrink = tl.exp2((top - new) * 1.4426950408889634)
        tv = tl.load(v + head + keys[:, None] * D + d[None, :], mask=keys[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tv.dtype), tv, acc * shrink[:, None], input_precision=PRECISION)
        total = total * shrink + tl.sum(p, axis=1)
        top = new
    tl.store(out + head + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty),
             mask=rows[:, None] < length)  # fmt: skip


@triton.jit
def reduction(total, top, where, src, n, BLOCK: tl.constexpr):
    """The sum by atomics; the maximum and its place for each block."""
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src + i, mask=i < n, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(top + block, value)
    tl.store(where + block, block * BLOCK + index)
    tl.atomic_add(total, tl.sum(tl.where(i < n, x, 0.0), axis=0))


@triton.jit
def atomics(added, lowest, highest, bits, swapped, keys, values, n, BLOCK: tl.constexpr):
    """Atomics at addresses that clash, masked at the end."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    key = tl.load(keys + i, mask=inside, other=0)
    value = tl.load(values + i, mask=inside, other=0)
    tl.atomic_add(added + key, value, mask=inside)
    tl.atomic_min(lowest + key, value, mask=inside)
    tl.atomic_max(highest + key, value, mask=inside)
    tl.atomic_or(bits + key, 1 << (value & 31), mask=inside)
    tl.atomic_cas(swapped + key, tl.full((BLOCK,), -1, tl.int32), value)


@triton.jit
def locked(lock, count, sums, src, BLOCK: tl.constexpr):
    """Blocks add a row each to `sums` under a spin lock."""
    x = tl.load(src + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = sums + tl.arange(0, BLOCK)
    tl.store(total, tl.load(total) + x)
    tl.store(count, tl.load(count) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def scan(out, last, src, columns, BLOCK: tl.constexpr):
    """Prefix sums of each row forwards, prefix maxima backwards."""
    row = tl.program_id(0) * columns
    c = tl.arange(0, BLOCK)
    x = tl.load(src + row + c, mask=c < columns, other=0)
    tl.store(out + row + c, tl.cumsum(x, axis=0), mask=c < columns)
    tl.store(last + row + c, tl.associative_scan(x, 0, larger, reverse=True), mask=c < columns)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def sort(out, counts, src, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """A row in ascending order, and how often each of its low bits occurs."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src + at)
    tl.store(out + at, tl.sort(x))
    tl.store(counts + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(x & (BINS - 1), BINS))


@triton.jit
def dropout(out, src, n, keep, seed, BLOCK: tl.constexpr):
    """Philox random numbers of each element's index; what is kept is scaled."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(src + i, mask=inside, other=0.0)
    tl.store(out + i, tl.where(tl.rand(seed, i) < keep, x / keep, 0.0), mask=inside)


@triton.jit
def maths(out, src, n, BLOCK: tl.constexpr):
    """Functions that Triton writes itself and those of libdevice."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(src + i, mask=inside, other=1.0)
    tl.store(out + i, tl.sin(x), mask=inside)
    tl.store(out + n + i, tl.cos(x), mask=inside)
    tl.store(out + 2 * n + i, tl.exp2(x), mask=inside)
    tl.store(out + 3 * n + i, tl.log(tl.abs(x)), mask=inside)
    tl.store(out + 4 * n + i, tl.erf(x), mask=inside)
    tl.store(out + 5 * n + i, tl.rsqrt(tl.abs(x)), mask=inside)
    tl.store(out + 6 * n + i, tl.floor(x), mask=inside)
    tl.store(out + 7 * n + i, tl.sqrt_rn(tl.abs(x)), mask=inside)
    tl.store(out + 8 * n + i, tl.div_rn(1.0, x), mask=inside)
    tl.store(out + 9 * n + i, tl.sigmoid(x), mask=inside)


@triton.jit
def casts(halves, bfloats, eights, back, src, n, BLOCK: tl.constexpr):
    """f32 to f16, bf16 and e5m2, and back."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(src + i, mask=inside, other=0.0)
    tl.store(halves + i, x.to(tl.float16), mask=inside)
    tl.store(bfloats + i, x.to(tl.bfloat16), mask=inside)
    e = x.to(tl.float16).to(tl.float8e5, fp_downcast_rounding="rtne")
    tl.store(eights + i, e.to(tl.uint8, bitcast=True), mask=inside)
    tl.store(back + i, e.to(tl.float32) + x.to(tl.bfloat16).to(tl.float32), mask=inside)


@triton.jit
def transpose(out, src, rows, columns, B: tl.constexpr):
    """A tile a program, turned through shared memory."""
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(src + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns))
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(x), mask=(c[:, None] < columns) & (r[None, :] < rows))


class Kernel(NamedTuple):
    """A kernel and one way to compile it. `types` are the parameters' in order, ``*`` for pointers."""

    function: Any
    types: str
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 2
    aligned: bool = False  # pointers, and integers named stride, are multiples of 16


_TILE = {"BM": 32, "BN": 32, "BK": 32}
_MATMUL = "i32 i32 i32 i32 i32 i32"

KERNELS: dict[str, Kernel] = {
    "softmax": Kernel(softmax, "*fp32 *fp32 i32 i32 i32", {"BLOCK": 1024}),
    "softmax_aligned": Kernel(softmax, "*fp32 *fp32 i32 i32 i32", {"BLOCK": 1024}, aligned=True),
    "layernorm": Kernel(layernorm, "*fp32 *fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 256}),
    "layernorm_f16": Kernel(layernorm, "*fp16 *fp32 *fp32 *fp16 *fp32 *fp32 i32 fp32", {"BLOCK": 512}, warps=8),
    "matmul_f32": Kernel(
        matmul, f"*fp32 *fp32 *fp32 {_MATMUL}", {**_TILE, "BK": 16, "PRECISION": "ieee", "ACC": tl.float32}, stages=1
    ),
    "matmul_tf32": Kernel(
        matmul, f"*fp32 *fp32 *fp32 {_MATMUL}", {**_TILE, "PRECISION": "tf32", "ACC": tl.float32}, aligned=True
    ),
    "matmul_f16": Kernel(
        matmul, f"*fp16 *fp16 *fp16 {_MATMUL}", {**_TILE, "PRECISION": None, "ACC": tl.float32}, stages=3, aligned=True
    ),
    "matmul_bf16": Kernel(
        matmul, f"*fp32 *bf16 *bf16 {_MATMUL}", {**_TILE, "PRECISION": None, "ACC": tl.float32}, stages=3, aligned=True
    ),
    "matmul_bf16_64": Kernel(
        matmul, f"*fp32 *bf16 *bf16 {_MATMUL}",
        {"BM": 64, "BN": 64, "BK": 32, "PRECISION": None, "ACC": tl.float32}, stages=3, aligned=True,
    ),
    "matmul_bf16_unaligned": Kernel(
        matmul, f"*fp32 *bf16 *bf16 {_MATMUL}", {**_TILE, "PRECISION": None, "ACC": tl.float32}
    ),
    "matmul_s8": Kernel(
        matmul, f"*i32 *i8 *i8 {_MATMUL}", {**_TILE, "PRECISION": None, "ACC": tl.int32}, aligned=True
    ),
    "attention_f32": Kernel(
        attention, "*fp32 *fp32 *fp32 *fp32 i32 fp32",
        {"D": 16, "BM": 16, "BN": 16, "CAUSAL": True, "PRECISION": "ieee"}, stages=1,
    ),
    "attention_f16": Kernel(
        attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32",
        {"D": 32, "BM": 32, "BN": 32, "CAUSAL": True, "PRECISION": None}, aligned=True,
    ),
    "attention_bf16": Kernel(
        attention, "*fp32 *bf16 *bf16 *bf16 i32 fp32",
        {"D": 32, "BM": 32, "BN": 16, "CAUSAL": False, "PRECISION": None}, aligned=True,
    ),
    "reduction": Kernel(reduction, "*fp32 *fp32 *i32 *fp32 i32", {"BLOCK": 512}),
    "atomics": Kernel(atomics, "*i32 *i32 *i32 *i32 *i32 *i32 *i32 i32", {"BLOCK": 128}),
    "locked": Kernel(locked, "*i32 *i32 *i64 *i64", {"BLOCK": 64}, warps=2),
    "scan": Kernel(scan, "*i32 *i32 *i32 i32", {"BLOCK": 256}),
    "sort": Kernel(sort, "*i32 *i32 *i32", {"BLOCK": 64, "BINS": 32}, warps=2),
    "dropout": Kernel(dropout, "*fp32 *fp32 i32 fp32 i32", {"BLOCK": 256}),
    "maths": Kernel(maths, "*fp32 *fp32 i32", {"BLOCK": 128}),
    "casts": Kernel(casts, "*fp16 *bf16 *u8 *fp32 *fp32 i32", {"BLOCK": 128}),
    "transpose": Kernel(transpose, "*fp64 *fp64 i32 i32", {"B": 16}, warps=2),
}  # fmt: skip

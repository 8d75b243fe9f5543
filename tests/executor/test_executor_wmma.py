"""wmma as nvcuda::wmma writes it: all shapes, types and layouts of sm_80, through memory, against NumPy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from executor_harness import HEADER, pointers, run
from executor_harness import cuda as plain_cuda

from abi import ExecutionError, ImageError, UnsupportedError
from interop.executor import compile_kernel
from interop.executor.host import MemoryRange
from interop.importing.nvrtc import cuda_headers

RNG = np.random.default_rng(5)
GAP = 16  # elements behind each row or column, in memory
LARGE = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]


def cuda(source: str, *options: str) -> str:
    """CUDA C++ that includes mma.h to PTX; skips the test where there is only the first half of that header."""
    folders = [folder for folder in cuda_headers() if (Path(folder) / "crt" / "mma.h").exists()]
    if not folders:
        pytest.skip("crt/mma.h is not installed (pip install nvidia-cuda-crt)")
    return plain_cuda(source, f"-I{folders[0]}", *options)


KERNEL = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const {memory}* a, const {memory}* b, const {c_type}* c, {d_type}* d, int lda, int ldb,
                             int ldc, int ldd) {{
  wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {factor}, wmma::{a_layout}> fa;
  wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {factor}, wmma::{b_layout}> fb;
  wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {c_type}> fc;
  wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {d_type}> fd;
  {setup}
  wmma::load_matrix_sync(fa, {a_source}, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, ldc, wmma::mem_{c_layout});
  {change}
  wmma::{mma};
  wmma::store_matrix_sync(d, fd, ldd, wmma::mem_{d_layout}); }}"""


def memory(matrix: np.ndarray, columns: bool) -> tuple[np.ndarray, int]:
    """A matrix as it lies in memory, by rows or by columns with gaps, and its stride."""
    stored = matrix.T if columns else matrix
    out = np.full((stored.shape[0], stored.shape[1] + GAP), 113, matrix.dtype)
    out[:, : stored.shape[1]] = stored
    return out, out.shape[1]


def product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: type, columns: tuple[bool, ...], **text: str
) -> np.ndarray:
    """Runs the kernel with matrices stored as `columns` says: of A, B, C and D."""
    (m, inner), n = a.shape, b.shape[1]
    fill = {
        "m": m,
        "n": n,
        "k": inner,
        "change": "",
        "setup": "",
        "a_source": "a",
        "mma": "mma_sync(fd, fa, fb, fc)",
        **text,
    }
    fill.setdefault("factor", fill["memory"])
    for name, by_columns in zip("abcd", columns):
        fill[f"{name}_layout"] = "col_major" if by_columns else "row_major"
    stored = [memory(x, by_columns) for x, by_columns in zip((a, b, c), columns)]
    out, stride = memory(np.full((m, n), 77, dtype), columns[3])
    strides = np.array([s for _, s in stored] + [stride], np.int32)
    kernel = compile_kernel(cuda(KERNEL.format(**fill)), "k")
    kernel.launch(pointers(*(x for x, _ in stored), out) + strides.tobytes(), 1, 32)
    got = out[:, :-GAP].T if columns[3] else out[:, :-GAP]
    assert (out[:, -GAP:] == 113).all()
    return got


def layouts(index: int) -> tuple[bool, ...]:
    """One of the sixteen combinations of rows and columns."""
    return tuple(bool(index >> k & 1) for k in range(4))


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize(
    ("c_type", "d_type"), [("float", "float"), ("half", "half"), ("half", "float"), ("float", "half")]
)
@pytest.mark.parametrize("combination", [0, 5, 10, 15])
def test_f16(shape: tuple[int, int, int], c_type: str, d_type: str, combination: int) -> None:
    m, n, k = shape
    dtypes = {"half": np.float16, "float": np.float32}
    a, b = (RNG.integers(-9, 10, extents).astype(np.float16) for extents in ((m, k), (k, n)))
    c = RNG.integers(-99, 100, (m, n)).astype(dtypes[c_type])
    change = "for (int i = 0; i < fa.num_elements; i++) fa.x[i] = fa.x[i] + fa.x[i];"
    d = product(
        a, b, c, dtypes[d_type], layouts(combination), memory="half", c_type=c_type, d_type=d_type, change=change
    )
    assert np.array_equal(d.astype(np.float64), 2 * a.astype(np.float64) @ b.astype(np.float64) + c)


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("combination", [0, 3, 6, 12])
def test_bf16(shape: tuple[int, int, int], combination: int) -> None:
    m, n, k = shape
    a, b = (RNG.integers(-99, 100, extents).astype(ml_dtypes.bfloat16) for extents in ((m, k), (k, n)))
    c = RNG.integers(-99, 100, (m, n)).astype(np.float32)
    d = product(a, b, c, np.float32, layouts(combination), memory="__nv_bfloat16", c_type="float", d_type="float")
    assert np.array_equal(d.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64) + c)


@pytest.mark.parametrize("combination", range(8))
def test_tf32(combination: int) -> None:
    """The low bits of a factor do not count, unless the kernel rounds first."""
    a, b = (RNG.standard_normal(extents).astype(np.float32) for extents in ((16, 8), (8, 16)))
    c = RNG.standard_normal((16, 16)).astype(np.float32)
    change = """for (int i = 0; i < fb.num_elements; i++)
      fb.x[i] = __int_as_float((__float_as_int(fb.x[i]) + 0x1000) & 0xFFFFE000);"""
    d = product(a, b, c, np.float32, layouts(combination), memory="float", factor="wmma::precision::tf32",
                c_type="float", d_type="float", change=change)  # fmt: skip
    kept = (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    rounded = ((b.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    assert np.abs(d - (kept.astype(np.float64) @ rounded + c)).max() < 1e-5
    assert np.abs(d - (a.astype(np.float64) @ b + c)).max() > 1e-5


@pytest.mark.parametrize("combination", range(8))
def test_f64(combination: int) -> None:
    a, b, c = (RNG.standard_normal(extents) for extents in ((8, 4), (4, 8), (8, 8)))
    d = product(a, b, c, np.float64, layouts(combination), memory="double", c_type="double", d_type="double")
    assert np.abs(d - (a @ b + c)).max() < 1e-14


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("type_", [np.int8, np.uint8])
@pytest.mark.parametrize("combination", [0, 7, 9, 14])
def test_bytes(shape: tuple[int, int, int], type_: type, combination: int) -> None:
    m, n, k = shape
    info = np.iinfo(type_)
    a, b = (RNG.integers(info.min, info.max + 1, extents).astype(type_) for extents in ((m, k), (k, n)))
    c = RNG.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    c[0], a[0], b[:, 0] = 2**31 - 1, 1, 1
    name = "signed char" if type_ is np.int8 else "unsigned char"
    for saturate in (False, True):
        mma = f"mma_sync(fd, fa, fb, fc{', true' if saturate else ''})"
        d = product(a, b, c, np.int32, layouts(combination), memory=name, c_type="int", d_type="int", mma=mma)
        total = a.astype(np.int64) @ b.astype(np.int64) + c
        assert (total > 2**31 - 1).any()
        assert np.array_equal(d, np.clip(total, -(2**31), 2**31 - 1) if saturate else total.astype(np.int32))


SUB_BYTE = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const int* a, const int* b, const int* c, int* d) {{
  wmma::fragment<wmma::matrix_a, 8, 8, {k}, wmma::experimental::precision::{type}, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, {k}, wmma::experimental::precision::{type}, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, {k}, int> fc;
  wmma::load_matrix_sync(fa, a, {stride}); wmma::load_matrix_sync(fb, b, {stride});
  wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
  wmma::{mma};
  wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major); }}"""


def packed(matrix: np.ndarray, bits: int, stride: int) -> np.ndarray:
    """Rows of elements narrower than a byte, low bits first, `stride` elements apart."""
    wide = np.full((matrix.shape[0], stride), 1, np.int64)
    wide[:, : matrix.shape[1]] = matrix & ((1 << bits) - 1)
    each = 32 // bits
    words = (wide.reshape(matrix.shape[0], -1, each) << (np.arange(each) * bits)).sum(axis=2)
    return words.astype(np.uint32)


@pytest.mark.parametrize("type_", ["s4", "u4"])
@pytest.mark.parametrize("stride", [32, 96])
def test_nibbles(type_: str, stride: int) -> None:
    low = -8 if type_ == "s4" else 0
    a, b = RNG.integers(low, low + 16, (8, 32)), RNG.integers(low, low + 16, (32, 8))
    c, d = RNG.integers(-99, 100, (8, 8), dtype=np.int32), np.full((8, 8), 77, np.int32)
    ptx = cuda(SUB_BYTE.format(k=32, type=type_, stride=stride, mma="mma_sync(fc, fa, fb, fc)"))
    compile_kernel(ptx, "k").launch(pointers(packed(a, 4, stride), packed(b.T, 4, stride), c, d), 1, 32)
    assert np.array_equal(d, a @ b + c)


@pytest.mark.parametrize("operation", ["XOR", "AND"])
@pytest.mark.parametrize("stride", [128, 384])
def test_bits(operation: str, stride: int) -> None:
    a, b = RNG.integers(0, 2, (8, 128)), RNG.integers(0, 2, (128, 8))
    c, d = RNG.integers(-99, 100, (8, 8), dtype=np.int32), np.full((8, 8), 77, np.int32)
    mma = f"bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOp{operation})"
    ptx = cuda(SUB_BYTE.format(k=128, type="b1", stride=stride, mma=mma))
    compile_kernel(ptx, "k").launch(pointers(packed(a, 1, stride), packed(b.T, 1, stride), c, d), 1, 32)
    assert np.array_equal(d, (a @ b if operation == "AND" else a @ (1 - b) + (1 - a) @ b) + c)


def test_from_shared_memory_without_a_barrier() -> None:
    """wmma.load is for the warp together: what its lanes stored before is there, as on the hardware."""
    a, b = (RNG.integers(-9, 10, (16, 16)).astype(np.float16) for _ in range(2))
    c = RNG.integers(-99, 100, (16, 16)).astype(np.float32)
    setup = """__shared__ half tile[256];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i / 16 * lda + i % 16]; lda = 16;"""
    d = product(a, b, c, np.float32, (False,) * 4, memory="half", c_type="float", d_type="float", setup=setup,
                a_source="tile")  # fmt: skip
    assert np.array_equal(d.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64) + c)


MATMUL = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void matmul(const half* a, const half* b, float* c, int m, int n, int k) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
  if (row >= m) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum; wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, a + row * k + i, k); wmma::load_matrix_sync(fb, b + column * k + i, k);
    wmma::mma_sync(sum, fa, fb, sum); }
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major); }"""


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_a_whole_matmul(options: tuple[str, ...]) -> None:
    m, n, k = 48, 80, 64
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    params = pointers(a, b, c) + np.array([m, n, k], np.int32).tobytes()
    compile_kernel(cuda(MATMUL, *options), "matmul").launch(params, 3, 192)
    assert np.abs(c - a.astype(np.float64) @ b.T.astype(np.float64)).max() < 1e-4


# ---- PTX by hand ----

HAND = """.visible .entry k(.param .u64 p) {{ .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .u64 %p; .reg .u32 %t;
ld.param.u64 %p, [p]; {body} ret; }}"""


def test_the_stride_may_be_left_out() -> None:
    body = """wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%p];
    wmma.store.d.sync.aligned.col.m16n16k16.f32 [%p+1024], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, 16;
    wmma.load.a.sync.aligned.col.m8n32k16.global.s8 {%r0}, [%p];
    wmma.load.b.sync.aligned.col.m32n8k16.global.s8 {%r1}, [%p];
    mov.u32 %t, %tid.x; mad.wide.u32 %p, %t, 8, %p; st.global.v2.b32 [%p+2048], {%r0, %r1};"""
    x = RNG.integers(0, 2**31, (3, 16, 16), dtype=np.int32)
    first, memory_ = x[0].copy(), x[0].reshape(-1).view(np.int8)
    run(HAND.format(body=body), "k", pointers(x), 1, 32)
    assert np.array_equal(x[1], first.T)
    registers = x[2].reshape(-1)[:64].reshape(32, 2).copy()
    # A by columns: element (row, k) at 8 k + row. B by columns: (k, column) at 16 column + k. Four along k a lane.
    assert np.array_equal(registers[:, 0].copy().view(np.int8).reshape(8, 16), memory_[:128].reshape(16, 8).T)
    assert np.array_equal(registers[:, 1].copy().view(np.int8).reshape(8, 16), memory_[:128].reshape(8, 16))


def test_lanes_that_name_different_matrices() -> None:
    body = """mov.u32 %t, %tid.x; shr.u32 %t, %t, 4; mad.wide.u32 %p, %t, 64, %p;
    wmma.load.c.sync.aligned.row.m8n8k32.s32 {%r0, %r1}, [%p];"""
    x = np.zeros(1000)
    with pytest.raises(ExecutionError, match=r"lanes of the warp name different matrices \(ptx line \d+\)"):
        run(HAND.format(body=body), "k", pointers(x), 1, 32)


@pytest.mark.parametrize(
    ("instruction", "error", "why"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k8.f16 {%r0}, [%p];", UnsupportedError, "m16n16k8 of .f16 is no shape"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0, %r1}, [%p];", ImageError, "takes 8 registers, not 2"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r0}, [%p], 32;", ImageError, "matrix a of .s4 is .row"),
        ("wmma.load.d.sync.aligned.row.m8n8k32.s32 {%r0, %r1}, [%p], 32;", ImageError, "a, b and c are loaded"),
        ("wmma.store.d.sync.aligned.row.m8n8k32.f32 [%p], {%f0};", ImageError, "takes 2 registers, not 1"),
    ],
)
def test_what_is_wrong_is_said(instruction: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        compile_kernel(HEADER + HAND.format(body=instruction), "k")


SHARED = HAND.replace("ld.param.u64", ".shared .align 128 .b8 tile[1024]; ld.param.u64")


@pytest.mark.parametrize(("stride", "fits"), [(16, True), (17, False)])
@pytest.mark.parametrize("role", ["load.c", "store.d"])
def test_a_matrix_that_ends_behind_shared_memory(stride: int, fits: bool, role: str) -> None:
    registers = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}"
    operands = f"{registers}, [tile]" if role == "load.c" else f"[tile], {registers}"
    text = SHARED.format(body=f"wmma.{role}.sync.aligned.row.m16n16k16.shared.f32 {operands}, {stride};")
    if fits:
        run(text, "k", pointers(np.zeros(8)), 1, 32)
        return
    with pytest.raises(ExecutionError, match=r"a matrix ends behind the block's shared memory \(ptx line \d+\)"):
        run(text, "k", pointers(np.zeros(8)), 1, 32)


@pytest.mark.parametrize(("stride", "fits"), [(16, True), (17, False)])
@pytest.mark.parametrize(("role", "layout"), [("load.a", "row"), ("load.b", "col"), ("store.d", "row")])
def test_a_matrix_that_ends_behind_its_buffer(stride: int, fits: bool, role: str, layout: str) -> None:
    registers = "{" + ", ".join(["%r0"] * (8 if "load" in role else 4)) + "}"
    operands = f"{registers}, [%p]" if "load" in role else f"[%p], {registers}"
    text = HEADER + HAND.format(body=f"wmma.{role}.sync.aligned.{layout}.m16n16k16.f16 {operands}, {stride};")
    kernel, x = compile_kernel(text, "k", checks=True), np.zeros(256, np.float16)
    ranges = [MemoryRange(x.ctypes.data, x.nbytes)]
    if fits:
        kernel.launch(pointers(x), 1, 32, ranges=ranges)
        return
    with pytest.raises(ExecutionError, match="out of bounds"):
        kernel.launch(pointers(x), 1, 32, ranges=ranges)

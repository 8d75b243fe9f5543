"""mma of every shape and type of sm_80, ldmatrix, stmatrix, movmatrix against NumPy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from executor_harness import HEADER, pointers, run
from matrix_layouts import LAYOUTS, Layout, accumulator, collect, pack, spread
from support.assemble import assemble, assemble_everywhere

from abi import ExecutionError, UnsupportedError
from interop.executor import compile_kernel

RNG = np.random.default_rng(11)
SM_80 = HEADER.replace("sm_90", "sm_80")
WARPS = 5  # of two blocks, the second one not full


@pytest.fixture(autouse=True, params=["1", "32"])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane at a time, and whole warps as vectors."""
    monkeypatch.setenv("INTEROP_CPU_LANES", request.param)


def names(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{k}" for k in range(count)) + "}"


def mma_text(instruction: str, counts: tuple[int, int, int, int], wide: bool = False) -> str:
    """A kernel that loads fragments ``[warp, register, lane]``, multiplies and stores."""
    type_, size = ("b64", 8) if wide else ("b32", 4)
    lines = []
    for letter, count, parameter in zip("abc", counts[1:], ("pa", "pb", "pc")):
        lines.append(
            f"ld.param.u64 %p, [{parameter}]; mad.wide.u32 %p, %w, {32 * size * count}, %p; add.u64 %p, %p, %l;"
        )
        lines += [f"ld.global.{type_} %{letter}{k}, [%p+{32 * size * k}];" for k in range(count)]
    lines.append(f"{instruction} {', '.join(map(names, 'dabc', counts))};")
    lines.append(f"ld.param.u64 %p, [pd]; mad.wide.u32 %p, %w, {32 * size * counts[0]}, %p; add.u64 %p, %p, %l;")
    lines += [f"st.global.{type_} [%p+{32 * size * k}], %d{k};" for k in range(counts[0])]
    registers = " ".join(f".reg .{type_} %{letter}<{count}>;" for letter, count in zip("dabc", counts))
    return f""".visible .entry multiply(
.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 n) {{
{registers} .reg .u64 %p, %l, %n; .reg .u32 %w, %t, %s; .reg .pred %past;
mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %s, %ntid.x; mad.lo.u32 %w, %w, %s, %t;
shr.u32 %w, %w, 5; and.b32 %t, %t, 31; mul.wide.u32 %l, %t, {size};
ld.param.u64 %n, [n]; cvt.u64.u32 %p, %w; setp.ge.u64 %past, %p, %n; @%past bra done;
{chr(10).join(lines)}
done: ret; }}"""


def multiply(
    instruction: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, registers: int, wide: bool = False
) -> np.ndarray:
    """Runs an instruction on fragments ``[warp, lane, register]``; the fragments that it yields."""
    parts = [np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (a, b, c)]
    text = mma_text(instruction, (registers, a.shape[2], b.shape[2], c.shape[2]), wide)
    out = np.full((len(a), registers, 32), 0xA5A5A5A5, np.uint64 if wide else np.uint32)
    assemble(SM_80 + text)
    run(text, "multiply", pointers(out, *parts, len(a)), 2, 96)
    return out.transpose(0, 2, 1)


def both(layout: Layout, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fragments of several warps."""
    return (
        np.stack([pack(spread(x, layout.a_count, layout.a), layout.bits) for x in a]),
        np.stack([pack(spread(x, layout.b_count, layout.b), layout.bits) for x in b]),
    )


def result(layout: Layout, d: np.ndarray, dtype: object) -> np.ndarray:
    place = accumulator(layout.m)
    elements = [np.ascontiguousarray(x).view(dtype) for x in d]  # type: ignore[call-overload]
    return np.stack([collect(x, (layout.m, layout.n), place) for x in elements])


def accumulators(layout: Layout, c: np.ndarray) -> np.ndarray:
    elements = [spread(x, layout.m * layout.n // 32, accumulator(layout.m)) for x in c]
    return np.stack([np.ascontiguousarray(x).view(np.uint64 if c.dtype == np.float64 else np.uint32) for x in elements])


def truncated(x: np.ndarray) -> np.ndarray:
    """What tf32 keeps of an f32."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


FLOATS = [
    ("m16n8k8", "f16", "f32", np.float16),
    ("m16n8k8", "f16", "f16", np.float16),
    ("m16n8k16", "f16", "f32", np.float16),
    ("m16n8k16", "f16", "f16", np.float16),
    ("m16n8k8", "bf16", "f32", ml_dtypes.bfloat16),
    ("m16n8k16", "bf16", "f32", ml_dtypes.bfloat16),
    ("m16n8k4", "tf32", "f32", np.float32),
    ("m16n8k8", "tf32", "f32", np.float32),
    ("m8n8k4", "f64", "f64", np.float64),
]


@pytest.mark.parametrize(("shape", "type_", "acc", "dtype"), FLOATS)
@pytest.mark.parametrize("exact", [True, False])
def test_floating_point(shape: str, type_: str, acc: str, dtype: type, exact: bool) -> None:
    layout = LAYOUTS[f"{shape}.{'half' if 'f16' in type_ else type_}"]
    accumulator_type = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[acc]

    def draw(rows: int, columns: int, as_: type) -> np.ndarray:
        values = RNG.integers(-8, 9, (WARPS, rows, columns)) if exact else RNG.standard_normal((WARPS, rows, columns))
        return values.astype(as_)

    a, b, c = (
        draw(layout.m, layout.k, dtype),
        draw(layout.k, layout.n, dtype),
        draw(layout.m, layout.n, accumulator_type),
    )
    fragments = both(layout, a, b)
    count = 2 if acc == "f64" or acc == "f16" else 4
    text = f"mma.sync.aligned.{shape}.row.col.{acc}.{type_}.{type_}.{acc}"
    d = result(layout, multiply(text, *fragments, accumulators(layout, c), count, acc == "f64"), accumulator_type)
    factors = [truncated(x) if type_ == "tf32" else x for x in (a, b)]
    wanted = np.matmul(*(x.astype(np.float64) for x in factors)) + c
    if exact:
        assert np.array_equal(d.astype(np.float64), wanted)
        return
    size = np.matmul(*(np.abs(x.astype(np.float64)) for x in factors)) + np.abs(c)
    epsilon = {"f16": 2**-11, "f32": 2**-24, "f64": 2**-53}[acc]
    bound = epsilon * np.abs(wanted) + (layout.k + 1) * {"f64": 2**-53}.get(acc, 2**-24) * size
    assert (np.abs(d.astype(np.float64) - wanted) <= bound).all()


INTEGERS = [
    (shape, "int8", a, b)
    for shape in ("m8n8k16", "m16n8k16", "m16n8k32")
    for a, b in (("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8"))
] + [
    (shape, "int4", a, b)
    for shape in ("m8n8k32", "m16n8k32", "m16n8k64")
    for a, b in (("s4", "s4"), ("u4", "u4"), ("s4", "u4"), ("u4", "s4"))
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "left", "right"), INTEGERS)
@pytest.mark.parametrize("saturate", [False, True])
def test_integers_wrap_or_saturate(shape: str, kind: str, left: str, right: str, saturate: bool) -> None:
    layout = LAYOUTS[f"{shape}.{kind}"]

    def draw(type_: str, rows: int, columns: int) -> np.ndarray:
        bits = int(type_[1])
        low = -(1 << (bits - 1)) if type_[0] == "s" else 0
        values = RNG.integers(low, low + (1 << bits), (WARPS, rows, columns))
        values[0, 0] = low  # a row and a column of extremes
        values[0, -1] = low + (1 << bits) - 1
        return values.astype(np.int8 if type_[0] == "s" else np.uint8)

    a, b = draw(left, layout.m, layout.k), draw(right, layout.n, layout.k).transpose(0, 2, 1)
    c = RNG.integers(-(2**31), 2**31, (WARPS, layout.m, layout.n)).astype(np.int32)
    c[0], c[1] = 2**31 - 1 - RNG.integers(0, 64, c[0].shape), -(2**31) + RNG.integers(0, 64, c[0].shape)
    text = f"mma.sync.aligned.{shape}.row.col{'.satfinite' if saturate else ''}.s32.{left}.{right}.s32"
    d = multiply(text, *both(layout, a, b), accumulators(layout, c), layout.m // 4)
    total = np.matmul(a.astype(np.int64), b.astype(np.int64)) + c
    wanted = np.clip(total, -(2**31), 2**31 - 1) if saturate else total.astype(np.int32)
    assert (total != total.astype(np.int32)).any()
    assert np.array_equal(result(layout, d, np.int32), wanted)


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("operation", ["xor", "and"])
def test_bits(shape: str, operation: str) -> None:
    layout = LAYOUTS[f"{shape}.b1"]
    a = RNG.integers(0, 2, (WARPS, layout.m, layout.k))
    b = RNG.integers(0, 2, (WARPS, layout.k, layout.n))
    c = RNG.integers(-(2**31), 2**31, (WARPS, layout.m, layout.n)).astype(np.int32)
    c[0] = 2**31 - 1
    text = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc"
    d = multiply(text, *both(layout, a, b), accumulators(layout, c), layout.m // 4)
    ones = np.matmul(a, b) if operation == "and" else np.matmul(a, 1 - b) + np.matmul(1 - a, b)
    assert np.array_equal(result(layout, d, np.int32), (ones + c.astype(np.int64)).astype(np.int32))


def quad_places(lane: int, columns_a: bool, rows_b: bool, half: bool) -> tuple[list[tuple[int, int]], ...]:
    """Rows and columns of a lane's elements of A, B and C: PTX ISA 9.7.14.5.1."""
    high = 0 if lane < 16 else 4
    a = [(i % 4 + high, lane % 4) if columns_a else (lane % 4 + high, i) for i in range(4)]
    b = [(lane % 4, i + high) if rows_b else (i, lane % 4 + high) for i in range(4)]
    return a, b, quad_accumulator(lane, half)


def quad_accumulator(lane: int, half: bool) -> list[tuple[int, int]]:
    high = 0 if lane < 16 else 4
    if half:
        return [(lane % 4 + high, i) for i in range(8)]
    return [((lane & 0b1) + (i & 0b10) + high, (i & 0b100) + (lane & 0b10) + (i & 0b1)) for i in range(8)]


@pytest.mark.parametrize("layouts", [("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")])
@pytest.mark.parametrize(("d_type", "c_type"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
def test_four_small_products(layouts: tuple[str, str], d_type: str, c_type: str) -> None:
    dtypes = {"f16": np.float16, "f32": np.float32}
    a, b = (RNG.integers(-9, 10, (WARPS, 4, *extents)).astype(np.float16) for extents in ((8, 4), (4, 8)))
    c = RNG.integers(-99, 100, (WARPS, 4, 8, 8)).astype(dtypes[c_type])
    parts = [np.empty((WARPS, 32, n), x.dtype) for n, x in ((4, a), (4, b), (8, c))]
    for lane in range(32):
        places = quad_places(lane, layouts[0] == "col", layouts[1] == "row", c_type == "f16")
        for part, matrix, where in zip(parts, (a, b, c), places):
            for i, (row, column) in enumerate(where):
                part[:, lane, i] = matrix[:, lane % 16 // 4, row, column]
    text = f"mma.sync.aligned.m8n8k4.{'.'.join(layouts)}.{d_type}.f16.f16.{c_type}"
    d = multiply(text, *(x.view(np.uint32) for x in parts), 8 if d_type == "f32" else 4)  # type: ignore[arg-type]
    elements = np.ascontiguousarray(d).view(dtypes[d_type])
    wanted = np.matmul(a.astype(np.float64), b) + c
    for lane in range(32):
        for i, (row, column) in enumerate(quad_accumulator(lane, d_type == "f16")):
            assert np.array_equal(elements[:, lane, i], wanted[:, lane % 16 // 4, row, column])


@pytest.mark.parametrize(("type_", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("tf32", np.float32)])
def test_special_values(type_: str, dtype: type) -> None:
    """NaN is the hardware's, infinities and subnormal factors count, tf32 ignores the low bits."""
    layout = LAYOUTS["m16n8k8.tf32" if type_ == "tf32" else "m16n8k16.half"]
    a, b = np.zeros((1, layout.m, layout.k), dtype), np.zeros((1, layout.k, layout.n), dtype)
    c = RNG.standard_normal((1, layout.m, layout.n)).astype(np.float32)
    smallest = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    b[0, 0], b[0, 1] = 1.0, 3.0
    a[0, 0, 0], a[0, 1, 0], a[0, 2, 0] = np.nan, np.inf, -np.inf
    a[0, 3, :2] = np.inf, -np.inf
    a[0, 4, 1], c[0, 4] = smallest, 0
    c[0, 5], a[0, 5, 0] = np.inf, -np.inf
    c[0, 6], c[0, 7] = np.nan, -0.0
    if type_ == "tf32":
        a.view(np.uint32)[0, 8:, 0] = np.float32(1.5).view(np.uint32) | np.uint32(0x1FFF)
    shape = "m16n8k8" if type_ == "tf32" else "m16n8k16"
    text = f"mma.sync.aligned.{shape}.row.col.f32.{type_}.{type_}.f32"
    d = result(layout, multiply(text, *both(layout, a, b), accumulators(layout, c), 4), np.float32)[0]
    assert (d.view(np.uint32)[[0, 3, 5, 6]] == 0x7FFFFFFF).all()
    assert (d[1] == np.inf).all() and (d[2] == -np.inf).all()
    expected = 0.0 if type_ == "tf32" else 3 * smallest
    assert (d[4] == np.float32(expected)).all()
    assert (d[7] == 0).all()
    if type_ == "tf32":
        assert np.array_equal(d[8:], c[0, 8:] + np.float32(1.5))


# ---- moving matrices ----

MOVE = """.visible .entry move(.param .u64 src, .param .u64 dst) {{
.reg .b32 %r<8>; .reg .u64 %p; .reg .u32 %t, %o; .shared .align 128 .b8 tile[2048];
mov.u32 %t, %tid.x; mov.u32 %o, tile; mad.lo.u32 %o, %t, 16, %o;
ld.param.u64 %p, [src]; mad.wide.u32 %p, %t, 16, %p;
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%p]; st.shared.v4.b32 [%o], {{%r0, %r1, %r2, %r3}}; bar.sync 0;
{body}
ld.param.u64 %p, [dst]; mad.wide.u32 %p, %t, 16, %p;
st.global.v4.b32 [%p], {{%r0, %r1, %r2, %r3}}; ret; }}"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_ldmatrix(count: int, transposed: bool, space: str) -> None:
    """Each matrix m is eight rows of eight, named by lanes 8m … 8m + 7 in an order that the test makes up."""
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}{space}.b16"
    body = f"""mov.b32 %r0, 7; mov.b32 %r1, 7; mov.b32 %r2, 7; mov.b32 %r3, 7;
{{ .reg .u32 %x; .reg .u64 %g; mul.lo.u32 %x, %t, 5; and.b32 %x, %x, 31; mov.u32 %o, tile; mad.lo.u32 %o, %x, 16, %o;
cvt.u64.u32 %g, %o; cvta.shared.u64 %g, %g;
{instruction} {names("r", count)}, [{"%o" if space else "%g"}]; }}"""
    text = MOVE.format(body=body)
    assemble_everywhere(SM_80 + text)
    source = RNG.integers(0, 2**16, (32, 8), dtype=np.uint16)
    out = np.full((32, 4), 0xA5A5A5A5, np.uint32)
    run(text, "move", pointers(source, out), 1, 32)
    rows = source[np.arange(32) * 5 % 32].reshape(4, 8, 8)
    for m in range(count):
        matrix = rows[m].T if transposed else rows[m]
        assert np.array_equal(out[:, m], np.ascontiguousarray(matrix).view(np.uint32).reshape(32))
    assert (out[:, count:] == 7).all()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_stmatrix(count: int, transposed: bool) -> None:
    body = f"""{{ .reg .u32 %x; mul.lo.u32 %x, %t, 5; and.b32 %x, %x, 31; mov.u32 %o, tile; mad.lo.u32 %x, %x, 16, %o;
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%p];
stmatrix.sync.aligned.m8n8.x{count}{".trans" if transposed else ""}.shared.b16 [%x], {names("r", count)}; }}
bar.sync 0; mad.lo.u32 %o, %t, 16, %o; ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%o];"""
    text = MOVE.format(body=body)
    assemble_everywhere(HEADER + text)
    source, out = RNG.integers(0, 2**32, (32, 4), dtype=np.uint32), np.full((32, 4), 0xA5A5A5A5, np.uint32)
    run(text, "move", pointers(source, out), 1, 32)
    wanted = source.view(np.uint16).copy()
    for m in range(count):
        matrix = np.ascontiguousarray(source[:, m]).view(np.uint16).reshape(8, 8)
        wanted[np.arange(8 * m, 8 * m + 8) * 5 % 32] = matrix.T if transposed else matrix
    assert np.array_equal(out.view(np.uint16), wanted)


def test_movmatrix() -> None:
    text = MOVE.format(body="movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;")
    assemble_everywhere(SM_80 + text)
    source, out = RNG.integers(0, 2**32, (32, 4), dtype=np.uint32), np.zeros((32, 4), np.uint32)
    run(text, "move", pointers(source, out), 1, 32)
    matrix = np.ascontiguousarray(source[:, 0]).view(np.uint16).reshape(8, 8)
    assert np.array_equal(out[:, 1], np.ascontiguousarray(matrix.T).view(np.uint32).reshape(32))
    assert np.array_equal(out[:, [0, 2, 3]], source[:, [0, 2, 3]])


def test_a_row_that_is_not_aligned() -> None:
    body = "add.u32 %o, %o, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%o];"
    source = np.zeros((32, 4), np.uint32)
    with pytest.raises(ExecutionError, match=r"row is not aligned to 16 bytes \(ptx line \d+\)"):
        run(MOVE.format(body=body), "move", pointers(source, source), 1, 32)


def test_a_row_outside_shared_memory() -> None:
    """Only the lanes whose rows are read need to name any."""
    body = "setp.lt.u32 %q, %t, 8; @!%q mov.u32 %o, 0x7fffff0; ldmatrix.sync.aligned.m8n8.x{}.shared.b16 {}, [%o];"
    text = MOVE.replace(".reg .u64 %p;", ".reg .u64 %p; .reg .pred %q;")
    source, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    run(text.format(body=body.format(1, "{%r0}")), "move", pointers(source, out), 1, 32)
    with pytest.raises(ExecutionError, match=r"a row of a matrix lies outside the block's shared memory \(ptx line"):
        run(text.format(body=body.format(2, "{%r0, %r1}")), "move", pointers(source, out), 1, 32)


# ---- what goes wrong ----

WARP_WIDE = """.visible .entry k() {{ .reg .b32 %r<4>; .reg .u32 %t; .reg .pred %p; mov.u32 %t, %tid.x;
{before}
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;
{after} ret; }}"""


def test_lanes_that_have_exited() -> None:
    before = "setp.eq.u32 %p, %t, 3; @%p exit;"
    with pytest.raises(
        ExecutionError, match=r"needs all 32 lanes of the warp, here are the lanes 0xFFFFFFF7 \(ptx line 6\)"
    ):
        run(WARP_WIDE.format(before=before, after=""), "k", b"", 1, 32)


def test_a_block_that_is_no_whole_warp() -> None:
    with pytest.raises(ExecutionError, match="here are the lanes 0x0000FFFF"):
        run(WARP_WIDE.format(before="", after=""), "k", b"", 1, 48)


def test_lanes_at_different_instructions() -> None:
    before = "setp.lt.u32 %p, %t, 16; @%p bra other;"
    after = "ret;\nother: movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;"
    with pytest.raises(
        ExecutionError,
        match=r"different matrix instructions \(ptx lines 8 and 6\)|needs all 32 lanes .* \(ptx line [68]\)",
    ):
        run(WARP_WIDE.format(before=before, after=after), "k", b"", 1, 32)


def test_a_lane_that_waits_elsewhere_is_a_deadlock() -> None:
    before = "setp.eq.u32 %p, %t, 0; @%p bar.sync 1, 32;"
    with pytest.raises(ExecutionError, match=r"deadlock: .*a matrix instruction \(ptx line 6\)"):
        run(WARP_WIDE.format(before=before, after=""), "k", b"", 1, 32)


@pytest.mark.parametrize(
    ("instruction", "counts", "why"),
    [
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", (4, 4, 2, 4), r"\.e4m3 needs sm_89"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", (4, 4, 2, 4), r"\.e5m2 needs sm_89"),
        ("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", (4, 8, 4, 4), r"\.m16n8k16 of \.f64 needs sm_90"),
    ],
)
def test_newer_shapes_are_refused_by_name(instruction: str, counts: tuple[int, int, int, int], why: str) -> None:
    text = HEADER + mma_text(instruction, counts, "f64" in instruction)
    with pytest.raises(UnsupportedError, match=why) as caught:
        compile_kernel(text, "multiply")
    line = next(k for k, x in enumerate(text.splitlines(), 1) if x.startswith("mma"))
    assert f"ptx line {line}: `{instruction}" in re.sub(r"\s+", " ", str(caught.value))

"""Kernels run on the CPU device, from their PTX: against NumPy in float64, and against Python's own arithmetic."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.compiling import compile_kernel_function
from support.sample_kernels import (
    SAMPLES,
    block_sum,
    divisors,
    edges,
    grid_sum,
    halves,
    mandelbrot,
    matmul,
    raw_copy,
    reverse_block,
    saxpy,
    smooth,
    tone,
    transpose,
)

import abi
import interop as io
from abi import Scalar, Slice, Tensor
from abi.layout import buffer_size, packing
from interop import simt
from interop.executor import compile_kernel
from interop.frontend import Compiled
from interop.frontend.conversion import common, wrap
from interop.language import device

hypothesis = pytest.importorskip("hypothesis")
given, settings, HealthCheck, st = hypothesis.given, hypothesis.settings, hypothesis.HealthCheck, hypothesis.strategies

_FORMAT = {
    "bool": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
Dim3 = tuple[int, int, int]


def pack(kernel: abi.Kernel, arguments: Sequence[Any]) -> bytearray:
    """The parameter buffer for `arguments`."""
    buffer = bytearray(buffer_size(kernel.params))
    for param, argument in zip(kernel.params, arguments, strict=True):
        for component, offset, size in packing(param):
            if component.role == "value":
                assert isinstance(param.type, Scalar)
                data = np.array(argument, _FORMAT[param.type.name]).tobytes()
            else:
                strides = [s // argument.itemsize for s in argument.strides]
                value = {
                    "pointer": argument.ctypes.data,
                    "length": argument.size,
                    "dim": argument.shape[component.axis] if argument.ndim else 0,
                    "stride": strides[component.axis] if strides else 0,
                }[component.role]
                data = value.to_bytes(8, "little", signed=value < 0)
            assert len(data) == size
            buffer[offset : offset + size] = data
    return buffer


def run(compiled: Compiled, arguments: Sequence[Any], grid: Dim3, block: Dim3, shared: int = 0) -> None:
    kernel = compiled.program.kernel
    host = compile_kernel(compiled.program.images[0].text, kernel.symbol)
    host.launch(bytes(pack(kernel, arguments)), grid, block, shared)


def sample(function: Callable[..., Any]) -> Compiled:
    return compile_kernel_function(function, **SAMPLES[function])


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def poisoned(shape: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An output that shows what was not written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 77, dtype)


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_saxpy(n: int, random: np.random.Generator) -> None:
    x, y = random.standard_normal((2, n)).astype(np.float32)
    expected = 2.5 * x.astype(np.float64) + y
    run(sample(saxpy), [x, y, 2.5], (-(-n // 256), 1, 1), (256, 1, 1))
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (8, 32), (37, 61)])
def test_edges(shape: tuple[int, int], random: np.random.Generator) -> None:
    src = random.standard_normal(shape).astype(np.float32)
    dst = poisoned(shape)
    run(sample(edges), [src, dst], (-(-shape[1] // 32), -(-shape[0] // 8), 1), (32, 8, 1))
    padded = np.pad(src.astype(np.float64), 1, mode="edge")
    gx = padded[1:-1, 2:] - padded[1:-1, :-2]
    gy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    np.testing.assert_allclose(dst, np.hypot(gx, gy) + np.where(gx < 0, 0, gx * gx), rtol=1e-5, atol=1e-6)


def test_grid_sum(random: np.random.Generator) -> None:
    x = random.standard_normal(1003).astype(np.float32)
    y = poisoned(64)
    run(sample(grid_sum), [x, y], (2, 1, 1), (32, 1, 1))
    expected = [x[k::64].astype(np.float64).sum() for k in range(64)]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_block_sum(random: np.random.Generator) -> None:
    x = random.standard_normal(700).astype(np.float32)
    y = poisoned(700)
    run(sample(block_sum), [x, y], (3, 1, 1), (256, 1, 1))
    expected = [x[k // 256 * 256 :][:256].astype(np.float64).sum() for k in range(700)]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_mandelbrot() -> None:
    out = poisoned((40, 50), np.int32)
    x0, y0, step, limit = -2.0, -1.0, 0.05, 60
    run(sample(mandelbrot), [out, x0, y0, step, limit], (2, 5, 1), (32, 8, 1))
    row, col = np.mgrid[0:40, 0:50]
    c = (x0 + col * step) + 1j * (y0 + row * step)
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(limit):
        inside = np.abs(z) ** 2 < 4.0
        count += inside
        z = np.where(inside, z * z + c, z)
    # Points on the border of the set differ by rounding.
    assert np.mean(out == count) > 0.98 and out.min() >= 1 and out.max() == limit


def test_tone(random: np.random.Generator) -> None:
    x = random.uniform(0.01, 3.0, 500).astype(np.float32)
    y = poisoned(500)
    run(sample(tone), [x, y, 0.45], (4, 1, 1), (128, 1, 1))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide ** np.float32(0.45) * np.exp(-wide) + np.tanh(wide), rtol=3e-6)


def test_matmul_of_strided_tensors(random: np.random.Generator) -> None:
    a = random.standard_normal((30, 18)).astype(np.float32)[:, ::2]
    b = random.standard_normal((21, 9)).astype(np.float32).T
    c = poisoned((30, 21))
    run(sample(matmul), [a, b, c], (2, 2, 1), (16, 16, 1))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tile", [16, 8])
def test_transpose(tile: int, random: np.random.Generator) -> None:
    src = random.standard_normal((45, 33)).astype(np.float32)
    dst = poisoned((33, 45))
    compiled = compile_kernel_function(transpose, consts={"TILE": tile}, **SAMPLES[transpose])
    run(compiled, [src, dst], (-(-45 // tile), -(-33 // tile), 1), (tile, tile, 1))
    np.testing.assert_array_equal(dst, src.T)


def test_smooth(random: np.random.Generator) -> None:
    x = random.standard_normal(100).astype(np.float32)
    y = poisoned(100)
    run(sample(smooth), [x, y], (4, 1, 1), (32, 1, 1))
    expected = np.convolve(x.astype(np.float64), [0.25, 0.5, 0.25], mode="valid")
    np.testing.assert_allclose(y[1:-1], expected, rtol=1e-5, atol=1e-6)
    assert np.isnan(y[[0, -1]]).all()


def test_divisors(random: np.random.Generator) -> None:
    x = random.integers(1, 10000, 50).astype(np.uint32)
    y = poisoned(50, np.uint32)
    run(sample(divisors), [x, y, 360], (1, 1, 1), (16, 1, 1))
    np.testing.assert_array_equal(y, np.gcd(x, 360))


def test_raw_copy(random: np.random.Generator) -> None:
    source = random.standard_normal(40).astype(np.float32)
    target, counter = poisoned(40), np.full(40, 127, np.int8)
    run(sample(raw_copy), [source, target, counter, 33], (2, 1, 1), (32, 1, 1))
    np.testing.assert_array_equal(target[:33], source[:33])
    assert np.isnan(target[33:]).all()
    assert (counter[:33] == -128).all() and (counter[33:] == 127).all()


def test_halves(random: np.random.Generator) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = random.standard_normal(100).astype(np.float16)
    flags = random.integers(0, 2, 100).astype(np.uint8)
    y, z = np.full(100, 77, ml_dtypes.bfloat16), poisoned(100, np.uint8)
    run(sample(halves), [x, flags, y, z], (2, 1, 1), (32, 1, 1))
    wide = x.astype(np.float32)
    expected = np.where(flags, wide * 2 + 1, wide).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(z, ((x > 0.5) | (flags == 0)).astype(np.uint8))


def test_reverse_block_in_dynamic_shared_memory(random: np.random.Generator) -> None:
    x = random.standard_normal(96).astype(np.float32)
    y = poisoned(96)
    run(sample(reverse_block), [x, y], (2, 1, 1), (48, 1, 1), shared=4 * 48)
    np.testing.assert_array_equal(y, x.reshape(2, 48)[:, ::-1].ravel())
    with pytest.raises(abi.ExecutionError, match="larger than the launch's dynamic shared memory"):
        run(sample(reverse_block), [x, y], (2, 1, 1), (48, 1, 1), shared=4 * 47)


def scalars(
    y: io.DisjointSlice[io.f64],
    flag: io.bool_,
    h: io.f16,
    b: io.i8,
    w: io.u16,
    u: io.u64,
    d: io.f64,
    last: io.bool_,
):
    i = simt.global_index()
    values = (io.f64(flag), io.f64(h), io.f64(b), io.f64(w), io.f64(u), d, io.f64(last))
    for k in (0, 1, 2, 3, 4, 5, 6):
        if i == k:
            y[i] = values[k]


def test_scalars_of_every_width_arrive() -> None:
    y = poisoned(7, np.float64)
    run(compile_kernel_function(scalars), [y, 1, 1.5, -100, 65535, 2**63 + 2048, 0.1, 0], (1, 1, 1), (7, 1, 1))
    assert y.tolist() == [1.0, 1.5, -100.0, 65535.0, float(2**63 + 2048), 0.1, 0.0]


def volume(src: io.Tensor[io.f32, 4], dst: io.DisjointTensor[io.f32, 3], k: io.i64):
    p = simt.global_index(3)
    plane, row, col = p
    if plane < dst.shape[0] and row < dst.shape[1] and col < dst.shape[2]:
        dst[p] = src[k, plane, row, col] + io.f32(src.strides[3])


def test_tensors_of_rank_3_and_4_with_any_strides(random: np.random.Generator) -> None:
    src = random.standard_normal((10, 4, 3, 2)).astype(np.float32).transpose(2, 1, 0, 3)[:, ::2, ::-1, :]
    dst = poisoned((5, 10, 2)).transpose(0, 1, 2)[:2]
    run(compile_kernel_function(volume), [src, dst, 2], (1, 4, 2), (32, 3, 1))
    np.testing.assert_array_equal(dst, src[2] + 1)


# -- checks at run time ------------------------------------------------------------------------------------------------


def overrun(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = x[i + 1]


def test_an_index_out_of_range_names_array_line_and_thread() -> None:
    line = overrun.__code__.co_firstlineno + 2
    x, y = np.zeros(4, np.float32), poisoned(4)
    with pytest.raises(abi.ExecutionError, match=rf"an index of 'x' is out of range .*:{line}.*thread \(3, 0, 0\)"):
        run(compile_kernel_function(overrun), [x, y], (1, 1, 1), (4, 1, 1))


def test_a_negative_index_is_out_of_range() -> None:
    def before(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        y[i] = x[i - 1]

    with pytest.raises(abi.ExecutionError, match="an index of 'x' is out of range"):
        run(compile_kernel_function(before), [np.zeros(4, np.float32), poisoned(4)], (1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize("row,col", [(2, 0), (0, 3), (-1, 0), (0, -1)])
def test_each_axis_of_a_tensor_is_checked(row: int, col: int) -> None:
    def read(x: io.Tensor[io.f32, 2], y: io.DisjointSlice[io.f32], r: io.i32, c: io.i32):
        y[simt.global_index()] = x[r, c]

    with pytest.raises(abi.ExecutionError, match="an index of 'x' is out of range"):
        run(compile_kernel_function(read), [np.zeros((2, 3), np.float32), poisoned(1), row, col], (1, 1, 1), (1, 1, 1))


def test_division_by_zero_and_assertions_stop_the_kernel() -> None:
    def divide(y: io.DisjointSlice[io.i32], n: io.i32):
        i = simt.global_index()
        y[i] = 7 // n

    def claim(y: io.DisjointSlice[io.i32], n: io.i32):
        assert n > 3, "n is too small"
        y[simt.global_index()] = n

    y = poisoned(1, np.int32)
    with pytest.raises(abi.ExecutionError, match="integer division by zero"):
        run(compile_kernel_function(divide), [y, 0], (1, 1, 1), (1, 1, 1))
    with pytest.raises(abi.ExecutionError, match="n is too small"):
        run(compile_kernel_function(claim), [y, 3], (1, 1, 1), (1, 1, 1))
    run(compile_kernel_function(claim), [y, 4], (1, 1, 1), (1, 1, 1))
    assert y[0] == 4


# -- control flow against Python ---------------------------------------------------------------------------------------


def ranges(
    a: io.Slice[io.i32],
    b: io.Slice[io.i32],
    s: io.Slice[io.i32],
    count: io.DisjointSlice[io.i32],
    last: io.DisjointSlice[io.i32],
):
    i = simt.global_index()
    n = 0
    value = io.i32(-99)
    for k in range(a[i], b[i], s[i]):
        n += 1
        value = k
        if n == 50:
            break
    count[i] = n
    last[i] = value


EDGE = [0, 1, -1, 2**31 - 1, 2**31 - 2, 2**31 - 7, -(2**31), -(2**31) + 1, -(2**31) + 5]
I32 = st.one_of(st.sampled_from(EDGE), st.integers(-40, 40))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
@given(st.lists(st.tuples(I32, I32, I32.filter(bool)), min_size=1, max_size=16))
def test_ranges_are_pythons_up_to_the_ends_of_the_type(cases: list[tuple[int, int, int]]) -> None:
    a, b, s = (np.array(column, np.int32) for column in zip(*cases, strict=True))
    count, last = poisoned(len(cases), np.int32), poisoned(len(cases), np.int32)
    run(compile_kernel_function(ranges), [a, b, s, count, last], (1, 1, 1), (len(cases), 1, 1))
    for index, case in enumerate(cases):
        steps = range(*case)[:50]
        assert (count[index], last[index]) == (len(steps), steps[-1] if steps else -99)


@device
def position(x, value):
    for k in range(io.i32(len(x))):
        if x[k] == value:
            return k
    return -1


def jumps(x: io.Slice[io.i32], y: io.DisjointSlice[io.i32]):
    i = simt.global_index()
    total = 0
    for k in range(20):
        if k % 3 == 0:
            continue
        if k > x[i]:
            break
        for j in range(k, 0, -2):
            if j == 5:
                continue
            total += j
    while True:
        half = total // 2
        total -= 7
        if total < 0 or not half > 3:
            break
    y[i] = total + half * 1000 + position(x, x[i]) * 100000


def test_break_continue_and_return_in_nested_loops() -> None:
    x = np.arange(-3, 40, dtype=np.int32)
    y = poisoned(len(x), np.int32)
    run(compile_kernel_function(jumps), [x, y], (1, 1, 1), (len(x), 1, 1))
    for index, limit in enumerate(x):
        total = 0
        for k in range(20):
            if k % 3 == 0:
                continue
            if k > limit:
                break
            total += sum(j for j in range(k, 0, -2) if j != 5)
        while True:
            half = total // 2
            total -= 7
            if total < 0 or not half > 3:
                break
        assert y[index] == total + half * 1000 + index * 100000


def chains(x: io.Slice[io.i32], y: io.DisjointSlice[io.i32]):
    i = simt.global_index()
    v = x[i]
    # Each right-hand side would be out of range if it were evaluated when it should not be.
    a = 0 <= v < len(x) and x[v] > 0
    b = v < 0 or v >= len(x) or x[v] > 0
    c = 1 if a else 2 if b else 3
    y[i] = c


def test_short_circuit() -> None:
    x = np.array([-5, 0, 1, 3, 99, 4], np.int32)
    y = poisoned(6, np.int32)
    run(compile_kernel_function(chains), [x, y], (1, 1, 1), (6, 1, 1))
    inside = [0 <= v < 6 and x[v] > 0 for v in x]
    outside = [v < 0 or v >= 6 or x[v] > 0 for v in x]
    assert y.tolist() == [1 if a else 2 if b else 3 for a, b in zip(inside, outside, strict=True)]


# -- expressions against Python ----------------------------------------------------------------------------------------

INTEGERS = [abi.SCALARS[f"{sign}{bits}"] for sign in "iu" for bits in (8, 16, 32, 64)]
VARIABLES = {f"v{n}": type_ for n, type_ in enumerate(INTEGERS)}
Evaluate = Callable[[dict[str, int]], int]


class DivisionByZero(Exception):
    """Python's value does not exist; the kernel would stop."""


def _leaf(name: str) -> tuple[str, Scalar, Evaluate]:
    return name, VARIABLES[name], lambda values: values[name]


def _cast(operand: tuple[str, Scalar, Evaluate], type_: Scalar) -> tuple[str, Scalar, Evaluate]:
    text, _, evaluate = operand
    return f"io.{type_}({text})", type_, lambda values: wrap(evaluate(values), type_)


def _unary(operand: tuple[str, Scalar, Evaluate], kind: str) -> tuple[str, Scalar, Evaluate]:
    text, type_, evaluate = operand
    form, function = {
        "neg": ("(-{0})", lambda v: -v),
        "invert": ("(~{0})", lambda v: ~v),
        "abs": ("abs({0})", abs),
        "cube": ("({0} ** 3)", lambda v: v**3),
    }[kind]
    return form.format(text), type_, lambda values: wrap(function(evaluate(values)), type_)


def _divide(a: int, b: int, kind: str) -> int:
    if b == 0:
        raise DivisionByZero
    return a // b if kind == "//" else a % b


def _shift(a: int, b: int, kind: str) -> int:
    amount = 1000 if b < 0 else min(b, 1000)
    return a << amount if kind == "<<" else a >> amount


def _binary(left: Any, right: Any, kind: str) -> tuple[str, Scalar, Evaluate]:
    if kind in ("<<", ">>"):
        text, type_, function = f"({left[0]} {kind} {right[0]})", left[1], lambda a, b: _shift(a, b, kind)
        return text, type_, lambda values: wrap(function(left[2](values), right[2](values)), type_)
    joint = common(left[1], right[1])
    if joint is None:
        joint = left[1]
        right = _cast(right, joint)
    if kind in ("min", "max"):
        text = f"{kind}({left[0]}, {right[0]})"
        choose = min if kind == "min" else max
        return text, joint, lambda values: choose(left[2](values), right[2](values))
    if kind == "if":
        text = f"(io.{joint}({left[0]}) if {left[0]} < {right[0]} else io.{joint}({right[0]}))"
        return text, joint, lambda values: min(left[2](values), right[2](values))
    functions: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
        "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "//": lambda a, b: _divide(a, b, "//"),
        "%": lambda a, b: _divide(a, b, "%"),
    }  # fmt: skip
    result = joint
    return f"({left[0]} {kind} {right[0]})", joint, lambda v: wrap(functions[kind](left[2](v), right[2](v)), result)


EXPRESSIONS = st.recursive(
    st.sampled_from(sorted(VARIABLES)).map(_leaf),
    lambda inner: st.one_of(
        st.builds(_cast, inner, st.sampled_from(INTEGERS)),
        st.builds(_unary, inner, st.sampled_from(["neg", "invert", "abs", "cube"])),
        st.builds(
            _binary,
            inner,
            inner,
            st.sampled_from(["+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>", "min", "max", "if"]),
        ),
    ),
    max_leaves=8,
)


def _value(type_: Scalar) -> Any:
    ends = [0, 1, 2, 3, 7, type_.maximum, type_.maximum - 1, type_.minimum, type_.minimum + 1]
    return st.one_of(st.sampled_from(ends), st.integers(type_.minimum, type_.maximum), st.integers(0, 20))


VALUES = st.fixed_dictionaries({name: _value(type_) for name, type_ in VARIABLES.items()})


def _expression_kernel(text: str, result: str) -> Callable[..., Any]:
    parameters = [*(f"{n}: io.Slice[io.{t}]" for n, t in VARIABLES.items()), f"out: io.DisjointSlice[io.{result}]"]
    lines = [f"def kernel({', '.join(parameters)}):", "    i = simt.global_index()"]
    lines += [f"    {n} = {n}[i]".replace(f"{n} =", f"w{n[1:]} =") for n in VARIABLES]
    source = "\n".join([*lines, f"    out[i] = {text.replace('v', 'w')}"]) + "\n"
    file = f"<expression {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, file, "exec"), namespace)
    function: Callable[..., Any] = namespace["kernel"]
    return function


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(EXPRESSIONS, st.lists(VALUES, min_size=8, max_size=8))
def test_integer_expressions_wrap_as_their_types_say(expression: Any, rows: list[dict[str, int]]) -> None:
    text, type_, evaluate = expression
    kept, expected = [], []
    for row in rows:
        try:
            expected.append(evaluate(row))
            kept.append(row)
        except DivisionByZero:
            continue
    if not kept:
        return
    columns = [np.array([row[name] for row in kept], _FORMAT[t.name]) for name, t in VARIABLES.items()]
    out = poisoned(len(kept), _FORMAT[type_.name])
    run(compile_kernel_function(_expression_kernel(text, type_.name)), [*columns, out], (1, 1, 1), (len(kept), 1, 1))
    assert out.tolist() == expected, text


def floats(x: io.Slice[io.f32], y: io.Slice[io.f32], out: io.DisjointTensor[io.f32, 1], k: io.i32):
    i = simt.global_index()
    a, b = x[i], y[i]
    v = a
    if k == 0:
        v = a + b
    elif k == 1:
        v = a - b
    elif k == 2:
        v = a * b
    elif k == 3:
        v = a / b
    elif k == 4:
        v = io.sqrt(a)
    elif k == 5:
        v = io.floor(a)
    elif k == 6:
        v = io.ceil(b)
    elif k == 7:
        v = -a
    elif k == 8:
        v = abs(a)
    elif k == 9:
        v = io.f32(a < b)
    elif k == 10:
        v = io.round_even(a)
    out[i] = v


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=16), st.integers(0, 10))
def test_float_operations_round_as_ieee_says(pairs: list[tuple[float, float]], k: int) -> None:
    x, y = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    out = poisoned(len(pairs))
    run(compile_kernel_function(floats), [x, y, out, k], (1, 1, 1), (len(pairs), 1, 1))
    with np.errstate(all="ignore"):
        expected = [
            x + y, x - y, x * y, x / y, np.sqrt(x), np.floor(x), np.ceil(y), -x, np.abs(x),
            (x < y).astype(np.float32), np.rint(x),
        ][k]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


def casts(x: io.Slice[io.f32], a: io.DisjointSlice[io.i32], b: io.DisjointSlice[io.u8], c: io.DisjointSlice[io.i64]):
    i = simt.global_index()
    a[i] = io.i32(x[i])
    b[i] = io.u8(x[i])
    c[i] = io.i64(x[i])


@settings(deadline=None, max_examples=25)
@given(st.lists(FLOATS, min_size=1, max_size=16))
def test_float_to_integer_truncates_and_saturates(values: list[float]) -> None:
    x = np.array(values, np.float32)
    outputs = [poisoned(len(values), t) for t in (np.int32, np.uint8, np.int64)]
    run(compile_kernel_function(casts), [x, *outputs], (1, 1, 1), (len(values), 1, 1))
    for out, type_ in zip(outputs, (abi.i32, abi.u8, abi.i64), strict=True):
        for got, value in zip(out.tolist(), x.tolist(), strict=True):
            if math.isnan(value):
                assert got == 0
            else:
                bounded = max(float(type_.minimum), min(float(type_.maximum), value))
                assert got == max(type_.minimum, min(type_.maximum, math.trunc(bounded)))


def conversions(
    i: io.Slice[io.i64],
    u: io.Slice[io.u64],
    f: io.DisjointSlice[io.f32],
    d: io.DisjointSlice[io.f64],
    h: io.DisjointSlice[io.f16],
):
    k = simt.global_index()
    f[k] = io.f32(i[k])
    d[k] = io.f64(u[k])
    h[k] = io.f16(io.f32(i[k]))


def test_integer_to_float_rounds_to_nearest(random: np.random.Generator) -> None:
    i = np.concatenate([random.integers(-(2**63), 2**63 - 1, 50), random.integers(-70000, 70000, 50)])
    u = random.integers(0, 2**64, 100, dtype=np.uint64)
    f, d, h = poisoned(100), poisoned(100, np.float64), poisoned(100, np.float16)
    run(compile_kernel_function(conversions), [i, u, f, d, h], (1, 1, 1), (100, 1, 1))
    np.testing.assert_array_equal(f, i.astype(np.float32))
    np.testing.assert_array_equal(d, u.astype(np.float64))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h, i.astype(np.float32).astype(np.float16))


def test_tensor_and_slice_types_are_exported() -> None:
    kernel = sample(matmul).program.kernel
    assert all(isinstance(p.type, Tensor) for p in kernel.params) and not any(
        isinstance(p.type, Slice) for p in kernel.params
    )

"""Types of expressions: promotion, literals, variables on several paths, annotations, constants."""

# Kernels here exist for the types of their variables, which nothing else uses.
# ruff: noqa: F841, B007, SIM113

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.compiling import compile_kernel_function

import interop as io
from abi import SCALARS, Scalar, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u16, u32
from interop import simt
from interop.errors import CompileError, SyntaxError_, TypeError_
from interop.frontend.conversion import common, literal_fits, widens, wrap
from interop.ir import ops, walk
from interop.ir.rounding import round_to
from interop.language import device

NUMBERS = [t for t in SCALARS.values() if t is not bool_]


def holds(type_: Scalar) -> tuple[float, float]:
    """The range of whole numbers that a type holds exactly."""
    if type_.kind != "float":
        return type_.minimum, type_.maximum
    digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[type_.name]
    return -(2**digits), 2**digits


@pytest.mark.parametrize("source,target", list(itertools.product(NUMBERS, NUMBERS)), ids=str)
def test_implicit_conversions_lose_nothing_and_stay_in_their_kind(source: Scalar, target: Scalar) -> None:
    is_float = (source.kind == "float", target.kind == "float")
    low, high = holds(target)
    inside = low <= holds(source)[0] and holds(source)[1] <= high
    # bf16 has fewer digits than f16 but a larger exponent: neither holds the other.
    halves = {source, target} == {f16, bf16}
    assert widens(source, target) == (is_float[0] == is_float[1] and inside and not halves)


@pytest.mark.parametrize("left,right", list(itertools.combinations(NUMBERS, 2)), ids=str)
def test_promotion_is_symmetric_and_one_of_the_two(left: Scalar, right: Scalar) -> None:
    assert common(left, right) == common(right, left)
    assert common(left, right) in (left, right, None)


def test_literals_fit_exactly_the_range() -> None:
    assert literal_fits(255, u8) and not literal_fits(256, u8) and not literal_fits(-1, u8)
    assert literal_fits(-128, i8) and not literal_fits(-129, i8)
    assert literal_fits(1, f16) and literal_fits(1e38, f32) and not literal_fits(1e39, f32)
    assert not literal_fits(1.5, i32) and not literal_fits(True, i32) and literal_fits(True, bool_)
    assert literal_fits(float("inf"), f16)


def test_wrapping() -> None:
    assert [wrap(v, u8) for v in (256, -1)] == [0, 255]
    assert [wrap(v, i8) for v in (128, -129)] == [-128, 127]


@pytest.mark.parametrize("value", [1.0, 1.00390625, 1.01171875, 3.0e38, 3.4e38, 1e-40, 9.2e-41, -2.5, 65280.0, 0.1])
def test_bf16_rounds_as_the_reference_does(value: float) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    import numpy as np

    assert round_to(value, bf16) == float(np.float32(value).astype(ml_dtypes.bfloat16)) or abs(value) < 1e-38


def stored_type(function: Callable[..., Any]) -> Scalar:
    """The type of the variable `v` in a kernel."""
    compiled = compile_kernel_function(function).function
    found = [value.type for value, name in compiled.names.items() if name == "v"]
    assert found and isinstance(found[-1], Scalar)
    return found[-1]


def test_lengths_and_indices_are_i64() -> None:
    def lengths(x: io.Slice[io.f32], t: io.Tensor[io.f32, 2]):
        v = len(x) + t.shape[0] + t.strides[1] + len(t) + simt.thread_index.x + simt.grid_dim.z

    assert stored_type(lengths) == i64


def test_an_integer_counter_is_i32_unless_something_wider_comes_in() -> None:
    def small(n: io.i32):
        v = 0
        for k in range(n):
            v += 1

    def large(x: io.Slice[io.f32]):
        v = 0
        for k in range(len(x)):
            v += k

    assert stored_type(small) == i32
    assert stored_type(large) == i64


def test_an_accumulator_takes_the_type_of_what_is_added() -> None:
    def total(x: io.Slice[io.f64]):
        v = 0
        for k in range(3):
            v += x[k]

    assert stored_type(total) == f64


def test_chained_accumulators_settle() -> None:
    def chain(x: io.Slice[io.f64]):
        a = 0
        v = 0
        for k in range(3):
            v = a
            a = x[k]

    assert stored_type(chain) == f64


def test_nested_loops_settle() -> None:
    def nested(x: io.Slice[io.f32]):
        v = 0.0
        for a in range(2):
            for b in range(2):
                for c in range(2):
                    for d in range(2):
                        v += x[a + b + c + d]

    assert stored_type(nested) == f32


def test_annotation_fixes_the_type() -> None:
    def annotated(n: io.i32):
        v: io.i64 = n

    def too_narrow(n: io.i32):
        v: io.i16 = n

    assert stored_type(annotated) == i64
    with pytest.raises(TypeError_, match="i32 does not convert to i16"):
        stored_type(too_narrow)


def test_a_choice_of_literals_is_rounded_once() -> None:
    def choice(x: io.Slice[io.f64], y: io.DisjointSlice[io.f64], n: io.i32):
        i = simt.global_index()
        w = 0.1 if n > 2 else 0.2
        y[i] = x[i] * w

    operations = list(walk(compile_kernel_function(choice).function.body))
    constants = [op for op in operations if isinstance(op, ops.Constant) and op.value == 0.1]
    assert [op.result.type for op in constants] == [f64]


def test_shifts_keep_the_left_type() -> None:
    def shift(a: io.u16, b: io.i64):
        v = a << b

    assert stored_type(shift) == u16


def test_witness_decays_in_arithmetic() -> None:
    def index(x: io.Slice[io.f32]):
        v = simt.global_index() + 1

    assert stored_type(index) == i64


def test_a_variable_may_change_its_type_in_straight_code() -> None:
    def change(n: io.i32, a: io.f32):
        v = n + 1
        v = a * 2.0

    assert stored_type(change) == f32


def test_a_temporary_may_have_two_types_if_it_is_not_used_after() -> None:
    def temporary(y: io.DisjointSlice[io.f32], n: io.i32):
        if n > 2:
            t = n
        else:
            t = 2.5 * y[0] if False else 1.5
        y[simt.global_index()] = 1.0

    compile_kernel_function(temporary)


def test_assigned_in_all_breaks_of_an_endless_loop() -> None:
    def search(x: io.Slice[io.i32], y: io.DisjointSlice[io.i32]):
        k = 0
        while True:
            found = x[k]
            if found > 3:
                break
            k += 1
        y[simt.global_index()] = found

    compile_kernel_function(search)


def test_assigned_in_a_loop_that_may_not_run() -> None:
    def loop(x: io.Slice[io.i32], y: io.DisjointSlice[io.i32]):
        for k in range(len(x)):
            last = x[k]
        y[simt.global_index()] = last

    with pytest.raises(TypeError_, match="'last' may have no value here"):
        compile_kernel_function(loop)


N = io.Const("N", 4)
SCALE = 2.5
OFFSETS = (1, 2, 3)
FLAG = True


def test_captured_constants_fold() -> None:
    def folded(y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        if FLAG and N > 3:
            y[i] = SCALE * OFFSETS[1] + len(OFFSETS)
        else:
            y[i] = undefined_name_in_dead_code  # noqa: F821

    operations = list(walk(compile_kernel_function(folded).function.body))
    assert [op.value for op in operations if isinstance(op, ops.Constant)] == [8.0]
    assert not any(isinstance(op, ops.If) for op in operations)


def test_specialised_constants_replace_the_default() -> None:
    def sized(y: io.DisjointSlice[io.i32]):
        y[simt.global_index()] = N * 2

    compiled = compile_kernel_function(sized, consts={"N": 10})
    assert compiled.program.kernel.symbol == "sized_N10"
    values = [op.value for op in walk(compiled.function.body) if isinstance(op, ops.Constant)]
    assert values == [20]


def test_closures_are_captured() -> None:
    factor = 3

    def scaled(y: io.DisjointSlice[io.i32]):
        i = simt.global_index()
        y[i] = y[i] * factor

    assert any(
        isinstance(op, ops.Constant) and op.value == 3 for op in walk(compile_kernel_function(scaled).function.body)
    )


def test_annotations_may_name_the_callers_locals() -> None:
    element = io.f32
    array = io.DisjointSlice[element]

    def local(y: array, a: io.Slice[element]):  # type: ignore[valid-type]
        y[simt.global_index()] = 1.0

    compile_kernel_function(local, caller_locals={"array": array, "element": element})


@device
def typed(x: io.f32, n: io.i64 = 3):
    return x * io.f32(n)


@device
def narrow(x) -> io.f32:
    return x


def test_device_functions_check_annotated_results() -> None:
    def good(y: io.DisjointSlice[io.f64], h: io.f16):
        v = narrow(h)
        w = narrow(2)

    def bad(y: io.DisjointSlice[io.f64]):
        i = simt.global_index()
        y[i] = narrow(y[i])

    assert stored_type(good) == f32
    with pytest.raises(TypeError_, match=r"f64 does not convert to f32 .*returned by narrow\(\)"):
        compile_kernel_function(bad)


def test_device_functions_check_annotated_parameters() -> None:
    def good(y: io.DisjointSlice[io.f32], h: io.f16):
        i = simt.global_index()
        y[i] = typed(h) + typed(y[i], n=4)

    def bad(y: io.DisjointSlice[io.f32], d: io.f64):
        y[simt.global_index()] = typed(d)

    def missing(y: io.DisjointSlice[io.f32]):
        y[simt.global_index()] = typed()

    compile_kernel_function(good)
    with pytest.raises(TypeError_, match=r"f64 does not convert to f32 .*parameter 'x' of typed\(\)"):
        compile_kernel_function(bad)
    with pytest.raises(TypeError_, match="missing a required argument: 'x'"):
        compile_kernel_function(missing)


EXPRESSION_ERRORS = {
    "flag + 1": "'\\+' mixes bool and an int literal",
    "flag < flag": "'<' of two bools",
    "-flag": "arithmetic on a bool",
    "a & a": "'&' of two floats",
    "~a": "'~' of a float",
    "a << 1": "'<<' of f32",
    "n << a": "a shift by f32",
    "n << -1": "a shift by -1",
    "n // 0": "division by zero",
    "1 / 0": "'/' between integers",
    "1.0 / 0.0": "has no value",
    "n + 1.5": "'\\+' mixes i32 and a float literal",
    "n + 99999999999": "99999999999 does not fit i32",
    "h + b": "'\\+' mixes f16 and bf16",
    "io.sqrt(n)": "sqrt\\(\\) of i32",
    "io.fma(a, a)": "takes 3 arguments, 2 are given",
    "min(n, a)": "min\\(\\).* mixes",
    "abs(flag)": "abs\\(\\) of a bool",
    "len(a)": "len\\(\\) of f32",
    "x": "expected a number",
    "x + 1": "expected a number, got slice<f32>",
    "n(3)": "cannot be called",
    "n[0]": "cannot be indexed",
    "(1, 2)[3]": "index 3 is out of range",
    "(1, 2)[n]": "compile-time integer",
    "1 if n else x": "the conditional expression is",
    "io.nothing(3)": "io has no 'nothing'",
    "simt.global_index(4)": "1, 2 or 3",
    "simt.thread_index(3)": "takes an axis",
    "simt.barrier(1)": "takes 0 arguments",
    "io.ceil_div(a, a)": "ceil_div\\(\\) of f32",
    "n ** -1": "an integer to a negative power",
}


@pytest.mark.parametrize("expression", EXPRESSION_ERRORS)
def test_ill_typed_expression(expression: str) -> None:
    import linecache

    parameters = (
        "x: io.Slice[io.f32], n: io.i32, a: io.f32, flag: io.bool_, h: io.f16, b: io.bf16, y: io.DisjointSlice[io.f64]"
    )
    source = f"def kernel({parameters}):\n    v = {expression}\n    y[simt.global_index()] = v\n"
    file = f"<expression {expression}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, file, "exec"), namespace)
    with pytest.raises(CompileError, match=EXPRESSION_ERRORS[expression]):
        compile_kernel_function(namespace["kernel"])


SIGNATURE_ERRORS: dict[str, str] = {
    "(x: io.Slice)": "Slice needs an element type",
    "(x: io.Const)": "is not a kernel parameter type",
    "(x: nothing)": "cannot be resolved",
    "(x: 'io.Slice[')": "not an expression",
    "(n: io.i32 = 3)": "a default value cannot be given",
    "(*, n: io.i32)": "keyword-only",
    "(**n: io.i32)": "cannot be a kernel parameter",
    "(n: io.i32) -> io.f32": "a kernel returns nothing",
    "(x: io.Tensor[io.f32, 9])": "the rank is a number from 1 to 4",
    "(x: io.Slice[int])": "is not an element type",
}


@pytest.mark.parametrize("signature", SIGNATURE_ERRORS)
def test_ill_formed_signature(signature: str) -> None:
    import linecache

    source = f"from __future__ import annotations\ndef kernel{signature}:\n    pass\n"
    file = f"<signature {signature}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, file, "exec"), namespace)
    with pytest.raises(CompileError, match=SIGNATURE_ERRORS[signature]):
        compile_kernel_function(namespace["kernel"])


def test_return_annotation_none_is_fine() -> None:
    def nothing(n: io.i32) -> None:
        return

    compile_kernel_function(nothing)


def test_syntax_error_type_is_a_compile_error() -> None:
    assert issubclass(SyntaxError_, CompileError) and not issubclass(SyntaxError_, SyntaxError)


def test_u32_counts() -> None:
    def counted(n: io.u32):
        v = n + 1
        for k in range(n):
            v = v + k

    assert stored_type(counted) == u32


def _from_text(source: str) -> Callable[..., Any]:
    import linecache

    file = f"<text {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, file, "exec"), namespace)
    function: Callable[..., Any] = namespace["kernel"]
    return function


def test_a_sum_of_a_thousand_terms() -> None:
    terms = " + ".join(["n"] * 1000)
    compile_kernel_function(_from_text(f"def kernel(n: io.i32, y: io.DisjointSlice[io.i32]):\n    v = {terms}\n"))


def test_nests_that_are_too_deep_are_an_error_in_words() -> None:
    nest = "min(n, " * 90 + "n" + ")" * 90
    lines = ["def kernel(n: io.i32):"]
    lines += [f"{'    ' * depth}if n > {depth}:" for depth in range(1, 19)]
    lines += [f"{'    ' * 19}v = {nest}"]
    with pytest.raises(CompileError, match="nested too deeply"):
        import sys

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(400)
        try:
            compile_kernel_function(_from_text("\n".join(lines) + "\n"))
        finally:
            sys.setrecursionlimit(limit)

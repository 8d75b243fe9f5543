"""The printer's text, and that the verifier refuses malformed IR."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.compiling import compile_kernel_function
from support.sample_kernels import SAMPLES, grid_sum, saxpy

import abi
from abi import f32, i32, i64
from interop.errors import Location
from interop.ir import Function, Operation, Region, Value, VerificationError, Witness, ops, print_function, verify

HERE = Location("k.py", 1, 1, 2)


def test_saxpy_prints_as_its_source_reads() -> None:
    function = compile_kernel_function(saxpy, **SAMPLES[saxpy]).function
    assert print_function(function) == (
        "kernel saxpy(%x: slice<f32>, %y: disjoint slice<f32>, %a: f32) {\n"
        "  assume len(x) >= len(y)\n"
        "  %i = globalindex : witness<1>\n"
        "  %0 = extent dim 0 %y : i64\n"
        "  %1 = coordinate 0 %i : i64\n"
        "  %2 = compare lt %1, %0 : bool\n"
        "  if %2 {\n"
        "    %3 = load %x, %i : f32\n"
        "    %4 = binary mul %a, %3 : f32\n"
        "    %5 = load %y, %i : f32\n"
        "    %6 = binary add %4, %5 : f32\n"
        "    store %y, %i, %6\n"
        "    yield\n"
        "  } else {\n"
        "    yield\n"
        "  }\n"
        "  return\n"
        "}\n"
    )


def test_a_loop_prints_its_arguments_and_results() -> None:
    text = print_function(compile_kernel_function(grid_sum).function)
    assert "%total: f32 = for %" in text
    assert ": i64 in range(" in text and "(%total.1: f32 = %" in text
    assert "strideindex" in text and "continue %total.2" in text


@pytest.mark.parametrize("function", SAMPLES, ids=lambda f: f.__name__)
def test_every_sample_verifies_and_prints(function: Callable[..., Any]) -> None:
    compiled = compile_kernel_function(function, **SAMPLES[function])
    verify(compiled.function)
    lines = print_function(compiled.function).splitlines()
    assert lines[0].startswith(f"kernel {function.__name__}(") and lines[-1] == "}"


def test_operations_declare_their_operands_results_and_attributes() -> None:
    a, b, r = Value(f32), Value(f32), Value(f32)
    op = ops.Binary(HERE, r, "add", a, b)
    assert op.operands == (a, b) and op.results == (r,) and op.attributes == {"kind": "add"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.kind = "sub"  # type: ignore[misc]


def function_of(*operations: Operation, parameters: tuple[ops.Parameter, ...] = ()) -> Function:
    return Function("k", parameters, Region((*operations, ops.Return(HERE, ()))), HERE)


def constant(type_: abi.Scalar, value: float = 0) -> tuple[Value, ops.Constant]:
    result = Value(type_)
    return result, ops.Constant(HERE, result, value)


def test_verifier_accepts_a_small_function() -> None:
    a, make = constant(i32, 1)
    verify(function_of(make, ops.Binary(HERE, Value(i32), "add", a, a)))


def malformed() -> dict[str, tuple[Operation, ...]]:
    a, make_a = constant(i32)
    b, make_b = constant(f32, 0.0)
    flag, make_flag = constant(abi.bool_, False)
    array = Value(abi.Slice(f32))
    witness = Value(Witness(2))
    empty = Region((ops.Yield(HERE, ()),))
    return {
        "operands and result have one type": (make_a, make_b, ops.Binary(HERE, Value(i32), "add", a, b)),
        "an operand is not defined here": (ops.Unary(HERE, Value(i32), "neg", a),),
        "a value is defined twice": (make_a, make_a),
        "terminators stand at the end": (ops.Yield(HERE, ()), make_a),
        "the condition is a bool": (make_a, ops.If(HERE, (), a, empty, empty)),
        "yielded values have types": (
            make_a, make_flag,
            ops.If(HERE, (Value(f32),), flag, Region((ops.Yield(HERE, (a,)),)), Region((ops.Yield(HERE, (a,)),))),
        ),
        "stands in a loop": (make_flag, ops.If(HERE, (), flag, Region((ops.Break(HERE, ()),)), empty)),
        "needs a witness": (ops.GlobalIndex(HERE, witness), ops.Coordinate(HERE, Value(i64), witness, 2)),
        "the witness has the array's rank": (
            ops.SharedArray(HERE, array, ()), ops.GlobalIndex(HERE, witness),
            ops.Load(HERE, Value(f32), array, (witness,), True),
        ),
        "moves i32": (make_a, ops.SharedArray(HERE, array, ()), ops.Store(HERE, array, (a,), a, True)),
        "takes 1 integer indices": (make_b, ops.SharedArray(HERE, array, ()), ops.Store(HERE, array, (b,), b, True)),
        "takes floats": (make_a, ops.Math(HERE, Value(i32), "sqrt", (a,))),
        "is not the end of such a region": (make_flag, ops.Scope(HERE, (), "f", empty)),
    }  # fmt: skip


@pytest.mark.parametrize("reason", malformed())
def test_verifier_refuses(reason: str) -> None:
    with pytest.raises(VerificationError, match=reason.replace("(", "\\(")):
        verify(function_of(*malformed()[reason]))


def test_values_of_a_branch_are_not_visible_after_it() -> None:
    flag, make_flag = constant(abi.bool_, True)
    a, make_a = constant(i32)
    branch = ops.If(HERE, (), flag, Region((make_a, ops.Yield(HERE, ()))), Region((ops.Yield(HERE, ()),)))
    with pytest.raises(VerificationError, match="not defined here"):
        verify(function_of(make_flag, branch, ops.Unary(HERE, Value(i32), "neg", a)))

"""Which accesses are refused, which are not, and what witnesses add to the contract."""

# ruff: noqa: B007

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.compiling import compile_kernel_function

import abi
import interop as io
from interop import simt
from interop.errors import RaceError
from interop.language import device


@device
def put(array, index, value):
    array[index] = value


def good_through_a_device_function(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        put(y, i, 1.0)


def good_same_witness_on_both_paths(y: io.DisjointSlice[io.f32], n: io.i32):
    i = simt.global_index()
    if n > 3:
        j = i
    else:
        j = i
    if j < len(y):
        y[j] = 1.0


def good_witness_through_a_loop(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    for k in range(3):
        if i < len(y):
            y[i] += 1.0


def good_grid_stride(y: io.DisjointSlice[io.f32]):
    for i in simt.grid_stride(len(y)):
        y[i] = y[i] + 1.0


def good_shared_memory(x: io.Slice[io.f32]):
    s = simt.shared(io.f32, 32)
    s[simt.thread_index.x % 32] = 1.0


def good_reads_of_what_is_not_written(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = x[i + 1] + x[0]


def good_unwritten_disjoint_parameter(x: io.DisjointSlice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = x[i + 1]


def good_unsafe(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    with io.unsafe("one thread in two writes the pair"):
        if i % 2 == 0:
            y[i] = y[i + 1]


GOOD = [v for k, v in list(globals().items()) if k.startswith("good_")]


def bad_witness_of_another_iteration(y: io.DisjointSlice[io.f32]):
    keep = simt.global_index()
    for i in simt.grid_stride(len(y)):
        y[keep] = 1.0
        keep = i


def bad_constant(y: io.DisjointSlice[io.f32]):
    y[0] = 1.0


def bad_cast(y: io.DisjointSlice[io.f32]):
    y[io.i32(simt.global_index())] = 1.0


def bad_augmented(y: io.DisjointSlice[io.f32]):
    y[simt.thread_index.x] += 1.0


def bad_part_of_a_witness(y: io.DisjointTensor[io.f32, 2]):
    p = simt.global_index(2)
    y[p.row, p.col] = 1.0


def bad_swapped(y: io.DisjointTensor[io.f32, 2]):
    row, col = simt.global_index(2)
    y[col, row] = 1.0


def bad_tuple_of_a_witness(y: io.DisjointTensor[io.f32, 2]):
    p = simt.global_index(2)
    q = (p[0], p[1])
    y[q] = 1.0


def bad_conditional_expression(y: io.DisjointSlice[io.f32], n: io.i32):
    i = simt.global_index()
    y[i if n > 2 else 0] = 1.0


def bad_returned_from_a_device_function(y: io.DisjointSlice[io.f32]):
    y[shifted(simt.global_index())] = 1.0


@device
def shifted(i):
    return i + 1


def bad_read_after_unsafe_write(y: io.DisjointSlice[io.f32], z: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    with io.unsafe("a fact"):
        y[0] = 1.0
    z[i] = y[5]


def bad_read_of_written_pointer(p: io.InOut[io.f32], z: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    with io.unsafe("a fact"):
        p[0] = 1.0
    z[i] = p[5]


BAD = [v for k, v in list(globals().items()) if k.startswith("bad_")]


@pytest.mark.parametrize("function", GOOD, ids=lambda f: f.__name__)
def test_access_that_no_other_thread_meets_is_accepted(function: Callable[..., Any]) -> None:
    compile_kernel_function(function)


@pytest.mark.parametrize("function", BAD, ids=lambda f: f.__name__)
def test_access_that_another_thread_may_meet_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(RaceError) as caught:
        compile_kernel_function(function)
    assert caught.value.help


def requirements(function: Callable[..., Any], **contract: Any) -> dict[str, abi.Origin]:
    kernel = compile_kernel_function(function, **contract).program.kernel
    return {r.rule: r.origin for r in kernel.requires}


def test_a_witness_of_rank_1_asks_for_a_one_dimensional_launch() -> None:
    rules = requirements(good_grid_stride)
    for rule in ("grid.y == 1", "grid.z == 1", "block.y == 1", "block.z == 1"):
        assert rules[rule] is abi.Origin.WITNESS


def test_a_witness_of_rank_2_asks_for_no_depth() -> None:
    def fill(y: io.DisjointTensor[io.f32, 2]):
        p = simt.global_index(2)
        if p.row < y.shape[0] and p.col < y.shape[1]:
            y[p] = 0.0

    assert set(requirements(fill)) == {"grid.z == 1", "block.z == 1"}


def test_a_witness_of_rank_3_asks_for_nothing() -> None:
    def fill(y: io.DisjointTensor[io.f32, 3]):
        p = simt.global_index(3)
        if p.plane < y.shape[0] and p.row < y.shape[1] and p.col < y.shape[2]:
            y[p] = 0.0

    assert requirements(fill) == {}


def test_a_witness_that_only_reads_asks_for_nothing() -> None:
    def read(x: io.Slice[io.f32], y: io.Out[io.f32]):
        i = simt.global_index()
        with io.unsafe("the caller launches one thread"):
            y[0] = x[i]

    assert set(requirements(read)) == {"disjoint(y, *)"}


def test_written_arrays_are_disjoint_from_all_others() -> None:
    assert requirements(good_reads_of_what_is_not_written)["disjoint(y, *)"] is abi.Origin.IMPLIED
    assert "disjoint(x, *)" not in requirements(good_unwritten_disjoint_parameter)


def test_a_rule_that_the_author_wrote_is_not_repeated() -> None:
    rules = requirements(good_grid_stride, requires=["grid.y == 1"])
    assert rules["grid.y == 1"] is abi.Origin.WRITTEN


def test_messages_of_a_refused_launch_say_why() -> None:
    kernel = compile_kernel_function(good_grid_stride).program.kernel
    array = abi.rules.ArrayValue(0, (8,), (1,), 4)
    environment = abi.rules.Environment({"y": array}, block=(8, 1, 1), grid=(1, 2, 1))
    with pytest.raises(
        abi.ContractError, match=r"requires grid.y == 1, but grid.y = 2 \(simt.global_index\(\) is unique"
    ):
        abi.rules.check_requirements(kernel, environment)


@pytest.mark.parametrize("start", ["simt.block_index.x", "simt.global_index()"])
def test_indices_of_many_steps_get_the_same_error(tmp_path: Path, start: str) -> None:
    lines = [
        "def long(y: io.DisjointSlice[io.i64]):",
        f"    j = {start}",
        *["    j = j * 3 + 1"] * 1200,
        "    y[j] = 1",
    ]
    path = tmp_path / "long_chain.py"
    path.write_text("import interop as io\nfrom interop import simt\n" + "\n".join(lines) + "\n")
    with pytest.raises(RaceError, match="'y' is written at an index that is not this thread's own"):
        compile_kernel_function(runpy.run_path(str(path))["long"])

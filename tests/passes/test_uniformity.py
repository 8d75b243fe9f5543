"""Which barriers are refused, which are not, and which values the analysis holds to be uniform."""

# ruff: noqa: B007, SIM102

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.compiling import compile_kernel_function

import interop as io
from interop import simt
from interop.errors import DivergenceError
from interop.language import device
from interop.passes.uniformity import Uniformity


def uniform_argument(n: io.i32):
    if n > 3:
        simt.barrier()


def uniform_block_index(n: io.i32):
    if simt.block_index.x == 0:
        simt.barrier()


def uniform_early_return(x: io.Slice[io.f32]):
    if len(x) == 0:
        return
    simt.barrier()


def uniform_load(x: io.Slice[io.i32]):
    for k in range(x[0]):
        if x[k] > 2:
            break
        simt.barrier()


def uniform_after_divergent_branch(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[i] = 0.0
    simt.barrier()


def uniform_after_divergent_loop(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    total = 0.0
    for i in simt.grid_stride(len(x)):
        if x[i] < 0.0:
            break
        total += x[i]
    simt.barrier()
    j = simt.global_index()
    if j < len(y):
        y[j] = total


@device
def clamped(v):
    if v < 0:
        return 0
    return v


def uniform_after_divergent_return_of_a_device_function(y: io.DisjointSlice[io.i64]):
    i = simt.global_index()
    v = clamped(simt.thread_index.x - 3)
    simt.barrier()
    if i < len(y):
        y[i] = v


def uniform_counter_in_a_while_loop(n: io.i32):
    k = 128
    while k > n:
        simt.barrier()
        k >>= 1


GOOD = [v for k, v in list(globals().items()) if k.startswith("uniform_")]


def divergent_value(n: io.i32):
    t = simt.thread_index.x
    k = io.i32(0)
    if t > 3:
        k = n
    if k > 2:
        simt.barrier()


def divergent_through_a_uniform_value_on_two_paths(n: io.i32):
    # Both values are the same for all threads, but which of them a thread has is not.
    k = 1 if simt.thread_index.x == 0 else 2
    if k == 1:
        simt.barrier()


def divergent_after_loop(x: io.Slice[io.i32]):
    # The counter is uniform inside the loop, but threads leave with different counts.
    k = 0
    while k < simt.thread_index.x:
        k += 1
    if k == 3:
        simt.barrier()


def divergent_else(y: io.DisjointSlice[io.f32]):
    if simt.thread_index.x < 3:
        pass
    else:
        simt.barrier()


def divergent_continue(n: io.i32):
    for k in range(n):
        if simt.thread_index.x == k:
            continue
        simt.barrier()


def divergent_argument_by_continue(n: io.i32):
    j = 0
    for k in range(n):
        if simt.thread_index.x == k:
            continue
        j += 1
    for k in range(j):
        simt.barrier()


def divergent_return_in_a_loop(n: io.i32):
    for k in range(n):
        if simt.thread_index.x == k:
            return
    simt.barrier()


def divergent_return_late_in_a_loop(n: io.i32):
    # In the second iteration the threads that returned in the first are missing.
    for k in range(n):
        simt.barrier()
        if simt.thread_index.x == k:
            return


def divergent_written_memory(y: io.DisjointSlice[io.i32]):
    i = simt.global_index()
    y[i] = 3
    if y[i] == 3:
        simt.barrier()


def divergent_address(x: io.Slice[io.i32]):
    if x[simt.thread_index.x] == 3:
        simt.barrier()


def divergent_short_circuit(n: io.i32):
    if n > 3 and simt.thread_index.y == 0:
        simt.barrier()


def divergent_nested(n: io.i32):
    if simt.thread_index.x > 3:
        if n > 2:
            for k in range(n):
                simt.barrier()


BAD = [v for k, v in list(globals().items()) if k.startswith("divergent_")]


@pytest.mark.parametrize("function", GOOD, ids=lambda f: f.__name__)
def test_barrier_that_all_threads_reach_is_accepted(function: Callable[..., Any]) -> None:
    compile_kernel_function(function)


@pytest.mark.parametrize("function", BAD, ids=lambda f: f.__name__)
def test_barrier_that_some_threads_miss_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(DivergenceError) as caught:
        compile_kernel_function(function)
    # The chain ends where threads begin to differ.
    assert caught.value.notes
    origin = caught.value.notes[-1].message
    assert any(word in origin for word in ("thread_index", "own index", "which threads write")), origin


def test_an_axis_with_one_thread_is_uniform() -> None:
    def by_row(y: io.DisjointTensor[io.f32, 2]):
        p = simt.global_index(2)
        if simt.thread_index.y == 0:
            simt.barrier()
        if p.row < y.shape[0] and p.col < y.shape[1]:
            y[p] = 0.0

    compile_kernel_function(by_row, block=(128, 1))
    with pytest.raises(DivergenceError):
        compile_kernel_function(by_row, block=(64, 2))


def test_values_carry_their_reasons() -> None:
    def values(x: io.Slice[io.i32], y: io.DisjointSlice[io.i32], n: io.i32):
        i = simt.global_index()
        a = x[n]
        b = a + n
        c = x[i]
        d = c * b
        y[i] = d

    function = compile_kernel_function(values).function
    divergent = {function.names[v] for v in Uniformity(function).values if v in function.names}
    assert divergent == {"i", "c", "d"}

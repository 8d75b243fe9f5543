"""What a person sees of the language's words: help(), dir(), and what happens when one is used wrongly."""

from __future__ import annotations

import pydoc
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from interop import language, simt
from interop.language.functions import GeometryWord, Intrinsic
from interop.language.types import ParameterWord

WORDS = [*simt.__all__, *language.__all__]


def word(name: str) -> Any:
    return getattr(simt, name) if name in simt.__all__ else getattr(language, name)


@pytest.mark.parametrize("name", WORDS)
def test_every_word_has_a_text_of_its_own(name: str) -> None:
    value = word(name)
    if isinstance(value, abi.Scalar):
        return
    text = value.__doc__
    assert text and len(text) > 20
    for class_ in (Intrinsic, GeometryWord, ParameterWord):
        assert isinstance(value, type) or text != class_.__doc__
    first = text.strip().splitlines()[0]
    assert first in pydoc.render_doc(value, renderer=pydoc.plaintext)


@pytest.mark.parametrize("name", ["global_index", "grid_stride", "shared", "barrier", "thread_index"])
def test_help_is_about_the_word(name: str) -> None:
    shown = pydoc.render_doc(getattr(simt, name), renderer=pydoc.plaintext)
    assert f"simt.{name}" in shown and "A word of the kernel language" not in shown


def test_dir_lists_public_names_only() -> None:
    assert dir(simt) == sorted(simt.__all__)
    assert not {"annotations", "Any", "sys", "TYPE_CHECKING", "Intrinsic"} & set(dir(simt))


@pytest.mark.parametrize(
    ("call", "written"),
    [
        (lambda: io.DisjointSlice(io.f32), "io.DisjointSlice[io.f32]"),  # type: ignore[call-arg]
        (lambda: io.Tensor(io.f64, 2), "io.Tensor[io.f64, 2]"),  # type: ignore[operator]
        (lambda: io.InOut(), "io.InOut[io.f32]"),
    ],
)
def test_parentheses_instead_of_brackets(call: Any, written: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).endswith(f"takes its arguments in brackets: write {written}")


def test_a_parameter_word_is_not_iterable() -> None:
    with pytest.raises(TypeError, match="'Slice' is not iterable"):
        list(io.Slice)  # type: ignore[call-overload]


N = io.Const("N", 3)


@pytest.mark.parametrize(
    ("grid", "rules"),
    [
        (4, ("4",)),
        ((2, "1"), ("2", "1")),
        ([1, 2, 3], ("1", "2", "3")),
        (N, ("3",)),
        ("(2, 2)", ("2", "2")),
        (0, ("0",)),
    ],
)
def test_a_grid_may_be_numbers(grid: Any, rules: tuple[str, ...]) -> None:
    @simt.kernel(block=32, grid=grid)
    def fill(y: io.DisjointSlice[io.f32]) -> None:
        for i in simt.grid_stride(len(y)):
            y[i] = 1.0

    launch = fill.program().kernel.launch
    assert launch.grid == rules
    if len(rules) == 1 and rules != ("0",):
        y = np.zeros(1000, np.float32)
        fill(y)
        assert (y == 1).all()


def test_a_constant_of_the_grid_can_be_specialized() -> None:
    def make(blocks: Any) -> Any:
        @simt.kernel(block=32, grid=(blocks, 1))
        def fill(y: io.DisjointSlice[io.f32]) -> None:
            for i in simt.grid_stride(len(y)):
                y[i] = 1.0

        return fill

    assert make(N).specialize(N=7).program().kernel.launch.grid == ("7", "1")


@pytest.mark.parametrize("grid", [True, 2.5, -1, (4, None), ((1, 2), 3), {"x": 1}])
def test_a_grid_of_anything_else_says_what_to_write(grid: Any) -> None:
    @simt.kernel(block=32, grid=grid)
    def fill(y: io.DisjointSlice[io.f32]) -> None:
        y[simt.global_index()] = 1.0

    with pytest.raises(io.CompileError, match=r"a grid is made of rules and numbers of blocks, not ") as caught:
        fill.program()
    assert "grid=4" in caught.value.help


def test_shared_memory_may_be_a_number() -> None:
    @simt.kernel(block=32, grid=1, shared=128)
    def mirror(y: io.DisjointSlice[io.f32]) -> None:
        s = simt.shared(io.f32, len(y))
        i = simt.global_index()
        if i < len(y):
            s[i] = y[i]
        simt.barrier()
        if i < len(y):
            y[i] = s[len(y) - 1 - i]

    assert mirror.program().kernel.launch.shared == "128"
    y = np.random.default_rng().standard_normal(32, np.float32)
    expected = y[::-1].copy()
    mirror(y)
    assert np.array_equal(y, expected)


def test_a_foreign_grid_may_be_numbers() -> None:
    module = io.load_ptx(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n")

    @io.foreign(module, block=1, grid=(4, 2))
    def f() -> None: ...

    assert f.program().kernel.launch.grid == ("4", "2")
    with pytest.raises(io.CompileError, match=r"not 2\.5"):

        @io.foreign(module, "f", grid=2.5)  # type: ignore[arg-type]
        def g() -> None: ...


def test_the_advice_about_races_compiles() -> None:
    """What the helps of race errors say to write, written."""

    @simt.kernel(block=32, grid="ceil_div(len(x), block.x)", requires=["len(out) >= ceil_div(len(x), 32)"])
    def block_sums(x: io.Slice[io.f32], out: io.DisjointSlice[io.f32]) -> None:
        s = simt.shared(io.f32, 32)
        t = simt.thread_index.x
        i = simt.block_index.x * simt.block_dim.x + t
        s[t] = x[i] if i < len(x) else 0.0
        simt.barrier()
        if t == 0:
            total = io.f32(0.0)
            for k in range(32):
                total += s[k]
            with io.unsafe("one thread of each block writes its element"):
                out[simt.block_index.x] = total

    @simt.kernel(block=32, grid="ceil_div(len(y), block.x)", requires=["len(old) >= len(y)"])
    def shift(old: io.Slice[io.f32], y: io.DisjointSlice[io.f32]) -> None:
        i = simt.global_index()
        if i > 0 and i < len(y):
            y[i] = old[i - 1] + y[i]

    @simt.kernel(block=32, grid=2)
    def first(y: io.DisjointSlice[io.f32]) -> None:
        if simt.global_index() == 0:
            with io.unsafe("only thread 0 writes"):
                y[0] = 5.0

    x = np.random.default_rng().standard_normal(100, np.float32)
    out = np.full(4, np.nan, np.float32)
    block_sums(x, out)
    assert np.allclose(out, np.pad(x, (0, 28)).reshape(4, 32).sum(1), atol=1e-5)
    y = np.ones(100, np.float32)
    shift(x, y)
    assert np.allclose(y[1:], x[:-1] + 1) and y[0] == 1
    first(y)
    assert y[0] == 5


def test_the_advice_about_races_is_right_for_launches_of_two_dimensions() -> None:
    @simt.kernel(block=(32, 8), grid=(3, 2), requires=["len(out) >= 6"])
    def count_of_block(out: io.DisjointSlice[io.i32]) -> None:
        s = simt.shared(io.i32, (8, 32))
        s[simt.thread_index.y, simt.thread_index.x] = 1
        simt.barrier()
        total = io.i32(0)
        for r in range(8):
            for c in range(32):
                total += s[r, c]
        if simt.thread_index.x == 0 and simt.thread_index.y == 0:
            with io.unsafe("one thread of each block, and the element is the block's own"):
                out[simt.block_index.y * simt.grid_dim.x + simt.block_index.x] += total

    @simt.kernel(block=(16, 4), grid=(2, 2))
    def count_first(y: io.DisjointSlice[io.i32]) -> None:
        thread = simt.global_index(2)
        if thread.row == 0 and thread.col == 0:
            with io.unsafe("only one thread of the launch writes"):
                y[0] += 1

    @simt.kernel(block=(4, 4, 2), grid=(1, 2, 2))
    def count_first_of_three(y: io.DisjointSlice[io.i32]) -> None:
        thread = simt.global_index(3)
        if thread.plane == 0 and thread.row == 0 and thread.col == 0:
            with io.unsafe("only one thread of the launch writes"):
                y[0] += 1

    out = np.full(6, 7, np.int32)
    count_of_block(out)
    assert out.tolist() == [263] * 6
    for kernel in (count_first, count_first_of_three):
        y = np.zeros(2, np.int32)
        kernel(y)
        assert y.tolist() == [1, 0]


def test_the_advice_about_stride_loops_keeps_the_authors_stop() -> None:
    @simt.kernel(block=32, grid=2, requires=["n <= len(y)"])
    def fill(y: io.DisjointSlice[io.f32], n: io.i32) -> None:
        for i in simt.grid_stride(n):
            y[i] = 2.0

    y = np.zeros(300, np.float32)
    fill(y, 201)
    assert (y[:201] == 2).all() and not y[201:].any()


def test_a_loop_over_a_tuple_gives_compile_time_integers() -> None:
    @simt.kernel(block=32, grid=2)
    def weigh(y: io.DisjointSlice[io.f32]) -> None:
        weights = (1.0, 2.0, 4.0)
        for c in (0, 1, 2):
            i = simt.global_index()
            if i < len(y):
                y[i] += weights[c]

    y = np.zeros(50, np.float32)
    weigh(y)
    assert (y == 7).all()

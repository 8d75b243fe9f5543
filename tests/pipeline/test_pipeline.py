"""Pipelines: order, temporaries, formulas, and mistakes caught while the pipeline is declared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import interop as io
from interop import simt
from interop.pipeline import Pipeline

SCALE = """
extern "C" __global__ void scale(const float *x, float *y, float a, int width, int height)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < height && col < width) y[row * width + col] = a * x[row * width + col];
}
"""


@simt.kernel(block=128, grid="ceil_div(len(y), block.x)", requires=["len(x) == len(y)"])
def add_one(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    """y <- x + 1."""
    i = simt.global_index()
    if i < len(y):
        y[i] = x[i] + 1.0


@simt.kernel(block=128, grid="ceil_div(len(y), block.x)")
def double_in_place(y: io.DisjointSlice[io.f32]):
    """y <- 2*y."""
    i = simt.global_index()
    if i < len(y):
        y[i] = y[i] + y[i]


@simt.kernel(block=128, grid="ceil_div(len(y), block.x)")
def with_a_number(y: io.DisjointSlice[io.f32], n: io.i64):
    """y <- n."""
    i = simt.global_index()
    if i < len(y):
        y[i] = io.f32(n)


@pytest.fixture(scope="module")
def scale() -> io.Launchable:
    @io.foreign(
        io.load_cuda(SCALE),
        block=(16, 16),
        grid="(ceil_div(width, 16), ceil_div(height, 16))",
        requires=["len(x) >= width * height", "len(y) >= width * height"],
    )
    def scale(x: io.In[io.f32], y: io.InOut[io.f32], a: io.f32, width: io.i32, height: io.i32):
        """y <- a*x."""

    return scale


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape, dtype=np.float32)


def test_kernels_of_two_languages_run_in_order(scale: io.Launchable) -> None:
    p = Pipeline("mixed")
    src, dst = p.buffer("src", io.f32, 2), p.buffer("dst", io.f32, 2)
    a = p.scalar("a", io.f32)
    scaled = p.buffer("scaled", io.f32, shape=["dim(src, 0)", "dim(src, 1)"])
    p.add(scale, src, scaled, a, p.formula("dim(src, 1)"), p.formula("dim(src, 0)"))
    p.add(add_one, scaled, dst)
    p.add(double_in_place, dst)
    x = random(37, 53)
    out = p.run(src=x, dst=np.full_like(x, np.nan), a=3.0)
    expected = 2 * (np.float32(3) * x + np.float32(1))
    assert np.array_equal(out["dst"], expected)
    assert set(out) == {"scaled", "dst"}
    assert np.array_equal(out["scaled"], np.float32(3) * x)


def test_a_pipeline_runs_again_with_other_sizes() -> None:
    p = Pipeline("again")
    x, y = p.buffer("x", io.f32), p.buffer("y", io.f32)
    p.add(add_one, x, y)
    for size in (1, 127, 128, 129, 1000):
        data = random(size)
        assert np.array_equal(p.run(x=data, y=np.full_like(data, np.nan))["y"], data + np.float32(1))


def test_profile_names_each_step_its_language_and_device() -> None:
    p = Pipeline("timed")
    x, y = p.buffer("x", io.f32), p.buffer("y", io.f32)
    p.add(add_one, x, y)
    data = random(100)
    out, timings = p.profile(x=data, y=np.full_like(data, np.nan))
    assert np.array_equal(out["y"], data + np.float32(1))
    assert [(t.kernel, t.language) for t in timings] == [("add_one", "python")]
    assert timings[0].seconds > 0 and timings[0].device


def test_formulas_see_the_strides_that_an_array_has() -> None:
    p = Pipeline("strides")
    p.buffer("src", io.f32, 2)
    y = p.buffer("y", io.f32)
    p.add(with_a_number, y, p.formula("stride(src, 0)"))
    for array, stride in ((random(4, 6), 6), (random(4, 6).T, 1), (random(4, 6)[:, ::2], 6)):
        out = p.run(src=array, y=np.full(3, np.nan, np.float32))
        assert np.array_equal(out["y"], np.full(3, stride, np.float32))


def test_broken_contract_stops_the_pipeline_with_the_rules_words() -> None:
    p = Pipeline("broken")
    x, y = p.buffer("x", io.f32), p.buffer("y", io.f32)
    p.add(add_one, x, y)
    with pytest.raises(
        io.ContractError, match=r"add_one: requires len\(x\) == len\(y\), but len\(x\) = 3, len\(y\) = 4"
    ):
        p.run(x=random(3), y=random(4))


class TestDeclarationErrors:
    """Everything here is refused before anything runs."""

    def setup_method(self) -> None:
        self.p = Pipeline("bad")
        self.x = self.p.buffer("x", io.f32)

    def test_wrong_count(self) -> None:
        with pytest.raises(io.ArgumentTypeError, match=r"add_one takes 2 arguments \(x, y\), not 1"):
            self.p.add(add_one, self.x)

    def test_wrong_dtype(self) -> None:
        other = self.p.buffer("other", io.f64)
        with pytest.raises(io.ArgumentTypeError, match=r"'y' is slice<f32>, but buffer 'other' holds f64"):
            self.p.add(add_one, self.x, other)

    def test_number_for_a_buffer(self) -> None:
        with pytest.raises(io.ArgumentTypeError, match="a number is given"):
            self.p.add(add_one, self.x, 3.0)

    def test_temporary_read_before_it_is_written(self) -> None:
        fresh = self.p.buffer("fresh", io.f32, shape=["len(x)"])
        with pytest.raises(io.Error, match="no earlier step writes"):
            self.p.add(add_one, fresh, self.x)

    def test_buffer_of_another_pipeline(self) -> None:
        foreign = Pipeline("other").buffer("x2", io.f32)
        with pytest.raises(io.ArgumentTypeError, match="another pipeline"):
            self.p.add(add_one, self.x, foreign)

    def test_formula_of_another_pipeline(self) -> None:
        other = Pipeline("other")
        other.buffer("z", io.f32)
        formula = other.formula("len(z)")
        with pytest.raises(io.Error, match="'z'"):
            self.p.add(with_a_number, self.x, formula)

    def test_a_name_twice(self) -> None:
        with pytest.raises(io.Error, match="already"):
            self.p.buffer("x", io.f32)

    def test_unknown_name_in_a_shape(self) -> None:
        with pytest.raises(io.Error, match="nothing"):
            self.p.buffer("z", io.f32, shape=["len(nothing)"])

    def test_not_a_dtype(self) -> None:
        with pytest.raises(io.Error, match="not a dtype"):
            self.p.buffer("z", float)  # type: ignore[arg-type]

    @pytest.mark.parametrize("inputs", [{}, {"x": 1, "z": 2}])
    def test_missing_or_extra_inputs(self, inputs: dict[str, object]) -> None:
        with pytest.raises(io.ArgumentTypeError, match="its inputs are x"):
            self.p.run(**inputs)

    def test_wrong_rank_at_run_time(self) -> None:
        with pytest.raises(io.ArgumentTypeError, match="1 dimensions"):
            self.p.run(x=random(2, 3))

    @pytest.mark.parametrize(
        ("declare", "words"),
        [
            (lambda p: p.buffer("stream", io.f32), "parameter 'stream' of its own"),
            (lambda p: p.scalar("self", io.f32), "parameter 'self' of its own"),
            (lambda p: p.buffer(5, io.f32), "'5' cannot name"),
            (lambda p: p.buffer("z", io.f32, 0), "1 to 8 dimensions"),
            (lambda p: p.buffer("z", io.f32, shape=["1"] * 9), "1 to 8 dimensions"),
            (lambda p: p.buffer("z", io.f32, shape="len(x)"), "shape is a list"),
            (lambda p: p.buffer("z", io.f32, shape=[4]), "4 is not a rule"),
            (lambda p: p.scalar("s", "f32"), "not a dtype"),
            (lambda p: p.add(3), "3 is not a kernel"),
            (lambda p: Pipeline(None), "cannot name a pipeline"),
        ],
    )
    def test_nonsense_in_declarations(self, declare: Callable[[Pipeline], object], words: str) -> None:
        with pytest.raises(io.Error, match=words):
            declare(self.p)

    def test_plain_numbers_are_checked_when_the_step_is_added(self, scale: io.Launchable) -> None:
        y, a = self.p.buffer("y", io.f32), self.p.scalar("a", io.f32)
        for wrong, words in ((2.5, "i32"), ("3", "i32"), (None, "i32"), (2**40, "i32"), (a, "scalar 'a' is f32")):
            with pytest.raises(io.LaunchError, match=words):
                self.p.add(scale, self.x, y, 1.0, wrong, 1)
        with pytest.raises(io.LaunchError, match="ndarray, which no buffer"):
            self.p.add(scale, random(3), y, 1.0, 1, 1)


LEFT_OPEN = """
extern "C" __global__ void open(float *y) { extern __shared__ float s[]; s[0] = 1; y[0] = s[0]; }
extern "C" __global__ void plain(float *y) { y[0] = 1; }
"""


def test_a_kernel_that_leaves_its_launch_to_the_call_cannot_be_a_step() -> None:
    module, p = io.load_cuda(LEFT_OPEN), Pipeline("p")
    y = p.buffer("y", io.f32)
    with pytest.raises(io.ArgumentTypeError) as caught:
        p.add(module.plain, y)
    assert str(caught.value) == (
        "pipeline p: the contract of plain leaves block=..., grid=... to each call, and a step gives none: "
        "declare them in the kernel's @io.foreign(...) or @simt.kernel(...)"
    )
    with pytest.raises(
        io.ArgumentTypeError, match=r"open leaves block=\.\.\., grid=\.\.\., shared=\.\.\. to each call"
    ):
        p.add(module.open, y)

    @io.foreign(module, block=1, grid="1", symbol="open")
    def without_shared(y: io.InOut[io.f32]): ...

    with pytest.raises(io.ArgumentTypeError, match=r"without_shared leaves shared=\.\.\. to each .*: declare it in"):
        p.add(without_shared, y)
    assert p.steps == ()

    @io.foreign(module, block=1, grid="1", shared=4, symbol="open")
    def complete(y: io.InOut[io.f32]): ...

    p.add(complete, y)
    assert p.run(y=np.zeros(1, np.float32))["y"].tolist() == [1]


def test_numbers_are_taken_when_the_step_is_added() -> None:
    class Counter:
        value = 3

        def __index__(self) -> int:
            return self.value

    p, n = Pipeline("p"), Counter()
    p.add(with_a_number, p.buffer("y", io.f32), n)
    n.value = 7
    assert p.run(y=np.zeros(4, np.float32))["y"].tolist() == [3] * 4

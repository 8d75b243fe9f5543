"""Declarations of foreign kernels: what they add to an image, and every way in which the two can disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from abi import CheckLevel
from abi.show import python_signature

SOURCE = r"""
extern "C" __global__ void scale(float *y, float a, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] *= a;
}
namespace ns { __global__ void add(const double *x, double *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
} }
extern "C" __global__ void vectors(const float4 *x, float *y) { y[threadIdx.x] = x[threadIdx.x].y; }
extern "C" __global__ void __launch_bounds__(64) bounded(int *x) { x[threadIdx.x] = 1; }
struct P { float a; double b; };
extern "C" __global__ void by_value(P p, double *y) { y[0] = p.a + p.b; }
extern "C" __global__ void pair(float *data, unsigned long long n) { if (threadIdx.x < n) data[threadIdx.x] += 1; }
extern "C" __global__ void dynamic(int *y, int n)
{
    extern __shared__ int tile[];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


def test_a_declaration_gives_names_a_grid_and_hidden_parameters(module: Any) -> None:
    @io.foreign(module, block=256, grid="ceil_div(n, block.x)", fill={"n": "len(y)"})
    def scale(y: io.InOut[io.f32], a: io.f32, n: io.u64):
        """y <- a*y."""

    y = np.random.default_rng().standard_normal(1000, np.float32)
    expected = y * np.float32(0.5)
    scale(y, 0.5)
    assert np.array_equal(y, expected)
    kernel = scale.program().kernel
    assert (kernel.name, kernel.symbol, kernel.doc, kernel.language) == ("scale", "scale", "y <- a*y.", "cuda-c++")
    assert kernel.check_level is CheckLevel.TYPED and kernel.convention == "c"
    declared = f"declared in test_importing_foreign.py:{scale.declaration.location.line}"
    assert kernel.source == f"{module.kernel('scale').program().kernel.source}, {declared}"
    assert python_signature(kernel) == "scale(y: InOut[f32], a: f32)"
    assert scale.__doc__ == "y <- a*y." and scale.__name__ == "scale"
    assert "scale(y: " in repr(scale)


def test_another_name_and_a_contract(module: Any) -> None:
    @io.foreign(module, "ns::add", block=64, grid="ceil_div(n, 64)", requires=["len(x) >= n", "len(y) >= n"])
    def accumulate(x: io.In[io.f64], y: io.InOut[io.f64], n: io.i32): ...

    x, y = np.arange(10.0), np.ones(10)
    accumulate(x, y, 10)
    assert np.array_equal(y, 1 + np.arange(10.0))
    with pytest.raises(io.ContractError, match=r"accumulate: requires len\(x\) >= n, but len\(x\) = 9, n = 10"):
        accumulate(x[:9], y, 10)
    with pytest.raises(io.ContractError, match=r"requires disjoint\(y, \*\)"):
        accumulate(y, y, 10)


def test_alignment_follows_the_images_types_under_the_declared_names(module: Any) -> None:
    @io.foreign(module, block=4, grid="1")
    def vectors(source: io.In[io.f32], target: io.Out[io.f32]): ...

    assert "aligned(source, 16)" in [r.rule for r in vectors.program().kernel.requires]
    x, y = io.to_device(np.arange(20, dtype=np.float32), "cpu"), np.zeros(4, np.float32)
    vectors(x[:16], y)
    assert y.tolist() == [1, 5, 9, 13]
    with pytest.raises(
        io.ContractError, match=r"vectors: requires aligned\(source, 16\), .*\(source is const float4\*"
    ):
        vectors(x[1:17], y)


def test_structs_and_shared_memory(module: Any) -> None:
    @io.foreign(module, block=1, grid="1")
    def by_value(p: abi.Bytes(16, 8), y: io.Out[io.f64]): ...  # type: ignore[valid-type]

    y = np.zeros(1)
    by_value(np.array((1.5, 2.25), np.dtype([("a", "f4"), ("b", "f8")], align=True))[()], y)
    assert y[0] == 3.75

    @io.foreign(module, block=io.up_to(256), grid="1", shared="4 * n", requires=["n == block.x"])
    def dynamic(y: io.Out[io.i32], n: io.i32): ...

    out = np.zeros(100, np.int32)
    dynamic[None, 100](out, 100)
    assert np.array_equal(out, np.arange(100)[::-1])


def test_slices_in_our_convention(module: Any) -> None:
    @io.foreign(module, block=64, grid="1", convention="interop-1")
    def pair(data: io.DisjointSlice[io.f32]): ...

    y = np.zeros(10, np.float32)
    pair(y)
    assert y.tolist() == [1.0] * 10
    assert pair.program().kernel.convention == "interop-1"


def test_paths_are_relative_to_the_declaring_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    (tmp_path / "kernels.py").write_text(
        "from __future__ import annotations\n"
        "import interop as io\n"
        "@io.foreign('scale.cu', block=32, grid='ceil_div(n, block.x)', fill={'n': 'len(y)'})\n"
        "def scale(y: io.InOut[io.f32], a: io.f32, n: io.u64):\n"
        "    '''y <- a*y.'''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir("/")
    import kernels  # type: ignore[import-not-found]

    monkeypatch.delitem(__import__("sys").modules, "kernels")
    y = np.ones(3, np.float32)
    kernels.scale(y, 4.0)
    assert y.tolist() == [4.0] * 3


def test_ptx_gets_types_from_its_declaration(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "scale.ptx"
    path.write_bytes(module.scale.program().images[0].data)

    @io.foreign(path, block=64, grid="ceil_div(n, 64)", fill={"n": "len(y)"})
    def scale(y: io.InOut[io.f32], a: io.f32, n: io.u64): ...

    y = np.ones(100, np.float32)
    scale(y, 2.0)
    assert y.tolist() == [2.0] * 100
    assert scale.program().kernel.check_level is CheckLevel.TYPED
    with pytest.raises(io.ArgumentTypeError, match="holds f64"):
        scale(y.astype(np.float64), 2.0)


# -- disagreement with the image -----------------------------------------------------------------------------------


def mismatch(kernel: Any, *words: str) -> None:
    with pytest.raises(io.AbiMismatch) as caught:
        kernel.program()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_wrong_element_type_prints_both_signatures(module: Any) -> None:
    @io.foreign(module)
    def scale(y: io.InOut[io.f64], a: io.f32, n: io.u64): ...

    mismatch(scale, "'y' points to f64, and in the image to f32", "declared  scale(y: InOut[f64]",
             "image     scale(y: InOut[f32], a: f32, n: u64)")  # fmt: skip


def test_a_wrong_count_prints_both_layouts(module: Any) -> None:
    @io.foreign(module)
    def scale(y: io.InOut[io.f32], a: io.f32): ...

    mismatch(scale, "2 image parameters, and the image 3", "offset")


def test_a_wrong_size_prints_both_layouts(module: Any) -> None:
    @io.foreign(module)
    def scale(y: io.InOut[io.f32], a: io.f64, n: io.u64): ...

    mismatch(scale, "a: f64", ".f32")


def test_a_wrong_kind_of_number_of_the_same_size(module: Any) -> None:
    @io.foreign(module)
    def scale(y: io.InOut[io.f32], a: io.i32, n: io.u64): ...

    mismatch(scale, "a")

    @io.foreign(module, "scale")
    def signed(y: io.InOut[io.f32], a: io.f32, n: io.i64): ...

    mismatch(signed, "'n' is declared i64, and in the image it is u64")


def test_writing_through_a_pointer_to_const(module: Any) -> None:
    @io.foreign(module, "ns::add")
    def add(x: io.InOut[io.f64], y: io.InOut[io.f64], n: io.i32): ...

    mismatch(add, "'x' is declared as written, and the image takes a pointer to const")


def test_a_struct_given_for_a_number(module: Any) -> None:
    @io.foreign(module)
    def scale(y: io.InOut[io.f32], a: io.f32, n: abi.Bytes(8, 8)): ...  # type: ignore[valid-type]

    mismatch(scale, "n")


def test_blocks_above_the_launch_bounds(module: Any) -> None:
    @io.foreign(module, block=128, grid="1")
    def bounded(x: io.Out[io.i32]): ...

    mismatch(bounded, "at most 64 threads a block (__launch_bounds__), and the declaration has 128")


def test_a_missing_kernel_lists_those_there_are(module: Any) -> None:
    @io.foreign(module)
    def skale(y: io.InOut[io.f32]): ...

    with pytest.raises(io.SymbolNotFound, match=r"test_importing_foreign.py:\d+.*no kernel 'skale'; it has: scale"):
        skale.program()


def test_a_missing_file_is_named_when_the_kernel_is_used() -> None:
    @io.foreign("not_there.cu", block=32)
    def f(x: io.In[io.f32]): ...

    with pytest.raises(io.Error, match=r"tests/importing/not_there\.cu: no such file"):
        f.program()

    @io.foreign("kernel.rs")
    def g(x: io.In[io.f32]): ...

    with pytest.raises(abi.UnsupportedError, match=r"'\.rs'"):
        g.program()


# -- declarations that cannot be right -----------------------------------------------------------------------------


def body(x: io.In[io.f32]) -> None:
    return x[0]


def computes(x: io.In[io.f32]) -> None:
    x = 1  # noqa: F841


def unannotated(x) -> None: ...  # type: ignore[no-untyped-def]


def default(n: io.i32 = 3) -> None: ...


def star(*xs: io.i32) -> None: ...


def no_type(x: float) -> None: ...


def sliced(x: io.Slice[io.f32]) -> None: ...


def undefined(x: nowhere.f32) -> None: ...  # type: ignore[name-defined] # noqa: F821


def fine(x: io.In[io.f32], n: io.i32) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [(body, "its body would never run"), (computes, "its body would never run"),
     (unannotated, "parameter 'x' has no annotation"), (default, "without \\*, \\*\\* and defaults"),
     (star, "without \\*"), (no_type, "the annotation of 'x' is <class 'float'>"),
     (sliced, "is Slice\\[f32\\], and C has no such parameters"), (undefined, "cannot be evaluated: name 'nowhere'")],
)  # fmt: skip
def test_declarations_that_are_refused(function: Any, words: str) -> None:
    with pytest.raises(io.CompileError, match=words) as caught:
        io.foreign("f.cu")(function)
    assert f"test_importing_foreign.py:{function.__code__.co_firstlineno}:" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"grid": "ceil_div(m, 32)"}, "grid: .*'m'"), ({"grid": "n > 1"}, "is a condition, and a number is needed"),
     ({"requires": ["len(x)"]}, "is a number, and a condition is needed"), ({"requires": ["len(x) = n"]}, "=="),
     ({"fill": {"m": "1"}}, "fill names 'm'"), ({"fill": {"n": "len(z)"}}, "fill of 'n'"),
     ({"block": 2.5}, "positive integer, not 2.5"), ({"block": (64, 64)}, "too large"), ({"block": 0}, "positive"),
     ({"block": (1, 1, 1, 1)}, "one to three extents"), ({"shared": "len(x) >"}, "shared"),
     ({"grid": ("1", "1", "1", "1")}, "one to three rules"), ({"convention": "fortran"}, "convention 'fortran'")],
)  # fmt: skip
def test_contracts_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(abi.Error, match=words):
        io.foreign("f.cu", **options)(fine)


def test_misuse_of_the_decorator() -> None:
    with pytest.raises(TypeError, match="the source comes first"):
        io.foreign(fine)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a path or a module, not int"):
        io.foreign(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="requires is a list of rules"):
        io.foreign("f.cu", requires="len(x) > 3")
    with pytest.raises(TypeError, match="decorates a function"):
        io.foreign("f.cu")(3)  # type: ignore[arg-type]

"""What a declaration's types decide: access, the overload, and how a structure is passed."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from interop.importing.structs import struct_type

SOURCE = r"""
extern "C" __global__ void add(const float *x, float *y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] += x[threadIdx.x];
}
extern "C" __global__ void mutate(float *x) { x[threadIdx.x] = 7; }
extern "C" __global__ void anything(void *x) { ((char *)x)[threadIdx.x] = 7; }
extern "C" __global__ void pair(unsigned char *data, unsigned long long n)
{
    if (threadIdx.x < n) data[threadIdx.x] = 1;
}
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
__global__ void twice(double *x) { x[threadIdx.x] *= 2; }
__global__ void twice(const double *x, double *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
template <class T> __global__ void fill(T *y, T a) { y[threadIdx.x] = a; }
struct P { float a; double b; };
extern "C" __global__ void by_value(P p, double *y) { y[0] = p.a + p.b; }
struct F3 { float x, y, z; };
extern "C" __global__ void vector(F3 v, float *y) { y[0] = v.x + 10 * v.y + 100 * v.z; }
"""


class P(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_double)]


P_TYPE = np.dtype([("a", "f4"), ("b", "f8")], align=True)
PACKED = np.dtype([("a", "f4"), ("b", "f8")])
F3 = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


# -- access --------------------------------------------------------------------------------------------------------


def test_memory_that_may_be_written_is_not_declared_read_only(module: Any, tmp_path: Path) -> None:
    @io.foreign(module, block=4, grid="1")
    def mutate(x: io.In[io.f32]): ...

    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(io.AbiMismatch) as caught:
        mutate(x)
    assert (
        "'x' is declared as read only, and the kernel may write through its pointer: "
        "declare it io.InOut, or write const float * in the source\n" in str(caught.value)
    )
    assert x.tolist() == [0.0] * 4

    @io.foreign(module, block=4, grid="1")
    def anything(x: io.In[io.u8]): ...

    with pytest.raises(io.AbiMismatch, match=r"declare it io\.InOut, or write a pointer to const in the source"):
        anything.program()

    # Plain PTX does not say what a kernel does with a pointer.
    path = tmp_path / "mutate.ptx"
    path.write_bytes(module.mutate.program().images[0].data)

    @io.foreign(path, "mutate", block=4, grid="1")
    def trusted(x: io.In[io.f32]): ...

    assert trusted.program().kernel.params[0].access is abi.Access.IN
    assert "declaration is trusted" in (io.foreign.__doc__ or "")


def test_access_of_slices_is_compared_too(module: Any) -> None:
    @io.foreign(module, block=4, grid="1", convention="interop-1")
    def pair(data: io.Slice[io.u8]): ...

    with pytest.raises(
        io.AbiMismatch, match=r"'data' is declared as read only.*io.DisjointSlice, or write const unsigned char \*"
    ):
        pair.program()

    @io.foreign(module, "pair", block=4, grid="1", convention="interop-1")
    def wrong(data: io.DisjointSlice[io.f64]): ...

    with pytest.raises(io.AbiMismatch, match="'data' points to f64, and in the image to u8"):
        wrong.program()


# -- overloads -----------------------------------------------------------------------------------------------------


def test_declared_types_choose_the_overload(module: Any) -> None:
    @io.foreign(module, "twice", block=3, grid="1")
    def integers(x: io.InOut[io.i32]): ...

    @io.foreign(module, block=3, grid="1")
    def twice(x: io.In[io.f64], y: io.Out[io.f64]): ...

    x, y = np.arange(3, dtype=np.int32), np.full(3, np.nan)
    integers(x)
    twice(np.arange(3.0), y)
    assert x.tolist() == [0, 2, 4] and y.tolist() == [0.0, 2.0, 4.0]


def test_a_declaration_that_fits_no_overload_says_why_for_each(module: Any) -> None:
    @io.foreign(module, block=3, grid="1")
    def twice(x: io.InOut[io.f32]): ...

    with pytest.raises(io.AbiMismatch) as caught:
        twice.program()
    text = str(caught.value)
    assert "fits none of the kernels called 'twice':\n" in text
    assert "  twice(int*): " in text and "  twice(double*): " in text and "'x' points to f32" in text


def test_untyped_overloads_stay_ambiguous(module: Any) -> None:
    entries = "".join(f".visible .entry _Z1fIN1{n}EEvPT_ (.param .u64 p) {{ ret; }}\n" for n in "AB")
    loaded = io.load_ptx(".version 8.0\n.target sm_80\n.address_size 64\n" + entries)
    assert len(loaded) == 2

    @io.foreign(loaded, "f", block=1, grid="1")
    def f(p: io.InOut[io.f32]): ...

    with pytest.raises(io.AmbiguousKernel, match=r"'f' could be any of: .*symbol="):
        f.program()


# -- modules -------------------------------------------------------------------------------------------------------


def test_a_module_is_a_collection_of_names(module: Any) -> None:
    assert list(module) == list(module.kernels) and len(module) == len(module.kernels) == len(set(module))
    assert "add" in module and "twice(int *)" in module
    assert "twice" not in module and "subtract" not in module and 3 not in module
    assert module["add"] is module.add
    assert module["fill<float>"].program().kernel.name == "fill<float>"
    assert "fill<float>" in module
    with pytest.raises(TypeError, match="indexed by a kernel's name, not by int"):
        module[0]


def test_an_ambiguous_name_says_how_to_say_which(module: Any) -> None:
    with pytest.raises(io.AmbiguousKernel) as caught:
        module.kernel("twice")
    assert str(caught.value).endswith('module["twice(int*)"], or symbol="twice(int*)" in a declaration')
    assert isinstance(caught.value, (io.NoSuchKernel, io.SymbolNotFound))
    with pytest.raises(io.NoSuchKernel, match="no kernel 'subtract'"):
        module["subtract"]


# -- structures ----------------------------------------------------------------------------------------------------


def test_structures_of_numpy_and_ctypes(module: Any) -> None:
    @io.foreign(module, block=1, grid="1")
    def by_value(p: P, y: io.Out[io.f64]): ...  # type: ignore[valid-type]

    @io.foreign(module, "by_value", block=1, grid="1")
    def from_numpy(p: P_TYPE, y: io.Out[io.f64]): ...  # type: ignore[valid-type]

    @io.foreign(module, block=1, grid="1")
    def vector(v: F3, y: io.Out[io.f32]): ...  # type: ignore[valid-type]

    y = np.full(1, np.nan)
    by_value(P(1.5, 2.25), y)
    assert y[0] == 3.75
    for value in (np.array((0.5, 2.0), P_TYPE), np.array((0.5, 2.0), P_TYPE)[()], P(0.5, 2.0), bytes(P(0.5, 2.0))):
        y[:] = np.nan
        from_numpy(value, y)
        assert y[0] == 2.5
    out = np.full(1, np.nan, np.float32)
    vector(np.array((1, 2, 3), F3), out)
    assert out[0] == 321


def test_a_packed_structure_is_another_layout(module: Any) -> None:
    @io.foreign(module, block=1, grid="1")
    def by_value(p: PACKED, y: io.Out[io.f64]): ...  # type: ignore[valid-type]

    with pytest.raises(io.AbiMismatch):
        by_value.program()
    with pytest.raises(io.ArgumentTypeError, match=r"12 bytes are given.*align=True"):
        module.by_value[1, 1](np.array((0.5, 2.0), PACKED), np.zeros(1))


@pytest.mark.parametrize(
    ("dtype", "size", "align"),
    [
        (np.dtype([("a", "u1"), ("b", "u1"), ("c", "u1")]), 3, 1),
        (np.dtype([("a", "f4"), ("b", "f4")]), 8, 4),
        (np.dtype([("a", "u1"), ("b", "f4")]), 5, 1),
        (np.dtype([("a", "u1"), ("b", "f4")], align=True), 8, 4),
        (np.dtype([("a", "f8"), ("b", "f4")]), 12, 1),
        (np.dtype([("a", "i2", (3,)), ("b", [("c", "i2")])]), 8, 2),
        (np.dtype([("b", [("c", "u1"), ("d", "f8")]), ("e", "f8")]), 17, 1),
    ],
)
def test_layouts_of_dtypes(dtype: Any, size: int, align: int) -> None:
    assert struct_type(dtype) == abi.Bytes(size, align)


def test_what_is_no_structure() -> None:
    assert struct_type(np.dtype("f4")) is None
    assert struct_type(np.dtype([("a", "O")])) is None
    assert struct_type(int) is None

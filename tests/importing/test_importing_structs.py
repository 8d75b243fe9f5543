"""Structures by value: what is passed has the fields of the declaration, in calls and in pipelines."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from interop.pipeline import Pipeline

SOURCE = """
struct P { float a; int b; };
extern "C" __global__ void st(float *y, P p) { y[0] = p.a; y[1] = p.b; }
"""
P = np.dtype([("a", "f4"), ("b", "i4")])
SWAPPED = [("b", "i4"), ("a", "f4")]


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int)]


class Swapped(ctypes.Structure):
    _fields_ = [("b", ctypes.c_int), ("a", ctypes.c_float)]


class Bits(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int, 31), ("c", ctypes.c_int, 1)]


class Derived(Pair):
    pass


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


def declared(module: Any, struct_: Any) -> io.Launchable:
    @io.foreign(module, block=1, grid="1")
    def st(y: io.Out[io.f32], p: struct_): ...  # type: ignore[valid-type]

    return st


GOOD = {
    "a 0-dimensional array": np.array((2.5, 4), P),
    "a scalar": np.array((2.5, 4), P)[()],
    "fields in another order at the same offsets": np.array(
        (4, 2.5), np.dtype({"names": ["b", "a"], "formats": ["i4", "f4"], "offsets": [4, 0]})
    ),
    "aligned": np.array((2.5, 4), np.dtype(P.descr, align=True)),
    "ctypes": Pair(2.5, 4),
    "a derived class": Derived(2.5, 4),
    "bytes": struct.pack("<fi", 2.5, 4),
    "a bytearray": bytearray(struct.pack("<fi", 2.5, 4)),
    "a memoryview": memoryview(struct.pack("<fi", 2.5, 4)),
    "an array of bytes": (ctypes.c_ubyte * 8)(*struct.pack("<fi", 2.5, 4)),
    "an unstructured void": np.void(struct.pack("<fi", 2.5, 4)),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("declaration", [P, Pair])
def test_the_same_fields_and_raw_bytes_are_taken(module: Any, declaration: Any, given: Any) -> None:
    kernel, y = declared(module, declaration), np.full(2, np.nan, np.float32)
    kernel(y, given)
    assert y.tolist() == [2.5, 4]
    p = Pipeline("one")
    p.add(kernel, p.buffer("y", io.f32), given)
    assert p.run(y=np.full(2, np.nan, np.float32))["y"].tolist() == [2.5, 4]


BAD = {
    "swapped": (np.array((4, 2.5), SWAPPED), "{b: int32 at 0, a: float32 at 4}"),
    "swapped in ctypes": (Swapped(4, 2.5), "Swapped {b: int32 at 0, a: float32 at 4}"),
    "other names": (np.array((1, 2), [("x", "f4"), ("y", "i4")]), "{x: float32 at 0, y: int32 at 4}"),
    "other types": (np.array((1, 2), [("a", "f4"), ("b", "u4")]), "{a: float32 at 0, b: uint32 at 4}"),
    "nested": (
        np.array(((1,), 2), [("a", [("x", "f4")]), ("b", "i4")]),
        "{a.x: float32 at 0, b: int32 at 4}",
    ),
    "an array in it": (np.array(((1, 2),), [("a", "f4", 2)]), "{a[2]: float32 at 0}"),
    "a number": (np.float64(1), "float64"),
    "bit fields": (Bits(1, 2, 0), "Bits"),
    "an array of numbers": ((ctypes.c_float * 2)(1, 2), "c_float_Array_2"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("declaration", [P, Pair])
def test_other_fields_are_refused_and_both_are_named(module: Any, declaration: Any, case: str) -> None:
    given, text = BAD[case]
    kernel, y = declared(module, declaration), np.zeros(2, np.float32)
    wanted = ("Pair " if declaration is Pair else "") + "{a: float32 at 0, b: int32 at 4}"
    with pytest.raises(io.ArgumentTypeError) as caught:
        kernel(y, given)
    assert str(caught.value).startswith(f"st: p is {wanted}, but {text}")
    assert "is given: pass the declared structure, or its bytes" in str(caught.value)
    p = Pipeline("one")
    with pytest.raises(io.ArgumentTypeError) as caught:
        p.add(kernel, p.buffer("y", io.f32), given)
    assert str(caught.value).startswith(f"pipeline one: st: parameter 'p' is {wanted}, but {text}")
    assert p.steps == () and not y.any()


def test_a_structure_that_numpy_cannot_describe_takes_its_own_class(module: Any) -> None:
    kernel, y = declared(module, Bits), np.zeros(2, np.float32)
    kernel(y, Bits(2.5, 4, 0))
    assert y.tolist() == [2.5, 4]
    with pytest.raises(io.ArgumentTypeError, match=r"st: p is Bits, but \{a: float32 at 0, b: int32 at 4\} is given"):
        kernel(y, np.array((2.5, 4), P))


def test_a_size_without_fields_takes_every_structure_of_that_size(module: Any) -> None:
    kernel, y = declared(module, abi.Bytes(8, 4)), np.zeros(2, np.float32)
    for given in (np.array((2.5, 4), P), Pair(2.5, 4)):
        kernel(y, given)
        assert y.tolist() == [2.5, 4]


@pytest.mark.parametrize("made", [lambda: np.array((2.5, 4), P), lambda: Pair(2.5, 4)])
def test_a_pipeline_takes_the_value_when_the_step_is_added(module: Any, made: Any) -> None:
    kernel, value = declared(module, P), made()
    p = Pipeline("one")
    p.add(kernel, p.buffer("y", io.f32), value)
    if isinstance(value, Pair):
        value.a = 99
    else:
        value["a"] = 99
    assert p.run(y=np.zeros(2, np.float32))["y"].tolist() == [2.5, 4]

"""Views of arrays: what each kind of producer says, and what cannot be passed."""

from __future__ import annotations

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

import abi
from abi import ArgumentTypeError
from interop.runtime import DeviceArray, dlpack, empty, to_device
from interop.runtime.arrays import NotAnArray, contiguous_strides, view
from interop.runtime.device import CPU

DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


class Exporter:
    """A producer that speaks DLPack and nothing else, over a NumPy array."""

    def __init__(self, array: np.ndarray, accepts: tuple[str, ...] = (), device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.accepts, self.device = array, accepts, device
        self.asked: list[dict[str, object]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: object) -> object:
        self.asked.append(keywords)
        unknown = set(keywords) - set(self.accepts)
        if unknown:
            raise TypeError(f"unexpected keyword {unknown}")
        versioned = "max_version" in keywords
        scalar = next(abi.SCALARS[name] for name, kind in DTYPES.items() if self.array.dtype == kind)
        itemsize = self.array.itemsize
        strides = tuple(s // itemsize for s in self.array.strides)
        address = self.array.__array_interface__["data"][0]
        return dlpack.write(self.array, address, self.device, scalar, self.array.shape, strides, versioned)


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_dtypes(name: str) -> None:
    array = np.zeros((3, 4), DTYPES[name])
    found = view(array, "k: x")
    assert (found.address, found.shape, found.strides) == (array.ctypes.data, (3, 4), (4, 1))
    assert (found.dtype, found.device, found.read_only) == (abi.SCALARS[name], CPU, False)
    assert found.itemsize == abi.SCALARS[name].size


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("accepts", [(), ("max_version",), ("max_version", "stream")])
def test_dlpack_dtypes_and_keywords_are_negotiated(name: str, accepts: tuple[str, ...]) -> None:
    array = np.zeros((2, 5), DTYPES[name])[:, ::2]
    found = view(Exporter(array, accepts), "k: x")
    assert (found.address, found.shape, found.strides) == (array.ctypes.data, (2, 3), (5, 2))
    assert (found.dtype, found.device) == (abi.SCALARS[name], CPU)
    assert not found.is_contiguous


def test_a_gpu_producer_is_asked_for_our_stream() -> None:
    exporter = Exporter(np.zeros(3, np.float32), ("stream", "max_version"), (2, 1))
    found = view(exporter, "k: x", 0x1234)
    assert exporter.asked == [{"stream": 0x1234, "max_version": (1, 0)}]
    assert str(found.device) == "cuda:1"
    default = Exporter(np.zeros(3, np.float32), ("stream",), (2, 0))
    assert view(default, "k: x").stream == 0
    assert default.asked[-1] == {"stream": 1}  # DLPack's name of the legacy default stream


def test_dlpack_keeps_its_memory_until_the_view_is_gone() -> None:
    array = np.arange(4, dtype=np.float32)
    exporter = Exporter(array)
    before = len(dlpack._alive)
    found = view(exporter, "k: x")
    assert len(dlpack._alive) == before + 1
    del found
    gc.collect()
    assert len(dlpack._alive) == before


def test_numpy_reads_what_we_write_and_frees_it() -> None:
    x = to_device(np.arange(6, dtype=np.int16).reshape(2, 3), "cpu")
    before = len(dlpack._alive)
    shared = np.from_dlpack(x)
    assert shared.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert shared.__array_interface__["data"][0] == x.address
    del shared
    gc.collect()
    assert len(dlpack._alive) == before


@pytest.mark.parametrize("device_type", [4, 7, 10])
def test_other_devices_are_named(device_type: int) -> None:
    with pytest.raises(ArgumentTypeError, match=f"k: x: the array is on a device of DLPack type {device_type}"):
        view(Exporter(np.zeros(3, np.float32), (), (device_type, 0)), "k: x")


def test_pinned_memory_is_host_memory() -> None:
    assert view(Exporter(np.zeros(3, np.float32), (), (dlpack.CUDA_HOST, 0)), "k: x").device == CPU


def test_a_failing_producer_is_an_error_that_names_the_argument() -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: object) -> object:
            raise BufferError("requires grad")

    with pytest.raises(ArgumentTypeError, match=r"k: x: .*Broken cannot be passed: requires grad"):
        view(Broken(), "k: x")
    Broken.__dlpack__ = lambda self, **_: "no capsule"  # type: ignore[method-assign]
    with pytest.raises(ArgumentTypeError, match="does not return a DLPack capsule"):
        view(Broken(), "k: x")


def test_read_only_numpy() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    assert view(array, "k: x").read_only
    assert view(np.broadcast_to(np.float32(1), (3, 4)), "k: x").read_only


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3, ">f4"), "foreign order"),
        (np.array([None, 1]), "Python objects"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "masked"),
        (np.zeros(9, np.int8)[:8].view("V4").astype("V4"), ""),
    ],
)
def test_arrays_that_cannot_be_passed(array: np.ndarray, words: str) -> None:
    if not words:
        assert view(array, "k: x").dtype is None
        return
    with pytest.raises(ArgumentTypeError, match=words):
        view(array, "k: x")


def test_strides_that_are_no_multiple_of_the_element() -> None:
    records = np.zeros(4, np.dtype([("a", "i1"), ("b", "f4")]))
    with pytest.raises(ArgumentTypeError, match="stride 5 bytes of axis 0 is not a multiple of the element size 4"):
        view(records["b"], "k: x")


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", [1, 2], (1,), {}, object(), np.float32(1), np.ndarray, b"ab"])
def test_what_is_no_array(value: object) -> None:
    with pytest.raises(NotAnArray):
        view(value, "k: x")


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [((3, 4), (4, 1), True), ((3, 4), (1, 3), False), ((1, 4), (99, 1), True), ((3, 1), (1, 7), True),
     ((), (), True), ((0, 4), (9, 9), True), ((4,), (-1,), False), ((4,), (0,), False)],
)  # fmt: skip
def test_contiguity(shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool) -> None:
    found = abi_view(shape, strides)
    assert found.is_contiguous is contiguous


def abi_view(shape: tuple[int, ...], strides: tuple[int, ...]):
    from interop.runtime.arrays import ArrayView

    return ArrayView(0, shape, strides, abi.f32, "f32", 4, CPU)


class TestDeviceArrayOnTheCpu:
    def test_round_trip_of_every_dtype(self) -> None:
        for name, kind in DTYPES.items():
            data = np.arange(12).reshape(3, 4).astype(kind)
            x = to_device(data, "cpu")
            assert isinstance(x, DeviceArray) and x.dtype is abi.SCALARS[name]
            assert np.array_equal(x.to_host(), data) and x.to_host().dtype == data.dtype

    def test_a_copy_does_not_share(self) -> None:
        data = np.zeros(3, np.float32)
        x = to_device(data, "cpu")
        data[:] = 1
        assert not x.to_host().any()

    def test_what_it_says_about_itself(self) -> None:
        x = empty((2, 3), abi.f64, "cpu")
        assert (x.shape, x.ndim, x.size, x.nbytes, x.strides, len(x)) == ((2, 3), 2, 6, 48, (24, 8), 2)
        assert repr(x) == "<DeviceArray f64[2, 3] on cpu>"
        assert empty(5, np.int16, "cpu").shape == (5,)

    def test_slices_share_memory(self) -> None:
        x = to_device(np.arange(10, dtype=np.int32), "cpu")
        x[2:4].copy_from(np.array([-1, -2], np.int32))
        assert x.to_host().tolist() == [0, 1, -1, -2, 4, 5, 6, 7, 8, 9]
        assert np.asarray(x[::-3]).tolist() == [9, 6, -2, 0]
        assert np.asarray(x[-1]).item() == 9
        assert x[20:].shape == (0,)

    def test_rows_are_indexed(self) -> None:
        data = np.arange(12, dtype=np.float32).reshape(3, 4)
        x = to_device(data, "cpu")
        assert np.array_equal(x[1].to_host(), data[1])
        assert np.array_equal(x[1:].to_host(), data[1:])

    def test_numpy_sees_the_same_memory_and_keeps_it(self) -> None:
        x = to_device(np.zeros(4, np.float32), "cpu")
        shared = np.asarray(x)
        shared[2] = 5
        assert x.to_host().tolist() == [0, 0, 5, 0]
        del x
        gc.collect()
        assert shared.tolist() == [0, 0, 5, 0]

    def test_memory_is_aligned_for_every_vector_type(self) -> None:
        assert all(empty(3, abi.i8, "cpu").address % 256 == 0 for _ in range(4))

    @pytest.mark.parametrize("bad", [np.zeros(3, np.float64), np.zeros(4, np.float32), np.zeros((3, 1), np.float32)])
    def test_copies_have_to_fit(self, bad: np.ndarray) -> None:
        with pytest.raises(ArgumentTypeError, match="does not fit"):
            empty(3, abi.f32, "cpu").copy_from(bad)

    def test_bad_requests(self) -> None:
        with pytest.raises(ArgumentTypeError, match="not a dtype"):
            empty(3, "complex64", "cpu")
        with pytest.raises(abi.ArgumentRangeError, match="negative"):
            empty(-1, abi.f32, "cpu")
        with pytest.raises(ArgumentTypeError, match="integers"):
            empty((2.0,), abi.f32, "cpu")  # type: ignore[arg-type]
        with pytest.raises(abi.ArgumentRangeError):
            empty((2**40, 2**40), abi.f32, "cpu")
        with pytest.raises(abi.Error, match="allocate"):
            empty(2**60, abi.f32, "cpu")
        with pytest.raises(ArgumentTypeError, match="asarray"):
            to_device([1, 2], "cpu")
        with pytest.raises(IndexError):
            empty(3, abi.f32, "cpu")[3]
        with pytest.raises(TypeError, match="first axis"):
            empty((3, 3), abi.f32, "cpu")[0, 1]
        with pytest.raises(AttributeError, match="CPU device"):
            _ = empty(3, abi.f32, "cpu").__cuda_array_interface__

    def test_empty_arrays(self) -> None:
        x = to_device(np.zeros((0, 3), np.float32), "cpu")
        assert x.to_host().shape == (0, 3) and np.asarray(x).shape == (0, 3)


def test_contiguous_strides() -> None:
    for shape in ((), (3,), (2, 3), (2, 0, 4), (1, 5, 1)):
        array = np.empty(shape, np.float32)
        if array.size:
            assert contiguous_strides(shape) == tuple(s // 4 for s in array.strides)


def test_capsule_struct_sizes_are_dlpacks() -> None:
    assert ctypes.sizeof(dlpack._Tensor) == 48
    assert ctypes.sizeof(dlpack._Managed) == 64
    assert ctypes.sizeof(dlpack._Versioned) == 80

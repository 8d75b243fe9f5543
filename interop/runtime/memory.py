"""Memory on a device: :class:`DeviceArray`, :func:`to_device`, :func:`empty`."""

from __future__ import annotations

import ctypes
import operator
import weakref
from collections.abc import Iterable
from typing import Any

from abi import ArgumentRangeError, ArgumentTypeError, Error, Scalar

from . import dlpack
from .arrays import ArrayView, NotAnArray, OwnArray, contiguous_strides, numpy_scalar, view
from .device import Device, open_device, parse_key
from .stream import stream_handle

_NUMPY_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64",
}  # fmt: skip


class DeviceArray(OwnArray):
    """An array in a device's memory; made by :func:`empty` and :func:`to_device`.

    It speaks ``__cuda_array_interface__`` and DLPack, so PyTorch, CuPy and JAX take it without a copy; on the CPU
    device NumPy does. ``strides`` count bytes, as NumPy's do. Slices along the first axis share the memory.

    >>> import numpy as np
    >>> x = to_device(np.arange(6, dtype=np.float32), "cpu")
    >>> x[2:4].to_host()
    array([2., 3.], dtype=float32)
    """

    def __init__(
        self, device: Device, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Scalar, owner: Any
    ) -> None:
        self.device = device
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self._strides = strides
        self._owner = owner
        # Our own work on a GPU is queued on its legacy default stream.
        self._view = ArrayView(
            address, shape, strides, dtype, dtype.name, dtype.size, device.key, False,
            0 if device.kind == "cuda" else None, "interop",
        )  # fmt: skip

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride * self.dtype.size for stride in self._strides)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.view().count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-dimensional array has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device.key}>"

    def view(self) -> ArrayView:
        """Where the elements lie. It does not keep the array alive."""
        return self._view

    def __getitem__(self, index: Any) -> DeviceArray:
        """A slice or an element along the first axis, without a copy."""
        if not self.shape:
            raise IndexError("a 0-dimensional array cannot be indexed")
        extent, stride = self.shape[0], self._strides[0]
        if isinstance(index, slice):
            start, stop, step = index.indices(extent)
            shape = (len(range(start, stop, step)), *self.shape[1:])
            strides = (stride * step, *self._strides[1:])
        else:
            try:
                start = operator.index(index)
            except TypeError:
                raise TypeError(f"a DeviceArray is indexed along its first axis only, not with {index!r}") from None
            if not -extent <= start < extent:
                raise IndexError(f"index {start} is out of range for an axis of {extent}")
            start %= extent
            shape, strides = self.shape[1:], self._strides[1:]
        address = self.address + start * stride * self.dtype.size
        return DeviceArray(self.device, address, shape, strides, self.dtype, self._owner)

    # -- copies --------------------------------------------------------------------------------------------------

    def to_host(self, stream: Any = None) -> Any:
        """A NumPy array with a copy of the elements; waits for what is queued on `stream` (the default one)."""
        import numpy as np

        self._contiguous("to_host")
        result = np.empty(self.shape, numpy_dtype(self.dtype))
        if result.nbytes:
            handle = self._stream(stream)
            self.device.copy(result.__array_interface__["data"][0], self.address, result.nbytes, "out", handle)
        return result

    def copy_from(self, source: Any, stream: Any = None) -> DeviceArray:
        """Overwrites the elements with those of `source`, an array of the same dtype and shape on the host or on this
        device, and returns the array itself."""
        self._contiguous("copy_from")
        handle = self._stream(stream)
        try:
            other = view(source, "copy_from", handle)
        except NotAnArray:
            raise ArgumentTypeError(f"copy_from: a {type(source).__name__} is not an array") from None
        if other.dtype != self.dtype or other.shape != self.shape:
            raise ArgumentTypeError(f"copy_from: {other.describe()} does not fit {self.view().describe()}")
        if not other.is_contiguous:
            raise ArgumentTypeError("copy_from: the source is not contiguous; pass np.ascontiguousarray(x)")
        if other.device.kind == "cuda" and other.device != self.device.key:
            raise ArgumentTypeError(f"copy_from: the source is on {other.device}, and this array on {self.device.key}")
        if self.nbytes:
            on_host = other.device.kind == "cpu" and self.device.kind == "cuda"
            if other.stream is not None:
                self.device.order_after(handle, other.stream)
            self.device.copy(self.address, other.address, self.nbytes, "in" if on_host else "within", handle)
            if other.stream is not None:
                self.device.order_after(other.stream, handle)  # the source may be overwritten only after it is read
        return self

    def _stream(self, stream: Any) -> int:
        return 0 if stream is None else stream_handle(stream, self.device, "stream")

    def _contiguous(self, what: str) -> None:
        if not self.view().is_contiguous:
            raise ArgumentTypeError(f"{what}: a slice with a step is not contiguous, and is not copied as a whole")

    # -- other libraries -----------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        if self.device.kind != "cpu":
            raise TypeError(f"the array is on {self.device.key}, where NumPy cannot read it: use x.to_host()")
        shared = _host_array(self)
        if dtype is not None and np.dtype(dtype) != shared.dtype:
            if copy is False:
                raise ValueError("a conversion needs a copy")
            return shared.astype(dtype)
        return shared.copy() if copy else shared

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.kind != "cuda":
            raise AttributeError("the array is on the CPU device, and has no __cuda_array_interface__")
        if self.dtype.name == "bf16":
            raise AttributeError("__cuda_array_interface__ has no bfloat16; DLPack has")
        import numpy as np

        return {
            "shape": self.shape,
            "typestr": np.dtype(_NUMPY_NAMES[self.dtype.name]).str,
            "data": (self.address, False),
            "strides": None if self.view().is_contiguous else self.strides,
            "version": 3,
            "stream": 1,  # the legacy default stream
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CUDA, self.device.index) if self.device.kind == "cuda" else (dlpack.CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. The consumer's `stream` is made to wait for ours, as the protocol asks."""
        here = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != here):
            raise BufferError("a DeviceArray is exported where it is, without a copy")
        if self.device.kind == "cuda" and stream not in (None, -1):
            assert stream is not None
            self.device.order_after(0 if stream == 1 else stream, 0)
        versioned = max_version is not None and max_version[0] >= 1
        return dlpack.write(self._owner, self.address, here, self.dtype, self.shape, self._strides, versioned)


def _host_array(array: DeviceArray) -> Any:
    """A NumPy array over the same host memory, which keeps its owner alive."""
    import numpy as np

    dtype = numpy_dtype(array.dtype)
    if array.size == 0:
        return np.empty(array.shape, dtype)
    reaches = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides)]
    before, after = -sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0)
    buffer = (ctypes.c_char * (before + after + dtype.itemsize)).from_address(array.address - before)
    buffer._owner = array  # NumPy keeps the buffer, and the buffer the memory
    return np.ndarray(array.shape, dtype, buffer, before, array.strides)


class _Memory:
    """Owns an allocation; frees it when nothing refers to it."""

    def __init__(self, device: Device, size: int) -> None:
        self.address = device.allocate(size) if size else 0
        if size:
            weakref.finalize(self, device.free, self.address)


def empty(shape: int | Iterable[int], dtype: Any, device: Device | str) -> DeviceArray:
    """A new array with undefined contents on `device`, a :class:`Device` or a name such as ``"cuda:1"``.

    `dtype` is one of ours (``io.f32``) or NumPy's.

    >>> import abi
    >>> empty((2, 3), abi.f32, "cpu").strides
    (12, 4)
    """
    dims = _shape(shape)
    scalar = scalar_type(dtype)
    target = open_device(parse_key(device)) if isinstance(device, str) else device
    size = scalar.size
    for extent in dims:
        size *= extent
    if size >= 2**63:
        raise ArgumentRangeError(f"an array of shape {dims} takes {size} bytes")
    memory = _Memory(target, size)
    return DeviceArray(target, memory.address, dims, contiguous_strides(dims), scalar, memory)


def to_device(array: Any, device: Device | str, stream: Any = None) -> DeviceArray:
    """A copy of `array` (NumPy's, or any array on the host or on `device`) in the memory of `device`.

    >>> import numpy as np
    >>> to_device(np.ones((2, 2), np.float64), "cpu")
    <DeviceArray f64[2, 2] on cpu>
    """
    import numpy as np

    if isinstance(array, (list, tuple, int, float, np.generic)):
        raise ArgumentTypeError(f"to_device takes an array, not a {type(array).__name__}: pass np.asarray(x, dtype)")
    if isinstance(array, np.ndarray):
        array = np.ascontiguousarray(array) if array.ndim else array
    try:
        source = view(array, "to_device")
    except NotAnArray:
        raise ArgumentTypeError(f"to_device takes an array, not a {type(array).__name__}") from None
    if source.dtype is None:
        raise ArgumentTypeError(f"to_device: arrays of {source.dtype_name} are not supported")
    return empty(source.shape, source.dtype, device).copy_from(array, stream)


def _shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    items = shape if isinstance(shape, Iterable) else (shape,)
    result = []
    for extent in items:
        try:
            result.append(operator.index(extent))
        except TypeError:
            raise ArgumentTypeError(f"a shape has integers, not {extent!r}") from None
        if result[-1] < 0:
            raise ArgumentRangeError(f"a shape has no negative extents, and {result[-1]} is given")
    return tuple(result)


def scalar_type(dtype: Any) -> Scalar:
    """Our type for `dtype`, one of ours or NumPy's."""
    if isinstance(dtype, Scalar):
        return dtype
    import numpy as np

    try:
        found = numpy_scalar(np.dtype(dtype))
    except TypeError:
        found = None
    if found is None:
        raise ArgumentTypeError(f"{dtype!r} is not a dtype; write io.f32, io.i32, … or np.float32")
    return found


def numpy_dtype(dtype: Scalar) -> Any:
    """NumPy's dtype for one of ours; bfloat16 comes from ml_dtypes."""
    import numpy as np

    if dtype.name == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            raise Error("NumPy has no bfloat16 of its own: pip install ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_NUMPY_NAMES[dtype.name])

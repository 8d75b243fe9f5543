"""Array arguments: :func:`view` reads NumPy, PyTorch, CuPy, JAX and anything that speaks DLPack or CUDA's interface.

Nothing is copied. A view says where the elements lie and keeps alive what has to live until the launch is queued.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abi import SCALARS, ArgumentTypeError, Scalar

from . import dlpack
from .advice import UnfitArray
from .device import CPU, DeviceKey


@dataclass(slots=True, eq=False)
class ArrayView:
    """Where an array's elements lie. Nobody changes a view; it is not frozen because frozen ones take longer to make.

    ``strides`` count elements. ``dtype`` is None for an element type that no parameter has; ``dtype_name`` names it for
    messages. ``stream`` is the one on which the producer's work is queued, or that it was made to wait for; None where
    there is no such thing. ``keep`` holds what must outlive the launch.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Scalar | None
    dtype_name: str
    itemsize: int
    device: DeviceKey
    read_only: bool = False
    stream: int | None = None
    framework: str = ""
    keep: Any = None
    _count: int | None = None
    _contiguous: bool | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        if self._count is None:
            self._count = math.prod(self.shape)
        return self._count

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow one another in C order; extents of one may have any stride."""
        if self._contiguous is None:
            self._contiguous = 0 in self.shape or self._follow_one_another()
        return self._contiguous

    def _follow_one_another(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1:
                if stride != expected:
                    return False
                expected *= extent
        return True

    def describe(self) -> str:
        """``f32[3, 4] on cuda:0`` for messages."""
        return f"{self.dtype_name}{list(self.shape)} on {self.device}"


class NotAnArray(TypeError):
    """The object is no array of any kind that is known."""


class OwnArray:
    """Base of the arrays that this library allocates; they make their own views."""

    def view(self) -> ArrayView:
        raise NotImplementedError


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a C-contiguous array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def view(value: Any, what: str, stream: int | None = None) -> ArrayView:
    """The array `value`; `what` is how messages call it, `stream` the one that the launch will use, if known.

    :raises NotAnArray: `value` is no array.
    :raises ArgumentTypeError: it is one that cannot be passed.
    """
    if isinstance(value, OwnArray):
        return value.view()
    for module, class_name, read in _FRAMEWORKS:
        loaded = sys.modules.get(module)
        if loaded is not None:
            class_ = getattr(loaded, class_name, None)
            if isinstance(class_, type) and isinstance(value, class_):
                return read(value, what)
    if isinstance(value, type):
        raise NotAnArray
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value, what, stream)
    if hasattr(value, "__cuda_array_interface__"):
        return _from_cuda_interface(value, what)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(value, "__array_interface__") and not isinstance(value, numpy.generic):
        return _from_numpy(numpy.asarray(value), what)
    raise NotAnArray


def _name(what: str) -> str:
    """The parameter's name out of how messages call it: ``saxpy: x``."""
    kernel, _, name = what.rpartition(": ")
    return name if kernel and name.isidentifier() else "array"


# -- NumPy ---------------------------------------------------------------------------------------------------------


_numpy_dtypes: dict[Any, tuple[Scalar | None, str, int]] = {}
"""What is known of each dtype that was seen and can be passed."""


def _from_numpy(array: Any, what: str) -> ArrayView:
    known = _numpy_dtypes.get(array.dtype)
    if known is None:
        known = _numpy_dtypes[array.dtype] = _numpy_dtype(array.dtype, what)
    scalar, name, itemsize = known
    flags, shape = array.flags, array.shape
    if type(array).__module__.startswith("numpy.ma"):
        name = _name(what)
        raise UnfitArray(f"{what}: masked arrays cannot be passed", f"{name}.filled(value) or {name}.data")
    if flags.c_contiguous:
        strides = (1,) if len(shape) == 1 else contiguous_strides(shape)
    else:
        strides = _element_strides(array.strides, shape, itemsize, what)
    address = array.__array_interface__["data"][0]
    return ArrayView(
        address, shape, strides, scalar, name, itemsize, CPU, not flags.writeable, None, "numpy", array, array.size,
        True if flags.c_contiguous else None,
    )  # fmt: skip


def _numpy_dtype(dtype: Any, what: str) -> tuple[Scalar | None, str, int]:
    if not dtype.isnative:
        raise UnfitArray(
            f"{what}: the array's bytes are in foreign order ({dtype.str})",
            f"{_name(what)}.astype({_name(what)}.dtype.newbyteorder('='))",
        )
    if dtype.hasobject:
        raise ArgumentTypeError(f"{what}: the array holds Python objects, which a kernel cannot read")
    scalar = numpy_scalar(dtype)
    return scalar, scalar.name if scalar else str(dtype), dtype.itemsize


_NUMPY_KINDS = {"b": "bool", "i": "i", "u": "u", "f": "f"}


def numpy_scalar(dtype: Any) -> Scalar | None:
    """The scalar type of a NumPy dtype; None where there is none. ml_dtypes' bfloat16 is recognised by name."""
    if dtype.name == "bfloat16":
        return SCALARS["bf16"]
    kind = _NUMPY_KINDS.get(dtype.kind)
    if kind is None:
        return None
    return SCALARS.get("bool" if kind == "bool" else f"{kind}{dtype.itemsize * 8}")


def _element_strides(strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int, what: str) -> tuple[int, ...]:
    result = []
    for axis, (stride, extent) in enumerate(zip(strides, shape)):
        if itemsize and stride % itemsize and extent > 1:
            raise UnfitArray(
                f"{what}: stride {stride} bytes of axis {axis} is not a multiple of the element size {itemsize}",
                f"np.ascontiguousarray({_name(what)})",
            )
        result.append(stride // itemsize if itemsize else 0)
    return tuple(result)


# -- PyTorch -------------------------------------------------------------------------------------------------------

_TORCH_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


def _from_torch(tensor: Any, what: str) -> ArrayView:
    torch = sys.modules["torch"]
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise ArgumentTypeError(f"{what}: the tensor is on {tensor.device}; kernels take tensors on cpu and cuda")
    if tensor.layout is not torch.strided:
        raise UnfitArray(f"{what}: the tensor's layout is {tensor.layout}", f"{_name(what)}.to_dense()")
    if tensor.is_conj() or tensor.is_neg():
        raise UnfitArray(
            f"{what}: the tensor is a lazy conjugate or negation", f"{_name(what)}.resolve_conj().resolve_neg()"
        )
    address = _torch_address(tensor, what)
    name = str(tensor.dtype).removeprefix("torch.")
    ours = _TORCH_NAMES.get(name)
    return ArrayView(
        address,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        SCALARS[ours] if ours else None,
        ours or name,
        tensor.element_size(),
        CPU if kind == "cpu" else DeviceKey("cuda", tensor.device.index or 0),
        stream=torch_stream(tensor.device.index or 0) if kind == "cuda" else None,
        framework="torch",
        keep=tensor,
    )


def _torch_address(tensor: Any, what: str) -> int:
    try:
        address: int = tensor.data_ptr()
    except RuntimeError as error:
        raise ArgumentTypeError(f"{what}: the tensor has no memory: {error}") from None
    # A FakeTensor or a functional-transform wrapper looks like a tensor and has nothing behind it.
    if address == 0 and tensor.numel() != 0:
        raise ArgumentTypeError(f"{what}: the tensor ({type(tensor).__name__}) has no memory")
    return address


def torch_stream(index: int) -> int:
    """PyTorch's current stream on a GPU. The raw accessor is a hundred times cheaper than the public one."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    handle = raw(index) if raw is not None else torch.cuda.current_stream(index).cuda_stream
    return int(handle)


# -- CuPy and other producers of CUDA's array interface ------------------------------------------------------------


def _from_cupy(array: Any, what: str) -> ArrayView:
    scalar = numpy_scalar(array.dtype)
    index = int(array.data.device_id)
    itemsize = int(array.dtype.itemsize)
    return ArrayView(
        int(array.data.ptr),
        tuple(array.shape),
        _element_strides(tuple(array.strides), tuple(array.shape), itemsize, what),
        scalar,
        scalar.name if scalar else str(array.dtype),
        itemsize,
        DeviceKey("cuda", index),
        stream=cupy_stream(index),
        framework="cupy",
        keep=array,
    )


def cupy_stream(index: int) -> int:
    """CuPy's current stream on a GPU."""
    current = sys.modules["cupy"].cuda.get_current_stream
    try:
        return int(current(index).ptr)
    except TypeError:  # before CuPy 13 the function took no device
        return int(current().ptr)


def _from_cuda_interface(value: Any, what: str) -> ArrayView:
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ArgumentTypeError(f"{what}: masked arrays cannot be passed")
    address, read_only = interface["data"]
    shape = tuple(int(n) for n in interface["shape"])
    text = str(interface["typestr"])
    import numpy as np

    dtype = np.dtype(text)
    if not dtype.isnative:
        raise ArgumentTypeError(f"{what}: the array's bytes are in foreign order ({text})")
    scalar = numpy_scalar(dtype)
    strides = interface.get("strides")
    stream = interface.get("stream")
    if stream == 0:
        raise ArgumentTypeError(f"{what}: __cuda_array_interface__ gives stream 0, which its specification forbids")
    return ArrayView(
        int(address or 0),
        shape,
        contiguous_strides(shape) if strides is None else _element_strides(tuple(strides), shape, dtype.itemsize, what),
        scalar,
        scalar.name if scalar else str(dtype),
        dtype.itemsize,
        DeviceKey("cuda", _device_of_address(int(address or 0), value)),
        bool(read_only),
        # 1 is the legacy default stream, which we know as 0.
        stream=None if stream is None else (0 if stream == 1 else int(stream)),
        framework="",
        keep=value,
    )


def _device_of_address(address: int, value: Any) -> int:
    """The GPU of an address: the interface does not say, the driver knows."""
    if address == 0:
        return int(getattr(getattr(value, "device", None), "id", 0) or 0)
    from .cuda_driver import device_of_address

    return device_of_address(address)


# -- DLPack --------------------------------------------------------------------------------------------------------


def _from_dlpack(value: Any, what: str, stream: int | None) -> ArrayView:
    try:
        device_type, index = (int(part) for part in value.__dlpack_device__())
        on_gpu = device_type in (dlpack.CUDA, dlpack.CUDA_MANAGED)
        if not on_gpu and device_type not in (dlpack.CPU, dlpack.CUDA_HOST):
            raise ArgumentTypeError(f"{what}: the array is on a device of DLPack type {device_type}; cpu and cuda work")
        # DLPack's 1 is the legacy default stream; the producer orders its own work before it.
        capsule = dlpack.ask(value.__dlpack__, (stream or 1) if on_gpu else None)
        read = dlpack.read(capsule)
    except (BufferError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        if isinstance(error, ArgumentTypeError):
            raise
        raise ArgumentTypeError(f"{what}: the {_type_name(value)} cannot be passed: {error}") from None
    is_jax = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    return ArrayView(
        read.address,
        read.shape,
        contiguous_strides(read.shape) if read.strides is None else read.strides,
        read.dtype,
        read.dtype_name,
        read.itemsize,
        DeviceKey("cuda", index) if on_gpu else CPU,
        # JAX arrays are immutable, and the library assumes it.
        read.read_only or is_jax,
        stream=(stream or 0) if on_gpu else None,
        framework="jax" if is_jax else "",
        keep=(value, capsule),
    )


def _type_name(value: Any) -> str:
    type_ = type(value)
    return type_.__name__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__qualname__}"


_FRAMEWORKS: tuple[tuple[str, str, Callable[[Any, str], ArrayView]], ...] = (
    ("numpy", "ndarray", _from_numpy),
    ("torch", "Tensor", _from_torch),
    ("cupy", "ndarray", _from_cupy),
)
"""Libraries whose attributes are cheaper, or say more, than the general protocols."""

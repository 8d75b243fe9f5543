"""DLPack capsules, read and written through :mod:`ctypes`: the struct layouts are those of DLPack 1.x.

https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from abi import SCALARS, Scalar

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Device types. Pinned host memory is host memory to us; managed memory belongs to its GPU."""

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_CODES = {"int": _INT, "uint": _UINT, "float": _FLOAT, "bool": _BOOL}
_CODE_NAMES = {_INT: "int", _UINT: "uint", _FLOAT: "float", 3: "opaque", _BFLOAT: "bfloat", _COMPLEX: "complex"}
_READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# Function objects of our own: the attributes of ctypes.pythonapi are shared with every other library in the process.
_python = ctypes.PyDLL(None)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def _function(name: str, result: Any, *arguments: Any) -> Any:
    found = _python[name]
    found.restype, found.argtypes = result, list(arguments)
    return found


_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_new_capsule = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
# A destructor sees a dying object, so it handles the bare address.
_raw_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_get_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class Read(NamedTuple):
    """What a capsule says. ``strides`` count elements; ``dtype`` is None for an element type that has no name here."""

    address: int
    device_type: int
    device_index: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: Scalar | None
    dtype_name: str
    itemsize: int
    read_only: bool


def read(capsule: Any) -> Read:
    """Reads a capsule without consuming it: its producer's memory lives as long as the capsule does.

    :raises TypeError: not a DLPack capsule, or of a newer major version.
    """
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise TypeError(f"its DLPack capsule has version {versioned.major}.{versioned.minor}; 1.x is supported")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Managed.from_address(_get_pointer(capsule, b"dltensor")).tensor
    else:
        raise TypeError("its __dlpack__() does not return a DLPack capsule")
    rank = tensor.ndim
    shape = tuple(tensor.shape[axis] for axis in range(rank))
    strides = tuple(tensor.strides[axis] for axis in range(rank)) if tensor.strides else None
    dtype, dtype_name, itemsize = _element(tensor.dtype)
    address = (tensor.data or 0) + tensor.byte_offset
    device = tensor.device
    return Read(address, device.type, device.id, shape, strides, dtype, dtype_name, itemsize, read_only)


def _element(dtype: _DataType) -> tuple[Scalar | None, str, int]:
    code, bits, lanes = dtype.code, dtype.bits, dtype.lanes
    name = f"{_CODE_NAMES.get(code, f'DLPack type {code} of ')}{bits}"
    if code == _BOOL:
        name = "bool"
    if lanes != 1:
        return None, f"{name} x {lanes}", (bits * lanes + 7) // 8
    if code == _BFLOAT and bits == 16:
        return SCALARS["bf16"], "bf16", 2
    letter = {_INT: "i", _UINT: "u", _FLOAT: "f"}.get(code)
    ours = "bool" if code == _BOOL and bits == 8 else f"{letter}{bits}"
    dtype_ = SCALARS.get(ours)
    return dtype_, ours if dtype_ else name, (bits + 7) // 8


# -- writing -------------------------------------------------------------------------------------------------------

_alive: dict[int, tuple[Any, ...]] = {}


def _release(address: int | None) -> None:
    if address is not None:
        _alive.pop(address, None)


_release_function = _Deleter(_release)


def _destroy(capsule: int | None) -> None:
    """A capsule that nobody consumed still owns its tensor; a consumer renames the capsules that it takes."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _raw_is_valid(capsule, name):
            _alive.pop(_raw_get_pointer(capsule, name), None)


_destroy_function = _Destructor(_destroy)


def write(
    owner: Any,
    address: int,
    device: tuple[int, int],
    dtype: Scalar,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    versioned: bool,
) -> Any:
    """A capsule over memory that lives as long as `owner` does."""
    rank = len(shape)
    shape_array, stride_array = (ctypes.c_int64 * max(rank, 1))(*shape), (ctypes.c_int64 * max(rank, 1))(*strides)
    code = _BFLOAT if dtype.name == "bf16" else _CODES[dtype.kind]
    int64_pointer = ctypes.POINTER(ctypes.c_int64)
    tensor = _Tensor(
        address or None, _Device(*device), rank, _DataType(code, dtype.bits, 1),
        ctypes.cast(shape_array, int64_pointer), ctypes.cast(stride_array, int64_pointer), 0,
    )  # fmt: skip
    managed: _Versioned | _Managed
    if versioned:
        managed = _Versioned(1, 0, None, _release_function, 0, tensor)
    else:
        managed = _Managed(tensor, None, _release_function)
    key = ctypes.addressof(managed)
    _alive[key] = (managed, shape_array, stride_array, owner)
    return _new_capsule(key, b"dltensor_versioned" if versioned else b"dltensor", _destroy_function)


Negotiate = Callable[..., Any]


def ask(export: Negotiate, stream: int | None) -> Any:
    """Calls a producer's ``__dlpack__`` with what it understands.

    Producers differ: old ones know no ``max_version``, NumPy takes only ``stream=None``, some take nothing at all.
    """
    attempts: tuple[dict[str, Any], ...] = ({"max_version": (1, 0)}, {})
    if stream is not None:
        attempts = ({"stream": stream, "max_version": (1, 0)}, {"stream": stream}, {})
    for keywords in attempts[:-1]:
        try:
            return export(**keywords)
        except TypeError:
            continue
    return export(**attempts[-1])

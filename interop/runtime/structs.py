"""Structures by value: whether what is passed has the fields that the declaration gives them, where it gives any.

NumPy's structured dtypes and ctypes' structures are compared by the names, types and offsets of their fields.
"""

from __future__ import annotations

import ctypes
from typing import Any

from abi import ArgumentTypeError

Fields = dict[str, tuple[int, str]]
"""Offset and type of every field by its full name, such as ``origin.x``."""


def check_fields(declared: Any, value: Any, what: str) -> None:
    """Raises :class:`ArgumentTypeError` when `value` is a structure of other fields than `declared`.

    :param declared: a NumPy structured dtype, or a class of ctypes.
    :param value: of the declaration's size. Raw bytes have no fields, and pass.

    >>> import numpy as np
    >>> check_fields(np.dtype([("a", "f4"), ("b", "i4")]), np.zeros((), [("b", "i4"), ("a", "f4")]), "st: p")
    Traceback (most recent call last):
    abi.errors.ArgumentTypeError: st: p is {a: float32 at 0, b: int32 at 4}, but {b: int32 at 0, a: float32 at 4} is \
given: pass the declared structure, or its bytes
    """
    given = _layout_of(value)
    if given is None or given is declared:
        return
    if isinstance(declared, type) and isinstance(given, type) and issubclass(given, declared):
        return  # a derived class begins with the fields of its base, also those that NumPy cannot describe
    ours, theirs = _fields(declared), _fields(given)
    if ours is None or ours != theirs:
        raise ArgumentTypeError(
            f"{what} is {_text(declared, ours)}, but {_text(given, theirs)} is given: pass the declared structure, or "
            "its bytes"
        )


def _layout_of(value: Any) -> Any:
    """The dtype or ctypes class of a value that has fields or is a number; None for raw bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return None
    if isinstance(value, ctypes.Array) and value._type_ in (ctypes.c_char, ctypes.c_byte, ctypes.c_ubyte):
        return None
    if isinstance(value, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        return type(value)
    dtype = value.dtype
    return None if dtype.kind == "V" and dtype.names is None else dtype


def _fields(layout: Any) -> Fields | None:
    """The fields of a dtype or ctypes class; None where NumPy cannot tell them: bit fields and typed pointers."""
    import numpy

    try:
        dtype = numpy.dtype(layout)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return dict(_walk(dtype, "", 0))


def _walk(dtype: Any, name: str, offset: int) -> list[tuple[str, tuple[int, str]]]:
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        extents = "".join(f"[{n}]" for n in shape)
        if element.names is None:
            return [(name + extents, (offset, _type_text(element)))]
        # The step from one element to the next is part of the layout, and padding at the end makes it.
        return [(name + extents, (offset, f"{element.itemsize} bytes")), *_walk(element, name + extents, offset)]
    if dtype.names is None:
        return [(name, (offset, _type_text(dtype)))]
    found = []
    for field in dtype.names:
        inner, at = dtype.fields[field][:2]
        found += _walk(inner, f"{name}.{field}" if name else field, offset + at)
    return found


def _type_text(dtype: Any) -> str:
    return str(dtype) if dtype.isnative else dtype.str


def _text(layout: Any, fields: Fields | None) -> str:
    name = f"{layout.__name__} " if isinstance(layout, type) else ""
    if fields is None:
        return name.strip()
    if "" in fields:
        return f"{name}{fields[''][1]}"
    return f"{name}{{{', '.join(f'{field}: {text} at {at}' for field, (at, text) in fields.items())}}}"

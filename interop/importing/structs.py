"""Structures of other libraries as parameter types: NumPy's structured dtypes and ctypes' structures."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from abi import Bytes


def struct_type(annotation: Any) -> Bytes | None:
    """Size and alignment of a structure as C lays it out; None for anything else.

    >>> class Pair(ctypes.Structure):
    ...     _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_double)]
    >>> str(struct_type(Pair))
    'bytes<16, 8>'
    """
    if isinstance(annotation, type) and issubclass(annotation, (ctypes.Structure, ctypes.Union)):
        return Bytes(ctypes.sizeof(annotation), ctypes.alignment(annotation))
    numpy = sys.modules.get("numpy")  # whoever has a dtype has imported it
    if numpy is not None and isinstance(annotation, numpy.dtype) and annotation.names:
        return None if annotation.hasobject else Bytes(annotation.itemsize, dtype_alignment(annotation))
    return None


def dtype_alignment(dtype: Any) -> int:
    """The alignment that C gives a structure with these fields; 1 where they do not lie as C would lay them.

    NumPy records the alignment only of dtypes made with ``align=True``; one that happens to lie right is right.
    """
    if dtype.subdtype is not None:
        return dtype_alignment(dtype.subdtype[0])
    if not dtype.names:
        return int(dtype.alignment)
    most = 1
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]
        align = dtype_alignment(field)
        if offset % align:
            return 1
        most = max(most, align)
    return 1 if dtype.itemsize % most else most

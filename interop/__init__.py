"""Write a GPU kernel once, in Python or CUDA C++, and call it from Python, C and C++, safely.

>>> import interop as io
>>> from interop import simt
>>> @simt.kernel(block=256, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
... def saxpy(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
...     i = simt.global_index()
...     if i < len(y):
...         y[i] = a * x[i] + y[i]

Importing this package loads neither LLVM nor a driver: every name below is fetched on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from abi import (
    AbiMismatch,
    ArgumentRangeError,
    ArgumentTypeError,
    BundleError,
    ContractError,
    DeviceError,
    Error,
    ExecutionError,
    ImageError,
    Incompatible,
    LaunchError,
    SymbolNotFound,
)

if TYPE_CHECKING:
    from . import language, simt
    from .errors import CompileError, DivergenceError, RaceError, SyntaxError_, TypeError_, UnsupportedError
    from .exporting import Example, export  # type: ignore[no-redef]
    from .importing import AmbiguousKernel, NoSuchKernel, foreign, load_cuda, load_ptx  # type: ignore[no-redef]
    from .language import *
    from .pipeline import Pipeline
    from .runtime import DeviceArray, Launchable, Stream, devices, empty, synchronize, to_device

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(
        ("CompileError", "DivergenceError", "RaceError", "SyntaxError_", "TypeError_", "UnsupportedError"), "errors"
    ),
    **dict.fromkeys(("Example", "export"), "exporting"),
    **dict.fromkeys(("AmbiguousKernel", "NoSuchKernel", "foreign", "load_cuda", "load_ptx"), "importing"),
    **dict.fromkeys(("DeviceArray", "Launchable", "Stream", "devices", "empty", "synchronize", "to_device"), "runtime"),
    "Pipeline": "pipeline",
}
_MODULES = ("language", "simt", "errors", "exporting", "importing", "runtime", "pipeline", "executor", "ptx")

__all__ = [
    "AbiMismatch", "ArgumentRangeError", "ArgumentTypeError", "BundleError", "ContractError", "DeviceError", "Error",
    "ExecutionError", "ImageError", "Incompatible", "LaunchError", "SymbolNotFound",
    *_HOME, "language", "simt",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    else:
        language = importlib.import_module(".language", __name__)
        if name.startswith("_") or name not in language.__all__:
            raise AttributeError(f"module 'interop' has no attribute '{name}'")
        value = getattr(language, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    language = importlib.import_module(".language", __name__)
    return sorted({*__all__, *language.__all__})

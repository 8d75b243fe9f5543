"""The CPU device: any compiler's PTX, translated to host code and run.

>>> from interop.executor import compile_kernel
>>> kernel = compile_kernel(".version 8.0\\n.target sm_80\\n.entry nop(.param .u32 n) { ret; }", "nop")
>>> kernel.param_bytes
4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host import HostKernel
    from .jit import compile_kernel
    from .objects import compile_object, record_symbol

__all__ = ["HostKernel", "compile_kernel", "compile_object", "record_symbol"]

_HOMES = {"HostKernel": "host", "compile_kernel": "jit", "compile_object": "objects", "record_symbol": "objects"}


def __getattr__(name: str) -> object:
    """LLVM is loaded when a kernel is compiled, not when this package is imported."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Kernels for programs without Python: objects that a linker puts into a library or an executable."""

from __future__ import annotations

from collections.abc import Sequence

from abi import Error
from interop import ptx

from . import codegen
from .analysis import plan_kernel
from .builder import ModuleText
from .emit import emit_kernel
from .storage import Storage
from .table import instruction_table


def record_symbol(prefix: str, symbol: str, level: str) -> str:
    """The name of a kernel's record in an object.

    >>> record_symbol("mix_", "saxpy", "x86-64-v3")
    'mix_cpu_saxpy_x86_64_v3'
    """
    return f"{prefix}cpu_{symbol}_{level.replace('-', '_')}"


def compile_object(
    ptx_text: str, symbols: Sequence[str], *, prefix: str, level: str = "x86-64-v3", checks: bool = False
) -> bytes:
    """Translates kernels of a PTX text to one position-independent ELF object; the same input gives the same bytes.

    The object defines a ``const interop_cpu_kernel`` for each kernel, named as :func:`record_symbol` says, and refers
    only to libc, libm and the runtime's functions under `prefix` (``cpp_shim/src/interop_cpu*.c`` compiled with
    ``-DINTEROP_PREFIX=prefix``). Module variables of the PTX are part of the object. With `checks` its memory accesses
    are compared with the ranges that ``interop_cpu_launch_with`` is given.

    >>> compile_object(".version 8.0\\n.target sm_80\\n.entry nop() { ret; }", ["nop"], prefix="mix_")[:4]
    b'\\x7fELF'
    """
    if not symbols or len(set(symbols)) != len(symbols):
        raise Error("compile_object needs the names of one or more kernels, each once")
    target = codegen.level(level)
    module = ptx.parse(ptx_text)
    table = instruction_table()
    text = ModuleText(prefix)
    coroutines = False
    for symbol in symbols:
        plan = plan_kernel(module, symbol, table, checks=checks)
        storage = Storage(plan, module, text, None)
        emit_kernel(plan, text, storage, record_symbol(prefix, symbol, level))
        coroutines |= plan.coroutine
    return codegen.compile_ir(text.text(), target, coroutines)

"""Kernels for this process: compiled once, kept on disk, loaded with the C runtime's functions as their symbols."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from interop import ptx

from . import cache, codegen
from ._native import ffi, lib
from .analysis import Plan, plan_kernel
from .builder import ModuleText
from .emit import emit_kernel, module_variables
from .host import HostKernel
from .storage import Storage, parameter_offsets
from .table import instruction_table

_PREFIX = "interop_"
_lock = threading.RLock()
_kernels: dict[tuple[str, str, int, bool, bool], HostKernel] = {}
_variables: dict[str, list[Any]] = {}  # of a PTX text, once a kernel has needed its variables; keeps the engines alive


@ffi.def_extern()  # type: ignore[untyped-decorator]
def interop_executor_print(user: object, text: object, size: int) -> None:
    """What kernels print goes to Python's standard output."""
    sys.stdout.write(bytes(ffi.buffer(text, size)).decode("utf-8", "replace"))


@lru_cache(maxsize=1)
def _runtime() -> None:
    """Makes the C runtime known to LLVM."""
    for index in range(lib.helper_count):
        helper = lib.helpers[index]
        llvm.add_symbol(ffi.string(helper.name).decode(), int(ffi.cast("uintptr_t", helper.address)))
    lib.interop_cpu_set_print(lib.interop_executor_print, ffi.NULL)


CHECKS_VARIABLE = "INTEROP_CPU_CHECKS"
"""``0``: kernels are translated without bounds checks, where the caller does not say."""

STRICT_VARIABLE = "INTEROP_CPU_STRICT_COPIES"
"""``1``: kernels are translated so that cp.async is done as late as possible (:mod:`.async_copy`)."""


def compile_kernel(ptx_text: str, symbol: str, *, lanes: int = 1, checks: bool | None = None) -> HostKernel:
    """Translates the kernel `symbol` of a PTX text for this machine.

    The result is kept in the process and on disk, so that a second call costs nothing. Kernels of one text share its
    ``.global`` variables.

    >>> kernel = compile_kernel(".version 8.0\\n.target sm_80\\n.entry nop() { ret; }", "nop")
    >>> kernel.launch(b"", grid=4, block=32)

    :param checks: whether memory accesses are compared with what the kernel may touch; None: yes, unless the
        environment's ``INTEROP_CPU_CHECKS`` is 0.
    :raises PtxSyntaxError: when the text is not PTX.
    :raises SymbolNotFound: when it has no such kernel.
    :raises UnsupportedError: for an instruction that the CPU device does not have.
    """
    digest = hashlib.sha256(ptx_text.encode("utf-8", "surrogatepass")).hexdigest()
    if checks is None:
        checks = os.environ.get(CHECKS_VARIABLE, "") != "0"
    strict = os.environ.get(STRICT_VARIABLE, "") not in ("", "0")
    with _lock:
        found = _kernels.get((digest, symbol, lanes, checks, strict))
        if found is None:
            found = _load_kernel(ptx_text, digest, symbol, lanes, checks, strict)
            _kernels[digest, symbol, lanes, checks, strict] = found
        return found


def _load_kernel(ptx_text: str, digest: str, symbol: str, lanes: int, checks: bool, strict: bool) -> HostKernel:
    target = codegen.host()
    name = cache.key(digest, symbol, str(lanes), str(int(checks)), str(int(strict)), target.cpu, target.features)
    entry = cache.load(name)
    dump = set(os.environ.get("INTEROP_DUMP", "").split(","))
    if entry is None or "llvm" in dump:
        entry = _translate(ptx_text, digest, symbol, lanes, checks, strict, "llvm" in dump)
        cache.store(name, entry)
    if entry.externals:
        _define_variables(ptx_text, digest)
    engine = _engine(entry.data)
    record = ffi.cast("interop_cpu_kernel *", engine.get_global_value_address(_record(symbol)))
    return HostKernel(record, engine, entry.addresses)


def _record(symbol: str) -> str:
    return f"{_PREFIX}cpu_{symbol}_jit"


def _translate(
    ptx_text: str, digest: str, symbol: str, lanes: int, checks: bool, strict: bool, dump: bool
) -> cache.Entry:
    plan = plan_kernel(ptx.parse(ptx_text), symbol, instruction_table(), lanes, checks)
    plan.strict_copies = strict
    text = ModuleText(_PREFIX)
    storage = Storage(plan, plan.module, text, _variable_prefix(digest))
    emit_kernel(plan, text, storage, _record(symbol))
    if dump:
        sys.stderr.write(f"; LLVM IR of {symbol} for the CPU device\n{text.text()}")
    data = codegen.compile_ir(text.text(), codegen.host(), plan.coroutine)
    return cache.Entry(data, tuple(storage.used), _addresses(plan))


def _addresses(plan: Plan) -> tuple[tuple[int, int], ...] | None:
    """The places of the parameters that become addresses which are checked."""
    if not plan.checks.enabled:
        return None
    params = plan.function.params
    offsets, _ = parameter_offsets(params)
    return tuple((offsets[index], params[index].size) for index in sorted(plan.checks.addresses))


def _variable_prefix(digest: str) -> str:
    return f"interop_var_{digest[:24]}_"


def _define_variables(ptx_text: str, digest: str) -> None:
    """The text's variables, one copy for all its kernels."""
    if digest in _variables:
        return
    prefix = _variable_prefix(digest)
    text, names = module_variables(ptx.parse(ptx_text), prefix)
    engine = _engine(codegen.compile_ir(text.text(), codegen.host(), False, variables_only=True))
    for name in names:
        llvm.add_symbol(prefix + name, engine.get_global_value_address(prefix + name))
    _variables[digest] = [engine]


def _engine(data: bytes) -> Any:
    """Loads an object into this process."""
    with codegen.lock:
        _runtime()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), codegen.machine(codegen.host()))
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
        return engine

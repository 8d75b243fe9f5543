"""Kernels for this process: compiled once, kept on disk, loaded with the C runtime's functions as their symbols."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from abi import UnsupportedError
from interop import ptx

from . import cache, codegen
from ._native import ffi, lib
from .analysis import Plan, plan_kernel
from .builder import ModuleText
from .emit import emit_kernel, module_variables
from .host import HostKernel
from .storage import Storage, parameter_offsets
from .table import instruction_table
from .vector_emit import emit_vector_kernel
from .vector_flatten import Unsuitable
from .vector_plan import LANES, WARPS, are_warps, preferred_lanes

_PREFIX = "interop_"
_lock = threading.RLock()
_kernels: dict[tuple[object, ...], HostKernel] = {}
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


LANES_VARIABLE = "INTEROP_CPU_LANES"
"""How many lanes kernels get that can have them, where the caller does not say: 1, 8, 16, 32."""


def compile_kernel(ptx_text: str, symbol: str, *, lanes: int | None = None, checks: bool | None = None) -> HostKernel:
    """Translates the kernel `symbol` of a PTX text for this machine.

    The result is kept in the process and on disk, so that a second call costs nothing. Kernels of one text share its
    ``.global`` variables.

    >>> kernel = compile_kernel(".version 8.0\\n.target sm_80\\n.entry nop() { ret; }", "nop")
    >>> kernel.launch(b"", grid=4, block=32)

    :param lanes: how many threads of a row run at once in vectors: 1, 8, 16 or 32. None: the environment's
        ``INTEROP_CPU_LANES``, else what suits the block of each launch; and 1 where the kernel is none for vectors.
    :param checks: whether memory accesses are compared with what the kernel may touch; None: yes, unless the
        environment's ``INTEROP_CPU_CHECKS`` is 0.
    :raises PtxSyntaxError: when the text is not PTX.
    :raises SymbolNotFound: when it has no such kernel.
    :raises UnsupportedError: for an instruction that the CPU device does not have, and for a number of `lanes` with
        which this kernel cannot run.
    """
    digest = hashlib.sha256(ptx_text.encode("utf-8", "surrogatepass")).hexdigest()
    if checks is None:
        checks = os.environ.get(CHECKS_VARIABLE, "") != "0"
    if lanes is not None and lanes not in (1, *LANES):
        raise UnsupportedError(f"lanes = {lanes}: the CPU device has {', '.join(map(str, (1, *LANES)))}")
    options = _Options(checks, os.environ.get(STRICT_VARIABLE, "") not in ("", "0"))
    wish = _wish_of_environment() if lanes is None else 0
    key = (digest, symbol, lanes or -wish, options)
    with _lock:
        found = _kernels.get(key)
        if found is None:
            variants = _Variants(ptx_text, digest, symbol, options, wish)
            found = _kernels[key] = variants.automatic() if lanes is None else variants.fixed(lanes)
        return found


def _wish_of_environment() -> int:
    """The number of lanes that the environment asks for; 0: what suits each launch."""
    text = os.environ.get(LANES_VARIABLE, "")
    if text == "":
        return 0
    if text not in ("1", *map(str, LANES)):
        raise UnsupportedError(f"{LANES_VARIABLE}={text}: the CPU device has {', '.join(map(str, (1, *LANES)))} lanes")
    return int(text)


@dataclass(frozen=True)
class _Options:
    """What a translation is made for, besides the number of lanes."""

    checks: bool
    strict: bool


@dataclass(frozen=True)
class _Variant:
    """A translation that is loaded; without a record where the kernel is none for that many lanes, and `why`."""

    record: Any = None
    engine: object = None
    addresses: tuple[tuple[int, int], ...] | None = None  # see HostKernel; the same for all numbers of lanes
    why: str = ""


class _Variants:
    """The translations of one kernel, made when they are needed."""

    def __init__(self, ptx_text: str, digest: str, symbol: str, options: _Options, wish: int) -> None:
        self._ptx_text = ptx_text
        self._digest = digest
        self._symbol = symbol
        self._options = options
        self._wish = wish
        self._loaded: dict[tuple[int, bool], _Variant] = {}

    def fixed(self, lanes: int) -> HostKernel:
        """The kernel with that many lanes, whatever the block."""
        variant = self._get(lanes)
        if variant.record is None:
            raise UnsupportedError(f"{self._symbol}: {lanes} lanes do not suit this kernel: {variant.why}")

        def check(block: Sequence[int]) -> Any:
            if variant.record.flags & WARPS and not are_warps(block):
                raise UnsupportedError(
                    f"{self._symbol}: {lanes} lanes do not suit a block of {tuple(block)}: the kernel's lanes work "
                    "together, and its rows are not whole warps"
                )
            return self._fitting(lanes, block)

        return HostKernel(variant.record, self, variant.addresses, check)

    def _fitting(self, lanes: int, block: Sequence[int]) -> Any:
        """The record of that many lanes for a block: rows of whole strands have code of their own."""
        with _lock:
            return self._get(lanes, lanes > 1 and block[0] % lanes == 0).record

    def automatic(self) -> HostKernel:
        """The kernel with the lanes that suit each launch. The likeliest translation is made at once."""
        first = self._get(self._wish or 32, self._wish != 1)
        if first.record is None:
            first = self._get(1)
        return HostKernel(first.record, self, first.addresses, self.choose)

    def choose(self, block: Sequence[int]) -> Any:
        """The record for launches with that block."""
        for lanes in (self._wish,) if self._wish else preferred_lanes(block):
            record = self._fitting(lanes, block)
            if record is not None and (not record.flags & WARPS or are_warps(block)):
                return record
        return self._get(1).record

    def _get(self, lanes: int, whole: bool = False) -> _Variant:
        found = self._loaded.get((lanes, whole))
        if found is None:
            found = self._loaded[lanes, whole] = self._load(lanes, whole)
        return found

    def _load(self, lanes: int, whole: bool) -> _Variant:
        target = codegen.host()
        parts = (f"{lanes}{'w' * whole}", repr(self._options), target.cpu, target.features)
        name = cache.key(self._digest, self._symbol, *parts)
        entry = cache.load(name)
        dump = "llvm" in os.environ.get("INTEROP_DUMP", "").split(",")
        if entry is None or dump:
            try:
                entry = _translate(self._ptx_text, self._digest, self._symbol, lanes, whole, self._options, dump)
            except (Unsuitable, UnsupportedError) as problem:
                if lanes == 1:
                    raise
                entry = cache.Entry(b"", (str(problem),))
            cache.store(name, entry)
        if not entry.data:
            return _Variant(why=entry.externals[0])
        if entry.externals:
            _define_variables(self._ptx_text, self._digest)
        engine = _engine(entry.data)
        address = engine.get_global_value_address(_record(self._symbol))
        return _Variant(ffi.cast("interop_cpu_kernel *", address), engine, entry.addresses)


def _record(symbol: str) -> str:
    return f"{_PREFIX}cpu_{symbol}_jit"


def _translate(
    ptx_text: str, digest: str, symbol: str, lanes: int, whole: bool, options: _Options, dump: bool
) -> cache.Entry:
    plan = plan_kernel(ptx.parse(ptx_text), symbol, instruction_table(), options.checks)
    plan.strict_copies = options.strict
    text = ModuleText(_PREFIX)
    storage = Storage(plan, plan.module, text, _variable_prefix(digest))
    if lanes == 1:
        emit_kernel(plan, text, storage, _record(symbol))
    else:
        plan = emit_vector_kernel(plan.module, plan, lanes, whole, text, storage, _record(symbol))
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

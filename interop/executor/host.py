"""A kernel that is ready to run on this machine."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from abi import ArgumentRangeError, ArgumentTypeError, DeviceError, ExecutionError, Status

from ._native import ffi, lib

_ERROR = ffi.typeof("interop_cpu_error *")
_ERRORS: dict[int, type[Exception]] = {
    Status.ARGUMENT_TYPE: ArgumentTypeError,
    Status.ARGUMENT_RANGE: ArgumentRangeError,
    Status.EXECUTION: ExecutionError,
}


class MemoryRange(NamedTuple):
    """Memory that a launch may touch: its first byte, its size in bytes, what messages call it."""

    address: int
    size: int
    writable: bool = True
    name: str = ""


_RANGE = struct.Struct("<QQQII")  # interop_cpu_range
_names: dict[str, Any] = {}


def pack_ranges(ranges: Sequence[MemoryRange]) -> bytes:
    """The ranges as the C runtime takes them."""
    return b"".join(_RANGE.pack(r.address, r.size, name_address(r.name), int(r.writable), 0) for r in ranges)


def name_address(name: str) -> int:
    """The address of a C string that lives as long as the process; 0 for an empty one."""
    if not name:
        return 0
    found = _names.get(name)
    if found is None:
        found = _names[name] = ffi.new("char[]", name.encode("utf-8", "replace"))
    return int(ffi.cast("uintptr_t", found))


_interrupts: dict[int, BaseException] = {}
"""What a signal's handler raised during a launch, by the launching thread."""


def _note_interrupt(kind: type[BaseException], problem: BaseException, traceback: TracebackType | None) -> None:
    _interrupts[threading.get_ident()] = problem


@ffi.def_extern(error=1, onerror=_note_interrupt)  # type: ignore[untyped-decorator]
def interop_executor_poll(user: object) -> int:
    """The runtime calls this now and then while a kernel runs; what signal handlers raise ends the launch."""
    ctypes.pythonapi.PyErr_CheckSignals()
    return 0


class HostKernel:
    """A translated kernel. :func:`interop.executor.compile_kernel` makes it.

    :ivar symbol: its name in the PTX.
    :ivar param_bytes: size of the parameter buffer.
    :ivar static_shared: bytes of its fixed shared memory.
    :ivar reqntid: the block that it is compiled for, or None.
    :ivar addresses: where in the parameter buffer lies what becomes an address that is checked, as (offset, size); None
        where nothing is checked.
    """

    def __init__(
        self,
        record: Any,
        keep: object,
        addresses: tuple[tuple[int, int], ...] | None = None,
        choose: Callable[[Sequence[int]], Any] | None = None,
    ) -> None:
        self._record = record
        self._choose = choose  # the record for a block, where there are several
        self._chosen: dict[tuple[int, ...], Any] = {}
        self._keep = keep  # owns the code
        self.symbol: str = ffi.string(record.symbol).decode()
        self.param_bytes: int = record.param_bytes
        self.static_shared: int = record.static_shared_bytes
        self.addresses = addresses
        block = tuple(record.block)
        self.reqntid: tuple[int, int, int] | None = (block[0], block[1], block[2]) if any(block) else None

    def __repr__(self) -> str:
        return f"<HostKernel {self.symbol}: {self.param_bytes} bytes of parameters>"

    def launch(
        self,
        params: bytes | bytearray | memoryview,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared: int = 0,
        threads: int = 0,
        ranges: Sequence[MemoryRange] | None = None,
        budget: float = 0,
    ) -> None:
        """Runs the whole grid and returns when it is done. The GIL is released meanwhile; signals are looked after.

        :param params: the parameter buffer.
        :param shared: bytes of dynamic shared memory.
        :param threads: how many threads of the host take part; 0: ``INTEROP_CPU_THREADS``, else as many as there are.
        :param ranges: the global memory that the kernel may touch; None: nothing is known of that, and none of its
            accesses to it is refused.
        :param budget: seconds after which the launch ends with an error; 0: ``INTEROP_CPU_BUDGET_SECONDS``, else never.
        :raises ExecutionError: when the kernel stops with an error: a trap, a failed assertion, a deadlock, an access
            out of bounds, its time is over.
        :raises LaunchError: when grid, block, shared memory or the buffer's size are not possible. Nothing ran.
        """
        self.run(
            params, self._extents(grid, "grid"), self._extents(block, "block"), self._unsigned(shared, "shared"),
            self._unsigned(threads, "threads"), None if ranges is None else pack_ranges(ranges), budget,
        )  # fmt: skip

    def run(
        self,
        params: bytes | bytearray | memoryview,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int = 0,
        threads: int = 0,
        ranges: bytes | None = None,
        budget: float = 0,
    ) -> None:
        """:meth:`launch` for a configuration that was checked: three extents each, 32-bit numbers, packed ranges."""
        error = ffi.new(_ERROR)
        if ranges is None:
            known, count = ffi.NULL, 0
        else:
            known, count = ffi.from_buffer(ranges), len(ranges) // _RANGE.size
        record = self._record
        if self._choose is not None:
            key = (block[0], block[1], block[2])
            record = self._chosen.get(key)
            if record is None:
                record = self._chosen[key] = self._choose(key)
        status = lib.interop_executor_launch(
            record,
            ffi.from_buffer(params),
            len(params),
            grid,
            block,
            shared,
            threads,
            known,
            count,
            budget,
            error,
        )
        if _interrupts:
            interrupt = _interrupts.pop(threading.get_ident(), None)
            if interrupt is not None:
                raise interrupt.with_traceback(None)
        if status:
            message = ffi.string(error.message).decode("utf-8", "replace")
            raise _ERRORS.get(status, DeviceError)(f"{self.symbol}: {message}")

    def _extents(self, value: int | Sequence[int], what: str) -> list[int]:
        extents = list(value) if isinstance(value, Sequence) else [value]
        if not 1 <= len(extents) <= 3:
            raise ArgumentTypeError(f"{self.symbol}: {what} has one to three extents, not {len(extents)}")
        extents = [self._unsigned(v, f"{what}.{axis}") for v, axis in zip(extents, "xyz")]
        return extents + [1] * (3 - len(extents))

    def _unsigned(self, value: object, what: str) -> int:
        try:
            number = value.__index__()  # type: ignore[attr-defined]
        except AttributeError:
            raise ArgumentTypeError(f"{self.symbol}: {what} is an integer, not {value!r}") from None
        if not 0 <= number < 1 << 32:
            raise ArgumentRangeError(f"{self.symbol}: {what} = {number} is not in 0 … 4294967295")
        return int(number)

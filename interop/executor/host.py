"""A kernel that is ready to run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abi import ArgumentRangeError, ArgumentTypeError, DeviceError, ExecutionError, Status

from ._native import ffi, lib

_ERROR = ffi.typeof("interop_cpu_error *")
_ERRORS: dict[int, type[Exception]] = {
    Status.ARGUMENT_TYPE: ArgumentTypeError,
    Status.ARGUMENT_RANGE: ArgumentRangeError,
    Status.EXECUTION: ExecutionError,
}


class HostKernel:
    """A translated kernel. :func:`interop.executor.compile_kernel` makes it.

    :ivar symbol: its name in the PTX.
    :ivar param_bytes: size of the parameter buffer.
    :ivar static_shared: bytes of its fixed shared memory.
    :ivar reqntid: the block that it is compiled for, or None.
    """

    def __init__(self, record: Any, keep: object) -> None:
        self._record = record
        self._keep = keep  # owns the code
        self.symbol: str = ffi.string(record.symbol).decode()
        self.param_bytes: int = record.param_bytes
        self.static_shared: int = record.static_shared_bytes
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
    ) -> None:
        """Runs the whole grid and returns when it is done. The GIL is released meanwhile.

        :param params: the parameter buffer.
        :param shared: bytes of dynamic shared memory.
        :param threads: how many threads of the host take part; 0: ``INTEROP_CPU_THREADS``, else as many as there are.
        :raises ExecutionError: when the kernel stops with an error: a trap, a failed assertion, a deadlock.
        :raises LaunchError: when grid, block, shared memory or the buffer's size are not possible. Nothing ran.
        """
        self.run(
            params, self._extents(grid, "grid"), self._extents(block, "block"), self._unsigned(shared, "shared"),
            self._unsigned(threads, "threads"),
        )  # fmt: skip

    def run(
        self,
        params: bytes | bytearray | memoryview,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int = 0,
        threads: int = 0,
    ) -> None:
        """:meth:`launch` for a configuration that was checked: three extents each, numbers of 32 bits."""
        error = ffi.new(_ERROR)
        status = lib.interop_cpu_launch(
            self._record, ffi.from_buffer(params), len(params), grid, block, shared, threads, error
        )
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

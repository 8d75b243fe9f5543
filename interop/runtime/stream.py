"""Streams: queues of work on a GPU, of ours or of another library.

A launch takes a :class:`Stream`, a handle as an ``int``, PyTorch's and CuPy's stream objects, and everything with
``__cuda_stream__``. Without one it uses the current stream of the library that the arrays come from, or else the legacy
default stream.
"""

from __future__ import annotations

import weakref
from typing import Any

from abi import ArgumentTypeError

from .device import Device, device, open_device, open_devices, parse_key

PER_THREAD = 2
"""The handle of the per-thread default stream; 0 and 1 are the legacy default stream."""


class Stream:
    """A queue of work on `device`, a :class:`Device` or a name. On the CPU device there is nothing to queue.

    >>> Stream("cpu").synchronize()
    """

    def __init__(self, device: Device | str = "cuda") -> None:
        self.device: Device = open_device(parse_key(device)) if isinstance(device, str) else device
        self.handle: int = self.device.create_stream()
        self._finalizer = weakref.finalize(self, self.device.destroy_stream, self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)

    def synchronize(self) -> None:
        """Waits until everything queued on the stream is done."""
        self.device.synchronize_stream(self.handle)

    def __repr__(self) -> str:
        return f"<Stream 0x{self.handle:x} on {self.device.key}>"


def stream_handle(value: Any, target: Device, what: str) -> int:
    """The handle of `value`, a stream of any kind; :class:`ArgumentTypeError` when it is none for `target`."""
    if isinstance(value, Stream):
        if value.device.key != target.key:
            raise ArgumentTypeError(f"{what}: the stream is on {value.device.key}, and the arrays are on {target.key}")
        return value.handle
    handle = foreign_handle(value, what)
    if target.kind == "cpu":
        raise ArgumentTypeError(f"{what}: a CUDA stream is given, and the arrays are on the CPU device: leave it out")
    return 0 if handle == 1 else handle


def foreign_handle(value: Any, what: str) -> int:
    """The handle of another library's stream, or of a bare one."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 2**64:
            raise ArgumentTypeError(f"{what}: {value} is not a stream handle")
        return value
    protocol = getattr(value, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        try:
            version, handle = answer
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"{what}: __cuda_stream__ gives {answer!r}; (0, handle) is wanted") from None
        if version != 0:
            raise ArgumentTypeError(f"{what}: __cuda_stream__ has version {version}; version 0 is supported")
        return int(handle)
    for attribute in ("cuda_stream", "ptr"):  # PyTorch's and CuPy's streams before they had the protocol
        handle = getattr(value, attribute, None)
        if isinstance(handle, int) and not isinstance(handle, bool):
            return handle
    raise ArgumentTypeError(
        f"{what}: a {type(value).__name__} is not a stream; pass an interop.Stream, a PyTorch or CuPy stream, an "
        "object with __cuda_stream__, or a handle as an int"
    )


def synchronize(device_name: str | Device | None = None) -> None:
    """Waits for one device, or without an argument for every device that is in use.

    >>> synchronize("cpu")
    """
    if device_name is None:
        for found in open_devices():
            found.synchronize()
    elif isinstance(device_name, str):
        device(device_name).synchronize()
    else:
        device_name.synchronize()

"""What a device is, and how one is found: :func:`device`, :func:`devices`.

Both kinds of device stand behind :class:`Device` and :class:`LoadedKernel`; the launch path knows only these.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import abi
from abi import DeviceError

Dim3 = tuple[int, int, int]

ENVIRONMENT_VARIABLE = "INTEROP_DEVICE"
"""``cpu`` or ``cuda``: the only kind of device that this process may use. It forbids, and never redirects."""


class DeviceKey(NamedTuple):
    """Names a device without opening it: ``DeviceKey("cuda", 1)`` prints as ``cuda:1``."""

    kind: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU = DeviceKey("cpu", 0)


@dataclass(frozen=True)
class Limits:
    """What a launch may ask of a device. ``shared`` is the most that a block can have, static and dynamic together."""

    threads: int = 1024
    block: Dim3 = (1024, 1024, 64)
    grid: Dim3 = (2**31 - 1, 65535, 65535)
    shared: int = 227 * 1024


class LoadedKernel(Protocol):
    """A kernel that is ready to run on one device."""

    @property
    def static_shared(self) -> int:
        """Bytes of shared memory that the image itself takes."""

    @property
    def max_threads(self) -> int:
        """The most threads of a block with which this kernel runs on this device."""

    def launch(
        self, grid: Dim3, block: Dim3, shared: int, stream: int, params: bytes, memory: bytes | None = None
    ) -> None:
        """Runs or queues the kernel. Everything has been checked; `params` is the parameter buffer.

        `memory` is what the kernel may touch, for the CPU device (:mod:`.known_memory`); None: nothing is known.
        """


class Device(Protocol):
    """A place where kernels run and memory lies."""

    @property
    def kind(self) -> str:
        """``cpu`` or ``cuda``."""

    @property
    def index(self) -> int: ...

    @property
    def key(self) -> DeviceKey: ...

    @property
    def name(self) -> str:
        """What the hardware calls itself."""

    @property
    def limits(self) -> Limits: ...

    def load(self, program: abi.Program) -> LoadedKernel:
        """Makes a kernel ready; the same program is loaded once, whichever thread comes first."""

    def synchronize(self) -> None:
        """Waits until everything queued on the device is done."""

    def create_stream(self) -> int: ...

    def destroy_stream(self, handle: int) -> None: ...

    def synchronize_stream(self, handle: int) -> None: ...

    def order_after(self, stream: int, earlier: int) -> None:
        """Makes what is queued on `stream` from now on wait for what is queued on `earlier` now. Does not block."""

    def allocate(self, size: int) -> int:
        """The address of `size` bytes of new memory."""

    def free(self, address: int) -> None: ...

    def copy(self, target: int, source: int, size: int, direction: str, stream: int) -> None:
        """Copies bytes ``in`` (host to device), ``out`` (device to host) or ``within`` the device.

        Returns when the host memory may be used again.
        """


_lock = threading.RLock()
_open: dict[DeviceKey, Device] = {}


def device(name: str, index: int | None = None) -> Device:
    """The device called `name`: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; the same object each time.

    :raises DeviceError: there is no such device; the message has the driver's own error name and what to do.

    >>> device("cpu").kind
    'cpu'
    """
    key = parse_key(name, index)
    return open_device(key)


def parse_key(name: str, index: int | None = None) -> DeviceKey:
    """The key that `name` and `index` mean."""
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind not in ("cpu", "cuda") or (number and (not number.isdecimal() or index is not None)):
        raise DeviceError(f"there is no device {name!r}; devices are called 'cpu', 'cuda' and 'cuda:1'")
    if number:
        index = int(number)
    if index is None:
        index = 0
    if isinstance(index, bool) or not isinstance(index, int) or index < 0 or (kind == "cpu" and index != 0):
        raise DeviceError(f"there is no device {kind}:{index}; the CPU device is 'cpu', GPUs count from 'cuda:0'")
    return DeviceKey(kind, index)


def open_device(key: DeviceKey) -> Device:
    """The device of `key`, opened on first use."""
    found = _open.get(key)
    if found is None:
        forbid(key)
        with _lock:
            found = _open.get(key)
            if found is None:
                found = _open[key] = _make(key)
    else:
        forbid(key)
    return found


def open_devices() -> list[Device]:
    """The devices that are in use."""
    return list(_open.values())


def forbid(key: DeviceKey) -> None:
    """Raises :class:`DeviceError` when the environment forbids devices of this kind."""
    allowed = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if allowed in ("", key.kind):
        return
    if allowed not in ("cpu", "cuda"):
        raise DeviceError(f"the environment variable {ENVIRONMENT_VARIABLE} is '{allowed}'; it can be cpu or cuda")
    raise DeviceError(
        f"{key} may not be used: the environment variable {ENVIRONMENT_VARIABLE} allows only {allowed}; "
        f"unset it, or pass arrays that live on {'the host' if allowed == 'cpu' else 'a GPU'}"
    )


def _make(key: DeviceKey) -> Device:
    if key.kind == "cpu":
        from .cpu_device import CpuDevice

        return CpuDevice()
    from .cuda_device import CudaDevice

    return CudaDevice(key.index)


def devices() -> list[Device]:
    """Every device that can be used: the CPU device first, then GPUs. A machine without a driver has no GPUs; a GPU
    that cannot be opened is left out, and ``device("cuda", index)`` says why.

    >>> [d.kind for d in devices()][0]
    'cpu'
    """
    keys = [CPU]
    allowed = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if allowed != "cpu":
        from .cuda_driver import device_count

        keys += [DeviceKey("cuda", index) for index in range(device_count())]
    if allowed == "cuda":
        keys.remove(CPU)
    found = []
    for key in keys:
        try:
            found.append(open_device(key))
        except DeviceError:
            continue
    return found

"""The CPU device: runs PTX as host code, and keeps its memory in the process's own."""

from __future__ import annotations

import ctypes
import mmap
import platform
import threading
from typing import TYPE_CHECKING

import abi
from abi import ExecutionError, ImageKind, Incompatible, LaunchError

from .device import CPU, Dim3, Limits

if TYPE_CHECKING:
    from ..executor import HostKernel
    from .plan import KernelPlan


class CpuDevice:
    """One per process. Launches return when the kernel is done, so streams have nothing to order."""

    kind = "cpu"
    index = 0
    key = CPU
    limits = Limits()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], CpuKernel] = {}
        self._memory: dict[int, mmap.mmap] = {}
        self.time_budget: float = 0
        """Seconds after which a launch ends with an error; 0: ``INTEROP_CPU_BUDGET_SECONDS``, else there is none.

        >>> from interop.runtime import device
        >>> device("cpu").time_budget = 60.0
        >>> device("cpu").time_budget = 0
        """

    @property
    def name(self) -> str:
        """The processor's own name, where the system tells it."""
        try:
            with open("/proc/cpuinfo") as lines:
                return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        except (OSError, StopIteration):
            return platform.processor() or platform.machine()

    def __repr__(self) -> str:
        return "<device cpu>"

    # -- kernels -------------------------------------------------------------------------------------------------

    def load(self, program: abi.Program) -> CpuKernel:
        """The program's PTX as host code. PTX of the lowest target is taken, since it asks the least."""
        kernel = program.kernel
        candidates = [i for i in program.images if i.kind is ImageKind.PTX]
        candidates = [i for i in candidates if not i.symbols or kernel.symbol in i.symbols]
        if not candidates:
            kinds = ", ".join(sorted({f"{i.kind.value} for {i.target}" for i in program.images})) or "no image at all"
            raise Incompatible(
                f"{kernel.name}: the CPU device runs PTX, and this kernel has {kinds}; "
                "keep the PTX when you build it (nvcc -ptx), or pass arrays that live on a GPU"
            )
        image = min(candidates, key=lambda i: i.min_cc)
        key = (image.sha256, kernel.symbol)
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                from ..executor import compile_kernel

                try:
                    host = compile_kernel(image.text.rstrip("\0"), kernel.symbol)
                except abi.Error as error:
                    if error.args and error.args[0] == str(error):
                        error.args = (f"{kernel.name}: {error}", *error.args[1:])
                    raise
                found = self._loaded[key] = CpuKernel(kernel.name, host, self)
        return found

    # -- streams: everything is done when a call returns ---------------------------------------------------------

    def synchronize(self) -> None:
        """Returns at once: launches on this device have finished when they return."""

    def create_stream(self) -> int:
        return 0

    def destroy_stream(self, handle: int) -> None:
        pass

    def synchronize_stream(self, handle: int) -> None:
        pass

    def order_after(self, stream: int, earlier: int) -> None:
        pass

    # -- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Pages of their own, so that every alignment that a kernel may ask for holds."""
        try:
            block = mmap.mmap(-1, size)
        except (OSError, ValueError, OverflowError) as error:
            raise LaunchError(f"the CPU device cannot allocate {size} bytes: {error}") from None
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self._memory[address] = block
        return address

    def free(self, address: int) -> None:
        self._memory.pop(address, None)

    def allocation(self, address: int) -> tuple[int, int] | None:
        """The first byte and the size of the allocation that `address` lies in; None where it is none of ours."""
        for start, block in list(self._memory.items()):
            if start <= address < start + len(block):
                return start, len(block)
        return None

    def copy(self, target: int, source: int, size: int, direction: str, stream: int) -> None:
        ctypes.memmove(target, source, size)


class CpuKernel:
    """A kernel translated to host code."""

    max_threads = 1024

    def __init__(self, name: str, host: HostKernel, device: CpuDevice) -> None:
        self._name = name
        self._host = host
        self.device = device
        self.addresses = host.addresses
        self.suspects: dict[int, tuple[KernelPlan, tuple[int, ...]]] = {}  # by id() of the plan; see known_memory
        self.static_shared: int = host.static_shared

    def launch(
        self, grid: Dim3, block: Dim3, shared: int, stream: int, params: bytes, memory: bytes | None = None
    ) -> None:
        try:
            self._host.run(params, grid, block, shared, 0, memory, self.device.time_budget)
        except ExecutionError as error:
            raise ExecutionError(f"{self._name}: {_unnamed(str(error), self._name, self._host.symbol)}") from None
        except LaunchError as error:
            raise type(error)(f"{self._name}: {_unnamed(str(error), self._name, self._host.symbol)}") from None


def _unnamed(message: str, *names: str) -> str:
    """`message` without a kernel's name before it: callers put the name that people know there."""
    for name in names:
        message = message.removeprefix(f"{name}: ")
    return message

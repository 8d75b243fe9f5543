"""The CUDA device: one GPU's primary context, shared with PyTorch, CuPy and the runtime API.

Every call makes the context current and restores what was current before. A launch never waits.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import abi
from abi import DeviceError

from . import cuda_image
from .cuda_driver import call, driver
from .device import DeviceKey, Dim3, Limits

_DEFAULT_SHARED = 48 * 1024
"""What a block may have without asking: static and dynamic together."""


class CudaDevice:
    """One GPU."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.index = index
        self.key = DeviceKey("cuda", index)
        count = int(call("cuDeviceGetCount"))
        if index >= count:
            has = f"the GPUs are cuda:0 to cuda:{count - 1}" if count else "the driver finds no GPU"
            raise DeviceError(f"there is no device cuda:{index} (CUDA_ERROR_INVALID_DEVICE): {has}")
        self._device = call("cuDeviceGet", index)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._context_handle = int(self._context)
        self._lock = threading.RLock()
        self._modules: dict[str, Any] = {}
        self._loaded: dict[tuple[str, str], CudaKernel] = {}
        self.name = call("cuDeviceGetName", 256, self._device).split(b"\0")[0].decode(errors="replace")
        self.compute_capability = (
            self._attribute("COMPUTE_CAPABILITY_MAJOR"),
            self._attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        self.limits = self._limits()

    def __repr__(self) -> str:
        return f"<device cuda:{self.index} {self.name}>"

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call("cuDeviceGetAttribute", attribute, self._device))

    def _limits(self) -> Limits:
        def dim3(prefix: str) -> Dim3:
            x, y, z = (self._attribute(f"{prefix}_{axis}") for axis in "XYZ")
            return x, y, z

        return Limits(
            threads=self._attribute("MAX_THREADS_PER_BLOCK"),
            block=dim3("MAX_BLOCK_DIM"),
            grid=dim3("MAX_GRID_DIM"),
            shared=self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        )

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes this GPU's context current in this thread, and restores what was current before."""
        if int(call("cuCtxGetCurrent")) == self._context_handle:
            yield
            return
        call("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent")

    # -- kernels -------------------------------------------------------------------------------------------------

    def load(self, program: abi.Program) -> CudaKernel:
        """The program's kernel from the image that fits this GPU best, loaded once."""
        kernel = program.kernel
        images = [i for i in program.images if not i.symbols or kernel.symbol in i.symbols]
        with self._lock:
            image = cuda_image.choose(kernel.name, images, self.compute_capability)
            key = (image.sha256, kernel.symbol)
            if key not in self._loaded:
                with self.current(), _relaxed_capture():
                    if key[0] not in self._modules:
                        self._modules[key[0]] = cuda_image.load(kernel.name, image, self.compute_capability)
                    self._loaded[key] = CudaKernel(self, kernel.name, self._modules[key[0]], kernel.symbol)
            return self._loaded[key]

    # -- streams -------------------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Waits until everything queued on this GPU's primary context is done."""
        with self.current():
            call("cuCtxSynchronize")

    def create_stream(self) -> int:
        """A stream that does not wait for the legacy default stream."""
        with self.current():
            return int(call("cuStreamCreate", int(driver().CUstream_flags.CU_STREAM_NON_BLOCKING)))

    def destroy_stream(self, handle: int) -> None:
        self._release("cuStreamDestroy", handle)

    def synchronize_stream(self, handle: int) -> None:
        with self.current():
            call("cuStreamSynchronize", handle)

    def order_after(self, stream: int, earlier: int) -> None:
        if stream == earlier:
            return
        with self.current():
            event = call("cuEventCreate", int(driver().CUevent_flags.CU_EVENT_DISABLE_TIMING))
            try:
                call("cuEventRecord", event, earlier)
                call("cuStreamWaitEvent", stream, event, 0)
            finally:
                # The driver keeps the event until the wait is over.
                call("cuEventDestroy", event)

    # -- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        with self.current():
            return int(call("cuMemAlloc", size))

    def free(self, address: int) -> None:
        """Gives memory back; the driver waits for kernels that may still use it."""
        self._release("cuMemFree", address)

    def copy(self, target: int, source: int, size: int, direction: str, stream: int) -> None:
        with self.current():
            if direction == "in":
                call("cuMemcpyHtoDAsync", target, source, size, stream)
            elif direction == "out":
                call("cuMemcpyDtoHAsync", target, source, size, stream)
            else:
                call("cuMemcpyDtoDAsync", target, source, size, stream)
                return
            # The host memory is the caller's: it may be changed, or read, as soon as this returns.
            call("cuStreamSynchronize", stream)

    def _release(self, function: str, handle: int) -> None:
        """Gives something back. Finalizers call this: in a forked child, and after a kernel's error has taken the
        context with everything in it, there is nothing to give back and nobody to tell."""
        with suppress(DeviceError), self.current():
            call(function, handle)


@contextmanager
def _relaxed_capture() -> Iterator[None]:
    """Lets a module be loaded while this thread captures a graph: loading queues nothing."""
    mode = call("cuThreadExchangeStreamCaptureMode", driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", mode)


_EXTRA = struct.Struct("=QQQQQQ")
"""CU_LAUNCH_PARAM_BUFFER_POINTER, address, CU_LAUNCH_PARAM_BUFFER_SIZE, address of the size, END, and the size."""
_PARAMS_AT = 64


class CudaKernel:
    """A function of a loaded module."""

    def __init__(self, device: CudaDevice, name: str, module: Any, symbol: str) -> None:
        self._device = device
        self._name = name
        self._function = call("cuModuleGetFunction", module, symbol.encode())
        self.static_shared = self._attribute("SHARED_SIZE_BYTES")
        self.max_threads = self._attribute("MAX_THREADS_PER_BLOCK")
        self._shared_lock = threading.Lock()
        self._shared_allowed = max(0, _DEFAULT_SHARED - self.static_shared)

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call("cuFuncGetAttribute", attribute, self._function))

    def launch(
        self, grid: Dim3, block: Dim3, shared: int, stream: int, params: bytes, memory: bytes | None = None
    ) -> None:
        size = len(params)
        # One buffer for each call, so that threads do not share any: the driver copies it before it returns.
        buffer = ctypes.create_string_buffer(_PARAMS_AT + size)
        address = ctypes.addressof(buffer)
        _EXTRA.pack_into(buffer, 0, 1, address + _PARAMS_AT, 2, address + 40, 0, size)
        ctypes.memmove(address + _PARAMS_AT, params, size)
        with self._device.current():
            if shared > self._shared_allowed:
                self._allow(shared)
            call("cuLaunchKernel", self._function, *grid, *block, shared, stream, 0, address)

    def direct(self, size: int) -> dict[str, Any]:
        """What the hot path launches with: driver functions, handles, and buffers for parameters of `size` bytes.

        A buffer holds the driver's description of it and, from ``AT`` on, the parameters. It is taken from ``FREE``
        for one launch and given back: the driver copies it before it returns.
        """
        bindings, context = driver(), self._device._context
        launch, push, pop = bindings.cuLaunchKernel, bindings.cuCtxPushCurrent, bindings.cuCtxPopCurrent

        def new_buffer() -> tuple[Any, int]:
            buffer = ctypes.create_string_buffer(_PARAMS_AT + size)
            address = ctypes.addressof(buffer)
            _EXTRA.pack_into(buffer, 0, 1, address + _PARAMS_AT, 2, address + 40, 0, size)
            return buffer, address

        def launch_elsewhere(*arguments: Any) -> Any:
            """The launch in a thread in which another context, or none, is current."""
            pushed = push(context)
            if int(pushed[0]) != 0:
                return pushed
            try:
                return launch(*arguments)
            finally:
                pop()

        return {
            "FREE": [], "NEW_BUFFER": new_buffer, "AT": _PARAMS_AT, "LAUNCH": launch, "FUNCTION": self._function,
            "LAUNCH_ELSEWHERE": launch_elsewhere, "CURRENT": bindings.cuCtxGetCurrent,
            "CONTEXT": self._device._context_handle, "KERNEL": self,
        }  # fmt: skip

    @property
    def shared_allowed(self) -> int:
        """Dynamic shared memory that needs no asking any more."""
        return self._shared_allowed

    def _allow(self, shared: int) -> None:
        """Above 48 KiB a kernel has to ask. The allowance only grows: threads cannot take it from each other."""
        attribute = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        with self._shared_lock:
            if shared > self._shared_allowed:
                call("cuFuncSetAttribute", self._function, attribute, shared)
                self._shared_allowed = shared

"""NVIDIA's driver through ``cuda.bindings``: loaded on first use, each failure an exception with the driver's name.

``cuda.bindings`` releases the GIL round each driver call since 12.9, so a launch that waits for room in a full queue
does not stop other Python threads.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NoReturn

from abi import DeviceError

_lock = threading.Lock()
_driver: Any = None
_owner = 0
_failure: str | None = None

_ADVICE = {
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is full: free arrays, or stop the other programs that use it",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "another process has the GPU for itself: look at nvidia-smi",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the driver is still starting, or a needed service (nv-fabricmanager) is not",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda are of different versions: restart the machine",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel read or wrote outside its arrays; the context is lost: restart the process",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel used an address that is not aligned; the context is lost: restart the "
    "process",
    "CUDA_ERROR_ASSERT": "an assertion in a kernel failed, and its text is on the standard output; the context is "
    "lost: restart the process",
    "CUDA_ERROR_LAUNCH_FAILED": "an earlier kernel stopped with an error; the context is lost: restart the process",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel stopped itself (trap), as a failed bounds check does; the context is "
    "lost: restart the process",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "the stream is being captured: load kernels beforehand with "
    "kernel.load(device)",
}


class DriverError(DeviceError):
    """A driver call failed. ``code`` is the driver's error name."""

    def __init__(self, call: str, code: str) -> None:
        advice = _ADVICE.get(code, "")
        super().__init__(f"{call} failed: {code}" + (f" ({advice})" if advice else ""))
        self.code = code


def driver() -> Any:
    """The module ``cuda.bindings.driver`` with the driver initialised; :class:`DeviceError` when there is none."""
    if _driver is None:
        _initialise()
    elif os.getpid() != _owner:
        _forked()
    return _driver


def _forked() -> NoReturn:
    raise DeviceError(
        "CUDA was initialised before this process was forked, and the driver does not survive a fork: "
        "use multiprocessing with the 'spawn' start method, or touch the GPU only in the children"
    )


def _initialise() -> None:
    global _driver, _owner, _failure
    with _lock:
        if _driver is not None:
            return
        if _failure is not None:
            raise DeviceError(_failure)
        try:
            from cuda.bindings import driver as bindings
        except ImportError as error:
            _failure = f"no CUDA device can be used: cuda.bindings is not installed ({error}): pip install cuda-python"
            raise DeviceError(_failure) from None
        try:
            result = bindings.cuInit(0)[0]
        except Exception as error:
            # What the loader raises differs between versions of cuda-python: RuntimeError, or its own class.
            _failure = (
                f"no CUDA device can be used: the NVIDIA driver was not found ({_first_line(error)}): install it, or "
                "pass NumPy arrays, which run on the CPU device"
            )
            raise DeviceError(_failure) from None
        if int(result) != 0:
            raise DriverError("cuInit", error_name(result))
        _driver, _owner = bindings, os.getpid()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def error_name(result: Any) -> str:
    """The driver's name of an error, such as ``CUDA_ERROR_INVALID_VALUE``."""
    name = getattr(result, "name", None)
    return name if isinstance(name, str) else f"CUDA error {int(result)}"


def call(function: str, *arguments: Any) -> Any:
    """Calls a driver function: what it returns beside its status, or :class:`DriverError`."""
    result = getattr(driver(), function)(*arguments)
    if int(result[0]) != 0:
        raise DriverError(function, error_name(result[0]))
    rest = result[1:]
    return rest[0] if len(rest) == 1 else rest if rest else None


def device_count() -> int:
    """How many GPUs there are; 0 where there is no driver or it finds none."""
    try:
        return int(call("cuDeviceGetCount"))
    except DeviceError:
        return 0


def device_of_address(address: int) -> int:
    """The GPU on which memory lies; :class:`DeviceError` when the driver does not know the address."""
    attribute = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(call("cuPointerGetAttribute", attribute, address))


def driver_version() -> tuple[int, int]:
    """The CUDA version of the driver, as (13, 0)."""
    number = int(call("cuDriverGetVersion"))
    return number // 1000, number % 1000 // 10

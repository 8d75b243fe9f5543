"""A driver whose GPU is the CPU device: as much of cuda.bindings.driver as the recorder calls, to test the recorder.

Kernels of opcodes in ``FAKE_REFUSES`` do not assemble, the launch of one in ``FAKE_FAILS`` breaks the context, one in
``FAKE_HANGS`` does not end.
"""

from __future__ import annotations

import ctypes
import enum
import os
import re
import time
from typing import Any

from interop.executor import compile_kernel


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class CUjit_option(enum.IntEnum):
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUdevice_attribute(enum.IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


_OK = CUresult.CUDA_SUCCESS
_memory: dict[int, Any] = {}


def _named(variable: str, text: str) -> bool:
    word = os.environ.get(variable)
    return word is not None and re.search(rf"^{re.escape(word)}", text, re.MULTILINE) is not None


def cuInit(flags: int) -> Any:
    return (_OK,)


def cuDeviceGet(index: int) -> Any:
    return _OK, index


def cuDeviceGetName(length: int, device: int) -> Any:
    return _OK, b"a CPU\0\0"


def cuDriverGetVersion() -> Any:
    return _OK, 13000


def cuDeviceGetAttribute(attribute: CUdevice_attribute, device: int) -> Any:
    return _OK, 9 if attribute.name.endswith("MAJOR") else 0


def cuDevicePrimaryCtxRetain(device: int) -> Any:
    return _OK, 1


def cuCtxSetCurrent(context: int) -> Any:
    return (_OK,)


def cuModuleLoadDataEx(image: bytes, count: int, options: list[CUjit_option], values: list[Any]) -> Any:
    text = image.rstrip(b"\0").decode()
    if _named("FAKE_REFUSES", text):
        log = b"not this one\n"
        values[0][: len(log)] = log
        return CUresult.CUDA_ERROR_INVALID_PTX, 0
    return _OK, text


def cuModuleGetFunction(text: str, symbol: bytes) -> Any:
    start = text.index(f".visible .entry {symbol.decode()}(")
    body = text[start:].split("\n.visible", 1)[0]
    return _OK, (text[: text.index(".visible")] + body, symbol.decode())


def cuMemAlloc(size: int) -> Any:
    raw = ctypes.create_string_buffer(size + 256)
    address = (ctypes.addressof(raw) + 255) // 256 * 256
    _memory[address] = raw
    return _OK, address


def cuMemFree(address: int) -> Any:
    del _memory[address]
    return (_OK,)


def cuMemcpyHtoD(to: int, source: int, size: int) -> Any:
    ctypes.memmove(to, source, size)
    return (_OK,)


def cuMemcpyDtoH(to: int, source: int, size: int) -> Any:
    ctypes.memmove(to, source, size)
    return (_OK,)


def cuLaunchKernel(function: Any, *arguments: int) -> Any:
    text, symbol = function
    if _named("FAKE_FAILS", text):
        return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
    if _named("FAKE_HANGS", text):
        time.sleep(600)
    grid, block, shared, params = arguments[:3], arguments[3:6], arguments[6], arguments[8]
    slots = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
    buffer = b"".join(ctypes.string_at(slots[k], size) for k, size in enumerate((8, 8, 8, 4)))
    compile_kernel(text, symbol).launch(buffer, grid, block, shared)
    return (_OK,)


def cuCtxSynchronize() -> Any:
    return (_OK,)

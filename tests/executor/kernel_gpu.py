"""Runs generated programs on a CUDA device, through the driver alone, and compares them with the CPU device.

Needs NumPy and ``cuda.bindings``. Where the CPU device's native module is not built, the interpreter takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from kernel_generator import generate
from kernel_interpreter import difference, interpret
from kernel_ir import Program, ptx_of


def checker() -> Callable[[int], dict[str, Any]]:
    """What tests one seed: its outcome as a dictionary."""
    device = Device()
    reference, name = _reference()

    def check(seed: int) -> dict[str, Any]:
        program = generate(seed)
        outcome: dict[str, Any] = {"seed": seed, "features": dict(program.features), "refused": {}, "wrong": {}}
        if program.raw_nan:
            outcome["refused"]["gpu"] = "the payloads of NaN results are used"
            return outcome
        try:
            found = difference(program, device.execute(program), reference(program), loose=True)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            outcome["stop"] = True  # the context is of no use any more
        if found:
            outcome["wrong"][f"gpu, not {name}"] = found
        return outcome

    return check


def _reference() -> tuple[Callable[[Program], list[bytes]], str]:
    try:
        from kernel_fuzz import execute
    except ImportError:
        return interpret, "interpreter"
    return lambda program: execute(program, 1), "one lane"


class Device:
    """The first CUDA device. After an error in a kernel nothing more runs: the process has to be replaced."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self._do(driver.cuInit(0))
        device = self._do(driver.cuDeviceGet(0))
        self._do(driver.cuCtxSetCurrent(self._do(driver.cuDevicePrimaryCtxRetain(device))))

    def _do(self, returned: tuple[Any, ...]) -> Any:
        code, *values = returned
        if int(code) != 0:
            _, name = self.driver.cuGetErrorName(code)
            raise RuntimeError(name.decode() if name else f"CUDA error {int(code)}")
        return values[0] if values else None

    def execute(self, program: Program) -> list[bytes]:
        """What the buffers hold after a launch."""
        cu, do = self.driver, self._do
        module = do(cu.cuModuleLoadData(ptx_of(program).encode() + b"\0"))
        function = do(cu.cuModuleGetFunction(module, program.kernel.name.encode()))
        addresses = []
        try:
            for buffer in program.buffers:
                address = do(cu.cuMemAlloc(len(buffer.data)))
                addresses.append(address)
                do(cu.cuMemcpyHtoD(address, np.frombuffer(buffer.data, np.uint8).ctypes.data, len(buffer.data)))
            values = [np.array([int(a)], np.uint64) for a in addresses]
            values += [np.array([value], f"u{int(type_[1:]) // 8}") for _, type_, value in program.scalars]
            pointers = np.array([v.ctypes.data for v in values], np.uint64)
            do(cu.cuLaunchKernel(function, *program.grid, *program.block, program.shared, 0, pointers.ctypes.data, 0))
            do(cu.cuCtxSynchronize())
            results = []
            for address, buffer in zip(addresses, program.buffers):
                out = np.empty(len(buffer.data), np.uint8)
                do(cu.cuMemcpyDtoH(out.ctypes.data, address, len(buffer.data)))
                results.append(out.tobytes())
            return results
        finally:
            for address in addresses:
                cu.cuMemFree(address)
            cu.cuModuleUnload(module)

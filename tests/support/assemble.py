"""Assembles PTX to a cubin with nvJitLink, which needs no GPU and no driver."""

from __future__ import annotations

import functools
import re

import pytest

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""The targets that all PTX of the project is assembled for."""


class AssemblyError(AssertionError):
    """The assembler refuses the PTX; the message has its log."""


def assemble(ptx: str | bytes, arch: str = "sm_80") -> bytes:
    """The cubin that `ptx` gives for `arch`; :class:`AssemblyError` with the log when there is none.

    Skips the test where nvJitLink is not installed.
    """
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink", reason="needs cuda-python")
    data = ptx.encode() if isinstance(ptx, str) else ptx
    try:
        handle = nvjitlink.create(1, [f"-arch={arch}"])
    except RuntimeError as error:
        pytest.skip(f"needs nvJitLink (pip install nvidia-nvjitlink): {error}")
    try:
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "kernel.ptx")
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            raise AssemblyError(f"{arch}: {error}\n{_log(nvjitlink, handle)}\n{_head(data)}") from None
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        nvjitlink.destroy(handle)


@functools.cache
def assemble_everywhere(ptx: str) -> str:
    """Assembles `ptx` for each of :data:`ARCHITECTURES` from its own target on; returns it."""
    target = re.search(r"^\.target\s+sm_(\d+)", ptx, re.MULTILINE)
    lowest = int(target[1]) if target else 0
    for arch in ARCHITECTURES:
        if int(arch.removeprefix("sm_")) >= lowest:
            assemble(ptx, arch)
    return ptx


def _log(nvjitlink: object, handle: int) -> str:
    size = nvjitlink.get_error_log_size(handle)  # type: ignore[attr-defined]
    log = bytearray(size)
    nvjitlink.get_error_log(handle, log)  # type: ignore[attr-defined]
    return log.rstrip(b"\0").decode(errors="replace")


def _head(data: bytes, lines: int = 60) -> str:
    """The first lines of the PTX: a failing test should not print a megabyte."""
    return "\n".join(data.decode(errors="replace").splitlines()[:lines])

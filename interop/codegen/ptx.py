"""LLVM IR to PTX through llvmlite's NVPTX back end."""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any

import abi

from ..ir.ops import Function
from . import libdevice
from .emitter import emit_module

_TARGET = re.compile(r"sm_(\d{2,3})([af]?)$")
# One lock for LLVM: its contexts are not made for concurrent use, and compilations are short.
_LOCK = threading.Lock()


@cache
def _machine(target: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=target, opt=3)


def check_target(target: str) -> tuple[int, int]:
    """The compute capability of ``sm_80`` and later; :class:`abi.UnsupportedError` for anything else."""
    match = _TARGET.match(target)
    if not match or int(match[1]) < 80:
        raise abi.UnsupportedError(f"the target '{target}' is not supported: targets are sm_80, sm_90, sm_100 …")
    return int(match[1]) // 10, int(match[1]) % 10


def generate(function: Function, target: str) -> tuple[str, str]:
    """The LLVM IR (before optimisation) and the PTX of a kernel."""
    check_target(target)
    with _LOCK:
        machine = _machine(target)
        text, library = emit_module(function, str(machine.target_data))
        if library:
            text += libdevice.reflect_definition(target)
        return text, _compile(text, machine, library)


def _compile(text: str, machine: Any, library: frozenset[str]) -> str:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    if library:
        libdevice.link(module, library)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    ptx: str = machine.emit_assembly(module)
    unknown = re.search(r"\.extern \.func[^;]*?(llvm\.[\w.]+)", ptx)
    if unknown:
        raise abi.Error(f"LLVM's NVPTX back end does not know the intrinsic {unknown[1]}: a fault of the compiler")
    return _renumber(ptx)


def _renumber(ptx: str) -> str:
    """LLVM numbers calls through the life of the process, in comments; a kernel's text must not depend on that."""
    numbers: dict[str, str] = {}
    return re.sub(r"(?<=// callseq )\d+", lambda m: numbers.setdefault(m[0], str(len(numbers))), ptx)

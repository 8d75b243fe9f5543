"""CUDA's mathematics library as LLVM bitcode: finding it, and linking what a kernel calls."""

from __future__ import annotations

import os
import site
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UnsupportedError

_NAME = "libdevice.10.bc"

# libdevice asks this function how to compute. Ours answers as nvcc does by default: denormals kept (no __CUDA_FTZ),
# square roots and divisions rounded correctly. LLVM's own pass would answer 0 to all but two of the questions, so the
# function gets another name, which that pass does not know. Questions differ at their eighth letter: __CUDA_FTZ,
# __CUDA_PREC_SQRT, __CUDA_PREC_DIV, __CUDA_ARCH.
REFLECT = "__interop_reflect"
_REFLECT_IR = """
define i32 @__interop_reflect(ptr %question) alwaysinline {{
  %at = getelementptr i8, ptr %question, i64 7
  %letter = load i8, ptr %at
  %precise = icmp eq i8 %letter, 80
  %architecture = icmp eq i8 %letter, 65
  %number = select i1 %architecture, i32 {arch}, i32 0
  %answer = select i1 %precise, i32 1, i32 %number
  ret i32 %answer
}}
"""


def reflect_definition(target: str) -> str:
    """The answers for a target such as ``sm_80``, as LLVM IR."""
    digits = "".join(c for c in target.removeprefix("sm_") if c.isdigit())
    return _REFLECT_IR.format(arch=int(digits) * 10)


def _candidates() -> list[Path]:
    roots = [Path(p) for p in (*site.getsitepackages(), site.getusersitepackages(), *sys.path) if p]
    wheels = [root / "nvidia" / part / "nvvm" / "libdevice" for root in roots for part in ("cu13", "cu12", "")]
    wheels += [root / "nvidia" / "cuda_nvcc" / "nvvm" / "libdevice" for root in roots]
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    toolkits = [Path(home) / "nvvm" / "libdevice" for home in (*homes, "/usr/local/cuda", "/opt/cuda") if home]
    return [folder / _NAME for folder in (*wheels, *toolkits)]


@cache
def find() -> Path:
    """Where libdevice is: in NVIDIA's package ``nvidia-nvvm``, or in a CUDA toolkit."""
    for path in _candidates():
        if path.is_file():
            return path
    raise UnsupportedError(
        "this kernel calls mathematics functions from NVIDIA's libdevice, and libdevice.10.bc is not on this machine",
        help="pip install nvidia-nvvm (part of kernel-interop[cuda]), or set CUDA_HOME to a CUDA toolkit",
    )


@cache
def _subset(names: frozenset[str]) -> bytes:
    """Bitcode of the library functions `names` and what they call.

    The whole library has hundreds of functions and takes 30 ms to read and link; kernels use the same few again and
    again.
    """
    import llvmlite.binding as llvm

    library = llvm.parse_bitcode(find().read_bytes())
    missing = names - {f.name for f in library.functions}
    if missing:
        raise UnsupportedError(
            f"{find()} has no function {', '.join(sorted(missing))}", help="install a newer nvidia-nvvm"
        )
    for function in library.functions:
        if function.name == "__nvvm_reflect":
            function.name = REFLECT
        elif not function.is_declaration and function.name not in names:
            function.linkage = llvm.Linkage.internal
    sweep = llvm.create_new_module_pass_manager()
    sweep.add_global_dead_code_eliminate_pass()
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_80")
    sweep.run(library, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    bitcode: bytes = library.as_bitcode()
    return bitcode


def link(module: Any, names: frozenset[str]) -> None:
    """Links the library functions `names` into an llvmlite module, for its own use."""
    import llvmlite.binding as llvm

    module.link_in(llvm.parse_bitcode(_subset(names)))
    for function in module.functions:
        if (function.name in names or function.name == REFLECT) and not function.is_declaration:
            function.linkage = llvm.Linkage.internal

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
def _bitcode() -> bytes:
    return find().read_bytes()


def link(module: Any) -> None:
    """Links libdevice into an llvmlite module; functions that stay unused are removed by the pipeline."""
    import llvmlite.binding as llvm

    library = llvm.parse_bitcode(_bitcode())
    for function in library.functions:
        if function.name == "__nvvm_reflect":
            function.name = REFLECT
    module.link_in(library)
    for function in module.functions:
        if (function.name.startswith("__nv_") or function.name == REFLECT) and not function.is_declaration:
            function.linkage = llvm.Linkage.internal

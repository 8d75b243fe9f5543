"""Compiles kernels in tests without a launch layer: function and contract in, program out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from interop.frontend import Compiled, compile_simt
from interop.language.definition import KernelDefinition


def compile_kernel_function(function: Callable[..., Any], *, target: str = "sm_80", **contract: Any) -> Compiled:
    """`function` compiled as ``@simt.kernel(**contract)`` would compile it."""
    if "requires" in contract:
        contract["requires"] = tuple(contract["requires"])
    contract.setdefault("caller_locals", dict(sys._getframe(1).f_locals))
    return compile_simt(KernelDefinition(function, **contract), target)

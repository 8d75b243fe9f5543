"""``NAME.hpp``: the C++17 interface of an exported library."""

from __future__ import annotations

from collections.abc import Sequence

from .c_header import kernel_documentation
from .model import KernelModel
from .shim import template
from .text import COLUMNS, call, doc_comment


def cpp_header(name: str, version: str, models: Sequence[KernelModel]) -> str:
    """The text of ``NAME.hpp``."""
    kernels = "\n".join(_member(name, model) for model in models)
    return template("templates/bundle.hpp.in", NAME=name, UPPER=name.upper(), VERSION=version, KERNELS=kernels)


def _member(name: str, model: KernelModel) -> str:
    """One kernel as a member function. A stream converts to a launch configuration."""
    arguments = ["const ::interop::launch_config &config", *(a.cpp_declaration for a in model.visible)]
    forward = ["get()", "&launch", *(a.cpp_forward for a in model.visible)]
    return "\n".join(
        [
            doc_comment(kernel_documentation(model, COLUMNS - 7), "    "),
            call(f"    void {model.name}", arguments, " const"),
            "    {",
            "        const ::interop_launch_config launch = config; // points into config",
            call(f"        check(::{name}_{model.name}_ex", forward, ");"),
            "    }",
            "",
        ]
    )

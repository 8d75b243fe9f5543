"""``README.md`` of an exported folder."""

from __future__ import annotations

from collections.abc import Sequence

from .model import KernelModel
from .shim import template


def readme(name: str, version: str, models: Sequence[KernelModel], has_cpu: bool) -> str:
    """The text of ``README.md``."""
    rows = []
    for model in models:
        arguments = ", ".join(a.c_declaration for a in model.visible)
        rows.append(f"| `{model.name}` | `({arguments})` |")
    return template(
        "templates/README.md.in",
        NAME=name,
        VERSION=version,
        KERNELS="\n".join(rows),
        CPU_NOTE=" (x86-64)" if has_cpu else ": no, this export has no CPU device",
        ONE_LINER_OBJECTS=" objects/*.o" if has_cpu else "",
        OBJECTS_NOTE=" `objects/`: the kernels for the CPU." if has_cpu else "",
    )

"""``README.md`` of an exported folder."""

from __future__ import annotations

from collections.abc import Sequence

from .example import StoredExample
from .main_program import not_called
from .model import KernelModel
from .sample import Sample
from .shim import template
from .text import listed


def readme(
    name: str, version: str, models: Sequence[KernelModel], examples: Sequence[StoredExample], has_cpu: bool
) -> str:
    """The text of ``README.md``."""
    rows = []
    for model in models:
        arguments = ", ".join(a.c_declaration for a in model.visible)
        rows.append(f"| `{model.name}` | `({arguments})` |")
    sample = Sample(name, models[0], next((e for e in examples if e.kernel.name == models[0].kernel.name), None))
    return template(
        "templates/README.md.in",
        CPP="\n".join(f"    {line}" for line in sample.cpp()),
        C=sample.c(),
        MAIN=_main(models, examples),
        NAME=name,
        VERSION=version,
        KERNELS="\n".join(rows),
        CPU_NOTE=" (x86-64)" if has_cpu else ": no, this export has no CPU device",
        ONE_LINER_OBJECTS=" images/*.o" if has_cpu else "",
        OBJECTS_NOTE="\n  The `.o` files among the images are the kernels for the CPU." if has_cpu else "",
    )


def _main(models: Sequence[KernelModel], examples: Sequence[StoredExample]) -> str:
    """What ``main.cpp`` does with the kernels."""
    shown = not_called(models, examples)
    if not shown:
        return "`main.cpp` calls each kernel."
    names = "every kernel" if len(shown) == len(models) else listed([f"`{name}`" for name in shown])
    start = "" if len(shown) == len(models) else "`main.cpp` calls the kernels\nwhose calls are known. "
    return (
        f"{start}For {names}, `main.cpp` shows a call that you fill in: rules and examples do not say\nwhat it needs."
    )

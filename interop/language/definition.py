"""What a decorator collects: a function and its contract as written, before anything is parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import ModuleType
from typing import Any, Union

from abi import Scalar

from .constants import BlockRule, Extent
from .types import Annotation, ParameterWord

BlockSpec = Union[None, Extent, BlockRule, tuple[Extent, ...]]
"""``256``, ``(32, 8)``, ``io.up_to(n)``, ``io.multiple_of(n)`` or None: any block."""


@dataclass(frozen=True, eq=False)
class KernelDefinition:
    """A kernel as its author wrote it. ``consts`` are the constants that ``specialize`` bound to other values."""

    function: Callable[..., Any]
    block: BlockSpec = None
    grid: str | int | Sequence[str | int] | None = None
    requires: tuple[str, ...] = ()
    shared: str | int | None = None
    contract: bool = True
    caller_locals: Mapping[str, Any] = field(default_factory=dict)
    consts: Mapping[str, bool | int | float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name, with the values of specialised constants: ``scale_N32``."""
        parts = [f"{name}{_readable(value)}" for name, value in sorted(self.consts.items())]
        return "_".join([self.function.__name__, *parts])


def annotation_names(local_names: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the decorator's caller's locals that an annotation may use. The others are not kept alive."""
    kinds = (Annotation, ParameterWord, Scalar, ModuleType)
    return {name: value for name, value in local_names.items() if isinstance(value, kinds)}


def embedded_path(function: Callable[..., Any]) -> str:
    """The path below the folder that its module was imported from: ``filters/edges.py`` for ``filters.edges``."""
    path = PurePath(function.__code__.co_filename)
    module = (function.__module__ or "").split(".")
    parts = path.parts[:-1] if path.stem == "__init__" else (*path.parts[:-1], path.stem)
    count = len(module) if list(parts[-len(module) :]) == module else 1
    return "/".join(path.parts[-count - (path.stem == "__init__") :])


def _readable(value: bool | int | float) -> str:
    """A constant's value as part of a symbol: -1 is m1, 0.5 is 0p5, 1e-05 is 1em05."""
    text = str(int(value)) if isinstance(value, bool) else repr(value)
    return text.replace("-", "m").replace(".", "p").replace("+", "")


__all__ = ["BlockSpec", "KernelDefinition", "annotation_names", "embedded_path"]

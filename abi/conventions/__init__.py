"""Conventions: how a logical parameter becomes entries of an image's parameter list. One small file each."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UnsupportedError
from ..types import Component, Type
from . import c, interop_1

Flatten = Callable[[Type], tuple[tuple[Component, ...], ...]]
"""A type to its image parameters, each the machine values that lie in it."""

CONVENTIONS: dict[str, Flatten] = {m.NAME: m.flatten for m in (interop_1, c)}
"""Every convention by name."""


def flatten(type_: Type, convention: str) -> tuple[tuple[Component, ...], ...]:
    """The image parameters that `type_` takes in `convention`, each as the machine values that lie in it."""
    if convention not in CONVENTIONS:
        raise UnsupportedError(f"convention '{convention}' is not supported; there are {', '.join(CONVENTIONS)}")
    return CONVENTIONS[convention](type_)

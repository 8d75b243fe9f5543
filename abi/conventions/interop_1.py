"""``interop-1``, the convention of this project's own kernels: every machine value is an image parameter of its own.

A slice is a pointer parameter and a length parameter; a tensor a pointer, its extents, its strides.
"""

from __future__ import annotations

from ..types import Component, Type, components

NAME = "interop-1"


def flatten(type_: Type) -> tuple[tuple[Component, ...], ...]:
    return tuple((component,) for component in components(type_))

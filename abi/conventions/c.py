"""``c``: what C and CUDA C++ compilers do. Scalars, pointers and by-value structs are one image parameter each.

C has no slices or tensors; where a description says that it passes one, it means the consecutive parameters that C
code takes instead: ``(float *x, uint64_t x_length)``, or a pointer followed by extents and strides.
"""

from __future__ import annotations

from ..types import Component, Type, components

NAME = "c"


def flatten(type_: Type) -> tuple[tuple[Component, ...], ...]:
    return tuple((component,) for component in components(type_))

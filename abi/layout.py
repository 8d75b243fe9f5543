"""Where parameters lie in the parameter buffer.

A kernel's image parameters follow one another as the members of a C struct do: each at the next multiple of its
alignment. The buffer ends with the last one; there is no tail padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .conventions import flatten
from .errors import Error
from .records import Param, Slot
from .types import Component, components

MAX_PARAMETER_BYTES = 4096
"""The largest parameter buffer that every supported device and driver takes."""


def align_up(offset: int, align: int) -> int:
    """The first multiple of `align` at or after `offset`."""
    return (offset + align - 1) // align * align


def place(sizes: Iterable[tuple[int, int]]) -> tuple[Slot, ...]:
    """Slots for image parameters of the given (size, align), in order.

    >>> place([(8, 8), (1, 1), (4, 4)])
    (Slot(offset=0, size=8, align=8), Slot(offset=8, size=1, align=1), Slot(offset=12, size=4, align=4))
    """
    slots, offset = [], 0
    for size, align in sizes:
        offset = align_up(offset, align)
        slots.append(Slot(offset, size, align))
        offset += size
    return tuple(slots)


def assign_slots(params: Sequence[Param], convention: str = "interop-1") -> tuple[Param, ...]:
    """`params` with the slots that `convention` gives them; :class:`Error` when the buffer would be too large."""
    shapes = [[_slot_shape(group) for group in flatten(param.type, convention)] for param in params]
    slots = iter(place(shape for param_shapes in shapes for shape in param_shapes))
    placed = tuple(replace(p, slots=tuple(next(slots) for _ in s)) for p, s in zip(params, shapes))
    size = buffer_size(placed)
    if size > MAX_PARAMETER_BYTES:
        worst = max(placed, key=lambda p: p.type.size)
        raise Error(
            f"the parameters take {size} bytes, and the limit is {MAX_PARAMETER_BYTES}; the largest is "
            f"'{worst.name}' ({worst.type}, {worst.type.size} bytes): pass large blocks through memory"
        )
    return placed


def _slot_shape(group: tuple[Component, ...]) -> tuple[int, int]:
    """Size and alignment of an image parameter that holds `group`, as a C struct of those members has."""
    align = max(component.align for component in group)
    end = 0
    for component in group:
        end = align_up(end, component.align) + component.size
    return (end if len(group) == 1 else align_up(end, align)), align


def buffer_size(params: Sequence[Param]) -> int:
    """Bytes of the parameter buffer."""
    return max((slot.offset + slot.size for param in params for slot in param.slots), default=0)


def packing(param: Param) -> tuple[tuple[Component, int, int], ...]:
    """Where each machine value of `param` lies in the buffer, as (component, offset, size).

    >>> from abi import Slice, f32
    >>> [(c.role, offset) for c, offset, _ in packing(assign_slots([Param("x", Slice(f32))])[0])]
    [('pointer', 0), ('length', 8)]
    """
    values, slots = list(components(param.type)), list(param.slots)
    result = []
    for slot in slots:
        used = 0
        while values and (start := align_up(used, values[0].align)) + values[0].size <= slot.size:
            component = values.pop(0)
            result.append((component, slot.offset + start, component.size))
            used = start + component.size
        if used == 0:
            raise Error(_misfit(param))
    if values:
        raise Error(_misfit(param))
    return tuple(result)


def _misfit(param: Param) -> str:
    slots = ", ".join(f"{s.size} bytes at {s.offset}" for s in param.slots) or "none"
    return f"parameter '{param.name}' ({param.type}) does not fit its slots: {slots}"

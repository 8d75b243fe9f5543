"""Checks of one kernel record: everything that its parts must have in common."""

from __future__ import annotations

from .errors import Error
from .layout import MAX_PARAMETER_BYTES, buffer_size, packing
from .records import Access, Kernel
from .rules import is_array, rules_of


def check_kernel(kernel: Kernel) -> None:
    """Raises :class:`Error` when `kernel` contradicts itself: names that occur twice, slots that do not hold their
    parameter or overlap, a buffer that is too large, a scalar that is written, a rule that does not parse."""
    seen: set[str] = set()
    for param in kernel.params:
        if param.name in seen:
            raise Error(f"{kernel.name}: there are two parameters '{param.name}'")
        seen.add(param.name)
        if param.access is not Access.IN and not is_array(param):
            raise Error(f"{kernel.name}: '{param.name}' is {param.type}, which a kernel cannot write")
    _check_slots(kernel)
    rules_of(kernel)


def _check_slots(kernel: Kernel) -> None:
    for param in kernel.params:
        packing(param)
    slots = sorted(((s, p.name) for p in kernel.params for s in p.slots), key=lambda item: item[0].offset)
    end = 0
    for slot, name in slots:
        if slot.align & (slot.align - 1) or slot.offset % slot.align:
            raise Error(f"{kernel.name}: '{name}' lies at {slot.offset}, which its alignment {slot.align} forbids")
        if slot.offset < end:
            raise Error(f"{kernel.name}: '{name}' lies at {slot.offset}, inside the parameter before it")
        end = slot.offset + slot.size
    size = buffer_size(kernel.params)
    if size > MAX_PARAMETER_BYTES:
        raise Error(f"{kernel.name}: the parameters take {size} bytes, and the limit is {MAX_PARAMETER_BYTES}")

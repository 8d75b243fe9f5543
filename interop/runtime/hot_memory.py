"""The part of a hot path's source that says what memory the kernel may touch, as :mod:`.known_memory` does."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .cpu_device import CpuKernel
from .hot_rules import NotInline
from .known_memory import LOWEST_ADDRESS, RANGE, may_be_addresses
from .plan import Kind

if TYPE_CHECKING:
    from .hot_source import Source


def emit_memory(source: Source) -> str:
    """Adds what packs the ranges of the arrays; the argument of the launch, with the comma before it.

    Calls in which a number may be an address go the slow way, which finds out whose it is.
    """
    if not isinstance(source.loaded, CpuKernel) or source.loaded.addresses is None:
        return ""
    from ..executor.host import name_address

    plan, count = source.plan, len(source.plan.arguments)
    for position in may_be_addresses(plan, source.loaded):
        kind = plan.arguments[position].kind if position < count else Kind.SCALAR
        if kind is Kind.BYTES:
            raise NotInline("a structure that may hold addresses")
        if kind is Kind.SCALAR:
            value = f"v{position}" if position < count else source.hidden[plan.hidden[position - count].name]
            source.miss(f"{value} >= {LOWEST_ADDRESS}")
    numbers: list[str] = []
    for array in source.arrays.values():
        begin, end = source.extent(array)
        name = name_address(array.plan.name)
        numbers += [begin, f"{end} - {begin}", str(name), str(int(array.plan.writes)), "0"]
    source.names["PACK_MEMORY"] = struct.Struct("<" + RANGE * len(source.arrays)).pack
    return f", PACK_MEMORY({', '.join(numbers)})"

"""What memory a launch on the CPU device may touch, for its bounds checks.

The rule: an array that is passed may be touched as far as its shape and strides reach, and written where the contract
says so. A pointer that the kernel finds in memory is not checked by the executor, wherever it leads. A number that is
passed where the kernel makes an address of it (an integer for a pointer, a pointer in a structure) may be the address
of anything: if the device allocated that memory, all of the allocation may be touched; else nothing is known of the
launch, and no access to global memory is refused. Numbers that are no address on any system do not count.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from abi import ArrayValue, Param, Scalar
from abi.layout import packing

from .plan import KernelPlan, Kind

if TYPE_CHECKING:
    from .arrays import ArrayView
    from .cpu_device import CpuDevice, CpuKernel

LOWEST_ADDRESS = 65536
"""Smaller numbers are no addresses: systems keep the first pages free."""
RANGE = "QQQII"
"""One range as ``interop_cpu_range`` has it: address, bytes, name, whether it may be written, nothing."""


def may_be_addresses(plan: KernelPlan, loaded: CpuKernel) -> tuple[int, ...]:
    """The parameters that are not arrays and of which the kernel makes an address that it checks, counted over visible
    ones first, then hidden ones."""
    known = loaded.suspects.get(id(plan))
    if known is None:
        known = loaded.suspects[id(plan)] = plan, _may_be_addresses(plan, loaded.addresses or ())
    return known[1]


def _may_be_addresses(plan: KernelPlan, places: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    params: Sequence[Param] = (*plan.kernel.visible_params, *plan.hidden)
    found = []
    for position, param in enumerate(params):
        array = position < len(plan.arguments) and plan.arguments[position].kind in (Kind.SLICE, Kind.TENSOR)
        real = isinstance(param.type, Scalar) and param.type.kind not in ("int", "uint")
        if array or real:
            continue
        spans = [(offset, offset + size) for _, offset, size in packing(param)]
        if any(begin < at + size and at < end for begin, end in spans for at, size in places):
            found.append(position)
    return tuple(found)


def known_memory(
    plan: KernelPlan,
    loaded: CpuKernel,
    device: CpuDevice,
    values: Sequence[tuple[Any, ...]],
    views: Sequence[tuple[str, ArrayView]],
) -> bytes | None:
    """The ranges of a launch, packed; None where nothing is known, or the kernel does not check.

    :param values: the machine values, in the order of the parameters.
    :param views: the arrays among the arguments, with the parameters' names.
    """
    if loaded.addresses is None:
        return None
    from ..executor.host import name_address

    numbers: list[int] = []
    passed = {name for name, _ in views}
    for position in may_be_addresses(plan, loaded):
        visible = position < len(plan.arguments)
        if visible and plan.arguments[position].name in passed:
            continue
        for address in _addresses_in(values[position][0]):
            if address < LOWEST_ADDRESS:
                continue
            own = device.allocation(address)
            if own is None:
                return None
            numbers += [*own, 0, 1, 0]
    for name, view in views:
        begin, end = ArrayValue(view.address, view.shape, view.strides, view.itemsize).extent
        writes = plan.arguments[plan.positions[name]].writes
        numbers += [begin, end - begin, name_address(name), int(writes), 0]
    return struct.pack("<" + RANGE * (len(numbers) // len(RANGE)), *numbers)


def _addresses_in(value: Any) -> list[int]:
    """What may be an address in a machine value: an integer, or bytes at every multiple of eight."""
    if isinstance(value, bytes):
        count = len(value) // 8
        return list(struct.unpack_from(f"<{count}Q", value))
    return [value] if isinstance(value, int) else []

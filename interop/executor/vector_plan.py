"""Whether and how a kernel is translated for several lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from interop.ptx import Instruction, Module

from . import (
    bits,
    compare,
    control,
    convert,
    floats,
    integer,
    matrix,
    memory,
    packed,
    vector_atomics,
    vector_copy,
    vector_memory,
    vector_warp,
    wmma,
)
from .analysis import Plan, names_in
from .atomics import TABLE as ATOMICS
from .local import needs_window
from .spin import yielding_branches
from .table import Table
from .vector_control import VectorPlan
from .vector_flatten import Flat, Unsuitable, flatten
from .vector_flow import SYNCHRONIZING, Flow, Loop
from .vector_kinds import Kinds, analyse

LANES = (8, 16, 32)
"""How many lanes a strand may have."""

_WARP_REGISTERS = ("%laneid", "%warpid", "%nwarpid", "%lanemask_")


def vector_table() -> Table:
    """The instructions of the vector path: those that concern one lane alone, and those with handlers of their own."""
    table = Table()
    alike = (bits, compare, convert, floats, integer, matrix, packed, wmma)
    for family in (*alike, vector_atomics, vector_copy, vector_memory, vector_warp):
        table.update(family.TABLE)
    table.update({opcode: ATOMICS[opcode] for opcode in ("membar", "fence")})
    table.update({opcode: control.TABLE[opcode] for opcode in ("trap", "brkpt", "nanosleep", "pmevent")})
    table.update({opcode: memory.TABLE[opcode] for opcode in ("prefetch", "prefetchu", "applypriority", "discard")})
    return table


def plan_vector(module: Module, base: Plan, lanes: int, whole: bool) -> VectorPlan:
    """The plan for `lanes` lanes; :class:`Unsuitable` with the reason when the kernel is one for the one-lane path.

    :param whole: the launches' rows are whole strands.
    """
    if base.spins:
        raise Unsuitable("its threads wait for each other through memory")
    if needs_window(base):
        raise Unsuitable("it takes 32-bit addresses of local memory")
    flat = flatten(module, base.function)
    flow = Flow(flat)
    if yielding_branches(flat.items) or any(_may_wait(flow, loop) for loop in flow.loops):
        raise Unsuitable("its threads wait for each other through memory")
    warps = _needs_warps(flat)
    if warps and lanes != 32:
        raise Unsuitable("its lanes work together, which takes strands of 32 lanes")
    coroutine = any(map(_is_block_barrier, _instructions(flat)))
    kinds = analyse(flow, set(), lanes, whole)
    refuse_parted_barriers(flow, kinds)
    plan = replace(base, table=vector_table(), lanes=lanes, coroutine=coroutine, independent=False)
    given = {f.name: getattr(plan, f.name) for f in fields(Plan)}
    return VectorPlan(**given, flow=flow, kinds=kinds, warps=warps, whole=whole)


def _instructions(flat: Flat) -> list[Instruction]:
    return [i for i in flat.items if isinstance(i, Instruction)]


def _may_wait(flow: Flow, loop: Loop) -> bool:
    """Whether a loop may wait for what another thread writes although its condition does not show it, since it passes
    through local memory, as in code that is not optimised."""
    body = [i for index in loop.members for i in flow.blocks[index].instructions]
    own = {name for name, v in flow.flat.variables.items() if v.space == "local"}
    asks = any(i.opcode == "atom" and i.has("cas", "exch") for i in body) or any(
        i.opcode == "ld" and i.has("volatile", "relaxed", "acquire", "mmio") for i in body
    )
    return asks and bool(own) and any(i.opcode == "ld" and not i.has("global", "shared", "const") for i in body)


def _is_block_barrier(i: Instruction) -> bool:
    return i.opcode in ("bar", "barrier") and not i.has("warp")


def refuse_parted_barriers(flow: Flow, kinds: Kinds) -> None:
    """A strand waits as a whole, so lanes that have parted cannot wait for a barrier of the block on their own."""
    for region in kinds.regions:
        for index in region:
            if any(map(_is_block_barrier, flow.blocks[index].instructions)):
                raise Unsuitable("it has a barrier where its lanes may have parted")


def _needs_warps(flat: Flat) -> bool:
    """Whether strands must be the hardware's warps."""
    for i in _instructions(flat):
        if i.opcode in SYNCHRONIZING and not (
            i.opcode in ("bar", "barrier") and len(i.operands) == 1 and not i.has("warp")
        ):
            return True
        if any(name.startswith(_WARP_REGISTERS) for operand in i.operands for name in names_in(operand)):
            return True
    return False


WARPS, WHOLE = 1, 2
"""``INTEROP_CPU_WARPS`` and ``INTEROP_CPU_WHOLE``, of a kernel's flags: strands are the hardware's warps; rows are
whole strands."""


def are_warps(block: Sequence[int]) -> bool:
    """Whether strands of 32 lanes along x are the hardware's warps."""
    return block[0] % 32 == 0 or block[1] * block[2] == 1


def preferred_lanes(block: Sequence[int]) -> tuple[int, ...]:
    """How many lanes suit a block, best first: few of them should lie idle at the end of a row.

    >>> preferred_lanes((256, 1, 1)), preferred_lanes((16, 16, 1)), preferred_lanes((100, 1, 1))
    ((32,), (16, 32), (32,))
    """
    extent = block[0]
    if extent % 32 == 0 or extent > 64:
        return (32,)
    if extent % 16 == 0:
        return (16, 32)
    if extent % 8 == 0:
        return (8, 32)
    return (32,) if extent > 16 else (16, 32) if extent > 8 else (8, 32) if extent > 2 else ()

"""Where lanes may have parted: the regions of a kernel, what each runs in which order, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from .vector_flatten import Unsuitable
from .vector_flow import SYNCHRONIZING, Block, Flow
from .vector_kinds import Kinds


@dataclass
class Region:
    """Regions that overlap, as one: blocks that run under masks, and the block behind them."""

    blocks: list[int]
    behind: int
    first: int = 0
    exits: bool = False
    waits: list[int] = field(default_factory=list)  # blocks that begin with something that lanes do together
    ends: dict[int, list[int]] = field(default_factory=dict)  # last blocks of loops: the headers, innermost first


def find_regions(flow: Flow, kinds: Kinds) -> list[Region]:
    """The regions of a kernel; :class:`Unsuitable` where one has two ends."""
    merged: list[set[int]] = []
    for found in kinds.regions:
        region = set(found)
        for other in [m for m in merged if m & region]:
            region |= other
            merged.remove(other)
        if region:
            merged.append(region)
    return [_region(flow, blocks) for blocks in merged]


def _region(flow: Flow, blocks: set[int]) -> Region:
    ends = set()
    for index in blocks:
        end = flow.ipdom[index]
        while end in blocks:
            end = flow.ipdom[end]
        ends.add(end)
    if len(ends) != 1:
        raise Unsuitable("lanes that part meet in more than one place")
    ordered = sorted(blocks, key=flow.position.__getitem__)
    region = Region(ordered, ends.pop(), ordered[0])
    region.waits = [k for k in ordered if _waits(flow.blocks[k])]
    region.exits = any(leaves(flow, s) for k in ordered for s in flow.blocks[k].successors)
    for loop in sorted(flow.loops, key=lambda found: -found.depth):
        inside = [k for k in ordered if k in loop.members]
        if loop.header in blocks and inside:
            region.ends.setdefault(inside[-1], []).append(loop.header)
    return region


def _waits(block: Block) -> bool:
    first = block.instructions[0] if block.instructions else None
    return first is not None and first.opcode in SYNCHRONIZING - {"activemask"}


def leaves(flow: Flow, index: int) -> bool:
    """Whether going to the block only ends a thread."""
    return index == flow.exit or flow.blocks[index].only_returns

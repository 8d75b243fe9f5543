"""The vector path, second step: basic blocks, post-dominators, liveness of a flattened kernel.

A branch whose lanes part makes a *region*: what lies between it and its immediate post-dominator. Inside of regions
each block has a mask of the lanes that wait to run it. Blocks run in an order in which loops lie together and all else
leads forwards; lanes that go around a loop again wait at its header until the others have come to the loop's end.
A branch to a block that only returns makes no region: its lanes leave the kernel and the others go on together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from interop.ptx import Instruction, ast

from .analysis import names_in
from .graph import components
from .vector_flatten import Flat, Unsuitable

SYNCHRONIZING = {"shfl", "vote", "match", "redux", "elect", "activemask", "bar", "barrier", "mma", "wmma", "ldmatrix",
                 "stmatrix", "movmatrix"}  # fmt: skip
"""What several lanes do together: each stands at the beginning of a block of its own."""

_ENDS = {"bra", "brx", "ret", "exit", "trap"}
NO_RESULT = {"st", "red", "bra", "brx", "bar", "barrier", "ret", "exit", "membar", "fence", "trap", "prefetch",
             "prefetchu", "cp", "nanosleep", "pmevent", "call", "stmatrix", "brkpt", "discard", "applypriority",
             "griddepcontrol", "setmaxnreg"}  # fmt: skip
"""Instructions whose first operand is not a destination."""


def destinations(i: Instruction) -> int:
    """How many of the leading operands are written."""
    if i.opcode in ("bar", "barrier"):
        return int(i.has("red"))
    if i.opcode == "wmma" and i.has("store"):
        return 0
    return 0 if i.opcode in NO_RESULT or not i.operands else 1


@dataclass
class Block:
    """A basic block; the successor with the number of blocks is the exit."""

    index: int
    instructions: list[Instruction] = field(default_factory=list)
    terminator: Instruction | None = None
    successors: list[int] = field(default_factory=list)
    defs: list[int] = field(default_factory=list)  # register numbers, in order, with repetition
    live_in: int = 0  # a set of register numbers, as bits
    cyclic: bool = False

    @property
    def only_returns(self) -> bool:
        """Whether the block does nothing but end its threads."""
        last = self.terminator
        return not self.instructions and last is not None and last.opcode in ("ret", "exit") and last.guard is None


@dataclass(frozen=True)
class Loop:
    """Blocks that can come back to themselves. `depth` counts the loops around."""

    header: int
    members: frozenset[int]
    depth: int


class Flow:
    """The control flow of a flattened kernel.

    :ivar blocks: in the order of the text.
    :ivar exit: the number that stands for the end of the kernel.
    :ivar ipdom: each block's immediate post-dominator, where lanes that leave the kernel do not count.
    """

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.blocks, self.label_blocks = _blocks(flat)
        self.exit = len(self.blocks)
        self.numbers: dict[str, int] = {name: k for k, name in enumerate(flat.registers)}
        self._number_registers()
        self._find_cycles()
        self.ipdom = self._post_dominators()

    # ---- liveness ----

    def _number_registers(self) -> None:
        numbers = self.numbers
        uses, kills = [], []
        self.def_sites: dict[int, list[int]] = {}
        self.definitions: dict[int, list[Instruction]] = {}
        for block in self.blocks:
            used = killed = 0
            every = block.instructions + ([block.terminator] if block.terminator else [])
            for i in every:
                written = destinations(i)
                for operand in i.operands[written:]:
                    for name in names_in(operand):
                        number = numbers.get(name)
                        if number is not None and not killed >> number & 1:
                            used |= 1 << number
                if i.guard is not None:
                    number = numbers.get(i.guard.register)
                    if number is not None and not killed >> number & 1:
                        used |= 1 << number
                for operand in i.operands[:written]:
                    for name in names_in(operand):
                        number = numbers.get(name)
                        if number is None:
                            continue
                        block.defs.append(number)
                        self.def_sites.setdefault(number, []).append(block.index)
                        self.definitions.setdefault(number, []).append(i)
                        if i.guard is None:
                            killed |= 1 << number
                        elif not killed >> number & 1:
                            used |= 1 << number  # the other lanes keep what they had
            uses.append(used)
            kills.append(killed)
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                out = 0
                for successor in block.successors:
                    if successor < self.exit:
                        out |= self.blocks[successor].live_in
                live = uses[block.index] | (out & ~kills[block.index])
                if live != block.live_in:
                    block.live_in, changed = live, True

    # ---- graph ----

    def _find_cycles(self) -> None:
        """Puts the blocks into an order in which loops lie together and all else runs forwards.

        What can come back to itself is a loop; its header is where it is entered, and without the edges to the header
        the rest falls apart into blocks and inner loops. So each edge that leads backwards leads to the header of a
        loop around it, also where a loop has several entries.
        """
        self.order: list[int] = []
        self.loops: list[Loop] = []
        predecessors = _reversed([b.successors for b in self.blocks], self.exit)
        # Groups of blocks, and for the last group of a loop the loop that ends behind it.
        work: list[tuple[list[int], int]] = [(list(range(self.exit)), 0)]
        while work:
            nodes, depth = work.pop()
            if len(nodes) == 1 and nodes[0] not in self.blocks[nodes[0]].successors:
                self.order.append(nodes[0])
                continue
            groups = components(nodes, [b.successors for b in self.blocks])
            if len(groups) > 1:
                work += [(group, depth) for group in groups]  # the first to run is the last of the list
                continue
            members = set(nodes)
            entered = [n for n in nodes if any(p not in members for p in predecessors[n])]
            header = min(entered or nodes)
            self.loops.append(Loop(header, frozenset(members), depth))
            for node in nodes:
                self.blocks[node].cyclic = True
            self.order.append(header)
            rest = [n for n in nodes if n != header]
            if rest:
                work += [(group, depth + 1) for group in components(rest, [b.successors for b in self.blocks])]
        self.position = {index: k for k, index in enumerate(self.order)}

    def staying(self, index: int) -> list[int]:
        """The successors without those in which lanes only leave the kernel, unless there are no others."""
        successors = self.blocks[index].successors
        kept = [s for s in successors if s < self.exit and not self.blocks[s].only_returns]
        return kept or successors

    def _post_dominators(self) -> list[int]:
        """Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", on the reversed graph."""
        end = self.exit
        successors = [list(self.staying(k)) for k in range(end)]
        while True:
            order = _postorder(end, _reversed(successors, end))
            # From there no lane comes to the end except by leaving, so that leaving is the end of the way.
            others = set(range(end)) - set(order)
            leaving = [k for k in others if len(self.staying(k)) < len(self.blocks[k].successors)]
            if not leaving:
                break
            for index in leaving:
                successors[index].append(end)
        position = {node: k for k, node in enumerate(order)}
        # What never ends is taken as if it could leave at any time.
        ipdom: dict[int, int] = {end: end}

        def intersect(a: int, b: int) -> int:
            while a != b:
                while position[a] < position[b]:
                    a = ipdom[a]
                while position[b] < position[a]:
                    b = ipdom[b]
            return a

        changed = True
        while changed:
            changed = False
            for node in reversed(order[:-1]):
                new = -1
                for successor in successors[node]:
                    if successor in ipdom:
                        new = successor if new < 0 else intersect(new, successor)
                    elif successor not in position:
                        new = end
                if new >= 0 and ipdom.get(node) != new:
                    ipdom[node], changed = new, True
        return [ipdom.get(k, end) for k in range(end)]

    def reach(self, start: int, stop: int) -> set[int]:
        """The blocks from `start` on, not beyond `stop`."""
        seen: set[int] = set()
        pending = [start]
        while pending:
            index = pending.pop()
            if index in seen or index in (stop, self.exit):
                continue
            seen.add(index)
            pending += self.staying(index) if self.blocks[index].successors else ()
        return seen


def _reversed(successors: Sequence[Sequence[int]], end: int) -> list[list[int]]:
    """The predecessors of each node up to `end`."""
    predecessors: list[list[int]] = [[] for _ in range(end + 1)]
    for index, found in enumerate(successors):
        for successor in found:
            predecessors[successor].append(index)
    return predecessors


def _postorder(root: int, edges: Sequence[Sequence[int]]) -> list[int]:
    seen = {root}
    order: list[int] = []
    work = [(root, iter(edges[root]))]
    while work:
        node, rest = work[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                work.append((following, iter(edges[following])))
                break
        else:
            order.append(node)
            work.pop()
    return order


def _blocks(flat: Flat) -> tuple[list[Block], dict[str, int]]:
    blocks = [Block(0)]
    labels: dict[str, int] = {}
    fresh = True

    def start() -> None:
        nonlocal fresh
        if not fresh:
            blocks.append(Block(len(blocks)))
            fresh = True

    for item in flat.items:
        if isinstance(item, ast.Label):
            start()
            if item.name in labels:
                raise Unsuitable(f"the label {item.name} is declared twice")
            labels[item.name] = blocks[-1].index
        elif item.opcode in _ENDS:
            blocks[-1].terminator = item
            fresh = False
            start()
        else:
            if item.opcode in SYNCHRONIZING:
                start()
            blocks[-1].instructions.append(item)
            fresh = False
    for block in blocks:
        block.successors = _successors(block, labels, flat, len(blocks))
    return blocks, labels


def _label(operand: ast.Operand, labels: dict[str, int]) -> int:
    if not isinstance(operand, ast.Name) or operand.text not in labels:
        raise Unsuitable("a branch target is not a label")
    return labels[operand.text]


def _successors(block: Block, labels: dict[str, int], flat: Flat, end: int) -> list[int]:
    last = block.terminator
    through = [] if last is not None and last.guard is None else [block.index + 1]
    if last is None:
        return through
    if last.opcode == "bra":
        targets = [_label(last.operands[-1], labels)]
    elif last.opcode == "brx":
        name = last.operands[1]
        if not isinstance(name, ast.Name) or not flat.targets.get(name.text):
            raise Unsuitable("the targets of brx.idx are not declared")
        targets = [_label(ast.Name(label), labels) for label in flat.targets[name.text]]
    else:
        targets = [end]
    return list(dict.fromkeys(targets + through))

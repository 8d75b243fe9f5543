"""The vector path, second step: basic blocks, post-dominators, liveness of a flattened kernel.

A branch whose lanes part makes a *region*: what lies between it and its immediate post-dominator. Inside of regions
each block has a mask of the lanes that wait to run it, and the pending block that comes first in the text runs first.
A branch to a block that only returns makes no region: its lanes leave the kernel and the others go on together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from interop.ptx import Instruction, ast

from .vector_flatten import Flat, Unsuitable

SYNCHRONIZING = {"shfl", "vote", "match", "redux", "elect", "activemask", "bar", "barrier", "mma", "wmma", "ldmatrix",
                 "stmatrix", "movmatrix"}  # fmt: skip
"""What several lanes do together: each stands at the beginning of a block of its own."""

_ENDS = {"bra", "brx", "ret", "exit", "trap"}
NO_RESULT = {"st", "red", "bra", "brx", "bar", "barrier", "ret", "exit", "membar", "fence", "trap", "prefetch",
             "prefetchu", "cp", "nanosleep", "pmevent", "call", "stmatrix", "brkpt", "discard", "applypriority",
             "griddepcontrol", "setmaxnreg"}  # fmt: skip
"""Instructions whose first operand is not a destination."""


def registers_in(operand: ast.Operand) -> Iterator[str]:
    """The names in an operand."""
    if isinstance(operand, ast.Name):
        yield operand.text
    elif isinstance(operand, (ast.Offset, ast.Not, ast.Generic)):
        yield from registers_in(operand.base)
    elif isinstance(operand, ast.Pair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)
    elif isinstance(operand, (ast.Address, ast.Vector, ast.Group)):
        for item in operand.items:
            yield from registers_in(item)


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
        self._check_entries()
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
                    for name in registers_in(operand):
                        number = numbers.get(name)
                        if number is not None and not killed >> number & 1:
                            used |= 1 << number
                if i.guard is not None:
                    number = numbers.get(i.guard.register)
                    if number is not None and not killed >> number & 1:
                        used |= 1 << number
                for operand in i.operands[:written]:
                    for name in registers_in(operand):
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
        """Marks blocks that can come back to themselves (Tarjan, without recursion)."""
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        on_stack: set[int] = set()
        stack: list[int] = []
        self.component: list[int] = [-1] * self.exit
        count = 0
        for root in range(self.exit):
            if root in order:
                continue
            work = [(root, 0)]
            while work:
                index, edge = work.pop()
                if edge == 0:
                    order[index] = low[index] = len(order)
                    stack.append(index)
                    on_stack.add(index)
                successors = [s for s in self.blocks[index].successors if s < self.exit]
                for position in range(edge, len(successors)):
                    successor = successors[position]
                    if successor not in order:
                        work += [(index, position + 1), (successor, 0)]
                        break
                    if successor in on_stack:
                        low[index] = min(low[index], order[successor])
                else:
                    if low[index] == order[index]:
                        members: list[int] = []
                        while not members or members[-1] != index:
                            members.append(stack.pop())
                            on_stack.discard(members[-1])
                        for member in members:
                            self.component[member] = count
                            self.blocks[member].cyclic = len(members) > 1 or index in self.blocks[index].successors
                        count += 1
                    if work:
                        parent = work[-1][0]
                        low[parent] = min(low[parent], low[index])

    def _check_entries(self) -> None:
        """Refuses loops that are entered anywhere but at their first block in the text, as where LLVM writes the end of
        a loop in front of its beginning: pending blocks run in the order of the text, which is the wrong one there."""
        first: dict[int, int] = {}
        for block in self.blocks:
            if block.cyclic:
                first.setdefault(self.component[block.index], block.index)
        entries = [(0, -1), *((s, b.index) for b in self.blocks for s in b.successors if s < self.exit)]
        for target, source in entries:
            component = self.component[target]
            inside = source >= 0 and self.component[source] == component
            if not inside and first.get(component, target) != target:
                raise Unsuitable("it has a loop that begins behind its end in the text")

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
            predecessors: list[list[int]] = [[] for _ in range(end + 1)]
            for index, found in enumerate(successors):
                for successor in found:
                    predecessors[successor].append(index)
            order = _postorder(end, predecessors)
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

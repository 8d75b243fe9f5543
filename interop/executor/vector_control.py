"""The vector path's control flow: which lanes are active, and how a strand gets from block to block.

Where lanes are together a branch is a branch. Inside of a region each block has a mask of the lanes that wait for it;
blocks are passed in the order of :class:`~interop.executor.vector_flow.Flow`, each runs if lanes wait for it, and the
lanes that go around a loop again do so from the loop's end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from interop.ptx import Instruction, ast

from . import control
from .analysis import Plan
from .builder import Builder
from .modifiers import Modifiers
from .records import Wait
from .storage import Storage
from .translator import Frame, Translator
from .vector_builder import VectorBuilder
from .vector_flatten import Unsuitable
from .vector_flow import Block, Flow
from .vector_kinds import Kinds
from .vector_regions import Region, find_regions, leaves


@dataclass
class VectorPlan(Plan):
    """How one kernel is translated for several lanes.

    :ivar warps: lanes work together, so that strands must be warps.
    :ivar whole: rows of the block are whole strands, so that all lanes are there.
    """

    flow: Flow = field(kw_only=True, repr=False)
    kinds: Kinds = field(kw_only=True, repr=False)
    warps: bool = False
    whole: bool = False


_WAITS = {"bar": Wait.WARP_SYNC, "barrier": Wait.WARP_SYNC, "shfl": Wait.SHFL, "vote": Wait.VOTE, "match": Wait.MATCH,
          "redux": Wait.REDUX, "elect": Wait.ELECT, "mma": Wait.MATRIX, "wmma": Wait.MATRIX, "ldmatrix": Wait.MATRIX,
          "stmatrix": Wait.MATRIX, "movmatrix": Wait.MATRIX}  # fmt: skip


class VectorControl(Translator):
    """What a strand's translation knows of masks and blocks."""

    b: VectorBuilder
    plan: VectorPlan

    def __init__(self, builder: VectorBuilder, storage: Storage, plan: VectorPlan) -> None:
        super().__init__(builder, storage, plan, plan.coroutine, False)
        self.frame = Frame(plan.function, [], "finish")
        self.lanes = plan.lanes
        self.bits = f"i{plan.lanes}"
        self._regions = find_regions(plan.flow, plan.kinds)
        self._region_of = {k: region for region in self._regions for k in region.blocks}
        self._live = self.b.scalar_alloca(self.bits)
        self.b.entry.append(f"  store {self.bits} %live, ptr {self._live}")
        self._masks = {k: self._slot_of(self.bits, "0") for region in self._regions for k in region.blocks}
        self._released = {k: self._slot_of("i1", "false") for region in self._regions for k in region.waits}
        self._active = ""  # the active lanes as an integer
        self._active_vector = ""

    def _slot_of(self, type_: str, value: str) -> str:
        """Memory that all lanes share, with a value to begin with."""
        pointer = self.b.scalar_alloca(type_)
        self.b.entry.append(f"  store {type_} {value}, ptr {pointer}")
        return pointer

    def _is_exit(self, index: int) -> bool:
        return leaves(self.plan.flow, index)

    # ---- masks ----

    def active(self) -> str:
        """The active lanes as a vector."""
        return self._active_vector

    def active_bits(self) -> str:
        """The active lanes as an integer with a bit for each lane."""
        return self._active

    def live_bits(self) -> str:
        """The lanes that have not left the kernel."""
        return self.b.value(f"load {self.bits}, ptr {self._live}")

    def bits_of(self, predicate: str) -> str:
        """A predicate as an integer with a bit for each lane; of inactive lanes as it comes."""
        if self.b.is_uniform(predicate):
            return self.b.value(f"sext i1 {predicate} to {self.bits}")
        return self.b.value(f"bitcast {self.b.wide('i1')} {predicate} to {self.bits}")

    def _set_active(self, bits: str, masked: bool) -> None:
        self._active = bits
        # At once, since what follows may be a part of the code that is not always run; LLVM drops it where unused.
        self._active_vector = self.b.value(f"bitcast {self.bits} {bits} to {self.b.wide('i1')}")
        self.b.mask = self._active_vector if masked else ""

    # ---- blocks ----

    def kernel(self) -> None:
        """Translates the whole kernel; control ends at the label ``finish``, which the caller places."""
        first = self._region_of.get(0)
        if first is not None:
            self._pend(0, self.live_bits())
        self.b.branch("run.0")
        for index in self.plan.flow.order:
            self._block(self.plan.flow.blocks[index])
        for index in range(len(self._regions)):
            self._close(index)

    def _block(self, block: Block) -> None:
        b = self.b
        self.block = block
        region = self._region_of.get(block.index)
        if region is not None:
            self._check(block, region)
        b.label(f"run.{block.index}")
        if region is None:
            self._set_active(self.live_bits(), False)
        else:
            bits = b.value(f"load {self.bits}, ptr {self._masks[block.index]}")
            b.line(f"store {self.bits} 0, ptr {self._masks[block.index]}")
            if block.index in region.waits:
                b.line(f"store i1 false, ptr {self._released[block.index]}")
            self._set_active(bits, True)
        for instruction in block.instructions:
            self._instruction(instruction)
        self._terminate(block, region)
        if region is not None and block.index in region.ends:
            self._repeat(block.index, region)

    def _check(self, block: Block, region: Region) -> None:
        """Goes on to the block if lanes wait for it, else to the next of the region."""
        self.b.label(f"check.{block.index}")
        self.b.branch_if(self._is_ready(block, region), f"run.{block.index}", self._next(block.index, region))

    def _is_ready(self, block: Block, region: Region) -> str:
        """Whether lanes wait for the block, and none of them for others."""
        b = self.b
        bits = b.value(f"load {self.bits}, ptr {self._masks[block.index]}")
        ready = b.value(f"icmp ne {self.bits} {bits}, 0")
        if block.index not in region.waits:
            return ready
        released = b.value(f"load i1, ptr {self._released[block.index]}")
        go = b.value(f"or i1 {self._complete(block, bits)}, {released}")
        return b.value(f"and i1 {ready}, {go}")

    def _complete(self, block: Block, arrived: str) -> str:
        """Whether all lanes that the operation at the block's beginning waits for have arrived."""
        b = self.b
        self.instruction = block.instructions[0]
        missing = b.value(f"and {self.bits} {self._needed(block.instructions[0])}, {self.live_bits()}")
        missing = b.value(f"and {self.bits} {missing}, {b.value(f'xor {self.bits} {arrived}, -1')}")
        return b.value(f"icmp eq {self.bits} {missing}, 0")

    def _needed(self, i: Instruction) -> str:
        """The lanes that the operation waits for."""
        mask: ast.Operand | None = None
        if i.opcode in ("shfl", "vote", "match", "redux") or (i.opcode in ("bar", "barrier") and i.has("warp")):
            mask = i.operands[-1]
        elif i.opcode == "elect":
            mask = i.operands[1]
        if mask is None:
            return self.live_bits()
        value = self.read(mask, "u32")
        if not self.b.is_uniform(value):
            raise Unsuitable("a warp operation among lanes that differ from lane to lane")
        return Builder.resize(self.b, value, "i32", self.bits)

    def _next(self, index: int, region: Region) -> str:
        """Where to go on behind a block of a region: to the headers of loops that end there, then to the next block."""
        return f"again.{index}" if index in region.ends else self._following(index, region)

    def _repeat(self, index: int, region: Region) -> None:
        """The end of loops: lanes that go around again do so, of the innermost loop first."""
        b = self.b
        b.label(f"again.{index}")
        for header in region.ends[index]:
            behind = b.new_label("on")
            again = b.new_label("go")
            b.branch_if(self._is_ready(self.plan.flow.blocks[header], region), again, behind)
            b.label(again)
            self._active = b.value(f"load {self.bits}, ptr {self._masks[header]}")  # for the thread that a poll names
            control.poll(self)
            b.branch(f"check.{header}")
            b.label(behind)
        b.branch(self._following(index, region))

    def _following(self, index: int, region: Region) -> str:
        position = region.blocks.index(index) + 1
        if position < len(region.blocks):
            return f"check.{region.blocks[position]}"
        return f"close.{self._regions.index(region)}"

    def _close(self, index: int) -> None:
        """The end of a region: all lanes are at its end, or wait for others."""
        b, region = self.b, self._regions[index]
        b.label(f"close.{index}")
        if region.waits:
            waiting = {k: b.value(f"load {self.bits}, ptr {self._masks[k]}") for k in region.waits}
            some = b.value(f"icmp ne {self.bits} {self._any_of(waiting.values())}, 0")
            b.branch_if(some, f"release.{index}", f"behind.{index}")
            b.label(f"release.{index}")
            self._release(region, waiting)
            b.label(f"behind.{index}")
        # Another region may begin right behind this one; then the lanes wait for its first block.
        behind = f"check.{region.behind}" if region.behind in self._masks else f"run.{region.behind}"
        if region.behind == self.plan.flow.exit:
            b.branch("finish")
        elif region.exits:
            gone = b.value(f"icmp eq {self.bits} {self.live_bits()}, 0")
            b.branch_if(gone, "finish", behind)
        else:
            b.branch(behind)

    def _any_of(self, masks: Iterable[str]) -> str:
        total = "0"
        for bits in masks:
            total = self.b.value(f"or {self.bits} {total}, {bits}")
        return total

    def _release(self, region: Region, waiting: dict[int, str]) -> None:
        """Lanes may wait for one another at different places of the text that do the same. If there are no such, the
        warp is stuck."""
        b, flow = self.b, self.plan.flow
        some = "false"
        for k, bits in waiting.items():
            opcode = flow.blocks[k].instructions[0].opcode
            alike = self._any_of(w for j, w in waiting.items() if flow.blocks[j].instructions[0].opcode == opcode)
            good = b.value(
                f"and i1 {self._complete(flow.blocks[k], alike)}, {b.value(f'icmp ne {self.bits} {bits}, 0')}"
            )
            b.line(f"store i1 {good}, ptr {self._released[k]}")
            some = b.value(f"or i1 {some}, {good}")
        stuck = b.new_label("stuck")
        b.branch_if(some, f"check.{region.first}", stuck)
        b.label(stuck)
        records = b.scalar_alloca(f"[{3 * len(waiting)} x i32]", 4)
        for position, (k, bits) in enumerate(waiting.items()):
            first = flow.blocks[k].instructions[0]
            wide = Builder.resize(b, bits, self.bits, "i32")
            for part, value in enumerate((wide, str(first.line), str(int(_WAITS[first.opcode])))):
                b.line(f"store i32 {value}, ptr {b.offset(records, 4 * (3 * position + part))}")
        thread = [("i32", "%tid.x.first"), ("i32", "%tid.y"), ("i32", "%tid.z")]
        b.helper("void", "stuck", [("ptr", "%blk"), *thread, ("ptr", records), ("i32", str(len(waiting)))])
        b.terminate("unreachable")

    # ---- between blocks ----

    def _pend(self, index: int, bits: str) -> None:
        """Lanes come to wait for a block."""
        b, pointer = self.b, self._masks[index]
        old = b.value(f"load {self.bits}, ptr {pointer}")
        b.line(f"store {self.bits} {b.value(f'or {self.bits} {old}, {bits}')}, ptr {pointer}")

    def _edge(self, target: int, bits: str) -> None:
        """Lanes go to a block: they leave the kernel, come to wait, or arrive where all meet."""
        if self._is_exit(target):
            self._leave(bits)
        elif self._is_inside(target):
            self._pend(target, bits)

    def _is_backward(self, block: Block, target: int) -> bool:
        position = self.plan.flow.position
        return position[target] <= position[block.index]

    def _is_inside(self, target: int) -> bool:
        """Whether lanes that go to the block come to wait for it."""
        return target in self._masks and not self._is_exit(target)

    def _leave(self, bits: str) -> None:
        b = self.b
        rest = b.value(f"xor {self.bits} {bits}, -1")
        b.line(f"store {self.bits} {b.value(f'and {self.bits} {self.live_bits()}, {rest}')}, ptr {self._live}")

    def _terminate(self, block: Block, region: Region | None) -> None:
        last = block.terminator
        if last is not None:
            self.instruction = last
            if last.opcode == "trap":
                self._trap(last)
        targets = block.successors
        if last is None or len(targets) == 1:
            self._jump(block, region, targets[0])
        elif block.index in self.plan.kinds.parting:
            self._part(block, region, last)
        else:
            self._branch(block, region, last)

    def _trap(self, last: Instruction) -> None:
        handler = self.plan.table["trap"]
        if last.guard is None:
            handler(self, last, Modifiers(last))
            return
        b = self.b
        stopped, on = b.new_label("trap"), b.new_label("on")
        condition = self._guard_bits(last)
        b.branch_if(b.value(f"icmp ne {self.bits} {condition}, 0"), stopped, on)
        b.label(stopped)
        kept = self._active, self._active_vector
        self._set_active(condition, True)
        handler(self, last, Modifiers(last))
        self._active, self._active_vector = kept
        b.label(on)

    def _jump(self, block: Block, region: Region | None, target: int) -> None:
        """All active lanes go to one block."""
        if region is None and not self._is_exit(target) and self._is_backward(block, target):
            control.poll(self)
        self._edge(target, self._active)
        if region is None:
            self.b.branch("finish" if self._is_exit(target) else f"run.{target}")
        else:
            self.b.branch(self._next(block.index, region))

    def _branch(self, block: Block, region: Region | None, last: Instruction) -> None:
        """All active lanes decide alike."""
        b = self.b
        labels = [b.new_label("to") for _ in block.successors]
        if last.opcode == "brx":
            index = self.read(last.operands[0], "u32")
            names = self.plan.flow.flat.targets[last.operands[1].text]  # type: ignore[union-attr]
            chosen = {k: self._target(name) for k, name in enumerate(names)}
            cases = " ".join(f"i32 {k}, label %{labels[block.successors.index(s)]}" for k, s in chosen.items())
            b.terminate(
                f"switch i32 {index}, label %{labels[block.successors.index(chosen[len(names) - 1])]} [{cases}]"
            )
        else:
            condition = self.read(ast.Name(last.guard.register), "pred")  # type: ignore[union-attr]
            taken, through = labels
            b.branch_if(condition, *((through, taken) if last.guard.negated else (taken, through)))  # type: ignore[union-attr]
        for label, target in zip(labels, block.successors):
            b.label(label)
            self._jump(block, region, target)

    def _target(self, name: str) -> int:
        """The block of a label."""
        return self.plan.flow.label_blocks[name]

    def _guard_bits(self, last: Instruction) -> str:
        assert last.guard is not None
        bits = self.bits_of(self.read(ast.Name(last.guard.register), "pred"))
        if last.guard.negated:
            bits = self.b.value(f"xor {self.bits} {bits}, -1")
        return self.b.value(f"and {self.bits} {bits}, {self._active}")

    def _part(self, block: Block, region: Region | None, last: Instruction) -> None:
        """Lanes go different ways."""
        b = self.b
        ways: list[tuple[int, str]] = []
        if last.opcode == "brx":
            ways = self._switched(block, last)
        else:
            taken = self._guard_bits(last)
            ways = [
                (block.successors[0], taken),
                (block.successors[1], b.value(f"xor {self.bits} {taken}, {self._active}")),
            ]
        for target, bits in ways:
            self._edge(target, bits)
        if region is None:
            self._enter(block, ways)
            return
        b.branch(self._next(block.index, region))

    def _switched(self, block: Block, last: Instruction) -> list[tuple[int, str]]:
        b = self.b
        index = self.read(last.operands[0], "u32")
        names = self.plan.flow.flat.targets[last.operands[1].text]  # type: ignore[union-attr]
        bits: dict[int, str] = {}
        rest = self._active
        for k, name in enumerate(names):
            if k == len(names) - 1:
                here = rest
            else:
                equal = self.bits_of(b.compare("eq", "i32", index, str(k)))
                here = b.value(f"and {self.bits} {equal}, {rest}")
                rest = b.value(f"xor {self.bits} {rest}, {here}")
            target = self._target(name)
            bits[target] = b.value(f"or {self.bits} {bits[target]}, {here}") if target in bits else here
        return list(bits.items())

    def _enter(self, block: Block, ways: list[tuple[int, str]]) -> None:
        """From where all lanes are together into a region, or on with those that have not left."""
        b = self.b
        inside = [target for target, _ in ways if self._is_inside(target)]
        staying = [target for target, _ in ways if not self._is_exit(target) and target not in self._masks]
        if any(self._is_exit(target) for target, _ in ways):
            on = b.new_label("on")
            b.branch_if(b.value(f"icmp eq {self.bits} {self.live_bits()}, 0"), "finish", on)
            b.label(on)
        if inside:
            first = min(inside, key=self.plan.flow.position.__getitem__)
            if self._is_backward(block, first):
                control.poll(self)
            b.branch(f"check.{first}")
        elif staying:
            b.branch(f"run.{staying[0]}")
        else:
            b.branch("finish")

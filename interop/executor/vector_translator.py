"""The vector path, last step: a flattened kernel to LLVM IR, one strand of lanes at a time.

The handlers are those of the one-lane path over a :class:`~interop.executor.vector_builder.VectorBuilder`; this module
keeps registers by their kind, masks of the lanes that are active, and the control flow between blocks. Memory and what
lanes do together have handlers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from interop.ptx import Instruction, ast

from . import control, special, vector_memory
from .analysis import Plan
from .builder import Builder
from .errors import malformed
from .fragments import MAX_WORDS
from .modifiers import Modifiers
from .records import Access, BlockField, ThreadField, Wait
from .scopes import Memory, Register
from .storage import Storage
from .translator import Frame, Translator
from .types import BITS, vector
from .vector_builder import Parts, VectorBuilder
from .vector_flatten import Unsuitable
from .vector_flow import SYNCHRONIZING, Block, Flow
from .vector_kinds import UNIFORM, VARYING, Affine, Kind, Kinds, Widened, local_stride, zeros_of


class Mismatch(Exception):
    """A register's value turned out to be of another kind than the analysis found; `number` is the register's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


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


@dataclass
class _Region:
    """Regions that overlap, as one: blocks that run under masks, and the block behind them."""

    blocks: list[int]
    behind: int
    first: int = 0
    exits: bool = False
    waits: list[int] = field(default_factory=list)  # blocks that begin with something that lanes do together
    ends: dict[int, list[int]] = field(default_factory=dict)  # last blocks of loops: the headers, innermost first


@dataclass
class _Slot:
    """Where a register lives between its definitions and uses: one value, or the two of a widened one."""

    type: str
    kind: Kind
    pointer: str
    base: str = ""
    shared: bool = False  # lanes that do not write it may still read what they wrote before


class VectorTranslator(Translator):
    """Translates one flattened kernel."""

    b: VectorBuilder
    plan: VectorPlan

    def __init__(self, builder: VectorBuilder, storage: Storage, plan: VectorPlan) -> None:
        super().__init__(builder, storage, plan, plan.coroutine, False)
        self.frame = Frame(plan.function, [], "finish")
        self._vectors = builder
        self.lanes = plan.lanes
        self.bits = f"i{plan.lanes}"
        self.b.affine("%tid.x", 1, zeros_of(plan.lanes))
        self._slots: dict[str, _Slot] = {}
        self._variables: dict[str, Memory] = {}
        self._bound: dict[str, Memory] = {}
        self._regions: list[_Region] = []
        self._region_of: dict[int, _Region] = {}
        self._find_regions()
        self._live = self.b.scalar_alloca(self.bits)
        self.b.entry.append(f"  store {self.bits} %live, ptr {self._live}")
        self._masks = {k: self._pending_mask() for region in self._regions for k in region.blocks}
        self._released = {k: self._flag() for region in self._regions for k in region.waits}
        self.block: Block = plan.flow.blocks[0]
        self._active = ""  # the active lanes as an integer
        self._active_vector = ""
        self._fragments = ""  # memory of matrix fragments, once there is a matrix instruction
        self._lane_thread = ""  # tid.x, while one lane after the other is translated

    def _pending_mask(self) -> str:
        pointer = self.b.scalar_alloca(self.bits)
        self.b.entry.append(f"  store {self.bits} 0, ptr {pointer}")
        return pointer

    def _flag(self) -> str:
        pointer = self.b.scalar_alloca("i1")
        self.b.entry.append(f"  store i1 false, ptr {pointer}")
        return pointer

    # ---- regions ----

    def _find_regions(self) -> None:
        flow = self.plan.flow
        merged: list[set[int]] = []
        for region in self.plan.kinds.regions:
            region = set(region)
            for other in [m for m in merged if m & region]:
                region |= other
                merged.remove(other)
            if region:
                merged.append(region)
        for blocks in merged:
            ends = set()
            for index in blocks:
                end = flow.ipdom[index]
                while end in blocks:
                    end = flow.ipdom[end]
                ends.add(end)
            if len(ends) != 1:
                raise Unsuitable("lanes that part meet in more than one place")
            ordered = sorted(blocks, key=flow.position.__getitem__)
            region_ = _Region(ordered, ends.pop(), ordered[0])
            region_.waits = [k for k in ordered if self._waits(flow.blocks[k])]
            region_.exits = any(self._leaves(s) for k in ordered for s in flow.blocks[k].successors)
            for loop in sorted(flow.loops, key=lambda found: -found.depth):
                inside_ = [k for k in ordered if k in loop.members]
                if loop.header in blocks and inside_:
                    region_.ends.setdefault(inside_[-1], []).append(loop.header)
            self._regions.append(region_)
            self._region_of.update({k: region_ for k in ordered})

    @staticmethod
    def _waits(block: Block) -> bool:
        first = block.instructions[0] if block.instructions else None
        return first is not None and first.opcode in SYNCHRONIZING - {"activemask"}

    def _leaves(self, index: int) -> bool:
        """Whether going to the block only ends a thread."""
        flow = self.plan.flow
        return index == flow.exit or flow.blocks[index].only_returns

    # ---- names and registers ----

    def lookup(self, name: str) -> Register | Memory | None:
        bound = self._bound.get(name)
        if bound is not None:
            return bound
        number = self.plan.flow.numbers.get(name)
        if number is not None:
            return Register(self.plan.flow.flat.registers[name], name)
        variable = self.plan.flow.flat.variables.get(name)
        if variable is None:
            return self.storage.module_variable(name)
        if name not in self._variables:
            self._variables[name] = self._declare(name)
        return self._variables[name]

    def _declare(self, name: str) -> Memory:
        variable = self.plan.flow.flat.variables[name]
        if variable.space == "shared":
            return self.storage.shared(variable)
        self.storage.check_size(variable, variable.space)
        size = local_stride(variable.size) * self.lanes
        return Memory(variable.space, variable, self.b.scalar_alloca(f"[{size} x i8]", max(variable.alignment, 16)))

    def parameter(self, name: str, memory: Memory) -> None:
        """Makes a kernel parameter known."""
        self._variables[name] = memory

    @contextmanager
    def names_bound(self, names: dict[str, Memory]) -> Iterator[None]:
        """Gives names to memory of one lane."""
        self._bound = names
        yield
        self._bound = {}

    def is_private(self, memory: Memory) -> bool:
        """Whether each lane has a piece of its own of this memory."""
        return memory.space in ("local", "param") and memory.variable not in self.plan.function.params

    def _slot(self, name: str) -> _Slot:
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._new_slot(name)
        return slot

    def _new_slot(self, name: str) -> _Slot:
        flow = self.plan.flow
        type_ = vector(flow.flat.registers[name])
        number = flow.numbers[name]
        kind = self.plan.kinds.of(ast.Name(name)) or UNIFORM
        b = self.b
        if kind == VARYING:
            pointer = Builder.alloca(b, b.wide(type_))
            b.entry.append(f"  store {b.wide(type_)} zeroinitializer, ptr {pointer}")
            kept = any(block.live_in >> number & 1 for block in flow.blocks)
            return _Slot(type_, kind, pointer, shared=kept)
        pointer = b.scalar_alloca(type_)
        b.entry.append(f"  store {type_} zeroinitializer, ptr {pointer}")
        base = ""
        if isinstance(kind, Widened):
            base = b.scalar_alloca("i32")
            b.entry.append(f"  store i32 0, ptr {base}")
        return _Slot(type_, kind, pointer, base)

    def _name(self, name: str, target: str, loose: bool) -> str:
        if special.is_special(name):
            value, from_ = self._special(name)
            bits = f"i{BITS[target]}"
            return self.b.bitcast(self.b.resize(value, from_, bits), bits, target)
        binding = self.lookup(name)
        if isinstance(binding, Register):
            constant = self.plan.kinds.constant(ast.Name(name))
            if constant is not None and self.plan.flow.numbers[name] not in self.plan.kinds.forced:
                from_ = vector(binding.type)
                if from_[0] == "i" and from_ != "i1" and target[0] == "i" and BITS[from_] >= BITS[target] > 1:
                    return self._integer(constant, f"b{BITS[target]}", target)
            return self._fit(self._get(name), vector(binding.type), target, name, loose)
        return super()._name(name, target, loose)

    def _special(self, name: str) -> tuple[str, str]:
        b = self.b
        if name == "%laneid":
            # Strands are whole warps where a kernel asks for its lane.
            return b.affine(b.binary("and", "i32", self._linear(), "31"), 1, 5), "i32"
        if name == "%warpid":
            return b.binary("lshr", "i32", self._linear(), "5"), "i32"
        value, type_ = special.read(self, name)
        if name == "%ntid.x" and self.plan.whole and value[0] == "%":
            b.affine(value, 0, zeros_of(self.lanes))
        return value, type_

    def _linear(self) -> str:
        """The number in the block of the strand's first thread."""
        b = self.b
        row = b.binary("add", "i32", b.binary("mul", "i32", "%tid.z", special.extent(self, "y")), "%tid.y")
        return b.binary("add", "i32", b.binary("mul", "i32", row, special.extent(self, "x")), "%tid.x.first")

    def _get(self, name: str) -> str:
        slot = self._slot(name)
        b = self.b
        if slot.kind == VARYING:
            return b.varying(b.value(f"load {b.wide(slot.type)}, ptr {slot.pointer}"))
        value = b.value(f"load {slot.type}, ptr {slot.pointer}")
        if isinstance(slot.kind, Widened):
            return b.widened(Parts(value, b.value(f"load i32, ptr {slot.base}")), slot.kind)
        assert isinstance(slot.kind, Affine)
        return b.affine(value, slot.kind.stride, slot.kind.zeros)

    def write(self, operand: ast.Operand, type_: str, value: str, loose: bool = False) -> None:
        if isinstance(operand, ast.Name) and operand.text != "_":
            binding = self.lookup(operand.text)
            if not isinstance(binding, Register):
                raise malformed(self.instruction, f"{operand.text} is not a register")
        super().write(operand, type_, value, loose)

    def store_register(self, binding: Register, llvm: str, value: str) -> None:
        slot = self._slot(binding.pointer)
        b = self.b
        kind = b.kind(value)
        if slot.kind == VARYING:
            wide = b.wide(llvm)
            vector_ = b.widen(llvm, value)
            if b.mask and (slot.shared or self.instruction.guard is not None):
                old = b.value(f"load {wide}, ptr {slot.pointer}")
                vector_ = b.value(f"select {b.wide('i1')} {b.mask}, {wide} {vector_}, {wide} {old}")
            b.line(f"store {wide} {vector_}, ptr {slot.pointer}")
            return
        if kind != slot.kind:
            raise Mismatch(self.plan.flow.numbers[binding.pointer])
        if isinstance(kind, Widened):
            parts = b.parts(value)
            b.line(f"store i64 {parts.offset}, ptr {slot.pointer}")
            b.line(f"store i32 {parts.base}, ptr {slot.base}")
        else:
            b.line(f"store {llvm} {value}, ptr {slot.pointer}")

    def address_of(self, memory: Memory, target: str) -> str:
        value = super().address_of(memory, target)
        if not self.is_private(memory):
            return value
        return self.b.affine(value, local_stride(memory.variable.size))

    def thread_ids(self) -> list[tuple[str, str]]:
        """The index of the first active thread."""
        first = self._lane_thread or self.first_thread(self._active)
        return [("i32", first), ("i32", "%tid.y"), ("i32", "%tid.z")]

    def first_thread(self, bits: str) -> str:
        """tid.x of the lowest lane of a mask."""
        b = self.b
        number = Builder.call(b, self.bits, f"llvm.cttz.{self.bits}", [(self.bits, bits), ("i1", "true")])
        return b.value(f"add i32 %tid.x.first, {Builder.resize(b, number, self.bits, 'i32')}")

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

    def _check(self, block: Block, region: _Region) -> None:
        """Goes on to the block if lanes wait for it, else to the next of the region."""
        self.b.label(f"check.{block.index}")
        self.b.branch_if(self._is_ready(block, region), f"run.{block.index}", self._next(block.index, region))

    def _is_ready(self, block: Block, region: _Region) -> str:
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

    def _next(self, index: int, region: _Region) -> str:
        """Where to go on behind a block of a region: to the headers of loops that end there, then to the next block."""
        return f"again.{index}" if index in region.ends else self._following(index, region)

    def _repeat(self, index: int, region: _Region) -> None:
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

    def _following(self, index: int, region: _Region) -> str:
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

    def _release(self, region: _Region, waiting: dict[int, str]) -> None:
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
        if self._leaves(target):
            self._leave(bits)
        elif self._is_inside(target):
            self._pend(target, bits)

    def _is_backward(self, block: Block, target: int) -> bool:
        position = self.plan.flow.position
        return position[target] <= position[block.index]

    def _is_inside(self, target: int) -> bool:
        """Whether lanes that go to the block come to wait for it."""
        return target in self._masks and not self._leaves(target)

    def _leave(self, bits: str) -> None:
        b = self.b
        rest = b.value(f"xor {self.bits} {bits}, -1")
        b.line(f"store {self.bits} {b.value(f'and {self.bits} {self.live_bits()}, {rest}')}, ptr {self._live}")

    def _terminate(self, block: Block, region: _Region | None) -> None:
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

    def _jump(self, block: Block, region: _Region | None, target: int) -> None:
        """All active lanes go to one block."""
        if region is None and not self._leaves(target) and self._is_backward(block, target):
            control.poll(self)
        self._edge(target, self._active)
        if region is None:
            self.b.branch("finish" if self._leaves(target) else f"run.{target}")
        else:
            self.b.branch(self._next(block.index, region))

    def _branch(self, block: Block, region: _Region | None, last: Instruction) -> None:
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

    def _part(self, block: Block, region: _Region | None, last: Instruction) -> None:
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
        staying = [target for target, _ in ways if not self._leaves(target) and target not in self._masks]
        if any(self._leaves(target) for target, _ in ways):
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

    # ---- instructions ----

    def _instruction(self, instruction: Instruction) -> None:
        handler = self.plan.table.get(instruction.opcode)
        self.instruction = instruction
        if handler is None:
            raise Unsuitable(f"the vector path has no {instruction.opcode}")
        if instruction.guard is None:
            self._run(handler, instruction)
            return
        b = self.b
        guard = self.read(ast.Name(instruction.guard.register), "pred")
        inside, behind = b.new_label("do"), b.new_label("skip")
        if b.is_uniform(guard):
            targets = (behind, inside) if instruction.guard.negated else (inside, behind)
            b.branch_if(guard, *targets)
            b.label(inside)
            self._run(handler, instruction)
            b.label(behind)
            return
        kept = self._active, self._active_vector, b.mask
        bits = self._guard_bits(instruction)
        b.branch_if(b.value(f"icmp ne {self.bits} {bits}, 0"), inside, behind)
        b.label(inside)
        self._set_active(bits, True)
        self._run(handler, instruction)
        b.label(behind)
        self._active, self._active_vector, b.mask = kept

    def _run(self, handler: Callable[..., None], instruction: Instruction) -> None:
        modifiers = Modifiers(instruction)
        handler(self, instruction, modifiers)
        modifiers.done()

    # ---- suspension ----

    def suspend(self, wait: Wait) -> None:
        """Gives control to the scheduler; the strand's active lanes wait."""
        b = self.b
        b.store("i32", Builder.resize(b, self._active, self.bits, "i32"), self.thread_field(ThreadField.C))
        super().suspend(wait)
        self._set_active(self._active, bool(b.mask))

    def exchange(self, code: int, words: Sequence[str], count: int) -> list[str]:
        """A matrix instruction of the strand, which is a warp."""
        if self.lanes != 32:
            raise Unsuitable("a matrix instruction")
        b, wide = self._vectors, self._vectors.wide("i32")
        if not self._fragments:
            self._fragments = b.scalar.alloca(f"[{MAX_WORDS * 32} x i32]", 64)
        rows = [b.scalar.offset(self._fragments, 128 * row) for row in range(count + len(words))]
        for row, word in zip(rows[count:], words):
            b.line(f"store {wide} {b.widen('i32', word)}, ptr {row}, align 64")
        members = [("i32", self._active), ("ptr", self._fragments)]
        b.scalar.helper(
            "void", "matrix", [("ptr", "%blk"), ("i32", str(code)), ("i32", str(self.instruction.line)), *members]
        )
        return [b.varying(b.value(f"load {wide}, ptr {row}, align 64")) for row in rows[:count]]

    def address_number(self, operand: ast.Operand, space: str) -> str:
        return vector_memory.number_of(self, operand, space)

    def checkable(self, register: str) -> bool:
        origin = self.plan.flow.flat.origins.get(register)
        return origin is not None and self.plan.checks.checkable(*origin)

    def check_span(self, operand: ast.Operand, address: str, count: str, access: Access) -> None:
        if not self.b.is_uniform(address, count):
            raise Unsuitable("a matrix at an address that differs from lane to lane")
        super().check_span(operand, address, count, access)

    def lane_pointer(self, pointer: str, type_: str, lane: str) -> str:
        """The place of one lane's element in memory that holds a vector."""
        return self.b.value(f"getelementptr {type_}, ptr {pointer}, i64 {lane}")

    def lane_address(self, places: str, lane: str) -> str:
        """The pointer that one lane of spilled addresses holds."""
        scalar = self._vectors.scalar
        return self.pointer_to(scalar.load("i64", self.lane_pointer(places, "i64", lane)))

    def pointer_to(self, address: str) -> str:
        """The pointer to an address of one lane or of all; see :func:`interop.executor.memory.address`."""
        scalar = self._vectors.scalar
        return scalar.pointer_of(address) if self.plan.own_memory else scalar.offset(self.zero, address)

    def lane_memory(self, type_: str) -> str:
        """Memory for an element of each lane."""
        return self._vectors.scalar.alloca(f"[{self.lanes} x {type_}]", 64)

    def spill(self, type_: str, value: str) -> str:
        """A vector in memory, so that one lane after the other can take its element."""
        pointer = self.lane_memory(type_)
        vectors = self._vectors
        vectors.line(f"store {vectors.wide(type_)} {vectors.widen(type_, value)}, ptr {pointer}")
        return pointer

    def each_lane(self, body: Callable[[str], None]) -> None:
        """Emits a loop over the active lanes, lowest first. `body` gets the lane's number as an ``i64``, and a builder
        for one lane in ``self.b``."""
        b = self._vectors.scalar
        before, head, inside, behind, end = (b.new_label(h) for h in ("before", "head", "lane", "done", "end"))
        b.label(before)
        b.branch(head)
        b.label(head)
        left, rest = b.temp("left"), b.temp("rest")
        b.line(f"{left} = phi {self.bits} [ {self._active}, %{before} ], [ {rest}, %{end} ]")
        b.branch_if(b.compare("eq", self.bits, left, "0"), behind, inside)
        b.label(inside)
        number = b.call(self.bits, f"llvm.cttz.{self.bits}", [(self.bits, left), ("i1", "true")])
        self.b = b  # type: ignore[assignment]
        self._lane_thread = b.binary("add", "i32", "%tid.x.first", b.resize(number, self.bits, "i32"))
        body(b.resize(number, self.bits, "i64"))
        self.b, self._lane_thread = self._vectors, ""
        b.branch(end)
        b.label(end)
        less = b.binary("sub", self.bits, left, "1")
        b.line(f"{rest} = and {self.bits} {left}, {less}")
        b.branch(head)
        b.label(behind)

    def block_bytes(self) -> str:
        """The size of the block's shared memory."""
        return self.block_field("i32", int(BlockField.SHARED_BYTES))

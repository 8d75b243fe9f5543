"""The vector path, last step: a flattened kernel to LLVM IR, one strand of lanes at a time.

The handlers are those of the one-lane path over a :class:`~interop.executor.vector_builder.VectorBuilder`; this module
keeps registers by their kind. Masks and the flow between blocks are in :mod:`.vector_control`; memory and what lanes do
together have handlers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from interop.ptx import Instruction, ast

from . import special, vector_memory
from .builder import Builder
from .errors import malformed
from .fragments import MAX_WORDS
from .modifiers import Modifiers
from .records import Access, BlockField, ThreadField, Wait
from .scopes import Memory, Register
from .storage import Storage
from .types import BITS, vector
from .vector_builder import Parts, VectorBuilder
from .vector_control import VectorControl, VectorPlan
from .vector_flatten import Unsuitable
from .vector_kinds import UNIFORM, VARYING, Affine, Kind, Widened, local_stride, zeros_of


class Mismatch(Exception):
    """A register's value turned out to be of another kind than the analysis found; `number` is the register's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass
class _Slot:
    """Where a register lives between its definitions and uses: one value, or the two of a widened one."""

    type: str
    kind: Kind
    pointer: str
    base: str = ""
    shared: bool = False  # lanes that do not write it may still read what they wrote before


class VectorTranslator(VectorControl):
    """Translates one flattened kernel."""

    def __init__(self, builder: VectorBuilder, storage: Storage, plan: VectorPlan) -> None:
        super().__init__(builder, storage, plan)
        self._vectors = builder
        self.b.affine("%tid.x", 1, zeros_of(plan.lanes))
        self._slots: dict[str, _Slot] = {}
        self._variables: dict[str, Memory] = {}
        self._bound: dict[str, Memory] = {}
        self._fragments = ""  # memory of matrix fragments, once there is a matrix instruction
        self._lane_thread = ""  # tid.x, while one lane after the other is translated

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

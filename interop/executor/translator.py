"""One PTX function body to LLVM IR: registers, operands, control flow. Instructions are in the family modules."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from abi import ImageError
from interop.ptx import Function, Instruction, ast

from . import bounds, fragments, memory, special
from .analysis import Plan
from .builder import Builder
from .errors import malformed, place, unsupported
from .local import LocalWindow
from .modifiers import Modifiers
from .pointers import address_of_function
from .records import Access, BlockField, ThreadField, Wait
from .scopes import Binding, Callees, Label, Memory, Register, Scope, Targets, labels_of
from .storage import Storage
from .types import BITS, FLOATS, is_signed, vector


@dataclass
class Frame:
    """One body on its way: the kernel's, or that of a function which is written into its caller."""

    function: Function
    scopes: list[Scope]
    leave: str  # the label behind the body
    carry: str = ""  # the carry flag, once something uses it
    caller: Frame | None = field(default=None, repr=False)


class Translator:
    """Translates one kernel or function. `coroutine` says that it may suspend."""

    def __init__(self, builder: Builder, storage: Storage, plan: Plan, coroutine: bool, independent: bool) -> None:
        self.b = builder
        self.storage = storage
        self.plan = plan
        self.coroutine = coroutine
        # Whether the threads of a block run as one loop whose iterations do not depend on one another.
        self.access = ", !llvm.access.group !1" if independent else ""
        self.frame = Frame(plan.function, [], "leave")
        self.instruction = Instruction("ret", (), ())
        self.fragment = False  # whether the function has asked for the memory of its matrix fragments
        self.zero = self._context("zero", "ptr", BlockField.ZERO)
        self.shared = self._context("shared", "ptr", BlockField.SHARED)
        self.window = LocalWindow(plan, builder)

    def _context(self, name: str, type_: str, offset: int) -> str:
        """A value from the block's record, loaded at the function's entry."""
        entry = self.b.entry
        entry.append(f"  %{name}.at = getelementptr i8, ptr %blk, i64 {int(offset)}")
        entry.append(f"  %{name} = load {type_}, ptr %{name}.at, !invariant.load !0")
        return f"%{name}"

    def block_field(self, type_: str, offset: int) -> str:
        """A value from the block's record, loaded here."""
        return self.b.load(type_, self.b.offset("%blk", offset), ", !invariant.load !0")

    # ---- bodies ----

    def body(self, function: Function, params: dict[str, Memory], leave: str) -> None:
        """Translates a body; control goes on at the label `leave`, which the caller places."""
        if function.body is None:
            raise unsupported(self.instruction, f"the PTX declares {function.name} but does not define it")
        outer = self.frame
        self.frame = Frame(function, [Scope(dict(params))], leave, caller=outer)
        for variable in (*function.params, *function.results):
            if variable.space == "reg":
                self._parameter_register(variable, params[variable.name])
        self.statements(function.body)
        self.b.branch(leave)
        self.frame = outer

    def _parameter_register(self, variable: ast.Variable, memory: Memory) -> None:
        """A parameter of the old form `.reg .b32 a`: a register that the caller's memory backs."""
        self.frame.scopes[-1].names[variable.name] = Register(variable.type, memory.pointer)

    def statements(self, statements: Sequence[ast.Statement]) -> None:
        """Translates the statements of one scope, labels known beforehand."""
        scope = self.frame.scopes[-1]
        for name in labels_of(statements):
            if isinstance(scope.names.get(name), Label):
                raise ImageError(f"the label {name} is declared twice in {self.frame.function.name}")
            scope.names[name] = Label(self.b.new_label("L"))
        for statement in statements:
            if isinstance(statement, ast.Instruction):
                self._instruction(statement)
            elif isinstance(statement, ast.Label):
                label = scope.names[statement.name]
                assert isinstance(label, Label)
                label.placed = True
                self.b.label(label.block)
            elif isinstance(statement, ast.Registers):
                single = scope.declare(statement)
                if single:
                    scope.names[single[0]] = self._register(single[1])
            elif isinstance(statement, ast.Variable):
                scope.names[statement.name] = self._variable(statement)
            elif isinstance(statement, ast.Block):
                self.frame.scopes.append(Scope())
                self.statements(statement.statements)
                self.frame.scopes.pop()
            elif isinstance(statement, ast.Targets) and statement.kind == "branchtargets":
                scope.names[statement.name] = Targets(statement.labels)
            elif isinstance(statement, (ast.Targets, ast.Prototype)):
                scope.names[statement.name] = Callees(statement)

    def _variable(self, variable: ast.Variable) -> Memory:
        if variable.space == "shared":
            return self.storage.shared(variable)
        if variable.space in ("local", "param"):
            self.storage.check_size(variable, variable.space)
            if self.window and variable.space == "local":
                return self.window.memory(variable)
            return Memory(variable.space, variable, self.memory(variable.size, variable.alignment))
        raise unsupported(self.instruction, f"a .{variable.space} variable inside a function")

    def memory(self, size: int, align: int) -> str:
        """Memory of this thread."""
        return self.b.alloca(f"[{max(size, 1)} x i8]", max(align, 1))

    def _instruction(self, instruction: Instruction) -> None:
        handler = self.plan.table.get(instruction.opcode)
        self.instruction = instruction
        if handler is None:
            raise unsupported(instruction)
        behind = ""
        if instruction.guard:
            guard, inside = instruction.guard, self.b.new_label("do")
            behind = self.b.new_label("skip")
            condition = self.read(ast.Name(guard.register), "pred")
            targets = (behind, inside) if guard.negated else (inside, behind)
            self.b.branch_if(condition, *targets)
            self.b.label(inside)
        modifiers = Modifiers(instruction)
        handler(self, instruction, modifiers)
        modifiers.done()
        if behind:
            self.b.label(behind)

    # ---- names ----

    def lookup(self, name: str) -> Binding | None:
        """What `name` means here, innermost scope first; then what the module declares."""
        for scope in reversed(self.frame.scopes):
            binding = scope.names.get(name)
            if binding is not None:
                return binding
            type_ = scope.family_type(name)
            if type_ is not None:
                register = scope.names[name] = self._register(type_)
                return register
        return self.storage.module_variable(name)

    def _register(self, type_: str) -> Register:
        llvm = vector(type_)
        pointer = self.b.alloca(llvm)
        # What is read before it is written is unspecified in PTX, but a branch on it must not be undefined in LLVM.
        self.b.entry.append(f"  store {llvm} zeroinitializer, ptr {pointer}")
        return Register(type_, pointer)

    def label(self, operand: ast.Operand) -> str:
        """The LLVM block of a branch target."""
        binding = self.lookup(operand.text) if isinstance(operand, ast.Name) else None
        if not isinstance(binding, Label):
            raise malformed(self.instruction, "the branch target is not a label of this function")
        return binding.block

    # ---- reading operands ----

    def read(self, operand: ast.Operand, type_: str, loose: bool = False) -> str:
        """The value of an operand as the LLVM type of `type_`. `loose`: a wider register is truncated."""
        target = vector(type_)
        if isinstance(operand, ast.Integer):
            return self._integer(operand.value, type_, target)
        if isinstance(operand, ast.Float):
            return self._float(operand, target)
        if isinstance(operand, ast.Not):
            return self.b.binary("xor", target, self.read(operand.base, type_), "true" if target == "i1" else "-1")
        if isinstance(operand, ast.Name):
            return self._name(operand.text, target, loose)
        if isinstance(operand, ast.Offset):
            base = self.read(operand.base, type_)
            return self.b.binary("add", target, base, str(operand.offset))
        raise malformed(self.instruction, "an operand of this kind is not allowed here")

    def _integer(self, value: int, type_: str, target: str) -> str:
        if target == "i1":
            return "true" if value else "false"
        if type_ in ("f32", "f64"):
            raise malformed(self.instruction, f"{value} is not a floating-point literal")
        bits = BITS[target]
        if not -(1 << (bits - 1)) <= value < 1 << bits and bits < 64:
            value &= (1 << bits) - 1  # assemblers truncate, too
        return str(value - (1 << bits) if value >> (bits - 1) == 1 else value)

    def _float(self, operand: ast.Float, target: str) -> str:
        bits, width = operand.bits, operand.width
        if width == 64 and BITS[target] == 32:
            (value,) = struct.unpack("<d", struct.pack("<Q", bits))
            try:
                (bits,) = struct.unpack("<I", struct.pack("<f", value))
            except OverflowError:
                bits = 0x7F800000 | (bits >> 63 << 31)
            width = 32
        if width != BITS[target]:
            raise malformed(self.instruction, "the literal has another width than the type")
        if target in ("float", "double"):
            return f"bitcast (i{width} {bits} to {target})"
        return str(bits - (1 << width) if bits >> (width - 1) else bits)

    def _name(self, name: str, target: str, loose: bool) -> str:
        if special.is_special(name):
            value, from_ = special.read(self, name)
            bits = f"i{BITS[target]}"
            return self.b.bitcast(self.b.resize(value, from_, bits), bits, target)
        binding = self.lookup(name)
        if isinstance(binding, Register):
            from_ = vector(binding.type)
            return self._fit(self.b.load(from_, binding.pointer), from_, target, name, loose)
        if isinstance(binding, Memory):
            return self.address_of(binding, target)
        if self.plan.module.function(name) is not None:
            where = place(self.instruction.line)
            return self._integer(address_of_function(self.plan.module, name, where), f"b{BITS[target]}", target)
        raise malformed(self.instruction, f"{name} is not declared")

    def _fit(self, value: str, from_: str, target: str, name: str, loose: bool) -> str:
        if from_ == target:
            return value
        have, want = BITS[from_], BITS[target]
        if have == want:
            return self.b.bitcast(value, from_, target)
        if loose and have > want > 1:
            bits = self.b.bitcast(value, from_, f"i{have}")
            return self.b.bitcast(self.b.resize(bits, f"i{have}", f"i{want}"), f"i{want}", target)
        raise malformed(self.instruction, f"the register {name} has {have} bits, the instruction takes {want}")

    def address_of(self, memory: Memory, target: str) -> str:
        """The address of a variable in its own state space, as an integer."""
        if memory.space == "shared" or (memory.space == "local" and self.window):
            return str(memory.offset)
        if BITS[target] != 64:
            raise unsupported(self.instruction, f"a 32-bit address of a .{memory.space} variable")
        return self.b.integer_of(memory.pointer)

    # ---- writing results ----

    def write(self, operand: ast.Operand, type_: str, value: str, loose: bool = False) -> None:
        """Stores a result. `loose`: a wider register gets it extended as its type says."""
        if not isinstance(operand, ast.Name):
            raise malformed(self.instruction, "the destination is not a register")
        if operand.text == "_":
            return
        binding = self.lookup(operand.text)
        if not isinstance(binding, Register):
            raise malformed(self.instruction, f"{operand.text} is not a register")
        from_, target = vector(type_), vector(binding.type)
        have, want = BITS[from_], BITS[target]
        if have == want:
            value = self.b.bitcast(value, from_, target)
        elif loose and 1 < have < want and type_ not in FLOATS:
            value = self.b.resize(value, from_, f"i{want}", is_signed(type_))
            value = self.b.bitcast(value, f"i{want}", target)
        elif loose and 1 < have < want:
            bits = self.b.bitcast(value, from_, f"i{have}")
            value = self.b.bitcast(self.b.resize(bits, f"i{have}", f"i{want}"), f"i{want}", target)
        else:
            raise malformed(
                self.instruction, f"the register {operand.text} has {want} bits, the instruction yields {have}"
            )
        self.store_register(binding, target, value)

    def store_register(self, binding: Register, llvm: str, value: str) -> None:
        """Stores a value of the register's own type."""
        self.b.store(llvm, value, binding.pointer)

    def operand(self, index: int) -> ast.Operand:
        """The operand at `index` of the current instruction."""
        try:
            return self.instruction.operands[index]
        except IndexError:
            raise malformed(self.instruction, f"it has only {len(self.instruction.operands)} operands") from None

    # ---- suspension ----

    def thread_field(self, offset: ThreadField) -> str:
        return self.b.offset("%thr", int(offset))

    def suspend(self, wait: Wait) -> None:
        """Gives control to the scheduler until it has resolved what the thread waits for."""
        if not self.coroutine:
            raise unsupported(self.instruction, "in a function that is not part of the kernel's own code")
        b = self.b
        b.store("i32", str(int(wait)), self.thread_field(ThreadField.WAIT))
        b.store("i32", str(self.instruction.line), self.thread_field(ThreadField.SITE))
        self.pause()

    def pause(self) -> None:
        """Suspends the coroutine; what the thread waits for has been said."""
        b = self.b
        b.module.declare("i8", "llvm.coro.suspend", ["token", "i1"])
        state = b.value("call i8 @llvm.coro.suspend(token none, i1 false)")
        on = b.new_label("resumed")
        b.terminate(f"switch i8 {state}, label %suspend [i8 0, label %{on} i8 1, label %cleanup]")
        b.label(on)

    def exchange(self, code: int, words: Sequence[str], count: int) -> list[str]:
        """Takes part in a matrix instruction of the warp."""
        return fragments.exchange(self, code, words, count)

    def address_number(self, operand: ast.Operand, space: str) -> str:
        """The address of a memory operand as an ``i64``, without a check."""
        return self.b.integer_of(memory.address(self, operand, space))

    def checkable(self, register: str) -> bool:
        """Whether an address in a register may be compared with the buffers of the launch."""
        return self.plan.checks.checkable(self.frame.function, register)

    def check_span(self, operand: ast.Operand, address: str, count: str, access: Access) -> None:
        """Checks an access to `count` (i32) bytes from `address` on, which `operand` names; none where that is 0."""
        bounds.check_span(self, operand, address, count, access)

    def check_stack(self, line: int, size: str) -> str:
        """Stops the kernel if the stack has no room for `size` more bytes, and what every function needs."""
        arguments = [("ptr", "%blk"), *self.thread_ids(), ("i32", str(line)), ("i64", size)]
        return self.b.helper("i64", "check_stack", arguments)

    def thread_ids(self) -> list[tuple[str, str]]:
        """The thread's index in the block, as arguments of a call."""
        return [("i32", "%tid.x"), ("i32", "%tid.y"), ("i32", "%tid.z")]

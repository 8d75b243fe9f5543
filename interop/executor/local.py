"""Local memory addressed in 32 bits.

LLVM has a mode in which pointers to shared, constant and local memory are 32 bits wide, and Triton uses it. A host
address does not fit, so that a kernel which takes such an address of a local variable gets a window: one piece of
memory for all its local variables, in which addresses in the state space `.local`, of either width, are offsets.
"""

from __future__ import annotations

from interop.ptx import Instruction, Variable, ast

from .analysis import Plan, instructions, names_in, variables
from .builder import Builder
from .errors import unsupported
from .scopes import Memory

_NARROW = {"b32", "u32", "s32"}


class LocalWindow:
    """The window of a kernel's local variables; false where addresses are the host's, which is nearly always."""

    def __init__(self, plan: Plan, builder: Builder) -> None:
        self._memory: dict[int, Memory] = {}
        self.pointer = ""
        taken = _narrow_address(plan)
        if taken is None:
            return
        if len(plan.reachable) > 1:
            raise unsupported(taken, "a 32-bit address of a .local variable in a kernel that calls functions")
        local = [v for v in variables(plan.function.body or ()) if v.space == "local"]
        offsets, end = [], 0
        for variable in local:
            end = -(-end // variable.alignment) * variable.alignment
            offsets.append(end)
            end += variable.size
        self.pointer = builder.alloca(f"[{max(end, 1)} x i8]", max(16, *(v.alignment for v in local)))
        for variable, offset in zip(local, offsets):
            name = builder.temp("m")
            builder.entry.append(f"  {name} = getelementptr i8, ptr {self.pointer}, i64 {offset}")
            self._memory[id(variable)] = Memory("local", variable, name, offset)

    def __bool__(self) -> bool:
        return bool(self.pointer)

    def memory(self, variable: Variable) -> Memory:
        """Where a variable of the kernel lies."""
        return self._memory[id(variable)]


def needs_window(plan: Plan) -> bool:
    """Whether the kernel takes a 32-bit address of a local variable."""
    return _narrow_address(plan) is not None


def _narrow_address(plan: Plan) -> Instruction | None:
    """The first instruction that takes a 32-bit address of a local variable."""
    for function in plan.reachable:
        body = function.body or ()
        local = {v.name for v in variables(body) if v.space == "local"}
        if not local:
            continue
        for instruction in instructions(body):
            narrow = instruction.opcode in ("mov", "add") and _NARROW & set(instruction.modifiers)
            if narrow and any(n in local for o in instruction.operands for n in _values(o)):
                return instruction
    return None


def _values(operand: ast.Operand) -> list[str]:
    return [] if isinstance(operand, ast.Address) else list(names_in(operand))

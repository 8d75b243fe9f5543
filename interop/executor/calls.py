"""Calls: functions of the PTX, and the few that every CUDA device provides.

A function that cannot suspend becomes an LLVM function; its parameters and results are passed as pointers to the memory
that the PTX declares for the call, which LLVM turns into values. One that may suspend is written into its caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abi import UnsupportedError
from interop.ptx import Function, Instruction, Variable, ast

from .analysis import callee
from .errors import malformed, unsupported
from .modifiers import Modifiers
from .scopes import Memory
from .table import Table
from .types import BITS, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


@dataclass(frozen=True)
class _Call:
    """The three parts of a call."""

    name: str
    results: tuple[ast.Operand, ...]
    arguments: tuple[ast.Operand, ...]


def _parts(i: Instruction) -> _Call:
    name = callee(i)
    if name is None:
        raise unsupported(i, "an indirect call")
    position = next(k for k, o in enumerate(i.operands) if isinstance(o, ast.Name))
    before = i.operands[0] if position == 1 else None
    behind = i.operands[position + 1] if len(i.operands) > position + 1 else None
    if isinstance(behind, ast.Name):
        raise unsupported(i, "an indirect call")
    return _Call(
        name,
        before.items if isinstance(before, ast.Group) else (),
        behind.items if isinstance(behind, ast.Group) else (),
    )


@TABLE("call")
def call(t: Translator, i: Instruction, m: Modifiers) -> None:
    """A direct call."""
    m.flag("uni")
    parts = _parts(i)
    function = t.plan.module.function(parts.name)
    if function is not None and function.parse_body is not None:
        _call_function(t, i, parts, function)
    elif parts.name in _BUILTINS:
        _BUILTINS[parts.name](t, i, parts)
    else:
        raise UnsupportedError(
            str(unsupported(i, f"the PTX does not define {parts.name}, and the CPU device does not provide it"))
        )


def _call_function(t: Translator, i: Instruction, parts: _Call, function: Function) -> None:
    if function.is_entry:
        raise unsupported(i, f"{function.name} is a kernel, and a kernel is launched, not called")
    if len(parts.arguments) != len(function.params) or len(parts.results) != len(function.results):
        raise malformed(i, f"{function.name} takes {len(function.params)} and returns {len(function.results)} values")
    bound: dict[str, Memory] = {}
    for variable, operand in zip(function.params, parts.arguments):
        pointer = _place(t, operand, variable)
        if function.name in t.plan.inlined and variable.space == "reg":
            # The callee may write its parameter, which is a register of its own.
            copy = t.memory(variable.size, variable.alignment)
            llvm = vector(variable.type)
            t.b.store(llvm, t.b.load(llvm, pointer), copy)
            pointer = copy
        bound[variable.name] = Memory("param", variable, pointer)
    later: list[tuple[ast.Operand, Variable, str]] = []
    for variable, operand in zip(function.results, parts.results):
        pointer = _memory_of(t, operand)
        if not pointer:
            pointer = t.memory(variable.size, variable.alignment)
            later.append((operand, variable, pointer))
        bound[variable.name] = Memory("param", variable, pointer)
    if function.name in t.plan.inlined:
        _write_in(t, i, function, bound)
    else:
        arguments = [("ptr", "%blk"), *t.thread_ids(), *(("ptr", memory.pointer) for memory in bound.values())]
        name = f"func.{t.plan.function.name}.{function.name}"
        t.b.line(f'call void @"{name}"({", ".join(f"{a} {b}" for a, b in arguments)})')
    for operand, variable, pointer in later:
        t.write(operand, variable.type, t.b.load(vector(variable.type), pointer))


def _write_in(t: Translator, i: Instruction, function: Function, bound: dict[str, Memory]) -> None:
    """The callee's body in place of the call."""
    frame, depth = t.frame, 0
    while frame.caller is not None:
        if frame.function is function:
            raise unsupported(i, f"{function.name} calls itself and has barriers or warp operations")
        frame, depth = frame.caller, depth + 1
    behind = t.b.new_label("returned")
    t.body(function, bound, behind)
    t.b.label(behind)
    t.instruction = i


def _memory_of(t: Translator, operand: ast.Operand) -> str:
    """The memory of a ``.param`` variable that is passed as it is; empty for anything else."""
    binding = t.lookup(operand.text) if isinstance(operand, ast.Name) else None
    return binding.pointer if isinstance(binding, Memory) and binding.space in ("param", "local") else ""


def _place(t: Translator, operand: ast.Operand, variable: Variable) -> str:
    """Memory that holds an argument."""
    pointer = _memory_of(t, operand)
    if not pointer:
        pointer = t.memory(variable.size, variable.alignment)
        t.b.store(vector(variable.type), t.read(operand, variable.type), pointer)
    return pointer


# ---- functions of the device ----


def _argument(t: Translator, operand: ast.Operand, llvm: str) -> str:
    """The value of an argument, from its memory or register."""
    pointer = _memory_of(t, operand)
    return t.b.load(llvm, pointer) if pointer else t.read(operand, f"b{BITS[llvm]}")


def _pointer(t: Translator, operand: ast.Operand) -> str:
    return t.b.offset(t.zero, _argument(t, operand, "i64"))


def _return(t: Translator, operand: ast.Operand, llvm: str, value: str) -> None:
    pointer = _memory_of(t, operand)
    if pointer:
        t.b.store(llvm, value, pointer)
    else:
        t.write(operand, f"b{BITS[llvm]}", value)


def _vprintf(t: Translator, i: Instruction, parts: _Call) -> None:
    format_, arguments = (_pointer(t, o) for o in parts.arguments)
    count = t.b.helper("i32", "vprintf", [("ptr", "%blk"), ("ptr", format_), ("ptr", arguments)])
    if parts.results:
        _return(t, parts.results[0], "i32", count)


def _assertfail(t: Translator, i: Instruction, parts: _Call) -> None:
    message, file = _pointer(t, parts.arguments[0]), _pointer(t, parts.arguments[1])
    line = _argument(t, parts.arguments[2], "i32")
    arguments = [("ptr", "%blk"), *t.thread_ids(), ("ptr", message), ("ptr", file), ("i32", line)]
    t.b.helper("void", "assertfail", arguments)
    t.b.terminate("unreachable")


_BUILTINS: dict[str, Callable[[Translator, Instruction, _Call], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
}

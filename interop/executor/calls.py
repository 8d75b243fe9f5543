"""Calls: direct and indirect ones of functions of the PTX.

A function that cannot suspend becomes an LLVM function; its parameters and results are passed as pointers to the memory
that the PTX declares for the call, which LLVM turns into values. One that may suspend is written into its caller or,
where it may come to call itself, is a coroutine whose caller waits until it is done. An indirect call becomes a
switch over the functions that it may reach, each called in one of these ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interop.ptx import Function, Instruction, Variable, ast

from . import stack
from .device_functions import BUILTINS
from .errors import malformed, unsupported
from .modifiers import Modifiers
from .pointers import address_of_function, call_target, is_indirect, reachable_by
from .records import ThreadField
from .scopes import Callees, Memory
from .table import Table
from .types import vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


@dataclass(frozen=True)
class _Call:
    """The parts of a call; ``shape`` names the prototype or the list of targets of an indirect one."""

    target: str
    results: tuple[ast.Operand, ...]
    arguments: tuple[ast.Operand, ...]
    shape: str = ""


def _parts(i: Instruction) -> _Call:
    position = call_target(i)
    target = i.operands[position] if i.operands else None
    if not isinstance(target, ast.Name) or position > 1:
        raise malformed(i, "a call names a function, or a register with a prototype behind it")
    groups = [
        o.items if isinstance(o, ast.Group) else () for o in (*i.operands[:position], *i.operands[position + 1 :])
    ]
    shape = i.operands[-1] if is_indirect(i) else None
    behind = groups[position:] or [()]
    return _Call(
        target.text, groups[0] if position else (), behind[0], shape.text if isinstance(shape, ast.Name) else ""
    )


@TABLE("call")
def call(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Calls of functions by name or by address, and of what every CUDA device provides."""
    m.flag("uni")
    parts = _parts(i)
    function = t.plan.module.function(parts.target)
    if parts.shape:
        _call_indirect(t, i, parts)
    elif function is not None and function.parse_body is not None:
        _call_function(t, i, parts, function)
    elif parts.target in BUILTINS:
        BUILTINS[parts.target](t, i, parts.results, parts.arguments)
    elif parts.target.startswith("cuda"):
        raise unsupported(i, f"{parts.target} is for launches from kernels, which the CPU device does not have")
    else:
        raise unsupported(i, f"the PTX does not define {parts.target}, and the CPU device does not provide it")


def _call_function(t: Translator, i: Instruction, parts: _Call, function: Function) -> None:
    if function.is_entry:
        raise unsupported(i, f"{function.name} is a kernel, and a kernel is launched, not called")
    passed = _pass(t, i, parts, function.params, function.results, function.name)
    _enter(t, i, function, passed)
    _fetch(t, passed)


def _call_indirect(t: Translator, i: Instruction, parts: _Call) -> None:
    """A switch over the functions that the address may be one of; anything else stops the kernel."""
    binding = t.lookup(parts.shape)
    if not isinstance(binding, Callees):
        raise malformed(i, f"{parts.shape} is neither a prototype nor a list of functions")
    shape = binding.shape
    functions = reachable_by(shape, t.plan.taken)
    if isinstance(shape, ast.Prototype):
        passed = _pass(t, i, parts, shape.params, shape.results, shape.name)
    else:
        first = t.plan.module.function(shape.labels[0]) if shape.labels else None
        if first is None:
            raise malformed(i, f"{shape.name} lists no function of this module")
        passed = _pass(t, i, parts, first.params, first.results, first.name)
    b = t.b
    address = t.read(ast.Name(parts.target), "u64")
    values = [address_of_function(t.plan.module, f.name, "") for f in functions]
    labels = [b.new_label("callee") for _ in functions]
    nowhere, behind = b.new_label("nowhere"), b.new_label("called")
    b.switch("i64", address, nowhere, list(zip(values, labels)))
    for function, label in zip(functions, labels):
        b.label(label)
        _enter(t, i, function, passed)
        b.branch(behind)
    b.label(nowhere)
    b.helper("void", "no_function", [("ptr", "%blk"), *t.thread_ids(), ("i32", str(i.line)), ("i64", address)])
    b.terminate("unreachable")
    b.label(behind)
    _fetch(t, passed)


@dataclass
class _Passed:
    """Memory of arguments and results, and the results that go on into registers."""

    arguments: list[str]
    results: list[str]
    later: list[tuple[ast.Operand, Variable, str]]


def _pass(
    t: Translator, i: Instruction, parts: _Call, params: Sequence[Variable], results: Sequence[Variable], name: str
) -> _Passed:
    """Puts the arguments where the callee finds them."""
    if len(parts.arguments) != len(params) or len(parts.results) != len(results):
        raise malformed(i, f"{name} takes {len(params)} and returns {len(results)} values")
    passed = _Passed([_place(t, o, v) for v, o in zip(params, parts.arguments)], [], [])
    for variable, operand in zip(results, parts.results):
        pointer = _memory_of(t, operand, variable)
        if not pointer:
            pointer = t.memory(variable.size, variable.alignment)
            passed.later.append((operand, variable, pointer))
        passed.results.append(pointer)
    return passed


def _fetch(t: Translator, passed: _Passed) -> None:
    for operand, variable, pointer in passed.later:
        t.write(operand, variable.type, t.b.load(vector(variable.type), pointer))


def _enter(t: Translator, i: Instruction, function: Function, passed: _Passed) -> None:
    """The call itself, or the callee's body in its place."""
    pointers = [("ptr", p) for p in (*passed.arguments, *passed.results)]
    if function.name in t.plan.nested:
        _nest(t, i, function, pointers)
        return
    if function.name not in t.plan.inlined:
        t.b.call_local(f"func.{t.plan.function.name}.{function.name}", [("ptr", "%blk"), *t.thread_ids(), *pointers])
        return
    bound: dict[str, Memory] = {}
    for variable, pointer in zip(function.params, passed.arguments):
        if variable.space == "reg":
            # The callee may write its parameter, which is a register of its own.
            copy = t.memory(variable.size, variable.alignment)
            llvm = vector(variable.type)
            t.b.store(llvm, t.b.load(llvm, pointer), copy)
            pointer = copy
        bound[variable.name] = Memory("param", variable, pointer)
    bound.update({v.name: Memory("param", v, p) for v, p in zip(function.results, passed.results)})
    top = stack.save(t) if stack.allocates(function) else ""
    behind = t.b.new_label("returned")
    t.body(function, bound, behind)
    t.b.label(behind)
    t.instruction = i
    if top:
        stack.restore(t, top)


def _nest(t: Translator, i: Instruction, function: Function, pointers: list[tuple[str, str]]) -> None:
    """A call of a coroutine: where the callee is suspended, so is the caller until the scheduler finds it done."""
    b = t.b
    arguments = [("ptr", "%blk"), ("ptr", "%thr"), *t.thread_ids(), *pointers]
    top = stack.save(t) if stack.allocates(function) else ""
    callee = b.call_local(f"coro.{t.plan.function.name}.{function.name}", arguments, "ptr")
    wait, behind = b.new_label("wait"), b.new_label("returned")
    b.branch_if(b.call("i1", "llvm.coro.done", [("ptr", callee)]), behind, wait)
    b.label(wait)
    t.pause()
    b.label(behind)
    b.call("void", "llvm.coro.destroy", [("ptr", callee)])
    if top:
        stack.restore(t, top)
    ended, on = b.new_label("ended"), b.new_label("on")
    exited = b.load("i32", t.thread_field(ThreadField.EXITED))
    b.branch_if(b.compare("ne", "i32", exited, "0"), ended, on)
    b.label(ended)
    frame = t.frame
    while frame.caller is not None and frame.caller.scopes:
        frame = frame.caller
    b.branch(frame.leave)
    b.label(on)


def _memory_of(t: Translator, operand: ast.Operand, variable: Variable) -> str:
    """The memory of a ``.param`` variable that is passed as it is; empty for anything else."""
    binding = t.lookup(operand.text) if isinstance(operand, ast.Name) else None
    if not isinstance(binding, Memory) or binding.space not in ("param", "local"):
        return ""
    if 0 < binding.variable.size < variable.size:
        raise malformed(t.instruction, f"{binding.variable.name} is smaller than {variable.name}, which it stands for")
    return binding.pointer


def _place(t: Translator, operand: ast.Operand, variable: Variable) -> str:
    """Memory that holds an argument."""
    pointer = _memory_of(t, operand, variable)
    if not pointer:
        pointer = t.memory(variable.size, variable.alignment)
        t.b.store(vector(variable.type), t.read(operand, variable.type), pointer)
    return pointer

"""alloca, stacksave, stackrestore: on the host's stack, or on one of the thread's own where it may be suspended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Function, Instruction, ast

from .analysis import instructions
from .errors import malformed
from .modifiers import Modifiers
from .table import Table
from .types import vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_MAX_ALIGNMENT = 4096


@TABLE("alloca")
def alloca(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Memory of a size known at run time, until the function returns or ``stackrestore``."""
    type_ = m.type()
    size = t.b.resize(t.read(t.operand(1), type_), vector(type_), "i64")
    align = 8
    if len(i.operands) > 2:
        given = t.operand(2)
        align = given.value if isinstance(given, ast.Integer) else 0
    if align & (align - 1) or not 1 <= align <= _MAX_ALIGNMENT:
        raise malformed(i, f"an alignment is a power of two up to {_MAX_ALIGNMENT}")
    if t.coroutine:
        arguments = [("ptr", "%blk"), ("ptr", "%thr"), ("i32", str(i.line)), ("i64", size), ("i64", str(align))]
        address = t.b.helper("i64", "alloca", arguments)
    else:
        address = t.b.integer_of(t.b.dynamic_alloca(t.check_stack(i.line, size), align))
    t.write(t.operand(0), "u64", address)


@TABLE("stacksave")
def stacksave(t: Translator, i: Instruction, m: Modifiers) -> None:
    """The stack as it is now."""
    m.type()
    t.write(t.operand(0), "u64", save(t))


@TABLE("stackrestore")
def stackrestore(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Back to what ``stacksave`` saw."""
    m.type()
    restore(t, t.read(t.operand(0), "u64"))


def allocates(function: Function) -> bool:
    """Whether a body uses ``alloca``."""
    return any(i.opcode == "alloca" for i in instructions(function.body or ()))


def save(t: Translator) -> str:
    """The top of the stack, an ``i64``."""
    if t.coroutine:
        return t.b.helper("i64", "stack_save", [("ptr", "%thr")])
    return t.b.integer_of(t.b.call("ptr", "llvm.stacksave.p0", []))


def restore(t: Translator, top: str) -> None:
    """Gives back what was allocated since :func:`save` returned `top`."""
    if t.coroutine:
        t.b.helper("void", "stack_restore", [("ptr", "%blk"), ("ptr", "%thr"), ("i64", top)])
    else:
        t.b.call("void", "llvm.stackrestore.p0", [("ptr", t.b.pointer_of(top))])

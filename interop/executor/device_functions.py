"""The functions that every CUDA device provides: printf, assertions, the heap.

What else the compilers may call without defining it belongs to launches from kernels, and is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed
from .scopes import Memory
from .types import BITS

if TYPE_CHECKING:
    from .translator import Translator

    Operands = Sequence[ast.Operand]


def _memory(t: Translator, operand: ast.Operand) -> str:
    """The memory of a ``.param`` variable; empty for anything else."""
    binding = t.lookup(operand.text) if isinstance(operand, ast.Name) else None
    return binding.pointer if isinstance(binding, Memory) and binding.space in ("param", "local") else ""


def _argument(t: Translator, operands: Operands, index: int, llvm: str) -> str:
    """The value of an argument, from its memory or register."""
    if index >= len(operands):
        raise malformed(t.instruction, f"it passes only {len(operands)} values")
    pointer = _memory(t, operands[index])
    return t.b.load(llvm, pointer) if pointer else t.read(operands[index], f"b{BITS[llvm]}")


def _pointer(t: Translator, operands: Operands, index: int) -> str:
    return t.b.pointer_of(_argument(t, operands, index, "i64"))


def _return(t: Translator, results: Operands, llvm: str, value: str) -> None:
    """Gives a result to a call that wants it."""
    if not results:
        return
    pointer = _memory(t, results[0])
    if pointer:
        t.b.store(llvm, value, pointer)
    else:
        t.write(results[0], f"b{BITS[llvm]}", value)


def _vprintf(t: Translator, i: Instruction, results: Operands, arguments: Operands) -> None:
    """vprintf(format, buffer of arguments); the number of arguments printed."""
    format_, values = _pointer(t, arguments, 0), _pointer(t, arguments, 1)
    _return(t, results, "i32", t.b.helper("i32", "vprintf", [("ptr", "%blk"), ("ptr", format_), ("ptr", values)]))


def _assertfail(t: Translator, i: Instruction, results: Operands, arguments: Operands) -> None:
    """__assertfail(message, file, line, function, size of a character): stops the kernel."""
    message, file = _pointer(t, arguments, 0), _pointer(t, arguments, 1)
    line = _argument(t, arguments, 2, "i32")
    t.b.helper("void", "assertfail", [("ptr", "%blk"), *t.thread_ids(), ("ptr", message), ("ptr", file), ("i32", line)])
    t.b.terminate("unreachable")


def _malloc(t: Translator, i: Instruction, results: Operands, arguments: Operands) -> None:
    """malloc(bytes): memory that lives until it is freed, by whatever kernel; 0 where none is left."""
    _return(t, results, "i64", t.b.helper("i64", "malloc", [("i64", _argument(t, arguments, 0, "i64")), ("i64", "16")]))


def _aligned_malloc(t: Translator, i: Instruction, results: Operands, arguments: Operands) -> None:
    """__nv_aligned_device_malloc(bytes, alignment)."""
    sizes = [("i64", _argument(t, arguments, 0, "i64")), ("i64", _argument(t, arguments, 1, "i64"))]
    _return(t, results, "i64", t.b.helper("i64", "malloc", sizes))


def _free(t: Translator, i: Instruction, results: Operands, arguments: Operands) -> None:
    """free(pointer); a pointer that malloc has not returned, or that was freed before, stops the kernel."""
    pointer = _argument(t, arguments, 0, "i64")
    t.b.helper("void", "free", [("ptr", "%blk"), *t.thread_ids(), ("i32", str(i.line)), ("i64", pointer)])


BUILTINS: dict[str, Callable[[Translator, Instruction, Operands, Operands], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
    "malloc": _malloc,
    "free": _free,
    "__nv_aligned_device_malloc": _aligned_malloc,
}
"""Handlers by name; they take the operands of the results and of the arguments."""

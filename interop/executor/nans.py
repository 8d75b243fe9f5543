"""Where a NaN gets the bits that the hardware gives it.

f32 arithmetic yields one NaN, 0x7FFFFFFF, whatever NaN went in; a host keeps the payload. To mend that behind every
addition would cost as much as the addition, and nobody looks: arithmetic takes any NaN for a NaN. So a register that
only arithmetic writes may hold any NaN, and gets the right one where its bits come to light: before an instruction
that stores it, moves it or looks at it as an integer. A pass over the body puts a pseudo-instruction there, and a mark
on the arithmetic; their names cannot stand in a PTX text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from interop.ptx import Function, Instruction, Module, ast

if TYPE_CHECKING:
    from .translator import Translator

MEND = "%nan"
"""The pseudo-instruction: ``%nan.f32 a`` gives the register a the hardware's NaN if it holds one."""
ANY = "%any"
"""The modifier of arithmetic whose result may be any NaN."""

_SAFE = {"rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN", "xorsign", "abs", "f32"}
_ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh",
               "neg", "abs", "min", "max"}  # fmt: skip
_TO_NUMBERS = {"f16", "bf16", *(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))}


def mend(module: Module) -> Module:
    """The module with marks and pseudo-instructions; bodies are read when they are asked for, as before."""
    functions = tuple(f if f.parse_body is None else _mended(f) for f in module.functions)
    return replace(module, functions=functions)


def _mended(function: Function) -> Function:
    def body() -> tuple[ast.Statement, ...]:
        statements = function.body
        assert statements is not None
        registers = _Registers(function, statements)
        return tuple(_rewritten(statements, registers)) if registers.lazy else statements

    return replace(function, parse_body=body)


def _is_arithmetic(i: Instruction) -> bool:
    return i.opcode in _ARITHMETIC and i.modifiers[-1:] == ("f32",) and _SAFE.issuperset(i.modifiers)


def _takes_any(i: Instruction) -> bool:
    """Whether the instruction takes every NaN for the same."""
    if i.opcode in ("setp", "set"):
        return i.modifiers[-1] == "f32"
    if i.opcode == "cvt":
        return i.modifiers[-1] == "f32" and len(i.modifiers) > 1 and i.modifiers[-2] in _TO_NUMBERS
    return _is_arithmetic(i)


def _passes(i: Instruction) -> tuple[ast.Operand, ...] | None:
    """The operands of which one is passed on as it is; None for other instructions."""
    if i.modifiers not in (("f32",), ("b32",)):
        return None
    return i.operands[1:] if i.opcode == "mov" else i.operands[1:3] if i.opcode == "selp" else None


class _Registers:
    """Registers of a function that hold results of arithmetic, numbers, copies of such registers, and nothing else.

    :ivar allowed: all of these.
    :ivar lazy: those of them that arithmetic, at first or at second hand, writes.
    """

    def __init__(self, function: Function, statements: tuple[ast.Statement, ...]) -> None:
        from .analysis import instructions, names_in

        arithmetic: set[str] = set()
        excluded = {variable.name for variable in (*function.params, *function.results)}
        copies: list[tuple[str, tuple[ast.Operand, ...]]] = []
        for i in instructions(statements):
            destination = i.operands[0] if i.operands else None
            passed = _passes(i)
            if isinstance(destination, ast.Name) and _is_arithmetic(i):
                arithmetic.add(destination.text)
            elif isinstance(destination, ast.Name) and passed is not None:
                copies.append((destination.text, passed))
            else:
                for operand in i.operands if i.opcode == "call" else i.operands[:1]:
                    excluded.update(names_in(operand))
        self.allowed = (arithmetic | {name for name, _ in copies}) - excluded
        self.lazy = self.allowed & arithmetic
        if self.lazy:
            self._follow(copies)

    def _follow(self, copies: list[tuple[str, tuple[ast.Operand, ...]]]) -> None:
        """What may get a copy of anything else is out; what gets a copy of a lazy register is lazy."""
        before = -1
        while before != len(self.allowed):
            before = len(self.allowed)
            self.allowed -= {name for name, passed in copies if not all(map(self.is_allowed, passed))}
        self.lazy &= self.allowed
        before = -1
        while before != len(self.lazy):
            before = len(self.lazy)
            self.lazy |= {name for name, passed in copies if any(map(self.is_lazy, passed))} & self.allowed

    def is_allowed(self, operand: ast.Operand) -> bool:
        if isinstance(operand, ast.Integer):
            return operand.value & 0x7FFFFFFF <= 0x7F800000
        if isinstance(operand, ast.Float):
            infinity = 0x7F800000 if operand.width == 32 else 0x7FF << 52
            return operand.bits & ((1 << (operand.width - 1)) - 1) <= infinity
        return isinstance(operand, ast.Name) and operand.text in self.allowed

    def is_lazy(self, operand: ast.Operand) -> bool:
        return isinstance(operand, ast.Name) and operand.text in self.lazy


def _rewritten(statements: tuple[ast.Statement, ...], registers: _Registers) -> Iterator[ast.Statement]:
    from .analysis import names_in

    for statement in statements:
        if isinstance(statement, ast.Block):
            yield replace(statement, statements=tuple(_rewritten(statement.statements, registers)))
            continue
        if not isinstance(statement, Instruction) or not statement.operands:
            yield statement
            continue
        destination, passed = statement.operands[0], _passes(statement)
        if _is_arithmetic(statement) and registers.is_lazy(destination):
            yield replace(statement, modifiers=(ANY, *statement.modifiers))
        elif _takes_any(statement) or (passed is not None and registers.is_lazy(destination)):
            yield statement
        else:
            read = statement.operands[1:] if isinstance(destination, ast.Name) else statement.operands
            for name in dict.fromkeys(n for operand in read for n in names_in(operand) if n in registers.lazy):
                yield replace(statement, opcode=MEND, modifiers=("f32",), operands=(ast.Name(name),), guard=None)
            yield statement


def canonical(t: Translator, value: str) -> str:
    """The f32 with the hardware's NaN.

    By way of integers: of floats LLVM may take one NaN for another, as it does for the square root of what is negative.
    """
    b = t.b
    bits = b.bitcast(value, "float", "i32")
    nan = b.compare("ugt", "i32", b.binary("and", "i32", bits, "2147483647"), str(0x7F800000))
    return b.bitcast(b.select(nan, "i32", "2147483647", bits), "i32", "float")

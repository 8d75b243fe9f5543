"""Pointers to functions: what their values are, and which functions an indirect call may reach.

The address of a function is a number that the text alone decides, so that all kernels of a text agree on what lies in
its tables of functions; no code lies there. An indirect call compares the number with those of the functions that it
may reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Union

from abi import UnsupportedError
from interop.ptx import Function, Instruction, Module, Variable, ast

_SPACING = 16  # so that an address with a small offset is nobody's


def address_of_function(module: Module, name: str, where: str) -> int:
    """The address of the function `name`; `where` begins an error.

    :raises UnsupportedError: for a kernel, and for a function that the text does not define.
    """
    function = module.function(name)
    if function is not None and function.is_entry:
        raise UnsupportedError(
            f"{where}: the address of the kernel {name}; the CPU device does not launch from kernels"
        )
    if function is None or function.parse_body is None:
        raise UnsupportedError(f"{where}: the address of {name}, which the PTX does not define")
    return (module.function_order[name] + 1) * _SPACING


def call_target(instruction: Instruction) -> int:
    """Where among the operands of a call its target stands: behind the results, if there are any."""
    return next((k for k, o in enumerate(instruction.operands) if isinstance(o, ast.Name)), 0)


def is_indirect(instruction: Instruction) -> bool:
    """Whether a call goes through a register: then a prototype or a list of targets is its last operand."""
    operands = instruction.operands
    return call_target(instruction) + 1 < len(operands) and isinstance(operands[-1], ast.Name)


def address_taken(module: Module, instructions: Iterable[Instruction]) -> tuple[Function, ...]:
    """The functions whose addresses `instructions` or the module's variables hold, in the order of the text."""
    names: set[str] = set()
    for variable in module.variables:
        for value in variable.initializer or ():
            names.update(_names(value))
    for instruction in instructions:
        skipped = call_target(instruction) if instruction.opcode == "call" else -1
        for index, operand in enumerate(instruction.operands):
            if index != skipped:
                names.update(_names(operand))
    order = module.function_order
    found = {
        f.name: f for f in map(module.function, names & order.keys()) if f is not None and f.parse_body is not None
    }
    return tuple(found[name] for name in sorted(found, key=order.__getitem__))


def _names(operand: ast.Operand) -> Iterator[str]:
    if isinstance(operand, ast.Name):
        yield operand.text
    elif isinstance(operand, (ast.Offset, ast.Generic, ast.Masked)):
        yield from _names(operand.base)
    elif isinstance(operand, (ast.Group, ast.Vector)):
        for item in operand.items:
            yield from _names(item)


Shape = Union[ast.Prototype, ast.Targets]


def reachable_by(shape: Shape, taken: Iterable[Function]) -> tuple[Function, ...]:
    """Which of the functions in `taken` a call with that prototype or list of targets may reach."""
    if isinstance(shape, ast.Targets):
        return tuple(f for f in taken if f.name in shape.labels)
    return tuple(f for f in taken if _fits(shape.params, f.params) and _fits(shape.results, f.results))


def _fits(wanted: tuple[Variable, ...], given: tuple[Variable, ...]) -> bool:
    """Whether parameters are passed alike: as many, of the same sizes. An array without a size takes any."""
    return len(wanted) == len(given) and all(
        not w.size or not g.size or w.size == g.size for w, g in zip(wanted, given)
    )

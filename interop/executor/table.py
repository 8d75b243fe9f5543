"""The table of instructions: opcode to the function that translates it. One module a family."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interop.ptx import Instruction

from .modifiers import Modifiers

if TYPE_CHECKING:
    # The translator, of one lane or of several; an instruction; its modifiers.
    Handler = Callable[[Any, Instruction, Modifiers], None]


class Table(dict[str, "Handler"]):
    """A family's instructions.

    >>> table = Table()
    >>> @table("membar", "fence")
    ... def fence(t, i, m): ...
    >>> sorted(table)
    ['fence', 'membar']
    """

    def __call__(self, *opcodes: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            for opcode in opcodes:
                assert opcode not in self, opcode
                self[opcode] = handler
            return handler

        return register


_FAMILIES = (
    "async_copy",
    "atomics",
    "bits",
    "calls",
    "compare",
    "control",
    "convert",
    "floats",
    "integer",
    "matrix",
    "mbarrier",
    "memory",
    "misc",
    "newer",
    "packed",
    "stack",
    "video",
    "warp",
    "wmma",
)


def instruction_table() -> Table:
    """All families together."""
    table = Table()
    for family in _FAMILIES:
        for opcode, handler in import_module(f".{family}", __package__).TABLE.items():
            assert opcode not in table, f"two families translate {opcode}"
            table[opcode] = handler
    return table

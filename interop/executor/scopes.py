"""Names in a PTX body: nested scopes, registers that are declared by the family, labels, variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from interop.ptx import ast


@dataclass
class Register:
    """A register: its PTX type and the memory that stands for it until LLVM makes it a value."""

    type: str
    pointer: str


@dataclass
class Memory:
    """A variable. ``pointer`` is an LLVM pointer; for shared memory ``offset`` counts from the block's window."""

    space: str
    variable: ast.Variable
    pointer: str = ""
    offset: int = 0


@dataclass
class Label:
    """A label and the LLVM block that it became. ``placed``: the code has come past it, a jump to it closes a loop."""

    block: str
    placed: bool = False


@dataclass
class Targets:
    """A list of labels for ``brx.idx``."""

    labels: tuple[str, ...]


@dataclass
class Callees:
    """What an indirect call passes and gets: a prototype, or a list of functions to choose from."""

    shape: ast.Prototype | ast.Targets


Binding = Union[Register, Memory, Label, Targets, Callees]


@dataclass
class Scope:
    """One ``{ … }``: what is declared in it, and families of registers by prefix."""

    names: dict[str, Binding] = field(default_factory=dict)
    families: dict[str, tuple[str, int]] = field(default_factory=dict)

    def declare(self, registers: ast.Registers) -> tuple[str, str] | None:
        """Notes a declaration. For a single register its (name, type), which the caller binds at once."""
        if registers.count is None:
            return registers.name, registers.type
        self.families[registers.name] = (registers.type, registers.count)
        return None

    def family_type(self, name: str) -> str | None:
        """The type of ``%r12`` when ``%r<20>`` is declared here."""
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        # A prefix may itself end in digits: `%rd1<4>` declares `%rd10` … `%rd13`.
        while digits:
            found = self.families.get(prefix)
            if found is not None and (len(digits) == 1 or digits[0] != "0") and int(digits) < found[1]:
                return found[0]
            prefix, digits = prefix + digits[0], digits[1:]
        return None


def labels_of(statements: Sequence[ast.Statement]) -> list[str]:
    """Labels declared directly in `statements`, not in scopes inside them."""
    return [s.name for s in statements if isinstance(s, ast.Label)]

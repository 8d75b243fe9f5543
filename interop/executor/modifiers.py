"""The dotted parts of an opcode, taken one by one; what is left over was not understood and is an error."""

from __future__ import annotations

from interop.ptx import Instruction
from interop.ptx.ast import TYPE_BITS

from .errors import malformed, unsupported


class Modifiers:
    """A handler takes what it knows; :meth:`done` refuses the rest, so that no modifier is ever ignored by accident.

    >>> m = Modifiers(Instruction("add", ("rn", "ftz", "f32"), ()))
    >>> m.take("rn", "rz"), m.flag("ftz"), m.flag("sat"), m.type()
    ('rn', True, False, 'f32')
    >>> m.done()
    """

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.rest = list(instruction.modifiers)

    def flag(self, name: str) -> bool:
        """Whether `name` is there; it is taken."""
        if name in self.rest:
            self.rest.remove(name)
            return True
        return False

    def take(self, *names: str, default: str = "") -> str:
        """The first modifier that is one of `names`, or `default`."""
        for modifier in self.rest:
            if modifier in names:
                self.rest.remove(modifier)
                return modifier
        return default

    def drop(self, *names: str) -> None:
        """Takes all of `names`: modifiers that change nothing here."""
        self.rest = [m for m in self.rest if m not in names]

    def drop_prefixes(self, *prefixes: str) -> None:
        """Takes every modifier that begins with one of `prefixes`."""
        self.rest = [m for m in self.rest if not m.startswith(prefixes)]

    def type(self) -> str:
        """The last type."""
        for index in range(len(self.rest) - 1, -1, -1):
            if self.rest[index] in TYPE_BITS:
                return self.rest.pop(index)
        raise malformed(self.instruction, "a type is missing")

    def has_type(self) -> bool:
        return any(m in TYPE_BITS for m in self.rest)

    def done(self) -> None:
        """Raises for a modifier that nothing has taken."""
        if self.rest:
            raise unsupported(self.instruction, f"the modifier .{self.rest[0]}")

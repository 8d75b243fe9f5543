"""Compile errors: what a kernel's author sees. Each prints the place, the source line, a caret, and what to do.

>>> location = Location("blur.py", 3, 5, 9, "    y[i] = 1", "blur")
>>> print(RaceError("y is written with a plain integer", location, help="index it with simt.global_index()"))
blur.py:3:5: error: y is written with a plain integer
    3 |     y[i] = 1
      |     ^~~~
help: index it with simt.global_index()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import abi
from abi import Error


@dataclass(frozen=True)
class Location:
    """A piece of one source line. Columns count characters from 1; ``end_column`` is one past the last.

    ``file`` is where the source lies here and now; ``embedded`` is the path that images carry, which does not depend on
    that, so that the same source gives the same bytes everywhere.
    """

    file: str
    line: int
    column: int
    end_column: int
    text: str = ""
    function: str = ""
    embedded: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The source line with a caret under the piece; empty when the text is not known."""
        if not self.text.strip():
            return ""
        number = str(self.line)
        before = self.text[: self.column - 1]
        # Tabs are repeated in the caret line, so that the caret stands right whatever their width.
        indent = "".join("\t" if c == "\t" else " " for c in before)
        width = max(1, min(self.end_column, len(self.text) + 1) - self.column)
        return f"    {number} | {self.text}\n    {' ' * len(number)} | {indent}^{'~' * (width - 1)}"


@dataclass(frozen=True)
class Note:
    """A second place that explains an error."""

    message: str
    location: Location | None = None

    def __str__(self) -> str:
        if self.location is None:
            return f"note: {self.message}"
        excerpt = self.location.excerpt()
        return f"{self.location}: note: {self.message}" + (f"\n{excerpt}" if excerpt else "")


class CompileError(Error):
    """A kernel's source does not compile.

    :ivar message: what is wrong, in one sentence.
    :ivar location: where; None when there is no source line to show.
    :ivar notes: other places that explain it, nearest cause first.
    :ivar help: what to do about it; may be empty.
    """

    def __init__(
        self, message: str, location: Location | None = None, *, help: str = "", notes: Sequence[Note] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.help = help
        self.notes = tuple(notes)

    def __str__(self) -> str:
        lines = [f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"]
        if self.location and (excerpt := self.location.excerpt()):
            lines.append(excerpt)
        lines += [str(note) for note in self.notes]
        if self.help:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class SyntaxError_(CompileError):
    """The source is not a well-formed kernel: a missing annotation, a malformed decorator, a misplaced word."""


class TypeError_(CompileError):
    """An expression has the wrong type, or a variable has different types on two paths."""


class RaceError(CompileError):
    """Two threads could touch one element: a write or read that no thread-index witness protects."""


class DivergenceError(CompileError):
    """A barrier stands where some threads of the block may not arrive."""


class UnsupportedError(CompileError, abi.UnsupportedError):
    """The construct is valid Python but not part of the kernel language; the message names it."""


__all__ = [
    "CompileError", "DivergenceError", "Location", "Note", "RaceError", "SyntaxError_", "TypeError_",
    "UnsupportedError",
]  # fmt: skip

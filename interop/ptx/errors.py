"""The error that the reader raises for text that is not PTX."""

from __future__ import annotations

from abi import ImageError


class PtxSyntaxError(ImageError):
    """The text is not well-formed PTX. The message has the line, the column, the source line and a caret.

    >>> raise PtxSyntaxError("expected ';'", ".version 8.0\\n", 12, "k.ptx")
    Traceback (most recent call last):
        ...
    interop.ptx.errors.PtxSyntaxError: k.ptx:1:13: expected ';'
        1 | .version 8.0
          |             ^

    :ivar line: counted from 1; 0 when the place is not known.
    :ivar column: counted from 1.
    """

    def __init__(self, message: str, text: str = "", position: int = -1, file: str = "ptx") -> None:
        self.message = message
        self.line = 0
        self.column = 0
        if position >= 0:
            start = text.rfind("\n", 0, position) + 1
            self.line = text.count("\n", 0, position) + 1
            self.column = position - start + 1
            end = text.find("\n", position)
            message = f"{file}:{self.line}:{self.column}: {message}\n" + _excerpt(
                text[start : end if end >= 0 else len(text)].rstrip("\r"), self.line, self.column
            )
        super().__init__(message)


def _excerpt(line: str, number: int, column: int, width: int = 160) -> str:
    """The line with a caret under `column`; only the neighbourhood when the line is very long."""
    start = max(0, column - 1 - width // 2) if len(line) > width else 0
    shown = line[start : start + width]
    indent = "".join("\t" if c == "\t" else " " for c in shown[: column - 1 - start])
    shown = "".join(c if c.isprintable() or c == "\t" else "?" for c in shown)
    return f"    {number} | {shown}\n    {' ' * len(str(number))} | {indent}^"

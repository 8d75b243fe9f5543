"""PTX text to tokens. One regular expression; no token spans a construct, so that hostile text costs linear time."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import PtxSyntaxError

_TOKEN = re.compile(
    r"""
      (?P<space>   [ \t\r\n\f\v]+ | //[^\n]* )
    | (?P<comment> /\* )
    | (?P<float>   0[fF][0-9a-fA-F]{8}(?![\w$]) | 0[dD][0-9a-fA-F]{16}(?![\w$]) )
    | (?P<decimal> \d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ )
    | (?P<integer> 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U? )
    | (?P<word>    [A-Za-z_$%][\w$]*(?:\.\w+(?:::\w+)*)* )
    | (?P<dotted>  \.[A-Za-z_]\w*(?:::\w+)* )
    | (?P<string>  "(?:[^"\\\n]|\\.)*" )
    | (?P<mark>    [{}()\[\],;:|!@+\-<>=*/&^~?.] )
    """,
    re.VERBOSE | re.ASCII,
)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


class Token(NamedTuple):
    """``kind`` is the group of the expression above, or ``end``; a mark's kind is the mark itself."""

    kind: str
    text: str
    position: int


class Lexer:
    """Tokens of a span of a text, with one token of lookahead."""

    def __init__(self, text: str, start: int = 0, end: int | None = None, line: int = 1) -> None:
        """`line` is that of `start`."""
        self.text = text
        self.end = len(text) if end is None else end
        self._position = start
        self._line = line
        self._counted = start
        # Where the next of each mark is, from some position on: searching for one character at a time is faster than an
        # expression, and what was found is kept, so that a text without the mark is searched once.
        self._following = dict.fromkeys('{}"/', -1)
        self.token = self._scan()

    def error(self, message: str, position: int | None = None) -> PtxSyntaxError:
        """The error to raise at the current token, or at `position`."""
        return PtxSyntaxError(message, self.text, self.token.position if position is None else position)

    def next(self) -> Token:
        """The current token; moves on to the one behind it."""
        token = self.token
        self.token = self._scan()
        return token

    def line(self) -> int:
        """The line of the current token. Lines are asked for in order, so that counting stays linear."""
        return self.line_of(self.token.position)

    def line_of(self, position: int) -> int:
        """The line of a position that is not before one that was asked for."""
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def move(self, position: int) -> None:
        """Goes on at `position`, which is not before the current token."""
        if position > self.token.position:
            self._position = position
            self.token = self._scan()

    def accept(self, text: str) -> bool:
        """Whether the current token is `text`; then moves on."""
        if self.token.text != text or self.token.kind in ("string", "end"):
            return False
        self.token = self._scan()
        return True

    def back_to(self, position: int) -> None:
        """Reads on from `position`, inside or before the current token."""
        self._position = position
        self.token = self._scan()

    def expect(self, text: str) -> Token:
        """The current token, which must be `text`."""
        if self.token.text != text or self.token.kind in ("string", "end"):
            raise self.error(f"expected '{text}', found {self.found()}")
        return self.next()

    def expect_kind(self, kind: str, what: str) -> Token:
        """The current token, which must be of `kind`; `what` says it in words."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}, found {self.found()}")
        return self.next()

    def found(self) -> str:
        """The current token for a message."""
        return "the end of the text" if self.token.kind == "end" else f"'{self.token.text[:40]}'"

    def skip_line(self, start: int | None = None) -> None:
        """Moves behind the line of the current token, or of `start`; for directives that a line end terminates."""
        newline = self.text.find("\n", self.token.position if start is None else start, self.end)
        self._position = self.end if newline < 0 else newline
        self.token = self._scan()

    def skip_braces(self) -> tuple[int, int]:
        """Skips ``{ … }`` from the current token, without reading what is inside; the span of the inside."""
        opening = self.expect("{").position
        find, end = self.text.find, self.end
        depth, position = 1, opening + 1
        following = self._following
        while depth:
            for mark, at in following.items():
                if at < position:
                    at = find(mark, position, end)
                    following[mark] = end if at < 0 else at
            mark = min(following, key=following.__getitem__)
            at = following[mark]
            if at >= end:
                raise self.error("this '{' is never closed", opening)
            position = at + 1
            if mark == "{":
                depth += 1
            elif mark == "}":
                depth -= 1
            else:
                position = self._skip_opaque(mark, at)
        self._position = position
        self.token = self._scan()
        return opening + 1, position - 1

    def _skip_opaque(self, mark: str, start: int) -> int:
        """The end of the comment or string that begins at `start`; a slash by itself is nothing."""
        if mark == "/" and self.text[start + 1 : start + 2] not in ("/", "*"):
            return start + 1
        if self.text.startswith("//", start):
            newline = self.text.find("\n", start, self.end)
            return self.end if newline < 0 else newline
        if mark == "/":
            return self._comment_end(start)
        string = _STRING.match(self.text, start, self.end)
        if string is None:
            raise self.error("this string is never closed", start)
        return string.end()

    def _scan(self) -> Token:
        while True:
            match = _TOKEN.match(self.text, self._position, self.end)
            if match is None:
                if self._position >= self.end:
                    return Token("end", "", self.end)
                character = self.text[self._position]
                raise PtxSyntaxError(f"unexpected character {character!r}", self.text, self._position)
            start, self._position = match.span()
            kind = match.lastgroup or ""
            if kind == "space":
                continue
            if kind == "comment":
                self._position = self._comment_end(start)
                continue
            text = match.group()
            return Token(text if kind == "mark" else kind, text, start)

    def _comment_end(self, start: int) -> int:
        close = self.text.find("*/", start + 2, self.end)
        if close < 0:
            raise PtxSyntaxError("this comment is never closed", self.text, start)
        return close + 2

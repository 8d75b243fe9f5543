"""Reads the signatures of a PTX text: ``.entry`` parameter lists and launch bounds, without parsing bodies.

>>> text = ".version 8.0 .target sm_80 .address_size 64 .visible .entry f(.param .u64 p, .param .u8 flag) { ret; }"
>>> [str(p.slot) for p in read_entries(text)["f"].params]
['Slot(offset=0, size=8, align=8)', 'Slot(offset=8, size=1, align=1)']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import Error, ImageError, UnsupportedError
from .layout import align_up
from .records import Block, BlockKind, Slot

MAX_SIZE = 1 << 20
"""Bytes of one parameter; far above every device's limit, so that a hostile size stays an error and not a number."""


class PtxSignatureError(ImageError):
    """The text is not PTX where a signature is read. ``line`` counts from 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"PTX line {line}: {problem}")
        self.line = line


@dataclass(frozen=True)
class EntryParam:
    """One entry of the parameter list.

    ``type_text`` is the PTX type (``.u64``, ``.b8[24]``), ``kind`` its letter: ``u s f b``. ``pointer_space`` is
    ``global``, ``generic`` … for a parameter declared ``.ptr``, else empty; ``pointer_align`` its pointee's alignment.
    """

    name: str
    slot: Slot
    type_text: str
    kind: str
    pointer_space: str = ""
    pointer_align: int = 0


@dataclass(frozen=True)
class Entry:
    """A kernel as its image declares it. Bounds that are not given are None."""

    symbol: str
    params: tuple[EntryParam, ...]
    line: int
    reqntid: tuple[int, int, int] | None = None
    maxntid: tuple[int, int, int] | None = None
    minnctapersm: int | None = None
    cluster: tuple[int, int, int] | None = None

    @property
    def block(self) -> Block:
        """The rule for a block that the image's bounds make."""
        if self.reqntid:
            return Block(BlockKind.EXACT, self.reqntid)
        return Block(BlockKind.UP_TO, self.maxntid) if self.maxntid else Block()


@dataclass(frozen=True)
class PtxHeader:
    """``version`` as ``8.0``, ``target`` as ``sm_80``, ``options`` what else ``.target`` lists."""

    version: str
    target: str
    options: tuple[str, ...]
    address_size: int


@dataclass(frozen=True)
class PtxSignatures:
    """All that :func:`read_signatures` reads."""

    header: PtxHeader
    entries: dict[str, Entry]


# Scanning for these alone is what makes 10 MB a matter of milliseconds. A string ends at its line's end.
_DIRECTIVE = re.compile(r"\.(?:entry|version|target|address_size)\b")
_SKIPPED = re.compile(r'//[^\n]*|/\*|"[^"\n]*"?')
_LANDMARK = re.compile(f"{_SKIPPED.pattern}|{_DIRECTIVE.pattern}")
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"[A-Za-z_$%][\w$]*|\.[A-Za-z_][\w:]*|[0-9]+\.[0-9]+|[0-9][0-9A-Fa-fxXU]*|\"[^\"\n]*\"|[(){}\[\],;<>@=:+-]"
)
# What compilers write: no comments between the parameters, no bounds behind them.
_PLAIN_ENTRY = re.compile(r'\s+([A-Za-z_$%][\w$]*)\s*\(([^()/"{}]*)\)\s*\{')
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_SCALAR = re.compile(r"\.([usfb])(8|16|32|64|128)\Z")
_OTHER_TYPES = {".bf16": ("f", 2), ".f16x2": ("f", 4), ".bf16x2": ("f", 4), ".e4m3": ("b", 1), ".e5m2": ("b", 1)}
_SPACES = (".global", ".shared", ".const", ".local", ".param", ".generic")
_OPAQUE = (".texref", ".samplerref", ".surfref", ".pred")


def read_entries(text: str) -> dict[str, Entry]:
    """Every ``.entry`` of a PTX text by symbol; :class:`ImageError` with the line when it cannot be read."""
    return read_signatures(text).entries


def read_header(text: str) -> PtxHeader:
    """``.version``, ``.target`` and ``.address_size`` of a PTX text."""
    return read_signatures(text).header


def read_signatures(text: str) -> PtxSignatures:
    """Header and entries of a PTX text in one pass."""
    reader = _Reader(text)
    version, address_size = "", 0
    target: tuple[str, ...] = ("",)
    entries: dict[str, Entry] = {}
    while (start := reader.next_directive()) is not None:
        word = reader.take()
        if word == ".entry":
            entry = reader.entry(start)
            if entry.symbol in entries:
                raise reader.error(f"a second .entry '{entry.symbol}'", start)
            entries[entry.symbol] = entry
        elif word == ".version":
            version = reader.version()
        elif word == ".target":
            target = reader.names()
        else:
            address_size = reader.integer("an address size")
    if not version or not target[0]:
        missing = ".version" if not version else ".target"
        raise PtxSignatureError(f"this is not PTX: there is no {missing} directive", 1)
    return PtxSignatures(PtxHeader(version, target[0], tuple(target[1:]), address_size or 32), entries)


class _Reader:
    """Tokens from a position on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._counted = (0, 1)  # a position and its line, so that lines are counted once
        # Compilers write no block comments. Without them a directive's own line tells whether it is commented out, and
        # the scan need not stop at every comment.
        self.has_block_comments = "/*" in text

    def next_directive(self) -> int | None:
        """Moves to the next directive of interest outside comments and strings, and returns its position."""
        pattern = _LANDMARK if self.has_block_comments else _DIRECTIVE
        while match := pattern.search(self.text, self.position):
            start = match.start()
            if self.text[start] == ".":
                self.position = start
                if self.has_block_comments or not self._is_skipped(start):
                    return start
                self.position = match.end()
            elif match.group() == "/*":
                self.position = start
                end = self.text.find("*/", match.end())
                if end < 0:
                    raise self.error("a comment that does not end")
                self.position = end + 2
            else:
                self.position = match.end()
        return None

    def _is_skipped(self, position: int) -> bool:
        """Whether a comment or string that starts on the same line covers `position`."""
        begin = self.text.rfind("\n", 0, position) + 1
        while (match := _SKIPPED.search(self.text, begin, position + 1)) is not None:
            end = _SKIPPED.match(self.text, match.start())
            if end is None or end.end() > position:
                return True
            begin = end.end()
        return False

    def error(self, problem: str, position: int | None = None) -> PtxSignatureError:
        where = self.position if position is None else position
        return PtxSignatureError(problem, self.line(where))

    def line(self, position: int) -> int:
        """The line of `position`, from 1."""
        start, line = self._counted if self._counted[0] <= position else (0, 1)
        line += self.text.count("\n", start, position)
        self._counted = (position, line)
        return line

    def peek(self) -> str:
        """The next token without taking it; empty at the end."""
        space = _SPACE.match(self.text, self.position)
        if space:
            self.position = space.end()
        match = _TOKEN.match(self.text, self.position)
        if match:
            return match.group()
        if self.position < len(self.text):
            if self.text.startswith("/*", self.position):
                raise self.error("a comment that does not end")
            raise self.error(f"unexpected character {self.text[self.position]!r}")
        return ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token:
            raise self.error(f"the text ends where {wanted or 'more'} is expected")
        self.position += len(token)
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.position += len(token)
        return True

    def expect(self, token: str, context: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected '{token}' {context}, found '{_short(self.peek())}'")

    def integer(self, what: str) -> int:
        token = self.take(what)
        digits = token.rstrip("U")
        if len(digits) > 12 or not re.fullmatch(r"[0-9]+|0[xX][0-9A-Fa-f]+", digits):
            raise self.error(f"expected {what}, found '{_short(token)}'")
        return int(digits, 16 if digits[:2] in ("0x", "0X") else 10)

    def identifier(self, what: str) -> str:
        token = self.take(what)
        if not (token[0].isalpha() or token[0] in "_$%"):
            raise self.error(f"expected {what}, found '{_short(token)}'")
        return token

    # -- directives ------------------------------------------------------------------------------------------------

    def version(self) -> str:
        token = self.take("a version")
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", token):
            raise self.error(f"expected a version such as 8.0, found '{_short(token)}'")
        return token

    def names(self) -> tuple[str, ...]:
        found = [self.identifier("a target such as sm_80")]
        while self.accept(","):
            found.append(self.identifier("a target option"))
        return tuple(found)

    def entry(self, start: int) -> Entry:
        match = _PLAIN_ENTRY.match(self.text, self.position)
        params = _plain_params(match.group(2)) if match else None
        if match is None or params is None:
            return self._any_entry(start)
        self.position = match.end()
        return Entry(match.group(1), params, self.line(start))

    def _any_entry(self, start: int) -> Entry:
        symbol = self.identifier("a kernel's name after .entry")
        params: list[EntryParam] = []
        if self.accept("(") and not self.accept(")"):
            offset = 0
            while True:
                param = self.param(offset)
                params.append(param)
                offset = param.slot.offset + param.slot.size
                if not self.accept(","):
                    break
            self.expect(")", f"after the parameters of '{symbol}'")
        bounds = self.bounds(symbol)
        line = self.line(start)
        per_sm = bounds.get(".minnctapersm")
        return Entry(
            symbol,
            tuple(params),
            line,
            _shape(bounds.get(".reqntid")),
            _shape(bounds.get(".maxntid")),
            per_sm[0] if per_sm else None,
            _shape(bounds.get(".reqnctapercluster")),
        )

    def bounds(self, symbol: str) -> dict[str, list[int]]:
        """The performance directives between the parameter list and the body."""
        result: dict[str, list[int]] = {}
        while True:
            token = self.take(f"the body of '{symbol}'")
            if token in ("{", ";"):
                return result
            if token[0] != ".":
                raise self.error(f"expected a directive or the body of '{symbol}', found '{_short(token)}'")
            values = result.setdefault(token, [])
            while (follower := self.peek()) and (follower[0].isdigit() or follower[0] in ',"'):
                if follower[0].isdigit():
                    values.append(self.integer(f"a number after {token}"))
                else:
                    self.take()
            if token in (".reqntid", ".maxntid", ".reqnctapercluster") and not 1 <= len(values) <= 3:
                raise self.error(f"{token} takes one to three numbers")
            if token == ".minnctapersm" and len(values) != 1:
                raise self.error(f"{token} takes one number")

    def param(self, offset: int) -> EntryParam:
        """One ``.param`` declaration that comes at or after `offset` in the buffer."""
        self.expect(".param", "in a parameter list")
        align = pointer_align = 0
        space, type_text, vector = "", "", 1
        while (token := self.peek()).startswith("."):
            self.take()
            if token == ".align":
                value = self.alignment()
                if space:
                    pointer_align = value
                else:
                    align = value
            elif token == ".ptr":
                space = "generic"
            elif token in _SPACES and space:
                space = token[1:]
            elif token in (".v2", ".v4"):
                vector = int(token[2:])
            elif token in _OPAQUE:
                raise UnsupportedError(f"{self.error(f'kernel parameters of type {token} are not supported')}")
            elif not type_text and (token in _OTHER_TYPES or _SCALAR.match(token)):
                type_text = token
            else:
                raise self.error(f"'{_short(token)}' is not expected in a parameter")
        if not type_text:
            raise self.error("a parameter without a type")
        name = self.identifier("a parameter's name")
        kind, size = _scalar(type_text)
        align = align or size * vector
        count = self.counts()
        total = size * vector * (1 if count is None else count)
        if total > MAX_SIZE:
            raise self.error(f"parameter '{name}' has {total} bytes")
        text = (f".v{vector}" if vector > 1 else "") + type_text + ("" if count is None else f"[{count}]")
        return EntryParam(name, Slot(align_up(offset, align), total, align), text, kind, space, pointer_align)

    def counts(self) -> int | None:
        """``[n]``, or ``[n][m]`` as its product; None when there is no bracket."""
        count = None
        while self.accept("["):
            extent = self.integer("an array's size")
            if extent > MAX_SIZE:
                raise self.error(f"an array of {extent} elements in a parameter list")
            count = extent if count is None else min(count * extent, MAX_SIZE + 1)
            self.expect("]", "after an array's size")
        return count

    def alignment(self) -> int:
        value = self.integer("an alignment")
        if not 1 <= value <= MAX_SIZE or value & (value - 1):
            raise self.error(f"an alignment of {value} is not a power of two")
        return value


_forms: dict[tuple[str, str], EntryParam] = {}  # declarations by all but the name; a program has few


def _plain_params(text: str) -> tuple[EntryParam, ...] | None:
    """The parameters of a plain list, each form of declaration read once; None where the reader has to look."""
    found: list[EntryParam] = []
    offset = 0
    if not text or text.isspace():
        return ()
    for declaration in text.split(","):
        head, _, name = declaration.strip().rpartition(" ")
        name, bracket, extent = name.partition("[")
        form = _forms.get((head, extent))
        if form is None:
            form = _read_form(f"{head} _{bracket}{extent}")
            if form is None:
                return None
            if len(_forms) >= 4096:
                _forms.clear()
            _forms[head, extent] = form
        if not _NAME.fullmatch(name):
            return None
        slot = form.slot
        if slot.offset != offset:
            start = align_up(offset, slot.align)
            slot = Slot(start, slot.size, slot.align)
        found.append(EntryParam(name, slot, form.type_text, form.kind, form.pointer_space, form.pointer_align))
        offset = slot.offset + slot.size
    return tuple(found)


def _read_form(declaration: str) -> EntryParam | None:
    reader = _Reader(declaration)
    try:
        param = reader.param(0)
        return None if reader.peek() else param
    except Error:
        return None


def _scalar(type_text: str) -> tuple[str, int]:
    """Kind and bytes of a scalar PTX type."""
    if type_text in _OTHER_TYPES:
        return _OTHER_TYPES[type_text]
    match = _SCALAR.match(type_text)
    assert match is not None
    return match.group(1), int(match.group(2)) // 8


def _shape(values: list[int] | None) -> tuple[int, int, int] | None:
    if not values:
        return None
    x, y, z = (values + [1, 1])[:3]
    return x, y, z


def _short(token: str) -> str:
    return token if len(token) <= 40 else token[:40] + "…"

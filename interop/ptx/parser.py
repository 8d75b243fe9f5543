"""Parsing of a module: headers, variables, functions. Bodies are only skipped; they are parsed when asked for."""

from __future__ import annotations

from collections.abc import Callable

from . import ast
from .body import BodyParser
from .declarations import SPACES, parse_directives, parse_parameters, parse_variables
from .errors import PtxSyntaxError
from .lexer import Lexer
from .literals import parse_integer

_LINKAGE = {".visible", ".extern", ".weak", ".common"}


def parse(text: str) -> ast.Module:
    """Reads PTX of any compiler.

    >>> module = parse(".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }")
    >>> list(module.entries)
    ['k']

    :raises PtxSyntaxError: when `text` is not PTX. Errors inside a body are raised when the body is first asked for.
    """
    if not isinstance(text, str):
        raise TypeError(f"PTX is text, not {type(text).__name__}")
    return _ModuleParser(text.rstrip("\0")).parse()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._version: tuple[int, int] | None = None
        self._target: tuple[str, ...] = ()
        self._address_size = 64
        self._functions: list[ast.Function] = []
        self._defined: set[str] = set()
        self._variables: list[ast.Variable] = []
        self._files: list[tuple[int, str]] = []
        self._aliases: list[tuple[str, str]] = []

    def parse(self) -> ast.Module:
        lexer = self._lexer
        if lexer.token.text != ".version":
            raise lexer.error(f"expected .version, found {lexer.found()}")
        while lexer.token.kind != "end":
            self._item()
        if not self._target:
            raise lexer.error("the module has no .target")
        assert self._version is not None
        return ast.Module(
            self._version,
            self._target,
            self._address_size,
            tuple(self._functions),
            tuple(self._variables),
            tuple(self._files),
            tuple(self._aliases),
        )

    def _item(self) -> None:
        lexer = self._lexer
        text = lexer.token.text
        if text == ".version":
            lexer.next()
            self._version = self._read_version()
        elif text == ".target":
            lexer.next()
            self._target = self._read_target()
        elif text == ".address_size":
            lexer.next()
            self._address_size = parse_integer(lexer)
        elif text == ".file":
            self._read_file()
        elif text == ".section":
            lexer.next()
            lexer.next()
            lexer.skip_braces()
        elif text == ".alias":
            self._read_alias()
        elif text == ".pragma":
            while lexer.token.kind not in (";", "end"):
                lexer.next()
            lexer.expect(";")
        elif text == ".loc" or text == "@" or text.startswith("@@"):
            lexer.skip_line()
        elif lexer.token.kind == ";":
            lexer.next()
        else:
            self._declaration()

    def _read_version(self) -> tuple[int, int]:
        token = self._lexer.expect_kind("decimal", "a version such as 8.0")
        major, _, minor = token.text.partition(".")
        if not (major.isdigit() and minor.isdigit() and len(token.text) < 12):
            raise self._lexer.error("expected a version such as 8.0", token.position)
        return int(major), int(minor)

    def _read_target(self) -> tuple[str, ...]:
        names = [self._lexer.expect_kind("word", "a target such as sm_80").text]
        while self._lexer.accept(","):
            names.append(self._lexer.expect_kind("word", "a target").text)
        return tuple(names)

    def _read_file(self) -> None:
        self._lexer.next()
        number = parse_integer(self._lexer)
        self._files.append((number, self._lexer.expect_kind("string", "a file name").text[1:-1]))
        while self._lexer.accept(","):
            parse_integer(self._lexer)

    def _read_alias(self) -> None:
        lexer = self._lexer
        lexer.next()
        alias = lexer.expect_kind("word", "a function's name").text
        lexer.expect(",")
        self._aliases.append((alias, lexer.expect_kind("word", "a function's name").text))
        lexer.expect(";")

    def _declaration(self) -> None:
        lexer = self._lexer
        linkage = ""
        while lexer.token.text in _LINKAGE:
            linkage = lexer.next().text[1:]
        if lexer.accept(".entry"):
            self._functions.append(self._function(True, linkage))
        elif lexer.accept(".func"):
            self._functions.append(self._function(False, linkage))
        elif lexer.token.text in SPACES:
            self._variables += parse_variables(lexer, SPACES[lexer.next().text], linkage)
        else:
            raise lexer.error(f"expected a declaration, found {lexer.found()}")

    def _function(self, is_entry: bool, linkage: str) -> ast.Function:
        lexer = self._lexer
        line = lexer.line()
        while lexer.token.text == ".attribute":
            lexer.next()
            while lexer.token.kind not in (")", "end"):
                lexer.next()
            lexer.expect(")")
        results = parse_parameters(lexer) if not is_entry else ()
        position = lexer.token.position
        name = lexer.expect_kind("word", "a function's name").text
        params = parse_parameters(lexer)
        directives = parse_directives(lexer)
        body: Callable[[], tuple[ast.Statement, ...]] | None = None
        if lexer.token.kind == "{":
            if name in self._defined:
                raise lexer.error(f"{name} is defined a second time", position)
            self._defined.add(name)
            opening = lexer.line()  # that of the brace
            body = _lazy_body(self._text, *lexer.skip_braces(), opening)
        elif not lexer.accept(";"):
            raise lexer.error(f"expected a body or ';', found {lexer.found()}")
        if is_entry and body is None and linkage != "extern":
            raise lexer.error(f"the kernel {name} has no body")
        return ast.Function(name, is_entry, params, results, linkage, directives, line, body)


def _lazy_body(text: str, start: int, end: int, line: int) -> Callable[[], tuple[ast.Statement, ...]]:
    return lambda: BodyParser(text, start, end, line).parse()


__all__ = ["PtxSyntaxError", "parse"]

"""A Python function's source text, its syntax tree, and the way from a tree node back to file, line and column."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import Location, SyntaxError_
from ..language.definition import embedded_path


class Source:
    """The source of one function.

    :ivar tree: the function's definition.
    :ivar file: the path, relative to the working directory where it lies below that.
    :ivar caller_locals: names that annotations may use besides the function's own: the decorator's caller's locals.
    """

    def __init__(self, function: Callable[..., Any], caller_locals: Mapping[str, Any] | None = None):
        self.function = function
        self.caller_locals = caller_locals or {}
        self.name = function.__name__
        self.file = _file(function)
        self.embedded = embedded_path(function)
        self._lines, self._first = _lines(function)
        self.tree = self._parse()
        self.docstring = inspect.getdoc(function) or ""

    def _parse(self) -> ast.FunctionDef:
        text = "".join(self._lines)
        # An indented definition is parsed inside an `if`, so that columns stay those of the file.
        wrapped = text[:1] in (" ", "\t")
        try:
            module = ast.parse("if True:\n" + text if wrapped else text)
        except SyntaxError as error:
            raise SyntaxError_(
                f"the source of '{self.name}' cannot be read: {error.msg}",
                help="put the kernel into a file as a function definition of its own",
            ) from None
        self._shift = self._first - 1 - (1 if wrapped else 0)
        body = module.body[0].body if wrapped and isinstance(module.body[0], ast.If) else module.body
        node = body[0]
        if isinstance(node, ast.AsyncFunctionDef):
            raise SyntaxError_(f"'{self.name}' is an async function", self.location(node), help="write a plain def")
        if not isinstance(node, ast.FunctionDef):
            raise SyntaxError_(f"'{self.name}' is not a function definition", help="kernels are written with def")
        return node

    def location(self, node: ast.AST) -> Location:
        """Where `node` stands."""
        line = getattr(node, "lineno", 1) + self._shift
        end_line = (getattr(node, "end_lineno", None) or line - self._shift) + self._shift
        text = self._text(line)
        column = _characters(text, getattr(node, "col_offset", 0)) + 1
        end = len(text) + 1 if end_line != line else _characters(text, getattr(node, "end_col_offset", None) or 0) + 1
        return Location(self.file, line, column, end, text, self.name, self.embedded)

    def definition(self) -> Location:
        """The line of the ``def``, with the caret under the name."""
        whole = self.location(self.tree)
        start = whole.text.find(self.name, whole.column - 1)
        if start < 0:
            return whole
        return replace(whole, column=start + 1, end_column=start + 1 + len(self.name))

    def decorator_argument(self, keyword: str, element: int | None = None) -> Location:
        """Where the decorator gives `keyword`, or the list element `element` of it; else the definition."""
        for decorator in self.tree.decorator_list:
            for argument in decorator.keywords if isinstance(decorator, ast.Call) else ():
                if argument.arg == keyword:
                    value = argument.value
                    if element is not None and isinstance(value, (ast.List, ast.Tuple)) and element < len(value.elts):
                        value = value.elts[element]
                    return self.location(value)
        return self.definition()

    def _text(self, line: int) -> str:
        index = line - self._first
        return self._lines[index].rstrip("\r\n") if 0 <= index < len(self._lines) else ""


def _characters(text: str, utf8_offset: int) -> int:
    """`ast` counts columns in bytes of UTF-8; people count characters."""
    if text.isascii():
        return utf8_offset
    return len(text.encode()[:utf8_offset].decode(errors="ignore"))


def _file(function: Callable[..., Any]) -> str:
    path = function.__code__.co_filename
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def _lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError, SyntaxError, IndexError):
        where = function.__code__.co_filename
        raise SyntaxError_(
            f"the source text of '{function.__name__}' is not available (it was defined in {where})",
            help="kernels are compiled from their source: define them in a .py file or a notebook cell, "
            "not with exec() or in python -c",
        ) from None
    if function.__name__ == "<lambda>":
        raise SyntaxError_("a lambda cannot be a kernel or device function", help="write it with def")
    if lines and not textwrap.dedent(lines[0]).startswith(("@", "def ", "async ")):
        raise SyntaxError_(
            f"the source text of '{function.__name__}' does not start with its definition",
            help="define kernels with def at the start of a line",
        )
    return lines, max(first, 1)

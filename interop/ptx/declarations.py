"""Parsing of declarations: registers, variables of all state spaces, parameter lists."""

from __future__ import annotations

from . import ast
from .lexer import Lexer
from .literals import parse_integer
from .operands import parse_constant, parse_initializer

SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_OPAQUE = {".texref", ".samplerref", ".surfref"}


def _type(lexer: Lexer) -> tuple[str, int]:
    """A type, with the vector width before it: ``.v4 .f32`` is ("f32", 4)."""
    vector = 1
    if lexer.token.text in _VECTORS:
        vector = _VECTORS[lexer.next().text]
    name = lexer.token.text[1:]
    if lexer.token.kind != "dotted" or (name not in ast.TYPE_BITS and lexer.token.text not in _OPAQUE):
        raise lexer.error(f"expected a type such as .b32, found {lexer.found()}")
    lexer.next()
    return name, vector


def parse_registers(lexer: Lexer) -> list[ast.Registers]:
    """What stands behind ``.reg``, through the ``;``."""
    line = lexer.line()
    type_, vector = _type(lexer)
    found: list[ast.Registers] = []
    while True:
        name = lexer.expect_kind("word", "a register's name").text
        count = None
        if lexer.accept("<"):
            count = parse_integer(lexer)
            lexer.expect(">")
        found.append(ast.Registers(type_, name, count, vector, line))
        if not lexer.accept(","):
            break
    lexer.expect(";")
    return found


def parse_variables(lexer: Lexer, space: str, linkage: str = "") -> list[ast.Variable]:
    """What stands behind a state space, through the ``;``: one variable or several with commas between them."""
    found = [parse_variable(lexer, space, linkage)]
    while lexer.accept(","):
        found.append(_declarator(lexer, space, linkage, found[0].type, found[0].vector, found[0].align))
    lexer.expect(";")
    return found


def parse_variable(lexer: Lexer, space: str, linkage: str = "") -> ast.Variable:
    """One declaration behind its state space: ``.align 8 .b8 name[32] = {…}``."""
    align: int | None = None
    while True:
        if lexer.accept(".align"):
            align = _alignment(lexer)
        elif lexer.accept(".attribute"):
            _skip_parentheses(lexer)
        elif space == "const" and lexer.token.kind == "[":  # `.const[3]`: a bank, of old PTX
            lexer.next()
            parse_integer(lexer)
            lexer.expect("]")
        else:
            break
    type_, vector = _type(lexer)
    pointer = None
    if lexer.accept(".ptr"):
        pointee = SPACES[lexer.next().text] if lexer.token.text in SPACES else "generic"
        pointer = (pointee, _alignment(lexer) if lexer.accept(".align") else 4)
    return _declarator(lexer, space, linkage, type_, vector, align, pointer)


def _declarator(
    lexer: Lexer,
    space: str,
    linkage: str,
    type_: str,
    vector: int,
    align: int | None,
    pointer: tuple[str, int] | None = None,
) -> ast.Variable:
    line = lexer.line()
    name = lexer.expect_kind("word", "a variable's name").text
    dims: list[int | None] = []
    while lexer.accept("["):
        dims.append(None if lexer.token.kind == "]" else parse_constant(lexer))
        lexer.expect("]")
    values = None
    if lexer.accept("="):
        values = parse_initializer(lexer)
        if dims and dims[0] is None:
            rest = 1
            for dim in dims[1:]:
                rest *= dim or 1
            dims[0] = -(-len(values) // (rest * vector))
    return ast.Variable(space, type_, name, tuple(dims), align, vector, linkage, values, pointer, line)


def _alignment(lexer: Lexer) -> int:
    position = lexer.token.position
    value = parse_integer(lexer)
    if value == 0 or value & (value - 1) or value > 1 << 20:
        raise lexer.error("an alignment is a power of two", position)
    return value


def _skip_parentheses(lexer: Lexer) -> None:
    lexer.expect("(")
    depth = 1
    while depth:
        token = lexer.next()
        if token.kind == "end":
            raise lexer.error("expected ')'")
        depth += {"(": 1, ")": -1}.get(token.kind, 0)


def parse_parameters(lexer: Lexer) -> tuple[ast.Variable, ...]:
    """``( .param .u64 a, .reg .b32 b )``, or nothing."""
    found: list[ast.Variable] = []
    if not lexer.accept("("):
        return ()
    if lexer.accept(")"):
        return ()
    while True:
        if lexer.token.text not in (".param", ".reg"):
            raise lexer.error(f"expected .param or .reg, found {lexer.found()}")
        space = lexer.next().text[1:]
        found.append(parse_variable(lexer, space))
        if not lexer.accept(","):
            break
    lexer.expect(")")
    return tuple(found)


# Directives of a function, with the number of integers that may follow.
_FUNCTION_DIRECTIVES = {
    ".maxntid": 3, ".reqntid": 3, ".minnctapersm": 1, ".maxnctapersm": 1, ".maxnreg": 1, ".noreturn": 0,
    ".explicitcluster": 0, ".reqnctapercluster": 3, ".maxclusterrank": 1, ".blocksareclusters": 0, ".unique": 0,
    ".abi_preserve": 1, ".abi_preserve_control": 1,
}  # fmt: skip


def parse_directives(lexer: Lexer) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """What stands between a function's parameters and its body: ``.noreturn .maxntid 128, 1, 1``."""
    found: list[tuple[str, tuple[int, ...]]] = []
    while True:
        text = lexer.token.text
        if text == ".pragma":
            while lexer.token.kind not in (";", "end"):
                lexer.next()
            lexer.expect(";")
        elif text in _FUNCTION_DIRECTIVES:
            lexer.next()
            found.append((text[1:], _integers(lexer, _FUNCTION_DIRECTIVES[text])))
        else:
            return tuple(found)


def _integers(lexer: Lexer, most: int) -> tuple[int, ...]:
    values: list[int] = []
    while len(values) < most and lexer.token.kind == "integer":
        values.append(parse_integer(lexer))
        if not lexer.accept(","):
            break
    return tuple(values)

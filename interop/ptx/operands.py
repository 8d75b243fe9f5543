"""Parsing of what stands behind an opcode or an ``=``: operands, literals, initialisers."""

from __future__ import annotations

from . import ast
from .expressions import ADDITIVE, constant_of, continue_expression, goes_on, parse_expression
from .lexer import Lexer
from .literals import parse_literal

# Real PTX nests two deep (a masked generic address in braces); the bound keeps hostile text off the stack limit.
_MAX_NESTING = 32
_CONSTANTS = frozenset({"integer", "decimal", "float", "-", "+", "~", "("})


def parse_operands(lexer: Lexer, groups: bool = False) -> tuple[ast.Operand, ...]:
    """Operands up to the ``;``, which is consumed. `groups`: parentheses are around lists, as in calls."""
    operands: list[ast.Operand] = []
    if not lexer.accept(";"):
        while True:
            operands.append(parse_operand(lexer) if groups or lexer.token.kind != "(" else parse_number(lexer))
            if not lexer.accept(","):
                break
        lexer.expect(";")
    return tuple(operands)


def parse_operand(lexer: Lexer, depth: int = 0) -> ast.Operand:
    """One operand, with ``|second`` behind it where that is there."""
    if depth > _MAX_NESTING:
        raise lexer.error("operands nest too deeply")
    kind = lexer.token.kind
    operand: ast.Operand
    if kind == "[":
        operand = ast.Address(_list(lexer, "[", "]", depth))
    elif kind == "{":
        operand = ast.Vector(_list(lexer, "{", "}", depth))
    elif kind == "(":
        operand = ast.Group(_list(lexer, "(", ")", depth))
    elif kind == "!":
        start = lexer.next().position
        if lexer.token.kind in _CONSTANTS:
            lexer.back_to(start)
            return parse_expression(lexer, -1, depth).node()
        operand = ast.Not(parse_operand(lexer, depth + 1))
    else:
        operand = parse_value(lexer, depth)
    if lexer.accept("|"):
        return ast.Pair(operand, parse_operand(lexer, depth + 1))
    return operand


def _list(lexer: Lexer, opening: str, closing: str, depth: int) -> tuple[ast.Operand, ...]:
    lexer.expect(opening)
    items: list[ast.Operand] = []
    if lexer.accept(closing):
        return ()
    while True:
        items.append(parse_operand(lexer, depth + 1))
        if not lexer.accept(","):
            break
    lexer.expect(closing)
    return tuple(items)


def parse_value(lexer: Lexer, depth: int = 0) -> ast.Operand:
    """A literal, a name, or a name plus a constant."""
    token = lexer.token
    if token.kind in _CONSTANTS:
        return parse_number(lexer, depth)
    if token.kind != "word":
        raise lexer.error(f"expected an operand, found {lexer.found()}")
    lexer.next()
    base: ast.Operand
    if token.text == "generic" and lexer.token.kind == "(":
        lexer.next()
        base = ast.Generic(_nested(lexer, depth))
        lexer.expect(")")
    else:
        base = ast.Name(token.text)
    return _with_offset(lexer, base)


def _nested(lexer: Lexer, depth: int) -> ast.Operand:
    if depth > _MAX_NESTING:
        raise lexer.error("operands nest too deeply")
    return parse_value(lexer, depth + 1)


def _with_offset(lexer: Lexer, base: ast.Operand) -> ast.Operand:
    offset, found = 0, False
    while lexer.token.kind in ("+", "-"):
        sign = -1 if lexer.next().kind == "-" else 1
        while lexer.token.kind in ("+", "-"):
            sign = -sign if lexer.next().kind == "-" else sign
        position = lexer.token.position
        if lexer.token.kind not in _CONSTANTS:
            raise lexer.error(f"expected an integer, found {lexer.found()}")
        value = parse_expression(lexer, ADDITIVE).value
        if isinstance(value, float):
            raise lexer.error("expected an integer", position)
        offset += sign * value
        found = True
    return ast.Offset(base, offset) if found else base


def parse_constant(lexer: Lexer) -> int:
    """A constant expression that yields an integer which is not negative."""
    position = lexer.token.position
    constant = parse_expression(lexer)
    if isinstance(constant.value, float) or constant.value < 0:
        raise lexer.error("expected an integer", position)
    return constant.value


def parse_number(lexer: Lexer, depth: int = 0) -> ast.Operand:
    """A literal with its signs, an expression of literals, ``0xFF(…)`` in an initialiser, or ``-%r1``."""
    negative, start = False, lexer.token.position
    while lexer.token.kind in ("+", "-"):
        negative ^= lexer.next().kind == "-"
    token = lexer.token
    if token.kind == "word" and negative:
        return ast.Minus(ast.Name(lexer.next().text))
    if token.kind in ("(", "~", "!"):
        lexer.back_to(start)
        return parse_expression(lexer, -1, depth).node()
    literal = parse_literal(lexer)
    if lexer.token.kind == "(" and not negative and isinstance(literal, ast.Integer):
        lexer.next()
        base = _nested(lexer, depth)
        lexer.expect(")")
        return ast.Masked(literal.value, base)
    if negative:
        if isinstance(literal, ast.Integer):
            literal = ast.Integer(-literal.value, literal.unsigned)
        else:
            literal = ast.Float(literal.bits ^ 1 << (literal.width - 1), literal.width)
    if goes_on(lexer):
        constant_ = constant_of(literal)
        if constant_ is not None:
            return continue_expression(lexer, constant_, -1, depth).node()
    return literal


def parse_initializer(lexer: Lexer) -> tuple[ast.Operand, ...]:
    """What stands behind ``=``: a value, or values in (nested) braces, flattened in memory order."""
    if lexer.token.kind != "{":
        return (parse_value(lexer),)
    values: list[ast.Operand] = []
    depth = 0
    while True:
        if lexer.accept("{"):
            depth += 1
            if lexer.token.kind != "}":
                continue
        else:
            values.append(parse_value(lexer))
        while depth and lexer.accept("}"):
            depth -= 1
        if not depth:
            return tuple(values)
        lexer.expect(",")

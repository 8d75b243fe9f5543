"""Parsing of what stands behind an opcode or an ``=``: operands, literals, initialisers."""

from __future__ import annotations

import struct

from . import ast
from .lexer import Lexer

# Real PTX nests two deep (a masked generic address in braces); the bound keeps hostile text off the stack limit.
_MAX_NESTING = 32
_MAX_DIGITS = 80


def parse_operands(lexer: Lexer) -> tuple[ast.Operand, ...]:
    """Operands up to the ``;``, which is consumed."""
    operands: list[ast.Operand] = []
    if not lexer.accept(";"):
        while True:
            operands.append(parse_operand(lexer))
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
        lexer.next()
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
    if token.kind in ("integer", "decimal", "float", "-", "+"):
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
        offset += sign * parse_integer(lexer)
        found = True
    return ast.Offset(base, offset) if found else base


def parse_number(lexer: Lexer, depth: int = 0) -> ast.Operand:
    """A literal with its signs, or the mask form ``0xFF(…)`` of an initialiser."""
    negative = False
    while lexer.token.kind in ("+", "-"):
        negative ^= lexer.next().kind == "-"
    token = lexer.token
    if token.kind == "integer":
        unsigned = token.text.endswith("U")
        value = parse_integer(lexer)
        if lexer.token.kind == "(" and not negative:
            lexer.next()
            base = _nested(lexer, depth)
            lexer.expect(")")
            return ast.Masked(value, base)
        return ast.Integer(-value if negative else value, unsigned)
    if token.kind == "float":
        lexer.next()
        width = 32 if token.text[1] in "fF" else 64
        bits = int(token.text[2:], 16)
        return ast.Float(bits ^ (int(negative) << (width - 1)), width)
    if token.kind == "decimal":
        lexer.next()
        value64 = float(token.text)
        (bits,) = struct.unpack("<Q", struct.pack("<d", -value64 if negative else value64))
        return ast.Float(bits, 64)
    raise lexer.error(f"expected a number, found {lexer.found()}")


def parse_integer(lexer: Lexer) -> int:
    """An integer literal without a sign: decimal, ``0x…``, ``0b…`` or octal ``0…``."""
    token = lexer.expect_kind("integer", "an integer")
    digits = token.text.rstrip("U")
    if len(digits) > _MAX_DIGITS:
        raise lexer.error("this integer does not fit 64 bits", token.position)
    try:
        if digits[:2] in ("0x", "0X"):
            value = int(digits, 16)
        elif digits[:2] in ("0b", "0B"):
            value = int(digits, 2)
        else:
            value = int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)
    except ValueError:
        raise lexer.error(f"'{token.text}' is not an integer", token.position) from None
    if value >> 64:
        raise lexer.error("this integer does not fit 64 bits", token.position)
    return value


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

"""Literals: integers in all bases, floating-point numbers by their bits or in decimals."""

from __future__ import annotations

import struct

from . import ast
from .lexer import Lexer

_MAX_DIGITS = 80


def parse_literal(lexer: Lexer) -> ast.Integer | ast.Float:
    """A literal without signs."""
    token = lexer.token
    if token.kind == "integer":
        unsigned = token.text.endswith("U")
        return ast.Integer(parse_integer(lexer), unsigned)
    if token.kind == "float":
        lexer.next()
        return ast.Float(int(token.text[2:], 16), 32 if token.text[1] in "fF" else 64)
    if token.kind == "decimal":
        lexer.next()
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(token.text)))
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

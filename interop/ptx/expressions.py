"""Constant expressions (PTX ISA, "Constant Expressions"): evaluated while they are read, in 64 bits, by C's rules."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from . import ast
from .lexer import Lexer
from .literals import parse_literal

_MAX_NESTING = 32
_SIGN, _RANGE = 1 << 63, 1 << 64

# From the loosest to the tightest; what begins alike is tried in this order.
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_PRECEDENCE = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
ADDITIVE = _PRECEDENCE["+"]
"""The level of ``+`` and ``-``."""
_STARTS = frozenset("|&^=!<>+-*/?")
_TWO = frozenset({"||", "&&", "==", "!=", "<=", ">=", "<<", ">>"})


class Constant(NamedTuple):
    """A value and what it is: ``s`` for .s64, ``u`` for .u64, ``f`` for .f64."""

    kind: str
    value: int | float

    def node(self) -> ast.Integer | ast.Float:
        """The literal that means the same."""
        if isinstance(self.value, float):
            (bits,) = struct.unpack("<Q", struct.pack("<d", self.value))
            return ast.Float(bits, 64)
        return ast.Integer(self.value, self.kind == "u")


def constant_of(node: ast.Integer | ast.Float) -> Constant | None:
    """A literal as a constant; None for one of 32 bits, which takes part in no expression."""
    if isinstance(node, ast.Integer):
        return _wrapped("u" if node.unsigned or node.value >= _SIGN else "s", node.value)
    if node.width != 64:
        return None
    return Constant("f", struct.unpack("<d", struct.pack("<Q", node.bits))[0])


def goes_on(lexer: Lexer) -> bool:
    """Whether an operator stands behind a literal."""
    kind = lexer.token.kind
    return kind in _STARTS or (kind == "word" and _operator(lexer) is not None)


def continue_expression(lexer: Lexer, left: Constant, lowest: int = -1, depth: int = 0) -> Constant:
    """The value of an expression whose first operand has been read. `lowest`: operators up to this level end it; -1
    takes all, and ``? :``."""
    if depth > _MAX_NESTING:
        raise lexer.error("operands nest too deeply")
    while True:
        operator = _operator(lexer)
        if operator is None or _PRECEDENCE[operator] <= lowest:
            break
        position = lexer.token.position
        _take(lexer, operator)
        right = _operand(lexer, depth)
        level = _PRECEDENCE[operator]
        following = _operator(lexer)
        while following is not None and _PRECEDENCE[following] > level:
            right = continue_expression(lexer, right, level, depth + 1)
            following = _operator(lexer)
        result = _binary(operator, left, right)
        if result is None:
            raise lexer.error(f"'{operator}' of these constants has no value", position)
        left = result
    if lowest < 0 and lexer.accept("?"):
        first = continue_expression(lexer, _operand(lexer, depth), -1, depth + 1)
        lexer.expect(":")
        second = continue_expression(lexer, _operand(lexer, depth), -1, depth + 1)
        left = first if left.value else second  # each keeps its type: so ptxas has it
    return left


def parse_expression(lexer: Lexer, lowest: int = -1, depth: int = 0) -> Constant:
    """A whole expression."""
    return continue_expression(lexer, _operand(lexer, depth), lowest, depth)


def _operator(lexer: Lexer) -> str | None:
    """The operator at the current token, of which each token has one character."""
    token = lexer.token
    if token.kind == "word" and token.text[0] == "%" and (len(token.text) == 1 or token.text[1:].isdigit()):
        return "%"
    if token.kind not in _STARTS or token.kind == "?":
        return None
    two = lexer.text[token.position : min(token.position + 2, lexer.end)]
    if two in _TWO:
        return two
    return token.kind if token.kind in _PRECEDENCE else None


def _take(lexer: Lexer, operator: str) -> None:
    token = lexer.token
    if operator == "%":
        if len(token.text) > 1:  # `40%3`: what looks like a register
            lexer.back_to(token.position + 1)
        else:
            lexer.next()
        return
    for _ in operator:
        lexer.next()


def _operand(lexer: Lexer, depth: int) -> Constant:
    """A literal or an expression in parentheses, behind its signs and casts."""
    if depth > _MAX_NESTING:
        raise lexer.error("operands nest too deeply")
    unary: list[str] = []
    while True:
        kind = lexer.token.kind
        if kind in ("+", "-", "!", "~"):
            unary.append(lexer.next().kind)
            continue
        if kind != "(":
            value = _literal(lexer)
            break
        lexer.next()
        if lexer.token.text in (".s64", ".u64"):
            unary.append(lexer.next().text[1])
            lexer.expect(")")
            continue
        value = parse_expression(lexer, -1, depth + 1)
        lexer.expect(")")
        break
    for operator in reversed(unary):
        value = _unary(lexer, operator, value)
    return value


def _literal(lexer: Lexer) -> Constant:
    position = lexer.token.position
    constant = constant_of(parse_literal(lexer))
    if constant is None:
        raise lexer.error("a literal of 32 bits takes part in no expression", position)
    return constant


def _wrapped(kind: str, value: int) -> Constant:
    value %= _RANGE
    return Constant(kind, value - _RANGE if kind == "s" and value >= _SIGN else value)


def _unary(lexer: Lexer, operator: str, a: Constant) -> Constant:
    if operator == "+":
        return a
    if operator == "!":
        return Constant("s", int(not a.value))
    if isinstance(a.value, float):
        if operator == "-":
            return Constant("f", -a.value)
        if operator in "su" and math.isfinite(a.value):
            return _wrapped(operator, int(a.value))
        raise lexer.error(f"'{operator}' of a floating-point constant")
    if operator == "-":
        return _wrapped(a.kind, -a.value)
    return _wrapped("u" if operator == "~" else operator, ~a.value if operator == "~" else a.value)


def _common(a: Constant, b: Constant) -> str:
    """What two operands are converted to."""
    kinds = a.kind + b.kind
    return "f" if "f" in kinds else "u" if "u" in kinds else "s"


def _converted(a: Constant, kind: str) -> Constant:
    if kind == "f":
        return Constant("f", float(a.value))
    return _wrapped(kind, int(a.value))


def _binary(operator: str, a: Constant, b: Constant) -> Constant | None:
    """None for what has no value."""
    if operator in ("&&", "||"):
        both = bool(a.value), bool(b.value)
        return Constant("s", int(all(both) if operator == "&&" else any(both)))
    if operator in ("<<", ">>"):
        if isinstance(a.value, float) or isinstance(b.value, float):
            return None
        amount = b.value % 64  # PTX leaves larger ones open; ptxas takes their low bits
        return _wrapped(a.kind, a.value << amount if operator == "<<" else a.value >> amount)
    kind = _common(a, b)
    x, y = _converted(a, kind).value, _converted(b, kind).value
    if operator in ("<", ">", "<=", ">=", "==", "!="):
        holds = {"<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y, "==": x == y, "!=": x != y}[operator]
        return Constant("s", int(holds))
    if isinstance(x, float) or isinstance(y, float):
        return _float(operator, float(x), float(y))
    if operator in ("&", "|", "^"):
        return _wrapped(kind, {"&": x & y, "|": x | y, "^": x ^ y}[operator])
    if operator == "/":
        return _wrapped(kind, abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)) if y else None
    if operator == "%":  # of unsigned operands, whatever they are
        return _wrapped("u", x % _RANGE % (y % _RANGE)) if y else None
    return _wrapped(kind, {"+": x + y, "-": x - y, "*": x * y}[operator])


def _float(operator: str, x: float, y: float) -> Constant | None:
    if operator == "/":
        return Constant("f", x / y) if y else None
    if operator not in ("+", "-", "*"):
        return None
    return Constant("f", {"+": x + y, "-": x - y, "*": x * y}[operator])

"""Rules as Python expressions for the hot path, where no step can overflow.

A rule is evaluated with checked 64-bit arithmetic. Given the range of every leaf, interval arithmetic shows for most
rules that no step leaves 63 bits, so that Python's own operators give the same value without a check. A rule for which
it does not show that is :class:`NotInline`. A division by zero raises :class:`ZeroDivisionError`, which the hot path
takes as a miss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abi import rule_ast as ast
from abi.rule_ast import INT64_MAX, INT64_MIN


class NotInline(Exception):
    """Something has no inline form: the slow path does it."""


@dataclass(frozen=True)
class Expression:
    """Python text in parentheses where it needs them. An integer lies in ``low`` … ``high``; a condition has neither.

    ``total``: evaluating it cannot fail, so that it may be left out where its value is known.
    """

    text: str
    low: int = 0
    high: int = 0
    condition: bool = False
    total: bool = True

    @property
    def constant(self) -> bool:
        return not self.condition and self.total and self.low == self.high


TRUE = Expression("True", condition=True)
Read = Callable[[ast.Leaf], Expression]
"""How a leaf is spelled, and its range."""


def inline(node: ast.Node, read: Read) -> Expression:
    """`node` as a Python expression; :class:`NotInline` when a step might overflow.

    >>> from abi.rules import parse
    >>> length = lambda leaf: Expression(f"n_{leaf.name}", 1, 2**31)
    >>> inline(parse("ceil_div(len(y), 256)").node, length)
    Expression(text='-(-n_y // 256)', low=1, high=8388608, condition=False, total=True)
    """
    if isinstance(node, ast.LEAF_TYPES):
        return read(node)
    if isinstance(node, ast.Literal):
        return Expression(str(node.value), node.value, node.value)
    if isinstance(node, ast.Negate):
        operand = _integer(node.operand, read)
        return _checked(f"-({operand.text})", -operand.high, -operand.low, operand.total)
    if isinstance(node, ast.Not):
        operand = _condition(node.operand, read)
        return Expression(f"not ({operand.text})", condition=True, total=operand.total)
    if isinstance(node, ast.Logic):
        return _logic(node.op, _condition(node.left, read), _condition(node.right, read))
    if isinstance(node, ast.Call):
        return _call(node.function, [_integer(argument, read) for argument in node.arguments])
    left, right = _integer(node.left, read), _integer(node.right, read)
    if isinstance(node, ast.Compare):
        return _compare(node.op, left, right)
    return _arithmetic(node.op, left, right)


def _integer(node: ast.Node, read: Read) -> Expression:
    found = inline(node, read)
    if found.condition:
        raise NotInline(ast.to_text(node))
    return found


def _condition(node: ast.Node, read: Read) -> Expression:
    found = inline(node, read)
    if not found.condition:
        raise NotInline(ast.to_text(node))
    return found


def _checked(text: str, low: int, high: int, total: bool) -> Expression:
    if low < INT64_MIN or high > INT64_MAX:
        raise NotInline(f"{text} may overflow 64 bits")
    return Expression(str(low) if total and low == high >= 0 else text, low, high, total=total)


def _arithmetic(op: str, left: Expression, right: Expression) -> Expression:
    text, total = f"({left.text} {op} {right.text})", left.total and right.total
    if op == "+":
        return _checked(text, left.low + right.low, left.high + right.high, total)
    if op == "-":
        return _checked(text, left.low - right.high, left.high - right.low, total)
    if op == "*":
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        return _checked(text, min(corners), max(corners), total)
    total = total and not right.low <= 0 <= right.high
    if op == "%":
        # The remainder has the divisor's sign and is smaller.
        return _checked(text, min(0, right.low + 1), max(0, right.high - 1), total)
    low, high = _quotient(left, right)
    return _checked(text, low, high, total)


def _quotient(left: Expression, right: Expression) -> tuple[int, int]:
    """Where quotients lie, rounded either way."""
    if left.low >= 0 and right.low > 0:
        return left.low // right.high, -(-left.high // right.low)
    reach = max(abs(left.low), abs(left.high))
    return -reach, reach


def _call(function: str, arguments: list[Expression]) -> Expression:
    total = all(argument.total for argument in arguments)
    if function == "ceil_div":
        left, right = arguments
        low, high = _quotient(left, right)
        if left.low >= 0 and right.low > 0:
            low = -(-left.low // right.high)
        return _checked(f"-(-{left.text} // {right.text})", low, high, total and not right.low <= 0 <= right.high)
    choose = min if function == "min" else max
    low, high = choose(a.low for a in arguments), choose(a.high for a in arguments)
    return _checked(f"{function}({', '.join(a.text for a in arguments)})", low, high, total)


def _compare(op: str, left: Expression, right: Expression) -> Expression:
    always = {
        "<": left.high < right.low,
        "<=": left.high <= right.low,
        ">": left.low > right.high,
        ">=": left.low >= right.high,
        "==": left.low == left.high == right.low == right.high,
        "!=": left.high < right.low or left.low > right.high,
    }[op]
    total = left.total and right.total
    if always and total:
        return TRUE
    return Expression(f"({left.text} {op} {right.text})", condition=True, total=total)


def _logic(op: str, left: Expression, right: Expression) -> Expression:
    if op == "and" and TRUE in (left, right):
        return right if left == TRUE else left
    return Expression(f"({left.text} {op} {right.text})", condition=True, total=left.total and right.total)

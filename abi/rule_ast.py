"""The nodes of the rule language and their printer.

Nodes are frozen, compare by value and print back to the text that parses to them. Use :mod:`abi.rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Literal:
    """A non-negative integer of at most 63 bits."""

    value: int


@dataclass(frozen=True)
class Name:
    """A scalar parameter by name. ``boolean`` and ``unsigned`` follow from its type."""

    name: str
    boolean: bool = False
    unsigned: bool = False


@dataclass(frozen=True)
class LaunchDim:
    """``block.x`` … ``grid.z``."""

    base: str
    axis: str


@dataclass(frozen=True)
class Len:
    """``len(x)``: elements of an array. ``rank`` is the tensor's, or None where `x` has one length of its own."""

    name: str
    rank: int | None = None


@dataclass(frozen=True)
class Dim:
    """``dim(x, axis)``: one extent of a tensor."""

    name: str
    axis: int


@dataclass(frozen=True)
class Stride:
    """``stride(x, axis)``: one stride of a tensor, in elements."""

    name: str
    axis: int


@dataclass(frozen=True)
class Negate:
    """``-operand``."""

    operand: Node


@dataclass(frozen=True)
class Binary:
    """``left op right`` with op one of ``+ - * // %``."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    """``min(...)``, ``max(...)`` of two or more operands, or ``ceil_div(a, b)``."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Compare:
    """``left op right`` with op one of ``< <= > >= == !=``."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Not:
    """``not operand``."""

    operand: Node


@dataclass(frozen=True)
class Logic:
    """``left and right`` or ``left or right``: from left to right, with short circuit."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Disjoint:
    """``disjoint(name, other)`` or, with ``star``, ``disjoint(name, *)``.

    ``others`` are the arrays compared with; None for a star whose parameters are not known until evaluation.
    """

    name: str
    others: tuple[str, ...] | None
    star: bool = False


@dataclass(frozen=True)
class Aligned:
    """``aligned(name, bytes)``: the address is a multiple of ``bytes``, a power of two."""

    name: str
    bytes: int


Node = Union[
    Literal, Name, LaunchDim, Len, Dim, Stride, Negate, Binary, Call, Compare, Not, Logic, Disjoint, Aligned
]  # fmt: skip
Leaf = Union[Name, LaunchDim, Len, Dim, Stride, Disjoint, Aligned]
"""What a rule reads: everything in it that is neither a literal nor an operator."""

LEAF_TYPES = (Name, LaunchDim, Len, Dim, Stride, Disjoint, Aligned)

# How tightly an operator binds; the parser and the printer share the table.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, ATOM = range(1, 9)
BINARY_LEVEL = {"+": SUM, "-": SUM, "*": PRODUCT, "//": PRODUCT, "%": PRODUCT}
LOGIC_LEVEL = {"or": OR, "and": AND}


def is_boolean(node: Node) -> bool:
    """Whether `node` is a condition (else it is an integer)."""
    if isinstance(node, Name):
        return node.boolean
    return isinstance(node, (Compare, Not, Logic, Disjoint, Aligned))


def children(node: Node) -> tuple[Node, ...]:
    """The operands of `node`, from left to right."""
    if isinstance(node, (Negate, Not)):
        return (node.operand,)
    if isinstance(node, (Binary, Compare, Logic)):
        return (node.left, node.right)
    if isinstance(node, Call):
        return node.arguments
    return ()


def leaves(node: Node) -> Iterator[Leaf]:
    """Every leaf in order of appearance, with repetitions."""
    if isinstance(node, LEAF_TYPES):
        yield node
    for child in children(node):
        yield from leaves(child)


def to_text(node: Node) -> str:
    """`node` in the rule language, with no more parentheses than needed."""
    return _print(node)[0]


def _print(node: Node) -> tuple[str, int]:
    """The text of `node` and how tightly its outermost operator binds."""
    if isinstance(node, Negate):
        return "-" + _operand(node.operand, UNARY), UNARY
    if isinstance(node, Not):
        return "not " + _operand(node.operand, NOT), NOT
    if isinstance(node, Compare):
        return f"{_operand(node.left, SUM)} {node.op} {_operand(node.right, SUM)}", COMPARISON
    if isinstance(node, (Binary, Logic)):
        level = BINARY_LEVEL[node.op] if isinstance(node, Binary) else LOGIC_LEVEL[node.op]
        return f"{_operand(node.left, level)} {node.op} {_operand(node.right, level + 1)}", level
    return _print_atom(node), ATOM


def _operand(node: Node, level: int) -> str:
    text, own = _print(node)
    return text if own >= level else f"({text})"


def _print_atom(node: Literal | Call | Leaf) -> str:
    if isinstance(node, Literal):
        return str(node.value)
    if isinstance(node, Call):
        return f"{node.function}({', '.join(to_text(a) for a in node.arguments)})"
    return leaf_text(node)


def leaf_text(leaf: Leaf) -> str:
    """The leaf in the rule language."""
    if isinstance(leaf, Name):
        return leaf.name
    if isinstance(leaf, LaunchDim):
        return f"{leaf.base}.{leaf.axis}"
    if isinstance(leaf, Len):
        return f"len({leaf.name})"
    if isinstance(leaf, Dim):
        return f"dim({leaf.name}, {leaf.axis})"
    if isinstance(leaf, Stride):
        return f"stride({leaf.name}, {leaf.axis})"
    if isinstance(leaf, Aligned):
        return f"aligned({leaf.name}, {leaf.bytes})"
    return f"disjoint({leaf.name}, {'*' if leaf.star or leaf.others is None else leaf.others[0]})"

"""Rules as C and C++ expressions over the helpers of ``interop/rule.h``.

An expression has the C type ``interop_rule_value``: a 64-bit value and the problem, if any, that computing it met. The
helpers hand a problem on from the left operand before the right one, and ``and``/``or`` drop the problem of an operand
that short circuit skips, so the order in which C evaluates arguments does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import rule_ast as ast
from .errors import RuleError


@dataclass(frozen=True)
class CLeaf:
    """Something that a host must supply for a rule, as a C expression without side effects.

    ======== ======================================================= =========================
    kind     what                                                    C type
    ======== ======================================================= =========================
    length   elements of a slice or of a pointer passed as a slice   ``uint64_t``
    dim      extent ``axis`` of a tensor                             ``int64_t``
    stride   stride ``axis`` of a tensor                             ``int64_t``
    scalar   a scalar parameter (hidden ones too)                    the parameter's own
    block    ``axis`` (0 … 2) of the block                           ``uint32_t``
    grid     ``axis`` (0 … 2) of the grid                            ``uint32_t``
    address  an array's address                                      ``uint64_t``
    extent   an array's bytes                                        ``interop_rule_extent``
    ======== ======================================================= =========================
    """

    kind: str
    name: str
    axis: int = 0


NameOf = Callable[[CLeaf], str]

_BINARY = {"+": "add", "-": "sub", "*": "mul", "//": "floor_div", "%": "mod"}
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def expression(node: ast.Node, name_of: NameOf) -> str:
    """`node` as a C expression of type ``interop_rule_value``."""
    if isinstance(node, ast.Literal):
        return f"interop_rule_i64(INT64_C({node.value}))"
    if isinstance(node, ast.Negate):
        return f"interop_rule_neg({expression(node.operand, name_of)})"
    if isinstance(node, ast.Not):
        return f"interop_rule_not({expression(node.operand, name_of)})"
    if isinstance(node, ast.Call):
        return _fold(node.function, [expression(a, name_of) for a in node.arguments])
    if isinstance(node, (ast.Binary, ast.Compare, ast.Logic)):
        helper = _BINARY.get(node.op) or _COMPARE.get(node.op) or node.op
        return f"interop_rule_{helper}({expression(node.left, name_of)}, {expression(node.right, name_of)})"
    return leaf_expression(node, name_of)


def leaf_expression(leaf: ast.Leaf, name_of: NameOf) -> str:
    """`leaf` as a C expression of type ``interop_rule_value``."""
    if isinstance(leaf, ast.Name):
        convert = "u64" if leaf.unsigned else "i64"
        return f"interop_rule_{convert}({name_of(CLeaf('scalar', leaf.name))})"
    if isinstance(leaf, ast.LaunchDim):
        return f"interop_rule_u64({name_of(CLeaf(leaf.base, leaf.base, 'xyz'.index(leaf.axis)))})"
    if isinstance(leaf, ast.Len):
        if leaf.rank is None:
            return f"interop_rule_u64({name_of(CLeaf('length', leaf.name))})"
        dims = [f"interop_rule_i64({name_of(CLeaf('dim', leaf.name, axis))})" for axis in range(leaf.rank)]
        return _fold("mul", dims)
    if isinstance(leaf, (ast.Dim, ast.Stride)):
        kind = "dim" if isinstance(leaf, ast.Dim) else "stride"
        return f"interop_rule_i64({name_of(CLeaf(kind, leaf.name, leaf.axis))})"
    if isinstance(leaf, ast.Aligned):
        return f"interop_rule_aligned({name_of(CLeaf('address', leaf.name))}, UINT64_C({leaf.bytes}))"
    pairs = [f"interop_rule_disjoint({_extents(leaf.name, other, name_of)})" for other in _others(leaf)]
    return _fold("and", pairs) if pairs else "interop_rule_i64(1)"


def value_expressions(leaf: ast.Leaf, name_of: NameOf) -> list[tuple[str, str]]:
    """What messages say about a leaf, as (text, C expression of type ``interop_rule_value``)."""
    if isinstance(leaf, ast.Aligned):
        address = name_of(CLeaf("address", leaf.name))
        text = f"address({leaf.name}) % {leaf.bytes}"
        return [(text, f"interop_rule_u64({address} % UINT64_C({leaf.bytes}))")]
    if isinstance(leaf, ast.Disjoint):
        return [
            (f"overlap({leaf.name}, {other})", f"interop_rule_overlap({_extents(leaf.name, other, name_of)})")
            for other in _others(leaf)
        ]
    return [(ast.leaf_text(leaf), leaf_expression(leaf, name_of))]


def _others(leaf: ast.Disjoint) -> tuple[str, ...]:
    if leaf.others is None:
        raise RuleError(f"{ast.leaf_text(leaf)} prints as C only when the rule was parsed with the kernel's parameters")
    return leaf.others


def _extents(name: str, other: str, name_of: NameOf) -> str:
    return f"{name_of(CLeaf('extent', name))}, {name_of(CLeaf('extent', other))}"


def _fold(helper: str, parts: list[str]) -> str:
    result = parts[0]
    for part in parts[1:]:
        result = f"interop_rule_{helper}({result}, {part})"
    return result

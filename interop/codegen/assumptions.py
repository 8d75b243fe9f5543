"""The contract as knowledge: rules that every launch enforces become ``llvm.assume`` at the kernel's entry.

A rule that was enforced did not overflow, so its sums and products carry ``nsw``. Parts of the rule language that say
nothing about values (``disjoint``, ``aligned``) or that a kernel cannot see are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abi import Pointer, Scalar, i64
from abi import rule_ast as ast
from abi.rules import Rule

if TYPE_CHECKING:
    from .emitter import Array, Emitter

_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}


def _expressible(node: ast.Node, emitter: Emitter) -> bool:
    """Whether the kernel can evaluate `node`, as signed 64-bit arithmetic without undefined cases."""
    types = {p.name: p.value.type for p in emitter.function.parameters}
    for leaf in ast.leaves(node):
        if isinstance(leaf, (ast.Disjoint, ast.Aligned)):
            return False
        if isinstance(leaf, ast.Name):
            type_ = types.get(leaf.name)
            if not isinstance(type_, Scalar) or type_.kind == "float" or (type_.kind == "uint" and type_.bits == 64):
                return False
        if isinstance(leaf, ast.Len) and isinstance(types.get(leaf.name), Pointer):
            return False
    return _total(node)


def _total(node: ast.Node) -> bool:
    """Whether `node` divides by positive constants only."""
    divisor = None
    if isinstance(node, ast.Binary) and node.op in ("//", "%"):
        divisor = node.right
    elif isinstance(node, ast.Call) and node.function == "ceil_div":
        divisor = node.arguments[1]
    if divisor is not None and not (isinstance(divisor, ast.Literal) and divisor.value > 0):
        return False
    return all(map(_total, ast.children(node)))


def assume(emitter: Emitter, rule: Rule) -> None:
    """Emits `rule` as an assumption, if the kernel can see what it is about."""
    if not _expressible(rule.node, emitter):
        return
    for part in _conjuncts(rule.node):
        condition = _Printer(emitter).condition(part)
        emitter.declare("llvm.assume", "void", "i1")
        emitter.blocks.add(f"call void @llvm.assume(i1 {condition})")


def _conjuncts(node: ast.Node) -> list[ast.Node]:
    if isinstance(node, ast.Logic) and node.op == "and":
        return _conjuncts(node.left) + _conjuncts(node.right)
    return [node]


class _Printer:
    def __init__(self, emitter: Emitter):
        self._emitter = emitter
        self._assign = emitter.blocks.assign

    def condition(self, node: ast.Node) -> str:
        """`node` as an i1."""
        if isinstance(node, ast.Compare):
            return self._assign(f"icmp {_SIGNED[node.op]} i64 {self.number(node.left)}, {self.number(node.right)}")
        if isinstance(node, ast.Not):
            return self._assign(f"xor i1 {self.condition(node.operand)}, true")
        if isinstance(node, ast.Logic):
            # A select and no `or`: where the left side decides, the right may overflow, and its poison must not count.
            left, right = self.condition(node.left), self.condition(node.right)
            sides = f"i1 {right}, i1 false" if node.op == "and" else f"i1 true, i1 {right}"
            return self._assign(f"select i1 {left}, {sides}")
        if isinstance(node, ast.Name):
            return self._scalar(node.name)[0]
        raise AssertionError(f"not a condition: {node}")

    def number(self, node: ast.Node) -> str:
        """`node` as an i64."""
        if isinstance(node, ast.Literal):
            return str(node.value)
        if isinstance(node, ast.Name):
            text, type_ = self._scalar(node.name)
            return self._emitter.convert(text, type_, i64)
        if isinstance(node, ast.LaunchDim):
            return self._emitter.geometry(f"{node.base}_dim", "xyz".index(node.axis))
        if isinstance(node, ast.Len):
            return self._product(self._array(node.name).dims)
        if isinstance(node, ast.Dim):
            return self._array(node.name).dims[node.axis]
        if isinstance(node, ast.Stride):
            return self._array(node.name).strides[node.axis]
        if isinstance(node, ast.Negate):
            return self._assign(f"sub nsw i64 0, {self.number(node.operand)}")
        if isinstance(node, ast.Binary):
            return self._binary(node.op, self.number(node.left), self.number(node.right))
        if isinstance(node, ast.Call):
            return self._call(node.function, [self.number(a) for a in node.arguments])
        # A condition used as a number does not occur: the parser types rules.
        raise AssertionError(f"not a number: {node}")

    def _binary(self, op: str, left: str, right: str) -> str:
        if op in ("+", "-", "*"):
            return self._assign(f"{ {'+': 'add', '-': 'sub', '*': 'mul'}[op] } nsw i64 {left}, {right}")
        return self._emitter._floor_division("floordiv" if op == "//" else "mod", left, right, i64)

    def _call(self, function: str, arguments: list[str]) -> str:
        if function == "ceil_div":
            negated = self._assign(f"sub i64 0, {arguments[0]}")
            quotient = self._emitter._floor_division("floordiv", negated, arguments[1], i64)
            return self._assign(f"sub i64 0, {quotient}")
        result = arguments[0]
        for argument in arguments[1:]:
            result = self._emitter.call(f"llvm.s{function}.i64", "i64", [("i64", result), ("i64", argument)])
        return result

    def _product(self, dims: tuple[str, ...]) -> str:
        result = dims[0]
        for dim in dims[1:]:
            result = self._assign(f"mul nsw i64 {result}, {dim}")
        return result

    def _array(self, name: str) -> Array:
        return next(self._emitter.arrays[p.value] for p in self._emitter.function.parameters if p.name == name)

    def _scalar(self, name: str) -> tuple[str, Scalar]:
        value = next(p.value for p in self._emitter.function.parameters if p.name == name)
        assert isinstance(value.type, Scalar)
        return self._emitter.registers[value], value.type

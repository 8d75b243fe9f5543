"""Evaluation of rules in Python: checked signed 64-bit arithmetic, conditions from left to right with short circuit.

The C helpers in ``cpp_shim/include/interop/rule.h`` do the same step by step, in the same order, so that both give the
same verdict and blame the same problem.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Union

from . import rule_ast as ast
from .errors import Error
from .rule_ast import INT64_MAX, INT64_MIN

OVERFLOW = "overflows 64 bits"
DIVISION_BY_ZERO = "divides by zero"


class Fault(ArithmeticError):
    """Arithmetic of a rule went wrong; ``problem`` is :data:`OVERFLOW` or :data:`DIVISION_BY_ZERO`."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class ArrayValue:
    """What rules see of an array: address, extents and strides (strides and extents count elements).

    >>> ArrayValue(0x1000, (4, 8), (8, 1), itemsize=4).length
    32
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def length(self) -> int:
        """The number of elements, ``len(x)``; :class:`Fault` when it needs more than 64 bits."""
        return _length(self.shape)

    def dim(self, axis: int) -> int:
        return self.shape[axis]

    def stride(self, axis: int) -> int:
        return self.strides[axis]

    @property
    def extent(self) -> tuple[int, int]:
        """The bytes from the lowest to past the highest element, as (begin, end); equal when there are none."""
        for count in self.shape:
            check(count)
        if any(count <= 0 for count in self.shape):
            return self.address, self.address
        lowest = highest = 0
        for count, stride in zip(self.shape, self.strides):
            reach = check((count - 1) * check(stride))
            if reach < 0:
                lowest = check(lowest + reach)
            else:
                highest = check(highest + reach)
        begin = self.address + check(lowest * self.itemsize)
        end = self.address + check(check(highest + 1) * self.itemsize)
        if begin < 0 or end > 2**64 - 1:
            raise Fault(OVERFLOW)
        return begin, end


@dataclass(frozen=True)
class Environment:
    """What a rule is evaluated in: the arguments by parameter name, and the launch configuration."""

    arguments: Mapping[str, ArrayValue | int | float | bool]
    block: tuple[int, int, int] = (1, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)

    def array(self, name: str) -> ArrayValue:
        value = self._get(name)
        if not isinstance(value, ArrayValue):
            raise Error(f"a rule reads '{name}' as an array, and it is {value!r}")
        return value

    def number(self, name: str) -> int:
        value = self._get(name)
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise Error(f"a rule reads '{name}' as an integer, and it is {value!r}") from None

    def others(self, leaf: ast.Disjoint) -> tuple[str, ...]:
        """The arrays that `leaf` compares its own with."""
        if leaf.others is not None:
            return leaf.others
        return tuple(n for n, v in self.arguments.items() if isinstance(v, ArrayValue) and n != leaf.name)

    def _get(self, name: str) -> ArrayValue | int | float | bool:
        try:
            return self.arguments[name]
        except KeyError:
            raise Error(f"a rule reads '{name}', and there is no argument of that name") from None


Value = Union[int, bool]
Evaluator = Callable[[Environment], Value]


def check(value: int) -> int:
    """`value` when it fits signed 64 bits, else a :class:`Fault`."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise Fault(OVERFLOW)
    return value


def overlap(left: tuple[int, int], right: tuple[int, int]) -> int:
    """How many bytes two extents share."""
    if left[0] == left[1] or right[0] == right[1]:
        return 0
    return max(0, min(left[1], right[1]) - max(left[0], right[0]))


def leaf_values(leaf: ast.Leaf, env: Environment) -> dict[str, int]:
    """What messages say about a leaf: ``{"len(x)": 3}``; an overlap for each array of ``disjoint``, the remainder for
    ``aligned``. A value of more than 63 bits is given as some number of more than 63 bits."""
    if isinstance(leaf, ast.Aligned):
        return {f"address({leaf.name}) % {leaf.bytes}": env.array(leaf.name).address % leaf.bytes}
    if isinstance(leaf, ast.Disjoint):
        return {f"overlap({leaf.name}, {other})": _overlap_of(leaf.name, other, env) for other in env.others(leaf)}
    try:
        value = int(_compile_leaf(leaf)(env))
    except Fault:
        value = env.number(leaf.name) if isinstance(leaf, ast.Name) else INT64_MAX + 1
    return {ast.leaf_text(leaf): value}


def compile_node(node: ast.Node) -> Evaluator:
    """A function that evaluates `node`; it raises :class:`Fault`."""
    if isinstance(node, ast.LEAF_TYPES):
        return _compile_leaf(node)
    if isinstance(node, ast.Literal):
        value = node.value
        return lambda env: value
    if isinstance(node, ast.Negate):
        operand = compile_node(node.operand)
        return lambda env: check(-operand(env))
    if isinstance(node, ast.Not):
        condition = compile_node(node.operand)
        return lambda env: not condition(env)
    if isinstance(node, ast.Call):
        return _compile_call(node)
    left, right = compile_node(node.left), compile_node(node.right)
    if isinstance(node, ast.Logic):
        if node.op == "and":
            return lambda env: bool(left(env) and right(env))
        return lambda env: bool(left(env) or right(env))
    if isinstance(node, ast.Compare):
        compare = _COMPARE[node.op]
        return lambda env: bool(compare(left(env), right(env)))
    apply = _APPLY[node.op]
    return lambda env: apply(left(env), right(env))


def _compile_call(node: ast.Call) -> Evaluator:
    parts = tuple(compile_node(argument) for argument in node.arguments)
    if node.function == "ceil_div":
        left, right = parts
        return lambda env: _ceil_div(left(env), right(env))
    choose = min if node.function == "min" else max
    return lambda env: choose([part(env) for part in parts])


def _compile_leaf(leaf: ast.Leaf) -> Evaluator:
    if isinstance(leaf, ast.Name):
        name, boolean = leaf.name, leaf.boolean
        return (lambda env: bool(env.number(name))) if boolean else (lambda env: check(env.number(name)))
    if isinstance(leaf, ast.LaunchDim):
        base, axis = leaf.base, "xyz".index(leaf.axis)
        return lambda env: check((env.block if base == "block" else env.grid)[axis])
    if isinstance(leaf, ast.Disjoint):
        return lambda env: _is_disjoint(leaf, env)
    array = leaf.name
    if isinstance(leaf, ast.Len):
        return lambda env: env.array(array).length
    if isinstance(leaf, ast.Aligned):
        size = leaf.bytes
        return lambda env: env.array(array).address % size == 0
    position, is_dim = leaf.axis, isinstance(leaf, ast.Dim)
    return lambda env: _extent(env.array(array), position, is_dim, leaf)


def _extent(array: ArrayValue, axis: int, is_dim: bool, leaf: ast.Leaf) -> int:
    values = array.shape if is_dim else array.strides
    if axis >= len(values):
        raise Error(f"a rule reads {ast.leaf_text(leaf)}, and the array has {len(values)} dimensions")
    return check(values[axis])


def _is_disjoint(leaf: ast.Disjoint, env: Environment) -> bool:
    for other in env.others(leaf):
        mine = env.array(leaf.name).extent
        if overlap(mine, env.array(other).extent):
            return False
    return True


def _overlap_of(name: str, other: str, env: Environment) -> int:
    try:
        return overlap(env.array(name).extent, env.array(other).extent)
    except Fault:
        return INT64_MAX + 1


def _length(shape: tuple[int, ...]) -> int:
    length = 1
    for count in shape:
        length = check(length * check(count))
    return length


def _floor_div(left: int, right: int) -> int:
    if right == 0:
        raise Fault(DIVISION_BY_ZERO)
    return check(left // right)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise Fault(DIVISION_BY_ZERO)
    return left % right


def _ceil_div(left: int, right: int) -> int:
    if right == 0:
        raise Fault(DIVISION_BY_ZERO)
    return check(-(-left // right))


_APPLY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: check(a + b),
    "-": lambda a, b: check(a - b),
    "*": lambda a, b: check(a * b),
    "//": _floor_div,
    "%": _modulo,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

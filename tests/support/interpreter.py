"""Runs IR one thread at a time, in Python: the oracle for analyses and code generation. Integers and bools only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from abi import Scalar
from interop.frontend.conversion import wrap
from interop.ir import Function, Operation, Region, Value, ops

Dim3 = tuple[int, int, int]


class Stopped(Exception):
    """The kernel stopped with a failed check."""


@dataclass
class _Jump(Exception):
    kind: str
    values: list[Any]


def _floor_divide(a: int, b: int) -> int:
    return a // b


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": _floor_divide,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@dataclass
class Thread:
    """One thread's run. ``history`` lists the barriers that it reached and the values that it computed, in order."""

    function: Function
    arguments: dict[str, Any]
    thread: Dim3
    block: Dim3
    block_index: Dim3 = (0, 0, 0)
    grid: Dim3 = (1, 1, 1)
    barriers: list[ops.Barrier] = field(default_factory=list)
    history: list[tuple[Value, Any]] = field(default_factory=list)
    steps: int = 20000

    def run(self) -> Thread:
        self.values: dict[Value, Any] = {p.value: self.arguments[p.name] for p in self.function.parameters}
        try:
            self._region(self.function.body)
        except _Jump as jump:
            assert jump.kind == "Return"
        return self

    def _region(self, region: Region) -> None:
        for op in region:
            self.steps -= 1
            assert self.steps > 0, "the kernel does not end"
            getattr(self, f"on_{type(op).__name__.lower()}", self._compute)(op)

    def _set(self, values: tuple[Value, ...], results: list[Any]) -> None:
        for value, result in zip(values, results, strict=True):
            self.values[value] = result
            self.history.append((value, result))

    def _get(self, values: tuple[Value, ...]) -> list[Any]:
        return [self.values[v] for v in values]

    def _catch(self, region: Region, *kinds: str) -> _Jump:
        try:
            self._region(region)
        except _Jump as jump:
            if jump.kind in kinds:
                return jump
            raise
        raise AssertionError("a region ended without a terminator")

    # -- values

    def _compute(self, op: Operation) -> None:
        if isinstance(op, ops.Terminator):
            raise _Jump(type(op).__name__, self._get(op.operands))
        (result,) = op.results
        value = self._value(op)
        if isinstance(result.type, Scalar):
            value = bool(value) if result.type.kind == "bool" else wrap(int(value), result.type)
        self._set((result,), [value])

    def _value(self, op: Operation) -> Any:
        if isinstance(op, ops.Constant):
            return op.value
        if isinstance(op, ops.Binary):
            left, right = self._get((op.left, op.right))
            if op.kind in ("shl", "shr"):
                amount = 1000 if right < 0 else min(right, 1000)
                return left << amount if op.kind == "shl" else left >> amount
            return BINARY[op.kind](left, right)
        if isinstance(op, ops.Unary):
            value = self.values[op.value]
            return {"neg": -value, "abs": abs(value), "invert": ~value, "not": not value}[op.kind]
        if isinstance(op, ops.Compare):
            return COMPARE[op.kind](*self._get((op.left, op.right)))
        if isinstance(op, ops.Cast):
            return self.values[op.value]
        if isinstance(op, ops.Geometry):
            places = {
                "thread_index": self.thread,
                "block_dim": self.block,
                "block_index": self.block_index,
                "grid_dim": self.grid,
            }
            return places[op.kind][op.axis]
        if isinstance(op, ops.GlobalIndex):
            axes = reversed(range(op.result.type.rank))  # type: ignore[union-attr]
            return tuple(self.block_index[a] * self.block[a] + self.thread[a] for a in axes)
        if isinstance(op, ops.StrideIndex):
            return (self.values[op.index],)
        if isinstance(op, ops.Coordinate):
            return self.values[op.witness][op.axis]
        if isinstance(op, ops.Extent):
            return self.values[op.array].shape[op.axis]
        if isinstance(op, ops.Load):
            array, index = self._element(op)
            return int(array[index])
        raise NotImplementedError(type(op).__name__)

    def _element(self, op: ops.Load | ops.Store) -> tuple[Any, tuple[int, ...]]:
        array, index = self.values[op.array], self._get(op.indices)
        place = index[0] if isinstance(index[0], tuple) else tuple(index)
        if op.checked and not all(0 <= i < n for i, n in zip(place, array.shape, strict=True)):
            raise Stopped(f"index {place} of {array.shape}")
        return array, place

    def on_store(self, op: ops.Store) -> None:
        array, index = self._element(op)
        array[index] = self.values[op.value]

    def on_barrier(self, op: ops.Barrier) -> None:
        self.barriers.append(op)

    def on_assert(self, op: ops.Assert) -> None:
        if not self.values[op.condition]:
            raise Stopped(op.message)

    # -- control flow

    def on_if(self, op: ops.If) -> None:
        jump = self._catch(op.then if self.values[op.condition] else op.otherwise, "Yield")
        self._set(op.results_, jump.values)

    def on_scope(self, op: ops.Scope) -> None:
        self._set(op.results_, self._catch(op.body, "Return").values)

    def on_for(self, op: ops.For) -> None:
        carried = self._get(op.initial)
        for index in range(*self._get((op.start, op.stop, op.step))):
            self._set((op.induction, *op.carried), [index, *carried])
            jump = self._catch(op.body, "Continue", "Break")
            if jump.kind == "Break":
                self._set(op.results_, jump.values)
                return
            carried = jump.values
        self._set(op.results_, carried)

    def on_while(self, op: ops.While) -> None:
        carried = self._get(op.initial)
        while True:
            self._set(op.carried, carried)
            if not self._catch(op.condition, "Condition").values[0]:
                self._set(op.results_, carried)
                return
            jump = self._catch(op.body, "Continue", "Break")
            if jump.kind == "Break":
                self._set(op.results_, jump.values)
                return
            carried = jump.values

"""Checks that IR is well formed. Runs between passes in tests, and on every kernel before code generation.

Its errors are internal: a user's mistake must have been found before.
"""

from __future__ import annotations

from abi import Scalar, bool_, i64

from .ops import (
    Assert,
    Binary,
    Break,
    Cast,
    Compare,
    Condition,
    Continue,
    Coordinate,
    Extent,
    For,
    Function,
    If,
    Load,
    Math,
    Operation,
    Region,
    Return,
    Scope,
    Store,
    Terminator,
    Unary,
    Value,
    While,
    Yield,
)
from .printer import print_operation
from .types import ARRAYS, IRType, Witness, array_element, array_rank


class VerificationError(AssertionError):
    """The IR is malformed: a fault of the compiler, not of the kernel."""


class _Verifier:
    def __init__(self) -> None:
        self.defined: set[Value] = set()
        self.loops: list[For | While] = []
        self.scopes: list[Scope | None] = [None]

    def check(self, truth: bool, op: Operation, message: str) -> None:
        if not truth:
            raise VerificationError(f"{op.location}: {print_operation(op)}: {message}")

    def types(self, op: Operation, values: tuple[Value, ...], expected: tuple[Value, ...], what: str) -> None:
        got = [v.type for v in values]
        want = [v.type for v in expected]
        self.check(got == want, op, f"{what} have types {got}, expected {want}")

    def define(self, op: Operation, values: tuple[Value, ...]) -> None:
        for value in values:
            self.check(value not in self.defined, op, "a value is defined twice")
            self.defined.add(value)

    def region(self, region: Region, allowed: tuple[type, ...]) -> None:
        outer = set(self.defined)
        for position, op in enumerate(region):
            last = position == len(region.operations) - 1
            self.check(isinstance(op, Terminator) == last, op, "terminators stand at the end of regions, only there")
            for value in op.operands:
                self.check(value in self.defined, op, "an operand is not defined here")
            self.operation(op)
        exits = (Break, Continue, Return, *allowed)
        if isinstance(region.terminator, (Yield, Condition)):
            self.check(isinstance(region.terminator, exits), region.terminator, "is not the end of such a region")
        self.defined = outer

    def operation(self, op: Operation) -> None:
        handler = getattr(self, f"on_{type(op).__name__.lower()}", None)
        if handler is not None:
            handler(op)
        self.define(op, op.results)

    # -- values

    def on_binary(self, op: Binary) -> None:
        self.check(op.left.type == op.right.type == op.result.type, op, "operands and result have one type")
        self.check(isinstance(op.left.type, Scalar), op, "operands are scalars")

    def on_unary(self, op: Unary) -> None:
        self.check(op.value.type == op.result.type and isinstance(op.value.type, Scalar), op, "has one scalar type")

    def on_compare(self, op: Compare) -> None:
        self.check(op.left.type == op.right.type and op.result.type == bool_, op, "compares one type, gives bool")

    def on_cast(self, op: Cast) -> None:
        self.check(isinstance(op.value.type, Scalar) and isinstance(op.result.type, Scalar), op, "casts scalars")

    def on_math(self, op: Math) -> None:
        self.check(all(isinstance(v.type, Scalar) and v.type.kind == "float" for v in op.values), op, "takes floats")
        self.check(len({v.type for v in op.values}) == 1, op, "operands have one type")

    def on_coordinate(self, op: Coordinate) -> None:
        witness = op.witness.type
        self.check(isinstance(witness, Witness) and op.axis < witness.rank, op, "needs a witness of enough rank")

    def on_extent(self, op: Extent) -> None:
        self.check(isinstance(op.array.type, ARRAYS) and op.result.type == i64, op, "measures an array as i64")

    def on_assert(self, op: Assert) -> None:
        self.check(op.condition.type == bool_, op, "the condition is a bool")

    def access(self, op: Load | Store, value: IRType) -> None:
        self.check(isinstance(op.array.type, ARRAYS), op, "accesses an array")
        self.check(array_element(op.array.type) == value, op, f"moves {value}, the array has {op.array.type}")
        rank = array_rank(op.array.type)
        first = op.indices[0].type if op.indices else None
        if isinstance(first, Witness):
            self.check(len(op.indices) == 1 and first.rank == rank, op, "the witness has the array's rank")
        else:
            good = all(isinstance(i.type, Scalar) and i.type.kind in ("int", "uint") for i in op.indices)
            self.check(good and len(op.indices) == rank, op, f"takes {rank} integer indices")

    def on_load(self, op: Load) -> None:
        self.access(op, op.result.type)

    def on_store(self, op: Store) -> None:
        self.access(op, op.value.type)

    # -- control flow

    def branch(self, op: If, region: Region) -> None:
        self.region(region, (Yield,))
        if isinstance(region.terminator, Yield):
            self.types(region.terminator, region.terminator.values, op.results_, "yielded values")

    def on_if(self, op: If) -> None:
        self.check(op.condition.type == bool_, op, "the condition is a bool")
        self.branch(op, op.then)
        self.branch(op, op.otherwise)

    def on_for(self, op: For) -> None:
        self.check(op.start.type == op.stop.type == op.step.type == op.induction.type, op, "bounds have one type")
        self.types(op, op.initial, op.carried, "initial values")
        self.types(op, op.carried, op.results_[: len(op.carried)], "arguments")
        self.loops.append(op)
        self.define(op, op.arguments)
        self.region(op.body, ())
        self.loops.pop()

    def on_while(self, op: While) -> None:
        self.types(op, op.initial, op.carried, "initial values")
        self.loops.append(op)
        self.define(op, op.arguments)
        self.check(isinstance(op.condition.terminator, Condition), op, "the condition region ends in condition")
        # What the condition computes is visible in the body: it has always run before.
        before = set(self.defined)
        for inner in op.condition.operations[:-1]:
            for value in inner.operands:
                self.check(value in self.defined, inner, "an operand is not defined here")
            self.operation(inner)
        ending = op.condition.terminator
        self.check(all(v in self.defined and v.type == bool_ for v in ending.operands), ending, "takes a bool")
        self.region(op.body, ())
        self.defined = before
        self.loops.pop()

    def on_break(self, op: Break) -> None:
        self.check(bool(self.loops), op, "stands in a loop")
        self.types(op, op.values, self.loops[-1].results_, "values")

    def on_continue(self, op: Continue) -> None:
        self.check(bool(self.loops), op, "stands in a loop")
        self.types(op, op.values, self.loops[-1].carried, "values")

    def on_scope(self, op: Scope) -> None:
        outer, self.loops = self.loops, []
        self.scopes.append(op)
        self.region(op.body, ())
        self.scopes.pop()
        self.loops = outer

    def on_return(self, op: Return) -> None:
        scope = self.scopes[-1]
        self.types(op, op.values, scope.results_ if scope else (), "returned values")


def verify(function: Function) -> None:
    """Raises :class:`VerificationError` when `function` is malformed."""
    verifier = _Verifier()
    verifier.defined.update(p.value for p in function.parameters)
    verifier.region(function.body, ())

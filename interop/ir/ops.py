# ruff: noqa: RUF009 (operand() and its kin are field specifiers, as dataclasses.field is)
"""The operations of the thread-level IR: SSA, with structured control flow, as frozen dataclasses.

Every field of an operation is declared as an operand, a result, an attribute or a region; printer, verifier and passes
work from the declarations. A region is a run of operations that ends in one terminator:

========== ==========================================================================================
Yield      ends a branch of :class:`If` and hands over its results
Condition  ends the condition region of :class:`While`
Continue   starts the next iteration of the innermost loop with new values of its arguments
Break      leaves the innermost loop with its results
Return     leaves the innermost :class:`Scope` (an inlined device function), or the kernel
Unreachable stands where control never arrives
========== ==========================================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from abi.rules import Rule

from ..errors import Location
from .types import IRType


@dataclass(frozen=True, eq=False)
class Value:
    """An SSA value. Compares by identity; its name, if a variable held it, is in :attr:`Function.names`."""

    type: IRType


def operand() -> Any:
    """Declares a field that holds a value, or a tuple of values, that the operation reads."""
    return dataclasses.field(metadata={"role": "operand"})


def result() -> Any:
    """Declares a field that holds a value, or a tuple of values, that the operation defines."""
    return dataclasses.field(metadata={"role": "result"})


def arguments() -> Any:
    """Declares values that the operation defines inside its regions only."""
    return dataclasses.field(metadata={"role": "argument"})


def attribute() -> Any:
    """Declares a compile-time property."""
    return dataclasses.field(metadata={"role": "attribute"})


def region() -> Any:
    """Declares a nested run of operations."""
    return dataclasses.field(metadata={"role": "region"})


_FIELDS: dict[tuple[type, str], tuple[str, ...]] = {}


def _fields(kind: type, role: str) -> tuple[str, ...]:
    if (kind, role) not in _FIELDS:
        _FIELDS[kind, role] = tuple(f.name for f in dataclasses.fields(kind) if f.metadata.get("role") == role)
    return _FIELDS[kind, role]


@dataclass(frozen=True, eq=False)
class Operation:
    """Base of all operations."""

    location: Location

    def _values(self, role: str) -> tuple[Value, ...]:
        found: list[Value] = []
        for name in _fields(type(self), role):
            held = getattr(self, name)
            found.extend(held if isinstance(held, tuple) else (held,))
        return tuple(found)

    @property
    def operands(self) -> tuple[Value, ...]:
        return self._values("operand")

    @property
    def results(self) -> tuple[Value, ...]:
        return self._values("result")

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self._values("argument")

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(getattr(self, name) for name in _fields(type(self), "region"))

    @property
    def attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _fields(type(self), "attribute")}


@dataclass(frozen=True, eq=False)
class Region:
    """Operations in order; the last one is a terminator."""

    operations: tuple[Operation, ...]

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    @property
    def terminator(self) -> Operation:
        return self.operations[-1]


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Constant(Operation):
    """A number; ``value`` is a Python bool, int or float that the result's type can hold."""

    result: Value = result()
    value: Union[bool, int, float] = attribute()


@dataclass(frozen=True, eq=False)
class Binary(Operation):
    """Arithmetic on two values of one type. ``kind``: add sub mul div floordiv mod and or xor shl shr min max.

    Integers wrap; ``floordiv`` and ``mod`` round towards minus infinity; a shift by the width or more gives what
    shifting bit by bit would give.
    """

    result: Value = result()
    kind: str = attribute()
    left: Value = operand()
    right: Value = operand()


@dataclass(frozen=True, eq=False)
class Unary(Operation):
    """``kind``: neg, abs, invert (all bits), not (of a bool)."""

    result: Value = result()
    kind: str = attribute()
    value: Value = operand()


@dataclass(frozen=True, eq=False)
class Compare(Operation):
    """``kind``: eq ne lt le gt ge. On floats all but ``ne`` are false when a NaN is compared, as in Python."""

    result: Value = result()
    kind: str = attribute()
    left: Value = operand()
    right: Value = operand()


@dataclass(frozen=True, eq=False)
class Cast(Operation):
    """Conversion to the result's type. Float to integer truncates and saturates (NaN gives 0); integers wrap."""

    result: Value = result()
    value: Value = operand()


@dataclass(frozen=True, eq=False)
class Math(Operation):
    """A floating-point function by its name in :data:`interop.language.functions.MATH`."""

    result: Value = result()
    function: str = attribute()
    values: tuple[Value, ...] = operand()


# -- the thread's place ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Geometry(Operation):
    """``kind``: thread_index block_index block_dim grid_dim; ``axis`` 0 is x."""

    result: Value = result()
    kind: str = attribute()
    axis: int = attribute()


@dataclass(frozen=True, eq=False)
class GlobalIndex(Operation):
    """The thread's own index in the launch, as a witness."""

    result: Value = result()


@dataclass(frozen=True, eq=False)
class StrideIndex(Operation):
    """The witness of one step of a grid-stride loop: ``index`` is the thread's global index plus whole strides."""

    result: Value = result()
    index: Value = operand()


@dataclass(frozen=True, eq=False)
class Coordinate(Operation):
    """A witness's coordinate as a plain integer; axis 0 is the outermost (plane or row)."""

    result: Value = result()
    witness: Value = operand()
    axis: int = attribute()


# -- memory ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Extent(Operation):
    """``what`` is ``dim`` or ``stride`` of an array along ``axis``, as i64. A slice has one dimension of stride 1."""

    result: Value = result()
    array: Value = operand()
    what: str = attribute()
    axis: int = attribute()


@dataclass(frozen=True, eq=False)
class SharedArray(Operation):
    """Shared memory of the block; a ``length`` (an empty tuple or one value) makes it the dynamic one."""

    result: Value = result()
    length: tuple[Value, ...] = operand()


@dataclass(frozen=True, eq=False)
class Load(Operation):
    """Reads an element. Indices are integers, or one witness; ``checked`` says whether bounds are."""

    result: Value = result()
    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    checked: bool = attribute()


@dataclass(frozen=True, eq=False)
class Store(Operation):
    """Writes an element. Indices are integers, or one witness; unchecked means that an author vouched for it."""

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    value: Value = operand()
    checked: bool = attribute()


@dataclass(frozen=True, eq=False)
class Barrier(Operation):
    """Waits for all threads of the block and orders their memory accesses."""


@dataclass(frozen=True, eq=False)
class Assert(Operation):
    """Stops the kernel with ``message`` unless ``condition`` holds."""

    condition: Value = operand()
    message: str = attribute()


# -- control flow ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class If(Operation):
    """A branch that does not end in Yield leaves through its terminator."""

    results_: tuple[Value, ...] = result()
    condition: Value = operand()
    then: Region = region()
    otherwise: Region = region()


@dataclass(frozen=True, eq=False)
class For(Operation):
    """Python's ``for … in range(start, stop, step)``. Leaving by exhaustion gives the arguments as results.

    ``direction`` is the sign of the step where it is known, else 0. A step of zero was ruled out before.
    """

    results_: tuple[Value, ...] = result()
    induction: Value = arguments()
    carried: tuple[Value, ...] = arguments()
    start: Value = operand()
    stop: Value = operand()
    step: Value = operand()
    initial: tuple[Value, ...] = operand()
    direction: int = attribute()
    body: Region = region()


@dataclass(frozen=True, eq=False)
class While(Operation):
    """Leaving by a false condition gives the arguments as results."""

    results_: tuple[Value, ...] = result()
    carried: tuple[Value, ...] = arguments()
    initial: tuple[Value, ...] = operand()
    condition: Region = region()
    body: Region = region()


@dataclass(frozen=True, eq=False)
class Scope(Operation):
    """The body of an inlined device function; Return leaves it with its results."""

    results_: tuple[Value, ...] = result()
    name: str = attribute()
    body: Region = region()


@dataclass(frozen=True, eq=False)
class Terminator(Operation):
    """Base of the operations that end a region."""


@dataclass(frozen=True, eq=False)
class Yield(Terminator):
    values: tuple[Value, ...] = operand()


@dataclass(frozen=True, eq=False)
class Condition(Terminator):
    value: Value = operand()


@dataclass(frozen=True, eq=False)
class Continue(Terminator):
    values: tuple[Value, ...] = operand()


@dataclass(frozen=True, eq=False)
class Break(Terminator):
    values: tuple[Value, ...] = operand()


@dataclass(frozen=True, eq=False)
class Return(Terminator):
    values: tuple[Value, ...] = operand()


@dataclass(frozen=True, eq=False)
class Unreachable(Terminator):
    pass


# -- functions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parameter:
    """A kernel parameter as annotated: ``word`` is Slice, DisjointTensor …; ``disjoint`` ones take a witness."""

    value: Value
    name: str
    word: str
    writable: bool
    disjoint: bool


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel's body with what code generation needs of its contract.

    ``block`` is the exact block or None; ``max_threads`` a bound or None; ``assumptions`` the rules that every launch
    enforces, which the optimiser may rely on; ``names`` the variable that first held each value.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: Region
    location: Location
    block: tuple[int, int, int] | None = None
    max_threads: int | None = None
    contract: bool = True
    assumptions: tuple[Rule, ...] = ()
    names: Mapping[Value, str] = field(default_factory=dict)


def walk(region_: Region) -> Iterator[Operation]:
    """All operations of a region and its nested regions, in textual order."""
    for operation in region_:
        yield operation
        for inner in operation.regions:
            yield from walk(inner)

"""The state of a compilation: the operations emitted so far, the variables of each function being inlined, errors."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from abi import Scalar, bool_, i64

from ..errors import CompileError, Location, Note, TypeError_, UnsupportedError
from ..ir import ops
from ..ir.ops import Operation, Region, Value
from ..ir.types import IRType
from .bindings import (
    ArrayBinding,
    Binding,
    Branches,
    Clash,
    Form,
    Leaf,
    Literal,
    Number,
    Same,
    TupleBinding,
    Unassigned,
    WitnessBinding,
    accepts,
    default_type,
    describe,
)
from .captures import Captures
from .conversion import is_integer, literal_fits, widens
from .source import Source

E = TypeVar("E", bound=CompileError)


@dataclass(frozen=True)
class Misfit:
    """A variable that cannot take the form that its other paths gave it."""

    name: str
    got: str
    expected: str
    location: Location


@dataclass
class Exit:
    """One way out of a branch or a loop: what the variables were there, and where they were assigned."""

    variables: dict[str, Binding]
    assigned_at: dict[str, Location]


@dataclass
class Loop:
    """A loop being compiled under the assumption that its variables have ``forms``; ``extra`` leave with a break."""

    forms: dict[str, Form]
    extra: dict[str, Form]
    continues: list[Exit] = field(default_factory=list)
    breaks: list[Exit] = field(default_factory=list)
    arguments: dict[str, Binding] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)


@dataclass
class Frame:
    """A function being compiled: the kernel, or a device function inlined into it."""

    source: Source
    variables: dict[str, Binding]
    assigned_at: dict[str, Location] = field(default_factory=dict)
    locals: frozenset[str] = frozenset()
    loops: list[Loop] = field(default_factory=list)
    returns: list[tuple[Binding, Location]] = field(default_factory=list)
    result: Form | None = None
    unsafe: int = 0
    inlined: bool = False
    call_site: Location | None = None
    path: tuple[object, ...] = ()


class Core:
    """Emission and conversion. The subclasses add what each kind of syntax needs."""

    def __init__(self, captures: Captures):
        self.captures = captures
        self.frames: list[Frame] = []
        self.block: list[Operation] = []
        self.names: dict[Value, str] = {}
        # Forms that a loop settled on, so that a loop inside a loop is not probed again: see loops.py.
        self.settled: dict[object, tuple[dict[str, Form], dict[str, Form]]] = {}
        self._depth = 0

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    # -- errors

    def locate(self, node: ast.AST) -> Location:
        return self.frame.source.location(node)

    def error(self, kind: type[E], node: ast.AST, message: str, help: str = "", notes: tuple[Note, ...] = ()) -> E:
        """An error of `kind` at `node`, with the chain of calls that led into device functions."""
        return kind(message, self.locate(node), help=help, notes=(*notes, *self.call_notes()))

    def call_notes(self) -> list[Note]:
        return [Note(f"in the call of {f.source.name}()", f.call_site) for f in reversed(self.frames) if f.call_site]

    def unsupported(self, node: ast.AST, what: str, help: str = "") -> UnsupportedError:
        """The error for a construct that kernels do not have."""
        return self.error(UnsupportedError, node, f"{what} cannot be used in a kernel", help)

    # -- emission

    @property
    def terminated(self) -> bool:
        """Whether control has already left the current block."""
        return bool(self.block) and isinstance(self.block[-1], ops.Terminator)

    def emit(self, operation: Operation) -> None:
        if not self.terminated:
            self.block.append(operation)

    def value(self, type_: IRType) -> Value:
        return Value(type_)

    def constant(self, literal: bool | int | float, type_: Scalar, location: Location) -> Value:
        if type_.kind == "float":
            literal = float(literal)
        value = Value(type_)
        self.emit(ops.Constant(location, value, literal))
        return value

    def finish(self, block: list[Operation], location: Location) -> Region:
        """A block as a region; control that falls off its end never gets there."""
        if not block or not isinstance(block[-1], ops.Terminator):
            block.append(ops.Unreachable(location))
        return Region(tuple(block))

    def binary(self, kind: str, left: Value, right: Value, location: Location) -> Value:
        value = Value(left.type)
        self.emit(ops.Binary(location, value, kind, left, right))
        return value

    def compare(self, kind: str, left: Value, right: Value, location: Location) -> Value:
        value = Value(bool_)
        self.emit(ops.Compare(location, value, kind, left, right))
        return value

    def cast(self, value: Value, type_: Scalar, location: Location) -> Value:
        if value.type == type_:
            return value
        result = Value(type_)
        self.emit(ops.Cast(location, result, value))
        return result

    # -- conversion

    def plain(self, binding: Binding, location: Location) -> Binding:
        """A witness of rank 1 as the plain integer that it holds; anything else as it is."""
        if isinstance(binding, WitnessBinding) and binding.rank == 1:
            return Number(self.coordinate(binding, 0, location))
        return binding

    def coordinate(self, witness: WitnessBinding, axis: int, location: Location) -> Value:
        value = Value(i64)
        self.emit(ops.Coordinate(location, value, witness.value, axis))
        return value

    def convert(self, binding: Binding, type_: Scalar, node: ast.AST, purpose: str) -> Value:
        """A binding as a value of `type_`: literals take the type if they fit, numbers if they widen to it."""
        location = self.locate(node)
        binding = self.plain(binding, location)
        if isinstance(binding, Literal):
            if literal_fits(binding.value, type_):
                return self.constant(binding.value, type_, location)
            if isinstance(binding.value, int) and is_integer(type_) and not isinstance(binding.value, bool):
                limits = f"{type_} holds {type_.minimum} to {type_.maximum}"
                raise self.error(TypeError_, node, f"{binding.value} does not fit {type_} ({purpose})", limits)
            raise self.error(
                TypeError_,
                node,
                f"{binding.value!r} is not a value of type {type_} ({purpose})",
                _literal_help(binding, type_),
            )
        if isinstance(binding, Number):
            if binding.weak and (type_.kind == "float" or (is_integer(type_) and is_integer(binding.type))):
                return self.cast(binding.value, type_, location)
            if not binding.weak and widens(binding.type, type_):
                return self.cast(binding.value, type_, location)
            raise self.error(
                TypeError_,
                node,
                f"{describe(binding)} does not convert to {type_} without being asked ({purpose})",
                f"write io.{type_}({text_of(node)})" if type_.kind != "bool" else "write a comparison",
            )
        raise self.error(TypeError_, node, f"expected a number of type {type_} ({purpose}), got {describe(binding)}")

    def concrete(self, binding: Binding, node: ast.AST) -> Number:
        """A scalar binding as a run-time number, literals with their default type."""
        binding = self.plain(binding, self.locate(node))
        if isinstance(binding, Number):
            return binding
        if isinstance(binding, Literal):
            return Number(self.constant(binding.value, default_type(binding.value), self.locate(node)))
        raise self.error(TypeError_, node, f"expected a number, got {describe(binding)}")

    # -- merging: variables where paths meet

    def flatten(self, binding: Binding, form: Form, location: Location) -> list[Value] | None:
        """The values that `binding` contributes to `form`; None when it does not fit."""
        if isinstance(form, (Same, Clash)):
            return []
        if isinstance(form, Branches):
            items = self.items(binding, location)
            if items is None or len(items) != len(form.items):
                return None
            parts = [self.flatten(i, f, location) for i, f in zip(items, form.items, strict=True)]
            return None if any(p is None for p in parts) else [v for p in parts if p is not None for v in p]
        if not accepts(form, binding):
            return None
        binding = self.plain(binding, location)
        if isinstance(binding, Literal):
            return (
                [self.constant(binding.value, form.type, location)] if literal_fits(binding.value, form.type) else None
            )
        assert isinstance(binding, Number)
        return [self.cast(binding.value, form.type, location)]

    def items(self, binding: Binding, location: Location) -> tuple[Binding, ...] | None:
        """The items of a tuple, or of a witness of rank 2 or 3."""
        if isinstance(binding, TupleBinding):
            return binding.items
        if isinstance(binding, WitnessBinding) and binding.rank > 1:
            return tuple(Number(self.coordinate(binding, axis, location)) for axis in range(binding.rank))
        return None

    def unflatten(self, form: Form, values: list[Value]) -> Binding:
        """The binding of a merged variable; takes its values from the front of `values`."""
        if isinstance(form, Same):
            return form.binding
        if isinstance(form, Leaf):
            return Number(values.pop(0), form.weak)
        if isinstance(form, Branches):
            return TupleBinding(tuple(self.unflatten(item, values) for item in form.items))
        return form

    def fresh(self, form: Form) -> list[Value]:
        """New values, one for each scalar in `form`."""
        if isinstance(form, Leaf):
            return [Value(form.type)]
        return [v for item in form.items for v in self.fresh(item)] if isinstance(form, Branches) else []

    # -- variables

    def assign(self, name: str, binding: Binding, node: ast.AST) -> None:
        self.frame.variables[name] = binding
        self.frame.assigned_at[name] = self.locate(node)
        if isinstance(binding, (Number, WitnessBinding, ArrayBinding)):
            self.names.setdefault(binding.value, name)

    def restore(self, variables: Mapping[str, Binding]) -> None:
        self.frame.variables = dict(variables)

    def read_variable(self, name: str, node: ast.AST) -> Binding:
        """The value of a local variable; an error when it may have none, or one of two types."""
        binding = self.frame.variables.get(name)
        if isinstance(binding, Clash):
            notes = tuple(
                Note(f"{what} here", at)
                for what, at in ((binding.left, binding.left_at), (binding.right, binding.right_at))
                if at is not None
            )
            raise self.error(
                TypeError_,
                node,
                f"'{name}' is {binding.left} on one path and {binding.right} on another",
                f"give '{name}' one type: cast one of the values, or use two names",
                notes,
            )
        if binding is None or isinstance(binding, Unassigned):
            at = binding.assigned if binding else None
            notes = (Note("assigned only on some paths, here", at),) if at else ()
            what = "may have no value here" if at else "is used before it is assigned"
            raise self.error(TypeError_, node, f"'{name}' {what}", f"assign '{name}' before the branch or loop", notes)
        return binding


def text_of(node: ast.AST) -> str:
    """The source of an expression, for messages; a long one is cut short."""
    try:
        text = ast.unparse(node)
    except RecursionError:
        return "..."
    return text if len(text) <= 60 else text[:57] + "..."


def _literal_help(literal: Literal, type_: Scalar) -> str:
    if type_.kind == "bool":
        return "write True, False or a comparison"
    if isinstance(literal.value, bool):
        return "write 1 or 0"
    return f"write io.{type_}({literal.value!r})" if isinstance(literal.value, float) else ""

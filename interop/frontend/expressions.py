"""Expressions: names, attributes, indexing, operators, conditional expressions. Calls are in calls.py."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from abi import Pointer, Slice, bool_, i64

from ..errors import Location, RaceError, SyntaxError_, TypeError_
from ..ir import ops
from ..ir.ops import Operation, Value
from ..ir.types import ARRAYS, Shared, array_element
from ..language.constants import Const
from ..language.functions import GeometryAxis
from . import advice
from .bindings import (
    ArrayBinding,
    Binding,
    Leaf,
    Literal,
    Number,
    ObjectBinding,
    Same,
    TupleBinding,
    WitnessBinding,
    describe,
    form_of,
    leaf_of,
    merge,
    settle,
)
from .captures import lookup
from .conversion import is_integer
from .core import text_of
from .operators import Operators

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNSUPPORTED: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("a lambda", "write a function decorated with @io.device"),
    ast.Dict: ("a dict", "kernels have numbers, tuples and arrays"),
    ast.Set: ("a set", "kernels have numbers, tuples and arrays"),
    ast.List: ("a list", "use a tuple, or simt.shared(...) for an array"),
    ast.ListComp: ("a list comprehension", "write a for loop"),
    ast.SetComp: ("a set comprehension", "write a for loop"),
    ast.DictComp: ("a dict comprehension", "write a for loop"),
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.Await: ("'await'", ""),
    ast.Yield: ("'yield'", "a kernel writes its results to a parameter"),
    ast.YieldFrom: ("'yield from'", "a kernel writes its results to a parameter"),
    ast.JoinedStr: ("an f-string", "kernels have no strings"),
    ast.NamedExpr: ("':='", "assign in a statement of its own"),
    ast.Starred: ("'*' unpacking", "write the items one by one"),
}
_WITNESS_AXES = {1: ("col",), 2: ("row", "col"), 3: ("plane", "row", "col")}


class Expressions(Operators):
    """Expressions to bindings."""

    def expression(self, node: ast.expr) -> Binding:
        """What `node` stands for; emits the operations that compute it."""
        handler = getattr(self, f"expr_{type(node).__name__.lower()}", None)
        if handler is None:
            what, help = _UNSUPPORTED.get(type(node), (f"a {type(node).__name__} expression", ""))
            raise self.unsupported(node, what, help)
        binding: Binding = handler(node)
        return binding

    def branch_value(self, node: ast.expr) -> tuple[Binding, list[Operation]]:
        """An expression in a block of its own."""
        outer, self.block = self.block, []
        binding = self.expression(node)
        block, self.block = self.block, outer
        return binding, block

    def pair(self, node: ast.expr) -> tuple[Binding, ast.expr]:
        return self.expression(node), node

    # -- names and constants

    def expr_constant(self, node: ast.Constant) -> Binding:
        value = node.value
        if isinstance(value, (bool, int, float)):
            return Literal(value)
        if value is None:
            return ObjectBinding(None)
        kind = {str: "a string", bytes: "a bytes literal", complex: "a complex number"}.get(type(value), "'...'")
        raise self.unsupported(node, kind, "kernels have numbers, tuples and arrays")

    def expr_name(self, node: ast.Name) -> Binding:
        if node.id in self.frame.locals:
            return self.read_variable(node.id, node)
        found, value = lookup(self.frame.source.function, node.id)
        if not found:
            raise self.error(
                SyntaxError_, node, f"the name '{node.id}' is not defined", "define or import it before the kernel"
            )
        return self.captured(node.id, value, node)

    def captured(self, name: str, value: object, node: ast.AST) -> Binding:
        """A Python object that the kernel sees from outside, or an axis of a geometry word."""
        if isinstance(value, GeometryAxis):
            return Number(self.geometry(value.kind, value.axis, node))
        return self.captures.bind(name, value, self.locate(node))

    def geometry(self, kind: str, axis: int, node: ast.AST) -> Value:
        value = Value(i64)
        self.emit(ops.Geometry(self.locate(node), value, kind, axis))
        return value

    def expr_tuple(self, node: ast.Tuple) -> Binding:
        return TupleBinding(tuple(map(self.expression, node.elts)))

    # -- attributes

    def expr_attribute(self, node: ast.Attribute) -> Binding:
        base = self.expression(node.value)
        if isinstance(base, ObjectBinding):
            if isinstance(base.object, Const):
                raise self.unsupported(node, "an attribute of a Const", "the Const itself stands for its value")
            try:
                value = getattr(base.object, node.attr)
            except AttributeError:
                written = text_of(node.value)
                help = advice.of_attribute(base.object, written, node.attr)
                raise self.error(SyntaxError_, node, f"{written} has no '{node.attr}'", help) from None
            return self.captured(text_of(node), value, node)
        if isinstance(base, ArrayBinding):
            return self._array_attribute(base, node)
        if isinstance(base, WitnessBinding) and node.attr in _WITNESS_AXES[base.rank] and base.rank > 1:
            axis = _WITNESS_AXES[base.rank].index(node.attr)
            return Number(self.coordinate(base, axis, self.locate(node)))
        raise self.unsupported(node, f"the attribute '{node.attr}' of {describe(base)}")

    def _array_attribute(self, base: ArrayBinding, node: ast.Attribute) -> Binding:
        if node.attr == "ndim":
            return Literal(base.rank)
        if node.attr == "size":
            return self.length(base, node)
        if node.attr in ("shape", "strides"):
            what = "dim" if node.attr == "shape" else "stride"
            return TupleBinding(tuple(self.extent(base, what, axis, node) for axis in range(base.rank)))
        raise self.unsupported(
            node, f"the attribute '{node.attr}' of an array", "arrays have shape, strides (in elements), size and ndim"
        )

    def extent(self, base: ArrayBinding, what: str, axis: int, node: ast.AST) -> Binding:
        """An extent or stride; a compile-time constant for shared arrays and slices' strides."""
        type_ = base.value.type
        if isinstance(type_, Pointer):
            raise self.error(
                TypeError_,
                node,
                "a bare pointer has no length",
                "pass the length as an argument, or declare the parameter io.Slice or io.DisjointSlice",
            )
        if isinstance(type_, Shared) and type_.shape:
            if what == "dim":
                return Literal(type_.shape[axis])
            stride = 1
            for later in type_.shape[axis + 1 :]:
                stride *= later
            return Literal(stride)
        if isinstance(type_, (Slice, Shared)) and what == "stride":
            return Literal(1)
        value = Value(i64)
        self.emit(ops.Extent(self.locate(node), value, base.value, what, axis))
        return Number(value)

    def length(self, base: ArrayBinding, node: ast.AST) -> Binding:
        """Number of elements: the meaning of ``len`` in launch rules too."""
        total = self.extent(base, "dim", 0, node)
        for axis in range(1, base.rank):
            extent = self.extent(base, "dim", axis, node)
            if isinstance(total, Literal) and isinstance(extent, Literal):
                total = Literal(total.value * extent.value)
            elif isinstance(total, Number) and isinstance(extent, Number):
                total = Number(self.binary("mul", total.value, extent.value, self.locate(node)))
        return total

    # -- indexing

    def expr_subscript(self, node: ast.Subscript) -> Binding:
        base = self.expression(node.value)
        if isinstance(base, (TupleBinding, WitnessBinding)):
            return self._tuple_item(base, node)
        if not isinstance(base, ArrayBinding):
            raise self.error(TypeError_, node, f"{describe(base)} cannot be indexed")
        return self.load_element(base, self.indices(base, node), node)

    def load_element(self, base: ArrayBinding, indices: tuple[Value, ...], node: ast.Subscript) -> Binding:
        """The element of an array at indices that are evaluated already."""
        parameter = self.parameter_of(base)
        if parameter is not None and parameter.word == "Out" and not self.frame.unsafe:
            raise self.error(
                RaceError,
                node,
                f"'{parameter.name}' is declared io.Out and cannot be read",
                f"declare {parameter.name}: io.InOut[...], or io.DisjointSlice[...] to read what this thread wrote",
            )
        result = Value(array_element(base.value.type))
        checked = not self.frame.unsafe
        self.emit(ops.Load(self.locate(node), result, base.value, indices, checked))
        return Number(result)

    def parameter_binding(self, parameter: ops.Parameter) -> Binding:
        """What a kernel parameter's name stands for."""
        if isinstance(parameter.value.type, ARRAYS):
            return ArrayBinding(parameter.value)
        return Number(parameter.value)

    def parameter_of(self, array: ArrayBinding) -> ops.Parameter | None:
        """The kernel parameter that an array is; None for shared arrays."""
        return self.parameters.get(array.value)

    parameters: dict[Value, ops.Parameter]

    def _tuple_item(self, base: TupleBinding | WitnessBinding, node: ast.Subscript) -> Binding:
        items = self.items(base, self.locate(node))
        if items is None:
            raise self.error(TypeError_, node, "a witness of rank 1 is one index: it cannot be indexed")
        index = self.expression(node.slice)
        if not isinstance(index, Literal) or not isinstance(index.value, int):
            help = "a loop over a tuple, for c in (0, 1, 2):, is unrolled, so that c is a compile-time integer"
            raise self.error(TypeError_, node.slice, "a tuple is indexed by a compile-time integer", help)
        if not -len(items) <= index.value < len(items):
            raise self.error(
                TypeError_, node.slice, f"the tuple has {len(items)} items: index {index.value} is out of range"
            )
        return items[index.value]

    def indices(self, array: ArrayBinding, node: ast.Subscript) -> tuple[Value, ...]:
        """The index operands of a load or store: one witness, or as many integers as the array has dimensions."""
        nodes: Sequence[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in nodes:
            if isinstance(part, ast.Slice):
                raise self.unsupported(part, "a slice of an array", "index single elements in a loop")
        bindings = [self.expression(part) for part in nodes]
        if len(bindings) == 1:
            only = bindings[0]
            if isinstance(only, WitnessBinding) and only.rank == array.rank:
                return (only.value,)
            unpacked = self.items(only, self.locate(nodes[0]))
            if unpacked is not None:
                bindings, nodes = list(unpacked), [nodes[0]] * len(unpacked)
        if len(bindings) != array.rank:
            name = text_of(node.value)
            dims = "1 dimension" if array.rank == 1 else f"{array.rank} dimensions"
            given = "1 index" if len(bindings) == 1 else f"{len(bindings)} indices"
            raise self.error(
                TypeError_,
                node,
                f"'{name}' has {dims}, but {given} {'is' if len(bindings) == 1 else 'are'} given",
                f"write {name}[{_index_names(array.rank)}]",
            )
        return tuple(self._index(array, axis, b, n) for axis, (b, n) in enumerate(zip(bindings, nodes, strict=True)))

    def _index(self, array: ArrayBinding, axis: int, binding: Binding, node: ast.expr) -> Value:
        number = self.scalar(binding, node)
        if isinstance(number, Literal):
            if isinstance(number.value, bool) or not isinstance(number.value, int):
                raise self.error(TypeError_, node, f"an array index is an integer, not {describe(number)}")
            self._constant_index(array, axis, number.value, node)
            return self.constant(number.value, i64, self.locate(node))
        if not is_integer(number.type):
            help = f"write io.i64({text_of(node)})" if number.type.kind == "float" else ""
            raise self.error(TypeError_, node, f"an array index is an integer, not {describe(number)}", help)
        return number.value

    def _constant_index(self, array: ArrayBinding, axis: int, index: int, node: ast.expr) -> None:
        if index < 0 and not self.frame.unsafe:
            name = "the array" if not isinstance(node, ast.Name) else node.id
            raise self.error(
                TypeError_,
                node,
                f"{index} is out of range",
                f"indices do not count from the end: use the length of {name}",
            )
        type_ = array.value.type
        if isinstance(type_, Shared) and type_.shape and index >= type_.shape[axis]:
            raise self.error(
                TypeError_, node, f"{index} is out of range: the array has {type_.shape[axis]} elements along this axis"
            )

    # -- operators

    def expr_binop(self, node: ast.BinOp) -> Binding:
        # A long sum leans to the left: going down it in a loop keeps its length out of Python's recursion limit.
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        left = self.pair(spine[-1].left)
        for part in reversed(spine):
            left = self.apply_binary(part.op, part, left, self.pair(part.right)), part
        return left[0]

    def expr_unaryop(self, node: ast.UnaryOp) -> Binding:
        if isinstance(node.op, ast.Not):
            operand = self.condition(self.expression(node.operand), node.operand)
            if isinstance(operand, Literal):
                return Literal(not operand.value)
            result = Value(bool_)
            self.emit(ops.Unary(self.locate(node), result, "not", operand.value))
            return Number(result)
        return self.apply_unary(node.op, node, self.pair(node.operand))

    def expr_compare(self, node: ast.Compare) -> Binding:
        """``a < b < c``: each operand is evaluated once, and c only if a < b."""
        left = self.pair(node.left)
        return self._chain(node, left, list(zip(node.ops, node.comparators, strict=True)))

    def _chain(
        self, node: ast.Compare, left: tuple[Binding, ast.expr], rest: list[tuple[ast.cmpop, ast.expr]]
    ) -> Binding:
        operation, right_node = rest[0]
        right = self.pair(right_node)
        first = self.apply_compare(operation, node, left, right)
        if len(rest) == 1:
            return first
        return self._short_circuit(first, True, lambda: self._chain(node, right, rest[1:]), node)

    def expr_boolop(self, node: ast.BoolOp) -> Binding:
        is_and = isinstance(node.op, ast.And)

        def fold(values: list[ast.expr]) -> Binding:
            first = self._flag(values[0], is_and)
            if len(values) == 1:
                return first
            return self._short_circuit(first, is_and, lambda: fold(values[1:]), node)

        return fold(list(node.values))

    def _flag(self, node: ast.expr, is_and: bool) -> Binding:
        """An operand of and/or. Python would return the operand itself, which is only the same for bools."""
        binding = self.scalar(self.expression(node), node)
        is_bool = isinstance(binding.value, bool) if isinstance(binding, Literal) else binding.type == bool_
        if not is_bool:
            word = "and" if is_and else "or"
            raise self.error(
                TypeError_,
                node,
                f"'{word}' of {describe(binding)}",
                f"'{word}' takes bools: write {text_of(node)} != 0",
            )
        return binding

    def _short_circuit(self, first: Binding, is_and: bool, rest: Callable[[], Binding], node: ast.AST) -> Binding:
        if isinstance(first, Literal):
            return rest() if bool(first.value) is is_and else first
        assert isinstance(first, Number)
        location = self.locate(node)
        outer, self.block = self.block, []
        second = rest()
        evaluated, self.block = self.block, outer
        assert isinstance(second, (Literal, Number))
        self.block, outer = evaluated, self.block
        evaluated.append(ops.Yield(location, (self.concrete(second, node).value,)))
        skipped: list[Operation] = []
        self.block = skipped
        skipped.append(ops.Yield(location, (self.constant(not is_and, bool_, location),)))
        self.block = outer
        result = Value(bool_)
        then, otherwise = (evaluated, skipped) if is_and else (skipped, evaluated)
        self.emit(ops.If(location, (result,), first.value, ops.Region(tuple(then)), ops.Region(tuple(otherwise))))
        return Number(result)

    def expr_ifexp(self, node: ast.IfExp) -> Binding:
        test = self.condition(self.expression(node.test), node.test)
        if isinstance(test, Literal):
            return self.expression(node.body if test.value else node.orelse)
        left, then = self.branch_value(node.body)
        right, otherwise = self.branch_value(node.orelse)
        form = merge(
            form_of(left) if leaf_of(left) is not None and not isinstance(left, WitnessBinding) else Same(left), right
        )
        if isinstance(left, Literal) and isinstance(right, Literal):
            form = merge(Same(left), right)
        if not isinstance(form, (Leaf, Same)) or (isinstance(form, Same) and leaf_of(form.binding) is None):
            raise self.error(
                TypeError_,
                node,
                f"the conditional expression is {describe(left)} or {describe(right)}",
                "give both values one type, with a cast if need be",
            )
        if isinstance(form, Same):
            # Both sides are the same thing, but computing it may store something on the way.
            self._either(test.value, then, otherwise, self.locate(node))
            return form.binding
        if form.type.kind != "float":
            settled = settle(form, (left, right))
            assert isinstance(settled, Leaf)
            form = settled
        values = []
        location = self.locate(node)
        for binding, block, part in ((left, then, node.body), (right, otherwise, node.orelse)):
            outer, self.block = self.block, block
            found = self.flatten(binding, form, location)
            if found is None:
                found = [self.convert(binding, form.type, part, "in a conditional expression")]
            block.append(ops.Yield(location, tuple(found)))
            self.block = outer
            values.append(found)
        result = Value(form.type)
        self.emit(ops.If(location, (result,), test.value, ops.Region(tuple(then)), ops.Region(tuple(otherwise))))
        return Number(result, form.weak)

    def _either(self, test: Value, then: list[Operation], otherwise: list[Operation], location: Location) -> None:
        """Runs one of two blocks that give nothing."""
        if not then and not otherwise:
            return
        for block in (then, otherwise):
            if not (block and isinstance(block[-1], ops.Terminator)):
                block.append(ops.Yield(location, ()))
        self.emit(ops.If(location, (), test, ops.Region(tuple(then)), ops.Region(tuple(otherwise))))


def _index_names(rank: int) -> str:
    return ", ".join({1: ("i",), 2: ("row", "col"), 3: ("plane", "row", "col")}.get(rank, tuple("ijkl"[:rank])))

"""Statements without loops: assignment, branches, return, assert, with."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence

from abi import Scalar

from ..errors import Location, RaceError, SyntaxError_, TypeError_
from ..ir import ops
from ..ir.ops import Operation, Parameter
from ..ir.types import array_element
from ..language.functions import Intrinsic
from .annotations import annotation_object
from .bindings import (
    ArrayBinding,
    Binding,
    Branches,
    Clash,
    Form,
    Leaf,
    Literal,
    Number,
    ObjectBinding,
    Same,
    TupleBinding,
    Unassigned,
    describe,
    describe_form,
    form_of,
    leaf_of,
    merge,
    same,
    settle,
)
from .calls import Calls
from .core import Exit, Misfit

_UNSUPPORTED: dict[str, tuple[str, str]] = {
    "FunctionDef": ("a nested function", "define it outside and decorate it with @io.device"),
    "AsyncFunctionDef": ("a nested function", "define it outside and decorate it with @io.device"),
    "ClassDef": ("a class", "kernels have numbers, tuples and arrays"),
    "Delete": ("'del'", ""),
    "AsyncFor": ("'async for'", ""),
    "AsyncWith": ("'async with'", ""),
    "Match": ("'match'", "write if, elif, else"),
    "Raise": ("'raise'", "use assert, which stops the kernel with a message"),
    "Try": ("'try'", "kernels have no exceptions; assert stops the kernel"),
    "TryStar": ("'try'", "kernels have no exceptions; assert stops the kernel"),
    "Import": ("'import'", "import at the top of the file"),
    "ImportFrom": ("'import'", "import at the top of the file"),
    "Global": ("'global'", "pass values as arguments; results go to a parameter"),
    "Nonlocal": ("'nonlocal'", "pass values as arguments; return results"),
    "TypeAlias": ("'type'", ""),
}


class Statements(Calls):
    """Statements to operations."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Compiles statements until control leaves the block; what follows is unreachable and skipped."""
        for node in body:
            if self.terminated:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        name = type(node).__name__
        handler = getattr(self, f"stmt_{name.lower()}", None)
        if handler is None:
            what, help = _UNSUPPORTED.get(name, (f"a {name} statement", ""))
            raise self.unsupported(node, what, help)
        handler(node)

    def stmt_pass(self, node: ast.Pass) -> None:
        pass

    def stmt_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        self.expression(node.value)

    # -- assignment

    def stmt_assign(self, node: ast.Assign) -> None:
        binding = self.expression(node.value)
        for target in node.targets:
            self.store(target, binding, node.value)

    def stmt_annassign(self, node: ast.AnnAssign) -> None:
        type_ = annotation_object(self.frame.source, node.annotation, self.frame.source.location(node.annotation))
        if not isinstance(type_, Scalar):
            raise self.error(
                SyntaxError_, node.annotation, "a variable is annotated with a scalar type", "write x: io.f32 = ..."
            )
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node, "an annotation of something other than a variable")
        if node.value is None:
            raise self.unsupported(node, "an annotation without a value", f"write {node.target.id}: io.{type_} = 0")
        binding = self.expression(node.value)
        value = self.convert(binding, type_, node.value, f"for '{node.target.id}'")
        self.assign(node.target.id, Number(value), node)

    def stmt_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            base = self.expression(node.target.value)
            if isinstance(base, ArrayBinding):
                self._augmented_element(node, node.target, base)
                return
        if not isinstance(node.target, (ast.Name, ast.Subscript)):
            raise self.unsupported(node, "an augmented assignment to an attribute")
        read = copy.copy(node.target)
        read.ctx = ast.Load()
        binding = self.apply_binary(node.op, node, self.pair(read), self.pair(node.value))
        self.store(node.target, binding, node)

    def _augmented_element(self, node: ast.AugAssign, target: ast.Subscript, base: ArrayBinding) -> None:
        """``a[i] += x``: the index is evaluated once, as in Python; it may call a function that stores something."""
        indices = self.indices(base, target)
        old = self.load_element(base, indices, target)
        binding = self.apply_binary(node.op, node, (old, target), self.pair(node.value))
        self._store_at(base, indices, target, binding, node)

    def store(self, target: ast.expr, binding: Binding, value: ast.AST) -> None:
        """Assigns to a name, a tuple of targets, or an element."""
        if isinstance(target, ast.Name):
            self.assign(target.id, binding, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.items(binding, self.locate(target))
            if items is None:
                raise self.error(TypeError_, target, f"{describe(binding)} cannot be unpacked")
            if any(isinstance(t, ast.Starred) for t in target.elts):
                raise self.unsupported(target, "'*' unpacking", "write the items one by one")
            if len(items) != len(target.elts):
                raise self.error(
                    TypeError_, target, f"{len(items)} values cannot be unpacked into {len(target.elts)} names"
                )
            for part, item in zip(target.elts, items, strict=True):
                self.store(part, item, value)
        elif isinstance(target, ast.Subscript):
            self._store_element(target, binding, value)
        else:
            raise self.unsupported(
                target, "an assignment to an attribute", "only variables and elements can be assigned"
            )

    def _store_element(self, target: ast.Subscript, binding: Binding, value: ast.AST) -> None:
        base = self.expression(target.value)
        if not isinstance(base, ArrayBinding):
            raise self.error(TypeError_, target, f"{describe(base)} has no elements to assign")
        self._store_at(base, None, target, binding, value)

    def _store_at(
        self,
        base: ArrayBinding,
        indices: tuple[ops.Value, ...] | None,
        target: ast.Subscript,
        binding: Binding,
        value: ast.AST,
    ) -> None:
        """Stores at `indices`, or, where they are not evaluated yet, at the target's."""
        parameter = self.parameter_of(base)
        if parameter is not None:
            self._check_writable(parameter, target)
        if indices is None:
            indices = self.indices(base, target)
        element = array_element(base.value.type)
        stored = self.convert(binding, element, value, f"stored in {ast.unparse(target.value)}")
        self.emit(ops.Store(self.locate(target), base.value, indices, stored, not self.frame.unsafe))

    def _check_writable(self, parameter: Parameter, target: ast.Subscript) -> None:
        if not parameter.writable:
            writable = {"Slice": "DisjointSlice", "Tensor": "DisjointTensor", "In": "InOut"}[parameter.word]
            raise self.error(
                RaceError,
                target,
                f"'{parameter.name}' is declared io.{parameter.word} and cannot be written",
                f"declare {parameter.name}: io.{writable}[...]",
            )
        if not parameter.disjoint and not self.frame.unsafe:
            raise self.error(
                RaceError,
                target,
                f"'{parameter.name}' is a bare pointer: nothing says that this thread alone writes the element",
                f"declare {parameter.name}: io.DisjointSlice[...] and index it with simt.global_index(), "
                'or write: with io.unsafe("reason"):',
            )

    # -- branches

    def stmt_if(self, node: ast.If) -> None:
        test = self.condition(self.expression(node.test), node.test)
        if isinstance(test, Literal):
            self.statements(node.body if test.value else node.orelse)
            return
        before = dict(self.frame.variables)
        assigned_at = dict(self.frame.assigned_at)
        then, then_exit = self._branch(node.body, before)
        self.frame.assigned_at = assigned_at
        otherwise, else_exit = self._branch(node.orelse, before)
        location = self.locate(node.test)
        forms = self._merge_branches(before, then_exit, else_exit)
        for block, exit_ in ((then, then_exit), (otherwise, else_exit)):
            if exit_ is not None:
                values = self.hand_over(block, exit_.variables, forms, location)
                block.append(ops.Yield(location, values))
        results = [value for form in forms.values() for value in self.fresh(form)]
        self.emit(
            ops.If(location, tuple(results), test.value, self.finish(then, location), self.finish(otherwise, location))
        )
        if then_exit is None and else_exit is None:
            self.emit(ops.Unreachable(location))
        self.adopt(forms, results)

    def _branch(self, body: Sequence[ast.stmt], before: Mapping[str, Binding]) -> tuple[list[Operation], Exit | None]:
        self.restore(before)
        outer, self.block = self.block, []
        self.statements(body)
        block, terminated = self.block, self.terminated
        self.block = outer
        return block, None if terminated else self.exit()

    def exit(self) -> Exit:
        """The variables as they are now."""
        return Exit(dict(self.frame.variables), dict(self.frame.assigned_at))

    def _merge_branches(self, before: Mapping[str, Binding], left: Exit | None, right: Exit | None) -> dict[str, Form]:
        """Sets the variables after the branch, and returns the forms of those that differ."""
        if left is None or right is None:
            survivor = left or right
            self.restore(survivor.variables if survivor else before)
            self.frame.assigned_at = dict(survivor.assigned_at) if survivor else self.frame.assigned_at
            return {}
        forms: dict[str, Form] = {}
        merged: dict[str, Binding] = {}
        for name in {**left.variables, **right.variables}:
            a, b = left.variables.get(name), right.variables.get(name)
            if a is not None and b is not None and same(a, b):
                merged[name] = a
            elif a is None or b is None or isinstance(a, Unassigned) or isinstance(b, Unassigned):
                merged[name] = Unassigned(left.assigned_at.get(name) or right.assigned_at.get(name))
            elif isinstance(a, Clash) or isinstance(b, Clash):
                merged[name] = a if isinstance(a, Clash) else b
            else:
                forms[name] = self.join([a, b], [left.assigned_at.get(name), right.assigned_at.get(name)])
        self.restore(merged)
        return forms

    def join(self, bindings: Sequence[Binding], places: Sequence[Location | None], in_loop: bool = False) -> Form:
        """The form of a variable that has these bindings, assigned at these places, on the paths that meet."""
        form: Form = Same(bindings[0])
        for number, binding in enumerate(bindings[1:], 1):
            form = merge(form, binding)
            if isinstance(form, Clash):
                return Clash(form.left, form.right, places[0], places[number])
        return settle(form, tuple(bindings)) if in_loop else _settle_integers(form, tuple(bindings))

    def hand_over(
        self,
        block: list[Operation],
        variables: Mapping[str, Binding],
        forms: Mapping[str, Form],
        location: Location,
        misfits: list[Misfit] | None = None,
    ) -> tuple[ops.Value, ...]:
        """The values of merged variables at the end of `block`. One that does not fit is an error, or, where the
        caller may try again with other forms, listed in `misfits`."""
        outer, self.block = self.block, block
        values: list[ops.Value] = []
        for name, form in forms.items():
            found = self.flatten(variables[name], form, location)
            if found is None:
                misfit = Misfit(name, describe(variables[name]), describe_form(form), location)
                if misfits is None:
                    raise self.misfit(misfit)
                misfits.append(misfit)
                found = [self._placeholder(v, location) for v in self.fresh(form)]
            values += found
        self.block = outer
        return tuple(values)

    def misfit(self, misfit: Misfit) -> TypeError_:
        return TypeError_(
            f"'{misfit.name}' is {misfit.expected} on one path, and {misfit.got} on another does not fit it",
            misfit.location,
            help=f"cast one of the values, or annotate: {misfit.name}: io.{misfit.expected} = ...",
            notes=self.call_notes(),
        )

    def _placeholder(self, value: ops.Value, location: Location) -> ops.Value:
        """Stands for a value of the wrong type in a loop that is about to be compiled again with the right one."""
        assert isinstance(value.type, Scalar)
        return (
            self.constant(0, value.type, location)
            if value.type.kind != "bool"
            else self.constant(False, value.type, location)
        )

    def adopt(self, forms: Mapping[str, Form], values: Sequence[ops.Value]) -> None:
        """Binds merged variables to the values that stand for them from here on."""
        rest = list(values)
        for name, form in forms.items():
            binding = self.unflatten(form, rest)
            self.frame.variables[name] = binding
            if isinstance(binding, Number):
                self.names.setdefault(binding.value, name)

    # -- leaving

    def stmt_return(self, node: ast.Return) -> None:
        if not self.frame.inlined:
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                raise self.error(
                    SyntaxError_, node, "a kernel returns nothing", "write results to a parameter, then plain 'return'"
                )
            self.emit(ops.Return(self.locate(node), ()))
            return
        value = self.expression(node.value) if node.value is not None else ObjectBinding(None)
        self.leave(value, node)

    def leave(self, value: Binding, node: ast.AST) -> None:
        """Returns `value` from a device function."""
        form = self.frame.result if self.frame.result is not None else _own_form(value)
        location = self.locate(node)
        values = self.flatten(value, form, location)
        self.frame.returns.append((value, location))
        self.emit(
            ops.Return(
                location,
                tuple(values if values is not None else (self._placeholder(v, location) for v in self.fresh(form))),
            )
        )

    def stmt_assert(self, node: ast.Assert) -> None:
        message = ast.unparse(node.test)
        if node.msg is not None:
            if not (isinstance(node.msg, ast.Constant) and isinstance(node.msg.value, str)):
                raise self.unsupported(node.msg, "a computed assertion message", "write a string literal")
            message = node.msg.value
        test = self.condition(self.expression(node.test), node.test)
        if isinstance(test, Literal):
            if not test.value:
                raise self.error(TypeError_, node, f"assertion failed at compile time: {message}")
            return
        self.emit(ops.Assert(self.locate(node), test.value, message))

    def stmt_with(self, node: ast.With) -> None:
        advice = 'write: with io.unsafe("why this is right"):'
        if len(node.items) != 1 or not isinstance(node.items[0].context_expr, ast.Call):
            raise self.unsupported(node, "this 'with'", advice)
        call = node.items[0].context_expr
        callee = self.expression(call.func)
        if not (
            isinstance(callee, ObjectBinding)
            and isinstance(callee.object, Intrinsic)
            and callee.object.family == "unsafe"
        ):
            raise self.unsupported(node, "'with' other than io.unsafe", advice)
        reason = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not (isinstance(reason, ast.Constant) and isinstance(reason.value, str) and reason.value.strip()):
            raise self.error(SyntaxError_, call, "io.unsafe() takes one string literal: the reason", advice)
        if node.items[0].optional_vars is not None:
            raise self.error(SyntaxError_, node.items[0].optional_vars, "io.unsafe() gives no value", advice)
        self.frame.unsafe += 1
        self.statements(node.body)
        self.frame.unsafe -= 1


def _own_form(binding: Binding) -> Form:
    """The form of a value that is handed on as it is; literals stay literals."""
    if isinstance(binding, Literal):
        return Same(binding)
    if isinstance(binding, TupleBinding):
        return Branches(tuple(map(_own_form, binding.items)))
    return form_of(binding) if leaf_of(binding) is not None else Same(binding)


def _settle_integers(form: Form, bindings: tuple[Binding, ...]) -> Form:
    """Where branches meet, floats may stay weak: they are computed in f64 and rounded once to what they meet."""
    if isinstance(form, Leaf) and form.weak and form.type.kind == "float":
        return form
    if isinstance(form, Branches):
        columns = [tuple(b.items[n] for b in bindings if isinstance(b, TupleBinding)) for n in range(len(form.items))]
        return Branches(tuple(map(_settle_integers, form.items, columns)))
    return settle(form, bindings)

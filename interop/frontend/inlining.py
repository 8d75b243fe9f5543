"""Device functions: compiled in place of their call, once for each call, generic by the types of the arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from abi import Scalar

from ..errors import SyntaxError_, TypeError_, UnsupportedError
from ..ir import ops
from ..language.functions import DeviceFunction
from ..language.types import Annotation
from .annotations import annotation_object
from .bindings import ArrayBinding, Binding, Clash, Form, Number, ObjectBinding, describe, escaping, values_of
from .core import Frame
from .loops import Loops, assigned_names
from .source import Source

_MAX_DEPTH = 40


def local_names(tree: ast.FunctionDef) -> frozenset[str]:
    """Parameters and assigned names: those that Python treats as local."""
    arguments = (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)
    return frozenset([*(a.arg for a in arguments), *assigned_names(tree.body)])


class Inlining(Loops):
    """Calls of device functions."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sources: dict[Callable[..., Any], Source] = {}

    def inline(self, target: DeviceFunction, node: ast.Call) -> Binding:
        function = target.function
        if any(frame.source.function is function for frame in self.frames):
            raise self.error(
                UnsupportedError,
                node,
                f"{function.__name__}() calls itself: recursion cannot be used in a kernel",
                "write a loop",
            )
        if len(self.frames) > _MAX_DEPTH:
            raise self.error(UnsupportedError, node, f"calls of device functions nested more than {_MAX_DEPTH} deep")
        source = self._sources.get(function) or self._sources.setdefault(function, Source(function))
        variables = self._bind(source, node)
        body = _without_docstring(source.tree.body)
        frame = Frame(
            source,
            variables,
            {},
            local_names(source.tree),
            inlined=True,
            call_site=self.locate(node),
            path=(*self.frame.path, id(node)),
        )
        returns = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Return)]
        straight = not returns or (len(returns) == 1 and returns[0] is body[-1])
        value = self._straight(frame, body) if straight else self._scoped(frame, body, dict(variables), node)
        return self._returned(source, value, node)

    def _returned(self, source: Source, value: Binding, node: ast.Call) -> Binding:
        """A device function's result, of the annotated type if there is one."""
        annotation = source.tree.returns
        if annotation is None or isinstance(value, ObjectBinding):
            return value
        wanted = annotation_object(source, annotation, source.location(annotation))
        if isinstance(wanted, Scalar):
            return Number(self.convert(value, wanted, node, f"returned by {source.name}()"))
        return value

    def _straight(self, frame: Frame, body: Sequence[ast.stmt]) -> Binding:
        """A body with at most one return, at its end, needs no scope: its value is handed on as it is."""
        last = body[-1] if body and isinstance(body[-1], ast.Return) else None
        self.frames.append(frame)
        self.statements(body[:-1] if last else body)
        value: Binding = ObjectBinding(None)
        if last is not None and last.value is not None and not self.terminated:
            value = self.expression(last.value)
        self.frames.pop()
        return value

    def _scoped(self, frame: Frame, body: Sequence[ast.stmt], variables: dict[str, Binding], node: ast.Call) -> Binding:
        """Several returns: their values are joined as variables are where branches meet."""
        location = self.locate(node)
        self.frames.append(frame)
        for _ in range(3):
            frame.variables, frame.returns, frame.assigned_at = dict(variables), [], {}
            shared = self.dynamic_shared
            outer, self.block = self.block, []
            self.statements(body)
            if not self.terminated:
                self.leave(ObjectBinding(None), body[-1])
            block, self.block = self.block, outer
            form = escaping(self._result(frame, node), {v for b in variables.values() for v in values_of(b)})
            if form == frame.result:
                break
            frame.result, self.dynamic_shared = form, shared
        misfit = next((v for v, at in frame.returns if self.flatten_fails(v, form)), None)
        self.frames.pop()
        if misfit is not None:
            raise self.error(
                TypeError_,
                node,
                f"{frame.source.name}() returns {describe(misfit)} on one path and another type on another",
            )
        results = self.fresh(form)
        self.emit(ops.Scope(location, tuple(results), frame.source.name, self.finish(block, location)))
        if not frame.returns:
            self.emit(ops.Unreachable(location))
        return self.unflatten(form, results)

    def flatten_fails(self, value: Binding, form: Form) -> bool:
        """Whether `value` does not fit `form`; emits nothing."""
        outer, self.block = self.block, []
        failed = self.flatten(value, form, self.frame.source.definition()) is None
        self.block = outer
        return failed

    def _result(self, frame: Frame, node: ast.Call) -> Form:
        if not frame.returns:
            return self.join([ObjectBinding(None)], [None])
        bindings = [value for value, _ in frame.returns]
        form = self.join(bindings, [at for _, at in frame.returns])
        if isinstance(form, Clash):
            raise self._different_returns(frame, form)
        return form

    def _different_returns(self, frame: Frame, form: Clash) -> TypeError_:
        name = frame.source.name
        missing = "None" in (form.left, form.right)
        message = (
            f"not every path of {name}() returns a value"
            if missing
            else f"{name}() returns {form.left} or {form.right}"
        )
        help = "end the function with a return" if missing else "cast the values to one type"
        return TypeError_(message, form.right_at, help=help, notes=self.call_notes())

    # -- arguments

    def _bind(self, source: Source, node: ast.Call) -> dict[str, Binding]:
        """The parameters of a device function, bound as Python binds them."""
        arguments = source.tree.args
        if arguments.vararg or arguments.kwarg:
            star = arguments.vararg or arguments.kwarg
            assert star is not None
            raise UnsupportedError("'*' parameters cannot be used in a device function", source.location(star))
        given = [self.pair(a) for a in node.args]
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.unsupported(keyword.value, "'**' in a call", "write the arguments one by one")
            named[keyword.arg] = self.pair(keyword.value)
        try:
            bound = inspect.signature(source.function).bind(*given, **named)
        except TypeError as error:
            raise self.error(TypeError_, node, f"{source.name}(): {error}") from None
        bindings: dict[str, Binding] = {}
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if parameter.arg in bound.arguments:
                binding, place = bound.arguments[parameter.arg]
            else:
                default = inspect.signature(source.function).parameters[parameter.arg].default
                binding, place = self.captures.bind(parameter.arg, default, source.location(parameter)), node
            bindings[parameter.arg] = self._annotated(source, parameter, binding, place)
        return bindings

    def _annotated(self, source: Source, parameter: ast.arg, binding: Binding, place: ast.expr) -> Binding:
        """A device function's parameter may be annotated: then the argument has to have, or widen to, that type."""
        if parameter.annotation is None:
            return binding
        location = source.location(parameter.annotation)
        wanted = annotation_object(source, parameter.annotation, location)
        purpose = f"for parameter '{parameter.arg}' of {source.name}()"
        if isinstance(wanted, Scalar):
            return Number(self.convert(binding, wanted, place, purpose))
        if isinstance(wanted, Annotation):
            if not isinstance(binding, ArrayBinding) or binding.value.type != wanted.type:
                raise self.error(TypeError_, place, f"expected {wanted.type} {purpose}, got {describe(binding)}")
            return binding
        raise SyntaxError_(
            f"{ast.unparse(parameter.annotation)} is not a type of the kernel language",
            location,
            help="annotate with io.f32, io.Slice[...] and the like, or leave the annotation out",
        )


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if documented else body

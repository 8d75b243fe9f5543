"""Annotations: the objects that they name, and the parameters that a kernel's signature declares."""

from __future__ import annotations

import ast
import types

from abi import Bytes, Scalar, Slice, Tensor

from ..errors import Location, SyntaxError_, UnsupportedError
from ..ir.ops import Parameter, Value
from ..language.types import Annotation, ParameterWord
from .source import Source


def annotation_object(source: Source, node: ast.expr, location: Location) -> object:
    """The object that an annotation names: a scalar type, an :class:`Annotation`, or whatever else is written.

    Names are looked up in the function's globals, its closure, and the locals of the decorator's caller, whether the
    annotation is written as a string or not.
    """
    function = source.function
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            raise SyntaxError_("the annotation is not an expression", location) from None
    closure = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue
    code = compile(ast.fix_missing_locations(ast.Expression(node)), source.file, "eval")
    try:
        return eval(code, function.__globals__, {**source.caller_locals, **closure})
    except Exception as error:
        raise SyntaxError_(
            f"the annotation {ast.unparse(node)} cannot be resolved: {error}",
            location,
            help="annotate with io.f32 (any scalar type), io.Slice[io.f32], io.Tensor[io.f32, 2] and the like",
        ) from None


def kernel_parameters(source: Source) -> tuple[Parameter, ...]:
    """The parameters of a kernel; errors for everything that a kernel's signature cannot have."""
    arguments = source.tree.args
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            raise UnsupportedError(
                f"'*{star.arg}' cannot be a kernel parameter",
                source.location(star),
                help="name the parameters one by one",
            )
    if arguments.kwonlyargs:
        raise UnsupportedError(
            "a keyword-only parameter cannot be a kernel parameter", source.location(arguments.kwonlyargs[0])
        )
    if arguments.defaults:
        raise UnsupportedError(
            "a default value cannot be given to a kernel parameter",
            source.location(arguments.defaults[0]),
            help="use io.Const for a compile-time value, or pass the argument",
        )
    if source.tree.returns is not None and not _is_none(source.tree.returns):
        raise SyntaxError_(
            "a kernel returns nothing", source.location(source.tree.returns), help="write results to a parameter"
        )
    return tuple(_parameter(source, a) for a in (*arguments.posonlyargs, *arguments.args))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, "None")


def _parameter(source: Source, argument: ast.arg) -> Parameter:
    location = source.location(argument)
    if argument.annotation is None:
        raise SyntaxError_(
            f"the parameter '{argument.arg}' has no type",
            location,
            help=f"annotate it: {argument.arg}: io.f32, io.Slice[io.f32], io.DisjointSlice[io.f32] …",
        )
    place = source.location(argument.annotation)
    found = annotation_object(source, argument.annotation, place)
    if isinstance(found, Scalar):
        return Parameter(Value(found), argument.arg, str(found), False, False)
    if isinstance(found, Annotation):
        disjoint = isinstance(found.type, (Slice, Tensor)) and found.access.writes
        assert not isinstance(found.type, Bytes)
        return Parameter(Value(found.type), argument.arg, found.word, found.access.writes, disjoint)
    if isinstance(found, ParameterWord):
        raise SyntaxError_(f"{found.name} needs an element type", place, help=f"write {found._example()}")
    if found in (int, float, bool):
        instead = {int: "io.i32 or io.i64", float: "io.f32 or io.f64", bool: "io.bool_"}[found]
        raise SyntaxError_(f"{found.__name__} does not say a width", place, help=f"write {instead}")
    what = found.__name__ if isinstance(found, (type, types.FunctionType)) else repr(found)
    raise SyntaxError_(
        f"{what} is not a kernel parameter type",
        place,
        help="kernel parameters are io.f32 (any scalar type), io.Slice[...], io.DisjointSlice[...], io.Tensor[..., n], "
        "io.DisjointTensor[..., n], io.In[...], io.Out[...], io.InOut[...]",
    )

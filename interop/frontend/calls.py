"""Calls: casts, mathematics, Python's builtins, the words of ``simt``, and device functions, which are inlined."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from typing import Any

from abi import Scalar, bool_, f64, i64

from ..errors import SyntaxError_, TypeError_, UnsupportedError
from ..ir import ops
from ..ir.ops import Value
from ..ir.types import Shared, Witness
from ..language.functions import PYTHON_MATH, DeviceFunction, GeometryWord, Intrinsic
from . import advice
from .bindings import ArrayBinding, Binding, Literal, Number, ObjectBinding, TupleBinding, WitnessBinding, describe
from .conversion import is_integer
from .core import text_of
from .expressions import Expressions

Arguments = list[tuple[Binding, ast.expr]]
_CALLABLE = "kernels call io.* functions, math.*, min, max, abs, len and @io.device functions"
_PREDICATES = ("isnan", "isinf", "isfinite")


class Calls(Expressions):
    """Call expressions to bindings."""

    dynamic_shared: bool = False

    def expr_call(self, node: ast.Call) -> Binding:
        callee = self.expression(node.func)
        if not isinstance(callee, ObjectBinding):
            raise self.error(TypeError_, node, f"{describe(callee)} cannot be called")
        target: Any = callee.object
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise self.unsupported(argument, "'*' in a call", "write the arguments one by one")
        if isinstance(target, DeviceFunction):
            return self.inline(target, node)
        if isinstance(target, Intrinsic) and target.family == "simt":
            return self._simt(target, node)
        if node.keywords:
            raise self.error(SyntaxError_, node, f"{text_of(node.func)}() takes no keyword arguments")
        arguments = [self.pair(a) for a in node.args]
        if isinstance(target, Scalar):
            self._count(node, arguments, 1)
            return self.apply_cast(target, arguments[0], node)
        if isinstance(target, Intrinsic):
            return self._intrinsic(target, arguments, node)
        if callable(target) and target in PYTHON_MATH:
            return self._intrinsic(PYTHON_MATH[target], arguments, node)
        if target is math.fabs:
            return self._abs(arguments, node)
        return self._builtin(target, arguments, node)

    def _count(self, node: ast.Call, arguments: Arguments, count: int) -> None:
        if len(arguments) != count:
            given = f"{len(arguments)} {'is' if len(arguments) == 1 else 'are'} given"
            noun = "argument" if count == 1 else "arguments"
            raise self.error(TypeError_, node, f"{text_of(node.func)}() takes {count} {noun}, {given}")

    def _builtin(self, target: Any, arguments: Arguments, node: ast.Call) -> Binding:
        name = text_of(node.func)
        if target is len:
            self._count(node, arguments, 1)
            return self._len(arguments[0], node)
        if target is abs:
            return self._abs(arguments, node)
        if target is min or target is max:
            return self._extremum("min" if target is min else "max", arguments, node)
        if target in (int, float, bool, round):
            instead = {int: "io.i32(...) or io.i64(...)", float: "io.f32(...) or io.f64(...)", bool: "a comparison"}
            raise self.unsupported(
                node, f"{name}(), which does not say a width,", f"write {instead.get(target, 'io.round_even(...)')}"
            )
        if target is range:
            raise self.unsupported(node, "range() outside a for statement", "write: for i in range(...)")
        if target is print:
            raise self.unsupported(node, "print()", "write values to a parameter and look at them on the host")
        if inspect.isfunction(target):
            raise self.error(
                UnsupportedError,
                node,
                f"{name}() is a plain Python function: a kernel cannot call it",
                f"decorate {target.__name__} with @io.device",
            )
        if type(target).__name__ == "ufunc" or (getattr(target, "__module__", "") or "").startswith("numpy"):
            help = advice.of_name(getattr(target, "__name__", "")) or _CALLABLE
            raise self.unsupported(node, f"the NumPy function {name}()", help)
        help = advice.of_name(getattr(target, "__name__", "")) or _CALLABLE
        raise self.unsupported(node, f"{name}()", help)

    # -- numbers

    def apply_cast(self, target: Scalar, argument: tuple[Binding, ast.expr], node: ast.AST) -> Binding:
        """``io.f32(x)``."""
        number = self.scalar(*argument)
        if isinstance(number, Literal):
            return self.cast_literal(number, target, node)
        return Number(self.cast(number.value, target, self.locate(node)))

    def _len(self, argument: tuple[Binding, ast.expr], node: ast.Call) -> Binding:
        binding = argument[0]
        if isinstance(binding, TupleBinding):
            return Literal(len(binding.items))
        if isinstance(binding, ArrayBinding):
            return self.length(binding, node)
        raise self.error(TypeError_, node, f"len() of {describe(binding)}")

    def _abs(self, arguments: Arguments, node: ast.Call) -> Binding:
        self._count(node, arguments, 1)
        number = self.scalar(*arguments[0])
        if isinstance(number, Literal):
            return Literal(abs(number.value))
        if number.type.kind == "bool":
            raise self.error(TypeError_, node, "abs() of a bool")
        if number.type.kind == "uint":
            return number
        result = Value(number.type)
        self.emit(ops.Unary(self.locate(node), result, "abs", number.value))
        return Number(result, number.weak)

    def _extremum(self, kind: str, arguments: Arguments, node: ast.Call) -> Binding:
        if len(arguments) == 1 and isinstance(arguments[0][0], TupleBinding):
            arguments = [(item, node.args[0]) for item in arguments[0][0].items]
        if len(arguments) < 2:
            raise self.error(TypeError_, node, f"{kind}() takes two or more numbers")
        binding, place = arguments[0]
        for other, other_node in arguments[1:]:
            a, b = self.scalar(binding, place), self.scalar(other, other_node)
            if isinstance(a, Literal) and isinstance(b, Literal):
                binding = Literal((min if kind == "min" else max)(a.value, b.value))
            else:
                x, y, weak = self.unify(f"{kind}()", node, (a, place), (b, other_node))
                if x.type == bool_:
                    raise self.error(TypeError_, node, f"{kind}() of bools", "use 'and' or 'or'")
                binding = Number(self.binary(kind, x, y, self.locate(node)), weak)
            place = other_node
        return binding

    def _intrinsic(self, target: Intrinsic, arguments: Arguments, node: ast.Call) -> Binding:
        if target.family == "unsafe":
            raise self.error(
                SyntaxError_, node, "io.unsafe() stands in a with statement", 'write: with io.unsafe("reason"):'
            )
        if target.family == "geometry":
            return self._geometry_call(target, arguments, node)
        self._count(node, arguments, target.arity)
        if target.family == "ceil_div":
            return self._ceil_div(arguments, node)
        return self._math(target.name, arguments, node)

    def _ceil_div(self, arguments: Arguments, node: ast.Call) -> Binding:
        """-(-a // b) by floor division: right for every sign, and without overflow near the maximum."""
        a, b = self.scalar(*arguments[0]), self.scalar(*arguments[1])
        if isinstance(a, Literal) and isinstance(b, Literal):
            if isinstance(a.value, float) or isinstance(b.value, float):
                raise self.error(TypeError_, node, "ceil_div() of floats", "write io.ceil(a / b)")
            if b.value == 0:
                raise self.error(TypeError_, node, "division by zero")
            return Literal(-(-a.value // b.value))
        x, y, weak = self.unify("ceil_div()", node, (a, node.args[0]), (b, node.args[1]))
        if not (isinstance(x.type, Scalar) and is_integer(x.type)):
            raise self.error(TypeError_, node, f"ceil_div() of {x.type}", "write io.ceil(a / b)")
        self._guard_division(b, y, node)
        location = self.locate(node)
        quotient = self.binary("floordiv", x, y, location)
        zero = self.constant(0, x.type, location)
        inexact = self.compare("ne", self.binary("mod", x, y, location), zero, location)
        return Number(self.binary("add", quotient, self.cast(inexact, x.type, location), location), weak)

    def _math(self, name: str, arguments: Arguments, node: ast.Call) -> Binding:
        """A function of floats. Integer literals become floats; integer variables have to be cast."""
        numbers = [self.scalar(*a) for a in arguments]
        if all(isinstance(n, Literal) for n in numbers):
            folded = self._fold_math(name, [float(n.value) for n in numbers if isinstance(n, Literal)])
            if folded is not None:
                return Literal(folded)
        for number, (_, place) in zip(numbers, arguments, strict=True):
            if isinstance(number, Number) and number.type.kind != "float":
                raise self.error(
                    TypeError_,
                    place,
                    f"{name}() of {describe(number)}",
                    f"{name}() takes floats: write io.f32({text_of(place)})",
                )
        type_: Scalar | None = None
        weak = True
        for index, number in enumerate(numbers):
            if isinstance(number, Number) and not number.weak:
                joint = number.type if type_ is None else self.joint_type(
                    f"{name}()", node, (Number(Value(type_)), arguments[0][1]), (number, arguments[index][1])
                )[0]  # fmt: skip
                type_, weak = joint, False
        if type_ is None:
            type_ = f64
        values = tuple(
            self.convert(n, type_, place, f"in {name}()") for n, (_, place) in zip(numbers, arguments, strict=True)
        )
        result = Value(bool_ if name in _PREDICATES else type_)
        self.emit(ops.Math(self.locate(node), result, name, values))
        return Number(result, weak and name not in _PREDICATES)

    def _fold_math(self, name: str, values: list[float]) -> float | bool | None:
        """A function of literals in double precision; None where Python's has no value or no such function."""
        python: dict[str, Callable[..., Any]] = {
            ours.name: function for function, ours in PYTHON_MATH.items() if ours.name not in ("gamma", "fma")
        }
        python |= {
            "rsqrt": lambda x: 1.0 / math.sqrt(x),
            "exp10": lambda x: 10.0**x,
            "round_even": lambda x: float(round(x)),
        }
        try:
            result = python[name](*values)
        except (KeyError, ValueError, ArithmeticError):
            return None
        return result if isinstance(result, bool) else float(result)

    # -- the words of simt

    def _geometry_call(self, target: Intrinsic, arguments: Arguments, node: ast.Call) -> Binding:
        """``simt.thread_index()`` is the x axis, ``simt.thread_index(1)`` the y axis."""
        axis = 0
        if arguments:
            self._count(node, arguments, 1)
            given = arguments[0][0]
            if not isinstance(given, Literal) or given.value not in (0, 1, 2) or isinstance(given.value, float):
                raise self.error(
                    TypeError_,
                    node,
                    f"{target.name}() takes an axis: 0, 1 or 2",
                    f"write simt.{target.name}.x, .y or .z",
                )
            axis = int(given.value)
        return Number(self.geometry(target.name, axis, node))

    def _simt(self, target: Intrinsic, node: ast.Call) -> Binding:
        if isinstance(target, GeometryWord):
            return self._geometry_call(target, [self.pair(a) for a in node.args], node)
        if node.keywords:
            raise self.error(SyntaxError_, node, f"simt.{target.name}() takes no keyword arguments")
        if target.name == "shared":
            return self._shared(node)
        arguments = [self.pair(a) for a in node.args]
        if target.name == "barrier":
            self._count(node, arguments, 0)
            self.emit(ops.Barrier(self.locate(node)))
            return ObjectBinding(None)
        if target.name == "global_index":
            return self._global_index(arguments, node)
        if target.name == "grid_stride":
            raise self.unsupported(
                node, "simt.grid_stride() outside a for statement", "write: for i in simt.grid_stride(len(y)):"
            )
        raise self.unsupported(node, f"simt.{target.name}()")

    def _global_index(self, arguments: Arguments, node: ast.Call) -> Binding:
        rank = 1
        if arguments:
            self._count(node, arguments, 1)
            given = arguments[0][0]
            if not isinstance(given, Literal) or isinstance(given.value, (bool, float)) or given.value not in (1, 2, 3):
                raise self.error(TypeError_, node, "global_index() takes the number of dimensions: 1, 2 or 3")
            rank = int(given.value)
        return WitnessBinding(self._witness(rank, node))

    def _witness(self, rank: int, node: ast.AST) -> Value:
        value = Value(Witness(rank))
        self.emit(ops.GlobalIndex(self.locate(node), value))
        return value

    def _shared(self, node: ast.Call) -> Binding:
        """``simt.shared(T, shape)``; a shape known only at run time takes the launch's dynamic shared memory."""
        arguments = [self.pair(a) for a in node.args]
        self._count(node, arguments, 2)
        element, shape = arguments[0][0], arguments[1][0]
        if not isinstance(element, ObjectBinding) or not isinstance(element.object, Scalar):
            raise self.error(
                TypeError_,
                node.args[0],
                "simt.shared() takes an element type first",
                "write simt.shared(io.f32, (16, 16))",
            )
        scalar = element.object
        items = shape.items if isinstance(shape, TupleBinding) else (shape,)
        if len(items) == 1 and isinstance(self.plain(items[0], self.locate(node)), Number):
            return self._dynamic_shared(scalar, items[0], node)
        extents = []
        for item in items:
            if not isinstance(item, Literal) or isinstance(item.value, (bool, float)):
                raise self.error(
                    TypeError_,
                    node.args[1],
                    "the shape of a shared array is made of compile-time integers",
                    "use numbers, io.Const or a captured tuple",
                )
            if item.value < 1:
                raise self.error(TypeError_, node.args[1], f"a shared array cannot have an extent of {item.value}")
            extents.append(int(item.value))
        if not 1 <= len(extents) <= 4:
            raise self.error(TypeError_, node.args[1], "a shared array has 1 to 4 dimensions")
        type_ = Shared(scalar, tuple(extents))
        value = Value(type_)
        self.emit(ops.SharedArray(self.locate(node), value, ()))
        return ArrayBinding(value)

    def _dynamic_shared(self, element: Scalar, length: Binding, node: ast.Call) -> Binding:
        if not self.has_shared_rule:
            raise self.error(
                TypeError_,
                node,
                "a shared array of run-time length needs dynamic shared memory, and the kernel declares none",
                f'say how many bytes in the decorator: shared="{element.size} * block.x"',
            )
        if self.dynamic_shared:
            raise self.error(
                UnsupportedError,
                node,
                "a second shared array of run-time length cannot be used in a kernel",
                "use one and divide it",
            )
        self.dynamic_shared = True
        count = self.convert(length, i64, node.args[1], "as the length of a shared array")
        value = Value(Shared(element, ()))
        self.emit(ops.SharedArray(self.locate(node), value, (count,)))
        return ArrayBinding(value)

    has_shared_rule: bool = False

    def inline(self, target: DeviceFunction, node: ast.Call) -> Binding:
        """Compiles a device function's body in place; in inlining.py."""
        raise NotImplementedError

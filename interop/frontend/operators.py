"""Arithmetic, comparison and logic: literals are folded, numbers get one type, the rest is an error with advice."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from abi import SCALARS, Scalar, bool_, f64, i64

from ..errors import TypeError_, UnsupportedError
from ..ir import ops
from ..ir.ops import Value
from ..ir.rounding import round_to
from . import advice
from .bindings import (
    ArrayBinding,
    Binding,
    Literal,
    Number,
    ObjectBinding,
    TupleBinding,
    WitnessBinding,
    default_type,
    describe,
)
from .conversion import common, is_integer, literal_fits, wrap
from .core import Core, text_of

BINARY: dict[type[ast.operator], tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", "+", operator.add),
    ast.Sub: ("sub", "-", operator.sub),
    ast.Mult: ("mul", "*", operator.mul),
    ast.Div: ("div", "/", operator.truediv),
    ast.FloorDiv: ("floordiv", "//", operator.floordiv),
    ast.Mod: ("mod", "%", operator.mod),
    ast.Pow: ("pow", "**", operator.pow),
    ast.BitAnd: ("and", "&", operator.and_),
    ast.BitOr: ("or", "|", operator.or_),
    ast.BitXor: ("xor", "^", operator.xor),
    ast.LShift: ("shl", "<<", operator.lshift),
    ast.RShift: ("shr", ">>", operator.rshift),
}
COMPARE: dict[type[ast.cmpop], tuple[str, str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("eq", "==", operator.eq),
    ast.NotEq: ("ne", "!=", operator.ne),
    ast.Lt: ("lt", "<", operator.lt),
    ast.LtE: ("le", "<=", operator.le),
    ast.Gt: ("gt", ">", operator.gt),
    ast.GtE: ("ge", ">=", operator.ge),
}
_SYMBOL = {kind: symbol for kind, symbol, _ in BINARY.values()} | {kind: symbol for kind, symbol, _ in COMPARE.values()}
_MAX_EXPONENT = 64


class Operators(Core):
    """Operators on bindings. ``node`` is the expression for errors; ``left`` and ``right`` its operands' nodes."""

    def scalar(self, binding: Binding, node: ast.expr) -> Literal | Number:
        """A binding that takes part in arithmetic; a witness decays to its index."""
        binding = self.plain(binding, self.locate(node))
        if isinstance(binding, (Literal, Number)):
            return binding
        help = ""
        if isinstance(binding, ArrayBinding):
            help = f"a kernel works on elements: write {text_of(node)}[i]"
        elif isinstance(binding, WitnessBinding):
            help = "unpack it: row, col = " + text_of(node)
        elif isinstance(binding, ObjectBinding):
            help = advice.of_object(binding.object, text_of(node))
        raise self.error(TypeError_, node, f"expected a number, got {describe(binding)}", help)

    def unify(
        self, symbol: str, node: ast.AST, left: tuple[Binding, ast.expr], right: tuple[Binding, ast.expr]
    ) -> tuple[Value, Value, bool]:
        """Two operands as values of one type, and whether that type is still weak."""
        a, b = self.scalar(*left), self.scalar(*right)
        type_, weak = self.joint_type(symbol, node, (a, left[1]), (b, right[1]))
        purpose = f"for '{symbol}' with {describe(b if isinstance(a, Literal) else a)}"
        return self.convert(a, type_, left[1], purpose), self.convert(b, type_, right[1], purpose), weak

    def joint_type(
        self,
        symbol: str,
        node: ast.AST,
        left: tuple[Literal | Number, ast.expr],
        right: tuple[Literal | Number, ast.expr],
    ) -> tuple[Scalar, bool]:
        a, b = left[0], right[0]
        weak = [x for x in (a, b) if isinstance(x, Literal) or x.weak]
        strong = [x for x in (a, b) if isinstance(x, Number) and not x.weak]
        if len(strong) == 2:
            found = common(strong[0].type, strong[1].type)
            if found is None:
                raise self._mixed(symbol, node, left, right)
            return found, False
        if len(strong) == 1:
            type_ = strong[0].type
            flag = isinstance(weak[0], Literal) and isinstance(weak[0].value, bool)
            if (_is_float(weak[0]) and is_integer(type_)) or flag != (type_.kind == "bool"):
                raise self._mixed(symbol, node, left, right)
            return type_, False
        # Both weak, at least one of them computed at run time.
        if any(_is_float(x) for x in weak):
            return default_float(), True
        types = [x.type for x in weak if isinstance(x, Number)]
        return types[0] if types else default_type(0), True

    def _mixed(
        self,
        symbol: str,
        node: ast.AST,
        left: tuple[Literal | Number, ast.expr],
        right: tuple[Literal | Number, ast.expr],
    ) -> TypeError_:
        a, b = left[0], right[0]
        message = f"'{symbol}' mixes {describe(a)} and {describe(b)}"
        ta = a.type if isinstance(a, Number) else None
        tb = b.type if isinstance(b, Number) else None
        help = "cast one of them"
        if _is_float(a) != _is_float(b):
            whole = left if _is_float(b) else right
            float_type = (ta if _is_float(a) else tb) or None
            name = float_type.name if float_type is not None and float_type.kind == "float" else "f32"
            help = f"integers and floats are not mixed silently: write io.{name}({text_of(whole[1])})"
        elif any(t is not None and t.kind == "bool" for t in (ta, tb)):
            flag, other = (left, tb) if ta is not None and ta.kind == "bool" else (right, ta)
            other = other or default_type(0)
            help = f"a bool is not a number: write io.{other}({text_of(flag[1])})"
        elif ta is not None and tb is not None and ta.kind == "float":
            both = " and ".join(f"io.f32({text_of(part[1])})" for part in (left, right))
            help = f"neither type holds all values of the other: write {both}"
        elif ta is not None and tb is not None:
            unsigned = right if ta.kind == "int" else left
            target = i64 if unsigned_fits_i64(ta, tb) else ta if ta.kind == "int" else tb
            help = (
                "signed and unsigned integers of these widths have no common type: "
                f"write io.{target}({text_of(unsigned[1])})"
            )
        return self.error(TypeError_, node, message, help)

    def apply_binary(
        self, operation: ast.operator, node: ast.AST, left: tuple[Binding, ast.expr], right: tuple[Binding, ast.expr]
    ) -> Binding:
        """``left operation right``."""
        entry = BINARY.get(type(operation))
        if entry is None:
            raise self.unsupported(node, "the operator '@'", "write the loop, or use shared tiles")
        kind, symbol, fold = entry
        if isinstance(left[0], TupleBinding) and isinstance(right[0], TupleBinding) and kind == "add":
            return TupleBinding(left[0].items + right[0].items)
        a, b = self.scalar(*left), self.scalar(*right)
        if isinstance(a, Literal) and isinstance(b, Literal):
            return self._fold(symbol, fold, a, b, node)
        if kind == "pow":
            return self._power((a, left[1]), (b, right[1]), node)
        if kind in ("shl", "shr"):
            return self._shift(kind, symbol, (a, left[1]), (b, right[1]), node)
        x, y, weak = self.unify(symbol, node, (a, left[1]), (b, right[1]))
        self._legal(kind, symbol, x, node, left[1], right[1])
        if kind in ("floordiv", "mod"):
            self._guard_division(b, y, node)
        return Number(self.binary(kind, x, y, self.locate(node)), weak)

    def _legal(self, kind: str, symbol: str, value: Value, node: ast.AST, left: ast.expr, right: ast.expr) -> None:
        """Refuses operations that the operands' type does not have."""
        type_ = value.type
        assert isinstance(type_, Scalar)
        bitwise = kind in ("and", "or", "xor")
        if type_.kind == "bool" and not bitwise:
            help = f"a bool is not a number: write io.i32({text_of(left)})"
            raise self.error(TypeError_, node, f"'{symbol}' of two bools", help)
        if type_.kind == "float" and bitwise:
            raise self.error(TypeError_, node, f"'{symbol}' of two floats ({type_})", "bit operations take integers")
        if is_integer(type_) and kind == "div":
            a, b = text_of(left), text_of(right)
            help = f"write {a} // {b} for the integer quotient, or io.f32({a}) / io.f32({b})"
            raise self.error(TypeError_, node, f"'/' between integers ({type_})", help)
        if type_.kind == "float" and kind in ("floordiv", "mod"):
            a, b = text_of(left), text_of(right)
            instead = f"io.floor({a} / {b})" if kind == "floordiv" else f"io.fmod({a}, {b}), which has the sign of {a}"
            message = f"'{symbol}' of floats cannot be used in a kernel"
            raise self.error(UnsupportedError, node, message, f"write {instead}")

    def _guard_division(self, divisor: Literal | Number, value: Value, node: ast.AST) -> None:
        if isinstance(divisor, Literal):
            if divisor.value == 0:
                raise self.error(TypeError_, node, "division by zero")
            return
        if self.frame.unsafe:
            return
        location = self.locate(node)
        assert isinstance(value.type, Scalar)
        zero = self.constant(0, value.type, location)
        self.emit(ops.Assert(location, self.compare("ne", value, zero, location), "integer division by zero"))

    def _fold(self, symbol: str, fold: Callable[[Any, Any], Any], a: Literal, b: Literal, node: ast.AST) -> Literal:
        if symbol == "/" and isinstance(a.value, int) and isinstance(b.value, int):
            quotient = a.value // b.value if b.value else 0
            advice = (
                f"write {quotient}" if b.value and quotient * b.value == a.value else "write //, or make one a float"
            )
            raise self.error(TypeError_, node, "'/' between integers", advice)
        if symbol == "**" and isinstance(b.value, int) and abs(b.value) > 4096:
            raise self.error(TypeError_, node, f"the exponent {b.value} is too large")
        if symbol == "<<" and isinstance(b.value, int) and b.value > 4096:
            raise self.error(TypeError_, node, f"a shift by {b.value} is too large")
        try:
            result = fold(a.value, b.value)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.error(TypeError_, node, f"{text_of(node)} has no value: {error}") from None
        if isinstance(result, complex):
            raise self.error(TypeError_, node, f"{text_of(node)} is a complex number")
        return Literal(result)

    def _shift(
        self,
        kind: str,
        symbol: str,
        left: tuple[Literal | Number, ast.expr],
        right: tuple[Literal | Number, ast.expr],
        node: ast.AST,
    ) -> Binding:
        """A shift has the type of its left operand; the amount may be any integer, seen as unsigned."""
        location = self.locate(node)
        amount = right[0]
        value = self.concrete(left[0], left[1])
        if not is_integer(value.type):
            raise self.error(TypeError_, node, f"'{symbol}' of {value.type}", "bit operations take integers")
        if isinstance(amount, Literal):
            if not isinstance(amount.value, int) or isinstance(amount.value, bool) or amount.value < 0:
                raise self.error(TypeError_, right[1], f"a shift by {amount.value}", "shift by a non-negative integer")
            count = self.constant(min(amount.value, value.type.bits), value.type, location)
            return Number(self.binary(kind, value.value, count, location))
        if not is_integer(amount.type):
            raise self.error(TypeError_, right[1], f"a shift by {amount.type}", "shift by an integer")
        count = amount.value
        if amount.type.bits > value.type.bits:
            # Narrowing would turn a shift by 256 of a u8 into a shift by 0: clamp while it is wide.
            limit = self.constant(value.type.bits, amount.type, location)
            count = self._clamp_unsigned(count, amount.type, limit, node)
        return Number(self.binary(kind, value.value, self.cast(count, value.type, location), location))

    def _clamp_unsigned(self, count: Value, type_: Scalar, limit: Value, node: ast.AST) -> Value:
        location = self.locate(node)
        unsigned = SCALARS[f"u{type_.bits}"]
        clamped = self.binary(
            "min", self.cast(count, unsigned, location), self.cast(limit, unsigned, location), location
        )
        return self.cast(clamped, type_, location)

    def _power(
        self, base: tuple[Literal | Number, ast.expr], exponent: tuple[Literal | Number, ast.expr], node: ast.AST
    ) -> Binding:
        location = self.locate(node)
        power = exponent[0]
        number = self.concrete(base[0], base[1]) if isinstance(base[0], Number) else base[0]
        integral = isinstance(power, Literal) and isinstance(power.value, int) and not isinstance(power.value, bool)
        if integral and isinstance(number, Number) and isinstance(power, Literal):
            n = int(power.value)
            if number.type.kind == "bool":
                raise self.error(TypeError_, node, "'**' of a bool")
            if n < 0 and is_integer(number.type):
                raise self.error(
                    TypeError_, node, "an integer to a negative power", f"write 1.0 / io.f32({text_of(base[1])})"
                )
            if abs(n) <= _MAX_EXPONENT:
                result = self._product(number.value, abs(n), node)
                if n < 0:
                    one = self.constant(1.0, number.type, location)
                    result = self.binary("div", one, result, location)
                return Number(result, number.weak)
        floating = any(_is_float(x) for x in (number, power))
        if not floating:
            raise self.error(
                UnsupportedError,
                node,
                "'**' of integers with an exponent that is not a small constant cannot be used in a kernel",
                "write a loop, or io.pow of floats",
            )
        if integral and isinstance(power, Literal):
            power = Literal(float(power.value))
        x, y, weak = self.unify("**", node, (number, base[1]), (power, exponent[1]))
        result = Value(x.type)
        self.emit(ops.Math(location, result, "pow", (x, y)))
        return Number(result, weak)

    def _product(self, value: Value, exponent: int, node: ast.AST) -> Value:
        """Repeated squaring: x ** 5 is (x*x)*(x*x)*x."""
        location = self.locate(node)
        assert isinstance(value.type, Scalar)
        result: Value | None = None
        square = value
        while exponent:
            if exponent & 1:
                result = square if result is None else self.binary("mul", result, square, location)
            exponent >>= 1
            if exponent:
                square = self.binary("mul", square, square, location)
        return result if result is not None else self.constant(1, value.type, location)

    def apply_unary(self, operation: ast.unaryop, node: ast.expr, operand: tuple[Binding, ast.expr]) -> Binding:
        """``-x``, ``+x``, ``~x``; ``not x`` is a condition and handled with those."""
        number = self.scalar(*operand)
        location = self.locate(node)
        if isinstance(number, Literal):
            if isinstance(number.value, bool):
                raise self.error(TypeError_, node, "arithmetic on a bool", "write 'not' to negate it")
            if isinstance(operation, ast.Invert):
                if isinstance(number.value, float):
                    raise self.error(TypeError_, node, "'~' of a float", "bit operations take integers")
                return Literal(~number.value)
            return Literal(-number.value if isinstance(operation, ast.USub) else number.value)
        if number.type.kind == "bool":
            raise self.error(
                TypeError_, node, "arithmetic on a bool", "write 'not' to negate it, io.i32(...) to count it"
            )
        if isinstance(operation, ast.UAdd):
            return number
        kind = "neg" if isinstance(operation, ast.USub) else "invert"
        if kind == "invert" and number.type.kind == "float":
            raise self.error(TypeError_, node, f"'~' of a float ({number.type})", "bit operations take integers")
        result = Value(number.value.type)
        self.emit(ops.Unary(location, result, kind, number.value))
        return Number(result, number.weak)

    def apply_compare(
        self, operation: ast.cmpop, node: ast.AST, left: tuple[Binding, ast.expr], right: tuple[Binding, ast.expr]
    ) -> Binding:
        """One comparison of a chain."""
        entry = COMPARE.get(type(operation))
        if entry is None:
            word = {ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}[type(operation)]
            raise self.unsupported(node, f"'{word}'", "compare numbers with == and !=")
        kind, symbol, fold = entry
        a, b = self.scalar(*left), self.scalar(*right)
        if isinstance(a, Literal) and isinstance(b, Literal):
            return Literal(fold(a.value, b.value))
        x, y, _ = self.unify(symbol, node, (a, left[1]), (b, right[1]))
        if x.type == bool_ and kind not in ("eq", "ne"):
            raise self.error(TypeError_, node, f"'{symbol}' of two bools", "only == and != compare bools")
        return Number(self.compare(kind, x, y, self.locate(node)))

    def condition(self, binding: Binding, node: ast.expr) -> Literal | Number:
        """A binding as a condition: a bool, or a number compared with zero."""
        number = self.scalar(binding, node)
        if isinstance(number, Literal):
            return Literal(bool(number.value))
        if number.type.kind == "bool":
            return number
        zero = self.constant(0, number.type, self.locate(node))
        return Number(self.compare("ne", number.value, zero, self.locate(node)))

    def cast_literal(self, literal: Literal, type_: Scalar, node: ast.AST) -> Binding:
        """``io.u8(300)``: the literal converted as a run-time number would be."""
        value = literal.value
        if type_.kind == "bool":
            return Literal(bool(value))
        if type_.kind == "float":
            try:
                number = round_to(float(value), type_)
            except OverflowError:
                raise self.error(TypeError_, node, f"{value} is too large for {type_}") from None
            return Number(self.constant(number, type_, self.locate(node)))
        if isinstance(value, float):
            if math.isnan(value):
                whole = 0
            elif math.isinf(value):
                whole = type_.maximum if value > 0 else type_.minimum
            else:
                whole = max(type_.minimum, min(type_.maximum, math.trunc(value)))
        else:
            whole = wrap(int(value), type_)
        assert literal_fits(whole, type_)
        return Number(self.constant(whole, type_, self.locate(node)))


def default_float() -> Scalar:
    """The type in which weak floats are computed at run time: f64, so that nothing is lost before the type is known."""
    return f64


def unsigned_fits_i64(left: Scalar, right: Scalar) -> bool:
    """Whether i64 holds all values of both integer types."""
    return all(t.kind == "int" or t.bits < 64 for t in (left, right))


def _is_float(number: Literal | Number) -> bool:
    if isinstance(number, Literal):
        return isinstance(number.value, float)
    return number.type.kind == "float"

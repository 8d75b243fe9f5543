"""Arithmetic, comparisons, conversions and mathematics as LLVM IR."""

from __future__ import annotations

from abi import Scalar, bf16, f16, f32

from ..ir import ops
from ..ir.ops import Value
from .text import Blocks, llvm_literal, llvm_type

_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_NATIVE_MATH = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round_even": "roundeven", "fma": "fma",
}  # fmt: skip
LIBDEVICE = {"gamma": "tgamma"}
"""Names of libdevice that differ from ours."""


class Arithmetic:
    """Emission of scalar operations; ``registers`` maps IR values to operand texts."""

    def __init__(self, contract: bool) -> None:
        self.blocks = Blocks()
        self.registers: dict[Value, str] = {}
        self.declarations: dict[str, str] = {}
        self.libdevice: set[str] = set()
        self._flags = " contract" if contract else ""

    # -- helpers

    def declare(self, name: str, result: str, arguments: str, attributes: str = "") -> str:
        """Declares a function once and returns its name."""
        self.declarations[name] = f"declare {result} @{name}({arguments}){attributes}"
        return name

    def call(self, name: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Calls an intrinsic or library function."""
        self.declare(name, result, ", ".join(t for t, _ in arguments))
        return self.blocks.assign(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def convert(self, text: str, source: Scalar, target: Scalar) -> str:
        """`text` of type `source` as a number of type `target`; see :class:`interop.ir.ops.Cast`."""
        if source == target:
            return text
        have, want = llvm_type(source), llvm_type(target)
        assign = self.blocks.assign
        if target.kind == "bool":
            test = (
                f"fcmp une {have} {text}, {llvm_literal(0.0, source)}"
                if source.kind == "float"
                else f"icmp ne {have} {text}, 0"
            )
            return assign(test)
        if source.kind == "float" and target.kind == "float":
            if source.bits == target.bits:
                return self.convert(self.convert(text, source, f32), f32, target)
            return assign(f"{'fpext' if target.bits > source.bits else 'fptrunc'} {have} {text} to {want}")
        if source.kind == "float":
            wide = self.convert(text, source, f32) if source.bits == 16 else text
            kind = llvm_type(f32) if source.bits == 16 else have
            word = "fptosi" if target.kind == "int" else "fptoui"
            return self.call(f"llvm.{word}.sat.{want}.{'f32' if kind == 'float' else 'f64'}", want, [(kind, wide)])
        if target == bf16 and source.bits > 16:
            return self._wide_integer_to_bf16(text, source)
        if target.kind == "float":
            return assign(f"{'sitofp' if source.kind == 'int' else 'uitofp'} {have} {text} to {want}")
        if source.kind != "bool" and target.bits == source.bits:
            return text
        if source.kind != "bool" and target.bits < source.bits:
            return assign(f"trunc {have} {text} to {want}")
        return assign(f"{'sext' if source.kind == 'int' else 'zext'} {have} {text} to {want}")

    def _wide_integer_to_bf16(self, text: str, source: Scalar) -> str:
        """LLVM goes through f32, which rounds twice. f64 holds 32 bits exactly, and 53 of 64 with the rest gathered in
        the last of them (rounding to odd), after which rounding to bf16 gives what rounding once would have given."""
        name, assign = llvm_type(source), self.blocks.assign
        if source.bits == 64:
            kept = assign(f"and i64 {text}, {~0x7FF}")
            lost = assign(f"and i64 {text}, {0x7FF}")
            inexact = assign(f"icmp ne i64 {lost}, 0")
            sticky = assign(f"select i1 {inexact}, i64 {0x800}, i64 0")
            odd = assign(f"or i64 {kept}, {sticky}")
            shifted = assign(f"add i64 {text}, {2**53 if source.kind == 'int' else 0}")
            small = assign(f"icmp ult i64 {shifted}, {2**54 if source.kind == 'int' else 2**53}")
            text = assign(f"select i1 {small}, i64 {text}, i64 {odd}")
        wide = assign(f"{'sitofp' if source.kind == 'int' else 'uitofp'} {name} {text} to double")
        # Without the fence LLVM would fold the two conversions into the one that rounds twice.
        fenced = self.call("llvm.arithmetic.fence.f64", "double", [("double", wide)])
        return assign(f"fptrunc double {fenced} to bfloat")

    def _wide(self, text: str, type_: Scalar) -> tuple[str, Scalar]:
        """A 16-bit float as f32: arithmetic on those is done in f32 and rounded."""
        return (self.convert(text, type_, f32), f32) if type_ in (f16, bf16) else (text, type_)

    # -- operations

    def on_constant(self, op: ops.Constant) -> None:
        assert isinstance(op.result.type, Scalar)
        self.registers[op.result] = llvm_literal(op.value, op.result.type)

    def on_cast(self, op: ops.Cast) -> None:
        source, target = op.value.type, op.result.type
        assert isinstance(source, Scalar) and isinstance(target, Scalar)
        self.registers[op.result] = self.convert(self.registers[op.value], source, target)

    def on_binary(self, op: ops.Binary) -> None:
        type_ = op.result.type
        assert isinstance(type_, Scalar)
        left, right = self.registers[op.left], self.registers[op.right]
        if type_.kind == "float":
            self.registers[op.result] = self._float_binary(op.kind, left, right, type_)
        else:
            self.registers[op.result] = self._integer_binary(op.kind, left, right, type_)

    def _float_binary(self, kind: str, left: str, right: str, type_: Scalar) -> str:
        (a, wide), (b, _) = self._wide(left, type_), self._wide(right, type_)
        name = llvm_type(wide)
        if kind in ("min", "max"):
            result = self.call(f"llvm.{kind}num.f{wide.bits}", name, [(name, a), (name, b)])
        else:
            result = self.blocks.assign(f"{_FLOAT[kind]}{self._flags} {name} {a}, {b}")
        return self.convert(result, wide, type_)

    def _integer_binary(self, kind: str, left: str, right: str, type_: Scalar) -> str:
        name = llvm_type(type_)
        if kind in _INTEGER:
            return self.blocks.assign(f"{_INTEGER[kind]} {name} {left}, {right}")
        if kind in ("min", "max"):
            sign = "s" if type_.kind == "int" else "u"
            return self.call(f"llvm.{sign}{kind}.{name}", name, [(name, left), (name, right)])
        if kind in ("shl", "shr"):
            return self._shift(kind, left, right, type_)
        if type_.kind == "uint":
            return self.blocks.assign(f"{'udiv' if kind == 'floordiv' else 'urem'} {name} {left}, {right}")
        return self._floor_division(kind, left, right, type_)

    def _shift(self, kind: str, left: str, right: str, type_: Scalar) -> str:
        """LLVM's shifts are undefined from the width on; ours go on shifting bits out."""
        name, assign = llvm_type(type_), self.blocks.assign
        if kind == "shr" and type_.kind == "int":
            amount = self.call(f"llvm.umin.{name}", name, [(name, right), (name, str(type_.bits - 1))])
            return assign(f"ashr {name} {left}, {amount}")
        if type_.bits == 64:
            # PTX's shifts take 32 bits of the amount and clamp those, so LLVM drops the test below and cuts the
            # amount off: a shift by 2**32 + 1 would be one by 1. Clamped before, nothing is lost.
            right = self.call(f"llvm.umin.{name}", name, [(name, right), (name, "64")])
        inside = assign(f"icmp ult {name} {right}, {type_.bits}")
        amount = assign(f"select i1 {inside}, {name} {right}, {name} 0")
        shifted = assign(f"{'shl' if kind == 'shl' else 'lshr'} {name} {left}, {amount}")
        return assign(f"select i1 {inside}, {name} {shifted}, {name} 0")

    def _floor_division(self, kind: str, left: str, right: str, type_: Scalar) -> str:
        """LLVM truncates; and dividing the smallest number by -1 is undefined there, where ours wraps."""
        name, assign = llvm_type(type_), self.blocks.assign
        constant = not right.startswith("%")
        divisor = right
        minus_one = "false"
        if not constant or right == "-1":
            minus_one = assign(f"icmp eq {name} {right}, -1")
            divisor = assign(f"select i1 {minus_one}, {name} 1, {name} {right}")
        quotient = assign(f"sdiv {name} {left}, {divisor}")
        product = assign(f"mul {name} {quotient}, {divisor}")
        remainder = assign(f"sub {name} {left}, {product}")
        inexact = assign(f"icmp ne {name} {remainder}, 0")
        signs = assign(f"xor {name} {remainder}, {divisor}")
        differ = assign(f"icmp slt {name} {signs}, 0")
        lower = assign(f"and i1 {inexact}, {differ}")
        if kind == "mod":
            adjusted = assign(f"add {name} {remainder}, {divisor}")
            return assign(f"select i1 {lower}, {name} {adjusted}, {name} {remainder}")
        adjusted = assign(f"sub {name} {quotient}, 1")
        floor = assign(f"select i1 {lower}, {name} {adjusted}, {name} {quotient}")
        if minus_one == "false":
            return floor
        negated = assign(f"sub {name} 0, {left}")
        return assign(f"select i1 {minus_one}, {name} {negated}, {name} {floor}")

    def on_unary(self, op: ops.Unary) -> None:
        type_ = op.result.type
        assert isinstance(type_, Scalar)
        text, name, assign = self.registers[op.value], llvm_type(type_), self.blocks.assign
        if op.kind == "not":
            result = assign(f"xor i1 {text}, true")
        elif op.kind == "invert":
            result = assign(f"xor {name} {text}, -1")
        elif type_.kind == "float":
            # Negation and absolute value change the sign bit only: exact in any width.
            wide_text, wide = self._wide(text, type_)
            wide_name = llvm_type(wide)
            if op.kind == "neg":
                result = assign(f"fneg {wide_name} {wide_text}")
            else:
                result = self.call(f"llvm.fabs.f{wide.bits}", wide_name, [(wide_name, wide_text)])
            result = self.convert(result, wide, type_)
        elif op.kind == "neg":
            result = assign(f"sub {name} 0, {text}")
        else:
            result = self.call(f"llvm.abs.{name}", name, [(name, text), ("i1", "false")])
        self.registers[op.result] = result

    def on_compare(self, op: ops.Compare) -> None:
        type_ = op.left.type
        assert isinstance(type_, Scalar)
        left, right = self.registers[op.left], self.registers[op.right]
        if type_.kind == "float":
            (left, wide), (right, _) = self._wide(left, type_), self._wide(right, type_)
            word = "une" if op.kind == "ne" else f"o{op.kind}"
            self.registers[op.result] = self.blocks.assign(f"fcmp {word} {llvm_type(wide)} {left}, {right}")
            return
        sign = "" if op.kind in ("eq", "ne") else "s" if type_.kind == "int" else "u"
        self.registers[op.result] = self.blocks.assign(f"icmp {sign}{op.kind} {llvm_type(type_)} {left}, {right}")

    def on_math(self, op: ops.Math) -> None:
        type_ = op.values[0].type
        assert isinstance(type_, Scalar)
        pairs = [self._wide(self.registers[v], type_) for v in op.values]
        texts, wide = [text for text, _ in pairs], pairs[0][1]
        name = llvm_type(wide)
        if op.function in ("isnan", "isinf", "isfinite"):
            self.registers[op.result] = self._classify(op.function, texts[0], wide)
            return
        arguments = [(name, text) for text in texts]
        if op.function in _NATIVE_MATH:
            result = self.call(f"llvm.{_NATIVE_MATH[op.function]}.f{wide.bits}", name, arguments)
        else:
            symbol = f"__nv_{LIBDEVICE.get(op.function, op.function)}{'f' if wide == f32 else ''}"
            self.libdevice.add(symbol)
            result = self.call(symbol, name, arguments)
        self.registers[op.result] = self.convert(result, wide, type_)

    def _classify(self, function: str, text: str, type_: Scalar) -> str:
        name, assign = llvm_type(type_), self.blocks.assign
        if function == "isnan":
            return assign(f"fcmp uno {name} {text}, {text}")
        magnitude = self.call(f"llvm.fabs.f{type_.bits}", name, [(name, text)])
        infinity = llvm_literal(float("inf"), type_)
        return assign(f"fcmp {'oeq' if function == 'isinf' else 'olt'} {name} {magnitude}, {infinity}")

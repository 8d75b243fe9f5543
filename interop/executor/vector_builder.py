"""The vector path's builder: the same methods as :class:`~interop.executor.builder.Builder`, but a value may be one of
several lanes.

Handlers are written for one lane. Here each value's name is known to be uniform (one scalar for all lanes), affine
(a scalar base and a constant stride), widened affine, or varying (an LLVM vector); an operation on uniform values stays
scalar, one on affine values stays affine where it can, and everything else becomes a vector operation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .builder import Builder, ModuleText
from .types import BITS
from .vector_kinds import (
    UNIFORM,
    VARYING,
    Affine,
    Kind,
    Widened,
    add,
    bitwise,
    extended,
    scaled,
    shifted_right,
    truncated,
    zeros_of,
)
from .vector_prelude import vector_name

_LITERAL = re.compile(r"-?\d+")
_SHORT = {"f32": "float", "f64": "double"}
_IMMEDIATE = {"llvm.ctlz", "llvm.cttz", "llvm.abs", "llvm.is.fpclass"}  # their second argument is no vector
_STRUCT = re.compile(r"\{ (\w+), (\w+) \}")


@dataclass(frozen=True)
class Parts:
    """What a widened affine value consists of: offset + scale * extend(base + stride * lane)."""

    offset: str
    base: str


class VectorBuilder(Builder):
    """Writes one function for `lanes` lanes."""

    def __init__(self, module: ModuleText, lanes: int) -> None:
        super().__init__(module)
        self.lanes = lanes
        self._kinds: dict[str, Kind] = {}
        self._parts: dict[str, Parts] = {}
        self._memory: dict[str, str] = {}  # memory that holds vectors, and the element's type
        self.scalar = Builder(module, self._function)  # writes into the same function, for one lane
        self.mask = ""  # of the lanes that write now, as <W x i1>; empty when all that live do

    # ---- kinds ----

    def kind(self, value: str) -> Kind:
        """What `value` is across the lanes."""
        found = self._kinds.get(value)
        if found is None:
            return Affine(0, zeros_of(int(value))) if _LITERAL.fullmatch(value) else UNIFORM
        return found

    def is_uniform(self, *values: str) -> bool:
        return all(self._kinds.get(v, UNIFORM) == UNIFORM for v in values)

    def parts(self, value: str) -> Parts:
        """The parts of a widened affine value."""
        return self._parts[value]

    def wide(self, type_: str) -> str:
        """The vector of a type."""
        return f"<{self.lanes} x {type_}>"

    def varying(self, value: str) -> str:
        """Notes that `value` is a vector."""
        self._kinds[value] = VARYING
        return value

    def affine(self, value: str, stride: int, zeros: int = 0) -> str:
        """Notes that the scalar `value` is the base of an affine one, with so many low bits zero."""
        self._kinds[value] = Affine(stride, zeros)
        return value

    def widened(self, parts: Parts, kind: Widened) -> str:
        """A widened affine value of these parts. Its name stands in no instruction."""
        name = self.temp("w")
        self._kinds[name] = kind
        self._parts[name] = parts
        return name

    def lane_numbers(self, type_: str, stride: int = 1) -> str:
        """The constant vector 0, stride, 2 * stride, …"""
        bits = BITS[type_]
        numbers = []
        for lane in range(self.lanes):
            value = lane * stride & ((1 << bits) - 1)
            numbers.append(f"{type_} {value - (1 << bits) if value >> (bits - 1) else value}")
        return f"<{', '.join(numbers)}>"

    def splat(self, type_: str, value: str) -> str:
        """A uniform scalar in every lane."""
        if value[0] != "%":
            return f"splat ({type_} {value})"
        vector = self.wide(type_)
        first = self.value(f"insertelement {vector} poison, {type_} {value}, i64 0")
        return self.value(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def widen(self, type_: str, value: str) -> str:
        """`value` as a vector of its type, and known as one."""
        kind = self.kind(value)
        return value if kind == VARYING else self.varying(self._widened_out(type_, value, kind))

    def _widened_out(self, type_: str, value: str, kind: Kind) -> str:
        if isinstance(kind, Widened):
            parts = self._parts[value]
            base = self._along("i32", parts.base, kind.stride)
            cast = "sext" if kind.signed else "zext"
            wide = self.value(f"{cast} {self.wide('i32')} {base} to {self.wide('i64')}")
            if kind.scale != 1:
                wide = self.value(f"mul {self.wide('i64')} {wide}, splat (i64 {kind.scale})")
            if parts.offset != "0":
                wide = self.value(f"add {self.wide('i64')} {wide}, {self.splat('i64', parts.offset)}")
            return self.varying(wide)
        assert isinstance(kind, Affine)
        return self.varying(self._along(type_, value, kind.stride))

    def _along(self, type_: str, base: str, stride: int) -> str:
        if stride == 0:
            return self.splat(type_, base)
        numbers = self.lane_numbers(type_, stride)
        if base == "0":
            return numbers
        return self.value(f"add {self.wide(type_)} {self.splat(type_, base)}, {numbers}")

    # ---- instructions ----

    def binary(self, operation: str, type_: str, a: str, b: str) -> str:
        if self.is_uniform(a, b):
            return self._uniform(operation, type_, a, b)
        kept = self._kept(operation, type_, a, b)
        if kept is not None:
            return kept
        a, b = self.widen(type_, a), self.widen(type_, b)
        return self.varying(self.value(f"{operation} {self.wide(type_)} {a}, {b}"))

    def _uniform(self, operation: str, type_: str, a: str, b: str) -> str:
        """A scalar, of whose low bits is noted what is known."""
        result = super().binary(operation, type_, a, b)
        first, second = self.kind(a), self.kind(b)
        assert isinstance(first, Affine) and isinstance(second, Affine)
        zeros = 0
        if operation in ("add", "sub", "or", "xor"):
            zeros = min(first.zeros, second.zeros)
        elif operation == "and":
            zeros = max(first.zeros, second.zeros)
        elif operation == "mul":
            zeros = min(first.zeros + second.zeros, 64)
        elif operation == "shl" and _LITERAL.fullmatch(b):
            zeros = min(first.zeros + int(b), 64)
        elif operation in ("lshr", "ashr") and _LITERAL.fullmatch(b):
            zeros = max(first.zeros - int(b), 0)
        return self.affine(result, 0, zeros) if zeros and result[0] == "%" else result

    def _kept(self, operation: str, type_: str, a: str, b: str) -> str | None:
        """The result as an affine value, where it is one."""
        if type_ not in ("i16", "i32", "i64"):
            return None
        if operation == "mul" and "0" in (a, b):
            return "0"  # of whatever: not a multiple of a value that is not affine
        if operation in ("add", "sub"):
            kind = add(self.kind(a), self.kind(b), 1 if operation == "add" else -1)
        elif operation == "mul" and b == "0":
            return "0"
        elif operation == "mul" and _LITERAL.fullmatch(b):
            kind = scaled(self.kind(a), int(b))
        elif operation == "mul" and _LITERAL.fullmatch(a):
            return self._kept("mul", type_, b, a)
        elif operation == "shl" and _LITERAL.fullmatch(b) and 0 <= int(b) < BITS[type_]:
            return self._kept("mul", type_, a, str(1 << int(b)))
        else:
            return self._cut(operation, type_, a, b)
        if isinstance(kind, Affine):
            if isinstance(self.kind(a), Widened) or isinstance(self.kind(b), Widened):
                return None
            return self.affine(super().binary(operation, type_, a, b), kind.stride, kind.zeros)
        return self._widened(operation, a, b, kind) if isinstance(kind, Widened) else None

    def _cut(self, operation: str, type_: str, a: str, b: str) -> str | None:
        """and, or, xor and shifts to the right, by constants."""
        if type_ == "i16":
            return None
        if operation in ("and", "or", "xor"):
            if _LITERAL.fullmatch(a):
                a, b = b, a
            if not _LITERAL.fullmatch(b):
                return None
            kind = bitwise(operation, self.kind(a), int(b) & ((1 << BITS[type_]) - 1), self.lanes)
        elif operation in ("lshr", "ashr") and _LITERAL.fullmatch(b) and 0 <= int(b) < BITS[type_]:
            kind = shifted_right(self.kind(a), int(b), self.lanes)
        else:
            return None
        if not isinstance(kind, Affine):
            return None
        return self.affine(super().binary(operation, type_, a, b), kind.stride, kind.zeros)

    def _widened(self, operation: str, a: str, b: str, kind: Widened) -> str:
        base = super().binary
        if operation == "mul":
            parts = self._parts[a]
            offset = "0" if parts.offset == "0" else base("mul", "i64", parts.offset, b)
            return self.widened(Parts(offset, parts.base), kind)
        if isinstance(self.kind(a), Widened):
            parts = self._parts[a]
            offset = b if parts.offset == "0" and operation == "add" else base(operation, "i64", parts.offset, b)
        else:
            parts = self._parts[b]
            offset = a if parts.offset == "0" else base(operation, "i64", a, parts.offset)
        return self.widened(Parts(offset, parts.base), kind)

    def first(self, value: str) -> str:
        """The scalar of lane 0 of an affine or widened value, if nothing wraps on the way to the last lane."""
        kind = self.kind(value)
        if not isinstance(kind, Widened):
            return value
        parts = self._parts[value]
        base = super().cast("sext" if kind.signed else "zext", parts.base, "i32", "i64")
        if kind.scale != 1:
            base = super().binary("mul", "i64", base, str(kind.scale))
        return base if parts.offset == "0" else super().binary("add", "i64", base, parts.offset)

    def wraps(self, value: str) -> str:
        """Whether a widened value's 32-bit part wraps between its first and last lane, an ``i1``."""
        kind = self.kind(value)
        assert isinstance(kind, Widened)
        span = kind.stride * (self.lanes - 1)
        if not -(1 << 31) <= span < 1 << 31:
            return "true"
        operation = ("s" if kind.signed else "u") + ("add" if span >= 0 or kind.signed else "sub")
        amount = span if kind.signed else abs(span)
        both = super().call(
            "{ i32, i1 }",
            f"llvm.{operation}.with.overflow.i32",
            [("i32", self._parts[value].base), ("i32", str(amount))],
        )
        return super().extract_value("{ i32, i1 }", both, 1)

    def compare(self, predicate: str, type_: str, a: str, b: str) -> str:
        if self.is_uniform(a, b):
            return super().compare(predicate, type_, a, b)
        operation = "fcmp" if type_ in ("float", "double") else "icmp"
        a, b = self.widen(type_, a), self.widen(type_, b)
        return self.varying(self.value(f"{operation} {predicate} {self.wide(type_)} {a}, {b}"))

    def select(self, condition: str, type_: str, a: str, b: str) -> str:
        if self.is_uniform(condition, a, b):
            return super().select(condition, type_, a, b)
        a, b = self.widen(type_, a), self.widen(type_, b)
        kind = "i1" if self.is_uniform(condition) else self.wide("i1")
        wide = self.wide(type_)
        return self.varying(self.value(f"select {kind} {condition}, {wide} {a}, {wide} {b}"))

    def cast(self, operation: str, value: str, from_: str, to: str) -> str:
        if from_ == to:
            return value
        if _LITERAL.fullmatch(value) and operation in ("sext", "zext", "trunc"):
            return _fold(operation, int(value), BITS[from_], BITS[to])
        kind = self.kind(value)
        if isinstance(kind, Affine) and kind == UNIFORM:
            result = super().cast(operation, value, from_, to)
            kept = kind.zeros and operation in ("sext", "zext", "trunc", "bitcast")
            return self.affine(result, 0, min(kind.zeros, BITS[from_])) if kept else result
        if (from_, to) == ("i32", "i64") and operation in ("sext", "zext") and isinstance(kind, Affine):
            wide = extended(kind, operation == "sext", self.lanes)
            if isinstance(wide, Affine):
                return self.affine(super().cast(operation, value, from_, to), wide.stride, wide.zeros)
            assert isinstance(wide, Widened)
            return self.widened(Parts("0", value), wide)
        if (from_, to, operation) == ("i64", "i32", "trunc") and kind != VARYING:
            return self._narrowed(value, kind)
        value = self.widen(from_, value)
        return self.varying(self.value(f"{operation} {self.wide(from_)} {value} to {self.wide(to)}"))

    def _narrowed(self, value: str, kind: Kind) -> str:
        result = truncated(kind)
        assert isinstance(result, Affine)
        if not isinstance(kind, Widened):
            return self.affine(super().cast("trunc", value, "i64", "i32"), result.stride, result.zeros)
        parts = self._parts[value]
        base = parts.base if kind.scale == 1 else super().binary("mul", "i32", parts.base, str(_signed(kind.scale, 32)))
        if parts.offset != "0":
            base = super().binary("add", "i32", base, self.cast("trunc", parts.offset, "i64", "i32"))
        elif base == parts.base:
            base = super().binary("add", "i32", base, "0")  # a name of its own, since a kind belongs to a name
        return self.affine(base, result.stride)

    def negate(self, type_: str, value: str) -> str:
        if self.is_uniform(value):
            return super().negate(type_, value)
        return self.varying(self.value(f"fneg {self.wide(type_)} {self.widen(type_, value)}"))

    def extract_value(self, type_: str, value: str, index: int) -> str:
        if self.is_uniform(value):
            return super().extract_value(type_, value, index)
        return self.varying(self.value(f"extractvalue {self._struct(type_)} {value}, {index}"))

    def _struct(self, type_: str) -> str:
        match = _STRUCT.fullmatch(type_)
        return f"{{ {self.wide(match[1])}, {self.wide(match[2])} }}" if match else self.wide(type_)

    # ---- memory of handlers: carry flags and the like ----

    def alloca(self, type_: str, align: int = 0) -> str:
        """Memory for one value of each lane."""
        if type_ not in BITS:
            return super().alloca(type_, align)
        pointer = super().alloca(self.wide(type_), align)
        self._memory[pointer] = type_
        return pointer

    def scalar_alloca(self, type_: str, align: int = 0) -> str:
        """Memory for one value that all lanes share."""
        return super().alloca(type_, align)

    def load(self, type_: str, pointer: str, suffix: str = "") -> str:
        if pointer not in self._memory:
            return super().load(type_, pointer, suffix)
        return self.varying(self.value(f"load {self.wide(type_)}, ptr {pointer}"))

    def store(self, type_: str, value: str, pointer: str, suffix: str = "") -> None:
        if pointer not in self._memory:
            super().store(type_, value, pointer, suffix)
            return
        value = self.widen(type_, value)
        wide = self.wide(type_)
        if self.mask:
            old = self.value(f"load {wide}, ptr {pointer}")
            value = self.value(f"select {self.wide('i1')} {self.mask}, {wide} {value}, {wide} {old}")
        self.line(f"store {wide} {value}, ptr {pointer}")

    # ---- calls ----

    def call(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        if self.is_uniform(*(v for _, v in arguments)):
            return super().call(result, name, arguments)
        if name.startswith("llvm."):
            return self._vector_intrinsic(result, name, arguments)
        return self._each_lane(result, name, arguments)

    def _vector_intrinsic(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        parts = name.split(".")
        types = [k for k, part in enumerate(parts) if k > 1 and (part in _SHORT or re.fullmatch(r"i\d+", part))]
        stem = ".".join(parts[: types[0]])
        mangled = ".".join(f"v{self.lanes}{p}" if k in types else p for k, p in enumerate(parts))
        wide = [
            (t, v) if k and stem in _IMMEDIATE else (self.wide(t), self.widen(t, v))
            for k, (t, v) in enumerate(arguments)
        ]
        return self.varying(super().call(self._struct(result), mangled, wide))

    def _each_lane(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """A function of the C runtime, for one lane after the other."""
        uniform = [self.is_uniform(v) for _, v in arguments]
        types = [t for t, _ in arguments]
        own = f'@"lanes.{name}.{"".join("u" if u else "v" for u in uniform)}.{self.lanes}"'
        if own not in self.module.globals:
            self.module.declare(result, name, types)
            self.module.globals[own] = _lane_loop(own, result, name, types, uniform, self.lanes)
        wide = ", ".join(
            f"{t} {v}" if u else f"{self.wide(t)} {self.widen(t, v)}" for (t, v), u in zip(arguments, uniform)
        )
        return self.varying(self.value(f"call {self.wide(result)} {own}({wide})"))

    def prelude(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        if self.is_uniform(*(v for _, v in arguments)):
            return super().prelude(result, name, arguments)
        self.module.require(name, self.lanes)
        wide = ", ".join(f"{self.wide(t)} {self.widen(t, v)}" for t, v in arguments)
        function = vector_name(name, self.lanes)
        return self.varying(self.value(f"call {self.wide(result)} @interop.{function}({wide})"))


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _fold(operation: str, value: int, have: int, want: int) -> str:
    """A cast of an integer literal."""
    if operation == "zext":
        value &= (1 << have) - 1
    return str(_signed(value, want)) if want > 1 else str(value & 1)


def _lane_loop(own: str, result: str, name: str, types: Sequence[str], uniform: Sequence[bool], lanes: int) -> str:
    """A function that calls `name` for each lane."""
    parameters = ", ".join(
        f"{t} %a{k}" if u else f"<{lanes} x {t}> %a{k}" for k, (t, u) in enumerate(zip(types, uniform))
    )
    extracts = [
        f"  %e{k} = extractelement <{lanes} x {t}> %a{k}, i32 %i"
        for k, (t, u) in enumerate(zip(types, uniform))
        if not u
    ]
    passed = ", ".join(f"{t} %{'a' if u else 'e'}{k}" for k, (t, u) in enumerate(zip(types, uniform)))
    wide = f"<{lanes} x {result}>"
    return "\n".join(
        [
            f"define internal {wide} {own}({parameters}) noinline #0 {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i32 [ 0, %entry ], [ %next, %loop ]",
            f"  %so.far = phi {wide} [ poison, %entry ], [ %with, %loop ]",
            *extracts,
            f"  %r = call {result} @{name}({passed})",
            f"  %with = insertelement {wide} %so.far, {result} %r, i32 %i",
            "  %next = add nuw nsw i32 %i, 1",
            f"  %more = icmp ult i32 %next, {lanes}",
            "  br i1 %more, label %loop, label %done",
            "done:",
            f"  ret {wide} %with",
            "}",
        ]
    )

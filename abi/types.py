"""The types that a kernel's parameters have, their text form, size, alignment and components.

A type is written the same way everywhere: in the JSON of a bundle, in error messages and in ``repr``::

    f32   ptr<f32>   slice<f32>   tensor<f32, 2>   bytes<24, 8>

A type says *what* is passed; whether a kernel may write through it is the parameter's access mode
(:class:`abi.Access`), not part of the type. Names of scalars follow LLVM and Rust: ``i32`` is signed, ``u32`` is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

from .errors import Error


@dataclass(frozen=True)
class Scalar:
    """A number of fixed width. ``kind`` is one of ``bool``, ``int``, ``uint``, ``float``; ``bits`` is 8 … 64.

    >>> from abi import f32
    >>> f32.size, f32.kind, str(f32)
    (4, 'float', 'f32')
    """

    name: str
    kind: str
    bits: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.bits // 8

    @property
    def align(self) -> int:
        return self.size

    @property
    def minimum(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def maximum(self) -> int:
        """Largest value of an integer type."""
        if self.kind == "bool":
            return 1
        return (1 << (self.bits - (self.kind == "int"))) - 1

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


bool_ = Scalar("bool", "bool", 8)
i8, i16, i32, i64 = (Scalar(f"i{n}", "int", n) for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (Scalar(f"u{n}", "uint", n) for n in (8, 16, 32, 64))
f16, f32, f64 = (Scalar(f"f{n}", "float", n) for n in (16, 32, 64))
bf16 = Scalar("bf16", "float", 16)

SCALARS: dict[str, Scalar] = {t.name: t for t in (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)}
"""All scalar types by name."""


@dataclass(frozen=True)
class Pointer:
    """A bare device address. ``pointee`` is None where the image does not say (check level ``layout``)."""

    pointee: Scalar | None = None

    size = 8
    align = 8

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>" if self.pointee else "ptr"

    __repr__ = __str__


@dataclass(frozen=True)
class Slice:
    """A contiguous run of elements: pointer and element count (u64)."""

    element: Scalar

    size = 16
    align = 8

    def __str__(self) -> str:
        return f"slice<{self.element}>"

    __repr__ = __str__


@dataclass(frozen=True)
class Tensor:
    """A strided array: pointer, ``rank`` extents, ``rank`` strides (i64; strides count elements)."""

    element: Scalar
    rank: int

    @property
    def size(self) -> int:
        return 8 + 16 * self.rank

    align = 8

    def __str__(self) -> str:
        return f"tensor<{self.element}, {self.rank}>"

    __repr__ = __str__


@dataclass(frozen=True)
class Bytes:
    """A by-value block whose fields the image does not tell: ``size`` bytes aligned to ``align``."""

    size: int
    align: int

    def __str__(self) -> str:
        return f"bytes<{self.size}, {self.align}>"

    __repr__ = __str__


Type = Union[Scalar, Pointer, Slice, Tensor, Bytes]
"""Any parameter type."""


@dataclass(frozen=True)
class Component:
    """One machine value of a parameter, in the order in which a convention lays them out.

    ``role`` is ``value`` (a scalar or a byte block), ``pointer``, ``length``, ``dim`` or ``stride``; ``axis`` counts
    dimensions for the last two.
    """

    role: str
    size: int
    align: int
    axis: int = 0


def components(type_: Type) -> tuple[Component, ...]:
    """The machine values that make up `type_`: a slice is pointer and length, a tensor pointer, extents, strides.

    >>> from abi import Slice, f32
    >>> [c.role for c in components(Slice(f32))]
    ['pointer', 'length']
    """
    pointer = Component("pointer", 8, 8)
    if isinstance(type_, (Scalar, Bytes)):
        return (Component("value", type_.size, type_.align),)
    if isinstance(type_, Pointer):
        return (pointer,)
    if isinstance(type_, Slice):
        return (pointer, Component("length", 8, 8))
    dims = tuple(Component("dim", 8, 8, axis) for axis in range(type_.rank))
    strides = tuple(Component("stride", 8, 8, axis) for axis in range(type_.rank))
    return (pointer, *dims, *strides)


_GENERIC = re.compile(r"\s*([a-z][a-z0-9]*)\s*(?:<([^<>]*)>)?\s*$")


def parse_type(text: str) -> Type:
    """The type written as `text`; :class:`abi.Error` when there is no such type.

    >>> parse_type("tensor<f32, 2>")
    tensor<f32, 2>
    """
    match = _GENERIC.match(text)
    if not match:
        raise Error(f"'{text}' is not a type; types look like f32, ptr<f32>, slice<f32>, tensor<f32, 2>, bytes<24, 8>")
    name, inside = match.groups()
    arguments = [a.strip() for a in inside.split(",")] if inside is not None else []
    if name in SCALARS and not arguments:
        return SCALARS[name]
    if name == "ptr" and not arguments:
        return Pointer()
    if name in ("ptr", "slice") and len(arguments) == 1 and arguments[0] in SCALARS:
        element = SCALARS[arguments[0]]
        return Pointer(element) if name == "ptr" else Slice(element)
    if name == "tensor" and len(arguments) == 2 and arguments[0] in SCALARS and re.fullmatch("[1-8]", arguments[1]):
        return Tensor(SCALARS[arguments[0]], int(arguments[1]))
    if name == "bytes" and len(arguments) == 2 and all(re.fullmatch("[0-9]{1,5}", a) for a in arguments):
        size, align = map(int, arguments)
        if size > 0 and align in (1, 2, 4, 8, 16, 32, 64, 128) and size % align == 0:
            return Bytes(size, align)
    raise Error(f"'{text}' is not a type; scalars are {', '.join(SCALARS)}")

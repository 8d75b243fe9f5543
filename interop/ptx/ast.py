"""The syntax tree of PTX: frozen dataclasses that compare by value and print as PTX (:mod:`interop.ptx.printer`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Union


@dataclass(frozen=True, slots=True)
class Name:
    """A register, label, variable or function, as written: ``%r1``, ``%tid.x``, ``$L__BB0_2``, ``saxpy``."""

    text: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal. ``unsigned`` is True for the suffix ``U``."""

    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point literal by its bits: ``width`` 32 for ``0f…``, 64 for ``0d…`` and decimals."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A base and a constant: ``%rd1+8``, ``table+16``, ``%rd1+-4``."""

    base: Operand
    offset: int


@dataclass(frozen=True, slots=True)
class Generic:
    """``generic(x)``: the generic address of a variable, in an initialiser."""

    base: Operand


@dataclass(frozen=True, slots=True)
class Masked:
    """``0xFF00(x)``: one byte of an address, in an initialiser."""

    mask: int
    base: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand: ``[%rd1+8]``; ``items`` has more entries for texture-like coordinates."""

    items: tuple[Operand, ...]

    @property
    def base(self) -> Operand:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class Vector:
    """``{%r1, %r2}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """``(param0, param1)``: the argument and result lists of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``%r1|%p1``: two destinations of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p1``."""

    base: Operand


@dataclass(frozen=True)
class Minus:
    """``-%r1.h0``, an operand of ``vmad``."""

    base: Operand


Operand = Union[Name, Integer, Float, Offset, Generic, Masked, Address, Vector, Group, Pair, Not, Minus]
"""Anything that stands behind an opcode."""


@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p1`` or ``@!%p1``."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: ``opcode`` is the first part of the dotted name, ``modifiers`` the others.

    ``line`` is the line in the PTX text; ``source_line`` and ``source_file`` are those of the last ``.loc``, 0 without.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    line: int = field(default=0, compare=False)
    source_line: int = field(default=0, compare=False)
    source_file: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The full dotted name.

        >>> Instruction("add", ("s32",), ()).name
        'add.s32'
        """
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Whether any of `modifiers` is there."""
        return any(m in self.modifiers for m in modifiers)


class InstructionDraft:
    """The fields of an instruction, which becomes one when it is finished: ``draft.__class__ = Instruction``.

    The constructor of a frozen class takes longer than all else that reading a plain statement does.
    """

    __slots__ = ("guard", "line", "modifiers", "opcode", "operands", "source_file", "source_line")

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    source_line: int
    source_file: int


@dataclass(frozen=True, slots=True)
class Label:
    """``$L__BB0_2:``"""

    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Registers:
    """``.reg .b32 %r<12>;``: ``count`` is None for a single register; ``vector`` is 1, 2 or 4."""

    type: str
    name: str
    count: int | None = None
    vector: int = 1
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Variable:
    """A variable of any state space, or a parameter.

    ``space`` is ``global``, ``const``, ``shared``, ``local`` or ``param``. ``dims`` is empty for a scalar; an extent of
    None is an array without a size (``[]``). ``initializer`` is None, or flat values in memory order.
    """

    space: str
    type: str
    name: str
    dims: tuple[int | None, ...] = ()
    align: int | None = None
    vector: int = 1
    linkage: str = ""
    initializer: tuple[Operand, ...] | None = None
    pointer: tuple[str, int] | None = None  # `.ptr .global .align 4` of an entry's parameter: (space, alignment)
    line: int = field(default=0, compare=False)

    @property
    def element_size(self) -> int:
        """Bytes of one element."""
        return TYPE_BITS[self.type] // 8 * self.vector

    @property
    def size(self) -> int:
        """Bytes; 0 for an array without a size."""
        total = self.element_size
        for dim in self.dims:
            total *= dim or 0
        return total

    @property
    def alignment(self) -> int:
        """The alignment in force: what is written, or the element's size."""
        return self.align or self.element_size


@dataclass(frozen=True)
class Block:
    """``{ … }`` inside a body: a scope of its own."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Pragma:
    """``.pragma "nounroll";``"""

    text: str


@dataclass(frozen=True)
class Targets:
    """``name: .branchtargets L1, L2;`` or ``.calltargets f, g;``"""

    kind: str
    name: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prototype:
    """``name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;``: what an indirect call passes and gets."""

    name: str
    params: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    directives: tuple[tuple[str, tuple[int, ...]], ...] = ()


Statement = Union[Instruction, Label, Registers, Variable, Block, Pragma, Targets, Prototype]
"""One statement of a body."""


@dataclass(frozen=True)
class Function:
    """An ``.entry`` or a ``.func``. The body is parsed when it is first asked for; None for a declaration."""

    name: str
    is_entry: bool
    params: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    linkage: str = ""
    directives: tuple[tuple[str, tuple[int, ...]], ...] = ()
    line: int = field(default=0, compare=False)
    parse_body: Callable[[], tuple[Statement, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def body(self) -> tuple[Statement, ...] | None:
        """The statements; None for a declaration. :class:`PtxSyntaxError` when they are malformed."""
        return None if self.parse_body is None else self.parse_body()

    def directive(self, name: str) -> tuple[int, ...] | None:
        """The arguments of ``.reqntid`` and the like; None when it is not there."""
        return next((arguments for key, arguments in self.directives if key == name), None)


@dataclass(frozen=True)
class Module:
    """One PTX text."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    files: tuple[tuple[int, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # `.alias f, g;`: the declared f is another name of the defined g

    @cached_property
    def entries(self) -> dict[str, Function]:
        """The kernels by name, in the order of the text."""
        return {f.name: f for f in self.functions if f.is_entry}

    def function(self, name: str) -> Function | None:
        """The definition of `name` or of what it is an alias of, else its declaration, else None."""
        return self._by_name.get(name)

    @cached_property
    def function_order(self) -> dict[str, int]:
        """The functions that are no kernels, numbered as they first appear; an alias counts as its aliasee."""
        order: dict[str, int] = {}
        for function in self.functions:
            if not function.is_entry:
                order.setdefault(function.name, len(order))
        order.update({alias: order[aliasee] for alias, aliasee in self.aliases if aliasee in order})
        return order

    @cached_property
    def _by_name(self) -> dict[str, Function]:
        found: dict[str, Function] = {}
        for function in self.functions:
            if function.name not in found or function.parse_body is not None:
                found[function.name] = function
        for alias, aliasee in self.aliases:  # of an alias none can be made, so that one step is enough
            function_ = found.get(aliasee)
            if function_ is not None and function_.parse_body is not None:
                found[alias] = function_
        return found


TYPE_BITS: dict[str, int] = {
    "pred": 8,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "tf32": 32, "f32x2": 64,
    "texref": 64, "samplerref": 64, "surfref": 64,
    "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16, "u16x2": 32, "s16x2": 32,
}  # fmt: skip
"""Width of each type in memory, in bits."""

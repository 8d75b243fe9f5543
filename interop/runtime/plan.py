"""A kernel's argument plan: what each argument must be and where its machine values go. Immutable, made once a kernel.

:mod:`.execute` runs plans. The two are apart so that a compiled hot path can take the place of the second: a plan holds
everything that one launch has in common with the next.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from abi import Block, Bytes, CheckLevel, Kernel, Param, Pointer, Scalar, Slice, Tensor, buffer_size, check_kernel
from abi.layout import packing
from abi.rule_eval import Evaluator, compile_node
from abi.rules import Rule, rules_of

from .scalars import FORMATS, Converter, converter


class Kind(Enum):
    """What an argument is."""

    SCALAR = "scalar"
    BYTES = "bytes"
    POINTER = "pointer"
    SLICE = "slice"
    TENSOR = "tensor"


@dataclass(frozen=True)
class ArgumentPlan:
    """One argument.

    ``kernel`` is the kernel's name, ``what`` how messages call the argument (``saxpy: x``). ``element`` is the element
    type that an array must have, None where any will do. ``convert`` checks a scalar. ``integers_too``: an integer may
    be passed for the pointer, because the image does not tell pointers from integers. ``struct`` is the NumPy dtype or
    ctypes class that a structure was declared with, if any.
    """

    kernel: str
    name: str
    what: str
    kind: Kind
    type_text: str
    element: Scalar | None = None
    rank: int = 0
    writes: bool = False
    size: int = 0
    convert: Converter | None = None
    integers_too: bool = False
    struct: Any = None


@dataclass(frozen=True)
class KernelPlan:
    """A kernel's arguments, how they are packed, and its rules, parsed.

    ``packer`` lays out the whole parameter buffer; its values come in the order of ``sequence``: (parameter, machine
    value of that parameter), parameters counted over visible ones first, then hidden ones. ``shared`` is a number where
    its rule is one.
    """

    kernel: Kernel
    name: str
    arguments: tuple[ArgumentPlan, ...]
    positions: dict[str, int]
    hidden: tuple[Param, ...]
    packer: struct.Struct
    sequence: tuple[tuple[int, int], ...]
    block: Block
    grid: tuple[Evaluator, ...]
    shared: Evaluator | int | None
    requires: tuple[Evaluator, ...]

    def pack(self, values: list[tuple[Any, ...]]) -> bytes:
        """The parameter buffer."""
        return self.packer.pack(*[values[parameter][part] for parameter, part in self.sequence])


def make_plan(kernel: Kernel, structs: Mapping[str, Any] = MappingProxyType({})) -> KernelPlan:
    """The plan for a kernel; an :class:`abi.Error` when its description contradicts itself.

    :param structs: what structures passed by value were declared with, by parameter.
    """
    check_kernel(kernel)
    visible, hidden = kernel.visible_params, tuple(p for p in kernel.params if p.hidden)
    packer, sequence = _packer(visible + hidden)
    rules = rules_of(kernel)
    return KernelPlan(
        kernel,
        kernel.name,
        tuple(_argument(kernel, param, structs.get(param.name)) for param in visible),
        {param.name: position for position, param in enumerate(visible)},
        hidden,
        packer,
        sequence,
        kernel.launch.block,
        tuple(compile_node(rule.node) for rule in rules.grid),
        _shared(rules.shared),
        tuple(compile_node(rule.node) for _, rule in rules.requires),
    )


def _shared(rule: Rule | None) -> Evaluator | int | None:
    """A number where the rule is one; None where the caller has to give it."""
    if rule is None:
        return None
    return int(rule.text) if rule.text.isdecimal() else compile_node(rule.node)


def _argument(kernel: Kernel, param: Param, struct: Any) -> ArgumentPlan:
    type_, writes = param.type, param.access.writes
    what, text = f"{kernel.name}: {param.name}", str(param.type)
    untyped = kernel.check_level is not CheckLevel.TYPED
    if isinstance(type_, Scalar):
        convert = converter(type_, sign_known=not untyped)
        return ArgumentPlan(kernel.name, param.name, what, Kind.SCALAR, text, convert=convert)
    if isinstance(type_, Bytes):
        return ArgumentPlan(kernel.name, param.name, what, Kind.BYTES, text, size=type_.size, struct=struct)
    if isinstance(type_, Pointer):
        either = untyped and type_.pointee is None
        shown = f"{text} (any array or an integer: the image does not say)" if either else text
        return ArgumentPlan(
            kernel.name, param.name, what, Kind.POINTER, shown, type_.pointee, 0, writes, integers_too=either
        )
    if isinstance(type_, Slice):
        return ArgumentPlan(kernel.name, param.name, what, Kind.SLICE, text, type_.element, 1, writes)
    assert isinstance(type_, Tensor)
    return ArgumentPlan(kernel.name, param.name, what, Kind.TENSOR, text, type_.element, type_.rank, writes)


def _packer(params: tuple[Param, ...]) -> tuple[struct.Struct, tuple[tuple[int, int], ...]]:
    """One :class:`struct.Struct` for the whole buffer, gaps as pad bytes."""
    pieces = []
    for position, param in enumerate(params):
        for part, (component, offset, size) in enumerate(packing(param)):
            letter = {"value": _value_format(param), "pointer": "Q", "length": "Q"}.get(component.role, "q")
            pieces.append((offset, size, letter, (position, part)))
    pieces.sort()
    format_, end = "<", 0
    for offset, size, letter, _ in pieces:
        format_ += f"{offset - end}x" * (offset > end) + letter
        end = offset + size
    total = buffer_size(params)
    format_ += f"{total - end}x" * (total > end)
    return struct.Struct(format_), tuple(place for _, _, _, place in pieces)


def _value_format(param: Param) -> str:
    type_ = param.type
    return FORMATS[type_.name] if isinstance(type_, Scalar) else f"{type_.size}s"

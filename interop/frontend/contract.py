"""The decorator's contract as ABI records: block, grid, preconditions, and what witnesses add to them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import abi
from abi import Access, Block, BlockKind, Launch, Origin, Param, Requirement
from abi.rules import Rule, parse, split_grid

from ..errors import Location, SyntaxError_, TypeError_
from ..ir import ops
from ..ir.ops import Function, Parameter
from ..ir.types import WITNESS_RULES, Witness
from ..language.constants import BlockRule, Const
from ..language.definition import KernelDefinition
from .captures import Captures, lookup
from .source import Source

_LIMITS = (1024, 1024, 64)
_WITNESS_NOTE = {
    1: "simt.global_index() is unique to a thread only in a one-dimensional launch",
    2: "simt.global_index(2) is unique to a thread only in a two-dimensional launch",
}


class Contract:
    """Reads one definition's contract; ``params`` are the parameters' records without access and slots."""

    def __init__(self, definition: KernelDefinition, source: Source, captures: Captures, params: Sequence[Param]):
        self._definition = definition
        self._source = source
        self._captures = captures
        self._params = tuple(params)

    # -- block

    def block(self) -> Block:
        """The block rule; extents are checked against the hardware's limits."""
        given = self._definition.block
        if given is None:
            return Block()
        if isinstance(given, BlockRule):
            count = self._extent(given.count)
            kind = BlockKind.UP_TO if given.word == "up_to" else BlockKind.MULTIPLE_OF
            return Block(kind, (count, 1, 1))
        items = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(items) <= 3:
            raise self._bad_block(f"a block has one to three extents, not {len(items)}")
        x, y, z = (*map(self._extent, items), 1, 1)[:3]
        for axis, extent, limit in zip("xyz", (x, y, z), _LIMITS, strict=True):
            if extent > limit:
                raise self._bad_block(f"block.{axis} is {extent}; the limit is {limit}")
        if x * y * z > 1024:
            raise self._bad_block(f"the block has {x * y * z} threads; the limit is 1024")
        return Block(BlockKind.EXACT, (x, y, z))

    def _extent(self, given: Any) -> int:
        value: Any = self._captures.const(given) if isinstance(given, Const) else given
        try:
            number = operator.index(value)
        except TypeError:
            number = 0
        if isinstance(value, bool) or number < 1:
            raise self._bad_block(f"a block's extent is a positive integer, not {value!r}")
        return number

    def _bad_block(self, message: str) -> TypeError_:
        place = self._source.decorator_argument("block")
        return TypeError_(message, place, help="write block=256, block=(32, 8), io.up_to(n) or io.multiple_of(n)")

    # -- rules

    def grid(self) -> tuple[str, ...]:
        """The grid's rules in CUDA's order, checked; empty when the caller has to give the grid."""
        given = self._definition.grid
        if given is None:
            return ()
        place = self._source.decorator_argument("grid")
        try:
            texts = split_grid(given) if isinstance(given, str) else self._grid_items(given, place)
        except abi.RuleError as error:
            raise SyntaxError_(f"the grid rule is not well formed: {error}", place) from None
        if not 1 <= len(texts) <= 3 or not all(isinstance(t, str) for t in texts):
            raise SyntaxError_("a grid has one to three rules", place, help='write grid="ceil_div(len(y), block.x)"')
        return tuple(self._rule(t, place, condition=False).text for t in texts)

    def _grid_items(self, given: Any, place: Location) -> tuple[str, ...]:
        """Rules out of numbers, constants and texts."""
        items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        texts = []
        for item in items:
            value = self._captures.const(item) if isinstance(item, Const) else item
            if isinstance(value, bool) or not isinstance(value, (str, int)) or (isinstance(value, int) and value < 0):
                raise SyntaxError_(
                    f"a grid is made of rules and numbers of blocks, not {value!r}",
                    place,
                    help='write grid="ceil_div(len(y), block.x)", grid=4 or grid=("ceil_div(n, 32)", 2)',
                )
            texts.append(str(value))
        return tuple(texts)

    def shared(self) -> str:
        """The rule for the bytes of dynamic shared memory."""
        given = self._definition.shared
        if given is None:
            return "0"
        return self._rule(str(given), self._source.decorator_argument("shared"), condition=False).text

    def requires(self) -> tuple[Rule, ...]:
        """The preconditions that the author wrote."""
        rules = []
        for number, text in enumerate(self._definition.requires):
            rules.append(self._rule(text, self._source.decorator_argument("requires", number), condition=True))
        return tuple(rules)

    def _rule(self, text: str, place: Location, condition: bool) -> Rule:
        if not isinstance(text, str):
            raise SyntaxError_(f"a rule is a string, not {text!r}", place, help='write requires=["len(x) >= len(y)"]')
        try:
            rule = parse(self._with_constants(text), self._params)
        except abi.RuleError as error:
            raise SyntaxError_(f"the rule is not well formed: {error}", place) from None
        if rule.is_boolean != condition:
            wanted, got = ("a condition", "a number") if condition else ("a number", "a condition")
            raise SyntaxError_(f"'{text}' is {got}; {wanted} is needed here", place)
        return rule

    def _with_constants(self, text: str) -> str:
        """`text` with the names of compile-time constants replaced by their values."""
        names = {p.name for p in self._params}

        def value(match: re.Match[str]) -> str:
            name = match[0]
            found, captured = lookup(self._definition.function, name)
            if name in names or not found or not isinstance(captured, Const):
                return name
            number = self._captures.const(captured)
            return str(int(number)) if isinstance(number, (bool, int)) and number >= 0 else f"({number})"

        return re.sub(r"(?<![\w.])[A-Za-z_]\w*(?!\s*\()", value, text)


def parameter_record(parameter: Parameter, access: Access = Access.IN) -> Param:
    """The record of an IR parameter."""
    type_ = parameter.value.type
    assert not isinstance(type_, Witness)
    return Param(parameter.name, type_, access)  # type: ignore[arg-type]


def accesses(function: Function) -> Mapping[str, Access]:
    """What the body does with each parameter: written ones are in-out, unless they are declared ``io.Out``."""
    written = {op.array for op in ops.walk(function.body) if isinstance(op, ops.Store)}
    found = {}
    for parameter in function.parameters:
        mode = Access.OUT if parameter.word == "Out" else Access.INOUT
        found[parameter.name] = mode if parameter.value in written or parameter.word in ("Out", "InOut") else Access.IN
    return found


def witness_requirements(function: Function) -> tuple[Requirement, ...]:
    """What a launch must fulfil because the kernel writes, or reads what it writes, through witnesses."""
    parameters = {p.value for p in function.parameters if p.disjoint}
    ranks = {
        op.indices[0].type.rank
        for op in ops.walk(function.body)
        if isinstance(op, (ops.Load, ops.Store)) and op.array in parameters and isinstance(op.indices[0].type, Witness)
        and isinstance(op, ops.Store)
    }  # fmt: skip
    rules: dict[str, Requirement] = {}
    for rank in sorted(ranks):
        for text in WITNESS_RULES[rank]:
            rules.setdefault(text, Requirement(text, Origin.WITNESS, _WITNESS_NOTE[rank]))
    return tuple(rules.values())


def launch_record(contract: Contract, min_cc: tuple[int, int]) -> Launch:
    """The launch rules."""
    return Launch(contract.block(), contract.grid(), contract.shared(), min_cc)

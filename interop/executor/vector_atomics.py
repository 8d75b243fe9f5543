"""The vector path's atomics: one lane after the other, lowest first, or one for all lanes where only their sum counts.

A block stays on one thread of the host, so atomics on shared memory need no locked instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import atomics
from .memory import SCOPES, drop_hints, space_of
from .modifiers import Modifiers
from .records import Access
from .table import Table
from .types import BITS, FLOATS, PACKED, is_signed, vector
from .vector_flatten import Unsuitable
from .vector_memory import place

if TYPE_CHECKING:
    from .vector_translator import VectorTranslator

TABLE = Table()

_REDUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor"}
_NEUTRAL = {"add": "0", "or": "0", "xor": "0", "and": "-1"}


@TABLE("atom", "red")
def atom(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Read, modify, write."""
    type_ = m.type()
    operation = m.take(*atomics.OPERATIONS)
    space = space_of(m)
    order = atomics.ORDERS[m.take(*atomics.ORDERS, default="relaxed")]
    m.take(*SCOPES)
    m.flag("noftz")
    drop_hints(m)
    first = 0 if i.opcode == "red" else 1
    vectors = i.has("v2", "v4", "v8", "async")
    if not operation or type_ == "b128" or vectors or len(i.operands) > first + 3:
        raise Unsuitable(f"{i.name}")
    where = place(t, t.operand(first), space, BITS[vector(type_)] // 8, Access.UPDATE)
    address = where.address or t.b.integer_of(where.pointer)
    values = [t.read(t.operand(first + 1 + k), type_) for k in range(2 if operation == "cas" else 1)]
    unused = i.opcode == "red" or (isinstance(t.operand(0), ast.Name) and t.operand(0).text == "_")  # type: ignore[union-attr]
    plain = space == "shared" and type_ not in FLOATS and type_ not in PACKED
    if unused and t.b.is_uniform(address) and operation in _REDUCTIONS and type_ not in FLOATS and type_ not in PACKED:
        _together(t, i, operation, type_, space, address, order, values[0])
        return
    old = _each(t, i, operation, type_, space, address, order, values, plain)
    if not unused:
        t.write(t.operand(0), type_, old)


def _together(
    t: VectorTranslator, i: Instruction, operation: str, type_: str, space: str, address: str, order: str, value: str
) -> None:
    """All lanes change one place and none asks what was there: one atomic with what they amount to."""
    b, llvm = t.b, vector(type_)
    wide = b.widen(llvm, value)
    vector_ = b.wide(llvm)
    neutral = f"splat ({llvm} {_NEUTRAL[operation]})"
    kept = b.value(f"select {b.wide('i1')} {t.active()}, {vector_} {wide}, {vector_} {neutral}")
    name = f"llvm.vector.reduce.{_REDUCTIONS[operation]}.v{t.lanes}{llvm}"
    b.module.declare(llvm, name, [b.wide(llvm)])
    total = b.value(f"call {llvm} @{name}({b.wide(llvm)} {kept})")
    atomics.modify(t, i, operation, type_, space, b.offset(t.zero, address), order, total)


def _each(
    t: VectorTranslator,
    i: Instruction,
    operation: str,
    type_: str,
    space: str,
    address: str,
    order: str,
    values: list[str],
    plain: bool,
) -> str:
    llvm = vector(type_)
    places = t.spill("i64", address)
    spilled = [t.spill(llvm, value) for value in values]
    results = t.lane_memory(llvm)

    def one(lane: str) -> None:
        pointer = t.lane_address(places, lane)
        given = [t.b.load(llvm, t.lane_pointer(s, llvm, lane)) for s in spilled]
        if plain:
            old = _plain(t, operation, type_, pointer, given)
        elif operation == "cas":
            old = atomics.compare_and_swap(t, type_, pointer, order, *given)
        else:
            old = atomics.modify(t, i, operation, type_, space, pointer, order, given[0])
        t.b.store(llvm, old, t.lane_pointer(results, llvm, lane))

    t.each_lane(one)
    return t.b.varying(t.b.value(f"load {t.b.wide(llvm)}, ptr {results}"))


def _plain(t: VectorTranslator, operation: str, type_: str, pointer: str, given: list[str]) -> str:
    """The operation without a lock; what was there before."""
    b, llvm = t.b, vector(type_)
    align = f", align {BITS[llvm] // 8}"
    old = b.load(llvm, pointer, align)
    value = given[0]
    if operation == "exch":
        new = value
    elif operation == "cas":
        new = b.select(b.compare("eq", llvm, old, value), llvm, given[1], old)
    elif operation in ("min", "max"):
        new = b.intrinsic(("s" if is_signed(type_) else "u") + operation, llvm, old, value)
    elif operation == "inc":
        new = b.select(b.compare("uge", llvm, old, value), llvm, "0", b.binary("add", llvm, old, "1"))
    elif operation == "dec":
        wraps = b.binary("or", "i1", b.compare("eq", llvm, old, "0"), b.compare("ugt", llvm, old, value))
        new = b.select(wraps, llvm, value, b.binary("sub", llvm, old, "1"))
    else:
        new = b.binary(operation, llvm, old, value)
    b.store(llvm, new, pointer, align)
    return old

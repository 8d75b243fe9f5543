"""The vector path's cp.async: the copies of a strand together, done when they are issued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import async_copy, bounds
from .modifiers import Modifiers
from .records import Access
from .table import Table
from .vector_flatten import Unsuitable
from .vector_memory import number_of, place_number

if TYPE_CHECKING:
    from .vector_translator import VectorTranslator

TABLE = Table()


@TABLE("cp")
def copy(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """cp.async. Waiting needs nothing, since all copies are done."""
    if t.plan.strict_copies:
        raise Unsuitable("the strict mode of cp.async")
    if "mbarrier" in m.rest:
        raise Unsuitable("mbarrier objects")
    if "bulk" in m.rest or any(x in m.rest for x in ("commit_group", "wait_group", "wait_all")):
        async_copy.copy(t, i, m)
        return
    m.flag("async")
    size = async_copy.size_of(t, i, m)
    b = t.b
    target = place_number(t, t.operand(0), "shared", size, Access.WRITE)
    used = async_copy.used_of(t, i, size)
    if used is None:
        source = place_number(t, t.operand(1), "global", size, Access.READ)
        amounts = "null"
    else:
        source = number_of(t, t.operand(1), "global")
        _check(t, source, used, size)
        amounts = t.spill("i32", used)
    mask = t.b.scalar.resize(t.active_bits(), t.bits, "i32")
    places = [("ptr", t.spill("i64", target)), ("ptr", t.spill("i64", source)), ("ptr", amounts)]
    b.scalar.helper("void", "copy_lanes", [*places, ("i32", mask), ("i32", str(size))])


def _check(t: VectorTranslator, source: str, used: str, size: int) -> None:
    """The check of copies that may read less than `size` bytes, lane by lane."""
    if not t.plan.checks.enabled:
        return
    addresses, amounts = t.spill("i64", source), t.spill("i32", used)
    operand = t.operand(1)

    def one(lane: str) -> None:
        address = t.b.load("i64", t.b.offset(addresses, t.b.binary("mul", "i64", lane, "8")))
        amount = t.b.load("i32", t.b.offset(amounts, t.b.binary("mul", "i64", lane, "4")))
        bounds.check_span(t, operand, address, amount, Access.READ)

    t.each_lane(one)

"""mbarrier: barriers that are objects in shared memory, PTX ISA 9.7.13.15. What only clusters need is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed, unsupported
from .memory import SCOPES, address, space_of
from .modifiers import Modifiers
from .records import Access
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_EXPECT, _DROP, _INCOMPLETE = 1, 2, 4
"""How a thread arrives: ``enum interop_cpu_arrival``."""


def barrier_address(t: Translator, operand: ast.Operand, space: str) -> str:
    """The pointer to an mbarrier object."""
    if space not in ("", "shared"):
        raise malformed(t.instruction, "mbarrier objects are in shared memory")
    return address(t, operand, space, 8, Access.UPDATE)


def arrive(t: Translator, pointer: str, count: str, transactions: str, how: int) -> str:
    """Arrives at an mbarrier; the state before."""
    numbers = [("i32", count), ("i32", transactions), ("i32", str(how))]
    return t.b.helper("i64", "mbarrier_arrive", [*_where(t), ("ptr", pointer), *numbers])


def _where(t: Translator) -> list[tuple[str, str]]:
    return [("ptr", "%blk"), *t.thread_ids(), ("i32", str(t.instruction.line))]


@TABLE("mbarrier")
def mbarrier(t: Translator, i: Instruction, m: Modifiers) -> None:
    """All operations on mbarrier objects. Orders and scopes do not matter: a block is one thread of the host."""
    operation = m.take(
        "init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count", "expect_tx", "complete_tx"
    )
    # `.expect_tx` stands behind `arrive` as well as by itself.
    expects = operation.startswith("arrive") and m.flag("expect_tx")
    m.take("release", "acquire", "relaxed")
    m.take(*SCOPES)
    space = space_of(m)
    if not m.flag("b64"):
        raise malformed(i, "mbarrier objects are .b64")
    if operation in ("init", "inval"):
        _initialise(t, operation, space)
    elif operation in ("arrive", "arrive_drop"):
        _arrive(t, i, m, space, _DROP * (operation == "arrive_drop") | _EXPECT * expects)
    elif operation in ("test_wait", "try_wait"):
        _test(t, m, space)
    elif operation in ("expect_tx", "complete_tx"):
        pointer, count = barrier_address(t, t.operand(0), space), t.read(t.operand(1), "u32")
        complete = str(int(operation == "complete_tx"))
        t.b.helper("void", "mbarrier_transact", [*_where(t), ("ptr", pointer), ("i32", count), ("i32", complete)])
    elif operation == "pending_count":
        state = t.read(t.operand(1), "b64")
        t.write(t.operand(0), "u32", t.b.helper("i32", "mbarrier_pending", [("i64", state)]))
    else:
        raise unsupported(i)


def _initialise(t: Translator, operation: str, space: str) -> None:
    pointer = barrier_address(t, t.operand(0), space)
    if operation == "inval":
        t.b.store("i64", "0", pointer, ", align 8")  # an arrival at it is an error
        return
    count = t.read(t.operand(1), "u32")
    t.b.helper("void", "mbarrier_init", [*_where(t), ("ptr", pointer), ("i32", count)])


def _arrive(t: Translator, i: Instruction, m: Modifiers, space: str, how: int) -> None:
    how |= _INCOMPLETE * m.flag("noComplete")
    # The state is left out, or `_`, where the object is in another block of the cluster.
    first = 0 if isinstance(t.operand(0), ast.Address) else 1
    pointer = barrier_address(t, t.operand(first), space)
    number = t.read(t.operand(first + 1), "u32") if len(i.operands) > first + 1 else "1"
    if how & (_EXPECT | _INCOMPLETE) and len(i.operands) <= first + 1:
        raise malformed(i, "the count is missing")
    state = arrive(t, pointer, *(("1", number) if how & _EXPECT else (number, "0")), how)
    if first:
        t.write(t.operand(0), "b64", state)


def _test(t: Translator, m: Modifiers, space: str) -> None:
    """test_wait and try_wait. Neither blocks: the loop around it lets other threads run (:mod:`.spin`)."""
    parity = m.flag("parity")
    pointer = barrier_address(t, t.operand(1), space)
    state = t.b.resize(t.read(t.operand(2), "u32"), "i32", "i64") if parity else t.read(t.operand(2), "b64")
    arguments = [*_where(t), ("ptr", pointer), ("i64", state), ("i32", str(int(parity)))]
    over = t.b.helper("i32", "mbarrier_test", arguments)
    t.write(t.operand(0), "pred", t.b.compare("ne", "i32", over, "0"))

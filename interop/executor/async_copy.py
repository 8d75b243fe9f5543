"""cp.async: copies from global to shared memory of up to 16 bytes, PTX ISA 9.7.9.25.3.

They are done when they are issued, which is one of the times that PTX allows. In the strict mode
(``INTEROP_CPU_STRICT_COPIES=1`` when the kernel is compiled) they are done as late as PTX allows: when the thread waits
for them, from the memory as it is then. A kernel that is right gives the same in both; one that reads what it has not
waited for finds the old contents in the strict mode, and one that copies into a buffer which is still being read
destroys it in the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import mbarrier
from .errors import malformed, unsupported
from .memory import address, drop_hints, space_of
from .modifiers import Modifiers
from .records import Access
from .scopes import Register
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_ALL = -1  # groups to wait for: UINT32_MAX in C


@TABLE("cp")
def copy(t: Translator, i: Instruction, m: Modifiers) -> None:
    """cp.async and what waits for it."""
    if "bulk" in m.rest or m.flag("reduce"):
        raise unsupported(i, "bulk copies, which need sm_90")
    if not m.flag("async"):
        raise unsupported(i)
    if m.flag("mbarrier"):
        _arrive(t, i, m)
    elif m.flag("commit_group"):
        if t.plan.strict_copies:
            t.b.helper("void", "commit_copies", _thread(t))
    elif m.flag("wait_group"):
        groups = t.operand(0)
        if not isinstance(groups, ast.Integer):
            raise malformed(i, "the number of groups is a constant")
        _wait(t, groups.value)
    elif m.flag("wait_all"):
        _wait(t, _ALL)
    else:
        _issue(t, i, m)


def _thread(t: Translator) -> list[tuple[str, str]]:
    return [("ptr", "%blk"), *t.thread_ids()]


def _wait(t: Translator, groups: int) -> None:
    if t.plan.strict_copies:
        t.b.helper("void", "wait_copies", [*_thread(t), ("i32", str(groups))])


def _arrive(t: Translator, i: Instruction, m: Modifiers) -> None:
    """cp.async.mbarrier.arrive: the copies issued so far arrive at an mbarrier when they are done, which is now."""
    if not m.flag("arrive"):
        raise unsupported(i)
    noinc = m.flag("noinc")
    space = space_of(m)
    m.flag("b64")
    pointer = mbarrier.barrier_address(t, t.operand(0), space)
    _wait(t, _ALL)
    # Without .noinc the phase waits for one arrival more, which is this one.
    if noinc:
        mbarrier.arrive(t, pointer, "1", "0", 0)


def used_of(t: Translator, i: Instruction, size: int) -> str | None:
    """How many bytes are read, the rest being zero: by a number of bytes or by a predicate. None: all."""
    if len(i.operands) < 4:
        return None
    operand = i.operands[3]
    binding = t.lookup(operand.text) if isinstance(operand, ast.Name) else None
    if isinstance(binding, Register) and binding.type == "pred":
        return t.b.select(t.read(operand, "pred"), "i32", "0", str(size))
    if isinstance(binding, Register) and binding.type.endswith("64"):  # a cache policy, and no size
        return None
    return t.b.intrinsic("umin", "i32", t.read(operand, "u32"), str(size))


def size_of(t: Translator, i: Instruction, m: Modifiers) -> int:
    """How many bytes are copied; takes the modifiers."""
    if not (m.flag("shared") or m.flag("shared::cta")) or not m.flag("global"):
        raise unsupported(i)
    drop_hints(m)
    operand = t.operand(2)
    if not isinstance(operand, ast.Integer) or operand.value not in (4, 8, 16):
        raise malformed(i, "the size is 4, 8 or 16 bytes")
    return operand.value


def _issue(t: Translator, i: Instruction, m: Modifiers) -> None:
    size, b = size_of(t, i, m), t.b
    target = address(t, t.operand(0), "shared", size, Access.WRITE)
    used = used_of(t, i, size)
    source = address(t, t.operand(1), "global", size, Access.READ if used is None else None)
    if used is not None:
        t.check_span(t.operand(1), b.integer_of(source), used, Access.READ)
    if t.plan.strict_copies:
        numbers = [("i32", str(size)), ("i32", str(size) if used is None else used)]
        b.helper("void", "copy_later", [*_thread(t), ("ptr", target), ("ptr", source), *numbers])
        return
    if used is None:
        whole = f"i{8 * size}"
        b.store(whole, b.load(whole, source, ", align 4"), target, ", align 4")
        return
    # What lies behind the bytes that count may not be read.
    b.call("void", "llvm.memset.p0.i64", [("ptr", target), ("i8", "0"), ("i64", str(size)), ("i1", "false")])
    length = b.resize(used, "i32", "i64")
    b.call("void", "llvm.memcpy.p0.p0.i64", [("ptr", target), ("ptr", source), ("i64", length), ("i1", "false")])

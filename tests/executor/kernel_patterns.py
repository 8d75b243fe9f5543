"""Patterns of real kernels that an analysis of lanes looks for, each with something that spoils it now and then.

Pointers that walk through an array, one of two addresses, a leader that stores for its block, steady values in loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_inputs import SHIFTS
from kernel_ir import Mem, Operand
from kernel_memory import address, array, bases
from kernel_statements import Possible, clean, compare

if TYPE_CHECKING:
    from kernel_generator import Context, Generator

_ROUNDS = 8


def _walk(g: Generator, c: Context) -> None:
    """A loop over an array from the thread's own element on, by a pointer or an index that grows; lanes leave when they
    like, and the pointer's place is used afterwards."""
    buffer, type_, letter, size, elements = array(g)
    register, top = g.rng.choice(bases(g))
    stride = g.rng.randint(1, max(1, (elements - 1 - top) // _ROUNDS))
    if top + _ROUNDS * stride >= elements:
        return
    rounds = g.value("and.b32", "r", g.any("u") if g.chance(0.3) else g.any("r"), _ROUNDS - 1, keep=False)
    count, total, head, end = g.new("r"), g.variable(letter), g.label("walk"), g.label("walked")
    by_pointer = g.chance(0.6)
    start = address(g, buffer, register, size)
    at = g.value("mov.u64", "d", start, keep=False)
    index = g.value("mov.u32", "r", register, keep=False)
    g.emit("mov.u32", count, 0)
    g.emit("label", (), head)
    done = g.value("setp.ge.s32", "p", count, rounds, keep=False)
    g.jump(end, done)
    if not by_pointer:
        wide = g.value(g.rng.choice(["mul.wide.u32", "mul.wide.s32"]), "d", index, size, keep=False)
        g.emit("add.s64", at, g.fixed[buffer], wide)
    value = g.value(f"ld.global.{type_}", letter, Mem(at), keep=False)
    op = {"r": "add.s32", "d": "xor.b64", "f": "add.f32", "g": "add.f64", "h": "add.u16"}[letter]
    g.emit(op, total, total, value)
    clean(g, total)
    if g.chance(0.4):
        g.jump(end, compare(g, keep=False))
    guard = "" if g.chance(0.7) else g.any("p")
    if by_pointer:
        g.emit("add.s64", at, at, size * stride, guard=guard)
    else:
        g.emit("add.s32", index, index, stride, guard=guard)
    g.emit("add.s32", count, count, 1)
    g.emit("bra", (), head)
    g.dead = True
    g.place(end)
    if by_pointer:
        g.value("sub.s64", "d", at, g.fixed[buffer])
    else:
        g.keep(index)
    g.keep(count)


def _either(g: Generator, c: Context) -> None:
    """A load from one of two addresses, chosen by a predicate: by selp, by a guarded move, or by a branch."""
    buffer, type_, letter, size, elements = array(g)
    picks = []
    for _ in range(2):
        register, top = g.rng.choice([b for b in bases(g) if b[1] < elements])
        index = g.value("add.s32", "r", register, g.rng.randint(0, elements - 1 - top), keep=False)
        picks.append(address(g, buffer, index, size))
    p, kind = g.any("p"), g.rng.randrange(3)
    if kind == 0:
        at = g.value("selp.b64", "d", *picks, p, keep=False)
    else:
        at = g.value("mov.u64", "d", picks[0], keep=False)
        if kind == 1:
            g.emit("mov.b64", at, picks[1], guard=p)
        else:
            skip = g.label("other")
            g.jump(skip, p)
            g.emit("mov.u64", at, picks[1])
            g.place(skip)
    g.value(f"ld.global.{type_}", letter, Mem(at))


def _shifted(g: Generator, c: Context) -> None:
    """x[i - k] = v where i >= k: the first threads' index wraps, and they do not store. Rows have fixed shifts, so that
    a place belongs to one thread."""
    row = g.rng.randrange(len(SHIFTS))
    shift, gid = SHIFTS[row], g.fixed["gid"]
    index = g.value(g.rng.choice(["sub.u32", "sub.s32"]), "r", gid, shift, keep=False)
    inside = g.value("setp.lt.u32", "p", index, g.settings.total, keep=False)
    if g.chance(0.3):
        inside = g.value("and.pred", "p", inside, g.any("p"), keep=False)
    base = g.value("add.s64", "d", g.fixed["shifted"], 4 * g.settings.total * row, keep=False)
    kind = g.rng.randrange(3)
    if kind == 0:
        at = g.value("mad.wide.u32", "d", index, 4, base, keep=False)
    elif kind == 1:
        offset = g.value("mul.wide.s32", "d", index, 4, keep=False)
        at = g.value("add.s64", "d", base, offset, keep=False)
    else:
        scaled = g.value("shl.b32", "r", index, 2, keep=False)
        wide = g.value("cvt.u64.u32", "d", scaled, keep=False)
        at = g.value("add.s64", "d", base, wide, keep=False)
    if g.chance(0.5):
        g.emit("st.global.u32", (), Mem(at), g.any("r"), guard=inside)
        if g.chance(0.5):
            g.emit("ld.global.u32", g.variable("r"), Mem(at), guard=inside)
        return
    skip = g.label("outside")
    g.jump(skip, f"!{inside}")
    g.emit("st.global.u32", (), Mem(at), g.any("r"))
    g.place(skip)


def _leader(g: Generator, c: Context) -> None:
    """One thread of each block stores to the block's place, which is the same address for all."""
    which = g.settings.threads - 1
    block = g.value("sub.s32", "r", g.fixed["gid"], g.fixed["lin"], keep=False)  # gid of the block's first thread
    p = g.value("setp.eq.u32", "p", g.fixed["lin"], which, keep=False)
    if g.chance(0.4):
        p = g.value("and.pred", "p", p, g.any("p"), keep=False)
    row = g.value("add.s64", "d", g.fixed["shifted"], 4 * g.settings.total * len(SHIFTS), keep=False)
    at = g.value("mad.wide.u32", "d", block, 4, row, keep=False)
    if g.chance(0.5):
        g.emit("st.global.u32", (), Mem(at), g.any("r"), guard=p)
        return
    skip = g.label("follower")
    g.jump(skip, f"!{p}")
    g.emit("st.global.u32", (), Mem(at), g.any("r"))
    g.keep(g.value("ld.global.u32", "r", Mem(at), keep=False))
    g.place(skip)


def _steady(g: Generator, c: Context) -> None:
    """Steps of a value that begins the same in all lanes. In a loop that lanes leave at different times, or where they
    have parted, it does not stay so."""
    register = g.rng.choice(g.steady)
    guard = "" if g.chance(0.7) else g.any("p")
    kind = g.rng.randrange(4)
    other: Operand = g.any("u") if g.temps["u"] and g.chance(0.4) else g.rng.choice([1, 3, -2, 16])
    if kind == 3:
        g.emit("mov.u32", register, other, guard=guard)
    else:
        g.emit(
            g.rng.choice(["add.s32", "add.s32", "xor.b32", "mul.lo.s32", "sub.s32"]),
            register,
            register,
            other,
            guard=guard,
        )


def _absent(g: Generator, c: Context) -> None:
    """A load from one address for all lanes, which may lie outside: then no lane loads."""
    buffer, type_, letter, size, elements = array(g)
    index = g.rng.choice([*g.steady, *g.temps["u"]])
    inside = g.value("setp.lt.u32", "p", index, elements, keep=False)
    if g.chance(0.5):
        inside = g.value("and.pred", "p", inside, g.any("p"), keep=False)
    at = g.value("mad.wide.u32", "d", index, size, g.fixed[buffer], keep=False)
    g.emit(f"ld.global.{type_}", g.variable(letter), Mem(at), guard=inside)


def _quotient(g: Generator, c: Context) -> None:
    """A division in the lanes whose divisor is positive; the others may hold zero."""
    divisor = g.value("and.b32", "r", g.any("r"), g.rng.choice([3, 15, 0xFFFF]), keep=False)
    p = g.value("setp.ne.s32", "p", divisor, 0, keep=False)
    op = g.rng.choice(["div.s32", "div.u32", "rem.s32", "rem.u32"])
    if g.chance(0.5):
        g.emit(op, g.variable("r"), g.any("r"), divisor, guard=p)
        return
    skip = g.label("zero")
    g.jump(skip, f"!{p}")
    g.emit(op, g.variable("r"), g.any("r"), divisor)
    g.place(skip)


def _kernel(g: Generator, c: Context) -> bool:
    return not c.function


CHOICES: list[tuple[str, float, Possible, Callable[[Generator, Context], None]]] = [
    ("walk", 1.5, lambda g, c: not c.function and c.weight * _ROUNDS <= 64, _walk),
    ("either", 1, _kernel, _either),
    ("shifted", 1, _kernel, _shifted),
    ("leader", 0.7, _kernel, _leader),
    ("steady", 1.5, lambda g, c: bool(g.steady), _steady),
    ("absent", 0.7, lambda g, c: bool(g.steady) and not c.function, _absent),
    ("quotient", 0.7, lambda g, c: True, _quotient),
]

"""Control flow of generated kernels: branches, loops, jumps without structure, lanes that leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kernel_statements import Possible, compare

if TYPE_CHECKING:
    from kernel_generator import Context, Generator

_MOST = 24  # upper bound of how often a statement may run because of the loops around it


def _arm(c: Context, mask: str, g: Generator) -> Context:
    """One side of a divergent branch."""
    leave = "" if c.tracked else c.leave
    return replace(c, uniform=False, mask=mask, exits=g.exits, depth=c.depth + 1, leave=leave, tracked="")


def _split(g: Generator, c: Context, p: str) -> tuple[str, str]:
    """The lanes of the two sides of a branch on `p`, where the warp's lanes are known."""
    mask = g.mask(c)
    if not mask or not g.settings.warps or g.chance(0.3):
        return "", ""
    then = g.value("vote.sync.ballot.b32", "r", p, mask, keep=False)
    return then, g.value("xor.b32", "r", mask, then, keep=False)


def _if(g: Generator, c: Context) -> None:
    p = compare(g) if g.chance(0.7) else g.any("p")
    then, otherwise = _split(g, c, p)
    _two_sides(g, p, _arm(c, then, g), _arm(c, otherwise, g))


def _two_sides(g: Generator, p: str, first: Context, second: Context) -> None:
    other, end, outer = g.label("else"), g.label("end"), g.temps
    g.jump(other, f"!{p}")
    g.block(first, g.rng.randint(1, 4))
    if g.chance(0.5):
        if not g.dead:
            g.jump(end)
        g.temps = outer
        g.place(other)
        g.block(replace(second, exits=min(second.exits, first.exits)), g.rng.randint(1, 4))
    else:
        g.place(other)
    g.place(end)


def _uniform_if(g: Generator, c: Context) -> None:
    """All threads of the block go the same way, so barriers may stand inside."""
    value = g.value("and.b32", "r", g.any("u"), g.rng.choice([1, 3, 7]), keep=False)
    p = g.value("setp.eq.u32", "p", value, g.rng.choice([0, 1]), keep=False)
    inner = replace(c, depth=c.depth + 1)
    other, end, outer = g.label("uelse"), g.label("uend"), g.temps
    g.emit(g.rng.choice(["bra", "bra.uni"]), (), other, guard=f"!{p}")
    g.arrive(other)
    g.block(inner, g.rng.randint(1, 3))
    if g.chance(0.4):
        if not g.dead:
            g.jump(end)
        g.temps = outer
        g.place(other)
        g.block(inner, g.rng.randint(1, 3))
    else:
        g.place(other)
    g.place(end)


def _loop(g: Generator, c: Context) -> None:
    """A loop of a few rounds, whose number differs between lanes unless the loop is uniform."""
    trips = g.rng.choice([t for t in (2, 4, 8) if t * c.weight <= _MOST])
    uniform = c.uniform and g.chance(0.4)
    first = g.value("and.b32", "r", g.any("u" if uniform else "r"), trips - 1, keep=False)
    counter, mask = g.new("r"), g.mask(c)
    test_first = g.chance(0.4)
    g.emit("add.s32", counter, first, 0 if test_first else 1)
    tracked = ""
    if mask and not uniform and g.settings.warps and g.chance(0.6):
        tracked = g.value("mov.b32", "r", mask, keep=False)
    head, again, end = g.label("loop"), g.label("next"), g.label("done")
    epoch, left = g.exits, g.left
    inner = replace(
        c, uniform=uniform, mask=tracked or (mask if uniform else ""), exits=epoch, depth=c.depth + 1,
        weight=c.weight * trips, masked_loop=c.masked_loop or bool(tracked) or (uniform and bool(mask)),
        leave="" if uniform else end, again="" if uniform else again, tracked=tracked,
    )  # fmt: skip
    g.place(head)
    if test_first:
        _test(g, counter, tracked, end, inner)
    g.keep(counter)
    g.block(inner, g.rng.randint(1, 5))
    g.place(again)
    if g.left == left:
        g.exits = epoch  # lanes that went on to the next round early are here again
    g.emit("sub.s32", counter, counter, 1)
    if test_first:
        g.emit("bra", (), head)
        g.dead = True
    else:
        more = g.value("setp.gt.s32", "p", counter, 0, keep=False)
        if tracked:
            g.emit("vote.sync.ballot.b32", tracked, more, tracked)
        g.emit("bra", (), head, guard=more)
    g.place(end)
    if g.left == left:
        g.exits = epoch


def _test(g: Generator, counter: str, tracked: str, end: str, inner: Context) -> None:
    """The condition at the head of a loop."""
    more = g.value("setp.gt.s32", "p", counter, 0, keep=False)
    if tracked:
        g.emit("vote.sync.ballot.b32", tracked, more, tracked)
    g.jump(end, f"!{more}")


def _break(g: Generator, c: Context) -> None:
    p = compare(g)
    if c.tracked:
        stay = g.value("not.pred", "p", p, keep=False)
        if not g.mask(c):
            return  # lanes are on their way to the next round, so that those here cannot tell who breaks
        g.emit("vote.sync.ballot.b32", c.tracked, stay, c.tracked)
    elif g.mask(c):
        g.exits += 1
    g.jump(c.leave, p)


def _continue(g: Generator, c: Context) -> None:
    p = compare(g)
    g.exits += 1
    g.jump(c.again, p)


def _leave(g: Generator, c: Context) -> None:
    """Some lanes end here, or return where this is a function."""
    low = g.value("and.b32", "r", g.fixed["lane"], g.rng.choice([1, 3, 7]), keep=False)
    p = g.value("setp.eq.and.u32", "p", low, g.rng.choice([0, 1]), g.any("p"), keep=False)
    mask = g.mask(c)
    if mask and c.depth == 0 and g.settings.warps:
        stay = g.value("not.pred", "p", p, keep=False)
        g.emit("vote.sync.ballot.b32", mask, stay, mask)
    else:
        g.exits += 1
        g.left += 1
    g.emit("ret" if c.function else g.rng.choice(["ret", "exit"]), guard=p)


def _resync(g: Generator, c: Context) -> None:
    """After lanes have left in branches: who is still there? The mask names some that have exited."""
    yes = g.value("setp.eq.u32", "p", g.fixed["n"], g.fixed["n"], keep=False)
    g.emit("vote.sync.ballot.b32", c.mask, yes, c.mask)
    g.exits = c.exits


def _switch(g: Generator, c: Context) -> None:
    count = g.rng.randint(2, 4)
    index = g.value("rem.u32", "r", g.rng.choice(g.steady) if g.chance(0.25) else g.any("r"), count, keep=False)
    same = ""
    if g.mask(c) and g.settings.warps and g.chance(0.6):
        same = g.value("match.any.sync.b32", "r", index, g.mask(c), keep=False)
    labels, end = [g.label("case") for _ in range(count)], g.label("switched")
    g.emit("brx.idx", (), index, *labels)
    for label in labels:
        g.arrive(label)
    g.dead, exits = True, g.exits
    for label in labels:
        fresh = g.dead
        g.place(label)
        arm = _arm(c, same if fresh else "", g)
        g.block(replace(arm, exits=exits), g.rng.randint(1, 3))
        if not g.dead and g.chance(0.75):
            g.jump(end)
    g.place(end)


def _into_arm(g: Generator, c: Context) -> None:
    """Some lanes enter an arm of a branch in its middle."""
    middle, other, end = g.label("middle"), g.label("beside"), g.label("met")
    arm = _arm(c, "", g)
    g.jump(middle, compare(g))
    g.jump(other, compare(g))
    g.block(arm, g.rng.randint(1, 2))
    g.place(middle)
    g.block(arm, g.rng.randint(1, 3))
    if not g.dead:
        g.jump(end)
    g.place(other)
    g.block(arm, g.rng.randint(1, 2))
    if not g.dead and g.chance(0.3):
        g.jump(end)
    g.place(end)


def _spaghetti(g: Generator, c: Context) -> None:
    """Blocks with jumps from any to any, bounded by a number that each round takes from: loops of several entries."""
    rounds = g.rng.choice([t for t in (3, 6, 8) if t * c.weight <= _MOST])
    count = g.rng.randint(2, 5)
    fuel = g.new("r")
    few = g.value("and.b32", "r", g.any("r"), rounds - 1 if rounds != 6 else 3, keep=False)
    g.emit("add.s32", fuel, few, 1 if rounds != 6 else 2)
    labels, end, outer = [g.label("knot") for _ in range(count)], g.label("knots"), g.temps
    inner = replace(_arm(c, "", g), weight=c.weight * rounds, leave="", again="")
    if g.chance(0.5):
        g.emit("bra", (), g.rng.choice(labels), guard=compare(g, keep=False))
    for k, label in enumerate(labels):
        g.temps, g.dead = outer, False
        g.emit("label", (), label)
        g.block(inner, g.rng.randint(1, 3))
        if g.dead:
            continue
        g.emit("sub.s32", fuel, fuel, 1)
        spent = g.value("setp.le.s32", "p", fuel, 0, keep=False)
        g.emit("bra", (), end, guard=spent)
        for _ in range(g.rng.randint(0, 2)):
            g.emit("bra", (), g.rng.choice(labels), guard=g.rng.choice(["", "!"]) + compare(g, keep=False))
        if g.chance(0.3) or k == count - 1:
            g.emit("bra", (), g.rng.choice([*labels, end]))
    g.temps, g.dead = outer, False
    g.emit("label", (), end)


def _nestable(g: Generator, c: Context) -> bool:
    return c.depth < 4 and g.budget > 12


def _loopable(g: Generator, c: Context) -> bool:
    return _nestable(g, c) and c.weight * 3 <= _MOST


def _may_leave(g: Generator, c: Context) -> bool:
    return not c.masked_loop and g.left < 2 and g.settings.leaving


CHOICES: list[tuple[str, float, Possible, Callable[[Generator, Context], None]]] = [
    ("if", 3, _nestable, _if),
    ("uniform_if", 1, lambda g, c: c.uniform and _nestable(g, c), _uniform_if),
    ("loop", 2.5, _loopable, _loop),
    ("break", 6, lambda g, c: bool(c.leave), _break),
    ("continue", 5, lambda g, c: bool(c.again), _continue),
    ("leave", 0.6, _may_leave, _leave),
    ("resync", 2, lambda g, c: c.depth == 0 and c.uniform and bool(c.mask) and not g.mask(c), _resync),
    ("switch", 1, _nestable, _switch),
    ("into_arm", 1, _nestable, _into_arm),
    ("spaghetti", 0.8, _loopable, _spaghetti),
]

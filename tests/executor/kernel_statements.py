"""Statements of generated kernels without control flow: arithmetic, memory, warp operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import kernel_memory
from kernel_inputs import ATOMIC32, ATOMIC64, ROW, SLOTS, own_slot
from kernel_ir import Mem, Operand

if TYPE_CHECKING:
    from kernel_generator import Context, Generator

# Operation, result, sources: lower case may be a constant, upper case is a register; b: a 32-bit register or a byte;
# e: a register below 128, since devices and the ISA differ in what larger positions of 64-bit fields mean.
INTEGER = [
    *((f"{op}.{t}32", "r", "Rr") for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max") for t in "us"),
    *((f"{op}.b32", "r", "Rr") for op in ("and", "or", "xor", "shl")), ("shr.u32", "r", "Rr"), ("shr.s32", "r", "Rr"),
    ("shr.b32", "r", "Rr"), ("not.b32", "r", "R"), ("cnot.b32", "r", "R"), ("neg.s32", "r", "R"), ("abs.s32", "r", "R"),
    ("mad.lo.s32", "r", "Rrr"), ("mad.lo.u32", "r", "Rrr"), ("mad.hi.u32", "r", "Rrr"), ("mad.hi.s32", "r", "Rrr"),
    ("mul.wide.u32", "d", "Rr"), ("mul.wide.s32", "d", "Rr"), ("mad.wide.u32", "d", "RrD"),
    ("mad.wide.s32", "d", "RrD"),
    ("mul.wide.u16", "r", "HH"), ("mul.wide.s16", "r", "HH"), ("mad.wide.s16", "r", "HHR"), ("sad.u32", "r", "RrR"),
    ("sad.s32", "r", "RrR"), ("popc.b32", "r", "R"), ("clz.b32", "r", "R"), ("bfind.u32", "r", "R"),
    ("bfind.s32", "r", "R"), ("brev.b32", "r", "R"), ("bfe.u32", "r", "Rbb"), ("bfe.s32", "r", "Rbb"),
    ("bfi.b32", "r", "RRbb"), ("prmt.b32", "r", "RRr"), ("shf.l.wrap.b32", "r", "RRr"), ("shf.r.wrap.b32", "r", "RRr"),
    ("shf.l.clamp.b32", "r", "RRr"), ("shf.r.clamp.b32", "r", "RRr"), ("dp4a.u32.u32", "r", "RRR"),
    ("dp4a.s32.s32", "r", "RRR"), ("dp4a.u32.s32", "r", "RRR"), ("mul24.lo.u32", "r", "RR"),
    ("mul24.hi.s32", "r", "RR"),
    ("mad24.lo.s32", "r", "RRR"), ("add.sat.s32", "r", "Rr"), ("sub.sat.s32", "r", "Rr"), ("mov.u32", "r", "r"),
    *((f"{op}.{t}64", "d", "Dd") for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max") for t in "us"),
    *((f"{op}.b64", "d", "Dd") for op in ("and", "or", "xor")), ("shl.b64", "d", "Dr"), ("shr.u64", "d", "Dr"),
    ("shr.s64", "d", "Dr"), ("not.b64", "d", "D"), ("neg.s64", "d", "D"), ("abs.s64", "d", "D"),
    ("mad.lo.s64", "d", "Ddd"), ("popc.b64", "r", "D"), ("clz.b64", "r", "D"), ("bfind.s64", "r", "D"),
    ("brev.b64", "d", "D"), ("bfe.u64", "d", "Dee"), ("bfe.s64", "d", "Dee"), ("bfi.b64", "d", "DDee"),
    *((f"{op}.{t}16", "h", "Hh") for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max") for t in "us"),
    *((f"{op}.b16", "h", "Hh") for op in ("and", "or", "xor")), ("shl.b16", "h", "Hr"), ("shr.u16", "h", "Hr"),
    ("shr.s16", "h", "Hr"), ("not.b16", "h", "H"), ("neg.s16", "h", "H"), ("mad.lo.u16", "h", "HHH"),
]  # fmt: skip
FLOAT = [
    *((f"{op}.{t}", c, c * 2) for op in ("add.rn", "add", "sub", "mul", "mul.rn", "min", "max", "div.rn")
      for t, c in (("f32", "F"), ("f64", "G"))),
    *((f"{op}.{t}", c, c) for op in ("abs", "neg", "sqrt.rn", "rcp.rn") for t, c in (("f32", "F"), ("f64", "G"))),
    ("fma.rn.f32", "F", "FFF"), ("fma.rn.f64", "G", "GGG"), ("fma.rn.f32", "F", "FFF"), ("add.sat.f32", "F", "FF"),
    ("mul.sat.f32", "F", "FF"), ("copysign.f32", "F", "FF"), ("copysign.f64", "G", "GG"), ("add.f16", "H", "HH"),
    ("mul.f16", "H", "HH"), ("fma.rn.f16", "H", "HHH"), ("sub.f16", "H", "HH"),
    ("cvt.rn.f32.s32", "F", "R"), ("cvt.rn.f32.u32", "F", "R"), ("cvt.rn.f32.u64", "F", "D"),
    ("cvt.rn.f32.s64", "F", "D"),
    ("cvt.rn.f64.s32", "G", "R"), ("cvt.rn.f64.u32", "G", "R"), ("cvt.rn.f64.s64", "G", "D"), ("cvt.f64.f32", "G", "F"),
    ("cvt.rn.f32.f64", "F", "G"), ("cvt.rn.f16.f32", "H", "F"), ("cvt.f32.f16", "F", "H"), ("mov.f32", "F", "F"),
    ("mov.b32", "F", "R"),
]  # fmt: skip
CONVERT = [
    ("cvt.rzi.s32.f32", "r", "F"), ("cvt.rni.s32.f32", "r", "F"), ("cvt.rmi.u32.f32", "r", "F"),
    ("cvt.rpi.s32.f32", "r", "F"), ("cvt.rzi.u32.f32", "r", "F"), ("cvt.u32.u16", "r", "H"), ("cvt.s32.s16", "r", "H"),
    ("cvt.u16.u32", "h", "R"), ("cvt.u64.u32", "d", "R"), ("cvt.s64.s32", "d", "R"), ("cvt.u32.u64", "r", "D"),
    ("cvt.s32.s8", "r", "R"), ("cvt.u32.u8", "r", "R"), ("cvt.sat.u8.s32", "r", "R"), ("cvt.sat.s32.s64", "r", "D"),
    ("cvt.sat.u16.s32", "h", "R"), ("cvt.s64.s16", "d", "H"), ("mov.b32", "r", "F"), ("mov.b64", "d", "G"),
    ("set.lt.u32.s32", "r", "RR"), ("set.ge.u32.f32", "r", "FF"), ("set.eq.f32.u32", "f", "RR"),
]  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_FLOAT_COMPARISONS = (*_COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _sources(g: Generator, letters: str) -> list[Operand]:
    return [_source(g, letter) for letter in letters]


def _source(g: Generator, letter: str) -> Operand:
    if letter == "b":
        return g.rng.choice([0, 1, 5, 8, 31, 32, 40, 64, 255]) if g.chance(0.5) else g.any("r")
    if letter == "e":
        return g.value("and.b32", "r", g.any("r"), 127, keep=False)
    return g.any(letter.lower()) if letter.isupper() else g.operand(letter)


def clean(g: Generator, register: str) -> None:
    """Which NaN an operation yields depends on the device, so a number takes its place. (NaN in inputs stay.)"""
    if register[1] not in "fg" or g.settings.raw_nan:
        return
    type_, number = ("32", 0x40490FDB) if register[1] == "f" else ("64", 0x400921FB54442D18)
    p = g.value(f"setp.nan.f{type_}", "p", register, register, keep=False)
    g.emit(f"selp.b{type_}", register, number, register, p)


def _arithmetic(g: Generator, c: Context) -> None:
    for _ in range(g.rng.randint(1, 4)):
        op, letter, sources = g.rng.choice(INTEGER)
        values = _sources(g, sources)
        target = g.target(letter)
        g.emit(op, target, *values)
        g.done(target)


def _float(g: Generator, c: Context) -> None:
    for _ in range(g.rng.randint(1, 3)):
        op, letter, sources = g.rng.choice(FLOAT)
        values = _sources(g, sources)
        target = g.target(letter.lower())
        g.emit(op, target, *values)
        clean(g, target)
        g.done(target)


def _convert(g: Generator, c: Context) -> None:
    op, letter, sources = g.rng.choice(CONVERT)
    values = _sources(g, sources)
    target = g.target(letter)
    g.emit(op, target, *values)
    g.done(target)


def _divide(g: Generator, c: Context) -> None:
    letter = g.rng.choice("rd")
    bits = 32 if letter == "r" else 64
    divisor = g.value(f"and.b{bits}", letter, g.any(letter), g.rng.choice([0xFF, 0x7FFF]), keep=False)
    odd = g.value(f"or.b{bits}", letter, divisor, 1, keep=False)
    g.value(f"{g.rng.choice(['div', 'rem'])}.{g.rng.choice('us')}{bits}", letter, g.any(letter), odd)


def _wide_sum(g: Generator, c: Context) -> None:
    """A carry chain."""
    low, high = g.new("r"), g.new("r")
    op = g.rng.choice(["add", "sub"])
    a, b, e, f = (g.any("r") for _ in range(4))
    g.emit(f"{op}.cc.u32", low, a, b)
    g.emit(f"{op}c.u32", high, e, f)
    g.keep(low)
    g.keep(high)
    g.value("mov.b64", "d", low, high)
    if g.chance(0.5):
        first, second = g.new("r"), g.new("r")
        g.emit("mov.b64", (first, second), g.any("d"))
        g.keep(first)
        g.keep(second)


def _lop3(g: Generator, c: Context) -> None:
    g.value("lop3.b32", "r", g.any("r"), g.any("r"), g.any("r"), g.rng.randrange(256))


def compare(g: Generator, keep: bool = True) -> str:
    """A new predicate that differs between lanes, mostly."""
    type_, letter = g.rng.choice([("s32", "r"), ("u32", "r"), ("s64", "d"), ("u16", "h"), ("f32", "f"), ("f64", "g")])
    operator = g.rng.choice(_FLOAT_COMPARISONS if letter in "fg" else _COMPARISONS)
    if g.chance(0.3):
        value = g.value("and.b32", "r", g.any("r"), g.rng.choice([1, 3, 6]), keep=False)
        return g.value("setp.eq.u32", "p", value, g.rng.choice([0, 1, 2]), keep=keep)
    if g.chance(0.2):
        boolean = g.rng.choice(["and", "or", "xor"])
        return g.value(f"setp.{operator}.{boolean}.{type_}", "p", g.any(letter), g.any(letter), g.any("p"), keep=keep)
    return g.value(f"setp.{operator}.{type_}", "p", g.any(letter), g.any(letter), keep=keep)


def _predicate(g: Generator, c: Context) -> None:
    kind = g.rng.randrange(4)
    if kind == 0:
        first, second = g.new("p"), g.new("p")
        boolean = g.rng.choice(["", ".and", ".or", ".xor"])
        extra = (g.any("p"),) if boolean else ()
        g.emit(f"setp.{g.rng.choice(_COMPARISONS)}{boolean}.s32", (first, second), g.any("r"), g.operand("r"), *extra)
        g.keep(first)
        g.keep(second)
    elif kind == 1:
        g.value(f"{g.rng.choice(['and', 'or', 'xor'])}.pred", "p", g.any("p"), g.any("p"))
    elif kind == 2:
        target = g.target("p")
        g.emit("not.pred", target, g.any("p"))
        g.done(target)
    else:
        compare(g)


def _select(g: Generator, c: Context) -> None:
    letter = g.rng.choice("rdfgh")
    type_ = {"r": "b32", "d": "b64", "f": "f32", "g": "f64", "h": "b16"}[letter]
    if letter in "rf" and g.chance(0.25):
        last = g.rng.choice([("s32", "r"), ("f32", "f")])
        g.value(f"slct.{type_}.{last[0]}", letter, g.any(letter), g.any(letter), g.any(last[1]))
        return
    a, b, p = g.any(letter), g.any(letter), g.any("p")
    target = g.target(letter)
    g.emit(f"selp.{type_}", target, a, b, p)
    g.done(target)


def _guarded(g: Generator, c: Context) -> None:
    """Instructions under a predicate, into variables."""
    guard = g.rng.choice(["", "!"]) + g.any("p")
    for _ in range(g.rng.randint(1, 3)):
        op, letter, sources = g.rng.choice(INTEGER + FLOAT if g.chance(0.5) else INTEGER)
        values = _sources(g, sources)
        target = g.variable(letter.lower())
        g.emit(op, target, *values, guard=guard)
        clean(g, target)


# ---- threads together ----


def _exchange(g: Generator, c: Context) -> None:
    """Through shared memory, with a barrier before and behind."""
    size, dynamic = g.settings.threads, g.chance(0.4)
    own, base, stride = ("own_dynamic", "dynamic", 8) if dynamic else ("own_shared", "shared", 4)
    lin = g.fixed["lin"]
    type_, letter = g.rng.choice([("u32", "r"), ("u32", "r"), ("f32", "f"), ("u16", "h"), ("u8", "r")])
    if dynamic and g.chance(0.5):
        type_, letter = g.rng.choice([("u64", "d"), ("f64", "g"), ("v2.u32", "r")])
    values = [g.any(letter) for _ in range(2 if type_ == "v2.u32" else 1)]
    g.emit(f"st.shared.{type_}", (), Mem(g.fixed[own]), *values)
    _barrier(g)
    kind = g.rng.randrange(3)
    if kind == 0:
        other = g.value("sub.s32", "r", size - 1, lin, keep=False)
    elif kind == 1:
        moved = g.value("add.s32", "r", lin, g.rng.randrange(size), keep=False)
        other = g.value("rem.u32", "r", moved, size, keep=False)
    else:
        flipped = g.value("xor.b32", "r", lin, g.rng.choice([1, 2, 4, 16, 32]), keep=False)
        inside = g.value("setp.lt.u32", "p", flipped, size, keep=False)
        other = g.value("selp.b32", "r", flipped, lin, inside, keep=False)
    at = g.value("mad.lo.u32", "r", other, stride, g.fixed[base], keep=False)
    if g.chance(0.25):
        wide = g.value("cvt.u64.u32", "d", at, keep=False)
        space, where = "", Mem(g.value("cvta.shared.u64", "d", wide, keep=False))
    else:
        space, where = ".shared", Mem(at)
    results = tuple(g.new(letter) for _ in values)
    g.emit(f"ld{space}.{type_}", results, where)
    for result in results:
        g.keep(result)
    _barrier(g)


def _barrier(g: Generator) -> None:
    kind = g.rng.randrange(5)
    if kind == 0:
        g.emit("barrier.sync", (), 0)
    elif kind == 1:
        g.emit("bar.sync", (), 1)
    else:
        g.emit("bar.sync", (), 0)


def _bar_red(g: Generator, c: Context) -> None:
    if g.chance(0.5):
        register = g.value("bar.red.popc.u32", "r", 0, g.any("p"))
        if c.weight == 1:
            g.keep(register, "u")
    else:
        g.value(f"bar.red.{g.rng.choice(['and', 'or'])}.pred", "p", 0, g.any("p"))


def _atomic(g: Generator, c: Context) -> None:
    """On words that all threads share; the operations on one word commute."""
    wide = g.chance(0.3)
    operations, buffer, size, letter = (ATOMIC64, "atomic64", 8, "d") if wide else (ATOMIC32, "atomic32", 4, "r")
    which = g.rng.randrange(len(operations))
    place = g.value("and.b32", "r", g.any("r"), ROW - 1, keep=False)
    index = g.value("add.s32", "r", place, which * ROW, keep=False)
    at = kernel_memory.address(g, buffer, index, size)
    guard = g.rng.choice(["", "", g.any("p")])
    if g.chance(0.6):
        g.emit(f"red.global.{operations[which]}", (), Mem(at), g.any(letter), guard=guard)
    else:
        g.emit(f"atom.global.{operations[which]}", g.new(letter), Mem(at), g.any(letter), guard=guard)


def _atomic_shared(g: Generator, c: Context) -> None:
    which = g.rng.randrange(len(ATOMIC32))
    at, guard = Mem("shared_atomics", 4 * which), g.rng.choice(["", "", g.any("p")])
    if g.chance(0.6):
        g.emit(f"red.shared.{ATOMIC32[which]}", (), at, g.any("r"), guard=guard)
    else:
        g.emit(f"atom.shared.{ATOMIC32[which]}", g.new("r"), at, g.any("r"), guard=guard)


def _atomic_own(g: Generator, c: Context) -> None:
    """On a word of this thread alone, so that the result may be used."""
    at = own_slot(g, g.rng.randrange(SLOTS // 2))
    op = g.rng.choice(["add.u32", "exch.b32", "cas.b32", "min.s32", "inc.u32", "dec.u32", "and.b32", "xor.b32"])
    extra = (g.any("r"),) if op == "cas.b32" else ()
    g.value(f"atom.global.{op}", "r", Mem(at), g.any("r"), *extra)


def _approximate(g: Generator, c: Context) -> None:
    """Results that are compared between lane counts only, and go nowhere else."""
    op = g.rng.choice(["ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp", "sqrt"])
    result = g.value(f"{op}.approx.f32", "f", g.any("f"), keep=False)
    at = g.value("mad.wide.u32", "d", g.fixed["gid"], 16, g.fixed["loose"], keep=False)
    g.emit("st.global.f32", (), Mem(at, 4 * g.rng.randrange(4)), result)


def _call(g: Generator, c: Context) -> None:
    callable_ = [f for f in g.functions if f.name.startswith("plain") or g.mask(c)]
    if not callable_:
        return
    function = g.rng.choice(callable_)
    arguments = [g.any(name[1]) for name in function.arguments]
    if function.name.startswith("warp"):
        arguments[0] = g.mask(c)
    results = tuple(g.target(name[1]) for name in function.results)
    g.emit("call.uni" if c.uniform else "call", results, function.name, *arguments)
    for result in results:
        g.done(result)


# ---- warp operations ----


def _vote(g: Generator, c: Context) -> None:
    mode = g.rng.choice(["all", "any", "uni", "ballot", "ballot"])
    if mode == "ballot":
        g.value("vote.sync.ballot.b32", "r", g.any("p"), g.mask(c))
    else:
        g.value(f"vote.sync.{mode}.pred", "p", g.any("p"), g.mask(c))


def _match(g: Generator, c: Context) -> None:
    value = g.value("and.b32", "r", g.any("r"), g.rng.choice([1, 3, 7]), keep=False)
    if g.chance(0.5):
        g.value("match.any.sync.b32", "r", value, g.mask(c))
        return
    register, same = g.new("r"), g.new("p")
    g.emit("match.all.sync.b32", (register, same), value, g.mask(c))
    g.keep(register)
    g.keep(same)


def _redux(g: Generator, c: Context) -> None:
    op = g.rng.choice(
        ["add.s32", "add.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32"]
    )
    g.value(f"redux.sync.{op}", "r", g.any("r"), g.mask(c))


def _warp_sync(g: Generator, c: Context) -> None:
    g.emit("bar.warp.sync", (), g.mask(c))


def _shuffle(g: Generator, c: Context) -> None:
    """All modes. What comes from a lane that is not there is not used."""
    mode, lane, mask = g.rng.choice(["up", "down", "bfly", "idx"]), g.fixed["lane"], g.mask(c)
    segment = g.rng.choice([0, 0, 16, 24, 28])  # the part of a warp that shuffles within itself, as its mask
    clamp = segment << 8 | (0 if mode == "up" else 31)
    letter = g.rng.choice("rrf")
    result, inside = g.new(letter), g.new("p")
    amount: Operand = g.rng.choice([1, 2, 4, 8, 16, 31])
    if g.chance(0.4):
        amount = g.value("and.b32", "r", g.any("r"), 31, keep=False)
    source = g.any(letter)
    g.emit(f"shfl.sync.{mode}.b32", (result, inside), source, amount, clamp, mask)
    if mode == "idx":
        low = g.value("and.b32", "r", lane, segment, keep=False)
        moved: Operand = amount & ~segment & 31 if isinstance(amount, int) else ""
        if not isinstance(amount, int):
            moved = g.value("and.b32", "r", amount, ~segment & 31, keep=False)
        other = g.value("or.b32", "r", low, moved, keep=False)
    else:
        other = g.value({"up": "sub.s32", "down": "add.s32", "bfly": "xor.b32"}[mode], "r", lane, amount, keep=False)
    there = g.value("and.b32", "r", g.value("shr.u32", "r", mask, other, keep=False), 1, keep=False)
    outside = g.value("not.pred", "p", inside, keep=False)
    usable = g.value("setp.ne.or.u32", "p", there, 0, outside, keep=False)
    g.emit("selp.b32", result, result, 0, usable)
    g.keep(result)
    g.keep(inside)


def _masked(g: Generator, c: Context) -> None:
    """A warp operation of those lanes only for which a predicate holds, as a guarded instruction."""
    p = g.any("p")
    ballot = g.value("vote.sync.ballot.b32", "r", p, g.mask(c), keep=False)
    kind = g.rng.randrange(3)
    target = g.variable("r")
    if kind == 0:
        g.emit("redux.sync.add.u32", target, g.any("r"), ballot, guard=p)
    elif kind == 1:
        g.emit("match.any.sync.b32", target, g.any("r"), ballot, guard=p)
    else:
        low = g.value("bfind.u32", "r", ballot, keep=False)
        bounded = g.value("and.b32", "r", low, 31, keep=False)
        g.emit("shfl.sync.idx.b32", target, g.any("r"), bounded, 31, ballot, guard=p)


Possible = Callable[["Generator", "Context"], bool]


def _always(g: Generator, c: Context) -> bool:
    return True


def _kernel(g: Generator, c: Context) -> bool:
    return not c.function


def _warp(g: Generator, c: Context) -> bool:
    return bool(g.settings.warps and g.mask(c))


def _together(g: Generator, c: Context) -> bool:
    return c.uniform and g.settings.barriers


CHOICES: list[tuple[str, float, Possible, Callable[[Generator, Context], None]]] = [
    ("arithmetic", 6, _always, _arithmetic), ("float", 3, _always, _float), ("convert", 1.5, _always, _convert),
    ("divide", 0.5, _always, _divide), ("wide_sum", 0.5, _always, _wide_sum), ("lop3", 0.5, _always, _lop3),
    ("predicate", 2, _always, _predicate), ("select", 1.5, _always, _select), ("guarded", 2, _always, _guarded),
    ("load_linear", 2, _kernel, kernel_memory.load_linear),
    ("load_wrapped", 2, _kernel, kernel_memory.load_wrapped),
    ("load_gather", 1.5, _kernel, kernel_memory.load_gather), ("load_vector", 1, _kernel, kernel_memory.load_vector),
    ("load_uniform", 1, _kernel, kernel_memory.load_uniform), ("load_table", 0.7, _always, kernel_memory.load_table),
    ("store_slot", 1.5, _kernel, kernel_memory.store_slot), ("load_slot", 0.7, _kernel, kernel_memory.load_slot),
    ("store_record", 1.2, _kernel, kernel_memory.store_record),
    ("load_record", 0.8, _kernel, kernel_memory.load_record),
    ("scatter", 0.7, _kernel, kernel_memory.scatter),
    ("local", 2, lambda g, c: "local" in g.fixed, kernel_memory.local),
    ("exchange", 2, _together, _exchange), ("bar_red", 1, _together, _bar_red),
    ("atomic", 1.2, _kernel, _atomic),
    ("atomic_shared", 1, lambda g, c: g.settings.barriers and not c.function, _atomic_shared),
    ("atomic_own", 0.6, _kernel, _atomic_own),
    ("approximate", 1, lambda g, c: g.settings.approximate and not c.function, _approximate),
    ("call", 1.2, lambda g, c: bool(g.functions), _call),
    ("vote", 1, _warp, _vote), ("match", 0.8, _warp, _match), ("redux", 1, _warp, _redux),
    ("warp_sync", 0.3, _warp, _warp_sync), ("shuffle", 2, _warp, _shuffle), ("masked", 1, _warp, _masked),
]  # fmt: skip

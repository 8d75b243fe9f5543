"""Statements of generated kernels that load and store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_inputs import RECORD, SLOTS, own_slot, record
from kernel_ir import Mem

if TYPE_CHECKING:
    from kernel_generator import Context, Generator

# ---- loads ----

_ELEMENTS = {
    "in_u32": [("u32", "r"), ("b32", "r"), ("s32", "r"), ("s32", "d")], "in_f32": [("f32", "f")],
    "in_u64": [("u64", "d"), ("f64", "g"), ("b64", "d")],
    "in_bytes": [("u8", "r"), ("s8", "r"), ("u16", "h"), ("s16", "r"), ("u16", "r"), ("b16", "h"), ("u8", "h")],
}  # fmt: skip
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def array(g: Generator) -> tuple[str, str, str, int, int]:
    """An input array: its name, element type, register letter, element size, and elements (a power of two)."""
    buffer = g.rng.choice(list(_ELEMENTS))
    type_, letter = g.rng.choice(_ELEMENTS[buffer])
    size = _SIZES[type_[1:]]
    return buffer, type_, letter, size, g.settings.length * (4 // size if buffer == "in_bytes" else 1)


def address(g: Generator, buffer: str, index: str, size: int) -> str:
    """The address of an element by an unsigned index, spelled in one of the ways of compilers."""
    base, kind = g.fixed[buffer], g.rng.randrange(5)
    if kind == 0:
        return g.value("mad.wide.u32", "d", index, size, base, keep=False)
    if kind == 1:
        offset = g.value("mul.wide.s32", "d", index, size, keep=False)
        return g.value("add.s64", "d", base, offset, keep=False)
    if kind == 2:
        wide = g.value("cvt.u64.u32", "d", index, keep=False)
        return g.value("mad.lo.s64", "d", wide, size, base, keep=False)
    if kind == 3:
        shifted = g.value("shl.b32", "r", index, size.bit_length() - 1, keep=False)
        wide = g.value("cvt.u64.u32", "d", shifted, keep=False)
        return g.value("add.s64", "d", wide, base, keep=False)
    wide = g.value("cvt.s64.s32", "d", index, keep=False)
    shifted = g.value("shl.b64", "d", wide, size.bit_length() - 1, keep=False)
    return g.value("add.s64", "d", base, shifted, keep=False)


def bases(g: Generator) -> list[tuple[str, int]]:
    """Thread numbers, and the largest value of each."""
    s = g.settings
    found = [("lin", s.threads - 1), ("gid", s.total - 1), ("tid.x", s.block[0] - 1), ("lane", 31)]
    found += [(f"tid.{a}", s.block[k] - 1) for k, a in ((1, "y"), (2, "z")) if f"tid.{a}" in g.fixed]
    return [(g.fixed[name], top) for name, top in found]


def _linear(g: Generator, elements: int) -> str:
    """An index that is linear in the thread, in bounds without a mask."""
    register, top = g.rng.choice(bases(g))
    kind = g.rng.randrange(5)
    room = elements - 1 - top
    if kind == 0 and top <= elements - 1:
        return register
    if kind == 1 and room > 0:
        return g.value("add.s32", "r", register, g.rng.randint(0, room), keep=False)
    if kind == 2:
        return g.value("sub.s32", "r", elements - 1, register, keep=False)
    if kind == 3 and top * 2 < elements:
        stride = g.rng.randint(2, max(2, (elements - 1) // max(top, 1)))
        return g.value("mul.lo.s32", "r", register, min(stride, (elements - 1) // max(top, 1)), keep=False)
    # Through values that wrap: the sum of the two constants is small.
    wrap = g.rng.choice([5, 1 << 20, 0x7FFFFFF0])
    low = g.value("sub.u32", "r", register, wrap, keep=False)
    return g.value("add.u32", "r", low, wrap + g.rng.randint(0, max(room, 0)), keep=False)


def load_linear(g: Generator, c: Context) -> None:
    buffer, type_, letter, size, elements = array(g)
    index = _linear(g, elements)
    cache = g.rng.choice(["", "", "", ".nc", ".cg"])
    g.value(f"ld.global{cache}.{type_}", letter, Mem(address(g, buffer, index, size)))


def load_wrapped(g: Generator, c: Context) -> None:
    """x[i - 5u] under a guard: the index wraps below zero in some lanes, which do not load."""
    buffer, type_, letter, size, elements = array(g)
    register, top = g.rng.choice(bases(g))
    kind = g.rng.randrange(5)
    if kind == 0:
        index = g.value("add.s32", "r", register, -g.rng.randint(1, max(top, 1)), keep=False)
    elif kind == 1:
        index = g.value("mul.lo.s32", "r", register, g.rng.choice([0x10000001, 0x40000001, -1, 0x80000001]), keep=False)
    elif kind == 2:
        index = g.value("sub.u32", "r", g.rng.randint(0, top), register, keep=False)
    elif kind == 3:
        high = g.value("shl.b32", "r", register, g.rng.randint(24, 30), keep=False)
        index = g.value("shr.u32", "r", high, g.rng.choice([22, 24, 26]), keep=False)
    else:
        narrow = g.value("cvt.u16.u32", "h", register, keep=False)
        wrapped = g.value("sub.s16", "h", narrow, g.rng.randint(1, 9), keep=False)
        index = g.value(f"cvt.{g.rng.choice(['u32.u16', 's32.s16'])}", "r", wrapped, keep=False)
    guard = g.value("setp.lt.u32", "p", index, elements, keep=False)
    target = g.variable(letter)
    if g.chance(0.5):
        at = address(g, buffer, index, size)  # computed by all lanes, valid in some
        g.emit(f"ld.global.{type_}", target, Mem(at), guard=guard)
        return
    skip = g.label("skip")
    g.jump(skip, f"!{guard}")
    at = address(g, buffer, index, size)
    g.emit(f"ld.global.{type_}", target, Mem(at))
    g.place(skip)


def load_gather(g: Generator, c: Context) -> None:
    buffer, type_, letter, size, elements = array(g)
    index = g.value("and.b32", "r", g.any("r"), g.settings.length - 1, keep=False)
    for _ in range(g.rng.randint(0, 2)):
        index = g.value("ld.global.u32", "r", Mem(address(g, "in_index", index, 4)), keep=False)
    guard, target = "", g.new(letter)
    if g.chance(0.3):
        guard, target = g.any("p"), g.variable(letter)
    if elements < g.settings.length:
        index = g.value("and.b32", "r", index, elements - 1, keep=False)
    g.emit(f"ld.global.{type_}", target, Mem(address(g, buffer, index, size)), guard=guard)
    g.done(target)


def load_vector(g: Generator, c: Context) -> None:
    count = g.rng.choice([2, 4])
    buffer, type_, letter, size = g.rng.choice(
        [("in_u32", "u32", "r", 4), ("in_f32", "f32", "f", 4), ("in_u64", "u64", "d", 8), ("in_bytes", "u16", "h", 2),
         ("in_bytes", "u8", "r", 1)]
    )  # fmt: skip
    count = 2 if size == 8 else count
    wide = g.settings.length * (4 // size if buffer == "in_bytes" else 1) // count
    register, top = g.rng.choice(bases(g))
    if top >= wide or g.chance(0.4):
        register = g.value("and.b32", "r", register if g.chance(0.5) else g.any("r"), wide - 1, keep=False)
    targets = tuple(g.new(letter) for _ in range(count))
    g.emit(f"ld.global.v{count}.{type_}", targets, Mem(address(g, buffer, register, size * count)))
    for target in targets:
        g.keep(target)


def load_uniform(g: Generator, c: Context) -> None:
    """All lanes of a block read one place."""
    buffer, type_, letter, size, elements = array(g)
    index = g.value("and.b32", "r", g.any("u"), elements - 1, keep=False)
    register = g.value(f"ld.global.{type_}", letter, Mem(address(g, buffer, index, size)))
    if letter == "r" and c.uniform and c.weight == 1:
        g.keep(register, "u")


def load_table(g: Generator, c: Context) -> None:
    """A table in the module: .const or .global."""
    space, name = g.rng.choice([("const", "const_table"), ("global", "global_table")])
    if g.chance(0.25):
        g.value(f"ld.{space}.u32", "r", Mem(name, 4 * g.rng.randrange(16)))
        return
    index = g.value("and.b32", "r", g.any("r"), 15, keep=False)
    base = g.value("mov.u64", "d", name, keep=False)
    at = g.value("mad.wide.u32", "d", index, 4, base, keep=False)
    g.value(f"ld.{space}.u32", "r", Mem(at))


# ---- stores ----


def store_slot(g: Generator, c: Context) -> None:
    register = g.any(g.rng.choice("rf"))
    at = own_slot(g, g.rng.randrange(SLOTS // 2))
    guard = g.rng.choice(["", "", g.any("p")])
    strength = g.rng.choice(["", "", "", "", ".volatile"])
    g.emit(f"st{strength}.global.{'f32' if register[1] == 'f' else 'u32'}", (), Mem(at), register, guard=guard)


def load_slot(g: Generator, c: Context) -> None:
    strength = g.rng.choice(["", "", "", ".volatile", ".relaxed.gpu"])
    g.value(f"ld{strength}.global.u32", "r", Mem(own_slot(g, g.rng.randrange(SLOTS))))


_FIELDS = [
    ("u8", "r", 1), ("u8", "h", 1), ("u16", "h", 2), ("b16", "h", 2), ("u32", "r", 4), ("f32", "f", 4), ("u64", "d", 8),
    ("f64", "g", 8),
]  # fmt: skip


def store_record(g: Generator, c: Context) -> None:
    """Into the thread's own record: records of lanes lie 128 bytes apart."""
    type_, letter, size = g.rng.choice(_FIELDS)
    count = g.rng.choice([1, 1, 2] if size == 8 else [1, 1, 2, 4])
    offset = g.rng.randrange(RECORD // (size * count)) * size * count
    values = [g.any(letter) for _ in range(count)]
    vector = f".v{count}" if count > 1 else ""
    at = record(g)
    g.emit(f"st.global{vector}.{type_}", (), Mem(at, offset), *values, guard=g.rng.choice(["", "", g.any("p")]))


def load_record(g: Generator, c: Context) -> None:
    type_, letter, size = g.rng.choice(_FIELDS)
    place = g.value("and.b32", "r", g.any("r"), RECORD // size - 1, keep=False)
    at = g.value("mad.wide.u32", "d", place, size, record(g), keep=False)
    g.value(f"ld.global.{type_}", letter, Mem(at))


def scatter(g: Generator, c: Context) -> None:
    """To a place of this thread alone that a permutation names."""
    place = g.value("ld.global.u32", "r", Mem(address(g, "permutation", g.fixed["gid"], 4)), keep=False)
    at = address(g, "scatter", place, 8)
    kind = g.rng.randrange(3)
    if kind == 0:
        g.emit("st.global.u64", (), Mem(at), g.any("d"))
    elif kind == 1:
        g.emit("st.global.u32", (), Mem(at, 4), g.any("r"), guard=g.any("p"))
    else:
        g.value("ld.global.u32", "r", Mem(at))


def local(g: Generator, c: Context) -> None:
    type_, letter, size = g.rng.choice([f for f in _FIELDS if f[2] > 1 or f[1] == "r"])
    source = g.rng.choice(g.steady) if g.steady and g.chance(0.2) else g.any("r")
    index = g.value("and.b32", "r", source, 32 // size - 1, keep=False)
    at = g.value("mad.wide.u32", "d", index, size, g.fixed["local"], keep=False)
    space = ".local"
    if g.chance(0.3):
        space, at = "", g.value("cvta.local.u64", "d", at, keep=False)
    if g.chance(0.5):
        g.emit(f"st{space}.{type_}", (), Mem(at), g.any(letter), guard=g.rng.choice(["", "", g.any("p")]))
    else:
        g.value(f"ld{space}.{type_}", letter, Mem(at))

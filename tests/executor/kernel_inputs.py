"""What every generated kernel begins and ends with, and the memory that it works on."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from kernel_ir import Buffer, Function, Mem, Operand, Program, Variable

if TYPE_CHECKING:
    from kernel_generator import Context, Generator

INPUTS = ("in_u32", "in_f32", "in_bytes", "in_index", "in_u64")
SLOTS = 24  # 32-bit results of a thread in `out`
RECORD = 128  # bytes of a thread's record in `record`

# Words of the atomic arrays, and the only operation that each may take part in, so that order does not matter.
ATOMIC32 = ("add.u32", "add.s32", "and.b32", "or.b32", "xor.b32", "min.u32", "max.s32", "max.u32")
ATOMIC64 = ("add.u64", "min.s64", "max.u64", "xor.b64")
SHIFTS = (1, 3, 5, 17)  # of the rows of `shifted`, whose last row has a word for each block
ROW = 4  # words of each operation


def prologue(g: Generator) -> None:
    """Thread numbers, the lanes that are there, base addresses, and first values of all variables."""
    fixed = g.fixed
    for axis in "xyz":
        for what in ("tid", "ntid", "ctaid", "nctaid"):
            if axis == "x" or g.settings.block[1] * g.settings.block[2] > 1 or what != "tid":
                fixed[f"{what}.{axis}"] = g.value("mov.u32", "r", f"%{what}.{axis}", keep=False)
    if "tid.y" in fixed:
        row = g.value("mad.lo.u32", "r", fixed["tid.z"], fixed["ntid.y"], fixed["tid.y"], keep=False)
        fixed["lin"] = g.value("mad.lo.s32", "r", row, fixed["ntid.x"], fixed["tid.x"], keep=False)
    else:
        fixed["lin"] = fixed["tid.x"]
    across = g.value("mad.lo.u32", "r", fixed["ctaid.z"], fixed["nctaid.y"], fixed["ctaid.y"], keep=False)
    number = g.value("mad.lo.u32", "r", across, fixed["nctaid.x"], fixed["ctaid.x"], keep=False)
    plane = g.value("mul.lo.s32", "r", fixed["ntid.x"], fixed["ntid.y"], keep=False)
    fixed["size"] = g.value("mul.lo.s32", "r", plane, fixed["ntid.z"], keep=False)
    fixed["gid"] = g.value("mad.lo.s32", "r", number, fixed["size"], fixed["lin"], keep=False)
    if g.settings.warps:
        fixed["lane"] = g.value("mov.u32", "r", "%laneid", keep=False)
        _live(g)
    else:
        # Without a word of warps: such kernels may run with any number of lanes.
        fixed["lane"] = g.value("and.b32", "r", fixed["lin"], 31, keep=False)
    for name in (*INPUTS, "permutation", "out", "record", "scatter", "shifted", "atomic32", "atomic64", "loose"):
        register = g.value("ld.param.u64", "d", Mem(name), keep=False)
        fixed[name] = g.value("cvta.to.global.u64", "d", register, keep=False) if g.chance(0.5) else register
    for name, letter, type_ in (("n", "r", "u32"), ("s32", "r", "u32"), ("s64", "d", "u64")):
        fixed[name] = g.value(f"ld.param.{type_}", letter, Mem(name), keep=False)
    for register in (fixed["s32"], fixed["n"], fixed["ctaid.x"]):
        g.keep(register, "u")
    for register in ("lin", "gid", "lane", "tid.x", "s32", "ctaid.x"):
        g.keep(fixed[register])
    g.keep(fixed["s64"])
    for source in (fixed["s32"], 0, fixed["ctaid.x"]):
        g.steady.append(g.value("mov.u32", "r", source, keep=False))
    _variables(g)
    if g.settings.local:
        local_array(g, "loc")
    if g.settings.barriers:
        _shared(g)


def _live(g: Generator) -> None:
    """The lanes of this warp that exist: a block's last warp may be partial."""
    if g.settings.threads % 32 == 0 and g.chance(0.4):
        g.fixed["live"] = g.value("mov.b32", "r", -1, keep=False)
        return
    first = g.value("and.b32", "r", g.fixed["lin"], -32, keep=False)
    rest = g.value("sub.s32", "r", g.fixed["size"], first, keep=False)
    full = g.value("setp.gt.s32", "p", rest, 31, keep=False)
    one = g.value("mov.u32", "r", 1, keep=False)
    some = g.value("shl.b32", "r", one, rest, keep=False)
    below = g.value("add.s32", "r", some, -1, keep=False)
    live = g.value("selp.b32", "r", -1, below, full, keep=False)
    if g.chance(0.6):
        live = g.value("activemask.b32", "r", live, keep=False)
    g.fixed["live"] = live


def _variables(g: Generator) -> None:
    lin, gid = g.fixed["lin"], g.fixed["gid"]
    words = [loaded(g, "in_u32", "u32", "r", gid, 4), gid]
    words.append(
        g.value("mad.lo.s32", "r", lin, g.rng.choice([3, 0x9E3779B1, 0x01000193, -5]), g.fixed["s32"], keep=False)
    )
    words.append(g.value("xor.b32", "r", words[0], lin, keep=False))
    words.append(g.value("mov.u32", "r", g.rng.getrandbits(31), keep=False))
    floats = [loaded(g, "in_f32", "f32", "f", gid, 4), g.value("cvt.rn.f32.s32", "f", words[0], keep=False),
              g.value("cvt.rn.f32.u32", "f", lin, keep=False)]  # fmt: skip
    wide = [loaded(g, "in_u64", "u64", "d", gid, 8), g.value("cvt.s64.s32", "d", words[2], keep=False), g.fixed["s64"]]
    doubles = [loaded(g, "in_u64", "f64", "g", lin, 8), g.value("cvt.f64.f32", "g", floats[2], keep=False)]
    halves = [loaded(g, "in_bytes", "u16", "h", gid, 2), g.value("cvt.u16.u32", "h", words[3], keep=False)]
    for letter, sources in (("r", words), ("f", floats), ("d", wide), ("g", doubles), ("h", halves)):
        for source in sources:
            move(g, letter, source)
    predicate = g.value("setp.lt.s32", "p", words[0], 0, keep=False)
    other = g.value("setp.lt.u32", "p", g.fixed["lane"], g.rng.randint(1, 31), keep=False)
    for source in (predicate, other):
        move(g, "p", source)


def move(g: Generator, letter: str, source: Operand) -> None:
    """A new variable that begins as `source`."""
    register = g.new(letter)
    g.emit({"p": "mov.pred", "h": "mov.u16", "r": "mov.u32", "d": "mov.u64", "f": "mov.f32", "g": "mov.f64"}[letter],
           register, source)  # fmt: skip
    g.variables = g.variables | {letter: (*g.variables[letter], register)}


def loaded(g: Generator, buffer: str, type_: str, letter: str, index: str, size: int) -> str:
    """A load of element `index` of an input."""
    address = g.value("mad.wide.u32", "d", index, size, g.fixed[buffer], keep=False)
    return g.value(f"ld.global.{type_}", letter, Mem(address), keep=False)


def local_array(g: Generator, name: str) -> None:
    """Eight words of local memory, all written."""
    for k in range(8):
        g.emit("st.local.u32", (), Mem(name, 4 * k), g.any("r"))
    base = g.value("mov.u64", "d", name, keep=False)
    g.fixed["local"] = base


def _shared(g: Generator) -> None:
    """An own word per thread in static and two in dynamic memory; words for atomics, which the first thread writes."""
    static = g.value("mov.u32", "r", "shared_words", keep=False)
    g.fixed["own_shared"] = g.value("mad.lo.u32", "r", g.fixed["lin"], 4, static, keep=False)
    g.fixed["shared"] = static
    dynamic = g.value("mov.u32", "r", "dynamic", keep=False)
    g.fixed["dynamic"] = dynamic
    g.fixed["own_dynamic"] = g.value("mad.lo.u32", "r", g.fixed["lin"], 8, dynamic, keep=False)
    g.fixed["shared_atomics"] = g.value("mov.u32", "r", "shared_atomics", keep=False)
    g.emit("st.shared.u32", (), Mem(g.fixed["own_shared"]), g.any("r"))
    g.emit("st.shared.v2.u32", (), Mem(g.fixed["own_dynamic"]), g.any("r"), g.fixed["gid"])
    leader = g.value("setp.eq.u32", "p", g.fixed["lin"], 0, keep=False)
    for k in range(len(ATOMIC32)):
        g.emit("st.shared.u32", (), Mem("shared_atomics", 4 * k), g.fixed["s32"], guard=leader)
    g.emit("bar.sync", (), 0)


def function_prologue(g: Generator, names: tuple[str, ...]) -> None:
    """A function's variables are made from its arguments."""
    for name in names:
        g.keep(name)
    words = [n for n in names if n[1] == "r"] or [g.value("mov.u32", "r", 77, keep=False)]
    g.fixed["lane"] = g.value("mov.u32", "r", "%laneid" if g.settings.warps else "%tid.x", keep=False)
    move(g, "r", words[0])
    move(g, "r", g.value("mul.lo.s32", "r", words[-1], 0x85EBCA6B, keep=False))
    move(g, "r", g.fixed["lane"])
    move(g, "f", g.value("cvt.rn.f32.s32", "f", words[0], keep=False))
    move(g, "d", g.value("mul.wide.s32", "d", words[0], words[-1], keep=False))
    move(g, "g", g.value("cvt.rn.f64.u32", "g", words[0], keep=False))
    move(g, "h", g.value("cvt.u16.u32", "h", words[0], keep=False))
    move(g, "p", g.value("setp.gt.s32", "p", words[0], 5, keep=False))
    g.steady.append(g.value("mov.u32", "r", 9, keep=False))


def own_slot(g: Generator, slot: int) -> str:
    """The address of one of the thread's words in `out`: those of a warp lie side by side."""
    gid, n = g.fixed["gid"], g.fixed["n"]
    kind = g.rng.randrange(4)
    if kind == 0:
        index = g.value("mad.lo.u32", "r", n, slot, gid, keep=False)
        return g.value("mad.wide.u32", "d", index, 4, g.fixed["out"], keep=False)
    if kind == 1:
        index = g.value("add.s32", "r", gid, slot * g.settings.total, keep=False)
        offset = g.value("mul.wide.s32", "d", index, 4, keep=False)
        return g.value("add.s64", "d", g.fixed["out"], offset, keep=False)
    if kind == 2:
        wide = g.value("cvt.u64.u32", "d", gid, keep=False)
        row = g.value("add.s64", "d", wide, slot * g.settings.total, keep=False)
        offset = g.value("shl.b64", "d", row, 2, keep=False)
        return g.value("add.s64", "d", offset, g.fixed["out"], keep=False)
    offset = g.value("shl.b32", "r", gid, 2, keep=False)
    wide = g.value("cvt.u64.u32", "d", offset, keep=False)
    base = g.value("add.s64", "d", g.fixed["out"], 4 * slot * g.settings.total, keep=False)
    return g.value("add.s64", "d", base, wide, keep=False)


def epilogue(g: Generator, context: Context) -> None:
    """Stores what the variables hold, and what the shared atomics have come to."""
    if g.dead:
        return
    if g.settings.barriers:
        g.emit("bar.sync", (), 0)
        few = g.value("setp.lt.u32", "p", g.fixed["lin"], len(ATOMIC32), keep=False)
        address = g.value("mad.lo.u32", "r", g.fixed["lin"], 4, g.fixed["shared_atomics"], keep=False)
        register = g.variable("r")
        g.emit("ld.shared.u32", register, Mem(address), guard=few)
    for register in g.steady:
        move(g, "r", register)
    first, slot = own_slot(g, SLOTS // 2), 0
    for letter in "rfhp":
        for register in (*g.variables[letter], *g.temps[letter][-2:]):
            if slot == SLOTS // 2:
                break
            if letter == "p":
                register = g.value("selp.u32", "r", 1, 0, register, keep=False)
            elif letter == "h":
                register = g.value("cvt.u32.u16", "r", register, keep=False)
            at = Mem(first, 4 * g.settings.total * slot)
            g.emit("st.global.f32" if letter == "f" else "st.global.u32", (), at, register)
            slot += 1
    own = record(g)
    for k, register in enumerate((*g.variables["d"], *g.variables["g"])[: RECORD // 8]):
        g.emit("st.global.u64" if register[1] == "d" else "st.global.f64", (), Mem(own, 8 * k), register)
    g.emit("ret")


def record(g: Generator) -> str:
    """The address of the thread's own record."""
    return g.value("mad.wide.u32", "d", g.fixed["gid"], RECORD, g.fixed["record"], keep=False)


# ---- memory ----

_SPECIAL32 = (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 1, 0x7F7FFFFF)
_SPECIAL64 = (0, 1 << 63, 0x3FF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, 0x7FEFFFFFFFFFFFFF)
_CORNERS = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFB)


def _words(rng: random.Random, count: int) -> bytes:
    values = [
        rng.choice(_CORNERS) if rng.random() < 0.15 else rng.getrandbits(rng.choice([4, 8, 32])) for _ in range(count)
    ]
    return struct.pack(f"<{count}I", *values)


def _floats(rng: random.Random, count: int) -> bytes:
    result = b""
    for _ in range(count):
        special = rng.random() < 0.12
        result += struct.pack("<I", rng.choice(_SPECIAL32)) if special else struct.pack("<f", rng.gauss(0, 40))
    return result


def _wide(rng: random.Random, count: int) -> bytes:
    result = b""
    for _ in range(count):
        kind = rng.random()
        if kind < 0.1:
            result += struct.pack("<Q", rng.choice(_SPECIAL64))
        elif kind < 0.5:
            result += struct.pack("<Q", rng.getrandbits(rng.choice([8, 33, 64])))
        else:
            result += struct.pack("<d", rng.gauss(0, 1e3))
    return result


def program(g: Generator, seed: int) -> Program:
    """The finished program with its memory."""
    rng = random.Random(seed ^ 0x5EED)
    settings, length, total = g.settings, g.settings.length, g.settings.total
    order = list(range(total))
    rng.shuffle(order)
    order += [0] * (length - total)
    buffers = (
        Buffer("in_u32", "in", _words(rng, length)),
        Buffer("in_f32", "in", _floats(rng, length)),
        Buffer("in_bytes", "in", rng.randbytes(4 * length)),
        Buffer("in_index", "in", struct.pack(f"<{length}I", *(rng.randrange(length) for _ in range(length)))),
        Buffer("in_u64", "in", _wide(rng, length)),
        Buffer("permutation", "in", struct.pack(f"<{length}I", *order)),
        Buffer("out", "out", rng.randbytes(4 * SLOTS * total)),
        Buffer("record", "out", rng.randbytes(RECORD * total)),
        Buffer("scatter", "out", rng.randbytes(8 * total)),
        Buffer("shifted", "out", rng.randbytes(4 * total * (len(SHIFTS) + 1))),
        Buffer("atomic32", "atomic", rng.randbytes(4 * ROW * len(ATOMIC32))),
        Buffer("atomic64", "atomic", rng.randbytes(8 * ROW * len(ATOMIC64))),
        Buffer("loose", "loose", rng.randbytes(16 * total)),
    )
    scalars = (("n", "u32", total), ("s32", "u32", rng.choice([0, 3, 17, rng.getrandbits(32)])),
               ("s64", "u64", rng.getrandbits(64)))  # fmt: skip
    variables = [
        Variable("const", "const_table", 64, 8, rng.randbytes(64)),
        Variable("global", "global_table", 64, 16, rng.randbytes(64)),
    ]
    if settings.barriers:
        variables += [
            Variable("shared", "shared_words", 4 * settings.threads, 4),
            Variable("shared", "shared_atomics", 4 * len(ATOMIC32), 4),
            Variable("shared", "dynamic", 0, 16, extern=True),
        ]
    local = (Variable("local", "loc", 32, 16),) if settings.local else ()
    params = (*((b.name, "u64") for b in buffers), *((name, type_) for name, type_, _ in scalars))
    kernel = Function("generated", tuple(g.code), params, variables=local)
    return Program(
        seed, kernel, tuple(g.functions), tuple(variables), buffers, scalars, settings.grid, settings.block,
        8 * settings.threads if settings.barriers else 0, rng.random() < 0.3, settings.raw_nan,
    )  # fmt: skip

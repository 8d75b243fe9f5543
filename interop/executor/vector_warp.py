"""What the lanes of a warp do together, where a strand is a whole warp: shuffles, votes, reductions, barriers.

The lanes that take part are those of the membermask which are active; the translator lets a strand run such an
instruction when all the others have come to it or left the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import device_functions
from .builder import Builder
from .errors import malformed, unsupported
from .modifiers import Modifiers
from .records import ThreadField, Wait
from .scopes import Memory
from .table import Table
from .types import BITS, vector
from .vector_flatten import Unsuitable
from .vector_kinds import local_stride

if TYPE_CHECKING:
    from .vector_translator import VectorTranslator

TABLE = Table()

_VOTES = ("all", "any", "uni", "ballot")


def _require_sync(i: Instruction, m: Modifiers) -> None:
    if not m.flag("sync"):
        raise unsupported(i, "warp operations without .sync, which PTX has withdrawn for sm_70 and later")
    m.flag("aligned")


def _members(t: VectorTranslator, operand: ast.Operand) -> str:
    """The lanes that take part, as an integer with a bit for each."""
    value = t.read(operand, "u32")
    if not t.b.is_uniform(value):
        raise Unsuitable("a warp operation among lanes that differ from lane to lane")
    if value == "-1":
        return t.active_bits()
    return t.b.value(f"and i32 {value}, {t.active_bits()}")


def _lanes(t: VectorTranslator, bits: str) -> str:
    """A mask as a vector of ``i1``."""
    return t.b.varying(t.b.value(f"bitcast i32 {bits} to {t.b.wide('i1')}"))


# ---- shuffles ----


@TABLE("shfl")
def shfl(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Reads another lane's register (PTX ISA, "shfl.sync", has the table of source lanes)."""
    _require_sync(i, m)
    mode = m.take("up", "down", "bfly", "idx")
    type_ = m.type()
    if not mode:
        raise malformed(i, "the mode is missing")
    llvm = vector(type_)
    value = t.b.widen(llvm, t.read(t.operand(1), type_))
    distance, clamp = t.read(t.operand(2), "u32"), t.read(t.operand(3), "u32")
    if distance.lstrip("-").isdigit() and clamp.lstrip("-").isdigit():
        result, inside = _fixed_shuffle(t, llvm, value, mode, int(distance) & 31, int(clamp))
    else:
        result, inside = _shuffle(t, llvm, value, mode, distance, clamp)
    destination = t.operand(0)
    if isinstance(destination, ast.Pair):
        t.write(destination.second, "pred", inside)
        destination = destination.first
    t.write(destination, type_, result)


def _fixed_shuffle(t: VectorTranslator, llvm: str, value: str, mode: str, distance: int, clamp: int) -> tuple[str, str]:
    sources, inside = [], []
    segment, limit = clamp >> 8 & 31, clamp & 31
    for lane in range(32):
        lowest = lane & segment
        bound = lowest | (limit & ~segment)
        source = {
            "up": lane - distance, "down": lane + distance, "bfly": lane ^ distance,
            "idx": lowest | (distance & ~segment),
        }[mode]  # fmt: skip
        good = source >= bound if mode == "up" else source <= bound
        inside.append(good)
        sources.append(source if good else lane)
    order = ", ".join(f"i32 {s}" for s in sources)
    wide = t.b.wide(llvm)
    result = t.b.value(f"shufflevector {wide} {value}, {wide} poison, <32 x i32> <{order}>")
    flags = ", ".join(f"i1 {str(good).lower()}" for good in inside)
    return t.b.varying(result), t.b.varying(t.b.value(f"freeze <32 x i1> <{flags}>"))


def _shuffle(t: VectorTranslator, llvm: str, value: str, mode: str, distance: str, clamp: str) -> tuple[str, str]:
    b = t.b

    def both(operation: str, x: str, y: str) -> str:
        return b.binary(operation, "i32", x, y)

    lane = b.varying(b.value(f"freeze {b.wide('i32')} {b.lane_numbers('i32')}"))
    distance = both("and", distance, "31")
    segment = both("and", both("lshr", clamp, "8"), "31")
    outside = both("xor", segment, "-1")
    lowest = both("and", lane, segment)
    bound = both("or", lowest, both("and", both("and", clamp, "31"), outside))
    if mode == "idx":
        source = both("or", lowest, both("and", distance, outside))
    else:
        source = both({"up": "sub", "down": "add", "bfly": "xor"}[mode], lane, distance)
    inside = b.compare("sge" if mode == "up" else "sle", "i32", source, bound)
    chosen = b.widen("i32", b.select(inside, "i32", source, lane))
    memory = t.spill(llvm, value)
    pointers = b.value(f"getelementptr {llvm}, ptr {memory}, {b.wide('i32')} {chosen}")
    wide = b.wide(llvm)
    mangled = {"float": "f32", "double": "f64"}.get(llvm, llvm)
    name = f"llvm.masked.gather.v32{mangled}.v32p0"
    b.module.declare(wide, name, [b.wide("ptr"), b.wide("i1"), wide])
    everywhere = f"{b.wide('i1')} splat (i1 true)"
    where = f"{b.wide('ptr')} align {BITS[llvm] // 8} {pointers}"
    return b.varying(b.value(f"call {wide} @{name}({where}, {everywhere}, {wide} poison)")), inside


# ---- votes and reductions ----


@TABLE("vote")
def vote(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """all, any, uni, ballot of a predicate: the same for all that take part."""
    _require_sync(i, m)
    mode = m.take(*_VOTES)
    if not mode:
        raise malformed(i, "the mode is missing")
    type_ = m.type()
    b = t.b
    members = _members(t, t.operand(2))
    ballot = b.binary("and", "i32", t.bits_of(t.read(t.operand(1), "pred")), members)
    if mode == "ballot":
        t.write(t.operand(0), type_, ballot)
        return
    every, none = b.compare("eq", "i32", ballot, members), b.compare("eq", "i32", ballot, "0")
    result = {
        "all": lambda: every,
        "any": lambda: b.binary("xor", "i1", none, "true"),
        "uni": lambda: b.binary("or", "i1", every, none),
    }[mode]()
    t.write(t.operand(0), "pred", result)


@TABLE("match")
def match(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Which lanes hold the same value."""
    every = m.take("any", "all") == "all"
    _require_sync(i, m)
    type_ = m.type()
    llvm = vector(type_)
    b, wide = t.b, t.b.wide(llvm)
    given = t.read(t.operand(1), type_)
    value = b.widen(llvm, given)
    members = _members(t, t.operand(2))
    destination = t.operand(0)
    second: ast.Operand | None = None
    if isinstance(destination, ast.Pair):
        second = destination.second
        destination = destination.first

    def same_as(one: str) -> str:
        equal = b.value(f"icmp eq {wide} {value}, {b.splat(llvm, one)}")
        as_bits = b.value(f"bitcast {b.wide('i1')} {equal} to i32")
        return b.value(f"and i32 {as_bits}, {members}")

    if every:
        lowest = Builder.call(b, "i32", "llvm.cttz.i32", [("i32", members), ("i1", "false")])
        lowest = b.value(f"and i32 {lowest}, 31")
        same = same_as(b.value(f"extractelement {wide} {value}, i32 {lowest}"))
        agree = b.compare("eq", "i32", same, members)
        if second is not None:
            t.write(second, "pred", agree)
        t.write(destination, "b32", b.select(agree, "i32", members, "0"))
        return
    values, results = t.spill(llvm, given), t.lane_memory("i32")

    def one(lane: str) -> None:
        own = t.b.load(llvm, t.lane_pointer(values, llvm, lane))
        t.b.store("i32", same_as(own), t.lane_pointer(results, "i32", lane))

    t.each_lane(one)
    t.write(destination, "b32", b.varying(b.value(f"load {b.wide('i32')}, ptr {results}")))


_NEUTRAL = {"add": "0", "or": "0", "xor": "0", "and": "-1", "smin": "2147483647", "smax": "-2147483648",
            "umin": "-1", "umax": "0"}  # fmt: skip


@TABLE("redux")
def redux(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Reduces over the lanes of a mask."""
    _require_sync(i, m)
    operation = m.take("add", "min", "max", "and", "or", "xor")
    type_ = m.type()
    if not operation or type_ == "f32" or BITS[vector(type_)] != 32:
        raise unsupported(i)
    if operation in ("min", "max"):
        operation = ("s" if type_[0] == "s" else "u") + operation
    b = t.b
    value = b.widen("i32", t.read(t.operand(1), type_))
    members = _lanes(t, _members(t, t.operand(2)))
    wide = b.wide("i32")
    kept = b.value(f"select {b.wide('i1')} {members}, {wide} {value}, {wide} splat (i32 {_NEUTRAL[operation]})")
    name = f"llvm.vector.reduce.{operation}.v32i32"
    b.module.declare("i32", name, [wide])
    t.write(t.operand(0), type_, b.value(f"call i32 @{name}({wide} {kept})"))


@TABLE("elect")
def elect(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Chooses the lowest lane of a mask."""
    _require_sync(i, m)
    destination = t.operand(0)
    if not isinstance(destination, ast.Pair):
        raise malformed(i, "it yields a lane and a predicate")
    b = t.b
    members = _members(t, t.operand(1))
    leader = Builder.call(b, "i32", "llvm.cttz.i32", [("i32", members), ("i1", "false")])
    numbers = b.varying(b.value(f"freeze {b.wide('i32')} {b.lane_numbers('i32')}"))
    t.write(destination.second, "pred", b.compare("eq", "i32", numbers, leader))
    t.write(destination.first, "b32", leader)


@TABLE("activemask")
def activemask(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """The lanes that run this instruction together."""
    type_ = m.type()
    if t.lanes != 32:
        raise Unsuitable("activemask")
    t.write(t.operand(0), type_, t.b.value(f"add i32 {t.active_bits()}, 0"))


# ---- barriers ----


@TABLE("bar", "barrier")
def barrier(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Barriers of the block; the strand waits as a whole. The warp's own needs nothing, since its lanes run in step."""
    if m.flag("warp"):
        m.flag("sync")
        return
    if "cluster" in m.rest:
        raise unsupported(i, "clusters")
    m.flag("cta")
    kind = m.take("sync", "arrive", "red")
    m.flag("aligned")
    if kind == "red":
        _reducing(t, i, m)
        return
    if kind != "sync" or len(i.operands) > 1:
        raise Unsuitable("a barrier that counts threads")
    _wait(t, t.operand(0), Wait.BARRIER)


def _wait(t: VectorTranslator, number: ast.Operand, wait: Wait) -> None:
    value = t.read(number, "u32")
    if not t.b.is_uniform(value):
        raise Unsuitable("a barrier whose number differs from lane to lane")
    t.b.store("i32", value, t.thread_field(ThreadField.MASK))
    t.suspend(wait)


def _reducing(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """bar.red: the count, conjunction or disjunction of a predicate over the block."""
    operation = m.take("popc", "and", "or")
    type_ = m.type()
    if len(i.operands) > 3:
        raise Unsuitable("a barrier that counts threads")
    b = t.b
    bits = t.bits_of(t.read(i.operands[-1], "pred"))
    ballot = b.binary("and", t.bits, bits, t.active_bits())
    b.store("i64", Builder.resize(b, ballot, t.bits, "i64"), t.thread_field(ThreadField.VALUE))
    b.store("i32", str(("popc", "and", "or").index(operation)), t.thread_field(ThreadField.B))
    _wait(t, t.operand(1), Wait.BARRIER_RED)
    if operation == "popc":
        t.write(t.operand(0), type_, b.load("i32", t.thread_field(ThreadField.RESULT)))
    else:
        flag = b.load("i32", t.thread_field(ThreadField.FLAG))
        t.write(t.operand(0), "pred", b.compare("ne", "i32", flag, "0"))


# ---- functions of the device ----


@TABLE("call")
def call(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """A function that every device provides, for one lane after the other."""
    m.flag("uni")
    name = next(o.text for o in i.operands if isinstance(o, ast.Name))
    groups = [o.items for o in i.operands if isinstance(o, ast.Group)]
    leading = bool(i.operands) and isinstance(i.operands[0], ast.Group)
    results = groups[0] if leading and len(groups) > 1 else ()
    arguments = groups[-1] if groups and (not leading or len(groups) > 1) else ()
    reads = [_reader(t, operand) for operand in (*results, *arguments)]

    def one(lane: str) -> None:
        bound = {f"operand{k}": read(lane) for k, read in enumerate(reads)}
        with t.names_bound(bound):
            operands = [ast.Name(key) for key in bound]
            device_functions.BUILTINS[name](t, i, operands[: len(results)], operands[len(results) :])

    t.each_lane(one)


def _reader(t: VectorTranslator, operand: ast.Operand) -> Callable[[str], Memory]:
    """For a lane's number, the memory that holds its argument."""
    binding = t.lookup(operand.text) if isinstance(operand, ast.Name) else None
    if not isinstance(binding, Memory) or not t.is_private(binding):
        raise Unsuitable("an argument of a device function that is no variable")
    stride = local_stride(binding.variable.size)

    def read(lane: str) -> Memory:
        b = t.b
        return Memory("param", binding.variable, b.offset(binding.pointer, b.binary("mul", "i64", lane, str(stride))))

    return read

"""The vector path's loads, stores and atomics.

An address that is the same in all lanes makes one scalar access; one whose lanes lie side by side a masked vector
access; any other a gather or scatter. A 32-bit index that was widened is taken for contiguous only where it does not
wrap inside of the strand, which is tested at each access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import bounds
from .builder import Builder
from .errors import malformed
from .memory import drop_hints, elements, order_of, space_of, vector_length
from .modifiers import Modifiers
from .records import Access
from .scopes import Memory, Register
from .table import Table
from .types import BITS, vector
from .vector_bounds import check_lanes, stride_of
from .vector_flatten import Unsuitable
from .vector_kinds import Affine, Widened, local_stride

if TYPE_CHECKING:
    from .vector_translator import VectorTranslator

TABLE = Table()


@dataclass(frozen=True)
class Place:
    """Where an access goes: an absolute address as an i64 of any kind, or for a parameter the pointer itself."""

    address: str
    pointer: str = ""


def _split(t: VectorTranslator, operand: ast.Operand) -> tuple[ast.Operand, int]:
    if not isinstance(operand, ast.Address) or len(operand.items) != 1:
        raise malformed(t.instruction, "an address is expected here")
    base: ast.Operand = operand.base
    offset = 0
    while isinstance(base, ast.Offset):
        offset += base.offset
        base = base.base
    return base, offset


def place(t: VectorTranslator, operand: ast.Operand, space: str, size: int, access: Access | None) -> Place:
    """The address of a memory operand, checked for an `access`, if any, to `size` bytes in each active lane."""
    base, offset = _split(t, operand)
    b = t.b
    if isinstance(base, ast.Integer):
        value = str(base.value + offset)
        if space != "shared":
            return Place(value)
        if access is not None:
            bounds.check_shared(t, value, size, access)
        return Place(_in_shared(t, value))
    binding = t.lookup(base.text) if isinstance(base, ast.Name) else None
    if isinstance(binding, Memory):
        found = _variable(t, binding, space, offset)
        if access is not None:
            bounds.check_variable(t, binding, offset, size, access)
        return found
    if binding is None and isinstance(base, ast.Name):
        raise malformed(t.instruction, f"{base.text} is not declared")
    if not isinstance(binding, Register) or not isinstance(base, ast.Name):
        raise malformed(t.instruction, "an address is a register or a variable, plus a constant")
    register = vector(binding.type)
    if register not in ("i32", "i64") or (register == "i32" and space != "shared"):
        raise Unsuitable("an address that is no 64-bit register")
    value = t.read(base, f"b{BITS[register]}")
    if offset:  # in the width of the address: offsets into windows wrap at 32 bits
        value = b.binary("add", register, value, str(offset))
    if register == "i32":
        value = _shared_offset(t, value)
    if access is not None:
        check_lanes(t, base.text, value, space, size, access)
    return Place(_in_shared(t, value) if space == "shared" else value)


def place_number(t: VectorTranslator, operand: ast.Operand, space: str, size: int, access: Access | None) -> str:
    """:func:`place` as an ``i64``."""
    found = place(t, operand, space, size, access)
    return found.address or t.b.integer_of(found.pointer)


def number_of(t: VectorTranslator, operand: ast.Operand, space: str) -> str:
    """The address of a memory operand as an ``i64``, without a check."""
    return place_number(t, operand, space, 0, None)


def _shared_offset(t: VectorTranslator, value: str) -> str:
    """A 32-bit offset into shared memory as 64 bits. Where lanes lie evenly spaced its sign is extended: a window is
    small, so that each offset that is used is positive, and those of lanes that are not active may be below zero."""
    b = t.b
    kind = b.kind(value)
    if not isinstance(kind, Affine) or kind.stride == 0:
        return b.cast("zext", value, "i32", "i64")
    return b.affine(Builder.cast(b, "sext", value, "i32", "i64"), kind.stride)


def _in_shared(t: VectorTranslator, value: str) -> str:
    return t.b.binary("add", "i64", value, t.b.integer_of(t.shared))


def _variable(t: VectorTranslator, memory: Memory, space: str, offset: int) -> Place:
    if space and space != memory.space:
        raise malformed(t.instruction, f"{memory.variable.name} is in .{memory.space} memory")
    if memory.space == "shared":
        if not space:
            raise Unsuitable("a generic access to a shared variable by its name")
        return Place("", t.b.offset(t.shared, memory.offset + offset))
    if t.is_private(memory):
        base = t.b.integer_of(t.b.offset(memory.pointer, offset))
        return Place(t.b.affine(base, local_stride(memory.variable.size)))
    return Place("", t.b.offset(memory.pointer, offset))


def _pointer(t: VectorTranslator, place_: Place) -> str:
    """The host pointer of a uniform place."""
    return place_.pointer or _pointer_to(t, place_.address)


def _pointer_to(t: VectorTranslator, address: str) -> str:
    """A scalar pointer to an address, that of lane 0 if it is not the same in all."""
    return t.pointer_to(t.b.first(address))


def _pointers(t: VectorTranslator, address: str) -> str:
    """The addresses of all lanes as pointers."""
    b = t.b
    wide = b.widen("i64", address)
    if t.plan.own_memory:
        return b.value(f"inttoptr {b.wide('i64')} {wide} to {b.wide('ptr')}")
    return b.value(f"getelementptr i8, ptr {t.zero}, {b.wide('i64')} {wide}")


def _mangled(llvm: str) -> str:
    return {"float": "f32", "double": "f64"}.get(llvm, llvm)


# ---- vector accesses ----


def _masked_load(t: VectorTranslator, llvm: str, pointer: str, align: int) -> str:
    b, wide = t.b, t.b.wide(llvm)
    name = f"llvm.masked.load.v{t.lanes}{_mangled(llvm)}.p0"
    b.module.declare(wide, name, ["ptr", b.wide("i1"), wide])
    return b.value(f"call {wide} @{name}(ptr align {align} {pointer}, {b.wide('i1')} {t.active()}, {wide} poison)")


def _gather(t: VectorTranslator, llvm: str, pointers: str, align: int) -> str:
    b, wide = t.b, t.b.wide(llvm)
    name = f"llvm.masked.gather.v{t.lanes}{_mangled(llvm)}.v{t.lanes}p0"
    b.module.declare(wide, name, [b.wide("ptr"), b.wide("i1"), wide])
    where = f"{b.wide('ptr')} align {align} {pointers}"
    return b.value(f"call {wide} @{name}({where}, {b.wide('i1')} {t.active()}, {wide} poison)")


def _masked_store(t: VectorTranslator, llvm: str, value: str, pointer: str, align: int) -> None:
    b, wide = t.b, t.b.wide(llvm)
    name = f"llvm.masked.store.v{t.lanes}{_mangled(llvm)}.p0"
    b.module.declare("void", name, [wide, "ptr", b.wide("i1")])
    b.line(f"call void @{name}({wide} {value}, ptr align {align} {pointer}, {b.wide('i1')} {t.active()})")


def _scatter(t: VectorTranslator, llvm: str, value: str, pointers: str, align: int) -> None:
    b, wide = t.b, t.b.wide(llvm)
    name = f"llvm.masked.scatter.v{t.lanes}{_mangled(llvm)}.v{t.lanes}p0"
    b.module.declare("void", name, [wide, b.wide("ptr"), b.wide("i1")])
    where = f"{b.wide('ptr')} align {align} {pointers}"
    b.line(f"call void @{name}({wide} {value}, {where}, {b.wide('i1')} {t.active()})")


def _unless_wrapped(t: VectorTranslator, address: str) -> tuple[str, str, str]:
    """Parts ways by whether the address wraps: labels of the even way, of the other, and of what follows."""
    labels = tuple(t.b.new_label(h) for h in ("even", "wrapped", "joined"))
    if isinstance(t.b.kind(address), Widened):
        t.b.branch_if(t.b.wraps(address), labels[1], labels[0], unlikely=False)
        t.b.label(labels[0])
    return labels  # type: ignore[return-value]


def _load_lanes(t: VectorTranslator, llvm: str, address: str, align: int) -> str:
    """One element for each active lane."""
    b = t.b
    if stride_of(t, address) != BITS[llvm] // 8:
        return b.varying(_gather(t, llvm, _pointers(t, address), align))
    _, wrapped, joined = _unless_wrapped(t, address)
    even = _masked_load(t, llvm, _pointer_to(t, address), align)
    if not isinstance(b.kind(address), Widened):
        return b.varying(even)
    wide = b.wide(llvm)
    slot = Builder.alloca(b, wide)
    b.line(f"store {wide} {even}, ptr {slot}")
    b.branch(joined)
    b.label(wrapped)
    b.line(f"store {wide} {_gather(t, llvm, _pointers(t, address), align)}, ptr {slot}")
    b.label(joined)
    return b.varying(b.value(f"load {wide}, ptr {slot}"))


def _store_lanes(t: VectorTranslator, llvm: str, value: str, address: str, align: int) -> None:
    b = t.b
    value = b.widen(llvm, value)
    if stride_of(t, address) != BITS[llvm] // 8:
        _scatter(t, llvm, value, _pointers(t, address), align)
        return
    _, wrapped, joined = _unless_wrapped(t, address)
    _masked_store(t, llvm, value, _pointer_to(t, address), align)
    if isinstance(b.kind(address), Widened):
        b.branch(joined)
        b.label(wrapped)
        _scatter(t, llvm, value, _pointers(t, address), align)
        b.label(joined)


# ---- several elements a lane ----


def _is_row(t: VectorTranslator, address: str, count: int, llvm: str) -> bool:
    """Whether the lanes' short vectors lie side by side."""
    return count > 1 and stride_of(t, address) == count * BITS[llvm] // 8


def _whole(t: VectorTranslator, address: str) -> tuple[str, str, str]:
    """Parts ways by whether all lanes are active and the address does not wrap."""
    b = t.b
    row, single, joined = (b.new_label(h) for h in ("row", "single", "joined"))
    good = b.value(f"icmp eq {t.bits} {t.active_bits()}, -1")
    if isinstance(b.kind(address), Widened):
        good = b.value(f"and i1 {good}, {b.value(f'xor i1 {b.wraps(address)}, true')}")
    b.branch_if(good, row, single)
    b.label(row)
    return row, single, joined


def _load_row(t: VectorTranslator, llvm: str, address: str, count: int, align: int) -> list[str]:
    """Short vectors side by side: one wide load, taken apart."""
    b, wide, total = t.b, t.b.wide(llvm), t.lanes * count
    slots = [Builder.alloca(b, wide) for _ in range(count)]
    _, single, joined = _whole(t, address)
    row = f"<{total} x {llvm}>"
    whole = b.value(f"load {row}, ptr {_pointer_to(t, address)}, align {align}")
    for k, slot in enumerate(slots):
        order = ", ".join(f"i32 {lane * count + k}" for lane in range(t.lanes))
        part = b.value(f"shufflevector {row} {whole}, {row} poison, <{t.lanes} x i32> <{order}>")
        b.line(f"store {wide} {part}, ptr {slot}")
    b.branch(joined)
    b.label(single)
    for k, slot in enumerate(slots):
        at = b.binary("add", "i64", address, str(k * BITS[llvm] // 8))
        b.line(f"store {wide} {_gather(t, llvm, _pointers(t, at), align)}, ptr {slot}")
    b.label(joined)
    return [b.varying(b.value(f"load {wide}, ptr {slot}")) for slot in slots]


def _store_row(t: VectorTranslator, llvm: str, values: list[str], address: str, align: int) -> None:
    b, count, total = t.b, len(values), t.lanes * len(values)
    values = [b.widen(llvm, v) for v in values]
    _, single, joined = _whole(t, address)
    b.line(f"store <{total} x {llvm}> {_interleaved(t, llvm, values)}, ptr {_pointer_to(t, address)}, align {align}")
    b.branch(joined)
    b.label(single)
    for k, value in enumerate(values):
        at = b.binary("add", "i64", address, str(k * BITS[llvm] // 8))
        _scatter(t, llvm, value, _pointers(t, at), align)
    b.label(joined)
    assert count in (2, 4, 8)


def _interleaved(t: VectorTranslator, llvm: str, values: list[str]) -> str:
    """Two, four or eight vectors as one, an element of each in turn."""
    width = t.lanes
    while len(values) > 1:
        half = len(values) // 2
        order = ", ".join(f"i32 {k // 2 + (k % 2) * width}" for k in range(2 * width))
        narrow, wide = f"<{width} x {llvm}>", f"<{2 * width} x i32>"
        # Interleaving k with k + half, over and over, ends in the right order.
        values = [
            t.b.value(f"shufflevector {narrow} {values[k]}, {narrow} {values[k + half]}, {wide} <{order}>")
            for k in range(half)
        ]
        width *= 2
    return values[0]


# ---- instructions ----


@TABLE("ld", "ldu")
def load(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Loads of one element or of a short vector."""
    type_ = m.type()
    count = vector_length(m)
    space = space_of(m)
    order = order_of(t, m, i)
    drop_hints(m)
    if type_ == "pred":
        raise malformed(i, "predicates cannot be loaded")
    llvm = vector(type_)
    if llvm == "i128":
        raise Unsuitable("an access of 128 bits")
    where = place(t, t.operand(1), space, count * BITS[llvm] // 8, Access.READ)
    align = BITS[llvm] // 8
    if where.pointer or t.b.is_uniform(where.address):
        values = _load_uniform(t, llvm, where, count, order, space)
    elif order:
        values = _load_strong(t, llvm, where.address, count, order)
    elif _is_row(t, where.address, count, llvm):
        values = _load_row(t, llvm, where.address, count, align)
    else:
        values = [
            _load_lanes(t, llvm, t.b.binary("add", "i64", where.address, str(k * align)) if k else where.address, align)
            for k in range(count)
        ]
    for item, value in zip(elements(t.operand(0), count, i), values):
        t.write(item, type_, value, loose=True)


def _load_uniform(t: VectorTranslator, llvm: str, where: Place, count: int, order: str, space: str) -> list[str]:
    pointer = _pointer(t, where)
    align = BITS[llvm] // 8
    before, behind = ("atomic volatile ", f" {order}, align {align}") if order else ("", f", align {align}")
    if space == "param" and where.pointer:
        behind += ", !invariant.load !0"
    return [t.b.value(f"load {before}{llvm}, ptr {t.b.offset(pointer, k * align)}{behind}") for k in range(count)]


def _load_strong(t: VectorTranslator, llvm: str, address: str, count: int, order: str) -> list[str]:
    """volatile, relaxed and acquire: one lane after the other."""
    b, align = t.b, BITS[llvm] // 8
    places = t.spill("i64", address)
    results = [t.lane_memory(llvm) for _ in range(count)]

    def one(lane: str) -> None:
        at = t.lane_address(places, lane)
        for k, result in enumerate(results):
            value = b.value(f"load atomic volatile {llvm}, ptr {b.offset(at, k * align)} {order}, align {align}")
            t.b.store(llvm, value, t.lane_pointer(result, llvm, lane))

    t.each_lane(one)
    return [b.varying(b.value(f"load {b.wide(llvm)}, ptr {result}")) for result in results]


@TABLE("st")
def store(t: VectorTranslator, i: Instruction, m: Modifiers) -> None:
    """Stores of one element or of a short vector. Where all lanes store to one place the last one's value stays."""
    type_ = m.type()
    count = vector_length(m)
    space = space_of(m)
    order = order_of(t, m, i)
    drop_hints(m)
    llvm = vector(type_)
    if llvm == "i128":
        raise Unsuitable("an access of 128 bits")
    values = [t.read(item, type_, loose=True) for item in elements(t.operand(1), count, i)]
    where = place(t, t.operand(0), space, count * BITS[llvm] // 8, Access.WRITE)
    align = BITS[llvm] // 8
    if where.pointer or t.b.is_uniform(where.address):
        pointer = _pointer(t, where)
        before, behind = ("atomic volatile ", f" {order}") if order else ("", "")
        for k, value in enumerate(values):
            at = t.b.offset(pointer, k * align)
            t.b.line(f"store {before}{llvm} {_last(t, llvm, value)}, ptr {at}{behind}, align {align}")
    elif order:
        _store_strong(t, llvm, values, where.address, order)
    elif _is_row(t, where.address, count, llvm):
        _store_row(t, llvm, values, where.address, align)
    else:
        for k, value in enumerate(values):
            at = t.b.binary("add", "i64", where.address, str(k * align)) if k else where.address
            _store_lanes(t, llvm, value, at, align)


def _last(t: VectorTranslator, llvm: str, value: str) -> str:
    """The value of the highest active lane."""
    b = t.b
    if b.is_uniform(value):
        return value
    zeros = Builder.call(b, t.bits, f"llvm.ctlz.{t.bits}", [(t.bits, t.active_bits()), ("i1", "true")])
    lane = b.value(f"sub {t.bits} {t.lanes - 1}, {zeros}")
    return b.value(f"extractelement {b.wide(llvm)} {b.widen(llvm, value)}, {t.bits} {lane}")


def _store_strong(t: VectorTranslator, llvm: str, values: list[str], address: str, order: str) -> None:
    b, align = t.b, BITS[llvm] // 8
    places = t.spill("i64", address)
    spilled = [t.spill(llvm, value) for value in values]

    def one(lane: str) -> None:
        at = t.lane_address(places, lane)
        for k, source in enumerate(spilled):
            value = t.b.load(llvm, t.lane_pointer(source, llvm, lane))
            b.line(f"store atomic volatile {llvm} {value}, ptr {b.offset(at, k * align)} {order}, align {align}")

    t.each_lane(one)

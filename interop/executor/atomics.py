"""Atomics and fences. Several operating-system threads run blocks, so global atomics are the host's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import halves
from .convert import is_shared
from .errors import malformed, unsupported
from .floats import Options, operate
from .memory import SCOPES, address, drop_hints, elements, require_alignment, space_of
from .modifiers import Modifiers
from .records import Access
from .table import Table
from .types import BITS, FLOATS, HALVES, PACKED, is_signed, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

OPERATIONS = ("add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec")
ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}


@TABLE("atom", "red")
def atom(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Read, modify, write. `red` is the same without a result. Elements of a vector are updated one by one."""
    type_ = m.type()
    operation = m.take(*OPERATIONS)
    space = space_of(m)
    order = ORDERS[m.take(*ORDERS, default="relaxed")]
    m.take(*SCOPES)
    m.flag("noftz")
    drop_hints(m)
    count = int(m.take("v2", "v4", "v8", default="v1")[1:])
    first = 0 if i.opcode == "red" else 1
    if not operation:
        raise malformed(i, "the operation is missing")
    bytes_ = BITS[vector(type_)] // 8
    pointer = address(t, t.operand(first), space, count * bytes_, Access.UPDATE)
    if bytes_ == 16:
        require_alignment(t, pointer, bytes_)
    if operation == "cas":
        given = (t.read(t.operand(first + k), type_) for k in (1, 2))
        results = [compare_and_swap(t, type_, pointer, order, *given)]
    else:
        sources = elements(t.operand(first + 1), count, i)
        values = [t.read(source, type_) for source in sources]
        places = [t.b.offset(pointer, k * bytes_) for k in range(count)]
        results = [modify(t, i, operation, type_, space, at, order, value) for at, value in zip(places, values)]
    if i.opcode == "atom":
        for destination, old in zip(elements(t.operand(0), count, i), results):
            t.write(destination, type_, old)


def _size(llvm: str) -> int:
    return BITS[llvm] // 8


def compare_and_swap(t: Translator, type_: str, pointer: str, order: str, expected: str, desired: str) -> str:
    """Stores `desired` where `expected` was; what was there before."""
    return _cmpxchg(t, vector(type_), pointer, expected, desired, order)[0]


def _cmpxchg(t: Translator, llvm: str, pointer: str, old: str, new: str, order: str) -> tuple[str, str]:
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    pair = t.b.value(f"cmpxchg ptr {pointer}, {llvm} {old}, {llvm} {new} {order} {failure}, align {_size(llvm)}")
    kind = f"{{ {llvm}, i1 }}"
    return t.b.extract_value(kind, pair, 0), t.b.extract_value(kind, pair, 1)


def modify(
    t: Translator, i: Instruction, operation: str, type_: str, space: str, pointer: str, order: str, value: str
) -> str:
    """Any operation but `cas`; what was there before."""
    llvm = vector(type_)
    if type_ in HALVES or type_ in PACKED:
        if operation not in ("add", "min", "max"):
            raise unsupported(i)
        return _retry(t, llvm, pointer, order, lambda old: _half(t, operation, type_, old, value))
    if type_ in FLOATS:
        if operation != "add":
            raise unsupported(i)
        add = _add_f64 if type_ == "f64" else _add_f32
        return _retry(t, llvm, pointer, order, lambda old: add(t, space, pointer, old, value))
    if _size(llvm) == 16 and operation != "exch":
        raise unsupported(i)
    if operation in ("min", "max"):
        name = ("" if is_signed(type_) else "u") + operation
    else:
        name = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}.get(operation, operation)
    return t.b.value(f"atomicrmw {name} ptr {pointer}, {llvm} {value} {order}, align {_size(llvm)}")


def _half(t: Translator, operation: str, type_: str, old: str, value: str) -> str:
    plain = Instruction(operation, (type_,), ())
    if type_ not in PACKED:
        return operate(t, plain, type_, [old, value], Options())
    pairs = zip(halves.split(t, old, type_), halves.split(t, value, type_))
    return halves.join(t, [operate(t, plain, PACKED[type_], pair, Options()) for pair in pairs], type_)


def _add_f32(t: Translator, space: str, pointer: str, old: str, value: str) -> str:
    """In global memory subnormal numbers are zeros, in shared memory they are not (PTX ISA, "atom"). One NaN."""
    b = t.b
    plain = Instruction("add", ("f32",), ())
    result = ""
    if space != "shared":
        result = operate(t, plain, "f32", [old, value], Options(flush=True))
    if space in ("", "shared"):
        kept = operate(t, plain, "f32", [old, value], Options())
        result = b.select(is_shared(t, b.integer_of(pointer)), "float", kept, result) if result else kept
    return b.select(b.compare("uno", "float", result, "0.0"), "float", "0x7FFFFFFFE0000000", result)


def _add_f64(t: Translator, space: str, pointer: str, old: str, value: str) -> str:
    """As on an H200: in global memory a NaN stays as it is, the one that is added before the one that is there."""
    b = t.b
    nan = b.compare("uno", "double", old, "0.0")
    total = b.binary("fadd", "double", old, value)
    total = b.select(nan, "double", b.binary("fadd", "double", old, old), total)  # of two NaNs the first, quiet
    if space == "shared":
        return total
    kept = b.select(nan, "double", old, total)
    kept = b.select(b.compare("uno", "double", value, "0.0"), "double", value, kept)
    return kept if space else b.select(is_shared(t, b.integer_of(pointer)), "double", total, kept)


def _retry(t: Translator, llvm: str, pointer: str, order: str, update: Callable[[str], str]) -> str:
    """What the host has no instruction for: compare-and-swap until nobody came between."""
    b = t.b
    bits = f"i{BITS[llvm]}"
    slot = b.alloca(bits)
    b.store(bits, b.value(f"load atomic {bits}, ptr {pointer} monotonic, align {_size(llvm)}"), slot)
    again, behind = b.new_label("again"), b.new_label("done")
    b.label(again)
    old = b.load(bits, slot)
    value = b.bitcast(old, bits, llvm)
    new = b.bitcast(update(value), llvm, bits)
    seen, won = _cmpxchg(t, bits, pointer, old, new, order)
    b.store(bits, seen, slot)
    b.branch_if(won, behind, again)
    b.label(behind)
    return value


@TABLE("membar", "fence")
def fence(t: Translator, i: Instruction, m: Modifiers) -> None:
    """All fences are the strongest one. Proxies and clusters have no counterpart on a host."""
    m.drop("mbarrier_init")
    kind = m.take("sc", "acq_rel", "acquire", "release", "proxy", default="sc")
    if kind == "proxy":
        if not m.flag("alias") and not m.flag("async") and not m.flag("async::generic"):
            raise unsupported(i, "only the proxies .alias and .async have a meaning here")
        m.drop("global", "shared::cta", "shared::cluster", "acquire", "release")
    m.drop("gl", *SCOPES)
    m.drop_prefixes("sync_restrict")
    t.b.line("fence seq_cst")

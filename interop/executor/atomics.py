"""Atomics and fences. Several operating-system threads run blocks, so global atomics are the host's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import halves
from .convert import is_shared
from .errors import unsupported
from .floats import Options, operate
from .memory import SCOPES, address, drop_hints, space_of
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
    """Read, modify, write. `red` is the same without a result."""
    type_ = m.type()
    operation = m.take(*OPERATIONS)
    space = space_of(m)
    order = ORDERS[m.take(*ORDERS, default="relaxed")]
    m.take(*SCOPES)
    m.flag("noftz")
    drop_hints(m)
    if not operation or type_ == "b128" or isinstance(t.operand(0), ast.Vector):
        raise unsupported(i)
    first = 0 if i.opcode == "red" else 1
    pointer = address(t, t.operand(first), space, BITS[vector(type_)] // 8, Access.UPDATE)
    if operation == "cas":
        given = (t.read(t.operand(first + k), type_) for k in (1, 2))
        old = compare_and_swap(t, type_, pointer, order, *given)
    else:
        old = modify(t, i, operation, type_, pointer, order, t.read(t.operand(first + 1), type_))
    if i.opcode == "atom":
        t.write(t.operand(0), type_, old)


def _size(llvm: str) -> int:
    return {"i16": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}[llvm]


def compare_and_swap(t: Translator, type_: str, pointer: str, order: str, expected: str, desired: str) -> str:
    """Stores `desired` where `expected` was; what was there before."""
    return _cmpxchg(t, vector(type_), pointer, expected, desired, order)[0]


def _cmpxchg(t: Translator, llvm: str, pointer: str, old: str, new: str, order: str) -> tuple[str, str]:
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    pair = t.b.value(f"cmpxchg ptr {pointer}, {llvm} {old}, {llvm} {new} {order} {failure}, align {_size(llvm)}")
    kind = f"{{ {llvm}, i1 }}"
    return t.b.extract_value(kind, pair, 0), t.b.extract_value(kind, pair, 1)


def modify(t: Translator, i: Instruction, operation: str, type_: str, pointer: str, order: str, value: str) -> str:
    """Any operation but `cas`; what was there before."""
    llvm = vector(type_)
    if type_ in HALVES or type_ in PACKED:
        if operation not in ("add", "min", "max"):
            raise unsupported(i)
        return _retry(t, operation, type_, pointer, order, value)
    if type_ in FLOATS:
        if operation != "add":
            raise unsupported(i)
        if type_ == "f32":
            return _retry(t, operation, type_, pointer, order, value, _flushes(t, i, pointer))
        name = "fadd"
    elif operation in ("min", "max"):
        name = ("" if is_signed(type_) else "u") + operation
    else:
        name = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}.get(operation, operation)
    return t.b.value(f"atomicrmw {name} ptr {pointer}, {llvm} {value} {order}, align {_size(llvm)}")


def _flushes(t: Translator, i: Instruction, pointer: str) -> str:
    """Whether subnormals count as zero: for f32 they do in global memory, not in shared memory (PTX ISA, atom)."""
    if any(modifier.startswith("shared") for modifier in i.modifiers):
        return "false"
    if "global" in i.modifiers:
        return "true"
    return t.b.binary("xor", "i1", is_shared(t, t.b.integer_of(pointer)), "true")


def _retry(
    t: Translator, operation: str, type_: str, pointer: str, order: str, value: str, flushes: str = "false"
) -> str:
    """Half formats and f32: compare-and-swap until nobody came between."""
    b = t.b
    llvm = {"f32": "i32"}.get(type_, vector(type_))
    slot = b.alloca(llvm)
    b.store(llvm, b.value(f"load atomic {llvm}, ptr {pointer} monotonic, align {_size(llvm)}"), slot)
    again, behind = b.new_label("again"), b.new_label("done")
    b.label(again)
    old = b.load(llvm, slot)
    plain = Instruction(operation, (type_,), ())
    if type_ in PACKED:
        pairs = zip(halves.split(t, old, type_), halves.split(t, value, type_))
        new = halves.join(t, [operate(t, plain, PACKED[type_], pair, Options()) for pair in pairs], type_)
    elif type_ == "f32":
        terms = [b.bitcast(old, llvm, "float"), value]
        new = operate(t, plain, type_, terms, Options())
        if flushes != "false":
            new = b.select(flushes, "float", operate(t, plain, type_, terms, Options(flush=True)), new)
        new = b.bitcast(new, "float", llvm)
    else:
        new = operate(t, plain, type_, [old, value], Options())
    seen, won = _cmpxchg(t, llvm, pointer, old, new, order)
    b.store(llvm, seen, slot)
    b.branch_if(won, behind, again)
    b.label(behind)
    return b.bitcast(old, llvm, vector(type_))


@TABLE("membar", "fence")
def fence(t: Translator, i: Instruction, m: Modifiers) -> None:
    """All fences are the strongest one. Proxies and clusters have no counterpart on a host."""
    m.drop("mbarrier_init")
    m.drop("sc", "acq_rel", "acquire", "release", "gl", "proxy", "alias", "async", *SCOPES)
    m.drop_prefixes("async", "sync_restrict")
    t.b.line("fence seq_cst")

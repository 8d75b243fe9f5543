"""Loads and stores of all state spaces, prefetches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from . import bounds
from .errors import malformed, unsupported
from .modifiers import Modifiers
from .records import Access
from .scopes import Memory, Register
from .table import Table
from .types import BITS, vector

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

SPACES = (
    "global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry", "param::func",
)  # fmt: skip
SCOPES = ("cta", "cluster", "gpu", "sys")
# How a value may be cached: of no consequence here.
_CACHING = ("ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "unified", "weak")
_ORDERS = {"volatile": "monotonic", "relaxed": "monotonic", "acquire": "acquire", "release": "release"}


def space_of(m: Modifiers) -> str:
    """The state space of an access, without the part behind ``::``; empty for generic."""
    return m.take(*SPACES).split("::")[0]


def drop_hints(m: Modifiers) -> None:
    """Takes cache hints, prefetch sizes and eviction priorities."""
    m.drop(*_CACHING)
    m.drop_prefixes("L1::", "L2::")


def address(t: Translator, operand: ast.Operand, space: str, size: int = 0, access: Access | None = None) -> str:
    """The host pointer of a memory operand, checked for an `access` to `size` bytes."""
    if not isinstance(operand, ast.Address) or len(operand.items) != 1:
        raise malformed(t.instruction, "an address is expected here")
    base, offset = operand.base, 0
    while isinstance(base, ast.Offset):
        offset += base.offset
        base = base.base
    if isinstance(base, ast.Integer) and space == "shared" and access is not None:
        bounds.check_shared(t, t.read(ast.Integer(base.value + offset), "u64"), size, access)
    if isinstance(base, ast.Integer):
        return t.b.offset(t.shared if space == "shared" else t.zero, base.value + offset)
    if not isinstance(base, ast.Name):
        raise malformed(t.instruction, "an address is a register or a variable, plus a constant")
    binding = t.lookup(base.text)
    if isinstance(binding, Memory):
        pointer = _variable(t, binding, space, offset)
        if access is not None:
            bounds.check_variable(t, binding, offset, size, access)
        return pointer
    if not isinstance(binding, Register):
        raise malformed(t.instruction, f"{base.text} is not declared")
    register = vector(binding.type)
    if register not in ("i32", "i64"):
        raise malformed(t.instruction, f"{base.text} is no address register")
    window = t.shared if space == "shared" else t.window.pointer if space == "local" else ""
    if register == "i32" and not window:
        raise unsupported(t.instruction, "a 32-bit address")
    value = t.b.load(register, binding.pointer)
    if offset:  # in the width of the address: offsets into windows wrap at 32 bits
        value = t.b.binary("add", register, value, t.read(ast.Integer(offset), "s32" if register == "i32" else "s64"))
    value = t.b.resize(value, register, "i64")
    if access is not None:
        absolute = t.b.binary("add", "i64", value, t.b.integer_of(window)) if window and space == "local" else value
        bounds.check_address(t, base.text, absolute, space, size, access)
    if window:
        return t.b.offset(window, value)
    # LLVM reckons that a pointer computed from one which was loaded at the function's entry cannot point to a variable
    # whose address is taken later.
    if t.plan.own_memory and space in ("", "local", "param"):
        return t.b.pointer_of(value)
    return t.b.offset(t.zero, value)


def _variable(t: Translator, memory: Memory, space: str, offset: int) -> str:
    """A variable named in an address. Where the instruction has no state space, the variable's is meant."""
    if space and space != memory.space:
        raise malformed(t.instruction, f"{memory.variable.name} is in .{memory.space} memory")
    if memory.space == "shared":
        return t.b.offset(t.shared, memory.offset + offset)
    return t.b.offset(memory.pointer, offset)


def order_of(t: Translator, m: Modifiers, i: Instruction) -> str:
    """LLVM's ordering of a strong access; empty for a weak one."""
    if m.flag("mmio") and "relaxed" not in m.rest:
        raise malformed(i, ".mmio comes with .relaxed")
    order = _ORDERS.get(m.take(*_ORDERS), "")
    m.take(*SCOPES)
    return order


def elements(operand: ast.Operand, count: int, i: Instruction) -> tuple[ast.Operand, ...]:
    """The registers of a short vector, or the one register."""
    items = operand.items if isinstance(operand, ast.Vector) else (operand,)
    if len(items) != count:
        raise malformed(i, f"{count} elements are expected")
    return items


def require_alignment(t: Translator, pointer: str, bytes_: int) -> None:
    """Stops the kernel at an address that is no multiple of `bytes_`, where the host's instruction would fault."""
    b = t.b
    address_ = b.integer_of(pointer)
    odd, on = b.new_label("misaligned"), b.new_label("aligned")
    rest = b.binary("and", "i64", address_, str(bytes_ - 1))
    b.branch_if(b.compare("ne", "i64", rest, "0"), odd, on, unlikely=True)
    b.label(odd)
    arguments = [("ptr", "%blk"), *t.thread_ids(), ("i32", str(t.instruction.line)), ("i64", address_)]
    b.helper("void", "misaligned", [*arguments, ("i32", str(bytes_))])
    b.terminate("unreachable")
    b.label(on)


def vector_length(m: Modifiers) -> int:
    """How many elements an access has; takes the modifier."""
    return int(m.take("v2", "v4", "v8", default="v1")[1:])


def _suffix(t: Translator, llvm: str, order: str, space: str) -> tuple[str, str]:
    """What stands before and behind a load or store: ordering, alignment, the loop's access group."""
    align = max(BITS[llvm] // 8, 1)
    if order:
        return "atomic volatile ", f" {order}, align {align}"
    align = min(align, 8)  # a host has instructions for 16 bytes that do without
    # Only what other threads can reach is annotated: parameters never change, and local memory rules the loop out.
    return "", f", align {align}" + (t.access if space != "param" else "")


@TABLE("ld", "ldu")
def load(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Loads, of one element or of a vector; narrow values are extended to the register."""
    type_ = m.type()
    count = vector_length(m)
    space = space_of(m)
    order = order_of(t, m, i)
    drop_hints(m)
    if type_ == "pred":
        raise malformed(i, "predicates cannot be loaded")
    llvm = vector(type_)
    pointer = address(t, t.operand(1), space, count * BITS[llvm] // 8, Access.READ)
    before, behind = _suffix(t, llvm, order, space)
    if order and BITS[llvm] == 128:
        require_alignment(t, pointer, 16)
    if space == "param" and t.frame.function.is_entry and _is_kernel_parameter(t, t.operand(1)):
        behind += ", !invariant.load !0"
    values = []
    for index in range(count):
        at = t.b.offset(pointer, index * BITS[llvm] // 8)
        values.append(t.b.value(f"load {before}{llvm}, ptr {at}{behind}"))
    for item, value in zip(elements(t.operand(0), count, i), values):
        t.write(item, type_, value, loose=True)


def _is_kernel_parameter(t: Translator, operand: ast.Operand) -> bool:
    base = operand.base if isinstance(operand, ast.Address) else operand
    while isinstance(base, ast.Offset):
        base = base.base
    binding = t.lookup(base.text) if isinstance(base, ast.Name) else None
    return isinstance(binding, Memory) and any(binding.variable is p for p in t.plan.function.params)


@TABLE("st")
def store(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Stores; wider registers are truncated."""
    type_ = m.type()
    count = vector_length(m)
    space = space_of(m)
    order = order_of(t, m, i)
    drop_hints(m)
    llvm = vector(type_)
    values = [t.read(item, type_, loose=True) for item in elements(t.operand(1), count, i)]
    pointer = address(t, t.operand(0), space, count * BITS[llvm] // 8, Access.WRITE)
    before, behind = _suffix(t, llvm, order, space)
    if order and BITS[llvm] == 128:
        require_alignment(t, pointer, 16)
    for index, value in enumerate(values):
        at = t.b.offset(pointer, index * BITS[llvm] // 8)
        t.b.line(f"store {before}{llvm} {value}, ptr {at}{behind}")


@TABLE("prefetch", "prefetchu", "applypriority", "discard")
def prefetch(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Advice about caches: nothing to do."""
    m.rest.clear()

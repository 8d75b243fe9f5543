"""Bounds checks: each access to memory through a register is compared with what the kernel may touch.

Every access to global memory or through a generic address has a *site*, a base and a count in memory of the worker. An
address within them goes on; any other asks ``cpu_bounds`` of the C runtime, which looks through the buffers of the
launch, and either writes the one that it has found into the site or ends the launch. Shared memory has one window,
whose size is known. Named variables with an offset inside them need no check, and addresses that may come from memory
get none (:mod:`.provenance`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Function, Module, ast

from .provenance import MEMORY, Provenance
from .records import SITE_BYTES, Access, BlockField

if TYPE_CHECKING:
    from .scopes import Memory
    from .translator import Translator


class Checks:
    """What one kernel's translation knows of its checks. ``sites`` counts those that have been given out."""

    def __init__(self, enabled: bool, module: Module, kernel: Function, reachable: tuple[Function, ...]) -> None:
        self.enabled = enabled
        self.sites = 0
        self.addresses: set[int] = set()  # the kernel's parameters that become addresses which are checked
        self._parts = module, kernel, reachable
        self._provenance: Provenance | None = None

    def new_site(self) -> int:
        """The number of a new site."""
        self.sites += 1
        return self.sites - 1

    def checkable(self, function: Function, register: str) -> bool:
        """Whether an address in `register` may be compared with the buffers of a launch."""
        if self._provenance is None:
            self._provenance = Provenance(*self._parts)
        origins = self._provenance.origins(function, register)
        if origins == 0 or origins & MEMORY:
            return False
        self.addresses.update(self._provenance.parameters(origins))
        return True


def check_address(t: Translator, register: str, value: str, space: str, size: int, access: Access) -> None:
    """The check of `size` bytes at the address `value` (i64; in shared memory an offset), held by `register`."""
    checks = t.plan.checks
    if not checks.enabled:
        return
    if space == "shared":
        check_shared(t, value, size, access)
    elif space in ("local", "param"):
        check_site(t, value, size, access + Access.LOCAL)
    elif t.checkable(register):
        check_site(t, value, size, access)


def check_variable(t: Translator, memory: Memory, offset: int, size: int, access: Access) -> None:
    """The check of an access to a variable by its name: none where the offset, a constant, lies inside."""
    if not t.plan.checks.enabled or 0 <= offset <= memory.variable.size - size:
        return
    if memory.space == "shared":
        check_shared(t, str(memory.offset + offset), size, access)
        return
    value = t.b.cast("ptrtoint", t.b.offset(memory.pointer, offset), "ptr", "i64")
    check_site(t, value, size, access + (Access.LOCAL if memory.space in ("local", "param") else 0))


def check_span(t: Translator, operand: ast.Operand, address: str, count: str, access: Access) -> None:
    """The check of an access to `count` (i32) bytes, none if that is 0: of the first and of the last byte."""
    base = operand.base if isinstance(operand, ast.Address) else operand
    while isinstance(base, ast.Offset):
        base = base.base
    if not t.plan.checks.enabled or not isinstance(base, ast.Name) or not t.checkable(base.text):
        return
    b = t.b
    some, behind = b.new_label("some"), b.new_label("behind")
    b.branch_if(b.compare("ne", "i32", count, "0"), some, behind)
    b.label(some)
    check_site(t, address, 1, access)
    last = b.binary("sub", "i64", b.binary("add", "i64", address, b.resize(count, "i32", "i64")), "1")
    check_site(t, last, 1, access)
    b.label(behind)


def check_shared(t: Translator, offset: str, size: int, access: Access) -> None:
    """`offset` (i64) and what follows within the block's shared memory."""
    b = t.b
    whole = b.resize(t.block_field("i32", BlockField.SHARED_BYTES), "i32", "i64")
    past = b.intrinsic("usub.sat", "i64", whole, str(size - 1))  # the first offset that is too far
    outside = b.compare("uge", "i64", offset, past)
    _ask(t, outside, 0, offset, size, access + Access.SHARED)


def check_site(t: Translator, value: str, size: int, access: int) -> None:
    """The check of `size` bytes at the address `value` (i64) by a site of its own."""
    b = t.b
    site = t.plan.checks.new_site()
    at = b.offset(t.block_field("ptr", BlockField.SITES), SITE_BYTES * site)
    base, count = b.load("i64", at), b.load("i64", b.offset(at, 8))
    outside = b.compare("uge", "i64", b.binary("sub", "i64", value, base), count)
    _ask(t, outside, site, value, size, access)


def _ask(t: Translator, outside: str, site: int, value: str, size: int, access: int) -> None:
    """Asks the runtime where `outside` holds; it does not come back when the access is not allowed."""
    b = t.b
    ask, on = b.new_label("ask"), b.new_label("inside")
    b.branch_if(outside, ask, on, unlikely=True)
    b.label(ask)
    numbers = [("i32", str(size)), ("i32", str(int(access)))]
    line = ("i32", str(t.instruction.line))
    b.helper("void", "bounds", [("ptr", "%blk"), ("i32", str(site)), ("i64", value), *numbers, *t.thread_ids(), line])
    b.label(on)

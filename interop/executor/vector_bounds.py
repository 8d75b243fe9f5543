"""The vector path's bounds checks: one for a whole strand where its lanes lie evenly spaced, else one comparison of
vectors. The runtime is asked lane by lane only when that misses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bounds
from .builder import Builder
from .records import SITE_BYTES, Access, BlockField
from .vector_kinds import Affine, Widened

if TYPE_CHECKING:
    from .vector_translator import VectorTranslator


def check_lanes(t: VectorTranslator, register: str, value: str, space: str, size: int, access: Access) -> None:
    """The check of `size` bytes at each active lane's address (i64; in shared memory an offset), held by `register`."""
    checks = t.plan.checks
    if not checks.enabled:
        return
    kind = int(access)
    if space == "shared":
        kind += Access.SHARED
    elif space in ("local", "param"):
        kind += Access.LOCAL
    elif not t.checkable(register):
        return
    if t.b.is_uniform(value):
        if space == "shared":
            bounds.check_shared(t, value, size, access)
        else:
            bounds.check_site(t, value, size, kind)
        return
    site = 0 if space == "shared" else checks.new_site()
    _check(t, value, site, size, kind)


def _limits(t: VectorTranslator, site: int, size: int, kind: int) -> tuple[str, str]:
    """The first address that may be accessed and how many may."""
    b = t.b
    if kind & Access.SHARED:
        whole = b.resize(t.block_field("i32", BlockField.SHARED_BYTES), "i32", "i64")
        return "0", b.intrinsic("usub.sat", "i64", whole, str(size - 1))
    at = b.offset(t.block_field("ptr", BlockField.SITES), SITE_BYTES * site)
    return b.load("i64", at), b.load("i64", b.offset(at, 8))


def _check(t: VectorTranslator, value: str, site: int, size: int, kind: int) -> None:
    b = t.b
    first, count = _limits(t, site, size, kind)
    stride = stride_of(t, value)
    if stride is None:
        distance = value if first == "0" else b.binary("sub", "i64", value, first)
        each = t.bits_of(b.compare("uge", "i64", distance, count))
        outside = b.compare("ne", t.bits, b.binary("and", t.bits, each, t.active_bits()), "0")
    else:
        low = b.first(value)
        distance = low if first == "0" else Builder.binary(b, "sub", "i64", low, first)
        last = Builder.binary(b, "add", "i64", distance, str(stride * (t.lanes - 1)))
        outside = Builder.binary(
            b,
            "or",
            "i1",
            Builder.compare(b, "uge", "i64", distance, count),
            Builder.compare(b, "uge", "i64", last, count),
        )
        if isinstance(b.kind(value), Widened):
            outside = Builder.binary(b, "or", "i1", outside, b.wraps(value))
    ask, on = b.new_label("ask"), b.new_label("inside")
    b.branch_if(outside, ask, on, unlikely=True)
    b.label(ask)
    if kind & Access.SHARED and stride is not None:
        value = b.binary("and", "i64", value, str(0xFFFFFFFF))  # as the register has it
    addresses = t.spill("i64", value)
    mask = Builder.resize(b, t.active_bits(), t.bits, "i32")
    numbers = [("i32", str(t.lanes)), ("i32", mask), ("i32", str(size)), ("i32", str(kind))]
    where = [("i32", "%tid.x.first"), ("i32", "%tid.y"), ("i32", "%tid.z"), ("i32", str(t.instruction.line))]
    Builder.helper(
        b, "void", "bounds_lanes", [("ptr", "%blk"), ("i32", str(site)), ("ptr", addresses), *numbers, *where]
    )
    b.label(on)


def stride_of(t: VectorTranslator, address: str) -> int | None:
    """Bytes from one lane's address to the next's; None where they are not evenly spaced."""
    kind = t.b.kind(address)
    if isinstance(kind, Affine):
        return kind.stride
    return kind.scale * kind.stride if isinstance(kind, Widened) else None

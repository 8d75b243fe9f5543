"""Compares a kernel's description with the image that it describes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from .cubin import read_cubin_params
from .errors import AbiMismatch, SymbolNotFound
from .layout import packing
from .ptx_signature import Entry, PtxSignatureError, read_entries
from .records import BlockKind, Image, ImageKind, Kernel, Slot
from .types import Bytes, Component, Scalar, Type

Demangle = Callable[[str], str]
"""Turns a mangled symbol into the name a person knows; the symbol itself where it is not mangled."""


class Verified(Enum):
    """How far :func:`verify` could compare."""

    LAYOUT = "layout"
    """Count, offsets, sizes, alignments, and numbers against PTX types."""
    SIZE = "size"
    """Count, offsets and sizes: what a cubin records."""
    NOT_VERIFIED = "not verified"
    """The image's form does not say what its parameters are."""


def verify(kernel: Kernel, image: Image, demangle: Demangle | None = None) -> Verified:
    """Raises when `kernel` is not what `image` holds, and says how far it was compared.

    :raises SymbolNotFound: the image has no kernel of that symbol; the message lists those it has.
    :raises AbiMismatch: the parameters differ; the message has both layouts side by side.
    """
    if image.kind is ImageKind.PTX:
        verify_entry(kernel, read_entries(_ptx_text(image)), demangle)
        return Verified.LAYOUT
    if image.kind is ImageKind.CUBIN:
        return _verify_cubin(kernel, image, demangle)
    if image.symbols and kernel.symbol not in image.symbols:
        raise SymbolNotFound(not_found_message(kernel.symbol, image.symbols, demangle))
    return Verified.NOT_VERIFIED


def verify_entry(kernel: Kernel, entries: dict[str, Entry], demangle: Demangle | None = None) -> None:
    """Like :func:`verify`, against entries that are read already."""
    entry = entries.get(kernel.symbol)
    if entry is None:
        raise SymbolNotFound(not_found_message(kernel.symbol, list(entries), demangle))
    theirs = [(p.slot, f"{p.type_text} {p.name}", p.kind) for p in entry.params]
    _compare(kernel, theirs, with_align=True)
    block = kernel.launch.block
    if entry.reqntid and (block.kind is not BlockKind.EXACT or block.dims != entry.reqntid):
        declared = f"{block.kind.value} {block.dims}" if block.kind is not BlockKind.ANY else "any block"
        raise AbiMismatch(
            f"{kernel.name}: the image runs with blocks of exactly {entry.reqntid} (.reqntid), "
            f"and the description says {declared}"
        )


def not_found_message(symbol: str, known: Iterable[str], demangle: Demangle | None = None) -> str:
    """The text of :class:`SymbolNotFound`: what the image has, nearest first.

    >>> print(not_found_message("saxpi", ["blur", "saxpy"]))
    the image has no kernel 'saxpi'; it has: saxpy, blur
    """
    readable = {name: demangle(name) if demangle else name for name in known}
    if not readable:
        return f"the image has no kernel '{symbol}'; it has no kernels at all"

    def likeness(name: str) -> float:
        forms = {name, readable[name], readable[name].split("(")[0].split("<")[0]}
        return max(difflib.SequenceMatcher(None, symbol[:200], form[:200]).ratio() for form in forms)

    order = sorted(readable, key=likeness, reverse=True) if len(readable) <= 2000 else sorted(readable)
    shown = [n if readable[n] == n else f"{readable[n]} ({n})" for n in order[:20]]
    more = f" and {len(order) - 20} more" if len(order) > 20 else ""
    return f"the image has no kernel '{symbol}'; it has: {', '.join(shown)}{more}"


def _ptx_text(image: Image) -> str:
    try:
        return image.text.rstrip("\0")
    except UnicodeDecodeError as error:
        line = image.data.count(b"\n", 0, error.start) + 1
        raise PtxSignatureError("the text is not UTF-8", line) from None


def _verify_cubin(kernel: Kernel, image: Image, demangle: Demangle | None) -> Verified:
    params = read_cubin_params(image.data)
    if params is None:
        return Verified.NOT_VERIFIED
    if kernel.symbol not in params:
        raise SymbolNotFound(not_found_message(kernel.symbol, list(params), demangle))
    found = params[kernel.symbol]
    if found is None:
        return Verified.NOT_VERIFIED
    _compare(kernel, [(slot, f"parameter {i}", "b") for i, slot in enumerate(found)], with_align=False)
    return Verified.SIZE


# -- comparison ----------------------------------------------------------------------------------------------------

_Theirs = Sequence[tuple[Slot, str, str]]  # slot, description, PTX kind letter


def _compare(kernel: Kernel, theirs: _Theirs, *, with_align: bool) -> None:
    ours = [(slot, text, kind) for slot, text, kind in _described(kernel)]
    for index in range(max(len(ours), len(theirs))):
        if index >= len(ours) or index >= len(theirs):
            problem = f"the description has {len(ours)} image parameters, and the image {len(theirs)}"
        else:
            problem = _difference(ours[index], theirs[index], with_align)
        if problem:
            table = side_by_side(ours, theirs, index, with_align)
            raise AbiMismatch(f"{kernel.name}: the description does not match the image: {problem}\n{table}")


def _difference(ours: tuple[Slot, str, str], theirs: tuple[Slot, str, str], with_align: bool) -> str:
    a, b = ours[0], theirs[0]
    fields = [("offset", a.offset, b.offset), ("size", a.size, b.size)]
    if with_align:
        fields.append(("alignment", a.align, b.align))
    for what, mine, other in fields:
        if mine != other:
            return f"{ours[1]} has {what} {mine}, and in the image it is {other}"
    if "f" in (ours[2], theirs[2]) and ours[2] != theirs[2] and "b" not in (ours[2], theirs[2]):
        return f"{ours[1]} and the image's {theirs[1]} are not the same kind of number"
    return ""


def _described(kernel: Kernel) -> list[tuple[Slot, str, str]]:
    """Each slot of the description with its text and kind: ``x.length``, ``a: f32``."""
    result = []
    for param in kernel.params:
        parts = packing(param)
        for slot in param.slots:
            inside = [c for c, offset, _ in parts if slot.offset <= offset < slot.offset + slot.size]
            whole = len(inside) != 1 or len(parts) == 1
            text = f"{param.name}: {param.type}" if whole else f"{param.name}.{component_text(inside[0])}"
            result.append((slot, text, _kind(param.type, len(inside))))
    return result


def _kind(type_: Type, values: int) -> str:
    """The PTX kind letter that a slot of `values` machine values should have; ``b`` where any may stand."""
    if isinstance(type_, Scalar):
        # Compilers write half-precision parameters as integers or bits.
        return {"float": "f" if type_.bits >= 32 else "b", "int": "s", "uint": "u", "bool": "u"}[type_.kind]
    return "u" if values == 1 and not isinstance(type_, Bytes) else "b"


def component_text(component: Component) -> str:
    """``pointer``, ``length``, ``dim(0)``, ``stride(1)``, ``value``."""
    if component.role in ("dim", "stride"):
        return f"{component.role}({component.axis})"
    return component.role


def side_by_side(ours: Sequence[tuple[Slot, str, str]], theirs: _Theirs, marked: int, with_align: bool = True) -> str:
    """Both layouts as an aligned table; the row of the first difference has an arrow."""
    rows = [("", "description", "offset", "size", "align", "image", "offset", "size", "align")]
    for index in range(max(len(ours), len(theirs))):
        left = _cells(ours[index] if index < len(ours) else None, True)
        right = _cells(theirs[index] if index < len(theirs) else None, with_align)
        rows.append(("->" if index == marked else "", left[0], *left[1:], right[0], *right[1:]))
    widths = [max(len(row[column]) for row in rows) for column in range(9)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, 1, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join([*cells[:5], "|", *cells[5:]]).rstrip())
    return "\n".join(lines)


def _cells(item: tuple[Slot, str, str] | None, with_align: bool) -> tuple[str, str, str, str]:
    if item is None:
        return "-", "", "", ""
    slot, text, _ = item
    return text[:60], str(slot.offset), str(slot.size), str(slot.align) if with_align else "?"

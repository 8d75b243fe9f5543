"""PTX of any producer to kernels: :func:`load_ptx`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from abi import AbiMismatch, Entry, ImageError, SymbolNotFound
from abi.ptx_signature import read_signatures
from abi.verify import not_found_message

from .cuda import read_text
from .demangle import CType, Indirect, Named, NotDemangled, Qualified, demangle
from .module import Module, ptx_image
from .prototype import Prototype, parse_prototypes
from .records import Provenance, programs
from .signature import typed_params


def load_ptx(source: str | os.PathLike[str], *, name: str | None = None, prototypes: str = "") -> Module:
    """The kernels of a PTX text or file.

    PTX tells the size of each parameter, and apart from floating-point numbers not its type. C++ symbols carry types;
    such kernels are checked like compiled ones. Others have the check level ``layout``: a 64-bit parameter takes any
    array or an integer. `prototypes`, C declarations such as ``void scale(float *y, float a, size_t n);``, give them
    types and names, ``@io.foreign`` a contract as well.

    >>> text = ".version 8.0 .target sm_80 .address_size 64 .entry _Z4fillPff(.param .u64 a, .param .f32 b) { ret; }"
    >>> from abi.show import python_signature
    >>> python_signature(load_ptx(text).fill.program().kernel)
    'fill(p0: InOut[f32], p1: f32)'
    """
    text, file = read_text(source, name, ".version")
    text = text.rstrip("\0")
    if "__global__" in text and not re.search(r"^\s*\.version\s", text, re.MULTILINE):
        raise ImageError(f"{file}: this is CUDA C++ and not PTX: load it with io.load_cuda")
    try:
        signatures = read_signatures(text)
    except ImageError as error:
        raise ImageError(f"{file}: {error}") from None
    entries = signatures.entries
    image = ptx_image(text, signatures.header, entries)
    types = {symbol: found for symbol in entries if (found := _types(symbol)) is not None}
    declared = parse_prototypes(prototypes)
    for prototype in declared.values():
        _check_prototype(prototype, entries, file)
        types[prototype.name] = prototype.types
    text = "\n".join(f"__global__ {prototype.text}" for prototype in declared.values())
    return Module(Path(file).name, programs(entries, image, Provenance("ptx", file, text), types))


def _check_prototype(prototype: Prototype, entries: dict[str, Entry], file: str) -> None:
    """Refuses a prototype that the image contradicts."""
    entry = entries.get(prototype.name)
    if entry is None:
        raise SymbolNotFound(not_found_message(prototype.name, list(entries)))
    if typed_params(prototype.types, entry, None) is None:
        theirs = ", ".join(f"{p.type_text} ({p.slot.size} bytes at {p.slot.offset})" for p in entry.params)
        raise AbiMismatch(
            f"{file}: the prototype and the image disagree about {prototype.name}\n"
            f"  prototype  {prototype.text}\n  image      {prototype.name}({theirs})"
        )


def _types(symbol: str) -> Sequence[CType] | None:
    try:
        found = demangle(symbol)
    except NotDemangled:
        return None
    # A template's parameters may depend on its arguments in ways that only its compiler resolves.
    return None if found.template_args and not _plain(found.params) else found.params


def _plain(params: Sequence[CType]) -> bool:
    def plain(type_: CType) -> bool:
        if isinstance(type_, Qualified):
            return plain(type_.inner)
        return isinstance(type_, Indirect) or (isinstance(type_, Named) and type_.builtin)

    return all(plain(type_) for type_ in params)

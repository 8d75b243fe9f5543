"""PTX of any producer to kernels: :func:`load_ptx`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from abi import ImageError
from abi.ptx_signature import read_signatures

from .cuda import read_text
from .demangle import CType, Indirect, Named, NotDemangled, Qualified, demangle
from .module import Module, ptx_image
from .records import Provenance, programs


def load_ptx(source: str | os.PathLike[str], *, name: str | None = None) -> Module:
    """The kernels of a PTX text or file.

    PTX tells the size of each parameter, and apart from floating-point numbers not its type. C++ symbols carry types;
    such kernels are checked like compiled ones. Others have the check level ``layout``: a 64-bit parameter takes any
    array or an integer. ``@io.foreign`` gives them types and a contract.

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
    return Module(Path(file).name, programs(entries, image, Provenance("ptx", file), types))


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

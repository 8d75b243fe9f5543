"""From an image's entries to kernel records, with as much type information as there is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abi import CheckLevel, Entry, Image, Kernel, Launch, Program
from abi.rules import with_implied

from .demangle import CType, NotDemangled, demangle
from .dynamic_shared import dynamic_shared
from .signature import layout_params, parameter_names, typed_params


@dataclass(frozen=True)
class Provenance:
    """Where entries come from: for the records' ``language`` and ``source``, and for parameter names."""

    language: str
    file: str
    text: str = ""


def programs(
    entries: Mapping[str, Entry], image: Image, origin: Provenance, types: Mapping[str, Sequence[CType]]
) -> list[Program]:
    """A program for each entry; `types` are C++ parameter types by symbol, where they are known."""
    names = kernel_names(list(entries))
    dynamic = dynamic_shared(image.text, entries)
    kernels = [
        _kernel(entry, names[symbol], image, origin, types.get(symbol), "" if symbol in dynamic else "0")
        for symbol, entry in entries.items()
    ]
    if origin.text:
        kernels.sort(key=lambda kernel: origin.text.find(_base(kernel.name)))
    return [Program(kernel, (image,)) for kernel in kernels]


def kernel_names(symbols: Sequence[str]) -> dict[str, str]:
    """What a person calls each symbol: its C++ name, with parameter types where two kernels share the name."""
    short, full = {}, {}
    for symbol in symbols:
        try:
            found = demangle(symbol)
        except NotDemangled:
            short[symbol] = full[symbol] = symbol
        else:
            short[symbol], full[symbol] = found.name, str(found)
    for names in (short, full):
        counts = Counter(names.values())
        if names is short:
            short = {s: n if counts[n] == 1 else full[s] for s, n in short.items()}
    counts = Counter(short.values())
    return {s: n if counts[n] == 1 else s for s, n in short.items()}


def _kernel(
    entry: Entry, name: str, image: Image, origin: Provenance, types: Sequence[CType] | None, shared: str
) -> Kernel:
    known = parameter_names(origin.text, _base(name), len(entry.params)) if origin.text else None
    names = [_usable(n) for n in known] if known else None
    typed = typed_params(types, entry, names) if types is not None else None
    params, requires = typed if typed else (layout_params(entry, names), ())
    kernel = Kernel(
        name=name,
        symbol=entry.symbol,
        language=origin.language,
        params=params,
        launch=Launch(entry.block, shared=shared, min_cc=image.min_cc),
        requires=requires,
        convention="c",
        check_level=CheckLevel.TYPED if typed else CheckLevel.LAYOUT,
        source=Path(origin.file).name,  # a folder would make the same source give other bytes elsewhere
    )
    # Where integers and pointers look alike there is no telling which arguments are arrays.
    return with_implied(kernel) if typed else kernel


def _base(name: str) -> str:
    """``ns::blur<float>(…)`` is defined as ``blur``."""
    return re.split(r"[<(]", name)[0].rsplit("::", 1)[-1]


# Words of the rule language, and Python's own, which cannot name a keyword argument.
_RESERVED = {"len", "dim", "stride", "block", "grid", "min", "max", "ceil_div", "aligned", "disjoint", "and", "or",
             "not", "true", "false", "True", "False", "None", "in", "is", "as", "from", "lambda", "def", "pass",
             "with", "yield", "global", "del", "import", "raise", "except", "assert", "async", "await", "nonlocal",
             "elif", "finally"}  # fmt: skip


def _usable(name: str) -> str:
    return f"{name}_" if name in _RESERVED else name

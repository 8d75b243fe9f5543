"""Which kernels of a PTX text use dynamic shared memory, whose size only a launch can say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from .. import ptx

_DECLARED = re.compile(r"\.extern\s[^;(){}]*?\.shared\b|\.shared\b[^;(){}]*\[\s*0?\s*\]")
"""Finds every text that might declare such an array; without a match no body has to be read."""


def dynamic_shared(text: str, symbols: Iterable[str]) -> frozenset[str]:
    """Those of the kernels `symbols` that name an ``.extern .shared`` array, or may call a function that does.

    A kernel that is not known not to counts as one that does: then a caller has to say 0, and nothing is written out of
    bounds.

    >>> text = '''.version 8.0 .target sm_80 .address_size 64 .extern .shared .align 4 .b8 s[];
    ... .entry f() { .reg .b64 %r; mov.u64 %r, s; ret; } .entry g() { ret; }'''
    >>> sorted(dynamic_shared(text, ["f", "g"]))
    ['f']
    """
    if not _DECLARED.search(text):
        return frozenset()
    try:
        return _users(ptx.parse(text), symbols)
    except ptx.PtxSyntaxError:
        # A newer PTX than the reader knows still runs on a GPU.
        return frozenset(symbols)


def _users(module: ptx.Module, symbols: Iterable[str]) -> frozenset[str]:
    wanted = {v.name for v in module.variables if _is_dynamic(v)}
    functions = {f.name: f for f in module.functions if f.parse_body is not None}
    variables = {v.name: v for v in module.variables}
    named: dict[str, set[str]] = {}

    def mentions(name: str) -> set[str]:
        """What a function's body, or a variable's initializer, names. Tables of functions are such initializers."""
        if name not in named:
            variable = variables.get(name)
            part: object = functions[name].body if name in functions else variable and variable.initializer
            named[name] = set(_names(part))
        return named[name]

    def uses(symbol: str) -> bool:
        seen, pending = {symbol}, [symbol]
        while pending:
            name = pending.pop()
            found = mentions(name)
            if name in wanted or found & wanted or _DYNAMIC in found:
                return True
            new = {n for n in found - seen if n in functions or n in variables}
            seen |= new
            pending += new
        return False

    return frozenset(symbol for symbol in symbols if uses(symbol))


def _is_dynamic(variable: ptx.Variable) -> bool:
    return variable.space == "shared" and (variable.linkage == "extern" or variable.size == 0)


_DYNAMIC = "\0"
"""Stands among a body's names for an array that the body itself declares."""


def _names(part: object) -> Iterator[str]:
    """Every name in a syntax tree."""
    if isinstance(part, ptx.ast.Name):
        yield part.text
    elif isinstance(part, ptx.ast.Targets):
        yield from part.labels
    elif isinstance(part, ptx.Variable) and _is_dynamic(part):
        yield _DYNAMIC
    elif isinstance(part, (tuple, list)):
        for item in part:
            yield from _names(item)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _names(getattr(part, field.name))

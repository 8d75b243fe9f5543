"""The conformance table: what PTX instructions yield, over families, types, modifiers and corner values.

Needs the standard library alone, so that it serves a bare machine with a GPU as well as the tests.

>>> from conformance_table import FAMILIES
>>> next(iter(FAMILIES["integers"]())).name
'add.u16'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from . import approximate, atomics, bits, comparing, converting, floats, integers, matrices, moving, warps
from .case import Bound, Case, Operand
from .text import SCRATCH, SLOT, kernel, module

__all__ = ["FAMILIES", "SCRATCH", "SLOT", "Bound", "Case", "Operand", "family", "kernel", "module"]

FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "integers": integers.cases,
    "bits": bits.cases,
    "floats": floats.cases,
    "approximate": approximate.cases,
    "comparing": comparing.cases,
    "converting": converting.cases,
    "moving": moving.cases,
    "atomics": atomics.cases,
    "warps": warps.cases,
    "matrices": matrices.cases,
}


@cache
def family(name: str) -> tuple[Case, ...]:
    """The cases of a family, in the table's order. Their names are distinct."""
    cases = tuple(FAMILIES[name]())
    names = [case.name for case in cases]
    doubled = {n for n in names if names.count(n) > 1}
    if doubled:
        raise ValueError(f"{name}: two cases of one name: {sorted(doubled)[:5]}")
    return cases

"""Integer arithmetic: sums, products, quotients, carry chains, dot products."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import Case, case
from .values import corners, mixture

_ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _binary(text: str, type_: str, **options: str) -> Case:
    return case(f"{text} %d, %a, %b;", f"d:{type_}", f"a:{type_} b:{type_}", **options)  # type: ignore[arg-type]


def cases() -> Iterator[Case]:
    yield from _sums()
    yield from _products()
    yield from _others()
    yield from _carries()
    yield from _dots()


def _sums() -> Iterator[Case]:
    for t in _ALL:
        for opcode in ("add", "sub", "div", "rem", "min", "max", "mul.lo", "mul.hi"):
            yield _binary(f"{opcode}.{t}", t)
    yield _binary("add.sat.s32", "s32")
    yield _binary("sub.sat.s32", "s32")
    for t in ("u16x2", "s16x2"):
        for opcode in ("add", "min", "max"):
            yield _binary(f"{opcode}.{t}", t, target="sm_90")
    for t in ("s32", "s16x2"):
        for opcode in ("min", "max"):
            yield _binary(f"{opcode}.relu.{t}", t, target="sm_90")


def _products() -> Iterator[Case]:
    for t, wide in _WIDE.items():
        yield case(f"mul.wide.{t} %d, %a, %b;", f"d:{wide}", f"a:{t} b:{t}")
        yield case(f"mad.wide.{t} %d, %a, %b, %c;", f"d:{wide}", f"a:{t} b:{t} c:{wide}")
    for t in _ALL:
        for part in ("lo", "hi"):
            yield case(f"mad.{part}.{t} %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:{t}")
    yield case("mad.hi.sat.s32 %d, %a, %b, %c;", "d:s32", "a:s32 b:s32 c:s32")
    for t in ("u32", "s32"):
        for part in ("lo", "hi"):
            yield _binary(f"mul24.{part}.{t}", t)
            yield case(f"mad24.{part}.{t} %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:{t}")
    yield case("mad24.hi.sat.s32 %d, %a, %b, %c;", "d:s32", "a:s32 b:s32 c:s32")


def _others() -> Iterator[Case]:
    for t in _ALL:
        yield case(f"sad.{t} %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:{t}")
    for t in ("s16", "s32", "s64"):
        for opcode in ("abs", "neg"):
            yield case(f"{opcode}.{t} %d, %a;", f"d:{t}", f"a:{t}")
    # Immediates take another path through a translator than registers.
    for t, bits in (("u16", 16), ("s32", 32), ("u64", 64), ("s64", 64)):
        for value in (0, 1, -1, 1 << (bits - 1), 10, -7):
            constant = value if t[0] == "s" or value >= 0 else value + (1 << bits)
            if t[0] == "s" and value == 1 << (bits - 1):
                constant = -value
            yield case(f"add.{t} %d, %a, {constant};", f"d:{t}", f"a:{t}", name=f"add.{t} immediate {value}")
            if value:
                yield case(f"div.{t} %d, %a, {constant};", f"d:{t}", f"a:{t}", name=f"div.{t} immediate {value}")
                yield case(f"rem.{t} %d, %a, {constant};", f"d:{t}", f"a:{t}", name=f"rem.{t} immediate {value}")
            yield case(f"mul.lo.{t} %d, %a, {constant};", f"d:{t}", f"a:{t}", name=f"mul.lo.{t} immediate {value}")


def _carries() -> Iterator[Case]:
    """Chains: what the flag does is seen in the words behind."""
    for t in ("u32", "s32", "u64", "s64"):
        ins, outs = f"a:{t} b:{t} c:{t} e:{t}", f"d:{t} x:{t} y:{t}"
        rows = mixture([t] * 4, 128, 41)
        for opcode in ("add", "sub"):
            yield case(
                f"{opcode}.cc.{t} %d, %a, %b; {opcode}c.cc.{t} %x, %c, %e; {opcode}c.{t} %y, 0, 0;",
                outs, ins, rows, name=f"{opcode}.cc.{t} chain",
            )  # fmt: skip
        for part in ("lo", "hi"):
            yield case(
                f"mad.{part}.cc.{t} %d, %a, %b, %c; madc.{part}.cc.{t} %x, %a, %e, %b; addc.{t} %y, 0, 0;",
                outs, ins, rows, name=f"mad.{part}.cc.{t} chain",
            )  # fmt: skip
            yield case(
                f"add.cc.{t} %d, %a, %b; madc.{part}.{t} %x, %a, %e, %b; addc.{t} %y, %c, %c;",
                outs, ins, rows, name=f"madc.{part}.{t} keeps the flag",
            )  # fmt: skip
        yield case(
            f"sub.cc.{t} %d, %a, %b; addc.cc.{t} %x, %c, %e; subc.{t} %y, %a, %e;",
            outs, ins, rows, name=f"sub.cc.{t} into addc",
        )  # fmt: skip


def _dots() -> Iterator[Case]:
    for a, b in itertools.product(("u32", "s32"), repeat=2):
        d = "s32" if "s32" in (a, b) else "u32"
        ins = f"a:{a} b:{b} c:{d}"
        rows = mixture([a, b, d], 96, 51) + list(itertools.product([0x80808080, 0x7F80FF01], corners("b32")[:6], [0]))
        yield case(f"dp4a.{a}.{b} %d, %a, %b, %c;", f"d:{d}", ins, rows)
        for part in ("lo", "hi"):
            yield case(f"dp2a.{part}.{a}.{b} %d, %a, %b, %c;", f"d:{d}", ins, rows)

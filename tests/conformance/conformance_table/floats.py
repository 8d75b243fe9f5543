"""Floating-point arithmetic that is exactly defined: f32, f64, the half formats and their pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import Bound, Case, case
from .values import default_rows, f32, f64, mixture

_MODES = ("rn", "rz", "rm", "rp")


# f64 keeps a NaN's payload. Of two NaN operands the ISA does not say whose; a host has its own order.
_PAYLOAD = Bound(payload=True, isa="payloads of NaN are kept")


def _of(text: str, t: str, count: int, target: str = "sm_80", rows: list[tuple[int, ...]] | None = None) -> Case:
    names = "abce"[:count]
    operands = ", ".join(f"%{n}" for n in names)
    bound = _PAYLOAD if t == "f64" and count > 1 and text.split(".")[0] != "copysign" else None
    return case(
        f"{text} %d, {operands};", f"d:{t}", " ".join(f"{n}:{t}" for n in names), rows, target=target, bound=bound
    )


def cases() -> Iterator[Case]:
    yield from _single()
    yield from _double()
    yield from _extremes()
    yield from _halves()
    yield from _classes()
    yield from _immediates()


def fma_rows(t: str) -> list[tuple[int, ...]]:
    """Mixtures, sums that nearly cancel, and addends that decide a tie."""
    rows = mixture([t] * 3, 120, 81)
    if t == "f32":
        e = 2.0**-23
        numbers = [(1 + e, 1 + e, -1.0), (1 + e, 1 - e, -1.0), (3.0, 1 / 3, -1.0), (1 + e, 1 + e, 2.0**-60),
                   (2.0**-100, 2.0**-49, 2.0**-149), (2.0**-75, 2.0**-75, 0.0), (-(2.0**-75), 2.0**-75, 0.0),
                   (2.0**127, 2.0, -(2.0**127)), (2.0**-75, 2.0**-74, 2.0**-126), (1.5, 2.0**-24, 1.0),
                   (-1.5, 2.0**-25, 1.0), (1.0, -1.0, 1.0), (2.0**64, 2.0**64, -(2.0**127))]  # fmt: skip
        rows += [tuple(f32(*row)) for row in numbers]
    elif t == "f64":
        e = 2.0**-52
        numbers = [(1 + e, 1 + e, -1.0), (1 + e, 1 - e, -1.0), (3.0, 1 / 3, -1.0), (1 + e, 1 + e, 2.0**-200),
                   (2.0**-600, 2.0**-474, 2.0**-1074), (2.0**-600, 2.0**-600, 0.0), (1.5, 2.0**-53, 1.0),
                   (-1.5, 2.0**-54, 1.0), (1.0, -1.0, 1.0)]  # fmt: skip
        rows += [tuple(f64(*row)) for row in numbers]
    return rows


def _single() -> Iterator[Case]:
    for mode, ftz, sat in itertools.product(_MODES, ("", ".ftz"), ("", ".sat")):
        for opcode in ("add", "sub", "mul"):
            yield _of(f"{opcode}.{mode}{ftz}{sat}.f32", "f32", 2)
        yield _of(f"fma.{mode}{ftz}{sat}.f32", "f32", 3, rows=fma_rows("f32"))
        if not sat:
            yield _of(f"div.{mode}{ftz}.f32", "f32", 2)
            yield _of(f"rcp.{mode}{ftz}.f32", "f32", 1)
            yield _of(f"sqrt.{mode}{ftz}.f32", "f32", 1)
    for opcode in ("add", "sub", "mul"):
        yield _of(f"{opcode}.f32", "f32", 2)
    yield _of("mad.rn.f32", "f32", 3, rows=fma_rows("f32"))
    yield _of("mad.rz.ftz.sat.f32", "f32", 3, rows=fma_rows("f32"))
    for opcode in ("abs", "neg"):
        for ftz in ("", ".ftz"):
            yield _of(f"{opcode}{ftz}.f32", "f32", 1)
    yield _of("copysign.f32", "f32", 2)


def _double() -> Iterator[Case]:
    for mode in _MODES:
        for opcode in ("add", "sub", "mul", "div"):
            yield _of(f"{opcode}.{mode}.f64", "f64", 2)
        yield _of(f"fma.{mode}.f64", "f64", 3, rows=fma_rows("f64"))
        yield _of(f"mad.{mode}.f64", "f64", 3, rows=fma_rows("f64"))
        yield _of(f"rcp.{mode}.f64", "f64", 1)
        yield _of(f"sqrt.{mode}.f64", "f64", 1)
    for opcode in ("abs", "neg"):
        yield _of(f"{opcode}.f64", "f64", 1)
    for opcode in ("add", "sub", "mul", "copysign"):
        yield _of(f"{opcode}.f64", "f64", 2)


def _extremes() -> Iterator[Case]:
    for opcode in ("min", "max"):
        for ftz, nan, sign in itertools.product(("", ".ftz"), ("", ".NaN"), ("", ".xorsign.abs")):
            yield _of(f"{opcode}{ftz}{nan}{sign}.f32", "f32", 2, "sm_86" if sign else "sm_80")
        yield _of(f"{opcode}.f64", "f64", 2)
        for t in ("f16", "f16x2"):
            for ftz, nan, sign in itertools.product(("", ".ftz"), ("", ".NaN"), ("", ".xorsign.abs")):
                target = "sm_86" if sign else "sm_80"
                yield _of(f"{opcode}{ftz}{nan}{sign}.{t}", t, 2, target)
        for t in ("bf16", "bf16x2"):
            for nan, sign in itertools.product(("", ".NaN"), ("", ".xorsign.abs")):
                yield _of(f"{opcode}{nan}{sign}.{t}", t, 2, "sm_86" if sign else "sm_80")


def _halves() -> Iterator[Case]:
    for t in ("f16", "f16x2"):
        for opcode, rn, ftz, sat in itertools.product(("add", "sub", "mul"), ("", ".rn"), ("", ".ftz"), ("", ".sat")):
            yield _of(f"{opcode}{rn}{ftz}{sat}.{t}", t, 2)
        for ftz, end in itertools.product(("", ".ftz"), ("", ".sat", ".relu")):
            yield _of(f"fma.rn{ftz}{end}.{t}", t, 3)
        for opcode in ("abs", "neg"):
            for ftz in ("", ".ftz"):
                yield _of(f"{opcode}{ftz}.{t}", t, 1)
    for t in ("bf16", "bf16x2"):
        for end in ("", ".relu"):
            yield _of(f"fma.rn{end}.{t}", t, 3)
        for opcode in ("abs", "neg"):
            yield _of(f"{opcode}.{t}", t, 1)
        for opcode, rn in itertools.product(("add", "sub", "mul"), ("", ".rn")):
            yield _of(f"{opcode}{rn}.{t}", t, 2, "sm_90")


def _classes() -> Iterator[Case]:
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        for t in ("f32", "f64"):
            yield case(f"testp.{test}.{t} %d, %a;", "d:pred", f"a:{t}")


def _immediates() -> Iterator[Case]:
    rows = default_rows(["f32"])
    for constant in ("0f3F800000", "0f80000000", "0f7F800000", "0f7FC12345", "0f7F800001", "0f00000001", "0f3EAAAAAB"):
        for text in ("add.rn.f32", "mul.rn.ftz.f32", "min.f32", "max.NaN.f32"):
            yield case(f"{text} %d, %a, {constant};", "d:f32", "a:f32", rows, name=f"{text} immediate {constant}")
    for constant in ("0d3FF0000000000000", "0dFFF8000000000001", "0d0000000000000001"):
        yield case(f"fma.rn.f64 %d, %a, {constant}, %a;", "d:f64", "a:f64", name=f"fma.rn.f64 immediate {constant}")

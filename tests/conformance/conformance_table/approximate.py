"""Approximate functions. The recorded bits are one implementation's; the bound says how far another may be from them.

The CPU device computes these functions almost exactly, so its distance from a recorded value is about the
hardware's own error. Each bound stands beside what the PTX ISA (9.7.3 and 9.7.4) promises of the hardware.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from .case import Bound, Case, case
from .values import Row, everyday, f16, f32, float_corners, float_more, take, unary

_RCP = Bound(1, isa="1 ulp")
_DIV = Bound(1, isa="2 ulp where the magnitude of b is in [2^-126, 2^126]")
_FULL = Bound(1, isa="2 ulp")
_SQRT = Bound(1, isa="relative 2^-23")
_RSQRT = Bound(2, isa="relative 2^-22.9")
_SINE = Bound(2, 2.0**-21, isa="absolute 2^-20.5 in [-2 pi, 2 pi]")
_LG2 = Bound(3, 2.0**-23, isa="absolute 2^-22 for a in (0.5, 2), relative 2^-22 elsewhere")
_EX2 = Bound(2, isa="2 ulp")
_TANH = Bound(128, isa="relative 2^-11, which is 4096 ulp and more")
_GROSS = Bound(1 << 32, isa="'a gross approximation', of which the upper word counts")
_RSQRT64 = Bound(1, isa="an approximation")


def cases() -> Iterator[Case]:
    for ftz in ("", ".ftz"):
        yield case(f"rcp.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", bound=_RCP)
        yield case(f"sqrt.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", bound=_SQRT)
        yield case(f"rsqrt.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", bound=_RSQRT)
        yield case(f"div.approx{ftz}.f32 %d, %a, %b;", "d:f32", "a:f32 b:f32", _quotients(), bound=_DIV)
        yield case(f"div.full{ftz}.f32 %d, %a, %b;", "d:f32", "a:f32 b:f32", _quotients(), bound=_FULL)
        for name in ("sin", "cos"):
            yield case(f"{name}.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", _angles(), bound=_SINE)
        yield case(f"lg2.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", _positives(), bound=_LG2)
        yield case(f"ex2.approx{ftz}.f32 %d, %a;", "d:f32", "a:f32", _exponents(), bound=_EX2)
    yield case("tanh.approx.f32 %d, %a;", "d:f32", "a:f32", _exponents(), bound=_TANH)
    for t, arch in (("f16", "sm_80"), ("f16x2", "sm_80"), ("bf16", "sm_90"), ("bf16x2", "sm_90")):
        tanh = Bound(1, isa="absolute 2^-10.987" if t[0] == "f" else "absolute 2^-8")
        ex2 = Bound(1, isa="relative 2^-9.9" if t[0] == "f" else "relative 2^-7")
        yield case(f"tanh.approx.{t} %d, %a;", f"d:{t}", f"a:{t}", _halves(t), bound=tanh, target=arch)
        ftz = "" if t[0] == "f" else ".ftz"
        yield case(f"ex2.approx{ftz}.{t} %d, %a;", f"d:{t}", f"a:{t}", _halves(t), bound=ex2, target=arch)
    yield case("rcp.approx.ftz.f64 %d, %a;", "d:f64", "a:f64", bound=_GROSS)
    yield case("rsqrt.approx.ftz.f64 %d, %a;", "d:f64", "a:f64", bound=_GROSS)
    yield case("rsqrt.approx.f64 %d, %a;", "d:f64", "a:f64", bound=_RSQRT64)


def _quotients() -> list[Row]:
    edge = [*float_corners("f32"), *f32(2.0**126, 2.0**126 * 1.5, 2.0**127, 2.0**-126 * 1.5, 3.0, 10.0)]
    return [*itertools.product(edge, edge), *zip(everyday("f32", 101, 40), everyday("f32", 102, 40))]


def _angles() -> list[Row]:
    numbers = [k * math.pi / 8 for k in range(-16, 17)] + [1e-3, 1e-10, 2.0**-126, 0.1, 1.0, 2.0, 3.0, 6.28]
    noise = [(v / 2**32 - 0.5) * 4 * math.pi for v in take(103, 40, 32)]
    special = [v for v in float_corners("f32") if v & 0x7FFFFFFF < 0x40C90FDB or v & 0x7FFFFFFF >= 0x7F800000]
    return [(v,) for v in (*special, *f32(*numbers, *noise))]


def _positives() -> list[Row]:
    numbers = [0.5, 0.50001, 0.75, 0.99999, 1.00001, 1.5, 1.99999, 2.0, 3.0, 10.0, 1e10, 1e-10, 1e-40, 3e38]
    noise = [2.0 ** ((v / 2**32 - 0.5) * 250) for v in take(104, 40, 32)]
    return [(v,) for v in (*float_corners("f32"), *float_more("f32"), *f32(*numbers, *noise))]


def _exponents() -> list[Row]:
    numbers = [
        -150.0,
        -149.5,
        -149.0,
        -148.5,
        -140.25,
        -127.0,
        -126.5,
        -126.0,
        -125.99,
        0.25,
        0.1,
        1e-5,
        10.0,
        10.5,
        127.5,
        127.9999,
        128.0,
        128.5,
        -0.3,
    ]
    noise = [(v / 2**32 - 0.5) * 16 for v in take(105, 40, 32)]
    return [(v,) for v in (*float_corners("f32"), *float_more("f32"), *f32(*numbers, *noise))]


def _halves(t: str) -> list[Row]:
    values = unary(t)
    if t == "f16":
        values += f16(*((v / 2**32 - 0.5) * 20 for v in take(106, 24, 32)), -14.5, -24.0, -24.5, -25.5, 15.9, 16.0)
    return [(v,) for v in values]

"""Integer arithmetic against Python's own integers, with corner values and all pairs of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from executor_harness import DTYPES, Case, evaluate, expect, integers, pairs

ARITHMETIC = ["u16", "s16", "u32", "s32", "u64", "s64"]


def wrap(value: int, type_: str) -> int:
    """`value` in the type's range, modulo its width."""
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_[0] == "s" and value >> (bits - 1) else value


def clamp(value: int, type_: str) -> int:
    info = np.iinfo(DTYPES[type_])
    return max(int(info.min), min(int(info.max), value))


def divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def check(tests: list[tuple[Case, Callable[..., int]]], inputs: list[list[np.ndarray]]) -> None:
    outputs = evaluate([case for case, _ in tests], inputs)
    for (case, reference), values, got in zip(tests, inputs, outputs):
        wanted = np.array([reference(*map(int, row)) for row in zip(*values)], dtype=got.dtype)
        expect(got, wanted, *values, label=case.text)


@pytest.mark.parametrize("t", ARITHMETIC)
def test_binary_arithmetic(t: str) -> None:
    wide = f"{t[0]}{2 * int(t[1:])}"
    bits = int(t[1:])
    all_ones = wrap(-1, t)
    table: list[tuple[str, str, Callable[[int, int], int]]] = [
        (f"add.{t} %d, %a, %b;", t, lambda a, b: wrap(a + b, t)),
        (f"sub.{t} %d, %a, %b;", t, lambda a, b: wrap(a - b, t)),
        (f"mul.lo.{t} %d, %a, %b;", t, lambda a, b: wrap(a * b, t)),
        (f"mul.hi.{t} %d, %a, %b;", t, lambda a, b: wrap((a * b) >> bits, t)),
        (f"div.{t} %d, %a, %b;", t, lambda a, b: wrap(divide(a, b), t) if b else all_ones),
        (f"rem.{t} %d, %a, %b;", t, lambda a, b: wrap(a - divide(a, b) * b, t) if b else all_ones),
        (f"min.{t} %d, %a, %b;", t, min),
        (f"max.{t} %d, %a, %b;", t, max),
        (f"sad.{t} %d, %a, %b, 5;", t, lambda a, b: wrap(abs(a - b) + 5, t)),
        (f"mad.lo.{t} %d, %a, %b, %a;", t, lambda a, b: wrap(a * b + a, t)),
        (f"mad.hi.{t} %d, %a, %b, %b;", t, lambda a, b: wrap(((a * b) >> bits) + b, t)),
    ]
    if bits < 64:
        table.append((f"mul.wide.{t} %d, %a, %b;", wide, lambda a, b: a * b))
        table.append((f"mad.wide.{t} %d, %a, %b, 77;", wide, lambda a, b: wrap(a * b + 77, wide)))
    if t == "s32":
        table += [
            ("add.sat.s32 %d, %a, %b;", t, lambda a, b: clamp(a + b, t)),
            ("sub.sat.s32 %d, %a, %b;", t, lambda a, b: clamp(a - b, t)),
            ("mad.hi.sat.s32 %d, %a, %b, %b;", t, lambda a, b: clamp(((a * b) >> 32) + b, t)),
        ]
    a, b = pairs(integers(t, 1), integers(t, 2))
    check([(Case(x, out, (t, t)), f) for x, out, f in table], [[a, b]] * len(table))


@pytest.mark.parametrize("t", ARITHMETIC)
def test_unary_arithmetic(t: str) -> None:
    bits = int(t[1:])
    b = f"b{bits}"
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"not.{b} %d, %a;", t, (t,)), lambda a: wrap(~a, t)),
        (Case(f"cnot.{b} %d, %a;", t, (t,)), lambda a: int(a == 0)),
    ]
    if t[0] == "s":
        table += [
            (Case(f"abs.{t} %d, %a;", t, (t,)), lambda a: wrap(abs(a), t)),
            (Case(f"neg.{t} %d, %a;", t, (t,)), lambda a: wrap(-a, t)),
        ]
    check(table, [[integers(t)]] * len(table))


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains(bits: int) -> None:
    t, mask = f"u{bits}", (1 << bits) - 1

    def twice(a: int, b: int) -> tuple[int, int]:
        return a | b << bits, b | a << bits

    def product(a: int, b: int) -> int:
        return (((a * b) & mask) + a) >> bits

    table: list[tuple[str, Callable[[int, int], int]]] = [
        (f"add.cc.{t} %d, %a, %b; addc.{t} %d, %b, %a;", lambda a, b: (sum(twice(a, b)) >> bits) & mask),
        (f"sub.cc.{t} %d, %a, %b; subc.{t} %d, %b, %a;",
         lambda a, b: ((twice(a, b)[0] - twice(a, b)[1]) >> bits) & mask),
        (f"add.cc.{t} %d, %a, %b; addc.cc.{t} %d, %b, %a; addc.{t} %d, 0, 0;",
         lambda a, b: sum(twice(a, b)) >> 2 * bits),
        (f"mad.lo.cc.{t} %d, %a, %b, %a; addc.{t} %d, 0, 0;", product),
        (f"mad.lo.cc.{t} %d, %a, %b, %a; madc.hi.{t} %d, %a, %b, 0;", lambda a, b: ((a * b + a) >> bits) & mask),
        (f"add.cc.{t} %d, %a, %b; madc.lo.cc.{t} %d, %a, %b, %b; addc.{t} %d, 0, 0;",
         lambda a, b: (((a * b) & mask) + b + (a + b > mask)) >> bits),
    ]  # fmt: skip
    a, b = pairs(integers(t, 3), integers(t, 4))
    check([(Case(x, t, (t, t)), f) for x, f in table], [[a, b]] * len(table))


def test_24_bit_products() -> None:
    def signed24(x: int) -> int:
        return wrap(x << 8, "s32") >> 8

    a, b = pairs(integers("s32", 5), integers("s32", 6))
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case("mul24.lo.s32 %d, %a, %b;", "s32", ("s32", "s32")), lambda x, y: wrap(signed24(x) * signed24(y), "s32")),
        (Case("mul24.hi.s32 %d, %a, %b;", "s32", ("s32", "s32")),
         lambda x, y: wrap((signed24(x) * signed24(y)) >> 16, "s32")),
        (Case("mad24.lo.u32 %d, %a, %b, 9;", "u32", ("s32", "s32")),
         lambda x, y: wrap((x & 0xFFFFFF) * (y & 0xFFFFFF) + 9, "u32")),
    ]  # fmt: skip
    check(table, [[a, b]] * 3)


@pytest.mark.parametrize("ta", ["u32", "s32"])
@pytest.mark.parametrize("tb", ["u32", "s32"])
def test_dot_products(ta: str, tb: str) -> None:
    def part(x: int, index: int, bits: int, t: str) -> int:
        return wrap(x >> (index * bits), f"{t[0]}{bits}")

    a, b = pairs(integers("u32", 7), integers("u32", 8))
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"dp4a.{ta}.{tb} %d, %a, %b, %a;", "u32", ("u32", "u32")),
         lambda x, y: wrap(x + sum(part(x, k, 8, ta) * part(y, k, 8, tb) for k in range(4)), "u32")),
        (Case(f"dp2a.lo.{ta}.{tb} %d, %a, %b, %b;", "u32", ("u32", "u32")),
         lambda x, y: wrap(y + sum(part(x, k, 16, ta) * part(y, k, 8, tb) for k in range(2)), "u32")),
        (Case(f"dp2a.hi.{ta}.{tb} %d, %a, %b, %b;", "u32", ("u32", "u32")),
         lambda x, y: wrap(y + sum(part(x, k, 16, ta) * part(y, k + 2, 8, tb) for k in range(2)), "u32")),
    ]  # fmt: skip
    check(table, [[a, b]] * 3)


@pytest.mark.parametrize("t", ["u16x2", "s16x2"])
def test_packed_integers(t: str) -> None:
    element = f"{t[0]}16"

    def both(x: int, y: int, f: Callable[[int, int], int]) -> int:
        lanes = [wrap(f(wrap(x >> s, element), wrap(y >> s, element)), "u16") for s in (0, 16)]
        return lanes[0] | lanes[1] << 16

    a, b = pairs(integers("u32", 9), integers("u32", 10))
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"add.{t} %d, %a, %b;", t, (t, t)), lambda x, y: both(x, y, lambda p, q: p + q)),
        (Case(f"min.{t} %d, %a, %b;", t, (t, t)), lambda x, y: both(x, y, min)),
        (Case(f"max.{t} %d, %a, %b;", t, (t, t)), lambda x, y: both(x, y, max)),
    ]
    if t == "s16x2":
        table.append(
            (Case("max.relu.s16x2 %d, %a, %b;", t, (t, t)), lambda x, y: both(x, y, lambda p, q: max(p, q, 0)))
        )
    check(table, [[a, b]] * len(table))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_past_the_width(bits: int) -> None:
    u, s = f"u{bits}", f"s{bits}"
    amounts = np.array([0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1], np.uint32)
    a, n = pairs(integers(u), amounts)
    signed = a.view(DTYPES[s])
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"shl.b{bits} %d, %a, %b;", u, (u, "u32")), lambda x, k: wrap(x << min(k, bits), u)),
        (Case(f"shr.u{bits} %d, %a, %b;", u, (u, "u32")), lambda x, k: x >> min(k, bits)),
        (Case(f"shr.s{bits} %d, %a, %b;", s, (s, "u32")), lambda x, k: x >> min(k, bits)),
        (Case(f"shl.b{bits} %d, %a, 40;", u, (u, "u32")), lambda x, k: wrap(x << 40, u)),
        (Case(f"shr.s{bits} %d, %a, 100;", s, (s, "u32")), lambda x, k: -1 if x < 0 else 0),
    ]
    check(table, [[a, n], [a, n], [signed, n], [a, n], [signed, n]])

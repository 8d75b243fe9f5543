"""Bit instructions against models written from the PTX manual, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from executor_harness import Case, evaluate, expect, integers, pairs


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def check(tests: list[tuple[Case, Callable[..., int]]], inputs: list[list[np.ndarray]]) -> None:
    outputs = evaluate([case for case, _ in tests], inputs)
    for (case, reference), values, got in zip(tests, inputs, outputs):
        rows = zip(*values)
        mask = (1 << (8 * got.dtype.itemsize)) - 1
        wanted = np.array([reference(*map(int, row)) & mask for row in rows], dtype=f"u{got.dtype.itemsize}")
        expect(got.view(wanted.dtype), wanted, *values, label=case.text)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits: int) -> None:
    t = f"u{bits}"
    a, b = pairs(integers(t, 1), integers(t, 2))
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"and.b{bits} %d, %a, %b;", t, (t, t)), lambda x, y: x & y),
        (Case(f"or.b{bits} %d, %a, %b;", t, (t, t)), lambda x, y: x | y),
        (Case(f"xor.b{bits} %d, %a, %b;", t, (t, t)), lambda x, y: x ^ y),
    ]
    check(table, [[a, b]] * 3)


def test_logic_of_predicates() -> None:
    a, b = pairs(np.array([0, 1], np.uint32), np.array([0, 1], np.uint32))
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case("and.pred %d, %a, %b;", "pred", ("pred", "pred")), lambda x, y: x & y),
        (Case("or.pred %d, %a, !%b;", "pred", ("pred", "pred")), lambda x, y: x | (1 - y)),
        (Case("xor.pred %d, %a, %b;", "pred", ("pred", "pred")), lambda x, y: x ^ y),
        (Case("not.pred %d, %a;", "pred", ("pred", "pred")), lambda x, y: 1 - x),
        (Case("mov.pred %d, -1;", "pred", ("pred", "pred")), lambda x, y: 1),
        (Case("mov.pred %d, 0; @!%a mov.pred %d, %b;", "pred", ("pred", "pred")), lambda x, y: 0 if x else y),
    ]
    check(table, [[a, b]] * len(table))


def extract(a: int, position: int, length: int, bits: int, is_signed: bool) -> int:
    mask, top = 255 if bits == 32 else 2**32 - 1, bits - 1
    position, length = position & mask, length & mask
    if not is_signed or length == 0:
        sign = 0
    else:
        sign = a >> min(position + length - 1, top) & 1
    result = 0
    for k in range(bits):
        bit = (a >> (position + k)) & 1 if k < length and position + k <= top else sign
        result |= bit << k
    return result


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    mask = 255 if bits == 32 else 2**32 - 1
    position, length = position & mask, length & mask
    result = b
    for k in range(length):
        if position + k > bits - 1:
            break
        result = (result & ~(1 << (position + k))) | ((a >> k) & 1) << (position + k)
    return result


@pytest.mark.parametrize("bits", [32, 64])
def test_fields(bits: int) -> None:
    u = f"u{bits}"
    edges = np.array([0, 1, 5, 16, 31, 32, 33, 63, 64, 65, 200, 255, 256 + 3], np.uint32)
    positions, lengths = pairs(edges, edges)
    values = np.random.default_rng(3).integers(0, 1 << 63, 8, dtype=np.uint64).astype(f"u{bits // 8}")
    values[:2] = [2**bits - 1, 2 ** (bits - 1)]
    a = np.repeat(values, len(positions))
    p, n = np.tile(positions, len(values)), np.tile(lengths, len(values))
    b = np.random.default_rng(4).permutation(a)
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"bfe.u{bits} %d, %a, %b, %c;", u, (u, "u32", "u32")), lambda x, q, k: extract(x, q, k, bits, False)),
        (Case(f"bfe.s{bits} %d, %a, %b, %c;", u, (u, "u32", "u32")), lambda x, q, k: extract(x, q, k, bits, True)),
        (
            Case(f"bfi.b{bits} %d, %a, %b, %c, %e;", u, (u, u, "u32", "u32")),
            lambda x, y, q, k: insert(x, y, q, k, bits),
        ),
    ]
    check(table, [[a, p, n], [a, p, n], [a, b, p, n]])


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits: int) -> None:
    u = f"u{bits}"
    rng = np.random.default_rng(5)
    sparse = (np.uint64(1) << rng.integers(0, bits, 64, dtype=np.uint64)).astype(f"u{bits // 8}")
    a = np.concatenate([integers(u), sparse, sparse - np.array(1, sparse.dtype)])

    def find(x: int, is_signed: bool) -> int:
        if is_signed and x >> (bits - 1):
            x = ~x & ((1 << bits) - 1)
        return x.bit_length() - 1

    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"clz.b{bits} %d, %a;", "u32", (u,)), lambda x: bits - x.bit_length()),
        (Case(f"popc.b{bits} %d, %a;", "u32", (u,)), lambda x: bin(x).count("1")),
        (Case(f"brev.b{bits} %d, %a;", u, (u,)), lambda x: int(f"{x:0{bits}b}"[::-1], 2)),
        (Case(f"bfind.u{bits} %d, %a;", "u32", (u,)), lambda x: find(x, False)),
        (Case(f"bfind.s{bits} %d, %a;", "u32", (u,)), lambda x: find(x, True)),
        (Case(f"bfind.shiftamt.u{bits} %d, %a;", "u32", (u,)), lambda x: bits - 1 - find(x, False) if x else -1),
    ]
    check(table, [[a]] * len(table))


def permute(a: int, b: int, c: int, mode: str) -> int:
    data = [(a | b << 32) >> (8 * k) & 255 for k in range(8)]
    n = c & 3
    tables = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    if mode:
        return sum(data[index] << (8 * k) for k, index in enumerate(tables[mode][n]))
    result = 0
    for k in range(4):
        selector = c >> (4 * k) & 15
        byte = data[selector & 7]
        result |= ((255 if byte & 128 else 0) if selector & 8 else byte) << (8 * k)
    return result


def test_permutations() -> None:
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(0, 1 << 32, 200, dtype=np.uint32) for _ in range(3))
    modes = ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"prmt.b32{'.' + mode if mode else ''} %d, %a, %b, %c;", "u32", ("u32",) * 3),
         lambda x, y, z, mode=mode: permute(x, y, z, mode))
        for mode in modes
    ]  # fmt: skip
    check(table, [[a, b, c]] * len(table))


def test_logic_of_three() -> None:
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(0, 1 << 32, 50, dtype=np.uint32) for _ in range(3))

    def model(x: int, y: int, z: int, lut: int) -> int:
        return sum((lut >> ((x >> k & 1) << 2 | (y >> k & 1) << 1 | (z >> k & 1)) & 1) << k for k in range(32))

    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"lop3.b32 %d, %a, %b, %c, {lut};", "u32", ("u32",) * 3), lambda x, y, z, lut=lut: model(x, y, z, lut))
        for lut in (0, 255, 0x96, 0xE8, 0xCA, 0x1E, 0x80, 0x01, 0x3C)
    ]
    table.append(
        (Case("{ .reg .pred q; setp.lt.u32 q, %a, %b; lop3.or.b32 %d|q, %a, %b, %c, 0x80, q; selp.u32 %d, 1, %d, q; }",
              "u32", ("u32",) * 3), lambda x, y, z: 1 if x & y & z or x < y else x & y & z)
    )  # fmt: skip
    check(table, [[a, b, c]] * len(table))


def test_funnel_shifts() -> None:
    rng = np.random.default_rng(8)
    amounts = np.array([0, 1, 5, 16, 31, 32, 33, 40, 63, 64, 2**32 - 1], np.uint32)
    a, n = pairs(rng.integers(0, 1 << 32, 9, dtype=np.uint32), amounts)
    b = rng.permutation(a)

    def model(low: int, high: int, k: int, left: bool, clamp: bool) -> int:
        k = min(k, 32) if clamp else k & 31
        both = high << 32 | low
        return (both << k) >> 32 if left else both >> k

    table: list[tuple[Case, Callable[..., int]]] = [
        (Case(f"shf.{side}.{mode}.b32 %d, %a, %b, %c;", "u32", ("u32",) * 3),
         lambda x, y, k, side=side, mode=mode: model(x, y, k, side == "l", mode == "clamp"))
        for side in "lr" for mode in ("clamp", "wrap")
    ]  # fmt: skip
    check(table, [[a, b, n]] * len(table))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integer_comparisons(bits: int) -> None:
    u, s = f"u{bits}", f"s{bits}"
    a, b = pairs(integers(u, 1), integers(u, 2))
    compare: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
    }  # fmt: skip
    unsigned = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    table: list[tuple[Case, Callable[..., int]]] = []
    for name, f in compare.items():
        table.append((Case(f"setp.{name}.u{bits} %d, %a, %b;", "pred", (u, u)), lambda x, y, f=f: int(f(x, y))))
        table.append(
            (Case(f"setp.{name}.s{bits} %d, %a, %b;", "pred", (s, s)),
             lambda x, y, f=f: int(f(signed(x, bits), signed(y, bits))))
        )  # fmt: skip
    for name, other in unsigned.items():
        f = compare[other]
        table.append((Case(f"setp.{name}.u{bits} %d, %a, %b;", "pred", (u, u)), lambda x, y, f=f: int(f(x, y))))
    inputs = [[a, b] if case.ins[0] == u else [a.view(f"i{bits // 8}"), b.view(f"i{bits // 8}")] for case, _ in table]
    table += [
        (Case(f"{{ .reg .pred p, q; setp.lt.u{bits} p, %a, 9; setp.gt.and.u{bits} %d|q, %a, %b, !p;"
              " xor.pred %d, %d, q; }",
              "pred", (u, u)), lambda x, y: int(x >= 9)),
        (Case(f"set.lt.u32.s{bits} %d, %a, %b;", "u32", (u, u)),
         lambda x, y: 0xFFFFFFFF if signed(x, bits) < signed(y, bits) else 0),
        (Case(f"set.ge.f32.u{bits} %d, %a, %b;", "u32", (u, u)), lambda x, y: 0x3F800000 if x >= y else 0),
        (Case(f"{{ .reg .pred p; setp.lt.u{bits} p, %a, %b; selp.b{bits} %d, %a, %b, p; }}", u, (u, u)), min),
    ]  # fmt: skip
    check(table, inputs + [[a, b]] * 4)


def test_select_by_sign() -> None:
    a, b = pairs(integers("u32", 1), integers("u32", 2))
    c = np.random.default_rng(9).integers(-2, 2, len(a), dtype=np.int32)
    check([(Case("slct.u32.s32 %d, %a, %b, %c;", "u32", ("u32", "u32", "s32")), lambda x, y, z: x if z >= 0 else y)],
          [[a, b, c]])  # fmt: skip
    f = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -1e-45], np.float32)
    (got,) = evaluate([Case("slct.f32.f32 %d, 1.0, 2.0, %a;", "f32", ("f32",))], [[f]])
    assert got.tolist() == [1, 1, 1, 2, 2, 1, 2]
    (got,) = evaluate([Case("slct.ftz.f32.f32 %d, 1.0, 2.0, %a;", "f32", ("f32",))], [[f]])
    assert got.tolist() == [1, 1, 1, 2, 2, 1, 1]


def test_masks_and_extensions() -> None:
    def mask(start: int, length: int, clamp: bool) -> int:
        if not clamp:
            start, length = start & 31, length & 31
        return sum(1 << k for k in range(start, min(start + length, 32)))

    def extension(value: int, length: int, clamp: bool, is_signed: bool) -> int:
        length = min(length, 32) if clamp else length & 31
        low = value & ((1 << length) - 1)
        return low - (1 << length) if is_signed and length and low >> (length - 1) else low

    a, b = pairs(
        np.array([0, 1, 5, 31, 32, 40, 2**32 - 1, 0xDEADBEEF], np.uint32),
        np.array([0, 1, 8, 31, 32, 33, 300], np.uint32),
    )
    table: list[tuple[Case, Callable[..., int]]] = []
    for mode in ("clamp", "wrap"):
        clamp = mode == "clamp"
        table += [
            (Case(f"bmsk.{mode}.b32 %d, %a, %b;", "u32", ("u32", "u32")), lambda x, y, c=clamp: mask(x, y, c)),
            (
                Case(f"szext.{mode}.u32 %d, %a, %b;", "u32", ("u32", "u32")),
                lambda x, y, c=clamp: extension(x, y, c, False),
            ),
            (
                Case(f"szext.{mode}.s32 %d, %a, %b;", "u32", ("u32", "u32")),
                lambda x, y, c=clamp: extension(x, y, c, True),
            ),
        ]
    check(table, [[a, b]] * len(table))

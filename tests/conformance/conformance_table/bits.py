"""Bits: logic, shifts, fields, permutations, counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import Case, case
from .values import corners, mixture, more, take

_AMOUNTS = (0, 1, 7, 8, 15, 16, 31, 32, 33, 47, 63, 64, 65, 128, 255, 256, 0x80000000, 0xFFFFFFFF)
_LUTS = (
    0x00,
    0x01,
    0x16,
    0x1B,
    0x2A,
    0x3C,
    0x40,
    0x55,
    0x69,
    0x78,
    0x80,
    0x96,
    0xA5,
    0xB8,
    0xCA,
    0xE8,
    0xEA,
    0xF0,
    0xFE,
    0xFF,
)


def _wide(bits: int) -> list[int]:
    return [*corners(f"b{bits}")[3:], *more(f"b{bits}", 61, 3)]


def cases() -> Iterator[Case]:
    yield from _logic()
    yield from _shifts()
    yield from _fields()
    yield from _counts()
    yield from _permutations()


def _logic() -> Iterator[Case]:
    for t in ("b16", "b32", "b64", "pred"):
        for opcode in ("and", "or", "xor"):
            yield case(f"{opcode}.{t} %d, %a, %b;", f"d:{t}", f"a:{t} b:{t}")
        yield case(f"not.{t} %d, %a;", f"d:{t}", f"a:{t}")
        if t != "pred":
            yield case(f"cnot.{t} %d, %a;", f"d:{t}", f"a:{t}")
    for lut in _LUTS:
        yield case(
            f"lop3.b32 %d, %a, %b, %c, {lut};",
            "d:b32",
            "a:b32 b:b32 c:b32",
            mixture(["b32"] * 3, 24, 62),
            name=f"lop3.b32 {lut:#04x}",
        )
    for boolean in ("or", "and"):
        yield case(
            f"lop3.{boolean}.b32 %d|%x, %a, %b, %c, 0x40, %e;",
            "d:b32 x:pred",
            "a:b32 b:b32 c:b32 e:pred",
            mixture(["b32", "b32", "b32", "pred"], 48, 63),
            target="sm_80",
            name=f"lop3.{boolean}.b32 with predicate",
        )


def _shifts() -> Iterator[Case]:
    for bits in (16, 32, 64):
        rows = list(itertools.product(_wide(bits), _AMOUNTS))
        for text in (f"shl.b{bits}", f"shr.b{bits}", f"shr.u{bits}", f"shr.s{bits}"):
            yield case(f"{text} %d, %a, %b;", f"d:b{bits}", f"a:b{bits} b:u32", rows)
        for amount in (0, 1, bits - 1, bits, bits + 1, 255):
            for text in (f"shl.b{bits}", f"shr.u{bits}", f"shr.s{bits}"):
                yield case(f"{text} %d, %a, {amount};", f"d:b{bits}", f"a:b{bits}", name=f"{text} by {amount}")
    rows = [(*pair, amount) for pair in zip(take(64, 6, 32), take(65, 6, 32)) for amount in _AMOUNTS]
    for direction, mode in itertools.product("lr", ("clamp", "wrap")):
        yield case(f"shf.{direction}.{mode}.b32 %d, %a, %b, %c;", "d:b32", "a:b32 b:b32 c:u32", rows)


def _fields() -> Iterator[Case]:
    positions = (0, 1, 8, 31, 32, 33, 63, 64, 255, 256, 0x100 + 5, 0xFFFFFFFF)
    lengths = (0, 1, 5, 31, 32, 33, 64, 255, 256, 0x100 + 7, 0xFFFFFFFF)
    for bits in (32, 64):
        extents = [(p, n) for p in positions for n in lengths]
        values = take(66, len(extents), bits)
        rows = [(v, p, n) for v, (p, n) in zip(values, extents)]
        rows += [(~v & (1 << bits) - 1, p, n) for v, p, n in rows if p in (1, 31, 33, 63) and n in (1, 5, 31, 32, 64)]
        for t in (f"u{bits}", f"s{bits}"):
            yield case(f"bfe.{t} %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:u32 c:u32", rows)
        inserted = [(v, w, p, n) for v, w, (p, n) in zip(values, take(67, len(extents), bits), extents)]
        yield case(f"bfi.b{bits} %d, %a, %b, %c, %e;", f"d:b{bits}", f"a:b{bits} b:b{bits} c:u32 e:u32", inserted)
    amounts = list(itertools.product(_AMOUNTS, _AMOUNTS))
    for mode in ("clamp", "wrap"):
        yield case(f"bmsk.{mode}.b32 %d, %a, %b;", "d:b32", "a:u32 b:u32", amounts)
        for t in ("u32", "s32"):
            rows = list(itertools.product(_wide(32)[:6], _AMOUNTS))
            yield case(f"szext.{mode}.{t} %d, %a, %b;", f"d:{t}", f"a:{t} b:u32", rows)


def _counts() -> Iterator[Case]:
    for bits in (32, 64):
        values = [1 << k for k in range(0, bits, 5)] + [(1 << bits) - (1 << k) for k in range(1, bits, 7)]
        rows = [(v,) for v in (*corners(f"b{bits}"), *values, *more(f"b{bits}", 68, 8))]
        for t in (f"u{bits}", f"s{bits}"):
            for shift in ("", ".shiftamt"):
                yield case(f"bfind{shift}.{t} %d, %a;", "d:u32", f"a:{t}", rows)
        for opcode in ("popc", "clz"):
            yield case(f"{opcode}.b{bits} %d, %a;", "d:u32", f"a:b{bits}", rows)
        yield case(f"brev.b{bits} %d, %a;", f"d:b{bits}", f"a:b{bits}", rows)
    masks = (0, 1, 0x80000000, 0xFFFFFFFF, 0xAAAAAAAA, 0x00FF00F0, *take(69, 2, 32))
    bases, offsets = (0, 1, 5, 16, 31), (0, 1, 2, 5, 31, 32, -1, -2, -5, -31)
    yield case("fns.b32 %d, %a, %b, %c;", "d:b32", "a:b32 b:u32 c:s32", itertools.product(masks, bases, offsets))


def _permutations() -> Iterator[Case]:
    selectors = [0x3210, 0x7654, 0x0123, 0xFEDC, 0x8888, 0x4C5D, 0xFFFF3210, *take(70, 9, 32)]
    rows = [
        (*pair, s) for pair in ((0x80FF7F01, 0x0081FE7E), *zip(take(71, 2, 32), take(72, 2, 32))) for s in selectors
    ]
    yield case("prmt.b32 %d, %a, %b, %c;", "d:b32", "a:b32 b:b32 c:b32", rows)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        chosen = [(a, b, s) for a, b in zip(take(73, 2, 32), take(74, 2, 32)) for s in (0, 1, 2, 3, 4, 7, 0xFFFFFFFD)]
        yield case(f"prmt.b32.{mode} %d, %a, %b, %c;", "d:b32", "a:b32 b:b32 c:b32", chosen)
    for selector in (0x3210, 0x5410, 0x7632, 0xBA98, 0x4444):
        yield case(
            f"prmt.b32 %d, %a, %b, {selector};",
            "d:b32",
            "a:b32 b:b32",
            mixture(["b32"] * 2, 16, 75),
            name=f"prmt.b32 by {selector:#x}",
        )

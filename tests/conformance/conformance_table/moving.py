"""Moves, loads and stores of every width, vectors, state spaces, special registers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import BITS, Case, case
from .values import Row, mixture, take

_LOADS = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
_SHARED = ".shared .align 16 .b8 smem[4096];"
_LOCAL = ".local .align 16 .b8 own[64];"
# The address of 64 bytes of the thread's own, in %q1, for each state space.
_PLACES = {
    "global": ("", "mov.u64 %q1, %m;"),
    "": ("", "cvta.global.u64 %q1, %m;"),
    "shared": (_SHARED, "mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 64; add.u64 %q1, %q1, %q2;"),
    "local": (_LOCAL, "mov.u64 %q1, own;"),
}
_GENERIC = {
    "shared": "cvta.shared.u64 %q3, %q1;",
    "local": "cvta.local.u64 %q3, %q1;",
    "global": "cvta.global.u64 %q3, %q1;",
}


def cases() -> Iterator[Case]:
    yield from _packing()
    yield from _extending()
    yield from _vectors()
    yield from _spaces()
    yield from _special()


def _packing() -> Iterator[Case]:
    for t in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "pred"):
        yield case(f"mov.{t} %d, %a;", f"d:{t}", f"a:{t}")
    yield case("mov.b32 %d, {%a, %b};", "d:b32", "a:b16 b:b16", name="mov.b32 from two")
    yield case("mov.b64 %d, {%a, %b};", "d:b64", "a:b32 b:b32", name="mov.b64 from two")
    yield case("mov.b64 %d, {%a, %b, %c, %e};", "d:b64", "a:b16 b:b16 c:b16 e:b16", name="mov.b64 from four")
    yield case("mov.b32 {%d, %x}, %a;", "d:b16 x:b16", "a:b32", name="mov.b32 to two")
    yield case("mov.b64 {%d, %x}, %a;", "d:b32 x:b32", "a:b64", name="mov.b64 to two")
    yield case("mov.b64 {%d, %x, %y, %z}, %a;", "d:b16 x:b16 y:b16 z:b16", "a:b64", name="mov.b64 to four")
    yield case("mov.b32 {%d, _}, %a;", "d:b16", "a:b32", name="mov.b32 to one of two")
    yield case("mov.b64 {_, %d}, %a;", "d:b32", "a:b64", name="mov.b64 to the second")
    yield case(
        "mov.b32 {%c8, %e8, %f8, %g8}, %a; mov.b32 %d, {%g8, %f8, %e8, %c8};",
        "d:b32",
        "a:b32",
        declarations=".reg .b8 %c8, %e8, %f8, %g8;",
        name="mov.b32 by bytes",
    )
    yield case("mov.b32 %d, %a;", "d:b32", "a:f32", name="mov.b32 of f32")
    yield case("mov.b64 %d, %a;", "d:f64", "a:b64", name="mov.b64 to f64")
    for text, t in (
        ("0xFFFFFFFF", "u32"),
        ("-1", "s32"),
        ("0f7FC00001", "f32"),
        ("0dFFF0000000000001", "f64"),
        ("-9223372036854775808", "s64"),
        ("0b1011", "b16"),
        ("0177", "u32"),
        ("1.5", "f64"),
        ("0xFFFFFFFFFFFFFFFFU", "u64"),
        ("65535", "u16"),
    ):
        yield case(f"mov.{t} %d, {text};", f"d:{t}", "a:b32", [(0,)], name=f"mov.{t} of {text}")
    yield case(
        "mov.u32 %d, (1 << 5) + 7 * 3 - 40 / 7 % 3; "
        "mov.s32 %x, -17 / 5; mov.s32 %y, -17 % 5; mov.u32 %z, 5 > 3 ? 7 : 9;",
        "d:u32 x:s32 y:s32 z:u32",
        "a:b32",
        [(0,)],
        name="mov.u32 of constant expressions",
    )


def _destinations(t: str) -> list[str]:
    """Register types that a load of `t` may go to, the narrow and the wide."""
    kind = {"b": "b", "u": "u", "s": "s"}.get(t[0])
    if kind is None:
        return [t]
    return [f"{kind}{bits}" for bits in (16, 32, 64) if bits >= BITS[t]]


def _extending() -> Iterator[Case]:
    rows: list[Row] = [(v,) for v in (*take(111, 10, 64), 0x8000000080008080, 0x7FFFFFFF7FFF7F7F, 2**64 - 1, 0)]
    for (space, (declared, where)), t in itertools.product(_PLACES.items(), _LOADS):
        dotted = f".{space}" if space else ""
        for d in _destinations(t):
            yield case(
                f"{where} st{dotted}.b64 [%q1+8], %a; ld{dotted}.{t} %d, [%q1+8];",
                f"d:{d}",
                "a:b64",
                rows,
                declarations=declared,
                name=f"ld{dotted}.{t} to {d}",
            )
    for (space, (declared, where)), t in itertools.product(_PLACES.items(), ("b8", "u16", "b32", "s8")):
        dotted = f".{space}" if space else ""
        source = "b64" if t == "b32" else "b32"
        yield case(
            f"{where} st{dotted}.b64 [%q1+8], -1; st{dotted}.{t} [%q1+12], %a;" + f" ld{dotted}.b64 %d, [%q1+8];",
            "d:b64",
            f"a:{source}",
            [(v,) for v in take(112, 10, BITS[source])],
            declarations=declared,
            name=f"st{dotted}.{t} of {source}",
        )
    for modifier in ("volatile", "relaxed.gpu", "acquire.sys", "weak", "ca", "cg", "cs", "cv", "lu"):
        cached = modifier in ("ca", "cg", "cs", "cv", "lu")
        spaced = f"ld.global.{modifier}" if cached else f"ld.{modifier}.global"
        yield case(
            f"st.global.b32 [%m], %a; {spaced}.s16 %d, [%m];",
            "d:s32",
            "a:b32",
            mixture(["b32"], 8, 113),
            name=f"{spaced}.s16",
        )


def _vectors() -> Iterator[Case]:
    for (space, (declared, where)), count in itertools.product(_PLACES.items(), (2, 4)):
        dotted = f".{space}" if space else ""
        names, results = "abce"[:count], "dxyz"[:count]
        for t in ("u8", "s8", "b16", "b32", "f32", "b64"):
            if count * BITS[t] > 128:
                continue
            register = {"u8": "u32", "s8": "s32"}.get(t, t)
            ins, outs = (" ".join(f"{n}:{register}" for n in group) for group in (names, results))
            yield case(
                f"{where} st{dotted}.v{count}.{t} [%q1+16], {{{', '.join('%' + n for n in names)}}}; "
                f"ld{dotted}.v{count}.{t} {{{', '.join('%' + n for n in results)}}}, [%q1+16];",
                outs,
                ins,
                mixture([register] * count, 8, 114),
                declarations=declared,
                name=f"ld{dotted}.v{count}.{t}",
            )


def _spaces() -> Iterator[Case]:
    one: list[Row] = [(k,) for k in range(32)]
    for space, generic in _GENERIC.items():
        declared, where = _PLACES[space]
        yield case(
            f"{where} {generic} cvta.to.{space}.u64 %q4, %q3; sub.u64 %d, %q4, %q1;",
            "d:u64",
            "a:b32",
            one,
            declarations=declared,
            name=f"cvta.to.{space}.u64",
        )
        yield case(
            f"{where} {generic} st.b32 [%q3+4], %a; ld.{space}.b32 %d, [%q1+4];",
            "d:b32",
            "a:b32",
            one,
            declarations=declared,
            name=f"cvta.{space}.u64 and a generic store",
        )
        for asked in ("global", "shared", "local", "const"):
            yield case(
                f"{where} {generic} isspacep.{asked} %d, %q3;",
                "d:pred",
                "a:b32",
                one,
                declarations=declared,
                name=f"isspacep.{asked} of {space}",
            )


def _special() -> Iterator[Case]:
    rows: list[Row] = [(k,) for k in range(96)]
    for register in (
        "tid.x",
        "tid.y",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.z",
        "nctaid.x",
        "nctaid.y",
        "laneid",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_gt",
        "lanemask_ge",
    ):
        yield case(f"mov.u32 %d, %{register};", "d:u32", "a:b32", rows, block=48, together=True, name=f"%{register}")
    yield case("mov.u32 %d, WARP_SZ;", "d:u32", "a:b32", rows[:1], name="WARP_SZ")

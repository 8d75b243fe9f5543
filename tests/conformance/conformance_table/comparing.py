"""Comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case, case
from .values import corners, mixture

_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_FLOAT = (*_ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_UNSIGNED = ("lo", "ls", "hi", "hs")


def _operators(t: str) -> tuple[str, ...]:
    if t[0] == "b" and t[:2] != "bf":
        return ("eq", "ne")
    if t[0] == "u":
        return (*_ORDERED, *_UNSIGNED)
    return _ORDERED if t[0] == "s" else _FLOAT


def cases() -> Iterator[Case]:
    yield from _predicates()
    yield from _packed()
    yield from _registers()
    yield from _selections()


def _predicates() -> Iterator[Case]:
    for t in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16"):
        for operator in _operators(t):
            yield case(f"setp.{operator}.{t} %d, %a, %b;", "d:pred", f"a:{t} b:{t}")
    for operator in _FLOAT:
        yield case(f"setp.{operator}.ftz.f32 %d, %a, %b;", "d:pred", "a:f32 b:f32")
        yield case(f"setp.{operator}.ftz.f16 %d, %a, %b;", "d:pred", "a:f16 b:f16")
        yield case(f"setp.{operator}.bf16 %d, %a, %b;", "d:pred", "a:bf16 b:bf16", target="sm_90")
    for boolean in ("and", "or", "xor"):
        for t, operator in (("s32", "lt"), ("u64", "hi"), ("f32", "ltu"), ("f64", "ne")):
            rows = mixture([t, t, "pred"], 64, 91)
            yield case(
                f"setp.{operator}.{boolean}.{t} %d|%x, %a, %b, %c;", "d:pred x:pred", f"a:{t} b:{t} c:pred", rows
            )
            yield case(
                f"setp.{operator}.{boolean}.{t} %d, %a, %b, !%c;",
                "d:pred",
                f"a:{t} b:{t} c:pred",
                rows,
                name=f"setp.{operator}.{boolean}.{t} with !c",
            )


def _packed() -> Iterator[Case]:
    for operator in _FLOAT:
        for t, target in (("f16x2", "sm_80"), ("bf16x2", "sm_90")):
            yield case(f"setp.{operator}.{t} %d|%x, %a, %b;", "d:pred x:pred", f"a:{t} b:{t}", target=target)
    for boolean in ("and", "or", "xor"):
        yield case(f"setp.lt.{boolean}.f16x2 %d|%x, %a, %b, %c;", "d:pred x:pred", "a:f16x2 b:f16x2 c:pred")
    yield case("setp.gt.ftz.f16x2 %d|%x, %a, %b;", "d:pred x:pred", "a:f16x2 b:f16x2")


def _registers() -> Iterator[Case]:
    for target_type in ("u32", "s32", "f32"):
        for t, operator in (
            ("b16", "eq"),
            ("u16", "lo"),
            ("s16", "lt"),
            ("b32", "ne"),
            ("u32", "hs"),
            ("s32", "ge"),
            ("b64", "eq"),
            ("u64", "ls"),
            ("s64", "gt"),
            ("f32", "leu"),
            ("f64", "num"),
            ("f32", "nan"),
            ("f64", "neu"),
        ):
            yield case(f"set.{operator}.{target_type}.{t} %d, %a, %b;", f"d:{target_type}", f"a:{t} b:{t}")
        for boolean in ("and", "or", "xor"):
            yield case(f"set.lt.{boolean}.{target_type}.s32 %d, %a, %b, %c;", f"d:{target_type}", "a:s32 b:s32 c:pred")
        yield case(f"set.gt.ftz.{target_type}.f32 %d, %a, %b;", f"d:{target_type}", "a:f32 b:f32")
    for target_type in ("f16", "u16", "s16", "u32", "s32"):
        yield case(f"set.geu.{target_type}.f16 %d, %a, %b;", f"d:{target_type}", "a:f16 b:f16")
    for target_type in ("bf16", "u16", "u32"):
        yield case(f"set.lt.{target_type}.bf16 %d, %a, %b;", f"d:{target_type}", "a:bf16 b:bf16", target="sm_90")
    for operator in ("eq", "lt", "neu", "nan"):
        yield case(f"set.{operator}.f16x2.f16x2 %d, %a, %b;", "d:f16x2", "a:f16x2 b:f16x2")
        yield case(f"set.{operator}.u32.f16x2 %d, %a, %b;", "d:u32", "a:f16x2 b:f16x2")
        yield case(f"set.{operator}.bf16x2.bf16x2 %d, %a, %b;", "d:bf16x2", "a:bf16x2 b:bf16x2", target="sm_90")
        yield case(f"set.{operator}.u32.bf16x2 %d, %a, %b;", "d:u32", "a:bf16x2 b:bf16x2", target="sm_90")


def _selections() -> Iterator[Case]:
    for t in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
        rows = mixture([t, t, "pred"], 24, 92)
        yield case(f"selp.{t} %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:pred", rows)
        signed = [(a, b, c) for (a, b, _), c in zip(mixture([t, t, "s32"], 24, 93), corners("s32") * 3)]
        yield case(f"slct.{t}.s32 %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:s32", signed)
        floats = [(a, b, c) for (a, b, _), c in zip(mixture([t, t, "s32"], 32, 94), corners("f32") * 2)]
        for ftz in ("", ".ftz"):
            yield case(f"slct{ftz}.{t}.f32 %d, %a, %b, %c;", f"d:{t}", f"a:{t} b:{t} c:f32", floats)

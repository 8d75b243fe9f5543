"""Atomic operations: what they yield and what they leave behind, alone and under contention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import Bound, Case, case
from .values import Row, default_rows, mixture

_SHARED = ".shared .align 16 .b8 smem[1024];"
_OWN = {
    "global": ("", "mov.u64 %q1, %m;"),
    "": ("", "cvta.global.u64 %q1, %m;"),
    "shared": (_SHARED, "mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 16; add.u64 %q1, %q1, %q2;"),
}
_COMMON = {"global": ("", "mov.u64 %q1, %base;"), "shared": (_SHARED, "mov.u64 %q1, smem;")}

_INTEGER = (
    *(("add", t) for t in ("u32", "s32", "u64")),
    *((o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64")),
    *((o, t) for o in ("and", "or", "xor", "exch") for t in ("b32", "b64")),
    ("inc", "u32"),
    ("dec", "u32"),
)
_FLOATING = (
    ("add", "f32", "", "sm_80"),
    ("add", "f64", "", "sm_80"),
    ("add", "f16", ".noftz", "sm_80"),
    ("add", "f16x2", ".noftz", "sm_80"),
    ("add", "bf16", ".noftz", "sm_90"),
    ("add", "bf16x2", ".noftz", "sm_90"),
)


def cases() -> Iterator[Case]:
    yield from _alone()
    yield from _swaps()
    yield from _contended()
    yield from _vectors()


def _registers(t: str) -> str:
    return {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}.get(t, t)


def _alone() -> Iterator[Case]:
    """A thread on memory of its own: the old value and the new."""
    operations = [(o, t, "", "sm_80") for o, t in _INTEGER] + list(_FLOATING)
    payload = Bound(payload=True, isa="not said")  # global memory's own adder does not make a NaN quiet
    for (space, (declared, where)), (operation, t, suffix, target) in itertools.product(_OWN.items(), operations):
        dotted, kind = f".{space}" if space else "", _registers(t)
        rows = default_rows([t, t]) if suffix or t[0] == "f" else default_rows([t, t])[:145:2]
        before = f"{where} st{dotted}.{kind} [%q1], %a;"
        yield case(
            f"{before} atom{dotted}.{operation}{suffix}.{t} %d, [%q1], %b; ld{dotted}.{kind} %x, [%q1];",
            f"d:{t} x:{t}",
            f"a:{t} b:{t}",
            rows,
            declarations=declared,
            target=target,
            bound=payload if t == "f64" else None,
            name=f"atom{dotted}.{operation}{suffix}.{t}",
        )
        if operation != "exch":
            yield case(
                f"{before} red{dotted}.{operation}{suffix}.{t} [%q1], %b; ld{dotted}.{kind} %x, [%q1];",
                f"x:{t}",
                f"a:{t} b:{t}",
                rows[::2],
                declarations=declared,
                target=target,
                bound=payload if t == "f64" else None,
                name=f"red{dotted}.{operation}{suffix}.{t}",
            )
    for order, scope in itertools.product(("relaxed", "acquire", "release", "acq_rel"), ("cta", "gpu", "sys")):
        yield case(
            f"st.global.u32 [%m], %a; atom.{order}.{scope}.global.add.u32 %d, [%m], %b; ld.global.u32 %x, [%m];",
            "d:u32 x:u32",
            "a:u32 b:u32",
            mixture(["u32", "u32"], 8, 121),
            name=f"atom.{order}.{scope}.global.add.u32",
        )


def _swaps() -> Iterator[Case]:
    for (space, (declared, where)), t in itertools.product(_OWN.items(), ("b16", "b32", "b64")):
        dotted = f".{space}" if space else ""
        rows: list[Row] = [(a, a if k % 2 else b, c) for k, (a, b, c) in enumerate(mixture([t] * 3, 24, 122))]
        yield case(
            f"{where} st{dotted}.{t} [%q1], %a; atom{dotted}.cas.{t} %d, [%q1], %b, %c; ld{dotted}.{t} %x, [%q1];",
            f"d:{t} x:{t}",
            f"a:{t} b:{t} c:{t}",
            rows,
            declarations=declared,
            name=f"atom{dotted}.cas.{t}",
        )


def _contended() -> Iterator[Case]:
    """All threads of a block on one place: the order is open, what is left behind is not."""
    for (space, (declared, where)), (operation, t) in itertools.product(_COMMON.items(), _INTEGER):
        if operation == "exch":
            continue
        start = "7" if operation != "and" else "-1"
        yield case(
            f"{where} setp.ne.u32 %p1, %i, 0; @%p1 bra GO; st.{space}.{t} [%q1], {start};\nGO: bar.sync 0; "
            f"atom.{space}.{operation}.{t} %x, [%q1], %a; bar.sync 0; ld.{space}.{t} %d, [%q1];",
            f"d:{t}",
            f"a:{t}",
            # What inc and dec leave depends on the order unless all threads give the same limit.
            [(1000,)] * 64 if operation in ("inc", "dec") else [(v,) for (v,) in mixture([t], 64, 123)],
            declarations=f"{declared} .reg .{t} %x;",
            together=True,
            name=f"atom.{space}.{operation}.{t} contended",
        )


def _vectors() -> Iterator[Case]:
    rows = mixture(["f32"] * 4, 32, 124)
    yield case(
        "st.global.v2.f32 [%m], {%a, %b}; "
        "atom.global.v2.f32.add {%d, %x}, [%m], {%c, %e}; ld.global.v2.f32 {%y, %z}, [%m];",
        "d:f32 x:f32 y:f32 z:f32",
        "a:f32 b:f32 c:f32 e:f32",
        rows,
        target="sm_90",
        name="atom.global.v2.f32.add",
    )

"""Operations between the threads of a warp or a block: shuffles, votes, matches, reductions, barriers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .case import Case, case
from .values import Row, mixture, take

_FULL = 0xFFFFFFFF
_WIDTHS = (32, 16, 8, 4, 2)


def cases() -> Iterator[Case]:
    yield from _shuffles()
    yield from _partial_shuffles()
    yield from _votes()
    yield from _matches()
    yield from _reductions()
    yield from _active()
    yield from _barriers()


def _warp(
    text: str, outs: str, ins: str, rows: Sequence[Row], name: str, block: int = 32, target: str = "sm_80"
) -> Case:
    return case(text, outs, ins, rows, block=block, together=True, name=name, target=target)


def _values(count: int, seed: int = 131) -> list[int]:
    return take(seed, count, 32)


def _shuffles() -> Iterator[Case]:
    data = _values(64)
    for mode, width in itertools.product(("up", "down", "bfly", "idx"), _WIDTHS):
        c = (32 - width) << 8 | (0 if mode == "up" else 0x1F)
        for amount in (0, 1, 3, 15, 16, 31, 33):
            yield _warp(
                f"shfl.sync.{mode}.b32 %d|%x, %a, {amount}, {c}, -1;",
                "d:b32 x:pred",
                "a:b32",
                [(v,) for v in data[:32]],
                f"shfl.sync.{mode}.b32 by {amount} in {width}",
            )
        # Every lane its own amount: one that any lane may have.
        yield _warp(
            f"shfl.sync.{mode}.b32 %d|%x, %a, %b, %c, -1;",
            "d:b32 x:pred",
            "a:b32 b:u32 c:u32",
            [(v, w, c) for v, w in zip(data, _values(64, 132))],
            f"shfl.sync.{mode}.b32 in {width}",
        )
    # Clamps and segments that no width gives.
    for mode, c in itertools.product(
        ("up", "down", "bfly", "idx"), (0x0000, 0x000F, 0x1C03, 0x0A15, 0x1F1F, 0xFFFFE0E7)
    ):
        yield _warp(
            f"shfl.sync.{mode}.b32 %d|%x, %a, %b, {c}, -1;",
            "d:b32 x:pred",
            "a:b32 b:u32",
            list(zip(data, _values(64, 133))),
            f"shfl.sync.{mode}.b32 with c {c:#x}",
        )


def _partial_shuffles() -> Iterator[Case]:
    """Warps of fewer than 32 threads, masks of a part of the warp, two groups in different branches."""
    data = _values(60)
    for mode, b, c in (("idx", "%b", 31), ("up", "3", 0), ("bfly", "1", 31), ("down", "2", 0x1C1F)):
        rows = [(v, w % 20) for v, w in zip(data, _values(60, 134))]
        yield _warp(
            f"shfl.sync.{mode}.b32 %d|%x, %a, {b}, {c}, 0xFFFFF;",
            "d:b32 x:pred",
            "a:b32 b:u32",
            rows,
            f"shfl.sync.{mode}.b32 of 20 threads",
            block=20,
        )
    for mode, b in (("bfly", 2), ("idx", 5), ("down", 3), ("up", 3)):
        c = 0x1800 | (0 if mode == "up" else 0x1F)
        text = (
            f"setp.lt.u32 %p1, %lane, 16; @%p1 bra LOW; "
            f"shfl.sync.{mode}.b32 %d|%x, %a, {b}, {c}, 0xFFFF0000; bra JOIN;\n"
            f"LOW: add.u32 %r1, %a, 1; shfl.sync.{mode}.b32 %d|%x, %r1, {b}, {c}, 0x0000FFFF;\nJOIN:"
        )
        yield _warp(
            text, "d:b32 x:pred", "a:b32", [(v,) for v in _values(32, 135)], f"shfl.sync.{mode}.b32 in two branches"
        )


def _predicates(seed: int, count: int = 64) -> list[int]:
    """Three warps of any pattern would be all different; the second is all ones."""
    values = [v & 1 for v in take(seed, count)]
    return [1 if 32 <= k < 64 else v for k, v in enumerate(values)]


def _votes() -> Iterator[Case]:
    rows = [(v,) for v in [*_predicates(136, 64), *[0] * 32]]
    for mode, negated in itertools.product(("all", "any", "uni", "ballot"), ("", "!")):
        end = ".b32" if mode == "ballot" else ".pred"
        d = "b32" if mode == "ballot" else "pred"
        yield _warp(
            f"vote.sync.{mode}{end} %d, {negated}%a, -1;",
            f"d:{d}",
            "a:pred",
            rows,
            f"vote.sync.{mode}{end}{' negated' if negated else ''}",
        )
        for size, mask in ((20, 0xFFFFF), (7, 0x7F)):
            part = [(v,) for v in [*take(137, size, 1), *[1] * size, *[0] * size]]
            yield _warp(
                f"vote.sync.{mode}{end} %d, {negated}%a, {mask};",
                f"d:{d}",
                "a:pred",
                part,
                f"vote.sync.{mode}{end} of {size} threads{' negated' if negated else ''}",
                block=size,
            )
        text = (
            f"setp.lt.u32 %p1, %lane, 11; @%p1 bra LOW; vote.sync.{mode}{end} %d, {negated}%a, 0xFFFFF800; bra JOIN;\n"
            f"LOW: vote.sync.{mode}{end} %d, {negated}%a, 0x7FF;\nJOIN:"
        )
        yield _warp(
            text, f"d:{d}", "a:pred", rows, f"vote.sync.{mode}{end} in two branches{' negated' if negated else ''}"
        )


def _matches() -> Iterator[Case]:
    for t, shift in (("b32", 24), ("b64", 33)):
        groups = [(v % 5 << shift | 3,) for v in take(138, 32)] + [(77 << shift,)] * 32
        yield _warp(f"match.any.sync.{t} %d, %a, -1;", "d:b32", f"a:{t}", groups, f"match.any.sync.{t}")
        yield _warp(f"match.all.sync.{t} %d|%x, %a, -1;", "d:b32 x:pred", f"a:{t}", groups, f"match.all.sync.{t}")
        yield _warp(
            f"match.all.sync.{t} %d, %a, -1;", "d:b32", f"a:{t}", groups, f"match.all.sync.{t} without predicate"
        )
        part = groups[:20] + groups[32:52]
        yield _warp(
            f"match.any.sync.{t} %d, %a, 0xFFFFF;", "d:b32", f"a:{t}", part, f"match.any.sync.{t} of 20", block=20
        )
        yield _warp(
            f"match.all.sync.{t} %d|%x, %a, 0xFFFFF;",
            "d:b32 x:pred",
            f"a:{t}",
            part,
            f"match.all.sync.{t} of 20",
            block=20,
        )


def _reductions() -> Iterator[Case]:
    operations = [(o, t) for o in ("add", "min", "max") for t in ("u32", "s32")] + [
        (o, "b32") for o in ("and", "or", "xor")
    ]
    for operation, t in operations:
        rows = mixture([t], 64, 139)
        yield _warp(f"redux.sync.{operation}.{t} %d, %a, -1;", f"d:{t}", f"a:{t}", rows, f"redux.sync.{operation}.{t}")
        yield _warp(
            f"redux.sync.{operation}.{t} %d, %a, 0xFFFFF;",
            f"d:{t}",
            f"a:{t}",
            rows[:40],
            f"redux.sync.{operation}.{t} of 20",
            block=20,
        )
        text = (
            f"and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN; "
            f"redux.sync.{operation}.{t} %d, %a, 0xAAAAAAAA;"
            f" bra JOIN;\nEVEN: redux.sync.{operation}.{t} %d, %a, 0x55555555;\nJOIN:"
        )
        yield _warp(text, f"d:{t}", f"a:{t}", rows, f"redux.sync.{operation}.{t} of odd and even lanes")


def _active() -> Iterator[Case]:
    rows: list[Row] = [(k,) for k in range(64)]
    yield _warp("activemask.b32 %d;", "d:b32", "a:b32", rows, "activemask.b32")
    yield _warp("activemask.b32 %d;", "d:b32", "a:b32", rows[:60], "activemask.b32 of 20 threads", block=20)
    yield _warp(
        "mov.b32 %d, 0; setp.ge.u32 %p1, %lane, 10; @%p1 bra JOIN; activemask.b32 %d;\nJOIN:",
        "d:b32",
        "a:b32",
        rows,
        "activemask.b32 in a branch",
    )
    for leader_mask in (0xFFFFFFFF, 0xFFFFFF00, 0x80000000):
        yield _warp(
            f"mov.b32 %d, -1; setp.eq.u32 %x, 0, 1; shl.b32 %r1, 1, %lane; and.b32 %r1, %r1, {leader_mask}; "
            f"setp.eq.u32 %p1, %r1, 0; @%p1 bra JOIN; elect.sync %d|%x, {leader_mask};\nJOIN:",
            "d:b32 x:pred",
            "a:b32",
            rows,
            f"elect.sync among {leader_mask:#x}",
            target="sm_90",
        )


def _barriers() -> Iterator[Case]:
    rows = [(v,) for v in [*_predicates(140, 64)]] + [(1,)] * 64 + [(0,)] * 64
    for operation, d in (("popc.u32", "u32"), ("and.pred", "pred"), ("or.pred", "pred")):
        for negated in ("", "!"):
            mark = " negated" if negated else ""
            yield _warp(
                f"barrier.cta.red.{operation} %d, 0, {negated}%a;",
                f"d:{d}",
                "a:pred",
                rows,
                f"barrier.cta.red.{operation}{mark}",
                block=64,
            )
            yield _warp(
                f"bar.red.{operation} %d, 1, 64, {negated}%a;",
                f"d:{d}",
                "a:pred",
                rows,
                f"bar.red.{operation} with a count{mark}",
                block=64,
            )
    part = [(v,) for v in take(141, 80, 1)]
    yield _warp("bar.red.popc.u32 %d, 2, %a;", "d:u32", "a:pred", part, "bar.red.popc.u32 of 40 threads", block=40)
    yield case(
        "mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 4; add.u64 %q2, %q1, %q2; st.shared.b32 [%q2], %a; "
        "bar.sync 0; "
        "xor.b32 %r1, %t, 33; mul.wide.u32 %q2, %r1, 4; add.u64 %q2, %q1, %q2; ld.shared.b32 %d, [%q2];",
        "d:b32",
        "a:b32",
        [(v,) for v in _values(128, 142)],
        together=True,
        name="bar.sync",
        declarations=".shared .align 4 .b8 smem[256];",
    )
    yield case(
        "mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 4; add.u64 %q2, %q1, %q2; st.shared.b32 [%q2], %a; "
        "bar.warp.sync -1; "
        "xor.b32 %r1, %t, 17; mul.wide.u32 %q2, %r1, 4; add.u64 %q2, %q1, %q2; ld.shared.b32 %d, [%q2];",
        "d:b32",
        "a:b32",
        [(v,) for v in _values(128, 143)],
        together=True,
        name="bar.warp.sync",
        declarations=".shared .align 4 .b8 smem[256];",
    )

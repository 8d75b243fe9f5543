"""Matrix instructions on small integers, whose sums are exact in any order: mma, ldmatrix, stmatrix, movmatrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .case import Case, case
from .values import Row, bf16, f16, f32, f64, take

_SHARED = ".shared .align 16 .b8 smem[1024];"


def cases() -> Iterator[Case]:
    yield from _floating()
    yield from _integer()
    yield from _moves()


def _numbers(convert: Callable[..., list[int]], seed: int, count: int, limit: int = 4) -> list[int]:
    """Integers from -limit to limit as bits of a format."""
    return convert(*(float(v % (2 * limit + 1)) - limit for v in take(seed, count, 32)))


def _pairs(values: list[int]) -> list[int]:
    return [low | high << 16 for low, high in zip(values[::2], values[1::2])]


_ELEMENTS: dict[str, Callable[[int, int], list[int]]] = {
    "f16": lambda seed, n: _pairs(_numbers(f16, seed, 2 * n)),
    "bf16": lambda seed, n: _pairs(_numbers(bf16, seed, 2 * n)),
    "tf32": lambda seed, n: _numbers(f32, seed, n),
    "f32": lambda seed, n: _numbers(f32, seed, n, 100),
    "f64": lambda seed, n: _numbers(f64, seed, n, 100),
    "s32": lambda seed, n: take(seed, n, 8),
    "any": lambda seed, n: take(seed, n, 32),
}


def _rows(kinds: Sequence[str], warps: int = 2, seed: int = 151) -> list[Row]:
    threads = 32 * warps
    return list(zip(*(_ELEMENTS[kind](seed + k, threads) for k, kind in enumerate(kinds))))


def _mma(
    shape: str,
    d: str,
    a: str,
    b: str,
    c: str,
    counts: tuple[int, int, int],
    kinds: tuple[str, str, str],
    options: str = "",
    target: str = "sm_80",
    layout: str = "row.col",
) -> Case:
    """An `mma.sync`; `counts` registers of a, b, c (and d), of `kinds` of elements."""
    holder = {"f32": "f32", "f64": "f64", "s32": "s32", "f16": "b32"}
    wide = {"f64": "f64"}.get(a, "b32")
    names = [[f"{letter}{k}" for k in range(n)] for letter, n in zip("abc", counts)]
    results = [f"d{k}" for k in range(counts[2])]
    ins = " ".join([*(f"{n}:{wide}" for n in names[0] + names[1]), *(f"{n}:{holder[c]}" for n in names[2])])
    outs = " ".join(f"{n}:{holder[d]}" for n in results)
    a_, b_, c_, d_ = ("{" + ", ".join("%" + n for n in group) + "}" for group in (*names, results))
    opcode = f"mma.sync.aligned.{shape}.{layout}{options}.{d}.{a}.{b}.{c}"
    suffix = ".and.popc" if a == "b1" and "xor" not in options else ".xor.popc" if a == "b1" else ""
    opcode = opcode.replace(".xor", "") + suffix
    rows = _rows([kind for kind, n in zip(kinds, counts) for _ in range(n)])
    return case(f"{opcode} {d_}, {a_}, {b_}, {c_};", outs, ins, rows, block=32, together=True, target=target)


def _floating() -> Iterator[Case]:
    for k, (a, b) in ((8, (2, 1)), (16, (4, 2))):
        yield _mma(f"m16n8k{k}", "f32", "f16", "f16", "f32", (a, b, 4), ("f16", "f16", "f32"))
        yield _mma(f"m16n8k{k}", "f16", "f16", "f16", "f16", (a, b, 2), ("f16", "f16", "f16"))
        yield _mma(f"m16n8k{k}", "f32", "bf16", "bf16", "f32", (a, b, 4), ("bf16", "bf16", "f32"))
    yield _mma("m16n8k4", "f32", "tf32", "tf32", "f32", (2, 1, 4), ("tf32", "tf32", "f32"))
    yield _mma("m16n8k8", "f32", "tf32", "tf32", "f32", (4, 2, 4), ("tf32", "tf32", "f32"))
    yield _mma("m8n8k4", "f64", "f64", "f64", "f64", (1, 1, 2), ("f64", "f64", "f64"))
    for k, (a, b) in ((4, (2, 1)), (8, (4, 2)), (16, (8, 4))):
        yield _mma(f"m16n8k{k}", "f64", "f64", "f64", "f64", (a, b, 4), ("f64", "f64", "f64"), target="sm_90")
    for row in ("row.col", "row.row", "col.col", "col.row"):
        yield _mma("m8n8k4", "f32", "f16", "f16", "f32", (2, 2, 8), ("f16", "f16", "f32"), layout=row)
    yield _mma("m8n8k4", "f16", "f16", "f16", "f16", (2, 2, 4), ("f16", "f16", "f16"))


def _integer() -> Iterator[Case]:
    kinds = ("any", "any", "any")
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for end in ("", ".satfinite"):
                yield _mma("m8n8k16", "s32", a, b, "s32", (1, 1, 2), kinds, end)
                yield _mma("m16n8k16", "s32", a, b, "s32", (2, 1, 4), kinds, end)
                yield _mma("m16n8k32", "s32", a, b, "s32", (4, 2, 4), kinds, end)
    for a in ("s4", "u4"):
        for b in ("s4", "u4"):
            yield _mma("m8n8k32", "s32", a, b, "s32", (1, 1, 2), kinds)
            yield _mma("m16n8k32", "s32", a, b, "s32", (2, 1, 4), kinds)
            yield _mma("m16n8k64", "s32", a, b, "s32", (4, 2, 4), kinds, ".satfinite")
    for operation in (".and", ".xor"):
        options = ".xor" if operation == ".xor" else ""
        yield _mma("m8n8k128", "s32", "b1", "b1", "s32", (1, 1, 2), kinds, options)
        yield _mma("m16n8k128", "s32", "b1", "b1", "s32", (2, 1, 4), kinds, options)
        yield _mma("m16n8k256", "s32", "b1", "b1", "s32", (4, 2, 4), kinds, options)


_FILL = (
    "mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 16; add.u64 %q2, %q1, %q2; "
    "st.shared.v4.b32 [%q2], {%a0, %a1, %a2, %a3}; bar.sync 0; "
)


def _moves() -> Iterator[Case]:
    rows = [(*values, permuted % 32) for values, permuted in zip(_rows(["any"] * 4), take(161, 64, 32))]
    ins = "a0:b32 a1:b32 a2:b32 a3:b32 b:u32"
    for count in (1, 2, 4):
        results = [f"d{k}" for k in range(count)]
        vector = "{" + ", ".join("%" + n for n in results) + "}"
        for trans in ("", ".trans"):
            yield case(
                f"{_FILL} mul.wide.u32 %q2, %b, 16; add.u64 %q2, %q1, %q2; "
                f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {vector}, [%q2];",
                " ".join(f"{n}:b32" for n in results),
                ins,
                rows,
                block=32,
                together=True,
                declarations=_SHARED,
                name=f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16",
            )
            stored = "{" + ", ".join(f"%a{k}" for k in range(count)) + "}"
            yield case(
                f"mov.u64 %q1, smem; mul.wide.u32 %q2, %t, 16; add.u64 %q2, %q1, %q2; st.shared.v4.b32 [%q2], "
                "{%b, %b, %b, %b}; bar.sync 0; "
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%q2], {stored}; bar.sync 0; "
                "ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%q2];",
                "d0:b32 d1:b32 d2:b32 d3:b32",
                ins,
                rows,
                block=32,
                together=True,
                declarations=_SHARED,
                name=f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16",
                target="sm_90",
            )
    yield case(
        "movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", "d:b32", "a:b32", _rows(["any"]), block=32, together=True
    )

"""cvt between every two types, with every rounding and saturation, and the narrow formats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .case import BITS, Case, case
from .values import Row, default_rows, f64, float_corners, integral_corners, more, unary

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_MODES = ("rn", "rz", "rm", "rp")
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def _holder(t: str) -> str:
    """The register type for a type; 8-bit values live in 16 bits, so that the extension is seen."""
    return {"u8": "u16", "s8": "s16"}.get(t, t)


def _cvt(modifiers: str, target: str, source: str, arch: str = "sm_80", rows: list[Row] | None = None) -> Case:
    return case(
        f"cvt{modifiers}.{target}.{source} %d, %a;", f"d:{_holder(target)}", f"a:{_holder(source)}", rows, target=arch
    )


def cases() -> Iterator[Case]:
    yield from _between_integers()
    yield from _from_integers()
    yield from _to_integers()
    yield from _between_floats()
    yield from _packed()
    yield from _tensor_formats()
    yield from _wide_registers()


def _integers(t: str) -> list[Row]:
    """Ends of the narrower types in wide ones too; an 8-bit type's register has bits above that do not count."""
    values = unary(_holder(t))
    bits = BITS[_holder(t)]
    for narrow in (8, 16, 32):
        if narrow <= bits:
            edge = 1 << (narrow - 1)
            values += [edge - 1, edge, edge + 1, 2 * edge - 1, 2 * edge, -edge, -edge - 1, -2 * edge]
    return [(v & (1 << bits) - 1,) for v in dict.fromkeys(values)]


def _holds(target: str, source: str) -> bool:
    """Whether the type `target` has all values of `source`."""
    unsigned = source[0] == "u"
    return BITS[target] >= BITS[source] + (unsigned and target[0] == "s") and (unsigned or target[0] == "s")


def _between_integers() -> Iterator[Case]:
    for source, target in itertools.product(_INTEGERS, repeat=2):
        yield _cvt("", target, source, rows=_integers(source))
        if not _holds(target, source):  # there is nothing to saturate, and the assembler says so
            yield _cvt(".sat", target, source, rows=_integers(source))


def _from_integers() -> Iterator[Case]:
    for source, target, mode in itertools.product(_INTEGERS, _FLOATS, _MODES):
        if target in ("f16", "bf16") and mode in ("rm", "rp") and BITS[source] < 32:
            continue  # 32- and 64-bit sources show the same
        if target == "bf16" and BITS[source] == 8:
            continue  # not in the ISA
        rows = _integers(source)
        if source[1:] in ("32", "64"):
            bits = BITS[source]
            ties = [(1 << k) + (1 << j) for k in range(12, bits - 1, 9) for j in range(max(k - 54, 0), k, 7)]
            rows += [(v + d & (1 << bits) - 1,) for v in ties for d in (0, 1)][:60]
        yield _cvt(f".{mode}", target, source, "sm_90" if target == "bf16" else "sm_80", rows)
    for source, target in itertools.product(("u16", "s32", "u64"), ("f16", "f32", "f64")):
        yield _cvt(".rn.sat", target, source, rows=_integers(source))


def _floats(t: str) -> list[Row]:
    values = unary(t) + integral_corners(t)
    return [(v,) for v in dict.fromkeys(values)]


def _to_integers() -> Iterator[Case]:
    for source, target, mode in itertools.product(_FLOATS, _INTEGERS, _INTEGRAL):
        arch = "sm_90" if source == "bf16" else "sm_80"
        if source == "bf16" and BITS[target] == 8:
            continue  # not in the ISA
        yield _cvt(f".{mode}", target, source, arch, _floats(source))
        if source == "f32" and mode in ("rni", "rpi"):
            yield _cvt(f".{mode}.ftz", target, source, arch, _floats(source))
    for source, target in itertools.product(("f16", "f32", "f64"), ("u8", "s8", "u32", "s64")):
        yield _cvt(".rzi.sat", target, source, rows=_floats(source))


def _narrowing(source: str) -> list[Row]:
    """Values around what the narrower formats can hold: overflow, subnormals, ties."""
    values = [v for (v,) in _floats(source)]
    if source == "f64":
        numbers: list[float] = []
        for top, low, digits in (
            (65504.0, 2.0**-24, 11),
            (2.0**128 - 2.0**104, 2.0**-149, 24),
            (2.0**128 - 2.0**120, 2.0**-133, 8),
        ):
            ulp = 2.0 ** (1 - digits)
            numbers += [
                top,
                top * (1 + ulp / 4),
                top * (1 + ulp / 2),
                top * (1 + ulp),
                low,
                low / 2,
                low / 2 * 1.0001,
                low * 1.5,
                low * 2.5,
                low / 3,
                1 + ulp / 2,
                1 + ulp * 1.5,
                1 + ulp / 2 + 2.0**-52,
                1 + ulp / 2 - 2.0**-52,
            ]
        values += f64(*numbers, *(-n for n in numbers))
    if source == "f32":
        for edge in (
            0x477FE000,
            0x477FF000,
            0x33800000,
            0x33000000,
            0x387FC000,
            0x3F801000,
            0x3F803000,
            0x3F808000,
            0x3F818000,
            0x7F7F8000,
            0x7F7F0000,
            0x00008000,
            0x00018000,
            0x38800000,
        ):
            values += [edge - 1, edge, edge + 1, edge | 1 << 31, edge + 1 | 1 << 31]
    return [(v,) for v in dict.fromkeys(values)]


def _between_floats() -> Iterator[Case]:
    for t in ("f16", "f32", "f64"):
        for mode in _INTEGRAL:
            yield _cvt(f".{mode}", t, t, rows=_floats(t))
        yield _cvt(".rni.sat", t, t, rows=_floats(t))
        yield _cvt(".sat", t, t, rows=_floats(t)) if t != "f16" else _cvt("", t, t, rows=_floats(t))
    yield _cvt(".ftz", "f32", "f32", rows=_floats("f32"))
    yield _cvt(".rzi.ftz", "f32", "f32", rows=_floats("f32"))
    yield _cvt(".ftz.sat", "f32", "f32", rows=_floats("f32"))
    yield _cvt(".rni", "bf16", "bf16", "sm_90", _floats("bf16"))
    for mode in _MODES:
        for ending in ("", ".ftz", ".sat", ".ftz.sat"):
            yield _cvt(f".{mode}{ending}", "f32", "f64", rows=_narrowing("f64"))
        for ending in ("", ".sat"):
            yield _cvt(f".{mode}{ending}", "f16", "f64", rows=_narrowing("f64"))
            yield _cvt(f".{mode}{ending}", "f16", "f32", rows=_narrowing("f32"))
        yield _cvt(f".{mode}.ftz", "f16", "f32", rows=_narrowing("f32"))
        yield _cvt(f".{mode}", "bf16", "f64", "sm_90", _narrowing("f64"))
        yield _cvt(f".{mode}", "bf16", "f16", "sm_90", _floats("f16"))
        yield _cvt(f".{mode}", "f16", "bf16", "sm_90", _floats("bf16"))
        yield _cvt(f".{mode}", "bf16", "f32", "sm_80", _narrowing("f32"))
    for mode in ("rn", "rz"):
        for t in ("f16", "bf16"):
            yield _cvt(f".{mode}.relu", t, "f32", rows=_narrowing("f32"))
    for target in ("f32", "f64"):
        yield _cvt("", target, "bf16", "sm_80" if target == "f32" else "sm_90", _floats("bf16"))
        for ending in ("", ".sat"):
            yield _cvt(ending, target, "f16", rows=_floats("f16"))
    for ending in ("", ".ftz", ".sat"):
        yield _cvt(ending, "f64", "f32", rows=_floats("f32"))
    yield _cvt(".ftz", "f32", "f16", rows=_floats("f16"))


def _packed() -> Iterator[Case]:
    values = [v for (v,) in _narrowing("f32")]
    rows = list(zip(values, values[17:] + values[:17]))
    for t, mode, relu in itertools.product(("f16x2", "bf16x2"), ("rn", "rz"), ("", ".relu")):
        yield case(f"cvt.{mode}{relu}.{t}.f32 %d, %a, %b;", f"d:{t}", "a:f32 b:f32", rows)
    halves = float_corners("f16")
    for t in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            yield case(
                f"cvt.rn.satfinite{relu}.{t}.f32 %d, %a, %b;", "d:b16", "a:f32 b:f32", _eights(rows), target="sm_90"
            )
            yield case(
                f"cvt.rn.satfinite{relu}.{t}.f16x2 %d, %a;",
                "d:b16",
                "a:f16x2",
                target="sm_90",
                rows=[(a | b << 16,) for a, b in zip(halves + more("f16", 95, 40), more("f16", 96, 56))],
            )
            yield case(
                f"cvt.rn{relu}.f16x2.{t} %d, %a;",
                "d:f16x2",
                "a:b16",
                [(v * 257 ^ v << 3,) for v in range(256)],
                target="sm_90",
            )


def _eights(rows: list[tuple[int, int]]) -> list[Row]:
    """Rows with numbers that the 8-bit formats tell apart: ties, ends, subnormals."""
    from .values import f32

    numbers = f32(
        448.0,
        464.0,
        464.1,
        480.0,
        57344.0,
        61440.0,
        61441.0,
        65536.0,
        2.0**-9,
        2.0**-10,
        2.0**-10 * 1.01,
        2.0**-16,
        2.0**-17,
        2.0**-17 * 1.01,
        1.0625,
        1.1875,
        1.125,
        1.375,
        0.015625,
        0.0146484375,
    )
    return [*rows[:70], *((a, b ^ 1 << 31) for a, b in zip(numbers, numbers[3:] + numbers[:3]))]


def _tensor_formats() -> Iterator[Case]:
    values = unary("f32") + [
        0x3F801000,
        0x3F800FFF,
        0x3F801001,
        0x3F803000,
        0xBF801000,
        0x7F7FFFFF,
        0x7F7FEFFF,
        0x7F7FF000,
        0x00001000,
        0x00000FFF,
        0x807FF000,
    ]
    rows: list[Row] = [(v,) for v in values]
    yield case("cvt.rna.tf32.f32 %d, %a;", "d:b32", "a:f32", rows)
    for mode, relu in itertools.product(("rn", "rz"), ("", ".relu")):
        yield case(f"cvt.{mode}{relu}.tf32.f32 %d, %a;", "d:b32", "a:f32", rows, target="sm_90")


def _wide_registers() -> Iterator[Case]:
    """Sources and destinations in registers wider than the type."""
    for source in ("u8", "s8", "u16", "s16"):
        yield case(
            f"cvt.u64.{source} %d, %a;", "d:u64", "a:b32", default_rows(["b32"]), name=f"cvt.u64.{source} of b32"
        )
        yield case(
            f"cvt.rn.f32.{source} %d, %a;", "d:f32", "a:b32", default_rows(["b32"]), name=f"cvt.rn.f32.{source} of b32"
        )
    for target in ("u8", "s8", "u16", "s16"):
        yield case(
            f"cvt.rzi.{target}.f32 %d, %a;", "d:b32", "a:f32", _floats("f32"), name=f"cvt.rzi.{target}.f32 to b32"
        )
        yield case(
            f"cvt.sat.{target}.s32 %d, %a;", "d:b32", "a:s32", _integers("s32"), name=f"cvt.sat.{target}.s32 to b32"
        )
        yield case(f"cvt.{target}.s64 %d, %a;", "d:b64", "a:s64", _integers("s64"), name=f"cvt.{target}.s64 to b64")

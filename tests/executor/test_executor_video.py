"""Video instructions against the pseudocode of the PTX ISA, written out in Python's integers."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from executor_harness import HEADER, Case, cuda, evaluate, expect, integers, pointers
from support.assemble import assemble

from abi import ImageError
from interop.executor import compile_kernel

SELECTORS = ["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]
OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
}
COMPARISONS = {
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
}
MASK = 0xFFFFFFFF


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def part(word: int, selector: str, type_: str) -> int:
    if not selector:
        return signed(word, 32) if type_ == "s32" else word
    bits = 8 if selector[1] == "b" else 16
    value = word >> bits * int(selector[2]) & ((1 << bits) - 1)
    return signed(value, bits) if type_ == "s32" else value


def clamp(value: int, bits: int, type_: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_ == "s32" else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def finish(value: int, c: int, sat: bool, type_: str, second: str, selector: str) -> int:
    bits = 32 if not selector else 8 if selector[1] == "b" else 16
    if sat:
        value = clamp(value, bits, type_)
    value &= MASK
    if second:
        if second == ".add":
            return (value + c) & MASK
        pick = min if second == ".min" else max
        if type_ == "s32":
            return pick(signed(value, 32), signed(c, 32)) & MASK
        return pick(value, c)
    if not selector:
        return value
    at = bits * int(selector[2])
    mask = ((1 << bits) - 1) << at
    return c & ~mask | (value << at) & mask


def inputs(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    values = integers("b32", seed, 40)
    return [rng.permutation(values) for _ in range(3)]


def check(texts: list[str], reference: list) -> None:  # type: ignore[type-arg]
    """Runs instructions over the same inputs; each reference takes a, b and c."""
    a, b, c = inputs(len(texts))
    cases = [Case(text, "b32", ("b32", "b32", "b32")) for text in texts]
    registers = ".reg .b32 %d, %a, %b, %c;"
    assemble(HEADER.replace("sm_90", "sm_80") + f".entry k() {{ {registers} {' '.join(texts)} ret; }}")
    for text, got, wanted in zip(texts, evaluate(cases, [(a, b, c)] * len(cases)), reference):
        exact = np.array([wanted(int(x), int(y), int(z)) & MASK for x, y, z in zip(a, b, c)], np.uint32)
        expect(got, exact, a, b, c, label=text)


def forms(seed: int, count: int) -> list[tuple[str, str, str, bool, str, str, str, str]]:
    """A sample of (types, sat, second operation, selectors); a selector of the destination excludes the second."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        second, selector = rng.choice([("", s) for s in SELECTORS] + [(s, "") for s in (".add", ".min", ".max")])
        types = [rng.choice(["u32", "s32"]) for _ in range(3)]
        found.append((*types, rng.random() < 0.5, second, selector, rng.choice(SELECTORS), rng.choice(SELECTORS)))
    return found


@pytest.mark.parametrize("operation", ["add", "sub", "absdiff", "min", "max"])
def test_scalar(operation: str) -> None:
    texts, references = [], []
    for d, at, bt, sat, second, ds, asel, bsel in forms(len(operation) + ord(operation[1]), 25):
        third = ", %c" if second or ds else ""
        texts.append(f"v{operation}.{d}.{at}.{bt}{'.sat' * sat}{second} %d{ds}, %a{asel}, %b{bsel}{third};")
        references.append(
            lambda a, b, c, d=d, at=at, bt=bt, sat=sat, second=second, ds=ds, asel=asel, bsel=bsel: finish(
                OPERATIONS[operation](part(a, asel, at), part(b, bsel, bt)), c, sat, d, second, ds
            )
        )
    check(texts, references)


@pytest.mark.parametrize("operation", ["shl", "shr"])
def test_shifts(operation: str) -> None:
    texts, references = [], []
    for (d, at, _, sat, second, ds, asel, bsel), mode in zip(forms(7, 24), itertools.cycle(["clamp", "wrap"])):
        third = ", %c" if second or ds else ""
        texts.append(f"v{operation}.{d}.{at}.u32{'.sat' * sat}.{mode}{second} %d{ds}, %a{asel}, %b{bsel}{third};")

        def reference(
            a: int, b: int, c: int, d=d, at=at, sat=sat, second=second, ds=ds, asel=asel, bsel=bsel, mode=mode
        ) -> int:
            amount = part(b, bsel, "u32")
            amount = min(amount, 32) if mode == "clamp" else amount & 31
            value = part(a, asel, at)
            value = value << amount if operation == "shl" else value >> amount
            return finish(value, c, sat, d, second, ds)

        references.append(reference)
    check(texts, references)


def test_comparisons() -> None:
    texts, references = [], []
    for (_, at, bt, _, second, ds, asel, bsel), name in zip(forms(11, 24), itertools.cycle(COMPARISONS)):
        third = ", %c" if second or ds else ""
        texts.append(f"vset.{at}.{bt}.{name}{second} %d{ds}, %a{asel}, %b{bsel}{third};")
        references.append(
            lambda a, b, c, at=at, bt=bt, name=name, second=second, ds=ds, asel=asel, bsel=bsel: finish(
                COMPARISONS[name](part(a, asel, at), part(b, bsel, bt)), c, False, "u32", second, ds
            )
        )
    check(texts, references)


def test_multiply_and_add() -> None:
    rng = random.Random(3)
    texts, references = [], []
    for negated, scale, sat in itertools.product(["", "a", "b", "c", "po"], [0, 7, 15], [False, True]):
        type_ = rng.choice(["u32", "s32"])
        asel, bsel = rng.choice(SELECTORS[1:]), rng.choice(SELECTORS[1:])
        signs = ["-" * (negated == name) for name in "abc"]
        modifiers = ".po" * (negated == "po") + ".sat" * sat + (f".shr{scale}" if scale else "")
        target = "s32" if type_ == "s32" or negated in ("a", "b", "c") else "u32"
        texts.append(
            f"vmad.{target}.{type_}.{type_}{modifiers} %d, {signs[0]}%a{asel}, {signs[1]}%b{bsel}, {signs[2]}%c;"
        )

        def reference(
            a: int, b: int, c: int, type_=type_, negated=negated, scale=scale, sat=sat, asel=asel, bsel=bsel
        ) -> int:
            final = type_ == "s32" or negated in ("a", "b", "c")
            product = part(a, asel, type_) * part(b, bsel, type_)
            addend = signed(c, 32) if final else c
            total = (-product if negated in ("a", "b") else product) + (-addend if negated == "c" else addend)
            total = (total + (negated == "po")) >> scale
            return clamp(total, 32, "s32" if final else "u32") if sat else total

        references.append(reference)
    check(texts, references)


@pytest.mark.parametrize("operation", [*(o for o in OPERATIONS), "set"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_simd(operation: str, lanes: int) -> None:
    rng = random.Random(lanes * 100 + len(operation))
    bits, letter = 32 // lanes, "h" if lanes == 2 else "b"
    texts, references = [], []
    for _ in range(24):
        d, at, bt = (rng.choice(["u32", "s32"]) for _ in range(3))
        sat = rng.random() < 0.4 and operation != "set"
        accumulate = not sat and rng.random() < 0.5
        mask = sorted(rng.sample(range(lanes), rng.randint(1, lanes)))
        asel, bsel = ([rng.randrange(2 * lanes) for _ in range(lanes)] for _ in range(2))
        if rng.random() < 0.3:
            asel, bsel, mask = list(range(lanes)), list(range(lanes, 2 * lanes)), list(range(lanes))
            names = ["", "", ""]
        else:
            names = [f".{letter}" + "".join(map(str, reversed(s))) for s in (mask, asel, bsel)]
        name = rng.choice(list(COMPARISONS))
        types = f"{at}.{bt}.{name}" if operation == "set" else f"{d}.{at}.{bt}"
        texts.append(
            f"v{operation}{lanes}.{types}{'.sat' * sat}{'.add' * accumulate} "
            f"%d{names[0]}, %a{names[1]}, %b{names[2]}, %c;"
        )

        def reference(
            a: int, b: int, c: int, d=d, at=at, bt=bt, sat=sat, accumulate=accumulate, mask=mask, asel=asel, bsel=bsel,
            name=name,
        ) -> int:  # fmt: skip
            def lane(number: int, type_: str) -> int:
                value = (a | b << 32) >> bits * number & ((1 << bits) - 1)
                return signed(value, bits) if type_ == "s32" else value

            result = c
            for k in mask:
                x, y = lane(asel[k], at), lane(bsel[k], bt)
                value = COMPARISONS[name](x, y) if operation == "set" else OPERATIONS[operation](x, y)
                if sat:
                    value = clamp(value, bits, d)
                if accumulate:
                    result += value
                else:
                    field = ((1 << bits) - 1) << bits * k
                    result = result & ~field | (value << bits * k) & field
            return result

        references.append(reference)
    check(texts, references)


def test_the_compilers_intrinsics() -> None:
    """What CUDA C++ offers under names of its own."""
    source = """extern "C" __global__ void k(unsigned* y, const unsigned* a, const unsigned* b) { int i = threadIdx.x;
      y[6 * i] = __vabsdiffu4(a[i], b[i]); y[6 * i + 1] = __vsadu4(a[i], b[i]); y[6 * i + 2] = __vaddss2(a[i], b[i]);
      y[6 * i + 3] = __vavgu4(a[i], b[i]); y[6 * i + 4] = __vcmpgtu2(a[i], b[i]); y[6 * i + 5] = __vmaxs4(a[i], b[i]);
    }"""
    a, b, _ = inputs(5)
    y = np.full((len(a), 6), 0xA5A5A5A5, np.uint32)
    compile_kernel(cuda(source), "k").launch(pointers(y, a, b), 1, len(a))
    bytes_a, bytes_b = (x.view(np.uint8).reshape(-1, 4).astype(int) for x in (a, b))
    halves_a, halves_b = (x.view(np.int16).reshape(-1, 2).astype(int) for x in (a, b))
    difference = np.abs(bytes_a - bytes_b)
    assert np.array_equal(y[:, 0], difference.astype(np.uint8).view(np.uint32).ravel())
    assert np.array_equal(y[:, 1], difference.sum(1))
    clamped = np.clip(halves_a + halves_b, -32768, 32767).astype(np.int16)
    assert np.array_equal(y[:, 2], clamped.view(np.uint32).ravel())
    assert np.array_equal(y[:, 3], ((bytes_a + bytes_b + 1) // 2).astype(np.uint8).view(np.uint32).ravel())
    larger = np.where((halves_a & 0xFFFF) > (halves_b & 0xFFFF), 0xFFFF, 0).astype(np.uint16)
    assert np.array_equal(y[:, 4], larger.view(np.uint32).ravel())
    larger8 = np.maximum(bytes_a.astype(np.int8), bytes_b.astype(np.int8))
    assert np.array_equal(y[:, 5], larger8.view(np.uint32).ravel())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vadd.u32.u32 %d, %a, %b;", "3 types are expected"),
        ("vadd.u32.u32.u32 %d, %a.h2, %b;", ".h2 selects no part"),
        ("vshl.u32.u32.u32 %d, %a, %b;", ".clamp or .wrap is missing"),
        ("vset.u32.u32 %d, %a, %b;", "the comparison is missing"),
        ("vadd4.u32.u32.u32.sat.add %d, %a, %b, %c;", ".sat and .add exclude each other"),
        ("vadd4.u32.u32.u32 %d, %a.b123, %b, %c;", "4 parts are selected"),
        ("vadd2.u32.u32.u32 %d, %a.b12, %b, %c;", "selects no parts of 16 bits"),
        ("vmad.s32.s32.s32.po %d, -%a, %b, %c;", ".po takes no negated operands"),
        ("add.u32 %d, -%a, %b;", "an operand of this kind is not allowed here"),
    ],
)  # fmt: skip
def test_malformed_forms_are_refused(text: str, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        compile_kernel(HEADER + f".entry k() {{ .reg .b32 %a, %b, %c, %d; {text} ret; }}", "k")


def test_the_nth_one_of_a_mask() -> None:
    mask, base, offset = integers("b32", 1, 200), *(np.zeros(0, np.uint32),) * 2
    rng = np.random.default_rng(2)
    base = rng.integers(0, 32, len(mask)).astype(np.uint32)
    offset = rng.integers(-20, 21, len(mask)).astype(np.int32)
    (got,) = evaluate([Case("fns.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "s32"))], [(mask, base, offset)])

    def reference(m: int, start: int, n: int) -> int:
        if n == 0:
            return start if m >> start & 1 else MASK
        order = range(start, 32) if n > 0 else range(start, -1, -1)
        ones = [k for k in order if m >> k & 1]
        return ones[abs(n) - 1] if abs(n) <= len(ones) else MASK

    expect(got, np.array([reference(*map(int, x)) for x in zip(mask, base, offset)], np.uint32), mask, base, offset)


@pytest.mark.parametrize("type_", ["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"])
def test_packing_with_saturation(type_: str) -> None:
    bits = int(type_[1:])
    third = ", %c" if bits < 16 else ""
    suffix = ".b32" if bits < 16 else ""
    text = f"cvt.pack.sat.{type_}.s32{suffix} %d, %a, %b{third};"
    a, b, c = inputs(9)
    small = np.random.default_rng(1).integers(-300, 300, len(a)).astype(np.int32).view(np.uint32)
    a = np.where(np.arange(len(a)) % 2, a, small)
    assemble(HEADER + f".entry k() {{ .reg .b32 %d, %a, %b, %c; {text} ret; }}", "sm_90")
    (got,) = evaluate([Case(text, "b32", ("b32", "b32", "b32"))], [(a, b, c)])

    def reference(x: int, y: int, z: int) -> int:
        kind = "s32" if type_[0] == "s" else "u32"
        mask = (1 << bits) - 1
        low, high = (clamp(signed(v, 32), bits, kind) & mask for v in (y, x))
        return (low | high << bits | (z << 2 * bits if bits < 16 else 0)) & MASK

    expect(got, np.array([reference(*map(int, v)) for v in zip(a, b, c)], np.uint32), a, b, c, label=text)

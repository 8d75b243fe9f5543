"""Rust kernels, core library and all, on the CPU device: exact results."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from compilers_harness import RNG, Made, Source, kept, poisoned

from abi import ExecutionError


def rust() -> Source:
    """What is kept; ``INTEROP_TEST_RUST`` names another folder that ``make/keep_rust.sh`` has filled."""
    other = os.environ.get("INTEROP_TEST_RUST")
    return Source(Path(other)) if other else kept("rust")


def kernel(name: str) -> Made:
    return rust().kernel(name)


def test_saxpy() -> None:
    n = 1003
    x, y = (RNG.standard_normal(n, dtype=np.float32) for _ in range(2))
    a, before = np.float32(1.25), y.copy()
    kernel("saxpy")(3, 96, x, y, n, a)
    assert np.array_equal(y, before + a * x)  # Rust never contracts a product and a sum


def test_sort_and_binary_search() -> None:
    rows, columns = 37, 90  # longer than what is sorted by insertion
    data = RNG.integers(-(2**63), 2**63, (rows, columns), dtype=np.int64, endpoint=False)
    data[3] = np.sort(data[3])
    data[4] = np.sort(data[4])[::-1]
    data[5] = RNG.integers(0, 4, columns)
    wanted, needle = np.sort(data, axis=1), int(data[7, 11])
    found = poisoned(rows, np.int32)
    kernel("sort")(2, 32, data, found, rows, columns, needle)
    assert np.array_equal(data, wanted)
    places = [-1 if needle in row else int(np.searchsorted(row, needle)) for row in wanted]
    assert found.tolist() == places


def expected(data: bytes) -> tuple[int, int]:
    """What Rust's `str` and `i64` say of a text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return error.start, 1
    word = text.strip()
    if not word:
        return 0, 2
    digits = word[1:] if word[0] in "+-" else word
    if not digits or not all("0" <= c <= "9" for c in digits):
        return len(text), 3
    value = int(word)
    return (0, 4) if value >= 2**63 else (0, 5) if value < -(2**63) else (value, 0)


def test_numbers_from_text() -> None:
    texts = ["", " ", "0", "-0", "+7", "  42\n", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
             "-9223372036854775809", "12a", "--1", "-", "äöü€𝄞", "\u2003 -15\u00a0", "1_000",
             "99999999999999999999999"]  # fmt: skip
    encoded = [t.encode() for t in texts] + [b"\xff", b"ab\xc3", b"1\xed\xa0\x80", "é€".encode() + b"\xf5", b"\xc0\x80"]
    encoded += [str(v).encode() for v in RNG.integers(-(2**63), 2**63, 40, dtype=np.int64)]
    encoded += [bytes(RNG.integers(0, 256, RNG.integers(1, 20), np.uint8)) for _ in range(40)]
    encoded += ["".join(map(chr, RNG.integers(32, 0x2FFF, 12))).encode() for _ in range(20)]
    data, ends = np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(e) for e in encoded]).astype(np.uint32)
    n = len(encoded)
    values, kinds = poisoned(n, np.int64), poisoned(n, np.uint8)
    kernel("parse")(2, 96, data, ends, values, kinds, n)
    assert list(zip(values.tolist(), kinds.tolist())) == [expected(e) for e in encoded]


def test_trait_objects() -> None:
    n = 50
    x = RNG.standard_normal(n)
    areas, names = poisoned(n, np.float64), poisoned(n, np.uint8)
    kernel("shapes")(1, 64, x, areas, names, n)
    third = np.arange(n) % 3 == 0
    assert np.array_equal(areas, np.where(third, 0.5 * (x * 3 + 1), x * 2))
    assert np.array_equal(names, np.where(third, ord("?"), ord("r")))


def test_integers_of_128_bits() -> None:
    n = 200
    a, b = (RNG.integers(0, 2**64, n, np.uint64) for _ in range(2))
    a[:3], b[:3] = [0, 2**64 - 1, 1], [0, 2**64 - 1, 127]
    out = poisoned((n, 5, 2), np.uint64)
    kernel("wide")(4, 64, a, b, out, n)
    for x, y, row in zip(a.tolist(), b.tolist(), out.tolist()):
        product, turn = x * y, x % 2**32 % 128
        shifted = (product << turn | product >> (128 - turn)) % 2**128
        powers = (x * product - shifted) % 2**128
        wanted = [product, shifted, powers, product.bit_count(), product >> y % 128 ^ x]
        assert [low | high << 64 for low, high in row] == wanted


def test_atomics() -> None:
    n, m = 1000, 7
    x = RNG.integers(0, 2**32, n, np.uint32)
    bins, top = np.zeros(m, np.uint32), np.array([-(2**40), 5])
    kernel("count")(8, 128, x, n, bins, m, top, threads=2)
    assert np.array_equal(bins, np.bincount(x % m, minlength=m))
    assert top.tolist() == [int(x.max()) - 2**31, min(5 + int(x.astype(np.int64).sum()), 2**40)]


def test_index_past_the_end_stops_the_kernel() -> None:
    x, out = RNG.integers(0, 2**32, 10, np.uint32), poisoned(1, np.uint32)
    kernel("beyond")(1, 1, x, 10, 9, out)
    assert out[0] == x[9]
    with pytest.raises(ExecutionError, match="beyond"):
        kernel("beyond")(1, 1, x, 10, 10, out)
    assert out[0] == x[9]

"""CUDA C++ whose threads work together, as three compilers translate it: locks, atomics, warps, calls, the heap."""

from __future__ import annotations

import numpy as np
import pytest
from compilers_harness import RNG, Cuda, poisoned

BUCKET = np.dtype([("lock", np.int32), ("length", np.int32), ("head", np.int32), ("checksum", np.int32)])


@pytest.mark.source("lists")
def test_locks_between_threads_of_a_warp(cuda: Cuda) -> None:
    n, size = 500, 7
    keys = RNG.integers(0, size, n, dtype=np.int32)
    buckets, after = np.zeros(size, BUCKET), poisoned(n, np.int32)
    buckets["head"] = -1
    cuda.kernel()(4, 128, buckets, after, keys, n, threads=2)
    assert not buckets["lock"].any()
    assert np.array_equal(buckets["length"], np.bincount(keys, minlength=size))
    for key, bucket in enumerate(buckets):
        found, checksum, at = [], 0, int(bucket["head"])
        while at >= 0:
            found.append(at)
            at = int(after[at])
        for _ in found:
            checksum = (checksum * 3 + key) % (1 << 32)
        assert sorted(found) == np.flatnonzero(keys == key).tolist()
        assert int(bucket["checksum"]) % (1 << 32) == checksum


@pytest.mark.source("components")
def test_connected_components(cuda: Cuda) -> None:
    n, m = 300, 230
    edges = RNG.integers(0, n, (m, 2), dtype=np.int32)
    parent = np.arange(n, dtype=np.int32)
    cuda.kernel("join")(3, 64, parent, edges, m, threads=2)
    cuda.kernel("settle")(3, 64, parent, n, threads=2)
    wanted = np.arange(n)
    for _ in range(n):  # the least vertex of each component spreads along the edges
        before = wanted.copy()
        np.minimum.at(wanted, edges[:, 0], before[edges[:, 1]])
        np.minimum.at(wanted, edges[:, 1], before[edges[:, 0]])
        if np.array_equal(wanted, before):
            break
    assert np.array_equal(parent, wanted)


@pytest.mark.source("warps")
def test_threads_that_are_together(cuda: Cuda) -> None:
    n, block, size = 173, 64, 6
    keys = RNG.integers(0, size, n, dtype=np.int32)
    keys[32:64] = 3  # a whole warp of one key
    out, groups = poisoned(n, np.int32), poisoned(n, np.uint32)
    counter, sums = np.zeros(size, np.int32), np.zeros(5, np.int32)
    cuda.kernel()(3, block, keys, out, groups, counter, sums, n)
    assert np.array_equal(counter, np.bincount(keys, minlength=size))
    alike = best = total = thirds = 0
    for first in range(0, n, 32):
        mine = keys[first : first + 32]
        for lane, key in enumerate(mine):
            assert groups[first + lane] == sum(1 << k for k, other in enumerate(mine) if other == key)
            rank = sum(other == key for other in mine[:lane])
            leader = first + int(np.flatnonzero(mine == key)[0])
            assert out[first + lane] == out[leader] + rank
        alike += len(set(mine.tolist())) == 1
        odd = mine[mine % 2 == 1]
        thirds, total, best = thirds + np.count_nonzero(odd % 3 == 0), total + odd.sum(), max(best, odd.max(initial=0))
    for key in range(size):
        assert sorted(out[keys == key]) == list(range(np.count_nonzero(keys == key)))
    mixed = np.bitwise_xor.reduce(np.arange(n, dtype=np.uint32) * np.uint32(2654435761))
    assert sums.view(np.uint32).tolist() == [alike, thirds, best, total, mixed]


@pytest.mark.source("atomics")
def test_atomics(cuda: Cuda) -> None:
    n = 1000
    x = RNG.integers(0, 1 << 32, n, dtype=np.uint32)
    u, s, w = np.zeros(14, np.uint32), np.zeros(3, np.int32), np.zeros(8, np.uint64)
    u[2], u[4], u[7], u[8], u[13] = 0xFFFFFFFF, 0xFFFFFFFF, 5, 1000, 0xABCDFFF0
    w[1], w[7], f, d = ~np.uint64(0), ~np.uint64(0), np.zeros(1, np.float32), np.zeros(2)
    cuda.kernel()(8, 128, u, s, w, f, d, x, n, threads=2)
    signed, wide = x.view(np.int32).astype(np.int64), x.astype(np.uint64)
    total = int(wide.sum())
    low = 0xFFF0 + 3 * n
    assert u[:7].tolist() == [
        total % 2**32, -total % 2**32, x.min(), x.max(), np.bitwise_and.reduce(x | 0xFF),
        np.bitwise_or.reduce(x & 0x0F0F0F0F), np.bitwise_xor.reduce(x),
    ]  # fmt: skip
    assert u[7] == (5 + n) % 101
    down = 1000
    for _ in range(n):
        down = 77 if down == 0 or down > 77 else down - 1
    assert u[8] == down and 1 <= u[9] <= n and u[10] == 1 and u[11] == n and u[12] == 2 * n
    assert u[13] == 0xABCD0000 | low % 65536
    assert s.tolist() == [min(0, signed.min()), max(0, signed.max()), (total + 2**31) % 2**32 - 2**31]
    bits, cleared = np.uint64(0), ~np.uint64(0)
    for v in wide:
        bits |= np.uint64(1) << (v & np.uint64(63))
        cleared &= ~(np.uint64(1) << (v >> np.uint64(8) & np.uint64(63)))
    scaled = signed * 12345
    assert w.tolist() == [
        (total << 20) % 2**64, min(int(v) ** 2 for v in x), max(int(v) ** 2 for v in x),
        np.bitwise_xor.reduce(wide << np.uint64(13)), min(0, int(scaled.min())) % 2**64, max(0, int(scaled.max())),
        bits, cleared,
    ]  # fmt: skip
    assert f[0] == (x & 15).sum() and d.tolist() == [total, x.max()]


@pytest.mark.source("objects")
def test_virtual_functions_and_pointers_to_functions(cuda: Cuda) -> None:
    n = 100
    x = RNG.integers(1, 50, n).astype(np.float32)
    areas, sides, mapped = poisoned(n), poisoned(n, np.int32), poisoned(n, np.int32)
    cuda.kernel()(2, 64, x, areas, sides, mapped, n)
    i = np.arange(n)
    kinds = [2 * x, 3 * x * x, 2 * (4 * x + 3)]
    assert np.array_equal(areas, np.choose(i % 3, kinds)) and np.array_equal(sides, np.choose(i % 3, [4, 0, 4]))
    functions = [2 * i, i * i, i - 1]
    assert np.array_equal(mapped, np.choose(i // 3 % 3, functions) + np.choose(i % 3, functions))


@pytest.mark.source("report")
def test_output(cuda: Cuda, capfd: pytest.CaptureFixture[str]) -> None:
    x = RNG.standard_normal(5, dtype=np.float32) * 10
    capfd.readouterr()
    cuda.kernel()(1, 1, x, len(x))
    lines = [
        f"{i}: {'odd' if i % 2 else 'even'} {x[i]:5.2f} {chr(97 + i)} {0x123456789ABC + i:x} {i}%"
        for i in range(len(x))
    ]
    assert capfd.readouterr().out.splitlines() == lines


@pytest.mark.source("report")
def test_heap_of_the_device(cuda: Cuda) -> None:
    n = 77
    out = poisoned(n, np.int64)
    cuda.kernel("heap")(2, 48, out, n, threads=2)
    assert np.array_equal(out, np.cumsum(np.arange(n) ** 2))


@pytest.mark.source("groups")
def test_cooperative_groups(cuda: Cuda) -> None:
    n, block = 150, 64
    x = RNG.integers(-1000, 1000, n, dtype=np.int32)
    sums, scans, ranks, tops = (poisoned(n, np.int32) for _ in range(4))
    cuda.kernel()(3, block, x, sums, scans, ranks, tops, n)
    padded = np.zeros(3 * block, np.int64)
    padded[:n] = x
    tiles = padded.reshape(-1, 8)
    number = np.arange(3 * block) // 8 % (block // 8)
    assert np.array_equal(sums, (tiles.sum(axis=1).repeat(8) + number)[:n])
    assert np.array_equal(scans, np.cumsum(tiles, axis=1).ravel()[:n])
    assert np.array_equal(tops, padded.reshape(-1, 32).max(axis=1).repeat(32)[:n])
    for first in range(0, n, 32):
        mine = x[first : first + 32] % 3 == 0
        wanted = np.where(mine, (np.cumsum(mine) - 1) * 100 + mine.sum(), -1)
        assert np.array_equal(ranks[first : first + 32], wanted)


@pytest.mark.source("pipeline")
def test_copies_that_overlap_work(cuda: Cuda) -> None:
    blocks, tiles = 3, 5
    src, out = RNG.integers(-100, 100, (blocks, tiles, 64, 4)).astype(np.float32), poisoned((blocks, 64))
    cuda.kernel()(blocks, 64, src, out, tiles)
    assert np.array_equal(out, (src @ [1, 2, 3, 4] - np.roll(src[..., 0], -1, axis=2)).sum(axis=1))

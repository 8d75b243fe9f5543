"""Warp's kernels on the CPU device, against NumPy.

The first parameter is the launch: the extents (32 bits each), how many threads there are in all, and how many share
their coordinates. An array is a structure of 56 bytes: address, address of its gradient, four extents, four strides in
bytes, the number of dimensions, flags. A backward kernel takes each argument twice: its value, then its adjoint, of
which only that of a number counts; gradients of arrays lie where the array says.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from compilers_harness import RNG, Source, fresh, kept, poisoned


@pytest.fixture(scope="module", params=["kept", "fresh"])
def warp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    return kept("warp") if request.param == "kept" else fresh("warp", "warp", tmp_path_factory.mktemp("warp"))


def array(a: np.ndarray, gradient: np.ndarray | None = None, dims: int = 0) -> bytes:
    """An array as Warp passes it; `dims` of its dimensions are Warp's, the others belong to an element."""
    dims = dims or a.ndim
    shape = [*a.shape[:dims], *[0] * (4 - dims)]
    strides = [*a.strides[:dims], *[0] * (4 - dims)]
    return struct.pack(
        "<QQ4i4iii", a.ctypes.data, 0 if gradient is None else gradient.ctypes.data, *shape, *strides, dims, 0
    )


def run(warp: Source, name: str, shape: tuple[int, ...], *values: object, share: int = 1, **options: int) -> None:
    """Launches a kernel over `shape`; `share` threads have the same coordinates."""
    kernel = warp.kernel(name)
    threads = int(np.prod(shape)) * share
    bounds = struct.pack(f"<{len(shape)}I{len(shape) % 2 * 4}xQQ", *shape, threads, share)
    kernel(-(-threads // kernel.threads), kernel.threads, bounds, *values, **options)


def test_saxpy(warp: Source) -> None:
    n = 1000
    x, y = RNG.standard_normal(2 * n, dtype=np.float32)[::2], RNG.standard_normal(n + 1, dtype=np.float32)
    a, before = np.float32(-0.75), y.copy()
    run(warp, "saxpy", (n,), array(x), array(y), a)
    wanted = before[:n] + np.float64(a) * x
    assert (np.abs(y[:n] - wanted) <= 2.0**-24 * 1.001 * (np.abs(wanted) + np.abs(a * x))).all()
    assert y[n] == before[n]


def test_stencil_in_two_dimensions(warp: Source) -> None:
    src, dst = RNG.standard_normal((37, 45)), poisoned((37, 45), np.float64)
    run(warp, "stencil", (37, 45), array(src), array(dst))
    p = np.pad(src, 1, mode="edge")
    sides = [p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]
    scale = sum(np.abs(s) for s in sides) + 4 * np.abs(src)
    assert (np.abs(dst - (sum(sides) - 4 * src)) <= 6 * 2.0**-53 * scale).all()


PARTICLE = np.dtype([("position", np.float32, 3), ("velocity", np.float32, 3), ("mass", np.float32)])


def test_particles(warp: Source) -> None:
    n, dt = 300, np.float32(0.125)
    particles = np.zeros(n, PARTICLE)
    particles["position"], particles["velocity"] = RNG.standard_normal((2, n, 3))
    particles["mass"] = RNG.uniform(0.5, 2, n)
    turn = RNG.standard_normal(4)
    turn = (turn / np.linalg.norm(turn)).astype(np.float32)
    frame = (np.eye(3) * 3 + RNG.uniform(-0.5, 0.5, (3, 3))).astype(np.float32)  # far from singular
    energy = np.array([0, -1], np.float32)
    p, q, m = (particles[k].astype(np.float64) for k in ("position", "velocity", "mass"))
    run(warp, "particles", (n,), array(particles), turn.tobytes(), frame.tobytes(), array(energy), dt)
    axis, w = turn[:3].astype(np.float64), np.float64(turn[3])
    turned = p * (2 * w * w - 1) + 2 * w * np.cross(axis, p) + 2 * axis * (p @ axis)[:, None]
    force = turned @ frame.T.astype(np.float64) + np.cross(q, [0, 0, 1])
    q = q + force * (np.float64(dt) / m)[:, None]
    p = p + q @ np.linalg.inv(frame.astype(np.float64)).T * np.float64(dt)
    np.testing.assert_allclose(particles["velocity"], q, rtol=0, atol=2e-5)  # numbers up to about 30, ten operations
    np.testing.assert_allclose(particles["position"], p, rtol=0, atol=2e-5)
    np.testing.assert_allclose(energy[0], (0.5 * m * (q**2).sum(axis=1)).sum(), rtol=2.0**-24 * n)
    assert energy[1] == np.float32(energy[1]) and abs(energy[1] - np.linalg.norm(p, axis=1).max()) < 2e-5


def test_loops_that_threads_leave_at_different_times(warp: Source) -> None:
    n, first = 500, int(RNG.integers(1 << 40, 1 << 41))
    steps = poisoned(n, np.int32)
    run(warp, "collatz", (n,), array(steps), first)
    for k, count in enumerate(steps.tolist()):
        v = first + k
        for _ in range(count):
            assert v != 1
            v = 3 * v + 1 if v % 2 else v // 2
        assert v == 1


def test_gradients(warp: Source) -> None:
    n = 300
    x, w = RNG.uniform(-2, 2, n).astype(np.float32), RNG.standard_normal(n, dtype=np.float32)
    total, seed = np.zeros(1, np.float32), np.full(1, 1.5, np.float32)
    gx, gw = (RNG.standard_normal(n).astype(np.float32) for _ in range(2))  # gradients are added to what is there
    u, f = x.astype(np.float64), w.astype(np.float64)
    v = np.sin(u) * f + np.exp(-u * u)
    wanted_x = gx + 1.5 * 2 * v * (np.cos(u) * f - 2 * u * np.exp(-u * u))
    wanted_w = gw + 1.5 * 2 * v * np.sin(u)
    arguments = [array(x, gx), array(w, gw), array(total, seed)]
    run(warp, "loss", (n,), *arguments)
    np.testing.assert_allclose(total[0], (v * v).sum(), rtol=2.0**-24 * n)
    run(warp, "loss_backward", (n,), *arguments, *[bytes(56)] * 3)
    np.testing.assert_allclose(gx, wanted_x, rtol=5e-6, atol=5e-6)
    np.testing.assert_allclose(gw, wanted_w, rtol=5e-6, atol=5e-6)
    assert seed[0] == 1.5


def test_tiles(warp: Source) -> None:
    rows = 5
    x = RNG.integers(-50, 50, (rows, 256)).astype(np.float32)  # all sums are exact
    sums, total = poisoned(rows), np.full(1, 3, np.float32)
    run(warp, "sums", (rows, 256), array(x), array(sums), array(total), threads=2)
    assert np.array_equal(sums, x.sum(axis=1)) and total[0] == 3 + (x.astype(np.float64) ** 2).sum()

"""The hot path on a GPU: results, streams, contexts, and tensors that only look like tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from launch_support import axpy, double2d, random

import interop as io
from interop.runtime import launchable

pytestmark = pytest.mark.gpu


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each call that takes the slow path."""
    calls: list[int] = []
    real = launchable.launch

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(launchable, "launch", counting)
    return calls


def torch_array(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array).cuda()


def cupy_array(array: np.ndarray) -> Any:
    return pytest.importorskip("cupy").asarray(array)


def own_array(array: np.ndarray) -> Any:
    return io.to_device(array, "cuda")


def host(array: Any) -> np.ndarray:
    if isinstance(array, io.DeviceArray):
        return array.to_host()
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


@pytest.mark.parametrize("make", [own_array, torch_array, cupy_array])
def test_results(make: Callable[[np.ndarray], Any], slow_calls: list[int]) -> None:
    for turn in range(6):
        n = 1000 + turn
        x, y = random(n), random(n)
        dx, dy = make(x), make(y)
        (axpy if turn % 2 else axpy[(n + 255) // 256, 256])(dx, dy, 2.5)
        assert np.allclose(host(dy), np.float64(2.5) * x + y, rtol=1e-6, atol=1e-6)
    assert len(slow_calls) <= 4
    with pytest.raises(io.ContractError, match=r"axpy: requires len\(x\) >= len\(y\)"):
        axpy(dx[:10], dy, 1.0)
    with pytest.raises(io.ContractError, match="disjoint"):
        axpy(dy, dy, 1.0)


@pytest.mark.parametrize("make", [own_array, torch_array, cupy_array])
def test_strided_tensors(make: Callable[[np.ndarray], Any], slow_calls: list[int]) -> None:
    for _ in range(4):
        base, out = random(40, 60), np.zeros((40, 60), np.float32)
        src, dst = make(base), make(out)
        double2d(src[::2], dst[1::2])
        out[1::2] = 2 * base[::2]
        assert np.array_equal(host(dst), out)
    assert len(slow_calls) <= 2


def test_the_current_stream_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    for _ in range(3):
        axpy(x, y, 1.0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        z = torch.zeros_like(x)
        torch.cuda._sleep(20_000_000)
        z.fill_(1.0)
        axpy(x, z, 1.0)
        total = z - x
    stream.synchronize()
    assert float((total - 1).abs().max()) < 1e-5
    graph = torch.cuda.CUDAGraph()
    y.zero_()
    with torch.cuda.graph(graph):
        axpy(x, y, 1.0)
    torch.cuda.synchronize()
    assert float(y.abs().max()) == 0
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, y)


def test_other_contexts_and_new_threads() -> None:
    from interop.runtime.cuda_driver import call, driver

    x, y = own_array(np.ones(100, np.float32)), own_array(np.zeros(100, np.float32))
    for _ in range(3):
        axpy(x, y, 1.0)
    try:
        other = call("cuCtxCreate", None, 0, 0)
    except TypeError:
        other = call("cuCtxCreate", 0, 0)
    try:
        axpy(x, y, 1.0)
        assert int(driver().cuCtxGetCurrent()[1]) == int(other)
    finally:
        call("cuCtxDestroy", other)
    thread = threading.Thread(target=lambda: axpy(x, y, 1.0))
    thread.start()
    thread.join()
    assert y.to_host().tolist() == [5.0] * 100


def test_tensors_that_only_look_like_some() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    for _ in range(3):
        axpy(x, y, 1.0)
    complex_ = torch.ones(8, dtype=torch.complex64, device="cuda")
    nested = torch.nested.nested_tensor([torch.ones(4), torch.ones(4)], device="cuda")
    for bad in (torch._neg_view(x), complex_.conj().imag, nested, x.to_sparse(), x[::2], x.double(), x.cpu(),
                x.to("meta"), x.int(), x.expand(8, 8)):  # fmt: skip
        with pytest.raises(Exception, match=r".+"):
            axpy(bad, y, 1.0)
    with pytest.raises(io.ArgumentTypeError, match="memory"):
        torch.func.vmap(lambda t: axpy(t, y, 1.0))(torch.ones(2, 8, device="cuda"))
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode, pytest.raises(Exception, match=r".+"):
        axpy(mode.from_tensor(x), y, 1.0)
    torch.cuda.synchronize()
    assert y.tolist() == [3.0] * 8
    parameter = torch.nn.Parameter(x.clone())
    for _ in range(3):
        axpy(parameter, y, 1.0)
    assert y.tolist() == [6.0] * 8

"""The hot path on a GPU over a stand-in for the driver, with stand-ins for PyTorch's and CuPy's arrays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import interop as io
from abi import (
    Access,
    Block,
    BlockKind,
    DeviceError,
    Image,
    ImageKind,
    Kernel,
    Launch,
    Param,
    Program,
    Requirement,
    assign_slots,
    f32,
    parse_type,
)
from abi.rules import with_implied
from interop.runtime import DeviceArray, Launchable, cuda_driver, hot, launchable
from interop.runtime.cuda_device import CudaDevice
from interop.runtime.device import DeviceKey

pytest.importorskip("cuda.bindings.driver")
from test_runtime_cuda_driver import FakeDriver, bindings

PTX = (
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k("
    ".param .u64 x, .param .u64 nx, .param .u64 y, .param .u64 ny, .param .f32 a) { ret; }\n"
)


class Dtype(str):
    is_complex = False


F32 = Dtype("torch.float32")


class TorchDevice:
    def __init__(self, kind: str = "cuda", index: int | None = 0) -> None:
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchDevice) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class Tensor:
    """What the launch layer reads of a torch.Tensor."""

    dtype, layout, is_nested = F32, "strided", False

    def __init__(self, address: int, shape: tuple[int, ...], stride: tuple[int, ...], device: TorchDevice) -> None:
        self.address, self.shape, self.strides, self.device, self.neg = address, shape, stride, device, False

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def data_ptr(self) -> int:
        if self.address < 0:
            raise RuntimeError("no storage")
        return self.address

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return 4

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return self.neg

    def is_contiguous(self) -> bool:
        return self.strides == (1,)


class CupyArray:
    dtype = np.dtype(np.float32)

    def __init__(self, address: int, count: int) -> None:
        self.shape, self.strides, self.size, self._c_contiguous = (count,), (4,), count, True
        self.data = types.SimpleNamespace(ptr=address, device_id=0)


class Setting:
    """One fake GPU, and the current streams of the fake libraries."""

    def __init__(self, driver: FakeDriver, device: CudaDevice) -> None:
        self.driver, self.device = driver, device
        self.torch_stream = self.cupy_stream = 0
        self.slow = 0

    def own(self, address: int, count: int = 8) -> DeviceArray:
        return DeviceArray(self.device, address, (count,), (1,), f32, None)

    def torch(self, address: int, count: int = 8, stride: int = 1, index: int = 0) -> Tensor:
        return Tensor(address, (count,), (stride,), TorchDevice("cuda", index))

    def cupy(self, address: int, count: int = 8) -> CupyArray:
        return CupyArray(address, count)


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "_driver", driver)
    monkeypatch.setattr(cuda_driver, "_owner", os.getpid())
    device = CudaDevice(0)
    monkeypatch.setitem(sys.modules["interop.runtime.device"]._open, DeviceKey("cuda", 0), device)
    found = Setting(driver, device)
    torch, cupy = types.ModuleType("torch"), types.ModuleType("cupy")
    torch.__dict__.update(Tensor=Tensor, strided="strided", _C=types.SimpleNamespace())
    torch._C._cuda_getCurrentRawStream = lambda index: found.torch_stream  # type: ignore[attr-defined]
    current = lambda index: types.SimpleNamespace(ptr=found.cupy_stream)  # noqa: E731
    cupy.__dict__.update(ndarray=CupyArray, cuda=types.SimpleNamespace(get_current_stream=current))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    real = launchable.launch

    def counting(*arguments: Any) -> Any:
        found.slow += 1
        return real(*arguments)

    monkeypatch.setattr(launchable, "launch", counting)
    return found


def kernel(shared: str = "0") -> Launchable:
    params = assign_slots([Param("x", parse_type("slice<f32>")), Param("y", parse_type("slice<f32>"), Access.OUT),
                           Param("a", f32)])  # fmt: skip
    launch = Launch(Block(BlockKind.EXACT, (4, 1, 1)), ("ceil_div(len(y), block.x)",), shared)
    described = with_implied(Kernel("k", "k", "ptx", params, launch, (Requirement("len(x) >= len(y)"),)))
    return Launchable(lambda: Program(described, (Image(ImageKind.PTX, "sm_80", PTX.encode(), ("k",), "7.0"),)))


def normal(launch: tuple[tuple[Any, ...], bytes]) -> Any:
    """The driver takes None and 0 for the default stream."""
    return (*launch[0][:-1], launch[0][-1] or 0), launch[1]


MIXES = [("own", "own"), ("torch", "torch"), ("cupy", "cupy"), ("own", "torch"), ("torch", "cupy"), ("cupy", "own")]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("current", [0, 0x77])
def test_each_library_on_its_stream(setting: Setting, mix: tuple[str, str], current: int) -> None:
    k = kernel()
    for context in (0x77, 0):
        setting.driver.current = context
        setting.torch_stream = setting.cupy_stream = 0
        x, y = (getattr(setting, name)(address) for name, address in zip(mix, (0x1000, 0x2000)))
        for _ in range(2):
            k(x, y, 2.0)
        setting.torch_stream = setting.cupy_stream = current
        mixed_with_own = current != 0 and mix != ("own", "own") and "own" in mix
        for launch, expected in ((k, (2, 1, 1, 4, 1, 1, 0)), (k[2, 4, None, 64], (2, 1, 1, 4, 1, 1, 64))):
            before = setting.slow
            for _ in range(3):
                launch(x, y, 2.0)
            first, second, third = (normal(found) for found in setting.driver.launches[-3:])
            stream = 0 if mix == ("own", "own") else current
            assert first == second == third and first[0] == (*expected, stream)
            assert first[1] == np.array([0x1000, 8, 0x2000, 8], np.uint64).tobytes() + np.float32(2).tobytes()
            # Streams that have to be ordered are left to the slow path.
            assert setting.slow - before == (3 if mixed_with_own else 0 if launch is k or context == 0 else 2)
        assert setting.driver.current == context


def test_streams_of_two_libraries_that_differ_are_ordered(setting: Setting) -> None:
    k = kernel()
    x, y = setting.torch(0x1000), setting.cupy(0x2000)
    for _ in range(3):
        k(x, y, 2.0)
    assert setting.slow == 2
    setting.torch_stream = 0x55
    k(x, y, 2.0)
    assert setting.slow == 3 and setting.driver.calls.count("cuStreamWaitEvent") == 2
    assert setting.driver.launches[-1][0][-1] == 0x55


def test_an_explicit_stream(setting: Setting) -> None:
    k, x, y = kernel(), setting.torch(0x1000), setting.torch(0x2000)
    setting.torch_stream = 0x99
    for stream, handle in ((0x55, 0x55), (1, 0), (types.SimpleNamespace(cuda_stream=0x66), 0x66)):
        for _ in range(3):
            k[2, 4, stream](x, y, 2.0)
        assert [normal(found)[0][-1] for found in setting.driver.launches[-3:]] == [handle] * 3
    assert setting.slow == 2
    with pytest.raises(io.ArgumentTypeError, match="k: stream: a str is not a stream"):
        k[2, 4, "s"](x, y, 2.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"neg": True}, "lazy conjugate or negation"), ({"strides": (2,)}, "not contiguous"), ({"address": 0}, "memory"),
     ({"address": -1}, "no storage"), ({"dtype": Dtype("torch.float64")}, "holds f64"), ({"shape": (2,)}, "len"),
     ({"device": TorchDevice("mps")}, "kernels take tensors on cpu and cuda"), ({"address": 0x1002}, "aligned"),
     ({"device": TorchDevice("cuda", 1)}, "x is on cuda:1, but y is on cuda:0"), ({"address": 0x1ffc}, "disjoint")],
)  # fmt: skip
def test_tensors_that_are_refused(setting: Setting, change: dict[str, Any], words: str) -> None:
    k = kernel()
    for _ in range(3):
        k(setting.torch(0x1000), setting.torch(0x2000), 2.0)
    assert setting.slow == 2
    bad = setting.torch(0x1000)
    bad.__dict__.update(change)
    with pytest.raises(io.Error, match=words):
        k(bad, setting.torch(0x2000), 2.0)
    assert len(setting.driver.launches) == 3


def test_subclasses_of_tensors_take_the_slow_path(setting: Setting) -> None:
    class Fake(Tensor):
        pass

    k, fake = kernel(), Fake(0x1000, (8,), (1,), TorchDevice())
    for _ in range(4):
        k(fake, setting.torch(0x2000), 2.0)
    assert setting.slow == 4


@pytest.mark.parametrize("failing", ["cuLaunchKernel", "cuCtxPushCurrent"])
def test_an_error_of_the_driver_is_told_as_ever(setting: Setting, failing: str) -> None:
    k = kernel()
    for _ in range(3):
        k(setting.own(0x1000), setting.own(0x2000), 2.0)
    setting.driver.fail[failing] = bindings.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match=rf"(?s){failing} failed: CUDA_ERROR_ILLEGAL_ADDRESS.*x = f32\[8\] on cuda:0"):
        k(setting.own(0x1000), setting.own(0x2000), 2.0)


def test_more_shared_memory_is_asked_for(setting: Setting) -> None:
    k = kernel("len(y) * 4")
    for count in (8, 8, 8, 20_000):
        k(setting.own(0x1000, count), setting.own(0x90000, count), 2.0)
    assert setting.slow == 3 and setting.driver.allowed == 80_000
    k(setting.own(0x1000, 20_000), setting.own(0x90000, 20_000), 2.0)
    assert setting.slow == 3 and setting.driver.launches[-1][0][6] == 80_000


def test_fresh_views_stay_on_the_hot_path(setting: Setting) -> None:
    k, x, y = kernel(), setting.own(0x1000, 100), setting.own(0x2000, 100)
    for start in range(10):
        k(x[start : start + 8], y[start : start + 4], 2.0)
    assert setting.slow == 2 and len(setting.driver.launches) == 10


def test_threads_have_buffers_of_their_own(setting: Setting) -> None:
    setting.driver.current = 0x77
    k = kernel()

    def work(number: int) -> None:
        for _ in range(200):
            k(setting.own(number * 0x1000), setting.own(number * 0x1000 + 0x800), float(number))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, data in setting.driver.launches:
        address, number = int(np.frombuffer(data, np.uint64, 1)[0]), float(np.frombuffer(data, np.float32)[8])
        assert address == 0x1000 * number
    assert len(setting.driver.launches) == 800 and setting.slow < 100


def test_nothing_is_kept_over_a_fork(setting: Setting) -> None:
    k = kernel()
    for _ in range(3):
        k(setting.own(0x1000), setting.own(0x2000), 2.0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            k(setting.own(0x1000), setting.own(0x2000), 2.0)
            os.write(write, b"launched")
        except DeviceError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert answer.read().startswith("k: CUDA was initialised before this process was forked")
    assert k._hot.plain


def test_importing_it_touches_neither_numpy_heavy_things_nor_the_driver() -> None:
    program = "import sys, interop.runtime.hot; print('cuda' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_forgetting_asks_the_slow_path_again(setting: Setting) -> None:
    k = kernel()
    for _ in range(3):
        k(setting.own(0x1000), setting.own(0x2000), 2.0)
    hot.forget()
    k(setting.own(0x1000), setting.own(0x2000), 2.0)
    assert setting.slow == 3

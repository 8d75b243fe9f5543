"""The CUDA device over a stand-in for the driver: image choice, logs, limits, contexts, the packed launch.

The stand-in answers the calls that the device makes and writes down which they were; the enumerations are the real
ones. What only a driver can show is in ``tests/gpu``.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest

from abi import (
    Access,
    DeviceError,
    Error,
    Image,
    ImageError,
    ImageKind,
    Incompatible,
    Kernel,
    Param,
    Program,
    assign_slots,
    f32,
    parse_type,
)
from interop.runtime import Launchable, cuda_driver, cuda_image
from interop.runtime import device as open_by_name
from interop.runtime.cuda_device import CudaDevice
from interop.runtime.device import DeviceKey

bindings = pytest.importorskip("cuda.bindings.driver")
OK = bindings.CUresult.CUDA_SUCCESS
PTX = (
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 x, .param .u64 n, .param .f32 a) { ret; }\n"
)


class FakeDriver:
    """Answers like a driver with one sm_90 GPU. ``fail`` maps a call to the error that it gives."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail: dict[str, Any] = {}
        self.current = 0
        self.launches: list[tuple[tuple[Any, ...], bytes]] = []
        self.attributes = {"MAJOR": 9, "MINOR": 0, "THREADS_PER_BLOCK": 1024, "OPTIN": 232448, "GRID_DIM_X": 2**31 - 1}
        self.static_shared = 1
        self.loaded: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            return getattr(bindings, name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            failure = self.fail.get(name)
            if failure is not None:
                return (failure, *[None] * (name not in ("cuLaunchKernel",)))
            answer = getattr(self, f"do_{name}", lambda *a: 7)(*arguments)
            return (OK,) if answer is None else (OK, answer)

        return call

    def do_cuDeviceGetCount(self) -> int:
        return 1

    def do_cuPointerGetAttribute(self, attribute: Any, address: int) -> int:
        return 0

    def do_cuDriverGetVersion(self) -> int:
        return 13000

    def do_cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return b"Fake GPU\0\0\0"

    def do_cuDevicePrimaryCtxRetain(self, device: Any) -> int:
        return 0x77

    def do_cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        return next((v for name, v in self.attributes.items() if attribute.name.endswith(name)), 1024)

    def do_cuCtxGetCurrent(self) -> int:
        return self.current

    def do_cuCtxPushCurrent(self, context: int) -> None:
        self.previous, self.current = self.current, context

    def do_cuCtxPopCurrent(self) -> int:
        self.current, popped = self.previous, self.current
        return popped

    def do_cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        return self.static_shared if "SHARED_SIZE" in attribute.name else 256

    def do_cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> None:
        self.allowed = value

    def do_cuLaunchKernel(self, *arguments: Any) -> None:
        extra = arguments[-1]
        pointer, buffer, size_tag, size_at, end = (ctypes.c_uint64 * 5).from_address(extra)
        assert (pointer, size_tag, end, arguments[-2]) == (1, 2, 0, 0)
        size = ctypes.c_uint64.from_address(size_at).value
        self.launches.append((arguments[1:9], ctypes.string_at(buffer, size)))
        assert self.current == 0x77

    def cuModuleLoadDataEx(self, data: bytes, count: int, options: list[Any], values: list[Any]) -> tuple[Any, Any]:
        self.calls.append("cuModuleLoadDataEx")
        self.loaded.append(bytes(data))
        failure = self.fail.get("load")
        if failure is not None and (failure.name != "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" or len(self.loaded) == 1):
            text = b"ptxas application ptx input, line 6; error : Unknown opcode"
            log = values[[o.name for o in options].index("CU_JIT_ERROR_LOG_BUFFER")]
            log[: len(text)] = text
            return failure, None
        return OK, 5


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "_driver", driver)
    monkeypatch.setattr(cuda_driver, "_owner", os.getpid())
    return driver


@pytest.fixture
def gpu(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    import sys

    registry = sys.modules["interop.runtime.device"]
    found = CudaDevice(0)
    monkeypatch.setitem(registry._open, DeviceKey("cuda", 0), found)
    return found


class CudaArray:
    """Announces four f32 through CUDA's array interface."""

    def __init__(self, address: int = 0x10000, **more: Any) -> None:
        data = {"shape": (4,), "typestr": "<f4", "data": (address, False), "version": 3, "strides": None}
        self.__cuda_array_interface__ = data | more


def kernel(images: tuple[Image, ...] | None = None) -> Launchable:
    params = assign_slots([Param("x", parse_type("slice<f32>"), Access.INOUT), Param("a", f32)])
    described = Kernel("k", "k", "ptx", params)
    program = Program(described, images or (Image(ImageKind.PTX, "sm_80", PTX.encode(), ("k",), "7.0"),))
    return Launchable(lambda: program)


def image(kind: ImageKind, target: str) -> Image:
    return Image(kind, target, f"{kind}{target}".encode(), ("k",), "7.0", cuda_image.parse_target(target)[:2])


# -- choice of image -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "cc", "chosen"),
    [
        (["ptx sm_80", "cubin sm_90"], (9, 0), "cubin sm_90"),
        (["ptx sm_80", "cubin sm_90"], (8, 0), "ptx sm_80"),
        (["cubin sm_80", "ptx sm_80"], (8, 9), "cubin sm_80"),
        (["cubin sm_80", "cubin sm_86", "ptx sm_80"], (8, 9), "cubin sm_86"),
        (["cubin sm_89", "ptx sm_80"], (8, 6), "ptx sm_80"),
        (["cubin sm_90a", "cubin sm_90"], (9, 0), "cubin sm_90a"),
        (["cubin sm_90a", "ptx sm_80"], (10, 0), "ptx sm_80"),
        (["ptx sm_90a", "ptx sm_80"], (9, 0), "ptx sm_90a"),
        (["ptx sm_90a", "ptx sm_80"], (10, 0), "ptx sm_80"),
        (["ptx sm_100f", "ptx sm_80"], (10, 3), "ptx sm_100f"),
        (["ptx sm_100f", "ptx sm_80"], (12, 0), "ptx sm_80"),
        (["ptx sm_80", "ptx sm_90"], (12, 0), "ptx sm_90"),
    ],
)
def test_image_choice(targets: list[str], cc: tuple[int, int], chosen: str) -> None:
    images = [image(ImageKind(kind), target) for kind, target in (t.split() for t in targets)]
    found = cuda_image.choose("k", images, cc)
    assert f"{found.kind.value} {found.target}" == chosen


def test_no_image_fits_names_both_sides() -> None:
    with pytest.raises(Incompatible, match="k: the GPU is sm_80, and the kernel has cubin for sm_90, ptx for sm_100"):
        cuda_image.choose("k", [image(ImageKind.CUBIN, "sm_90"), image(ImageKind.PTX, "sm_100")], (8, 0))
    with pytest.raises(Incompatible, match="no image at all"):
        cuda_image.choose("k", [], (8, 0))
    with pytest.raises(Incompatible, match="not a CUDA target"):
        cuda_image.choose("k", [Image(ImageKind.PTX, "hopper", b"", ("k",))], (9, 0))


@pytest.mark.parametrize(
    ("isa", "cuda"), [("7.0", "11.0"), ("7.8", "11.8"), ("8.0", "12.0"), ("8.5", "12.5"), ("8.6", "12.7"),
                      ("8.7", "12.8"), ("8.8", "12.9"), ("9.0", "13.0"), ("9.5", "13.5"), ("", "a later version")],
)  # fmt: skip
def test_the_driver_that_a_ptx_version_needs(isa: str, cuda: str) -> None:
    assert cuda_image.needed_driver(isa) == cuda


# -- loading -------------------------------------------------------------------------------------------------------


def test_the_assemblers_log_reaches_the_user(fake: FakeDriver, gpu: CudaDevice) -> None:
    fake.fail["load"] = bindings.CUresult.CUDA_ERROR_INVALID_PTX
    with pytest.raises(ImageError, match=r"(?s)k: .*CUDA_ERROR_INVALID_PTX.*line 6; error : Unknown opcode"):
        kernel()[1, 1](CudaArray(), 1.0)
    assert fake.current == 0 and not fake.launches


def test_ptx_is_passed_with_its_zero_and_loaded_once(fake: FakeDriver, gpu: CudaDevice) -> None:
    k, same = kernel(), kernel()
    for each in (k, same, k):
        each[1, 1](CudaArray(), 1.0)
    assert fake.loaded == [PTX.encode() + b"\0"]
    assert fake.calls.count("cuThreadExchangeStreamCaptureMode") == 2


def test_ptx_newer_than_the_driver_is_assembled_here(fake: FakeDriver, gpu: CudaDevice) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    fake.fail["load"] = bindings.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    kernel()[1, 1](CudaArray(), 1.0)
    assert fake.loaded[0] == PTX.encode() + b"\0"
    assert fake.loaded[1].startswith(b"\x7fELF")
    assert len(fake.launches) == 1


def test_ptx_newer_than_the_driver_without_an_assembler(
    fake: FakeDriver, gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    import cuda.bindings

    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    monkeypatch.delattr(cuda.bindings, "nvjitlink", raising=False)
    fake.fail["load"] = bindings.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    new = Image(ImageKind.PTX, "sm_80", PTX.encode(), ("k",), "9.5")
    words = r"ISA version 9.5, and the driver, for CUDA 13.0, .*one for CUDA 13.5 or later, or pip install"
    with pytest.raises(Incompatible, match=words):
        kernel((new,))[1, 1](CudaArray(), 1.0)


def test_ptx_that_nothing_assembles_has_nvjitlinks_log(fake: FakeDriver, gpu: CudaDevice) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    fake.fail["load"] = bindings.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    broken = PTX.replace("ret;", "frobnicate.u32 %r1;")
    with pytest.raises(Incompatible, match=r"(?s)nvJitLink cannot assemble it either.*frobnicate|line 4"):
        kernel((Image(ImageKind.PTX, "sm_80", broken.encode(), ("k",), "9.5"),))[1, 1](CudaArray(), 1.0)


def test_a_cubin_for_another_gpu_names_both(fake: FakeDriver, gpu: CudaDevice) -> None:
    with pytest.raises(Incompatible, match="the GPU is sm_90, and the kernel has cubin for sm_80"):
        kernel((image(ImageKind.CUBIN, "sm_80"),))[1, 1](CudaArray(), 1.0)


# -- launches ------------------------------------------------------------------------------------------------------


def test_the_packed_launch(fake: FakeDriver, gpu: CudaDevice) -> None:
    kernel()[(3, 2), (64, 2, 1), 0x55, 100](CudaArray(0x1230), 2.0)
    arguments, params = fake.launches[0]
    assert arguments == (3, 2, 1, 64, 2, 1, 100, 0x55)
    assert params == (0x1230).to_bytes(8, "little") + (4).to_bytes(8, "little") + b"\0\0\0\x40"


def test_the_callers_context_comes_back(fake: FakeDriver, gpu: CudaDevice) -> None:
    fake.current = 0x99
    kernel()[1, 1](CudaArray(), 1.0)
    assert fake.current == 0x99
    fake.fail["cuLaunchKernel"] = bindings.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DeviceError):
        kernel()[1, 1](CudaArray(), 1.0)
    assert fake.current == 0x99
    fake.current, pushes = 0x77, fake.calls.count("cuCtxPushCurrent")
    del fake.fail["cuLaunchKernel"]
    kernel()[1, 1](CudaArray(), 1.0)
    assert fake.calls.count("cuCtxPushCurrent") == pushes


def test_nothing_in_a_launch_waits(fake: FakeDriver, gpu: CudaDevice) -> None:
    k = kernel()
    k[1, 1](CudaArray(), 1.0)
    del fake.calls[:]
    k[1, 1](CudaArray(), 1.0)
    waits = {"cuCtxPushCurrent", "cuLaunchKernel", "cuCtxPopCurrent", "cuCtxGetCurrent", "cuPointerGetAttribute"}
    assert set(fake.calls) <= waits


def test_a_driver_error_has_its_name_the_kernel_and_the_arguments(fake: FakeDriver, gpu: CudaDevice) -> None:
    fake.fail["cuLaunchKernel"] = bindings.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError) as caught:
        kernel()[2, 32](CudaArray(), 1.0)
    text = str(caught.value)
    assert text.startswith("k: cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS")
    assert "x = f32[4] on cuda:0, a = 1.0" in text and "grid (2, 1, 1), block (32, 1, 1)" in text


def test_shared_memory_above_48_kib_is_asked_for_once(fake: FakeDriver, gpu: CudaDevice) -> None:
    k = kernel()
    k[1, 1, None, 48 * 1024 - 1](CudaArray(), 1.0)
    assert "cuFuncSetAttribute" not in fake.calls
    k[1, 1, None, 48 * 1024](CudaArray(), 1.0)  # and one static byte
    assert fake.allowed == 48 * 1024
    k[1, 1, None, 50_000](CudaArray(), 1.0)
    k[1, 1, None, 49_500](CudaArray(), 1.0)
    assert fake.calls.count("cuFuncSetAttribute") == 2 and fake.allowed == 50_000
    with pytest.raises(Error, match="needs 232449 bytes of shared memory \\(1 static, 232448 dynamic\\); the limit is"):
        k[1, 1, None, 232448](CudaArray(), 1.0)


def test_the_kernels_own_thread_limit(fake: FakeDriver, gpu: CudaDevice) -> None:
    with pytest.raises(Error, match="a block has 257 threads; the limit is 256"):
        kernel()[1, 257](CudaArray(), 1.0)


def test_the_producers_stream_is_waited_for(fake: FakeDriver, gpu: CudaDevice) -> None:
    kernel()[1, 1, 0x55](CudaArray(stream=0x66), 1.0)
    order = [c for c in fake.calls if c.startswith("cuEvent") or c in ("cuStreamWaitEvent", "cuLaunchKernel")]
    event = ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]
    assert order == [*event, "cuLaunchKernel", *event]
    del fake.calls[:]
    kernel()[1, 1](CudaArray(stream=0x66), 1.0)
    assert fake.launches[-1][0][-1] == 0x66 and "cuEventRecord" not in fake.calls
    kernel()[1, 1](CudaArray(stream=1), 1.0)
    assert fake.launches[-1][0][-1] == 0


def test_what_the_array_interface_must_not_say(fake: FakeDriver, gpu: CudaDevice) -> None:
    for more, words in (({"stream": 0}, "stream 0"), ({"mask": object()}, "masked"), ({"typestr": ">f4"}, "order"),
                        ({"typestr": "<f8"}, "holds f64"), ({"strides": (8,)}, "not contiguous"),
                        ({"data": (0x10000, True)}, "read-only")):  # fmt: skip
        with pytest.raises(Error, match=words):
            kernel()[1, 1](CudaArray(**more), 1.0)
    assert not fake.launches


# -- finding devices -----------------------------------------------------------------------------------------------


def test_an_index_too_large_says_which_there_are(fake: FakeDriver) -> None:
    with pytest.raises(DeviceError, match=r"no device cuda:3 .*the GPUs are cuda:0 to cuda:0"):
        CudaDevice(3)


def test_a_forked_child_gets_a_clear_error(fake: FakeDriver, gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "_owner", os.getpid() + 1)
    with pytest.raises(DeviceError, match=r"initialised before this process was forked.*'spawn'"):
        kernel()[1, 1](CudaArray(), 1.0)
    gpu.free(0x1000)  # finalizers of the parent's objects run in the child too, and must do nothing
    assert "cuMemFree" not in fake.calls


@pytest.mark.parametrize("name", ["CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_UNKNOWN"])
def test_the_drivers_own_error_name_reaches_the_user(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    driver = FakeDriver()
    driver.fail["cuInit"] = getattr(bindings.CUresult, name)
    monkeypatch.setattr(cuda_driver, "_driver", None)
    monkeypatch.setattr(cuda_driver, "_failure", None)
    import cuda.bindings

    monkeypatch.setattr(cuda.bindings, "driver", driver)
    with pytest.raises(DeviceError, match=name):
        cuda_driver.driver()
    assert cuda_driver.device_count() == 0


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:-1", "cpu:1", ""])
def test_names_that_are_no_devices(name: str) -> None:
    with pytest.raises(DeviceError, match="there is no device"):
        open_by_name(name)

"""The parts of a launch that the tests on both devices do not reach: images, devices, streams, other libraries."""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from abi import Access, Image, ImageKind, Incompatible, Kernel, Param, Program, assign_slots, f32, parse_type
from abi.rules import no_block_message, no_grid_message
from interop import runtime, simt
from interop.runtime import Launchable
from interop.runtime.arrays import view
from interop.runtime.device import CPU, DeviceKey
from interop.runtime.plan import make_plan


@simt.kernel(block=32, grid="ceil_div(len(y), block.x)")
def reach(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], offset: io.i64):
    """Reads past the end when `offset` says so."""
    i = simt.global_index()
    if i < len(y):
        y[i] = x[i + offset]


def empty_kernel(kind: ImageKind = ImageKind.PTX, data: bytes = b"", target: str = "sm_80") -> Launchable:
    params = assign_slots([Param("x", parse_type("slice<f32>"), Access.INOUT), Param("a", f32)])
    ptx = ".version 7.0 .target sm_80 .address_size 64 .entry k(.param .u64 x, .param .u64 n, .param .f32 a) { ret; }"
    image = Image(kind, target, data or ptx.encode(), ("k",))
    return Launchable(lambda: Program(Kernel("k", "k", "ptx", params), (image,)))


def test_an_access_out_of_range_names_kernel_place_and_thread() -> None:
    x, y = np.zeros(40, np.float32), np.zeros(40, np.float32)
    reach(x, y, 0)
    with pytest.raises(io.ExecutionError) as caught:
        reach(x, y, 5)
    text = str(caught.value)
    assert text.startswith("reach: ") and text.count("reach:") == 1
    assert "test_runtime_launchable.py" in text and "block (1, 0, 0), thread (" in text


def test_a_kernel_without_ptx_cannot_run_on_the_cpu() -> None:
    with pytest.raises(Incompatible, match="k: the CPU device runs PTX, and this kernel has cubin for sm_90"):
        empty_kernel(ImageKind.CUBIN, b"\x7fELF", "sm_90")[1, 1](np.zeros(1, np.float32), 1.0)


def test_the_kernel_with_its_configuration_can_be_kept() -> None:
    kernel = empty_kernel()
    configured = kernel[2, 32]
    configured(np.zeros(1, np.float32), 1.0)
    assert configured.kernel is kernel
    assert repr(kernel) == "<kernel k>" and "grid 2, block 32" in repr(configured)
    assert kernel.load("cpu") is kernel
    kernel.load("cpu")[2, 32](np.zeros(1, np.float32), 1.0)


def test_a_failing_source_is_asked_again() -> None:
    answers = [abi.Error("not yet"), empty_kernel().program()]

    def source() -> Program:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    kernel = Launchable(source, name="k")
    with pytest.raises(abi.Error, match="not yet"):
        kernel[1, 1](np.zeros(1, np.float32), 1.0)
    kernel[1, 1](np.zeros(1, np.float32), 1.0)
    assert answers == []


def test_a_description_that_contradicts_itself_is_refused() -> None:
    twice = Kernel("k", "k", "ptx", assign_slots([Param("x", f32), Param("x", f32)]))
    with pytest.raises(abi.Error, match="two parameters 'x'"):
        make_plan(twice)


def test_the_buffer_has_gaps_where_the_slots_leave_them() -> None:
    params = [Param("a", abi.u8, slots=(abi.Slot(3, 1, 1),)), Param("b", abi.f64, slots=(abi.Slot(16, 8, 8),)),
              Param("c", abi.u16, slots=(abi.Slot(8, 2, 2),))]  # fmt: skip
    plan = make_plan(Kernel("k", "k", "ptx", tuple(params)))
    assert (
        plan.pack([(7,), (1.0,), (0x1234,)])
        == bytes(3) + b"\7" + bytes(4) + b"\x34\x12" + bytes(6) + bytes(6) + b"\xf0\x3f"
    )


# -- devices and streams -------------------------------------------------------------------------------------------


def test_the_cpu_device() -> None:
    cpu = io.device("cpu")
    assert cpu is io.device("cpu", 0) is io.devices()[0]
    assert (cpu.kind, cpu.index, str(cpu.key)) == ("cpu", 0, "cpu")
    assert cpu.name and cpu.name != "cpu"
    cpu.synchronize()
    runtime.synchronize()
    runtime.synchronize("cpu")
    runtime.synchronize(cpu)


def test_the_environment_variable_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTEROP_DEVICE", "gpu")
    with pytest.raises(io.DeviceError, match="INTEROP_DEVICE is 'gpu'; it can be cpu or cuda"):
        io.device("cpu")
    monkeypatch.setenv("INTEROP_DEVICE", "cuda")
    with pytest.raises(io.DeviceError, match="allows only cuda"):
        io.device("cpu")
    assert all(d.kind == "cuda" for d in io.devices())


def test_a_missing_driver_says_what_to_do() -> None:
    if any(d.kind == "cuda" for d in io.devices()):
        pytest.skip("this machine has a GPU")
    with pytest.raises(
        io.DeviceError, match=r"no CUDA device can be used: .*NumPy arrays, which run on the CPU device"
    ):
        io.device("cuda")


def test_importing_the_launch_layer_touches_no_driver() -> None:
    program = "import sys, interop.runtime, interop.importing; print('cuda' in sys.modules, 'llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_streams_on_the_cpu() -> None:
    stream = io.Stream("cpu")
    assert stream.__cuda_stream__() == (0, 0) and "cpu" in repr(stream)
    empty_kernel()[1, 1, stream](np.zeros(1, np.float32), 1.0)
    for bad, words in ((0, "a CUDA stream is given"), ("s", "a str is not a stream"), (-1, "not a stream handle"),
                       (True, "a bool is not a stream"), (2.0, "not a stream")):  # fmt: skip
        with pytest.raises(io.ArgumentTypeError, match=words):
            empty_kernel()[1, 1, bad](np.zeros(1, np.float32), 1.0)


def test_device_of() -> None:
    assert runtime.device_of([np.zeros(1), io.empty(3, io.f32, "cpu")]).kind == "cpu"
    with pytest.raises(io.ArgumentTypeError, match="no arrays"):
        runtime.device_of([])
    with pytest.raises(io.ArgumentTypeError, match="a list is not an array"):
        runtime.device_of([[1, 2]])


# -- PyTorch's and CuPy's attributes -------------------------------------------------------------------------------


@dataclass
class TorchDevice:
    type: str = "cuda"
    index: int | None = 1


@dataclass
class Tensor:
    """What the launch layer reads of a torch.Tensor."""

    dtype: str = "torch.float32"
    device: TorchDevice = field(default_factory=TorchDevice)
    layout: str = "strided"
    shape: tuple[int, ...] = (2, 3)
    address: int = 0x1000
    conj: bool = False
    neg: bool = False

    def stride(self) -> tuple[int, ...]:
        return (3, 1)

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return 6

    def element_size(self) -> int:
        return 4

    def is_conj(self) -> bool:
        return self.conj

    def is_neg(self) -> bool:
        return self.neg


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("torch")
    module.Tensor, module.strided = Tensor, "strided"  # type: ignore[attr-defined]
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0x5000 + index)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_torch_tensors(torch: Any) -> None:
    found = view(Tensor(), "k: x")
    assert (found.address, found.shape, found.strides) == (0x1000, (2, 3), (3, 1))
    assert (found.dtype, found.device, found.stream) == (f32, DeviceKey("cuda", 1), 0x5001)
    host = view(Tensor(device=TorchDevice("cpu", None)), "k: x")
    assert (host.device, host.stream) == (CPU, None)
    assert view(Tensor(dtype="torch.bfloat16"), "k: x").dtype is abi.bf16
    assert view(Tensor(dtype="torch.complex64"), "k: x").dtype is None


@pytest.mark.parametrize(
    ("tensor", "words"),
    [(Tensor(conj=True), "resolve_conj"), (Tensor(neg=True), "resolve_neg"), (Tensor(layout="sparse"), "to_dense"),
     (Tensor(address=0), "no memory"), (Tensor(device=TorchDevice("mps", 0)), "kernels take tensors on cpu and cuda")],
)  # fmt: skip
def test_torch_tensors_that_cannot_be_passed(torch: Any, tensor: Tensor, words: str) -> None:
    with pytest.raises(io.ArgumentTypeError, match=words):
        view(tensor, "k: x")


def test_cupy_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    class ndarray:
        dtype, shape, strides = np.dtype(np.int16), (4, 2), (8, 4)
        data = types.SimpleNamespace(ptr=0x2000, device_id=1)

    cupy = types.ModuleType("cupy")
    cupy.ndarray = ndarray  # type: ignore[attr-defined]
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda i: types.SimpleNamespace(ptr=i + 7))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    found = view(ndarray(), "k: x")
    assert (found.address, found.strides, found.device, found.stream) == (0x2000, (4, 2), DeviceKey("cuda", 1), 8)
    assert not found.is_contiguous and found.dtype is abi.i16


def test_a_kernel_is_no_collection() -> None:
    kernel = empty_kernel()
    for thing in (kernel, kernel[1, 32]):
        with pytest.raises(TypeError, match="not iterable"):
            list(thing)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"not a container|not iterable"):
            assert 3 in thing  # type: ignore[operator]


def test_what_a_call_has_to_give_is_told_with_how() -> None:
    """The texts of :mod:`abi.rules`, which are those of C, and how Python gives it."""
    kernel = empty_kernel()
    y = np.zeros(1, np.float32)
    with pytest.raises(io.ArgumentTypeError) as caught:
        kernel(y, 1.0)
    assert str(caught.value) == f"{no_block_message('k')}: kernel[grid, block](...), or its declaration: block=..."
    with pytest.raises(io.ArgumentTypeError) as caught:
        kernel[None, 32](y, 1.0)
    assert str(caught.value) == f"{no_grid_message('k')}: kernel[grid](...), or its declaration: grid=..."

"""What only a GPU can show: streams, other libraries' arrays, contexts, forks, large arrays, errors of the driver."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch_support import SOURCE, axpy, random

import interop as io

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


def test_more_than_4_gib(module: Any) -> None:
    n = 2**32 + 5
    x = io.empty(n, io.u8, "cuda")
    x[n - 4 :].copy_from(np.zeros(4, np.uint8))
    module.last_byte[1, 1](x, n)
    assert x[n - 4 :].to_host().tolist() == [0, 0, 0, 77]


def test_slice_of_more_than_4_gib() -> None:
    n = 2**30 + 300
    x, y = io.empty(n, io.f32, "cuda"), io.empty(n, io.f32, "cuda")
    tail = np.arange(300, dtype=np.float32)
    x[n - 300 :].copy_from(tail)
    y[n - 300 :].copy_from(tail)
    axpy(x, y, 2.0)
    assert np.array_equal(y[n - 300 :].to_host(), 3 * tail)


def test_newer_ptx_than_the_driver() -> None:
    module = io.load_cuda(SOURCE)
    version = module.saxpy.program().images[0].isa
    x, y = io.to_device(random(100), "cuda"), io.to_device(np.zeros(100, np.float32), "cuda")
    module.saxpy[1, 128](x, y, 1.0, 100)
    assert np.allclose(y.to_host(), x.to_host()), version


def test_numpy_runs_on_the_cpu_even_here() -> None:
    x, y = random(10), np.zeros(10, np.float32)
    axpy(x, y, 1.0)
    assert np.allclose(y, x)


def test_own_arrays_and_torch_share_memory() -> None:
    torch = pytest.importorskip("torch")
    x = io.to_device(random(100), "cuda")
    t = torch.from_dlpack(x)
    t.mul_(2)
    torch.cuda.synchronize()
    assert t.data_ptr() == x.address
    assert np.allclose(x.to_host(), t.cpu().numpy())
    back = torch.as_tensor(x, device="cuda")
    assert back.data_ptr() == x.address


def test_torch_tensors_on_the_current_stream() -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.randn(1 << 20, device="cuda")
        y = torch.zeros_like(x)
        for _ in range(20):
            axpy(x, y, 1.0)
        total = y - 20 * x
    stream.synchronize()
    assert float(total.abs().max()) < 1e-3


def test_explicit_streams_of_every_kind() -> None:
    torch = pytest.importorskip("torch")
    cupy = pytest.importorskip("cupy")
    ours = io.Stream("cuda")
    for stream in (
        ours,
        torch.cuda.Stream(),
        cupy.cuda.Stream(),
        0,
        1,
        2,
        ours.handle,
        torch.cuda.Stream().cuda_stream,
    ):
        x, y = io.to_device(random(50), "cuda"), io.to_device(np.zeros(50, np.float32), "cuda")
        axpy[None, None, stream](x, y, 1.0)
        io.device("cuda").synchronize()
        assert np.allclose(y.to_host(), x.to_host())


def test_a_launch_is_captured_in_a_graph_even_when_cold() -> None:
    torch = pytest.importorskip("torch")
    module = io.load_cuda(SOURCE + "// cold")
    x, y = torch.ones(100, device="cuda"), torch.zeros(100, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.saxpy[1, 128](x, y, 5.0, 100)
    torch.cuda.synchronize()
    assert float(y.sum()) == 0
    graph.replay()
    torch.cuda.synchronize()
    assert float(y.sum()) == 500


def test_torch_tensors_that_cannot_be_passed() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    with pytest.raises(io.ArgumentTypeError, match=r"not contiguous.*x\.contiguous\(\)"):
        axpy(torch.ones(16, device="cuda")[::2], y, 1.0)
    with pytest.raises(io.ArgumentTypeError, match="resolve_conj"):
        axpy(torch._neg_view(x), y, 1.0)
    with pytest.raises(io.ArgumentTypeError, match="layout"):
        axpy(x.to_sparse(), y, 1.0)
    with pytest.raises(io.ArgumentTypeError, match="x is on cuda:0, but y is on cpu"):
        axpy(x, y.cpu(), 1.0)
    with pytest.raises(io.ArgumentTypeError, match="holds f16"):
        axpy(x.half(), y, 1.0)
    fake = pytest.importorskip("torch._subclasses")
    with fake.FakeTensorMode() as mode:
        hollow = mode.from_tensor(x)
    with pytest.raises(io.ArgumentTypeError, match="no memory"):
        axpy(hollow, y, 1.0)


def test_bfloat16_of_torch() -> None:
    torch = pytest.importorskip("torch")
    module = io.load_cuda(
        "#include <cuda_bf16.h>\n"
        'extern "C" __global__ void twice(__nv_bfloat16 *x, __nv_bfloat16 a) '
        "{ x[threadIdx.x] = __hmul(x[threadIdx.x], a); }\n"
    )
    x = torch.arange(32, device="cuda", dtype=torch.bfloat16)
    module.twice[1, 32](x, 2.0)
    torch.cuda.synchronize()
    assert x.tolist() == [2.0 * i for i in range(32)]


def test_cupy_arrays_on_the_current_stream() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(1000, dtype=cupy.float32)
        y = cupy.zeros(1000, cupy.float32)
        axpy(x, y, 2.0)
        got = y.get(stream=stream)
        stream.synchronize()
    assert np.array_equal(got, 2 * np.arange(1000, dtype=np.float32))
    with pytest.raises(io.ArgumentTypeError, match=r"cupy\.ascontiguousarray"):
        axpy(x[::2], y[:500], 1.0)
    with pytest.raises(io.ArgumentTypeError, match="holds complex64"):
        axpy(cupy.zeros(3, cupy.complex64), y[:3], 1.0)


def test_torch_and_cupy_on_different_streams_are_ordered() -> None:
    torch = pytest.importorskip("torch")
    cupy = pytest.importorskip("cupy")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), cupy.cuda.Stream(non_blocking=True):
        for _ in range(10):
            x = torch.full((1 << 22,), 3.0, device="cuda")
            y = cupy.full(1 << 22, 1.0, cupy.float32)
            axpy(x, y, 2.0)
            assert float(y.min()) == float(y.max()) == 7.0


def test_jax_arrays() -> None:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(100, dtype=jax.numpy.float32)
    if "cuda" not in str(x.devices()).lower():
        pytest.skip("this JAX has no CUDA")
    y = io.to_device(np.zeros(100, np.float32), "cuda")
    axpy(x, y, 2.0)
    assert np.array_equal(y.to_host(), 2 * np.arange(100, dtype=np.float32))
    with pytest.raises(io.ArgumentTypeError, match="read-only"):
        axpy(y, x, 1.0)


def test_another_threads_context_and_the_callers_are_restored() -> None:
    from cuda.bindings import driver

    failures: list[BaseException] = []

    def work() -> None:
        try:
            assert int(driver.cuCtxGetCurrent()[1]) == 0
            x, y = io.to_device(random(10), "cuda"), io.to_device(np.zeros(10, np.float32), "cuda")
            axpy(x, y, 1.0)
            assert np.allclose(y.to_host(), x.to_host())
            assert int(driver.cuCtxGetCurrent()[1]) == 0
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures


def test_a_failed_bounds_check_is_a_driver_error() -> None:
    program = (
        "import numpy as np, interop as io\n"
        "from interop import simt\n"
        "@simt.kernel(block=32, grid='1')\n"
        "def reach(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):\n"
        "    i = simt.global_index()\n"
        "    if i < len(y):\n"
        "        y[i] = x[i + 1000000]\n"
        "x, y = io.to_device(np.zeros(4, np.float32), 'cuda'), io.to_device(np.zeros(4, np.float32), 'cuda')\n"
        "reach(x, y)\n"
        "try:\n"
        "    y.to_host()\n"
        "except io.DeviceError as error:\n"
        "    print('DeviceError', error)\n"
    )
    done = run_script(program)
    assert "DeviceError" in done.stdout and "CUDA_ERROR" in done.stdout, done.stdout + done.stderr
    assert "restart the process" in done.stdout


def test_a_forked_child_gets_a_clear_error() -> None:
    program = (
        "import os, numpy as np, interop as io\n"
        "x = io.to_device(np.zeros(4, np.float32), 'cuda')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        io.to_device(np.zeros(4, np.float32), 'cuda')\n"
        "    except io.DeviceError as error:\n"
        "        print('child:', error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(x.to_host().sum())\n"
    )
    done = run_script(program)
    assert "child: CUDA was initialised before this process was forked" in done.stdout, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("0.0")


def test_devices() -> None:
    gpus = [d for d in io.devices() if d.kind == "cuda"]
    assert gpus and gpus[0].name and gpus[0] is io.device("cuda:0") is io.device("cuda", 0)
    with pytest.raises(io.DeviceError, match="CUDA_ERROR_INVALID_DEVICE"):
        io.device("cuda", 99)


def run_script(program: str) -> subprocess.CompletedProcess[str]:
    """Runs `program` from a file, which the front end needs to read kernels' source."""
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(program)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
        return subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, check=False, env=environment, timeout=120
        )

"""What the CUDA path asks of the driver, seen by a stand-in for it: order, contexts, numbers, bytes, errors."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path

import export_kernels
import pytest
from host_support import Program, run_tool, without_driver

import abi
from interop.exporting import shim_path
from interop.exporting.images import have_assembler

IMAGES = 3  # kernels.cu is one, and each kernel from Python is one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "driver.log"


def test_nothing_is_loaded_in_a_launch_and_contexts_balance(c_host: Program, log: Path) -> None:
    c_host.run("fake", "run", FAKE_CUDA_LOG=str(log))
    lines = log.read_text().splitlines()
    first_launch = next(i for i, line in enumerate(lines) if line.startswith("launch"))
    assert not any(line.startswith(("load", "set", "cuInit")) for line in lines[first_launch:-3])
    assert lines[first_launch - 1] == "push 0" and lines[first_launch + 1] == "pop 0"  # and no waiting in between
    depth = 0
    for line in lines:
        depth += {"push": 1, "pop": -1}.get(line.split()[0], 0)
        assert 0 <= depth <= 1
    assert depth == 0
    assert lines[-3:] == ["unload on 0", "pop 0", "cuDevicePrimaryCtxRelease 0"]
    assert [line for line in lines if "Retain" in line or "Release" in line] == [
        "cuDevicePrimaryCtxRetain 0",
        "cuDevicePrimaryCtxRelease 0",
    ]


def test_launch_has_the_contracts_grid_and_the_arguments_bytes(c_host: Program, log: Path) -> None:
    c_host.run("fake", "run", FAKE_CUDA_LOG=str(log))
    launch = next(line for line in log.read_text().splitlines() if line.startswith("launch")).split()
    fields = dict(zip(("kernel", "grid", "block", "shared"), (launch[1], launch[3:6], launch[7:10], launch[11])))
    assert fields == {"kernel": "saxpy", "grid": ["4", "1", "1"], "block": ["256", "1", "1"], "shared": "0"}
    params = bytes.fromhex(launch[-1])
    _, x_length, _, y_length, a = struct.unpack("<QQQQf", params)
    assert (len(params), x_length, y_length, a) == (36, 1000, 1000, struct.unpack("f", struct.pack("f", 0.3))[0])


def test_scalars_lie_where_the_image_wants_them(c_host: Program, log: Path) -> None:
    c_host.run("fake", "widths", FAKE_CUDA_LOG=str(log))
    launch = next(line for line in log.read_text().splitlines() if line.startswith("launch widths"))
    _, length, flag, small, middle, word, large, half, single, double, tag, _, last = struct.unpack(
        "<QQ?bHiQHxxfdb7xdd", bytes.fromhex(launch.split()[-1])
    )
    assert (length, flag, small, middle, word, large) == (10, True, -128, 65535, -(2**31), 2**63)
    assert (half, single, double) == (0x2E66, struct.unpack("f", struct.pack("f", 0.1))[0], 0.1)
    assert (tag, last) == (ord("p"), -2.25)


@pytest.mark.skipif(not have_assembler(), reason="nvJitLink is not installed")
def test_cubin_of_the_exact_architecture_else_of_an_older_one_else_ptx(c_host: Program, log: Path) -> None:
    for cc, image in (("9.0", "cubin"), ("8.6", "cubin"), ("12.0", "ptx"), ("8.0", "cubin")):
        log.unlink(missing_ok=True)
        c_host.run("fake", "device", FAKE_CUDA_LOG=str(log), FAKE_CUDA_CC=cc)
        loads = [line for line in log.read_text().splitlines() if line.startswith("load")]
        assert set(loads) == {f"load {image} on 0"} and len(loads) == IMAGES


def test_opts_in_to_all_shared_memory_that_the_static_part_leaves(c_host: Program, log: Path) -> None:
    c_host.run("fake", "device", FAKE_CUDA_LOG=str(log))
    assert "set block_sums 8 232447" in log.read_text().splitlines()


def test_old_gpu_is_refused_with_what_the_bundle_holds(c_host: Program) -> None:
    told = c_host.run("fake", "device", status=3, FAKE_CUDA_CC="7.5")
    assert "compute capability is 7.5" in told and "PTX for sm_80" in told


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("cuInit=100", "cuInit: CUDA_ERROR_NO_DEVICE"),
        ("cuDevicePrimaryCtxRetain=46", "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE"),
        ("cuModuleGetFunction=500", "saxpy: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"),
    ],
)
def test_load_errors_carry_the_drivers_name(c_host: Program, failure: str, words: str) -> None:
    assert words in c_host.run("fake", "device", status=3, FAKE_CUDA_FAIL=failure)


def test_jit_log_and_versions_are_in_the_message(c_host: Program) -> None:
    told = c_host.run("fake", "device", status=3, FAKE_CUDA_FAIL="cuModuleLoadDataEx=222", FAKE_CUDA_CC="12.0")
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in told and "line 7; fatal" in told
    version = abi.read_header(export_kernels.ptx_image().text).version
    assert f"the driver (CUDA 13.0) refuses the PTX {version} for sm_80" in told


def test_failed_launch_names_kernel_call_and_error(c_host: Program) -> None:
    told = c_host.run("fake", "grid_shorthand", FAKE_CUDA_FAIL="cuLaunchKernel=700")
    expected = "saxpy: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
    assert told.strip() == f"{int(abi.Status.EXECUTION)} {expected}"


def test_out_of_memory_has_its_own_status(c_host: Program) -> None:
    told = c_host.run("fake", "run", status=1, FAKE_CUDA_FAIL="cuMemAlloc=2")
    assert f"{int(abi.Status.OUT_OF_MEMORY)} mix: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY" in told


def test_second_gpu_and_one_that_is_not_there(c_host: Program, log: Path) -> None:
    c_host.run("fake:1", "run", FAKE_CUDA_COUNT="2", FAKE_CUDA_LOG=str(log))
    assert "load cubin on 1" in log.read_text()
    told = c_host.run("fake:2", "device", status=3, FAKE_CUDA_COUNT="2")
    assert told == "load: mix: there is no device cuda:2; the driver sees 2 GPUs\n"


@without_driver
def test_without_a_driver_cuda_is_refused_in_words(c_host: Program) -> None:
    told = c_host.run("cuda", "device", status=3, LD_LIBRARY_PATH="")
    assert told.startswith("load: mix: there is no NVIDIA driver on this machine: libcuda.so.1")
    assert "there is no NVIDIA driver" in c_host.run("best", "device").splitlines()[1]


def test_environment_decides_for_best_only(c_host: Program, fake_driver: Path) -> None:
    library = {"LD_LIBRARY_PATH": str(fake_driver)}
    assert c_host.run("best", "device", **library).startswith("2 cuda:0 Fake 0 (sm_90)")
    assert c_host.run("best", "device", INTEROP_DEVICE="cuda", **library).startswith("2 ")
    assert c_host.run("best", "device", INTEROP_DEVICE="cpu", **library).startswith("1 cpu (x86-64")
    assert c_host.run("fake", "device", INTEROP_DEVICE="cpu").startswith("2 ")
    assert "INTEROP_DEVICE is cpu or cuda" in c_host.run("best", "device", status=3, INTEROP_DEVICE="gpu")


def test_best_falls_back_to_the_cpu_and_says_why(c_host: Program, fake_driver: Path) -> None:
    library = {"LD_LIBRARY_PATH": str(fake_driver)}
    assert "compute capability is 7.0" in c_host.run("best", "device", FAKE_CUDA_CC="7.0", **library)
    # A GPU that is there and does not work is no reason to be slow in silence.
    told = c_host.run("best", "device", status=3, FAKE_CUDA_FAIL="cuDevicePrimaryCtxRetain=46", **library)
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in told


def test_library_of_the_driver_knows_host_memory_and_another_gpus(c_context: Program) -> None:
    lines = c_context.run("fake", FAKE_CUDA_COUNT="2").splitlines()
    assert lines == [
        "2 devices",
        "1 scale: y is in host memory, but the module runs on cuda:1; copy it there first",
        "1 scale: y is on cuda:0, but the module runs on cuda:1",
        "context kept: yes",
        "after unload: yes",
        "in the caller's context: yes",
        "4 mix: this process was forked after CUDA was initialised, and CUDA does not survive a fork; start the child "
        "with exec, or load the first module after the fork",
    ]


def cuda_header() -> Path | None:
    """The folder of cuda.h: NVIDIA's package, or a toolkit."""
    nvidia = importlib.util.find_spec("nvidia")
    places = [Path(p) for p in (nvidia.submodule_search_locations or [] if nvidia else [])]
    found = [h for p in [*places, Path("/usr/local/cuda")] for h in sorted(p.glob("**/include/cuda.h"))]
    return found[0].parent if found else None


NUMBERS = {
    "DRIVER_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY",
    "DRIVER_INVALID_VALUE": "CUDA_ERROR_INVALID_VALUE",
    "DRIVER_NO_BINARY_FOR_GPU": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "DRIVER_INVALID_PTX": "CUDA_ERROR_INVALID_PTX",
    "DRIVER_UNSUPPORTED_PTX_VERSION": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "DRIVER_NOT_FOUND": "CUDA_ERROR_NOT_FOUND",
    "DRIVER_ILLEGAL_ADDRESS": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "DRIVER_ASSERT": "CUDA_ERROR_ASSERT",
    "DRIVER_HARDWARE_STACK_ERROR": "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "DRIVER_LAUNCH_FAILED": "CUDA_ERROR_LAUNCH_FAILED",
    "DRIVER_MAX_THREADS_PER_BLOCK": "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
    "DRIVER_MAX_BLOCK_DIM_X + 2": "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z",
    "DRIVER_MAX_GRID_DIM_X + 2": "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z",
    "DRIVER_COMPUTE_CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "DRIVER_COMPUTE_CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "DRIVER_PAGEABLE_MEMORY_ACCESS": "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
    "DRIVER_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "DRIVER_FUNCTION_MAX_THREADS": "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
    "DRIVER_FUNCTION_SHARED_SIZE": "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
    "DRIVER_FUNCTION_MAX_DYNAMIC_SHARED_SIZE": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "DRIVER_JIT_INFO_LOG_BUFFER": "CU_JIT_INFO_LOG_BUFFER",
    "DRIVER_JIT_INFO_LOG_BUFFER_SIZE": "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES",
    "DRIVER_JIT_ERROR_LOG_BUFFER": "CU_JIT_ERROR_LOG_BUFFER",
    "DRIVER_JIT_ERROR_LOG_BUFFER_SIZE": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
    "DRIVER_POINTER_MEMORY_TYPE": "CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "DRIVER_POINTER_IS_MANAGED": "CU_POINTER_ATTRIBUTE_IS_MANAGED",
    "DRIVER_POINTER_DEVICE_ORDINAL": "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
    "DRIVER_MEMORY_TYPE_DEVICE": "CU_MEMORYTYPE_DEVICE",
}


@pytest.mark.skipif(cuda_header() is None, reason="there is no cuda.h on this machine")
def test_numbers_and_entry_points_are_those_of_cuda_h(tmp_path: Path) -> None:
    shim = shim_path()
    header = (shim / "src" / "interop_driver.h").read_text()
    symbols = re.findall(r'X\(\w+, "(cu\w+)"', header)
    assert len(symbols) == header.count("    X(")
    # Without a macro of that name, or as what the macro stands for, each entry point is declared by cuda.h.
    checks = [f"_Static_assert((int)({ours}) == (int)({theirs}), {ours!r});" for ours, theirs in NUMBERS.items()]
    checks = [check.replace("'", '"') for check in checks]
    checks += [f"static void *use_{s}(void) {{ return (void *)(uintptr_t)&{s}; }}" for s in symbols]
    source = tmp_path / "numbers.c"
    source.write_text('#include <cuda.h>\n#include "interop_driver.h"\n' + "\n".join(checks) + "\n")
    include = [f"-I{cuda_header()}", f"-I{shim / 'include'}", f"-I{shim / 'src'}"]
    run_tool(["gcc", "-std=gnu11", "-Werror=implicit-function-declaration", *include, "-fsyntax-only", source])

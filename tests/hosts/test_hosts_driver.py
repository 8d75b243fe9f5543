"""What the CUDA path asks of the driver, seen by a stand-in for it: order, contexts, numbers, bytes, errors."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from host_support import Program, without_driver

import abi
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
    assert "the driver (CUDA 13.0) refuses the PTX" in told


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

"""What C and C++ hosts are told when a call is wrong, on every device, in the words of Python."""

from __future__ import annotations

import export_kernels
import numpy as np
import pytest
from host_support import Program

import abi
from abi.rules import ArrayValue, block_message, contract_message, resolve_launch, shared_message

DEVICES = ["cpu", "fake", pytest.param("cuda", marks=pytest.mark.gpu)]


def kernel(name: str) -> abi.Kernel:
    return next(k.kernel for k in export_kernels.all_kernels() if k.name == name)


def requirement(name: str, index: int) -> abi.Requirement:
    return kernel(name).requires[index]


SHORT = contract_message("saxpy", requirement("saxpy", 0), {"len(x)": 3, "len(y)": 4})
WITNESS = contract_message("saxpy", requirement("saxpy", 1), {"grid.y": 2, "grid.z": 1, "block.y": 1, "block.z": 1})
DISJOINT = abi.Requirement("disjoint(y, *)")

EXPECTED = {
    "short_slice": (abi.Status.CONTRACT, SHORT),
    "two_dimensional": (abi.Status.CONTRACT, WITNESS),
    "wrong_block": (abi.Status.CONTRACT, block_message(kernel("saxpy"), (128, 1, 1))),
    "too_many_threads": (abi.Status.CONTRACT, block_message(kernel("scale"), (64, 4, 1))),
    "overlapping": (abi.Status.CONTRACT, contract_message("saxpy", DISJOINT, {"overlap(y, x)": 20})),
    "noted_rule": (abi.Status.CONTRACT, contract_message("scale", requirement("scale", 0), {"n": 7})),
    "misaligned": (
        abi.Status.CONTRACT,
        contract_message("saxpy", abi.Requirement("aligned(x, 4)"), {"address(x) % 4": 2}),
    ),
    "null_module": (abi.Status.ARGUMENT_TYPE, "saxpy: module is NULL"),
    "null_hash": (abi.Status.ARGUMENT_TYPE, "mix: the header's hash or signatures are NULL"),
    "null_data": (abi.Status.ARGUMENT_TYPE, "saxpy: x is NULL, but len(x) = 1000"),
    "huge_length": (
        abi.Status.ARGUMENT_RANGE,
        f"saxpy: len(x) = {2**64 - 1} is too large for elements of 4 bytes",
    ),
    "negative_extent": (abi.Status.ARGUMENT_RANGE, "transpose: dim(src, 0) = -1 is negative"),
    "grid_limit": (abi.Status.ARGUMENT_RANGE, "scale: grid.z is 70000; the limit is 65535"),
    "shared_short": (abi.Status.CONTRACT, shared_message("new", "8 * block.x", 511, {"block.x": 64})),
    "shared_enough": (abi.Status.OK, ""),
    "shared_more": (abi.Status.OK, ""),
    "grid_shorthand": (abi.Status.OK, ""),
    "grid_zero": (abi.Status.OK, ""),
    "empty": (abi.Status.OK, ""),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", EXPECTED)
def test_c_host_is_told(c_host: Program, device: str, case: str) -> None:
    status, message = EXPECTED[case]
    assert c_host.run(device, case).rstrip("\n") == f"{int(status)} {message}"


@pytest.mark.parametrize(("case", "given"), [("shared_short", 511), ("shared_enough", 512), ("shared_more", 520)])
def test_c_and_python_agree_on_explicit_shared_memory(c_host: Program, case: str, given: int) -> None:
    arrays = {"int": ArrayValue(4096, (64,), (1,), 8), "module": ArrayValue(8192, (1,), (1,), 8)}
    try:
        resolve_launch(kernel("new"), arrays, block=(64, 1, 1), shared=given)
        told = "0 "
    except abi.ContractError as error:
        told = f"{int(abi.Status.CONTRACT)} {error}"
    assert c_host.run("cpu", case).rstrip("\n") == told


@pytest.mark.parametrize("device", DEVICES)
def test_too_much_shared_memory_names_both_numbers(c_host: Program, device: str) -> None:
    told = c_host.run(device, "shared_limit")
    assert told.startswith(f"{int(abi.Status.ARGUMENT_RANGE)} new: ")
    assert "300000" in told and "232448" in told


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("case", "message"), [("short_slice", SHORT)])
def test_cpp_host_gets_an_exception_with_the_same_words(
    cpp_host: Program, device: str, case: str, message: str
) -> None:
    assert cpp_host.run(device, case).rstrip("\n") == f"{int(abi.Status.CONTRACT)} {message}"


@pytest.mark.parametrize("device", DEVICES)
def test_cpp_host_may_not_launch_a_one_dimensional_witness_in_two(cpp_host: Program, device: str) -> None:
    assert requirement("saxpy", 1).rule in cpp_host.run(device, "two_dimensional")


def test_header_of_another_version_shows_both_signatures(c_host: Program) -> None:
    told = c_host.run("fake", "other_header")
    assert told.startswith(f"{int(abi.Status.ABI_MISMATCH)} ")
    assert "saxpy(interop_slice_f32 x, float a)" in told
    assert "saxpy(interop_slice_const_f32 x, interop_slice_f32 y, float a)" in told


def test_spans_convert_from_what_they_should(cpp_host: Program) -> None:
    assert cpp_host.run("fake", "conversions") == "30\n"


@pytest.mark.parametrize("device", DEVICES)
def test_buffers_keep_their_module(cpp_host: Program, device: str) -> None:
    assert cpp_host.run(device, "lifetime") == "0 2 2\n"


@pytest.mark.parametrize("device", DEVICES)
def test_load_unload_load(c_host: Program, device: str) -> None:
    assert c_host.run(device, "reload") == "reloaded\n"


@pytest.mark.parametrize("device", DEVICES)
def test_threads_see_their_own_results_and_messages(cpp_host: Program, device: str) -> None:
    assert cpp_host.run(device, "threads") == "0 wrong\n"


def expected_saxpy() -> np.ndarray:
    i = np.arange(1000)
    x, y = (1 + 0.25 * i).astype(np.float32), (-3 + 0.125 * i).astype(np.float32)
    export_kernels.saxpy()(x, y, 0.3)
    return y


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_both_hosts_compute_what_numpy_does(c_host: Program, cpp_host: Program, device: str) -> None:
    for host in (c_host, cpp_host):
        found = [float.fromhex(line) for line in host.run(device, "run").split()]
        np.testing.assert_array_equal(np.array(found, np.float32), expected_saxpy())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_strided_tensors(c_host: Program, cpp_host: Program, device: str) -> None:
    assert c_host.run(device, "transpose") == "transposed\n"
    shapes = ["7 x 6", "-5 x -6", f"{2**32} x {2**32}", "0 x 30", "-1 x 0"]
    told = cpp_host.run(device, "transpose").splitlines()
    assert told == [f"a tensor of {shape} elements over a span of 30" for shape in shapes]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_scalars_of_every_width_arrive(c_host: Program, device: str) -> None:
    found = [float.fromhex(line) for line in c_host.run(device, "widths").split()]
    half = float(np.float16(0.1).view(np.uint16))
    single = float(np.float32(0.1))
    assert found == [1.0, -128.0, 65535.0, float(-(2**31)), float(2**63), half, single, 0.1, float(ord("p")), -2.25]

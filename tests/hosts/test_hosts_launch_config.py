"""Launch configurations as C++ programs write them, and what C++ calls with them do."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HERE, SANITIZE, WARNINGS, Program, run_tool

from abi import Status
from interop.exporting import shim_path

DEVICES = ["cpu", "fake", pytest.param("cuda", marks=pytest.mark.gpu)]
STRICT = [*WARNINGS, "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wuseless-cast"]

RANGE = f"{int(Status.ARGUMENT_RANGE)} {{}} is {{}}; it must be 0 to 4294967295"
DIMENSION = "a dimension of a grid or block"
EXPECTED = [
    "2,1,1 4,1,1 0 default",
    "4,1,1 256,1,1 0 default",
    "0,1,1 256,1,1 0 default",
    "4,0,1 256,1,1 0 default",
    "100,1,1 7,3,1 28 default",
    "contract 128,1,1 0 default",
    "contract 128,1,1 0 stream",
    "2,1,1 contract 0 default",
    "2,1,1 3,4,1 0 default",
    "4,1,1 contract 0 default",
    "contract contract 0 default",
    "contract contract 0 default",
    "contract contract 0 stream",
    "contract contract 0 stream",
    "contract contract 64 default",
    "5,1,1 32,8,1 0 default",
    "contract 32,8,1 0 default",
    "1,2,3 1,1,1 0 default",
    RANGE.format(DIMENSION, -1),
    RANGE.format("dynamic shared memory", -1),
    RANGE.format(DIMENSION, 5000000000),
    RANGE.format("dynamic shared memory", 5000000000),
]


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_every_way_to_write_one(tmp_path: Path, standard: str) -> None:
    program, include = tmp_path / "program", f"-I{shim_path() / 'include'}"
    run_tool(["g++", f"-std={standard}", *STRICT, *SANITIZE, include, HERE / "launch_config.cpp", "-o", program])
    assert run_tool([program]).splitlines() == EXPECTED


CASES = {
    "two_by_one": "0 ",
    "flat_block": f"{int(Status.CONTRACT)} saxpy: requires block == (256, 1, 1), but block = (32, 8, 1)",
    "no_blocks": "0 ",
    "no_rows": f"{int(Status.CONTRACT)} saxpy: requires grid.y == 1 and grid.z == 1 and block.y == 1 and block.z == 1, "
    "but grid.y = 0, grid.z = 1, block.y = 1, block.z = 1 (y is written through a one-dimensional index)",
    "no_threads": f"{int(Status.CONTRACT)} saxpy: requires block == (256, 1, 1), but block = (0, 1, 1)",
    "no_threads_of_many": f"{int(Status.ARGUMENT_RANGE)} scale: block.x is 0; it must be 1 to 1024",
    "own_block": "0 ",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_calls_do_what_they_say(cpp_host: Program, device: str, case: str) -> None:
    assert cpp_host.run(device, case).rstrip("\n") == CASES[case]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_explicit_grids_cover_what_they_cover(cpp_host: Program, device: str) -> None:
    """Of 1000 elements, three blocks of 256 double 768, and no block doubles none."""
    assert cpp_host.run(device, "coverage") == "768 0 1000\n"

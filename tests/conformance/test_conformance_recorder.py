"""The recording script, on a driver whose GPU is the CPU device: it records, compares, and survives what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance_table import family
from conformance_table.record import load, save

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).resolve().parent / "fake_driver"


def record(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}"} | variables
    command = [sys.executable, str(ROOT / "tools" / "record_conformance.py"), "--family", "bits", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_records_and_compares(tmp_path: Path) -> None:
    done = record("--out", tmp_path)
    assert done.returncode == 0, done.stderr
    recording = load("bits", tmp_path)
    assert recording is not None and recording.origin["device"] == "a CPU" and recording.origin["cuda"] == "13.0"
    cases = family("bits")
    assert list(recording.cases) == [case.name for case in cases]
    for case in cases:
        entry = recording.entry(case)
        assert entry is not None, case.name
        if "failed" in entry:  # what the CPU device does not have, the recorder takes for a failing case
            assert "is not supported by the CPU device" in str(entry["failed"])
            continue
        texts = entry["results"]
        assert isinstance(texts, list) and len(texts) == len(case.outs)
    inverted = next(case for case in cases if case.name == "not.b16")
    wanted = "".join(f"{row[0] ^ 0xFFFF:04x}" for row in inverted.rows)
    assert recording.cases["not.b16"]["results"] == [wanted]

    assert sum("results" in entry for entry in recording.cases.values()) > 0.9 * len(cases)

    assert record("--check", "--expected", tmp_path).returncode == 0
    recording.cases["not.b16"]["results"] = ["0" + wanted[1:]]
    save(recording, tmp_path)
    again = record("--check", "--expected", tmp_path)
    assert again.returncode == 1 and "1 cases differ" in again.stdout and "not.b16" in again.stdout


def test_one_case_that_fails_costs_only_itself(tmp_path: Path) -> None:
    done = record(
        "--out",
        tmp_path,
        FAKE_REFUSES="bfi.b32",
        FAKE_FAILS="cnot.b32",
        FAKE_HANGS="brev.b64",
        CONFORMANCE_SECONDS="12",
    )
    assert done.returncode == 0, done.stderr
    recording = load("bits", tmp_path)
    assert recording is not None
    without = {name: entry for name, entry in recording.cases.items() if "not supported" not in str(entry)}
    without = {name: entry for name, entry in without.items() if "results" not in entry}
    assert without.keys() == {"bfi.b32", "cnot.b32", "brev.b64"}
    assert without["bfi.b32"]["refused"] == "CUDA_ERROR_INVALID_PTX: not this one"
    assert without["cnot.b32"]["failed"] == "the driver says CUDA_ERROR_ILLEGAL_ADDRESS"
    assert "no end within" in str(without["brev.b64"]["failed"])
    assert len(recording.cases) == len(family("bits"))

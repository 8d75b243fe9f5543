"""The PTX that is kept: real PTX, small, and free of the machine that made it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compilers_harness import DATA, MAKE
from support.assemble import assemble

from interop import ptx

FILES = sorted(DATA.glob("*/*.ptx"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_kept_ptx_is_assembled(path: Path) -> None:
    assemble(path.read_text(), "sm_80")


def test_kept_ptx_is_known_and_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < 1_000_000
    note = (DATA / "README.md").read_text()
    for folder in {path.parent for path in FILES}:
        launch = json.loads((folder / "launch.json").read_text())
        assert launch["tool"] and f"`{folder.name}`" in note
    for path in FILES:
        text = path.read_text()
        assert ptx.parse(text).entries, path
        if path.parent.name.startswith(("nvrtc", "nvcc", "clang")):
            assert (MAKE / "cuda" / f"{path.stem}.cu").exists()
        places = [name for name in re.findall(r'^\s*\.file\s+\d+\s+"([^"]*)"', text, re.M)]
        assert all(place.startswith(("/kernels/", "/usr/local/cuda")) for place in places), (path, places)

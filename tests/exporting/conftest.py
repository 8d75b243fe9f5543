"""Exports without compiled code, which is all that most tests of the generators need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.exporting import ExportReport, export


@pytest.fixture
def quick_export(tmp_path: Path) -> Callable[..., ExportReport]:
    """``export`` of PTX only, into a folder of its own."""

    def run(kernels: Any, **options: Any) -> ExportReport:
        options = {"name": "mix", "arch": (), "levels": (), **options}
        return export(kernels, options.pop("directory", tmp_path / "out"), **options)

    return run

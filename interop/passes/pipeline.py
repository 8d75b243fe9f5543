"""The passes in order."""

from __future__ import annotations

from ..ir.ops import Function


def run_passes(function: Function) -> None:
    """Runs all passes on `function`; the first user error is raised."""

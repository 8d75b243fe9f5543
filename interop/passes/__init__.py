"""Analyses of the thread-level IR. One pass, one file; :func:`run_passes` has their order."""

from .pipeline import run_passes

__all__ = ["run_passes"]

"""Pipelines: kernels of any origin, run in order over named buffers on one device."""

from .pipeline import Buffer, Formula, Pipeline, ScalarInput, StepTiming

__all__ = ["Buffer", "Formula", "Pipeline", "ScalarInput", "StepTiming"]

"""Kernels written elsewhere: CUDA C++ and PTX to launchable kernels with checked signatures."""

from __future__ import annotations

from .cuda import load_cuda
from .foreign import ForeignKernel, foreign
from .module import Module
from .ptx_module import load_ptx

__all__ = ["ForeignKernel", "Module", "foreign", "load_cuda", "load_ptx"]

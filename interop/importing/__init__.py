"""Kernels written elsewhere: CUDA C++ and PTX to launchable kernels with checked signatures."""

from __future__ import annotations

from .cuda import load_cuda
from .foreign import ForeignKernel, foreign
from .module import AmbiguousKernel, Module, NoSuchKernel
from .ptx_module import load_ptx

__all__ = ["AmbiguousKernel", "ForeignKernel", "Module", "NoSuchKernel", "foreign", "load_cuda", "load_ptx"]

"""The SIMT front end: Python functions to typed IR, and the way from there to PTX and an ABI record."""

from .compile import Compiled, compile_simt

__all__ = ["Compiled", "compile_simt"]

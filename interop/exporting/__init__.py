"""Exporting: kernels to a folder that C and C++ hosts build and link, with nothing of Python in it.

>>> from interop.exporting import Example, export
>>> export([saxpy], "build/mix", name="mix", examples=[Example(saxpy, (x, y, 2.0))])  # doctest: +SKIP
"""

from .example import Example
from .export import ExportReport, export
from .shim import shim_path
from .status import status_header

__all__ = ["Example", "ExportReport", "export", "shim_path", "status_header"]

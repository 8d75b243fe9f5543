"""What all tests share: the helpers' path, where GPU tests run, and the assembler that sees all PTX.

Everything that the project's compilers make in a test, whatever the test is about, is assembled to a cubin for three
architectures on the spot; PTX that the assembler refuses fails the test that made it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support.assemble import assemble_everywhere

# In continuous integration the examples are the same each time, so that a red run is the change's own; elsewhere they
# are new ones, which is how faults are found.
hypothesis.settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")


@functools.cache
def gpu_name() -> str:
    """The name of the first GPU, or empty."""
    import interop

    return next((device.name for device in interop.devices() if device.kind == "cuda"), "")


def pytest_report_header() -> str:
    name = gpu_name()
    return f"GPU: {name}" if name else "GPU: none in use; tests marked gpu are skipped"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU and its driver")
    for item in items:
        if item.get_closest_marker("gpu") and not gpu_name():
            item.add_marker(skip)


@pytest.fixture(autouse=True, scope="session")
def every_ptx_is_assembled() -> Iterator[None]:
    """Wraps the two places where PTX is made: LLVM's NVPTX back end and NVRTC."""
    import interop.codegen.ptx
    import interop.importing.nvrtc

    with pytest.MonkeyPatch.context() as patch:
        for module in (interop.codegen.ptx, interop.importing.nvrtc):
            patch.setattr(module, "_compile", _assembling(module._compile))
        yield


def _assembling(compile_: Callable[..., Any]) -> Callable[..., Any]:
    def compiled(*arguments: Any) -> Any:
        made = compile_(*arguments)
        assemble_everywhere(made if isinstance(made, str) else made.ptx)
        return made

    return compiled

"""``interop inspect``: what a file's kernels expect, in C and in Python."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

from abi import Error, Kernel, UnsupportedError
from abi import bundle as bundles
from abi.show import c_signature, contract_lines, layout_table, python_signature


def inspect_path(path: Path) -> str:
    """The report for a `.cu`, `.ptx` or `.py` file or a bundle; :class:`abi.Error` when it cannot be read."""
    if not path.exists():
        raise Error(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix == ".json":
        kernels: Iterable[Kernel] = bundles.read(path).kernels
    elif path.suffix == ".ptx":
        from ..importing import load_ptx

        kernels = [kernel.program().kernel for kernel in load_ptx(path).kernels.values()]
    elif path.suffix in (".cu", ".cuh"):
        from ..importing import load_cuda

        kernels = [kernel.program().kernel for kernel in load_cuda(path).kernels.values()]
    elif path.suffix == ".py":
        kernels = _python_kernels(path)
    else:
        raise UnsupportedError(
            f"{path}: interop inspect reads .cu, .ptx and .py files and bundles, not '{path.suffix}'"
        )
    reports = [describe(kernel) for kernel in kernels]
    return "\n\n".join(reports) if reports else f"{path}: no kernels"


def describe(kernel: Kernel) -> str:
    """One kernel's report: where it comes from, both signatures, the contract, the layout, how much is checked."""
    origin = f"{kernel.language}, {kernel.source}" if kernel.source else kernel.language
    lines = [f"{kernel.name}   ({origin})"]
    lines += [f"  {line}" for line in kernel.doc.strip().splitlines()]
    lines += ["", "  C       " + c_signature(kernel), "  Python  " + python_signature(kernel)]
    if kernel.symbol != kernel.name:
        lines.append(f"  symbol  {kernel.symbol}")
    lines += ["", "  contract", *(f"    {line}" for line in contract_lines(kernel))]
    lines += ["", f"  parameter buffer (convention {kernel.convention}, checked at level {kernel.check_level.value})"]
    lines += [f"    {line}" for line in layout_table(kernel).splitlines()]
    return "\n".join(lines)


def _python_kernels(path: Path) -> list[Kernel]:
    """Runs the file as a module (not as ``__main__``) and collects the kernels that it defines."""
    from ..runtime import Launchable

    namespace = runpy.run_path(str(path), run_name="__interop_inspect__")
    return [value.program().kernel for value in namespace.values() if isinstance(value, Launchable)]

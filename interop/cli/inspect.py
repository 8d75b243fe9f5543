"""``interop inspect``: what a file's kernels expect, in C and in Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from abi import Error, Kernel, UnsupportedError
from abi import bundle as bundles
from abi.show import c_signature, contract_lines, layout_table, python_signature

from ..exporting.text import visible


def reports(path: Path) -> Iterator[str]:
    """One report a kernel of a `.cu`, `.ptx` or `.py` file or a bundle; :class:`abi.Error` when it cannot be read."""
    if not path.exists():
        raise Error(f"{path}: no such file or folder")
    count = 0
    prefix = ""
    if path.is_dir() or path.suffix == ".json":
        bundle = bundles.read(path)
        prefix, kernels = f"{bundle.name}_", iter(bundle.kernels)
    else:
        kernels = iter(_kernels(path))
    for count, kernel in enumerate(kernels, 1):  # noqa: B007
        yield describe(kernel, prefix)
    if not count:
        raise Error(f"{path}: there are no kernels in it")


def describe(kernel: Kernel, prefix: str = "") -> str:
    """One kernel's report: where it comes from, both signatures, the contract, the layout, how much is checked.

    `prefix` is that of an exported library's functions.
    """
    origin = f"{kernel.language}, {kernel.source}" if kernel.source else kernel.language
    lines = [f"{kernel.name}   ({origin})"]
    lines += [f"  {line}" for line in kernel.doc.strip().splitlines()]
    lines += ["", "  C       " + c_signature(kernel, prefix), "  Python  " + python_signature(kernel)]
    if kernel.symbol != kernel.name:
        lines.append(f"  symbol  {kernel.symbol}")
    lines += ["", "  contract", *(f"    {line}" for line in contract_lines(kernel))]
    lines += ["", f"  parameter buffer (convention {kernel.convention}, checked at level {kernel.check_level.value})"]
    lines += [f"    {line}" for line in layout_table(kernel).splitlines()]
    return visible("\n".join(lines))  # the text of a bundle is a stranger's


def _kernels(path: Path) -> Iterable[Kernel]:
    if path.suffix == ".ptx":
        from ..importing import load_ptx

        return (kernel.program().kernel for kernel in load_ptx(path).kernels.values())
    if path.suffix in (".cu", ".cuh"):
        from ..importing import load_cuda

        return (kernel.program().kernel for kernel in load_cuda(path).kernels.values())
    if path.suffix == ".py":
        return _python_kernels(path)
    raise UnsupportedError(f"{path}: interop inspect reads .cu, .ptx and .py files and bundles, not '{path.suffix}'")


def _python_kernels(path: Path) -> Iterator[Kernel]:
    """Runs the file as a module (not as ``__main__``) and gives the kernels that it defines.

    When the file fails half way, the kernels defined until then still come, and then the error.
    """
    from ..runtime import Launchable

    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path), "__builtins__": __builtins__}
    sys.path.insert(0, str(path.resolve().parent))
    failure: BaseException | None = None
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), namespace)
    except (Exception, SystemExit) as error:
        # The file is the user's program: whatever stops it, what it defined before is still worth showing.
        failure = error
    for value in list(namespace.values()):
        if isinstance(value, Launchable):
            yield value.program().kernel
    if failure is not None:
        raise Error(f"{path} stopped with {type(failure).__name__}: {failure}")

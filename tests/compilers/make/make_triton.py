"""Triton kernels to PTX for sm_80, without a GPU: ``python make_triton.py FOLDER [--line-info]``.

Writes ``NAME.ptx`` and ``launch.json`` (symbol, threads of a block, bytes of dynamic shared memory of each).
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path


def main(folder: Path, line_info: bool) -> None:
    # Read when the compiler runs; without it the text holds this machine's path to the source.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "0" if line_info else "1"
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton_kernels import KERNELS

    folder.mkdir(parents=True, exist_ok=True)
    launch: dict[str, object] = {"tool": f"triton {version('triton')}"}
    for name, kernel in KERNELS.items():
        names = [parameter.name for parameter in kernel.function.params]
        types = [*kernel.types.split(), *["constexpr"] * len(kernel.constants)]
        signature = dict(zip(names, types, strict=True))
        aligned = [
            index
            for index, (parameter, type_) in enumerate(signature.items())
            if kernel.aligned and (type_.startswith("*") or parameter.startswith("stride"))
        ]
        source = ASTSource(
            kernel.function, signature, kernel.constants, {(index,): [["tt.divisibility", 16]] for index in aligned}
        )
        options = {"num_warps": kernel.warps, "num_stages": kernel.stages}
        made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
        (folder / f"{name}.ptx").write_text(made.asm["ptx"])
        launch[name] = {"symbol": made.metadata.name, "threads": 32 * kernel.warps, "shared": made.metadata.shared}
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--line-info" in sys.argv)

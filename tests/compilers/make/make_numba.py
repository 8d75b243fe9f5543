"""Numba kernels to PTX for sm_80, without a GPU: ``python make_numba.py FOLDER [--debug] [--lineinfo] [KERNEL…]``.

Writes ``NAME.ptx`` and ``launch.json``. Needs ``numba-cuda`` and packages of NVRTC, NVVM, the linker and headers:
``pip install numba-cuda nvidia-cuda-nvrtc nvidia-nvvm nvidia-nvjitlink nvidia-cuda-runtime nvidia-cuda-cccl``.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path


def main(folder: Path, options: list[str]) -> None:
    from numba import cuda
    from numba_kernels import KERNELS

    names = [option for option in options if not option.startswith("-")] or KERNELS
    folder.mkdir(parents=True, exist_ok=True)
    launch: dict[str, object] = {"tool": f"numba-cuda {version('numba-cuda')}, numba {version('numba')}"}
    for name in names:
        function, types = KERNELS[name]
        debug, lines = "--debug" in options, "--lineinfo" in options
        text, _ = cuda.compile_ptx(function, types, cc=(8, 0), debug=debug, opt=not debug, lineinfo=lines)
        (folder / f"{name}.ptx").write_text(text)
        (symbol,) = re.findall(r"\.visible \.entry ([\w$]+)", text)
        launch[name] = {"symbol": symbol}
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

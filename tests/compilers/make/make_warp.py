"""Warp kernels to PTX for sm_80, without a GPU: ``python make_warp.py FOLDER``.

Writes ``kernels.ptx`` and ``launch.json``. Warp ends the file with a null character, which is left out.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path


def main(folder: Path) -> None:
    import warp as wp

    wp.config.quiet = True
    wp.init()
    import warp_kernels

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wp.compile_aot_module(wp.get_module(warp_kernels.__name__), arch=80, module_dir=scratch, use_ptx=True)
        (made,) = Path(scratch).glob("*.ptx")
        text = made.read_bytes().rstrip(b"\0").decode()
    (folder / "kernels.ptx").write_text(text)
    launch: dict[str, object] = {"tool": f"warp-lang {version('warp-lang')}"}
    for symbol, name, way in re.findall(r"\.visible \.entry ((\w+)_\w{8}_cuda_kernel_(forward|backward))", text):
        launch[name if way == "forward" else f"{name}_backward"] = {"symbol": symbol, "file": "kernels", "threads": 256}
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

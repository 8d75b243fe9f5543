"""CUDA C++ to PTX for sm_80, without a GPU: ``python make_cuda.py FOLDER nvrtc|nvcc|clang [OPTION…] -- KERNEL…``.

All kernels of ``cuda/`` where none is named. Writes ``NAME.ptx`` for each source file, and ``launch.json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "cuda"
CLANG = "clang++-19"


def nvrtc(name: str, options: list[str]) -> str:
    """NVRTC's PTX of a source file; RuntimeError with the log where it refuses it, or is not installed."""
    from cuda.bindings import nvrtc as api

    found = Path(api.__file__).parents[2].glob("nvidia/*/include")
    include = [f"-I{path}" for folder in sorted(found) for path in (folder, folder / "cccl") if path.is_dir()]
    error, program = api.nvrtcCreateProgram((SOURCES / f"{name}.cu").read_bytes(), f"{name}.cu".encode(), 0, [], [])
    flags = [b"--gpu-architecture=compute_80", *(f.encode() for f in [*include, *options])]
    (error,) = api.nvrtcCompileProgram(program, len(flags), flags)
    _, size = api.nvrtcGetProgramLogSize(program)
    log = b" " * size
    api.nvrtcGetProgramLog(program, log)
    if error != api.nvrtcResult.NVRTC_SUCCESS:
        text = log.rstrip(b"\0 ").decode()
        raise RuntimeError(f"{name}.cu {options}: {text}")
    _, size = api.nvrtcGetPTXSize(program)
    text = b" " * size
    api.nvrtcGetPTX(program, text)
    api.nvrtcDestroyProgram(program)
    return text.rstrip(b"\0 ").decode()


def nvcc(name: str, options: list[str]) -> str:
    """nvcc's PTX."""
    return _run(["nvcc", "-ptx", "-arch=sm_80", *options, "-o", "/dev/stdout", f"{name}.cu"])


def clang(name: str, options: list[str]) -> str:
    """clang's PTX. CUDA's headers are newer than clang knows, so the few declarations needed come from here."""
    command = [CLANG, "-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib", "-S"]
    return _run([*command, "-include", "../clang_cuda.h", *options, "-o", "-", f"{name}.cu"])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCES)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


TOOLS = {"nvrtc": nvrtc, "nvcc": nvcc, "clang": clang}


def version(tool: str) -> str:
    """The tool's version, as it tells it."""
    if tool == "nvrtc":
        from cuda.bindings import nvrtc as api

        return "NVRTC {1}.{2}".format(*api.nvrtcVersion())
    command = [CLANG if tool == "clang" else tool, "--version"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return lines[0] if tool == "clang" else lines[-2]


def main(folder: Path, tool: str, options: list[str], names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or sorted(path.stem for path in SOURCES.glob("*.cu")):
        (folder / f"{name}.ptx").write_text(TOOLS[tool](name, options))
    launch = {"tool": version(tool), "options": options}
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    main(Path(arguments[0]), arguments[1], arguments[2:split], arguments[split + 1 :])

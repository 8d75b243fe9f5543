"""``interop doctor``: what this machine has, what it lacks, and one line of what to do about each."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_CUDA_EXTRA = "pip install 'kernel-interop[cuda]'"


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``state`` is ``ok``, ``missing`` or, for what is optional, ``absent``."""

    name: str
    state: str
    detail: str
    advice: str = ""
    required: bool = False


def examine() -> list[Finding]:
    """Looks at everything; never raises: a probe that fails is a finding."""
    return [finding for probe in _PROBES for finding in _guarded(probe)]


def print_findings(findings: list[Finding]) -> None:
    """Prints the report with ✓ ✗ – and a last line that sums it up."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    marks = {"ok": "[green]✓[/]", "missing": "[red]✗[/]", "absent": "[dim]–[/]"}
    for finding in findings:
        console.print(f" {marks[finding.state]} {finding.name:<22} {escape(finding.detail)}")
        if finding.advice:
            console.print(f"   {'':<22} → {escape(finding.advice)}")
    broken = [f.name for f in findings if f.required and f.state == "missing"]
    summary = f"not ready: {', '.join(broken)}" if broken else "ready"
    console.print(f"\n{summary}")


def print_json(findings: list[Finding]) -> None:
    """Prints the report as a JSON list of objects."""
    print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))


def _guarded(probe: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from probe()
    except Exception as error:
        # A probe runs other people's code (drivers, compilers); whatever it raises is what the user wants to read.
        name = probe.__name__.removeprefix("_probe_").replace("_", " ")
        yield Finding(name, "absent", f"could not be examined: {type(error).__name__}: {error}")


def _probe_python() -> Iterator[Finding]:
    # An older Python cannot even read this file, so there is no other answer.
    yield Finding("Python", "ok", ".".join(map(str, sys.version_info[:3])), required=True)


def _probe_import_names() -> Iterator[Finding]:
    """Other distributions use the import names `interop` and `abi` too; whichever was installed last wins."""
    here = Path(__file__).resolve().parents[2]
    for name in ("interop", "abi"):
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        others = {
            other
            for other in importlib.metadata.packages_distributions().get(name, [])
            if other.lower().replace("_", "-") != "kernel-interop"
        }
        if found != here / name:
            detail = f"`import {name}` finds {found or 'nothing'}, not {here / name}"
        elif others:
            detail = f"`{name}` also comes with {', '.join(sorted(others))}"
        else:
            yield Finding(f"import {name}", "ok", str(found), required=True)
            continue
        advice = f"pip uninstall {' '.join(sorted(others)) or name}, then reinstall kernel-interop; or use a fresh venv"
        yield Finding(f"import {name}", "missing", detail, advice, required=True)


def _probe_packages() -> Iterator[Finding]:
    for distribution in ("numpy", "llvmlite", "cffi", "cuda-python"):
        try:
            yield Finding(distribution, "ok", importlib.metadata.version(distribution), required=True)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(distribution, "missing", "not installed", f"pip install {distribution}", required=True)


def _probe_llvm() -> Iterator[Finding]:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    version = ".".join(map(str, llvm.llvm_version_info))
    try:
        llvm.Target.from_triple("nvptx64-nvidia-cuda")
    except RuntimeError as error:
        yield Finding("LLVM", "missing", f"{version} without NVPTX: {error}", "pip install -U llvmlite", required=True)
    else:
        yield Finding("LLVM", "ok", f"{version} with the NVPTX target", required=True)


def _probe_cpu_device() -> Iterator[Finding]:
    try:
        native = importlib.import_module("interop.executor._native")
    except ImportError as error:
        advice = "reinstall with a C compiler at hand: pip install --force-reinstall kernel-interop"
        yield Finding("CPU device", "missing", str(error), advice, required=True)
    else:
        yield Finding("CPU device", "ok", Path(native.__file__ or "").name, required=True)


def _probe_cuda_packages() -> Iterator[Finding]:
    probes = {
        "NVRTC": ("CUDA C++ → PTX", _nvrtc_version),
        "nvJitLink": ("PTX → cubin", _nvjitlink_version),
        "libdevice": ("maths in kernels", _libdevice_path),
        "CUDA headers": ("#include <cuda_fp16.h>", _cuda_headers),
    }
    for name, (purpose, version) in probes.items():
        try:
            yield Finding(name, "ok", version())
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            yield Finding(name, "absent", f"not found ({purpose}): {reason}", _CUDA_EXTRA)


def _nvrtc_version() -> str:
    from cuda.bindings import nvrtc

    result, major, minor = nvrtc.nvrtcVersion()
    if int(result) != 0:
        raise RuntimeError(f"nvrtcVersion answered {result}")
    return f"{major}.{minor}"


def _nvjitlink_version() -> str:
    from cuda.bindings import nvjitlink

    return ".".join(map(str, nvjitlink.version()))


def _libdevice_path() -> str:
    from ..codegen import libdevice

    return str(libdevice.find())


def _cuda_headers() -> str:
    from ..importing.nvrtc import cuda_headers

    folders = [folder for folder in cuda_headers() if (Path(folder) / "cuda_fp16.h").is_file()]
    if not folders:
        raise FileNotFoundError("no folder with cuda_fp16.h")
    return folders[0]


def _probe_host_tools() -> Iterator[Finding]:
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler:
        yield Finding("C++ compiler", "ok", compiler)
    else:
        advice = "apt install g++ (exported folders are compiled with it)"
        yield Finding("C++ compiler", "absent", "not found", advice)
    cmake = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
    if cmake:
        yield Finding("CMake", "ok", cmake)
    else:
        yield Finding("CMake", "absent", "not found", "pip install cmake (exported folders are built with it)")


def _probe_gpu() -> Iterator[Finding]:
    from ..runtime import devices

    gpus = [device for device in devices() if device.kind == "cuda"]
    if not gpus:
        yield Finding("GPU", "absent", "no usable NVIDIA GPU", "kernels run on the CPU device; nothing to do")
    for gpu in gpus:
        yield Finding("GPU", "ok", f"{gpu.name} (cuda:{gpu.index})")


_PROBES: tuple[Callable[[], Iterator[Finding]], ...] = (
    _probe_python,
    _probe_import_names,
    _probe_packages,
    _probe_llvm,
    _probe_cpu_device,
    _probe_cuda_packages,
    _probe_host_tools,
    _probe_gpu,
)

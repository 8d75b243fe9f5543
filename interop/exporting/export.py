"""``export()``: kernels to a folder that C and C++ projects build, with everything in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import abi
from abi.bundle import write as write_bundle
from abi.checks import check_kernel
from abi.json_io import image_files, kernel_from_object, kernel_to_object
from abi.verify import verify

from . import images as image_tools
from .c_header import c_header
from .c_source import c_source, images_source
from .cpp_header import cpp_header
from .example import Example, ExportableKernel, StoredExample, store
from .folder import atomic_folder
from .images import DeviceImage, HostObject
from .main_program import main_source
from .model import KernelModel, make_models
from .names import check_bundle_name
from .readme import readme
from .selftest import data_files, selftest_source
from .shim import shim_path, template

ARCHITECTURES = (80, 90, 100)
"""Cubins are assembled for these by default, where nvJitLink is installed."""

MANIFEST = "export.json"


@dataclass(frozen=True)
class ExportReport:
    """What :func:`export` wrote. It is a path wherever one is wanted: ``open(report / "README.md")``.

    ``cubins`` are the architectures that need no compilation on the receiver's machine, ``levels`` the instruction-set
    levels of the CPU objects, ``notes`` what was left out and why.
    """

    path: Path
    kernels: tuple[str, ...]
    cubins: tuple[str, ...]
    levels: tuple[str, ...]
    examples: int
    notes: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name


def export(
    kernels: Sequence[ExportableKernel],
    directory: str | os.PathLike[str],
    *,
    name: str,
    examples: Sequence[Example] | None = None,
    arch: Sequence[int] | None = None,
    levels: Sequence[str] = ("x86-64-v2", "x86-64-v3"),
    version: str = "0.1.0",
) -> ExportReport:
    """Writes `kernels` to the folder `directory` as the C and C++ library `name`.

    The folder holds headers, sources, images and a CMake package. It builds without Python, CUDA toolkit and GPU, and
    its ctest replays `examples`. `arch` are the GPU architectures (90 is sm_90) to assemble cubins for beside the PTX:
    by default sm_80, sm_90 and sm_100 where nvJitLink is installed. `levels` are the instruction-set levels of the CPU
    code; none of them means a library without the CPU device. The folder appears complete or not at all.

    >>> export([saxpy], "build/mix", name="mix", examples=[Example(saxpy, (x, y, 2.0))])  # doctest: +SKIP
    """
    check_bundle_name(name)
    image_tools.check_levels(levels)
    if not isinstance(version, str) or not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", version):
        raise abi.Error(f"the version is three numbers such as 1.2.0, not '{version}'")
    programs = _programs(kernels)
    models = make_models(tuple(p.kernel for p in programs), name)
    stored = [_store(example, programs) for example in _list_of_examples(examples)]
    device, notes = _device_images(programs, arch)
    objects = image_tools.compile_objects(name, device, [p.kernel for p in programs], levels)
    bundle = _bundle(name, programs, device, objects)
    files = _files(version, bundle, models, device, objects, stored)
    with atomic_folder(Path(directory), _is_ours) as folder:
        _write(folder, version, bundle, files)
    return ExportReport(
        Path(directory),
        tuple(p.kernel.name for p in programs),
        tuple(dict.fromkeys(i.image.target for i in device if i.image.kind is abi.ImageKind.CUBIN)),
        tuple(o.level for o in objects),
        len(stored),
        notes,
    )


def _programs(kernels: Sequence[ExportableKernel]) -> list[abi.Program]:
    """Every kernel's program under the name that its user gave it, its description checked against its images."""
    if hasattr(kernels, "program"):
        raise abi.Error(f"export() takes a list of kernels: write [{getattr(kernels, 'name', kernels)}]")
    if not kernels:
        raise abi.Error("there is nothing to export: give at least one kernel")
    result = []
    for item in kernels:
        if not hasattr(item, "program"):
            raise abi.Error(f"{item!r} is not a kernel; decorate the function, or take it from a loaded module")
        program = item.program()
        kernel = replace(program.kernel, name=item.name)
        check_kernel(kernel)
        kernel_from_object(kernel_to_object(kernel), kernel.name)  # what no bundle can hold is refused here
        for image in program.images:
            if image.kind in (abi.ImageKind.PTX, abi.ImageKind.CUBIN):
                verify(kernel, image)
        result.append(replace(program, kernel=kernel))
    return result


def _list_of_examples(examples: Sequence[Example] | None) -> Sequence[Example]:
    if isinstance(examples, Example):
        raise abi.Error("examples= takes a list of examples, not one alone: [Example(...)]")
    return examples or ()


def _store(example: Example, programs: Sequence[abi.Program]) -> StoredExample:
    if not isinstance(example, Example):
        raise abi.Error(f"examples= takes a list of Example(kernel, arguments), and {example!r} is none")
    for program in programs:
        if program.kernel.name == example.kernel.name:
            return store(example, program.kernel)
    names = ", ".join(p.kernel.name for p in programs)
    raise abi.Error(f"an example is for '{example.kernel.name}', which is not among the exported kernels: {names}")


def _device_images(
    programs: Sequence[abi.Program], arch: Sequence[int] | None
) -> tuple[list[DeviceImage], tuple[str, ...]]:
    images = image_tools.collect(programs)
    if arch is not None and (
        isinstance(arch, (int, str)) or any(isinstance(a, bool) or not isinstance(a, int) or a < 10 for a in arch)
    ):
        raise abi.Error(f"arch= takes a list of whole numbers such as [80, 90], where 90 is sm_90; not {arch!r}")
    if arch is not None and not arch:
        return images, ()
    if not image_tools.have_assembler():
        if arch is not None:
            raise abi.Error(
                "assembling cubins needs nvJitLink: pip install 'kernel-interop[cuda]', or export with arch=()"
            )
        note = "no cubins: nvJitLink is not installed (pip install 'kernel-interop[cuda]'); the driver compiles the PTX"
        return images, (note,)
    wanted = ARCHITECTURES if arch is None else tuple(dict.fromkeys(arch))
    return images + image_tools.assemble_all(images, wanted, [p.kernel for p in programs]), ()


def interface_hash(models: Sequence[KernelModel]) -> str:
    """Changes when compiled callers would have to be compiled again, and only then."""
    return hashlib.sha256("\n".join(m.signature for m in models).encode()).hexdigest()


# -- the files ---------------------------------------------------------------------------------------------------------


def _files(
    version: str,
    bundle: abi.Bundle,
    models: Sequence[KernelModel],
    device: Sequence[DeviceImage],
    objects: Sequence[HostObject],
    stored: Sequence[StoredExample],
) -> dict[str, bytes]:
    """Everything but the bundle, by path. The CPU objects are images of the bundle, and linked from there."""
    name, shared_hash = bundle.name, interface_hash(models)
    linked = [path for path, image in image_files(bundle).items() if image.kind is abi.ImageKind.HOST_OBJECT]
    texts = {
        f"include/{name}.h": c_header(name, version, shared_hash, models),
        f"include/{name}.hpp": cpp_header(name, version, models),
        f"src/{name}.c": c_source(name, models),
        f"src/{name}_images.c": images_source(name, shared_hash, models, device, objects),
        "main.cpp": main_source(name, models, stored),
        "selftest/selftest.c": selftest_source(name, models, stored),
        "README.md": readme(name, version, models, stored, bool(linked)),
        **_build_files(name, version, models, linked),
    }
    files = {path: text.encode("utf-8") for path, text in texts.items()}
    files.update({f"selftest/data/{path}": data for path, data in data_files(stored).items()})
    return {**files, **_shim_files()}


def _build_files(name: str, version: str, models: Sequence[KernelModel], objects: Sequence[str]) -> dict[str, str]:
    values = {"NAME": name, "UPPER": name.upper(), "VERSION": version, "MAJOR": version.split(".")[0]}
    sources = "\n".join(f"  {path}" for path in _shim_files() if path.endswith(".c"))
    symbols = "".join(f"    {name}_{m.name}; {name}_{m.name}_ex;\n" for m in models).rstrip("\n")
    paths = "\n".join(f"      ${{CMAKE_CURRENT_SOURCE_DIR}}/{path}" for path in objects)
    package_config = template("cmake/bundle.pc.in", **values).replace("%", "@")
    return {
        "CMakeLists.txt": template("cmake/CMakeLists.txt.in", SOURCES=sources, OBJECTS=paths, **values),
        # In the root, where CMake looks with CMAKE_PREFIX_PATH, NAME_ROOT and NAME_DIR alike.
        f"{name}Config.cmake": template("cmake/Config.cmake.in", **values),
        f"{name}ConfigVersion.cmake": template("cmake/ConfigVersion.cmake.in", **values),
        f"{name}.pc.in": package_config,
        f"src/{name}.map": template("templates/bundle.map.in", KERNELS=symbols, **values),
    }


def _shim_files() -> dict[str, bytes]:
    """The runtime's own sources and headers, as they are."""
    shim = shim_path()
    found = [*shim.glob("include/interop/*.h*"), *shim.glob("src/interop_*.[ch]")]
    return {path.relative_to(shim).as_posix(): path.read_bytes() for path in sorted(found)}


def _bundle(
    name: str, programs: Sequence[abi.Program], device: Sequence[DeviceImage], objects: Sequence[HostObject]
) -> abi.Bundle:
    images = (*(_with_symbols(i, programs) for i in device), *_host_images(programs, objects))
    return abi.Bundle(name, tuple(p.kernel for p in programs), images, producer="kernel-interop")


def _write(folder: Path, version: str, bundle: abi.Bundle, files: dict[str, bytes]) -> None:
    write_bundle(bundle, folder)
    for path, data in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (folder / MANIFEST).write_text(_manifest(folder, bundle.name, version), encoding="utf-8")


def _with_symbols(item: DeviceImage, programs: Sequence[abi.Program]) -> abi.Image:
    symbols = dict.fromkeys([*item.image.symbols, *(programs[k].kernel.symbol for k in item.kernels)])
    return replace(item.image, symbols=tuple(symbols))


def _host_images(programs: Sequence[abi.Program], objects: Sequence[HostObject]) -> list[abi.Image]:
    symbols = tuple(dict.fromkeys(p.kernel.symbol for p in programs))
    return [
        abi.Image(abi.ImageKind.HOST_OBJECT, level.level, data, symbols) for level in objects for data in level.files
    ]


# -- is a folder ours? -------------------------------------------------------------------------------------------------


def _manifest(folder: Path, name: str, version: str) -> str:
    files = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return json.dumps({"export": 1, "name": name, "version": version, "files": files}, indent=1) + "\n"


def _is_ours(folder: Path) -> bool:
    """Whether an export may take the folder's place: every file in it is one that an export wrote and nobody changed.

    Build folders do not count: they can be made again.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    if not isinstance(files, dict):
        return False
    for directory, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not (Path(directory) / f / "CMakeCache.txt").is_file()]
        for file in names:
            path = Path(directory) / file
            relative = path.relative_to(folder).as_posix()
            if relative == MANIFEST:
                continue
            if relative not in files:
                raise abi.BundleError(f"cannot export to {folder}: {relative} is not of the export; move it elsewhere")
            regular = path.is_file() and not path.is_symlink()  # reading a pipe would wait for ever
            if not regular or hashlib.sha256(path.read_bytes()).hexdigest() != files[relative]:
                raise abi.BundleError(f"cannot export to {folder}: {relative} was changed; move your version elsewhere")
    return True

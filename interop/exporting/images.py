"""The images of an export: PTX as it came, cubins assembled from it, host objects compiled from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import abi


@dataclass(frozen=True)
class DeviceImage:
    """A device image, the architecture it is for, and which kernels (by index) it holds."""

    image: abi.Image
    arch: tuple[int, int]
    exact: bool
    kernels: tuple[int, ...]


@dataclass(frozen=True)
class HostObject:
    """CPU code of all kernels for one instruction-set level; one object file for each PTX image."""

    level: str
    files: tuple[bytes, ...]


LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")
"""Instruction-set levels, best first; the C runtime knows the same ones."""

_TARGET = re.compile(r"sm_([0-9]+)([0-9])([af]?)")


def read_target(image: abi.Image) -> tuple[tuple[int, int], bool]:
    """``sm_90a`` as ((9, 0), True): the architecture, and whether code for it runs on that one only."""
    match = _TARGET.fullmatch(image.target)
    if not match:
        raise abi.Error(f"'{image.target}' is not a GPU architecture; they look like sm_80 or sm_90a")
    return (int(match[1]), int(match[2])), bool(match[3])


def collect(programs: Sequence[abi.Program]) -> list[DeviceImage]:
    """The distinct device images of `programs`, in order, each with the kernels that it holds."""
    holders: dict[tuple[str, str], list[int]] = {}
    images: dict[tuple[str, str], abi.Image] = {}
    for index, program in enumerate(programs):
        usable = [i for i in program.images if i.kind in (abi.ImageKind.PTX, abi.ImageKind.CUBIN)]
        if not usable:
            kinds = ", ".join(sorted({i.kind.value for i in program.images})) or "none"
            raise abi.UnsupportedError(
                f"{program.kernel.name}: exporting needs a PTX or cubin image, and this kernel has: {kinds}"
            )
        for image in usable:
            key = (image.kind.value, image.sha256)
            images.setdefault(key, image)
            holders.setdefault(key, []).append(index)
    return [_device_image(images[key], tuple(holders[key])) for key in images]


def _device_image(image: abi.Image, kernels: tuple[int, ...]) -> DeviceImage:
    if image.kind is abi.ImageKind.PTX:  # the text knows best what it is for
        header = abi.read_header(image.text)
        image = replace(image, target=header.target, isa=header.version)
    arch, exact = read_target(image)
    return DeviceImage(image, arch, exact, kernels)


def assemble_all(
    images: Sequence[DeviceImage], architectures: Sequence[int], kernels: Sequence[abi.Kernel]
) -> list[DeviceImage]:
    """A cubin of each PTX image for each architecture that it can be assembled for."""
    result = []
    for item in images:
        if item.image.kind is not abi.ImageKind.PTX:
            continue
        floor = max([item.arch, *(kernels[k].launch.min_cc for k in item.kernels)])
        for number in architectures:
            arch = divmod(number, 10)
            if (item.exact and arch != item.arch) or (not item.exact and arch < floor):
                continue
            target = item.image.target if item.exact else f"sm_{number}"
            cubin = abi.Image(
                abi.ImageKind.CUBIN, target, assemble(item.image, target), item.image.symbols, min_cc=arch
            )
            result.append(DeviceImage(cubin, arch, item.exact, item.kernels))
    return result


def have_assembler() -> bool:
    """Whether nvJitLink can be loaded."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception:  # the binding raises several kinds of error for a library that is not there
        return False
    return True


def _version_text() -> str:
    from cuda.bindings import nvjitlink

    return ".".join(map(str, nvjitlink.version()))


def assemble(image: abi.Image, target: str) -> bytes:
    """The cubin that nvJitLink makes of a PTX image; :class:`abi.ImageError` with its log.

    >>> assemble(image, "sm_90")[:4]  # doctest: +SKIP
    b'\\x7fELF'
    """
    from cuda.bindings import nvjitlink

    try:
        handle = nvjitlink.create(1, [f"-arch={target}"])
    except nvjitlink.nvJitLinkError as error:
        raise abi.ImageError(f"nvJitLink {_version_text()} cannot assemble for {target}: {error}") from None
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, image.data, len(image.data), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        if log:
            nvjitlink.get_error_log(handle, log)
        text = bytes(log).rstrip(b"\0").decode("utf-8", "replace").strip()
        names = ", ".join(image.symbols)
        raise abi.ImageError(f"nvJitLink cannot assemble {names} for {target}: {error}\n{text}".rstrip()) from None
    finally:
        nvjitlink.destroy(handle)


def compile_objects(
    name: str, images: Sequence[DeviceImage], kernels: Sequence[abi.Kernel], levels: Sequence[str]
) -> list[HostObject]:
    """CPU code of every kernel for each level, best level first."""
    if not levels:
        return []
    sources = _cpu_sources(images, kernels)
    from ..executor import compile_object

    ordered = sorted(set(levels), key=LEVELS.index)
    result = []
    for level in ordered:
        files = [compile_object(text, symbols, prefix=f"{name}_", level=level) for text, symbols in sources]
        result.append(HostObject(level, tuple(files)))
    return result


def check_levels(levels: Sequence[str]) -> None:
    """Refuses a level that the runtime does not know."""
    if isinstance(levels, str):
        raise abi.Error(f"levels= takes a list of instruction-set levels: ['{levels}']")
    for level in levels:
        if level not in LEVELS:
            raise abi.Error(f"'{level}' is not an instruction-set level; there are {', '.join(reversed(LEVELS))}")


def _cpu_sources(images: Sequence[DeviceImage], kernels: Sequence[abi.Kernel]) -> list[tuple[str, list[str]]]:
    """For each PTX image that the CPU device takes kernels from: its text and their symbols."""
    chosen: dict[int, list[str]] = {}
    origin: dict[str, tuple[int, str]] = {}
    for index, kernel in enumerate(kernels):
        ptx = [i for i, item in enumerate(images) if item.image.kind is abi.ImageKind.PTX and index in item.kernels]
        if not ptx:
            raise abi.UnsupportedError(
                f"{kernel.name}: the CPU device needs PTX, and this kernel has only a cubin; export with levels=() "
                "for a library without the CPU device"
            )
        image = min(ptx, key=lambda i: images[i].arch)
        other = origin.setdefault(kernel.symbol, (image, kernel.name))
        if other[0] != image:
            raise abi.UnsupportedError(
                f"the kernels '{other[1]}' and '{kernel.name}' have the symbol '{kernel.symbol}' in two images; "
                "rename one, or export them under two names"
            )
        symbols = chosen.setdefault(image, [])
        if kernel.symbol not in symbols:
            symbols.append(kernel.symbol)
    return [(images[i].image.text, symbols) for i, symbols in chosen.items()]

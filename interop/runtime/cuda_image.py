"""Which image a GPU gets, and how it is loaded: a cubin of its architecture, else PTX, assembled here if need be.

A driver assembles PTX up to its own ISA version. Newer PTX is assembled with nvJitLink, which needs no newer driver
within one CUDA major version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import abi
from abi import Image, ImageKind, Incompatible

from .cuda_driver import DriverError, driver, driver_version, error_name

_LOG_BYTES = 16 * 1024
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)$")


def parse_target(target: str) -> tuple[int, int, str]:
    """``sm_90a`` as (9, 0, "a").

    >>> parse_target("sm_120")
    (12, 0, '')
    """
    match = _TARGET.match(target)
    if not match:
        raise Incompatible(f"'{target}' is not a CUDA target; targets look like sm_80 and sm_90a")
    return int(match[1]), int(match[2]), match[3]


def choose(name: str, images: Sequence[Image], cc: tuple[int, int]) -> Image:
    """The image that a GPU of compute capability `cc` runs best; :class:`Incompatible` with both sides when none does.

    A cubin of exactly this architecture comes first, then one of a lower minor version of it, then the PTX of the
    highest target that the GPU has. Targets with an ``a`` run on exactly that GPU, with an ``f`` within its family.
    """
    ranked = [(rank, image) for image in images if (rank := _rank(image, cc)) is not None]
    if not ranked:
        have = ", ".join(sorted({f"{i.kind.value} for {i.target}" for i in images})) or "no image at all"
        raise Incompatible(f"{name}: the GPU is sm_{cc[0]}{cc[1]}, and the kernel has {have}")
    return max(ranked, key=lambda pair: pair[0])[1]


def _rank(image: Image, cc: tuple[int, int]) -> tuple[int, ...] | None:
    """A larger value is better; None where the image does not run."""
    if image.kind is ImageKind.FATBIN:
        return (1,)  # the driver looks inside
    if image.kind not in (ImageKind.PTX, ImageKind.CUBIN):
        return None
    major, minor, suffix = parse_target(image.target)
    exact = (major, minor) == cc
    if (suffix == "a" and not exact) or (suffix == "f" and not (major == cc[0] and minor <= cc[1])):
        return None
    specific = (bool(suffix),)
    if image.kind is ImageKind.PTX:
        return (0, major, minor, *specific) if max((major, minor), image.min_cc) <= cc else None
    return (3 if exact else 2, major, minor, *specific) if major == cc[0] and minor <= cc[1] else None


def load(name: str, image: Image, cc: tuple[int, int]) -> Any:
    """A CUmodule of `image` in the current context; :class:`abi.ImageError` with the assembler's log."""
    data = image.data + b"\0" if image.kind is ImageKind.PTX else image.data
    result, module, log = _load_data(data)
    if int(result) == 0:
        return module
    code = error_name(result)
    if code == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
        cubin = assemble(name, image, cc)
        result, module, log = _load_data(cubin)
        if int(result) == 0:
            return module
        code = error_name(result)
    where = f"{image.kind.value} for {image.target}"
    if code in ("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_SOURCE"):
        raise Incompatible(f"{name}: the GPU is sm_{cc[0]}{cc[1]}, and it refuses the {where}: {code}{log}")
    if code == "CUDA_ERROR_INVALID_PTX":
        raise abi.ImageError(f"{name}: the driver's assembler refuses the PTX: {code}{log}")
    raise DriverError(f"{name}: loading the {where}", code + log)


def _load_data(data: bytes) -> tuple[Any, Any, str]:
    """Loads an image: status, module, and what the assembler said as text to append to a message."""
    option = driver().CUjit_option
    error_log, info_log = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
    options = {
        option.CU_JIT_ERROR_LOG_BUFFER: error_log,
        option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        option.CU_JIT_INFO_LOG_BUFFER: info_log,
        option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
    }
    result, module = driver().cuModuleLoadDataEx(data, len(options), list(options), list(options.values()))
    texts = [log.split(b"\0")[0].decode(errors="replace").strip() for log in (error_log, info_log)]
    return result, module, "".join(f"\n{text}" for text in texts if text)


def assemble(name: str, image: Image, cc: tuple[int, int]) -> bytes:
    """A cubin from PTX that is newer than the driver; :class:`Incompatible` says what would help."""
    major, minor = driver_version()
    need = needed_driver(image.isa)
    too_new = (
        f"{name}: its PTX has ISA version {image.isa or '(unknown)'}, and the driver, for CUDA {major}.{minor}, "
        f"does not take it: update the driver to one for CUDA {need} or later"
    )
    try:
        from cuda.bindings import nvjitlink

        handle = nvjitlink.create(1, [f"-arch=sm_{cc[0]}{cc[1]}"])
    except Exception as error:
        # A missing library raises whatever this version of cuda-python's loader raises.
        raise Incompatible(
            f"{too_new}, or pip install 'kernel-interop[cuda]', whose assembler needs no newer driver ({error})"
        ) from None
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, image.data, len(image.data), f"{name}.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        text = log.rstrip(b"\0").decode(errors="replace").strip()
        raise Incompatible(f"{too_new}; nvJitLink cannot assemble it either: {error}\n{text}") from None
    finally:
        nvjitlink.destroy(handle)


def needed_driver(isa: str) -> str:
    """The first CUDA version whose driver takes PTX of ISA version `isa`.

    >>> needed_driver("8.5"), needed_driver("9.5")
    ('12.5', '13.5')
    """
    match = re.fullmatch(r"(\d+)\.(\d+)", isa)
    if not match:
        return "a later version"
    major, minor = int(match[1]), int(match[2])
    # PTX 7.x came with CUDA 11.x, 8.x with 12.x, 9.x with 13.x, in step but for one: CUDA 12.6 brought no new version.
    if major == 8 and minor >= 6:
        minor += 1
    return f"{major + 4}.{minor}"

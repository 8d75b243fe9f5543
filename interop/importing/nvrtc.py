"""CUDA C++ to PTX with NVRTC, which needs neither a GPU nor a driver nor a toolkit."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abi import Error

from ..errors import CompileError
from .host_headers import HOST_CODE_ADVICE, header_advice, is_host_code, missing_headers

_INSTALL = "pip install 'kernel-interop[cuda]'"


@dataclass(frozen=True)
class Source:
    """Source text and everything that decides what it compiles to. ``file`` is for messages, ``folder`` where the
    source lies, if it is a file."""

    text: str
    file: str
    options: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    std: str = "c++17"
    arch: str = "sm_80"
    folder: str = ""

    @property
    def is_self_contained(self) -> bool:
        """Whether the text alone decides: files that it includes may change, those of CUDA do not."""
        folders = self.include_paths or _option_folders(self.options)
        return not folders and not re.search(r'^\s*#\s*include\s*"', self.text, re.MULTILINE)


@dataclass(frozen=True)
class Compiled:
    """PTX, and the symbol of each name expression that was asked for."""

    ptx: str
    symbols: dict[str, str] = field(default_factory=dict)


_memo: dict[tuple[Source, tuple[str, ...]], Compiled] = {}
_memo_lock = threading.Lock()


def compile_source(source: Source, expressions: Sequence[str] = ()) -> Compiled:
    """Compiles, or answers from memory where nothing but the text decides.

    :raises CompileError: with NVRTC's own words.
    """
    key = (source, tuple(expressions))
    if not source.is_self_contained:
        return _compile(source, expressions)
    with _memo_lock:
        if key in _memo:
            return _memo[key]
    compiled = _compile(source, expressions)
    with _memo_lock:
        return _memo.setdefault(key, compiled)


def _compile(source: Source, expressions: Sequence[str]) -> Compiled:
    nvrtc = bindings()
    # The name goes into what __FILE__ and assert() print, and so into the image: without its folder.
    name = os.path.basename(source.file).encode()
    headers = missing_headers([*include_path(source), *_option_folders(source.options)])
    texts, names = [text.encode() for text in headers.values()], [header.encode() for header in headers]
    program = _call(nvrtc, "nvrtcCreateProgram", source.text.encode(), name, len(headers), texts, names)
    try:
        for expression in expressions:
            _call(nvrtc, "nvrtcAddNameExpression", program, expression.encode())
        options = [option.encode() for option in _options(source)]
        result = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        if int(result) != 0:
            raise _compile_error(source, result, _text(nvrtc, "nvrtcGetProgramLog", program))
        ptx = _text(nvrtc, "nvrtcGetPTX", program)
        lowered = {e: _call(nvrtc, "nvrtcGetLoweredName", program, e.encode()).decode() for e in expressions}
        return Compiled(ptx, lowered)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def bindings() -> Any:
    """``cuda.bindings.nvrtc`` with the library behind it found; :class:`abi.Error` says what to install."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise Error(f"CUDA C++ needs cuda.bindings ({error}): {_INSTALL}") from None
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        # What the loader raises differs between versions of cuda-python: RuntimeError, or its own class.
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Error(f"CUDA C++ is compiled with NVRTC, which was not found ({first}): {_INSTALL}") from None
    return nvrtc


def _call(nvrtc: Any, function: str, *arguments: Any) -> Any:
    result = getattr(nvrtc, function)(*arguments)
    if int(result[0]) != 0:
        raise Error(f"{function} failed: {getattr(result[0], 'name', result[0])}")
    return result[1] if len(result) > 1 else None


def _text(nvrtc: Any, function: str, program: Any) -> str:
    size = _call(nvrtc, f"{function}Size", program)
    buffer = b" " * size
    _call(nvrtc, function, program, buffer)
    text: str = buffer.rstrip(b"\0 ").decode(errors="replace")
    return text


def _options(source: Source) -> list[str]:
    match = re.fullmatch(r"(?:sm|compute)_(\d+[af]?)", source.arch)
    if not match:
        raise Error(f"'{source.arch}' is not a CUDA target; targets look like sm_80 and sm_90a")
    options = [f"--gpu-architecture=compute_{match[1]}", f"--std={source.std}", "-device-int128"]
    options += [f"-D{name}={value}" if value else f"-D{name}" for name, value in source.defines]
    options += [f"-I{path}" for path in include_path(source)]
    return [*options, *source.options]


def include_path(source: Source) -> list[str]:
    """Where headers are looked for, in order: the caller's folders, the source's own, CUDA's."""
    own = [source.folder] if source.folder else []
    return list(dict.fromkeys([*source.include_paths, *own, *cuda_headers()]))


def _option_folders(options: Sequence[str]) -> list[str]:
    """Folders that the caller's own NVRTC options name."""
    found = []
    for option, follower in zip(options, [*options[1:], ""]):
        match = re.match(r"(?:-I|--include-path=|-include-path=)(.*)", option)
        if match:
            found.append(match[1].strip() or follower)
        elif option in ("--include-path", "-include-path"):
            found.append(follower)
    return found


def cuda_headers() -> list[str]:
    """Folders with CUDA's own headers: of pip's packages, of ``CUDA_HOME``, of ``/usr/local/cuda``."""
    found: list[str] = []
    try:
        from cuda import pathfinder
    except ImportError:
        finder = None
    else:
        finder = getattr(pathfinder, "find_nvidia_header_directory", None)
    for library in ("cudart", "cccl"):
        folder = finder(library) if finder else None
        if folder:
            found.append(str(folder))
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            found += [f"{root}/include", f"{root}/include/cccl"]
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]


def _compile_error(source: Source, result: Any, log: str) -> CompileError:
    code = getattr(result, "name", str(result))
    message = f"{source.file}: NVRTC does not compile it ({code})\n{log.strip()}"
    missing = re.search(r'(?:could|cannot) (?:not )?open source file "([^"]+)"', log)
    help_ = ""
    if missing:
        help_ = header_advice(missing[1])
    if missing and not help_:
        folders = include_path(source)
        where = "".join(f"\n  {folder}" for folder in folders) or " nowhere: no folder is given and CUDA has none"
        message += f"\n{missing[1]} was looked for in:{where}"
        help_ = f"pass include_paths=[...] with the folder of {missing[1]}"
        if _is_cudas_own(missing[1], folders):
            help_ += f"; CUDA's own headers come with {_INSTALL}"
    elif is_host_code(log):
        help_ = HOST_CODE_ADVICE
    return CompileError(message, help=help_)


def _is_cudas_own(header: str, folders: Sequence[str]) -> bool:
    """Whether `header` may be one of those that the extra installs, and they are not there."""
    part = "cuda/std/cstdint" if header.startswith(("cuda/", "cub/", "thrust/", "nv/")) else "cuda_fp16.h"
    return not any(os.path.exists(f"{folder}/{part}") for folder in folders)


def make_source(
    text: str,
    file: str,
    options: Sequence[str],
    include_paths: Sequence[str | os.PathLike[str]],
    defines: Mapping[str, object] | None,
    std: str,
    arch: str,
    folder: str = "",
) -> Source:
    """A :class:`Source` from what a caller passes; a single string where a list belongs is an error."""
    for what, value in (("options", options), ("include_paths", include_paths)):
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{what} is a list: {what}=[{value!r}]")
    pairs = tuple((name, "" if value is None else _define(value)) for name, value in (defines or {}).items())
    return Source(text, file, tuple(options), tuple(os.fspath(p) for p in include_paths), pairs, std, arch, folder)


def _define(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)

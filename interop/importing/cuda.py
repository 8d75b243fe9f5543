"""CUDA C++ source to kernels: :func:`load_cuda`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import abi
from abi import Entry, SymbolNotFound
from abi.ptx_signature import read_signatures

from ..errors import CompileError
from ..runtime import Launchable
from .demangle import CType, Function, Indirect, NotDemangled, demangle
from .module import Module, constant, ptx_image
from .nvrtc import Source, compile_source, make_source
from .records import Provenance, programs

LANGUAGE = "cuda-c++"

_PROBE = "interop_signature_of"
"""A kernel template whose instances carry a function's type in their symbol, for :func:`_ask_types`."""


def load_cuda(
    source: str | os.PathLike[str],
    *,
    name: str | None = None,
    options: Sequence[str] = (),
    include_paths: Sequence[str | os.PathLike[str]] = (),
    defines: Mapping[str, object] | None = None,
    std: str = "c++17",
    arch: str = "sm_80",
    instances: Sequence[str] = (),
) -> Module:
    """Compiles CUDA C++ with NVRTC; needs neither a GPU nor a toolkit.

    :param source: the text, or the path of a file; a string with a newline or ``__global__`` is text.
    :param name: how messages call a text.
    :param options: more options for NVRTC, such as ``["--use_fast_math"]``.
    :param include_paths: folders with headers; the source's own and CUDA's are looked in anyway.
    :param defines: macros by name; None defines a macro without a value.
    :param arch: the lowest GPU that shall run it.
    :param instances: template instances to compile at once, such as ``["blur<float, 3>"]``;
        ``module.kernel("blur<float, 3>")`` compiles one later.
    :raises CompileError: NVRTC's messages, word for word.

    Parameter types come from the compiler, so that launches are checked as those of Python kernels are.

    >>> module = load_cuda("__global__ void fill(float *y, float a) { y[threadIdx.x] = a; }\\n")  # doctest: +SKIP
    >>> module.fill[1, 32](y, 2.0)  # doctest: +SKIP
    """
    text, file = read_text(source, name, "__global__")
    if re.match(r"(?:\s+|//[^\n]*\n|/\*.*?\*/)*\.version\s+\d", text, re.DOTALL):
        raise abi.Error(f"{file}: this is PTX and not CUDA C++: load it with io.load_ptx")
    if isinstance(instances, str):
        raise TypeError(f"instances is a list: instances=[{instances!r}]")
    folder = "" if _is_text(source, "__global__") else str(Path(source).resolve().parent)
    return _Loader(make_source(text, file, options, include_paths, defines, std, arch, folder)).load(instances)


def read_text(source: str | os.PathLike[str], name: str | None, mark: str) -> tuple[str, str]:
    """Text and name of `source`: a string with a newline or `mark` in it is text, anything else a path."""
    if _is_text(source, mark):
        return str(source), name or "<source>"
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a source is text or a path, not {type(source).__name__}")
    if not str(source):
        raise abi.Error("the source is empty: pass a path or source text")
    path = Path(source)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise abi.Error(f"{path}: no such file (source text has a newline or '{mark}' in it)") from None
    except OSError as error:
        raise abi.Error(f"{path}: {error.strerror or error}") from None
    try:
        return data.decode("utf-8"), name or str(path.resolve())
    except UnicodeDecodeError as error:
        kind = binary_kind(data)
        if kind:
            raise abi.UnsupportedError(
                f"{path}: this is {kind}, and what is read is source text or PTX: "
                f"cuobjdump --dump-ptx {path.name} extracts PTX where the file has it"
            ) from None
        line = data.count(b"\n", 0, error.start) + 1
        raise abi.ImageError(f"{path}: line {line} is not UTF-8 text") from None


def binary_kind(data: bytes) -> str:
    """What a file of machine code is, from its first bytes; empty when they say nothing.

    >>> binary_kind(b"\x7fELF\x02\x01\x01A")
    'a cubin (or another ELF file)'
    """
    kinds = {
        b"\x7fELF": "a cubin (or another ELF file)",
        b"\x50\xed\x55\xba": "a fatbin",
        b"BC\xc0\xde": "LLVM bitcode",
    }
    return next((kind for start, kind in kinds.items() if data.startswith(start)), "")


def _is_text(source: object, mark: str) -> bool:
    return isinstance(source, str) and ("\n" in source or mark in source)


class _Loader:
    """One source; compiles it, and template instances of it when they are asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def load(self, instances: Sequence[str]) -> Module:
        return Module(Path(self._source.file).name, self._programs(instances), self._instantiate)

    def _programs(self, expressions: Sequence[str]) -> list[abi.Program]:
        source = self._source
        compiled = compile_source(source, expressions)
        signatures = read_signatures(compiled.ptx)
        entries = signatures.entries
        image = ptx_image(compiled.ptx, signatures.header, entries)
        asked = {symbol: expression for expression, symbol in compiled.symbols.items()}
        types = _types(source, entries, asked)
        return programs(entries, image, Provenance(LANGUAGE, source.file, source.text), types)

    def _instantiate(self, name: str) -> Launchable | None:
        """The kernel of a name expression: an instance of a template, or a static kernel that nothing uses."""
        base = re.split(r"[<(]", name)[0].strip().rsplit("::", 1)[-1].strip()
        if not re.search(rf"\b__global__\b[^;{{}}]*?\b{re.escape(base)}\b", self._source.text) or not base:
            return None
        try:
            compiled = compile_source(self._source, [name])
        except CompileError as error:
            hint = "" if "<" in name else f"; if it is a template, name an instance: '{base}<float>'"
            raise SymbolNotFound(f"{self._source.file}: no kernel '{name}'{hint}\n{error.message}") from None
        symbol = compiled.symbols[name]
        found = next((p for p in self._programs([name]) if p.kernel.symbol == symbol), None)
        if found is None:
            raise SymbolNotFound(f"{self._source.file}: '{name}' is not a kernel (__global__)")
        return Launchable(constant(found), name=found.kernel.name)


def _types(source: Source, entries: Mapping[str, Entry], asked: Mapping[str, str]) -> dict[str, Sequence[CType]]:
    """The parameter types of each entry: from its mangled name, or from the compiler where that does not tell."""
    known: dict[str, Sequence[CType]] = {}
    questions: dict[str, str] = {}
    for symbol in entries:
        try:
            found = demangle(symbol)
        except NotDemangled:
            questions[symbol] = asked.get(symbol, f"::{symbol}")
        else:
            known[symbol] = found.params
            if found.template_args:
                # Types that depend on template arguments are resolved by the compiler only.
                questions[symbol] = asked.get(symbol, f"::{found.name}")
    known.update(_ask_types(source, questions))
    return known


def _ask_types(source: Source, questions: Mapping[str, str]) -> dict[str, Sequence[CType]]:
    """What the compiler says the parameters of the functions `questions` (by symbol) are.

    ``sig<decltype(&f)>`` has f's type in its mangled name. A question that does not compile (an overloaded template, a
    function hidden in a namespace) has no answer, and the others are asked without it.
    """
    if not questions:
        return {}
    text = f"{source.text}\ntemplate <class F> __global__ void {_PROBE}() {{}}\n"
    probe = replace(source, text=text)
    expressions = {symbol: f"{_PROBE}<decltype(&{name})>" for symbol, name in questions.items()}
    try:
        symbols = compile_source(probe, list(expressions.values())).symbols
    except CompileError:
        if len(questions) == 1:
            return {}
        answers: dict[str, Sequence[CType]] = {}
        for symbol, name in questions.items():
            answers.update(_ask_types(source, {symbol: name}))
        return answers
    found = {}
    for symbol, expression in expressions.items():
        types = _function_params(symbols[expression])
        if types is not None:
            found[symbol] = types
    return found


def _function_params(symbol: str) -> Sequence[CType] | None:
    """The parameters of the function type that is the template argument in a probe's symbol."""
    try:
        arguments = demangle(symbol).template_args
    except NotDemangled:
        return None
    pointer = arguments[0] if arguments else None
    if isinstance(pointer, Indirect) and isinstance(pointer.target, Function):
        return pointer.target.params
    return None

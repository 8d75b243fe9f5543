"""``@io.foreign``: a declaration that gives a foreign kernel names, types and a contract, checked against the image."""

from __future__ import annotations

import dis
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import abi
from abi import (
    AbiMismatch,
    Block,
    BlockKind,
    Bytes,
    CheckLevel,
    Kernel,
    Launch,
    Origin,
    Param,
    Pointer,
    Requirement,
    Scalar,
    Slice,
    Tensor,
)
from abi.rules import parse, split_grid, with_implied
from abi.show import C_SCALARS, python_signature
from abi.verify import verify

from ..errors import Location, SyntaxError_, TypeError_
from ..language.constants import BlockRule, Const
from ..language.definition import embedded_path
from ..language.types import Annotation
from ..runtime import Launchable
from .cuda import load_cuda
from .demangle import readable
from .module import AmbiguousKernel, Module
from .ptx_module import load_ptx
from .structs import struct_type


@dataclass(frozen=True)
class Declaration:
    """A foreign kernel as its author declared it."""

    function: Callable[..., Any]
    source: str | os.PathLike[str] | Module
    symbol: str | None
    block: Block | None
    grid: tuple[str, ...]
    shared: str | None
    requires: tuple[str, ...]
    params: tuple[Param, ...]
    convention: str
    location: Location
    structs: Mapping[str, Any]


def foreign(
    source: str | os.PathLike[str] | Module,
    symbol: str | None = None,
    *,
    block: Any = None,
    grid: str | int | Sequence[str | int] | None = None,
    requires: Sequence[str] = (),
    fill: Mapping[str, str] | None = None,
    shared: str | int | None = None,
    convention: str = "c",
) -> Callable[[Callable[..., Any]], ForeignKernel]:
    """Decorator: a kernel written elsewhere, declared by a function with annotations and an empty body.

    :param source: a ``.cu`` or ``.ptx`` file, relative to the decorated function's own, or a loaded :class:`Module`.
    :param symbol: the kernel's name in the source, where it is not the function's.
    :param block: ``256`` or ``(32, 8)`` exactly, ``io.up_to(n)``, ``io.multiple_of(n)``, or any.
    :param grid: rule for the number of blocks, ``"ceil_div(n, block.x)"``, or a number, or for several axes
        ``"(rule, rule)"`` or a tuple of them.
    :param requires: preconditions, checked before each launch.
    :param fill: rules for parameters that callers then do not pass: ``{"n": "len(y)"}``.
    :param shared: bytes of dynamic shared memory, or a rule for them. Without it, a kernel that has an array
        ``extern __shared__`` takes the size from each call: ``k[grid, block, stream, shared](...)``.
    :param convention: ``c``; ``interop-1`` for kernels that take slices and tensors as this project's do.

    The declaration is compared with the image at first use: count, sizes, and types where they are known. Types are
    known of CUDA C++ source and of PTX whose symbols are C++ names; among overloads they choose the kernel, and a
    pointer that the kernel may write through cannot be declared ``io.In``. Other PTX does not say what a kernel does
    with a pointer: there the declaration is trusted, and ``io.In`` for memory that the kernel writes would be wrong
    unnoticed.

    A structure passed by value is annotated with a NumPy structured dtype, a ``ctypes.Structure`` or
    ``abi.Bytes(size, align)``. What is passed must have the same fields; raw bytes are taken as they are.

    >>> import interop as io
    >>> @foreign("scale.cu", block=256, grid="ceil_div(n, block.x)", fill={"n": "len(y)"})
    ... def scale(y: io.InOut[io.f32], a: io.f32, n: io.u64):
    ...     '''y <- a*y.'''
    >>> scale.name
    'scale'
    """
    if callable(source) and not isinstance(source, (str, os.PathLike, Module)):
        raise TypeError('write @io.foreign("file.cu", ...): the source comes first')
    if not isinstance(source, (str, os.PathLike, Module)):
        raise TypeError(f"@io.foreign takes a path or a module, not {type(source).__name__}")
    if isinstance(requires, str):
        raise TypeError('requires is a list of rules: requires=["len(x) >= len(y)"]')
    caller_locals = dict(sys._getframe(1).f_locals)

    def decorate(function: Callable[..., Any]) -> ForeignKernel:
        if not inspect.isfunction(function):
            raise TypeError(f"@io.foreign decorates a function, not {function!r}")
        location = _location(function)
        _check_empty(function, location)
        params, structs = _parameters(function, location, caller_locals, dict(fill or {}), convention)
        rules = _grid(grid, location)
        declared = Declaration(
            function, source, symbol, _block(block, location), rules, None if shared is None else str(shared),
            tuple(requires), params, convention, location, structs,
        )  # fmt: skip
        _check_rules(declared)
        return ForeignKernel(declared)

    return decorate


class ForeignKernel(Launchable):
    """A declared kernel; its image is loaded and compared at first use."""

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(self._build, name=declaration.function.__name__, structs=declaration.structs)
        self.declaration = declaration
        self.__name__ = declaration.function.__name__
        self.__qualname__ = declaration.function.__qualname__
        self.__doc__ = declaration.function.__doc__
        self.__module__ = declaration.function.__module__
        self.__wrapped__ = declaration.function

    def _build(self) -> abi.Program:
        declaration = self.declaration
        module = _open(declaration)
        name = declaration.symbol or self.name
        candidates = [k.program() for k in module.candidates(name)]
        if len(candidates) > 1:
            return _choose(declaration, name, candidates)
        try:
            image = module.kernel(name).program()
        except abi.SymbolNotFound as error:
            raise type(error)(f"{declaration.location}: {error}") from None
        return abi.Program(_describe(declaration, image), image.images)

    def __repr__(self) -> str:
        return f"<foreign kernel {self.name}{inspect.signature(self.declaration.function)}>"


# -- the declaration -----------------------------------------------------------------------------------------------


def _location(function: Callable[..., Any]) -> Location:
    code = function.__code__
    name = function.__name__
    try:
        lines, start = inspect.getsourcelines(function)
        offset = next(i for i, line in enumerate(lines) if line.lstrip().startswith(("def ", "async def ")))
        text = lines[offset].rstrip("\n")
        column = text.index(name) + 1
        return Location(code.co_filename, start + offset, column, column + len(name), text, name)
    except (OSError, StopIteration, ValueError):
        return Location(code.co_filename, code.co_firstlineno, 1, 2, "", name)


_EMPTY_OPS = {"RESUME", "NOP", "RETURN_CONST", "RETURN_VALUE", "LOAD_CONST", "NOT_TAKEN"}


def _check_empty(function: Callable[..., Any], location: Location) -> None:
    """A body would never run, so it must not be there. The compiled code is examined: it needs no source text."""
    for instruction in dis.get_instructions(function):
        constant = instruction.opname in ("LOAD_CONST", "RETURN_CONST") and instruction.argval is not None
        if instruction.opname not in _EMPTY_OPS or constant:
            raise SyntaxError_(
                f"{function.__name__} is declared foreign, and its body would never run",
                location,
                help="leave only the docstring, or ...: the kernel's code is in the source that @io.foreign names",
            )


def _parameters(
    function: Callable[..., Any],
    location: Location,
    caller_locals: Mapping[str, Any],
    fill: dict[str, str],
    convention: str,
) -> tuple[tuple[Param, ...], dict[str, Any]]:
    """The parameters, and what structures among them are annotated with."""
    params, structs = [], {}
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.default is not parameter.empty:
            raise SyntaxError_(
                f"parameter '{name}': a kernel has plain parameters, without *, ** and defaults", location
            )
        if parameter.annotation is parameter.empty:
            raise SyntaxError_(f"parameter '{name}' has no annotation", location, help=f"write {name}: io.In[io.f32]")
        annotation = _resolve(parameter.annotation, function, caller_locals, name, location)
        params.append(_param(name, annotation, fill.pop(name, None), location, convention))
        if struct_type(annotation) is not None:
            structs[name] = annotation
    if fill:
        name = next(iter(fill))
        names = ", ".join(p.name for p in params) or "none"
        raise SyntaxError_(f"fill names '{name}', and there is no such parameter; there are: {names}", location)
    try:
        return abi.assign_slots(params, convention), structs
    except abi.Error as error:
        raise TypeError_(str(error), location) from None


def _resolve(
    annotation: Any, function: Callable[..., Any], caller_locals: Mapping[str, Any], name: str, location: Location
) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__, dict(caller_locals))
    except Exception as error:
        # The text is the author's own code: whatever it raises is what the author wants to read.
        raise TypeError_(f"the annotation of '{name}' cannot be evaluated: {error}", location) from None


def _param(name: str, annotation: Any, fill: str | None, location: Location, convention: str) -> Param:
    if isinstance(annotation, (Scalar, Bytes)):
        return Param(name, annotation, fill=fill)
    struct = struct_type(annotation)
    if struct is not None:
        return Param(name, struct, fill=fill)
    if isinstance(annotation, Annotation):
        if isinstance(annotation.type, (Slice, Tensor)) and convention == "c":
            raise TypeError_(
                f"parameter '{name}' is {annotation!r}, and C has no such parameters",
                location,
                help="declare the pointer (io.In, io.Out, io.InOut) and the count that the kernel takes, or say "
                'convention="interop-1" if it takes pointer and length as this project\'s kernels do',
            )
        return Param(name, annotation.type, annotation.access, fill=fill)
    raise TypeError_(
        f"the annotation of '{name}' is {annotation!r}, which is no parameter type",
        location,
        help="write io.In[io.f32], io.Out[io.f32], io.InOut[io.f32], io.f32, io.i32 …, and for a structure a NumPy "
        "structured dtype (made with align=True), a ctypes.Structure, or abi.Bytes(size, align)",
    )


def _block(given: Any, location: Location) -> Block | None:
    if given is None:
        return None
    if isinstance(given, BlockRule):
        kind = BlockKind.UP_TO if given.word == "up_to" else BlockKind.MULTIPLE_OF
        return Block(kind, (_extent(given.count, location), 1, 1))
    items = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(items) <= 3:
        raise TypeError_(f"a block has one to three extents, not {len(items)}", location)
    x, y, z = (*(_extent(item, location) for item in items), 1, 1)[:3]
    if x * y * z > 1024 or z > 64:
        raise TypeError_(f"a block of ({x}, {y}, {z}) is too large: 1024 threads, and 64 along z", location)
    return Block(BlockKind.EXACT, (x, y, z))


def _extent(given: Any, location: Location) -> int:
    value = given.value if isinstance(given, Const) else given
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        help_ = "write block=256, block=(32, 8), io.up_to(n) or io.multiple_of(n)"
        raise TypeError_(f"a block's extent is a positive integer, not {value!r}", location, help=help_)
    return value


def _grid(given: str | int | Sequence[str | int] | None, location: Location) -> tuple[str, ...]:
    if given is None:
        return ()
    try:
        items = given if isinstance(given, (tuple, list)) else (given,)
        if any(isinstance(item, bool) or not isinstance(item, (str, int)) for item in items):
            help_ = 'write grid="ceil_div(n, block.x)", grid=4 or grid=("ceil_div(n, 32)", 2)'
            raise TypeError_(f"a grid is made of rules and numbers of blocks, not {given!r}", location, help=help_)
        rules = split_grid(given) if isinstance(given, str) else tuple(str(item) for item in items)
    except abi.RuleError as error:
        raise SyntaxError_(f"the grid rule is not well formed: {error}", location) from None
    if not 1 <= len(rules) <= 3:
        raise SyntaxError_(f"a grid has one to three rules, not {len(rules)}", location)
    return rules


def _check_rules(declaration: Declaration) -> None:
    """Mistakes in rules are the declaration's, and are told where it stands."""
    d = declaration
    visible = tuple(p for p in d.params if not p.hidden)
    rules = [("grid", rule, False, d.params) for rule in d.grid]
    rules += [("shared", d.shared, False, d.params)] if d.shared is not None else []
    rules += [("requires", rule, True, d.params) for rule in d.requires]
    rules += [(f"fill of '{p.name}'", p.fill, p.type == abi.bool_, visible) for p in d.params if p.fill is not None]
    for what, text, condition, params in rules:
        try:
            rule = parse(text, params)
        except abi.RuleError as error:
            raise SyntaxError_(f"{what}: {error}", d.location) from None
        if rule.is_boolean != condition:
            wanted, got = ("a condition", "a number") if condition else ("a number", "a condition")
            raise SyntaxError_(f"{what}: '{text}' is {got}, and {wanted} is needed", d.location)


# -- against the image ---------------------------------------------------------------------------------------------


def _open(declaration: Declaration) -> Module:
    source = declaration.source
    if isinstance(source, Module):
        return source
    if isinstance(source, str) and ("\n" in source or "__global__" in source):
        return load_cuda(source)
    path = Path(source)
    if not path.is_absolute():
        path = Path(declaration.location.file).resolve().parent / path
    if path.suffix == ".ptx":
        return load_ptx(path)
    if path.suffix in (".cu", ".cuh", ".cpp", ".cc"):
        return load_cuda(path)
    raise abi.UnsupportedError(f"{path}: @io.foreign reads .cu and .ptx files, not '{path.suffix}'")


def _choose(declaration: Declaration, name: str, candidates: Sequence[abi.Program]) -> abi.Program:
    """The one overload whose parameters are the declared ones."""
    fitting, problems = [], []
    for image in candidates:
        try:
            fitting.append(abi.Program(_describe(declaration, image), image.images))
        except AbiMismatch as error:
            problems.append(f"  {image.kernel.name}: {str(error).splitlines()[0]}")
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(image.kernel.name for image in candidates)
    if not fitting:
        listed = "\n".join(problems)
        raise AbiMismatch(
            f"{declaration.location}: the declaration fits none of the kernels called '{name}':\n{listed}"
        )
    raise AmbiguousKernel(
        f"{declaration.location}: '{name}' could be any of: {names}; "
        f'say which: @io.foreign(..., symbol="{candidates[0].kernel.name}")'
    )


def _describe(declaration: Declaration, program: abi.Program) -> Kernel:
    """The declared kernel's record, once it is known to be what the image holds."""
    image, d = program.kernel, declaration
    requires = tuple(Requirement(rule.strip(), Origin.WRITTEN) for rule in d.requires)
    kernel = Kernel(
        name=d.function.__name__,
        symbol=image.symbol,
        language=image.language,
        params=d.params,
        launch=Launch(
            d.block or image.launch.block,
            d.grid,
            image.launch.shared if d.shared is None else d.shared,
            image.launch.min_cc,
        ),
        requires=requires + _alignments(image, d.params),
        convention=d.convention,
        check_level=CheckLevel.TYPED,
        source=f"{image.source}, declared in {embedded_path(d.function)}:{d.location.line}",
        doc=inspect.cleandoc(d.function.__doc__ or ""),
    )
    verify(kernel, program.images[0], readable)
    _compare_types(kernel, image)
    _compare_blocks(kernel, image)
    return with_implied(kernel)


def _alignments(image: Kernel, params: Sequence[Param]) -> tuple[Requirement, ...]:
    """Alignments that follow from the image's types, under the declared names."""
    if len(image.params) != len(params):
        return ()
    names = {theirs.name: ours.name for theirs, ours in zip(image.params, params)}
    found = []
    for requirement in image.requires:
        match = re.fullmatch(r"aligned\((\w+), (\d+)\)", requirement.rule)
        if match and match[1] in names:
            name = names[match[1]]
            note = requirement.note.replace(match[1], name, 1)
            found.append(replace(requirement, rule=f"aligned({name}, {match[2]})", note=note))
    return tuple(found)


def _compare_types(kernel: Kernel, image: Kernel) -> None:
    typed, by_offset = image.check_level is CheckLevel.TYPED, {p.slots[0].offset: p for p in image.params if p.slots}
    for ours in kernel.params:
        # A slice or tensor begins with its pointer, which is one parameter of the image.
        theirs = by_offset.get(ours.slots[0].offset) if ours.slots else None
        problem = _difference(ours, theirs, typed) if theirs else ""
        if problem:
            raise AbiMismatch(
                f"{kernel.name}: the declaration does not match the image: {problem}\n"
                f"  declared  {python_signature(replace(kernel, params=_all_visible(kernel)))}\n"
                f"  image     {python_signature(image)}"
            )


def _all_visible(kernel: Kernel) -> tuple[Param, ...]:
    return tuple(replace(p, fill=None) for p in kernel.params)


def _difference(ours: Param, theirs: Param, typed: bool) -> str:
    """Why a declared parameter cannot be the image's; sizes have been compared before."""
    a, b = ours.type, theirs.type
    if isinstance(a, (Slice, Tensor)):
        a = Pointer(a.element)
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        if a.pointee and b.pointee and a.pointee != b.pointee:
            return f"'{ours.name}' points to {a.pointee}, and in the image to {b.pointee}"
        if typed and ours.access.writes and not theirs.access.writes:
            return f"'{ours.name}' is declared as written, and the image takes a pointer to const"
        if typed and theirs.access.writes and not ours.access.writes:
            return (
                f"'{ours.name}' is declared as read only, and the kernel may write through its pointer: "
                f"{_read_only_advice(ours, b)}"
            )
        return ""
    if not typed:
        return ""  # kinds of numbers have been compared with the image as well
    return f"'{ours.name}' is declared {a}, and in the image it is {b}" if a != b else ""


_C_NAMES = {**C_SCALARS, "f16": "__half", "bf16": "__nv_bfloat16", "i8": "signed char", "u8": "unsigned char"}


def _read_only_advice(ours: Param, image: Pointer) -> str:
    word = {Slice: "DisjointSlice", Tensor: "DisjointTensor"}.get(type(ours.type), "InOut")
    pointee = f"const {_C_NAMES[image.pointee.name]} *" if image.pointee else "a pointer to const"
    return f"declare it io.{word}, or write {pointee} in the source"


def _compare_blocks(kernel: Kernel, image: Kernel) -> None:
    """A block that the image's launch bounds do not allow could never run."""
    bound, block = image.launch.block, kernel.launch.block
    if bound.kind is not BlockKind.UP_TO or block.kind not in (BlockKind.EXACT, BlockKind.UP_TO):
        return
    most = bound.dims[0] * bound.dims[1] * bound.dims[2]
    threads = block.dims[0] * block.dims[1] * block.dims[2]
    if threads > most:
        raise AbiMismatch(
            f"{kernel.name}: the image is compiled for at most {most} threads a block (__launch_bounds__), and the "
            f"declaration has {threads}"
        )

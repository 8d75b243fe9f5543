"""Parameters of a compiled kernel as ABI records: C++ types where they are known, else what the image's layout says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from abi import (
    SCALARS,
    Access,
    Bytes,
    Entry,
    EntryParam,
    Origin,
    Param,
    Pointer,
    Requirement,
    Scalar,
    Type,
)

from .demangle import CType, Function, Indirect, Named, Qualified

_SCALAR_NAMES: dict[str, str] = {
    "bool": "bool", "char": "i8", "signed char": "i8", "unsigned char": "u8", "short": "i16", "unsigned short": "u16",
    "int": "i32", "unsigned int": "u32", "long": "i64", "unsigned long": "u64", "long long": "i64",
    "unsigned long long": "u64", "float": "f32", "double": "f64", "wchar_t": "i32", "char16_t": "u16",
    "char32_t": "u32", "char8_t": "u8", "_Float16": "f16", "__bf16": "bf16", "__half": "f16", "__nv_bfloat16": "bf16",
}  # fmt: skip

_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double|__half|half|"
                     r"__nv_bfloat16)([234])(_16a|_32a)?$")  # fmt: skip
_VECTOR_SIZES = {"char": 1, "short": 2, "int": 4, "long": 8, "longlong": 8, "float": 4, "double": 8, "__half": 2,
                 "half": 2, "__nv_bfloat16": 2}  # fmt: skip


def typed_params(
    types: Sequence[CType], entry: Entry, names: Sequence[str] | None
) -> tuple[tuple[Param, ...], tuple[Requirement, ...]] | None:
    """Parameters and alignment preconditions from C++ types; None when types and image do not agree."""
    if len(types) != len(entry.params):
        return None
    params, requires = [], []
    for position, (type_, declared) in enumerate(zip(types, entry.params)):
        name = names[position] if names else f"p{position}"
        found = _param_type(type_, declared)
        if found is None or found[0].size != declared.slot.size:
            return None
        params.append(Param(name, found[0], found[1], (declared.slot,)))
        align = vector_alignment(type_)
        if align > 1:
            requires.append(Requirement(f"aligned({name}, {align})", Origin.IMPLIED, f"{name} is {type_}"))
    return tuple(params), tuple(requires)


def layout_params(entry: Entry, names: Sequence[str] | None = None) -> tuple[Param, ...]:
    """Parameters as far as the image tells: sizes, and integers apart from floating-point numbers."""
    return tuple(
        Param(names[i] if names else f"p{i}", _layout_type(p), _layout_access(p), (p.slot,))
        for i, p in enumerate(entry.params)
    )


def _layout_type(param: EntryParam) -> Type:
    size = param.slot.size
    if param.pointer_space or param.type_text in (".u64", ".b64"):
        return Pointer()  # or an integer: the image does not say, and the launch layer takes either
    letter = {"s": "i", "u": "u", "f": "f", "b": "u"}[param.kind]
    scalar = SCALARS.get(f"{letter}{size * 8}")
    if "[" in param.type_text or ".v" in param.type_text or scalar is None:
        return Bytes(size, param.slot.align)
    return scalar


def _layout_access(param: EntryParam) -> Access:
    return Access.INOUT if isinstance(_layout_type(param), Pointer) else Access.IN


def _param_type(type_: CType, declared: EntryParam) -> tuple[Type, Access] | None:
    """One parameter's type and access; None where the image contradicts the type."""
    if isinstance(type_, Qualified):
        type_ = type_.inner
    if isinstance(type_, Indirect):
        if declared.slot.size != 8 or declared.kind == "f":
            return None
        return Pointer(pointee(type_)), Access.IN if is_const(type_) else Access.INOUT
    if not isinstance(type_, Named):
        return None
    scalar = scalar_of(type_)
    if scalar is not None:
        return scalar, Access.IN
    if "[" not in declared.type_text and declared.kind in "us":
        # A class by value is an array of bytes in the image, so this is an enumeration. Its sign is not recorded.
        return SCALARS[f"{'i' if declared.slot.size == 4 else 'u'}{declared.slot.size * 8}"], Access.IN
    return Bytes(declared.slot.size, declared.slot.align), Access.IN


def scalar_of(type_: CType) -> Scalar | None:
    """The scalar type that a C++ type is, if it is one."""
    if isinstance(type_, Qualified):
        type_ = type_.inner
    name = _SCALAR_NAMES.get(type_.name) if isinstance(type_, Named) else None
    return SCALARS[name] if name else None


def pointee(pointer: Indirect) -> Scalar | None:
    """The element type of a pointer to numbers; None for pointers to anything else."""
    return scalar_of(pointer.target)


def is_const(pointer: Indirect) -> bool:
    """Whether what the pointer points to cannot be written through it: const data, and functions."""
    return isinstance(pointer.target, Function) or (isinstance(pointer.target, Qualified) and pointer.target.const)


def vector_alignment(type_: CType) -> int:
    """The alignment that loads through a pointer to a CUDA vector type need; 1 for other types.

    >>> vector_alignment(Indirect(Named("float4"), "*"))
    16
    """
    if isinstance(type_, Qualified):
        return vector_alignment(type_.inner)
    if not isinstance(type_, Indirect):
        return 1
    target = type_.target.inner if isinstance(type_.target, Qualified) else type_.target
    match = _VECTOR.match(target.name) if isinstance(target, Named) else None
    if not match or match[2] == "3":  # a float3 is aligned as a float
        return 1
    base = match[1] if match[1] in _VECTOR_SIZES else match[1].removeprefix("u")
    size = _VECTOR_SIZES[base] * int(match[2])
    if match[3]:
        return int(match[3][1:3])
    return min(size, 16)


# -- names ---------------------------------------------------------------------------------------------------------

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_DEFAULT = re.compile(r"=.*", re.DOTALL)


def parameter_names(source: str, function: str, types: Sequence[CType] | int) -> list[str] | None:
    """The names that the definition of the kernel `function` in `source` gives its parameters.

    Names serve messages and rules only: None, and so ``p0``, ``p1`` …, where the text does not say clearly.
    """
    count = types if isinstance(types, int) else len(types)
    found: list[list[str]] = []
    for arguments in _parameter_lists(_COMMENTS.sub(" ", source), function):
        names = [_parameter_name(argument) for argument in _split(arguments)]
        if len(names) == count and all(names) and len(set(names)) == count and names not in found:
            found.append([name for name in names if name])
    return found[0] if len(found) == 1 else None


def _parameter_lists(text: str, function: str) -> list[str]:
    """The text between the parentheses after each ``__global__ … function``."""
    lists = []
    for match in re.finditer(rf"\b__global__\b[^;{{}}]*?\b{re.escape(function)}\s*\(", text):
        depth, start = 1, match.end()
        for end in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                lists.append(text[start:end])
                break
    return lists


def _split(arguments: str) -> list[str]:
    """Splits at commas that are not inside brackets."""
    parts, depth, current = [], 0, ""
    for character in arguments:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current.strip() or parts else []


def _parameter_name(text: str) -> str | None:
    text = _DEFAULT.sub("", text).strip()
    function_pointer = re.search(r"\(\s*\*\s*([A-Za-z_]\w*)\s*\)", text)
    if function_pointer:
        return function_pointer[1]
    match = re.search(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$", text)
    words = re.findall(r"[A-Za-z_]\w*", text)
    # A single word, or one that is a type itself, is a parameter without a name.
    if not match or len(words) < 2 or match[1] in _TYPE_WORDS:
        return None
    return match[1]


_TYPE_WORDS = {"int", "unsigned", "signed", "char", "short", "long", "float", "double", "bool", "const", "volatile",
               "__restrict__", "restrict", "size_t"}  # fmt: skip

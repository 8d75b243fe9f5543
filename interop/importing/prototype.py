"""C prototypes of kernels: types and names for images that carry none.

What a header says of a kernel is enough to check a launch::

    void scale(float *y, float a, unsigned long long n);
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from abi import Error

from .demangle import CType, Indirect, Named, Qualified

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NOISE = re.compile(
    r'extern\s*"C"\s*\{?|^\s*#[^\n]*$|__attribute__\s*\(\([^)]*\)\)|__launch_bounds__\s*\([^)]*\)'
    r"|\b(?:__global__|extern|static|inline|__restrict__|__restrict|restrict|volatile|struct|enum)\b|\}",
    re.MULTILINE,
)
_PROTOTYPE = re.compile(r"\s*void\s+([A-Za-z_]\w*)\s*\(([^()]*)\)\s*$")
_ALIASES = {
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short", "uint16_t": "unsigned short",
    "int32_t": "int", "uint32_t": "unsigned int", "int64_t": "long", "uint64_t": "unsigned long",
    "size_t": "unsigned long", "ptrdiff_t": "long", "intptr_t": "long", "uintptr_t": "unsigned long",
    "uchar": "unsigned char", "ushort": "unsigned short", "uint": "unsigned int", "ulong": "unsigned long",
    "_Bool": "bool", "half": "__half", "nv_bfloat16": "__nv_bfloat16",
}  # fmt: skip
# const and type, stars, name, extents.
_PARAMETER = re.compile(
    r"\s*((?:\b[A-Za-z_]\w*\s*)+)((?:\*\s*(?:const\b\s*)*)*)((?:\b[A-Za-z_]\w*)?)\s*((?:\[[^\]]*\]\s*)*)$"
)
_WORDS = {"signed", "unsigned", "char", "short", "int", "long", "float", "double", "bool", "void"}

_SIGNS = ("", "signed", "unsigned")
_INTEGERS = [
    f"{sign} {size} {word}" for sign in _SIGNS for size in ("short", "long", "long long", "") for word in ("", "int")
]
_NUMBERS = {" ".join(sorted(text.split())) for text in _INTEGERS + [f"{sign} char" for sign in _SIGNS]}
_NUMBERS = (_NUMBERS | {"float", "double", "bool", "void"}) - {""}


@dataclass(frozen=True)
class Prototype:
    """One kernel as C declares it; ``text`` is the declaration on one line."""

    name: str
    types: tuple[CType, ...]
    text: str


def parse_prototypes(text: str) -> dict[str, Prototype]:
    """The kernels that `text` declares, by name; :class:`abi.Error` says which declaration is not understood.

    >>> [str(t) for t in parse_prototypes("void scale(float *y, const float a, size_t n);")["scale"].types]
    ['float*', 'float', 'unsigned long']
    """
    found: dict[str, Prototype] = {}
    for statement in _NOISE.sub(" ", _COMMENTS.sub(" ", text)).split(";"):
        words = " ".join(statement.split())
        if not words:
            continue
        match = _PROTOTYPE.match(words)
        if not match:
            raise Error(f"'{words}' is not the prototype of a kernel: those look like void scale(float *y, float a);")
        name, arguments = match[1], match[2].strip()
        types = [] if arguments in ("", "void") else [_parameter(part, words) for part in arguments.split(",")]
        if name in found and found[name].types != tuple(types):
            raise Error(f"the prototypes declare {name} twice, differently")
        found[name] = Prototype(name, tuple(types), f"{words};")
    return found


def _parameter(text: str, statement: str) -> CType:
    """One parameter's type: ``const float *x``, ``unsigned n``, ``float x[]``. A name is optional."""
    match = _PARAMETER.match(text)
    if not match or not match[1].split():
        raise Error(f"'{text.strip()}' in '{statement}' is not supported: parameters are numbers, pointers, structures")
    # An array is passed as one pointer, whatever its extents.
    pointers = match[2].count("*") + bool(match[4])
    const = "const" in match[1].split()
    before = [word for word in match[1].split() if word != "const"]
    words = before + match[3].split()
    base = [word for word in words if word in _WORDS] or words[:1]
    name_before_star = bool(match[2]) and len(before) > len(base)
    if not base or words[: len(base)] != base or len(words) > len(base) + 1 or name_before_star:
        raise Error(f"'{text.strip()}' in '{statement}' is not understood: write the type, then one name")
    if base[0] in _WORDS and " ".join(sorted(base)) not in _NUMBERS:
        raise Error(f"'{text.strip()}' in '{statement}': there is no type '{' '.join(base)}' in device code")
    type_: CType = _named(base)
    if pointers:
        for depth in range(pointers):
            type_ = Indirect(Qualified(type_, True, False) if const and depth == 0 else type_, "*")
    elif isinstance(type_, Named) and type_.name == "void":
        raise Error(f"'{text.strip()}' in '{statement}': a parameter cannot be void")
    return type_


def _named(words: list[str]) -> Named:
    """``unsigned long int`` and ``unsigned long`` are one type; so are ``size_t`` and ``unsigned long`` on Linux."""
    if len(words) == 1 and words[0] not in _WORDS:
        name = _ALIASES.get(words[0], words[0])
        return Named(name, builtin=words[0] in _ALIASES)
    unsigned, rest = "unsigned" in words, [w for w in words if w not in ("signed", "unsigned", "int")]
    name = " ".join(rest) or "int"
    if name == "char" and "signed" in words:
        name = "signed char"
    return Named(f"unsigned {name}" if unsigned else name, builtin=True)

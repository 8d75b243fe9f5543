"""Names in generated C and C++: keywords and clashes get underscores, always the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import abi

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_C_AND_CPP_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local
"""
# Macros of the standard headers that generated code includes, and of compilers in their GNU modes.
_MACROS = "NULL EOF assert errno stdin stdout stderr offsetof linux unix i386 main"
# Functions and types that generated code uses next to a user's names.
_OURS = (
    "abi interop memcpy memset size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t std"
)

RESERVED = frozenset((_C_AND_CPP_KEYWORDS + " " + _MACROS + " " + _OURS).split())
_LIMIT_MACRO = re.compile(r"(U?INT|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)\w*_(MAX|MIN|C|WIDTH)")

_RUNTIME = re.compile(r"(runtime|driver|cuda|cpu)_|bundle$")  # what the runtime's own functions begin with

_API = """
    module load load_checked unload last_error device device_name device_note bundle_hash alloc free copy_in copy_out
    synchronize get handle empty memory check
"""
API_WORDS = frozenset(_API.split())
"""What an exported library calls its own functions and members."""

LOCALS = frozenset({"module", "stream", "config", "launch", "params", "bundle", "check", "get"})
"""What a generated function calls its own parameters and variables."""


def check_bundle_name(name: str) -> str:
    """`name` if it can prefix C functions and name a C++ namespace; else :class:`abi.Error`."""
    if not IDENTIFIER.fullmatch(name) or name.startswith("_") or "__" in name:
        raise abi.Error(f"'{name}' cannot name an exported library: use letters, digits and single underscores")
    if name in RESERVED or name.lower() in ("interop", "runtime"):
        raise abi.Error(f"'{name}' cannot name an exported library: C, C++ or the runtime uses it; choose another name")
    return name


def unique(name: str, taken: Iterable[str]) -> str:
    """`name`, with as many underscores behind it as it takes to be neither reserved nor taken.

    >>> unique("int", ())
    'int_'
    """
    taken = set(taken)
    while name in RESERVED or name in taken or _LIMIT_MACRO.fullmatch(name):
        name += "_"
    return name


def kernel_names(names: Sequence[str]) -> dict[str, str]:
    """A C name for each kernel: ``K`` and ``K_ex`` must both be free."""
    result: dict[str, str] = {}
    taken = set(API_WORDS)
    for name in names:
        _check_identifier("kernel", name)
        if name in result:
            raise abi.Error(f"two kernels are called '{name}'; names must be unique within an export")
        chosen = unique(name + "_" if _RUNTIME.match(name) else name, taken)
        while f"{chosen}_ex" in taken or f"{chosen}_ex" in names or chosen in set(names) - {name}:
            chosen = unique(chosen + "_", taken)
        taken |= {chosen, f"{chosen}_ex"}
        result[name] = chosen
    return result


def parameter_names(names: Sequence[str]) -> dict[str, str]:
    """A C name for each parameter."""
    result: dict[str, str] = {}
    for name in names:
        _check_identifier("parameter", name)
        result[name] = unique(name, LOCALS | set(result.values()) | (set(names) - {name}))
    return result


def _check_identifier(what: str, name: str) -> None:
    if not IDENTIFIER.fullmatch(name):
        raise abi.Error(f"the {what} name '{name}' is not an identifier in C; rename it")

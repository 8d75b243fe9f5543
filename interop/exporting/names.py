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
_MACROS = "NULL EOF assert errno stdin stdout stderr offsetof linux unix i386 main I complex imaginary"
# Functions and types that generated code uses next to a user's names.
_OURS = (
    "abi interop memcpy memset size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t std "
    "uintptr_t"
)

RESERVED = frozenset((_C_AND_CPP_KEYWORDS + " " + _MACROS + " " + _OURS).split())
_LIMIT_MACRO = re.compile(r"(U?INT|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)\w*_(MAX|MIN|C|WIDTH)")
_PREDEFINED = re.compile(r"__\w*[^_]__|__func__")  # __LINE__, __COUNTER__: with one more underscore they are not
_PARAMETER = re.compile(r"(interop|INTEROP|runtime|params_of)_\w*")  # types, macros and functions of generated code

# NAME.h would be found in the place of these headers, by the standard library's own headers too.
_SYSTEM_HEADERS = """
    alloca assert complex ctype cuda dlfcn endian errno fcntl features fenv float inttypes iso646 libintl limits locale
    malloc math memory poll pthread sched setjmp signal stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint
    stdio stdlib stdnoreturn string strings tgmath threads time uchar unistd wait wchar wctype
"""
_HEADERS = frozenset(_SYSTEM_HEADERS.split())
# Targets that CMake makes itself, and libraries that the exported library links.
_CMAKE_TARGETS = "all clean dl edit_cache help install m package preinstall rebuild_cache test"
_TARGETS = frozenset(_CMAKE_TARGETS.split())

_RUNTIME = re.compile(r"(runtime|driver|cuda|cpu)_|bundle$")  # what the runtime's own functions begin with

_API = """
    module load load_checked unload last_error device device_name device_note bundle_hash alloc free copy_in copy_out
    synchronize get handle handle_ empty memory check
"""
API_WORDS = frozenset(_API.split())
"""What an exported library calls its own functions and members."""

_HEADER_MACROS = {"API", "H", "HPP", "VERSION", "BUNDLE_HASH", "SIGNATURES", "SHARED", "NO_CPU", "CPU_OBJECTS"}

LOCALS = frozenset({"module", "stream", "config", "launch", "params", "bundle", "check", "get", "handle_"})
"""What a generated function calls its own parameters and variables."""


def check_bundle_name(name: str) -> str:
    """`name` if it can prefix C functions and name a C++ namespace; else :class:`abi.Error`."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name) or name.startswith("_") or "__" in name:
        raise abi.Error(f"'{name}' cannot name an exported library: use letters, digits and single underscores")
    small = name.lower()  # folders need not tell capitals from small letters
    if name in RESERVED or small in ("interop", "runtime") or small.startswith("interop_"):
        raise abi.Error(f"'{name}' cannot name an exported library: C, C++ or the runtime uses it; choose another name")
    if small in _HEADERS:
        raise abi.Error(f"'{name}' cannot name an exported library: {small}.h is a system header; choose another name")
    if small in _TARGETS:
        raise abi.Error(f"'{name}' cannot name an exported library: CMake or the linker uses it; choose another name")
    return name


def unique(name: str, taken: Iterable[str]) -> str:
    """`name`, with as many underscores behind it as it takes to be neither reserved nor taken.

    >>> unique("int", ())
    'int_'
    """
    taken = set(taken)
    while name in RESERVED or name in taken or _LIMIT_MACRO.fullmatch(name) or _PREDEFINED.fullmatch(name):
        name += "_"
    return name


def kernel_names(names: Sequence[str], library: str = "") -> dict[str, str]:
    """A C name for each kernel of `library`: ``K`` and ``K_ex`` must both be free."""
    result: dict[str, str] = {}
    taken = set(API_WORDS) | (_HEADER_MACROS if library.isupper() else set())
    for name in names:
        _check_identifier("kernel", name, f"; declare it under a name of its own, as in {_DECLARATION.format(name)}")
        if name in result:
            raise abi.Error(f"two kernels are called '{name}'; names must be unique within an export")
        chosen = unique(name + "_" if _RUNTIME.match(name) else name, taken)
        while f"{chosen}_ex" in taken or f"{chosen}_ex" in names or chosen in set(names) - {name}:
            chosen = unique(chosen + "_", taken)
        taken |= {chosen, f"{chosen}_ex"}
        result[name] = chosen
    return result


def parameter_names(names: Sequence[str], library: str = "") -> dict[str, str]:
    """A C name for each parameter of a kernel of `library`, whose own names begin with the library's."""
    result: dict[str, str] = {}
    for name in names:
        _check_identifier("parameter", name, "; rename it")
        ours = _PARAMETER.fullmatch(name) or (library and name.startswith((f"{library}_", f"{library.upper()}_")))
        chosen = f"p_{name}" if ours else name
        result[name] = unique(chosen, LOCALS | set(result.values()) | (set(names) - {name}))
    return result


_DECLARATION = '@io.foreign(source, symbol="{}")'


def _check_identifier(what: str, name: str, advice: str) -> None:
    if not IDENTIFIER.fullmatch(name):
        raise abi.Error(f"the {what} name '{name}' is not an identifier in C{advice}")

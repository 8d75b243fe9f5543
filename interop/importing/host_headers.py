"""Headers of the C and C++ libraries, for a compiler that has none: NVRTC compiles device code only.

What device code may use of the common ones is given here, so that ordinary ``.cu`` files load. Types and macros are
those of CUDA's own ``<cuda/std/...>`` where that is installed. What a header declares and a GPU does not have (files,
``qsort``) is left out: using it is a compile error that names it. The other headers of a host get advice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence


def _words(text: str) -> list[str]:
    return text.split()


_MATH = _words(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround log log10 log1p log2 logb "
    "lrint lround modf nan nearbyint nextafter pow remainder remquo rint round scalbln scalbn signbit sin sinh sqrt "
    "tan tanh tgamma trunc"
)
_INTEGERS = [f"{sign}{kind}{bits}_t" for bits in (8, 16, 32, 64) for kind in ("int", "int_fast", "int_least")
             for sign in ("", "u")] + ["intptr_t", "uintptr_t", "intmax_t", "uintmax_t"]  # fmt: skip


def _from_cuda(name: str, otherwise: str) -> str:
    """CUDA's header where there is one, so that including both declares everything once."""
    return f"""#if __cplusplus >= 201703L
#  if __has_include(<cuda/std/{name}>)
#    include <cuda/std/{name}>
#    define INTEROP_HAS_{name.upper()} 1
#  endif
#endif
#ifndef INTEROP_HAS_{name.upper()}
#define INTEROP_HAS_{name.upper()} 1
{otherwise}#endif
"""


def _standard(names: Sequence[str]) -> str:
    return "namespace std {\n" + "".join(f"using ::{name};\n" for name in names) + "}\n"


def _own_integers() -> str:
    lines = []
    for bits, type_ in ((8, "char"), (16, "short"), (32, "int"), (64, "long long")):
        signed = "signed char" if bits == 8 else type_
        limit = f"0x7f{'f' * (bits // 4 - 2)}{'LL' if bits == 64 else ''}"
        top = f"0xff{'f' * (bits // 4 - 2)}{'ULL' if bits == 64 else 'U' if bits == 32 else ''}"
        for kind in ("", "_fast", "_least"):
            upper = kind.upper()
            lines += [f"typedef {signed} int{kind}{bits}_t;", f"typedef unsigned {type_} uint{kind}{bits}_t;"]
            lines += [f"#define INT{upper}{bits}_MAX {limit}", f"#define INT{upper}{bits}_MIN (-{limit} - 1)"]
            lines += [f"#define UINT{upper}{bits}_MAX {top}"]
        suffix = {64: "LL", 32: ""}.get(bits, "")
        lines += [f"#define INT{bits}_C(x) x##{suffix}" if suffix else f"#define INT{bits}_C(x) x"]
        unsigned = {64: "ULL", 32: "U"}.get(bits, "")
        lines += [f"#define UINT{bits}_C(x) x##{unsigned}" if unsigned else f"#define UINT{bits}_C(x) x"]
    for kind in ("ptr", "max"):
        upper = kind.upper()
        lines += [f"typedef long long int{kind}_t;", f"typedef unsigned long long uint{kind}_t;"]
        lines += [f"#define INT{upper}_MIN INT64_MIN", f"#define INT{upper}_MAX INT64_MAX"]
        lines += [f"#define UINT{upper}_MAX UINT64_MAX"]
    lines += ["#define INTMAX_C(x) x##LL", "#define UINTMAX_C(x) x##ULL", "#define SIZE_MAX UINT64_MAX"]
    lines += ["#define PTRDIFF_MIN INT64_MIN", "#define PTRDIFF_MAX INT64_MAX"]
    return "\n".join(lines) + "\n"


def _formats() -> str:
    """The words of printf for the integers of stdint.h; ``ll`` is right for both of C's types of 64 bits."""
    lines = []
    for kind, size in (("8", ""), ("16", ""), ("32", ""), ("64", "ll"), ("MAX", "ll"), ("PTR", "ll")):
        for variant in ("", "FAST", "LEAST") if kind.isdecimal() else ("",):
            lines += [_define(f"PRI{letter}{variant}{kind}", f'"{size}{letter}"') for letter in "diouxX"]
    return "".join(lines)


def _define(name: str, text: str) -> str:
    return f"#ifndef {name}\n#define {name} {text}\n#endif\n"


_LIMITS = """#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MIN (-LONG_MAX - 1)
#define LONG_MAX 0x7fffffffffffffffL
#define ULONG_MAX 0xffffffffffffffffUL
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffULL
"""

_FLOATS = """#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_EXP 128
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.402823466e+38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_MIN 1.175494351e-38F
#define FLT_TRUE_MIN 1.401298464e-45F
#define FLT_DECIMAL_DIG 9
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_EXP 1024
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MIN 2.2250738585072014e-308
#define DBL_TRUE_MIN 4.9406564584124654e-324
#define DBL_DECIMAL_DIG 17
"""

_CONSTANTS = {
    "E": "2.7182818284590452354", "LOG2E": "1.4426950408889634074", "LOG10E": "0.43429448190325182765",
    "LN2": "0.69314718055994530942", "LN10": "2.30258509299404568402", "PI": "3.14159265358979323846",
    "PI_2": "1.57079632679489661923", "PI_4": "0.78539816339744830962", "1_PI": "0.31830988618379067154",
    "2_PI": "0.63661977236758134308", "2_SQRTPI": "1.12837916709551257390", "SQRT2": "1.41421356237309504880",
    "SQRT1_2": "0.70710678118654752440",
}  # fmt: skip


_MATH_MACROS = (
    _define("INFINITY", "__int_as_float(0x7f800000)")
    + _define("NAN", "__int_as_float(0x7fc00000)")
    + _define("HUGE_VALF", "__int_as_float(0x7f800000)")
    + _define("HUGE_VAL", "__longlong_as_double(0x7ff0000000000000LL)")
    + "".join(_define(f"M_{name}", value) for name, value in _CONSTANTS.items())
)
_NULLPTR = "namespace std { using nullptr_t = decltype(nullptr); }\n"
_OFFSETOF = _define("offsetof", "__builtin_offsetof")

_STDINT = _from_cuda("cstdint", _own_integers())
_CLIMITS = _from_cuda("climits", _LIMITS)
_CFLOAT = _from_cuda("cfloat", _FLOATS)
_NOTHING = "/* all that device code may use of this is built in */\n"

HEADERS: dict[str, str] = {
    name: f"#pragma once\n{text}"
    for name, text in {
        "stdint.h": _STDINT,
        "cstdint": _STDINT + _standard(_INTEGERS),
        "inttypes.h": _STDINT + _formats(),
        "cinttypes": _STDINT + _formats() + _standard(_INTEGERS),
        "stddef.h": _OFFSETOF,
        "cstddef": _OFFSETOF + _standard(["size_t", "ptrdiff_t"]) + _NULLPTR,
        "stdio.h": _NOTHING,
        "cstdio": _standard(["printf", "size_t"]),
        "stdlib.h": _NOTHING,
        "cstdlib": _standard(["abs", "labs", "malloc", "free", "size_t"]),
        "string.h": _NOTHING,
        "cstring": _standard(["memcpy", "memset", "size_t"]),
        "math.h": _MATH_MACROS,
        "cmath": _MATH_MACROS + _standard(_MATH),
        "assert.h": _NOTHING,
        "cassert": _NOTHING,
        "limits.h": _CLIMITS,
        "climits": _CLIMITS,
        "float.h": _CFLOAT,
        "cfloat": _CFLOAT,
        "cuda_runtime.h": _NOTHING,
        "cuda_runtime_api.h": _NOTHING,
        "device_launch_parameters.h": _NOTHING,
    }.items()
}  # fmt: skip
"""Text by name."""


def missing_headers(folders: Sequence[str]) -> dict[str, str]:
    """Those of :data:`HEADERS` that no folder has: a header on disk is the author's choice and comes first."""
    return {n: text for n, text in HEADERS.items() if not any(os.path.isfile(f"{folder}/{n}") for folder in folders)}


# -- advice --------------------------------------------------------------------------------------------------------

_IN_CUDA = _words(
    "algorithm array atomic barrier bit bitset chrono complex concepts expected functional initializer_list iterator "
    "latch limits mdspan memory numbers numeric optional random ranges ratio semaphore span string_view tuple "
    "type_traits utility variant"
)
_HOST_ONLY = _words(
    "any cctype cerrno cfenv charconv clocale condition_variable csignal cstdarg ctime cwchar deque exception "
    "execution filesystem format forward_list fstream future iomanip ios iosfwd iostream istream list locale map "
    "memory_resource mutex new ostream print queue regex set shared_mutex sstream stack stacktrace stdexcept "
    "streambuf string strstream system_error thread typeindex typeinfo unordered_map unordered_set valarray vector "
    "ctype.h dirent.h dlfcn.h errno.h fcntl.h fenv.h getopt.h locale.h malloc.h omp.h pthread.h setjmp.h signal.h "
    "stdarg.h stdbool.h strings.h time.h unistd.h wchar.h"
)
_HOST_FOLDERS = ("sys/", "arpa/", "netinet/", "bits/", "x86_64-linux-gnu/", "thrust/", "boost/")

GUARD = (
    "NVRTC compiles device code only: put what belongs to the host between #ifndef __CUDACC_RTC__ and #endif, or the "
    "kernels into a file of their own"
)


def header_advice(name: str) -> str:
    """What to do about a missing header that belongs to the host; empty for any other."""
    if name in _IN_CUDA:
        return f"device code takes it from CUDA: write #include <cuda/std/{name}> and cuda::std:: for std::; {GUARD}"
    if name in _HOST_ONLY or name.startswith(_HOST_FOLDERS):
        return f"<{name}> is a header of the host. {GUARD}"
    return ""


def is_host_code(log: str) -> bool:
    """Whether NVRTC complains of functions that are not for the device."""
    return bool(
        re.search(r"host functions? (?:and |are |is )?.*not allowed in JIT mode|__host__ function is not allowed", log)
    )


HOST_CODE_ADVICE = (
    f"{GUARD}. A function that kernels call is marked __device__ (or pass options=['-default-device']). Launches "
    "(<<<...>>>) and main() are Python's part: module.kernel[grid, block](...)"
)

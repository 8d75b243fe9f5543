"""The functions of :mod:`interop.executor.prelude` for several lanes: the same text over vectors.

The prelude is straight-line IR, so each type becomes a vector of it and each constant the same constant in all lanes.
"""

from __future__ import annotations

import re
from functools import cache

from . import prelude

_TOKEN = re.compile(r"(@[\w.]+)|(%[\w.]+)|\b(i\d+|float|double)\b|(?<![\w.%@])(-?\d[\w.+-]*|true|false)(?![\w.])")
_CALL = re.compile(r"call (<\d+ x \w+>) (@llvm\.[\w.]+)\((.*)\)")
_MANGLED = re.compile(r"\.([if]\d+)")


def vector_name(name: str, lanes: int) -> str:
    """The name of the function `name` for that many lanes."""
    return f"{name}.v{lanes}"


@cache
def vector_function(name: str, lanes: int) -> tuple[str, list[str], list[tuple[str, str]]]:
    """The text of ``vector_name(name, lanes)``, the functions of the prelude that it calls, and its declarations.

    >>> text, uses, declarations = vector_function("bfloat_to_float", 8)
    >>> "zext <8 x i16> %h to <8 x i32>" in text and "shl <8 x i32> %x, splat (i32 16)" in text
    True
    """
    lines = [_widen(line, lanes) for line in prelude.FUNCTIONS[name].splitlines()]
    declarations = []
    for line in lines:
        match = _CALL.search(line)
        if match:
            types = ", ".join(re.findall(r"<\d+ x \w+>", match[3]))
            declarations.append((match[2][1:], f"declare {match[1]} {match[2]}({types})"))
    return "\n".join(lines) + "\n", prelude.USES[name], declarations


def _widen(line: str, lanes: int) -> str:
    type_ = ""

    def replace(match: re.Match[str]) -> str:
        nonlocal type_
        function, value, kind, constant = match.groups()
        if function:
            if function.startswith("@interop."):
                return vector_name(function, lanes)
            return _MANGLED.sub(rf".v{lanes}\1", function)
        if value:
            return value
        if kind:
            type_ = kind
            return f"<{lanes} x {kind}>"
        return f"splat ({type_} {constant})"

    return _TOKEN.sub(replace, line)

"""Small printers for C: strings, comments, numbers, wrapped argument lists."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence

import numpy as np

COLUMNS = 120


def c_string(text: str) -> str:
    r"""`text` as a C string literal in ASCII.

    >>> c_string('a "b" ??/')
    '"a \\"b\\" ?\\?/"'
    """
    out = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out).replace("??", "?\\?") + '"'


def comment_text(text: str) -> str:
    """`text` made safe for the inside of a block comment: nothing ends it, hides in it or turns it around.

    >>> comment_text("*/ \\u202e")
    '* / <U+202E>'
    """
    return visible(text).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").rstrip("\\")


def visible(text: str) -> str:
    """`text` with control characters, and those that change its direction, written as numbers.

    >>> visible("a \\x1b[2J")
    'a <U+001B>[2J'
    """
    return "".join(f"<U+{ord(c):04X}>" if _is_unseen(c) else c for c in text)


def _is_unseen(char: str) -> bool:
    """What compilers warn of and terminals obey; a tab and the end of a line are neither."""
    return char not in "\t\n" and unicodedata.category(char) in ("Cc", "Cf")


def doc_comment(lines: Sequence[str], indent: str = "") -> str:
    """A Doxygen comment of `lines`."""
    safe = [comment_text(line) for line in lines]
    body = [f"{indent} * {line}".rstrip() for line in safe]
    return "\n".join([f"{indent}/**", *body, f"{indent} */"])


def wrapped(text: str, width: int) -> list[str]:
    """The lines of `text`, those longer than `width` wrapped; what goes on is indented like the line's own text."""
    result: list[str] = []
    for line in text.splitlines():
        start = len(line) - len(line.lstrip(" -"))
        result += textwrap.wrap(line, width, subsequent_indent=" " * start) if len(line) > width else [line.rstrip()]
    return result


def listed(words: Sequence[str]) -> str:
    """`words` as a sentence lists them.

    >>> listed(["grid"]), listed(["block", "grid", "shared memory"])
    ('grid', 'block, grid and shared memory')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def call(head: str, arguments: Sequence[str], tail: str) -> str:
    """``head(arguments)tail`` with the arguments filled into lines under the opening parenthesis, as clang-format does.

    >>> call("int f", ["int a", "int b"], ";")
    'int f(int a, int b);'
    """
    line = f"{head}("
    column = len(line.rsplit("\n", 1)[-1])
    lines, indent = [], " " * column
    for index, argument in enumerate(arguments):
        last = index == len(arguments) - 1
        piece = argument + (f"){tail}" if last else ",")
        if line.strip() and not line.endswith("(") and len(line) + 1 + len(piece) > COLUMNS:
            lines.append(line)
            line = indent + piece
        else:
            line += piece if line.endswith("(") or line == indent else " " + piece
    if not arguments:
        line += f"){tail}"
    return "\n".join([*lines, line])


def nested_call(expression: str, indent: str) -> list[str]:
    """A nest of calls as indented lines, broken only where it does not fit.

    >>> nested_call("f(a, g(b))", "    ")
    ['    f(a, g(b))']
    """
    if len(indent) + len(expression) < COLUMNS or not expression.endswith(")"):
        return [indent + expression]
    head, arguments = _split_call(expression)
    lines = [f"{indent}{head}("]
    for argument in arguments:
        lines += nested_call(argument, indent + "    ")
        lines[-1] += ","
    lines[-1] = lines[-1][:-1] + ")"
    return lines


def nested_initialiser(pair: str, indent: str) -> list[str]:
    """``{"text", value}`` followed by a comma; the value goes on lines of its own where it does not fit."""
    if len(indent) + len(pair) < COLUMNS:
        return [f"{indent}{pair},"]
    text, value = pair[: pair.index('", ') + 1], pair[pair.index('", ') + 3 :]
    lines = [f"{indent}{text},", *nested_call(value[:-1], indent + " ")]
    lines[-1] += "},"
    return lines


def _split_call(expression: str) -> tuple[str, list[str]]:
    """``f(a, g(b, c))`` as ``f`` and its arguments."""
    head, rest = expression.split("(", 1)
    arguments, depth, start = [], 0, 0
    for position, char in enumerate(rest):
        if char == "," and depth == 0:
            arguments.append(rest[start:position])
            start = position + 1
        depth += {"(": 1, ")": -1}.get(char, 0)
    return head, [a.strip() for a in [*arguments, rest[start:-1]]]


def float_literal(value: float, is_f32: bool) -> str:
    """`value` as a C11 and C++17 expression: the shortest decimal that a compiler reads back as the same number.

    >>> float_literal(0.1, True), float_literal(float("-inf"), False)
    ('0.1f', '-INFINITY')
    """
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{np.float32(value)!s}f" if is_f32 else repr(value)


def integer_literal(value: int) -> str:
    """`value` as a C expression of a type wide enough for it."""
    if value == -(1 << 63):
        return "(-INT64_C(9223372036854775807) - 1)"
    if value > (1 << 63) - 1:
        return f"UINT64_C({value})"
    return str(value) if -(1 << 31) < value < 1 << 31 else f"INT64_C({value})"

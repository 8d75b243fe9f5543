"""Translates mutated PTX in this process: one text a line on the standard input, as JSON; one answer a line.

Run as a program, so that a crash of LLVM is seen from outside as what it is. An answer is "compiled", "refused: …" or
"broken: …", the last for an exception that is no error of this library.
"""

from __future__ import annotations

import json
import random
import re
import sys
import traceback
from collections.abc import Sequence

_STATEMENT = re.compile(r"^[ \t]*(?:@!?%\w+[ \t]+)?[a-z][\w.:]*[ \t][^;{}]*;", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+")
_NUMBER = re.compile(r"(?<![\w%.$])-?\d+(?![\w.])")
_MODIFIER = re.compile(r"\.[a-z]\w*")
NUMBERS = [
    "0", "1", "-1", "31", "32", "63", "64", "255", "2147483647", "-2147483648", "4294967295", "4294967296",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615", "0x7FFFFFFFFFFFFFFF", "0f7F800000",
    "0fFFC00001", "0d7FF0000000000000", "1.5", "1e400",
]  # fmt: skip


def mutate(text: str, others: Sequence[str], rng: random.Random) -> str:
    """A few changes that leave most of the text valid: whole statements, registers, numbers, modifiers."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        kind = rng.choice(["drop", "repeat", "move", "borrow", "register", "number", "modifier", "operand", "name"])
        statements = [m.span() for m in _STATEMENT.finditer(text)]
        if not statements:
            return text
        begin, end = rng.choice(statements)
        piece = text[begin:end]
        if kind == "drop":
            piece = ""
        elif kind == "repeat":
            piece = f"{piece}\n{piece}"
        elif kind == "move":
            first, last = rng.choice(statements)
            piece = f"{piece}\n{text[first:last]}"
        elif kind == "borrow":
            other = rng.choice(others)
            spans = [m.group() for m in _STATEMENT.finditer(other)]
            piece = f"{piece}\n{rng.choice(spans)}" if spans else piece
        else:
            piece = _change(piece, kind, text, rng)
        text = text[:begin] + piece + text[end:]
    return text


def _change(piece: str, kind: str, text: str, rng: random.Random) -> str:
    if kind == "name":
        return rng.choice(_NAMES) + piece[piece.find(" ") if " " in piece else len(piece) :]
    if kind == "operand":
        head, _, operands = piece.rstrip(";").partition(" ")
        parts = operands.split(",")
        rng.shuffle(parts)
        return f"{head} {','.join(parts[: rng.randint(0, len(parts))])};"
    pattern = {"register": _REGISTER, "number": _NUMBER, "modifier": _MODIFIER}[kind]
    spans = [m.span() for m in pattern.finditer(piece)]
    if not spans:
        return piece
    begin, end = rng.choice(spans)
    if kind == "number":
        new = rng.choice(NUMBERS)
    else:
        new = rng.choice([m.group() for m in pattern.finditer(text)] + ["", ".v4", ".f16x2", ".b128", ".sat", ".rz"])
    return piece[:begin] + new + piece[end:]


_NAMES = [
    "add.s32", "sub.u64", "mul.wide.s32", "mad.lo.s32", "fma.rn.f32", "div.rn.f64", "setp.lt.f32", "selp.b32",
    "cvt.rn.f16.f32", "ld.global.v4.f32", "st.shared.b64", "ld.local.u8", "atom.global.cas.b64", "red.shared.add.u32",
    "shfl.sync.idx.b32", "vote.sync.ballot.b32", "bar.sync", "bar.red.popc.u32", "mov.b64", "prmt.b32", "bfe.s64",
    "bfi.b32", "lop3.b32", "shf.l.wrap.b32", "min.NaN.f16x2", "ex2.approx.ftz.f32", "cp.async.ca.shared.global",
    "call", "bra", "brx.idx", "ret", "exit", "trap", "alloca.u64", "cvta.to.shared.u64", "isspacep.global",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "match.any.sync.b32", "redux.sync.add.s32", "nanosleep.u32", "dp4a.u32.s32",
]  # fmt: skip


def translate(text: str) -> str:
    """Everything up to machine code, for all kernels of a text."""
    from abi import Error
    from interop import ptx
    from interop.executor import compile_kernel

    try:
        names = list(ptx.parse(text).entries)
        for name in names[:2]:
            compile_kernel(text, name)
    except Error as error:
        said = str(error)
        return "broken: " + said if "internal error" in said else "refused: " + said[:200]
    except BaseException:
        return "broken: " + traceback.format_exc()
    return "compiled"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(translate(json.loads(line))), flush=True)

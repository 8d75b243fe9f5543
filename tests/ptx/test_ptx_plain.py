"""Plain statements are read by one expression to just what the parser makes of them, lines included."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ptx_parse import HEAD, NVRTC

from interop import ptx
from interop.ptx import PtxSyntaxError, ast, body, plain

TRITON = Path(__file__).resolve().parents[1] / "compilers" / "data" / "triton"
NEVER = re.compile("(?!)")


def outcome(text: str, instruction: re.Pattern[str], other: re.Pattern[str]) -> list[str]:
    """Trees as text, with lines, or the errors."""
    found = []
    with patch.object(body, "INSTRUCTION", instruction), patch.object(body, "OTHER", other):
        try:
            functions = ptx.parse(text).functions
        except PtxSyntaxError as error:
            return [str(error)]
        for function in functions:
            try:
                found.append(repr(function.body))
            except PtxSyntaxError as error:
                found.append(str(error))
    return found


def agree(text: str) -> None:
    assert outcome(text, plain.INSTRUCTION, plain.OTHER) == outcome(text, NEVER, NEVER)


@pytest.mark.parametrize("path", sorted(TRITON.glob("*.ptx")), ids=lambda path: path.stem)
def test_texts_of_triton(path: Path) -> None:
    agree(path.read_text())


def test_what_nvrtc_writes() -> None:
    agree(NVRTC)


PIECES = [
    "add.s32 %r1, %r2, 5;",
    "@%p1 bra L;",
    "@!%p1 ld.global.v2.f32 {%f1, _}, [%rd1+-4];",
    "L:",
    "L :",
    "L: // c\n",
    "ts: .branchtargets L;",
    "p: .callprototype (.param .b32 _) _ (.param .b64 _);",
    "call (r), f, (a, b);",
    "ret;",
    "{",
    "}",
    ".reg .b32 %r<5>;",
    ".reg .b3 %r;",
    ".reg .pred %p;",
    ".reg .b32 %r<0>;",
    ".reg .v4 .f32 %v;",
    ".loc 1 5 0\n",
    ".loc 1 5",
    "mov.b32 %r1, 0x7FU;",
    "mov.b32 %r1 , x+4 ;",
    "//",
    "/*",
    "*/",
    '"',
    ";",
    ",",
    ":",
    "@",
    "[",
    "]",
    "(",
    ")",
    "\n",
    " ",
    "\t",
    "%p1",
    "bra",
    '.pragma "nounroll";',
    "shfl.sync.up.b32 %r1",
    "%p1, %r2, 1, 0, -1;",
    "tex.2d {%f1}, [t, {%f2}];",
    "mov.f32 %f1, 0f3F800000;",
    "mov.f64 %f1, 1.5;",
    "mov.u32 %r1, -5;",
    "a.b::c.d x;",
    "setp.lt.s32 %p1",
    "%p2, %r1, !%p3;",
    "é",
    "9",
]


@settings(max_examples=600)
@given(st.lists(st.sampled_from([*PIECES, "%r1|%p1"]), max_size=12), st.sampled_from(["", " ", "\n"]))
def test_statements_in_any_order(pieces: list[str], between: str) -> None:
    agree(HEAD + ".entry k() {" + between.join(pieces) + "}")


def test_operands_are_shared_and_forgotten() -> None:
    assert plain.read_operands("%r1, [%rd1+8], {%a, %b}") == (
        ast.Name("%r1"),
        ast.Address((ast.Offset(ast.Name("%rd1"), 8),)),
        ast.Vector((ast.Name("%a"), ast.Name("%b"))),
    )
    assert plain.read_operands("%r1,") is None and plain.read_operands("%r1, %r2 %r3") is None
    for number in range(plain.MOST + 10):
        assert plain.read_operands(f"%q{number}") == (ast.Name(f"%q{number}"),)
    assert len(plain._operands) <= plain.MOST


@pytest.mark.parametrize(
    "body_text",
    [
        "x : " * 100_000,
        "x: .b " * 100_000,
        "\n" * 500_000 + '"',
        "//\n" * 300_000 + '"',
        "a " * 300_000,
        "a {" * 100_000,
        ("a" * 1000 + " (b);\n") * 500,
        "a [[{[{" * 50_000 + ";",
        "@p " * 100_000,
        ".reg .b32 %r<" * 50_000,
        "{a b c" * 200,
    ],
    ids=range(11),
)
def test_hostile_statements_cost_linear_time(body_text: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(PtxSyntaxError):
        assert ptx.parse(HEAD + ".entry k() {" + body_text + "}").entries["k"].body
    assert time.perf_counter() - start < 10.0  # a second on an idle core

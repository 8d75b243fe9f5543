"""Constant expressions, against a model of C's rules and against an assembler."""

from __future__ import annotations

import random
import struct

import pytest
from support.assemble import assemble

from interop import ptx
from interop.ptx import PtxSyntaxError, ast

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def operand(text: str, type_: str = "u64") -> ast.Operand:
    """What an immediate operand means."""
    body = ptx.parse(HEAD + f".entry k() {{ mov.{type_} %r, {text}; }}").entries["k"].body
    assert body is not None and isinstance(body[0], ast.Instruction)
    return body[0].operands[1]


def value(text: str) -> int:
    found = operand(text)
    assert isinstance(found, ast.Integer), found
    return found.value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(1 << 5) + 7 * 3 - 40 / 7 % 3", 32 + 21 - 2),
        ("-17 / 5", -3), ("-17 % 5", 4), ("17 / -5", -3), ("5 > 3 ? 7 : 9", 7), ("0 ? 1 : 0 ? 2 : 3", 3),
        ("1 + 2 * 3 - 4", 3), ("2 * (3 + 4)", 14), ("(((7)))", 7), ("-(3 - 5)", 2), ("- - 3", 3), ("+4", 4),
        ("~0", 2**64 - 1), ("!5", 0), ("!0 + 1", 2), ("~(1 << 3) & 0xFF", 0xF7), ("1 << 63", -(2**63)),
        ("1U << 63", 2**63), ("-8 >> 1", -4), ("0xFFFFFFFFFFFFFFF8 >> 1", 0x7FFFFFFFFFFFFFFC), ("1 << 64", 1),
        ("-1 >> 100", -1), ("3 < 4 == 1", 1), ("1 | 2 ^ 3 & 6", 1 | (2 ^ (3 & 6))), ("2 && 0 || 1", 1),
        ("-1 < 1U", 0), ("-1 < 1", 1), ("(.s64)0xFFFFFFFFFFFFFFFF / 2", 0), ("(.u64)-1 / 2", 2**63 - 1),
        ("40%3", 1), ("7 != 7", 0), ("5 >= 5", 1), ("5 <= 4", 0), ("(1.5 + 1.0) > 2.0", 1), ("(.s64)2.75", 2),
        ("0x7FFFFFFFFFFFFFFF + 1", -(2**63)),
    ],
)  # fmt: skip
def test_integers(text: str, wanted: int) -> None:
    assert value(text) == wanted


def test_reals() -> None:
    found = operand("(1.5 + 2.0) * 2.0 / 4.0 - 1.0", "f64")
    assert isinstance(found, ast.Float)
    assert struct.unpack("<d", struct.pack("<Q", found.bits))[0] == 0.75
    assert operand("0f3F800000", "f32") == ast.Float(0x3F800000, 32)


def test_where_they_may_stand() -> None:
    module = ptx.parse(
        HEAD
        + """.global .b32 table[4 * 8 - 1] = {1 + 1, (2 << 3), -(1), 3 > 2 ? 5 : 6}; .const .f64 half = 1.0 / 2.0;
.func f(.param .b32 x) { ret; }
.entry k() { ld.global.u32 %r, [table+4*2]; st.global.u32 [%rd + (3 - 1) * 8 - 4], 1 << 4; call f, (3); }"""
    )
    table, half = module.variables
    assert table.size == 124
    assert table.initializer == (ast.Integer(2), ast.Integer(16), ast.Integer(-1), ast.Integer(5))
    assert half.initializer == (ast.Float(struct.unpack("<Q", struct.pack("<d", 0.5))[0], 64),)
    load, store, call = module.entries["k"].body or ()
    assert (
        isinstance(load, ast.Instruction) and isinstance(store, ast.Instruction) and isinstance(call, ast.Instruction)
    )
    assert load.operands[1] == ast.Address((ast.Offset(ast.Name("table"), 8),))
    assert store.operands == (ast.Address((ast.Offset(ast.Name("%rd"), 12),)), ast.Integer(16))
    assert call.operands == (ast.Name("f"), ast.Group((ast.Integer(3),)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "'/' of these constants has no value"),
        ("1 % (2 - 2)", "'%' of these constants has no value"),
        ("1.0 << 2", "'<<' of these constants has no value"),
        ("(1 + 2", "expected ')'"),
        ("1 + ", "expected a number"),
        ("1 ? 2", "expected ':'"),
        ("1 + 0f3F800000", "a literal of 32 bits"),
        ("(" * 200 + "1" + ")" * 200, "nest too deeply"),
        ("1" + " ? 1 : 1" * 200, "nest too deeply"),
        ("1 +* 2", "expected a number"),
    ],
)  # fmt: skip
def test_errors(text: str, words: str) -> None:
    with pytest.raises(PtxSyntaxError, match=words.replace("(", r"\(").replace(")", r"\)")):
        operand(text)


def generated(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["0", "1", "7", "0x10", "255", "4294967295", "0x8000000000000000", "3U"])
    kind = rng.random()
    if kind < 0.15:
        return f"{rng.choice('-~!')}({generated(rng, depth - 1)})"
    if kind < 0.25:
        return f"({generated(rng, depth - 1)} ? {generated(rng, depth - 1)} : {generated(rng, depth - 1)})"
    operator = rng.choice(
        ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", ">", "==", "!=", "<=", ">=", "&&", "||"]
    )
    right = str(rng.randrange(64)) if operator in ("<<", ">>") else generated(rng, depth - 1)
    if operator in ("/", "%"):
        right = rng.choice(["1", "3", "10", "-7", "4294967296", "5U"])
    left = generated(rng, depth - 1)
    return f"({left}) {operator} {right}" if rng.random() < 0.5 else f"{left} {operator} ({right})"


def test_an_assembler_agrees() -> None:
    """It puts the same bytes into the variables that the expressions initialise as our values do."""
    rng = random.Random(9)
    texts = [generated(rng, 4) for _ in range(300)]
    values = [value(text) % 2**64 for text in texts]
    lines = [
        f".global .u64 v{k} = {text}; .global .u64 w{k} = {v:#x};" for k, (text, v) in enumerate(zip(texts, values))
    ]
    uses = " ".join(
        f"ld.global.u64 %a, [v{k}]; ld.global.u64 %b, [w{k}]; st.global.u64 [%p], %a; st.global.u64 [%p+8], %b;"
        for k in range(len(texts))
    )
    cubin = assemble(
        HEAD
        + "\n".join(lines)
        + f"\n.entry k(.param .u64 p) {{ .reg .b64 %a, %b, %p; ld.param.u64 %p, [p]; {uses} ret; }}"
    )
    for k, (text, wanted) in enumerate(zip(texts, values)):
        assert variable(cubin, f"v{k}") == variable(cubin, f"w{k}") == wanted.to_bytes(8, "little"), text


def variable(cubin: bytes, name: str) -> bytes:
    """The initial value of a variable of eight bytes, from the ELF file; zeros in a section without data."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    (count,) = struct.unpack_from("<H", cubin, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * k) for k in range(count)]
    for section in sections:
        if section[1] != 2:  # not the symbols
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            text, _, _, index, offset, _ = struct.unpack_from("<IBBHQQ", cubin, at)
            end = cubin.index(b"\0", names + text)
            if cubin[names + text : end] == name.encode():
                if sections[index][1] == 8:  # no data
                    return bytes(8)
                start = sections[index][4] + offset
                return cubin[start : start + 8]
    raise AssertionError(name)

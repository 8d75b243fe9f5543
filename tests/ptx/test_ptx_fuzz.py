"""Hostile and broken text: the reader gives a module or a PtxSyntaxError, soon, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_ptx_parse import HEAD, NVRTC

from interop import ptx
from interop.ptx import PtxSyntaxError

FEW = settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])


def read(text: str) -> None:
    try:
        module = ptx.parse(text)
    except PtxSyntaxError as error:
        assert str(error)
        return
    for function in module.functions:
        try:
            body = function.body
        except PtxSyntaxError as error:
            assert error.line >= 1 and str(error)
        else:
            assert body is None or ptx.print_function(function)


@FEW
@given(st.data())
def test_mutated_ptx(data: st.DataObject) -> None:
    """A few deletions, repetitions and replacements anywhere in a real module."""
    text = NVRTC
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        kind = data.draw(st.sampled_from(["delete", "repeat", "replace", "swap"]))
        piece = text[start:end]
        if kind == "delete":
            text = text[:start] + text[end:]
        elif kind == "repeat":
            text = text[:end] + piece * data.draw(st.integers(1, 3)) + text[end:]
        elif kind == "replace":
            new = data.draw(
                st.sampled_from(list('{}()[];,:|!@+-<>."/*%$0\0é') + ["0x", "/*", "//", ".reg", ".v4", "9" * 50])
            )
            text = text[:start] + new + text[end:]
        else:
            other = data.draw(st.integers(0, len(text)))
            text = text[:start] + text[other : other + 10] + text[end:]
    read(text)


@FEW
@given(st.text(alphabet=st.sampled_from(list('{}()[];,:|!@+-<>."/*%$0x1f \n_abUv')), max_size=80))
def test_arbitrary_bodies(body: str) -> None:
    read(HEAD + ".entry k() { " + body + " }")


@FEW
@given(st.text(max_size=60))
def test_arbitrary_text(text: str) -> None:
    read(text)
    read(HEAD + text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "{" * 100000,
        HEAD + ".entry k() {" + "{" * 100000,
        HEAD + ".entry k() {" + "{" * 100000 + "}" * 100000 + "}",
        HEAD + ".global .b8 x[1] = " + "{" * 100000,
        HEAD + ".global .b8 x[1] = " + "0x1(" * 100000,
        HEAD + ".global .b8 x[1] = " + "generic(" * 100000,
        HEAD + ".entry k() { mov.u32 %r1, " + "!" * 100000 + "; }",
        HEAD + ".entry k() { mov.u32 %r1, " + "a|" * 100000 + "; }",
        HEAD + ".entry k() { mov.u32 %r1, " + "-" * 100000 + "; }",
        HEAD + ".entry k() { ld.u32 %r1, " + "[" * 100000 + "; }",
        HEAD + "/*" * 100000,
        HEAD + '"' * 100001,
        HEAD + "." * 100000,
        HEAD + "9" * 100000,
        HEAD + ".entry k() { mov.u32 %r1, 0x" + "f" * 100000 + "; }",
        HEAD + ".entry k() { mov.f64 %f1, 1." + "9" * 100000 + "e" + "9" * 1000 + "; }",
        HEAD + ".entry k() { " + "a" * 100000 + ".b" * 100000 + "; }",
        HEAD + ".entry k() {" + " ts: .branchtargets" * 10000,
    ],
    ids=range(18),
)
def test_hostile_text_ends_soon(text: str) -> None:
    read(text)


GROWING = {
    "labels": lambda n: ".entry k() {" + "".join(f"L{k}:\n" for k in range(n)) + "}",
    "labels of one line": lambda n: ".entry k() {" + "L:" * n + "}",
    "lists of targets": lambda n: ".entry k() {" + "t: .branchtargets a;\n" * n + "}",
    "source lines": lambda n: ".entry k() {" + ".loc 1 1 1\n" * n + "}",
    "comments": lambda n: ".entry k() {" + "//\n" * n + "/* */" * n + "}",
    "registers": lambda n: ".entry k() {" + "".join(f".reg .b32 %r{k};\n" for k in range(n)) + "}",
    "scopes": lambda n: ".entry k() {" + "{}\n" * n + "}",
    "no semicolons": lambda n: ".entry k() {" + "add.u32 %r1\n" * n + "}",
    "operands": lambda n: ".entry k() { add.u32 " + "%r1, " * n + "%r1; }",
    "prototypes": lambda n: ".entry k() {" + "p: .callprototype _ ();\n" * n + "}",
    "functions": lambda n: "".join(f".func f{k}() {{ ret; }}\n" for k in range(n)),
    "functions without an end": lambda n: ".func f() {\n" * n,
    "variables": lambda n: "".join(f".global .u32 v{k};\n" for k in range(n)),
    "initial values": lambda n: ".global .u32 v[] = {" + "1," * n + "1};",
    "parameters": lambda n: ".entry k(" + ",".join(f".param .u32 p{k}" for k in range(n)) + ") { ret; }",
    "a long name": lambda n: ".entry k() { " + "a" * n + ".b" * n + "; }",
    "brackets": lambda n: ".entry k() { a " + "[" * n + "; }",
}


@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_length_only(name: str) -> None:
    """A million labels take four times as long as a quarter of a million."""

    def seconds(count: int) -> float:
        text = HEAD + GROWING[name](count)
        start = time.process_time()
        read(text)
        return time.process_time() - start

    seconds(100)
    assert seconds(40000) < 12 * min(seconds(10000), seconds(10000)) + 0.3

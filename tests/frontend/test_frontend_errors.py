"""Error messages: each kernel of bad_kernels.py has its message in golden/NAME.txt.

``UPDATE_GOLDEN=1 pytest tests/frontend`` writes the files anew; read the difference before it is committed.
"""

from __future__ import annotations

import ast
import inspect
import os
import runpy
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.compiling import compile_kernel_function

import abi
from interop.errors import CompileError, RaceError, SyntaxError_

sys.path.insert(0, str(Path(__file__).parent))
import bad_kernels

GOLDEN = Path(__file__).parent / "golden"
HELPERS = ("device", "helper")
KERNELS: dict[str, Callable[..., Any]] = {
    name: value
    for name, value in vars(bad_kernels).items()
    if inspect.isfunction(value) and value.__module__ == "bad_kernels" and name not in HELPERS
}


def message(function: Callable[..., Any]) -> str:
    with pytest.raises(CompileError) as caught:
        compile_kernel_function(function, **getattr(function, "contract", {}))
    text = f"{type(caught.value).__name__}\n{caught.value}\n"
    for path in (bad_kernels.__file__, os.path.relpath(str(bad_kernels.__file__))):
        text = text.replace(str(path), "bad_kernels.py")
    return text


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_message_is_as_agreed(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = message(KERNELS[name])
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_every_golden_file_has_its_kernel() -> None:
    assert {p.stem for p in GOLDEN.glob("*.txt")} == set(KERNELS)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_message_names_place_and_shows_the_line(name: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_kernel_function(KERNELS[name], **getattr(KERNELS[name], "contract", {}))
    location = caught.value.location
    assert location is not None
    source = Path(str(bad_kernels.__file__)).read_text().splitlines()
    assert location.text == source[location.line - 1]
    assert location.text.strip() in str(caught.value)
    # A caret points at something, not at blanks.
    assert location.text[location.column - 1] not in " \t"


def advised_lines(error: CompileError) -> str:
    """The program text in a help, which is what stands indented in it."""
    return textwrap.dedent("\n".join(line for line in error.help.splitlines() if line.startswith("    ")))


FOLLOWED = [
    "histogram", "sum_into_one", "sum_of_block", "write_block_index", "write_block_index_2d",
    "write_block_index_guarded", "write_constant_index", "write_constant_index_1d", "write_constant_index_2d",
    "write_constant_index_guarded", "write_constant_index_shared_witness",
    "write_merged", "write_own_stride_loop", "write_range_loop", "write_reversed", "write_scattered", "write_shifted",
    "write_stride_loop_other_step", "write_stride_loop_own_stop", "write_stride_while_used_after",
    "write_thread_index", "write_wrong_rank",
]  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_advice_that_is_pasted_compiles(name: str, tmp_path: Path) -> None:
    function = KERNELS[name]
    contract = getattr(function, "contract", {})
    with pytest.raises(RaceError) as caught:
        compile_kernel_function(function, **contract)
    advised, place = advised_lines(caught.value), caught.value.location
    if advised.startswith("for "):
        place = next(note.location for note in caught.value.notes if "the loop" in note.message)
        ast.parse(f"{advised}\n    pass")
    else:
        ast.parse(advised)
    assert place is not None
    lines, first = inspect.getsourcelines(function)
    at = place.line - first
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = textwrap.indent(advised, indent) + "\n"
    path = tmp_path / f"{name}_advised.py"
    path.write_text("import interop as io\nfrom interop import simt\n" + "".join(lines))
    compile_kernel_function(runpy.run_path(str(path))[name], **contract)


@pytest.mark.parametrize("name", sorted(n for n in KERNELS if n not in FOLLOWED))
def test_only_kernels_that_are_followed_have_program_text(name: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_kernel_function(KERNELS[name], **getattr(KERNELS[name], "contract", {}))
    assert not advised_lines(caught.value) or name == "write_stride_while"


def test_unsupported_constructs_are_also_the_general_error() -> None:
    with pytest.raises(abi.UnsupportedError):
        compile_kernel_function(bad_kernels.comprehension)


def test_source_that_is_not_available() -> None:
    namespace: dict[str, Any] = {}
    exec("def hidden(n):\n    pass\n", namespace)
    with pytest.raises(SyntaxError_, match=r"the source text of 'hidden' is not available(.|\n)*help: .*\.py file"):
        compile_kernel_function(namespace["hidden"])


def test_lambda_is_refused() -> None:
    with pytest.raises(SyntaxError_, match="lambda"):
        compile_kernel_function(lambda x: None)


UNSUPPORTED = {
    "class A: pass": "a class",
    "f = lambda v: v": "a lambda",
    "global g": "'global'",
    "nonlocal_ = [1, 2]": "a list",
    "d = {}": "a dict",
    "s = 'text'": "a string",
    "t = f'{n}'": "an f-string",
    "c = 2j": "a complex number",
    "raise ValueError": "'raise'",
    "del n": "'del'",
    "import math": "'import'",
    "def inner(): pass": "a nested function",
    "x = (v := 3)": "':='",
    "a, *b = (1, 2, 3)": "'\\*' unpacking",
    "z = n in (1, 2)": "'in'",
    "z = n is None": "'is'",
    "z = n @ n": "the operator '@'",
    "print(n)": "print\\(\\)",
    "z = int(n)": "int\\(\\), which does not say a width",
    "z = sum((1, 2))": "sum\\(\\)",
    "z = 1.5 // io.f32(n)": "'//' of floats",
    "z = io.f32(n) % 2.0": "'%' of floats",
    "z = n ** n": "'\\*\\*' of integers",
    "with open('x') as f: pass": "'with' other than io.unsafe",
    "for a, b in range(3): pass": "a loop target",
    "for k in 5, 6:\n        break": "'break' or 'continue' in a loop over a tuple",
    "for k in range(3):\n        pass\n    else:\n        pass": "'else' of a loop",
    "while n < 3:\n        pass\n    else:\n        pass": "'else' of a loop",
    "for k in x: pass": "a loop over x",
    "z = x[1:2]": "a slice of an array",
    "z = range(3)": "range\\(\\) outside a for statement",
    "z = simt.grid_stride(3)": "outside a for statement",
    "yield n": "'yield'",
    "z = x.T": "the attribute 'T' of an array",
    "n.real = 3": "an assignment to an attribute",
}


@pytest.mark.parametrize("statement", UNSUPPORTED)
def test_unsupported_python_is_named(statement: str, tmp_path: Path) -> None:
    import importlib.util

    path = tmp_path / "made_kernel.py"
    head = "import interop as io\nfrom interop import simt\n\ndef kernel(x: io.Slice[io.f32], n: io.i32):\n"
    path.write_text(f"{head}    {statement}\n")
    spec = importlib.util.spec_from_file_location("made_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(abi.UnsupportedError, match=UNSUPPORTED[statement]) as caught:
        compile_kernel_function(module.kernel)
    assert f"{path.name}:" in str(caught.value)
    assert caught.value.location is not None and caught.value.location.line >= 5

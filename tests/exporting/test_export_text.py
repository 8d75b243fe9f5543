"""Generated text: golden files, names, layouts, and the repository's own formatter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import export_kernels
import numpy as np
import pytest

import abi
from interop.exporting import Example, ExportReport, shim_path, status_header
from interop.exporting.names import RESERVED, kernel_names, parameter_names
from interop.exporting.text import c_string, call, float_literal, integer_literal, nested_call

Export = Callable[..., ExportReport]
GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("file", ["include/mix.h", "include/mix.hpp", "src/mix.c", "main.cpp", "selftest/selftest.c"])
def test_golden(quick_export: Export, file: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, and read the difference."""
    saxpy = export_kernels.saxpy()
    x = np.arange(4, dtype=np.float32)
    text = (quick_export([saxpy], examples=[Example(saxpy, (x, x + 1, 2.0))]) / file).read_text()
    golden = GOLDEN / f"{Path(file).name}.golden"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_status_header_is_that_of_the_table() -> None:
    assert (shim_path() / "include/interop/status.h").read_text() == status_header()


def test_formatter_has_nothing_to_say(quick_export: Export) -> None:
    tool = shutil.which("clang-format", path=str(Path(sys.executable).parent)) or shutil.which("clang-format")
    if not tool:
        pytest.skip("clang-format is not installed")
    report = quick_export(export_kernels.all_kernels())
    files = [*(report / "include").rglob("*.h*"), *(report / "src").glob("mix*.c"), report / "main.cpp"]
    files = [f for f in [*files, report / "selftest/selftest.c"] if f.name != "rule.h"]
    style = f"--style=file:{ROOT / '.clang-format'}"
    done = subprocess.run([tool, style, "--dry-run", "-Werror", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lines_fit(quick_export: Export) -> None:
    report = quick_export(export_kernels.all_kernels())
    for file in (report / "src/mix.c", report / "include/mix.h", report / "include/mix.hpp"):
        assert [line for line in file.read_text().splitlines() if len(line) > 120 and "\\n" not in line] == []


def test_no_placeholder_is_left(quick_export: Export) -> None:
    report = quick_export(export_kernels.all_kernels())
    for path in report.path.rglob("*"):
        if path.is_file() and path.suffix not in (".o", ".in", ".ptx", ".out") and "cmake" not in path.name.lower():
            assert "@NAME" not in path.read_text() and "@UPPER" not in path.read_text(), path


def test_keywords_and_clashes_get_underscores() -> None:
    assert kernel_names(["new", "load", "f", "f_ex", "cuda_sum"]) == {
        "new": "new_",
        "load": "load_",
        "f": "f_",
        "f_ex": "f_ex",
        "cuda_sum": "cuda_sum_",
    }
    names = parameter_names(["int", "int_", "module", "x", "class", "UINT8_MAX", "errno"])
    assert names == {
        "int": "int__",
        "int_": "int_",
        "module": "module_",
        "x": "x",
        "class": "class_",
        "UINT8_MAX": "UINT8_MAX_",
        "errno": "errno_",
    }
    assert not RESERVED & {"x", "y", "stream", "data"}


def test_names_of_generated_code_are_no_parameters() -> None:
    taken = ["interop_value", "runtime_run", "params_of_k", "mix_k_ex", "MIX_API", "handle_", "__LINE__", "I", "n"]
    assert list(parameter_names(taken, "mix").values()) == [
        "p_interop_value",
        "p_runtime_run",
        "p_params_of_k",
        "p_mix_k_ex",
        "p_MIX_API",
        "handle__",
        "__LINE___",
        "I_",
        "n",
    ]
    assert kernel_names(["handle", "handle_", "__func__"]) == {
        "handle": "handle__",
        "handle_": "handle___",
        "__func__": "__func___",
    }
    assert kernel_names(["API"], "MIX") == {"API": "API_"} and kernel_names(["API"], "mix") == {"API": "API"}


@pytest.mark.parametrize("name", ["math", "String", "test", "m", "interop_cpu", "cuda", None])
def test_libraries_cannot_take_the_names_of_headers_and_targets(quick_export: Export, name: str) -> None:
    with pytest.raises(abi.Error, match="cannot name an exported library"):
        quick_export([export_kernels.saxpy()], name=name)


def test_every_type_and_any_text_compile_without_a_warning(quick_export: Export) -> None:
    params = []
    for name, scalar in abi.SCALARS.items():
        params += [abi.Param(f"v_{name}", scalar), abi.Param(f"p_{name}", abi.Pointer(scalar), abi.Access.INOUT)]
        params += [abi.Param(f"s_{name}", abi.Slice(scalar)), abi.Param(f"t_{name}", abi.Tensor(scalar, 2))]
    names = ["interop_value", "interop_rule_add", "mix_k_ex", "runtime_run", "INTEROP_LEAVES_END", "uintptr_t", "I"]
    clashes = [abi.Param(n, abi.i32) for n in names] + [abi.Param("y", abi.Slice(abi.f32), abi.Access.INOUT)]
    hidden = [abi.Param("n_value", abi.i32), abi.Param("n", abi.i32, fill="n_value + 1")]
    text = "\\ */ ??/ @NAME@ %s %n \x1b[31m \u202e \x00 é\n*/\r/*"
    rules = [f"{n} + len(y) >= 0" for n in names]
    clash = export_kernels.idle("k", clashes + hidden)
    requires = tuple(abi.Requirement(r, note="@ALLOC@ %s ??/ é") for r in rules)
    launch = abi.Launch(export_kernels.exactly(32), ("ceil_div(len(y), block.x)",), "8 * grid.x")
    requires += clash.kernel.requires
    clash = replace(clash, kernel=replace(clash.kernel, doc=text, launch=launch, requires=requires))
    report = quick_export([export_kernels.idle("types", params), clash])
    warn = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
    where = [f"-I{report / 'include'}", f"-I{report / 'src'}", "-DINTEROP_PREFIX=mix_"]
    for file in ("src/mix.c", "src/mix_images.c", "main.cpp"):
        compiler = ["g++", "-std=c++17"] if file.endswith("cpp") else ["gcc", "-std=c11"]
        command = [*compiler, *warn, *where, str(report / file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert '"@ALLOC@ %s ?\\?/ ' in (report / "src/mix.c").read_text()


def test_docstrings_cannot_end_their_comment(quick_export: Export) -> None:
    text = (quick_export([export_kernels.block_sums()]) / "include/mix.h").read_text()
    assert "Ends a comment: * / and ? ?/" in text


def test_compiler_checks_the_layout_of_the_parameter_buffer(quick_export: Export) -> None:
    text = (quick_export([export_kernels.widths(), export_kernels.scale()]) / "src/mix.c").read_text()
    for member, offset in (("flag", 16), ("small", 17), ("middle", 18), ("large", 24), ("half", 32), ("point", 48)):
        assert f"offsetof(params_of_widths, {member}) == {offset}" in text
    assert "offsetof(params_of_scale, n) == 16" in text and "params.y = y.data;" in text


def test_literals() -> None:
    assert integer_literal(-(1 << 63)) == "(-INT64_C(9223372036854775807) - 1)"
    assert integer_literal(1 << 63) == "UINT64_C(9223372036854775808)"
    assert [float_literal(v, True) for v in (2.0, 1e-7, float("nan"))] == ["2.0f", "1e-07f", "NAN"]
    assert c_string('"\\\n\u00e9') == '"\\"\\\\\\n\\303\\251"'


def test_long_lists_are_filled_under_the_parenthesis() -> None:
    text = call("int function", [f"long argument_{i}" for i in range(15)], ";")
    lines = text.splitlines()
    assert len(lines) == 3 and all(len(line) <= 120 for line in lines)
    assert all(line.startswith(" " * len("int function(") + "long") for line in lines[1:])
    broken = nested_call(f"f({'a' * 60}, g({'b' * 60}, c))", "    ")
    assert broken == ["    f(", f"        {'a' * 60},", f"        g({'b' * 60}, c))"]


def test_header_says_what_hidden_parameters_in_its_rules_are(quick_export: Export) -> None:
    text = (quick_export([export_kernels.scale(), export_kernels.saxpy()]) / "include/mix.h").read_text()
    assert "grid (ceil_div(n, block.x)). Written in CUDA C++.\n * In these rules n = len(y).\n" in text
    assert text.count("In these rules") == 1


@pytest.mark.parametrize(
    ("rank", "block", "config", "c_config"),
    [
        (1, abi.Block(), "{{4}, {256}}", "{4, 1, 1}|{256, 1, 1}"),
        (2, abi.Block(), "{{2, 2}, {16, 16}}", "{2, 2, 1}|{16, 16, 1}"),
        (3, abi.Block(), "{{1, 1, 8}, {16, 16}}", "{1, 1, 8}|{16, 16, 1}"),
        (2, export_kernels.exactly(32, 4), "{{1, 8}, interop::from_contract}", "{1, 8, 1}|"),
    ],
)
def test_shown_calls_cover_the_arrays_they_show(
    quick_export: Export, rank: int, block: abi.Block, config: str, c_config: str
) -> None:
    params = [abi.Param("dst", abi.Tensor(abi.f32, rank), abi.Access.OUT)]
    kernel = export_kernels.idle("inc", params, abi.Launch(block))
    report = quick_export([kernel])
    readme, main = (report / "README.md").read_text(), (report / "main.cpp").read_text()
    assert f"m.inc({config}, dst" in readme and f"m.inc({config}, dst" in main
    for what, value in zip((".grid", ".block"), c_config.split("|")):
        assert (f"{what} = &(interop_dim3){value}" in readme.split("## From C\n")[1].split("Arrays are")[0]) is bool(
            value
        )


def test_what_main_calls_is_said(quick_export: Export) -> None:
    saxpy = export_kernels.saxpy()
    bare = export_kernels.idle("bare", [abi.Param("p", abi.Slice(abi.f32), abi.Access.INOUT)], abi.Launch())
    for kernels, first, words in (
        ([saxpy], "// Calls each kernel of mix once:", "`main.cpp` calls each kernel."),
        (
            [saxpy, bare],
            "// Calls the kernels of mix whose calls are known, and shows the others:",
            "For `bare`, `main.cpp` shows a call",
        ),
        ([bare], "// Shows a call of each kernel of mix to fill in:", "For every kernel, `main.cpp` shows a call"),
    ):
        report = quick_export(kernels)
        assert (report / "main.cpp").read_text().startswith(first)
        assert words in (report / "README.md").read_text()
        assert ("calls each kernel" in (report / "README.md").read_text()) is (kernels == [saxpy])

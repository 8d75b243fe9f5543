"""Real kernels to PTX: what the text holds, and that ptxas takes it for every target."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.assemble import ARCHITECTURES, assemble
from support.compiling import compile_kernel_function
from support.sample_kernels import SAMPLES, edges, matmul, raw_copy, reverse_block, saxpy, smooth, tone

import abi
import interop as io
from interop import simt


def ptx_of(function: Callable[..., Any], **contract: Any) -> str:
    return compile_kernel_function(function, **contract).program.images[0].text


@pytest.mark.parametrize("function", SAMPLES, ids=lambda f: f.__name__)
def test_assembles_for_every_architecture(function: Callable[..., Any]) -> None:
    ptx = ptx_of(function, **SAMPLES[function])
    for architecture in ARCHITECTURES:
        assert assemble(ptx, architecture)[:4] == b"\x7fELF"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_compiles_for_newer_targets(target: str) -> None:
    compiled = compile_kernel_function(tone, target=target, **SAMPLES[tone])
    image = compiled.program.images[0]
    assert image.target == target and f".target {target}" in image.text
    assert compiled.program.kernel.launch.min_cc == image.min_cc
    assemble(image.text, target)


@pytest.mark.parametrize("target", ["sm_70", "gfx90a", "sm_80x", ""])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(abi.UnsupportedError, match="target"):
        compile_kernel_function(saxpy, target=target)


def test_contract_and_guard_prove_all_bounds_checks_of_saxpy() -> None:
    assert "__assertfail" not in ptx_of(saxpy, **SAMPLES[saxpy])


def test_without_the_contract_the_check_stays() -> None:
    assert "__assertfail" in ptx_of(saxpy, block=256)


@pytest.mark.parametrize("function", [matmul, raw_copy], ids=lambda f: f.__name__)
def test_loops_and_unsafe_blocks_have_no_checks_either(function: Callable[..., Any]) -> None:
    assert "__assertfail" not in ptx_of(function, **SAMPLES[function])


def test_failed_check_reports_and_traps() -> None:
    ptx = ptx_of(edges, block=(32, 8))
    assert re.search(r"call\.uni\s+__assertfail", ptx)
    assert "trap" in ptx
    text = "an index of 'src' is out of range"
    assert ", ".join(str(b) for b in text.encode()) in ptx


def test_multiply_add_contracts_unless_told_not_to() -> None:
    assert "fma.rn.f32" in ptx_of(saxpy)
    separate = ptx_of(saxpy, contract=False)
    assert "fma.rn.f32" not in separate
    assert "mul.rn.f32" in separate and "add.rn.f32" in separate


def test_nothing_else_is_fast() -> None:
    def ratios(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        y[i] = io.sqrt(x[i]) / (x[i] + 1.0)

    ptx = ptx_of(ratios)
    assert "sqrt.rn.f32" in ptx and "div.rn.f32" in ptx
    assert "approx" not in ptx and "ftz" not in ptx


def test_libdevice_keeps_denormals_and_precise_roots() -> None:
    def lengths(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        y[i] = io.hypot(x[i], 2.0) + io.exp(x[i])

    ptx = ptx_of(lengths)
    assert "sqrt.rn.f32" in ptx
    assert "sqrt.approx" not in ptx and "fma.rn.ftz" not in ptx
    assert "reflect" not in ptx


def test_only_the_library_functions_in_use_are_linked() -> None:
    ptx = ptx_of(tone)
    assert ptx.count(".func") == ptx.count("__assertfail\n") == 1
    assert "__nv_" not in ptx


def test_block_rules_become_directives() -> None:
    assert ".reqntid 256, 1, 1" in ptx_of(saxpy, block=256)
    assert ".reqntid 32, 8, 1" in ptx_of(edges, block=(32, 8))
    assert ".maxntid 512" in ptx_of(reverse_block, **SAMPLES[reverse_block])
    free = ptx_of(smooth)
    assert ".reqntid" not in free and ".maxntid" not in free


def test_read_only_parameters_use_the_read_only_path() -> None:
    ptx = ptx_of(saxpy)
    assert "ld.global.nc" in ptx


def test_a_written_bare_pointer_may_alias_everything() -> None:
    ptx = ptx_of(raw_copy)
    assert ".nc" not in ptx


def test_dynamic_shared_memory_is_declared_external() -> None:
    ptx = ptx_of(reverse_block, **SAMPLES[reverse_block])
    assert re.search(r"\.extern \.shared \.align 16 \.b8 reverse_block_dynamic_shared\[\]", ptx)
    assert "%dynamic_smem_size" in ptx


def test_every_math_function_compiles_in_every_width() -> None:
    from interop.language.functions import MATH

    lines = []
    for name, intrinsic in MATH.items():
        arguments = ", ".join(["v", "w", "v"][: intrinsic.arity])
        call = f"io.{name}({arguments})"
        lines.append(f"total += 1.0 if {call} else 0.0" if name.startswith("is") else f"total += io.f64({call})")
    for width in ("f16", "bf16", "f32", "f64"):
        source = "\n    ".join(
            [
                f"def everything(x: io.Slice[io.{width}], y: io.DisjointSlice[io.f64]):",
                "i = simt.global_index()",
                "v = x[i]",
                "w = x[i + 1]",
                "total = io.f64(0)",
                *lines,
                "y[i] = total",
            ]
        )
        ptx = ptx_of(_define(source, "everything"))
        assert ".extern .func llvm" not in ptx
        assemble(ptx, "sm_80")


def _define(source: str, name: str) -> Callable[..., Any]:
    """A function from source text that `inspect` can find again."""
    import linecache

    file = f"<{name}-{abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, file, "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def test_output_is_reproducible() -> None:
    first, second = (ptx_of(edges, **SAMPLES[edges]) for _ in range(2))
    assert first == second


def test_dump_prints_the_stages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("INTEROP_DUMP", "ir,ptx")
    compile_kernel_function(saxpy, **SAMPLES[saxpy])
    printed = capsys.readouterr().err
    assert "--- ir of saxpy" in printed and "globalindex" in printed
    assert "--- ptx of saxpy" in printed and ".visible .entry saxpy" in printed
    assert "--- llvm" not in printed


def test_missing_libdevice_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from interop.codegen import libdevice

    libdevice.find.cache_clear()
    libdevice._subset.cache_clear()
    monkeypatch.setattr(libdevice, "_candidates", list)
    with pytest.raises(abi.UnsupportedError, match="pip install nvidia-nvvm"):
        ptx_of(tone)
    libdevice.find.cache_clear()

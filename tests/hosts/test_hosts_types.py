"""Kernels with parameters of every type, with and without contract: the whole folder compiles and runs."""

from __future__ import annotations

from pathlib import Path

import export_kernels
import ml_dtypes
import numpy as np
from host_support import LIBRARIES, WARNINGS, compile_library, run_tool

import abi
from abi import Access, Param
from abi.rules import no_block_message, no_grid_message, no_shared_message
from interop.exporting import Example, export

ELEMENTS = [abi.bool_, abi.i8, abi.u16, abi.i64, abi.f16, abi.bf16, abi.f64]


def zoo() -> export_kernels.HandMade:
    """An array and a scalar of every kind of element, tensors of several ranks, byte blocks, a bare pointer."""
    params = []
    for index, element in enumerate(ELEMENTS):
        access = Access.INOUT if index % 2 else Access.IN
        params += [Param(f"s{index}", abi.Slice(element), access), Param(f"v{index}", element)]
    params += [Param(f"t{rank}", abi.Tensor(ELEMENTS[rank], rank), Access.INOUT) for rank in (1, 3, 5)]
    params += [Param("blob", abi.Bytes(12, 4)), Param("wide", abi.Bytes(32, 16)), Param("p", abi.Pointer(abi.u32))]
    return export_kernels.idle("zoo", params)


def arguments() -> list[object]:
    names = {"bool": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u16": np.uint16}
    dtypes = [names.get(e.name) or np.dtype({"i64": "i8", "f64": "f8"}[e.name]) for e in ELEMENTS]
    values = [True, -128, 65535, -(2**63), -0.1, 3.14159, float("inf")]
    result: list[object] = []
    for dtype, value in zip(dtypes, values):
        result += [np.array([0, 1, 1, 0, 1]).astype(dtype), value]
    result += [np.ones((2,) * rank, dtypes[rank]) for rank in (1, 3, 5)]
    return [*result, bytes(range(12)), bytes(32), np.arange(3, dtype=np.uint32)]


def build_both(folder: Path, name: str, out: Path) -> None:
    """Builds ``out/selftest`` and ``out/main``, every warning an error."""
    objects = compile_library(folder, name, out, ["-O1"])
    include = [f"-I{folder / 'include'}", f'-DEXAMPLES="{folder}/selftest/data"']
    for compiler, standard, source, program in (
        ("gcc", "c11", "selftest/selftest.c", "selftest"),
        ("g++", "c++17", "main.cpp", "main"),
    ):
        command = [compiler, f"-std={standard}", *WARNINGS, *include, folder / source, *objects, *LIBRARIES]
        run_tool([*command, "-o", out / program])


BARE = {"INTEROP_DEVICE": "cpu"}


def test_every_type_arrives_with_its_example(tmp_path: Path) -> None:
    kernel = zoo()
    export([kernel], tmp_path / "zoo", name="zoo", arch=(), examples=[Example(kernel, arguments())])
    build_both(tmp_path / "zoo", "zoo", tmp_path / "build")
    selftest = run_tool([tmp_path / "build" / "selftest", "best"], env=BARE)
    main = run_tool([tmp_path / "build" / "main"], env=BARE)
    assert selftest == "zoo: ok (cpu)\n"
    assert "  s1 = 0 1 1 0 1\n" in main and "  t3 = 1 1 1 1 1 1 ...\n" in main


def test_without_examples_main_makes_up_small_arrays_or_says_why_not(tmp_path: Path) -> None:
    tame = zoo().kernel.params[:17]
    kernels = [
        export_kernels.idle("tame", [Param(p.name, p.type, p.access) for p in tame]),
        export_kernels.idle("loose", [Param("p", abi.Pointer(abi.f32), Access.INOUT)]),
        export_kernels.idle("unknown", [Param("p", abi.Pointer(), Access.INOUT)]),
        export_kernels.idle("nothing", [Param("x", abi.Slice(abi.f32))], abi.Launch()),
    ]
    export(kernels, tmp_path / "zoo", name="zoo", arch=(), levels=("x86-64-v2",))
    build_both(tmp_path / "zoo", "zoo", tmp_path / "build")
    main = run_tool([tmp_path / "build" / "main"], env=BARE)
    assert main.splitlines()[0] == "zoo on cpu (x86-64-v2)"
    assert "  t1 = 1 1 1 1 1 1 ...\n" in main
    text = (tmp_path / "zoo" / "main.cpp").read_text()
    assert text.count("call is yours to write") == 2 and "must give what you mean" in text


def test_kernel_without_a_contract_wants_grid_and_block(tmp_path: Path) -> None:
    kernel = export_kernels.idle("bare", [Param("p", abi.Pointer(), Access.INOUT)], abi.Launch(shared=""))
    export([kernel], tmp_path / "raw", name="raw", arch=(), levels=("x86-64-v2",))
    objects = compile_library(tmp_path / "raw", "raw", tmp_path / "build", ["-O1"])
    (tmp_path / "app.c").write_text(
        "#include <raw.h>\n#include <stdio.h>\nint main(void)\n{\n"
        "    interop_launch_config config = {.block = &(interop_dim3){.x = 32}};\n    raw_module *m;\n"
        "    if (raw_load(interop_device_cpu(), &m) || !raw_bare(m, NULL, NULL))\n        return 1;\n"
        "    puts(raw_last_error());\n    if (!raw_bare_ex(m, &config, NULL))\n        return 2;\n"
        "    puts(raw_last_error());\n    config.grid = &(interop_dim3){.x = 1};\n"
        "    if (!raw_bare_ex(m, &config, NULL))\n        return 3;\n    puts(raw_last_error());\n"
        "    config.shared_bytes = 16;\n    return raw_bare_ex(m, &config, NULL);\n}\n"
    )
    include = f"-I{tmp_path / 'raw' / 'include'}"
    run_tool(["gcc", "-std=c11", *WARNINGS, include, tmp_path / "app.c", *objects, *LIBRARIES, "-o", tmp_path / "app"])
    assert run_tool([tmp_path / "app"]).splitlines() == [
        f"{no_block_message('bare')}: set `block` in the launch configuration",
        f"{no_grid_message('bare')}: set `grid` in the launch configuration",
        f"{no_shared_message('bare')}: set `shared_bytes` in the launch configuration",
    ]

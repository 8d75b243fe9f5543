"""The code that an exported folder shows to its receiver: it compiles without a warning, and runs."""

from __future__ import annotations

import re
from pathlib import Path

import export_kernels
import numpy as np
import pytest
from host_support import LIBRARIES, WARNINGS, compile_library, run_tool

import abi
from abi import Access, Launch, Param
from interop.exporting import Example, export


def listing(folder: Path, language: str) -> str:
    """The README's one listing in `language`."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    return str(code)


def check_listings(folder: Path, name: str, where: Path) -> None:
    """Compiles the listings, and the calls that ``main.cpp`` has in comments, with every warning an error."""
    (where / "app.c").write_text(listing(folder, "c"))
    (where / "app.cpp").write_text(listing(folder, "cpp"))
    main = (folder / "main.cpp").read_text()
    (where / "main.cpp").write_text(main.replace("    //     ", "    ").replace("    (void)m;\n", ""))
    include, stop = f"-I{folder / 'include'}", "-fsyntax-only"
    run_tool(["gcc", "-std=c11", *WARNINGS, "-Wconversion", include, stop, where / "app.c"])
    for file in ("app.cpp", "main.cpp"):
        run_tool(["g++", "-std=c++17", *WARNINGS, "-Wshadow", include, stop, where / file])


RULELESS = export_kernels.idle(
    "ruleless", [Param("config", abi.Pointer(abi.f32), Access.INOUT), Param("m", abi.i32)], Launch(shared="")
)
STRANGE = [
    RULELESS,
    export_kernels.idle("gridless", [Param("y", abi.Pointer())], Launch(export_kernels.exactly(32))),
    export_kernels.idle("blockless", [Param("y", abi.Slice(abi.bool_), Access.OUT)], Launch(grid=("1",))),
    export_kernels.idle("halves", [Param("y", abi.Slice(abi.f16)), Param("a", abi.bf16), Param("b", abi.Bytes(8, 4))]),
    export_kernels.idle("deep", [Param("y", abi.Tensor(abi.u8, 5), Access.INOUT), Param("on", abi.bool_)]),
    export_kernels.idle("nothing", []),
]


@pytest.mark.parametrize("kernel", [*export_kernels.all_kernels(), *STRANGE], ids=lambda k: str(k.name))
def test_listings_compile_for_every_kind_of_kernel(kernel: export_kernels.HandMade, tmp_path: Path) -> None:
    export([kernel], tmp_path / "out", name="out", arch=(), levels=())
    check_listings(tmp_path / "out", "out", tmp_path)


def test_listings_call_the_kernel_and_succeed(tmp_path: Path) -> None:
    picture = np.arange(12, dtype=np.int32).reshape(3, 4)
    transpose = export_kernels.transpose()
    example = Example(transpose, (picture, np.zeros((4, 3), np.int32)))
    for kernels, examples in (([transpose], [example]), ([RULELESS], [])):
        name = kernels[0].name
        folder = tmp_path / name
        export(kernels, folder, name="out", examples=examples, arch=(), levels=("x86-64-v2",))
        check_listings(folder, "out", tmp_path)
        objects = compile_library(folder, "out", tmp_path / f"{name}_built", ["-O1"])
        for compiler, standard, source in (("gcc", "c11", "app.c"), ("g++", "c++17", "app.cpp")):
            program = tmp_path / f"{name}_{compiler}"
            include = f"-I{folder / 'include'}"
            run_tool([compiler, f"-std={standard}", include, tmp_path / source, *objects, *LIBRARIES, "-o", program])
            assert run_tool([program], env={"INTEROP_DEVICE": "cpu"}) == ""
        assert f"out_{name}" in listing(folder, "c") and f"m.{name}(" in listing(folder, "cpp")


def test_an_explicit_configuration_is_shown_where_one_is_needed(tmp_path: Path) -> None:
    export(STRANGE, tmp_path / "out", name="out", arch=(), levels=())
    main = (tmp_path / "out" / "main.cpp").read_text()
    assert "m.ruleless({{4}, {256}, 1024}, config_.data(), 1);" in main
    assert "m.gridless({{32}, interop::from_contract}, y.data());" in main
    assert "m.blockless({interop::from_contract, {256}}, y);" in main
    assert "no rule for block, grid and dynamic shared memory" in main
    header = " ".join((tmp_path / "out" / "include" / "out.h").read_text().replace(" * ", " ").split())
    assert "It must give block, grid and dynamic shared memory, for which the kernel has no rule." in header
    assert "grid given by the caller, shared memory given by the caller." in header

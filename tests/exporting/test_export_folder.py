"""The folder as a whole: complete or not there, the same bytes each time, never in another's place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import export_kernels
import numpy as np
import pytest

import abi
from abi import bundle
from interop.exporting import Example, ExportReport, export
from interop.exporting.images import have_assembler

Export = Callable[..., ExportReport]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32)
    for name in ("one", "two"):
        saxpy = export_kernels.saxpy()
        export([saxpy, export_kernels.scale()], tmp_path / name, name="mix", examples=[Example(saxpy, (x, x, 2.0))])
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.skipif(not have_assembler(), reason="nvJitLink is not installed")
def test_report_says_what_is_there(tmp_path: Path) -> None:
    report = export([export_kernels.scale()], tmp_path / "mix", name="mix", arch=(80, 90), levels=("x86-64-v3",))
    assert (report.kernels, report.cubins, report.levels) == (("scale",), ("sm_80", "sm_90"), ("x86-64-v3",))
    assert Path(report).is_dir() and (report / "README.md").is_file()


def test_bundle_can_be_read_and_is_checked(quick_export: Export) -> None:
    report = quick_export(export_kernels.all_kernels())
    found = bundle.read(report.path)
    assert [k.name for k in found.kernels] == ["saxpy", "scale", "transpose", "widths", "new"]
    assert [r.rule for r in found.kernel("saxpy").requires][-1] == "disjoint(y, *)"
    image = next((report.path / "images").iterdir())
    image.write_bytes(image.read_bytes().replace(b"ret;", b"ret ;", 1))
    with pytest.raises(abi.BundleError):
        bundle.read(report.path)


def test_one_image_for_kernels_that_share_it(quick_export: Export) -> None:
    report = quick_export(export_kernels.all_kernels())
    assert len(list((report.path / "images").iterdir())) == 1


def test_our_own_export_is_replaced_with_its_build_folder(quick_export: Export) -> None:
    report = quick_export([export_kernels.saxpy()])
    (report.path / "build").mkdir()
    (report.path / "build" / "CMakeCache.txt").write_text("")
    quick_export([export_kernels.scale()])
    assert "mix_scale" in (report / "include/mix.h").read_text()
    assert not (report / "build").exists()


@pytest.mark.parametrize("change", ["add", "edit"])
def test_a_persons_work_in_an_export_is_not_overwritten(quick_export: Export, change: str) -> None:
    report = quick_export([export_kernels.saxpy()])
    file = report / ("notes.txt" if change == "add" else "main.cpp")
    file.write_text("mine")
    with pytest.raises(abi.BundleError, match=file.name):
        quick_export([export_kernels.scale()])
    assert file.read_text() == "mine"


def test_other_folders_and_files_are_left_alone(quick_export: Export, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(abi.BundleError, match="holds other files"):
        quick_export([export_kernels.saxpy()])
    (tmp_path / "file").write_text("")
    with pytest.raises(abi.BundleError, match="not a folder"):
        quick_export([export_kernels.saxpy()], directory=tmp_path / "file")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("what", ["pipe", "link", "dangling link"])
def test_what_took_the_place_of_a_file_is_left_alone(quick_export: Export, tmp_path: Path, what: str) -> None:
    file = quick_export([export_kernels.saxpy()]) / "main.cpp"
    mine = file.rename(tmp_path / "mine.cpp")
    if what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(mine if what == "link" else tmp_path / "nowhere")
    with pytest.raises(abi.BundleError, match=r"main\.cpp was changed"):
        quick_export([export_kernels.scale()])
    assert os.path.lexists(file)


@pytest.mark.parametrize("text", ["[]", '{"files": null}', '{"files": ["a"]}', "[" * 100_000, '{"files": {}}'])
def test_a_strange_manifest_makes_no_folder_ours(quick_export: Export, tmp_path: Path, text: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "export.json").write_text(text)
    (tmp_path / "out" / "a").write_text("mine")
    with pytest.raises(abi.BundleError, match="cannot export to"):
        quick_export([export_kernels.saxpy()])
    assert (tmp_path / "out" / "a").read_text() == "mine"


def test_paths_that_cannot_be_and_the_working_folder(
    quick_export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "deeper")
    for path, words in (("x" * 300, "too long"), ("a\0b", "null"), (".", "works in"), ("..", "works in")):
        with pytest.raises(abi.BundleError, match=words):
            quick_export([export_kernels.saxpy()], directory=path)
    assert quick_export([export_kernels.saxpy()], directory="a b/é").path.is_dir()


def test_nothing_is_left_after_an_error(quick_export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["interop.exporting.export"], "_manifest", fail)
    with pytest.raises(abi.BundleError, match="No space left"):
        quick_export([export_kernels.saxpy()])
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_refused_before_anything_is_written(quick_export: Export, tmp_path: Path) -> None:
    saxpy, scale = export_kernels.saxpy(), export_kernels.scale()
    wrong = replace(saxpy.kernel, symbol="saxpi")
    bare = export_kernels.idle("bare", [abi.Param("p", abi.Pointer()), abi.Param("a", abi.f32)], abi.Launch())
    zeros = np.zeros(2, np.float32)
    cases = [
        (lambda: quick_export([]), "nothing to export"),
        (lambda: quick_export([lambda: 0]), "not a kernel"),
        (lambda: quick_export([saxpy, saxpy]), "two kernels are called 'saxpy'"),
        (lambda: quick_export([bare], examples=[Example(bare, (np.zeros(2), 2.0))]), "cannot have stored examples"),
        (lambda: quick_export([saxpy], examples=[Example(saxpy, (zeros,))]), "has 1 argument; the kernel takes 3"),
        (
            lambda: quick_export([saxpy], examples=[Example(saxpy, (zeros, zeros))]),
            "has 2 arguments; the kernel takes 3",
        ),
        (lambda: quick_export([saxpy], examples=[Example(saxpy, (zeros, np.zeros(2), 2.0))]), "float64, not f32"),
        (lambda: quick_export([saxpy], examples=[Example(saxpy, (zeros, [0.0], 2.0))]), "must be a NumPy array"),
        (lambda: quick_export([saxpy], examples=[Example(saxpy, (zeros, zeros, 2.0), expected=[])]), "writes 1: y"),
        (lambda: quick_export([saxpy], name="int"), "'int' cannot name"),
        (lambda: quick_export([saxpy], name="a-b"), "'a-b' cannot name"),
        (lambda: quick_export([saxpy], version="1.0"), "three numbers"),
        (lambda: quick_export([saxpy], levels=("avx2",)), "'avx2' is not an instruction-set level"),
        (lambda: quick_export([saxpy], examples=[Example(scale, (np.zeros(2, np.float32), 1.0))]), "not among"),
        (lambda: quick_export([replace(saxpy, kernel=wrong)]), "saxpi"),
        (lambda: quick_export([replace(saxpy, name="s<1>")]), r'not an identifier in C; declare.*symbol="s<1>"'),
    ]
    for call, words in cases:
        with pytest.raises(abi.Error, match=words):
            call()
    assert list(tmp_path.iterdir()) == []


def test_examples_are_checked_like_arguments(quick_export: Export) -> None:
    params = [abi.Param("y", abi.Slice(abi.f32), abi.Access.INOUT), abi.Param("a", abi.f32), abi.Param("n", abi.i32)]
    kernel = export_kernels.idle("k", [*params, abi.Param("b", abi.bool_), abi.Param("h", abi.bf16)])
    zeros = np.zeros(2, np.float32)

    def example(y: Any = zeros, a: Any = 1.0, n: Any = 1, b: Any = True, h: Any = 1.0, **more: Any) -> Example:
        return Example(kernel, (y, a, n, b, h), expected=[np.zeros(y.shape, y.dtype)], **more)

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"a": 1e300}, "too large"),
        ({"a": "1"}, "has '1' for it"),
        ({"a": None}, "has None for it"),
        ({"n": 2.5}, "has 2.5 for it"),
        ({"n": 2**31}, "does not fit"),
        ({"b": 2}, "does not fit"),
        ({"h": 3.4e38}, "too large"),
        ({"y": zeros.astype(">f4")}, "foreign order"),
        ({"y": np.ma.masked_array(zeros, mask=[1, 0])}, "masked"),
        ({"rtol": float("nan")}, "rtol is a number"),
        ({"atol": float("inf")}, "atol is a number"),
    ]
    for values, words in wrong:
        with pytest.raises(abi.Error, match=words):
            quick_export([kernel], examples=[example(**values)])
    tie = 1 + 2.0**-8 + 2.0**-40  # rounded to f32 first, it would be a tie
    report = quick_export([kernel], examples=[example(h=tie, a=np.float32(0.1), n=np.True_, rtol=np.float32(0.5))])
    text = (report / "selftest/selftest.c").read_text()
    assert f"(interop_bf16){{{0x3F81}}}" in text and "0.1f" in text and "np.float32" not in text
    for call, words in (
        (lambda: quick_export(kernel), r"list of kernels: write \[k\]"),
        (lambda: quick_export([kernel], examples=example()), "list of examples"),
        (lambda: quick_export([kernel], examples=[1]), "1 is none"),
        (lambda: quick_export([kernel], arch=90), "list of whole numbers"),
        (lambda: quick_export([kernel], levels="x86-64-v3"), "takes a list"),
        (lambda: quick_export([replace(kernel, kernel=replace(kernel.kernel, doc="\ud800"))]), "surrogate"),
    ):
        with pytest.raises(abi.Error, match=words):
            call()


@pytest.mark.skipif(not have_assembler(), reason="nvJitLink is not installed")
def test_an_architecture_that_does_not_exist_is_our_error(quick_export: Export) -> None:
    with pytest.raises(abi.ImageError, match="sm_91"):
        quick_export([export_kernels.saxpy()], arch=(91,))


def test_description_that_does_not_match_the_image_is_refused(quick_export: Export) -> None:
    saxpy = export_kernels.saxpy()
    params = abi.assign_slots([p if p.name != "a" else abi.Param("a", abi.f64) for p in saxpy.kernel.params])
    with pytest.raises(abi.AbiMismatch):
        quick_export([replace(saxpy, kernel=replace(saxpy.kernel, params=params))])


def test_manifest_lists_every_file(quick_export: Export) -> None:
    report = quick_export([export_kernels.saxpy()])
    listed = json.loads((report / "export.json").read_text())["files"]
    assert set(listed) == set(tree(report.path)) - {"export.json"}


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    export([export_kernels.saxpy(), export_kernels.scale()], tmp_path / "mix", name="mix", arch=())
    contents = [data for path, data in tree(tmp_path / "mix").items()]
    assert len(set(contents)) == len(contents)


def poisoned(fields: np.ndarray, byte: int) -> np.ndarray:
    """An array with the fields of `fields`, every other byte of which is `byte`."""
    result = np.frombuffer(bytearray([byte]) * fields.nbytes, fields.dtype).reshape(fields.shape)
    inner = fields.dtype["inner"]
    result["tag"], result["value"] = fields["tag"], fields["value"]
    for name in inner.names or ():
        result["inner"][name] = fields["inner"][name]
    return result


def test_padding_of_structured_values_is_zero(quick_export: Export) -> None:
    inner = np.dtype([("a", "u1"), ("b", "<u4")], align=True)
    struct = np.dtype([("tag", "u1"), ("value", "<f8"), ("inner", inner)], align=True)
    params = [abi.Param("p", abi.Pointer(), abi.Access.INOUT), abi.Param("s", abi.Bytes(24, 8))]
    kernel, called = export_kernels.idle("k", params), export_kernels.idle("called", params[1:])
    fields = np.zeros(3, struct)
    fields["tag"], fields["value"], fields["inner"]["a"], fields["inner"]["b"] = 7, [0.5, 1.5, 2.5], 9, 11
    exports = []
    for byte in (0x5A, 0xC3):
        array = poisoned(fields, byte)
        assert array.tobytes() != fields.tobytes()
        for scalar in (array[0], array[0:1].reshape(())):
            for expected in (None, [array]):
                examples = [Example(kernel, (array, scalar), expected=expected), Example(called, (scalar,))]
                report = quick_export([kernel, called], examples=examples)
                exports.append({p.name: p.read_bytes() for p in report.path.rglob("*") if p.is_file()})
                assert (report / "selftest/data/0_p.in").read_bytes() == fields.tobytes()
                assert (report / "selftest/data/0_p.out").read_bytes() == fields.tobytes()
    wanted = ", ".join(map(str, fields[0].tobytes()))
    assert f"{{{{{wanted}}}}}" in exports[0]["selftest.c"].decode()
    assert f"{{{{{wanted}}}}}" in exports[0]["main.cpp"].decode()
    assert all(e == exports[i % 2] for i, e in enumerate(exports))

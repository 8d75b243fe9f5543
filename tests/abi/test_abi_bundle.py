"""Bundles: JSON, schema, files on disk, hostile input."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abi import (
    SCALARS,
    Access,
    Block,
    BlockKind,
    Bundle,
    BundleError,
    Bytes,
    CheckLevel,
    Error,
    Image,
    ImageKind,
    Kernel,
    Launch,
    Origin,
    Param,
    Pointer,
    Requirement,
    Slice,
    Slot,
    Tensor,
    assign_slots,
    check_kernel,
    description_hash,
    f32,
    u32,
    with_implied,
)
from abi import bundle as bundles
from abi.json_io import from_json, image_files
from abi.schema import SCHEMA_FILE, schema_text

SAXPY = with_implied(
    Kernel(
        "saxpy",
        "saxpy",
        "python",
        assign_slots(
            [
                Param("x", Slice(f32)),
                Param("y", Slice(f32), Access.INOUT),
                Param("a", f32),
                Param("n", u32, fill="len(y)"),
            ]
        ),
        Launch(Block(BlockKind.EXACT, (256, 1, 1)), ("ceil_div(n, block.x)",), "4 * block.x"),
        (Requirement("len(x) >= len(y)"), Requirement("grid.y == 1", Origin.WITNESS, "y is written by index")),
        source="mix.py:7",
        doc="y <- a*x + y. “Größe” ≥ 0\n",
    )
)
BUNDLE = Bundle(
    "mix",
    (SAXPY, Kernel("none", "_Z4nonev", "cuda-c++", (), convention="c", check_level=CheckLevel.LAYOUT)),
    (
        Image(ImageKind.PTX, "sm_80", b".version 8.0\n", ("saxpy",), "8.0"),
        Image(ImageKind.PTX, "sm_80", b".version 8.3\n", ("saxpy",), "8.3", (9, 0)),
        Image(ImageKind.HOST_OBJECT, "x86-64-v3", bytes(range(256)), ("saxpy", "_Z4nonev")),
    ),
    "kernel-interop 0.1.0",
)


def validate(folder: Path) -> Any:
    document = json.loads((folder / bundles.DESCRIPTION_FILE).read_text("utf-8"))
    jsonschema.validate(document, bundles.schema(), cls=jsonschema.Draft202012Validator)
    return document


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# -- round trips ---------------------------------------------------------------------------------------------------


def test_write_and_read(tmp_path: Path) -> None:
    description = bundles.write(BUNDLE, tmp_path / "mix")
    assert description == tmp_path / "mix" / "bundle.kabi.json"
    assert set(files(tmp_path / "mix")) == {
        "bundle.kabi.json",
        "images/saxpy.sm_80.ptx",
        "images/saxpy-2.sm_80.ptx",
        "images/mix.x86-64-v3.o",
    }
    validate(tmp_path / "mix")
    assert description.read_bytes().endswith(b"}\n")
    assert bundles.read(tmp_path / "mix") == BUNDLE
    assert bundles.read(description) == BUNDLE
    assert [i.data for i in bundles.read(description).images] == [i.data for i in BUNDLE.images]


def test_the_same_bundle_gives_the_same_bytes(tmp_path: Path) -> None:
    bundles.write(BUNDLE, tmp_path / "a")
    bundles.write(copy.deepcopy(BUNDLE), tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


scalars = st.sampled_from(list(SCALARS.values()))
types = st.one_of(
    scalars,
    st.builds(Pointer, st.one_of(st.none(), scalars)),
    st.builds(Slice, scalars),
    st.builds(Tensor, scalars, st.integers(1, 8)),
    st.builds(lambda n, a: Bytes(n * a, a), st.integers(1, 9), st.sampled_from([1, 2, 4, 8, 16])),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
capabilities = st.tuples(st.integers(0, 20), st.integers(0, 9))


@st.composite
def kernels(draw: st.DrawFn, name: str) -> Kernel:
    kinds = draw(st.lists(types, max_size=6))
    params = [
        Param(f"p{i}", t, draw(st.sampled_from(Access)) if isinstance(t, (Pointer, Slice, Tensor)) else Access.IN)
        for i, t in enumerate(kinds)
    ]
    lengths = [f"len({p.name})" for p in params if isinstance(p.type, (Pointer, Slice, Tensor))] or ["7"]
    rules = st.sampled_from(lengths).map(lambda t: f"ceil_div({t}, block.x)")
    dims = st.tuples(*[st.integers(1, 1024)] * 3)
    return Kernel(
        name,
        draw(names),
        draw(names),
        assign_slots(params),
        Launch(
            Block(draw(st.sampled_from(BlockKind)), draw(dims)),
            tuple(draw(st.lists(rules, max_size=3))),
            draw(rules),
            draw(capabilities),
        ),
        tuple(draw(st.lists(st.builds(Requirement, rules.map("{} > 0".format), st.sampled_from(Origin), texts)))),
        draw(st.sampled_from(["interop-1", "c"])),
        draw(st.sampled_from(CheckLevel)),
        draw(texts),
        draw(texts),
    )


images = st.builds(
    Image,
    st.sampled_from(ImageKind),
    st.sampled_from(["sm_80", "sm_90a", "x86-64-v3"]),
    st.binary(max_size=20),
    st.lists(names, max_size=3).map(tuple),
    st.sampled_from(["", "8.0", "9.10"]),
    capabilities,
)


@st.composite
def random_bundles(draw: st.DrawFn) -> Bundle:
    unique = draw(st.lists(names, max_size=3, unique=True))
    made = tuple(draw(kernels(name)) for name in unique)
    return Bundle(draw(names), made, tuple(draw(st.lists(images, max_size=4))), draw(texts))


@given(random_bundles())
@settings(deadline=None, max_examples=60)
def test_json_round_trip(bundle: Bundle) -> None:
    text = bundles.to_json(bundle)
    stored = {name: image.data for name, image in image_files(bundle).items()}
    assert from_json(text, lambda entry: stored[entry.file]) == bundle
    jsonschema.validate(json.loads(text), bundles.schema(), cls=jsonschema.Draft202012Validator)
    # A second writing of what was read is the same text.
    assert bundles.to_json(from_json(text, lambda entry: stored[entry.file])) == text


def test_the_shipped_schema_is_the_one_that_the_tables_make() -> None:
    assert SCHEMA_FILE.read_text("utf-8") == schema_text(), "run: python -m abi.schema"
    jsonschema.Draft202012Validator.check_schema(bundles.schema())


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    document = json.loads(bundles.write(BUNDLE, tmp_path / "mix").read_text("utf-8"))
    document["variants"] = [1, 2]
    document["kernels"][0]["params"][0]["slots"][0]["comment"] = {"deep": None}
    (tmp_path / "mix" / "bundle.kabi.json").write_text(json.dumps(document), "utf-8")
    validate(tmp_path / "mix")
    assert bundles.read(tmp_path / "mix") == BUNDLE


# -- hashes --------------------------------------------------------------------------------------------------------


def test_the_description_hash_covers_the_contract_and_nothing_else() -> None:
    base = description_hash(SAXPY)
    assert len(base) == 64
    assert description_hash(copy.deepcopy(SAXPY)) == base
    for same in (replace(SAXPY, doc="other"), replace(SAXPY, source="elsewhere"), replace(SAXPY, language="c")):
        assert description_hash(same) == base
    changed = [
        replace(SAXPY, name="s"),
        replace(SAXPY, symbol="s"),
        replace(SAXPY, requires=SAXPY.requires[1:]),
        replace(SAXPY, launch=replace(SAXPY.launch, shared="0")),
        replace(SAXPY, launch=replace(SAXPY.launch, shared="")),
        replace(SAXPY, params=assign_slots([Param("x", Slice(f32))])),
        replace(SAXPY, params=(replace(SAXPY.params[0], access=Access.OUT), *SAXPY.params[1:])),
    ]
    assert len({base, *map(description_hash, changed)}) == 1 + len(changed)
    assert description_hash(BUNDLE) == description_hash(replace(BUNDLE, images=(), producer="other"))
    assert description_hash(BUNDLE) != description_hash(replace(BUNDLE, kernels=BUNDLE.kernels[:1]))


# -- writing -------------------------------------------------------------------------------------------------------


def test_an_older_bundle_is_replaced_whole(tmp_path: Path) -> None:
    bundles.write(BUNDLE, tmp_path / "mix")
    smaller = replace(BUNDLE, images=BUNDLE.images[:1])
    bundles.write(smaller, tmp_path / "mix")
    assert bundles.read(tmp_path / "mix") == smaller
    assert set(files(tmp_path / "mix")) == {"bundle.kabi.json", "images/saxpy.sm_80.ptx"}
    assert [p.name for p in tmp_path.iterdir()] == ["mix"]


def test_an_empty_folder_and_a_deep_path_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    bundles.write(BUNDLE, tmp_path / "empty")
    bundles.write(BUNDLE, tmp_path / "a" / "b" / "c")
    assert bundles.read(tmp_path / "a" / "b" / "c") == bundles.read(tmp_path / "empty")


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(BundleError, match="holds other files"):
        bundles.write(BUNDLE, tmp_path / "home")
    assert files(tmp_path / "home") == {"thesis.txt": b"years of work"}
    bundles.write(BUNDLE, tmp_path / "mix")
    (tmp_path / "mix" / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match="holds other files"):
        bundles.write(BUNDLE, tmp_path / "mix")
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="not a folder"):
        bundles.write(BUNDLE, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(BundleError, match="not a folder"):
        bundles.write(BUNDLE, tmp_path / "link")


def test_a_failure_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.write(BUNDLE, tmp_path / "mix")
    before = files(tmp_path)
    real = Path.write_bytes

    def full_disk(self: Path, data: bytes) -> int:
        if self.suffix == ".o":
            raise OSError(28, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    for target in ("mix", "fresh"):
        with pytest.raises(BundleError, match="No space left on device"):
            bundles.write(BUNDLE, tmp_path / target)
    assert files(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["mix"]


def test_a_failure_of_the_last_step_restores_the_older_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.write(BUNDLE, tmp_path / "mix")
    before = files(tmp_path)
    real = Path.rename

    def refuses(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise PermissionError(13, "Permission denied")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", refuses)
    with pytest.raises(BundleError, match="Permission denied"):
        bundles.write(replace(BUNDLE, images=()), tmp_path / "mix")
    assert files(tmp_path) == before


def test_the_parent_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot write the bundle"):
        bundles.write(BUNDLE, tmp_path / "file" / "mix")


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (replace(SAXPY, params=(SAXPY.params[0], SAXPY.params[0])), "'x'"),
        (replace(SAXPY, params=(replace(SAXPY.params[2], access=Access.OUT),)), "cannot write"),
        (replace(SAXPY, requires=(Requirement("len(z) > 1"),)), "unknown name 'z'"),
        (replace(SAXPY, name=""), "name"),
        (replace(SAXPY, name="a\nb"), "name"),
        (replace(SAXPY, params=(Param("x", Slice(f32)),), requires=(), launch=Launch()), "does not fit its slots"),
    ],
)
def test_nothing_is_written_that_could_not_be_read(tmp_path: Path, kernel: Kernel, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        bundles.write(replace(BUNDLE, kernels=(kernel,)), tmp_path / "mix")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ((Param("x", f32, slots=(Slot(2, 4, 4),)),), "alignment 4 forbids"),
        ((Param("x", f32, slots=(Slot(0, 4, 3),)),), "alignment 3 forbids"),
        ((Param("x", f32, slots=(Slot(0, 4, 4),)), Param("y", f32, slots=(Slot(0, 4, 4),))), "inside the parameter"),
        ((Param("x", f32, slots=(Slot(4096, 4, 4),)),), "limit is 4096"),
    ],
)
def test_check_kernel_finds_wrong_slots(params: tuple[Param, ...], words: str) -> None:
    with pytest.raises(Error, match=words):
        check_kernel(Kernel("f", "f", "c", params))


# -- reading hostile bundles ---------------------------------------------------------------------------------------


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    bundles.write(BUNDLE, tmp_path / "mix")
    return tmp_path / "mix"


def kernel_of(document: Any) -> Any:
    return document["kernels"][0]


Edit = Callable[[Any], object]
EDITS: dict[str, tuple[Edit, str]] = {
    "not a bundle": (lambda d: d.pop("format"), "not a bundle"),
    "another format": (lambda d: d.update(format="onnx"), "not a bundle"),
    "a newer version": (lambda d: d.update(version=2), "install a newer kernel-interop"),
    "a huge version": (lambda d: d.update(version=10**100), "install a newer kernel-interop"),
    "version zero": (lambda d: d.update(version=0), "version"),
    "version text": (lambda d: d.update(version="1"), "version: expected an integer"),
    "version true": (lambda d: d.update(version=True), "version: expected an integer"),
    "no name": (lambda d: d.pop("name"), "there is no 'name'"),
    "a number as name": (lambda d: d.update(name=3), "name: expected a name"),
    "kernels as object": (lambda d: d.update(kernels={}), "kernels: expected a list"),
    "a kernel as text": (lambda d: d.update(kernels=["saxpy"]), r"kernels\[0\]: expected an object"),
    "a kernel twice": (lambda d: d["kernels"].append(kernel_of(d)), r"kernels\[2\]: a second item with name 'saxpy'"),
    "a parameter twice": (
        lambda d: kernel_of(d)["params"].append(kernel_of(d)["params"][0]),
        r"kernels\[0\].params\[4\]: a second item with name 'x'",
    ),
    "an unknown access": (
        lambda d: kernel_of(d)["params"][0].update(access="rw"),
        r"params\[0\].access: 'rw' is not one of in, out, inout",
    ),
    "an unhashable access": (lambda d: kernel_of(d)["params"][0].update(access=[]), "a list is not one of"),
    "an unknown type": (lambda d: kernel_of(d)["params"][0].update(type="f33"), "'f33' is not a type"),
    "a huge tensor": (lambda d: kernel_of(d)["params"][0].update(type="tensor<f32, 999999999>"), "not a type"),
    "a type as number": (lambda d: kernel_of(d)["params"][0].update(type=1), "expected a type"),
    "a bad identifier": (lambda d: kernel_of(d)["params"][0].update(name="x; rm"), "expected an identifier"),
    "a negative offset": (lambda d: kernel_of(d)["params"][0]["slots"][0].update(offset=-8), "not between"),
    "a huge offset": (lambda d: kernel_of(d)["params"][0]["slots"][0].update(offset=2**70), "not between"),
    "a float offset": (lambda d: kernel_of(d)["params"][0]["slots"][0].update(offset=8.0), "expected an integer"),
    "overlapping slots": (lambda d: kernel_of(d)["params"][0]["slots"][1].update(offset=0), "inside the parameter"),
    "too few slots": (lambda d: kernel_of(d)["params"][0]["slots"].pop(), "does not fit its slots"),
    "too many slots": (lambda d: kernel_of(d)["params"][0].update(slots=[{}] * 65), "a list of 65 items"),
    "a bad rule": (lambda d: kernel_of(d)["requires"][0].update(rule="len(x) >="), "expected a value"),
    "a rule as list": (lambda d: kernel_of(d)["requires"][0].update(rule=[]), "expected a rule"),
    "a deep rule": (lambda d: kernel_of(d)["requires"][0].update(rule="(" * 4000), "nested"),
    "a huge rule": (lambda d: kernel_of(d)["requires"][0].update(rule="1" * 10**6), "the limit is 4096"),
    "a condition as grid": (lambda d: kernel_of(d)["launch"].update(grid=["1 > 2"]), "an integer is wanted"),
    "four axes": (lambda d: kernel_of(d)["launch"].update(grid=["1"] * 4), "a list of 4 items"),
    "a zero block": (lambda d: kernel_of(d)["launch"]["block"].update(dims=[0, 1, 1]), "not between"),
    "two dims": (lambda d: kernel_of(d)["launch"]["block"].update(dims=[1, 1]), "a list of 2 items, where 3"),
    "half a surrogate": (lambda d: kernel_of(d).update(doc="\ud800"), "surrogate"),
    "an image up": (lambda d: d["images"][0].update(file="../secret"), r"images\[0\].file"),
    "an image up inside": (lambda d: d["images"][0].update(file="images/../../secret"), r"images\[0\].file"),
    "an absolute image": (lambda d: d["images"][0].update(file="/etc/passwd"), r"images\[0\].file"),
    "an image at dots": (lambda d: d["images"][0].update(file="images/.."), r"images\[0\].file"),
    "an image with zero": (lambda d: d["images"][0].update(file="images/a\0b"), r"images\[0\].file"),
    "an image file twice": (lambda d: d["images"].append(d["images"][0]), "a second item with file"),
    "a missing image": (lambda d: d["images"][0].update(file="images/none.ptx"), "No such file"),
    "another size": (lambda d: d["images"][0].update(bytes=99), "13 bytes, and the description says 99"),
    "a smaller size": (lambda d: d["images"][0].update(bytes=2), "13 bytes, more than the 2"),
    "another hash": (lambda d: d["images"][0].update(sha256="0" * 64), "SHA-256 differs"),
    "no hash": (lambda d: d["images"][0].update(sha256=""), "hexadecimal"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_changed_description_is_refused_with_words(mix: Path, name: str) -> None:
    edit, words = EDITS[name]
    path = mix / "bundle.kabi.json"
    document = json.loads(path.read_text("utf-8"))
    edit(document)
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(BundleError, match=words) as caught:
        bundles.read(mix)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[]", "not a bundle"),
        (b"3", "not a bundle"),
        (b"null", "not a bundle"),
        (b'{"format": "kabi", "format": "kabi"}', "'format' twice"),
        (b'{"format": "kabi", "version": NaN}', "NaN is not JSON"),
        (b'{"format": "kabi", "version": ' + b"9" * 5000 + b"}", "not a bundle|newer"),
        (b"[" * 200_000, "nested too deeply|not JSON"),
        (b'{"a":' * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_a_file_that_is_no_description(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=words) as caught:
        bundles.read(path)
    assert "broken.json" in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"there is no bundle\.kabi\.json in it"):
        bundles.read(tmp_path)
    with pytest.raises(BundleError, match="No such file"):
        bundles.read(tmp_path / "none")
    (tmp_path / "bundle.kabi.json").mkdir()
    with pytest.raises(BundleError, match="not a regular file"):
        bundles.read(tmp_path)


def test_links_and_pipes_are_refused(mix: Path, tmp_path: Path) -> None:
    image = mix / "images" / "saxpy.sm_80.ptx"
    outside = tmp_path / "outside.ptx"
    outside.write_bytes(image.read_bytes())
    image.unlink()
    image.symlink_to(outside)
    with pytest.raises(BundleError, match="is a link"):
        bundles.read(mix)
    image.unlink()
    os.mkfifo(image)
    with pytest.raises(BundleError, match="not a regular file"):
        bundles.read(mix)


def test_a_linked_image_folder_or_description_is_refused(mix: Path, tmp_path: Path) -> None:
    (mix / "images").rename(tmp_path / "elsewhere")
    (mix / "images").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="images is a link"):
        bundles.read(mix)
    (mix / "bundle.kabi.json").rename(tmp_path / "description.json")
    (mix / "bundle.kabi.json").symlink_to(tmp_path / "description.json")
    with pytest.raises(BundleError, match="is a link"):
        bundles.read(mix)


def test_a_changed_image_is_refused(mix: Path) -> None:
    image = mix / "images" / "saxpy.sm_80.ptx"
    image.write_bytes(image.read_bytes().replace(b"8", b"9"))
    with pytest.raises(BundleError, match=r"saxpy\.sm_80\.ptx is not the file that was exported"):
        bundles.read(mix)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_json_in_any_place_is_read_or_refused(data: st.DataObject) -> None:
    """Replaces one value of a good document by any JSON at all."""
    document = json.loads(bundles.to_json(BUNDLE))
    stored = {name: image.data for name, image in image_files(BUNDLE).items()}
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        child = place[key]
        if not isinstance(child, (dict, list)) or not child or data.draw(st.booleans()):
            break
        place = child
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
    place[key] = data.draw(st.recursive(leaves, lambda s: st.lists(s) | st.dictionaries(st.text(max_size=4), s)))
    try:
        from_json(json.dumps(document), lambda entry: stored.get(entry.file, b""))
    except BundleError as error:
        assert str(error)

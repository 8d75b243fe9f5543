"""The JSON form of bundles and kernels: the table of fields, and text to records and back.

The text is deterministic: keys in the order of the tables below, two spaces of indentation, a newline at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .checks import check_kernel
from .errors import BundleError, Error
from .json_codecs import Choice, Field, Integer, Optional_, Record, Sequence, Text, TypeText, fault, shown
from .layout import MAX_PARAMETER_BYTES
from .records import (
    FORMAT_VERSION,
    Access,
    Block,
    BlockKind,
    Bundle,
    CheckLevel,
    Image,
    ImageKind,
    Kernel,
    Launch,
    Origin,
    Param,
    Requirement,
    Slot,
)

FORMAT = "kabi"
MAX_KERNELS = 100_000
MAX_IMAGES = 10_000
MAX_PARAMS = MAX_PARAMETER_BYTES

_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_PRINTABLE = r"[^\x00-\x1f\x7f]+"
_NAME = Text("a name", _PRINTABLE, 4096)
_RULE = Text("a rule", limit=4096)
_DIM = Integer(1, 2**31 - 1)
_CAPABILITY = Sequence(Integer(0, 999), 2, 2)

SLOT = Record(
    Slot,
    (
        Field("offset", Integer(0, MAX_PARAMETER_BYTES), "Bytes from the start of the parameter buffer."),
        Field("size", Integer(1, MAX_PARAMETER_BYTES), "Bytes."),
        Field("align", Integer(1, 128), "Alignment in bytes."),
    ),
    "One entry of the image's parameter list.",
)
PARAM = Record(
    Param,
    (
        Field("name", Text("an identifier", _IDENTIFIER, 1024), "What rules and hosts call the parameter."),
        Field("type", TypeText(), "The type: f32, ptr<f32>, slice<f32>, tensor<f32, 2>, bytes<24, 8>, ..."),
        Field("access", Choice(Access), "What the kernel does with the memory."),
        Field("slots", Sequence(SLOT, 64), "The image parameters that the parameter owns, in order."),
        Field("fill", Optional_(_RULE), "The rule that supplies a hidden parameter; null for one that callers pass."),
    ),
    "One logical parameter.",
)
BLOCK = Record(
    Block,
    (
        Field("kind", Choice(BlockKind), "How the dims constrain a block."),
        Field("dims", Sequence(_DIM, 3, 3), "Threads in x, y and z."),
    ),
    "The rule for a block's threads.",
)
LAUNCH = Record(
    Launch,
    (
        Field("block", BLOCK, "The rule for a block's threads."),
        Field("grid", Sequence(_RULE, 3), "A rule for each axis (x, y, z); empty when the caller gives the grid."),
        Field("shared", _RULE, "The rule for the bytes of dynamic shared memory; empty when the caller gives them."),
        Field("min_cc", _CAPABILITY, "The lowest compute capability, as [major, minor]."),
    ),
    "How grid, block and shared memory follow from the arguments.",
)
REQUIREMENT = Record(
    Requirement,
    (
        Field("rule", _RULE, "The condition."),
        Field("origin", Choice(Origin), "Where it comes from."),
        Field("note", Text("a note"), "Why, where the rule alone does not say; may be empty."),
    ),
    "A precondition of a launch.",
)
KERNEL = Record(
    Kernel,
    (
        Field("name", _NAME, "What a person calls the kernel."),
        Field("symbol", _NAME, "What the image calls it."),
        Field("language", _NAME, "The language that it was written in."),
        Field("convention", Text("a convention", "[a-z0-9-]+", 64), "How parameters become image parameters."),
        Field("check_level", Choice(CheckLevel), "How much is known about the parameters."),
        Field("params", Sequence(PARAM, MAX_PARAMS, unique="name"), "The parameters in order."),
        Field("launch", LAUNCH, "How grid, block and shared memory follow from the arguments."),
        Field("requires", Sequence(REQUIREMENT, 4096), "What must hold before a launch, in the order of checking."),
        Field("source", Text("a source"), "Where the source is; may be empty."),
        Field("doc", Text("a text"), "The docstring; may be empty."),
    ),
    "One kernel's contract.",
)


@dataclass(frozen=True)
class ImageEntry:
    """What the JSON says of an image; its bytes lie in ``file``."""

    file: str
    kind: ImageKind
    target: str
    isa: str
    min_cc: tuple[int, int]
    symbols: tuple[str, ...]
    bytes: int
    sha256: str


IMAGE = Record(
    ImageEntry,
    (
        Field("file", Text("a path such as images/a.ptx", r"images/[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}"), "The file."),
        Field("kind", Choice(ImageKind), "The form of the code."),
        Field("target", Text("a target such as sm_80", "[A-Za-z0-9_.+-]+", 64), "The architecture it was made for."),
        Field("isa", Text("a version such as 8.0", r"([0-9]{1,3}\.[0-9]{1,3})?"), "The PTX version; empty otherwise."),
        Field("min_cc", _CAPABILITY, "The lowest compute capability, as [major, minor]."),
        Field("symbols", Sequence(_NAME, MAX_KERNELS), "The kernels that it holds."),
        Field("bytes", Integer(0, 2**40), "The file's size."),
        Field("sha256", Text("64 hexadecimal digits", "[0-9a-f]{64}"), "The file's SHA-256."),
    ),
    "One image of compiled code.",
)


@dataclass(frozen=True)
class _Document:
    format: str
    version: int
    name: str
    producer: str
    images: tuple[ImageEntry, ...]
    kernels: tuple[Kernel, ...]


DOCUMENT = Record(
    _Document,
    (
        Field("format", Text("'kabi'", FORMAT), "Always 'kabi'."),
        Field("version", Integer(1, FORMAT_VERSION), "The version of the description."),
        Field("name", _NAME, "The bundle's name."),
        Field("producer", Text("a text", limit=4096), "What wrote the bundle; may be empty."),
        Field("images", Sequence(IMAGE, MAX_IMAGES, unique="file"), "The images."),
        Field("kernels", Sequence(KERNEL, MAX_KERNELS, unique="name"), "The kernels."),
    ),
    "A bundle of kernels: bundle.kabi.json.",
)


def to_json(bundle: Bundle) -> str:
    """The text of ``bundle.kabi.json``. Image bytes are not in it; :func:`image_files` says which file has which."""
    return _text(bundle)


def image_files(bundle: Bundle) -> dict[str, Image]:
    """The file of each image, relative to the bundle: ``images/saxpy.sm_80.ptx``."""
    result: dict[str, Image] = {}
    for image in bundle.images:
        stem = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in _stem(bundle, image))[:80]
        target = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in image.target)
        name, count = f"images/{stem}.{target}.{_SUFFIXES[image.kind]}", 1
        while name in result:
            count += 1
            name = f"images/{stem}-{count}.{target}.{_SUFFIXES[image.kind]}"
        result[name] = image
    return result


_SUFFIXES = {
    ImageKind.PTX: "ptx",
    ImageKind.CUBIN: "cubin",
    ImageKind.FATBIN: "fatbin",
    ImageKind.LTOIR: "ltoir",
    ImageKind.HOST_OBJECT: "o",
    ImageKind.HOST_LIBRARY: "so",
}


def _stem(bundle: Bundle, image: Image) -> str:
    return (image.symbols[0] if len(image.symbols) == 1 else bundle.name) or "image"


def _text(bundle: Bundle) -> str:
    entries = tuple(
        ImageEntry(file, i.kind, i.target, i.isa, i.min_cc, i.symbols, len(i.data), i.sha256)
        for file, i in image_files(bundle).items()
    )
    document = _Document(FORMAT, FORMAT_VERSION, bundle.name, bundle.producer, entries, bundle.kernels)
    encoded = DOCUMENT.encode(document)
    from_object(encoded)  # nothing is written that the reader would refuse
    return json.dumps(encoded, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, read_image: Callable[[ImageEntry], bytes]) -> Bundle:
    """The bundle that `text` describes; :class:`BundleError` when it is not well formed.

    `read_image` returns an entry's bytes; size and SHA-256 are checked here.
    """
    document = from_object(_load(text))
    return Bundle(
        document.name, document.kernels, tuple(_image(e, read_image(e)) for e in document.images), document.producer
    )


def from_object(value: Any) -> _Document:
    """The document in parsed JSON, checked in full, rules and slots included."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise BundleError(f'not a bundle: there is no "format": "{FORMAT}" at the top of the document')
    version = value.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT_VERSION:
        raise BundleError(
            f"the bundle has version {shown(version)} of the description, and this package reads up to "
            f"{FORMAT_VERSION}: install a newer kernel-interop"
        )
    document = DOCUMENT.decode(value, "")
    for index, kernel in enumerate(document.kernels):
        try:
            check_kernel(kernel)
        except BundleError:
            raise
        except Error as error:
            raise fault(f"kernels[{index}]", str(error)) from None
    return document


def _image(entry: ImageEntry, data: bytes) -> Image:
    if len(data) != entry.bytes:
        raise BundleError(f"{entry.file} has {len(data)} bytes, and the description says {entry.bytes}: {_DAMAGED}")
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise BundleError(f"{entry.file} is not the file that was exported (its SHA-256 differs): {_DAMAGED}")
    return Image(entry.kind, entry.target, data, entry.symbols, entry.isa, entry.min_cc)


_DAMAGED = "the bundle is damaged; export it again or restore the file"


def _load(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise BundleError("not a bundle: the JSON is nested too deeply") from None
    except ValueError as error:  # syntax, and numbers of thousands of digits
        raise BundleError(f"not a bundle: the file is not JSON ({error})") from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise BundleError(f"not a bundle: an object has the key {shown(key)} twice")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise BundleError(f"not a bundle: {name} is not JSON")


def kernel_to_object(kernel: Kernel) -> dict[str, Any]:
    """A kernel's record as a JSON object."""
    return KERNEL.encode(kernel)


def kernel_from_object(value: Any, path: str = "kernel") -> Kernel:
    """The kernel in a JSON object; :class:`BundleError` when it is not well formed."""
    return KERNEL.decode(value, path)


def description_hash(described: Kernel | Bundle) -> str:
    """The SHA-256 of everything that a caller depends on: names, parameters, launch rules, preconditions.

    Docstrings, source positions and images are not part of it: a recompiled kernel with the same contract has the same
    hash, and generated headers stay valid.
    """
    kernels = described.kernels if isinstance(described, Bundle) else (described,)
    relevant = [
        {key: value for key, value in kernel_to_object(k).items() if key not in ("doc", "source", "language")}
        for k in kernels
    ]
    canonical = json.dumps([FORMAT_VERSION, relevant], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()

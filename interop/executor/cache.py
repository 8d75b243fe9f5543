"""Compiled objects on disk. A file that is damaged, or of another version, counts as missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

_MAGIC = b"interop-cpu-2\n"


@dataclass(frozen=True)
class Entry:
    """An object and what has to be known to load it: the module variables that it refers to, and where in the parameter
    buffer lies what becomes an address that is checked, as (offset, size); None where nothing is checked."""

    data: bytes
    externals: tuple[str, ...] = ()
    addresses: tuple[tuple[int, int], ...] | None = None


def directory() -> Path | None:
    """Where objects are kept; None when ``INTEROP_CACHE=0`` turns the cache off."""
    if os.environ.get("INTEROP_CACHE") == "0":
        return None
    chosen = os.environ.get("INTEROP_CACHE_DIR")
    if chosen:
        return Path(chosen) / "cpu"
    from platformdirs import user_cache_path

    return user_cache_path("kernel-interop") / "cpu"


@lru_cache(maxsize=1)
def executor_version() -> str:
    """A hash of the translator's own sources: objects of another translator are not used."""
    digest = hashlib.sha256(version("llvmlite").encode())
    package = Path(__file__).parent
    for folder in (package, package.parent / "ptx"):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def key(*parts: str) -> str:
    """The name of an object: a hash of everything that it follows from."""
    return hashlib.sha256("\0".join((executor_version(), *parts)).encode()).hexdigest()


def load(name: str) -> Entry | None:
    """The object `name`, or None."""
    folder = directory()
    if folder is None:
        return None
    try:
        content = (folder / name[:2] / name).read_bytes()
    except OSError:
        return None
    head, digest, body = content[: len(_MAGIC)], content[len(_MAGIC) : len(_MAGIC) + 32], content[len(_MAGIC) + 32 :]
    if head != _MAGIC or hashlib.sha256(body).digest() != digest:
        return None
    line, _, data = body.partition(b"\n")
    head_ = json.loads(line)
    addresses = head_["addresses"]
    return Entry(
        data,
        tuple(head_["externals"]),
        None if addresses is None else tuple((offset, size) for offset, size in addresses),
    )


def store(name: str, entry: Entry) -> None:
    """Keeps an object. The file appears whole or not at all; a disk that cannot be written is no error."""
    folder = directory()
    if folder is None:
        return
    known = {"externals": entry.externals, "addresses": entry.addresses}
    body = json.dumps(known).encode() + b"\n" + entry.data
    content = _MAGIC + hashlib.sha256(body).digest() + body
    with contextlib.suppress(OSError):
        target = folder / name[:2] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, target)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

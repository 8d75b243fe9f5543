"""Bundles on disk: a folder with ``bundle.kabi.json`` and the images in ``images/``.

Writing is atomic, and the same bundle gives the same bytes. Reading trusts nothing: it follows no links, leaves the
folder for no path, and checks every image's size and SHA-256.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from .errors import BundleError
from .json_io import ImageEntry, from_json, image_files, to_json
from .json_io import description_hash as description_hash
from .records import Bundle
from .schema import schema as schema

DESCRIPTION_FILE = "bundle.kabi.json"
IMAGE_FOLDER = "images"
MAX_DESCRIPTION_BYTES = 64 << 20

__all__ = ["DESCRIPTION_FILE", "description_hash", "from_json", "read", "schema", "to_json", "write"]


def write(bundle: Bundle, directory: str | os.PathLike[str]) -> Path:
    """Writes `bundle` as the folder `directory` and returns the path of its description.

    The folder appears complete or not at all. An older bundle in its place is replaced; a folder that holds anything
    else is left alone, with a :class:`BundleError`.
    """
    target = Path(os.path.abspath(directory))
    files = {DESCRIPTION_FILE: to_json(bundle).encode("utf-8")}
    files.update({name: image.data for name, image in image_files(bundle).items()})
    _check_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise BundleError(f"cannot write the bundle {target}: {_reason(error)}") from None
    try:
        fresh = scratch / "new"
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        swap_folder(fresh, target, scratch / "old")
    except OSError as error:
        raise BundleError(f"cannot write the bundle {target}: {_reason(error)}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target / DESCRIPTION_FILE


def _check_replaceable(target: Path) -> None:
    try:
        target.lstat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a zero in the path
        raise BundleError(f"cannot write the bundle {target}: {getattr(error, 'strerror', '') or error}") from None
    if target.is_symlink() or not target.is_dir():
        raise BundleError(f"cannot write the bundle {target}: something that is not a folder is there; remove it first")
    if target.is_dir():
        try:
            names = {entry.name for entry in os.scandir(target)}
        except OSError as error:
            raise BundleError(f"cannot write the bundle {target}: {_reason(error)}") from None
        if names and (DESCRIPTION_FILE not in names or names - {DESCRIPTION_FILE, IMAGE_FOLDER}):
            raise BundleError(
                f"cannot write the bundle {target}: the folder holds other files; choose a new or an empty folder"
            )


def swap_folder(fresh: Path, target: Path, old: Path) -> None:
    """Puts `fresh` in the place of `target`; when that fails, what was there stays."""
    had_one = target.is_dir()
    if had_one:
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if had_one:
            old.rename(target)
        raise


def read(path: str | os.PathLike[str]) -> Bundle:
    """The bundle in the folder `path`, or the one whose description file is `path`.

    :class:`BundleError` when there is none, when it is damaged or hostile, or of a newer version.
    """
    given = Path(path)
    description = given / DESCRIPTION_FILE if given.is_dir() else given
    if given.is_dir() and not os.path.lexists(description):
        raise BundleError(f"{given} is not a bundle: there is no {DESCRIPTION_FILE} in it")
    try:
        text = _read_file(description, MAX_DESCRIPTION_BYTES).decode("utf-8")
        return from_json(text, lambda entry: _read_image(description.parent, entry))
    except UnicodeDecodeError:
        raise BundleError(f"{description}: not a bundle: the file is not UTF-8 text") from None
    except BundleError as error:
        message = str(error)
        raise BundleError(message if message.startswith(str(description)) else f"{description}: {message}") from None


def _read_image(folder: Path, entry: ImageEntry) -> bytes:
    if (folder / IMAGE_FOLDER).is_symlink():
        raise BundleError(f"{IMAGE_FOLDER} is a link; a bundle holds its own files")
    return _read_file(folder / entry.file, entry.bytes)


def _read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; not of a link, a pipe or a device."""
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes would hang.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if path.is_symlink():
            raise BundleError(f"{path} is a link; a bundle holds its own files") from None
        raise BundleError(f"{path}: cannot be read: {_reason(error)}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BundleError(f"{path} is not a regular file")
        raise BundleError(f"{path} has {status.st_size} bytes, more than the {limit} that are allowed here")
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _reason(error: OSError) -> str:
    return error.strerror or str(error)

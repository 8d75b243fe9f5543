"""Writes a folder all at once: in a temporary sibling first, then by a rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import abi
from abi.bundle import swap_folder


@contextmanager
def atomic_folder(target: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Gives an empty folder to write to; it takes the place of `target` when the block ends without an error.

    What stands at `target` is replaced only if it is an empty folder or `is_ours` says so.
    """
    target = Path(os.path.abspath(target))
    _check_replaceable(target, is_ours)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise abi.BundleError(f"cannot write {target}: {error.strerror or error}") from None
    try:
        fresh = scratch / "new"
        fresh.mkdir()
        yield fresh
        swap_folder(fresh, target, scratch / "old")
    except OSError as error:
        raise abi.BundleError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_replaceable(target: Path, is_ours: Callable[[Path], bool]) -> None:
    try:
        target.lstat()
        occupied = target.is_dir() and any(target.iterdir())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a zero in the path
        raise abi.BundleError(f"cannot export to {target}: {getattr(error, 'strerror', '') or error}") from None
    if target.is_symlink() or not target.is_dir():
        raise abi.BundleError(f"cannot export to {target}: something that is not a folder is there; remove it first")
    here = Path.cwd()
    if target.resolve() in (here, *here.parents):
        raise abi.BundleError(
            f"cannot export to {target}: the folder is replaced as a whole, and this process works in {here}; "
            "start it elsewhere, or export to a folder in it"
        )
    if occupied and not is_ours(target):
        raise abi.BundleError(
            f"cannot export to {target}: the folder holds other files and is no export; choose a new or an empty folder"
        )

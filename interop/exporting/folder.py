"""Writes a folder all at once: in a temporary sibling first, then by a rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import abi


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
        _swap(fresh, target, scratch / "old")
    except OSError as error:
        raise abi.BundleError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_replaceable(target: Path, is_ours: Callable[[Path], bool]) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise abi.BundleError(f"cannot export to {target}: something that is not a folder is there; remove it first")
    try:
        occupied = target.is_dir() and any(target.iterdir())
    except OSError as error:
        raise abi.BundleError(f"cannot export to {target}: {error.strerror or error}") from None
    if occupied and not is_ours(target):
        raise abi.BundleError(
            f"cannot export to {target}: the folder holds other files and is no export; choose a new or an empty folder"
        )


def _swap(fresh: Path, target: Path, old: Path) -> None:
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

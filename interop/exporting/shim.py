"""Where the C runtime's files are: the wheel's copy, or the checkout's ``cpp_shim``."""

from __future__ import annotations

import re
from pathlib import Path

import abi


def shim_path() -> Path:
    """The folder that holds ``include``, ``src``, ``cmake`` and ``templates``.

    >>> (shim_path() / "include" / "interop" / "types.h").is_file()
    True
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_shim", package.parent / "cpp_shim"):
        if (folder / "include" / "interop" / "types.h").is_file():
            return folder
    raise abi.Error(
        f"the C runtime's sources are neither in {package / '_shim'} nor in {package.parent / 'cpp_shim'}; "
        "reinstall kernel-interop"
    )


def template(name: str, **values: str) -> str:
    """The text of the shim's file `name` with each ``@KEY@`` replaced by its value."""
    text = (shim_path() / name).read_text(encoding="utf-8")
    # In one pass, so that a value which holds a placeholder stays as it is.
    return re.sub("@([A-Z_]+)@", lambda match: values.get(match[1], match[0]), text)

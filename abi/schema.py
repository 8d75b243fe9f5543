"""The JSON Schema of ``bundle.kabi.json``, made from the tables that read and write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .json_io import DOCUMENT

SCHEMA_FILE = Path(__file__).with_name("kabi.schema.json")
"""The schema as it ships with the package."""


def schema() -> dict[str, Any]:
    """The schema as a Python object (draft 2020-12).

    >>> schema()["properties"]["version"]["maximum"]
    1
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kernel ABI description",
        **DOCUMENT.schema(),
    }


def schema_text() -> str:
    """The content of ``kabi.schema.json``. After a change of the tables: ``python -m abi.schema``."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")

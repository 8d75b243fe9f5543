"""Compiled objects of the tests go to a folder of their own: a stale cache can hide a mistake."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["INTEROP_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))

"""A cache of their own for these tests, since a stale one can hide a mistake, and a seed for each test."""

from __future__ import annotations

import os
import secrets
import zlib

import numpy as np
import pytest
from compilers_harness import RNG


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["INTEROP_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """New inputs in each run, the same ones in continuous integration; ``INTEROP_TEST_SEED`` repeats a run."""
    given = os.environ.get("INTEROP_TEST_SEED")
    fixed = zlib.crc32(request.node.nodeid.encode())
    seed = int(given) if given else fixed if os.environ.get("CI") else secrets.randbits(32)
    print(f"INTEROP_TEST_SEED={seed}")
    RNG.bit_generator.state = np.random.PCG64(seed).state

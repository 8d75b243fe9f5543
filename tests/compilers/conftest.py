"""A cache of their own for these tests, since a stale one can hide a mistake, and a seed for each test."""

from __future__ import annotations

import os
import secrets
import zlib

import numpy as np
import pytest
from compilers_harness import DATA, RNG, Cuda


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


# What NVRTC has of optimisation levels, and what changes the code it writes.
NVRTC = {
    "nvrtc": (),
    "nvrtc-G": ("-G",),
    "nvrtc-lines": ("-G", "--dopt=on"),
    "nvrtc-O0": ("--Ofast-compile=max",),
    "nvrtc-O1": ("--Ofast-compile=mid",),
    "nvrtc-O2": ("--Ofast-compile=min",),
    "nvrtc-fast": ("--use_fast_math",),
    "nvrtc-unfused": ("--fmad=false",),
    "nvrtc-rdc": ("--relocatable-device-code=true",),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "source(name, nvrtc): the test runs a file of make/cuda as each compiler translates it"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked ``source`` runs with what NVRTC makes now, and with all that is kept of the other compilers."""
    marker = metafunc.definition.get_closest_marker("source")
    if marker is None:
        return
    (name,) = marker.args
    settings = NVRTC if marker.kwargs.get("nvrtc", True) else {}
    origins = [Cuda(name, label, options) for label, options in settings.items()]
    folders = [folder for tool in ("nvrtc", "nvcc", "clang") for folder in sorted(DATA.glob(f"{tool}*"))]
    origins += [Cuda(name, f"kept-{folder.name}") for folder in folders if (folder / f"{name}.ptx").exists()]
    metafunc.parametrize("cuda", [pytest.param(origin, id=origin.label) for origin in origins])

"""The built wheel holds everything that a user without the checkout needs, and works from another folder."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tracked files, as a release would be."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source]
    run(*build, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment in which only the wheel is new; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    purelib = Path(run(folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                       cwd=folder).strip())  # fmt: skip
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--prefix", folder, wheel, cwd=folder)
    here = {str(Path(p)) for p in sys.path if p.endswith("site-packages")}
    (purelib / "dependencies.pth").write_text("\n".join(sorted(here)) + "\n")
    return folder / "bin" / "python"


def test_wheel_holds_headers_sources_schema_and_cmake_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for tracked in run("git", "ls-files", "cpp_shim", cwd=ROOT).split():
        assert tracked.replace("cpp_shim", "interop/_shim", 1) in names
    assert "abi/kabi.schema.json" in names
    assert "interop/py.typed" in names
    assert any(name.startswith("interop/executor/_native") and name.endswith(".so") for name in names)


def test_one_wheel_serves_every_python(wheel: Path) -> None:
    assert "-cp310-abi3-" in wheel.name


def test_wheel_holds_no_tests_and_no_examples(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"abi", "interop"}


def test_installed_copy_is_used_and_finds_its_files(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", "import interop, abi; print(interop.__file__); print(abi.__file__)", cwd=tmp_path)
    assert all(str(installed.parents[1]) in line for line in where.splitlines())
    include = Path(run(installed, "-m", "interop", "config", "--includedir", cwd=tmp_path).strip())
    assert installed.parents[1] in include.parents
    assert list(include.rglob("*.h")) and list(include.rglob("*.hpp"))


def test_installed_copy_runs_a_kernel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(
        "import numpy as np, interop as io\n"
        "from interop import simt\n"
        "@simt.kernel(block=64, grid='ceil_div(len(y), block.x)', requires=['len(x) == len(y)'])\n"
        "def double(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):\n"
        "    i = simt.global_index()\n"
        "    if i < len(y):\n"
        "        y[i] = x[i] + x[i]\n"
        "x = np.random.default_rng().random(1001, dtype=np.float32)\n"
        "y = np.full_like(x, np.nan)\n"
        "double(x, y)\n"
        "assert (y == x + x).all()\n"
        "print('right')\n"
    )
    assert run(installed, "double.py", cwd=tmp_path) == "right\n"

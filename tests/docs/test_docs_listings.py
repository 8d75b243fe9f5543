"""The listings of the README and the language page run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def listings(page: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(command: list[object], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(c) for c in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_language_page_runs(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text("\n\n".join(listings("docs/language.md", "python")))
    run([sys.executable, "page.py"], tmp_path)


def test_readme_runs_from_python_to_cpp(tmp_path: Path) -> None:
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if not cmake:
        pytest.skip("needs cmake")
    (tmp_path / "scale.cu").write_text(listings("README.md", "cuda")[0])
    (tmp_path / "readme.py").write_text("\n\n".join(listings("README.md", "python")))
    printed = run([sys.executable, "readme.py"], tmp_path)
    assert printed.strip() == "saxpy: requires len(x) >= len(y), but len(x) = 10, len(y) = 1000"

    app = tmp_path / "app"
    app.mkdir()
    (app / "main.cpp").write_text(listings("README.md", "cpp")[0])
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(app CXX)\nfind_package(mix REQUIRED)\n"
        "add_executable(app main.cpp)\ntarget_link_libraries(app PRIVATE mix::mix)\n"
    )
    run([cmake, "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'build' / 'mix'}"], app)
    run([cmake, "--build", "build"], app)
    run(["build/app"], app)

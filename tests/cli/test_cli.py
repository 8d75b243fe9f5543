"""The command line: what it prints, and one clear line for each kind of bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCALE = """
extern "C" __global__ void scale(float *y, float a, unsigned long long n)
{
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    if (i < n) y[i] *= a;
}
"""


def interop(*arguments: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    command = [sys.executable, "-m", "interop", *(str(a) for a in arguments)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)


def test_doctor_reports_every_part_and_is_ready() -> None:
    done = interop("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    findings = {f["name"]: f for f in json.loads(done.stdout)}
    assert {"Python", "import interop", "import abi", "LLVM", "CPU device", "NVRTC", "C++ compiler"} <= set(findings)
    assert all(f["state"] == "ok" for f in findings.values() if f["required"])


def test_doctor_recognises_a_clash_of_import_names(tmp_path: Path) -> None:
    (tmp_path / "abi").mkdir()
    (tmp_path / "abi" / "__init__.py").write_text("Error = Exception\n")
    program = f"import sys, importlib.util as u; import interop.cli.doctor as d; sys.path.insert(0, {str(tmp_path)!r})"
    program += "; import sys; del sys.modules['abi']"
    program += (
        "; print([f.state for f in d._guarded(d._probe_import_names) if f.name == 'import abi' or 'abi' in f.detail])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "missing" in done.stdout


def test_doctor_prints_a_line_for_people() -> None:
    done = interop("doctor")
    assert done.stdout.rstrip().endswith("ready")
    assert "✓" in done.stdout


def test_inspect_cuda_source(tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    done = interop("inspect", source)
    assert done.returncode == 0, done.stderr
    assert "scale" in done.stdout and "float" in done.stdout and "typed" in done.stdout


def test_inspect_python_file(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(
        "import interop as io\nfrom interop import simt\n"
        "@simt.kernel(block=64, grid='ceil_div(len(y), block.x)')\n"
        "def fill(y: io.DisjointSlice[io.f32], a: io.f32):\n"
        "    '''y <- a.'''\n"
        "    i = simt.global_index()\n    if i < len(y):\n        y[i] = a\n"
    )
    done = interop("inspect", source)
    assert done.returncode == 0, done.stderr
    assert "y <- a." in done.stdout
    assert "interop_slice_f32" in done.stdout
    assert "grid.y == 1" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.cu", None, "no such file"),
        ("broken.ptx", "this is not PTX", "ptx"),
        ("broken.cu", "__global__ void f( {", "broken.cu"),
        ("notes.txt", "hello", "reads .cu, .ptx and .py"),
        ("bundle.kabi.json", "{}", "bundle"),
        ("broken.json", "{", "broken.json"),
    ],
)
def test_inspect_bad_input_is_one_clear_error(tmp_path: Path, name: str, content: str | None, words: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    done = interop("inspect", path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert words.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_config_without_a_question_says_what_to_ask() -> None:
    done = interop("config")
    assert done.returncode == 2
    assert "--includedir" in done.stderr


def test_inspect_shows_what_a_file_defined_before_it_failed(tmp_path: Path) -> None:
    source = tmp_path / "half.py"
    source.write_text(
        "import interop as io\nfrom interop import simt\n"
        "@simt.kernel(block=64, grid='ceil_div(len(y), block.x)')\n"
        "def fill(y: io.DisjointSlice[io.f32], a: io.f32):\n"
        "    i = simt.global_index()\n    if i < len(y):\n        y[i] = a\n"
        "raise ValueError('half way')\n"
    )
    done = interop("inspect", source)
    assert done.returncode == 1
    assert "fill" in done.stdout
    assert "half.py stopped with ValueError: half way" in done.stderr
    assert "Traceback" not in done.stderr


def test_inspect_of_a_file_without_kernels_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    done = interop("inspect", tmp_path / "empty.py")
    assert done.returncode == 1
    assert "there are no kernels in it" in done.stderr


def test_version() -> None:
    import interop as package

    assert interop("--version").stdout.strip() == package.__version__


def test_shared_headers_are_a_cmake_package(tmp_path: Path) -> None:
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if not cmake:
        pytest.skip("needs cmake")
    folder = interop("config", "--cmakedir").stdout.strip()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(app CXX)\nfind_package(interop REQUIRED)\n"
        "add_executable(app main.cpp)\ntarget_compile_features(app PRIVATE cxx_std_17)\n"
        "target_link_libraries(app PRIVATE interop::headers)\n"
    )
    (tmp_path / "main.cpp").write_text(
        "#include <interop/interop.hpp>\n#include <vector>\n"
        "static std::size_t count(interop::span<const float> x) { return x.size(); }\n"
        "int main() { return count(std::vector<float>(3)) == 3 ? 0 : 1; }\n"
    )
    for command in ([cmake, "-B", "build", f"-Dinterop_DIR={folder}"], [cmake, "--build", "build"], ["build/app"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_text_of_a_kernel_cannot_steer_the_terminal(tmp_path: Path) -> None:
    source = SCALE.replace("(float *y", "(const float *x, float *y")
    lines = ["import interop as io", f"SOURCE = {source!r}"]
    lines += [
        "@io.foreign(io.load_cuda(SOURCE))",
        "def scale(x: io.In[io.f32], y: io.InOut[io.f32], a: io.f32, n: io.u64):",
    ]
    (tmp_path / "evil.py").write_text("\n".join([*lines, '    """\\x1b[2J \\u202e"""']) + "\n")
    done = interop("inspect", tmp_path / "evil.py")
    assert done.returncode == 0, done.stderr
    assert "<U+001B>[2J <U+202E>" in done.stdout and "\x1b" not in done.stdout


def test_a_full_disk_and_a_plain_terminal() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "interop", "doctor"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1 and "Traceback" not in done.stderr and "No space left" in done.stderr
    done = interop("doctor", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "?" in done.stdout


def test_inspect_of_an_exported_library_shows_its_functions(tmp_path: Path) -> None:
    import abi
    from abi import bundle

    params = abi.assign_slots([abi.Param("y", abi.Slice(abi.f32), abi.Access.INOUT)])
    kernel = abi.Kernel("fill", "fill", "python", params)
    bundle.write(abi.Bundle("mix", (kernel,), ()), tmp_path / "mix")
    done = interop("inspect", tmp_path / "mix")
    assert (
        "interop_status mix_fill(const mix_module *module, interop_stream stream, interop_slice_f32 y)" in done.stdout
    )

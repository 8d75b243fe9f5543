"""Exported folders as projects: their own build and tests, find_package, installation, shared libraries, no Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import export_kernels
import pytest
from host_support import HERE, LIBRARIES, SANITIZE, WARNINGS, cmake_tool, compile_library, run_tool

from interop.exporting import export

KERNELS = ("saxpy", "scale", "transpose", "widths", "new", "reverse_blocks", "gather")
FLAGS = " ".join(WARNINGS)
CONSUMER = HERE / "consumer"


def configure(source: Path, build: Path, *options: str) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run_tool([cmake_tool("cmake"), "-S", source, "-B", build, *generator, *options])


def build_tree(build: Path, *options: str) -> None:
    run_tool([cmake_tool("cmake"), "--build", build, "--parallel", "2", *options])


def run_bare(*command: object) -> str:
    """Runs a program in an environment that has nothing: no PATH, so no Python."""
    return run_tool(command, env={"PATH": "/nowhere"})


@pytest.fixture(scope="module")
def own_build(mix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported folder built as its README says, with every warning an error."""
    build = tmp_path_factory.mktemp("own") / "build"
    configure(mix, build, f"-DCMAKE_C_FLAGS={FLAGS}", f"-DCMAKE_CXX_FLAGS={FLAGS}")
    build_tree(build)
    return build


def test_folder_proves_itself(own_build: Path) -> None:
    told = run_tool([cmake_tool("ctest"), "--test-dir", own_build, "--output-on-failure"])
    assert re.search(r"mix_selftest_cpu \.* +Passed", told)
    assert re.search(r"mix_main \.* +Passed", told)
    assert re.search(r"mix_selftest_cuda \.*(\*\*\*Skipped| +Passed)", told)


def test_selftest_names_each_kernel_and_needs_no_python(own_build: Path) -> None:
    told = run_bare(own_build / "mix_selftest", "cpu")
    assert told.splitlines() == [f"{k}: ok (cpu)" for k in KERNELS]
    assert "python" not in run_tool(["ldd", own_build / "mix_main"]).lower()
    assert "libcuda" not in run_tool(["ldd", own_build / "mix_main"])


def test_main_program_calls_each_kernel(own_build: Path) -> None:
    told = run_bare(own_build / "mix_main")
    assert told.startswith("mix on ")
    assert [k for k in KERNELS if f"\n{k}\n" not in told] == []


def test_selftest_notices_another_result(own_build: Path, mix: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(mix / "selftest" / "data", data)
    stored = bytearray((data / "0_y.out").read_bytes())
    stored[4 * 17] ^= 1  # the last bit of element 17
    (data / "0_y.out").write_bytes(stored)
    (data / "1_y.in").write_bytes(b"short")
    done = subprocess.run([own_build / "mix_selftest", "cpu", data], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "saxpy: FAILED: 0_y.out: element 17 is" in done.stdout
    assert "scale: FAILED: " in done.stdout and "1_y.in" in done.stdout
    assert "transpose: ok (cpu)" in done.stdout


def test_selftest_skips_a_gpu_that_is_not_there_and_reports_one_that_fails(own_build: Path, fake_driver: Path) -> None:
    def status(**environment: str) -> int:
        variables = {"LD_LIBRARY_PATH": str(fake_driver), **environment}
        done = subprocess.run([own_build / "mix_selftest", "cuda"], capture_output=True, check=False, env=variables)
        return done.returncode

    assert status(FAKE_CUDA_FAIL="cuInit=100") == 77  # no GPU
    assert status(FAKE_CUDA_CC="7.0") == 77  # none that the images run on
    assert status(FAKE_CUDA_FAIL="cuDevicePrimaryCtxRetain=46") == 1  # busy
    assert status(FAKE_CUDA_FAIL="cuModuleLoadDataEx=222") == 1
    assert status() == 1  # the stand-in computes nothing, and the results say so


def test_export_without_examples_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    export([export_kernels.scale()], folder, name="bare", arch=(), levels=())
    flags = ["-std=c11", *WARNINGS, f"-I{folder / 'include'}", "-fsyntax-only", folder / "selftest" / "selftest.c"]
    run_tool(["gcc", *flags])
    assert "call is yours to write" not in (folder / "main.cpp").read_text()


def test_selftest_without_examples_is_skipped(tmp_path: Path) -> None:
    export([export_kernels.scale()], tmp_path / "bare", name="bare", arch=(), levels=("x86-64-v2",))
    configure(tmp_path / "bare", tmp_path / "build")
    build_tree(tmp_path / "build")
    told = run_tool([cmake_tool("ctest"), "--test-dir", tmp_path / "build"])
    assert re.search(r"bare_selftest_cpu \.*\*\*\*Skipped", told)
    assert re.search(r"bare_main \.* +Passed", told)


@pytest.mark.gpu
def test_folder_proves_itself_on_the_gpu(own_build: Path) -> None:
    told = run_tool([own_build / "mix_selftest", "cuda"])
    assert told.splitlines() == [f"{k}: ok (cuda)" for k in KERNELS]


def test_found_from_the_folder_itself_two_shared_libraries_in_one_program(
    mix: Path, second: Path, tmp_path: Path
) -> None:
    found = ["-DBUILD_SHARED_LIBS=ON", "-DWITH_SECOND=ON", f"-Dmix_DIR={mix}"]
    configure(CONSUMER, tmp_path / "build", *found, f"-DCMAKE_PREFIX_PATH={second}")
    build_tree(tmp_path / "build")
    assert run_bare(tmp_path / "build" / "consumer") == "5 1.2.3\n"
    told = run_bare(tmp_path / "build" / "two").splitlines()
    assert told == ["15 30", "scale: requires n % 2 == 0, but n = 1 (pairs)", "no error"]
    library = next((tmp_path / "build").rglob("libmix.so"))
    symbols = [
        line.split()[-1].split("@")[0] for line in run_tool(["nm", "-D", "--defined-only", library]).splitlines()
    ]
    assert "mix_saxpy_ex" in symbols
    assert all(s.startswith("mix_") and not s.startswith(("mix_runtime", "mix_cpu", "mix_cuda")) for s in symbols)


def test_found_after_installation(own_build: Path, tmp_path: Path) -> None:
    run_tool([cmake_tool("cmake"), "--install", own_build, "--prefix", tmp_path / "prefix"])
    moved = (tmp_path / "prefix").rename(tmp_path / "moved")  # nothing installed may know where it was
    configure(CONSUMER, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}")
    build_tree(tmp_path / "build")
    assert run_bare(tmp_path / "build" / "consumer") == "5 1.2.3\n"
    package = next(moved.rglob("mix.pc"))
    assert "Version: 1.2.3" in package.read_text() and "@" not in package.read_text()
    tool = shutil.which("pkg-config")
    if tool:
        told = run_tool([tool, "--cflags", "--libs", "mix"], env={"PKG_CONFIG_PATH": str(package.parent)}).split()
        run_tool(["g++", "-std=c++17", CONSUMER / "main.cpp", *told, "-o", tmp_path / "by_pkg_config"])
        assert run_bare(tmp_path / "by_pkg_config") == "5 1.2.3\n"


def package_variables(folder: Path) -> dict[str, str]:
    text = next(folder.rglob("mix.pc")).read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line.split(" ")[0])


def test_package_file_says_where_folders_are(mix: Path, tmp_path: Path) -> None:
    prefix, elsewhere = tmp_path / "prefix", tmp_path / "elsewhere" / "lib"
    for name, options, expected in (
        (
            "relative",
            ["-DCMAKE_INSTALL_LIBDIR=lib/x"],
            ("${pcfiledir}/../../..", "${prefix}/lib/x", "${prefix}/include"),
        ),
        ("absolute", [f"-DCMAKE_INSTALL_LIBDIR={elsewhere}"], (str(prefix), str(elsewhere), "${prefix}/include")),
        (
            "include",
            ["-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_INSTALL_INCLUDEDIR=/opt/i"],
            ("${pcfiledir}/../..", "${prefix}/lib", "/opt/i"),
        ),
    ):
        configure(mix, tmp_path / name, f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DMIX_BUILD_TESTS=OFF", *options)
        found = package_variables(tmp_path / name)
        assert (found["prefix"], found["libdir"], found["includedir"]) == expected


@pytest.mark.parametrize("way", ["CMAKE_PREFIX_PATH", "mix_DIR", "mix_ROOT", "the folder above", "add_subdirectory"])
def test_a_project_of_cpp_alone_finds_the_folder(mix: Path, tmp_path: Path, way: str) -> None:
    project, options = (CONSUMER / "CMakeLists.txt").read_text(), [f"-D{way}={mix}"]
    if way == "add_subdirectory":
        project, options = project.replace("find_package(mix 1.2 REQUIRED)", f"add_subdirectory({mix} mix)"), []
    elif way == "the folder above":
        options = [f"-DCMAKE_PREFIX_PATH={mix.parent}"]
    (tmp_path / "CMakeLists.txt").write_text(project)
    shutil.copy(CONSUMER / "main.cpp", tmp_path)
    configure(tmp_path, tmp_path / "build", *options)
    build_tree(tmp_path / "build")
    assert run_bare(tmp_path / "build" / "consumer") == "5 1.2.3\n"


def test_a_version_that_does_not_fit_is_not_found(mix: Path, tmp_path: Path) -> None:
    project = "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES C)\nfind_package(mix {} REQUIRED)\n"
    for wanted, fits in (("1", True), ("1.2.3", True), ("1.3", False), ("2.0", False)):
        (tmp_path / "CMakeLists.txt").write_text(project.format(wanted))
        command = [cmake_tool("cmake"), "-S", tmp_path, "-B", tmp_path / f"b{wanted}", f"-Dmix_DIR={mix}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is fits, (wanted, done.stderr)


def test_two_static_libraries_in_one_program(mix: Path, second: Path, library: list[Path], tmp_path: Path) -> None:
    other = compile_library(second, "second", tmp_path / "second", ["-g", "-O1", *SANITIZE])
    include = [f"-I{mix / 'include'}", f"-I{second / 'include'}"]
    run_tool(
        [
            "gcc",
            "-std=c11",
            *WARNINGS,
            *SANITIZE,
            *include,
            HERE / "two.c",
            *library,
            *other,
            *LIBRARIES,
            "-o",
            tmp_path / "two",
        ]
    )
    assert run_bare(tmp_path / "two").splitlines()[0] == "15 30"


def test_one_line_of_the_readme_builds_a_program(second: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(second, folder)
    (folder / "app.c").write_text(
        "#include <second.h>\n#include <stdio.h>\nint main(void)\n{\n    second_module *m;\n"
        "    puts(second_load(interop_device_cpu(), &m) ? second_last_error() : second_device_name(m));\n}\n"
    )
    line = next(line for line in (folder / "README.md").read_text().splitlines() if line.startswith("cc "))
    run_tool(["sh", "-c", line], cwd=folder)
    assert run_bare(folder / "app") == "cpu (x86-64-v2)\n"
    run_tool(["sh", "-c", line.replace("app.c", "selftest/selftest.c").replace("-o app", "-o replay")], cwd=folder)
    assert run_tool([folder / "replay", "cpu"], cwd=folder) == "scale: ok (cpu)\n"


def test_without_cpu_objects_the_cpu_device_is_refused_in_words(second: Path, tmp_path: Path) -> None:
    configure(second, tmp_path, "-DSECOND_CPU=OFF", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_FLAGS={FLAGS}")
    build_tree(tmp_path)
    done = subprocess.run([tmp_path / "second_selftest", "cpu"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        77,
        "second: this library was built without its CPU objects, so it has no CPU device\n",
    )


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_headers_are_clean_in_c_and_cpp(mix: Path, compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    include = f"-I{mix / 'include'}"
    (tmp_path / "a.c").write_text("#include <mix.h>\n")
    (tmp_path / "a.cpp").write_text("#include <mix.hpp>\n")
    for standard in ("c11", "c17"):
        run_tool([compiler, f"-std={standard}", *WARNINGS, include, "-fsyntax-only", tmp_path / "a.c"])
    for standard in ("c++17", "c++20"):
        flags = [f"-std={standard}", *WARNINGS, "-Wshadow", "-Wconversion", "-Wsign-conversion", "-x", "c++"]
        flags += ["-Wuseless-cast"] if compiler == "gcc" else []
        run_tool([compiler, *flags, include, "-fsyntax-only", tmp_path / "a.cpp"])


def test_headers_of_two_versions_do_not_mix(mix: Path, tmp_path: Path) -> None:
    for header, macro in (("types.h", "INTEROP_TYPES_VERSION"), ("interop.hpp", "INTEROP_HPP_VERSION")):
        newer = tmp_path / "interop" / header
        newer.parent.mkdir(exist_ok=True)
        text = (mix / "include" / "interop" / header).read_text()
        newer.write_text(re.sub(rf"({macro}) (!= )?1", r"\1 \g<2>2", text))
        source = tmp_path / "both.cpp"
        source.write_text(f'#include <interop/{header}>\n#include "{newer}"\n')
        command = ["g++", "-std=c++17", f"-I{mix / 'include'}", "-fsyntax-only", source]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "different versions of interop" in done.stderr


def test_a_project_that_adds_the_folder_runs_its_tests(second: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES CXX)\nenable_testing()\n"
        f"add_subdirectory({second} second)\n"
    )
    configure(tmp_path, tmp_path / "build")
    build_tree(tmp_path / "build")
    told = run_tool([cmake_tool("ctest"), "--test-dir", tmp_path / "build" / "second"])
    assert re.search(r"second_selftest_cpu \.* +Passed", told)

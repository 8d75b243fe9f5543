"""Builds the wheel: the CPU device's native module and the copy of ``cpp_shim`` that exported folders are made from.

Metadata lives in ``pyproject.toml``. Packages are listed, because automatic discovery refuses several top-level ones.
"""

from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def packages() -> list[str]:
    """Every folder of `abi` and `interop` that is a package, and the shim's files as data of ``interop._shim``."""
    found = [
        str(init.parent.relative_to(HERE)).replace("/", ".")
        for root in ("abi", "interop")
        for init in sorted((HERE / root).rglob("__init__.py"))
    ]
    shim = ["interop._shim"] + [
        "interop._shim." + str(folder.relative_to(HERE / "cpp_shim")).replace("/", ".")
        for folder in sorted((HERE / "cpp_shim").rglob("*"))
        if folder.is_dir() and "__pycache__" not in folder.parts
    ]
    return found + shim


setup(
    packages=packages(),
    package_dir={"interop._shim": "cpp_shim"},
    package_data={"": ["*.h", "*.hpp", "*.c", "*.cmake", "*.in", "*.json", "*.typed", "*.pyi", "*.cu"]},
    cffi_modules=["interop/executor/native_build.py:ffibuilder"],
    # The native module keeps to the stable ABI, so one wheel serves every Python from 3.10 on.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)

"""The house rules: which part may import which, and what `import interop` must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# part -> the parts of `interop` that it may import; every part may import `abi` and `interop.errors`.
MAY_IMPORT = {
    "ptx": set(),
    "executor": {"ptx"},
    "ir": set(),
    "passes": {"ir"},
    "codegen": {"ir", "passes"},
    "frontend": {"ir", "passes", "codegen", "language"},
    "language": {"frontend", "runtime"},
    "runtime": {"executor"},
    "importing": {"ptx", "language", "runtime"},
    "exporting": {"executor"},
    "pipeline": {"runtime"},
    "cli": {"codegen", "executor", "exporting", "importing", "runtime"},
}


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports anywhere, relative imports resolved."""
    package = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: -node.level]) + "." if node.level else ""
            name = f"{base}{node.module or ''}".rstrip(".")
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_part_imports_only_what_the_map_allows(part: str) -> None:
    files = sorted((ROOT / "interop" / part).rglob("*.py"))
    assert files, f"interop/{part} is empty"
    allowed = MAY_IMPORT[part] | {part, "errors", "_native"}
    for path in files:
        for module in imported_modules(path):
            names = module.split(".")
            if names[0] == "interop" and len(names) > 1 and (ROOT / "interop" / names[1]).is_dir():
                assert names[1] in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_abi_imports_only_the_standard_library_and_numpy() -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy", "abi"}
    for path in sorted((ROOT / "abi").rglob("*.py")):
        for module in imported_modules(path):
            assert module.split(".")[0] in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_import_loads_no_compiler_and_no_driver() -> None:
    program = (
        "import sys, interop; print([m for m in ('llvmlite', 'cuda', 'numpy', 'cffi', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    import interop

    for name in dir(interop):
        assert getattr(interop, name) is not None, name

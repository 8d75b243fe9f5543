"""The cache on disk: used, keyed on what matters, and never trusted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interop.executor import cache

PROGRAM = """
import sys, numpy as np
from interop.executor import compile_kernel, codegen
calls = []
original = codegen.compile_ir
codegen.compile_ir = lambda *a, **k: (calls.append(1), original(*a, **k))[1]
text = '''.version 8.0
.target sm_80
.global .u32 base = 40;
.visible .entry k(.param .u64 p) { .reg .b64 %p; .reg .b32 %r; ld.param.u64 %p, [p]; ld.global.u32 %r, [base];
  add.u32 %r, %r, 2; st.global.u32 [%p], %r; ret; }
.visible .entry plain(.param .u64 p) { .reg .b64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p], 42; ret; }'''
out = np.zeros(1, np.uint32)
compile_kernel(text, sys.argv[1]).launch(out.ctypes.data.to_bytes(8, "little"), 1, 32)
assert out[0] == 42
print(len(calls))
"""
ROOT = Path(__file__).resolve().parents[2]


def compiled(folder: Path, symbol: str, **environment: str) -> int:
    """How many modules a new process compiles."""
    import os

    env = {**os.environ, "INTEROP_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", PROGRAM, symbol], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert compiled(tmp_path, "plain") == 1
    assert compiled(tmp_path, "plain") == 0
    assert compiled(tmp_path, "plain", INTEROP_CACHE="0") == 1
    # The module's variables are compiled for each process: they are state.
    assert compiled(tmp_path, "k") == 2
    assert compiled(tmp_path, "k") == 1


@pytest.mark.parametrize("damage", ["truncate", "garbage", "flip"])
def test_a_damaged_file_is_compiled_again(tmp_path: Path, damage: str) -> None:
    assert compiled(tmp_path, "plain") == 1
    (file,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    content = bytearray(file.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "garbage":
        content = bytearray(b"not an object at all")
    else:
        content[-100] ^= 1
    file.write_bytes(content)
    assert compiled(tmp_path, "plain") == 1
    assert compiled(tmp_path, "plain") == 0


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert compiled(blocked, "plain") == 1


def test_keys_follow_from_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    name = cache.key("text", "symbol", "1", "cpu", "+avx2")
    others = [
        ("text2", "symbol", "1", "cpu", "+avx2"),
        ("text", "symbol", "1", "cpu", ""),
        ("textsymbol", "1", "cpu", "+avx2"),
    ]
    assert len({name, *(cache.key(*other) for other in others)}) == 4
    monkeypatch.setattr(cache, "executor_version", lambda: "another translator")
    assert cache.key("text", "symbol", "1", "cpu", "+avx2") != name

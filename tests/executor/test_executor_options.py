"""Launches with options from C, built with sanitizers; and what a large launch takes of memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from executor_harness import HEADER

from interop.executor import compile_object

SHIM = Path(__file__).resolve().parents[2] / "cpp_shim" / "src"
PROGRAM = Path(__file__).with_name("cpu_options.c")

PTX = (
    HEADER
    + """
.visible .entry shift(.param .u64 x, .param .u64 y, .param .u32 by) {
  .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .f32 %f<2>; .shared .align 4 .f32 s[64];
  ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; ld.param.u32 %r0, [by];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 64, %r2; add.s32 %r4, %r3, %r0;
  mul.wide.s32 %rd2, %r4, 4; add.s64 %rd3, %rd0, %rd2; ld.global.f32 %f0, [%rd3];
  shl.b32 %r5, %r2, 2; mov.u32 %r6, s; add.s32 %r6, %r6, %r5; st.shared.f32 [%r6], %f0;
  bar.sync 0; ld.shared.f32 %f1, [%r6];
  mul.wide.s32 %rd4, %r3, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5], %f1; ret; }
.visible .entry spin(.param .u64 n) { L: bra L; }
.visible .entry barriers(.param .u64 n) { L: bar.sync 0; bra L; }
"""
)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_launches_from_c(compiler: str, sanitizer: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    kernels = compile_object(PTX, ["shift", "spin", "barriers"], prefix="opt_", level="x86-64-v2", checks=True)
    (tmp_path / "kernels.o").write_bytes(kernels)
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-fsanitize={sanitizer}"]
    sources = [PROGRAM, *sorted(SHIM.glob("interop_cpu*.c"))]
    command = [compiler, *flags, f"-I{SHIM}", "-DINTEROP_PREFIX=opt_", "-Dinterop_cpu_launch_with=opt_cpu_launch_with"]
    built = subprocess.run(
        [*command, *map(str, sources), "kernels.o", "-lm", "-o", "program"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode != 0 and "cannot find" in built.stderr:
        pytest.skip(f"{compiler} has no {sanitizer} sanitizer here")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stdout + done.stderr


LARGE = """
import resource, struct, sys
import numpy as np
from interop.executor import compile_kernel
text = sys.stdin.read()
out = np.zeros(1, np.uint64)
params = struct.pack("<Q", out.ctypes.data)
kernels = [compile_kernel(text, name) for name in ("count", "wait")]
for kernel in kernels:
    kernel.launch(params, 100, 256, threads=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kernels[0].launch(params, (1000, 1000), 256, threads=2)
kernels[1].launch(params, (1000, 100), 256, threads=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, out[0])
"""


def test_a_million_blocks_take_no_memory_of_their_own() -> None:
    body = (
        ".reg .b64 %rd<2>; .reg .u32 %r; .reg .pred %p; ld.param.u64 %rd0, [x]; mov.u32 %r, %tid.x;"
        " setp.eq.u32 %p, %r, 0; @%p red.global.add.u64 [%rd0], 1;"
    )
    text = HEADER + "".join(
        f".visible .entry {name}(.param .u64 x) {{ {body} {last} }}\n"
        for name, last in [("count", "ret;"), ("wait", "bar.sync 0; ret;")]
    )
    done = subprocess.run(
        [sys.executable, "-c", LARGE], input=text, capture_output=True, text=True, timeout=300, check=True
    )
    kilobytes, blocks = map(int, done.stdout.split())
    assert blocks == 1_000_000 + 100_000 + 200
    assert kilobytes < 4096, f"{kilobytes} KiB more than before"

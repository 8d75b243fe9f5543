"""What the rows share: PTX of the kernels, C loops, peers in other processes, arrays."""

from __future__ import annotations

import ctypes
import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .measure import OURS, UNCHECKED, Variant, WrongResults, repeated

HERE = Path(__file__).resolve().parent

GCC_FLAGS = ["-O3", "-march=native", "-shared", "-fPIC", "-lm"]

Verify = Callable[[], None]


class Missing(Exception):
    """A peer cannot take part; the text says why."""


def array(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Poisoned memory at the beginning of a cache line, for all variants alike."""
    count = int(np.prod(shape))
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    raw[:] = 0xA5
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def filled(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins at a cache line."""
    copy = array(values.shape, values.dtype)
    copy[...] = values
    return copy


def pack(*values: object) -> bytes:
    """A parameter buffer: arrays' addresses, f32 for float, s32 for int; each at its own alignment."""
    buffer = b""
    for value in values:
        if isinstance(value, np.ndarray):
            item = struct.pack("<Q", value.ctypes.data)
        else:
            item = struct.pack("<f" if isinstance(value, float) else "<i", value)
        buffer += bytes(-len(buffer) % len(item)) + item
    return buffer


@dataclass
class Worker:
    """A peer in a process of its own, with an interpreter and an environment of its own."""

    peer: str
    interpreter: str
    environment: dict[str, str]
    process: subprocess.Popen[str] | None = field(default=None, init=False)

    def ask(self, **question: object) -> dict[str, Any]:
        """One line to the worker, one back.

        :raises Missing: when the peer is not installed there, or does not know the row.
        """
        if self.process is None:
            self.process = subprocess.Popen(
                [self.interpreter, str(HERE / "worker.py"), self.peer],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self.environment,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SystemExit(f"the process of {self.peer} ended with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise Missing(answer["missing"])
        return answer

    def stop(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


@dataclass
class Context:
    """One run of the benchmark."""

    lanes: str  # "", "auto" or a number
    quick: bool
    workers: dict[str, Worker]
    pair: set[int]  # the cores that the row with two of them uses
    rng: np.random.Generator

    @cached_property
    def ptx(self) -> str:
        """NVRTC's PTX of all kernels."""
        from interop.importing import nvrtc

        text = (HERE / "kernels.cu").read_text()
        return nvrtc.compile_source(nvrtc.make_source(text, "kernels.cu", [], [], {}, "c++17", "sm_80")).ptx

    @cached_property
    def loops(self) -> ctypes.CDLL:
        """The C loops, compiled here."""
        compiler = shutil.which("gcc")
        if compiler is None:
            raise Missing("not installed: gcc")
        library = Path(tempfile.mkdtemp(prefix="interop-cpu-bench-")) / "loops.so"
        subprocess.run([compiler, str(HERE / "loops.c"), "-o", str(library), *GCC_FLAGS], check=True)
        return ctypes.CDLL(str(library))

    # ---- variants ----

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``compile_kernel`` for --lanes."""
        if not self.lanes:
            return {}
        return {"lanes": None if self.lanes == "auto" else int(self.lanes)}

    def ours(
        self,
        symbol: str,
        params: Sequence[object],
        grid: Sequence[int],
        block: Sequence[int],
        work: float,
        verify: Verify,
        *,
        ptx: str = "",
        shared: int = 0,
        before: Callable[[], None] | None = None,
        reset: Callable[[], None] | None = None,
    ) -> list[Variant]:
        """The kernel on the CPU device, with bounds checks and without.

        :param before: runs before each execution, within the time, as the peers do the same.
        :param reset: undoes an execution; called once a variant, outside the time.
        """
        from interop.executor import compile_kernel

        found = []
        for name, checks in ((OURS, True), (UNCHECKED, False)):
            try:
                kernel = compile_kernel(ptx or self.ptx, symbol, checks=checks, **self.options())
                call = self._launch(kernel, params, grid, block, shared, checks, before)
                call()  # a translation for a block size comes with the first launch
                if reset is not None:
                    reset()
            except Exception as problem:  # whatever it is, the row says it
                first = str(problem).strip().splitlines()
                found.append(Variant(name, note=f"refused: {first[0] if first else type(problem).__name__}"))
            else:
                found.append(Variant(name, repeated(call), work, verify, lanes_of(kernel, block)))
        return found

    def _launch(
        self,
        kernel: Any,
        params: Sequence[object],
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        checks: bool,
        before: Callable[[], None] | None,
    ) -> Callable[[], None]:
        """One launch as the launch layer makes it."""
        from interop.executor.host import MemoryRange, pack_ranges

        buffer = pack(*params)
        three, by = [*grid, 1, 1][:3], [*block, 1, 1][:3]
        ranges = pack_ranges([MemoryRange(p.ctypes.data, p.nbytes) for p in params if isinstance(p, np.ndarray)])
        known, run = ranges if checks else None, kernel.run

        def call() -> None:
            if before is not None:
                before()
            run(buffer, three, by, shared, 1, known)

        return call

    def gcc(self, name: str, arguments: Sequence[object], work: float, verify: Verify) -> Variant:
        """A C loop."""
        try:
            function = getattr(self.loops, name)
        except Missing as problem:
            return Variant("gcc", note=str(problem))
        function.restype = ctypes.c_float if name == "sum" else None
        values = [
            ctypes.c_void_p(a.ctypes.data)
            if isinstance(a, np.ndarray)
            else (ctypes.c_float(a) if isinstance(a, float) else ctypes.c_int(a))  # type: ignore[arg-type]
            for a in arguments
        ]
        return Variant("gcc", repeated(lambda: function(*values)), work, verify)

    def numpy(self, call: Callable[[], object], work: float, verify: Verify) -> Variant:
        return Variant("NumPy", repeated(call), work, verify)

    def peer(self, name: str, row: str, work: float, **sizes: int) -> Variant:
        """A row in another process, which verifies its own results."""
        worker = self.workers[name]
        title = {"warp": "Warp CPU", "numba": "Numba simulator"}[name]
        try:
            worker.ask(do="prepare", row=row, **sizes)
        except Missing as problem:
            return Variant(title, note=str(problem))
        note = ", ".join(f"{k} = {v}" for k, v in sizes.items()) if name == "numba" else ""

        def batch(count: int) -> float:
            return float(worker.ask(do="run", row=row, count=count)["seconds"])

        return Variant(title, batch, work, note=note)


def lanes_of(kernel: Any, block: Sequence[int]) -> int:
    """How many lanes launches with that block have; the kernel has been launched with it."""
    x, y, z = [*block, 1, 1][:3]
    return int(kernel._chosen.get((x, y, z), kernel._record).lanes)


def close(got: Callable[[], Any], wanted: Any, tolerance: float, what: str) -> Verify:
    """A check against a reference in float64; relative to the reference's largest value."""

    def verify() -> None:
        values = np.asarray(got(), np.float64)
        reference = np.asarray(wanted, np.float64)
        worst = float(np.max(np.abs(values - reference))) / max(float(np.max(np.abs(reference))), 1e-300)
        if not worst <= tolerance:  # NaN too
            raise WrongResults(f"{what}: off by {worst:.3g} of the largest value")

    return verify

"""Rows about everything around a kernel: launching, compiling, parsing."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .context import Context, array, lanes_of, pack
from .kernel_rows import MILLISECONDS
from .measure import OURS, Row, Target, Variant, WrongResults, repeated

_numbers = itertools.count()


def empty_blocks_time(c: Context) -> Row:
    """A million blocks that do nothing."""
    variants = c.ours("empty", [], [1_000_000], [256], 1, lambda: None)
    return Row("launch of 10^6 empty blocks, time", "ms", MILLISECONDS, variants, rate=False)


def empty_blocks_memory(c: Context) -> Row:
    """How far the process's memory rises above what it was before, at the worst moment of such a launch."""
    from interop.executor import compile_kernel

    variant = Variant(OURS)
    row = Row("launch of 10^6 empty blocks, memory", "MB", 1e-6, [variant], rate=False, target=Target(most=4.0))
    try:
        kernel = compile_kernel(c.ptx, "empty", **c.options())
        kernel.launch(b"", 1, 256, threads=1)
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        before = _memory("VmRSS")
        kernel.launch(b"", 1_000_000, 256, threads=1)
        variant.samples, variant.lanes = [float(_memory("VmHWM") - before)], lanes_of(kernel, [256])
    except Exception as problem:
        variant.note = f"refused: {problem}"
    return row


def _memory(field: str) -> int:
    """Bytes, of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1])  # type: ignore[index]


# ---- compiling ----


@contextmanager
def _cache(folder: str) -> Iterator[None]:
    """The executor's cache in `folder`; empty: off."""
    names = ("INTEROP_CACHE", "INTEROP_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    os.environ["INTEROP_CACHE"] = "1" if folder else "0"
    os.environ["INTEROP_CACHE_DIR"] = folder
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class FirstUse:
    """Compiling a kernel and launching it once on little data: what a user waits for. Each time it is another text."""

    def __init__(self, c: Context, ptx: str, symbol: str, grid: Sequence[int], block: Sequence[int], *params: object):
        self.options, self.ptx, self.symbol = c.options(), ptx, symbol
        self.grid, self.block, self.params = grid, block, params  # the arrays live as long as this
        self.lanes: int | None = None

    def __call__(self, number: int | None = None) -> None:
        from interop.executor import compile_kernel

        text = f"{self.ptx}\n// {next(_numbers) if number is None else number}\n"
        kernel = compile_kernel(text, self.symbol, **self.options)
        kernel.launch(pack(*self.params), self.grid, self.block, threads=1)
        self.lanes = lanes_of(kernel, self.block)

    def batch(self, count: int) -> float:
        with _cache(""):
            return repeated(self)(count)


def _compile_row(name: str, uses: Sequence[FirstUse], target: Target | None, verify: Callable[[], None]) -> Row:
    """A row of one kernel, or the mean of several, compiled one after another."""

    def batch(count: int) -> float:
        return sum(use.batch(count) for use in uses) / len(uses)

    variant = Variant(OURS, batch, verify=verify)
    try:
        batch(1)
        variant.lanes = uses[0].lanes
    except Exception as problem:
        variant.batch, variant.note = None, f"refused: {problem}"
    return Row(name, "ms", MILLISECONDS, [variant], rate=False, target=target)


def _single(c: Context, symbol: str) -> FirstUse:
    """A kernel of the benchmark for its first use, with the smallest arguments."""
    a, b, d = (array(4096) for _ in range(3))
    for values in (a, b, d):
        values[:] = 1.0
    arguments: dict[str, tuple[Any, ...]] = {
        "saxpy": ([1], [256], a, b, 2.0, 256),
        "stencil": ([1, 1], [32, 8], a, b, 32, 8),
        "block_sum": ([1], [256], a, b, 256),
        "matmul_tiles": ([1, 1], [16, 16], a, b, d, 16),
        "histogram": ([1], [256], a, b, 256),
        "mandelbrot": ([1, 1], [32, 8], a, 32, 8, 16),
    }
    grid, block, *params = arguments[symbol]
    return FirstUse(c, _only(c.ptx, symbol), symbol, grid, block, *params)


def _only(ptx: str, symbol: str) -> str:
    """The text with that one kernel, as NVRTC would have written it."""
    head, *kernels = re.split(r"(?=^\s*// \.globl|^\.visible \.entry)", ptx, flags=re.MULTILINE)
    return head + "".join(k for k in kernels if re.search(rf"\.entry {symbol}\(", k))


def compile_saxpy(c: Context) -> Row:
    return _compile_row("compile and first launch: saxpy", [_single(c, "saxpy")], None, lambda: None)


def compile_typical(c: Context) -> Row:
    """The mean of five kernels; each is launched once, since its translation may wait for the block's size."""
    uses = [_single(c, s) for s in ("stencil", "block_sum", "matmul_tiles", "histogram", "mandelbrot")]
    return _compile_row("compile and first launch: typical, mean of 5", uses, Target(most=60.0), lambda: None)


def compile_straight(c: Context) -> Row:
    """5,000 integer instructions without a branch, their result computed here, too."""
    rng, mask = np.random.default_rng(), 2**32 - 1
    registers = [int(v) for v in rng.integers(0, mask, 16)]
    start = np.array(registers, np.uint32)
    lines = ["ld.param.u64 %p, [start];", *(f"ld.global.u32 %r{k}, [%p+{4 * k}];" for k in range(16))]
    for _ in range(5000 - len(lines) - 18):
        d, a, b = (int(v) for v in rng.integers(0, 16, 3))
        name, function = _OPERATIONS[int(rng.integers(len(_OPERATIONS)))]
        registers[d] = function(registers[a], registers[b]) & mask
        lines.append(f"{name} %r{d}, %r{a}, %r{b};")
    lines += ["ld.param.u64 %p, [out];", *(f"st.global.u32 [%p+{4 * k}], %r{k};" for k in range(16))]
    body = "\n".join(lines)
    text = ".version 8.0\n.target sm_80\n.address_size 64\n"
    text += ".visible .entry straight(.param .u64 start, .param .u64 out)\n{\n"
    text += f".reg .b32 %r<16>;\n.reg .b64 %p;\n{body}\nret;\n}}\n"
    out = array(16, np.uint32)

    def verify() -> None:
        if out.tolist() != registers:
            raise WrongResults("straight-line code")

    use = FirstUse(c, text, "straight", [1], [1], start, out)
    return _compile_row("compile: 5,000 straight-line instructions", [use], Target(most=2500.0), verify)


_OPERATIONS: list[tuple[str, Callable[[int, int], int]]] = [
    ("add.u32", lambda a, b: a + b),
    ("sub.u32", lambda a, b: a - b),
    ("mul.lo.u32", lambda a, b: a * b),
    ("xor.b32", lambda a, b: a ^ b),
    ("and.b32", lambda a, b: a & b),
    ("or.b32", lambda a, b: a | b),
    ("max.u32", max),
]


def load_cached(c: Context) -> Row:
    """A kernel that another process has compiled, until it has run for the first time in this one."""
    count = 5 if c.quick else 20
    use, folder = _single(c, "block_sum"), tempfile.TemporaryDirectory(prefix="interop-cpu-bench-")
    variant = Variant(OURS)
    name, target = "cached object, load and first launch", Target(most=5.0)
    row = Row(name, "ms", MILLISECONDS, [variant], rate=False, target=target)
    with folder, _cache(folder.name):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for number in range(count):
                    use(number)
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1] != 0:
            variant.note = "refused: the process that fills the cache failed"
            return row
        for number in range(count):
            start = time.perf_counter()
            use(number)
            variant.samples.append(time.perf_counter() - start)
    variant.lanes = use.lanes
    return row


# ---- parsing ----


def _large(c: Context) -> tuple[str, int]:
    """10 MB of NVRTC's PTX: the benchmark's kernels again and again under new names. And how many kernels it has."""
    head, *kernels = re.split(r"(?=^\s*// \.globl|^\.visible \.entry)", c.ptx, flags=re.MULTILINE)
    kernels = [k for k in kernels if ".entry" in k]
    parts, size, count = [head], len(head), 0
    while size < 10_000_000:
        kernel = re.sub(r"\.entry (\w+)", rf".entry \1_{count}", kernels[count % len(kernels)])
        kernel = re.sub(r"(_param_\d+|_ZZ\w+|\$L__\w+)", rf"\1_{count}", kernel)
        parts.append(kernel)
        size, count = size + len(kernel), count + 1
    return "".join(parts), count


def parse_bodies(c: Context) -> Row:
    """Everything: declarations and the statements of every kernel."""
    from interop import ptx

    text, count = _large(c)

    def run() -> None:
        module = ptx.parse(text)
        if len(module.entries) != count or not all(f.body for f in module.functions):
            raise SystemExit("the parser lost kernels")

    name = "parse 10 MB of PTX, all bodies"
    return Row(name, "ms", MILLISECONDS, [Variant(OURS, repeated(run))], rate=False, target=Target(most=1500.0))


def parse_signatures(c: Context) -> Row:
    """The kernels' names and parameters, for a description."""
    import abi

    text, count = _large(c)

    def run() -> None:
        if len(abi.read_entries(text)) != count:
            raise SystemExit("the reader lost kernels")

    name = "signatures of 10 MB of PTX"
    return Row(name, "ms", MILLISECONDS, [Variant(OURS, repeated(run))], rate=False, target=Target(most=50.0))

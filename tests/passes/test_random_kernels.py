"""Random kernels: what compiles meets every barrier together, and PTX computes what the IR says.

A program is a random nest of loops, branches, jumps and assignments over four integers. Divergence is decided by the
IR interpreter, which runs each thread alone: all threads of a block have to pass the same barriers in the same order,
and a value that the analysis holds to be uniform has to be the same in all of them, each time it is computed.
"""

from __future__ import annotations

import linecache
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiling import compile_kernel_function
from support.interpreter import Thread

import interop as io
from interop import simt
from interop.errors import CompileError, DivergenceError
from interop.ir import ops
from interop.language import device
from interop.passes.uniformity import Uniformity

VARIABLES = ("a", "b", "c", "d")
THREADS = 6


@device
def pick(u, v):
    if u > v:
        return u
    if v > 3:
        return v - 1
    return v


class Program:
    """A random kernel's text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counter = 0

    def expression(self) -> str:
        choose = self.random.choice
        left = choose(
            [*VARIABLES, "n", "n", str(self.random.randint(0, 4)), *(["t"] if self.random.random() < 0.3 else [])]
        )
        right = choose([*VARIABLES, "n", "x[0]", *(["x[t]"] if self.random.random() < 0.3 else []), "2"])
        form = choose(
            [
                "{0}",
                "{0} + {1}",
                "{0} - {1}",
                "{0} & {1}",
                "min({0}, {1})",
                "pick({0}, {1})",
                "({0} if {0} < {1} else {1})",
            ]
        )
        return form.format(f"io.i32({left})", f"io.i32({right})")

    def condition(self) -> str:
        choose = self.random.choice
        operands = [*VARIABLES, "n", "n", "x[0]"] + (["t"] if self.random.random() < 0.4 else [])
        test = f"{choose(operands)} {choose(['<', '>', '==', '!='])} {self.random.randint(0, 4)}"
        return f"{test} {choose(['and', 'or'])} n > {self.random.randint(0, 4)}" if self.random.random() < 0.2 else test

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def body(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        kinds = ["assign"] * 6 + ["barrier"]
        kinds += ["if"] * 3 + ["for"] * 2 + ["while"] if depth < 3 else []
        kinds += ["break", "continue"] if self.loops else []
        kinds += ["return"] if self.random.random() < 0.15 else []
        kind = self.random.choice(kinds)
        if kind == "assign":
            self.add(depth, f"{self.random.choice(VARIABLES)} = {self.expression()}")
        elif kind == "barrier":
            self.add(depth, "simt.barrier()")
        elif kind == "if":
            self.add(depth, f"if {self.condition()}:")
            self.body(depth + 1, self.random.randint(1, 3))
            if self.random.random() < 0.5:
                self.add(depth, "else:")
                self.body(depth + 1, self.random.randint(1, 2))
        elif kind in ("for", "while"):
            self.loop(depth, kind)
        else:
            self.add(depth, f"if {self.condition()}:")
            self.add(depth + 1, kind)

    def loop(self, depth: int, kind: str) -> None:
        self.counter += 1
        name = f"k{self.counter}"
        self.loops += 1
        if kind == "for":
            bound = self.random.choice(["3", "n & 3", "x[0] & 3", f"{self.random.choice(VARIABLES)} & 3"])
            self.add(depth, f"for {name} in range({bound}):")
            self.body(depth + 1, self.random.randint(1, 3))
        else:
            # The counter makes it end, whatever the condition is; `continue` must not skip it.
            self.add(depth, f"{name} = 0")
            self.add(depth, f"while {name} < 4 and ({self.condition()}):")
            self.add(depth + 1, f"{name} += 1")
            self.body(depth + 1, self.random.randint(1, 3))
        self.loops -= 1

    def function(self) -> Callable[..., Any]:
        self.body(0, self.random.randint(3, 7))
        # Barriers that depend on what the nest computed: is it the same for all threads?
        for name in self.random.sample(VARIABLES, 2):
            self.add(0, f"if {name} > {self.random.randint(0, 3)}:")
            self.add(1, "simt.barrier()")
        head = [
            "def kernel(x: io.Slice[io.i32], y: io.DisjointTensor[io.i32, 1], n: io.i32):",
            "    i = simt.global_index()",
            "    t = simt.thread_index.x",
            *(f"    {name} = io.i32({value})" for value, name in enumerate(VARIABLES)),
            "    y[i] = -1",
        ]
        source = "\n".join([*head, *self.lines, "    y[i] = a + 10 * b + 100 * c + 1000 * d"]) + "\n"
        file = f"<random {hash(source)}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"io": io, "simt": simt, "pick": pick}
        exec(compile(source, file, "exec"), namespace)
        function: Callable[..., Any] = namespace["kernel"]
        return function


def threads(function: Any, x: np.ndarray[Any, Any], n: int) -> tuple[list[Thread], np.ndarray[Any, Any]]:
    y = np.full(THREADS, 77, np.int32)
    block = (THREADS, 1, 1)
    return [Thread(function, {"x": x, "y": y, "n": n}, (t, 0, 0), block).run() for t in range(THREADS)], y


def inputs(seed: int) -> list[tuple[np.ndarray[Any, Any], int]]:
    numbers = np.random.default_rng(seed)
    return [(numbers.integers(0, 6, THREADS).astype(np.int32), int(numbers.integers(0, 6))) for _ in range(4)]


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_what_compiles_converges_and_uniform_values_are_uniform(start: int) -> None:
    accepted = 0
    for seed in range(start, start + 40):
        kernel = Program(seed).function()
        try:
            function = compile_kernel_function(kernel).function
        except DivergenceError:
            continue
        accepted += 1
        divergent = set(Uniformity(function).values)
        for x, n in inputs(seed):
            runs, _ = threads(function, x, n)
            for run in runs[1:]:
                assert run.barriers == runs[0].barriers, seed
            _check_uniform(runs, divergent, seed)
    assert accepted >= 3


def _check_uniform(runs: list[Thread], divergent: set[Any], seed: int) -> None:
    """A uniform value is the same in all threads that compute it for the n-th time since the last barrier."""
    computed: list[dict[Any, list[Any]]] = []
    for run in runs:
        values: dict[Any, list[Any]] = defaultdict(list)
        for value, result in run.history:
            values[value].append(result)
        computed.append(values)
    for value in {v for values in computed for v in values} - divergent:
        held = [values[value] for values in computed if value in values]
        # Threads that left a loop early have computed it less often, and others may have skipped iterations: only
        # values that all threads compute equally often can be compared one by one.
        if len({len(h) for h in held}) == 1 and len(held) == len(runs):
            assert all(h == held[0] for h in held), seed


def test_refused_kernels_do_diverge() -> None:
    """The analysis is not so strict that it refuses what is plainly uniform: some refused kernels do diverge."""
    diverging = refused = 0
    for seed in range(40):
        kernel = Program(seed).function()
        try:
            compile_kernel_function(kernel)
            continue
        except DivergenceError:
            refused += 1
        function = _without_check(kernel)
        diverging += any(
            any(run.barriers != runs[0].barriers for run in runs)
            for runs in (threads(function, x, n)[0] for x, n in inputs(seed))
        )
    assert refused > 15 and diverging > refused // 4


def _without_check(kernel: Callable[..., Any]) -> Any:
    from unittest import mock

    with mock.patch("interop.passes.pipeline.check_convergence"):
        return compile_kernel_function(kernel).function


@pytest.mark.parametrize("start", range(0, 40, 20))
def test_ptx_computes_what_the_ir_says(start: int) -> None:
    from interop.executor import compile_kernel

    for seed in range(start, start + 20):
        kernel = Program(seed).function()
        try:
            compiled = compile_kernel_function(kernel)
        except DivergenceError:
            continue
        except CompileError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        host = compile_kernel(compiled.program.images[0].text, "kernel")
        for x, n in inputs(seed):
            expected = threads(compiled.function, x, n)[1]
            y = np.full(THREADS, 77, np.int32)
            words = [x.ctypes.data, THREADS, y.ctypes.data, THREADS, 1]
            parameters = np.array(words, np.int64).tobytes() + np.array([n], np.int32).tobytes()
            host.launch(parameters, (1, 1, 1), (THREADS, 1, 1))
            np.testing.assert_array_equal(y, expected, err_msg=f"seed {seed}")


def test_the_interpreter_knows_every_operation() -> None:
    """An operation that is added to the IR is added here, too."""
    known = {type(op).__name__ for seed in range(60) for op in _operations(seed)}
    assert {"If", "For", "While", "Scope", "Break", "Continue", "Return", "Barrier", "Load", "Store"} <= known


def _operations(seed: int) -> list[ops.Operation]:
    try:
        return list(ops.walk(compile_kernel_function(Program(seed).function()).function.body))
    except DivergenceError:
        return []

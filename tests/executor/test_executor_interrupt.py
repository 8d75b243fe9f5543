"""Ctrl-C during a launch: the signal's handler runs, and what it raises ends the launch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from executor_harness import HEADER, pointers

from abi import ExecutionError
from interop.executor import compile_kernel

ENDLESS = HEADER + ".visible .entry k() { L: bra L; }"
BARRIERS = HEADER + ".visible .entry k() { L: bar.sync 0; bra L; }"
BLOCKS = HEADER + (
    ".visible .entry k(.param .u64 x) { .reg .b64 %rd<2>; ld.param.u64 %rd0, [x]; red.global.add.u64 [%rd0], 1; }"
)
# The launching thread does little; a helper never ends.
ONE_BLOCK = HEADER + (
    ".visible .entry k() { .reg .u32 %r<2>; .reg .pred %p; mov.u32 %r0, %ctaid.x; setp.ne.u32 %p, %r0, 1;"
    " @%p bra E; L: bra L; E: ret; }"
)


def interrupt_soon(number: int = signal.SIGINT, after: float = 0.2) -> threading.Timer:
    timer = threading.Timer(after, os.kill, (os.getpid(), number))
    timer.start()
    return timer


@pytest.mark.parametrize(
    ("text", "grid", "block", "threads"),
    [(ENDLESS, 1, 1, 1), (ENDLESS, 8, 64, 2), (BARRIERS, 1, 64, 1), (BARRIERS, 4, 32, 2), (ONE_BLOCK, 2, 1, 2)],
)
def test_ctrl_c_ends_a_launch(text: str, grid: int, block: int, threads: int) -> None:
    launched = compile_kernel(text, "k")
    timer = interrupt_soon()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launched.launch(b"", grid, block, threads=threads)
    assert time.monotonic() - start < 3
    timer.join()
    compile_kernel(HEADER + ".visible .entry k() { ret; }", "k").launch(b"", 4, 4)  # all goes on


def test_ctrl_c_between_blocks() -> None:
    x = np.zeros(1, np.uint64)
    timer = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        compile_kernel(BLOCKS, "k").launch(pointers(x), (2**31 - 1, 60000), 32)
    timer.join()
    assert x[0] > 0


def test_a_handler_that_raises_nothing_lets_the_launch_go_on() -> None:
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
    try:
        timer = interrupt_soon(signal.SIGUSR1, 0.1)
        with pytest.raises(ExecutionError, match="time budget"):
            compile_kernel(ENDLESS, "k").launch(b"", 1, 1, budget=0.6)
        ended = time.monotonic()
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 1 and seen[0] < ended - 0.2  # it ran while the kernel did


def test_what_a_handler_raises_comes_out_of_the_launch() -> None:
    class Alarm(Exception):
        pass

    def raise_alarm(*_: object) -> None:
        raise Alarm("time for tea")

    before = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        with pytest.raises(Alarm, match="time for tea"):
            compile_kernel(ENDLESS, "k").launch(b"", 2, 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_main_thread_is_interrupted_while_another_launches() -> None:
    """A launch of another thread goes on: signals are the main thread's business."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            compile_kernel(ENDLESS, "k").launch(b"", 1, 1, budget=0.8)
        except BaseException as problem:
            problems.append(problem)

    worker = threading.Thread(target=work)
    worker.start()
    timer = interrupt_soon(after=0.2)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(200):
            time.sleep(0.01)
    worker.join()
    timer.join()
    assert len(problems) == 1 and isinstance(problems[0], ExecutionError)


def test_a_script_dies_by_ctrl_c_as_scripts_do() -> None:
    text = f"""
from interop.executor import compile_kernel
k = compile_kernel({ENDLESS!r}, "k")
print("ready", flush=True)
k.launch(b"", 4, 32)
"""
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def test_a_forked_child_can_be_interrupted_and_has_budgets() -> None:
    launched = compile_kernel(ENDLESS, "k")
    with pytest.raises(ExecutionError):
        launched.launch(b"", 1, 1, budget=0.05)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            launched.launch(b"", 4, 1, threads=2, budget=0.1)
        except ExecutionError:
            try:
                interrupt_soon(after=0.1)
                launched.launch(b"", 4, 1, threads=2)
            except KeyboardInterrupt:
                code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_handler_may_launch_kernels_itself() -> None:
    x = np.zeros(1, np.uint64)
    inner, endless = compile_kernel(BLOCKS, "k"), compile_kernel(ENDLESS, "k")  # the signal comes during the launch
    inner.launch(pointers(np.zeros(1, np.uint64)), 1, 32)

    def launch(*_: object) -> None:
        inner.launch(pointers(x), 10, 32)

    before = signal.signal(signal.SIGUSR2, launch)
    try:
        timer = interrupt_soon(signal.SIGUSR2, 0.1)
        with pytest.raises(ExecutionError, match="time budget"):
            endless.launch(b"", 1, 32, budget=0.4)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert x[0] == 320

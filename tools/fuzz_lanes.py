"""Runs thousands of generated kernels at every lane count and compares the bits; shrinks those that differ.

Each kernel runs in a worker process, so that one which crashes or hangs costs only itself. With ``--gpu`` the kernels
run on a CUDA device instead and are compared with one lane of the CPU device, or with the interpreter where the CPU
device is not built.

    python tools/fuzz_lanes.py --count 2000 --jobs 2
    python tools/fuzz_lanes.py --seed 1234 --count 1 --show
    python tools/fuzz_lanes.py --gpu --count 500
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "executor")]

_BATCH = 50  # seeds that one worker process takes: what it compiles stays in its memory
_PATIENCE = 120.0  # seconds for one kernel


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--lanes", default="8,16,32")
    options.add_argument("--no-interpreter", action="store_true", help="compare lane counts only")
    options.add_argument("--gpu", action="store_true")
    options.add_argument("--show", action="store_true", help="print the PTX of the first seed and stop")
    options.add_argument("--shrink", type=int, default=3, metavar="N", help="shrink the first N failures")
    options.add_argument("--out", type=Path, help="folder for the PTX of failures, whole and shrunk")
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    os.environ.setdefault("INTEROP_CACHE", "0")
    if arguments.show:
        from kernel_generator import generate
        from kernel_ir import ptx_of

        print(ptx_of(generate(arguments.seed)))
        return 0
    if arguments.worker:
        return work(arguments)
    start = time.monotonic()
    outcomes = run_all(arguments)
    failures = [o for o in outcomes if o["wrong"]]
    summarize(outcomes, time.monotonic() - start)
    for failure in failures[: arguments.shrink]:
        report(failure, arguments)
    return 1 if failures else 0


# ---- one kernel ----


def work(arguments: argparse.Namespace) -> int:
    """A worker: seeds come in as lines, outcomes go out as lines."""
    check = checker(arguments)
    for line in sys.stdin:
        print(json.dumps(check(int(line))), flush=True)
    return 0


def checker(arguments: argparse.Namespace) -> Callable[[int], dict[str, Any]]:
    """What tests one seed."""
    if arguments.gpu:
        import kernel_gpu

        return kernel_gpu.checker()
    from kernel_fuzz import check_seed

    lanes = tuple(map(int, arguments.lanes.split(",")))

    def check(seed: int) -> dict[str, Any]:
        try:
            return vars(check_seed(seed, lanes, not arguments.no_interpreter))
        except Exception as error:
            return failed(seed, f"{type(error).__name__}: {error}")

    return check


def failed(seed: int, why: str) -> dict[str, Any]:
    """The outcome of a kernel that gave no result."""
    return {"seed": seed, "features": {}, "refused": {}, "wrong": {"run": why}}


# ---- many ----


def run_all(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All seeds, spread over worker processes."""
    seeds = iter(range(arguments.seed, arguments.seed + arguments.count))
    outcomes: list[dict[str, Any]] = []
    lock = threading.Lock()

    def take() -> list[int]:
        with lock:
            return [seed for _, seed in zip(range(_BATCH), seeds)]

    def feed() -> None:
        while batch := take():
            for outcome in run_batch(batch):
                with lock:
                    outcomes.append(outcome)
                    note(outcome, len(outcomes), arguments.count)

    threads = [threading.Thread(target=feed) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes, key=lambda o: int(o["seed"]))


def note(outcome: dict[str, Any], done: int, count: int) -> None:
    if outcome["wrong"]:
        print(f"seed {outcome['seed']}: {outcome['wrong']}", flush=True)
    if done % 100 == 0:
        print(f"{done} of {count}", flush=True)


def run_batch(batch: list[int]) -> Iterator[dict[str, Any]]:
    """The outcomes of some seeds; a worker that dies is replaced."""
    while batch:
        worker = subprocess.Popen(
            [sys.executable, __file__, "--worker", *worker_options()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert worker.stdin is not None and worker.stdout is not None
        while batch:
            seed = batch.pop(0)
            worker.stdin.write(f"{seed}\n")
            worker.stdin.flush()
            alarm = threading.Timer(_PATIENCE, worker.kill)
            alarm.start()
            line = worker.stdout.readline()
            alarm.cancel()
            if not line:
                code = worker.wait()
                yield failed(seed, "no result in time" if code == -9 else f"the process died with status {code}")
                break
            outcome = json.loads(line)
            stop = outcome.pop("stop", False)
            yield outcome
            if stop:
                break
        worker.stdin.close()
        worker.wait()


def worker_options() -> list[str]:
    """What a worker has to know of the command line."""
    given = iter(sys.argv[1:])
    kept = []
    for option in given:
        if option in ("--gpu", "--no-interpreter") or option.startswith("--lanes="):
            kept.append(option)
        elif option == "--lanes":
            kept += [option, next(given)]
    return kept


def summarize(outcomes: list[dict[str, Any]], seconds: float) -> None:
    """The table at the end."""
    features: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for outcome in outcomes:
        features.update(outcome["features"].keys())
        refused.update(outcome["refused"].keys())
        reasons.update(why.split(": ", 1)[-1][:100] for why in set(outcome["refused"].values()))
    print(f"\n{len(outcomes)} kernels in {seconds:.0f} s")
    print("kernels with: " + ", ".join(f"{name} {count}" for name, count in features.most_common()))
    for lanes, count in sorted(refused.items()):
        print(f"refused at {lanes} lanes: {count} ({100 * count / len(outcomes):.1f} %)")
    for why, count in reasons.most_common(10):
        print(f"  {count} × {why}")
    wrong = [o for o in outcomes if o["wrong"]]
    print(f"differ: {len(wrong)}" + "".join(f"\n  seed {o['seed']}: {o['wrong']}" for o in wrong[:40]))


# ---- shrinking ----


def report(failure: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Shrinks one failure and prints or writes its PTX."""
    from kernel_generator import generate
    from kernel_ir import ptx_of

    seed, against = int(failure["seed"]), next(iter(failure["wrong"]))
    program = generate(seed)
    small = program
    if against.isdigit() or against == "interpreter":
        from kernel_fuzz import shrink

        small = shrink(program, lambda candidate: isolated(candidate, against))
    head = f"// seed {seed}, {against}: {failure['wrong'][against]}\n// grid {program.grid} block {program.block}"
    head += f" shared {program.shared} scalars {program.scalars}\n"
    if arguments.out is None:
        print(f"\n{head}{ptx_of(small)}")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{seed}.whole.ptx").write_text(ptx_of(program))
    (arguments.out / f"{seed}.ptx").write_text(head + ptx_of(small))


def isolated(program: Any, against: str) -> bool:
    """Whether a program still fails, tried in a process of its own: it may crash."""
    import kernel_fuzz

    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = int(kernel_fuzz.fails(program, against))
        finally:
            os._exit(code)
    deadline = time.monotonic() + 30
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 1
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return True
        time.sleep(0.002)


if __name__ == "__main__":
    raise SystemExit(main())

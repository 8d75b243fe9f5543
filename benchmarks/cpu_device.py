"""How fast the CPU device is, beside NumPy, gcc's loops, Warp's CPU back end and Numba's simulator; one core, one run.

Every variant's results are checked against float64 references before anything is timed; the best of many short
repetitions counts, the variants taking turns. A peer that is not installed is a line that says so.

    python benchmarks/cpu_device.py                          # everything; writes benchmarks/results/cpu_device-….json
    python benchmarks/cpu_device.py --only saxpy --quick     # rows whose name contains a word, fewer repetitions
    python benchmarks/cpu_device.py --peers VENV/bin/python  # an interpreter that has warp-lang, numba and numba-cuda
    python benchmarks/cpu_device.py --lanes 8                # so many lanes; auto: the translator's choice
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "INTEROP_CPU_THREADS")
# A core type or cache size that is set for another machine slows NumPy's matrix product down.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--only", action="append", default=[], help="rows whose name contains this; may be repeated")
    options.add_argument("--quick", action="store_true", help="fewer repetitions")
    options.add_argument(
        "--lanes", default="", help="lanes of the translation: a number, or auto (default: the library's)"
    )
    options.add_argument("--peers", default=sys.executable, help="interpreter that has Warp and Numba")
    options.add_argument("--json", type=Path, help="where the record goes; default: benchmarks/results/")
    arguments = options.parse_args()
    own_environment()
    pair = pin()

    import numpy as np
    from cpu_bench.context import Context

    context = Context(arguments.lanes, arguments.quick, workers(arguments.peers), pair, np.random.default_rng())
    started = time.monotonic()
    rows = run(context, arguments.only, 0.1 if arguments.quick else 1.0)
    for worker in context.workers.values():
        worker.stop()
    if not rows:
        print(f"no row's name contains {' or '.join(arguments.only)}", file=sys.stderr)
        return 2
    record = {
        "what": "the CPU device beside its peers, one core",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(arguments.peers),
        "lanes": arguments.lanes or "default",
        "quick": arguments.quick,
        "seconds": round(time.monotonic() - started),
        "rows": [row.record() for row in rows],
    }
    path = arguments.json or ROOT / "benchmarks" / "results" / f"cpu_device-{record['date'][:10]}.json"  # type: ignore[index]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"record: {path}\n")
    print_table(rows)
    return 1 if any(v.note.startswith("WRONG") for row in rows for v in row.variants) else 0


# -- the process ---------------------------------------------------------------------------------------------------


def own_environment() -> None:
    """One thread for every library. They read this when they are loaded, so the process begins anew with it."""
    wanted = {**{k: v for k, v in os.environ.items() if k not in UNSET}, **dict.fromkeys(THREADS, "1")}
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def pin() -> set[int]:
    """Moves this process to the core that has been idle most lately. The two of the row with two cores are returned."""
    cores = sorted(os.sched_getaffinity(0))
    before = idle_times()
    time.sleep(0.3)
    after = idle_times()
    cores.sort(key=lambda core: before.get(core, 0) - after.get(core, 0))
    os.sched_setaffinity(0, {cores[0]})
    return set(cores[:2])


def idle_times() -> dict[int, int]:
    """Clock ticks that each core has been idle."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[int(name[3:])] = int(values[3])
    return found


def workers(interpreter: str) -> dict[str, Any]:
    from cpu_bench.context import Worker

    numba = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    return {"warp": Worker("warp", interpreter, dict(os.environ)), "numba": Worker("numba", interpreter, numba)}


# -- rows ----------------------------------------------------------------------------------------------------------


def makers() -> dict[str, Callable[[Any], Any]]:
    """Every row by a name that --only can find."""
    from cpu_bench import kernel_rows as k
    from cpu_bench import other_rows as o

    return {
        "saxpy 2^20": partial(k.saxpy, n=1 << 20),
        "saxpy 2^22": partial(k.saxpy, n=1 << 22),
        "saxpy grid-stride": partial(k.saxpy, n=1 << 20, symbol="saxpy_stride", grid=64),
        "stencil": k.stencil,
        "softmax": k.softmax,
        "reduction": k.block_sum,
        "matmul tiles": k.matmul,
        "histogram": k.histogram,
        "barrier": k.barriers,
        "shuffle": k.shuffles,
        "mandelbrot": k.mandelbrot,
        "matmul mma": k.matmul_mma,
        "two cores": k.two_cores,
        "empty time": o.empty_blocks_time,
        "empty memory": o.empty_blocks_memory,
        "compile saxpy": o.compile_saxpy,
        "compile typical": o.compile_typical,
        "compile straight": o.compile_straight,
        "compile cached": o.load_cached,
        "parse bodies": o.parse_bodies,
        "parse signatures": o.parse_signatures,
    }


def run(context: Any, only: list[str], budget: float) -> list[Any]:
    from cpu_bench.measure import measure

    rows = []
    for name, make in makers().items():
        if only and not any(word in name for word in only):
            continue
        row = make(context)
        measure(row, budget)
        rows.append(row)
        print_row(row, sys.stderr)
    return rows


# -- the table -----------------------------------------------------------------------------------------------------


def print_row(row: Any, file: Any) -> None:
    target = f"  target {row.target.text(row.unit)}" if row.target else ""
    print(f"{row.name} [{row.unit}]{target}  {verdict(row)}  load {row.load:.1f}", file=file, flush=True)
    for v in row.variants:
        lanes = "" if v.lanes is None else f"W = {v.lanes}"
        value = row.value(v)
        shown = f"{value:10.4g}  {lanes}" if value is not None else ""
        print(f"    {v.name:<24}{shown}  {v.note}".rstrip(), file=file, flush=True)


def verdict(row: Any) -> str:
    """``reached 1.2``, ``MISSED 0.8``, or nothing where there is no target."""
    met, ratio = row.met(), row.ratio()
    if met is None:
        return "" if row.target is None else "no result"
    shown = f" {ratio:.2f}" if ratio is not None and row.target.peer else ""
    return f"{'reached' if met else 'MISSED'}{shown}"


def print_table(rows: list[Any]) -> None:
    """The same as a table for reading: ours, the peers, the target."""
    from cpu_bench.measure import OURS, UNCHECKED

    print(
        f"{'row':<46}{'unit':<14}{'ours':>9}{'W':>4}{'checks':>8}{'gcc':>9}{'NumPy':>9}{'Warp':>9}{'Numba':>9}  target"
    )
    for row in rows:
        values = []
        for name in ("gcc", "NumPy", "Warp CPU", "Numba simulator"):
            v = row.variant(name)
            value = row.value(v) if v is not None else None
            values.append(f"{value:>10.4g}" if value is not None else f"{'':>10}")
        ours = row.variant(OURS)
        value, cost = row.value(ours), row.ratio(UNCHECKED, OURS)
        mine = f"{value:>9.4g}" if value is not None else f"{'refused':>9}"
        width = "" if ours.lanes is None else ours.lanes
        target = f"{row.target.text(row.unit)}: {verdict(row)}" if row.target else ""
        checks = "" if cost is None else f"x{cost:.2f}"
        print(f"{row.name:<46}{row.unit:<14}{mine}{width:>4}{checks:>8}{''.join(values)}  {target}")


def machine(interpreter: str) -> dict[str, Any]:
    """Where this ran, and versions of everything that took part."""
    from interop.runtime import device

    found: dict[str, Any] = {"python": platform.python_version(), "cpu": device("cpu").name, "cores": os.cpu_count()}
    found["load"] = [round(value, 2) for value in os.getloadavg()]
    for name in ("numpy", "llvmlite", "nvidia-cuda-nvrtc"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    query = "import importlib.metadata as m; print(m.version('{}'))"
    for name in ("warp-lang", "numba", "numba-cuda"):
        done = subprocess.run([interpreter, "-c", query.format(name)], capture_output=True, text=True, check=False)
        found[name] = done.stdout.strip() if done.returncode == 0 else "not installed"
    done = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    found["gcc"] = done.stdout.strip()
    return found


if __name__ == "__main__":
    raise SystemExit(main())

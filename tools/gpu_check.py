"""Everything that needs a GPU, in one go: install, GPU tests, the demo, the launch benchmark, compute-sanitizer.

Meant for a machine with an NVIDIA GPU and perhaps no package registry: it builds this checkout in place without
fetching anything and uses the machine's own CUDA toolkit. Prints a short table last and writes what it saw as JSON.

    python3 tools/gpu_check.py --out build/gpu
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Outcome:
    """One step: whether it succeeded, how long it took, and the line that sums it up."""

    step: str
    ok: bool
    seconds: float
    summary: str


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    options.add_argument("--only", default="", help="comma-separated names of steps")
    arguments = options.parse_args()
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = set(arguments.only.split(",")) - {""}

    outcomes = [
        run_step(name, command, out, timeout)
        for name, command, timeout in steps(out)
        if not wanted or name in wanted or name == "install"
    ]
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    record |= {"machine": machine(), "steps": [asdict(outcome) for outcome in outcomes]}
    (out / "gpu-check.json").write_text(json.dumps(record, indent=2) + "\n")
    print()
    for outcome in outcomes:
        print(f"{'ok  ' if outcome.ok else 'FAIL'} {outcome.step:<12} {outcome.seconds:7.1f} s  {outcome.summary}")
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def steps(out: Path) -> list[tuple[str, list[str], int]]:
    """Name, command and time limit in seconds of each step, in order."""
    python = sys.executable
    photo = out / "photo"
    sanitizer = ["compute-sanitizer", "--error-exitcode", "9"]
    sketch = [
        str(photo / "build" / "sketch"), "cuda", str(photo / "pixels.f32"), str(photo / "sanitized.f32"),
        "512", "600", "1.6", "0.7",
    ]  # fmt: skip
    return [
        ("install", [python, "setup.py", "-q", "build_ext", "--inplace"], 120),
        ("tests", [python, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"], 240),
        ("demo", [python, "examples/photo/demo.py", "--device", "cuda", "--out", str(photo), "--json",
                  str(out / "photo.json")], 120),
        ("launch", [python, "benchmarks/launch.py", "--json", str(out / "launch.json")], 150),
        ("memcheck", [*sanitizer, "--tool", "memcheck", *sketch], 60),
        ("racecheck", [*sanitizer, "--tool", "racecheck", *sketch], 60),
        ("initcheck", [*sanitizer, "--tool", "initcheck", *sketch], 60),
        ("synccheck", [*sanitizer, "--tool", "synccheck", *sketch], 60),
        ("selftest", [*sanitizer, "--tool", "memcheck", str(photo / "build" / "photo" / "photo_selftest"), "cuda"], 60),
    ]  # fmt: skip


def run_step(name: str, command: list[str], out: Path, timeout: int) -> Outcome:
    """Runs one command, keeps its output in ``NAME.log``, echoes the end of it when it fails."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=timeout, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        text, ok = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as expired:
        partial = expired.stdout or b""
        text = (partial.decode(errors="replace") if isinstance(partial, bytes) else partial) + "\n(time limit reached)"
        ok = False
    except FileNotFoundError as error:
        text, ok = f"{error}", False
    (out / f"{name}.log").write_text(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if not ok:
        print(f"--- {name}\n" + "\n".join(lines[-60:]), flush=True)
    summary = re.sub(r"\x1b\[[0-9;]*m|=", "", lines[-1]).strip() if lines else ""
    return Outcome(name, ok, time.monotonic() - start, summary[:140])


def machine() -> dict[str, str]:
    """GPU, driver and the versions of what took part."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        gpu = "no nvidia-smi"
    versions = {"python": sys.version.split()[0], "gpu": gpu}
    import importlib.metadata

    for name in ("llvmlite", "cuda-bindings", "numpy", "torch", "triton", "cupy-cuda13x"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


if __name__ == "__main__":
    raise SystemExit(main())

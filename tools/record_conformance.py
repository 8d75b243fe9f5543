"""Records on a GPU what every case of the conformance table yields, or compares with what was recorded.

Needs an NVIDIA driver, NumPy and cuda-python, nothing else; each family runs in a process of its own, so that a case
that fails or hangs costs its own result only.

    python3 tools/record_conformance.py                     # writes tests/conformance/expected/*.json
    python3 tools/record_conformance.py --out build/expected
    python3 tools/record_conformance.py --check             # compares with tests/conformance/expected
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))

from conformance_table import FAMILIES, Case, family, module  # noqa: E402
from conformance_table.record import EXPECTED, Buffers, Recording, buffers, encode, load, save  # noqa: E402

_LOG_BYTES = 1 << 14
# A case takes a millisecond, a family's module a second or two to load; what hangs is stopped.
_CASE_SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "15"))
_SHOWN = 40


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=EXPECTED, help="the folder for the recording")
    options.add_argument("--check", action="store_true", help="compare with the recording instead of writing one")
    options.add_argument("--expected", type=Path, default=EXPECTED, help="the recording to compare with")
    options.add_argument("--family", choices=list(FAMILIES), action="append", help="only these families")
    options.add_argument("--child", type=int, metavar="FIRST", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    wanted: list[str] = arguments.family or list(FAMILIES)
    if arguments.child is not None:
        return child(wanted[0], arguments.child)
    origin = describe()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run_family, wanted))
    differing = 0
    for name, cases in zip(wanted, results):
        recording = Recording(name, origin, cases)
        if arguments.check:
            differing += compare(recording, load(name, arguments.expected))
        else:
            save(recording, arguments.out)
        summarise(recording)
    if arguments.check:
        print(f"{differing} cases differ from the recording")
    return 1 if differing else 0


def summarise(recording: Recording) -> None:
    kinds = [next((k for k in ("refused", "failed") if k in e), "recorded") for e in recording.cases.values()]
    print(f"{recording.family:<12}" + "".join(f"  {kinds.count(k):4} {k}" for k in ("recorded", "refused", "failed")))
    for name, entry in recording.cases.items():
        if "results" not in entry:
            print(f"    {name}: {entry.get('refused') or entry.get('failed')}")


def compare(recording: Recording, before: Recording | None) -> int:
    """Prints the cases that differ from an earlier recording; how many."""
    differing = []
    for case in family(recording.family):
        now, then = recording.entry(case), before.entry(case) if before else None
        assert now is not None
        if then is None:
            differing.append(f"{case.name}: not recorded")
        elif now.get("results") != then.get("results"):
            differing.append(f"{case.name}: {str(now)[:150]} was {str(then)[:150]}")
    print("\n".join(f"  DIFFERS {recording.family}: {line}" for line in differing[:_SHOWN]))
    return len(differing)


# ---- a family in a process of its own ----


def run_family(name: str) -> dict[str, dict[str, object]]:
    """All cases of a family, whatever some of them do."""
    cases = family(name)
    entries: dict[str, dict[str, object]] = {}
    while len(entries) < len(cases):
        output, end = _run_child(name, len(entries))
        for line in output.splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                entries[entry.pop("name")] = entry
        if len(entries) < len(cases):
            case = cases[len(entries)]
            entries[case.name] = {"digest": case.digest, "failed": end}
    return entries


def _run_child(name: str, first: int) -> tuple[str, str]:
    """A child's output, and what stopped it."""
    command = [sys.executable, str(Path(__file__).resolve()), "--family", name, "--child", str(first)]
    hung = threading.Event()

    def stop() -> None:
        hung.set()
        process.kill()

    lines = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        watch = threading.Timer(_CASE_SECONDS, stop)
        watch.start()
        for line in process.stdout:
            watch.cancel()
            lines.append(line)
            watch = threading.Timer(_CASE_SECONDS, stop)
            watch.start()
        status = process.wait()
        watch.cancel()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if hung.is_set():
        return "".join(lines), f"no end within {_CASE_SECONDS:g} s"
    return "".join(lines), said[-1] if said else f"exit status {status}"


def child(name: str, first: int) -> int:
    """Runs a family from its case `first` on; prints an entry for each."""
    device = Device()
    cases = family(name)[first:]
    loaded, message = device.load(module(cases, "sm_90"))
    for index, case in enumerate(cases):
        kernel = device.function(loaded, f"case{index}") if loaded is not None else None
        if kernel is None:  # the assembler refuses one of them: each by itself
            alone, message = device.load(module([case], "sm_90"))
            kernel = device.function(alone, "case0") if alone is not None else None
        if kernel is None:
            _print(case, refused=message)
            continue
        data = buffers(case)
        device.run(kernel, data)
        _print(case, results=encode(case, data.outs))
    return 0


def _print(case: Case, **result: object) -> None:
    print(json.dumps({"name": case.name, "digest": case.digest, **result}), flush=True)


# ---- the driver ----


def driver() -> Any:
    try:
        from cuda.bindings import driver as bindings
    except ImportError:
        from cuda import cuda as bindings  # before cuda-python 12.6
    return bindings


def checked(answer: Any) -> Any:
    """The values behind a driver call's status; SystemExit with the error's name where it failed."""
    status, *values = answer
    if int(status) != 0:
        raise SystemExit(f"the driver says {getattr(status, 'name', status)}")
    return values[0] if len(values) == 1 else values


class Device:
    """The first GPU, its primary context, and one set of buffers."""

    def __init__(self) -> None:
        self.cu = driver()
        checked(self.cu.cuInit(0))
        self.device = checked(self.cu.cuDeviceGet(0))
        checked(self.cu.cuCtxSetCurrent(checked(self.cu.cuDevicePrimaryCtxRetain(self.device))))

    def load(self, text: str) -> tuple[Any, str]:
        """A module, or None and what the driver's assembler says."""
        option = self.cu.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = {option.CU_JIT_ERROR_LOG_BUFFER: log, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES}
        status, loaded = self.cu.cuModuleLoadDataEx(
            text.encode() + b"\0", len(options), list(options), list(options.values())
        )
        if int(status) == 0:
            return loaded, ""
        said = " ".join(log.split(b"\0")[0].decode(errors="replace").split())
        return None, f"{getattr(status, 'name', status)}: {said}"[:400]

    def function(self, loaded: Any, symbol: str) -> Any:
        return checked(self.cu.cuModuleGetFunction(loaded, symbol.encode()))

    def run(self, kernel: Any, data: Buffers) -> None:
        """One launch; `data.outs` becomes what the kernel wrote."""
        cu = self.cu
        places = []
        for array in (data.ins, data.outs, data.scratch):
            place = checked(cu.cuMemAlloc(max(array.nbytes, 8)))
            checked(cu.cuMemcpyHtoD(place, array.ctypes.data, array.nbytes))
            places.append(place)
        values = [*(ctypes.c_uint64(int(place)) for place in places), ctypes.c_uint32(data.count)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        checked(
            cu.cuLaunchKernel(kernel, data.grid, 1, 1, data.block, 1, 1, 0, 0, ctypes.addressof(pointers), 0)
        )  # fmt: skip
        checked(cu.cuCtxSynchronize())
        checked(cu.cuMemcpyDtoH(data.outs.ctypes.data, places[1], data.outs.nbytes))
        for place in places:
            checked(cu.cuMemFree(place))


def describe() -> dict[str, str]:
    """The device, its driver and today's date."""
    cu = driver()
    checked(cu.cuInit(0))
    device = checked(cu.cuDeviceGet(0))
    name = checked(cu.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
    attribute = cu.CUdevice_attribute
    major, minor = (
        checked(cu.cuDeviceGetAttribute(a, device))
        for a in (attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                  attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    )  # fmt: skip
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        version = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")[0].strip()
    except FileNotFoundError:
        version = ""
    cuda = checked(cu.cuDriverGetVersion())
    return {
        "device": name, "compute_capability": f"{major}.{minor}", "driver": version or "unknown",
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}", "date": datetime.date.today().isoformat(),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())

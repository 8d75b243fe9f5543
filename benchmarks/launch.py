"""What one launch of a kernel with two slices and a float costs the host, beside raw C, cuda.core, CuPy and Triton.

Ours has every check on: count, dtype, layout, alignment, range, aliasing, preconditions, grid rule, limits, stream. All
variants run the same device code over the same 1024 elements, alternating, in one process. A peer that is not installed
is a row that says so.

    python benchmarks/launch.py                  # on a GPU; writes benchmarks/results/launch-….json
    python benchmarks/launch.py --device cpu     # our Python alone, over a device that does nothing
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import importlib.metadata
import json
import platform
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

N, BLOCK, FACTOR = 1024, 256, 2.0
GRID = N // BLOCK

SOURCE = """
extern "C" __global__ void scale(const float *x, unsigned long long nx, float *y, unsigned long long ny, float a)
{
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    if (i < ny) y[i] = a * x[i];
}
"""

RAW_LOOP = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);
/* Nanoseconds a launch, or a negative number when something fails. */
double raw_loop(void *function, int count, unsigned grid, unsigned block, void *x, uint64_t nx, void *y, uint64_t ny,
                float a)
{
    static launch_t launch;
    struct timespec begin, end;
    if (!launch) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        launch = driver ? (launch_t)dlsym(driver, "cuLaunchKernel") : 0;
        if (!launch) return -1.0;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int k = 0; k < count; k++) {
        void *params[] = {&x, &nx, &y, &ny, &a};
        if (launch(function, grid, 1, 1, block, 1, 1, 0, 0, params, 0)) return -2.0;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count;
}
"""


class NotInstalled(Exception):
    """A peer is missing; the text says which."""


@dataclass
class Variant:
    """One row. ``batch`` launches so many times and returns nanoseconds a launch; ``verify`` checks the results."""

    name: str
    checks: str
    batch: Callable[[int], float] | None = None
    verify: Callable[[], None] | None = None
    missing: str = ""
    samples: list[float] = field(default_factory=list)


@dataclass
class Row:
    name: str
    checks: str
    best_ns: float | None
    median_ns: float | None
    over_raw_ns: float | None
    note: str = ""


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options.add_argument("--batches", type=int, default=60)
    options.add_argument("--launches", type=int, default=500, help="launches a batch")
    options.add_argument("--json", type=Path, help="where the record goes; default: benchmarks/results/")
    arguments = options.parse_args()

    import interop as io

    try:
        device = io.device(arguments.device)
    except io.DeviceError as error:
        print(f"no launch can be timed: {error}\n--device cpu times the Python part alone", file=sys.stderr)
        return 2
    variants = cuda_variants(device) if device.kind == "cuda" else cpu_variants(device)
    measure(variants, device, arguments.batches, arguments.launches)
    rows = make_rows(variants)
    record = {
        "what": "host cost of one launch of (slice<f32>, slice<f32>, f32), nanoseconds",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(device),
        "batches": arguments.batches,
        "launches_per_batch": arguments.launches,
        "rows": [asdict(row) for row in rows],
    }
    path = arguments.json or default_path(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"record: {path}\n")
    print_table(rows, device)
    return 0


# -- measuring -----------------------------------------------------------------------------------------------------


def measure(variants: list[Variant], device: Any, batches: int, launches: int) -> None:
    """Batches of all variants in turn, each time starting with another, the device idle before each."""
    ready = [v for v in variants if v.batch is not None]
    for variant in ready:
        assert variant.batch is not None
        variant.batch(50)
        device.synchronize()
        if variant.verify is not None:
            variant.verify()
    for number in range(batches):
        first = number % len(ready)
        for variant in ready[first:] + ready[:first]:
            assert variant.batch is not None
            device.synchronize()
            variant.samples.append(variant.batch(launches))
        device.synchronize()


def timed(call: Callable[[], object]) -> Callable[[int], float]:
    """A batch of Python calls."""

    def batch(count: int) -> float:
        loop = range(count)
        start = time.perf_counter_ns()
        for _ in loop:
            call()
        return (time.perf_counter_ns() - start) / count

    return batch


def make_rows(variants: list[Variant]) -> list[Row]:
    """Best and median of each variant, and how much its median is above that of the bare C loop."""
    raw = next((statistics.median(v.samples) for v in variants if v.name.startswith("C loop") and v.samples), None)
    rows = []
    for v in variants:
        if not v.samples:
            rows.append(Row(v.name, v.checks, None, None, None, v.missing))
            continue
        median = statistics.median(v.samples)
        over = round(median - raw) if raw is not None else None
        rows.append(Row(v.name, v.checks, round(min(v.samples)), round(median), over))
    return rows


def print_table(rows: list[Row], device: Any) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'one launch on ' + device.name:<{width}}  checks  best ns  median ns  over C")
    for row in rows:
        if row.best_ns is None:
            print(f"{row.name:<{width}}  {row.checks:<6}  {row.note}")
        else:
            over = "" if row.over_raw_ns is None else f"{row.over_raw_ns:7.0f}"
            print(f"{row.name:<{width}}  {row.checks:<6}  {row.best_ns:7.0f}  {row.median_ns:9.0f}  {over}")


# -- variants ------------------------------------------------------------------------------------------------------


def our_kernel() -> Any:
    """The kernel with a contract like that of a Python kernel that writes through a one-dimensional witness."""
    import interop as io

    @io.foreign(
        io.load_cuda(SOURCE),
        block=BLOCK,
        grid="ceil_div(len(y), block.x)",
        requires=["len(x) >= len(y)", "grid.y == 1", "grid.z == 1", "block.y == 1", "block.z == 1"],
        convention="interop-1",
    )
    def scale(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):  # type: ignore[no-untyped-def]
        """y <- a*x."""

    return scale


def cpu_variants(device: Any) -> list[Variant]:
    """Ours over a device that does nothing: what the Python of a launch costs."""
    import numpy as np

    import interop as io

    class Nothing:
        static_shared, max_threads = 0, 1024

        def launch(self, *_: object) -> None: ...

    scale = our_kernel()
    scale.program()
    scale._loaded[device.key] = Nothing()
    x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
    own_x, own_y = io.to_device(x, device), io.to_device(y, device)
    explicit = scale[GRID, BLOCK]
    return [
        Variant("interop, NumPy arrays, no-op device", "all", timed(lambda: scale(x, y, FACTOR))),
        Variant("interop, own arrays, no-op device", "all", timed(lambda: scale(own_x, own_y, FACTOR))),
        Variant("interop, own arrays, [grid, block]", "all", timed(lambda: explicit(own_x, own_y, FACTOR))),
        Variant("an empty Python call", "none", timed(lambda: None)),
    ]


def cuda_variants(device: Any) -> list[Variant]:
    """Every variant; the missing ones with a note."""
    import numpy as np

    import interop as io
    from interop.runtime.cuda_driver import call

    call("cuCtxSetCurrent", device._context)  # as every CUDA program has it
    data = np.random.default_rng().standard_normal(N, dtype=np.float32)
    x, y = io.to_device(data, device), io.empty(N, io.f32, device)

    def verify() -> None:
        if not np.array_equal(y.to_host(), np.float32(FACTOR) * data):
            raise SystemExit("a variant computed wrong results")
        y.copy_from(np.full(N, np.nan, np.float32))

    makers: list[tuple[str, str, Callable[..., Any]]] = [
        ("C loop, cuLaunchKernel", "none", raw_c),
        ("cuda.bindings, packed buffer", "none", raw_bindings),
        ("cuda.core launch", "none", cuda_core),
        ("interop k(x, y, a), own arrays", "all", ours_own),
        ("interop k[grid, block](x, y, a), own arrays", "all", ours_explicit),
        ("interop k(x, y, a), torch tensors", "all", ours_torch),
        ("interop k(x, y, a), CuPy arrays", "all", ours_cupy),
        ("CuPy RawKernel", "none", cupy_raw),
        ("Triton", "types", triton_jit),
    ]
    variants = []
    scale = our_kernel().load(device)
    for name, checks, make in makers:
        try:
            batch = make(scale, device, x, y)
        except NotInstalled as missing:
            variants.append(Variant(name, checks, missing=f"not installed ({missing})"))
        else:
            variants.append(Variant(name, checks, batch, verify))
    return variants


def raw_c(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotInstalled("no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="interop-launch-"))
    (folder / "raw.c").write_text(RAW_LOOP)
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / "raw.so"), str(folder / "raw.c"), "-ldl"]
    subprocess.run(command, check=True)
    loop = ctypes.CDLL(str(folder / "raw.so")).raw_loop
    loop.restype = ctypes.c_double
    u64, pointer = ctypes.c_uint64, ctypes.c_void_p
    loop.argtypes = [pointer, ctypes.c_int, ctypes.c_uint, ctypes.c_uint, pointer, u64, pointer, u64, ctypes.c_float]
    function = int(scale._load(device)._function)

    def batch(count: int) -> float:
        nanoseconds: float = loop(function, count, GRID, BLOCK, x.address, N, y.address, N, FACTOR)
        if nanoseconds < 0:
            raise SystemExit("the C loop cannot launch")
        return nanoseconds

    return batch


def raw_bindings(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    from cuda.bindings import driver

    values = struct.pack("=QQQQf", x.address, N, y.address, N, FACTOR)
    buffer = ctypes.create_string_buffer(values, len(values))
    base = ctypes.addressof(buffer)
    params = (ctypes.c_void_p * 5)(*[base + offset for offset in (0, 8, 16, 24, 32)])
    address, function = ctypes.addressof(params), scale._load(device)._function
    launch = driver.cuLaunchKernel
    keep = (buffer, params)
    return timed(lambda: (launch(function, GRID, 1, 1, BLOCK, 1, 1, 0, 0, address, 0), keep))


def cuda_core(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    import numpy as np

    try:
        from cuda import core
    except ImportError as error:
        raise NotInstalled(str(error)) from None
    if not hasattr(core, "launch"):
        raise NotInstalled("cuda.core older than 0.5")
    here = core.Device(device.index)
    here.set_current()
    stream = here.create_stream()
    kernel = core.ObjectCode.from_cubin(cubin(device)).get_kernel("scale")
    config = core.LaunchConfig(grid=GRID, block=BLOCK)
    px, py, n, a = x.address, y.address, np.uint64(N), np.float32(FACTOR)
    launch = core.launch
    return timed(lambda: launch(stream, config, kernel, px, n, py, n, a))


def cubin(device: Any) -> bytes:
    """The kernel for this GPU, from NVRTC."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"scale.cu", 0, [], [])
    major, minor = device.compute_capability
    (result,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()])
    if int(result) != 0:
        raise SystemExit(f"NVRTC: {result}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    data = b" " * size
    nvrtc.nvrtcGetCUBIN(program, data)
    return data


def ours_own(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    return timed(lambda: scale(x, y, FACTOR))


def ours_explicit(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    return timed(lambda: scale[GRID, BLOCK](x, y, FACTOR))


def ours_torch(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    try:
        import torch
    except ImportError as error:
        raise NotInstalled(str(error)) from None
    tx, ty = torch.from_dlpack(x), torch.from_dlpack(y)
    return timed(lambda: scale(tx, ty, FACTOR))


def ours_cupy(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    cx, cy, _ = cupy_arrays(x, y)
    return timed(lambda: scale(cx, cy, FACTOR))


def cupy_raw(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    import numpy as np

    cx, cy, cupy = cupy_arrays(x, y)
    kernel = cupy.RawKernel(SOURCE, "scale")
    n, a = np.uint64(N), np.float32(FACTOR)
    return timed(lambda: kernel((GRID,), (BLOCK,), (cx, n, cy, n, a)))


def cupy_arrays(x: Any, y: Any) -> tuple[Any, Any, Any]:
    try:
        import cupy
    except ImportError as error:
        raise NotInstalled(str(error)) from None
    return cupy.asarray(x), cupy.asarray(y), cupy


def triton_jit(scale: Any, device: Any, x: Any, y: Any) -> Callable[[int], float]:
    # Triton looks its language up in the globals of the module that defines the kernel.
    global tl
    try:
        import torch
        import triton
        import triton.language as tl
    except ImportError as error:
        raise NotInstalled(str(error)) from None

    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(x_ptr, y_ptr, n, a, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(y_ptr + i, a * tl.load(x_ptr + i, mask=i < n), mask=i < n)

    tx, ty = torch.from_dlpack(x), torch.from_dlpack(y)
    configured = kernel[(GRID,)]
    return timed(lambda: configured(tx, ty, N, FACTOR, SIZE=BLOCK))


# -- the record ----------------------------------------------------------------------------------------------------


def machine(device: Any) -> dict[str, str]:
    """Where this ran: processor, GPU, driver, versions of everything that took part."""
    from interop.runtime import device as by_name

    found = {"python": platform.python_version(), "cpu": by_name("cpu").name, "device": device.name}
    if device.kind == "cuda":
        from interop.runtime.cuda_driver import driver_version

        found["driver_cuda"] = "{}.{}".format(*driver_version())
        smi = shutil.which("nvidia-smi")
        if smi:
            query = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            found["driver"] = done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"
    for name in ("numpy", "cuda-bindings", "cuda-core", "torch", "triton", "cupy-cuda13x", "cupy-cuda12x"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def default_path(record: dict[str, Any]) -> Path:
    name = "".join(c if c.isalnum() else "-" for c in record["machine"]["device"]).strip("-").lower()
    return ROOT / "benchmarks" / "results" / f"launch-{record['date'][:10]}-{name[:40]}.json"


if __name__ == "__main__":
    raise SystemExit(main())

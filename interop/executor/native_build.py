"""Builds ``interop.executor._native``: the CPU device's C runtime, for the just-in-time path.

``setup.py`` names the object :data:`ffibuilder` below; ``python setup.py build_ext --inplace`` builds it in a checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

from cffi import FFI

# setuptools wants source paths relative to the folder that it runs in, which is the one of setup.py.
_SHIM = Path(os.path.relpath(Path(__file__).resolve().parents[2] / "cpp_shim" / "src"))

CDEF = """
typedef struct {
    int32_t status;
    uint32_t block[3];
    uint32_t thread[3];
    char message[512];
} interop_cpu_error;

typedef struct {
    uint32_t abi;
    uint32_t lanes;
    const char *symbol;
    uint32_t param_bytes;
    uint32_t static_shared_bytes;
    uint32_t block[3];
    uint32_t flags;
    const void *entry;
    const void *extra;
} interop_cpu_kernel;

int32_t interop_cpu_launch(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                           const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                           uint32_t threads, interop_cpu_error *error);

int32_t interop_executor_launch(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                uint32_t threads, const void *ranges, size_t range_count, double budget_seconds,
                                interop_cpu_error *error);
extern "Python" int32_t interop_executor_poll(void *user);

typedef void (*interop_cpu_print_hook)(void *user, const char *text, size_t bytes);
void interop_cpu_set_print(interop_cpu_print_hook hook, void *user);
extern "Python" void interop_executor_print(void *user, const char *text, size_t bytes);

typedef struct {
    const char *name;
    const void *address;
} helper;
extern const helper helpers[];
extern const size_t helper_count;
"""

# Names and addresses of what emitted code calls.
SOURCE = """
#include "interop_cpu_impl.h"
typedef struct { const char *name; const void *address; } helper;
#define HELPER_ENTRY(type, name, parameters) {"interop_" #name, (const void *)interop_##name},
const helper helpers[] = { INTEROP_CPU_HELPERS(HELPER_ENTRY) };
const size_t helper_count = sizeof helpers / sizeof helpers[0];

static int32_t interop_executor_poll(void *user);

/* A launch in which Python looks after its signals. */
static int32_t interop_executor_launch(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                       const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                       uint32_t threads, const void *ranges, size_t range_count,
                                       double budget_seconds, interop_cpu_error *error)
{
    const interop_cpu_options options = {.size = sizeof options, .budget_seconds = budget_seconds, .ranges = ranges,
                                         .range_count = range_count, .poll = interop_executor_poll};
    return interop_cpu_launch_with(kernel, params, param_bytes, grid, block, dynamic_shared_bytes, threads, &options,
                                   error);
}
"""

ffibuilder = FFI()
ffibuilder.cdef(CDEF)
ffibuilder.set_source(
    "interop.executor._native",
    SOURCE,
    sources=sorted(path.as_posix() for path in _SHIM.glob("interop_cpu*.c")),
    include_dirs=[_SHIM.as_posix()],
    depends=sorted(path.as_posix() for path in _SHIM.glob("interop_cpu*.h")),
    extra_compile_args=["-O2", "-pthread"],
    extra_link_args=["-pthread"],
    libraries=["m"],
)

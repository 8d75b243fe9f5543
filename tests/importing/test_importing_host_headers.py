"""Ordinary .cu files: headers of the C and C++ libraries, and what a message says where host code is in the way."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abi
import interop as io
from interop.importing import nvrtc
from interop.importing.host_headers import HEADERS

pytest.importorskip("cuda.bindings.nvrtc")

ORDINARY = r"""
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdint.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <limits.h>
#include <float.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

struct Pair { char a; double b; };

extern "C" __global__ void zoo(const float *x, double *out, std::int64_t n, uint8_t byte)
{
    static_assert(sizeof(std::int8_t) == 1 && sizeof(int16_t) == 2 && sizeof(std::uint32_t) == 4, "");
    static_assert(sizeof(std::uintptr_t) == sizeof(void *) && sizeof(intmax_t) == 8 && (uint8_t)-1 > 0, "");
    assert(n > 0);
    if (n < 0) std::printf("negative\n");
    double values[] = {
        std::sqrt(x[0]), std::abs(-x[0]), (double)std::abs(-3), std::fmax(x[0], 5.0f), M_PI, std::pow(2.0, 0.5),
        (double)std::isnan(NAN), (double)std::isinf(INFINITY), (double)(HUGE_VAL > DBL_MAX), FLT_MAX, FLT_EPSILON,
        DBL_MIN, (double)INT_MAX, (double)INT_MIN, (double)UINT32_MAX, (double)INT64_MAX, (double)CHAR_BIT,
        (double)offsetof(Pair, b), (double)sizeof(std::size_t), (double)(LLONG_MAX == INT64_MAX), (double)byte,
        (double)UINT64_C(18446744073709551615), (double)LONG_MAX, (double)UCHAR_MAX, (double)SHRT_MIN, FLT_DIG, DBL_DIG,
    };
    std::memcpy(out, values, sizeof values);
    out[sizeof values / sizeof values[0]] = (std::nullptr_t)nullptr == nullptr;
}
"""


def expected(x: float) -> list[float]:
    f32, f64 = np.finfo(np.float32), np.finfo(np.float64)
    return [
        float(np.sqrt(np.float32(x))), x, 3, max(x, 5), np.pi, 2**0.5, 1, 1, 1, float(f32.max), float(f32.eps),
        float(f64.tiny), 2**31 - 1, -(2**31), 2**32 - 1, float(2**63 - 1), 8, 8, ctypes.sizeof(ctypes.c_size_t), 1, 200,
        2.0**64, 2.0**63, 255, -(2**15), 6, 15, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("std", ["c++11", "c++14", "c++17", "c++20"])
@pytest.mark.parametrize("cuda", [True, False], ids=["with CUDA's headers", "without"])
def test_an_ordinary_file_loads_and_computes(monkeypatch: pytest.MonkeyPatch, std: str, cuda: bool) -> None:
    if not cuda:
        monkeypatch.setattr(nvrtc, "cuda_headers", list)
    monkeypatch.setattr(nvrtc, "_memo", {})
    kernel = io.load_cuda(ORDINARY, std=std).zoo
    x = np.array([2.25], np.float32)
    out = np.full(28, np.nan)
    kernel[1, 1](x, out, 1, 200)
    assert out.tolist() == expected(2.25)


@pytest.mark.parametrize("header", sorted(HEADERS))
def test_every_header_stands_alone_and_may_come_twice(monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    monkeypatch.setattr(nvrtc, "cuda_headers", list)
    monkeypatch.setattr(nvrtc, "_memo", {})
    text = f"#include <{header}>\n#include <{header}>\n#include <cstdint>\n__global__ void f(std::int32_t *x) {{}}\n"
    assert list(io.load_cuda(text)) == ["f"]


def test_cudas_own_integers_are_the_same_types() -> None:
    text = "#include <cstdint>\n#include <cuda/std/cstdint>\n#include <cuda/std/limits>\n#include <climits>\n"
    text += "__global__ void f(std::int64_t *x) { cuda::std::int64_t *y = x; *y = INT64_MAX; }\n"
    x = np.zeros(1, np.int64)
    io.load_cuda(text).f[1, 1](x)
    assert x[0] == 2**63 - 1


@pytest.mark.parametrize("how", ["include_paths", "options"])
def test_a_header_on_disk_comes_first(tmp_path: Path, how: str) -> None:
    (tmp_path / "stdint.h").write_text("typedef int my_own;\n")
    keywords: dict[str, Any] = (
        {"include_paths": [tmp_path]} if how == "include_paths" else {"options": [f"-I{tmp_path}"]}
    )
    module = io.load_cuda("#include <stdint.h>\n__global__ void f(my_own *x) { x[0] = 1; }\n", **keywords)
    assert module.f.program().kernel.params[0].type == abi.Pointer(abi.i32)


def failure(text: str) -> str:
    with pytest.raises(io.CompileError) as caught:
        io.load_cuda(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("vector", "<vector> is a header of the host. NVRTC compiles device code only"),
        ("iostream", "#ifndef __CUDACC_RTC__"),
        ("sys/time.h", "is a header of the host"),
        ("type_traits", "write #include <cuda/std/type_traits> and cuda::std:: for std::"),
        ("mine.h", "pass include_paths=[...]"),
    ],
)
def test_a_missing_header_gets_advice_that_helps(header: str, words: str) -> None:
    text = failure(f"#include <{header}>\n__global__ void f() {{}}\n")
    assert words in text.partition("help: ")[2]
    assert ("include_paths" in text.partition("help: ")[2]) == (header == "mine.h")


@pytest.mark.parametrize(
    "host",
    [
        "int main() { f<<<1, 1>>>(nullptr); }",
        "void run(int *x) { f<<<1, 1>>>(x); }",
        "__host__ int helper() { return 1; }",
        "int main() { int *x; cudaMalloc(&x, 4); f<<<1, 1>>>(x); }",
    ],
)
def test_host_code_gets_advice_that_helps(host: str) -> None:
    kernel = "__global__ void f(int *x) { x[0] = 7; }\n"
    text = failure(f"{kernel}{host}\n")
    assert "put what belongs to the host between #ifndef __CUDACC_RTC__ and #endif" in text
    assert "module.kernel[grid, block](...)" in text
    x = np.zeros(1, np.int32)
    io.load_cuda(f"{kernel}#ifndef __CUDACC_RTC__\n#include <vector>\n{host}\n#endif\n").f[1, 1](x)
    assert x[0] == 7


def test_what_a_gpu_does_not_have_is_named() -> None:
    assert '"qsort"' in failure("#include <cstdlib>\n__global__ void f(int *x) { std::qsort(x, 1, 4, 0); }\n")


# -- the wrong kind of file ----------------------------------------------------------------------------------------

PTX = "// made by hand\n/* twice */ .version 8.0\n.target sm_80\n.address_size 64\n.entry f() { ret; }\n"


def test_ptx_and_cuda_given_to_each_others_loader(tmp_path: Path) -> None:
    (tmp_path / "f.ptx").write_text(PTX)
    (tmp_path / "f.cu").write_text("__global__ void f() {}\n")
    with pytest.raises(io.Error, match=r"f\.ptx: this is PTX and not CUDA C\+\+: load it with io\.load_ptx"):
        io.load_cuda(tmp_path / "f.ptx")
    with pytest.raises(io.Error, match=r"<source>: this is PTX"):
        io.load_cuda(PTX)
    with pytest.raises(io.ImageError, match=r"f\.cu: this is CUDA C\+\+ and not PTX: load it with io\.load_cuda"):
        io.load_ptx(tmp_path / "f.cu")
    assert list(io.load_ptx(tmp_path / "f.ptx")) == ["f"]


@pytest.mark.parametrize("load", [io.load_ptx, io.load_cuda])
@pytest.mark.parametrize(
    ("data", "kind"), [(b"\x7fELF\x02\x01\x01\xff\xfe", "a cubin"), (b"\x50\xed\x55\xba\x01\x00\xff", "a fatbin")]
)
def test_machine_code_is_called_by_its_name(tmp_path: Path, load: Any, data: bytes, kind: str) -> None:
    path = tmp_path / "f.cubin"
    path.write_bytes(data)
    with pytest.raises(abi.UnsupportedError, match=rf"f\.cubin: this is {kind}.*cuobjdump --dump-ptx f\.cubin"):
        load(path)


@pytest.mark.parametrize("header", ["inttypes.h", "cinttypes"])
def test_words_of_printf(header: str, capfd: pytest.CaptureFixture[str]) -> None:
    module = io.load_cuda(
        f"#include <{header}>\n"
        r"""
        extern "C" __global__ void say(int64_t big, uint64_t bits, int32_t small, uint16_t tiny)
        {
            printf("%" PRId64 " %" PRIx64 " %" PRIu32 " %" PRIi16 " %" PRIuMAX " %" PRIXPTR " %" PRIdFAST8 "\n", big,
                   bits, (uint32_t)small, (int16_t)tiny, (uintmax_t)bits, (uintptr_t)bits, (int_fast8_t)tiny);
        }
        """
    )
    module.say[1, 1].on("cpu")(-(2**62), 2**63 + 10, 7, 5)
    bits = 2**63 + 10
    assert capfd.readouterr().out == f"{-(2**62)} {bits:x} 7 5 {bits} {bits:X} 5\n"

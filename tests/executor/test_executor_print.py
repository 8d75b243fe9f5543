"""printf of kernels: every conversion, and the order of what threads print."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from executor_harness import cuda, pointers

from interop.executor import compile_kernel

# A format, the arguments in C, and the same arguments for the host's own snprintf.
CASES = [
    ("%d %i %u", "-5, 2147483647, 4294967295u", [-5, 2147483647, ctypes.c_uint(4294967295)]),
    ("%o %x %X %#o %#x %#X", "8, 255, 255, 8, 255, 255", [8, 255, 255, 8, 255, 255]),
    ("%hd %hu %hhd %hhu", "70000, 70000, 300, 300", [70000, 70000, 300, 300]),
    ("%ld %lu %lx", "-5000000000l, 5000000000ul, 1l << 40", [ctypes.c_long(-5000000000), ctypes.c_ulong(5000000000),
                                                            ctypes.c_long(1 << 40)]),
    ("%lld %llu %llX %jd %zu %td", "-1ll, 18446744073709551615ull, 255ll, 3l, (size_t)7, 9l",
     [ctypes.c_longlong(-1), ctypes.c_ulonglong(2**64 - 1), ctypes.c_longlong(255), ctypes.c_long(3),
      ctypes.c_size_t(7),
      ctypes.c_long(9)]),
    ("%5d|%-5d|%05d|%+d|% d|%5.3d|%.0d", "42, 42, 42, 42, 42, 42, 0", [42, 42, 42, 42, 42, 42, 0]),
    ("%*d|%-*d|%.*f|%*.*e", "6, 7, 6, 7, 2, 1.005, 12, 3, 12345.678", [6, 7, 6, 7, 2, 1.005, 12, 3, 12345.678]),
    ("%f %F %.3f %10.2f %-10.2f| %+.1f", "1.5, -2.25, 3.14159, 2.5, 2.5, 2.5", [1.5, -2.25, 3.14159, 2.5, 2.5, 2.5]),
    ("%e %E %g %G %g %#g %a %A", "1e10, 1e-10, 1e10, 1e-10, 0.0001, 1.0, 1.0, 0.1",
     [1e10, 1e-10, 1e10, 1e-10, 0.0001, 1.0, 1.0, 0.1]),
    ("%f %f %f %g", "1.0 / zero, -1.0 / zero, zero / zero * 0, -0.0", None),
    ("%c%c%c|%5c|%-5c|", "'a', 'b', 98 + 1, 'x', 'y'", [97, 98, 99, 120, 121]),
    ("%s|%10s|%-10s|%.2s", '"text", "right", "left", "cut off"', [b"text", b"right", b"left", b"cut off"]),
    ("100%% %d%%", "7", [7]),
    ("%d %f %c %s %lld %hhd", "1, 2.0, 'c', \"s\", 5ll, (char)-6", [1, 2.0, 99, b"s", ctypes.c_longlong(5), -6]),
]  # fmt: skip


def reference(text: str, arguments: list[object]) -> str:
    converted = [ctypes.c_double(a) if isinstance(a, float) else a for a in arguments]
    buffer = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).snprintf(buffer, 4096, text.encode(), *converted)
    return buffer.value.decode()


@pytest.mark.parametrize("options", [(), ("-G",)])
def test_every_conversion(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    calls = "".join(f'printf("{text}\\n", {arguments});\n' for text, arguments, _ in CASES)
    source = f'extern "C" __global__ void k(double zero) {{ {calls} }}'
    compile_kernel(cuda(source, *options), "k").launch(np.float64(0.0).tobytes(), 1, 1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CASES)
    for line, (text, _, values) in zip(lines, CASES):
        if values is None:
            assert re.fullmatch(r"inf -inf -?nan -0", line), line
        else:
            assert line == reference(text, values), text


def test_null_strings_unknown_conversions_and_pointers(capsys: pytest.CaptureFixture[str]) -> None:
    source = r"""extern "C" __global__ void k(const char* null, int* counts) {
  counts[0] = printf("%s|%p|%p\n", null, null, (void*)0x12345);
  counts[1] = printf("%d %y %d\n", 1, 2); counts[2] = printf("plain\n"); counts[3] = printf("%"); }"""
    counts = np.full(4, -7, np.int32)
    compile_kernel(cuda(source), "k").launch(pointers(0, counts), 1, 1)
    first, second, third = capsys.readouterr().out.splitlines()[:3]
    assert first == "(null)|(nil)|0x12345" and second == "1 %y 2" and third == "plain"
    assert counts[:3].tolist() == [3, 2, 0]


@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_each_thread_prints_in_its_order_and_whole_lines(barrier: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"""extern "C" __global__ void k() {{ for (int i = 0; i < 5; ++i) {{
      printf("block %d thread %d line %d\\n", blockIdx.x, threadIdx.x, i); {barrier} }} }}"""
    compile_kernel(cuda(source), "k").launch(b"", 6, 20, threads=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 * 20 * 5 and len(set(lines)) == len(lines)
    seen: dict[tuple[int, int], list[int]] = {}
    for line in lines:
        match = re.fullmatch(r"block (\d+) thread (\d+) line (\d+)", line)
        assert match, line
        seen.setdefault((int(match[1]), int(match[2])), []).append(int(match[3]))
    assert all(numbers == [0, 1, 2, 3, 4] for numbers in seen.values()) and len(seen) == 120


def test_very_long_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = np.frombuffer(b"x" * 5000 + b"\0", np.uint8)
    source = 'extern "C" __global__ void k(const char* s) { printf("[%s|%300d]\\n", s, 7); }'
    compile_kernel(cuda(source), "k").launch(pointers(text), 1, 2)
    line = "[" + "x" * 5000 + "|" + " " * 299 + "7]"
    assert capsys.readouterr().out.splitlines() == [line, line]

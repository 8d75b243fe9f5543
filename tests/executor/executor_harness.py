"""What the executor's tests share: PTX around single instructions, exact rounding, CUDA C++ to PTX."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.assemble import assemble_everywhere

from interop.executor import compile_kernel

HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"

DTYPES = {
    "u8": np.uint8, "s8": np.int8, "b8": np.uint8, "u16": np.uint16, "s16": np.int16, "b16": np.uint16,
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "f16x2": np.uint32,
    "bf16x2": np.uint32, "pred": np.uint32, "u16x2": np.uint32, "s16x2": np.uint32, "f32x2": np.uint64,
}  # fmt: skip
_REGISTER = {"u8": "b16", "s8": "b16", "b8": "b16"}
_MEMORY = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "u16x2": "b32", "s16x2": "b32",
           "f32x2": "b64"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One or several instructions from %a, %b, … to %d, each thread an element."""

    text: str
    out: str
    ins: tuple[str, ...]


def _register(type_: str) -> str:
    return _REGISTER.get(type_, _MEMORY.get(type_, type_))


def _case_text(index: int, case: Case) -> str:
    lines = ["{", f".reg .{_register(case.out)} %d;", ".reg .u64 %p;"]
    for position, (name, type_) in enumerate(zip("abcefg", case.ins)):
        memory, size = _MEMORY.get(type_, type_), np.dtype(DTYPES[type_]).itemsize
        lines += [
            f".reg .{_register(type_)} %{name};",
            f"ld.param.u64 %p, [pointers+{8 * (index * 8 + position)}];",
            f"mad.wide.u32 %p, %i, {size}, %p;",
            f"ld.global.{'u32' if type_ == 'pred' else memory} "
            + (f"%t, [%p]; setp.ne.u32 %{name}, %t, 0;" if type_ == "pred" else f"%{name}, [%p];"),
        ]
    lines.append(case.text)
    memory, size = _MEMORY.get(case.out, case.out), np.dtype(DTYPES[case.out]).itemsize
    lines += [f"ld.param.u64 %p, [pointers+{8 * (index * 8 + 7)}];", f"mad.wide.u32 %p, %i, {size}, %p;"]
    if case.out == "pred":
        lines.append("selp.u32 %t, 1, 0, %d; st.global.u32 [%p], %t;")
    else:
        lines.append(f"st.global.{memory} [%p], %d;")
    return "\n".join([*lines, "}"])


def evaluate(cases: Sequence[Case], inputs: Sequence[Sequence[np.ndarray]], poison: int = 0xA5) -> list[np.ndarray]:
    """Runs all cases in one kernel; what each yields for its inputs."""
    count = len(inputs[0][0])
    body = "\n".join(_case_text(k, case) for k, case in enumerate(cases))
    text = f"""{HEADER}.visible .entry cases(.param .align 8 .b8 pointers[{64 * len(cases)}], .param .u32 n) {{
.reg .u32 %i, %t, %nt, %n; .reg .pred %past;
mov.u32 %i, %ctaid.x; mov.u32 %nt, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %nt, %t;
ld.param.u32 %n, [n]; setp.ge.u32 %past, %i, %n; @%past bra done;
{body}
done: ret; }}"""
    table, outputs, keep = [], [], []
    for case, values in zip(cases, inputs):
        row = [0] * 8
        for position, (value, type_) in enumerate(zip(values, case.ins)):
            array = np.ascontiguousarray(value)
            assert array.dtype == DTYPES[type_] and len(array) == count, (case, array.dtype, len(array))
            keep.append(array)
            row[position] = array.ctypes.data
        out = np.frombuffer(bytearray([poison]) * (count * np.dtype(DTYPES[case.out]).itemsize), DTYPES[case.out])
        outputs.append(out)
        row[7] = out.ctypes.data
        table += row
    params = struct.pack(f"<{len(table)}QI", *table, count)
    compile_kernel(text, "cases").launch(params, -(-count // 96), 96)
    return outputs


def run(text: str, symbol: str, params: bytes, grid: object = 1, block: object = 1, **options: int) -> None:
    """Compiles and launches PTX without its header."""
    compile_kernel(HEADER + text, symbol).launch(params, grid, block, **options)  # type: ignore[arg-type]


def pointers(*values: object) -> bytes:
    """A parameter buffer of arrays' addresses and 64-bit integers."""
    return b"".join(
        struct.pack("<Q", v.ctypes.data if isinstance(v, np.ndarray) else int(v) & (2**64 - 1))  # type: ignore[call-overload]
        for v in values
    )


# ---- corner values ----


def integers(type_: str, seed: int = 0, count: int = 24) -> np.ndarray:
    """Corners and random values of an integer type."""
    dtype = np.dtype(DTYPES[type_])
    info = np.iinfo(dtype)
    corners = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        info.max,
        info.max - 1,
        info.min,
        info.min + 1,
        info.max // 2 + 1,
        info.max // 3,
    ]
    if info.min < 0:
        corners += [-1, -2, -31]
    noise = np.random.default_rng(seed).integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(corners, dtype=dtype), noise])


def floats(type_: str, seed: int = 0, count: int = 24) -> np.ndarray:
    """Corners and random values of f32 or f64: zeros, subnormals, ties, infinities, NaN, bits at random."""
    dtype = np.dtype(DTYPES[type_])
    info = np.finfo(dtype)
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, float(info.max), float(info.tiny), -float(info.tiny),
               float(info.smallest_subnormal), -3 * float(info.smallest_subnormal), 1 + float(info.eps), math.inf,
               -math.inf, math.nan, 127.5, -128.5, 255.5, 2147483648.0, 4294967040.0, -2147483649.0, 1e-3, 65519.0,
               65520.0]  # fmt: skip
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    small = rng.standard_normal(count).astype(dtype)
    with np.errstate(over="ignore"):
        return np.concatenate([np.array(corners).astype(dtype), bits, small])


def pairs(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every value of `a` with every one of `b`."""
    return np.repeat(a, len(b)), np.tile(b, len(a))


# ---- exact rounding ----

_FORMATS = {"f16": (11, -24, 15), "bf16": (8, -133, 127), "f32": (24, -149, 127), "f64": (53, -1074, 1023)}


def round_exact(value: Fraction, type_: str, mode: str = "rn") -> float:
    """The number of a format that `value` rounds to. Zero comes back without a sign."""
    digits, lowest, highest = _FORMATS[type_]
    if value == 0:
        return 0.0
    sign, magnitude = (-1 if value < 0 else 1), abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, lowest)
    kept, rest = divmod(magnitude, unit)
    away = {
        "rn": rest * 2 > unit or (rest * 2 == unit and kept % 2 == 1),
        "rz": False,
        "rp": rest > 0 and sign > 0,
        "rm": rest > 0 and sign < 0,
    }[mode]
    result = (kept + away) * unit
    if result > (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** highest:
        finite = (mode == "rz") or (mode == "rp" and sign < 0) or (mode == "rm" and sign > 0)
        largest = float((2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** highest)
        return sign * (largest if finite else math.inf)
    return sign * float(result)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equality in which NaN equals NaN and zeros count by their sign."""
    return (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))


def expect(got: np.ndarray, wanted: np.ndarray, *inputs: np.ndarray, label: str = "") -> None:
    """Compares bit by bit, NaN with NaN; shows the first inputs that differ."""
    equal = same(got, wanted) if got.dtype.kind == "f" else got == wanted
    if not np.all(equal):
        where = np.flatnonzero(~equal)[:5]
        shown = [tuple(x[k] for x in inputs) + (got[k], wanted[k]) for k in where]
        raise AssertionError(f"{label}: {len(np.flatnonzero(~equal))} differ; (inputs…, got, wanted): {shown}")


# ---- CUDA C++ ----


@cache
def cuda(source: str, *options: str, arch: str = "compute_80") -> str:
    """CUDA C++ to PTX by NVRTC; skips the test where that is not installed."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    include = next(
        (p for p in Path(nvrtc.__file__).parents[2].glob("nvidia/*/include") if (p / "cuda_fp16.h").exists()), None
    )
    try:
        error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    except RuntimeError as problem:
        pytest.skip(f"NVRTC is not installed: {problem}")
    flags = [f"--gpu-architecture={arch}", *options]
    flags += [f"-I{folder}" for folder in (include, include / "cccl") if folder.exists()] if include else []
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    if error != 0:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return assemble_everywhere(text.rstrip(b"\0 ").decode())

"""Runs a case on the CPU device and says how far its results are from recorded ones."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from .case import Bound, Case, Operand
from .record import buffers, decode, encode
from .text import module

_LAYOUT = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
_ELEMENTS = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2)}


@dataclass
class Verdict:
    """Results against the recording.

    :ivar worst: the largest distance in units in the last place, where that is within the bound.
    :ivar absolute: the largest difference where it is not and the bound has an absolute part.
    :ivar faults: inputs, result and record of what lies outside the bound, as text.
    """

    worst: int = 0
    absolute: float = 0.0
    faults: list[str] = field(default_factory=list)


def run(case: Case, lanes: int = 1) -> list[str]:
    """The results of the CPU device; :class:`abi.UnsupportedError` where it does not have the instruction."""
    from interop.executor import compile_kernel

    data = buffers(case)
    addresses = (array.ctypes.data for array in (data.ins, data.outs, data.scratch))
    kernel = compile_kernel(module([case], case.target), "case0", lanes=lanes)
    kernel.launch(struct.pack("<QQQI", *addresses, data.count), data.grid, data.block)
    return encode(case, data.outs)


def judge(case: Case, got: Sequence[str], recorded: Sequence[str]) -> Verdict:
    """Bit for bit, or within the case's bound."""
    verdict = Verdict()
    for operand, mine, theirs in zip(case.outs, got, recorded, strict=True):
        if mine == theirs:
            continue
        for row, a, b in zip(case.rows, decode(operand, mine), decode(operand, theirs), strict=True):
            if a != b:
                _value(verdict, case, operand, row, a, b)
    return verdict


def _value(verdict: Verdict, case: Case, operand: Operand, row: Sequence[int], got: int, recorded: int) -> None:
    if case.bound is not None and _within(verdict, case.bound, operand, got, recorded):
        return
    if case.bound is not None and case.bound.payload and all(_is_operand(case, row, v) for v in (got, recorded)):
        return
    digits = max(operand.bits // 4, 1) + 2
    inputs = " ".join(f"%{o.name}={value:#0{max(o.bits // 4, 1) + 2}x}" for o, value in zip(case.ins, row))
    verdict.faults.append(f"{inputs}: %{operand.name} is {got:#0{digits}x}, recorded {recorded:#0{digits}x}")


def _within(verdict: Verdict, bound: Bound, operand: Operand, got: int, recorded: int) -> bool:
    """Whether all elements of a result are near enough; notes in `verdict` how near."""
    element, count = _ELEMENTS.get(operand.type, (operand.type, 1))
    bits = operand.bits // count
    for k in range(count):
        a, b = (value >> k * bits & ((1 << bits) - 1) for value in (got, recorded))
        distance, difference = _distance(element, a, b)
        if distance <= bound.ulp:
            verdict.worst = max(verdict.worst, distance)
        elif bound.absolute and difference <= bound.absolute:
            verdict.absolute = max(verdict.absolute, difference)
        else:
            return False
    return True


def _distance(type_: str, a: int, b: int) -> tuple[int, float]:
    """Units in the last place between two values, and their difference; without end where one is NaN."""
    if a == b:
        return 0, 0.0
    fraction, exponent = _LAYOUT[type_]
    infinity, sign = ((1 << exponent) - 1) << fraction, 1 << (fraction + exponent)
    if any(v & ~sign > infinity for v in (a, b)):
        return sign * 2, math.inf
    ordered = [sign - v if v & sign else v for v in (a, b)]
    # Zeros of different sign are as far apart as neighbours, so that a bound of 0 tells them apart.
    return abs(ordered[0] - ordered[1]) or 1, abs(_number(type_, a) - _number(type_, b))


def _is_operand(case: Case, row: Sequence[int], value: int) -> bool:
    """Whether a value is one of the case's f64 operands that are NaN, quiet or as it was."""
    nans = [v for v, o in zip(row, case.ins) if o.type == "f64" and v & ~(1 << 63) > 0x7FF << 52]
    return value in nans or value in [v | 1 << 51 for v in nans]


def _number(type_: str, bits: int) -> float:
    if type_ == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if type_ == "f16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits << 16 if type_ == "bf16" else bits))[0])

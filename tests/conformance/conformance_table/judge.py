"""Runs a case on the CPU device and says how far its results are from recorded ones."""

from __future__ import annotations

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

    :ivar worst: the largest distance in units in the last place, over results that are equally special.
    :ivar faults: inputs, result and record of what lies outside the bound, as text.
    """

    worst: int = 0
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
    distance = None
    if case.bound is not None:
        element, count = _ELEMENTS.get(operand.type, (operand.type, 1))
        bits = operand.bits // count
        parts = [
            ((got >> k * bits) & ((1 << bits) - 1), (recorded >> k * bits) & ((1 << bits) - 1)) for k in range(count)
        ]
        distances = [_distance(case.bound, element, a, b) for a, b in parts]
        distance = None if None in distances else max(d for d in distances if d is not None)
        if distance is None and case.bound.payload and _is_operand(case, row, got) and _is_operand(case, row, recorded):
            distance = 0
    if distance is None:
        digits = max(operand.bits // 4, 1)
        inputs = " ".join(f"%{o.name}={value:#0{max(o.bits // 4, 1) + 2}x}" for o, value in zip(case.ins, row))
        verdict.faults.append(
            f"{inputs}: %{operand.name} is {got:#0{digits + 2}x}, recorded {recorded:#0{digits + 2}x}"
        )
    else:
        verdict.worst = max(verdict.worst, distance)


def _distance(bound: Bound, type_: str, a: int, b: int) -> int | None:
    """Units in the last place between two values; None where that is more than the bound allows."""
    if a == b:
        return 0
    fraction, exponent = _LAYOUT[type_]
    infinity, sign = ((1 << exponent) - 1) << fraction, 1 << (fraction + exponent)
    if any(v & ~sign > infinity for v in (a, b)):
        return None  # NaN against a number, or another NaN
    ordered = [sign - v if v & sign else v for v in (a, b)]
    # Zeros of different sign are as far apart as neighbours, so that a bound of 0 tells them apart.
    distance = abs(ordered[0] - ordered[1]) or 1
    if distance <= bound.ulp:
        return distance
    values = [_number(type_, v) for v in (a, b)]
    return distance if abs(values[0] - values[1]) <= bound.absolute else None


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

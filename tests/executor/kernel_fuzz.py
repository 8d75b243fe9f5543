"""Runs generated programs at each lane count and compares what they leave in memory, bit by bit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from kernel_generator import generate
from kernel_interpreter import InvalidProgram, difference, interpret
from kernel_ir import Function, Ins, Program, ptx_of

from abi import ArgumentRangeError, UnsupportedError
from interop.executor import compile_kernel

LANES = (1, 8, 16, 32)
_GUARD = 256  # bytes on both sides of each buffer that nothing may touch


@dataclass
class Outcome:
    """What came of one program. `refused` and `wrong` say why, for each lane count or ``interpreter``."""

    seed: int
    features: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


def parameters(program: Program, addresses: Sequence[int]) -> bytes:
    """The kernel's parameter buffer."""
    packed = struct.pack(f"<{len(addresses)}Q", *addresses)
    for _, type_, value in program.scalars:
        size = int(type_[1:]) // 8
        packed += bytes(-len(packed) % size) + value.to_bytes(size, "little")
    return packed


def execute(program: Program, lanes: int, threads: int = 1) -> list[bytes]:
    """What the buffers hold after a launch on the CPU device.

    :raises UnsupportedError: when the kernel cannot be translated for that many lanes.
    :raises AssertionError: when memory beside the buffers has changed.
    """
    kernel = compile_kernel(ptx_of(program), program.kernel.name, lanes=lanes)
    arrays, addresses = [], []
    for buffer in program.buffers:
        array = np.full(len(buffer.data) + 2 * _GUARD + 64, 0xC7, np.uint8)
        start = _GUARD + -(array.ctypes.data + _GUARD) % 64
        array[start : start + len(buffer.data)] = np.frombuffer(buffer.data, np.uint8)
        arrays.append((array, start))
        addresses.append(array.ctypes.data + start)
    try:
        kernel.launch(parameters(program, addresses), program.grid, program.block, program.shared, threads)
    except ArgumentRangeError as error:
        if "whole warps" in str(error):  # which the translation for many lanes may ask of a block
            raise UnsupportedError(str(error)) from None
        raise
    results = []
    for (array, start), buffer in zip(arrays, program.buffers):
        end = start + len(buffer.data)
        assert (array[:start] == 0xC7).all() and (array[end:] == 0xC7).all(), f"memory beside {buffer.name} has changed"
        results.append(array[start:end].tobytes())
    return results


def comparable(program: Program) -> bool:
    """Whether the ISA alone decides every bit, so that the interpreter and other devices have to agree."""
    return not program.raw_nan


def check(program: Program, lanes: Sequence[int] = LANES, interpreter: bool = True) -> Outcome:
    """Runs the program at one lane and at each of `lanes`."""
    outcome = Outcome(program.seed, dict(program.features))
    base = execute(program, 1)
    if interpreter and comparable(program):
        found = difference(program, base, interpret(program), loose=True)
        if found:
            outcome.wrong["interpreter"] = found
    for count in lanes:
        if count == 1:
            continue
        try:
            found = difference(program, execute(program, count), base)
        except UnsupportedError as error:
            outcome.refused[str(count)] = str(error)
            continue
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            outcome.wrong[str(count)] = found
    return outcome


def check_seed(seed: int, lanes: Sequence[int] = LANES, interpreter: bool = True) -> Outcome:
    """:func:`check` for the program of a seed."""
    return check(generate(seed), lanes, interpreter)


def fails(program: Program, against: str) -> bool:
    """Whether one lane and `against`, a number of lanes or ``interpreter``, differ. Refusals are no failures."""
    base = execute(program, 1)
    if against == "interpreter":
        return bool(difference(program, base, interpret(program), loose=True))
    try:
        return bool(difference(program, execute(program, int(against)), base))
    except UnsupportedError:
        return False
    except Exception:
        return True


# ---- shrinking ----


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that still fails: instructions are deleted as long as the result stays determined.

    `fails` need not look at whether a program is valid; the interpreter does that here.
    """

    def still(candidate: Program) -> bool:
        try:
            interpret(candidate)
        except (InvalidProgram, KeyError, IndexError):
            return False
        return fails(candidate)

    smaller = True
    while smaller:
        smaller = False
        for function in (program.kernel, *program.functions):
            body = _shrink_body(program, function, still)
            if len(body) < len(function.body):
                program, smaller = program.with_bodies({function.name: body}), True
    return program


def _shrink_body(program: Program, function: Function, still: Callable[[Program], bool]) -> tuple[Ins, ...]:
    """Deletes runs of instructions, long ones first."""
    body = function.body
    size = max(len(body) // 2, 1)
    while size:
        start = 0
        while start < len(body):
            candidate = body[:start] + body[start + size :]
            if still(program.with_bodies({function.name: candidate})):
                body = candidate
            else:
                start += size
        size //= 2
    return body

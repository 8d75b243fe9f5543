"""Errors of translation: they name the instruction and its line."""

from __future__ import annotations

from abi import ImageError, UnsupportedError
from interop.ptx import Instruction, print_statement

from .opcodes import why_refused


def place(line: int, source: tuple[int, int] = (0, 0)) -> str:
    """``ptx line 12``, with the source line where the PTX tells it."""
    return f"ptx line {line}" + (f" (source line {source[1]})" if source[1] else "")


def _shown(instruction: Instruction) -> str:
    text = print_statement(instruction).rstrip(";")
    return text if len(text) <= 120 else text[:117] + "…"


def unsupported(instruction: Instruction, why: str = "") -> UnsupportedError:
    """The error for an instruction, or a form of one, that the executor does not have. Without a reason the error has
    the one that :mod:`.opcodes` knows.

    >>> from interop.ptx import Instruction
    >>> unsupported(Instruction("ld", ("b32",), (), None, 123), "a 32-bit address")
    UnsupportedError('ptx line 123: `ld.b32` is not supported by the CPU device: a 32-bit address')
    """
    where = place(instruction.line, (instruction.source_file, instruction.source_line))
    why = why or why_refused(instruction.name)
    text = f"{where}: `{_shown(instruction)}` is not supported by the CPU device"
    return UnsupportedError(f"{text}: {why}" if why else text)


def malformed(instruction: Instruction, why: str) -> ImageError:
    """The error for an instruction that no assembler would accept."""
    where = place(instruction.line, (instruction.source_file, instruction.source_line))
    return ImageError(f"{where}: `{_shown(instruction)}`: {why}")

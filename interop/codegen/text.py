"""LLVM IR as text: blocks, values, types and literals."""

from __future__ import annotations

import struct

from abi import Scalar, bf16, bool_, f16

_FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def llvm_type(type_: Scalar) -> str:
    """The type of a scalar in a register."""
    if type_.kind == "bool":
        return "i1"
    return _FLOATS[type_.name] if type_.kind == "float" else f"i{type_.bits}"


def memory_type(type_: Scalar) -> str:
    """The type of a scalar in memory: a bool is a byte there."""
    return "i8" if type_ == bool_ else llvm_type(type_)


def llvm_literal(value: bool | int | float, type_: Scalar) -> str:
    """A constant operand.

    >>> from abi import f32
    >>> llvm_literal(0.1, f32)
    '0x3FB99999A0000000'
    """
    if type_.kind == "bool":
        return "true" if value else "false"
    if type_.kind != "float":
        return str(int(value))
    if type_ == f16:
        return f"0xH{_half_bits(float(value)):04X}"
    if type_ == bf16:
        return f"0xR{_single_bits(_bf16(float(value))) >> 16:04X}"
    number = float(value)
    if type_.bits == 32:
        # LLVM writes a float as the double of the same value.
        number = struct.unpack("<f", struct.pack("<I", _single_bits(number)))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _single_bits(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _half_bits(value: float) -> int:
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def _bf16(value: float) -> float:
    from ..ir.rounding import round_to

    return round_to(value, bf16)


def quote(text: str) -> tuple[str, int]:
    """A C string as an LLVM constant, and its length with the final zero.

    >>> quote("a\\n")
    ('c"a\\\\0A\\\\00"', 3)
    """
    data = text.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return f'c"{body}"', len(data)


class Blocks:
    """A function's basic blocks while they are written. Text goes to the current block; phis are added at the end."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self._lines: dict[str, list[str]] = {}
        self._phis: dict[str, list[tuple[str, str, list[tuple[str, str]]]]] = {}
        self._count = 0
        self.current = ""

    def fresh(self) -> str:
        """A new register."""
        self._count += 1
        return f"%v{self._count}"

    def label(self, hint: str) -> str:
        """A new label; the block comes into being with :meth:`start`."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Makes `label` the current block."""
        self._order.append(label)
        self._lines[label] = []
        self._phis[label] = []
        self.current = label

    def add(self, line: str) -> None:
        self._lines[self.current].append(line)

    def assign(self, text: str) -> str:
        """A new register that holds the instruction's result."""
        register = self.fresh()
        self.add(f"{register} = {text}")
        return register

    def phi(self, type_: str, incoming: list[tuple[str, str]], label: str | None = None) -> str:
        """A phi in the current block. `incoming` may grow until the text is taken."""
        register = self.fresh()
        self._phis[label or self.current].append((register, type_, incoming))
        return register

    def text(self) -> str:
        lines = []
        for label in self._order:
            lines.append(f"{label}:")
            for register, type_, incoming in self._phis[label]:
                pairs = ", ".join(f"[ {value}, %{source} ]" for value, source in incoming)
                lines.append(f"  {register} = phi {type_} {pairs}")
            lines += [f"  {line}" for line in self._lines[label]]
        return "\n".join(lines)

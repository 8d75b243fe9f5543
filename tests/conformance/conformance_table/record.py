"""Buffers of a case, results as text, and the files that hold what was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .case import Case, Operand
from .text import SCRATCH, SLOT

EXPECTED = Path(__file__).resolve().parents[1] / "expected"
POISON = 0xA5


@dataclass(frozen=True)
class Buffers:
    """Host memory of a case's three buffers, and the launch that goes with it."""

    ins: np.ndarray
    outs: np.ndarray
    scratch: np.ndarray  # aligned to a thread's part
    count: int
    grid: int
    block: int


def buffers(case: Case) -> Buffers:
    """Inputs as the kernel reads them; outputs and scratch memory poisoned."""
    count = len(case.rows)
    grid = -(-count // case.block)
    if case.together and count % case.block:
        raise ValueError(f"{case.name}: {count} rows are no whole number of blocks of {case.block}")
    threads = grid * case.block
    ins = np.array(case.rows, dtype=np.uint64).reshape(count, len(case.ins))
    outs = np.full(count * len(case.outs) * SLOT, POISON, np.uint8)
    scratch = np.full((threads + 1) * SCRATCH, POISON, np.uint8)
    skipped = -scratch.ctypes.data % SCRATCH
    return Buffers(ins, outs, scratch[skipped : skipped + threads * SCRATCH], count, grid, case.block)


def _digits(operand: Operand) -> int:
    return max(operand.bits // 4, 1)


def encode(case: Case, outs: np.ndarray) -> list[str]:
    """Results as hexadecimal digits, for each output the threads' values one behind the other."""
    words = outs.view(np.uint64).reshape(len(case.rows), len(case.outs))
    texts = []
    for column, operand in enumerate(case.outs):
        mask = (1 << max(operand.bits, 32 if operand.type == "pred" else 0)) - 1
        digits = _digits(operand)
        texts.append("".join(f"{int(v) & mask:0{digits}x}" for v in words[:, column]))
    return texts


def decode(operand: Operand, text: str) -> list[int]:
    """The values of one output."""
    digits = _digits(operand)
    return [int(text[k : k + digits], 16) for k in range(0, len(text), digits)]


@dataclass
class Recording:
    """What one family gave on a device.

    :ivar cases: for each case's name its digest and either its results or why there are none
        (``refused``: the driver's assembler does not take it; ``failed``: it did not run to its end).
    """

    family: str
    origin: dict[str, str]
    cases: dict[str, dict[str, object]] = field(default_factory=dict)

    def entry(self, case: Case) -> Mapping[str, object] | None:
        """What was recorded of a case as it is now; None where it has changed since, or is new."""
        found = self.cases.get(case.name)
        return found if found is not None and found["digest"] == case.digest else None


def save(recording: Recording, folder: Path) -> Path:
    """Writes ``FAMILY.json``, a case a line."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"family": recording.family, **recording.origin}
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in recording.cases.items()]
    text = json.dumps(head)[:-1] + ', "cases": {\n' + ",\n".join(lines) + "\n}}\n"
    path = folder / f"{recording.family}.json"
    path.write_text(text)
    return path


def load(family: str, folder: Path = EXPECTED) -> Recording | None:
    """What `folder` holds of a family; None when nothing was recorded."""
    path = folder / f"{family}.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    cases = data.pop("cases")
    return Recording(data.pop("family"), data, cases)

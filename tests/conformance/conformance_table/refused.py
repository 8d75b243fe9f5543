"""Cases that the CPU device refuses, by the beginning of their names, each with what the error says."""

from __future__ import annotations

REFUSED: dict[str, str] = {
    # Shapes of sm_90.
    "mma.sync.aligned.m16n8k4.row.col.f64": "is not supported by the CPU device",
    "mma.sync.aligned.m16n8k8.row.col.f64": "is not supported by the CPU device",
    "mma.sync.aligned.m16n8k16.row.col.f64": "is not supported by the CPU device",
}


def refusal(name: str) -> str | None:
    """What the error of a refused case says; None for one that runs."""
    return next((words for start, words in REFUSED.items() if name.startswith(start)), None)

"""Rows, their variants, and timing that holds on a machine with busy neighbours."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

OURS, UNCHECKED = "CPU device", "CPU device, checks off"

Batch = Callable[[int], float]
"""Runs something so many times; the seconds that this took."""


class WrongResults(Exception):
    """A variant does not compute what the reference says."""


@dataclass(frozen=True)
class Target:
    """What a row is held to: ``factor`` times the speed of ``peer``, or ``most`` of the row's unit."""

    peer: str = ""
    factor: float = 0.0
    most: float = 0.0

    def text(self, unit: str) -> str:
        return f">= {self.factor:g} x {self.peer}" if self.peer else f"<= {self.most:g} {unit}"


@dataclass
class Variant:
    """One way of doing a row's work. ``work``: how much of the row's unit one execution does."""

    name: str
    batch: Batch | None = None
    work: float = 1.0
    verify: Callable[[], None] | None = None
    lanes: int | None = None
    note: str = ""
    samples: list[float] = field(default_factory=list)  # seconds an execution

    @property
    def best(self) -> float | None:
        return min(self.samples) if self.samples else None


@dataclass
class Row:
    """A line of the table. ``rate``: the value is work by second, so more is better; else seconds by work."""

    name: str
    unit: str
    scale: float  # what the value in units of one and seconds is multiplied with
    variants: list[Variant]
    rate: bool = True
    target: Target | None = None
    note: str = ""
    load: float = 0.0

    def value(self, variant: Variant) -> float | None:
        """The variant's best in the row's unit."""
        best = variant.best
        if best is None:
            return None
        return self.scale * (variant.work / best if self.rate else best / variant.work)

    def variant(self, name: str) -> Variant | None:
        return next((v for v in self.variants if v.name == name), None)

    def ratio(self, name: str = OURS, to: str = "") -> float | None:
        """How many times as fast as the peer `to` (the target's, if not given) the variant `name` is."""
        mine, other = self.variant(name), self.variant(to or (self.target.peer if self.target else ""))
        if mine is None or other is None or not mine.best or not other.best:
            return None
        return (mine.work / mine.best) / (other.work / other.best)

    def met(self) -> bool | None:
        """Whether the target is reached; None without target or result."""
        ours = self.variant(OURS)
        if self.target is None or ours is None:
            return None
        if self.target.peer:
            ratio = self.ratio()
            return None if ratio is None else ratio >= self.target.factor
        value = self.value(ours)
        return None if value is None else value <= self.target.most

    def record(self) -> dict[str, object]:
        """For the JSON file."""
        cost = self.ratio(UNCHECKED, OURS)
        return {
            "name": self.name,
            "unit": self.unit,
            "target": self.target.text(self.unit) if self.target else None,
            "ratio": _rounded(self.ratio()) if self.target and self.target.peer else None,
            "met": self.met(),
            "cost_of_checks": _rounded(cost),
            "load": round(self.load, 2),
            "note": self.note,
            "variants": [self._variant_record(v) for v in self.variants],
        }

    def _variant_record(self, v: Variant) -> dict[str, object]:
        found: dict[str, object] = {"name": v.name, "value": _rounded(self.value(v))}
        if v.samples:
            found |= {"best_s": _rounded(v.best), "median_s": _rounded(statistics.median(v.samples))}
            found["samples"] = len(v.samples)
        if v.lanes is not None:
            found["lanes"] = v.lanes
        if v.note:
            found["note"] = v.note
        return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def repeated(call: Callable[[], object]) -> Batch:
    """A batch of Python calls."""

    def batch(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    return batch


def measure(row: Row, budget: float, shortest: float = 1e-3) -> None:
    """Verifies each variant, then times all in turn, each round starting with another.

    Many repetitions of about `shortest` seconds: the best of them met no neighbour. Each is preceded by one execution
    that is not counted, so that caches hold what the variant itself would leave there.

    :param budget: seconds for each variant. A slow one is executed twice at least.
    """
    row.load = os.getloadavg()[0]
    ready = [(v, v.batch) for v in row.variants if v.batch is not None and _verified(v, v.batch)]
    counts, spent = {}, dict.fromkeys((v.name for v, _ in ready), 0.0)
    for v, batch in ready:
        counts[v.name] = max(1, round(shortest / max(batch(1), 1e-7)))
        if counts[v.name] > 1:  # the first may have met cold caches
            counts[v.name] = max(1, round(shortest / max(batch(1), 1e-7)))
    number = 0
    while True:
        turn = ready[number % len(ready) :] + ready[: number % len(ready)] if ready else []
        waiting = [(v, b) for v, b in turn if spent[v.name] < budget or len(v.samples) < 2]
        if not waiting:
            return
        for v, batch in waiting:
            warm = batch(1) if counts[v.name] > 1 or spent[v.name] < budget / 4 else 0.0
            took = batch(counts[v.name])
            v.samples.append(took / counts[v.name])
            spent[v.name] += took + warm
        number += 1


def _verified(variant: Variant, batch: Batch) -> bool:
    """Runs it once; whether the results are right."""
    batch(1)
    try:
        if variant.verify is not None:
            variant.verify()
    except WrongResults as problem:
        variant.note = f"WRONG RESULTS: {problem}"
        return False
    return True

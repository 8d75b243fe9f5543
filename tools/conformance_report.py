"""Writes docs/conformance.md: what the conformance table covers, and how near the CPU device is to the recorded GPU.

    python tools/conformance_report.py            # writes the page
    python tools/conformance_report.py --check    # exit status 1 where the page is not what it would write

The instructions that are approximate are run for it; that all others agree bit for bit is what
tests/conformance/test_conformance.py asserts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "conformance")]

from conformance_table import FAMILIES, Case, family  # noqa: E402
from conformance_table.case import ulps  # noqa: E402
from conformance_table.judge import Verdict, judge, run  # noqa: E402
from conformance_table.record import Recording, load  # noqa: E402
from conformance_table.refused import REFUSED, refusal  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"

_INTRODUCTION = """\
# Conformance of the CPU device

The CPU device is compared with a GPU case by case. A case is an instruction with its types and modifiers and a set of
operands: both zeros, subnormal numbers, infinities, quiet and signalling NaN with payloads, the ends of the integers,
shifts and fields past the width, and noise. The cases are a table in `tests/conformance/conformance_table`, from which
PTX is generated; `tools/record_conformance.py` runs it on a GPU and records the bits of every result;
`tests/conformance/test_conformance.py` runs it on the CPU device and compares: one lane at a time, on whole warps of 32
lanes, and a part of it on 8 and on 16.

This page is written by `tools/conformance_report.py`, and a test fails where it is out of date.
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = options.parse_args()
    text = page()
    if arguments.check:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


def page() -> str:
    """The page's text, from the table, the recording, and a run of the approximate cases."""
    recordings = {name: load(name) for name in FAMILIES}
    parts = [_INTRODUCTION, _recorded(recordings), _families(recordings), _bounds(recordings), _refusals()]
    return "\n".join(parts)


def _recorded(recordings: dict[str, Recording | None]) -> str:
    origins = {
        f"{o['device']} (compute capability {o['compute_capability']}, driver {o['driver']}, CUDA {o['cuda']}), "
        f"{o['date']}"
        for o in (recording.origin for recording in recordings.values() if recording)
    }
    return f"Recorded on: {'; '.join(sorted(origins)) or 'nothing yet'}.\n"


def _families(recordings: dict[str, Recording | None]) -> str:
    lines = [
        "## By family\n",
        "`exact`: every result has the recorded bits. `within a bound`: the instruction is approximate, or leaves open "
        "which NaN it yields; see below. `not recorded`: the case is newer than the recording.\n",
        "| family | cases | results | CPU: exact | CPU: within a bound | CPU: refused | GPU: recorded | GPU: refused |"
        " not recorded |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    total = [0] * 8
    for name, recording in recordings.items():
        row = _counts(family(name), recording)
        total = [a + b for a, b in zip(total, row)]
        lines.append(f"| {name} | " + " | ".join(map(str, row)) + " |")
    return "\n".join([*lines, "| **all** | " + " | ".join(f"**{n}**" for n in total) + " |", ""])


def _counts(cases: tuple[Case, ...], recording: Recording | None) -> list[int]:
    entries = [recording.entry(case) if recording else None for case in cases]
    compared = [c for c, e in zip(cases, entries) if e is not None and "results" in e and refusal(c.name) is None]
    return [
        len(cases),
        sum(len(case.rows) * len(case.outs) for case in cases),
        sum(case.bound is None for case in compared),
        sum(case.bound is not None for case in compared),
        sum(refusal(case.name) is not None for case in cases),
        sum(e is not None and "results" in e for e in entries),
        sum(e is not None and "results" not in e for e in entries),
        sum(e is None for e in entries),
    ]


def _bounds(recordings: dict[str, Recording | None]) -> str:
    lines = [
        "## Approximate instructions\n",
        "How far the CPU device may be from the recorded results, how far it is, and what the PTX ISA promises against "
        "the exact value. An absolute bound counts where the distance in units in the last place is exceeded. The CPU "
        "device evaluates these functions nearly exactly: the distance is for the most part the GPU's own error.\n",
        "| instruction | bound | farthest result | the PTX ISA |",
        "|---|---|---|---|",
    ]
    open_nan = 0
    for name, recording in recordings.items():
        for case in family(name):
            entry = recording.entry(case) if recording else None
            if case.bound is None or entry is None or "results" not in entry or refusal(case.name) is not None:
                continue
            if case.bound.payload:
                open_nan += 1
                continue
            results = entry["results"]
            assert isinstance(results, list)
            verdict = judge(case, run(case), results)
            lines.append(f"| `{case.name}` | {case.bound} | {_farthest(verdict)} | {case.bound.isa} |")
    lines += [
        "",
        f"{open_nan} cases of f64 with several operands may differ in nothing but this: where two operands are NaN, "
        "the result is one of them, and the GPU has another order than the host; and the adder of its global memory "
        "does not make a signalling NaN quiet. The PTX ISA leaves both open.\n",
    ]
    return "\n".join(lines)


def _farthest(verdict: Verdict) -> str:
    if verdict.faults:
        return f"{len(verdict.faults)} results outside"
    parts = [ulps(verdict.worst)] if verdict.worst or not verdict.absolute else []
    return ", ".join(parts + ([f"{verdict.absolute:.1e} absolute"] if verdict.absolute else []))


def _refusals() -> str:
    lines = [
        "## Refused by the CPU device\n",
        "| cases | error |",
        "|---|---|",
    ]
    for start, words in REFUSED.items():
        count = sum(case.name.startswith(start) for name in FAMILIES for case in family(name))
        lines.append(f"| `{start}…` ({count}) | {words} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())

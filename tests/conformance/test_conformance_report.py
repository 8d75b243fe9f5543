"""docs/conformance.md says what the table, the recording and the CPU device say now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from conformance_table.case import Bound, case
from conformance_table.judge import judge

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    specification = importlib.util.spec_from_file_location("report", ROOT / "tools" / "conformance_report.py")
    assert specification is not None and specification.loader is not None
    report = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(report)
    assert (ROOT / "docs" / "conformance.md").read_text() == report.page(), "run tools/conformance_report.py"


def test_what_a_bound_allows() -> None:
    def faults(bound: Bound | None, got: str, recorded: str, ins: str = "a:f32", row: tuple[int, ...] = (0,)) -> int:
        type_ = "f64" if "f64" in ins else "f32"
        return len(judge(case("op %d, %a;", f"d:{type_}", ins, [row], bound=bound), [got], [recorded]).faults)

    assert faults(None, "3f800000", "3f800000") == 0
    assert faults(None, "3f800001", "3f800000") == 1
    assert faults(Bound(1), "3f800001", "3f800000") == 0
    assert faults(Bound(1), "3f800002", "3f800000") == 1
    assert faults(Bound(1), "3f7fffff", "3f800000") == 0
    assert faults(Bound(1), "7f800000", "7f7fffff") == 0
    assert faults(Bound(1 << 30), "7fffffff", "7f800000") == 1  # NaN is no number
    assert faults(Bound(1 << 30), "7fc00000", "7fffffff") == 1  # nor another NaN
    assert faults(Bound(0, 1e-3), "00000000", "3a000000") == 0
    assert faults(Bound(0, 1e-3), "00000000", "3b000000") == 1
    one, other = 0x7FF8000000000001, 0xFFF0000000000002
    nans = (f"{one:x}", f"{other | 1 << 51:x}")
    assert faults(Bound(payload=True), *nans, "a:f64 b:f64", (one, other)) == 0
    assert faults(Bound(payload=True), *nans, "a:f64 b:f64", (one, one)) == 1
    assert faults(Bound(payload=True), "0" * 16, "8" + "0" * 15, "a:f64 b:f64", (0, 1 << 63)) == 1

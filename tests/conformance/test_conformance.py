"""Every case of the conformance table on the CPU device, against what a GPU gave."""

from __future__ import annotations

from functools import cache

import pytest
from conformance_table import FAMILIES, Case, family
from conformance_table.judge import judge, run
from conformance_table.record import Recording, load
from conformance_table.refused import REFUSED, refusal

from abi import Error

LANES = (1,)
CASES = [case for name in FAMILIES for case in family(name)]
_FAMILY = {case.name: name for name in FAMILIES for case in family(name)}


@cache
def recording(name: str) -> Recording | None:
    return load(name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conforms(case: Case, lanes: int) -> None:
    words = refusal(case.name)
    if words is not None:
        with pytest.raises(Error) as caught:
            run(case, lanes)
        assert words in str(caught.value)
        return
    recorded = recording(_FAMILY[case.name])
    entry = recorded.entry(case) if recorded else None
    if entry is None:
        run(case, lanes)
        pytest.skip("this case has not been recorded on a GPU: tools/record_conformance.py")
    if "results" not in entry:
        pytest.skip(f"the GPU gave no result: {entry}")
    results = entry["results"]
    assert isinstance(results, list)
    verdict = judge(case, run(case, lanes), results)
    faults = "\n".join(verdict.faults[:12])
    assert not verdict.faults, f"{case.text}\n{len(verdict.faults)} of {len(case.rows)} results differ\n{faults}"


def test_every_refusal_names_a_case() -> None:
    for start in REFUSED:
        assert any(case.name.startswith(start) for case in CASES), start

"""Every case of the conformance table on the CPU device, against what a GPU gave."""

from __future__ import annotations

from functools import cache

import pytest
from conformance_table import FAMILIES, Case, family
from conformance_table.judge import judge, run
from conformance_table.record import Recording, load
from conformance_table.refused import REFUSED, refusal

from abi import Error

CASES = [case for name in FAMILIES for case in family(name)]
_FAMILY = {case.name: name for name in FAMILIES for case in family(name)}


def lanes_of(index: int, case: Case) -> tuple[int, ...]:
    """All cases run a lane at a time and, where the vector path has the instruction, on whole warps; of those in which
    threads do not work together every fourth runs on 8 and another fourth on 16 lanes."""
    # Barriers of a number of threads; atomics of short vectors.
    scalar = "with a count" in case.name or case.name.startswith("atom.global.v")
    if scalar or refusal(case.name) is not None:
        return (1,)
    alone = not case.together and "%lane" not in case.text
    return (1, 32, *((8,) if alone and index % 4 == 0 else ()), *((16,) if alone and index % 4 == 2 else ()))


RUNS = [
    pytest.param(case, lanes, id=f"{case.name}-{lanes}")
    for index, case in enumerate(CASES)
    for lanes in lanes_of(index, case)
]


@cache
def recording(name: str) -> Recording | None:
    return load(name)


@pytest.mark.parametrize(("case", "lanes"), RUNS)
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

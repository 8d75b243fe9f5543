"""The conformance table itself: names, operands, and PTX that an assembler takes."""

from __future__ import annotations

import re

import pytest
from conformance_table import FAMILIES, family, module
from conformance_table.case import BITS
from conformance_table.record import buffers, decode, encode
from support.assemble import assemble


@pytest.mark.parametrize("name", FAMILIES)
def test_cases_are_well_formed(name: str) -> None:
    cases = family(name)
    for case in cases:
        registers = {o.name for o in (*case.ins, *case.outs)}
        assert len(registers) == len(case.ins) + len(case.outs), case.name
        assert all(re.search(rf"%{o.name}\b", case.text) for o in case.outs), case.name
        assert case.rows and all(len(row) == len(case.ins) for row in case.rows), case.name
        assert all(0 <= v < 1 << o.bits for row in case.rows for v, o in zip(row, case.ins)), case.name
        assert {o.type for o in (*case.ins, *case.outs)} <= BITS.keys(), case.name
        assert not case.together or len(case.rows) % case.block == 0, case.name
    assert len({case.digest for case in cases}) > 0.9 * len(cases)


def test_there_are_enough() -> None:
    names = [case.name for name in FAMILIES for case in family(name)]
    assert len(names) >= 1500
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_assembler_takes_every_case(name: str) -> None:
    assemble(module(family(name), "sm_90"), "sm_90")
    for target, arch in (("sm_80", "sm_80"), ("sm_86", "sm_90")):
        assemble(module([case for case in family(name) if case.target <= target], target), arch)


def test_results_survive_their_text() -> None:
    case = next(c for c in family("warps") if c.name == "shfl.sync.idx.b32 in 32")
    data = buffers(case)
    words = data.outs.view("<u8").reshape(len(case.rows), 2)
    words[:, 0] = range(0x1_F000_0000, 0x1_F000_0000 + len(case.rows))  # what is above a register's width is not seen
    words[:, 1] = [k % 2 for k in range(len(case.rows))]
    texts = encode(case, data.outs)
    assert decode(case.outs[0], texts[0]) == list(range(0xF000_0000, 0xF000_0000 + len(case.rows)))
    assert texts[1] == "01" * (len(case.rows) // 2)

"""Generated kernels: the interpreter, one lane and many agree on every bit. `tools/fuzz_lanes.py` runs thousands."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from kernel_fuzz import LANES, check, execute, shrink
from kernel_generator import generate
from kernel_interpreter import InvalidProgram, interpret
from kernel_ir import Function, Ins, Mem, ptx_of
from support.assemble import assemble

SEEDS = range(60)
GROUPS = [SEEDS[k : k + 10] for k in range(0, len(SEEDS), 10)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{g[0]}-{g[-1]}")
def test_generated_kernels_agree(group: range) -> None:
    refused: Counter[str] = Counter()
    for seed in group:
        program = generate(seed, small=seed % 6 != 0)
        assemble(ptx_of(program))
        outcome = check(program, LANES)
        assert not outcome.wrong, f"seed {seed}: {outcome.wrong}"
        refused.update(outcome.refused.keys())
    # About half of the kernels use warps, which takes 32 lanes; of masks that differ between lanes there are few.
    assert refused["32"] <= len(group) // 2 and max(refused["8"], refused["16"]) < len(group), refused


def test_a_seed_is_a_kernel() -> None:
    assert ptx_of(generate(11)) == ptx_of(generate(11)) != ptx_of(generate(12))


def test_the_generator_covers_what_it_promises() -> None:
    text = "\n".join(ptx_of(generate(seed)) for seed in range(150))
    for word in (
        "brx.idx", "exit;", "bar.red", "shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx", "match.all",
        "match.any", "redux.sync", "vote.sync.ballot", "activemask", "bar.warp.sync", "red.global", "atom.global.cas",
        "red.shared", "call.uni", "ld.local", "ld.const", ".v4.u32", "st.global.u8", "fma.rn.f16", "mul.wide.u32",
        "shf.l",
        "cvta.shared", "addc", "selp", ".reqntid", "bra next", "bra done",
    ):  # fmt: skip
        assert word in text, word
    assert re.search(r"@!?%p\d+ (add|sub|mul|fma)", text) and re.search(r"@!?%p\d+ redux", text)


def _store(*instructions: Ins) -> Function:
    number = (Ins("mov.u32", ("%r1",), ("%tid.x",)), Ins("ld.param.u64", ("%d1",), (Mem("out"),)))
    own = (Ins("mad.wide.u32", ("%d2",), ("%r1", 4, "%d1")),)
    return Function("generated", (*number, *own, *instructions), (("out", "u64"),))


@pytest.mark.parametrize(
    "body, problem",
    [
        ((Ins("st.global.u32", (), (Mem("%d2"), "%r9")),), "no determined value"),
        ((Ins("st.global.u32", (), (Mem("%d1"), "%r1")),), "two threads"),
        ((Ins("st.global.u32", (), (Mem("%d2", 1 << 20), "%r1")),), "offset"),
        ((Ins("st.global.u32", (), (Mem("%d2", 2), "%r1")),), "misaligned"),
        ((Ins("label", (), ("L",)), Ins("bra", (), ("L",))), "does not end"),
        (
            (
                Ins("setp.lt.u32", ("%p1",), ("%r1", 2)),
                Ins("bar.sync", (), (0,), "%p1"),
                Ins("bar.warp.sync", (), (-1,), "!%p1"),
            ),
            "deadlock",
        ),
    ],
)
def test_the_interpreter_refuses_what_is_not_determined(body: tuple[Ins, ...], problem: str) -> None:
    program = generate(0)
    out = next(b for b in program.buffers if b.name == "out")
    program = replace(program, kernel=_store(*body), functions=(), buffers=(out,), block=(4, 1, 1), grid=(1, 1, 1))
    with pytest.raises(InvalidProgram, match=problem):
        interpret(program)


def test_shrinking_keeps_the_failure_and_drops_the_rest() -> None:
    program = generate(3)

    def multiplies(candidate: object) -> bool:
        return any(i.op.startswith("mul") for i in candidate.kernel.body)  # type: ignore[attr-defined]

    small = shrink(program, multiplies)
    assert len(small.kernel.body) <= 4 and multiplies(small)
    execute(small, 1)


@pytest.mark.gpu
def test_a_gpu_agrees() -> None:
    import kernel_gpu

    check_on_gpu = kernel_gpu.checker()
    for seed in range(40):
        outcome = check_on_gpu(seed)
        assert not outcome["wrong"], f"seed {seed}: {outcome['wrong']}"

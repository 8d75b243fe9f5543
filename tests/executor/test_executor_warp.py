"""Warp operations and barriers against a model of a warp; deadlocks are found."""

from __future__ import annotations

import numpy as np
import pytest
from executor_harness import HEADER, pointers, run

from abi import ExecutionError
from interop import ptx
from interop.executor import compile_kernel
from interop.executor.analysis import plan_kernel
from interop.executor.table import instruction_table

FULL = 0xFFFFFFFF


def thread_kernel(body: str, out: str = "u32") -> str:
    """A one-dimensional kernel in which each thread computes %d from its number %t and lane %l and stores it."""
    size = int(out[1:]) // 8
    return f""".visible .entry k(.param .u64 out, .param .u64 in) {{ .reg .b64 %o, %i, %w; .reg .b32 %t, %l, %r<10>;
        .reg .pred %p<4>;
        .reg .{out} %d; ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid;
        mov.{out} %d, 0;
        {body}
        mad.wide.u32 %o, %t, {size}, %o; st.global.{out} [%o], %d; ret; }}"""


def shuffled(values: np.ndarray, mode: str, b: int, c: int) -> tuple[list[int], list[int]]:
    """shfl as the manual's pseudocode has it, over one full warp."""
    segment, bound, result, inside = c >> 8 & 31, c & 31, [], []
    for lane in range(32):
        top = (lane & segment) | (bound & ~segment)
        low = lane & segment
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[mode]
        ok = j >= top if mode == "up" else j <= top
        result.append(int(values[j if ok else lane]))
        inside.append(int(ok))
    return result, inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode: str) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 24, 64, dtype=np.uint32)
    controls = [0x1F, 0x0, 0x181F, 0x1C1F, 0x1800, 0x1C03, 0x100F]
    for b in (0, 1, 5, 16, 31):
        stores = "".join(
            f"shfl.sync.{mode}.b32 %r1|%p0, %r0, {b}, {c}, -1; @%p0 or.b32 %r1, %r1, 0x80000000;"
            f" st.global.u32 [%w+{256 * k}], %r1;"
            for k, c in enumerate(controls)
        )
        out = np.full((len(controls), 64), 0xDEADBEEF, np.uint32)
        load = "mad.wide.u32 %w, %t, 4, %i; ld.global.u32 %r0, [%w]; mad.wide.u32 %w, %t, 4, %o;"
        run(thread_kernel(f"{load} {stores}").replace(
            "mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %d;", ""), "k", pointers(out, values), 1, 64)  # fmt: skip
        for k, c in enumerate(controls):
            for warp in range(2):
                result, inside = shuffled(values[32 * warp : 32 * warp + 32], mode, b, c)
                wanted = [r | i << 31 for r, i in zip(result, inside)]
                assert out[k, 32 * warp : 32 * warp + 32].tolist() == wanted, (mode, b, hex(c))


def test_shuffles_of_part_of_a_warp() -> None:
    """The two halves shuffle in different branches, with masks of their own;
    a block of 48 has half a warp at its end."""
    out = np.zeros(48, np.uint32)
    body = """and.b32 %r0, %l, 16; setp.eq.u32 %p0, %r0, 0; @%p0 bra LOW;
        shfl.sync.idx.b32 %d, %t, 31, 0x1f, 0xffff0000; bra.uni JOIN;
        LOW: shfl.sync.idx.b32 %d, %t, 3, 0x1f, 0x0000ffff; JOIN: bar.warp.sync -1; add.u32 %d, %d, 100;"""
    run(thread_kernel(body), "k", pointers(out, 0), 1, 48)
    assert out.tolist() == [103] * 16 + [131] * 16 + [135] * 16


def test_votes() -> None:
    out = np.zeros((5, 64), np.uint32)
    body = """setp.lt.u32 %p0, %t, 40; mad.wide.u32 %w, %t, 4, %o;
        vote.sync.all.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1; st.u32 [%w], %r0;
        vote.sync.any.pred %p1, !%p0, -1; selp.u32 %r0, 1, 0, %p1; st.u32 [%w+256], %r0;
        vote.sync.uni.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1; st.u32 [%w+512], %r0;
        vote.sync.ballot.b32 %r0, %p0, -1; st.u32 [%w+768], %r0; activemask.b32 %r0; st.u32 [%w+1024], %r0;"""
    run(
        thread_kernel(body).replace("mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %d;", ""),
        "k",
        pointers(out, 0),
        1,
        64,
    )
    for row, (first, second) in zip(out, [(1, 0), (0, 1), (1, 0), (FULL, 0xFF), (FULL, FULL)]):
        assert row.tolist() == [first] * 32 + [second] * 32


def test_active_mask_in_branches() -> None:
    out = np.zeros(32, np.uint32)
    body = """setp.lt.u32 %p0, %l, 5; @%p0 bra LOW; setp.ge.u32 %p1, %l, 20; @%p1 ret; activemask.b32 %d; bra.uni JOIN;
        LOW: activemask.b32 %d; JOIN:"""
    run(thread_kernel(body), "k", pointers(out, 0), 1, 32)
    assert out.tolist() == [0x1F] * 5 + [0xFFFE0] * 15 + [0] * 12


def test_match_redux_elect() -> None:
    values = np.random.default_rng(2).integers(-3, 3, 32).astype(np.int32)
    out = np.zeros((11, 32), np.uint32)
    operations = ["add.s32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32"]
    stores = "".join(
        f"redux.sync.{op} %r1, %r0, -1; st.u32 [%w+{128 * (k + 3)}], %r1;" for k, op in enumerate(operations)
    )
    body = f"""mad.wide.u32 %w, %t, 4, %i; ld.global.u32 %r0, [%w]; mad.wide.u32 %w, %t, 4, %o;
        match.any.sync.b32 %r1, %r0, -1; st.u32 [%w], %r1; match.all.sync.b32 %r1|%p0, %r0, -1;
        @%p0 add.u32 %r1, %r1, 1; st.u32 [%w+128], %r1;
        elect.sync %r1|%p0, 0xfffffff0; selp.u32 %r2, 256, 0, %p0; add.u32 %r1, %r1, %r2; st.u32 [%w+256], %r1;
        {stores}"""
    body = body.replace("elect.sync", "setp.lt.u32 %p1, %l, 4; @%p1 bra SKIP; elect.sync").replace(
        "st.u32 [%w+256], %r1;", "st.u32 [%w+256], %r1; SKIP:"
    )
    run(
        thread_kernel(body).replace("mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %d;", ""),
        "k",
        pointers(out, values),
        1,
        32,
    )
    same = [sum(1 << j for j in range(32) if values[j] == v) for v in values]
    assert out[0].tolist() == same
    assert out[1].tolist() == [0] * 32
    assert out[2].tolist() == [0] * 4 + [4 + 256] + [4] * 27
    unsigned = values.view(np.uint32)
    wanted = [int(values.sum()) & FULL, int(values.min()) & FULL, int(values.max()) & FULL, int(unsigned.min()),
              int(unsigned.max()), int(np.bitwise_and.reduce(unsigned)), int(np.bitwise_or.reduce(unsigned)),
              int(np.bitwise_xor.reduce(unsigned))]  # fmt: skip
    for row, value in zip(out[3:], wanted):
        assert row.tolist() == [value] * 32


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 100, 1024])
def test_barrier_orders_shared_memory(threads: int) -> None:
    """Each round a thread reads its neighbour's value of the round before."""
    out = np.zeros(threads, np.uint32)
    text = """.visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %t, %n, %a, %b, %v, %k; .reg .pred %p;
        .shared .u32 s[1024];
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %a, s; mad.lo.u32 %a, %t, 4, %a;
        add.u32 %b, %t, 1; rem.u32 %b, %b, %n; mov.u32 %v, s; mad.lo.u32 %b, %b, 4, %v; st.shared.u32 [%a], %t;
        mov.u32 %k, 0;
        L: bar.sync 0; ld.shared.u32 %v, [%b]; bar.sync 0; st.shared.u32 [%a], %v; add.u32 %k, %k, 1;
        setp.lt.u32 %p, %k, 7; @%p bra L;
        bar.sync 0; ld.shared.u32 %v, [%a]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %v; ret; }"""
    run(text, "k", pointers(out), 1, threads)
    assert out.tolist() == [(t + 7) % threads for t in range(threads)]


def test_barriers_that_reduce() -> None:
    out = np.zeros((3, 70), np.uint32)
    body = """setp.lt.u32 %p0, %t, 33; mad.wide.u32 %w, %t, 4, %o; bar.red.popc.u32 %r0, 0, %p0; st.u32 [%w], %r0;
        bar.red.and.pred %p1, 1, %p0; selp.u32 %r0, 5, 6, %p1; st.u32 [%w+280], %r0;
        barrier.red.or.pred %p1, 2, !%p0; selp.u32 %r0, 5, 6, %p1; st.u32 [%w+560], %r0;"""
    run(
        thread_kernel(body).replace("mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %d;", ""),
        "k",
        pointers(out, 0),
        1,
        70,
    )
    assert out.tolist() == [[33] * 70, [6] * 70, [5] * 70]


def test_named_barriers_with_producers_and_consumers() -> None:
    """One warp produces and only arrives; the other waits. Warps count as 32, the last one, of 8 threads, too."""
    out = np.zeros(72, np.uint32)
    body = """mov.u32 %r0, buf; mad.lo.u32 %r0, %l, 4, %r0; setp.ge.u32 %p0, %t, 32; @%p0 bra CONSUME;
        add.u32 %r1, %t, 500; st.shared.u32 [%r0], %r1; bar.arrive 3, 96; bra.uni END;
        CONSUME: bar.sync 3, 96; ld.shared.u32 %d, [%r0]; END:"""
    run(".shared .u32 buf[32];" + thread_kernel(body), "k", pointers(out, 0), 1, 72)
    assert out.tolist() == [0] * 32 + list(range(500, 532)) + list(range(500, 508))


def test_threads_that_have_left_do_not_hold_up_a_barrier() -> None:
    out = np.zeros(64, np.uint32)
    body = "setp.ge.u32 %p0, %t, 40; @%p0 exit; bar.sync 0; vote.sync.ballot.b32 %d, %p0, -1; activemask.b32 %d;"
    run(thread_kernel(body), "k", pointers(out, 0), 1, 64)
    assert out.tolist() == [FULL] * 32 + [0xFF] * 8 + [0] * 24


def test_a_barrier_inside_a_function_and_exit_from_it() -> None:
    out = np.zeros(64, np.uint32)
    function = """.shared .u32 buf[64]; .func (.param .b32 r) swap(.param .b32 v, .param .b32 i) {
        .reg .b32 %v, %i, %a; .reg .pred %p;
        ld.param.b32 %v, [v]; ld.param.b32 %i, [i]; setp.eq.u32 %p, %v, 13; @%p exit; mov.u32 %a, buf;
        mad.lo.u32 %a, %i, 4, %a; st.shared.u32 [%a], %v; bar.sync 0;
        xor.b32 %i, %i, 1; mov.u32 %a, buf; mad.lo.u32 %a, %i, 4, %a; ld.shared.u32 %v, [%a]; bar.sync 0;
        st.param.b32 [r], %v; ret; }"""
    call = """{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r0; st.param.b32 [b], %t;
        call (c), swap, (a, b); ld.param.b32 %r0, [c]; }"""
    run(
        function + thread_kernel(f"mov.u32 %r0, %t; {call} add.u32 %r0, %r0, 1000; {call} mov.u32 %d, %r0;"),
        "k",
        pointers(out, 0),
        1,
        64,
    )
    # Thread 13 leaves in the first call; thread 12 then reads what nobody has written there.
    assert [v for t, v in enumerate(out.tolist()) if t not in (12, 13)] == [
        t + 1000 for t in range(64) if t not in (12, 13)
    ]
    assert out[13] == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("setp.lt.u32 %p0, %t, 10; @%p0 bra A; bar.sync 0; bra.uni B; A: bar.sync 1; B:",
         ["deadlock", "10 threads, from (0, 0, 0) on, at barrier 1", "54 threads, from (10, 0, 0) on, at barrier 0"]),
        ("setp.ne.u32 %p0, %t, 3; @%p0 bra A; shfl.sync.idx.b32 %d, %t, 0, 31, -1; bra.uni B; A: bar.warp.sync -1; B:",
         ["deadlock", "1 thread, from (3, 0, 0) on, at shfl.sync", "31 threads, from (0, 0, 0) on, at bar.warp.sync"]),
        ("bar.sync 0, 96;", ["deadlock", "64 threads, from (0, 0, 0) on, at barrier 0"]),
    ],
)  # fmt: skip
def test_deadlocks_are_reported(body: str, words: list[str]) -> None:
    out = np.zeros(64, np.uint32)
    with pytest.raises(ExecutionError) as error:
        run(thread_kernel(body), "k", pointers(out, 0), (2, 1, 1), 64)
    for word in words:
        assert word in str(error.value)
    assert "ptx line" in str(error.value) and "block (" in str(error.value)


def test_spin_locks_between_threads_and_blocks() -> None:
    """Every thread takes a lock, adds to a plain counter, and gives the lock back; in the warp and between blocks."""
    lock, counter = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    text = HEADER + """.visible .entry k(.param .u64 lock, .param .u64 counter) { .reg .b64 %l, %c; .reg .b32 %r;
        .reg .pred %p;
        ld.param.u64 %l, [lock]; ld.param.u64 %c, [counter];
        AGAIN: atom.acquire.gpu.global.cas.b32 %r, [%l], 0, 1; setp.ne.u32 %p, %r, 0; @%p bra AGAIN;
        ld.global.u32 %r, [%c]; add.u32 %r, %r, 1; bar.warp.sync 0; st.global.u32 [%c], %r;
        fence.acq_rel.gpu; atom.release.gpu.global.exch.b32 %r, [%l], 0; ret; }"""  # fmt: skip
    compile_kernel(text, "k").launch(pointers(lock, counter), 20, 64, threads=4)
    assert counter[0] == 20 * 64 and lock[0] == 0


def test_a_thread_waits_for_a_later_one() -> None:
    flag = np.zeros(2, np.uint32)
    body = """setp.eq.u32 %p0, %t, 5; @%p0 bra SET; WAIT: ld.volatile.global.u32 %r0, [%i]; setp.eq.u32 %p1, %r0, 0;
        @%p1 bra WAIT;
        mov.u32 %d, %r0; bra.uni DONE; SET: st.volatile.global.u32 [%i], 9; DONE:"""
    out = np.zeros(8, np.uint32)
    run(thread_kernel(body), "k", pointers(out, flag), 1, 8)
    assert out.tolist() == [9, 9, 9, 9, 9, 0, 9, 9]


def test_blocks_wait_for_each_other_as_long_as_they_run_together() -> None:
    counter = np.zeros(1, np.uint32)
    text = HEADER + """.visible .entry k(.param .u64 c) { .reg .b64 %c; .reg .b32 %r, %n; .reg .pred %p;
        ld.param.u64 %c, [c];
        mov.u32 %n, %nctaid.x; red.global.add.u32 [%c], 1; L: ld.acquire.gpu.global.u32 %r, [%c];
        setp.lt.u32 %p, %r, %n; @%p bra L; ret; }"""  # fmt: skip
    compile_kernel(text, "k").launch(pointers(counter), 4, 1, threads=4)
    assert counter[0] == 4


def test_waiting_for_nobody_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTEROP_CPU_SPIN_SECONDS", "0.2")
    flag = np.zeros(1, np.uint32)
    body = "WAIT: ld.relaxed.gpu.global.u32 %r0, [%i]; setp.eq.u32 %p1, %r0, 0; @%p1 bra WAIT;"
    with pytest.raises(ExecutionError, match=r"deadlock: .*memory that no thread writes.*a loop that waits for memory"):
        run(thread_kernel(body), "k", pointers(np.zeros(8, np.uint32), flag), 3, 8, threads=2)


def test_a_retry_that_makes_progress_is_no_spin() -> None:
    """The loop that CUDA code writes for an atomic maximum of floats: no coroutines needed, the result right."""
    best = np.zeros(1, np.float32)
    text = HEADER + """.visible .entry k(.param .u64 p) { .reg .b64 %p; .reg .b32 %o, %a, %n, %t; .reg .f32 %f, %g;
        .reg .pred %q;
        ld.param.u64 %p, [p]; mov.u32 %t, %tid.x; mov.u32 %a, %ctaid.x; mad.lo.u32 %t, %a, 64, %t;
        mul.lo.u32 %t, %t, 7919; rem.u32 %t, %t, 1009; cvt.rn.f32.u32 %f, %t;
        ld.global.u32 %o, [%p]; L: mov.b32 %a, %o; mov.b32 %g, %a; max.f32 %g, %g, %f; mov.b32 %n, %g;
        atom.global.cas.b32 %o, [%p], %a, %n;
        setp.ne.u32 %q, %o, %a; @%q bra L; ret; }"""  # fmt: skip
    assert not plan_kernel(ptx.parse(text), "k", instruction_table()).coroutine
    compile_kernel(text, "k").launch(pointers(best), 40, 64, threads=4)
    assert best[0] == max(t * 7919 % 1009 for t in range(2560))

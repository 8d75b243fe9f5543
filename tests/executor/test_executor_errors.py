"""What goes wrong says so: traps, assertions, unsupported instructions, impossible launches. And what kernels print."""

from __future__ import annotations

import os
import re
import struct
import threading

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers, run

from abi import (
    ArgumentRangeError,
    ArgumentTypeError,
    Error,
    ExecutionError,
    ImageError,
    SymbolNotFound,
    UnsupportedError,
)
from interop.executor import compile_kernel

LEVELS = [(), ("-G",)]


def kernel(body: str, params: str = "") -> str:
    """A kernel whose body begins in line 5 of the PTX."""
    registers = ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .b16 %h<4>; .reg .pred %p<4>;"
    return f".visible .entry k({params}) {{ {registers}\n{body}\nret; }}"


def test_trap_names_block_thread_and_line() -> None:
    condition = (
        "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 37; mov.u32 %r1, %ctaid.y; setp.eq.and.u32 %p1, %r1, 2, %p0;"
    )
    body = f"{condition}\n@%p1 trap;"
    with pytest.raises(ExecutionError) as error:
        run(kernel(body), "k", b"", (1, 3), 64)
    assert str(error.value) == "k: trap (ptx line 6), block (0, 2, 0), thread (37, 0, 0)"


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_assertion(options: tuple[str, ...], barrier: str) -> None:
    source = f"""
extern "C" __global__ void check(int* x) {{ {barrier} x[threadIdx.x] = 1;
  assert(threadIdx.x != 5 && "five is right out"); {barrier} x[threadIdx.x] = 2; }}"""
    x = np.zeros(32, np.int32)
    with pytest.raises(ExecutionError) as error:
        compile_kernel(cuda(source, *options), "check").launch(pointers(x), 1, 32)
    assert str(error.value) == (
        'check: threadIdx.x != 5 && "five is right out" (test.cu:3), block (0, 0, 0), thread (5, 0, 0)'
    )
    assert 2 not in x[5:]


def test_the_first_error_stops_the_launch() -> None:
    """Blocks that have not begun when one fails are not run."""
    count = np.zeros(1, np.uint64)
    body = """ld.param.u64 %rd0, [p]; red.global.add.u64 [%rd0], 1;
        mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 3; @%p0 trap;"""
    with pytest.raises(ExecutionError, match=r"block \(3, 0, 0\)"):
        run(kernel(body, ".param .u64 p"), "k", pointers(count), 100000, 1, threads=2)
    assert 4 <= count[0] < 100000


@pytest.mark.parametrize(
    ("instruction", "named"),
    [
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 %f0, %f1, %f2, %f3;", "mma.sync"),
        ("tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [t, {%f4}];", "tex.1d"),
        ("add.rn.wobble.f32 %f0, %f1, %f2;", ".wobble"),
        ("shfl.down.b32 %r0, %r1, 1, 31;", "without .sync"),
        ("cvt.rn.bf16x2.e4m3x2 %r0, %h0;", "cvt.rn.bf16x2.e4m3x2"),
        ("barrier.cluster.arrive;", "clusters"),
        ("mov.u32 %r0, %pm0;", "the special register %pm0"),
        ("call mystery, ();", "does not define mystery"),
        ("{ .param .b64 a; .param .b64 b; call (b), mystery, (a); }", "does not define mystery"),
        ("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group"),
        ("add.f16 %h0, %h1, %h2; mul.rz.f16 %h0, %h1, %h2;", "mul.rz.f16"),
        ("ld.local.u32 %r0, [%r1];", "a 32-bit address"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named_with_its_line(instruction: str, named: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        compile_kernel(HEADER + kernel("mov.u32 %r0, 0;\n" + instruction), "k")
    assert str(error.value).startswith("ptx line 6: `")
    assert named in str(error.value) and "not supported by the CPU device" in str(error.value)


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("add.u32 %r0, %r1, %rd1;", "%rd1 has 64 bits, the instruction takes 32"),
        ("add.u64 %r0, %rd1, %rd1;", "%r0 has 32 bits, the instruction yields 64"),
        ("add.u32 %r0, %r1, %nobody;", "%nobody is not declared"),
        ("add.u32 %r0, %r9, 1;", "%r9 is not declared"),
        ("add.u32 %r0, %r1;", "it has only 2 operands"),
        ("bra NOWHERE;", "not a label"),
        ("add %r0, %r1, %r2;", "a type is missing"),
        ("setp.u32 %p0, %r1, %r2;", "the comparison is missing"),
        ("cvt.s32.f32 %r0, %f0;", "needs .rni"),
        ("ld.global.v2.u32 {%r0, %r1, %r2}, [%rd0];", "2 elements are expected"),
        ("ld.global.u32 %r0, [%f0+4+];", "expected an integer"),
        ("mov.b64 %rd0, {%r0, %r1, %r2};", "do not make up 64 bits"),
        ("call (%r0), %rd1, (%r1), proto;", "proto is neither a prototype nor a list of functions"),
    ],
)  # fmt: skip
def test_malformed_instructions_are_refused(instruction: str, words: str) -> None:
    with pytest.raises(ImageError) as error:
        compile_kernel(HEADER + kernel(instruction), "k")
    assert words in str(error.value) and "5" in str(error.value)


@pytest.mark.parametrize("threads", [1, 3])
def test_endless_recursion_stops_the_kernel_and_not_the_process(threads: int) -> None:
    functions = (
        ".func (.param .u32 r) f(.param .u32 a);\n"
        ".func (.param .u32 r) g(.param .u32 a) { .reg .u32 %a; .param .u32 x, y; ld.param.u32 %a, [a];"
        " st.param.u32 [x], %a; call (y), f, (x); ld.param.u32 %a, [y]; add.u32 %a, %a, 1;"
        " st.param.u32 [r], %a; ret; }\n"
        ".func (.param .u32 r) f(.param .u32 a) { .reg .u32 %a; .reg .pred %p; .param .u32 x, y; ld.param.u32 %a, [a];"
        " setp.eq.u32 %p, %a, 0; @%p bra END; sub.u32 %a, %a, 1; st.param.u32 [x], %a; call (y), g, (x);"
        " ld.param.u32 %a, [y]; END: st.param.u32 [r], %a; ret; }\n"
    )
    body = (
        "ld.param.u64 %rd0, [p]; ld.param.u32 %r0, [n]; .param .u32 x, y; st.param.u32 [x], %r0; call (y), f, (x);"
        " ld.param.u32 %r0, [y]; st.global.u32 [%rd0], %r0;"
    )
    launched = compile_kernel(HEADER + functions + kernel(body, ".param .u64 p, .param .u32 n"), "k")
    result = np.zeros(1, np.uint32)
    address = pointers(result)
    launched.launch(bytes(address) + (1000).to_bytes(4, "little"), 1, 1)
    assert result[0] == 1000
    with pytest.raises(ExecutionError, match=r"calls itself until the stack is full \(ptx line \d+\), block"):
        launched.launch(bytes(address) + (2**32 - 1).to_bytes(4, "little"), 100, 1, threads=threads)
    launched.launch(bytes(address) + (10).to_bytes(4, "little"), 1, 1)
    assert result[0] == 10


def test_endless_recursion_at_the_end_of_a_function_is_no_loop() -> None:
    text = HEADER + ".func f(.param .u32 a) { call f, (a); ret; }\n" + kernel("call f, (1);")
    with pytest.raises(ExecutionError, match="calls itself until the stack is full"):
        compile_kernel(text, "k").launch(b"", 1, 1)


def test_memory_from_the_stack_that_does_not_fit_stops_the_kernel() -> None:
    body = "ld.param.u64 %rd1, [n];\nalloca.u64 %rd0, %rd1; ld.param.u64 %rd2, [p]; st.global.u64 [%rd2], %rd1;"
    launched = compile_kernel(HEADER + kernel(body, ".param .u64 p, .param .u64 n"), "k")
    result = np.zeros(1, np.uint64)
    for size in (99999999999, 2**64 - 1, 2**63):
        with pytest.raises(ExecutionError, match=rf"no room for {size} bytes \(ptx line 6\), block"):
            launched.launch(bytes(pointers(result)) + size.to_bytes(8, "little"), 1, 4)
    launched.launch(bytes(pointers(result)) + (4096).to_bytes(8, "little"), 1, 4)
    assert result[0] == 4096
    constant = compile_kernel(HEADER + kernel("alloca.u64 %rd0, 99999999999; st.local.u32 [%rd0], 1;"), "k")
    with pytest.raises(ExecutionError, match="no room for 99999999999 bytes"):
        constant.launch(b"", 1, 4)


def test_a_kernel_is_not_called() -> None:
    with pytest.raises(UnsupportedError, match="k is a kernel, and a kernel is launched, not called"):
        compile_kernel(HEADER + kernel("call k, ();"), "k")


def test_addresses_of_32_bits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="addresses of 32 bits"):
        compile_kernel(HEADER.replace("address_size 64", "address_size 32") + kernel(""), "k")


def test_lanes_that_do_not_suit_a_kernel_are_refused_when_asked_for() -> None:
    with pytest.raises(UnsupportedError, match="lanes = 7: the CPU device has 1, 8, 16, 32"):
        compile_kernel(HEADER + kernel("mov.u32 %r0, 1;"), "k", lanes=7)
    spinning = HEADER + kernel(
        "ld.param.u64 %rd0, [p]; L: ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra L;",
        ".param .u64 p",
    )
    with pytest.raises(UnsupportedError, match="k: 32 lanes do not suit this kernel: its threads wait for each other"):
        compile_kernel(spinning, "k", lanes=32)
    compile_kernel(spinning, "k")


def test_a_forked_child_launches_with_threads_of_its_own() -> None:
    text = HEADER + kernel("ld.param.u64 %rd0, [p]; red.global.add.u64 [%rd0], 1;", ".param .u64 p")
    launched = compile_kernel(text, "k")
    launched.launch(pointers(np.zeros(1, np.uint64)), 100000, 1, threads=3)
    child = os.fork()
    if child == 0:
        count = np.zeros(1, np.uint64)
        launched.launch(pointers(count), 100000, 1, threads=3)
        os._exit(0 if count[0] == 100000 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_missing_kernel_lists_those_that_are_there() -> None:
    with pytest.raises(SymbolNotFound, match="no kernel 'nope'; its kernels: k"):
        compile_kernel(HEADER + kernel(""), "nope")


def test_a_source_line_is_named_where_the_ptx_tells_it() -> None:
    body = ".loc 1 42 7\n\nmma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 %f0, %f1, %f2, %f3;"
    with pytest.raises(UnsupportedError, match=r"ptx line 7 \(source line 42\): `mma"):
        compile_kernel(HEADER + kernel(body), "k")


@pytest.mark.parametrize(
    ("grid", "block", "shared", "error", "words"),
    [
        ((1, 1, 70000), 1, 0, ArgumentRangeError, "grid.z = 70000 is more than the limit of 65535"),
        (1, (1, 1, 65), 0, ArgumentRangeError, "block.z = 65 is not in 1 ... 64"),
        (1, 0, 0, ArgumentRangeError, "block.x = 0"),
        (1, (32, 33), 0, ArgumentRangeError, "a block of (32, 33, 1) has more than 1024 threads"),
        (1, 1, 300000, ArgumentRangeError, "0 bytes of static and 300000 of dynamic shared memory"),
        (-1, 1, 0, ArgumentRangeError, "grid.x = -1"),
        (1.5, 1, 0, ArgumentTypeError, "grid"),
        ((1, "2"), 1, 0, ArgumentTypeError, "grid.y is an integer, not '2'"),
        ((1, 1, 1, 1), 1, 0, ArgumentTypeError, "one to three extents, not 4"),
    ],
)  # fmt: skip
def test_impossible_launches_are_refused(
    grid: object, block: object, shared: int, error: type[Error], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        compile_kernel(HEADER + kernel("trap;"), "k").launch(b"", grid, block, shared)  # type: ignore[arg-type]


def test_too_few_parameters_and_a_wrong_block_are_refused() -> None:
    text = HEADER + ".visible .entry k(.param .u64 a, .param .u32 b) .reqntid 8, 4 { trap; }"
    kernel = compile_kernel(text, "k")
    assert kernel.param_bytes == 12 and kernel.reqntid == (8, 4, 1)
    with pytest.raises(ArgumentTypeError, match="takes 12 bytes of parameters, got 8"):
        kernel.launch(bytes(8), 1, (8, 4))
    with pytest.raises(ArgumentRangeError, match=re.escape("blocks of (8, 4, 1), not (32, 1, 1)")):
        kernel.launch(bytes(12), 1, 32)


@pytest.mark.parametrize("grid", [0, (5, 0), (1, 1, 0)])
def test_an_empty_grid_runs_nothing(grid: object) -> None:
    run(kernel("trap;"), "k", b"", grid, 32)


PRINT = r"""
extern "C" __global__ void say(const char* name, int n) { int t = threadIdx.x + blockIdx.x * blockDim.x;
  if (t < n) { printf("%s %d: %5.2f %x %llu %c %%\n", name, t, t * 0.5, t + 10u, 1ull << 40, 'a' + t);
  printf("[%*d|%-6ld|%e]\n", 4, t, -7l, 1e10); } }"""


@pytest.mark.parametrize("options", LEVELS)
def test_printf(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    name = np.frombuffer(b"thread\0", np.uint8)
    params = struct.pack("<Qi", name.ctypes.data, 5)
    compile_kernel(cuda(PRINT, *options), "say", lanes=1).launch(params, 3, 2, threads=3)
    lines = capsys.readouterr().out.splitlines()
    wanted = []
    for t in range(5):
        wanted.append(f"thread {t}: {t * 0.5:5.2f} {t + 10:x} {1 << 40} {chr(97 + t)} %")
        wanted.append(f"[{t:4d}|{-7:<6d}|{1e10:e}]")
    # The text of a block is in order and in one piece; blocks come as they finish.
    assert sorted(lines) == sorted(wanted)
    for start in (0, 4):
        block = wanted[start : start + 4]
        at = lines.index(block[0])
        assert lines[at : at + 4] == block
    # Lanes of a strand print in turn, each in its own order.
    compile_kernel(cuda(PRINT, *options), "say").launch(params, 3, 2, threads=3)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(wanted)
    assert all(lines.index(wanted[2 * t]) < lines.index(wanted[2 * t + 1]) for t in range(5))


def test_what_was_printed_before_an_error_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    source = 'extern "C" __global__ void p() { printf("last words\\n"); __trap(); }'
    with pytest.raises(ExecutionError, match="trap"):
        compile_kernel(cuda(source), "p").launch(b"", 1, 1)
    assert capsys.readouterr().out == "last words\n"


def test_many_threads_compile_and_launch_at_once() -> None:
    """A cold kernel asked for by eight threads is compiled once, and their launches do not disturb each other."""
    text = HEADER + kernel(
        """ld.param.u64 %rd0, [p]; ld.param.u32 %r0, [n]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
            mov.u32 %r3, %tid.x;
        mad.lo.u32 %r1, %r1, %r2, %r3; mad.wide.u32 %rd0, %r1, 4, %rd0; add.u32 %r1, %r1, %r0; bar.sync 0;
        st.global.u32 [%rd0], %r1;""",
        ".param .u64 p, .param .u32 n",
    )
    found, problems = [], []

    def work(number: int) -> None:
        try:
            k = compile_kernel(text, "k")
            found.append(k)
            for _ in range(20):
                out = np.zeros(64 * 10, np.uint32)
                k.launch(struct.pack("<QI", out.ctypes.data, number), 10, 64)
                assert np.array_equal(out, np.arange(640) + number)
        except BaseException as problem:
            problems.append(problem)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems and len(set(map(id, found))) == 1


def test_threads_take_part_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """%smid is the worker's number."""
    memory = np.zeros(256, np.uint32)
    seen = memory[:64]
    body = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %smid; and.b32 %r1, %r1, 63;
        mad.wide.u32 %rd0, %r1, 4, %rd0; red.global.add.u32 [%rd0], 1;
        mov.u32 %r2, 0; mov.u32 %r3, %r0; L: add.u32 %r2, %r2, 1; mad.lo.u32 %r3, %r2, %r3, 7;
        setp.lt.u32 %p0, %r2, 20000; @%p0 bra L; st.volatile.global.u32 [%rd0+512], %r3;"""
    k = compile_kernel(HEADER + kernel(body, ".param .u64 p"), "k")
    k.launch(pointers(seen), 400, 1, threads=1)
    assert seen[0] == 400
    monkeypatch.setenv("INTEROP_CPU_THREADS", "3")
    seen[:] = 0
    k.launch(pointers(seen), 2000, 1)
    assert seen.sum() == 2000 and not seen[3:].any() and np.count_nonzero(seen) > 1

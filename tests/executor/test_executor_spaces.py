"""State spaces: names without one, initial values of every form, alignment, what special registers say of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers, run
from support.assemble import assemble_everywhere

from abi import ImageError, UnsupportedError
from interop.executor import compile_kernel, compile_object

LEVELS = [(), ("-G",)]


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_variable_named_without_a_state_space_is_meant_in_its_own(barrier: str) -> None:
    text = assemble_everywhere(
        HEADER
        + f""".global .u32 g; .const .u32 c[2] = {{0, 9}};
.visible .entry k(.param .u64 p) {{ .shared .u32 pad[3], s[2]; .local .u32 l[2]; .reg .b64 %p; .reg .b32 %r, %t;
  ld.param.u64 %p, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %p, %t, 4, %p;
  st.shared.u32 [pad+8], 1000; st.u32 [s+4], 5; st.u32 [l+4], %t; st.u32 [g], 300; {barrier}
  ld.u32 %r, [s+4]; ld.u32 %t, [l+4]; add.u32 %r, %r, %t; ld.u32 %t, [g]; add.u32 %r, %r, %t;
  ld.const.u32 %t, [c+4]; add.u32 %r, %r, %t;
  atom.add.u32 %t, [s+4], 0; add.u32 %r, %r, %t; st.global.u32 [%p], %r; ret; }}"""
    )
    out = np.full(40, 2**32 - 1, np.uint32)
    compile_kernel(text, "k").launch(pointers(out), 1, 40)
    assert np.array_equal(out, 5 + np.arange(40) + 300 + 9 + 5)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("ld.global.u32 %r, [s];", "s is in .shared memory"),
        ("ld.shared.u32 %r, [g];", "g is in .global memory"),
        ("ld.const.u32 %r, [g];", "g is in .global memory"),
        ("ld.local.u32 %r, [c];", "c is in .const memory"),
        ("st.global.u32 [nobody], %r;", "nobody is not declared"),
    ],
)  # fmt: skip
def test_a_variable_of_another_state_space_is_an_error(access: str, words: str) -> None:
    declared = ".global .u32 g; .const .u32 c = 1; .shared .u32 s;\n"
    with pytest.raises(ImageError, match=re.escape(words)):
        run(declared + f".visible .entry k() {{ .reg .b32 %r; {access} ret; }}", "k", b"")


def masked(name: str) -> str:
    """All bytes of an address, as LLVM writes them into packed structures."""
    return ", ".join(f"0x{0xFF << 8 * k:X}({name})" for k in range(8))


INITIAL = f"""
.func (.param .b32 r) three() {{ st.param.b32 [r], 3; ret; }}
.func (.param .b32 r) four() {{ st.param.b32 [r], 4; ret; }}
.global .align 4 .u32 numbers[4] = {{10, 20, 30, -1}};
.global .align 8 .u8 packed[26] = {{1, 2, {masked("numbers")}, {masked("generic(numbers)+8")}, {masked("four")}}};
.global .align 8 .u64 mixed[5] = {{numbers+4, generic(numbers), three, 7, four}};
.global .u64 self = self;
.const .align 8 .u64 fixed[2] = {{numbers+12, three}};
.global .align 16 .b8 tail[8] = {{0xAB, 0xcd, -1}};
.global .f32 reals[4] = {{1.5, 0f40490FDB, -2.0, 1.0}};
.global .f64 doubles[3] = {{0d400921FB54442D18, 2.5, -3.0}};
.global .s16 shorts[2][2] = {{{{-1, 2}}, {{3}}}};
.global .v2 .f32 vectors[2] = {{{{1.0, 2.0}}, {{3.0, 4.0}}}};
.visible .global .attribute(.managed) .align 4 .u32 managed = 17;
.common .global .align 4 .b32 shared_by_all[2];
.weak .global .u32 weak = 23;
.visible .entry k(.param .u64 out) {{ .reg .b64 %o, %a, %f; .reg .b32 %r; .reg .f32 %x; .reg .f64 %d; .reg .b16 %h;
  .param .b32 res; kind: .callprototype (.param .b32 _) _ ();
  ld.param.u64 %o, [out];
  ld.global.b8 %h, [packed+1]; cvt.u32.u16 %r, %h; st.global.u32 [%o], %r;
  BYTES(packed, 2) ld.global.u32 %r, [%a]; st.global.u32 [%o+4], %r;
  BYTES(packed, 10) ld.u32 %r, [%a]; st.global.u32 [%o+8], %r;
  BYTES(packed, 18) call (res), %a, (), kind; ld.param.b32 %r, [res]; st.global.u32 [%o+12], %r;
  ld.global.u64 %a, [mixed]; ld.global.u32 %r, [%a]; st.global.u32 [%o+16], %r;
  ld.global.u64 %a, [mixed+8]; ld.u32 %r, [%a+4]; st.global.u32 [%o+20], %r;
  ld.global.u64 %f, [mixed+16]; call (res), %f, (), kind; ld.param.b32 %r, [res]; st.global.u32 [%o+24], %r;
  ld.global.u64 %a, [self]; ld.global.u64 %f, [%a]; setp.ne.u64 %wrong, %a, %f; @%wrong trap;
  ld.const.u64 %a, [fixed]; ld.global.u32 %r, [%a]; st.global.u32 [%o+28], %r;
  ld.const.u64 %f, [fixed+8]; call (res), %f, (), kind; ld.param.b32 %r, [res]; st.global.u32 [%o+32], %r;
  ld.global.u32 %r, [tail]; st.global.u32 [%o+36], %r; ld.global.u32 %r, [tail+4]; st.global.u32 [%o+40], %r;
  ld.global.f32 %x, [reals+4]; st.global.f32 [%o+44], %x; ld.global.f32 %x, [reals+12]; st.global.f32 [%o+48], %x;
  ld.global.f64 %d, [doubles+16]; cvt.rn.f32.f64 %x, %d; st.global.f32 [%o+52], %x;
  ld.global.u32 %r, [shorts]; st.global.u32 [%o+56], %r; ld.global.u32 %r, [shorts+4]; st.global.u32 [%o+60], %r;
  ld.global.f32 %x, [vectors+12]; st.global.f32 [%o+64], %x;
  ld.global.u32 %r, [managed]; st.global.u32 [%o+68], %r;
  ld.global.u32 %r, [shared_by_all+4]; st.global.u32 [%o+72], %r;
  ld.global.u32 %r, [weak]; st.global.u32 [%o+76], %r; ret; }}
"""


def initial() -> str:
    """Eight byte loads where the text says BYTES: packed fields are not aligned."""

    def loads(match: re.Match[str]) -> str:
        name, at = match[1], int(match[2])
        return " ".join(
            ["mov.u64 %a, 0;"]
            + [f"ld.global.u8 %f, [{name}+{at + k}]; shl.b64 %f, %f, {8 * k}; or.b64 %a, %a, %f;" for k in range(8)]
        )

    text = re.sub(r"BYTES\((\w+), (\d+)\)", loads, INITIAL)
    return HEADER + text.replace(".reg .b32 %r;", ".reg .b32 %r; .reg .pred %wrong;", 1)


def test_initial_values_of_every_form() -> None:
    out = np.full(20, 0xDEADBEEF, np.uint32)
    compile_kernel(assemble_everywhere(initial()), "k").launch(pointers(out), 1, 1)
    real = out.view(np.float32)
    assert out[:11].tolist() == [2, 10, 30, 4, 20, 20, 3, 2**32 - 1, 3, 0xFFCDAB, 0]
    assert real[11:14].tolist() == [np.float32(np.pi), 1.0, -3.0]
    assert out[14:16].tolist() == [0x0002FFFF, 3] and real[16] == 4.0 and out[17:].tolist() == [17, 0, 23]


def test_initial_values_of_objects_for_programs() -> None:
    assert compile_object(initial(), ["k"], prefix="mix_")[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("variable", "error", "words"),
    [
        (".global .b8 x[2] = {0xFF(g), 0xFF00(g)};", UnsupportedError, "x holds parts of an address"),
        (".global .b8 x[8] = {" + masked("g").replace("0xFF00(", "0xFF(") + "};", UnsupportedError, "parts of"),
        (".global .u32 x = g;", UnsupportedError, "x holds addresses in 32 bits"),
        (".global .u64 x = k;", UnsupportedError, "the address of the kernel k"),
        (".extern .func f();\n.global .u64 x = f;", UnsupportedError, "of f, which the PTX does not define"),
        (".global .u64 x = s;", UnsupportedError, "the address of s, which is no variable in global memory"),
        (".global .u64 x[1] = {1, 2};", ImageError, "x has more initial values than elements"),
        (".extern .global .u64 x;", UnsupportedError, "x is declared .extern; the PTX does not define it"),
        (".global .texref x;", UnsupportedError, "x is a .texref; the CPU device has no textures"),
    ],
)  # fmt: skip
def test_initial_values_that_are_refused(variable: str, error: type[Exception], words: str) -> None:
    body = ".visible .entry k() { .reg .b64 %r; mov.u64 %r, x; st.global.u64 [%r], %r; ret; }"
    with pytest.raises(error, match=re.escape(words)):
        compile_kernel(HEADER + f".global .u64 g; .shared .u32 s;\n{variable}\n{body}", "k")


def test_shared_arrays_lie_at_their_alignment() -> None:
    """Also as generic addresses, up to the kilobyte of swizzled tiles."""
    text = assemble_everywhere(
        HEADER
        + """.shared .align 1 .b8 a[3]; .shared .align 1024 .b8 b[8]; .shared .align 256 .b8 c[1];
.extern .shared .align 512 .b8 d[];
.visible .entry k(.param .u64 p) { .reg .b64 %p, %v; ld.param.u64 %p, [p]; mov.u64 %v, a; st.shared.u8 [%v], 1;
  mov.u64 %v, b; cvta.shared.u64 %v, %v; st.global.u64 [%p], %v;
  mov.u64 %v, c; cvta.shared.u64 %v, %v; st.global.u64 [%p+8], %v;
  mov.u64 %v, d; cvta.shared.u64 %v, %v; st.global.u64 [%p+16], %v; ret; }"""
    )
    out = np.full(3, 1, np.uint64)
    compile_kernel(text, "k").launch(pointers(out), 1, 1, shared=64)
    assert (out % np.array([1024, 256, 512], np.uint64) == 0).all()
    assert (np.abs(np.diff(np.sort(out)).astype(np.int64)) > 0).all()


def test_parameters_are_a_state_space_too() -> None:
    out = np.full(4, 7, np.uint32)
    run(""".visible .entry k(.param .u64 p, .param .align 8 .b8 s[16]) { .reg .b64 %a, %o; .reg .pred %q; .reg .b32 %r;
        ld.param.u64 %o, [p]; mov.b64 %a, s; cvta.param.u64 %a, %a;
        isspacep.param %q, %a; selp.u32 %r, 1, 0, %q; st.global.u32 [%o], %r;
        isspacep.param::entry %q, %o; selp.u32 %r, 1, 0, %q; st.global.u32 [%o+4], %r;
        ld.u32 %r, [%a+8]; st.global.u32 [%o+8], %r;
        cvta.to.param.u64 %a, %a; ld.param.u32 %r, [%a+12]; st.global.u32 [%o+12], %r; ret; }""",
        "k", bytes(pointers(out)) + np.array([1, 2, 3, 4], np.uint32).tobytes())  # fmt: skip
    assert out.tolist() == [1, 0, 3, 4]


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void tiles(int* y) {
  auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<16>(block);
  int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
  block.sync();
  if (threadIdx.x % 3 == 0) { auto some = cg::coalesced_threads(); sum += 1000 * some.size(); }
  y[block.thread_rank()] = sum; }
extern "C" __global__ void large(int* y) {
  __shared__ cg::block_tile_memory<128> memory;
  auto block = cg::this_thread_block(memory); auto tile = cg::tiled_partition<64>(block);
  y[threadIdx.x] = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>()); }
extern "C" __global__ void whole(int* y) { auto grid = cg::this_grid(); y[grid.thread_rank()] = 1; grid.sync(); }
"""


@pytest.mark.parametrize("options", LEVELS)
def test_cooperative_groups(options: tuple[str, ...]) -> None:
    """With -G their code asks for the part of shared memory that the compiler reserves."""
    text = cuda(GROUPS, "-std=c++17", *options)
    y, t = np.full(128, -1, np.int32), np.arange(128)
    compile_kernel(text, "tiles").launch(pointers(y), 1, 128)
    thirds = np.array([np.count_nonzero(np.arange(w * 32, w * 32 + 32) % 3 == 0) for w in range(4)])
    assert np.array_equal(y, t.reshape(8, 16).sum(1)[t // 16] + 1000 * np.where(t % 3 == 0, thirds[t // 32], 0))
    large = compile_kernel(text, "large")
    large.launch(pointers(y), 1, 128)
    assert np.array_equal(y, t.reshape(2, 64).sum(1)[t // 64])
    with pytest.raises(UnsupportedError, match=r"the special register %envreg\d: .*cooperative launch"):
        compile_kernel(text, "whole")


def test_the_reserved_part_of_shared_memory_comes_first_where_it_is_asked_for() -> None:
    names = ["begin", "end", "cap", "0", "1"]
    reads = " ".join(
        f"mov.u32 %r, %reserved_smem_offset_{name}; st.global.u32 [%p+{4 * k}], %r;" for k, name in enumerate(names)
    )
    text = (
        HEADER
        + f""".visible .entry k(.param .u64 p) {{ .shared .u32 own[4]; .reg .b64 %p; .reg .b32 %r;
  ld.param.u64 %p, [p]; {reads} mov.u32 %r, own; st.global.u32 [%p+20], %r;
  mov.u32 %r, %total_smem_size; st.global.u32 [%p+24], %r; ret; }}"""
    )
    out = np.full(7, 2**32 - 1, np.uint32)
    kernel = compile_kernel(assemble_everywhere(text), "k")
    kernel.launch(pointers(out), 1, 1, shared=100)
    assert out[:3].tolist() == [0, 1024, 1024] and (out[3:5] < 1024).all() and out[5] >= 1024
    assert kernel.static_shared == 1024 + 16 and out[6] == 116


def test_registers_of_the_machine() -> None:
    text = assemble_everywhere(
        HEADER
        + """.visible .entry k(.param .u64 p) { .reg .b64 %p, %v; .reg .b32 %r, %s; .reg .pred %q; ld.param.u64 %p, [p];
  mov.u32 %r, %nsmid; mov.u32 %s, %smid; setp.lt.u32 %q, %s, %r; selp.u32 %r, 1, 0, %q; st.global.u32 [%p], %r;
  mov.u32 %r, %nwarpid; mov.u32 %s, %warpid; setp.lt.u32 %q, %s, %r; selp.u32 %r, 1, 0, %q; st.global.u32 [%p+4], %r;
  mov.u64 %v, %current_graph_exec; cvt.u32.u64 %r, %v; st.global.u32 [%p+8], %r;
  mov.u32 %r, %cluster_nctarank; st.global.u32 [%p+12], %r;
  mov.pred %q, %is_explicit_cluster; selp.u32 %r, 1, 0, %q; st.global.u32 [%p+16], %r; ret; }"""
    )
    out = np.full(5, 9, np.uint32)
    compile_kernel(text, "k").launch(pointers(out), 1, 64)
    assert out.tolist() == [1, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("register", "why"),
    [
        ("%pm3", "counts events"),
        ("%envreg7", "the driver sets it"),
        ("%aggr_smem_size", "rounds sizes of shared memory"),
    ],
)
def test_registers_that_only_hardware_has_say_why(register: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the special register {register}: .*{why}"):
        run(f".visible .entry k() {{ .reg .b32 %r; mov.u32 %r, {register}; ret; }}", "k", b"")

"""State spaces, vectors, atomics, variables of the module, special registers, calls."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import threading

import ml_dtypes
import numpy as np
import pytest
from executor_harness import HEADER, pointers, run

from interop.executor import compile_kernel


def test_narrow_loads_extend_and_stores_truncate() -> None:
    x = np.array([0x80, 0x7F, 0xFF, 0x01] * 4, np.uint8)
    out = np.full(6, -1, np.int64)
    run(""".visible .entry k(.param .u64 x, .param .u64 out) { .reg .b64 %x, %o, %v; .reg .b32 %r; .reg .b16 %h;
        ld.param.u64 %x, [x]; ld.param.u64 %o, [out];
        ld.global.s8 %v, [%x]; st.global.u64 [%o], %v; ld.global.u8 %v, [%x]; st.global.u64 [%o+8], %v;
        ld.global.s16 %r, [%x]; cvt.s64.s32 %v, %r; st.global.u64 [%o+16], %v;
        ld.global.b16 %v, [%x+2]; st.global.u64 [%o+24], %v;
        ld.global.u8 %h, [%x+2]; cvt.u64.u16 %v, %h; st.global.u64 [%o+32], %v;
        mov.u64 %v, 0; st.global.u64 [%o+40], %v; mov.u64 %v, 0x1234567890; st.global.u8 [%o+40], %v;
        st.global.b16 [%o+42], %v; ret; }""",
        "k", pointers(x, out))  # fmt: skip
    assert out.tolist() == [-128, 128, 0x7F80, 0x01FF, 0xFF, 0x78900090]


@pytest.mark.parametrize("qualifier", ["", ".volatile", ".relaxed.gpu", ".acquire.sys"])
def test_vectors(qualifier: str) -> None:
    x = np.arange(16, dtype=np.float32)
    out = np.full(16, np.nan, np.float32)
    store = {".acquire.sys": ".release.sys"}.get(qualifier, qualifier)
    run(f""".visible .entry k(.param .u64 x, .param .u64 out) {{ .reg .b64 %x, %o; .reg .f32 %f<8>;
        .reg .v4 .f32 %unused;
        ld.param.u64 %x, [x]; ld.param.u64 %o, [out];
        ld{qualifier}.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%x+16];
        ld{qualifier}.v2.f32 {{%f4, _}}, [%x];
        st{store}.global.v4.f32 [%o], {{%f3, %f2, %f1, %f0}}; st{store}.v2.f32 [%o+16], {{%f4, %f4}}; ret;
        }}""".replace(
        ".reg .v4 .f32 %unused;", ""), "k", pointers(x, out))  # fmt: skip
    assert out[:6].tolist() == [7, 6, 5, 4, 0, 0] and np.isnan(out[6:]).all()


def test_hints_change_nothing() -> None:
    x, out = np.array([5], np.uint32), np.zeros(4, np.uint32)
    run(""".visible .entry k(.param .u64 x, .param .u64 out) { .reg .b64 %x, %o, %p; .reg .b32 %r;
        ld.param.u64 %x, [x]; ld.param.u64 %o, [out];
        prefetch.global.L2 [%x]; prefetch.global.L2::evict_last [%x];
        ld.global.nc.L1::no_allocate.L2::128B.u32 %r, [%x]; st.global.cs.u32 [%o], %r;
        ld.weak.global.ca.b32 %r, [%x]; st.weak.global.wt.b32 [%o+4], %r;
        ld.global.nc.L2::256B.u32 %r, [%x]; st.global.L1::evict_last.u32 [%o+8], %r;
        ldu.global.u32 %r, [%x]; st.u32 [%o+12], %r; ret; }""", "k", pointers(x, out))  # fmt: skip
    assert out.tolist() == [5] * 4


def test_variables_of_the_module_are_shared_by_its_kernels() -> None:
    text = (
        HEADER
        + """.global .align 4 .u32 counter = 40;
        .const .align 8 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
        .global .align 8 .u64 refs[3] = {0, generic(counter), table+4};
        .global .f32 half = 0f3F000000; .global .f64 third[2] = {0.25, 0d3FD5555555555555};
        .visible .entry bump() { .reg .b32 %r; ld.global.u32 %r, [counter]; add.u32 %r, %r, 1;
        st.global.u32 [counter], %r; ret; }
        .visible .entry show(.param .u64 out) { .reg .b64 %o, %p; .reg .b32 %r; .reg .f32 %f; .reg .f64 %d;
        ld.param.u64 %o, [out]; ld.global.u64 %p, [refs+8]; ld.u32 %r, [%p]; st.global.u32 [%o], %r;
        ld.global.u64 %p, [refs+16]; ld.u32 %r, [%p+4]; st.global.u32 [%o+4], %r;
        mov.u64 %p, table; ld.const.u32 %r, [%p+4]; st.global.u32 [%o+8], %r;
        ld.global.f32 %f, [half]; st.global.f32 [%o+12], %f; ld.global.f64 %d, [third+8]; st.global.f64 [%o+16], %d;
        ret; }"""
    )
    bump, show = compile_kernel(text, "bump"), compile_kernel(text, "show")
    out = np.zeros(6, np.uint32)
    bump.launch(b"", 1, 1)
    bump.launch(b"", 1, 1)
    show.launch(pointers(out), 1, 1)
    assert out[:3].tolist() == [42, 3, 2] and out[3:4].view(np.float32) == 0.5
    assert out[4:].view(np.float64)[0] == 1 / 3


def test_shared_memory_static_and_dynamic() -> None:
    out = np.zeros(64, np.uint32)
    text = HEADER + """.extern .shared .align 16 .b8 dyn[]; .shared .align 4 .b8 fixed[12];
        .visible .entry k(.param .u64 out) { .reg .b64 %o, %g; .reg .b32 %t, %r, %a, %s; .reg .pred %p;
        .shared .u32 own[3];
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %a, dyn; shl.b32 %s, %t, 2; add.u32 %a, %a, %s;
        st.shared.u32 [%a], %t; st.shared.u32 [fixed+4], 77; st.shared.u32 [own+8], 99;
        bar.sync 0; xor.b32 %s, %s, 4; mov.u32 %a, dyn; add.u32 %a, %a, %s; ld.shared.u32 %r, [%a];
        ld.shared.u32 %s, [fixed+4]; add.u32 %r, %r, %s; ld.shared.u32 %s, [own+8]; add.u32 %r, %r, %s;
        cvt.u64.u32 %g, %a; cvta.shared.u64 %g, %g; ld.u32 %s, [%g]; add.u32 %r, %r, %s;
        mov.u32 %s, %dynamic_smem_size; add.u32 %r, %r, %s;
        mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %r; ret; }"""  # fmt: skip
    kernel = compile_kernel(text, "k")
    assert kernel.static_shared == 32  # 12 + 12, then 16-aligned dynamic memory
    kernel.launch(pointers(out), 1, 64, shared=256)
    assert out.tolist() == [2 * (t ^ 1) + 77 + 99 + 256 for t in range(64)]


def test_address_spaces_are_told_apart() -> None:
    x, out = np.zeros(1, np.uint32), np.full(10, 7, np.uint32)
    run(""".const .u32 c = 1; .shared .u32 s[4];
        .visible .entry k(.param .u64 x, .param .u64 out) { .local .u32 l[4]; .reg .b64 %a<4>, %o; .reg .pred %p;
        .reg .b32 %r;
        ld.param.u64 %a0, [x]; ld.param.u64 %o, [out];
        mov.u64 %a1, s; cvta.shared.u64 %a1, %a1; mov.u64 %a2, l; cvta.local.u64 %a2, %a2; mov.u64 %a3, c;
        cvta.const.u64 %a3, %a3;
        st.u32 [%a2+4], 5; ld.local.u32 %r, [l+4]; st.u32 [%a1], %r;
        isspacep.global %p, %a0; selp.u32 %r, 1, 0, %p; st.u32 [%o], %r;
        isspacep.shared %p, %a1; selp.u32 %r, 1, 0, %p; st.u32 [%o+4], %r;
        isspacep.local %p, %a2; selp.u32 %r, 1, 0, %p; st.u32 [%o+8], %r;
        isspacep.const %p, %a3; selp.u32 %r, 1, 0, %p; st.u32 [%o+12], %r;
        isspacep.shared %p, %a0; selp.u32 %r, 1, 0, %p; st.u32 [%o+16], %r;
        isspacep.global %p, %a1; selp.u32 %r, 1, 0, %p; st.u32 [%o+20], %r;
        isspacep.global %p, %a2; selp.u32 %r, 1, 0, %p; st.u32 [%o+24], %r;
        isspacep.local %p, %a0; selp.u32 %r, 1, 0, %p; st.u32 [%o+28], %r;
        cvta.to.shared.u64 %a1, %a1; ld.shared.u32 %r, [%a1]; st.u32 [%o+32], %r; ret;
        }""", "k", pointers(x, out))  # fmt: skip
    assert out.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 5, 7]


ATOMIC = """.visible .entry k(.param .u64 out, .param .u64 old) {{ .reg .b64 %o, %q; .reg .{r} %v, %d; .reg .b32 %t;
        .reg .b16 %h;
    ld.param.u64 %o, [out]; ld.param.u64 %q, [old]; mov.u32 %t, %tid.x; {make}
    atom{space}.{op} %d, [%o], %v; red{red}.{op} [%o+8], %v; ret; }}"""


@pytest.mark.parametrize(
    ("op", "type_", "first", "reference"),
    [
        ("add.u32", np.uint32, 5, lambda old, v: old + v),
        ("add.u64", np.uint64, 5, lambda old, v: old + v),
        ("and.b32", np.uint32, 0xFFFF, lambda old, v: old & v),
        ("or.b64", np.uint64, 0x100, lambda old, v: old | v),
        ("xor.b32", np.uint32, 0x55, lambda old, v: old ^ v),
        ("min.s32", np.int32, 50, min),
        ("max.s64", np.int64, 50, max),
        ("min.u32", np.uint32, 50, min),
        ("max.u64", np.uint64, 50, max),
        ("inc.u32", np.uint32, 3, lambda old, v: 0 if old >= v else old + 1),
        ("dec.u32", np.uint32, 3, lambda old, v: v if old == 0 or old > v else old - 1),
        ("add.f32", np.float32, 0.5, lambda old, v: old + v),
        ("add.f64", np.float64, 0.5, lambda old, v: old + v),
    ],
)  # fmt: skip
@pytest.mark.parametrize("space", ["", ".global", ".relaxed.gpu.global", ".acq_rel.sys.global"])
def test_atomics(op: str, type_: type, first: float, reference: object, space: str) -> None:
    kind = op.split(".")[1]
    register = kind if kind[0] == "f" else f"b{kind[1:]}"
    convert = f"cvt.rn.{kind}.u32 %v, %t;" if kind[0] == "f" else f"cvt.u{kind[1:]}.u32 %v, %t;"
    # The order of threads in a block without barriers is theirs by number; these operations do not depend on it, or the
    # reference follows it.
    out = np.zeros(16 // np.dtype(type_).itemsize, type_)
    out[:] = first
    text = ATOMIC.format(r=register, make=convert, space=space, red=space.replace("acq_rel", "release"), op=op)
    run(text, "k", pointers(out, out), 1, 40)
    value = type_(first)
    for t in range(40):
        value = type_(reference(value, type_(t)))  # type: ignore[operator]
    assert out[0] == value and out[8 // np.dtype(type_).itemsize] == value


def test_exchange_and_compare_and_swap() -> None:
    out = np.array([10, 20, 30, 40], np.uint32)
    run(""".visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %r; ld.param.u64 %o, [out];
        atom.global.exch.b32 %r, [%o], 11; st.u32 [%o+4], %r; atom.cas.b32 %r, [%o+8], 30, 31; st.u32 [%o+12], %r;
        atom.global.cas.b32 %r, [%o], 99, 98; ret; }""", "k", pointers(out))  # fmt: skip
    assert out.tolist() == [11, 10, 31, 30]
    half = np.array([1, 2, 3, 4], np.uint16)
    run(""".visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b16 %r, %a, %b; ld.param.u64 %o, [out];
        mov.u16 %a, 2; mov.u16 %b, 9; atom.global.cas.b16 %r, [%o+2], %a, %b; st.u16 [%o+6], %r; ret;
        }""", "k", pointers(half))  # fmt: skip
    assert half.tolist() == [1, 9, 3, 2]


@pytest.mark.parametrize("t", ["f16", "bf16", "f16x2", "bf16x2"])
def test_half_atomics(t: str) -> None:
    dtype = np.float16 if t.startswith("f16") else ml_dtypes.bfloat16
    out = np.zeros(2, dtype)
    bits = int(np.array(0.5, dtype).view(np.uint16))
    wide = f".reg .b32 %v; mov.b32 %v, {bits * 65537};" if t.endswith("x2") else f".reg .b16 %v; mov.b16 %v, {bits};"
    run(f""".visible .entry k(.param .u64 out) {{ .reg .b64 %o; {wide} .reg .b{32 if t.endswith("x2") else 16} %d;
        ld.param.u64 %o, [out]; atom.global.add.noftz.{t} %d, [%o], %v; ret;
        }}""", "k", pointers(out.view(np.uint16)), 3, 4)  # fmt: skip
    assert out.astype(float).tolist() == ([6, 6] if t.endswith("x2") else [6, 0])


def test_atomics_of_all_blocks_and_launches_add_up() -> None:
    counters = np.zeros(2, np.uint32)
    text = HEADER + """.visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %r; ld.param.u64 %o, [out];
        red.global.add.u32 [%o], 1; atom.global.inc.u32 %r, [%o+4], 1000000; ret; }"""  # fmt: skip
    kernel = compile_kernel(text, "k")
    workers = [threading.Thread(target=kernel.launch, args=(pointers(counters), 200, 128, 0, 4)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert counters.tolist() == [4 * 200 * 128] * 2


def test_asynchronous_copies() -> None:
    x = np.arange(64, dtype=np.float32)
    out = np.full(32, np.nan, np.float32)
    run(""".shared .align 16 .b8 buf[128];
        .visible .entry k(.param .u64 x, .param .u64 out) { .reg .b64 %x, %o; .reg .b32 %t, %s, %n; .reg .f32 %f;
        ld.param.u64 %x, [x]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %x, %t, 16, %x;
        mov.u32 %s, buf; mad.lo.u32 %s, %t, 16, %s; mul.lo.u32 %n, %t, 4; min.u32 %n, %n, 16;
        cp.async.ca.shared.global [%s], [%x], 16, %n; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
        mov.u32 %s, buf; mad.lo.u32 %s, %t, 4, %s; ld.shared.f32 %f, [%s]; mad.wide.u32 %o, %t, 4, %o;
        st.global.f32 [%o], %f;
        ld.shared.f32 %f, [%s+32]; st.global.f32 [%o+32], %f; ld.shared.f32 %f, [%s+64]; st.global.f32 [%o+64], %f;
        ld.shared.f32 %f, [%s+96]; st.global.f32 [%o+96], %f; ret; }""", "k", pointers(x, out), 1, 8)  # fmt: skip
    wanted = [x[4 * t + e] if e < min(t, 4) else 0 for t in range(8) for e in range(4)]
    assert out.tolist() == wanted


def test_special_registers() -> None:
    grid, block = (3, 2, 2), (5, 3, 4)
    threads = 5 * 3 * 4
    out = np.full((12, threads, 20), 0xDEAD, np.uint32)
    names = ["%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
             "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_lt",
             "%lanemask_le", "%lanemask_gt", "%lanemask_ge"]  # fmt: skip
    stores = "".join(f"mov.u32 %r, {name}; st.global.u32 [%o+{4 * k}], %r;" for k, name in enumerate(names))
    run(f""".visible .entry k(.param .u64 out) {{ .reg .b64 %o; .reg .b32 %r, %l, %b, %n; ld.param.u64 %o, [out];
        mov.u32 %l, %tid.z; mov.u32 %r, %tid.y; mad.lo.u32 %l, %l, 3, %r; mov.u32 %r, %tid.x; mad.lo.u32 %l, %l, 5, %r;
        mov.u32 %b, %ctaid.z; mov.u32 %r, %ctaid.y; mad.lo.u32 %b, %b, 2, %r; mov.u32 %r, %ctaid.x;
        mad.lo.u32 %b, %b, 3, %r;
        mad.lo.u32 %l, %b, {threads}, %l; mad.wide.u32 %o, %l, 80, %o; {stores} ret;
        }}""", "k", pointers(out), grid, block)  # fmt: skip
    for b in range(12):
        for t in range(threads):
            lane = t % 32
            full = 0xFFFFFFFF
            wanted = [t % 5, t // 5 % 3, t // 15, *block, b % 3, b // 3 % 2, b // 6, *grid, lane, t // 32, 2,
                      1 << lane, (1 << lane) - 1, (2 << lane) - 1, full & ~((2 << lane) - 1),
                      full & ~((1 << lane) - 1)]  # fmt: skip
            assert out[b, t].tolist() == wanted


def test_clocks_advance() -> None:
    out = np.zeros(4, np.uint64)
    run(""".visible .entry k(.param .u64 out) { .reg .b64 %o, %v; ld.param.u64 %o, [out];
        mov.u64 %v, %clock64; st.u64 [%o], %v; mov.u64 %v, %globaltimer; st.u64 [%o+8], %v;
        mov.u64 %v, %clock64; st.u64 [%o+16], %v; mov.u64 %v, %globaltimer; st.u64 [%o+24], %v; ret;
        }""", "k", pointers(out))  # fmt: skip
    assert out[2] >= out[0] > 0 and out[3] >= out[1] > 10**18


def test_calls_pass_parameters_and_recursion_ends() -> None:
    out = np.zeros(4, np.uint64)
    run(""".func (.param .b64 r) fact(.param .b64 n) { .reg .b64 %n, %m; .reg .pred %p;
        ld.param.b64 %n, [n]; setp.gt.u64 %p, %n, 1; @%p bra more; st.param.b64 [r], 1; ret;
        more: { .param .b64 a; .param .b64 v; sub.u64 %m, %n, 1; st.param.b64 [a], %m; call (v), fact, (a);
        ld.param.b64 %m, [v]; }
        mul.lo.u64 %n, %n, %m; st.param.b64 [r], %n; ret; }
        .func (.param .align 4 .b8 r[8]) swap(.param .align 4 .b8 p[8]) { .reg .b32 %a, %b; ld.param.b32 %a, [p];
        ld.param.b32 %b, [p+4];
        st.param.b32 [r+4], %a; st.param.b32 [r], %b; ret; }
        .func (.reg .b32 r) twice(.reg .b32 v) { add.u32 v, v, v; mov.b32 r, v; ret; }
        .visible .entry k(.param .u64 out) { .reg .b64 %o, %v; .reg .b32 %r, %s; ld.param.u64 %o, [out];
        { .param .b64 a; .param .b64 v; st.param.b64 [a], 20; call.uni (v), fact, (a); ld.param.b64 %v, [v];
        st.u64 [%o], %v; }
        { .param .align 4 .b8 a[8]; .param .align 4 .b8 v[8]; st.param.v2.b32 [a], {3, 4}; call (v), swap, (a);
        ld.param.b64 %v, [v]; st.u64 [%o+8], %v; }
        mov.u32 %s, 21; call (%r), twice, (%s); cvt.u64.u32 %v, %r; st.u64 [%o+16], %v; cvt.u64.u32 %v, %s;
        st.u64 [%o+24], %v; ret; }""",
        "k", pointers(out))  # fmt: skip
    assert out.tolist() == [2432902008176640000, 4 | 3 << 32, 42, 21]


def test_branches_through_tables_and_scopes() -> None:
    out = np.zeros(8, np.uint32)
    run(""".visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %t, %r; ld.param.u64 %o, [out];
        mov.u32 %t, %tid.x;
        mad.wide.u32 %o, %t, 4, %o; ts: .branchtargets A, B, C; rem.u32 %r, %t, 3; brx.idx %r, ts;
        A: { .reg .b32 %r; mov.u32 %r, 100; bra skip; mov.u32 %r, 1; skip: st.u32 [%o], %r; } bra done;
        B: { .reg .b32 %r; mov.u32 %r, 200; bra skip; skip: st.u32 [%o], %r; } bra.uni done;
        C: st.u32 [%o], %r; done: ret; }""", "k", pointers(out), 1, 8)  # fmt: skip
    assert out.tolist() == [100, 200, 2, 100, 200, 2, 100, 200]


def test_by_value_parameters_lie_where_c_puts_them() -> None:
    out = np.zeros(5, np.float64)
    params = struct.pack("<fxxxx3ffdB", 1.5, 2, 3, 4, 0, 5.5, 6) + b"\0" * 7 + struct.pack("<Q", out.ctypes.data)
    run(""".visible .entry k(.param .f32 a, .param .align 8 .b8 s[32], .param .u64 out) { .reg .b64 %o, %p;
        .reg .f32 %f; .reg .f64 %d; .reg .b16 %h;
        ld.param.u64 %o, [out]; ld.param.f32 %f, [a]; cvt.f64.f32 %d, %f; st.f64 [%o], %d;
        ld.param.f32 %f, [s+8]; cvt.f64.f32 %d, %f; st.f64 [%o+8], %d; ld.param.f64 %d, [s+16]; st.f64 [%o+16], %d;
        mov.b64 %p, s; ld.param.u8 %h, [%p+24]; cvt.rn.f64.u16 %d, %h; st.f64 [%o+24], %d;
        cvta.param.u64 %p, %p; ld.f32 %f, [%p+4]; cvt.f64.f32 %d, %f; st.f64 [%o+32], %d; ret;
        }""", "k", params)  # fmt: skip
    assert out.tolist() == [1.5, 4, 5.5, 6, 3]


def test_kernels_do_not_see_the_rounding_mode_of_the_calling_thread() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    upward = 0x800  # FE_UPWARD on x86-64
    x = np.array([1, 1e-40], np.float32)
    text = HEADER + """.visible .entry k(.param .u64 x) { .reg .b64 %x; .reg .f32 %f; ld.param.u64 %x, [x];
        ld.f32 %f, [%x];
        add.f32 %f, %f, 0f30000000; st.f32 [%x], %f; ld.f32 %f, [%x+4]; add.f32 %f, %f, %f; st.f32 [%x+4], %f; ret;
        }"""  # fmt: skip
    kernel = compile_kernel(text, "k")
    before = libm.fegetround()
    try:
        assert libm.fesetround(upward) == 0
        kernel.launch(pointers(x), 1, 1)
        assert libm.fegetround() == upward
    finally:
        libm.fesetround(before)
    assert x[0] == 1
    assert x[1] == np.float32(1e-40) * 2 != 0

"""One instruction for each name of ``interop.executor.opcodes.INSTRUCTIONS``, as an assembler takes it."""

from __future__ import annotations

REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<8>; .reg .f32 %f<40>; .reg .f64 %e<4>;"
    " .reg .b128 %q<2>; .shared .align 16 .b8 s[256]; .local .b32 l[4];"
)
GLOBALS = ".global .align 16 .b32 g[64]; .global .texref t; .global .surfref u;\n.func f() { ret; }\n"

SAMPLES: dict[str, str] = {
    "add": "add.s32 %r0, %r1, %r2;",
    "sub": "sub.s32 %r0, %r1, %r2;",
    "mul": "mul.wide.s32 %d0, %r1, %r2;",
    "mad": "mad.lo.s32 %r0, %r1, %r2, %r3;",
    "mul24": "mul24.lo.s32 %r0, %r1, %r2;",
    "mad24": "mad24.lo.s32 %r0, %r1, %r2, %r3;",
    "sad": "sad.u32 %r0, %r1, %r2, %r3;",
    "div": "div.s32 %r0, %r1, %r2;",
    "rem": "rem.s32 %r0, %r1, %r2;",
    "abs": "abs.s32 %r0, %r1;",
    "neg": "neg.s32 %r0, %r1;",
    "min": "min.s32 %r0, %r1, %r2;",
    "max": "max.s32 %r0, %r1, %r2;",
    "popc": "popc.b32 %r0, %r1;",
    "clz": "clz.b32 %r0, %r1;",
    "bfind": "bfind.s32 %r0, %r1;",
    "fns": "fns.b32 %r0, %r1, %r2, %r3;",
    "brev": "brev.b32 %r0, %r1;",
    "bfe": "bfe.u32 %r0, %r1, %r2, %r3;",
    "bfi": "bfi.b32 %r0, %r1, %r2, %r3, %r4;",
    "szext": "szext.clamp.s32 %r0, %r1, %r2;",
    "bmsk": "bmsk.clamp.b32 %r0, %r1, %r2;",
    "dp4a": "dp4a.u32.s32 %r0, %r1, %r2, %r3;",
    "dp2a": "dp2a.lo.u32.s32 %r0, %r1, %r2, %r3;",
    "add.cc": "add.cc.u32 %r0, %r1, %r2;",
    "addc": "addc.cc.u32 %r0, %r1, %r2;",
    "sub.cc": "sub.cc.u32 %r0, %r1, %r2;",
    "subc": "subc.u32 %r0, %r1, %r2;",
    "mad.lo.cc": "mad.lo.cc.u32 %r0, %r1, %r2, %r3;",
    "madc": "madc.hi.u32 %r0, %r1, %r2, %r3;",
    "testp": "testp.finite.f32 %p0, %f0;",
    "copysign": "copysign.f32 %f0, %f1, %f2;",
    "fma": "fma.rn.f32 %f0, %f1, %f2, %f3;",
    "rcp": "rcp.rn.f32 %f0, %f1;",
    "sqrt": "sqrt.rn.f64 %e0, %e1;",
    "rsqrt": "rsqrt.approx.f32 %f0, %f1;",
    "sin": "sin.approx.f32 %f0, %f1;",
    "cos": "cos.approx.f32 %f0, %f1;",
    "lg2": "lg2.approx.f32 %f0, %f1;",
    "ex2": "ex2.approx.f32 %f0, %f1;",
    "tanh": "tanh.approx.f32 %f0, %f1;",
    "set": "set.gt.u32.s32 %r0, %r1, %r2;",
    "setp": "setp.gt.s32 %p0, %r1, %r2;",
    "selp": "selp.b32 %r0, %r1, %r2, %p0;",
    "slct": "slct.u32.s32 %r0, %r1, %r2, %r3;",
    "and": "and.b32 %r0, %r1, %r2;",
    "or": "or.b32 %r0, %r1, %r2;",
    "xor": "xor.b32 %r0, %r1, %r2;",
    "not": "not.b32 %r0, %r1;",
    "cnot": "cnot.b32 %r0, %r1;",
    "lop3": "lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
    "shf": "shf.l.wrap.b32 %r0, %r1, %r2, %r3;",
    "shl": "shl.b32 %r0, %r1, %r2;",
    "shr": "shr.u32 %r0, %r1, %r2;",
    "mov": "mov.b32 %r0, %r1;",
    "shfl.sync": "shfl.sync.bfly.b32 %r0|%p0, %r1, 1, 31, -1;",
    "prmt": "prmt.b32 %r0, %r1, %r2, %r3;",
    "ld": "ld.shared.b32 %r0, [s];",
    "ld.global.nc": "ld.global.nc.b32 %r0, [g];",
    "ldu": "ldu.global.b32 %r0, [g];",
    "st": "st.shared.b32 [s], %r0;",
    "st.async": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2];",
    "st.bulk": "st.bulk.weak.shared::cta [%r0], %d0, 0;",
    "multimem.ld_reduce": "multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%d0];",
    "multimem.st": "multimem.st.relaxed.sys.global.u32 [%d0], %r0;",
    "multimem.red": "multimem.red.relaxed.sys.global.add.u32 [%d0], %r0;",
    "prefetch": "prefetch.global.L2 [g];",
    "prefetchu": "prefetchu.L1 [%d0];",
    "applypriority": "applypriority.global.L2::evict_normal [g], 128;",
    "discard": "discard.global.L2 [g], 128;",
    "createpolicy": "createpolicy.fractional.L2::evict_last.b64 %d0, 0.5;",
    "isspacep": "isspacep.global %p0, %d0;",
    "cvta": "cvta.global.u64 %d0, %d1;",
    "cvt": "cvt.rn.f32.s32 %f0, %r0;",
    "cvt.pack": "cvt.pack.sat.s16.s32 %r0, %r1, %r2;",
    "mapa": "mapa.shared::cluster.u32 %r0, %r1, %r2;",
    "getctarank": "getctarank.shared::cluster.u32 %r0, %r1;",
    "cp.async.ca": "cp.async.ca.shared.global [s], [g], 16;",
    "cp.async.commit_group": "cp.async.commit_group;",
    "cp.async.wait_group": "cp.async.wait_group 0;",
    "cp.async.wait_all": "cp.async.wait_all;",
    "cp.async.bulk": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], 64, [%r1];",
    "cp.reduce.async.bulk": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r0], 64;",
    "cp.async.bulk.prefetch": "cp.async.bulk.prefetch.L2.global [%d0], 64;",
    "multimem.cp.async.bulk": "multimem.cp.async.bulk.bulk_group.global.shared::cta [%d0], [%r0], 64;",
    "multimem.cp.reduce.async.bulk": (
        "multimem.cp.reduce.async.bulk.bulk_group.global.shared::cta.add.u32 [%d0], [%r0], 64;"
    ),
    "cp.async.bulk.commit_group": "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group": "cp.async.bulk.wait_group 0;",
    "cp.async.bulk.tensor": (
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1}], [%r2];"
    ),
    "cp.reduce.async.bulk.tensor": (
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {%r0}], [%r1];"
    ),
    "cp.async.bulk.prefetch.tensor": "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d0, {%r0}];",
    "tensormap.replace": "tensormap.replace.tile.global_address.global.b1024.b64 [%d0], %d1;",
    "tex": "tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [t, {%f4}];",
    "tld4": "tld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [t, {%f4, %f5}];",
    "txq": "txq.width.b32 %r0, [t];",
    "istypep": "istypep.texref %p0, %d0;",
    "suld": "suld.b.1d.b32.trap {%r0}, [u, {%r1}];",
    "sust": "sust.b.1d.b32.trap [u, {%r0}], {%r1};",
    "sured": "sured.b.add.1d.u32.trap [u, {%r0}], %r1;",
    "suq": "suq.width.b32 %r0, [u];",
    "bra": "bra NEXT; NEXT:",
    "brx.idx": "where: .branchtargets HERE, THERE; brx.idx %r0, where; HERE: THERE:",
    "call": "call f, ();",
    "ret": "ret;",
    "exit": "exit;",
    "bar": "bar.sync 0;",
    "barrier": "barrier.sync 0;",
    "bar.warp.sync": "bar.warp.sync -1;",
    "barrier.cluster": "barrier.cluster.arrive;",
    "membar": "membar.gl;",
    "fence": "fence.acq_rel.gpu;",
    "atom": "atom.global.add.u32 %r0, [g], %r1;",
    "red": "red.global.add.u32 [g], %r1;",
    "red.async": "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];",
    "vote.sync": "vote.sync.ballot.b32 %r0, %p0, -1;",
    "match.sync": "match.any.sync.b32 %r0, %r1, -1;",
    "activemask": "activemask.b32 %r0;",
    "redux.sync": "redux.sync.add.s32 %r0, %r1, -1;",
    "griddepcontrol": "griddepcontrol.wait;",
    "elect.sync": "elect.sync %r0|%p0, -1;",
    "mbarrier.init": "mbarrier.init.shared.b64 [s], 1;",
    "mbarrier.inval": "mbarrier.inval.shared.b64 [s];",
    "mbarrier.expect_tx": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [s], 16;",
    "mbarrier.complete_tx": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [s], 16;",
    "mbarrier.arrive": "mbarrier.arrive.shared.b64 %d0, [s];",
    "mbarrier.arrive_drop": "mbarrier.arrive_drop.shared.b64 %d0, [s];",
    "cp.async.mbarrier.arrive": "cp.async.mbarrier.arrive.shared.b64 [s];",
    "mbarrier.test_wait": "mbarrier.test_wait.shared.b64 %p0, [s], %d0;",
    "mbarrier.try_wait": "mbarrier.try_wait.shared::cta.b64 %p0, [s], %d0;",
    "mbarrier.pending_count": "mbarrier.pending_count.b64 %r0, %d0;",
    "tensormap.cp_fenceproxy": (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r0], 128;"
    ),
    "clusterlaunchcontrol.try_cancel": (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];"
    ),
    "clusterlaunchcontrol.query_cancel": "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %q0;",
    "wmma.load": "wmma.load.a.sync.aligned.row.m8n8k4.f64 {%e0}, [%d0], 4;",
    "wmma.store": "wmma.store.d.sync.aligned.row.m8n8k4.f64 [%d0], {%e0, %e1}, 8;",
    "wmma.mma": "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%e0, %e1}, {%e2}, {%e3}, {%e0, %e1};",
    "mma": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e0, %e1}, {%e2}, {%e3}, {%e0, %e1};",
    "mma.sp": (
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3},"
        " {%f0, %f1, %f2, %f3}, %r4, 0x0;"
    ),
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [s];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {%r0};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;",
    "wgmma.mma_async": (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %p0, 1, 1, 0, 0;"
    ),
    "wgmma.mma_async.sp": (
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %r0, 0, %p0, 1, 1, 0, 0;"
    ),
    "wgmma.fence": "wgmma.fence.sync.aligned;",
    "wgmma.commit_group": "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group": "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.alloc": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32;",
    "tcgen05.dealloc": "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 32;",
    "tcgen05.relinquish_alloc_permit": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.ld": "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r0}, [%r1];",
    "tcgen05.st": "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r1], {%r0};",
    "tcgen05.wait": "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.cp": "tcgen05.cp.cta_group::1.128x256b [%r0], %d0;",
    "tcgen05.shift": "tcgen05.shift.cta_group::1.down [%r0];",
    "tcgen05.mma": "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;",
    "tcgen05.mma.sp": "tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %d0, %d1, [%r2], %r1, %p0;",
    "tcgen05.mma.ws": "tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;",
    "tcgen05.mma.ws.sp": "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r0], %d0, %d1, [%r2], %r1, %p0;",
    "tcgen05.fence": "tcgen05.fence::before_thread_sync;",
    "tcgen05.commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d0];",
    "stacksave": "stacksave.u64 %d0;",
    "stackrestore": "stackrestore.u64 %d0;",
    "alloca": "alloca.u64 %d0, 64;",
    "vadd": "vadd.s32.u32.s32.sat %r0, %r1.b0, %r2.h1;",
    "vsub": "vsub.s32.u32.s32 %r0, %r1.b0, %r2.h1;",
    "vabsdiff": "vabsdiff.s32.u32.s32.add %r0, %r1.b0, %r2.h1, %r3;",
    "vmin": "vmin.s32.u32.s32 %r0.b1, %r1, %r2, %r3;",
    "vmax": "vmax.s32.u32.s32 %r0, %r1, %r2;",
    "vshl": "vshl.s32.u32.u32.clamp %r0, %r1, %r2;",
    "vshr": "vshr.s32.u32.u32.wrap %r0, %r1, %r2;",
    "vmad": "vmad.s32.s32.u32.sat.shr7 %r0, %r1.h0, -%r2.h1, %r3;",
    "vset": "vset.s32.u32.lt %r0, %r1, %r2;",
    **{
        f"v{operation}{lanes}": f"v{operation}{lanes}.{types} %r0, %r1, %r2, %r3;"
        for lanes in (2, 4)
        for operation, types in (
            ("add", "s32.u32.s32"), ("sub", "s32.u32.s32"), ("avrg", "s32.u32.s32"), ("absdiff", "s32.u32.s32"),
            ("min", "s32.u32.s32"), ("max", "s32.u32.s32"), ("set", "u32.s32.gt"),
        )
    },
    "brkpt": "brkpt;",
    "nanosleep": "nanosleep.u32 20;",
    "pmevent": "pmevent 1;",
    "trap": "trap;",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 64;",
}  # fmt: skip


def kernel(instruction: str, version: str = "9.1", target: str = "sm_90a") -> str:
    """A kernel whose only instruction of interest stands in line 8."""
    head = f".version {version}\n.target {target}\n.address_size 64\n{GLOBALS}"
    return f"{head}.visible .entry k() {{ {REGISTERS}\n\n{instruction}\nret; }}"


FORMS: dict[str, str] = {
    "shfl": "shfl.down.b32 %r0, %r1, 1, 31;",
    "vote": "vote.all.pred %p0, %p1;",
    "fence": "fence.proxy.tensormap::generic.release.gpu;",
    "ld": "ld.global.b32 %r0, [%r1];",
    "cvta": "cvta.global.u32 %r0, %r1;",
    "bar": "bar.cluster.arrive;",
    "call of nothing": "call nothing_of_that_name, ();",
    "call of a kernel": "call k, ();",
    "call from a kernel": "call cudaDeviceSynchronize, ();",
    "address of a kernel": "mov.u64 %d0, k;",
    "texture": "mov.u64 %d0, t;",
    "a register of counters": "mov.u32 %r0, %pm0;",
    "a register of the driver": "mov.u32 %r0, %envreg1;",
    "a register of the hardware": "mov.u32 %r0, %aggr_smem_size;",
    "mma of newer devices": (
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5},"
        " {%f0, %f1, %f2, %f3};"
    ),
}
"""Forms that are refused of instructions that are translated otherwise."""

MODULES: dict[str, str] = {
    "addresses of 32 bits": ".version 8.0\n.target sm_80\n.address_size 32\n.visible .entry k() { ret; }",
    "a variable of another module": (
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .global .b32 x;\n"
        ".visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [x]; ret; }"
    ),
    "an address in 32 bits": (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .b32 g; .global .u32 x = g;\n"
        ".visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [x]; ret; }"
    ),
    "some bytes of an address": (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .b32 g; .global .u8 x[2] = {0xFF(g), 0xFF00(g)};\n"
        ".visible .entry k() { .reg .b32 %r; ld.global.u8 %r, [x]; ret; }"
    ),
    "a function of another module": (
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func f();\n.global .u64 x = f;\n"
        ".visible .entry k() { .reg .b64 %r; ld.global.u64 %r, [x]; ret; }"
    ),
}
"""What is refused of modules."""

"""Every instruction of the PTX ISA 9.0, chapter 9, by section; and why those are refused that the CPU device lacks.

Names are the dotted beginnings that tell instructions apart. ``docs/refused.md`` is written from these tables.
"""

from __future__ import annotations

INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "Integer arithmetic": (
        "add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max", "popc", "clz",
        "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk", "dp4a", "dp2a",
    ),
    "Extended precision": ("add.cc", "addc", "sub.cc", "subc", "mad.lo.cc", "madc"),
    "Floating point": (
        "testp", "copysign", "fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh",
    ),
    "Comparison and selection": ("set", "setp", "selp", "slct"),
    "Logic and shifts": ("and", "or", "xor", "not", "cnot", "lop3", "shf", "shl", "shr"),
    "Data movement": (
        "mov", "shfl.sync", "prmt", "ld", "ld.global.nc", "ldu", "st", "st.async", "st.bulk", "multimem.ld_reduce",
        "multimem.st", "multimem.red", "prefetch", "prefetchu", "applypriority", "discard", "createpolicy", "isspacep",
        "cvta", "cvt", "cvt.pack", "mapa", "getctarank",
    ),
    "Asynchronous copies": (
        "cp.async.ca", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk",
        "cp.reduce.async.bulk", "cp.async.bulk.prefetch", "multimem.cp.async.bulk", "multimem.cp.reduce.async.bulk",
        "cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk.tensor",
        "cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "tensormap.replace",
    ),
    "Textures": ("tex", "tld4", "txq", "istypep"),
    "Surfaces": ("suld", "sust", "sured", "suq"),
    "Control flow": ("bra", "brx.idx", "call", "ret", "exit"),
    "Synchronisation": (
        "bar", "barrier", "bar.warp.sync", "barrier.cluster", "membar", "fence", "atom", "red", "red.async",
        "vote.sync", "match.sync", "activemask", "redux.sync", "griddepcontrol", "elect.sync", "mbarrier.init",
        "mbarrier.inval", "mbarrier.expect_tx", "mbarrier.complete_tx", "mbarrier.arrive", "mbarrier.arrive_drop",
        "cp.async.mbarrier.arrive", "mbarrier.test_wait", "mbarrier.try_wait", "mbarrier.pending_count",
        "tensormap.cp_fenceproxy", "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel",
    ),
    "Matrices of a warp": (
        "wmma.load", "wmma.store", "wmma.mma", "mma", "mma.sp", "ldmatrix", "stmatrix", "movmatrix",
    ),
    "Matrices of a warp group": (
        "wgmma.mma_async", "wgmma.mma_async.sp", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group",
    ),
    "Tensor memory": (
        "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit", "tcgen05.ld", "tcgen05.st",
        "tcgen05.wait", "tcgen05.cp", "tcgen05.shift", "tcgen05.mma", "tcgen05.mma.sp", "tcgen05.mma.ws",
        "tcgen05.mma.ws.sp", "tcgen05.fence", "tcgen05.commit",
    ),
    "The stack": ("stacksave", "stackrestore", "alloca"),
    "Video": (
        "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vadd2", "vsub2", "vavrg2",
        "vabsdiff2", "vmin2", "vmax2", "vset2", "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4",
    ),
    "Others": ("brkpt", "nanosleep", "pmevent", "trap", "setmaxnreg"),
}  # fmt: skip
"""Section to the names in it."""

_TEXTURE = "textures and surfaces: hardware of their own reads them, and a launch on the CPU device is given none"
_CLUSTER = "clusters of several blocks: on the CPU device each block stands alone"
_BULK = "bulk copies, which need sm_90"
_TENSOR_MAP = "tensor maps, which need sm_90"
_MULTIMEM = "memory of several devices"
_WARP_GROUP = "matrix products of warp groups, which need sm_90a"
_TENSOR_MEMORY = "tensor memory, which needs sm_100a"

REFUSED: dict[str, str] = {
    "tex": _TEXTURE, "tld4": _TEXTURE, "txq": _TEXTURE, "istypep": _TEXTURE,
    "suld": _TEXTURE, "sust": _TEXTURE, "sured": _TEXTURE, "suq": _TEXTURE,
    "mapa": _CLUSTER, "getctarank": _CLUSTER, "barrier.cluster": _CLUSTER, "st.async": _CLUSTER, "red.async": _CLUSTER,
    "clusterlaunchcontrol": _CLUSTER,
    "cp.async.bulk": _BULK, "cp.reduce.async.bulk": _BULK, "st.bulk": _BULK,
    "cp.async.bulk.tensor": _TENSOR_MAP, "cp.reduce.async.bulk.tensor": _TENSOR_MAP,
    "cp.async.bulk.prefetch.tensor": _TENSOR_MAP, "tensormap": _TENSOR_MAP,
    "multimem": _MULTIMEM,
    "mma.sp": "sparse matrices", "wgmma": _WARP_GROUP, "tcgen05": _TENSOR_MEMORY,
}  # fmt: skip
"""The beginning of an instruction's name to the reason. The longest that fits counts; see :func:`why_refused`."""


REFUSED_FORMS = frozenset(entry.split(".")[0] for entry in REFUSED if "." in entry)
"""Opcodes of which some forms are refused and others translated."""


def why_refused(name: str, form: bool = False) -> str:
    """The reason why an instruction is refused; empty for one that no entry of :data:`REFUSED` fits.

    :param form: only entries that tell one form of an opcode from others.

    >>> why_refused("mapa.shared::cluster.u32")
    'clusters of several blocks: on the CPU device each block stands alone'
    >>> why_refused("add.s32"), why_refused("mapa.shared::cluster.u32", form=True)
    ('', '')
    """
    parts = name.split(".")
    while len(parts) > int(form):
        found = REFUSED.get(".".join(parts))
        if found is not None:
            return found
        parts.pop()
    return ""

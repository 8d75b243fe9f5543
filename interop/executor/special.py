"""Special registers: ``%tid.x``, ``%laneid``, ``%clock64`` …"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import unsupported
from .records import BlockField
from .storage import RESERVED_SHARED

if TYPE_CHECKING:
    from .translator import Translator

_AXIS = {"x": 0, "y": 1, "z": 2}
_VECTOR = re.compile(r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.([xyzw])")
_KNOWN = re.compile(
    r"%(?:(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyzw]"
    r"|laneid|n?warpid|n?smid|gridid|clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?|lanemask_(?:eq|le|lt|ge|gt)"
    r"|dynamic_smem_size|total_smem_size|aggr_smem_size|pm\d(?:_64)?|envreg\d+|is_explicit_cluster"
    r"|cluster_n?ctarank|reserved_smem_offset_(?:begin|end|cap|[01])|current_graph_exec)"
)


def is_special(name: str) -> bool:
    """Whether `name` is a special register."""
    return (name[0] == "%" and _KNOWN.fullmatch(name) is not None) or name == "WARP_SZ"


def read(t: Translator, name: str) -> tuple[str, str]:
    """The value of a special register and its LLVM type."""
    match = _VECTOR.fullmatch(name)
    if match:
        return _indexed(t, match[1], match[2]), "i32"
    reader = _READERS.get(name)
    if reader is None:
        raise unsupported(t.instruction, f"the special register {name}: {why_not(name)}")
    return reader(t)


_REFUSED = (
    ("%pm", "it counts events of the hardware, which a program sets up from outside"),
    ("%envreg", "the driver sets it, for instance for the barrier of all blocks in a cooperative launch"),
    ("%aggr_smem_size", "it depends on how the hardware rounds sizes of shared memory"),
)


def why_not(name: str) -> str:
    """Why a special register has no value on the CPU device."""
    return next(why for prefix, why in _REFUSED if name.startswith(prefix))


def _indexed(t: Translator, register: str, axis: str) -> str:
    if axis == "w":
        return "0"
    if register == "tid":
        return f"%tid.{axis}"
    exact = t.plan.exact_block
    if register == "ntid" and exact:
        return str(exact[_AXIS[axis]])
    # Clusters of one block: the cluster's index in the grid is the block's.
    if register == "cluster_ctaid":
        return "0"
    if register == "cluster_nctaid":
        return "1"
    base = {
        "ntid": BlockField.NTID, "ctaid": BlockField.CTAID, "nctaid": BlockField.NCTAID,
        "clusterid": BlockField.CTAID, "nclusterid": BlockField.NCTAID,
    }[register]  # fmt: skip
    return t.block_field("i32", int(base) + 4 * _AXIS[axis])


def extent(t: Translator, axis: str) -> str:
    """The block's extent along an axis."""
    return _indexed(t, "ntid", axis)


def linear_thread(t: Translator) -> str:
    """The thread's number in the block."""
    b = t.b
    rows = b.binary("mul", "i32", "%tid.z", _indexed(t, "ntid", "y"))
    row = b.binary("add", "i32", rows, "%tid.y")
    start = b.binary("mul", "i32", row, _indexed(t, "ntid", "x"))
    return b.binary("add", "i32", start, "%tid.x")


def lane(t: Translator) -> str:
    """The thread's number in its warp."""
    return t.b.binary("and", "i32", linear_thread(t), "31")


def _warp(t: Translator) -> tuple[str, str]:
    return t.b.binary("lshr", "i32", linear_thread(t), "5"), "i32"


def _warps(t: Translator) -> tuple[str, str]:
    b = t.b
    plane = b.binary("mul", "i32", _indexed(t, "ntid", "x"), _indexed(t, "ntid", "y"))
    threads = b.binary("mul", "i32", plane, _indexed(t, "ntid", "z"))
    return b.binary("lshr", "i32", b.binary("add", "i32", threads, "31"), "5"), "i32"


def _lane_mask(kind: str) -> Callable[[Translator], tuple[str, str]]:
    def reader(t: Translator) -> tuple[str, str]:
        b = t.b
        own = b.binary("shl", "i32", "1", lane(t))
        below = b.binary("sub", "i32", own, "1")
        value = {
            "eq": lambda: own,
            "lt": lambda: below,
            "le": lambda: b.binary("or", "i32", own, below),
            "ge": lambda: b.binary("xor", "i32", below, "-1"),
            "gt": lambda: b.binary("xor", "i32", b.binary("or", "i32", own, below), "-1"),
        }[kind]()
        return value, "i32"

    return reader


def _clock(t: Translator) -> str:
    t.b.module.declare("i64", "llvm.readcyclecounter", [])
    return t.b.value("call i64 @llvm.readcyclecounter()")


def _timer(t: Translator) -> str:
    return t.b.helper("i64", "global_timer", [])


def _half(value: str, t: Translator, high: bool) -> tuple[str, str]:
    shifted = t.b.binary("lshr", "i64", value, "32") if high else value
    return t.b.resize(shifted, "i64", "i32"), "i32"


def _constant(value: int, type_: str = "i32") -> Callable[[Translator], tuple[str, str]]:
    return lambda t: (str(value), type_)


def _field(offset: BlockField) -> Callable[[Translator], tuple[str, str]]:
    return lambda t: (t.block_field("i32", int(offset)), "i32")


def _total_shared(t: Translator) -> tuple[str, str]:
    """What the kernel has for itself."""
    reserved = str(t.storage.reserved_shared)
    return t.b.binary("sub", "i32", t.block_field("i32", int(BlockField.SHARED_BYTES)), reserved), "i32"


_READERS: dict[str, Callable[[Translator], tuple[str, str]]] = {
    "WARP_SZ": _constant(32),
    "%laneid": lambda t: (lane(t), "i32"),
    "%warpid": _warp,
    "%nwarpid": _warps,
    "%smid": _field(BlockField.WORKER),
    "%gridid": _constant(0, "i64"),
    "%clock": lambda t: _half(_clock(t), t, False),
    "%clock_hi": lambda t: _half(_clock(t), t, True),
    "%clock64": lambda t: (_clock(t), "i64"),
    "%globaltimer": lambda t: (_timer(t), "i64"),
    "%globaltimer_lo": lambda t: _half(_timer(t), t, False),
    "%globaltimer_hi": lambda t: _half(_timer(t), t, True),
    "%dynamic_smem_size": _field(BlockField.DYNAMIC_BYTES),
    "%total_smem_size": _total_shared,
    "%nsmid": _constant(1024),  # more than the workers that there can be
    "%current_graph_exec": _constant(0, "i64"),
    # A kilobyte at the beginning of shared memory belongs to the compiler's own functions, as on sm_80 and later.
    "%reserved_smem_offset_begin": _constant(0),
    "%reserved_smem_offset_end": _constant(RESERVED_SHARED),
    "%reserved_smem_offset_cap": _constant(RESERVED_SHARED),
    "%reserved_smem_offset_0": _constant(0),
    "%reserved_smem_offset_1": _constant(64),
    "%cluster_ctarank": _constant(0),
    "%cluster_nctarank": _constant(1),
    "%is_explicit_cluster": _constant(0, "i1"),
    **{f"%lanemask_{kind}": _lane_mask(kind) for kind in ("eq", "le", "lt", "ge", "gt")},
}

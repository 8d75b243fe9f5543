"""Instructions of devices after sm_80: those that only advise do nothing, the others are refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from .errors import malformed, unsupported
from .modifiers import Modifiers
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_REASONS = {
    "wgmma": "matrix products of warp groups, which need sm_90a",
    "tcgen05": "tensor memory, which needs sm_100a",
    "mapa": "clusters",
    "getctarank": "clusters",
    "multimem": "memory of several devices",
    "tensormap": "tensor maps, which need sm_90",
    "clusterlaunchcontrol": "clusters, which need sm_100",
    "st_async": "clusters",
    "red_async": "clusters",
}


@TABLE(*_REASONS)
def refused(t: Translator, i: Instruction, m: Modifiers) -> None:
    """What the CPU device does not have."""
    raise unsupported(i, _REASONS[i.opcode])


@TABLE("griddepcontrol")
def griddepcontrol(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Launches follow each other here: what this one depends on is done, and nothing waits for it to go ahead."""
    if not m.take("launch_dependents", "wait"):
        raise malformed(i, "it is .launch_dependents or .wait")


@TABLE("setmaxnreg")
def setmaxnreg(t: Translator, i: Instruction, m: Modifiers) -> None:
    """How many registers a warp has is of no consequence here."""
    if not m.take("inc", "dec"):
        raise malformed(i, "it is .inc or .dec")
    m.flag("sync")
    m.flag("aligned")
    m.type()

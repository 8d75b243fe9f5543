"""Instructions of devices after sm_80 that only advise, and do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from .errors import malformed
from .modifiers import Modifiers
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()


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

"""The passes in order."""

from __future__ import annotations

from ..ir.ops import Function
from .convergence import check_convergence
from .races import check_races
from .shared_memory import check_shared_memory
from .uniformity import Uniformity


def run_passes(function: Function, grid: tuple[str, ...] = ()) -> None:
    """Runs all passes on `function`; the first user error is raised."""
    # Races first: a kernel that breaks both rules usually has the index wrong, and that is the simpler message.
    check_races(function, grid)
    check_shared_memory(function)
    # Divergence is known only once all values are: it reads the whole function.
    uniformity = Uniformity(function)
    check_convergence(function, uniformity)

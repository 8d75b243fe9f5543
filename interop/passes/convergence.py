"""Barriers have to be reached by all threads of a block together; this pass refuses those that may not be."""

from __future__ import annotations

from ..errors import DivergenceError
from ..ir.ops import Function
from .uniformity import Uniformity


def check_convergence(function: Function, uniformity: Uniformity) -> None:
    """Raises :class:`DivergenceError` for the first barrier under thread-dependent control flow."""
    for barrier, reason in uniformity.barriers.items():
        raise DivergenceError(
            "simt.barrier() stands where only some threads of the block may arrive; the others would wait for ever",
            barrier.location,
            notes=reason.notes(),
            help="let all threads reach the barrier: put the condition round loads and stores, not round the barrier",
        )

"""Static shared memory has to fit a block; more than that has to be dynamic, which a launch opts in to."""

from __future__ import annotations

from ..errors import TypeError_
from ..ir import ops
from ..ir.ops import Function
from ..ir.types import Shared

STATIC_LIMIT = 48 * 1024
"""Bytes of static shared memory that a block may have on every device."""
ALIGNMENT = 16
"""What shared arrays are aligned to, so that vectors may be loaded from them."""


def check_shared_memory(function: Function) -> None:
    """Raises :class:`TypeError_` at the array that no longer fits."""
    total = 0
    for op in ops.walk(function.body):
        if not isinstance(op, ops.SharedArray) or op.length:
            continue
        assert isinstance(op.result.type, Shared)
        size = op.result.type.bytes
        total = -(-total // ALIGNMENT) * ALIGNMENT + size
        if total > STATIC_LIMIT:
            before = "" if total == size else f", {total} with the arrays before it"
            raise TypeError_(
                f"the shared array takes {size} bytes{before}; a block has {STATIC_LIMIT} of static shared memory",
                op.location,
                help='make it smaller, or dynamic: shared="..." in the decorator and a run-time length here',
            )

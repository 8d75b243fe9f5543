"""Where emitted code finds things in the C runtime's structures: mirrors ``cpp_shim/src/interop_cpu_impl.h``."""

from __future__ import annotations

from enum import IntEnum


class BlockField(IntEnum):
    """Offsets in ``interop_cpu_block``."""

    ZERO = 0
    SHARED = 8
    CTAID = 16
    NTID = 28
    NCTAID = 40
    SHARED_BYTES = 52
    DYNAMIC_BYTES = 56
    WORKER = 60


class ThreadField(IntEnum):
    """Offsets in ``interop_cpu_thread``."""

    WAIT = 0
    SITE = 4
    MASK = 8
    MODE = 12
    VALUE = 16
    B = 24
    C = 28
    RESULT = 32
    FLAG = 40


class Wait(IntEnum):
    """What a thread suspends for: ``enum interop_cpu_wait``."""

    WARP_SYNC = 1
    SHFL = 2
    VOTE = 3
    MATCH = 4
    REDUX = 5
    ELECT = 6
    ACTIVEMASK = 7
    BARRIER = 8
    BARRIER_RED = 9
    SPIN = 10


ABI = 1
"""``INTEROP_CPU_ABI``."""

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
    PARAMS = 64
    SITES = 72
    STOP = 80


BLOCK_BYTES = 88
"""How much of ``interop_cpu_block`` emitted code reads."""

SITE_BYTES = 16
"""``sizeof(interop_cpu_site)``: where an access may go without asking, base and count."""


class Access(IntEnum):
    """What an access does, for ``cpu_bounds``."""

    READ = 0
    WRITE = 1
    UPDATE = 2
    SHARED = 16  # added to one of the above
    LOCAL = 32


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
    EXITED = 80


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
    MATRIX = 12


ABI = 2
"""``INTEROP_CPU_ABI``."""

"""The hot path: launches that look like an earlier one run through a function that was made for them.

The slow path, :mod:`.execute`, decides about every launch that is new. When a call of one form (argument types, dtypes,
device, what of the configuration is given) has succeeded twice, :mod:`.hot_source` writes one Python function for calls
of that form. Such a function launches, or says that it has not; then the slow path takes the call as if there were no
other, so that results and errors are its own. ``INTEROP_DUMP=launch`` prints the functions on standard error.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .device import DeviceKey, LoadedKernel, open_device
from .hot_rules import NotInline
from .hot_source import MISSES, Shape, Source, comment
from .plan import KernelPlan

Hot = Callable[[tuple[Any, ...], tuple[Any, ...]], bool]
"""Takes the arguments and the configuration that the call gives: grid, block, stream, shared memory."""

MOST = 16
"""How many forms of calls of one kernel are remembered. Calls of other forms take the slow path."""
_AFTER = 2

_lock = threading.RLock()  # a signal handler may launch as well
_in_use: weakref.WeakSet[HotPaths] = weakref.WeakSet()


class HotPaths:
    """The functions of one kernel: ``plain`` for calls that give no configuration, ``configured`` by shape."""

    def __init__(self) -> None:
        self.plain: list[Hot] = []
        self.configured: dict[Shape, list[Hot]] = {}
        self.enabled = True  # tests compare with a kernel for which it is False
        self._seen: dict[tuple[Any, ...], int] = {}

    def of(self, shape: Shape) -> list[Hot]:
        """The functions of one shape; the list is the same whenever it is asked for."""
        return self.configured.setdefault(shape, [])

    def clear(self) -> None:
        for found in (self.plain, *self.configured.values()):
            found.clear()
        self._seen = {}

    def learn(
        self,
        plan: KernelPlan,
        load: Callable[[Any], LoadedKernel],
        key: DeviceKey | None,
        shape: Shape,
        args: tuple[Any, ...],
    ) -> None:
        """Called after the slow path has run a call on device `key`; writes a function the second time."""
        if key is None or not self.enabled:
            return
        try:
            form = (shape, key, *[(type(a), getattr(a, "dtype", None)) for a in args])
            if self._is_due(form):
                device = open_device(key)
                self._add(shape, compile_hot(Source(plan, shape, device, load(device), args)))
        except (NotInline, *MISSES):
            # The call has succeeded: an odd object among its arguments must not make it fail now.
            return

    def _is_due(self, form: tuple[Any, ...]) -> bool:
        """Counts a call of a form, and says whether it is the one after which its function is written."""
        count = self._seen.get(form, 0)
        if count >= _AFTER or (count == 0 and len(self._seen) >= MOST):
            return False
        with _lock:
            self._seen[form] = self._seen.get(form, 0) + 1
            return self._seen[form] == _AFTER

    def _add(self, shape: Shape, hot: Hot) -> None:
        with _lock:
            (self.plain if shape == Shape() else self.of(shape)).append(hot)
            _in_use.add(self)


def compile_hot(source: Source) -> Hot:
    """The function that `source` describes."""
    text = source.text()
    if "launch" in os.environ.get("INTEROP_DUMP", "").split(","):
        sys.stderr.write(f"{comment(f'the hot path of {source.plan.name} on {source.device.key}')}\n{text}")
    namespace = dict(source.names)
    exec(compile(text, f"<launch of {ascii(source.plan.name)[1:-1]}>", "exec"), namespace)
    hot: Hot = namespace["launch"]
    return hot


def exact_configuration(
    grid: Any, block: Any, stream: Any, shared: Any, device: DeviceKey | None
) -> tuple[Shape, tuple[Any, ...]] | None:
    """The shape and the values of a configuration, where they need no conversion; else None."""
    if grid is not None:
        grid = _exact_dimensions(grid)
    if block is not None:
        block = _exact_dimensions(block)
    if grid == () or block == () or not (shared is None or type(shared) is int):
        return None
    shape = Shape(grid is not None, block is not None, stream is not None, shared is not None, device)
    return shape, (grid, block, stream, shared)


def _exact_dimensions(value: Any) -> tuple[int, ...]:
    if type(value) is int:
        return (value, 1, 1)
    if type(value) is not tuple or not 1 <= len(value) <= 3:
        return ()
    for item in value:
        if type(item) is not int:
            return ()
    return (*value, 1, 1)[:3]


def forget() -> None:
    """Drops every function, so that the slow path sees each next call."""
    for paths in list(_in_use):
        paths.clear()
    _in_use.clear()


def _after_fork() -> None:
    """In a forked child no driver handle is valid, and the lock may be another thread's, which is not here."""
    global _lock
    _lock = threading.RLock()
    forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

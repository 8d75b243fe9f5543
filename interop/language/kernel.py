"""The object that ``@simt.kernel`` makes: a launchable kernel, compiled once, on first use."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING

import abi

from ..errors import TypeError_
from ..runtime import Launchable
from .constants import Const, ConstValue
from .definition import KernelDefinition

if TYPE_CHECKING:
    from ..frontend import Compiled


class SimtKernel(Launchable):
    """A kernel written in Python. Call it to launch it; :meth:`specialize` makes an instance with other constants.

    Compilation happens once, under a lock: threads that launch a cold kernel together wait for one compilation. An
    error is not remembered, so that a name defined later is found by the next call.
    """

    def __init__(self, definition: KernelDefinition) -> None:
        super().__init__(self._compile_once)
        self.definition = definition
        self._lock = threading.Lock()
        self._compiled: Compiled | None = None
        self._instances: dict[tuple[tuple[str, str], ...], SimtKernel] = {}
        functools.update_wrapper(self, definition.function, updated=())

    @property
    def name(self) -> str:
        """The kernel's name and symbol, constants included: ``scale_N32``."""
        return self.definition.name

    @property
    def ptx(self) -> str:
        """The kernel's PTX."""
        return self.compiled.program.images[0].text

    @property
    def compiled(self) -> Compiled:
        """What the front end made: program, IR and LLVM IR. Compiles on first use."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    from ..frontend import compile_simt

                    self._compiled = compile_simt(self.definition)
        return self._compiled

    def _compile_once(self) -> abi.Program:
        return self.compiled.program

    def specialize(self, **consts: ConstValue) -> SimtKernel:
        """The kernel with compile-time constants bound to other values; the same values give the same object.

        >>> small = scale.specialize(N=32)  # doctest: +SKIP
        >>> small.name  # doctest: +SKIP
        'scale_N32'
        """
        known = {c.name: c for c in self._constants()}
        for name, value in consts.items():
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                raise TypeError_(f"{self.name} has no constant '{name}'; its constants are: {names}")
            default = known[name].value
            if not isinstance(value, (bool, int, float)) or isinstance(value, bool) != isinstance(default, bool):
                raise TypeError_(f"the constant '{name}' of {self.name} is a number like {default!r}, not {value!r}")
        bound = {**self.definition.consts, **consts}
        key = tuple(sorted((name, repr(value)) for name, value in bound.items()))
        with self._lock:
            if key not in self._instances:
                d = self.definition
                self._instances[key] = SimtKernel(
                    KernelDefinition(
                        d.function, d.block, d.grid, d.requires, d.shared, d.contract, d.caller_locals, bound
                    )
                )
            return self._instances[key]

    def _constants(self) -> list[Const]:
        """Every constant that the kernel, its block or the device functions that it calls may use."""
        from ..frontend.captures import reachable_constants

        return reachable_constants(self.definition)

    def __repr__(self) -> str:
        return f"<kernel {self.name}{inspect.signature(self.definition.function)}>"

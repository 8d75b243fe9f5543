"""The callable that every kernel is, whatever language it was written in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import abi
from abi import ArgumentTypeError

from .device import Device, DeviceKey, LoadedKernel, open_device, parse_key
from .execute import Configuration, launch
from .hot import Hot, HotPaths, exact_configuration
from .hot_source import Shape
from .plan import KernelPlan, make_plan


class Launchable:
    """A kernel that can be called.

    ``k(x, y, 2.0)`` takes grid and block from the contract; ``k[grid, block, stream, shared](x, y, 2.0)`` gives them,
    each of which may be left out or None. Everything is checked before the device is asked for anything. The device
    follows from the arrays: NumPy's run on the CPU device, a GPU's on that GPU; a kernel without array arguments needs
    :meth:`on`. On a GPU a call returns when the kernel is queued.

    >>> from abi import Image, ImageKind, Kernel, Program
    >>> ptx = ".version 8.0 .target sm_80 .address_size 64 .visible .entry nop() { ret; }"
    >>> image = Image(ImageKind.PTX, "sm_80", ptx.encode(), ("nop",))
    >>> nop = Launchable(lambda: Program(Kernel("nop", "nop", "ptx", ()), (image,)))
    >>> nop.name
    'nop'
    """

    def __init__(
        self,
        program: Callable[[], abi.Program],
        *,
        name: str | None = None,
        structs: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._source = program
        self.structs = structs
        """The NumPy dtypes and ctypes classes with which structures passed by value were declared, by parameter."""
        self._given_name = name
        self._plan_lock = threading.RLock()  # a source may ask for the kernel's own name
        self._planned: tuple[abi.Program, KernelPlan] | None = None
        self._loaded: dict[DeviceKey, LoadedKernel] = {}
        self._hot = HotPaths()
        self._configured: dict[tuple[Any, ...], ConfiguredLaunch] = {}  # those of integers only

    @property
    def name(self) -> str:
        """What a person calls the kernel."""
        return self._given_name or self.program().kernel.name

    def program(self) -> abi.Program:
        """The kernel's description and images; compiled on first use."""
        return self._plan()[0]

    def load(self, device: Device | str) -> Launchable:
        """Makes the kernel ready on `device`, so that the first launch does not have to: before a graph is captured."""
        self._load(_device(device))
        return self

    def on(self, device: Device | str) -> ConfiguredLaunch:
        """The kernel on `device`; for kernels without array arguments, and to insist on a device."""
        return ConfiguredLaunch(self, device=_key(device))

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Checks the arguments and launches."""
        if not kwargs:
            for hot in self._hot.plain:
                if hot(args, ()):
                    return
        plan = self._plan()[1]
        ran_on = launch(plan, self._load, _FROM_CONTRACT, args, kwargs)
        if not kwargs:
            self._hot.learn(plan, self._load, ran_on, _PLAIN, args)

    def __getitem__(self, config: Any) -> ConfiguredLaunch:
        """``k[grid]``, ``k[grid, block]``, ``k[grid, block, stream]``, ``k[grid, block, stream, shared]``."""
        if type(config) is not tuple or not _is_plain(config):
            return ConfiguredLaunch(self, *_four(self, config))
        found = self._configured.get(config)
        if found is None:
            found = ConfiguredLaunch(self, *_four(self, config))
            if len(self._configured) < _MOST_CONFIGURED:
                self._configured[config] = found
        return found

    # With __getitem__ alone Python would take a kernel for a sequence, one without end.
    __iter__ = None
    __contains__ = None

    def _plan(self) -> tuple[abi.Program, KernelPlan]:
        planned = self._planned
        if planned is None:
            # The source has a lock of its own where it needs one; this one makes threads wait for one compilation.
            with self._plan_lock:
                planned = self._planned
                if planned is None:
                    program = self._source()
                    planned = self._planned = program, make_plan(program.kernel, self.structs)
        return planned

    def _load(self, device: Device) -> LoadedKernel:
        loaded = self._loaded.get(device.key)
        if loaded is None:
            loaded = self._loaded[device.key] = device.load(self.program())
        return loaded

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class ConfiguredLaunch:
    """A kernel with a part of its launch configuration given; call it to launch."""

    def __init__(
        self,
        kernel: Launchable,
        grid: Any = None,
        block: Any = None,
        stream: Any = None,
        shared: Any = None,
        device: DeviceKey | None = None,
    ) -> None:
        self.kernel = kernel
        self._config = (grid, block, stream, shared, device)
        exact = exact_configuration(grid, block, stream, shared, device)
        self._shape: Shape | None = None
        self._given: tuple[Any, ...] = ()
        self._hots: list[Hot] = []
        if exact is not None:
            self._shape, self._given = exact
            self._hots = kernel._hot.of(self._shape)

    def on(self, device: Device | str) -> ConfiguredLaunch:
        """The same on `device`."""
        return ConfiguredLaunch(self.kernel, *self._config[:4], _key(device))

    def __getitem__(self, config: Any) -> ConfiguredLaunch:
        return ConfiguredLaunch(self.kernel, *_four(self.kernel, config), self._config[4])

    __iter__ = None
    __contains__ = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        if not kwargs:
            for hot in self._hots:
                if hot(args, self._given):
                    return
        kernel = self.kernel
        plan = kernel._plan()[1]
        ran_on = launch(plan, kernel._load, Configuration(*self._config), args, kwargs)
        if not kwargs and self._shape is not None:
            kernel._hot.learn(plan, kernel._load, ran_on, self._shape, args)

    def __repr__(self) -> str:
        grid, block, stream, shared, _ = self._config
        return f"<{self.kernel!r} with grid {grid}, block {block}, stream {stream}, shared {shared}>"


def _four(kernel: Launchable, config: Any) -> tuple[Any, Any, Any, Any]:
    """Grid, block, stream and shared memory as they stand in brackets."""
    items = config if isinstance(config, tuple) else (config,)
    if not 1 <= len(items) <= 4:
        raise ArgumentTypeError(
            f"{kernel.name}[...] takes grid, block, stream and shared, in this order, not {len(items)}; "
            "a grid of two dimensions is written kernel[(4, 2), block]"
        )
    grid, block, stream, shared = (*items, None, None, None)[:4]
    return grid, block, stream, shared


def _is_plain(config: tuple[Any, ...]) -> bool:
    """Whether there are only integers in it, so that an equal configuration is the same one: 1.0 and True equal 1."""
    for item in config:
        if type(item) is not int:
            if type(item) is not tuple:
                return False
            for part in item:
                if type(part) is not int:
                    return False
    return True


_MOST_CONFIGURED = 64
_PLAIN = Shape()
_FROM_CONTRACT = Configuration()


def _device(device: Device | str) -> Device:
    return open_device(parse_key(device)) if isinstance(device, str) else device


def _key(device: Device | str) -> DeviceKey:
    return parse_key(device) if isinstance(device, str) else device.key

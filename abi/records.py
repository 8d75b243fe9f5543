"""The records of the kernel ABI description: parameters, launch rules, kernels, images, bundles.

Records are frozen and compare by value. They hold rules as text; :mod:`abi.rules` parses, evaluates and prints them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum

from .types import Type

FORMAT_VERSION = 1
"""Version of the description that this package writes. A reader refuses a larger one."""


class Access(Enum):
    """What a kernel does with a parameter's memory. Scalars are always ``IN``."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"

    @property
    def writes(self) -> bool:
        return self is not Access.IN


class CheckLevel(Enum):
    """How much is known about a kernel's parameters, and so how much a launch can check."""

    TYPED = "typed"
    LAYOUT = "layout"
    SIZE = "size"


class Origin(Enum):
    """Where a precondition comes from."""

    WRITTEN = "written"
    WITNESS = "witness"
    IMPLIED = "implied"
    SPECIALIZATION = "specialization"


class ImageKind(Enum):
    """The form that compiled code has."""

    PTX = "ptx"
    CUBIN = "cubin"
    FATBIN = "fatbin"
    LTOIR = "ltoir"
    HOST_OBJECT = "host-object"
    HOST_LIBRARY = "host-library"


@dataclass(frozen=True)
class Slot:
    """One entry of the image's parameter list: ``offset``, ``size`` and ``align`` in the parameter buffer, in bytes."""

    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class Param:
    """One logical parameter and the image slots that it owns.

    ``fill`` is a rule that supplies the value (``"len(y)"``); a parameter with a fill rule is hidden: callers do not
    pass it.
    """

    name: str
    type: Type
    access: Access = Access.IN
    slots: tuple[Slot, ...] = ()
    fill: str | None = None

    @property
    def hidden(self) -> bool:
        return self.fill is not None


class BlockKind(Enum):
    """How :class:`Block` constrains the threads of a block."""

    ANY = "any"
    EXACT = "exact"
    UP_TO = "up to"
    MULTIPLE_OF = "multiple of"


@dataclass(frozen=True)
class Block:
    """The rule for a block's threads. ``dims`` is (x, y, z): the exact shape, the bound, or the multiple (x only)."""

    kind: BlockKind = BlockKind.ANY
    dims: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class Launch:
    """How grid, block and shared memory follow from the arguments.

    ``grid`` has one to three rules in CUDA's order (x, y, z), or is empty: then a caller must give the grid.
    ``shared`` is a rule for the bytes of dynamic shared memory, or is empty: the kernel uses some, and a caller must
    say how much. ``min_cc`` is the lowest compute capability, as (8, 0).
    """

    block: Block = Block()
    grid: tuple[str, ...] = ()
    shared: str = "0"
    min_cc: tuple[int, int] = (8, 0)


@dataclass(frozen=True)
class Requirement:
    """A precondition: the rule's text, where it comes from, and a note that says why where the text alone does not."""

    rule: str
    origin: Origin = Origin.WRITTEN
    note: str = ""


@dataclass(frozen=True)
class Kernel:
    """One kernel's contract: ``name`` is what a person calls it, ``symbol`` what the image calls it."""

    name: str
    symbol: str
    language: str
    params: tuple[Param, ...]
    launch: Launch = Launch()
    requires: tuple[Requirement, ...] = ()
    convention: str = "interop-1"
    check_level: CheckLevel = CheckLevel.TYPED
    source: str = ""
    doc: str = ""

    @property
    def visible_params(self) -> tuple[Param, ...]:
        """The parameters that a caller passes: all without a fill rule."""
        return tuple(p for p in self.params if not p.hidden)

    def param(self, name: str) -> Param:
        """The parameter called `name`; :class:`KeyError` when there is none."""
        for param in self.params:
            if param.name == name:
                return param
        raise KeyError(name)


@dataclass(frozen=True)
class Image:
    """Compiled code. ``target`` is ``sm_80`` for device code, ``x86-64-v3`` for host code; ``isa`` the PTX version as
    ``8.0`` or empty; ``symbols`` the kernels that it holds."""

    kind: ImageKind
    target: str
    data: bytes = field(repr=False)
    symbols: tuple[str, ...] = ()
    isa: str = ""
    min_cc: tuple[int, int] = (8, 0)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> str:
        """The image as text; for PTX."""
        return self.data.decode("utf-8")


@dataclass(frozen=True)
class Program:
    """A kernel and the images that hold it: what a front end or an importer hands to the launch layer and exporters."""

    kernel: Kernel
    images: tuple[Image, ...]


@dataclass(frozen=True)
class Bundle:
    """Kernels and images under one name; what :mod:`abi.bundle` reads and writes."""

    name: str
    kernels: tuple[Kernel, ...]
    images: tuple[Image, ...]
    producer: str = ""

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name`; :class:`KeyError` when there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

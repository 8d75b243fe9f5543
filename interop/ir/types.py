"""Types of IR values beyond the scalars and parameter types of :mod:`abi`.

A value's type is an :class:`abi.Scalar`, a parameter type (:class:`abi.Slice`, :class:`abi.Tensor`,
:class:`abi.Pointer`), :class:`Witness` or :class:`Shared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from abi import Pointer, Scalar, Slice, Tensor


@dataclass(frozen=True)
class Witness:
    """A proof that an index belongs to the executing thread alone, in a launch that meets :data:`WITNESS_RULES`.

    Rank 1: one index. Rank 2: (row, column). Rank 3: (plane, row, column).
    """

    rank: int

    def __str__(self) -> str:
        return f"witness<{self.rank}>"

    __repr__ = __str__


WITNESS_RULES: dict[int, tuple[str, ...]] = {
    1: ("grid.y == 1", "grid.z == 1", "block.y == 1", "block.z == 1"),
    2: ("grid.z == 1", "block.z == 1"),
    3: (),
}
"""What a launch must fulfil for a witness of each rank to be unique to its thread."""


@dataclass(frozen=True)
class Shared:
    """An array in the block's shared memory. An empty ``shape`` means one dimension of run-time length."""

    element: Scalar
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape) or 1

    @property
    def bytes(self) -> int:
        """Size of a statically shaped array."""
        total = self.element.size
        for extent in self.shape:
            total *= extent
        return total

    def __str__(self) -> str:
        return f"shared<{self.element}, {'x'.join(map(str, self.shape)) or '?'}>"

    __repr__ = __str__


IRType = Union[Scalar, Slice, Tensor, Pointer, Witness, Shared]
ARRAYS = (Slice, Tensor, Pointer, Shared)


def array_rank(type_: IRType) -> int:
    """Number of indices that an array of `type_` takes."""
    return type_.rank if isinstance(type_, (Tensor, Shared)) else 1


def array_element(type_: IRType) -> Scalar:
    """Element type of an array of `type_`."""
    element = type_.pointee if isinstance(type_, Pointer) else getattr(type_, "element", None)
    if not isinstance(element, Scalar):
        raise TypeError(f"{type_} has no elements")
    return element

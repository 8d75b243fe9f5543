"""Compile-time constants of kernels, and the rules that a block may be given by."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Union

ConstValue = Union[bool, int, float]


class Const:
    """A named compile-time constant with a default. ``kernel.specialize(N=32)`` binds another value.

    In a kernel's body, in ``block=`` and in rules the constant stands for its value. Outside kernels it has a
    ``value`` only: arithmetic on it would silently freeze the default.

    >>> from interop.language import Const
    >>> Const("N", 16)
    Const('N', 16)
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: ConstValue):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"a Const is named by an identifier, not {name!r}")
        if not isinstance(value, (bool, int, float)):
            raise TypeError(f"Const {name}: the value is an int, float or bool, not {type(value).__name__}")
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return f"Const({self.name!r}, {self.value!r})"


Extent = Union[int, Const]
"""A block extent as an author writes it."""


@dataclass(frozen=True)
class BlockRule:
    """A block that is bounded rather than fixed; made by :func:`up_to` and :func:`multiple_of`."""

    word: str
    count: Extent

    def __repr__(self) -> str:
        return f"{self.word}({self.count!r})"


def _count(word: str, count: Extent) -> Extent:
    if isinstance(count, Const):
        return count
    try:
        number = operator.index(count)
    except TypeError:
        raise TypeError(f"{word}() takes a number of threads, not {count!r}") from None
    if not 1 <= number <= 1024:
        raise ValueError(f"{word}({number}): a block has 1 to 1024 threads")
    return number


def up_to(count: Extent) -> BlockRule:
    """A block of any shape with at most `count` threads: ``@simt.kernel(block=io.up_to(512))``.

    >>> up_to(512)
    up_to(512)
    """
    return BlockRule("up_to", _count("up_to", count))


def multiple_of(count: Extent) -> BlockRule:
    """A block whose x extent is a multiple of `count`: ``@simt.kernel(block=io.multiple_of(32))``.

    >>> multiple_of(32)
    multiple_of(32)
    """
    return BlockRule("multiple_of", _count("multiple_of", count))

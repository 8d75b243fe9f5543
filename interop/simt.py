"""The SIMT track: a kernel is one thread's program.

>>> import interop as io
>>> from interop import simt
>>> @simt.kernel(block=256, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
... def saxpy(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
...     '''y <- a*x + y.'''
...     i = simt.global_index()
...     if i < len(y):
...         y[i] = a * x[i] + y[i]
>>> saxpy.name
'saxpy'

**The thread's place.** ``simt.thread_index.x``, ``block_index``, ``block_dim``, ``grid_dim`` (axes ``.x .y .z`` in
CUDA's order; ``simt.thread_index(0)`` is the same as ``.x``) are plain i64 numbers. :func:`global_index` is the
thread's own index as a *witness*, a value that no other thread has; :func:`grid_stride` yields witnesses.

**Writing.** ``DisjointSlice`` and ``DisjointTensor`` are written through a witness of their rank, and a parameter
that the kernel writes is read through one too: ``dst[p]``. Arithmetic on a witness, or taking it apart (``row, col =
p``), gives plain integers, which may index for reading only. A witness adds what it needs of the launch to the
contract (``grid.y == 1`` …). ``with io.unsafe("reason"):`` lifts this and the bounds checks for the statements in it.

**Numbers.** Integers keep their declared width and wrap. Literals take the type of what they meet; a variable that
only ever holds literals is i32 or f32. Numbers widen within a kind without being asked (i32 to i64, u32 to i64, f16
to f32); everything else is a cast: ``io.f32(n)``, which truncates towards zero and saturates from float to integer.
``/`` is for floats; ``//`` and ``%`` of integers round down as in Python; a division by zero stops the kernel. Shifts
by the width or more give what shifting bit by bit would. ``a * b + c`` may become one fused multiply-add
(``contract=False`` forbids it).

**Arrays.** ``x.shape``, ``x.strides`` (in elements), ``len(x)`` (all elements, as in launch rules). An index out of
range, negative ones included, stops the kernel with file and line; checks that the contract or an ``if`` proves are
not made.

**Shared memory.** ``simt.shared(io.f32, (16, 17))`` has a constant shape; ``simt.shared(io.f32, n)`` with a run-time
length takes the launch's dynamic shared memory (``shared="4 * block.x"`` in the decorator). :func:`barrier` must be
reached by all threads of a block together: under a condition that differs between threads it does not compile.

**Constants and functions.** Numbers, tuples of numbers and ``io.Const`` are captured from outside as constants;
branches on constants are decided, and loops over tuples unrolled, when the kernel is compiled. ``@io.device``
functions are generic by the types of their arguments and compiled in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .language.definition import BlockSpec, KernelDefinition, annotation_names
from .language.functions import GeometryWord, Intrinsic

if TYPE_CHECKING:
    from .language.kernel import SimtKernel

    def global_index(rank: int = 1) -> Any:
        """The thread's own index as a witness: a number, or for rank 2 ``(row, col)``, 3 ``(plane, row, col)``."""

    def grid_stride(count: Any) -> Iterator[Any]:
        """``for i in simt.grid_stride(n)``: the indices below `n` that are this thread's, each as a witness."""
        raise NotImplementedError

    def shared(element: Any, shape: Any) -> Any:
        """An array in the block's shared memory: ``simt.shared(io.f32, (16, 17))``."""

    def barrier() -> None:
        """Waits until all threads of the block are here, and makes their shared-memory writes visible."""

    thread_index: Any = GeometryWord("thread_index", "geometry")
    block_index: Any = GeometryWord("block_index", "geometry")
    block_dim: Any = GeometryWord("block_dim", "geometry")
    grid_dim: Any = GeometryWord("grid_dim", "geometry")
else:
    global_index = Intrinsic(
        "global_index",
        "simt",
        doc="""``i = simt.global_index()``: the thread's own index in the launch, as a *witness*.

        No other thread has the same one, so it may index what the kernel writes: ``y[i] = …``. It is an i64 number;
        arithmetic makes plain integers of it. ``p = simt.global_index(2)`` is the witness of a two-dimensional launch,
        ``row, col = p`` (or ``p.row``, ``p.col``) its coordinates; rank 3 has ``plane, row, col``. Writing with it adds
        what makes it unique to the contract: ``grid.y == 1`` and so on for rank 1.
        """,
    )
    grid_stride = Intrinsic(
        "grid_stride",
        "simt",
        doc="""``for i in simt.grid_stride(n):`` gives this thread's share of the indices below `n`.

        It starts at the thread's own index and steps by the number of threads of the launch, so a grid of any size
        covers everything once. Each index is a witness, as that of :func:`global_index`: ``y[i] = …`` compiles.
        """,
    )
    shared = Intrinsic(
        "shared",
        "simt",
        doc="""``s = simt.shared(io.f32, (16, 17))``: an array in the block's shared memory, not initialised.

        The shape is made of compile-time integers. With one length that is known only at run time,
        ``simt.shared(io.f32, n)``, it takes the launch's dynamic shared memory, whose size the decorator gives:
        ``shared="4 * block.x"``. Any thread may write any element; :func:`barrier` orders the accesses.
        """,
    )
    barrier = Intrinsic(
        "barrier",
        "simt",
        doc="""``simt.barrier()`` waits until all threads of the block are here.

        What they wrote to shared memory before it, all of them see after it. All threads must reach it together: under
        a condition that differs between threads it does not compile.
        """,
    )
    thread_index = GeometryWord(
        "thread_index",
        "geometry",
        doc="""``simt.thread_index.x`` (``.y``, ``.z``): the thread's place in its block, a plain i64 number from 0.""",
    )
    block_index = GeometryWord(
        "block_index",
        "geometry",
        doc="""``simt.block_index.x`` (``.y``, ``.z``): the block's place in the grid, a plain i64 number from 0.""",
    )
    block_dim = GeometryWord(
        "block_dim",
        "geometry",
        doc="""``simt.block_dim.x`` (``.y``, ``.z``): the number of threads of a block along an axis, as i64.""",
    )
    grid_dim = GeometryWord(
        "grid_dim",
        "geometry",
        doc="""``simt.grid_dim.x`` (``.y``, ``.z``): the number of blocks of the grid along an axis, as i64.""",
    )


def kernel(
    block: BlockSpec = None,
    grid: str | int | Sequence[str | int] | None = None,
    requires: Sequence[str] = (),
    shared: str | int | None = None,
    contract: bool = True,
) -> Callable[[Callable[..., Any]], SimtKernel]:
    """Decorator: makes a kernel of a function that is one thread's program.

    :param block: threads of a block: ``256`` or ``(32, 8)`` exactly, ``io.up_to(n)``, ``io.multiple_of(n)``, or any.
    :param grid: rule for the number of blocks, or a number; ``"(rule, rule)"`` or a tuple for two axes. Without it a
        caller gives the grid.
    :param requires: preconditions, checked before every launch in every host language.
    :param shared: rule for the bytes of dynamic shared memory, or their number.
    :param contract: whether a product and a sum may become one fused multiply-add.

    The function is compiled on first use, or with :meth:`SimtKernel.program`.
    """
    if callable(block):
        raise TypeError("write @simt.kernel() with parentheses")
    if isinstance(requires, str):
        raise TypeError('requires is a list of rules: requires=["len(x) >= len(y)"]')
    caller_locals = annotation_names(sys._getframe(1).f_locals)

    def decorate(function: Callable[..., Any]) -> SimtKernel:
        from .language.kernel import SimtKernel

        definition = KernelDefinition(function, block, grid, tuple(requires), shared, contract, caller_locals)
        return SimtKernel(definition)

    return decorate


__all__ = [
    "barrier", "block_dim", "block_index", "global_index", "grid_dim", "grid_stride", "kernel", "shared",
    "thread_index",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)

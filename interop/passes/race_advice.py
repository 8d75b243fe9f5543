"""What to do about an access that other threads may meet, by where its index comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from abi import Pointer, Scalar

from ..ir import ops
from ..ir.ops import Operation, Parameter, Value
from ..ir.types import WITNESS_RULES, array_element, array_rank

_NAMES = {1: "i", 2: "row, col", 3: "plane, row, col"}
_WITNESSES = {1: ("i", "simt.global_index()"), 2: ("p", "simt.global_index(2)"), 3: ("p", "simt.global_index(3)")}


@dataclass
class Origin:
    """What an index is computed from.

    :ivar witness: a witness, through arithmetic or taken apart.
    :ivar geometry: ``thread_index``, ``block_index``, ``block_dim`` or ``grid_dim``.
    :ivar loaded: an element of an array.
    :ivar loop: the loop whose counter it is, or is computed from, when the loop starts at the thread's own place.
    """

    witness: bool = False
    geometry: set[str] = field(default_factory=set)
    loaded: bool = False
    loop: ops.For | None = None


def origin_of(indices: tuple[Value, ...], definitions: Mapping[Value, Operation]) -> Origin:
    """Follows the indices to where they come from."""
    found = Origin()
    pending, seen = list(indices), set(indices)
    while pending:
        value = pending.pop()
        op = definitions.get(value)
        if isinstance(op, ops.Geometry):
            found.geometry.add(op.kind)
        elif isinstance(op, (ops.Coordinate, ops.GlobalIndex, ops.StrideIndex)):
            found.witness = True
        elif isinstance(op, ops.Load):
            found.loaded = True
        if op is None or isinstance(op, (ops.Coordinate, ops.Load)):
            continue
        if isinstance(op, ops.For) and value is op.induction:
            start = origin_of((op.start,), definitions)
            if start.witness or "thread_index" in start.geometry:
                found.loop = found.loop or op
            sources = [op.start, op.step]
        else:
            sources = list(op.operands)
            for region in op.regions:
                for inner in ops.walk(region):
                    sources += inner.operands if isinstance(inner, ops.Terminator) else ()
        new = [source for source in sources if source not in seen]
        seen.update(new)
        pending += new
    return found


def advice(
    op: ops.Load | ops.Store, parameter: Parameter, definitions: Mapping[Value, Operation], updates: bool = False
) -> str:
    """The help of a race error.

    :param updates: whether `op` reads what the kernel then writes at the same index, as ``y[i] += 1`` does.
    """
    name, rank = parameter.name, array_rank(op.array.type)
    origin = origin_of(op.indices, definitions)
    if isinstance(parameter.value.type, Pointer):
        return f'declare {name}: io.DisjointSlice[...] and use a witness, or write: with io.unsafe("reason"):'
    if rank not in WITNESS_RULES:
        return f'there is no witness for {rank} dimensions: use a tensor of up to 3, or: with io.unsafe("reason"):'
    if origin.loop is not None and rank == 1:
        return f"let the loop give witnesses: for i in simt.grid_stride(len({name})): ... {name}[i]"
    if isinstance(op, ops.Load) and not updates:
        return _for_read(op, name, rank)
    if updates and (origin.loaded or not (origin.geometry or origin.witness)):
        return (
            "several threads may update this element, which needs atomics, and they are not in the language yet: "
            "sum in shared memory first (simt.shared, simt.barrier), or let each thread write a result of its own"
        )
    if origin.loaded:
        return (
            "two threads may read the same index; if the indices are all different, say so: "
            f'with io.unsafe("each index occurs once"): ... {name}[...] = ...'
        )
    if "block_index" in origin.geometry and "thread_index" not in origin.geometry and not origin.witness:
        return (
            "all threads of a block write this element; let one do it, and say so: "
            f'if simt.thread_index.x == 0: with io.unsafe("one thread of each block writes its element"): '
            f"{name}[...] = ..."
        )
    if not origin.geometry and not origin.witness:
        variable, witness = _WITNESSES[rank]
        return (
            f"all threads write this element: write {name}[{variable}] with {variable} = {witness}; or let one thread "
            f'do it, and say so: if simt.global_index() == 0: with io.unsafe("only thread 0 writes"): {name}[...] = ...'
        )
    variable, witness = _WITNESSES[rank]
    return f"index it with the witness itself: {variable} = {witness}; {name}[{variable}]"


def _for_read(op: ops.Load, name: str, rank: int) -> str:
    element = array_element(op.array.type)
    assert isinstance(element, Scalar)
    word = f"io.Slice[io.{element}]" if rank == 1 else f"io.Tensor[io.{element}, {rank}]"
    variable, witness = _WITNESSES[rank]
    return (
        f"read other threads' elements from an array that the kernel does not write: a second parameter "
        f"old: {word}, and old[{_NAMES[rank]}]; its own element a thread reads with the witness: "
        f"{name}[{variable}], {variable} = {witness}"
    )

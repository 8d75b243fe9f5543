"""What to do about an access that other threads may meet, by where its index comes from.

Advice that is followed must not give wrong results: where the pass cannot tell what the author means, it says what is
wrong and leaves the choice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from abi import Pointer, Scalar

from ..ir import ops
from ..ir.ops import Operation, Parameter, Value
from ..ir.types import WITNESS_RULES, array_element, array_rank
from .index_forms import Forms

_NAMES = {1: "i", 2: "row, col", 3: "plane, row, col"}
_WITNESSES = {1: ("i", "simt.global_index()"), 2: ("p", "simt.global_index(2)"), 3: ("p", "simt.global_index(3)")}
_ATOMICS = (
    "the language has no atomics yet: give each thread its own slot and add the slots up after a barrier, or write "
    "this kernel in CUDA C++ with atomicAdd and declare it with @io.foreign"
)


@dataclass
class Origin:
    """What an index is computed from.

    :ivar witness: a witness, through arithmetic or taken apart.
    :ivar geometry: ``thread_index``, ``block_index``, ``block_dim`` or ``grid_dim``.
    :ivar blocks: the axes of ``block_index``.
    :ivar loaded: an element of an array.
    :ivar loop: the loop whose counter it is, or is computed from, when the loop starts at the thread's own place.
    """

    witness: bool = False
    geometry: set[str] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
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
            if op.kind == "block_index":
                found.blocks.add(op.axis)
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


def advice(op: ops.Load | ops.Store, parameter: Parameter, forms: Forms, updates: bool = False) -> str:
    """The help of a race error.

    :param forms: what is known of the kernel's indices, block and grid.
    :param updates: whether `op` reads what the kernel then writes at the same index, as ``y[i] += 1`` does.
    """
    name, rank = parameter.name, array_rank(op.array.type)
    if isinstance(parameter.value.type, Pointer):
        return f'declare {name}: io.DisjointSlice[...] and use a witness, or write: with io.unsafe("reason"):'
    if rank not in WITNESS_RULES:
        return f'there is no witness for {rank} dimensions: use a tensor of up to 3, or: with io.unsafe("reason"):'
    loop = forms.stride_loop(op.indices)
    if loop is not None:
        return _for_stride_loop(loop, name)
    variable, witness = _WITNESSES[rank]
    if forms.is_own(op.indices):
        return f"index it with the witness itself: {variable} = {witness}; {name}[{variable}]"
    if isinstance(op, ops.Load) and not updates:
        return _for_read(op, name, rank)
    return _for_write(op, name, rank, forms, updates)


def _for_write(op: ops.Load | ops.Store, name: str, rank: int, forms: Forms, updates: bool) -> str:
    origin = origin_of(op.indices, forms.definitions)
    variable, witness = _WITNESSES[rank]
    of_block = "block_index" in origin.geometry and "thread_index" not in origin.geometry and not origin.witness
    of_nothing = not origin.geometry and not origin.witness
    statement = _statement(op, name)
    if not origin.loaded and (of_block or of_nothing):
        if forms.one_thread(op, of_block):
            return _vouch_one_thread(statement, of_block, origin, forms)
        if not updates:
            return (
                _let_one_of_block(statement, origin, forms)
                if of_block
                else (
                    f"all threads write this element; if each thread has one of its own, write {name}[{variable}] with "
                    f"{variable} = {witness}; if one thread is to write it, say so:\n{_first_thread(statement, forms)}"
                )
            )
    if updates:
        return f"if several threads update this element: {_ATOMICS}; if only one does, say so:\n" + _unsafe(
            statement, "only one thread updates this element"
        )
    if origin.loaded:
        return "two threads may read the same index; if the indices are all different, say so:\n" + _unsafe(
            statement, "each index occurs once"
        )
    if origin.geometry == {"thread_index"} and not origin.witness:
        return (
            f"threads of different blocks have the same simt.thread_index: the index in the whole launch is {variable} "
            f"= {witness}, and {name}[{variable}] the thread's own element; if a launch has one block and each thread "
            "another element, say so:\n" + _unsafe(statement, "one block, and each thread has its own element")
        )
    return (
        f"only an index taken as it is from {_sources(rank)} is known to be this thread's alone; if no other thread "
        "writes or reads the elements that this one writes here, say so (bounds are not checked inside):\n"
        + _unsafe(statement, "each thread's elements are its own")
    )


def _sources(rank: int) -> str:
    return f"{_WITNESSES[rank][1]} or simt.grid_stride(n)" if rank == 1 else _WITNESSES[rank][1]


def _unsafe(statement: str, reason: str, indent: str = "    ") -> str:
    return f'{indent}with io.unsafe("{reason}"):\n{indent}    {statement}'


def _block_axes(origin: Origin, forms: Forms) -> str:
    """What the index has to fulfil for blocks not to meet."""
    missing = [a for a in range(3) if a not in origin.blocks and forms.grid_may_exceed(a)]
    if forms.grid and missing:
        names = " and ".join(f"simt.block_index.{'xyz'[a]}" for a in missing)
        return f"but the index does not depend on {names}, so several blocks write it: it must name the block in "
    return "this is right only when no two blocks have the same index: it must name the block in "


def _let_one_of_block(statement: str, origin: Origin, forms: Forms) -> str:
    test = " and ".join(f"simt.thread_index.{'xyz'[a]} == 0" for a in forms.block_axes())
    return (
        "all threads of a block write this element; let one do it, unless only one comes here already, and say so:\n"
        f"    if {test}:\n"
        + _unsafe(statement, "one thread of each block, and the element is the block's own", " " * 8)
        + f"\n{_block_axes(origin, forms)}every axis in which the grid is larger than 1"
    )


def _vouch_one_thread(statement: str, of_block: bool, origin: Origin, forms: Forms) -> str:
    if not of_block:
        return "only one thread comes here; say so:\n" + _unsafe(statement, "only one thread writes")
    return (
        "only one thread of each block comes here; say so:\n"
        + _unsafe(statement, "one thread of each block, and the element is the block's own")
        + f"\n{_block_axes(origin, forms)}every axis in which the grid is larger than 1"
    )


def _first_thread(statement: str, forms: Forms) -> str:
    """One thread of the launch, by a condition that is right for the launch's rank."""
    rank = forms.launch_rank()
    inner = _unsafe(statement, "only one thread of the launch writes", " " * 8)
    if rank == 1:
        return f"    if simt.global_index() == 0:\n{inner}"
    # A name that the kernel hardly has: row or col could be the author's own variables.
    test = " and ".join(f"thread.{part} == 0" for part in _NAMES[rank].split(", "))
    return f"    thread = simt.global_index({rank})\n    if {test}:\n{inner}"


def _statement(op: ops.Load | ops.Store, name: str) -> str:
    """The author's own assignment where it stands on a line of its own."""
    text = op.location.text.strip()
    try:
        body = ast.parse(text).body
    except SyntaxError:
        body = []
    if len(body) == 1 and isinstance(body[0], (ast.Assign, ast.AugAssign)):
        return text
    return f"{name}[...] = ..."


def _for_stride_loop(loop: ops.For | ops.While, name: str) -> str:
    counter, stop = _loop_words(loop)
    instead = " in place of the while, and drop the step" if isinstance(loop, ops.While) else ""
    return (
        f"let the loop give witnesses{instead}; in it {name}[{counter}] is the thread's own element:\n"
        f"    for {counter} in simt.grid_stride({stop}):"
    )


def _loop_words(loop: ops.For | ops.While) -> tuple[str, str]:
    """The author's words for the counter and the stop; of a loop over several lines, general ones."""
    general = ("i", "n")
    head = loop.location.text.split("#")[0].strip()
    try:
        node = ast.parse(f"{head} pass").body[0]
    except SyntaxError:
        return general
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3:
        return ast.unparse(node.target), ast.unparse(node.iter.args[1])
    if isinstance(node, ast.While) and isinstance(node.test, ast.Compare):
        return ast.unparse(node.test.left), ast.unparse(node.test.comparators[0])
    return general


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

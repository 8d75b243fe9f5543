"""Writes have to go through a witness; so do reads of what the kernel writes. This pass refuses the others."""

from __future__ import annotations

from ..errors import Note, RaceError
from ..ir import ops
from ..ir.ops import Function, Operation, Parameter, Value
from ..ir.types import WITNESS_RULES, Witness, array_rank
from .index_forms import Forms
from .race_advice import advice, origin_of

_AXIS = {"x": 0, "y": 1, "z": 2}


def check_races(function: Function, grid: tuple[str, ...] = ()) -> None:
    """Raises :class:`RaceError` for the first access that another thread's write may meet.

    :param grid: the grid's rules, which the advice depends on; empty when the caller gives the grid.
    """
    _Races(function, grid).check()


class _Races:
    def __init__(self, function: Function, grid: tuple[str, ...]):
        self._function = function
        self._parameters = {p.value: p for p in function.parameters}
        operations = list(ops.walk(function.body))
        self._accesses = [op for op in operations if isinstance(op, (ops.Load, ops.Store))]
        self._definitions: dict[Value, Operation] = {r: op for op in operations for r in (*op.results, *op.arguments)}
        self._forms = Forms(function, self._definitions, grid)
        self._writes = {op.array: op for op in reversed(self._accesses) if isinstance(op, ops.Store)}

    def check(self) -> None:
        for op in self._accesses:
            parameter = self._parameters.get(op.array)
            if parameter is None or op.array not in self._writes:
                continue
            index = op.indices[0]
            if isinstance(index.type, Witness):
                self._check_block(index)
            elif op.checked:
                self._refuse(op, parameter)

    def _refuse(self, op: ops.Load | ops.Store, parameter: Parameter) -> None:
        name, rank = parameter.name, array_rank(op.array.type)
        notes = (
            [] if isinstance(op, ops.Store) else [Note(f"'{name}' is written here", self._writes[op.array].location)]
        )
        reason, more = self._explain(op.indices, rank)
        if isinstance(op, ops.Store):
            message = f"'{name}' is written at an index that is not this thread's own: {reason}"
        else:
            message = (
                f"'{name}' is written by this kernel, so another thread may be writing the element read here: {reason}"
            )
        raise RaceError(
            message,
            op.location,
            help=advice(op, parameter, self._forms, self._updates(op)),
            notes=[*notes, *more],
        )

    def _updates(self, op: ops.Load | ops.Store) -> bool:
        """Whether `op` reads the element that a store writes, as in an augmented assignment."""
        stores = (other for other in self._accesses if isinstance(other, ops.Store))
        return isinstance(op, ops.Load) and any(
            s.array is op.array
            and len(s.indices) == len(op.indices)
            and all(self._forms.same(a, b) for a, b in zip(s.indices, op.indices, strict=True))
            for s in stores
        )

    def _explain(self, indices: tuple[Value, ...], rank: int) -> tuple[str, list[Note]]:
        """Why the indices are not a witness, in words, and where one was lost."""
        loop = origin_of(indices, self._definitions).loop
        if loop is not None:
            text = "a loop over range() gives plain integers, which another thread's loop may give too"
            return text, [Note("the loop is here", loop.location)]
        for value in indices:
            op = self._definitions.get(value)
            if isinstance(op, ops.Coordinate):
                witness = op.witness.type
                assert isinstance(witness, Witness)
                if witness.rank != rank:
                    text = f"it has {rank} dimension{'s' if rank > 1 else ''}, and the witness has {witness.rank}"
                    return text, self._made(op.witness)
                return "a witness taken apart gives plain integers, which other threads may hold too", self._made(
                    op.witness
                )
            if isinstance(op, (ops.If, ops.For, ops.While, ops.Scope)) and self._from_witness(value):
                return "where two paths meet, different indices become a plain integer", [
                    Note("the paths meet here", op.location)
                ]
        for value in indices:
            found = self._from_witness(value)
            if found is not None:
                text = "arithmetic on a witness gives a plain integer, which other threads may hold too"
                return text, self._made(found)
        return "a plain integer may be the same in several threads", []

    def _made(self, witness: Value) -> list[Note]:
        op = self._definitions.get(witness)
        return [Note("the witness comes from here", op.location)] if op else []

    def _from_witness(self, start: Value) -> Value | None:
        """The witness that `start` was computed from, if any; depth first, and not by calls: chains may be long."""
        pending, seen = [start], set[Value]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            op = self._definitions.get(value)
            if isinstance(op, ops.Coordinate):
                return op.witness
            if op is None or isinstance(op, ops.Load):
                continue
            sources = list(op.operands)
            for region in op.regions:
                for inner in ops.walk(region):
                    if isinstance(inner, ops.Terminator):
                        sources += inner.operands
            pending += reversed(sources)
        return None

    def _check_block(self, witness: Value) -> None:
        """A fixed block in which the witness is never unique is an error now rather than at every launch."""
        block = self._function.block
        assert isinstance(witness.type, Witness)
        if block is None:
            return
        for rule in WITNESS_RULES[witness.type.rank]:
            base, axis = rule.split(" ")[0].split(".")
            if base == "block" and block[_AXIS[axis]] != 1:
                op = self._definitions[witness]
                raise RaceError(
                    f"a witness of rank {witness.type.rank} needs {rule}, and the block is {block}: "
                    "several threads would hold the same index",
                    op.location,
                    help=f"use simt.global_index({witness.type.rank + 1}), or a block with extent 1 along {axis}",
                )

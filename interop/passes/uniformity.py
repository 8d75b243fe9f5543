"""Which values and which control flow differ between the threads of a block, and why.

A value is *divergent* when threads of one block may hold different ones. A place is under divergent control when some
threads of the block may get there and others not, or not in the same iteration. Each finding is a :class:`Reason` that
links back to the thread index, so that an error can show the way.

The analysis starts from "everything is uniform" and repeats until nothing more becomes divergent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import Location, Note
from ..ir import ops
from ..ir.ops import Function, Operation, Region, Value
from ..ir.types import Shared


@dataclass(frozen=True, eq=False)
class Reason:
    """Why something is divergent: a sentence, its place, and what it comes from in turn."""

    text: str
    location: Location
    cause: Reason | None = None

    def notes(self) -> tuple[Note, ...]:
        """The chain from here to the thread index, without steps on the same piece of source."""
        found: list[Note] = []
        seen: set[tuple[Location, str]] = set()
        reason: Reason | None = self
        while reason is not None:
            if reason.text and (reason.location, reason.text) not in seen:
                found.append(Note(reason.text, reason.location))
                seen.add((reason.location, reason.text))
            reason = reason.cause
        return tuple(found)


@dataclass
class _Exits:
    """Jumps out of a piece of code, and for each kind why only some threads take it (None: all or none do)."""

    reasons: dict[str, Reason | None] = field(default_factory=dict)

    def add(self, kind: str, reason: Reason | None) -> None:
        self.reasons[kind] = self.reasons.get(kind) or reason

    def merge(self, other: _Exits) -> None:
        for kind, reason in other.reasons.items():
            self.add(kind, reason)

    def take(self, *kinds: str) -> Reason | None:
        """Removes jumps that end here; the reason if one of them is divergent."""
        found = [self.reasons.pop(kind, None) for kind in kinds]
        return next((r for r in found if r is not None), None)

    def divergent(self) -> Reason | None:
        return next((r for r in self.reasons.values() if r is not None), None)


class Uniformity:
    """The result: ``values`` holds the divergent ones, ``barriers`` the reason for each barrier under divergence."""

    def __init__(self, function: Function):
        self._function = function
        self._parameters = {p.value: p for p in function.parameters}
        stored = (op.array for op in ops.walk(function.body) if isinstance(op, ops.Store))
        self._written = set(stored)
        self._aliased = any(p.writable and not p.disjoint for p in function.parameters)
        self.values: dict[Value, Reason] = {}
        self.barriers: dict[ops.Barrier, Reason] = {}
        self._loops: dict[Operation, Reason] = {}
        self._jumps: dict[Operation, list[Operation]] = {}
        self._targets: list[Operation | None] = []
        self._scopes: list[Operation | None] = [None]
        self._jump_reasons: dict[Operation, Reason | None] = {}
        self._definitions = {r: op for op in ops.walk(function.body) for r in op.results}
        before = -1
        while before != len(self.values) + len(self._loops):
            before = len(self.values) + len(self._loops)
            self._jumps.clear()
            self.barriers.clear()
            self._region(function.body, None)

    # -- bookkeeping

    def _mark(self, value: Value, reason: Reason | None) -> None:
        if reason is not None:
            self.values.setdefault(value, reason)

    def _first(self, values: tuple[Value, ...]) -> Reason | None:
        return next((self.values[v] for v in values if v in self.values), None)

    def _named(self, value: Value, op: Operation, cause: Reason | None) -> Reason | None:
        """A derived value's reason: a step of the chain if the value has a name, else its cause's."""
        if cause is None:
            return None
        name = self._function.names.get(value)
        return Reason(f"'{name}' differs between threads", op.location, cause) if name else cause

    # -- control flow

    def _region(self, region: Region, context: Reason | None) -> _Exits:
        exits = _Exits()
        for op in region:
            inner = self._operation(op, context)
            exits.merge(inner)
            # Past a jump that only some threads take, the others go on without them.
            context = context or inner.divergent()
        return exits

    def _operation(self, op: Operation, context: Reason | None) -> _Exits:
        if isinstance(op, ops.If):
            return self._if(op, context)
        if isinstance(op, (ops.For, ops.While)):
            return self._loop(op, context)
        if isinstance(op, ops.Scope):
            return self._scope(op, context)
        exits = _Exits()
        if isinstance(op, (ops.Break, ops.Continue, ops.Return)):
            target = self._scopes[-1] if isinstance(op, ops.Return) else self._targets[-1]
            kind = type(op).__name__.lower()
            if target is not None:
                self._jumps.setdefault(target, []).append(op)
            self._jump_reasons[op] = context
            texts = {
                "return": "some threads return here and do not go on",
                "break": "some threads leave the loop here",
                "continue": "some threads skip the rest of the loop's body here",
            }
            exits.add(kind, Reason(texts[kind], op.location, context) if context else None)
        elif isinstance(op, ops.Barrier):
            if context is not None:
                self.barriers[op] = context
        else:
            self._value(op)
        return exits

    def _if(self, op: ops.If, context: Reason | None) -> _Exits:
        cause = self.values.get(op.condition)
        branch = Reason("this condition differs between threads", op.location, cause) if cause else None
        exits = _Exits()
        for region in (op.then, op.otherwise):
            exits.merge(self._region(region, branch or context))
        yields = [r.terminator for r in (op.then, op.otherwise) if isinstance(r.terminator, ops.Yield)]
        self._merge(op.results_, yields, branch, op)
        return exits

    def _merge(
        self, results: tuple[Value, ...], arrivals: Sequence[Operation], reason: Reason | None, op: Operation
    ) -> None:
        """Results where paths meet: divergent if a path brings a divergent value, or threads come by different ones."""
        for index, result in enumerate(results):
            incoming = [a.operands[index] for a in arrivals if index < len(a.operands)]
            cause = self._first(tuple(incoming))
            if cause is None and reason is not None and len(set(incoming)) > 1:
                cause = reason
            self._mark(result, self._named(result, op, cause))

    def _loop(self, op: ops.For | ops.While, context: Reason | None) -> _Exits:
        own = self._loops.get(op)
        if isinstance(op, ops.For):
            self._mark(op.induction, self._first((op.start, op.step)))
        self._targets.append(op)
        exits = _Exits()
        if isinstance(op, ops.While):
            exits.merge(self._region(op.condition, own or context))
        exits.merge(self._region(op.body, own or context))
        self._targets.pop()
        self._arguments(op)

        leaving = exits.take("break") or exits.reasons.get("return") or self._trip_count(op)
        exits.take("continue")
        if leaving is not None:
            self._loops.setdefault(op, leaving)
        breaks = [j for j in self._jumps.get(op, []) if isinstance(j, ops.Break)]
        reason = self._loops.get(op)
        for index, result in enumerate(op.results_):
            incoming = [b.operands[index] for b in breaks]
            incoming += [op.carried[index]] if index < len(op.carried) else []
            cause = self._first(tuple(incoming)) or reason
            self._mark(result, self._named(result, op, cause))
        return exits

    def _arguments(self, op: ops.For | ops.While) -> None:
        """A loop's arguments: divergent if a value that comes round is, or if threads come round by different paths."""
        rounds = [j for j in self._jumps.get(op, []) if isinstance(j, ops.Continue)]
        split = (
            next((self._jump_reasons[j] for j in rounds if self._jump_reasons.get(j)), None)
            if len(rounds) > 1
            else None
        )
        for index, argument in enumerate(op.carried):
            incoming = tuple(j.operands[index] for j in rounds)
            cause = self._first((op.initial[index], *incoming))
            if cause is None and split is not None and len(set(incoming)) > 1:
                cause = split
            self._mark(argument, self._named(argument, op, cause))

    def _trip_count(self, op: ops.For | ops.While) -> Reason | None:
        if isinstance(op, ops.For):
            cause = self._first((op.start, op.stop, op.step))
        else:
            cause = self._first(op.condition.terminator.operands)
        return Reason("the number of iterations differs between threads", op.location, cause) if cause else None

    def _scope(self, op: ops.Scope, context: Reason | None) -> _Exits:
        self._scopes.append(op)
        self._targets.append(None)
        exits = self._region(op.body, context)
        self._targets.pop()
        self._scopes.pop()
        reason = exits.take("return")
        self._merge(op.results_, [j for j in self._jumps.get(op, []) if isinstance(j, ops.Return)], reason, op)
        return exits

    # -- values

    def _value(self, op: Operation) -> None:
        for result in op.results:
            cause = self._source(op)
            if cause is None and not isinstance(op, ops.Load):
                cause = self._named(result, op, self._first(op.operands))
            elif cause is None and isinstance(op, ops.Load):
                cause = self._named(result, op, self._first(op.indices))
            self._mark(result, cause)

    def _source(self, op: Operation) -> Reason | None:
        """Where divergence begins: the thread's index, and memory that other threads write."""
        block = self._function.block
        if isinstance(op, ops.Geometry):
            if op.kind != "thread_index" or (block is not None and block[op.axis] == 1):
                return None
            return Reason(f"simt.thread_index.{'xyz'[op.axis]} differs between threads", op.location)
        if isinstance(op, (ops.GlobalIndex, ops.StrideIndex)):
            return Reason("this is the thread's own index", op.location)
        if isinstance(op, ops.Load):
            array = op.array
            if isinstance(array.type, Shared):
                return Reason("this is read from shared memory, where other threads write", op.location)
            parameter = self._parameters.get(array)
            name = parameter.name if parameter else "memory"
            if array in self._written or self._aliased:
                return Reason(f"this is read from '{name}', which threads write", op.location)
        return None

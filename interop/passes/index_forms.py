"""Forms of indices and conditions that the advice of race errors knows: exact ones only, never guesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from abi import i32, i64, u32, u64

from ..ir import ops
from ..ir.ops import Function, Operation, Region, Value
from ..ir.types import Witness

_Part = tuple[str, int]


class Forms:
    """What is known of one kernel.

    :param grid: the grid's rules in CUDA's order; empty when the caller gives the grid.
    """

    def __init__(self, function: Function, definitions: Mapping[Value, Operation], grid: tuple[str, ...] = ()):
        self.definitions = definitions
        self.grid = grid
        self._function = function

    # -- the launch

    def _enforced_rank(self) -> int:
        """The rank of launches that every launch is checked for, because the kernel writes through a witness."""
        parameters = {parameter.value for parameter in self._function.parameters}
        ranks = [3]
        for op in ops.walk(self._function.body):
            if isinstance(op, ops.Store) and op.array in parameters and isinstance(op.indices[0].type, Witness):
                ranks.append(op.indices[0].type.rank)
        return min(ranks)

    def block_axes(self) -> list[int]:
        """The axes in which the block can be larger than 1."""
        block = self._function.block
        return [axis for axis in range(self._enforced_rank()) if block is None or block[axis] > 1]

    def grid_may_exceed(self, axis: int) -> bool:
        """Whether the grid can be larger than 1 in `axis`."""
        if axis >= self._enforced_rank():
            return False
        return not self.grid or (axis < len(self.grid) and self.grid[axis] != "1")

    def launch_rank(self) -> int:
        """The least rank of a witness that is unique in every launch that the kernel allows."""
        axes = self.block_axes() + [axis for axis in range(3) if self.grid_may_exceed(axis)]
        return max(axes, default=0) + 1

    # -- indices

    def _plain(self, value: Value) -> Operation | None:
        """The definition of `value`, behind conversions that keep every index of a launch."""
        op = self.definitions.get(value)
        while isinstance(op, ops.Cast) and op.result.type in (i32, u32, i64, u64):
            op = self.definitions.get(op.value)
        return op

    def _geometry(self, value: Value, kind: str, axis: int) -> bool:
        op = self._plain(value)
        return isinstance(op, ops.Geometry) and op.kind == kind and op.axis == axis

    def _product(self, value: Value, left: str, right: str, axis: int) -> bool:
        op = self._plain(value)
        return (
            isinstance(op, ops.Binary)
            and op.kind == "mul"
            and any(
                self._geometry(a, left, axis) and self._geometry(b, right, axis)
                for a, b in ((op.left, op.right), (op.right, op.left))
            )
        )

    def _own_along(self, value: Value, rank: int, place: int) -> bool:
        """Whether `value` is the thread's index in the whole launch along the `place`-th of `rank` dimensions."""
        op, axis = self._plain(value), rank - 1 - place
        if isinstance(op, ops.Coordinate):
            made = self.definitions.get(op.witness)
            return isinstance(made, ops.GlobalIndex) and made.result.type == Witness(rank) and op.axis == place
        return (
            isinstance(op, ops.Binary)
            and op.kind == "add"
            and any(
                self._product(a, "block_index", "block_dim", axis) and self._geometry(b, "thread_index", axis)
                for a, b in ((op.left, op.right), (op.right, op.left))
            )
        )

    def is_own(self, indices: tuple[Value, ...]) -> bool:
        """Whether the indices are what the witness of this rank holds, so that the witness can take their place."""
        return all(self._own_along(value, len(indices), place) for place, value in enumerate(indices))

    def same(self, left: Value, right: Value, depth: int = 8) -> bool:
        """Whether two values are computed in the same way out of the same values."""
        if left is right:
            return True
        a, b = self.definitions.get(left), self.definitions.get(right)
        if a is None or b is None or type(a) is not type(b) or depth == 0 or a.attributes != b.attributes:
            return False
        if not isinstance(a, (ops.Constant, ops.Geometry, ops.Coordinate, ops.Binary, ops.Cast, ops.GlobalIndex)):
            return False
        return left.type == right.type and all(
            self.same(x, y, depth - 1) for x, y in zip(a.operands, b.operands, strict=True)
        )

    # -- loops

    def stride_loop(self, indices: tuple[Value, ...]) -> ops.For | ops.While | None:
        """The loop that visits what ``simt.grid_stride`` visits, when the index is its counter."""
        if len(indices) != 1:
            return None
        op = self.definitions.get(indices[0])
        if isinstance(op, ops.For) and op.induction is indices[0]:
            exact = self._own_along(op.start, 1, 0) and self._product(op.step, "block_dim", "grid_dim", 0)
            return op if exact else None
        if isinstance(op, ops.While) and indices[0] in op.carried:
            return op if self._is_stride_while(op, indices[0]) else None
        return None

    def _is_stride_while(self, loop: ops.While, counter: Value) -> bool:
        place = loop.carried.index(counter)
        condition = loop.condition.terminator
        test = self.definitions.get(condition.value) if isinstance(condition, ops.Condition) else None
        if not (isinstance(test, ops.Compare) and test.kind == "lt" and test.left is counter):
            return False
        steps = [op for op in ops.walk(loop.body) if isinstance(op, ops.Continue)]
        if len(steps) != 1 or steps[0] is not loop.body.terminator or not self._own_along(loop.initial[place], 1, 0):
            return False
        following = steps[0].values[place]
        step = self.definitions.get(following)
        if not (isinstance(step, ops.Binary) and step.kind == "add" and step.left is counter):
            return False
        # The counter after its step, or after the loop, would be another number in a for statement.
        later = {following, loop.results_[place]}
        used = any(later & set(op.operands) for op in ops.walk(self._function.body) if op is not steps[0])
        return not used and self._product(step.right, "block_dim", "grid_dim", 0)

    # -- conditions

    def one_thread(self, op: Operation, of_block: bool) -> bool:
        """Whether conditions around `op` let through one thread: of each block, or of the launch."""
        fixed: set[_Part] = set()
        for condition in self._around(op, self._function.body):
            fixed |= set(self._fixed(condition))
        needed: set[_Part] = {("thread_index", axis) for axis in self.block_axes()}
        if not of_block:
            needed |= {("block_index", axis) for axis in range(3) if self.grid_may_exceed(axis)}
        return needed <= fixed

    def _around(self, op: Operation, region: Region) -> list[Value]:
        """Conditions that hold at `op`, as values."""
        for outer in region:
            for inner in outer.regions:
                if any(found is op for found in ops.walk(inner)):
                    here = [outer.condition] if isinstance(outer, ops.If) and inner is outer.then else []
                    return here + self._around(op, inner)
        return []

    def _fixed(self, condition: Value) -> Iterator[_Part]:
        """What the condition fixes to one number: parts of the thread's place."""
        op = self.definitions.get(condition)
        if isinstance(op, ops.If):  # `a and b`
            no = op.otherwise.terminator
            yes = op.then.terminator
            place = op.results_.index(condition)
            if isinstance(no, ops.Yield) and isinstance(yes, ops.Yield):
                other = self.definitions.get(no.values[place])
                if isinstance(other, ops.Constant) and other.value is False:
                    yield from self._fixed(op.condition)
                    yield from self._fixed(yes.values[place])
        elif isinstance(op, ops.Compare) and op.kind == "eq":
            for value, number in ((op.left, op.right), (op.right, op.left)):
                place_of = self._plain(value)
                if not isinstance(self._plain(number), ops.Constant):
                    continue
                if isinstance(place_of, ops.Geometry) and place_of.kind in ("thread_index", "block_index"):
                    yield place_of.kind, place_of.axis
                elif isinstance(place_of, ops.Coordinate) and isinstance(place_of.witness.type, Witness):
                    made = self.definitions.get(place_of.witness)
                    if isinstance(made, ops.GlobalIndex):
                        axis = place_of.witness.type.rank - 1 - place_of.axis
                        yield "thread_index", axis
                        yield "block_index", axis

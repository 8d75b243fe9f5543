"""Loops. A variable that a loop changes needs one type for all iterations, but a literal before the loop has none yet.

So a loop is compiled under an assumption about the forms of its variables; what the body then hands to the next
iteration is joined with what came in. If that gives other forms, the loop is compiled again with those. Most loops need
one pass; one with ``acc = 0.0`` before it needs two. Forms found once are remembered, so nesting does not multiply.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from abi import Scalar, i32, i64

from ..errors import Location, SyntaxError_, TypeError_, UnsupportedError
from ..ir import ops
from ..ir.ops import Operation, Region, Value
from ..ir.types import Witness
from ..language.functions import Intrinsic
from .bindings import (
    Binding,
    Branches,
    Clash,
    Form,
    Leaf,
    Literal,
    Number,
    ObjectBinding,
    TupleBinding,
    Unassigned,
    WitnessBinding,
    default_type,
    describe,
    escaping,
    form_of,
    same,
    values_of,
)
from .conversion import common, is_integer, literal_fits
from .core import Exit, Loop
from .statements import Statements

_ATTEMPTS = 10


def assigned_names(body: Sequence[ast.stmt]) -> list[str]:
    """Names that statements assign, in order of first appearance."""
    names = (n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return list(dict.fromkeys(names))


def _is_weak(form: Form) -> bool:
    if isinstance(form, Branches):
        return any(map(_is_weak, form.items))
    return isinstance(form, Leaf) and form.weak


def _own_jumps(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The ``break`` and ``continue`` statements that belong to a loop with this body."""
    for node in body:
        if isinstance(node, (ast.Break, ast.Continue)):
            yield node
        elif isinstance(node, ast.If):
            yield from _own_jumps([*node.body, *node.orelse])
        elif isinstance(node, ast.With):
            yield from _own_jumps(node.body)


class Loops(Statements):
    """``for`` and ``while``."""

    def stmt_for(self, node: ast.For) -> None:
        self._no_else(node)
        if not isinstance(node.target, ast.Name) and not isinstance(node.iter, (ast.Tuple, ast.Name)):
            raise self.unsupported(node.target, "a loop target other than a name")
        if isinstance(node.iter, ast.Call):
            callee = self.expression(node.iter.func)
            target = callee.object if isinstance(callee, ObjectBinding) else None
            if target is range:
                return self._for_range(node, node.iter)
            if isinstance(target, Intrinsic) and target.name == "grid_stride":
                return self._for_grid_stride(node, node.iter)
        elif isinstance(node.iter, (ast.Tuple, ast.Name, ast.Attribute)):
            items = self.expression(node.iter)
            if isinstance(items, TupleBinding):
                return self._for_tuple(node, items)
        raise self.error(
            UnsupportedError,
            node.iter,
            f"a loop over {ast.unparse(node.iter)} cannot be used in a kernel",
            "loop over range(...), simt.grid_stride(n), or a tuple",
        )

    def _no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.unsupported(node.orelse[0], "'else' of a loop", "set a flag in the loop and test it after")

    def _for_tuple(self, node: ast.For, items: TupleBinding) -> None:
        """A loop over a tuple is unrolled: each item may have a type of its own."""
        jump = next(_own_jumps(node.body), None)
        if jump is not None:
            raise self.unsupported(jump, "'break' or 'continue' in a loop over a tuple", "loop over range(...)")
        for item in items.items:
            self.store(node.target, item, node.iter)
            self.statements(node.body)
            if self.terminated:
                return

    # -- ranges

    def _for_range(self, node: ast.For, call: ast.Call) -> None:
        if call.keywords or not 1 <= len(call.args) <= 3:
            raise self.error(SyntaxError_, call, "range() takes one to three numbers")
        numbers = [(self.scalar(*self.pair(a)), a) for a in call.args]
        for number, place in numbers:
            integral = is_integer(number.type) if isinstance(number, Number) else type(number.value) is int
            if not integral:
                raise self.error(TypeError_, place, f"range() of {describe(number)}", "range() takes integers")
        type_ = self._range_type(numbers, call)
        if len(numbers) == 1:
            numbers = [(Literal(0), call.args[0]), *numbers]
        step = numbers[2] if len(numbers) == 3 else (Literal(1), call)
        self._check_step(step, type_)
        location = self.locate(call)
        start, stop = (self.convert(n, type_, place, "in range()") for n, place in numbers[:2])
        by = self.convert(step[0], type_, step[1], "as the step of range()")
        if isinstance(step[0], Number) and not self.frame.unsafe:
            zero = self.constant(0, type_, location)
            self.emit(ops.Assert(location, self.compare("ne", by, zero, location), "the step of range() is zero"))
        induction = Value(type_)
        direction = 0 if isinstance(step[0], Number) else 1 if step[0].value > 0 else -1
        self._counted(node, induction, (start, stop, by), direction, lambda: Number(induction))

    def _range_type(self, numbers: Sequence[tuple[Literal | Number, ast.expr]], call: ast.Call) -> Scalar:
        """The common type of the bounds; i32 when all are literals, or i64 when one does not fit."""
        strong = [n.type for n, _ in numbers if isinstance(n, Number) and not n.weak]
        if not strong:
            types = [default_type(n.value) if isinstance(n, Literal) else n.type for n, _ in numbers]
            return i64 if i64 in types else i32
        found = strong[0]
        for other in strong[1:]:
            joint = common(found, other)
            if joint is None:
                raise self.error(TypeError_, call, f"range() mixes {found} and {other}", f"write io.{found}(...)")
            found = joint
        return found

    def _check_step(self, step: tuple[Literal | Number, ast.expr], type_: Scalar) -> None:
        number, place = step
        if isinstance(number, Literal):
            if number.value == 0:
                raise self.error(TypeError_, place, "the step of range() is zero")
            if number.value < 0 and not literal_fits(number.value, type_):
                raise self.error(
                    TypeError_, place, f"a range of {type_} cannot count down", "use signed bounds: io.i64(...)"
                )

    def _for_grid_stride(self, node: ast.For, call: ast.Call) -> None:
        """Each thread takes every n-th index, n being the number of threads: each index belongs to one thread."""
        if call.keywords or len(call.args) != 1:
            raise self.error(SyntaxError_, call, "simt.grid_stride() takes one number: how many indices there are")
        location = self.locate(call)
        stop = self.convert(self.expression(call.args[0]), i64, call.args[0], "in simt.grid_stride()")
        witness = WitnessBinding(Value(Witness(1)))
        self.emit(ops.GlobalIndex(location, witness.value))
        start = self.coordinate(witness, 0, location)
        step = self.binary("mul", self.geometry("grid_dim", 0, call), self.geometry("block_dim", 0, call), location)
        induction = Value(i64)

        def owned() -> Binding:
            value = Value(Witness(1))
            self.emit(ops.StrideIndex(location, value, induction))
            return WitnessBinding(value)

        self._counted(node, induction, (start, stop, step), 1, owned)

    def _counted(
        self,
        node: ast.For,
        induction: Value,
        bounds: tuple[Value, Value, Value],
        direction: int,
        target: Callable[[], Binding],
    ) -> None:
        def build(carried: list[Value]) -> tuple[Region, ...]:
            self.store(node.target, target(), node.iter)
            self.statements(node.body)
            return ()

        def operation(
            results: tuple[Value, ...],
            carried: tuple[Value, ...],
            initial: tuple[Value, ...],
            regions: tuple[Region, ...],
        ) -> Operation:
            location = self.locate(node.iter)
            return ops.For(location, results, induction, carried, *bounds, initial, direction, regions[0])

        self._loop(node, build, operation, endless=False)

    # -- while

    def stmt_while(self, node: ast.While) -> None:
        self._no_else(node)
        constant = isinstance(node.test, ast.Constant) and bool(node.test.value)

        def build(carried: list[Value]) -> tuple[Region, ...]:
            location = self.locate(node.test)
            body, self.block = self.block, []
            test = self.condition(self.expression(node.test), node.test)
            self.emit(ops.Condition(location, self.concrete(test, node.test).value))
            condition, self.block = Region(tuple(self.block)), body
            self.statements(node.body)
            return (condition,)

        def operation(
            results: tuple[Value, ...],
            carried: tuple[Value, ...],
            initial: tuple[Value, ...],
            regions: tuple[Region, ...],
        ) -> Operation:
            return ops.While(self.locate(node.test), results, carried, initial, regions[1], regions[0])

        self._loop(node, build, operation, endless=constant)

    def stmt_break(self, node: ast.Break) -> None:
        loop, location = self.frame.loops[-1], self.locate(node)
        loop.breaks.append(self.exit())
        values = self.hand_over(self.block, self._padded(loop), {**loop.forms, **loop.extra}, location, loop.misfits)
        self.emit(ops.Break(location, values))

    def _padded(self, loop: Loop) -> dict[str, Binding]:
        """The variables; one that an earlier pass found at every break may be missing in this pass."""
        return {**{name: Unassigned(None) for name in loop.extra}, **self.frame.variables}

    def stmt_continue(self, node: ast.Continue) -> None:
        self._next_iteration(self.locate(node))

    def _next_iteration(self, location: Location) -> None:
        loop = self.frame.loops[-1]
        loop.continues.append(self.exit())
        values = self.hand_over(self.block, self.frame.variables, loop.forms, location, loop.misfits)
        self.emit(ops.Continue(location, values))

    # -- the search for forms

    def _loop(
        self,
        node: ast.For | ast.While,
        build: Callable[[list[Value]], tuple[Region, ...]],
        operation: Callable[..., Operation],
        endless: bool,
    ) -> None:
        frame = self.frame
        entry = self.exit()
        changed = assigned_names([node])
        names = [n for n in changed if not isinstance(entry.variables.get(n, Unassigned(None)), (Unassigned, Clash))]
        first = {n: form_of(entry.variables[n]) for n in names}
        key = (id(node), frame.path, tuple(first.items()))
        forms, extra = self.settled.get(key, (first, {}))
        for _ in range(_ATTEMPTS):
            loop = Loop(forms, extra)
            mark = (len(frame.returns), self.dynamic_shared)
            carried, regions = self._body(loop, entry, changed, build, self.locate(node))
            found, found_extra = self._joined(loop, entry, changed, node, endless)
            if found == forms and found_extra == extra and not any(map(_is_weak, forms.values())):
                break
            forms, extra = found, found_extra
            del frame.returns[mark[0] :]
            self.dynamic_shared = mark[1]
        else:
            raise self.error(
                TypeError_, node, "the types of the loop's variables do not settle", "annotate them: x: io.f32 = 0"
            )
        if loop.misfits:
            raise self.misfit(loop.misfits[0])
        if not any(isinstance(f, Clash) for f in forms.values()):
            self.settled[key] = (forms, extra)
        self._finish_loop(node, loop, entry, changed, carried, regions, operation, endless)

    def _body(
        self,
        loop: Loop,
        entry: Exit,
        changed: list[str],
        build: Callable[[list[Value]], tuple[Region, ...]],
        location: Location,
    ) -> tuple[list[Value], tuple[Region, ...]]:
        """Compiles the body once under the loop's assumption."""
        frame = self.frame
        carried = [v for form in loop.forms.values() for v in self.fresh(form)]
        frame.variables = {n: b for n, b in entry.variables.items() if n not in changed or isinstance(b, Clash)}
        frame.assigned_at = dict(entry.assigned_at)
        self.adopt(loop.forms, carried)
        loop.arguments = {name: frame.variables[name] for name in loop.forms}
        outer, self.block = self.block, []
        frame.loops.append(loop)
        head = build(carried)
        if not self.terminated:
            self._next_iteration(location)
        frame.loops.pop()
        body, self.block = self.finish(self.block, location), outer
        return carried, (body, *head)

    def _joined(
        self, loop: Loop, entry: Exit, changed: list[str], node: ast.stmt, endless: bool
    ) -> tuple[dict[str, Form], dict[str, Form]]:
        """The forms that the loop's variables have on all ways round and out, and those first assigned inside."""
        forms: dict[str, Form] = {}
        for name, assumed in loop.forms.items():
            exits = [
                entry,
                *(e for e in (*loop.continues, *loop.breaks) if not same(e.variables[name], loop.arguments[name])),
            ]
            bindings = [e.variables[name] for e in exits]
            bad = next((b for b in bindings if isinstance(b, (Unassigned, Clash))), None)
            if isinstance(assumed, Clash) or isinstance(bad, Clash):
                forms[name] = assumed if isinstance(assumed, Clash) else bad  # type: ignore[assignment]
            elif bad is not None:
                forms[name] = Clash("assigned", "unassigned", entry.assigned_at.get(name), None)
            else:
                forms[name] = self.join(bindings, [e.assigned_at.get(name) for e in exits], in_loop=True)
        extra: dict[str, Form] = {}
        if endless and loop.breaks:
            used = self._names_read_outside(node)
            outside = {v for b in entry.variables.values() for v in values_of(b)}
            for name in changed:
                bindings = [e.variables.get(name, Unassigned(None)) for e in loop.breaks]
                if name in forms or name not in used or any(isinstance(b, (Unassigned, Clash)) for b in bindings):
                    continue
                form = self.join(bindings, [e.assigned_at.get(name) for e in loop.breaks], in_loop=True)
                extra[name] = escaping(form, outside)
        return forms, extra

    def _names_read_outside(self, node: ast.stmt) -> set[str]:
        inside = set(map(id, ast.walk(node)))
        return {
            n.id
            for n in ast.walk(self.frame.source.tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in inside
        }

    def _finish_loop(
        self,
        node: ast.stmt,
        loop: Loop,
        entry: Exit,
        changed: list[str],
        carried: list[Value],
        regions: tuple[Region, ...],
        operation: Callable[..., Operation],
        endless: bool,
    ) -> None:
        location = self.locate(node)
        initial = self.hand_over(self.block, entry.variables, loop.forms, location)
        inside = dict(self.frame.assigned_at)
        results = [v for form in (*loop.forms.values(), *loop.extra.values()) for v in self.fresh(form)]
        self.emit(operation(tuple(results), tuple(carried), initial, regions))
        if endless and not loop.breaks:
            self.emit(ops.Unreachable(location))
        self.frame.variables = {n: b for n, b in entry.variables.items() if n not in changed or isinstance(b, Clash)}
        self.frame.assigned_at = {**inside, **entry.assigned_at}
        for name in changed:
            if name not in loop.forms and name not in loop.extra and name not in self.frame.variables:
                self.frame.variables[name] = Unassigned(inside.get(name))
        self.adopt({**loop.forms, **loop.extra}, results)

"""The IR as text, for people and golden tests.

::

    kernel saxpy(%x: slice<f32>, %y: disjoint slice<f32>, %a: f32) {
      %i = global_index : witness<1>
      ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .ops import Constant, For, Function, If, Operation, Region, Scope, Terminator, Value, While


class _Names:
    """Short unique names for values: the variable's own, numbered when it has several values."""

    def __init__(self, hints: Mapping[Value, str]) -> None:
        self._hints = hints
        self._names: dict[Value, str] = {}
        self._count: dict[str, int] = {}

    def __call__(self, value: Value) -> str:
        if value not in self._names:
            base = self._hints.get(value, "")
            number = self._count.get(base, 0)
            self._count[base] = number + 1
            self._names[value] = f"%{base}.{number}" if base and number else f"%{base or number}"
        return self._names[value]


def _list(names: _Names, values: tuple[Value, ...]) -> str:
    return ", ".join(map(names, values))


def _typed(names: _Names, values: tuple[Value, ...]) -> str:
    return ", ".join(f"{names(v)}: {v.type}" for v in values)


def _inits(names: _Names, carried: tuple[Value, ...], initial: tuple[Value, ...]) -> str:
    pairs = zip(carried, initial, strict=True)
    return "(" + ", ".join(f"{names(c)}: {c.type} = {names(i)}" for c, i in pairs) + ")"


def _plain(names: _Names, op: Operation) -> str:
    word = type(op).__name__.lower()
    parts = [str(v) for k, v in op.attributes.items() if k not in ("checked", "message")]
    text = " ".join([word, *parts])
    if op.operands:
        text += " " + _list(names, op.operands)
    if op.attributes.get("checked") is False:
        text += " unchecked"
    if "message" in op.attributes:
        text += f" {op.attributes['message']!r}"
    if isinstance(op, Constant):
        text = f"constant {op.value!r}"
    if not op.results:
        return text
    return f"{_list(names, op.results)} = {text} : {', '.join(str(r.type) for r in op.results)}"


def _region(names: _Names, region: Region, indent: str) -> Iterator[str]:
    for op in region:
        yield from _operation(names, op, indent)


def _operation(names: _Names, op: Operation, indent: str) -> Iterator[str]:
    left = f"{_typed(names, op.results)} = " if op.results and op.regions else ""
    inner = indent + "  "
    if isinstance(op, If):
        yield f"{indent}{left}if {names(op.condition)} {{"
        yield from _region(names, op.then, inner)
        yield f"{indent}}} else {{"
        yield from _region(names, op.otherwise, inner)
    elif isinstance(op, For):
        bounds = f"range({names(op.start)}, {names(op.stop)}, {names(op.step)})"
        head = f"for {names(op.induction)}: {op.induction.type} in {bounds} {_inits(names, op.carried, op.initial)}"
        yield f"{indent}{left}{head} {{"
        yield from _region(names, op.body, inner)
    elif isinstance(op, While):
        yield f"{indent}{left}while {_inits(names, op.carried, op.initial)} {{"
        yield from _region(names, op.condition, inner)
        yield f"{indent}}} do {{"
        yield from _region(names, op.body, inner)
    elif isinstance(op, Scope):
        yield f"{indent}{left}scope {op.name} {{"
        yield from _region(names, op.body, inner)
    else:
        yield indent + _plain(names, op)
        return
    yield indent + "}"


def print_function(function: Function) -> str:
    """The text of `function`."""
    names = _Names(function.names)
    parameters = ", ".join(
        f"{names(p.value)}: {'disjoint ' if p.disjoint else 'out ' if p.writable else ''}{p.value.type}"
        for p in function.parameters
    )
    lines = [f"kernel {function.name}({parameters}) {{"]
    lines += [f"  assume {rule.text}" for rule in function.assumptions]
    lines += _region(names, function.body, "  ")
    return "\n".join([*lines, "}"]) + "\n"


def print_operation(operation: Operation) -> str:
    """One operation's text, without its regions; for messages of the verifier."""
    names = _Names({})
    kind = type(operation).__name__.lower()
    return kind if operation.regions or isinstance(operation, Terminator) else _plain(names, operation)

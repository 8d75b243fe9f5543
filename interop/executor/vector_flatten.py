"""The vector path, first step: a kernel and all that it calls as one flat list with unique names.

Scopes disappear, calls become the callee's statements, and the ``.param`` variables that carry arguments become
registers where every access of theirs has a fixed place and size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from interop.ptx import Function, Instruction, Module, Variable, ast

from .analysis import callee, names_in
from .device_functions import BUILTINS
from .scopes import Scope
from .special import is_special

LIMIT = 60_000
"""Instructions of a flattened kernel; a larger one is left to the one-lane path."""


_OPERANDS = {
    **dict.fromkeys(("ld", "ldu", "st", "mov", "cvta", "cvt", "red", "brx", "elect"), 2),
    **dict.fromkeys(("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "atom", "vote", "match", "redux"), 3),
    **dict.fromkeys(("mad", "selp", "slct"), 4),
    "shfl": 5,
    "bra": 1,
}
"""How many operands the analysis takes for granted."""


class Unsuitable(Exception):
    """The kernel is one for the one-lane path; the message says why."""


@dataclass
class Flat:
    """A flattened kernel."""

    function: Function
    items: list[ast.Label | Instruction] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # unique name to PTX type
    variables: dict[str, Variable] = field(default_factory=dict)  # unique name to .shared, .local or .param variable
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    origins: dict[str, tuple[Function, str]] = field(default_factory=dict)  # of registers: where, and called what


@dataclass
class _Scope:
    """A scope being flattened: what it declares, and what its names get appended."""

    scope: Scope
    suffix: str
    bound: dict[str, str] = field(default_factory=dict)  # a callee's parameters, by the caller's unique names


def flatten(module: Module, kernel: Function) -> Flat:
    """`kernel` as one list. :class:`Unsuitable` when it calls itself, calls through a pointer, or grows too large."""
    flattener = _Flattener(module, kernel)
    flattener.body(kernel, {}, "", ())
    _registers_for_params(flattener.flat)
    return flattener.flat


class _Flattener:
    def __init__(self, module: Module, kernel: Function) -> None:
        self._module = module
        self.flat = Flat(kernel)
        self._count = 0
        self._scopes: list[_Scope] = []
        self._known: dict[str, str] = {}
        self._leave = ""
        self._callers: tuple[str, ...] = ()
        self._function = kernel

    def _fresh(self) -> str:
        self._count += 1
        return f"~{self._count}"

    def body(self, function: Function, bound: dict[str, str], suffix: str, callers: tuple[str, ...]) -> None:
        """Adds a function's statements; its parameters are `bound` to names of the caller."""
        outer = self._scopes, self._known, self._leave, self._callers, self._function
        self._function = function
        self._scopes, self._known = [_Scope(Scope(), suffix, bound)], {}
        self._leave = f"leave{suffix}" if callers else ""
        self._callers = (*callers, function.name)
        if not callers:
            self._scopes[0].bound.update({p.name: p.name for p in function.params})
            self.flat.variables.update({p.name: p for p in function.params})
        self._statements(function.body or ())
        if self._leave:
            self.flat.items.append(ast.Label(self._leave))
        self._scopes, self._known, self._leave, self._callers, self._function = outer

    def _statements(self, statements: Sequence[ast.Statement]) -> None:
        scope = self._scopes[-1]
        for statement in statements:
            if isinstance(statement, ast.Label):
                scope.bound[statement.name] = statement.name + scope.suffix
        for statement in statements:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, ast.Label):
                self.flat.items.append(ast.Label(scope.bound[statement.name], statement.line))
            elif isinstance(statement, ast.Registers):
                self._known = {}
                single = scope.scope.declare(statement)
                if single:
                    scope.bound[single[0]] = single[0] + scope.suffix
                    self.flat.registers[single[0] + scope.suffix] = single[1]
            elif isinstance(statement, Variable):
                self._known = {}
                scope.bound[statement.name] = statement.name + scope.suffix
                self.flat.variables[statement.name + scope.suffix] = statement
            elif isinstance(statement, ast.Block):
                known, self._known = self._known, {}
                self._scopes.append(_Scope(Scope(), self._fresh()))
                self._statements(statement.statements)
                self._scopes.pop()
                self._known = known
            elif isinstance(statement, ast.Targets) and statement.kind == "branchtargets":
                scope.bound[statement.name] = statement.name + scope.suffix
                labels = tuple(self._name(label) for label in statement.labels)
                self.flat.targets[statement.name + scope.suffix] = labels

    # ---- names ----

    def _name(self, name: str) -> str:
        """The unique name of what `name` means here; of registers the type is noted."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._resolve(name)
        return known

    def _resolve(self, name: str) -> str:
        for scope in reversed(self._scopes):
            bound = scope.bound.get(name)
            if bound is not None:
                if bound in self.flat.registers:
                    self.flat.origins.setdefault(bound, (self._function, name))
                return bound
            type_ = scope.scope.family_type(name)
            if type_ is not None:
                self.flat.registers[name + scope.suffix] = type_
                self.flat.origins[name + scope.suffix] = (self._function, name)
                return name + scope.suffix
        if is_special(name) or name == "_":
            return name
        if self._module.function(name) is not None:
            raise Unsuitable(f"it uses the address of the function {name}")
        return name

    def _operand(self, operand: ast.Operand) -> ast.Operand:
        """The operand with unique names; the same object where none changes."""
        if isinstance(operand, ast.Name):
            name = self._name(operand.text)
            return operand if name == operand.text else ast.Name(name)
        if isinstance(operand, (ast.Offset, ast.Not, ast.Generic)):
            base = self._operand(operand.base)
            return operand if base is operand.base else replace(operand, base=base)
        if isinstance(operand, ast.Pair):
            return ast.Pair(self._operand(operand.first), self._operand(operand.second))
        if isinstance(operand, (ast.Address, ast.Vector, ast.Group)):
            items = tuple(map(self._operand, operand.items))
            same = all(a is b for a, b in zip(items, operand.items))
            return operand if same else replace(operand, items=items)
        return operand

    # ---- instructions ----

    def _instruction(self, i: Instruction) -> None:
        if len(self.flat.items) > LIMIT:
            raise Unsuitable(f"it has more than {LIMIT} instructions")
        if len(i.operands) < _OPERANDS.get(i.opcode, 0) or (i.has("warp") and not i.operands):
            raise Unsuitable(f"`{i.name}` lacks operands")  # the one-lane path says what is wrong
        if i.guard is not None:
            register = self._name(i.guard.register)
            if register != i.guard.register:
                i = replace(i, guard=ast.Guard(register, i.guard.negated))
        if i.opcode == "call":
            self._call(i)
        elif i.opcode == "ret" and self._leave:
            self.flat.items.append(replace(i, opcode="bra", modifiers=(), operands=(ast.Name(self._leave),)))
        else:
            operands = tuple(map(self._operand, i.operands))
            changed = any(a is not b for a, b in zip(operands, i.operands))
            self.flat.items.append(replace(i, operands=operands) if changed else i)

    def _call(self, i: Instruction) -> None:
        name = callee(i)
        if name is None:
            raise Unsuitable("it calls a function through a pointer")
        function = self._module.function(name)
        if function is None or function.parse_body is None:
            if name not in BUILTINS:  # these are called for one lane after the other
                raise Unsuitable(f"it calls {name}")
            operands = tuple(self._operand(o) if isinstance(o, ast.Group) else o for o in i.operands)
            self.flat.items.append(replace(i, operands=operands))
            return
        if name in self._callers:
            raise Unsuitable(f"{name} calls itself")
        groups = [o.items if isinstance(o, ast.Group) else None for o in i.operands]
        position = next(k for k, g in enumerate(groups) if g is None)
        results = groups[0] if position == 1 and groups[0] is not None else ()
        arguments = groups[position + 1] if len(groups) > position + 1 else ()
        if arguments is None or len(arguments) != len(function.params) or len(results) != len(function.results):
            raise Unsuitable(f"a call of {name} does not fit its declaration")
        self._inline(i, function, arguments, results)

    def _inline(
        self, i: Instruction, function: Function, arguments: Sequence[ast.Operand], results: Sequence[ast.Operand]
    ) -> None:
        suffix = self._fresh()
        behind = f"called{suffix}"
        if i.guard is not None:
            over = ast.Guard(i.guard.register, not i.guard.negated)
            self.flat.items.append(replace(i, opcode="bra", modifiers=(), operands=(ast.Name(behind),), guard=over))
        bound: dict[str, str] = {}
        for variable, operand in zip(function.params, arguments):
            operand = self._operand(operand)
            if isinstance(operand, ast.Name) and operand.text in self.flat.variables:
                bound[variable.name] = operand.text
            else:
                self._move_in(i, variable, operand, bound, suffix)
        late: list[tuple[ast.Operand, Variable]] = []
        for variable, operand in zip(function.results, results):
            operand = self._operand(operand)
            if isinstance(operand, ast.Name) and operand.text in self.flat.variables:
                bound[variable.name] = operand.text
            else:
                self._declare(variable, bound, suffix)
                late.append((operand, variable))
        self.body(function, bound, suffix, self._callers)
        for operand, variable in late:
            self._transfer(i, operand, ast.Name(bound[variable.name]), variable, load=True)
        if i.guard is not None:
            self.flat.items.append(ast.Label(behind))

    def _declare(self, variable: Variable, bound: dict[str, str], suffix: str) -> str:
        name = bound[variable.name] = variable.name + suffix
        if variable.space == "reg":
            self.flat.registers[name] = variable.type
        else:
            self.flat.variables[name] = variable
        return name

    def _move_in(
        self, i: Instruction, variable: Variable, operand: ast.Operand, bound: dict[str, str], suffix: str
    ) -> None:
        """An argument that is a register or a constant."""
        name = self._declare(variable, bound, suffix)
        self._transfer(i, ast.Name(name), operand, variable, load=False)

    def _transfer(
        self, i: Instruction, target: ast.Operand, source: ast.Operand, variable: Variable, *, load: bool
    ) -> None:
        if variable.space == "reg":
            new = Instruction("mov", (variable.type,), (target, source))
        elif load:
            new = Instruction("ld", ("param", variable.type), (target, ast.Address((source,))))
        else:
            new = Instruction("st", ("param", variable.type), (ast.Address((target,)), source))
        self.flat.items.append(replace(new, line=i.line, source_line=i.source_line, source_file=i.source_file))


# ---- .param variables as registers ----


@dataclass(frozen=True)
class _Access:
    """One ``ld.param`` or ``st.param`` of a variable at a fixed place."""

    name: str
    offset: int
    bits: int
    count: int


def _fixed(i: Instruction, variables: dict[str, Variable]) -> _Access | None:
    """What an access of a ``.param`` variable touches; None when the instruction is no such access."""
    if i.opcode not in ("ld", "st") or not i.has("param", "param::func"):
        return None
    address = i.operands[1 if i.opcode == "ld" else 0]
    base, offset = (address.base, 0) if isinstance(address, ast.Address) else (address, 0)
    while isinstance(base, ast.Offset):
        offset += base.offset
        base = base.base
    type_ = i.modifiers[-1]
    if not isinstance(base, ast.Name) or base.text not in variables or type_ not in ast.TYPE_BITS:
        return None
    count = next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
    return _Access(base.text, offset, ast.TYPE_BITS[type_], count)


def _registers_for_params(flat: Flat) -> None:
    """Replaces the ``.param`` variables of calls by registers, one for each place that is accessed."""
    candidates = {n: v for n, v in flat.variables.items() if v.space == "param" and v not in flat.function.params}
    if not candidates:
        return
    places: dict[str, dict[int, int]] = {name: {} for name in candidates}
    for item in flat.items:
        if not isinstance(item, Instruction):
            continue
        access = _fixed(item, candidates)
        if access is None:
            for operand in item.operands:
                for name in names_in(operand):
                    places.pop(name, None)
            continue
        found = places.get(access.name)
        if found is None:
            continue
        for k in range(access.count):
            at = access.offset + k * access.bits // 8
            if access.bits not in (16, 32, 64) or found.setdefault(at, access.bits) != access.bits:
                places.pop(access.name, None)
                break
    for name in [n for n, found in places.items() if _overlap(found)]:
        del places[name]

    def register(access: _Access, k: int) -> str:
        name = f"{access.name}@{access.offset + k * access.bits // 8}"
        flat.registers[name] = f"b{access.bits}"
        return name

    flat.items = [
        new
        for item in flat.items
        for new in (_moves(item, candidates, places, register) if isinstance(item, Instruction) else (item,))
    ]


def _overlap(found: dict[int, int]) -> bool:
    end = 0
    for at in sorted(found):
        if at < end:
            return True
        end = at + found[at] // 8
    return False


def _moves(
    i: Instruction,
    candidates: dict[str, Variable],
    places: dict[str, dict[int, int]],
    register: Callable[[_Access, int], str],
) -> list[Instruction]:
    access = _fixed(i, candidates)
    if access is None or access.name not in places:
        return [i]
    outside = i.operands[0 if i.opcode == "ld" else 1]
    items = outside.items if isinstance(outside, ast.Vector) else (outside,)
    moves = []
    for k, item in enumerate(items):
        inside = ast.Name(register(access, k))
        operands = (item, inside) if i.opcode == "ld" else (inside, item)
        moves.append(replace(i, opcode="mov", modifiers=(f"b{access.bits}",), operands=operands))
    return moves

"""What must be known of a kernel before it is translated: what it reaches, whether its threads wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from abi import SymbolNotFound, UnsupportedError
from interop.ptx import Function, Instruction, Module, Variable, ast

from . import nans
from .errors import unsupported
from .opcodes import REFUSED_FORMS, why_refused
from .pointers import address_taken, call_target, is_indirect, reachable_by
from .spin import yielding_branches

if TYPE_CHECKING:
    from .bounds import Checks
    from .modifiers import Modifiers

Handler = Callable[[Any, Instruction, "Modifiers"], None]

_WARP = {"shfl", "vote", "match", "redux", "activemask", "elect"}
_MATRIX = {"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"}
_BARRIERS = {"bar", "barrier"}
# A loop over the threads may be vectorised only where no thread looks at what another does meanwhile.
_ORDERED = {
    "atom", "red", "membar", "fence", "call", "alloca", "stacksave", "stackrestore", "cp", "mbarrier", "nanosleep"
}  # fmt: skip
_STRONG = {"volatile", "relaxed", "acquire", "release", "mmio"}


@dataclass
class Plan:
    """How one kernel is translated."""

    module: Module
    function: Function
    table: dict[str, Handler] = field(repr=False)
    lanes: int = 1
    exact_block: tuple[int, int, int] | None = None
    reachable: tuple[Function, ...] = ()
    taken: tuple[Function, ...] = ()  # functions that indirect calls may reach
    inlined: frozenset[str] = frozenset()  # functions that are written into their callers, because they may suspend
    recursive: frozenset[str] = frozenset()  # functions that may come to call themselves
    nested: frozenset[str] = frozenset()  # functions that are coroutines of their own: they may suspend and recur
    coroutine: bool = False
    spins: bool = False
    yields: frozenset[int] = frozenset()  # id() of branches in front of which a waiting thread lets others run
    independent: bool = False
    own_memory: bool = False  # a computed address may be one of memory that belongs to a thread
    strict_copies: bool = False  # cp.async is done when it is waited for, not before
    checks: Checks = field(kw_only=True, repr=False)


def instructions(statements: Sequence[ast.Statement]) -> Iterator[Instruction]:
    """All instructions, those in nested scopes included, in the order of the text."""
    stack = [iter(statements)]
    while stack:
        for statement in stack[-1]:
            if isinstance(statement, Instruction):
                yield statement
            elif isinstance(statement, ast.Block):
                stack.append(iter(statement.statements))
                break
        else:
            stack.pop()


def behind_traps(statements: Sequence[ast.Statement]) -> Iterator[int]:
    """id() of each instruction that stands right behind an unconditional trap, as LLVM's `exit` does: it never runs."""
    trapped = False
    for statement in statements:
        if isinstance(statement, ast.Block):
            yield from behind_traps(statement.statements)
        if isinstance(statement, Instruction) and trapped:
            yield id(statement)
        trapped = isinstance(statement, Instruction) and statement.opcode == "trap" and statement.guard is None


def variables(statements: Sequence[ast.Statement]) -> Iterator[Variable]:
    """All variables declared in a body."""
    for statement in statements:
        if isinstance(statement, Variable):
            yield statement
        elif isinstance(statement, ast.Block):
            yield from variables(statement.statements)


def callee(instruction: Instruction) -> str | None:
    """The function that a ``call`` names; None for an indirect call."""
    target = instruction.operands[call_target(instruction)] if instruction.operands else None
    return target.text if isinstance(target, ast.Name) and not is_indirect(instruction) else None


def names_in(operand: ast.Operand) -> Iterator[str]:
    """All names in an operand."""
    if isinstance(operand, ast.Name):
        yield operand.text
    elif isinstance(operand, (ast.Offset, ast.Generic, ast.Masked, ast.Not, ast.Minus)):
        yield from names_in(operand.base)
    elif isinstance(operand, ast.Pair):
        yield from names_in(operand.first)
        yield from names_in(operand.second)
    elif isinstance(operand, (ast.Address, ast.Vector, ast.Group)):
        for item in operand.items:
            yield from names_in(item)


def find_kernel(module: Module, symbol: str) -> Function:
    """The kernel called `symbol`."""
    kernel = module.entries.get(symbol)
    if kernel is None:
        known = ", ".join(module.entries) or "none"
        raise SymbolNotFound(f"the PTX has no kernel '{symbol}'; its kernels: {known}")
    return kernel


def _shapes(statements: Sequence[ast.Statement]) -> Iterator[ast.Prototype | ast.Targets]:
    """All prototypes and lists of targets in a body. Lists of labels among them name no functions."""
    for statement in statements:
        if isinstance(statement, ast.Block):
            yield from _shapes(statement.statements)
        elif isinstance(statement, (ast.Prototype, ast.Targets)):
            yield statement


def _reachable(module: Module, kernel: Function) -> tuple[dict[str, set[str]], tuple[Function, ...]]:
    """The call graph from the kernel on: function name to the defined functions that it calls; and the functions whose
    addresses may be called, where there are indirect calls."""
    graph: dict[str, set[str]] = {}
    taken: tuple[Function, ...] | None = None
    pending = [kernel]
    while pending:
        function = pending.pop()
        if function.name in graph:
            continue
        called = graph[function.name] = set()
        calls = [i for i in instructions(function.body or ()) if i.opcode == "call"]
        targets = [module.function(callee(i) or "") for i in calls]
        if any(is_indirect(i) for i in calls):
            if taken is None:  # any kernel of the text may have put an address where this one reads it
                taken = address_taken(module, (i for f in module.functions for i in instructions(f.body or ())))
            targets += [f for shape in _shapes(function.body or ()) for f in reachable_by(shape, taken)]
        for target in targets:
            if target is not None and target.parse_body is not None:
                called.add(target.name)
                pending.append(target)
    return graph, taken or ()


def _called(graph: dict[str, set[str]], name: str) -> set[str]:
    """The functions that `name` calls, directly or not."""
    found: set[str] = set()
    pending = list(graph[name])
    while pending:
        called = pending.pop()
        if called not in found:
            found.add(called)
            pending += graph[called]
    return found


def _suspends(instruction: Instruction) -> bool:
    if instruction.opcode in _BARRIERS:
        return True
    return instruction.opcode in _WARP or instruction.opcode in _MATRIX


def _refuse(body: Sequence[Instruction]) -> None:
    """Raises for a form that is refused of an opcode which has a translation otherwise."""
    for instruction in body:
        if instruction.opcode in REFUSED_FORMS and why_refused(instruction.name, form=True):
            raise unsupported(instruction)


def plan_kernel(module: Module, symbol: str, table: dict[str, Handler], checks: bool = True) -> Plan:
    """Looks at everything that the kernel reaches; for one lane."""
    from .bounds import Checks

    if module.address_size != 64:
        raise UnsupportedError(f"the PTX has addresses of {module.address_size} bits; the CPU device takes 64")
    module = nans.mend(module)
    kernel = find_kernel(module, symbol)
    graph, taken = _reachable(module, kernel)
    functions = [module.function(name) if name != symbol else kernel for name in graph]
    bodies = {f.name: list(instructions(f.body or ())) for f in functions if f is not None}
    for body in bodies.values():
        _refuse(body)
    yields = {name: yielding_branches(f.body or ()) for name, f in ((f.name, f) for f in functions if f is not None)}
    dead = {k for f in functions if f is not None for k in behind_traps(f.body or ())}
    # A thread leaves the kernel by `exit` wherever it stands, so such functions are written into their callers, too.
    waiting = {
        name
        for name, body in bodies.items()
        if yields[name]
        or any(_suspends(i) or (i.opcode == "exit" and name != symbol and id(i) not in dead) for i in body)
    }
    grown = True
    while grown:
        more = {name for name, called in graph.items() if called & waiting} - waiting
        grown = bool(more)
        waiting |= more
    recursive = frozenset(name for name in graph if name in _called(graph, name))
    # Functions that call themselves and may end the thread are coroutines, which only a coroutine can wait for.
    coroutine = any(yields.values()) or any(_suspends(i) for body in bodies.values() for i in body)
    coroutine = coroutine or bool(waiting & recursive)
    block = kernel.directive("reqntid")
    reachable = tuple(f for f in functions if f is not None)
    return Plan(
        module,
        kernel,
        table,
        1,
        (*block, *(1,) * (3 - len(block)))[:3] if block else None,  # type: ignore[arg-type]
        reachable,
        taken,
        frozenset(waiting - recursive - {symbol}),
        recursive,
        frozenset(waiting & recursive),
        coroutine,
        any(yields.values()),
        frozenset(branch for found in yields.values() for branch in found),
        not coroutine and _independent(kernel, bodies[symbol]),
        any(_has_own_memory(f) for f in functions if f is not None),
        checks=Checks(checks, module, kernel, reachable),
    )


def _has_own_memory(function: Function) -> bool:
    body = function.body or ()
    return any(v.space in ("local", "param") for v in variables(body)) or any(
        i.opcode == "alloca" for i in instructions(body)
    )


def _independent(kernel: Function, body: Sequence[Instruction]) -> bool:
    """Whether one thread's memory accesses may be taken as independent of any other's in the block.

    Weak accesses of two threads to one place are a race in PTX without a barrier between them. A variable in local
    memory, though, is one place that all iterations of the loop over the threads use in turn.
    """
    if any(v.space == "local" for v in variables(kernel.body or ())):
        return False
    return not any(i.opcode in _ORDERED or i.has(*_STRONG) for i in body)

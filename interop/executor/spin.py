"""Loops in which a thread waits for another through memory: a spin lock, a flag that is polled.

Threads of a block share one operating-system thread here, so such a loop must let the others run. A loop spins if a
condition that leaves it depends on an atomic or a strong load in the loop. A compare-and-swap retry whose expected
value is read anew in each round makes progress by itself and does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from interop.ptx import Instruction, ast

from .graph import components

_STRONG = {"volatile", "relaxed", "acquire", "mmio"}


@dataclass
class _Node:
    """A basic block: its instructions and the blocks that may follow."""

    index: int
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)


def _registers(operand: ast.Operand) -> set[str]:
    if isinstance(operand, ast.Name):
        return {operand.text}
    if isinstance(operand, (ast.Offset, ast.Not)):
        return _registers(operand.base)
    if isinstance(operand, ast.Pair):
        return _registers(operand.first) | _registers(operand.second)
    if isinstance(operand, (ast.Address, ast.Vector, ast.Group)):
        return set().union(*map(_registers, operand.items)) if operand.items else set()
    return set()


_NO_RESULT = {"st", "red", "bra", "brx", "bar", "barrier", "ret", "exit", "membar", "fence", "trap", "prefetch"}


def _defines(instruction: Instruction) -> set[str]:
    if instruction.opcode in _NO_RESULT or not instruction.operands:
        return set()
    return _registers(instruction.operands[0])


def _uses(instruction: Instruction) -> set[str]:
    skip = 0 if instruction.opcode in _NO_RESULT else 1
    found = set().union(*map(_registers, instruction.operands[skip:])) if instruction.operands[skip:] else set()
    if instruction.guard:
        found.add(instruction.guard.register)
    return found


def _flatten(statements: Sequence[ast.Statement]) -> list[ast.Label | Instruction]:
    flat: list[ast.Label | Instruction] = []
    for statement in statements:
        if isinstance(statement, (ast.Label, Instruction)):
            flat.append(statement)
        elif isinstance(statement, ast.Block):
            flat += _flatten(statement.statements)
    return flat


def _graph(statements: Sequence[ast.Statement]) -> list[_Node]:
    """Basic blocks in the order of the text. Labels of one name in two scopes count as one: that only adds edges."""
    nodes = [_Node(0)]
    labels: dict[str, list[int]] = {}
    for item in _flatten(statements):
        if isinstance(item, ast.Label):
            if nodes[-1].instructions:
                nodes.append(_Node(len(nodes)))
            labels.setdefault(item.name, []).append(nodes[-1].index)
        else:
            nodes[-1].instructions.append(item)
            if item.opcode in ("bra", "brx", "ret", "exit", "trap"):
                nodes.append(_Node(len(nodes)))
    every = [index for found in labels.values() for index in found]
    for node in nodes:
        last = node.instructions[-1] if node.instructions else None
        if last is not None and last.opcode == "bra" and last.operands and isinstance(last.operands[-1], ast.Name):
            node.successors += labels.get(last.operands[-1].text, [])
        elif last is not None and last.opcode == "brx":
            node.successors += every
        leaves = last is not None and last.opcode in ("bra", "brx", "ret", "exit", "trap") and last.guard is None
        if not leaves and node.index + 1 < len(nodes):
            node.successors.append(node.index + 1)
    return nodes


def _slice(registers: set[str], body: Sequence[Instruction]) -> list[Instruction]:
    """The instructions of a loop that `registers` depend on."""
    needed, taken = set(registers), set()
    grown = True
    while grown:
        grown = False
        for index, instruction in enumerate(body):
            if index not in taken and _defines(instruction) & needed:
                taken.add(index)
                needed |= _uses(instruction)
                grown = True
    return [body[index] for index in sorted(taken)]


def _polls(instruction: Instruction, body: Sequence[Instruction], fenced: bool) -> bool:
    """Whether the value of `instruction` may be what another thread has to change for the loop to end."""
    if instruction.opcode == "ld":
        return instruction.has(*_STRONG) or (fenced and not instruction.has("param", "const", "local"))
    if instruction.opcode == "mbarrier":
        return instruction.has("test_wait", "try_wait")
    if instruction.opcode != "atom":
        return False
    if instruction.has("cas") and len(instruction.operands) > 2:
        expected = _slice(_registers(instruction.operands[2]), body)
        return not any(i.opcode in ("ld", "atom") for i in expected)
    return True


def yielding_branches(statements: Sequence[ast.Statement]) -> set[int]:
    """id() of the branches that close a spinning loop."""
    nodes = _graph(statements)
    if not any(i.opcode in ("atom", "ld", "mbarrier") for node in nodes for i in node.instructions):
        return set()
    found: set[int] = set()
    for component in components(range(len(nodes)), [node.successors for node in nodes]):
        members = set(component)
        if len(component) == 1 and component[0] not in nodes[component[0]].successors:
            continue
        body = [i for index in sorted(members) for i in nodes[index].instructions]
        fenced = any(i.opcode in ("membar", "fence", "nanosleep") for i in body)
        guards = {
            i.guard.register
            for i in body
            if i.guard and i.opcode in ("bra", "ret", "exit")
        }  # fmt: skip
        if not any(_polls(i, body, fenced) for i in _slice(guards, body)):
            continue
        for index in members:
            last = nodes[index].instructions[-1] if nodes[index].instructions else None
            if last is not None and last.opcode in ("bra", "brx"):
                targets = set(nodes[index].successors) & members
                if any(target <= index for target in targets):
                    found.add(id(last))
    return found

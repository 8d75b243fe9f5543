"""Where addresses come from: which of them can be nothing but places in the buffers that a launch was given.

A pointer that the kernel finds in memory (a linked list, an array of pointers) may lead anywhere, and a check of it
against the launch's buffers would be a false alarm. So every register gets the set of its origins, over all functions
that the kernel reaches and without regard to the order of instructions: a parameter or variable, memory, the thread's
own local memory. Products, shifts and conversions are indices, not pointers, and have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from interop.ptx import Function, Instruction, Module, ast

from .analysis import instructions, names_in, variables
from .pointers import call_target, is_indirect

MEMORY = 1
"""Loaded from memory that anybody may have written, or not known."""
LOCAL = 2
"""The address of a variable in local memory."""
VARIABLE = 4
"""A variable of the module, or in shared memory."""
_FIRST_PARAMETER = 8
"""The bit of the kernel's first parameter; the others follow."""

_INDEX = {
    "mul", "mul24", "shl", "shr", "div", "rem", "setp", "set", "sad", "popc", "clz", "bfind", "fns", "vote", "match",
    "activemask", "isspacep", "testp", "redux", "elect",
}  # fmt: skip
_NO_RESULT = {
    "st", "red", "bra", "brx", "bar", "barrier", "ret", "exit", "membar", "fence", "trap", "brkpt", "prefetch",
    "prefetchu", "nanosleep", "pmevent", "cp", "call",
}  # fmt: skip
_STACK = "$stack"  # stands for all that lies in local memory

_Key = tuple[str, str]


def _keeps_width(i: Instruction) -> bool:
    types = [m for m in i.modifiers if m in ast.TYPE_BITS]
    return len(types) == 2 and ast.TYPE_BITS[types[0]] == ast.TYPE_BITS[types[1]]


class Provenance:
    """The origins of all registers of a kernel and of the functions that it reaches."""

    def __init__(self, module: Module, kernel: Function, reachable: Sequence[Function]) -> None:
        self._module = module
        self._kernel = kernel
        self._origins: dict[_Key, int] = {}
        self._flows: list[tuple[_Key, tuple[_Key, ...]]] = []  # destination, sources
        self._loads: list[tuple[_Key, tuple[_Key, ...]]] = []  # destination, what the address is made of
        self._stores: list[tuple[tuple[_Key, ...], tuple[_Key, ...]]] = []  # address, values
        self._indirect = False
        for function in reachable:
            self._read(function)
        if self._indirect:  # anybody may call any function with anything
            for function in reachable:
                if function is not kernel:
                    for variable in function.params:
                        self._add((function.name, variable.name), MEMORY)
        self._solve()
        # A load from an address without an origin: what it yields is not known.
        for destination, base in self._loads:
            if not self._union(base):
                self._add(destination, MEMORY)
        self._solve()

    def origins(self, function: Function, register: str) -> int:
        """The set of what the value of `register` may come from, as bits; 0 for what is no pointer."""
        return self._origins.get((function.name, register), 0)

    @staticmethod
    def parameters(origins: int) -> list[int]:
        """The kernel's parameters in a set of origins, counted from 0."""
        bits = origins // _FIRST_PARAMETER
        return [index for index in range(bits.bit_length()) if bits >> index & 1]

    def _add(self, key: _Key, origins: int) -> bool:
        before = self._origins.get(key, 0)
        self._origins[key] = before | origins
        return before | origins != before

    def _union(self, keys: tuple[_Key, ...]) -> int:
        origins, found = self._origins, 0
        for key in keys:
            found |= origins.get(key, 0)
        return found

    # ---- one function ----

    def _read(self, function: Function) -> None:
        name = function.name
        for variable in self._module.variables:
            self._add((name, variable.name), VARIABLE)
        if function is self._kernel:
            for index, variable in enumerate(function.params):
                self._add((name, variable.name), _FIRST_PARAMETER << index)
        local = set()
        for variable in variables(function.body or ()):
            if variable.space == "local":
                self._add((name, variable.name), LOCAL)
            elif variable.space == "param":
                local.add(variable.name)
            else:
                self._add((name, variable.name), VARIABLE)
        for i in instructions(function.body or ()):
            self._instruction(function, i, local)

    def _instruction(self, function: Function, i: Instruction, local: set[str]) -> None:
        name = function.name

        def keys(*operands: ast.Operand) -> tuple[_Key, ...]:
            return tuple((name, register) for operand in operands for register in names_in(operand))

        opcode, operands = i.opcode, i.operands
        if opcode == "call":
            self._call(name, i)
        elif opcode == "st" and len(operands) > 1:
            self._store(i, keys(operands[0]), keys(operands[1]))
        elif opcode in _NO_RESULT or opcode in _INDEX or not operands:
            return
        elif opcode in ("ld", "ldu", "atom"):
            self._load(i, keys(operands[0]), keys(*operands[1:2]))
        elif opcode in ("alloca", "stacksave"):
            for key in keys(operands[0]):
                self._add(key, LOCAL)
        elif opcode == "cvt" and not _keeps_width(i):
            return
        else:
            # The product in a multiply-add is an index; what is added may be a pointer.
            sources = operands[3:4] if opcode in ("mad", "mad24", "madc") else operands[1:]
            if opcode == "mov" and any(r in local for o in sources for r in names_in(o)):
                for key in keys(operands[0]):  # the address of a parameter of a call
                    self._add(key, MEMORY)
            found = keys(*sources)
            self._flows += [(destination, found) for destination in keys(operands[0])]

    def _store(self, i: Instruction, base: tuple[_Key, ...], values: tuple[_Key, ...]) -> None:
        if any(m.startswith("param") for m in i.modifiers):
            self._flows += [(destination, values) for destination in base]
        elif "local" in i.modifiers:
            self._stores.append((((_STACK, "address"),), values))
        else:
            self._stores.append((base, values))

    def _load(self, i: Instruction, destinations: tuple[_Key, ...], base: tuple[_Key, ...]) -> None:
        for destination in destinations:
            if i.opcode == "atom":
                self._add(destination, MEMORY)
            elif any(m.startswith("param") for m in i.modifiers):
                self._flows.append((destination, base))
            elif "local" in i.modifiers:
                self._flows.append((destination, ((_STACK, "content"),)))
            else:
                self._loads.append((destination, base))

    def _call(self, name: str, i: Instruction) -> None:
        position = call_target(i)
        target = i.operands[position] if i.operands else None
        indirect = is_indirect(i)
        function = self._module.function(target.text) if isinstance(target, ast.Name) and not indirect else None
        self._indirect |= indirect
        results = list(names_in(i.operands[0])) if position else []
        behind = i.operands[position + 1 : position + 2]
        arguments = [list(names_in(o)) for o in behind[0].items] if behind and isinstance(behind[0], ast.Group) else []
        if function is None or function.parse_body is None:
            for result in results:
                self._add((name, result), MEMORY)
            # It may write pointers where its arguments point.
            self._stores += [(tuple((name, r) for r in a), ((_STACK, "unknown"),)) for a in arguments]
            return
        for variable, argument in zip(function.params, arguments):
            self._flows.append(((function.name, variable.name), tuple((name, r) for r in argument)))
        for variable, result in zip(function.results, results):
            self._flows.append(((name, result), ((function.name, variable.name),)))

    # ---- all of them ----

    def _solve(self) -> None:
        content = (_STACK, "content")
        self._add((_STACK, "address"), LOCAL)
        self._add((_STACK, "unknown"), MEMORY)
        grown = True
        while grown:
            grown = False
            for destination, sources in self._flows:
                grown |= self._add(destination, self._union(sources))
            for destination, base in self._loads:
                origins = self._union(base)
                found = self._origins.get(content, 0) if origins & LOCAL else 0
                grown |= self._add(destination, found | (MEMORY if origins & ~LOCAL else 0))
            for base, values in self._stores:
                stored = self._union(values)
                if self._union(base) & LOCAL:
                    grown |= self._add(content, stored)
                if stored & LOCAL:  # others may find the address, and write there what they like
                    grown |= self._add(content, MEMORY)


__all__ = ["LOCAL", "MEMORY", "VARIABLE", "Provenance"]

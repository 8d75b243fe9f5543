"""Variables outside of threads: shared memory's layout, and the module's ``.global`` and ``.const`` variables."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from abi import ImageError, UnsupportedError
from interop.ptx import Module, Variable, ast

from .analysis import Plan, instructions, names_in, variables
from .builder import ModuleText
from .pointers import address_of_function
from .scopes import Memory

RESERVED_SHARED = 1024
"""Bytes of shared memory, at its beginning, that ``%reserved_smem_offset_begin`` and the like speak of."""

_MAX_SIZE = {"shared": 1 << 24, "local": 1 << 19, "param": 1 << 16, "global": 1 << 31, "const": 1 << 24}


class Storage:
    """Lays out what a kernel and the functions that it reaches use, and writes the variables into the LLVM module.

    `external` is None for variables that belong to the module; else they are defined elsewhere, under the names that
    begin with it.
    """

    def __init__(self, plan: Plan | None, module: Module, text: ModuleText, external: str | None) -> None:
        self._module = module
        self._text = text
        self._external = external
        self._shared: dict[int, int] = {}
        self._variables = {v.name: v for v in module.variables}
        self.used: dict[str, None] = {}  # module variables that the LLVM module refers to
        self.reserved_shared = RESERVED_SHARED if plan and _names_reserved(plan) else 0
        self.static_bytes = self._lay_out(plan) if plan else 0

    @classmethod
    def for_module(cls, module: Module, text: ModuleText, prefix: str) -> Storage:
        """For the module's variables alone, without a kernel."""
        return cls(None, module, text, prefix)

    def check_size(self, variable: Variable, space: str) -> None:
        """Refuses sizes that no device has."""
        if variable.size > _MAX_SIZE.get(space, 0):
            raise ImageError(f"ptx line {variable.line}: {variable.name} has {variable.size} bytes of .{space} memory")

    def _lay_out(self, plan: Plan) -> int:
        static: list[Variable] = []
        dynamic: list[Variable] = []
        seen: set[int] = set()
        for function in plan.reachable:
            body = function.body or ()
            named = {n for i in instructions(body) for o in i.operands for n in names_in(o)}
            module_level = [self._variables[n] for n in sorted(named & self._variables.keys())]
            for variable in (*module_level, *variables(body)):
                if variable.space != "shared" or id(variable) in seen:
                    continue
                seen.add(id(variable))
                self.check_size(variable, "shared")
                (dynamic if variable.linkage == "extern" or variable.size == 0 else static).append(variable)
        end = self.reserved_shared
        for variable in static:
            end = -(-end // variable.alignment) * variable.alignment
            self._shared[id(variable)] = end
            end += variable.size
        if dynamic:
            align = max([16, *(v.alignment for v in dynamic)])
            end = -(-end // align) * align
            self._shared.update({id(v): end for v in dynamic})
        return end

    def shared(self, variable: Variable) -> Memory:
        """Where a ``.shared`` variable lies in the block's window."""
        return Memory("shared", variable, offset=self._shared[id(variable)])

    def module_variable(self, name: str) -> Memory | None:
        """A variable that the module declares; None when it declares no such name."""
        variable = self._variables.get(name)
        if variable is None:
            return None
        if variable.space == "shared":
            return self.shared(variable)
        if variable.type not in ast.TYPE_BITS or variable.type.endswith("ref"):
            raise UnsupportedError(f"{name} is a .{variable.type}; the CPU device has no textures")
        if variable.linkage == "extern":
            raise UnsupportedError(f"{name} is declared .extern; the PTX does not define it")
        self._use(name)
        return Memory(variable.space, variable, self._symbol(name))

    def used_variables(self) -> list[tuple[Variable, str]]:
        """The variables in global and constant memory that the LLVM module refers to, and their symbols."""
        return [(self._variables[name], self._symbol(name)) for name in self.used]

    def is_const(self, name: str) -> bool:
        return self._variables[name].space == "const"

    def _symbol(self, name: str) -> str:
        variable = self._variables.get(name)
        if variable is None or variable.space not in ("global", "const"):
            raise UnsupportedError(f"the address of {name}, which is no variable in global memory, as an initial value")
        return f'@"{self._external or "ptx."}{name}"'

    def _address_of(self, name: str, where: str) -> str | int:
        """What an initial value refers to: the symbol of a variable, or the address of a function."""
        if name not in self._variables and self._module.function(name) is not None:
            return address_of_function(self._module, name, where)
        return self._symbol(name)

    def _use(self, name: str) -> None:
        """Adds the variable, and those whose addresses it holds, to the LLVM module."""
        pending = [name]
        while pending:
            name = pending.pop()
            if name in self.used:
                continue
            self.used[name] = None
            variable = self._variables[name]
            self.check_size(variable, variable.space)
            if self._external is not None:
                self._text.globals[name] = f"{self._symbol(name)} = external global i8"
                continue
            values = variable.initializer or ()
            pending += [n for v in values for n in names_in(v) if n in self._variables]
            self._text.globals[name] = define(variable, self._symbol(name), self._address_of, "internal")

    def define_all(self) -> list[str]:
        """Defines every ``.global`` and ``.const`` variable of the module as external symbols; their PTX names."""
        names = []
        for variable in self._module.variables:
            if variable.space not in ("global", "const") or variable.linkage == "extern":
                continue
            if variable.type.endswith("ref"):
                continue
            self.check_size(variable, variable.space)
            names.append(variable.name)
            self._text.globals[variable.name] = define(variable, self._symbol(variable.name), self._address_of, "")
        return names


def parameter_offsets(params: tuple[Variable, ...]) -> tuple[list[int], int]:
    """Where each parameter lies in the buffer, and where the last one ends."""
    offsets, end = [], 0
    for param in params:
        end = -(-end // param.alignment) * param.alignment
        offsets.append(end)
        end += param.size
    return offsets, end


def _names_reserved(plan: Plan) -> bool:
    """Whether anything that the kernel reaches asks where the reserved part of shared memory lies."""
    return any(
        isinstance(o, ast.Name) and o.text.startswith("%reserved_smem")
        for f in plan.reachable
        for i in instructions(f.body or ())
        for o in i.operands
    )


def define(variable: Variable, symbol: str, address_of: Callable[[str, str], str | int], linkage: str) -> str:
    """The definition of a variable as an LLVM global: a packed struct of byte runs and addresses."""
    fields: list[tuple[str, str]] = []
    pending = bytearray()

    def flush() -> None:
        if pending:
            text = "".join(f"\\{byte:02X}" for byte in pending)
            fields.append((f"[{len(pending)} x i8]", f'c"{text}"'))
            pending.clear()

    written = index = 0
    size = ast.TYPE_BITS[variable.type] // 8
    values = variable.initializer or ()
    while index < len(values):
        value = values[index]
        if isinstance(value, (ast.Integer, ast.Float)):
            pending += _literal(variable, value, size)
            count = 1
        else:
            count = 8 // size if isinstance(value, ast.Masked) and size < 8 else 1
            address = _address(variable, _whole(variable, values[index : index + count], size), address_of)
            if isinstance(address, int):
                pending += address.to_bytes(8, "little")
            else:
                flush()
                fields.append(("i64", address))
        written += size * count
        index += count
    if written > max(variable.size, size):
        raise ImageError(f"ptx line {variable.line}: {variable.name} has more initial values than elements")
    flush()
    if variable.size > written:
        fields.append((f"[{variable.size - written} x i8]", "zeroinitializer"))
    types = ", ".join(type_ for type_, _ in fields)
    listed = ", ".join(f"{type_} {value}" for type_, value in fields)
    kind = "constant" if variable.space == "const" else "global"
    linkage = f"{linkage} " if linkage else ""
    return f"{symbol} = {linkage}{kind} <{{ {types} }}> <{{ {listed} }}>, align {max(variable.alignment, 1)}"


def _literal(variable: Variable, value: ast.Integer | ast.Float, size: int) -> bytes:
    if isinstance(value, ast.Integer):
        if variable.type in ("f32", "f64"):
            return struct.pack("<f" if size == 4 else "<d", float(value.value))
        return (value.value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    if value.width == 64 and size == 4:
        (number,) = struct.unpack("<d", value.bits.to_bytes(8, "little"))
        try:
            return struct.pack("<f", number)
        except OverflowError:
            return struct.pack("<f", math.copysign(math.inf, number))
    return (value.bits & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _whole(variable: Variable, values: tuple[ast.Operand, ...], size: int) -> ast.Operand:
    """The address that consecutive elements hold together, as compilers write it into packed structures:
    ``0xFF(x), 0xFF00(x)`` … ``0xFF00000000000000(x)`` (PTX ISA, "Initializers")."""
    where = f"ptx line {variable.line}: {variable.name}"
    first = values[0]
    if not isinstance(first, ast.Masked):
        if size != 8:
            raise UnsupportedError(f"{where} holds addresses in {8 * size} bits, which the CPU device does not support")
        return first
    masks = [((1 << 8 * size) - 1) << 8 * size * k for k in range(8 // size)]
    if [v.mask if isinstance(v, ast.Masked) and v.base == first.base else 0 for v in values] != masks:
        raise UnsupportedError(
            f"{where} holds parts of an address; the CPU device takes them only where all bytes of it follow in order"
        )
    return first.base


def _address(variable: Variable, value: ast.Operand, address_of: Callable[[str, str], str | int]) -> str | int:
    """An initial value that is an address: a constant of LLVM IR, or a number."""
    where = f"ptx line {variable.line}: {variable.name}"
    offset = 0
    while isinstance(value, (ast.Offset, ast.Generic)):
        if isinstance(value, ast.Offset):
            offset += value.offset
        value = value.base
    if not isinstance(value, ast.Name):
        raise ImageError(f"{where} has an initial value that is not a constant")
    base = address_of(value.text, where)
    if isinstance(base, int):
        return (base + offset) & (1 << 64) - 1
    return f"ptrtoint (ptr getelementptr (i8, ptr {base}, i64 {offset}) to i64)"

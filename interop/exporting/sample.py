"""A call of a kernel as a person would write it first: what ``README.md`` and ``main.cpp`` show in C and C++."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

import abi
from abi.show import C_SCALARS

from . import names
from .example import StoredExample, missing_rules
from .model import Argument, KernelModel
from .selftest import scalar_literal
from .text import call

Dims = tuple[int, int, int]

SMALL = 1024
"""Elements of an array without an example; 32 x 32 of a matrix."""

_BLOCKS = {1: (256, 1, 1), 2: (16, 16, 1)}  # by the rank of what is covered, where a kernel has no rule
_SHARED = "1024"


def small_shape(argument: Argument) -> tuple[int, ...]:
    """A shape to try: the same one for all arrays of a rank, which is what most contracts want."""
    if argument.form != "tensor":
        return (SMALL,)
    return ({1: SMALL, 2: 32}.get(argument.rank, 8 if argument.rank <= 4 else 2),) * argument.rank


@dataclass(frozen=True)
class Sample:
    """One call of `model`, with the shapes and scalars of a stored example where there is one."""

    name: str
    model: KernelModel
    stored: StoredExample | None = None

    def cpp(self) -> list[str]:
        """Statements that make the arrays and call the kernel of the module ``m``."""
        lines, arguments = [], []
        for position, argument in enumerate(self.model.visible):
            if not argument.is_array:
                arguments.append(self._scalar(argument, position, ""))
                continue
            variable, shape = self._variable(argument), self._shape(argument, position)
            lines.append(f"auto {variable} = {_cpp_array(argument, math.prod(shape))};")
            views = {"tensor": f".as_tensor<{argument.rank}>({{{_list(shape)}}})", "pointer": ".data()", "slice": ""}
            arguments.append(variable + views[argument.form])
        return [*lines, *call(f"m.{self.model.name}", [self._cpp_config(), *arguments], ";").splitlines()]

    def c(self) -> str:
        """A program around the call."""
        arrays = [
            (a, self._variable(a), self._shape(a, position))
            for position, a in enumerate(self.model.visible)
            if a.is_array
        ]
        name, config = self.name, self._c_config()
        head = [f"{name}_module *module = NULL;"]
        head += [f"void *{', *'.join(f'{variable} = NULL' for _, variable, _ in arrays)};"] if arrays else []
        head += [f"const interop_launch_config config = {{{config}}};"] if config else []
        steps = [f"{name}_alloc(module, {_bytes(a, math.prod(shape))}, &{v})" for a, v, shape in arrays]
        steps += [self._c_call(bool(config)), f"{name}_synchronize(module, NULL)"]
        lines = [
            *head,
            f"interop_status status = {name}_load(interop_device_best(), &module);",
            *(line for step in steps for line in _unless_failed(f"status = {step};")),
            "if (status != INTEROP_OK)",
            f"    puts({name}_last_error());",
            *(f"{name}_free(module, {variable});" for _, variable, _ in arrays),
            f"{name}_unload(module);",
            "return status;",
        ]
        includes = f"#include <{name}.h>\n\n#include <stdio.h>\n\n"
        return f"{includes}int main(void)\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}"

    def _c_call(self, explicit: bool) -> str:
        arguments = ["module", "&config" if explicit else "NULL"]
        for position, argument in enumerate(self.model.visible):
            variable, shape = self._variable(argument), self._shape(argument, position)
            if argument.form == "slice":
                arguments.append(f"({argument.c_type}){{{variable}, {math.prod(shape)}}}")
            elif argument.form == "tensor":
                strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
                arguments.append(f"({argument.c_type}){{{variable}, {{{_list(shape)}}}, {{{_list(strides)}}}}}")
            else:
                scalar = not argument.is_array
                arguments.append(self._scalar(argument, position, f"({argument.c_type})") if scalar else variable)
        head = f"status = {self.name}_{self.model.name}{'_ex' * explicit}"
        return call(head, arguments, "").removeprefix("status = ")

    def _cpp_config(self) -> str:
        missing = missing_rules(self.model.kernel)
        if not missing:
            return "interop::stream{}"
        grid, block = self._grid_and_block()
        grid_text = f"{{{_list(_short(grid))}}}" if "grid" in missing else "interop::from_contract"
        block_text = f"{{{_list(_short(block))}}}" if "block" in missing else "interop::from_contract"
        return f"{{{grid_text}, {block_text}{f', {_SHARED}' if 'shared' in missing else ''}}}"

    def _c_config(self) -> str:
        grid, block = self._grid_and_block()
        fields = {
            "grid": f".grid = &(interop_dim3){{{_list(grid)}}}",
            "block": f".block = &(interop_dim3){{{_list(block)}}}",
            "shared": f".shared_bytes = {_SHARED}",
        }
        missing = missing_rules(self.model.kernel)
        return ", ".join(text for what, text in fields.items() if what in missing)

    def _grid_and_block(self) -> tuple[Dims, Dims]:
        """A thread for each element of what the kernel writes: the last axis along x, and all before y along z."""
        arrays = [(a, self._shape(a, position)) for position, a in enumerate(self.model.visible) if a.is_array]
        shapes = [shape for a, shape in arrays if not a.const] or [shape for _, shape in arrays] or [(SMALL,)]
        extents = [(s[-1], s[-2] if len(s) > 1 else 1, math.prod(s[:-2])) for s in shapes]
        x, y, z = (max(axis) for axis in zip(*extents))
        rule = self.model.kernel.launch.block
        block = _BLOCKS[min(max(map(len, shapes)), 2)] if rule.kind is abi.BlockKind.ANY else rule.dims
        return (-(-x // block[0]), -(-y // block[1]), -(-z // block[2])), block

    def _variable(self, argument: Argument) -> str:
        return names.unique(argument.name, {"m", "status", "module", "config"})

    def _value(self, position: int) -> Any:
        return self.stored.arguments[position].value if self.stored else None

    def _shape(self, argument: Argument, position: int) -> tuple[int, ...]:
        value = self._value(position)
        if not isinstance(value, np.ndarray):
            return small_shape(argument)
        return tuple(value.shape) if argument.form == "tensor" else (value.size,)

    def _scalar(self, argument: Argument, position: int, struct: str) -> str:
        """A scalar as C (with a cast) or C++ writes it."""
        if isinstance(argument.param.type, abi.Bytes):
            return f"{struct}{{{{0}}}}" if struct else f"{argument.c_type}{{}}"
        assert isinstance(argument.param.type, abi.Scalar)
        value = self._value(position)
        usable = value is not None and math.isfinite(value)
        return scalar_literal(argument.param.type, value if usable else np.int64(1), struct or argument.c_type)


def _cpp_array(argument: Argument, count: int) -> str:
    element = C_SCALARS[argument.element.name] if argument.element else "unsigned char"
    if element == "bool":  # std::vector<bool> has no array inside
        return f"m.empty<bool>({count})"
    return f"m.copy_in(std::vector<{element}>({count}))"


def _short(dims: Dims) -> Dims | tuple[int, ...]:
    """`dims` without the ones at the end, which C++ may leave out."""
    x, y, z = dims
    return dims if z != 1 else (x, y) if y != 1 else (x,)


def _bytes(argument: Argument, count: int) -> str:
    return f"{count} * sizeof({C_SCALARS[argument.element.name]})" if argument.element else str(count)


def _list(values: Any) -> str:
    return ", ".join(map(str, values))


def _unless_failed(statement: str) -> list[str]:
    return ["if (status == INTEROP_OK)", *textwrap.indent(statement, "    ").splitlines()]

"""What the generators know of one kernel: its parameters as C sees them and its rules as C expressions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import abi
from abi.layout import buffer_size, packing
from abi.rules import CLeaf, KernelRules, Rule, rules_of
from abi.show import C_SCALARS, c_type, host_type

from . import names
from .text import c_string


@dataclass(frozen=True)
class Argument:
    """One parameter in C. ``name`` is its C name, ``form`` how it is passed.

    Forms: ``slice``, ``tensor``, ``pointer`` (no count is known), ``scalar`` (byte blocks too); ``hidden`` for one
    that a rule fills.
    """

    param: abi.Param
    host_type: abi.Type
    name: str
    form: str

    @property
    def element(self) -> abi.Scalar | None:
        """The element of an array; None for a bare pointer to something unknown."""
        type_ = self.param.type
        if isinstance(type_, abi.Pointer):
            return type_.pointee
        return type_.element if isinstance(type_, (abi.Slice, abi.Tensor)) else None

    @property
    def const(self) -> bool:
        return not self.param.access.writes

    @property
    def is_array(self) -> bool:
        return self.form in ("slice", "tensor", "pointer")

    @property
    def rank(self) -> int:
        return self.param.type.rank if isinstance(self.param.type, abi.Tensor) else 1

    @property
    def element_c(self) -> str:
        """``const float``; ``void`` where the pointee is unknown."""
        return ("const " if self.const else "") + (C_SCALARS[self.element.name] if self.element else "void")

    @property
    def c_type(self) -> str:
        """The type in the C function, without the name."""
        return c_type(self.host_type, self.param.access)

    @property
    def c_declaration(self) -> str:
        return f"{self.c_type}{'' if self.c_type.endswith('*') else ' '}{self.name}"

    @property
    def cpp_declaration(self) -> str:
        """The parameter of the C++ member function."""
        if self.form == "slice":
            return f"::interop::span<{self.element_c}> {self.name}"
        if self.form == "tensor":
            return f"::interop::tensor<{self.element_c}, {self.rank}> {self.name}"
        return self.c_declaration

    @property
    def cpp_forward(self) -> str:
        """The C argument made of the C++ one."""
        if self.form == "slice":
            return f"{{{self.name}.data(), {self.name}.size()}}"
        if self.form == "tensor":
            dims = ", ".join(f"{self.name}.shape({axis})" for axis in range(self.rank))
            strides = ", ".join(f"{self.name}.stride({axis})" for axis in range(self.rank))
            return f"{{{self.name}.data(), {{{dims}}}, {{{strides}}}}}"
        return self.name

    @property
    def address(self) -> str:
        """The array's address as a C expression."""
        return self.name if self.form == "pointer" else f"{self.name}.data"

    @property
    def element_size(self) -> int:
        return self.element.size if self.element else 1


@dataclass(frozen=True)
class KernelModel:
    """One kernel under one bundle's prefix. ``index`` is its place in the bundle."""

    kernel: abi.Kernel
    name: str
    index: int
    arguments: tuple[Argument, ...]

    @property
    def visible(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.form != "hidden")

    @cached_property
    def rules(self) -> KernelRules:
        return rules_of(self.kernel)

    @property
    def param_bytes(self) -> int:
        return buffer_size(self.kernel.params)

    @property
    def by_name(self) -> dict[str, Argument]:
        return {a.param.name: a for a in self.arguments}

    def spell(self, leaf: CLeaf) -> str:
        """A leaf of a rule in the generated function."""
        if leaf.kind in ("block", "grid"):
            return f"(uint64_t)launch.{leaf.kind}[{leaf.axis}]"
        argument = self.by_name[leaf.name]
        if leaf.kind == "length":
            if argument.form == "pointer":
                raise abi.Error(f"{self.kernel.name}: a rule reads len({leaf.name}), whose element type is not known")
            return f"{argument.name}.length"
        if leaf.kind in ("dim", "stride"):
            return f"{argument.name}.{'shape' if leaf.kind == 'dim' else 'strides'}[{leaf.axis}]"
        if leaf.kind == "address":
            return f"(uint64_t)(uintptr_t){argument.address}"
        if leaf.kind == "extent":
            return self.extent(argument)
        return argument.name

    def extent(self, argument: Argument) -> str:
        """The bytes that an array covers. A bare pointer's count is unknown: one element stands for it."""
        size, address = argument.element_size, f"(uint64_t)(uintptr_t){argument.address}"
        if argument.form == "tensor":
            shape, strides = f"{argument.name}.shape", f"{argument.name}.strides"
            return f"interop_rule_tensor_extent({address}, {argument.rank}, {shape}, {strides}, {size})"
        length = f"{argument.name}.length" if argument.form == "slice" else "1"
        return f"interop_rule_slice_extent({address}, {length}, {size})"

    def leaves(self, rule: Rule) -> list[str]:
        """The rule's leaves as initialisers, and the end mark."""
        pairs = [f"{{{c_string(text)}, {value}}}" for text, value in rule.c_values(self.spell)]
        return [*pairs, "INTEROP_LEAVES_END"]

    def expression(self, rule: Rule) -> str:
        return rule.to_c(self.spell)

    @property
    def signature(self) -> str:
        """One line that changes when, and only when, a compiled caller would have to be compiled again."""
        arguments = ", ".join(a.c_declaration for a in self.visible)
        return f"{self.name}({arguments})"


Field = tuple[str, int, str, str]  # C declaration in the parameter struct, offset, member name, value


def buffer_fields(model: KernelModel) -> list[Field]:
    """The members of the parameter buffer, in order of their offsets."""
    return sorted((_field(model.kernel, argument) for argument in model.arguments), key=lambda field: field[1])


def _field(kernel: abi.Kernel, argument: Argument) -> Field:
    """One member for each parameter: images lay slices and tensors out as C lays out our structs of them."""
    name, type_, parts = argument.name, argument.param.type, packing(argument.param)
    base = parts[0][1]
    if any(offset - base != 8 * i for i, (_, offset, _) in enumerate(parts)):
        raise abi.UnsupportedError(
            f"{kernel.name}: the machine values of '{argument.param.name}' do not lie side by side"
        )
    if isinstance(type_, abi.Pointer):
        return f"{argument.element_c} *{name}", base, name, argument.address if argument.is_array else name
    return argument.c_declaration, base, name, name


def make_models(kernels: tuple[abi.Kernel, ...], library: str = "") -> tuple[KernelModel, ...]:
    """The kernels with their C names; :class:`abi.Error` where a name or a rule cannot be had in C."""
    c_names = names.kernel_names([k.name for k in kernels], library)
    return tuple(_make_model(kernel, c_names[kernel.name], index, library) for index, kernel in enumerate(kernels))


def _make_model(kernel: abi.Kernel, name: str, index: int, library: str) -> KernelModel:
    c_names = names.parameter_names([p.name for p in kernel.params], library)
    arguments = tuple(Argument(p, host_type(kernel, p), c_names[p.name], _form(kernel, p)) for p in kernel.params)
    return KernelModel(kernel, name, index, arguments)


def _form(kernel: abi.Kernel, param: abi.Param) -> str:
    if param.hidden:
        return "hidden"
    type_ = host_type(kernel, param)
    forms = {
        abi.Scalar: "scalar",
        abi.Bytes: "scalar",
        abi.Tensor: "tensor",
        abi.Slice: "slice",
        abi.Pointer: "pointer",
    }
    return forms[type(type_)]

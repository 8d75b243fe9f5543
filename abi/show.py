"""A kernel's description as people read it: C and Python signatures, the contract, the parameter layout.

Generated headers use the same functions, so that what ``interop inspect`` prints is what a C host compiles against.
"""

from __future__ import annotations

import re
from collections.abc import Container
from keyword import kwlist

from .layout import buffer_size, packing
from .records import Access, BlockKind, Kernel, Origin, Param
from .rules import mentions_length
from .types import Bytes, Pointer, Scalar, Slice, Tensor, Type
from .verify import component_text

C_SCALARS: dict[str, str] = {
    "bool": "bool",
    "f16": "interop_f16",
    "bf16": "interop_bf16",
    "f32": "float",
    "f64": "double",
    **{f"{kind}{bits}": f"{'u' * (kind == 'u')}int{bits}_t" for kind in "iu" for bits in (8, 16, 32, 64)},
}
"""C spelling of each scalar type. The half formats are structs that hold their 16 bits."""


def c_type(type_: Type, access: Access = Access.IN) -> str:
    """The C type of a parameter; memory that the kernel only reads is const.

    >>> from abi import parse_type
    >>> c_type(parse_type("slice<f32>")), c_type(parse_type("ptr<i32>"), Access.INOUT)
    ('interop_slice_const_f32', 'int32_t *')
    """
    const = "" if access.writes else "const_"
    if isinstance(type_, Scalar):
        return C_SCALARS[type_.name]
    if isinstance(type_, Slice):
        return f"interop_slice_{const}{type_.element}"
    if isinstance(type_, Tensor):
        return f"interop_tensor{type_.rank}_{const}{type_.element}"
    if isinstance(type_, Bytes):
        return f"interop_bytes_{type_.size}_{type_.align}"
    pointee = C_SCALARS[type_.pointee.name] if type_.pointee else "void"
    return f"{'' if access.writes else 'const '}{pointee} *"


def host_type(kernel: Kernel, param: Param) -> Type:
    """The type that typed hosts pass for `param`: a pointer whose length some rule reads is passed as a slice."""
    if isinstance(param.type, Pointer) and param.type.pointee and mentions_length(kernel, param.name):
        return Slice(param.type.pointee)
    return param.type


def c_parameters(kernel: Kernel) -> tuple[str, ...]:
    """The C declaration of each parameter that a caller passes: ``("interop_slice_const_f32 x", "float a")``."""
    return tuple(_declare(c_type(host_type(kernel, p), p.access), p.name) for p in kernel.visible_params)


_KEYWORDS_TEXT = """
    auto bool break case char const constexpr continue default do double else enum extern false float for goto if
    inline int long nullptr register restrict return short signed sizeof static struct switch thread_local true typedef
    union unsigned void volatile while
"""
_C_KEYWORDS = frozenset(_KEYWORDS_TEXT.split())


def identifier(name: str, reserved: Container[str] = ()) -> str:
    """`name` as an identifier of C and Python: C++ names keep their words, and reserved words get an underscore.

    >>> identifier("geo::blur<float, 3>"), identifier("scale(float*, int)"), identifier("while", ["while"])
    ('geo_blur_float_3', 'scale_float_int', 'while_')
    """
    text = re.sub(r"[^A-Za-z0-9_]+", "_", name)
    text = text if text == name else text.strip("_")
    if not text or text[0].isdigit():
        text = f"_{text}"
    return f"{text}_" if text in reserved else text


def c_signature(kernel: Kernel, prefix: str = "") -> str:
    """One line of C that declares `kernel`'s function.

    With the prefix of an exported library, such as ``mix_``, it is the library's own function; without one the leading
    module and stream, which every such function has, are left out.

    >>> from abi import Param, parse_type
    >>> kernel = Kernel("blur<float>", "_Z4blurIfEvPf", "cuda-c++", (Param("y", parse_type("ptr<f32>"), Access.INOUT),))
    >>> c_signature(kernel)
    'interop_status blur_float(float *y)'
    >>> c_signature(kernel, "mix_")
    'interop_status mix_blur_float(const mix_module *module, interop_stream stream, float *y)'
    """
    leading = (f"const {prefix}module *module", "interop_stream stream") if prefix else ()
    name = identifier(kernel.name, () if prefix else _C_KEYWORDS)
    return f"interop_status {prefix}{name}({', '.join((*leading, *c_parameters(kernel))) or 'void'})"


def _declare(type_text: str, name: str) -> str:
    name = identifier(name, _C_KEYWORDS)
    return type_text + name if type_text.endswith("*") else f"{type_text} {name}"


def python_type(param: Param) -> str:
    """How a Python kernel or declaration annotates `param`.

    >>> from abi import Param, parse_type
    >>> python_type(Param("y", parse_type("slice<f32>"), Access.INOUT))
    'DisjointSlice[f32]'
    """
    type_, disjoint = param.type, "Disjoint" if param.access.writes else ""
    if isinstance(type_, Slice):
        return f"{disjoint}Slice[{type_.element}]"
    if isinstance(type_, Tensor):
        return f"{disjoint}Tensor[{type_.element}, {type_.rank}]"
    if isinstance(type_, Pointer):
        word = {Access.IN: "In", Access.OUT: "Out", Access.INOUT: "InOut"}[param.access]
        return f"{word}[{type_.pointee}]" if type_.pointee else "ptr"
    return f"abi.Bytes({type_.size}, {type_.align})" if isinstance(type_, Bytes) else str(type_)


def python_signature(kernel: Kernel) -> str:
    """One line of Python: ``saxpy(x: Slice[f32], y: DisjointSlice[f32], a: f32)``. Names are identifiers."""
    parameters = (f"{identifier(p.name, kwlist)}: {python_type(p)}" for p in kernel.visible_params)
    return f"{identifier(kernel.name, kwlist)}({', '.join(parameters)})"


def contract_lines(kernel: Kernel) -> list[str]:
    """The contract, one rule a line: block, grid, shared memory, what is filled in, what is required and why."""
    launch, lines = kernel.launch, [f"block     {_block_text(kernel)}"]
    if launch.grid:
        lines.append(f"grid      ({', '.join(launch.grid)})" if len(launch.grid) > 1 else f"grid      {launch.grid[0]}")
    else:
        lines.append("grid      given by the caller")
    if launch.shared.strip() != "0":
        lines.append(f"shared    {launch.shared} bytes" if launch.shared.strip() else "shared    given by the caller")
    lines.append(f"needs     compute capability {launch.min_cc[0]}.{launch.min_cc[1]}")
    lines += [f"fills     {p.name} = {p.fill}" for p in kernel.params if p.hidden]
    for requirement in kernel.requires:
        line = f"requires  {requirement.rule}"
        if requirement.origin is not Origin.WRITTEN:
            line += f"   [{requirement.origin.value}]"
        lines.append(f"{line}   {requirement.note}" if requirement.note else line)
    return lines


def _block_text(kernel: Kernel) -> str:
    block = kernel.launch.block
    x, y, z = block.dims
    return {
        BlockKind.ANY: "given by the caller",
        BlockKind.EXACT: f"exactly ({x}, {y}, {z})",
        BlockKind.UP_TO: f"up to {x * y * z} threads",
        BlockKind.MULTIPLE_OF: f"block.x a multiple of {x}",
    }[block.kind]


def layout_table(kernel: Kernel) -> str:
    """The parameter buffer as an aligned table: every machine value with its offset and size, the slot's alignment."""
    rows = [("offset", "size", "align", "access", "parameter")]
    for param in kernel.params:
        parts = packing(param)
        for component, offset, size in parts:
            align = next(s.align for s in param.slots if s.offset <= offset < s.offset + s.size)
            text = f"{param.name}: {param.type}" if len(parts) == 1 else f"{param.name}.{component_text(component)}"
            if param.fill is not None:
                text += f" = {param.fill}"
            rows.append((str(offset), str(size), str(align), param.access.value, text))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(c.rjust(w) for c, w in zip(row[:3], widths)), row[3].ljust(widths[3]), row[4]]) for row in rows
    ]
    return "\n".join([*lines, f"{buffer_size(kernel.params)} bytes in all"])

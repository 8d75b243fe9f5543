"""``selftest/``: the stored examples as raw little-endian arrays, and the C program that replays them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import abi

from .example import Array, StoredArgument, StoredExample
from .model import Argument, KernelModel
from .shim import template
from .text import c_string, float_literal, integer_literal

_READERS = {
    "f16": "interop_f16_to_float(((const interop_f16 *)data)[index])",
    "bf16": "interop_bf16_to_float(((const interop_bf16 *)data)[index])",
    "f32": "((const float *)data)[index]",
    "f64": "((const double *)data)[index]",
    "bool": "((const unsigned char *)data)[index]",
    **{f"i{n}": f"(double)((const int{n}_t *)data)[index]" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"(double)((const uint{n}_t *)data)[index]" for n in (8, 16, 32, 64)},
}


def data_files(examples: Sequence[StoredExample]) -> dict[str, bytes]:
    """The stored arrays by file name."""
    files: dict[str, bytes] = {}
    for index, example in enumerate(examples):
        for argument in example.arguments:
            if isinstance(argument.value, np.ndarray):
                files[file_name(index, argument, "in")] = little_endian(argument.value)
            if argument.expected is not None:
                files[file_name(index, argument, "out")] = little_endian(argument.expected)
    return files


def file_name(index: int, argument: StoredArgument, what: str) -> str:
    return f"{index}_{argument.param.name}.{what}"


def little_endian(array: Array) -> bytes:
    """The array's elements in C order, whatever byte order the array has."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def selftest_source(name: str, models: Sequence[KernelModel], examples: Sequence[StoredExample]) -> str:
    """The text of ``selftest/selftest.c``."""
    by_name = {m.kernel.name: m for m in models}
    functions = [_function(name, by_name[e.kernel.name], index, e) for index, e in enumerate(examples)]
    entries = [f"    {{{c_string(e.kernel.name)}, example_{index}}},\n" for index, e in enumerate(examples)]
    return template(
        "templates/selftest.c.in",
        SUPPORT=_support(name, examples),
        NAME=name,
        EXAMPLES="\n".join(functions),
        ENTRIES="".join(entries).rstrip("\n"),
    )


def _support(name: str, examples: Sequence[StoredExample]) -> str:
    """What the examples' functions call; nothing where there are none, so that no function is unused."""
    if not examples:
        return ""
    used = {_element_name(a) for e in examples for a in e.arguments if a.expected is not None}
    most = max(sum(isinstance(a.value, np.ndarray) for a in e.arguments) for e in examples)
    return template(
        "templates/selftest_support.c.in",
        NAME=name,
        MOST_ARRAYS=str(max(most, 1)),
        READERS="".join(_reader(element) + "\n" for element in sorted(used)),
    )


def _element_name(argument: StoredArgument) -> str:
    type_ = argument.param.type
    element = type_.pointee if isinstance(type_, abi.Pointer) else getattr(type_, "element", None)
    return element.name if isinstance(element, abi.Scalar) else "u8"


def _reader(element: str) -> str:
    return f"static double read_{element}(const void *data, size_t index) {{ return {_READERS[element]}; }}\n"


def _function(name: str, model: KernelModel, index: int, example: StoredExample) -> str:
    """One example: load the inputs, call the kernel, compare what it wrote."""
    by_name = {a.param.name: a for a in model.visible}
    lines = [
        f"static bool example_{index}(const {name}_module *module, bool on_cpu)",
        "{",
        f"    example e = {{module, {c_string(model.kernel.name)}, {{NULL}}, 0, false}};",
    ]
    passed = []
    for position, stored in enumerate(example.arguments):
        argument = by_name[stored.param.name]
        if argument.is_array:
            file = c_string(file_name(index, stored, "in"))
            lines.append(f"    void *const array_{position} = input(&e, {file}, {stored.value.nbytes});")
        passed.append(_c_value(argument, stored.value, position))
    arguments = ["module", "NULL", *passed]
    lines += ["    if (!e.failed)", f"        check(&e, {name}_{model.name}(" + ", ".join(arguments) + "));"]
    for position, stored in enumerate(example.arguments):
        if stored.expected is not None:
            lines.append(_expectation(position, index, stored, example.exact_on_cpu))
    if not any("on_cpu" in line for line in lines[1:]):
        lines.append("    (void)on_cpu;")
    lines += ["    return finish(&e);", "}", ""]
    return "\n".join(lines)


def _expectation(position: int, index: int, stored: StoredArgument, exact_on_cpu: bool) -> str:
    element = _element_name(stored)
    expected = stored.expected
    assert expected is not None
    count = expected.nbytes if _is_raw(stored) else expected.size
    size = 1 if _is_raw(stored) else expected.itemsize
    choose = "on_cpu ? 0.0 : " if exact_on_cpu else ""
    tolerances = f"{choose}{stored.rtol!r}, {choose}{stored.atol!r}"
    file = c_string(file_name(index, stored, "out"))
    return f"    expect(&e, array_{position}, {file}, {count}, {size}, read_{element}, {tolerances});"


def _is_raw(stored: StoredArgument) -> bool:
    """An array whose element type the description does not tell: bytes are compared."""
    return isinstance(stored.param.type, abi.Pointer) and stored.param.type.pointee is None


def _c_value(argument: Argument, value: Any, position: int) -> str:
    """The argument as a C expression."""
    array = f"array_{position}"
    if argument.form == "slice":
        return f"({argument.c_type}){{{array}, {value.size}}}"
    if argument.form == "tensor":
        strides = [s // value.itemsize for s in value.strides]
        return f"({argument.c_type}){{{array}, {{{_list(value.shape)}}}, {{{_list(strides)}}}}}"
    if argument.form == "pointer":
        return array
    if isinstance(argument.param.type, abi.Bytes):
        return f"({argument.c_type}){{{{{_list(value)}}}}}"
    assert isinstance(argument.param.type, abi.Scalar)
    return scalar_literal(argument.param.type, value, f"({argument.c_type})")


def _list(values: Any) -> str:
    return ", ".join(str(int(v)) for v in values)


def scalar_literal(type_: abi.Scalar, value: Any, struct: str) -> str:
    """`value` as a C or C++ expression; half formats as `struct` and their bits."""
    if type_.kind == "bool":
        return "true" if value else "false"
    if type_.kind != "float":
        return integer_literal(operator.index(value))
    if type_.name == "f16":
        return f"{struct}{{{int(np.array(value, np.float16).view(np.uint16))}}}"
    if type_.name == "bf16":
        return f"{struct}{{{_bf16_bits(float(value))}}}"
    return float_literal(float(value), type_.name == "f32")


def _bf16_bits(value: float) -> int:
    """Rounded to nearest, ties to even, and only once, as the launch layer does."""
    single = np.array(value, np.float32)
    bits = int(single.view(np.uint32))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    if np.isfinite(single) and float(single) != value:
        # Rounded to odd first, so that the second rounding sees on which side of a tie the value lies.
        bits = (bits - (abs(float(single)) > abs(value))) | 1
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF

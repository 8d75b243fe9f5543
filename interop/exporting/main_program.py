"""``main.cpp``: a program that calls the kernels, with their stored examples or with small arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import abi
from abi.show import C_SCALARS

from .example import LAUNCH_WORDS, StoredExample, missing_rules
from .model import Argument, KernelModel
from .sample import Sample, small_shape
from .selftest import file_name, scalar_literal
from .shim import template
from .text import c_string, listed

_READ = """\
// An array of the stored examples.
template <class T>
std::vector<T> read(const std::string &name, std::size_t count)
{
    std::vector<T> data(count);
    std::ifstream file(EXAMPLES "/" + name, std::ios::binary);
    file.read(reinterpret_cast<char *>(data.data()), static_cast<std::streamsize>(count * sizeof(T)));
    if (!file)
        throw interop::error(INTEROP_ERROR_BUNDLE, "cannot read " + name);
    return data;
}

"""
_SHOW = """\
double number(double value) { return value; }
[[maybe_unused]] double number(interop::f16 value) { return interop_f16_to_float(value); }
[[maybe_unused]] double number(interop::bf16 value) { return interop_bf16_to_float(value); }

// The first elements of a result.
template <class T>
void show(const char *name, const std::vector<T> &data)
{
    std::printf("  %s =", name);
    for (std::size_t i = 0; i < data.size() && i < 6; i++)
        std::printf(" %g", number(static_cast<T>(data[i])));
    std::printf(data.size() > 6 ? " ...\\n" : "\\n");
}

"""


def main_source(name: str, models: Sequence[KernelModel], examples: Sequence[StoredExample]) -> str:
    """The text of ``main.cpp``."""
    first: dict[str, tuple[int, StoredExample]] = {}
    for index, example in enumerate(examples):
        first.setdefault(example.kernel.name, (index, example))
    functions = [_function(name, m, first.get(m.kernel.name)) for m in models]
    text = "\n".join(functions)
    helpers = (_READ if "read<" in text else "") + (_SHOW if "show(" in text else "")
    calls = "".join(f"    run_{m.name}(m);\n" for m in models)
    return template(
        "templates/main.cpp.in",
        NAME=name,
        WHAT=_what(name, models, examples),
        HELPERS=helpers,
        KERNELS=text,
        CALLS=calls,
    )


def not_called(models: Sequence[KernelModel], examples: Sequence[StoredExample]) -> list[str]:
    """The kernels whose calls the program shows only, because somebody must fill them in."""
    stored = {e.kernel.name for e in examples}
    return [m.name for m in models if _cannot_call(m, m.kernel.name in stored)]


def _what(name: str, models: Sequence[KernelModel], examples: Sequence[StoredExample]) -> str:
    shown = len(not_called(models, examples))
    if not shown:
        return f"Calls each kernel of {name} once"
    if shown == len(models):
        return f"Shows a call of each kernel of {name} to fill in"
    return f"Calls the kernels of {name} whose calls are known, and shows the others"


def _function(name: str, model: KernelModel, stored: tuple[int, StoredExample] | None) -> str:
    head = f"void run_{model.name}(const {name}::module &m)\n{{\n"
    missing = _cannot_call(model, stored is not None)
    if missing:
        sample = "".join(f"    //     {line}\n" for line in Sample(name, model, stored[1] if stored else None).cpp())
        return f"{head}    // {missing}\n{sample}    (void)m;\n}}\n"
    lines, arguments, shown = [], [], []
    for position, argument in enumerate(model.visible):
        value = stored[1].arguments[position].value if stored else None
        if not argument.is_array:
            arguments.append(_scalar(argument, value))
            continue
        host, device = f"host_{argument.name}", f"device_{argument.name}"
        lines.append(f"    const {_host_array(argument, value, stored, position, host)};")
        lines.append(f"    auto {device} = m.copy_in({host});")
        arguments.append(_view(argument, device, value))
        if not argument.const:
            shown.append(f"    show({c_string(argument.param.name)}, {device}.to_vector());")
    call = ", ".join(["interop::stream{}", *arguments])
    body = [
        *lines,
        f"    m.{model.name}({call});",
        f"    std::printf({c_string(model.kernel.name + chr(10))});",
        *shown,
    ]
    return head + "\n".join(body) + "\n}\n"


def _cannot_call(model: KernelModel, has_example: bool) -> str:
    """Why the program cannot make up a call; empty when it can."""
    if any(a.is_array and a.element is None for a in model.visible):
        return "The image does not say what the pointers point to, so the call is yours to write, as in"
    rules = missing_rules(model.kernel)
    if rules:
        what = listed([LAUNCH_WORDS[r] for r in rules])
        return f"The kernel has no rule for {what}, so the call must give what you mean, as in"
    if not has_example and any(a.form == "pointer" or isinstance(a.param.type, abi.Bytes) for a in model.visible):
        return (
            "Without a stored example nobody knows how much memory the pointers need; the call is yours to write, as in"
        )
    return ""


def _host_array(
    argument: Argument, value: Any, stored: tuple[int, StoredExample] | None, position: int, host: str
) -> str:
    assert argument.element is not None
    type_ = C_SCALARS[argument.element.name]
    if argument.element.name == "bool":
        type_ = "uint8_t"  # std::vector<bool> has no array inside
    if stored:
        file = c_string(file_name(stored[0], stored[1].arguments[position], "in"))
        return f"auto {host} = read<{type_}>({file}, {value.size})"
    one = "{}" if argument.element.name in ("f16", "bf16") else "1"
    return f"std::vector<{type_}> {host}({math.prod(small_shape(argument))}, {type_}{{{one}}})".replace("{{}}", "{}")


def _view(argument: Argument, device: str, value: Any) -> str:
    assert argument.element is not None
    is_bool = argument.element.name == "bool"
    data = f"reinterpret_cast<{argument.element_c} *>({device}.data())" if is_bool else f"{device}.data()"
    if argument.form == "tensor":
        shape = ", ".join(map(str, small_shape(argument) if value is None else value.shape))
        if is_bool:
            return f"{{{data}, {{{shape}}}}}"
        return f"{device}.as_tensor<{argument.rank}>({{{shape}}})"
    if argument.form == "pointer":
        return data
    return f"{{{data}, {device}.size()}}" if is_bool else device


def _scalar(argument: Argument, value: Any) -> str:
    if isinstance(argument.param.type, abi.Bytes):
        return f"{argument.c_type}{{{{{', '.join(str(b) for b in value)}}}}}"
    assert isinstance(argument.param.type, abi.Scalar)
    return scalar_literal(argument.param.type, np.int64(1) if value is None else value, f"::{argument.c_type}")

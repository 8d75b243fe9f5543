"""Compiles rules as C or C++ and runs them over environments."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rule_table import PARAMS

from abi import ArrayValue, Environment, Pointer, Scalar, Slice, Tensor
from abi.rules import CLeaf, Rule

INCLUDE = Path(__file__).parents[2] / "cpp_shim" / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
_C_TYPES = {"i8": "int8_t", "i32": "int32_t", "i64": "int64_t", "u32": "uint32_t", "u64": "uint64_t", "bool": "int"}


def name_of(leaf: CLeaf) -> str:
    """How the harness spells a leaf: members of the environment `e`."""
    if leaf.kind in ("block", "grid"):
        return f"e->{leaf.kind}[{leaf.axis}]"
    if leaf.kind in ("dim", "stride"):
        return f"e->{leaf.name}_{leaf.kind}[{leaf.axis}]"
    if leaf.kind == "extent":
        return f"extent_{leaf.name}(e)"
    return f"e->{leaf.name}" if leaf.kind == "scalar" else f"e->{leaf.name}_{leaf.kind}"


def program(pairs: Sequence[tuple[Rule, Environment]]) -> str:
    """A program that prints each rule's value or problem in its environment, then the values of its leaves."""
    members, extents = ["uint32_t block[3], grid[3];"], []
    for param in PARAMS:
        name, type_ = param.name, param.type
        if isinstance(type_, Scalar):
            members += [f"{_C_TYPES[type_.name]} {name};"] if type_.kind != "float" else []
            continue
        element = type_.pointee if isinstance(type_, Pointer) else type_.element
        members.append(f"uint64_t {name}_address;")
        if isinstance(type_, Tensor):
            members.append(f"int64_t {name}_dim[{type_.rank}], {name}_stride[{type_.rank}];")
            call = f"interop_rule_tensor_extent(e->{name}_address, {type_.rank}, e->{name}_dim, e->{name}_stride"
        else:
            members.append(f"uint64_t {name}_length;")
            call = f"interop_rule_slice_extent(e->{name}_address, e->{name}_length"
        extents.append(
            f"static inline interop_rule_extent extent_{name}(const env *e) {{ return {call}, {element.size}); }}"
        )
    functions, rows, calls = [], [], []
    for index, (rule, env) in enumerate(pairs):
        functions.append(
            f"static interop_rule_value rule_{index}(const env *e) {{ (void)e; return {rule.to_c(name_of)}; }}"
        )
        values = "".join(f" print({value});" for _, value in rule.c_values(name_of))
        functions.append(f'static void leaves_{index}(const env *e) {{ (void)e;{values} puts(""); }}')
        rows.append(_initializer(env))
        calls.append(f"print(rule_{index}(&envs[{index}])); leaves_{index}(&envs[{index}]);")
    return "\n".join(
        [
            "#include <inttypes.h>\n#include <stdio.h>\n#include <interop/rule.h>",
            f"typedef struct env {{ {' '.join(members)} }} env;",
            "static void print(interop_rule_value v)",
            '{ if (v.problem) printf("%s;", interop_rule_problem_text(v.problem));',
            'else printf("%" PRId64 ";", v.value); }',
            *extents,
            f"static const env envs[] = {{ {', '.join(rows)} }};",
            *functions,
            "int main(void) {",
            *calls,
            "return 0; }",
        ]
    )


def _initializer(env: Environment) -> str:
    parts = [_list(env.block, "u"), _list(env.grid, "u")]
    for param in PARAMS:
        value = env.arguments.get(param.name)
        if isinstance(value, ArrayValue):
            parts.append(f"{value.address}u")
            if isinstance(param.type, Slice | Pointer):
                parts.append(f"{value.shape[0]}u")
            else:
                parts += [_list(value.shape), _list(value.strides)]
        elif isinstance(param.type, Scalar) and param.type.kind != "float":
            parts.append(f"{value}u" if param.type.kind == "uint" else _signed(int(value)))
    return "{" + ", ".join(parts) + "}"


def _list(values: Sequence[int], suffix: str = "") -> str:
    return "{" + ", ".join(f"{v}u" if suffix else _signed(v) for v in values) + "}"


def _signed(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else str(value)


def run(
    compiler: Sequence[str], suffix: str, pairs: Sequence[tuple[Rule, Environment]], folder: Path
) -> list[list[str]]:
    """For each pair: the rule's value or problem as text, then those of its leaves."""
    source, binary = folder / f"rules{suffix}", folder / "rules"
    source.write_text(program(pairs))
    subprocess.run([*compiler, *WARNINGS, f"-I{INCLUDE}", str(source), "-o", str(binary)], check=True)
    output = subprocess.run([str(binary)], check=True, capture_output=True, text=True)
    assert output.stderr == ""  # the sanitizer reports there
    return [line.split(";")[:-1] for line in output.stdout.splitlines()]

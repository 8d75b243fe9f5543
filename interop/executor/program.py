"""The constant ``interop_cpu_program`` of a kernel: what the C runtime knows of its code."""

from __future__ import annotations

from collections.abc import Sequence

from .analysis import Plan, instructions
from .storage import Storage

_LINE = "{ i32, i32, i32 }"
_VARIABLE = "{ ptr, i64, ptr, i32, i32 }"


def text_constant(symbol: str, text: str) -> str:
    """The definition of a terminated string."""
    encoded = text.encode("utf-8", "surrogatepass").replace(b"\0", b"?") + b"\0"
    characters = "".join(f"\\{byte:02X}" for byte in encoded)
    return f'@"{symbol}" = internal unnamed_addr constant [{len(encoded)} x i8] c"{characters}"'


def source_lines(plan: Plan) -> list[tuple[int, int, int]]:
    """(PTX line, number of the file, line in it) wherever the source line changes, by ascending PTX line."""
    found = [
        (i.line, i.source_file, i.source_line) for function in plan.reachable for i in instructions(function.body or ())
    ]
    changes: list[tuple[int, int, int]] = []
    for entry in sorted(found):
        if not changes or changes[-1][1:] != entry[1:]:
            changes.append(entry)
    return changes if any(line for _, _, line in changes) else []


def define_program(plan: Plan, storage: Storage, name: str, versions: Sequence[str] = ()) -> str:
    """The definitions of ``program.name`` and of what it points to. `versions` are the records of the same kernel for
    several lanes."""
    lines = source_lines(plan)
    known = dict(plan.module.files)
    files = sorted({file for _, file, _ in lines if file in known})
    definitions = []

    def table(kind: str, type_: str, rows: list[str]) -> str:
        if not rows:
            return "ptr null"
        definitions.append(
            f'@"{kind}.{name}" = internal unnamed_addr constant [{len(rows)} x {type_}] [{", ".join(rows)}]'
        )
        return f'ptr @"{kind}.{name}"'

    position = {file: index for index, file in enumerate(files)}
    lines_at = table(
        "lines", _LINE, [f"{_LINE} {{ i32 {p}, i32 {position.get(f, len(files))}, i32 {s} }}" for p, f, s in lines]
    )
    definitions += [text_constant(f"file.{index}.{name}", known[file]) for file, index in position.items()]
    files_at = table("files", "ptr", [f'ptr @"file.{index}.{name}"' for index in range(len(files))])
    variables = storage.used_variables()
    definitions += [text_constant(f"variable.{k}.{name}", v.name) for k, (v, _) in enumerate(variables)]
    variables_at = table(
        "variables",
        _VARIABLE,
        [
            f'{_VARIABLE} {{ ptr {pointer}, i64 {v.size}, ptr @"variable.{k}.{name}", '
            f"i32 {int(v.space != 'const')}, i32 0 }}"
            for k, (v, pointer) in enumerate(variables)
        ],
    )
    versions_at = table("versions", "ptr", [f'ptr @"{version}"' for version in versions])
    numbers = [int(plan.coroutine), int(plan.spins), plan.checks.sites, len(lines), len(files), len(variables)]
    numbers += [len(versions), 0]
    fields = [*(f"i32 {number}" for number in numbers), lines_at, files_at, variables_at, versions_at]
    types = ", ".join(["i32"] * len(numbers) + ["ptr"] * 4)
    definitions.append(f'@"program.{name}" = internal constant {{ {types} }} {{ {", ".join(fields)} }}, align 8')
    return "\n".join(definitions)

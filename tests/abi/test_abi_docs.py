"""docs/abi.md says what the code does: status table, worked layout, fields, messages; and `abi` stays small."""

from __future__ import annotations

import ast
import re
import struct
import sys
from pathlib import Path

import pytest

import abi
from abi import (
    STATUS_TEXT,
    AbiMismatch,
    Access,
    ArgumentTypeError,
    ArrayValue,
    Block,
    BlockKind,
    ContractError,
    Environment,
    Image,
    ImageKind,
    Kernel,
    Launch,
    Param,
    Pointer,
    Requirement,
    Slice,
    Status,
    assign_slots,
    buffer_size,
    check_block,
    check_requirements,
    evaluate_fills,
    evaluate_grid,
    evaluate_shared,
    f32,
    packing,
    resolve_launch,
    u32,
    u64,
    verify,
)
from abi.json_codecs import Record
from abi.json_io import BLOCK, DOCUMENT, IMAGE, KERNEL, LAUNCH, PARAM, REQUIREMENT, SLOT
from abi.rules import c_expression, parse
from abi.show import layout_table

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "abi.md").read_text("utf-8")
SAXPY = Kernel(
    "saxpy",
    "saxpy",
    "python",
    assign_slots([Param("x", Slice(f32)), Param("y", Slice(f32), Access.INOUT), Param("a", f32)]),
)


def block_after(marker: str) -> str:
    """The fenced block that follows the comment `marker`."""
    match = re.search(rf"<!-- {re.escape(marker)}.*?-->\n```\n(.*?)```", DOCS, re.DOTALL)
    assert match, marker
    return match.group(1)


def test_status_table() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*?) \|$", DOCS[DOCS.index("<!-- status table") :], re.MULTILINE)
    assert rows == [(str(s.value), s.name, STATUS_TEXT[s]) for s in Status]


def test_layout_of_saxpy() -> None:
    assert block_after("layout of saxpy") == layout_table(SAXPY) + "\n"


def test_bytes_of_saxpy() -> None:
    buffer = bytearray(buffer_size(SAXPY.params))
    values = iter([0x7F0000000000, 1000, 0x7F0000001000, 1000, 2.0])
    lines = []
    for param in SAXPY.params:
        for _, offset, size in packing(param):
            struct.pack_into("<f" if param.name == "a" else "<Q", buffer, offset, next(values))
            lines.append(f"{offset:2}: {buffer[offset : offset + size].hex(' ')}\n")
    assert block_after("bytes of saxpy") == "".join(lines)


@pytest.mark.parametrize("record", [DOCUMENT, KERNEL, PARAM, LAUNCH, BLOCK, REQUIREMENT, SLOT, IMAGE])
def test_every_field_is_documented(record: Record[object]) -> None:
    for field in record.fields:
        assert f"`{field.key}`" in DOCS, field.key


def raised(function: object, *arguments: object) -> str:
    with pytest.raises((ArgumentTypeError, ContractError, AbiMismatch)) as caught:
        function(*arguments)  # type: ignore[operator]
    return str(caught.value)


def array(address: int, length: int) -> ArrayValue:
    return ArrayValue(address, (length,), (1,), 4)


def test_messages() -> None:
    params = (Param("x", Slice(f32)), Param("y", Slice(f32)), Param("n", u64), Param("k", u64))

    def broken(rule: str, note: str = "", **given: object) -> str:
        kernel = Kernel("saxpy", "saxpy", "python", params, requires=(Requirement(rule, note=note),))
        arguments = {"x": array(0x1004, 4), "y": array(0x2000, 4), "n": 4, "k": 0, **given}
        return raised(check_requirements, kernel, Environment(arguments, (1, 1, 1), (1, 2, 1)))  # type: ignore[arg-type]

    produced = [
        broken("len(x) >= len(y)", x=array(0x1000, 3)),
        broken("grid.y == 1", "y is written at global_index()"),
        broken("disjoint(y, *)", y=array(0x1004, 4)),
        broken("aligned(x, 16)"),
        broken("n % k == 0"),
        broken("n * n > 0", n=2**32),
        raised(check_block, Kernel("saxpy", "", "", (), Launch(Block(BlockKind.EXACT, (256, 1, 1)))), (128, 1, 1)),
        raised(
            evaluate_grid,
            Kernel("saxpy", "", "", params, Launch(grid=("len(x) - len(y)",))),
            Environment({"x": array(0, 1), "y": array(0, 3)}),
        ),
        raised(
            evaluate_fills,
            Kernel("saxpy", "", "", (params[1], Param("n", u32, fill="len(y)"))),
            Environment({"y": array(0, 2**32)}),
        ),
    ]
    assert "\n".join(produced) in DOCS


def test_mismatch_table() -> None:
    text = ".version 8.0\n.target sm_80\n.entry saxpy(.param .u64 x, .param .u64 xn, .param .u64 y, .param .u64 yn, "
    text += ".param .f32 a) { }"
    params = assign_slots([Param("x", Slice(f32)), Param("y", Pointer(f32), Access.INOUT), Param("a", f32)])
    message = raised(verify, Kernel("saxpy", "saxpy", "", params), Image(ImageKind.PTX, "sm_80", text.encode()))
    assert message in DOCS


def test_c_expression() -> None:
    rule = parse("len(x) >= len(y)", SAXPY.params)
    assert f"{c_expression(rule, lambda leaf: f'{leaf.name}.{leaf.kind}')}        /* {rule.text} */" in DOCS


def test_internal_links_lead_somewhere() -> None:
    headings = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^## (.*)$", DOCS, re.M)}
    assert set(re.findall(r"\(#([a-z0-9-]+)\)", DOCS)) <= headings


def test_abi_imports_the_standard_library_and_itself_only() -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy"}
    for path in (ROOT / "abi").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            assert {name.split(".")[0] for name in names} <= allowed, (path, names)


def test_public_names_are_listed_and_exist() -> None:
    assert len(abi.__all__) == len(set(abi.__all__))
    for name in abi.__all__:
        assert hasattr(abi, name), name


def test_what_the_call_has_to_give() -> None:
    kernel = Kernel("saxpy", "saxpy", "python", (), Launch(shared=""))
    produced = [
        raised(resolve_launch, kernel, {}),
        raised(evaluate_grid, kernel, Environment({})),
        raised(evaluate_shared, kernel, Environment({})),
    ]
    assert "\n".join(produced) + "\n" == block_after("not given")

"""mma, and moving 8 x 8 matrices between shared memory and registers: PTX ISA 9.7.14."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interop.ptx import Instruction, ast

from .errors import malformed, unsupported
from .fragments import Flag, Kind, Operation, Shape, encode, perform
from .memory import space_of
from .modifiers import Modifiers
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

KINDS = {"f16": Kind.F16, "bf16": Kind.BF16, "tf32": Kind.TF32, "f64": Kind.F64, "s8": Kind.INT8, "u8": Kind.INT8,
         "s4": Kind.INT4, "u4": Kind.INT4, "b1": Kind.B1}  # fmt: skip
_SHAPES = {
    Kind.F16: {"m16n8k8", "m16n8k16"},
    Kind.BF16: {"m16n8k8", "m16n8k16"},
    Kind.TF32: {"m16n8k4", "m16n8k8"},
    Kind.F64: {"m8n8k4"},
    Kind.INT8: {"m8n8k16", "m16n8k16", "m16n8k32"},
    Kind.INT4: {"m8n8k32", "m16n8k32", "m16n8k64"},
    Kind.B1: {"m8n8k128", "m16n8k128", "m16n8k256"},
}
_NEWER = {"e4m3": "sm_89", "e5m2": "sm_89", "e3m2": "sm_120a", "e2m3": "sm_120a", "e2m1": "sm_120a"}


def extents_of(i: Instruction, m: Modifiers) -> tuple[str, tuple[int, int, int]]:
    """The shape that an instruction names, as text and as numbers."""
    for modifier in m.rest:
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier)
        if found:
            m.flag(modifier)
            rows, columns, inner = map(int, found.groups())
            return modifier, (rows, columns, inner)
    raise malformed(i, "the shape is missing")


def require_aligned(i: Instruction, m: Modifiers) -> None:
    """Matrix instructions are for the whole warp at once."""
    if not m.flag("sync"):
        raise malformed(i, "matrix instructions need .sync")
    m.flag("aligned")


def registers(operand: ast.Operand, count: int, i: Instruction, what: str) -> tuple[ast.Operand, ...]:
    """The registers of a fragment, of which there must be `count`."""
    items = operand.items if isinstance(operand, ast.Vector) else (operand,)
    if len(items) != count:
        raise malformed(i, f"{what} takes {count} registers, not {len(items)}")
    return items


def read_registers(t: Translator, items: tuple[ast.Operand, ...], llvm: str) -> list[tuple[str, str]]:
    """The bits of each register, with their type."""
    return [(llvm, t.read(item, f"b{llvm[1:]}")) for item in items]


def write_registers(t: Translator, items: tuple[ast.Operand, ...], values: list[str], llvm: str) -> None:
    """Stores the bits of each register."""
    for item, value in zip(items, values):
        t.write(item, f"b{llvm[1:]}", value)


def multiply(t: Translator, i: Instruction, code: int, counts: tuple[int, int, int, int], llvm: str = "i32") -> None:
    """D = A B + C of fragments with so many registers: D, A, B, C. Of f64 fragments all have 64 bits."""
    names = ("the result", "matrix A", "matrix B", "the accumulator")
    parts = [registers(t.operand(k), count, i, what) for k, (count, what) in enumerate(zip(counts, names))]
    inputs = [pair for part in parts[1:] for pair in read_registers(t, part, llvm)]
    write_registers(t, parts[0], perform(t, code, inputs, [llvm] * counts[0]), llvm)


def take_types(i: Instruction, m: Modifiers, count: int) -> list[str]:
    """What is left when all else is taken: the types of D, A, B, C."""
    types, m.rest[:] = list(m.rest), []
    if len(types) != count:
        raise malformed(i, f"{count} types are expected behind the shape")
    for type_ in types:
        if type_ in _NEWER:
            raise unsupported(i, f".{type_} needs {_NEWER[type_]}; the CPU device has the matrix instructions of sm_80")
    return types


def flags_of(i: Instruction, m: Modifiers, types: list[str], saturate: bool, operation: str) -> Flag:
    """What the types and modifiers of a product say."""
    d, a, b, c = types
    kind = KINDS[a]
    if (KINDS.get(b) != kind) or (kind not in (Kind.INT8, Kind.INT4) and a != b):
        raise malformed(i, f".{a} and .{b} are not multiplied with each other")
    allowed = {"f16": {"f16", "f32"}, "bf16": {"f32"}, "tf32": {"f32"}, "f64": {"f64"}}.get(a, {"s32"})
    if d not in allowed or c not in allowed:
        raise malformed(i, f"the accumulators of .{a} are .{' or .'.join(sorted(allowed))}")
    if saturate and kind not in (Kind.INT8, Kind.INT4):
        raise malformed(i, ".satfinite is for integers")
    if (operation != "") != (kind == Kind.B1):
        raise malformed(i, ".xor.popc and .and.popc belong to .b1")
    flags = Flag.SATURATE if saturate else Flag.NONE
    flags |= Flag.BITS_AND if operation == "and" else Flag.NONE
    flags |= Flag.A_SIGNED if a in ("s8", "s4") else Flag.NONE
    flags |= Flag.B_SIGNED if b in ("s8", "s4") else Flag.NONE
    flags |= Flag.C_HALF if c == "f16" else Flag.NONE
    return flags | (Flag.D_HALF if d == "f16" else Flag.NONE)


def bit_operation(m: Modifiers) -> str:
    """How single bits are multiplied: ``xor`` or ``and``; empty where there is no ``popc``."""
    return m.take("xor", "and") if m.flag("popc") else ""


@TABLE("mma")
def mma(t: Translator, i: Instruction, m: Modifiers) -> None:
    """D = A B + C of a warp's fragments."""
    require_aligned(i, m)
    if any(modifier.startswith(("sp", "kind", "block_scale", "scale_vec")) for modifier in m.rest):
        raise unsupported(i, "sparse and block-scaled matrices")
    shape, extents = extents_of(i, m)
    layouts = [m.take("row", "col"), m.take("row", "col")]
    saturate, operation = m.flag("satfinite"), bit_operation(m)
    types = take_types(i, m, 4)
    kind = KINDS.get(types[1])
    if kind is None:
        raise malformed(i, f"matrices of .{types[1]} are not multiplied")
    flags = flags_of(i, m, types, saturate, operation)
    if shape == "m8n8k4" and kind == Kind.F16:
        _quad(t, i, flags, layouts)
        return
    if layouts != ["row", "col"]:
        raise malformed(i, "matrix A is .row and matrix B is .col")
    if shape not in _SHAPES[kind]:
        why = "needs sm_90" if kind == Kind.F64 and shape in ("m16n8k4", "m16n8k8", "m16n8k16") else "is none of sm_80"
        raise unsupported(i, f".{shape} of .{types[1]} {why}")
    blocks = Shape.of(extents, kind)
    code = encode(Operation.MMA, kind, blocks, flags)
    if kind == Kind.F64:
        multiply(t, i, code, (2, 1, 1, 2), "i64")
        return
    d, c = (blocks.rows * (1 if half else 2) for half in (types[0] == "f16", types[3] == "f16"))
    if types[0] != types[3]:
        raise malformed(i, "both accumulators have one type")
    multiply(t, i, code, (d, blocks.rows * blocks.depth, blocks.depth, c))


def _quad(t: Translator, i: Instruction, flags: Flag, layouts: list[str]) -> None:
    """m8n8k4 of f16: four products, one for each eight lanes."""
    if "" in layouts:
        raise malformed(i, "the layouts of A and B are missing")
    flags |= Flag.A_COLUMNS if layouts[0] == "col" else Flag.NONE
    flags |= Flag.B_ROWS if layouts[1] == "row" else Flag.NONE
    d, c = (4 if flags & half else 8 for half in (Flag.D_HALF, Flag.C_HALF))
    multiply(t, i, encode(Operation.MMA, Kind.QUAD, Shape(1, 1, 1), flags), (d, 2, 2, c))


@TABLE("ldmatrix", "stmatrix")
def move_matrices(t: Translator, i: Instruction, m: Modifiers) -> None:
    """One, two or four 8 x 8 matrices of 16-bit elements; eight lanes each name a row."""
    require_aligned(i, m)
    shape, count = m.take("m8n8", "m16n16", "m8n16"), m.take("x1", "x2", "x4")
    transposed = m.flag("trans")
    space = space_of(m)
    if space not in ("", "shared"):
        raise malformed(i, "matrices are in shared memory")
    if shape != "m8n8" or not m.flag("b16"):
        raise unsupported(i, "elements narrower than 16 bits, which need sm_100a")
    if not count:
        raise malformed(i, "how many matrices is missing")
    number = int(count[1:])
    load = i.opcode == "ldmatrix"
    code = encode(
        Operation.LDMATRIX if load else Operation.STMATRIX,
        Kind.F16,
        Shape(1, 1, number),
        Flag.A_COLUMNS if transposed else Flag.NONE,
    )
    pointer = ("i64", t.address_number(t.operand(1 if load else 0), space))
    fragment = registers(t.operand(0 if load else 1), number, i, f".{count}")
    if load:
        write_registers(t, fragment, perform(t, code, [pointer], ["i32"] * number), "i32")
    else:
        perform(t, code, [pointer, *read_registers(t, fragment, "i32")], [])


@TABLE("movmatrix")
def movmatrix(t: Translator, i: Instruction, m: Modifiers) -> None:
    """Transposes an 8 x 8 matrix between the lanes."""
    require_aligned(i, m)
    if not (m.flag("m8n8") and m.flag("trans") and m.flag("b16")):
        raise unsupported(i)
    values = perform(t, encode(Operation.MOVMATRIX, Kind.F16, Shape(1, 1, 1)), [("i32", t.read(t.operand(1), "b32"))],
                     ["i32"])  # fmt: skip
    t.write(t.operand(0), "b32", values[0])

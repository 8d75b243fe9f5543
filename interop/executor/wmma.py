"""wmma: matrices in registers whose layout is the implementation's own. Here it is that of mma: PTX ISA 9.7.14.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.ptx import Instruction

from . import matrix
from .errors import malformed, unsupported
from .fragments import BITS, Flag, Kind, Operation, Shape, encode, perform
from .memory import space_of
from .modifiers import Modifiers
from .records import Access
from .table import Table

if TYPE_CHECKING:
    from .translator import Translator

TABLE = Table()

_LARGE = {"m16n16k16", "m8n32k16", "m32n8k16"}
_SHAPES = {
    Kind.F16: _LARGE,
    Kind.BF16: _LARGE,
    Kind.TF32: {"m16n16k8"},
    Kind.F64: {"m8n8k4"},
    Kind.INT8: _LARGE,
    Kind.INT4: {"m8n8k32"},
    Kind.B1: {"m8n8k128"},
}
_ACCUMULATORS = {"f16": Kind.F16, "f32": Kind.WORD, "s32": Kind.WORD, "f64": Kind.F64}
_F16_REGISTERS = 8
"""Every f16 factor has as many registers, whatever its shape: where fewer hold it, they come again."""


def _factor(shape: Shape, kind: Kind, role: int) -> int:
    """How many registers hold matrix A (role 0) or B (role 1)."""
    return 1 if kind == Kind.F64 else (shape.rows, shape.columns)[role] * shape.depth


def _accumulator(shape: Shape, kind: Kind) -> int:
    """How many registers hold an accumulator."""
    return 2 if kind == Kind.F64 else shape.rows * shape.columns * (1 if kind == Kind.F16 else 2)


@TABLE("wmma")
def wmma(t: Translator, i: Instruction, m: Modifiers) -> None:
    """wmma.load, wmma.store and wmma.mma."""
    matrix.require_aligned(i, m)
    operation = m.take("load", "store", "mma")
    if operation == "mma":
        _multiply(t, i, m)
    elif operation:
        _move(t, i, m, operation == "load")
    else:
        raise malformed(i, "it is one of wmma.load, wmma.store and wmma.mma")


def _check(i: Instruction, kind: Kind, name: str, type_: str) -> None:
    if name not in _SHAPES[kind]:
        raise unsupported(i, f".{name} of .{type_} is no shape of sm_80")


def _accumulated(i: Instruction, extents: tuple[int, int, int], name: str) -> Shape:
    """The shape of an accumulator, which any type of factor may have."""
    if not any(name in shapes for shapes in _SHAPES.values()):
        raise unsupported(i, f".{name} is no shape of sm_80")
    return Shape(extents[0] // 8, extents[1] // 8, 1)


def _stride(t: Translator, index: int, extents: tuple[int, int, int], role: str, columns: bool) -> str:
    """Elements from one row or column to the next: what is written, or the matrix has no gaps."""
    if len(t.instruction.operands) > index:
        return t.read(t.operand(index), "u32")
    return str(_lines(extents, role, columns)[1])


def _lines(extents: tuple[int, int, int], role: str, columns: bool) -> tuple[int, int]:
    """How many rows, or columns, a matrix has in memory, and the elements of each."""
    rows, cols, inner = extents
    height, width = {"a": (rows, inner), "b": (inner, cols)}.get(role, (rows, cols))
    return (width, height) if columns else (height, width)


def _bytes(t: Translator, extents: tuple[int, int, int], role: str, columns: bool, stride: str, bits: int) -> str:
    """From the first byte of a matrix to behind its last one."""
    count, length = _lines(extents, role, columns)
    elements = t.b.binary("add", "i32", t.b.binary("mul", "i32", stride, str(count - 1)), str(length))
    return t.b.binary("lshr", "i32", t.b.binary("mul", "i32", elements, str(bits)), "3")


def _move(t: Translator, i: Instruction, m: Modifiers, load: bool) -> None:
    """A matrix from memory to registers or back."""
    role = m.take("a", "b", "c", "d")
    columns = m.take("row", "col") == "col"
    name, extents = matrix.extents_of(i, m)
    space = space_of(m)
    (type_,) = matrix.take_types(i, m, 1)
    if role == ("d" if load else "c") or not role or (not load and role != "d"):
        raise malformed(i, "matrices a, b and c are loaded, and d is stored")
    kind = (matrix.KINDS if role in "ab" else _ACCUMULATORS).get(type_)
    if kind is None:
        raise malformed(i, f"matrix {role} is not of type .{type_}")
    if role in "ab":
        _check(i, kind, name, type_)
        shape = Shape.of(extents, kind)
        used = _factor(shape, kind, "ab".index(role))
    else:
        shape = _accumulated(i, extents, name)
        used = _accumulator(shape, kind)
    if kind in (Kind.INT4, Kind.B1) and columns != (role == "b"):
        raise malformed(i, f"matrix {role} of .{type_} is {'.col' if role == 'b' else '.row'}")
    flag = Flag.NONE if columns == (role == "b") else Flag.B_ROWS if role == "b" else Flag.A_COLUMNS
    code = encode(
        Operation.WMMA_LOAD if load else Operation.WMMA_STORE, kind, shape, flag, role={"a": 0, "b": 1}.get(role, 2)
    )
    llvm = "i64" if kind == Kind.F64 else "i32"
    count = _F16_REGISTERS if kind == Kind.F16 and role in "ab" else used
    items = matrix.registers(t.operand(0 if load else 1), count, i, f"matrix {role}")
    where = t.operand(1 if load else 0)
    pointer, stride = t.address_number(where, space), _stride(t, 2, extents, role, columns)
    if space != "shared":
        extent = _bytes(t, extents, role, columns, stride, BITS[kind])
        t.check_span(where, pointer, extent, Access.READ if load else Access.WRITE)
    place = [("i64", pointer), ("i32", stride)]
    if not load:
        perform(t, code, [*place, *matrix.read_registers(t, items, llvm)], [])
        return
    values = perform(t, code, place, [llvm] * used)
    matrix.write_registers(t, items, [values[k % used] for k in range(count)], llvm)


def _multiply(t: Translator, i: Instruction, m: Modifiers) -> None:
    """D = A B + C. Layouts do not matter: fragments are the same for either."""
    operation = matrix.bit_operation(m)
    m.take("row", "col")
    m.take("row", "col")
    name, extents = matrix.extents_of(i, m)
    saturate = m.flag("satfinite")
    if m.take("rz", "rm", "rp"):
        raise unsupported(i, "rounding of f64 products other than to nearest")
    m.flag("rn")
    # Of f16 factors only the accumulators' types are written.
    types = matrix.take_types(i, m, 2 if len(m.rest) == 2 else 4)
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    kind = matrix.KINDS.get(types[1])
    if kind is None:
        raise malformed(i, f"matrices of .{types[1]} are not multiplied")
    _check(i, kind, name, types[1])
    if saturate and kind == Kind.F16:
        raise unsupported(i, ".satfinite of floating-point products, which sm_80 does not have")
    flags = matrix.flags_of(i, m, types, saturate, operation)
    shape = Shape.of(extents, kind)
    llvm = "i64" if kind == Kind.F64 else "i32"
    used = [_factor(shape, kind, role) for role in (0, 1)]
    counts = [_F16_REGISTERS] * 2 if kind == Kind.F16 else used
    d, c = (_accumulator(shape, _ACCUMULATORS[types[k]]) for k in (0, 3))
    result = matrix.registers(t.operand(0), d, i, "the result")
    inputs = []
    for index, role in enumerate("ab"):
        items = matrix.registers(t.operand(index + 1), counts[index], i, f"matrix {role}")
        inputs += matrix.read_registers(t, items[: used[index]], llvm)
    inputs += matrix.read_registers(t, matrix.registers(t.operand(3), c, i, "the accumulator"), llvm)
    code = encode(Operation.MMA, kind, shape, flags)
    matrix.write_registers(t, result, perform(t, code, inputs, [llvm] * d), llvm)

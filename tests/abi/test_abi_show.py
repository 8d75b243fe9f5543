"""Printed signatures, contracts and layouts."""

from __future__ import annotations

import ast

import pytest

from abi import (
    Access,
    Block,
    BlockKind,
    Kernel,
    Launch,
    Origin,
    Param,
    Pointer,
    Requirement,
    Slice,
    Tensor,
    assign_slots,
    f32,
    i32,
    parse_type,
    u64,
    with_implied,
)
from abi.show import c_parameters, c_signature, c_type, contract_lines, layout_table, python_signature


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("f32", "float", "float"),
        ("f64", "double", "double"),
        ("i8", "int8_t", "int8_t"),
        ("i32", "int32_t", "int32_t"),
        ("u8", "uint8_t", "uint8_t"),
        ("u64", "uint64_t", "uint64_t"),
        ("bool", "bool", "bool"),
        ("f16", "interop_f16", "interop_f16"),
        ("bf16", "interop_bf16", "interop_bf16"),
        ("ptr<f32>", "const float *", "float *"),
        ("ptr<bf16>", "const interop_bf16 *", "interop_bf16 *"),
        ("ptr", "const void *", "void *"),
        ("slice<f32>", "interop_slice_const_f32", "interop_slice_f32"),
        ("tensor<u8, 2>", "interop_tensor2_const_u8", "interop_tensor2_u8"),
        ("bytes<24, 8>", "interop_bytes_24_8", "interop_bytes_24_8"),
    ],
)
def test_c_types(text: str, read: str, written: str) -> None:
    assert c_type(parse_type(text)) == read
    assert c_type(parse_type(text), Access.INOUT) == c_type(parse_type(text), Access.OUT) == written


SAXPY = with_implied(
    Kernel(
        "saxpy",
        "saxpy",
        "python",
        assign_slots([Param("x", Slice(f32)), Param("y", Slice(f32), Access.INOUT), Param("a", f32)]),
        Launch(Block(BlockKind.EXACT, (256, 1, 1)), ("ceil_div(len(y), block.x)",)),
        (Requirement("len(x) >= len(y)"), Requirement("grid.y == 1", Origin.WITNESS, "simt.global_index()")),
    )
)
SCALE = Kernel(
    "scale",
    "_Z5scalePfPvPKifm",
    "cuda-c++",
    assign_slots(
        [
            Param("y", Pointer(f32), Access.INOUT),
            Param("scratch", Pointer(), Access.OUT),
            Param("order", Pointer(i32)),
            Param("t", Tensor(f32, 2)),
            Param("n", u64, fill="len(y)"),
        ],
        "c",
    ),
    Launch(Block(BlockKind.UP_TO, (16, 16, 1)), ("dim(t, 0)", "2"), "4 * block.x", (9, 0)),
    convention="c",
)


def test_signatures() -> None:
    assert c_signature(SAXPY) == "interop_status saxpy(interop_slice_const_f32 x, interop_slice_f32 y, float a)"
    assert python_signature(SAXPY) == "saxpy(x: Slice[f32], y: DisjointSlice[f32], a: f32)"
    # A pointer whose length a rule reads is a slice for a typed host; a hidden parameter is not passed.
    assert c_parameters(SCALE) == (
        "interop_slice_f32 y",
        "void *scratch",
        "const int32_t *order",
        "interop_tensor2_const_f32 t",
    )
    assert python_signature(SCALE) == "scale(y: InOut[f32], scratch: ptr, order: In[i32], t: Tensor[f32, 2])"
    assert c_signature(Kernel("f", "f", "c", ())) == "interop_status f(void)"
    assert c_signature(Kernel("f", "f", "c", ()), "mix_") == (
        "interop_status mix_f(const mix_module *module, interop_stream stream)"
    )


@pytest.mark.parametrize(
    ("name", "c", "python"),
    [
        ("geo::detail::scale(float*, float, int)", "geo_detail_scale_float_float_int", None),
        ("blur<float, 3>", "blur_float_3", None),
        ("_Z3fooPf", "_Z3fooPf", None),
        ("_private_", "_private_", None),
        ("kernel$2", "kernel_2", None),
        ("2d", "_2d", None),
        ("double", "double_", "double"),
        ("lambda", "lambda", "lambda_"),
        ("größe", "gr_e", None),
        ("<>", "_", None),
    ],
)
def test_printed_names_are_identifiers(name: str, c: str, python: str | None) -> None:
    kernel = Kernel(name, name, "ptx", assign_slots([Param("default", f32), Param("in", i32)], "c"))
    assert c_signature(kernel) == f"interop_status {c}(float default_, int32_t in)"
    assert python_signature(kernel) == f"{python or c}(default: f32, in_: i32)"
    ast.parse(f"def {python_signature(kernel)}: ...")


def test_contracts() -> None:
    assert contract_lines(SAXPY) == [
        "block     exactly (256, 1, 1)",
        "grid      ceil_div(len(y), block.x)",
        "needs     compute capability 8.0",
        "requires  len(x) >= len(y)",
        "requires  grid.y == 1   [witness]   simt.global_index()",
        "requires  disjoint(y, *)   [implied]",
    ]
    assert contract_lines(SCALE) == [
        "block     up to 256 threads",
        "grid      (dim(t, 0), 2)",
        "shared    4 * block.x bytes",
        "needs     compute capability 9.0",
        "fills     n = len(y)",
    ]
    assert contract_lines(Kernel("f", "f", "c", ()))[:2] == [
        "block     given by the caller",
        "grid      given by the caller",
    ]
    assert "shared    given by the caller" in contract_lines(Kernel("f", "f", "c", (), Launch(shared="")))


def test_layouts() -> None:
    assert layout_table(SAXPY).splitlines() == [
        "offset  size  align  access  parameter",
        "     0     8      8  in      x.pointer",
        "     8     8      8  in      x.length",
        "    16     8      8  inout   y.pointer",
        "    24     8      8  inout   y.length",
        "    32     4      4  in      a: f32",
        "36 bytes in all",
    ]
    assert "    64     8      8  in      n: u64 = len(y)" in layout_table(SCALE).splitlines()
    assert "    48     8      8  in      t.stride(0)" in layout_table(SCALE).splitlines()

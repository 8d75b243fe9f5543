"""Descriptions against images: PTX and cubins."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abi import (
    AbiMismatch,
    Access,
    Block,
    BlockKind,
    Bytes,
    Image,
    ImageError,
    ImageKind,
    Kernel,
    Launch,
    Param,
    Pointer,
    Slice,
    Slot,
    Status,
    SymbolNotFound,
    Type,
    Verified,
    assign_slots,
    f16,
    f32,
    f64,
    i32,
    i64,
    read_cubin_params,
    u32,
    verify,
)

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .u64 xn, .param .u64 y, .param .u64 yn, .param .f32 a) { ret; }
.visible .entry _Z4blurPf(.param .u64 p) .reqntid 64 { ret; }
.visible .entry raw(.param .align 8 .b8 s[24], .param .align 2 .b8 h[2]) { ret; }
.visible .entry bits(.param .b64 p, .param .b32 a) { ret; }
"""


def image(text: str = PTX) -> Image:
    return Image(ImageKind.PTX, "sm_80", text.encode())


def kernel(symbol: str, *types: Type, launch: Launch | None = None) -> Kernel:
    params = assign_slots([Param(f"p{i}", t) for i, t in enumerate(types)])
    return Kernel(symbol, symbol, "c", params, launch or Launch())


def test_a_description_that_fits() -> None:
    assert verify(kernel("saxpy", Slice(f32), Slice(f32), f32), image()) is Verified.LAYOUT
    assert verify(kernel("raw", Bytes(24, 8), f16), image()) is Verified.LAYOUT
    assert verify(kernel("bits", Pointer(f32), f32), image()) is Verified.LAYOUT
    assert verify(kernel("bits", i64, i32), image()) is Verified.LAYOUT


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ((Slice(f32), Slice(f32)), "the description has 4 image parameters, and the image 5"),
        ((Slice(f32), Slice(f32), f32, f32), "the description has 6 image parameters, and the image 5"),
        ((Slice(f32), Pointer(f32), f32, f32), "p2: f32 has size 4, and in the image it is 8"),
        ((Slice(f32), Slice(f32), f64), "p2: f64 has size 8, and in the image it is 4"),
        ((Slice(f32), Slice(f32), i32), "p2: i32 and the image's .f32 a are not the same kind of number"),
        ((f64, i64, i64, i64, f32), "p0: f64 and the image's .u64 x are not the same kind of number"),
        ((), "the description has 0 image parameters, and the image 5"),
    ],
)
def test_a_description_that_does_not_fit(types: tuple[Type, ...], words: str) -> None:
    with pytest.raises(AbiMismatch) as caught:
        verify(kernel("saxpy", *types), image())
    assert words in str(caught.value)
    assert caught.value.status is Status.ABI_MISMATCH


def test_both_layouts_are_printed_and_the_first_difference_is_marked() -> None:
    wrong = Kernel(
        "saxpy",
        "saxpy",
        "python",
        assign_slots([Param("x", Slice(f32)), Param("y", Pointer(f32), Access.INOUT), Param("a", f32)]),
    )
    with pytest.raises(AbiMismatch) as caught:
        verify(wrong, image())
    assert str(caught.value).splitlines() == [
        "saxpy: the description does not match the image: a: f32 has size 4, and in the image it is 8",
        "    description  offset  size  align  |  image    offset  size  align",
        "    x.pointer         0     8      8  |  .u64 x        0     8      8",
        "    x.length          8     8      8  |  .u64 xn       8     8      8",
        "    y: ptr<f32>      16     8      8  |  .u64 y       16     8      8",
        "->  a: f32           24     4      4  |  .u64 yn      24     8      8",
        "    -                                 |  .f32 a       32     4      4",
    ]


def test_alignment_and_offset_of_a_struct() -> None:
    """A struct aligned 16 on one side and 8 on the other is refused, although its offset is the same."""
    with pytest.raises(AbiMismatch, match="alignment 4, and in the image it is 8"):
        verify(kernel("raw", Bytes(24, 4), f16), image())
    packed = kernel("raw", Bytes(24, 8), f16)
    moved = replace(packed, params=(packed.params[0], replace(packed.params[1], slots=(Slot(26, 2, 2),))))
    with pytest.raises(AbiMismatch, match="offset 26, and in the image it is 24"):
        verify(moved, image())


def test_a_struct_for_a_pointer_sized_parameter_of_another_size() -> None:
    with pytest.raises(AbiMismatch, match=r"p0: bytes<24, 8> has size 24, and in the image it is 8"):
        verify(kernel("bits", Bytes(24, 8), u32), image())


def test_the_required_block_is_part_of_the_contract() -> None:
    exact = Launch(Block(BlockKind.EXACT, (64, 1, 1)))
    assert verify(kernel("_Z4blurPf", Pointer(f32), launch=exact), image()) is Verified.LAYOUT
    for launch in (Launch(), Launch(Block(BlockKind.EXACT, (128, 1, 1))), Launch(Block(BlockKind.UP_TO, (64, 1, 1)))):
        with pytest.raises(AbiMismatch, match=r"exactly \(64, 1, 1\)"):
            verify(kernel("_Z4blurPf", Pointer(f32), launch=launch), image())


def test_a_missing_symbol_lists_the_entries_nearest_first() -> None:
    with pytest.raises(SymbolNotFound) as caught:
        verify(kernel("saxpi"), image())
    assert str(caught.value).startswith("the image has no kernel 'saxpi'; it has: saxpy, ")
    demangle = {"_Z4blurPf": "blur(float*)"}
    with pytest.raises(SymbolNotFound) as caught:
        verify(kernel("blur"), image(), lambda name: demangle.get(name, name))
    assert "it has: blur(float*) (_Z4blurPf), " in str(caught.value)
    assert caught.value.status is Status.SYMBOL_NOT_FOUND
    with pytest.raises(SymbolNotFound, match="no kernels at all"):
        verify(kernel("f"), image(PTX[: PTX.index(".visible")]))
    many = PTX + "".join(f".entry k{i}() {{ }}\n" for i in range(100))
    with pytest.raises(SymbolNotFound, match=r"it has: k77, .* and 84 more"):
        verify(kernel("k77x"), image(many))


def test_ptx_that_is_not_text_and_ptx_with_a_final_zero() -> None:
    with pytest.raises(ImageError, match="line 2: the text is not UTF-8"):
        verify(kernel("f"), Image(ImageKind.PTX, "sm_80", b".version 8.0\n\xff\xfe"))
    assert verify(kernel("bits", i64, i32), image(PTX + "\0")) is Verified.LAYOUT


# -- cubins --------------------------------------------------------------------------------------------------------

SOURCE = """
struct S { char a, b, c; };
extern "C" __global__ void k(float *x, char c, S s, double d) { x[0] = c + s.a + d; }
extern "C" __global__ void none() {}
extern "C" __global__ void unused(int a, double b) {}
"""


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A cubin from ptxas by way of nvcc, or from NVRTC."""
    if shutil.which("nvcc"):
        folder: Path = tmp_path_factory.mktemp("cubin")
        (folder / "k.cu").write_text(SOURCE)
        subprocess.run(["nvcc", "-cubin", "-arch=sm_80", "k.cu", "-o", "k.cubin"], check=True, cwd=folder)
        return (folder / "k.cubin").read_bytes()
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"k.cu", 0, [], [])
    except RuntimeError as missing:
        pytest.skip(f"no nvcc and no NVRTC: {missing}")
    assert nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_80"])[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
    data = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, data)
    return bytes(data)


def test_parameters_of_a_cubin(cubin: bytes) -> None:
    params = read_cubin_params(cubin)
    assert params == {
        "k": (Slot(0, 8, 1), Slot(8, 1, 1), Slot(9, 3, 1), Slot(16, 8, 1)),
        "none": (),
        "unused": (Slot(0, 4, 1), Slot(8, 8, 1)),
    }


def test_a_cubin_is_verified_as_far_as_it_tells(cubin: bytes) -> None:
    binary = Image(ImageKind.CUBIN, "sm_80", cubin)
    assert verify(kernel("none"), binary) is Verified.SIZE
    assert verify(kernel("unused", i32, f64), binary) is Verified.SIZE
    with pytest.raises(AbiMismatch, match=r"p1: f32 has offset 4, and in the image it is 8"):
        verify(kernel("unused", i32, f32), binary)
    with pytest.raises(SymbolNotFound, match="it has: none"):
        verify(kernel("nona"), binary)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_cubin_is_an_image_error_or_unknown(cubin: bytes, data: st.DataObject) -> None:
    damaged = bytearray(cubin)
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    try:
        read_cubin_params(bytes(damaged[:end]))
    except ImageError as error:
        assert "cubin is damaged" in str(error)


@pytest.mark.parametrize("field", [40, 24], ids=["section table", "section"])
def test_a_cubin_with_an_offset_past_all_memory_is_damaged(cubin: bytes, field: int) -> None:
    damaged = bytearray(cubin)
    (table,) = struct.unpack_from("<Q", damaged, 40)
    entry_size, _, names = struct.unpack_from("<HHH", damaged, 58)
    position = field if field == 40 else table + names * entry_size + field
    struct.pack_into("<Q", damaged, position, 2**64 - 1)
    with pytest.raises(ImageError, match="cubin is damaged"):
        read_cubin_params(bytes(damaged))


def test_what_cannot_be_verified_says_so(cubin: bytes) -> None:
    host = bytearray(cubin)
    struct.pack_into("<H", host, 18, 62)  # an x86-64 object
    assert verify(kernel("k"), Image(ImageKind.CUBIN, "sm_80", bytes(host))) is Verified.NOT_VERIFIED
    assert verify(kernel("k"), Image(ImageKind.FATBIN, "sm_80", b"")) is Verified.NOT_VERIFIED
    with pytest.raises(SymbolNotFound):
        verify(kernel("k"), Image(ImageKind.FATBIN, "sm_80", b"", symbols=("other",)))
    with pytest.raises(ImageError, match="not an ELF"):
        verify(kernel("k"), Image(ImageKind.CUBIN, "sm_80", b"junk"))

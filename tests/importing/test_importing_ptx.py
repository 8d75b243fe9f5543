"""PTX of other producers: names, what can be checked without types, bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interop as io
from abi import CheckLevel
from abi.show import python_signature

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
SCALE = HEADER + """
.visible .entry scale(.param .u64 y, .param .u32 n, .param .f32 a)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [y];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    mov.u32 %r2, %tid.x;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.s32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd4], %f3;
DONE:
    ret;
}
"""  # fmt: skip
SHAPES = HEADER + """
.visible .entry _ZN2ns4blurEPKfPfi(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }
.visible .entry _Z1tIfEvPKT_(.param .u64 .ptr .align 4 a) { ret; }
.visible .entry raw(.param .u64 a, .param .s32 b, .param .f64 c, .param .align 8 .b8 d[24], .param .b16 e,
                    .param .u8 f) .reqntid 64 { ret; }
"""  # fmt: skip


def test_a_layout_level_kernel_takes_arrays_and_integers() -> None:
    module = io.load_ptx(SCALE)
    kernel = module.scale.program().kernel
    assert kernel.check_level is CheckLevel.LAYOUT and kernel.language == "ptx"
    for y in (np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(2, 4)):
        expected = y * np.float32(3)
        module.scale[1, 32](y, 8, 3.0)
        assert np.array_equal(y, expected)
    y = np.ones(4, np.float32)
    module.scale.on("cpu")[1, 32](y.ctypes.data, 4, 3.0)
    assert y.tolist() == [3.0] * 4
    module.scale[1, 32](y, -1, 3.0)  # the image does not say whether n is signed
    assert y.tolist() == [3.0] * 4


def test_sizes_are_checked_even_without_types() -> None:
    scale, y = io.load_ptx(SCALE).scale[1, 32], np.ones(4, np.float32)
    for arguments, error, words in (
        ((y, 4), io.ArgumentTypeError, "takes 3 arguments"),
        ((y, 2**32, 1.0), io.ArgumentRangeError, "p1 is u32"),
        ((y, 4.0, 1.0), io.ArgumentTypeError, "p1 is u32: an integer is wanted"),
        ((y, 4, 1e39), io.ArgumentRangeError, "p2 is f32"),
        ((2**64, 4, 1.0), io.ArgumentRangeError, "64 bits"),
        ((1.5, 4, 1.0), io.ArgumentTypeError, "the image does not say"),
        ((True, 4, 1.0), io.ArgumentTypeError, "the image does not say"),
        ((y[::2], 2, 1.0), io.ArgumentTypeError, "not contiguous"),
    ):
        with pytest.raises(error, match=words):
            scale(*arguments)
    y.flags.writeable = False
    with pytest.raises(io.ArgumentTypeError, match="read-only"):
        scale(y, 4, 1.0)


def test_mangled_symbols_carry_types() -> None:
    module = io.load_ptx(SHAPES)
    assert {name: python_signature(k.program().kernel) for name, k in module.kernels.items()} == {
        "ns::blur": "ns_blur(p0: In[f32], p1: InOut[f32], p2: i32)",
        "t<float>": "t_float(p0: In[f32])",
        "raw": "raw(p0: ptr, p1: i32, p2: f64, p3: abi.Bytes(24, 8), p4: u16, p5: u8)",
    }
    levels = {name: k.program().kernel.check_level for name, k in module.kernels.items()}
    assert levels == {"ns::blur": CheckLevel.TYPED, "t<float>": CheckLevel.TYPED, "raw": CheckLevel.LAYOUT}
    assert module.blur is module.kernel("ns::blur") is module.kernel("_ZN2ns4blurEPKfPfi")


def test_a_symbol_that_contradicts_the_image_is_not_believed() -> None:
    text = HEADER + ".visible .entry _Z1fPfi(.param .u64 a, .param .f64 b) { ret; }\n"
    kernel = io.load_ptx(text).f.program().kernel
    assert kernel.check_level is CheckLevel.LAYOUT


def test_reqntid_is_an_exact_block() -> None:
    raw = io.load_ptx(SHAPES).raw
    arguments = (np.zeros(1), 1, 2.0, bytes(24), 5, 6)
    raw[1](*arguments)
    with pytest.raises(io.ContractError, match=r"raw: requires block == \(64, 1, 1\), but block = \(32, 1, 1\)"):
        raw[1, 32](*arguments)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "scale.ptx"
    path.write_text(SCALE + "\0")
    assert list(io.load_ptx(path).kernels) == list(io.load_ptx(str(path)).kernels) == ["scale"]
    with pytest.raises(io.Error, match="no such file"):
        io.load_ptx(tmp_path / "other.ptx")
    path.write_bytes(b".version 8.0\n\xff\xfe")
    with pytest.raises(io.ImageError, match="line 2 is not UTF-8"):
        io.load_ptx(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("this is not PTX\n", "not PTX"), ("\n", "not PTX"), (HEADER + ".entry f(.param .u64 x", "text ends|expected"),
     (HEADER + ".entry f(.param .frob x) { ret; }\n", "frob"), (HEADER.replace("sm_80", "riscv"), "riscv")],
)  # fmt: skip
def test_broken_ptx_is_an_image_error(text: str, words: str) -> None:
    with pytest.raises(io.ImageError, match=words):
        io.load_ptx(text)


def test_unknown_kernels_list_readable_names() -> None:
    with pytest.raises(io.SymbolNotFound, match=r"no kernel 'blurr'; it has: ns::blur"):
        _ = io.load_ptx(SHAPES).blurr


def test_empty_text_is_no_path() -> None:
    with pytest.raises(io.Error, match="the source is empty"):
        io.load_ptx("")
    with pytest.raises(io.Error, match="the source is empty"):
        io.load_cuda("")

"""Signatures read from PTX of several producers, from odd and from hostile texts."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abi import (
    Block,
    BlockKind,
    Entry,
    ImageError,
    PtxSignatureError,
    Slot,
    UnsupportedError,
    ptx_signature,
    read_entries,
    read_header,
)

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

SOURCE = """
struct S { char a, b, c; };
struct alignas(16) V { float x[8]; };
extern "C" __global__ void k(float *x, char c, S s, V v, double d, short h, bool b)
{ x[0] = c + s.a + v.x[3] + d + h + b; }
template <class T> __global__ void __launch_bounds__(128, 2) tk(const T *p, T v) { if (p[0] == v) *(T *)p = v + 1; }
template __global__ void tk<float>(const float *, float);
__global__ void none() {}
"""
K_SLOTS = [
    Slot(0, 8, 8),
    Slot(8, 1, 1),
    Slot(9, 3, 1),
    Slot(16, 32, 16),
    Slot(48, 8, 8),
    Slot(56, 2, 2),
    Slot(58, 1, 1),
]


def slots(entry: Entry) -> list[Slot]:
    return [p.slot for p in entry.params]


def check_source(ptx: str) -> None:
    entries = read_entries(ptx)
    assert set(entries) == {"k", "_Z2tkIfEvPKT_S0_", "_Z4nonev"}
    assert slots(entries["k"]) == K_SLOTS
    assert [p.kind for p in entries["k"].params][:1] == ["u"]
    assert entries["k"].params[4].type_text == ".f64"
    assert entries["k"].block == Block()
    template = entries["_Z2tkIfEvPKT_S0_"]
    assert (template.maxntid, template.minnctapersm, template.reqntid) == ((128, 1, 1), 2, None)
    assert template.block == Block(BlockKind.UP_TO, (128, 1, 1))
    assert entries["_Z4nonev"].params == ()
    for entry in entries.values():
        assert f".entry {entry.symbol}" in ptx.splitlines()[entry.line - 1]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_nvcc(tmp_path: Path) -> None:
    (tmp_path / "s.cu").write_text(SOURCE)
    subprocess.run(["nvcc", "-ptx", "-arch=sm_80", "-lineinfo", "s.cu", "-o", "s.ptx"], check=True, cwd=tmp_path)
    text = (tmp_path / "s.ptx").read_text()
    check_source(text)
    assert read_header(text).target == "sm_80"
    assert read_header(text).address_size == 64


def test_nvrtc() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    options = [b"--gpu-architecture=compute_90"]
    try:
        error, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"s.cu", 0, [], [])
    except RuntimeError as missing:
        pytest.skip(f"no NVRTC: {missing}")
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    data = bytearray(size)
    nvrtc.nvrtcGetPTX(program, data)
    text = bytes(data).rstrip(b"\0").decode()
    check_source(text)
    assert read_header(text).target == "sm_90"


LLVM_IR = """
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @saxpy(ptr addrspace(1) %x, i64 %n, float %a, i8 %flag, half %h,
                                [24 x i8] %raw, ptr byval([12 x i8]) align 4 %s) #0 {
  ret void
}
define ptx_kernel void @empty() { ret void }
attributes #0 = { "nvvm.reqntid"="32,8,1" }
"""


def test_llvm() -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_90")
    text = machine.emit_assembly(llvm.parse_assembly(LLVM_IR))
    entries = read_entries(text)
    expected = [Slot(0, 8, 8), Slot(8, 8, 8), Slot(16, 4, 4), Slot(20, 1, 1), Slot(22, 2, 2)]
    assert slots(entries["saxpy"])[:5] == expected
    assert slots(entries["saxpy"])[-1] == Slot(48, 12, 4)
    assert entries["saxpy"].block == Block(BlockKind.EXACT, (32, 8, 1))
    assert entries["empty"].params == ()
    assert read_header(text).target == "sm_90"


def test_every_form_of_a_parameter() -> None:
    text = (
        HEADER
        + """
    .visible .entry all(
        .param .u64 a,
        .param .u64 .ptr .global .align 4 b,
        .param .u64 .ptr .align 1 c,
        .param .b64 .ptr .shared d,
        .param .align 8 .b8 e[24],
        .param .f32 f,
        .param .align 16 .b8 g[5],
        .param .b16 h,
        .param .v4 .f32 i,
        .param .align 4 .b8 j[2][3],
        .param .b128 k,
        .param .s8 $l
    ) .reqntid 16, 4 .minnctapersm 2 .maxnreg 64 .pragma "nounroll", "x"; .noreturn { ret; }
    """
    )
    entry = read_entries(text)["all"]
    assert [(p.name, p.slot.offset, p.slot.size, p.slot.align) for p in entry.params] == [
        ("a", 0, 8, 8),
        ("b", 8, 8, 8),
        ("c", 16, 8, 8),
        ("d", 24, 8, 8),
        ("e", 32, 24, 8),
        ("f", 56, 4, 4),
        ("g", 64, 5, 16),
        ("h", 70, 2, 2),
        ("i", 80, 16, 16),
        ("j", 96, 6, 4),
        ("k", 112, 16, 16),
        ("$l", 128, 1, 1),
    ]
    spaces = [(p.pointer_space, p.pointer_align) for p in entry.params[:4]]
    assert spaces == [("", 0), ("global", 4), ("generic", 1), ("shared", 0)]
    assert entry.reqntid == (16, 4, 1)
    assert [p.type_text for p in entry.params if p.name in "egij"] == [".b8[24]", ".b8[5]", ".v4.f32", ".b8[6]"]


def test_comments_strings_and_line_directives_in_odd_places() -> None:
    text = """// .entry not(.param .u64 a) { }
    /* .version 1.0 .entry nor() { } */ .version /* x */ 8.3 // .target sm_10
    .target sm_90a, debug
    .address_size 64
    .file 1 ".entry neither(.param .u64 a)" // "
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
    .visible /* here */ .entry // there
    odd /*and*/ ( // here
    /* .param .u64 no, */ .param /*x*/ .u64 // y
    p /* ) */, .param .f32 q
    )
    .maxntid 128 /* , 2 */ , 1, 1
    { .loc 1 2 3
      // .entry inside( {
      ret; }
    .weak .entry bare { ret; }
    .entry declared(.param .u8 a);
    """
    entries = read_entries(text)
    assert list(entries) == ["odd", "bare", "declared"]
    assert [p.name for p in entries["odd"].params] == ["p", "q"]
    assert entries["odd"].maxntid == (128, 1, 1)
    assert entries["odd"].line == 7
    header = read_header(text)
    assert (header.version, header.target, header.options) == ("8.3", "sm_90a", ("debug",))
    without_blocks = re.sub(r"/\*.*?\*/", " ", text.replace("/* .param .u64 no, */", ""))
    assert "/*" not in without_blocks  # the other way through the scanner
    assert {k: e.params for k, e in read_entries(without_blocks).items()} == {k: e.params for k, e in entries.items()}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no .version"),
        ("this is not PTX", 1, "not PTX"),
        (".version 8.0\n", 1, "no .target"),
        (".version eight\n", 1, "a version"),
        (HEADER + ".entry", 4, "the text ends"),
        (HEADER + ".entry 5 (", 4, "a kernel's name"),
        (HEADER + ".entry f(\n.param .u64 a", 5, "expected ')'"),
        (HEADER + ".entry f(\n.param .u64 a,\n) { }", 6, "expected '.param'"),
        (HEADER + ".entry f(\n.param a) { }", 5, "without a type"),
        (HEADER + ".entry f(\n.param .u65 a) { }", 5, "'.u65'"),
        (HEADER + ".entry f(\n.param .u64 .u64 a) { }", 5, "'.u64'"),
        (HEADER + ".entry f(\n.param .align 3 .b8 a[3]) { }", 5, "power of two"),
        (HEADER + ".entry f(\n.param .align 4 .b8 a[99999999999]) { }", 5, "elements"),
        (HEADER + ".entry f(\n.param .align 4 .b8 a[" + "9" * 5000 + "]) { }", 5, "an array's size"),
        (HEADER + ".entry f(\n.param .align 4 .b8 a[1000][1000][1000]) { }", 5, "bytes"),
        (HEADER + ".entry f(\n.param .align 4 .b8 a[) { }", 5, "an array's size"),
        (HEADER + ".entry f(.param .u64 a)\n.reqntid { }", 5, ".reqntid takes"),
        (HEADER + ".entry f(.param .u64 a)\n.reqntid 1,2,3,4 { }", 5, ".reqntid takes"),
        (HEADER + ".entry f(.param .u64 a)\nret; }", 5, "a directive or the body"),
        (HEADER + "\n/* never\n ends .entry f() {}", 5, "does not end"),
        (HEADER + ".entry f(\n/* never ends", 5, "does not end"),
        (HEADER + ".entry f() { }\n.entry f() { }", 5, "second .entry 'f'"),
        (HEADER + ".entry f(\n.param .u64 \x01a) { }", 5, "unexpected character"),
    ],
)
def test_broken_texts_give_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PtxSignatureError) as caught:
        read_entries(text)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert isinstance(caught.value, ImageError)
    assert len(str(caught.value)) < 300


def test_parameter_types_that_are_not_supported_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"line 5: .*\.texref"):
        read_entries(HEADER + ".entry f(\n.param .texref t) { }")


FRAGMENTS = """.entry f ( ) { } .param .u64 .align 8 [ ] , .b8 .ptr // /* */ " .reqntid .target sm_80 ; é"""


@given(st.lists(st.sampled_from([*FRAGMENTS.split(), "\n"])))
@settings(max_examples=300)
def test_any_text_is_read_or_refused(words: list[str]) -> None:
    try:
        read_entries(HEADER + " ".join(words))
    except (PtxSignatureError, UnsupportedError):
        return


PARAMS = (
    ".param .u64 a;.param .u64 .ptr .global .align 8 p;.param .align 8 .b8 s[24];.param .b8 q[2][3];.param .u64 .ptr r;"
    ".param .v2 .f32 v; .param .texref t;.param .u64;.param .u64 a b;.param .align 3 .b8 s[4];.param .u8 0x; ;.u64 a;"
    ".param .b8 e[;.param  .u32\tx;.param .b8 big[9999999]"
)


def read_outcome(text: str) -> str:
    try:
        return repr(read_entries(text))
    except (PtxSignatureError, UnsupportedError) as error:
        return f"{type(error).__name__}: {error}"


@given(st.lists(st.sampled_from(PARAMS.split(";"))), st.sampled_from(["{", " {", " .maxntid 3 {", "\n{", ";", " x {"]))
@settings(max_examples=300)
def test_plain_lists_are_read_as_the_others_are(params: list[str], behind: str) -> None:
    text = f"{HEADER}.visible .entry f(\n\t{','.join(params)}\n){behind} ret; }}"
    with patch.object(ptx_signature, "_PLAIN_ENTRY", re.compile("(?!)")):
        wanted = read_outcome(text)
    assert read_outcome(text) == wanted


def test_ten_megabytes_take_a_moment() -> None:
    body = " ld.param.u64 %rd1, [a]; // a comment\n" * 2500
    text = HEADER + "".join(f".visible .entry k{i}(.param .u64 a)\n{{\n{body}}}\n" for i in range(110))
    assert len(text) > 10e6
    for variant in (text, text + "/* block comment */"):
        start = time.perf_counter()
        assert len(read_entries(variant)) == 110
        assert time.perf_counter() - start < 2.0  # some 0.03 and 0.2 s on an idle core

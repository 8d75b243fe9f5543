"""The PTX reader: what compilers write is read and printed back; what is broken says where."""

from __future__ import annotations

import time

import pytest

from interop import ptx
from interop.ptx import PtxSyntaxError, ast

HEAD = ".version 8.0\n.target sm_80, debug\n.address_size 64\n"

NVRTC = (
    HEAD
    + """
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.global .align 1 .b8 $str[3] = {37, 100};
.const .align 8 .u64 table[2][2] = {{1, generic($str)+2}, {0xFF, -3}};
.extern .shared .align 16 .b8 dyn[];
.visible .entry _Z1kPfi(
	.param .u64 .ptr .global .align 16 _Z1kPfi_param_0,
	.param .align 8 .b8 _Z1kPfi_param_1[24] /* a struct */
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.local .align 16 .b8 	__local_depot0[16];
	.reg .pred 	%p<9>;
	.reg .b32 	%r<29>, %x;
	.reg .v4 .f32 %v;
	.loc	1 5 3, function_name $L__info_string0, inlined_at 1 2 3
	.shared .align 4 .b8 tile[128];
	.pragma "nounroll";
$L__BB0_2: // a label
	@!%p1 bra 	$L__BB0_2;
	@%p3 ld.global.nc.L1::no_allocate.L2::128B.v2.f32 	{%f1, _}, [%rd5+-4];
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	st.param.b64 	[param0+0], %rd10;
	call.uni (retval0),
	vprintf,
	(
	param0,
	param1
	);
	} // callseq 0
	setp.lt.and.s32 %p1|%p2, %r1, -5, !%p3;
	mov.f32 %f1, 0f3F800000; mov.f64 %fd1, 0dBFF0000000000000; mov.f64 %fd2, 1.5e-3;
	mov.b32 %r1, 0x7FU; mov.b32 %r2, 0b101; mov.b32 %r3, 017;
	ts: .branchtargets $L__BB0_2, $L__BB0_3;
	proto: .callprototype (.param .b32 _) _ (.param .b64 _);
	{.reg.b32         f, C;
	mov.b32         C, 0x3fb8aa3bU;}
	tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f5, %f6}];
	ret;
}
.section .debug_str { info: .b8 123, 125 // }
}
"""
)


def test_a_module_of_nvrtc() -> None:
    module = ptx.parse(NVRTC)
    assert module.version == (8, 0) and module.target == ("sm_80", "debug") and module.address_size == 64
    kernel = module.entries["_Z1kPfi"]
    assert kernel.params[0].pointer == ("global", 16) and kernel.params[1].size == 24
    assert kernel.directive("maxntid") == (256, 1, 1) and kernel.directive("reqntid") is None
    assert module.function("vprintf") is not None and module.function("vprintf").body is None  # type: ignore[union-attr]
    table = next(v for v in module.variables if v.name == "table")
    assert table.size == 32 and table.initializer is not None and len(table.initializer) == 4
    assert table.initializer[1] == ast.Offset(ast.Generic(ast.Name("$str")), 2)


def flat(statements: tuple[ast.Statement, ...]) -> list[ast.Instruction]:
    found = []
    for statement in statements:
        if isinstance(statement, ast.Instruction):
            found.append(statement)
        elif isinstance(statement, ast.Block):
            found += flat(statement.statements)
    return found


def test_instructions_have_their_parts() -> None:
    body = ptx.parse(NVRTC).entries["_Z1kPfi"].body
    assert body is not None
    found = flat(body)
    bra, load, store, call, setp = found[:5]
    assert bra.guard == ast.Guard("%p1", True) and bra.operands == (ast.Name("$L__BB0_2"),)
    assert load.opcode == "ld" and load.modifiers == ("global", "nc", "L1::no_allocate", "L2::128B", "v2", "f32")
    assert load.operands[1] == ast.Address((ast.Offset(ast.Name("%rd5"), -4),))
    assert NVRTC.splitlines()[load.line - 1].lstrip().startswith("@%p3 ld.global.nc")
    assert load.source_line == 5 and load.source_file == 1
    assert store.name == "st.param.b64"
    assert call.operands[1] == ast.Name("vprintf") and call.operands[2] == ast.Group(
        (ast.Name("param0"), ast.Name("param1"))
    )
    assert setp.operands[0] == ast.Pair(ast.Name("%p1"), ast.Name("%p2")) and setp.operands[3] == ast.Not(
        ast.Name("%p3")
    )
    values = [i.operands[1] for i in found if i.opcode == "mov"]
    assert values == [
        ast.Float(0x3F800000, 32), ast.Float(0xBFF0000000000000, 64), ast.Float(0x3F589374BC6A7EFA, 64),
        ast.Integer(127, True), ast.Integer(5), ast.Integer(15), ast.Integer(0x3FB8AA3B, True),
    ]  # fmt: skip


def test_what_is_printed_reads_back_equal() -> None:
    module = ptx.parse(NVRTC)
    again = ptx.parse(ptx.print_module(module))
    assert again.variables == module.variables and again.target == module.target
    assert sorted(again.functions, key=str) == sorted(module.functions, key=str)
    for function in module.functions:
        other = again.function(function.name)
        assert other is not None and other.body == function.body
    assert ptx.print_module(again) == ptx.print_module(module)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "expected .version, found the end of the text"),
        ("int main() {}", 1, 1, "expected .version, found 'int'"),
        (".version 8.0\n", 2, 1, "no .target"),
        (".version eight", 1, 10, "expected a version such as 8.0"),
        (HEAD + ".visible .entry k(.param .u64 p) { ret;", 4, 34, "this '{' is never closed"),
        (HEAD + ".visible .entry k(.param .u65 p) { ret; }", 4, 26, "expected a type such as .b32, found '.u65'"),
        (HEAD + ".visible .entry k(.param .u64 p)", 4, 33, "expected a body or ';'"),
        (HEAD + ".visible .entry k(.param .u64 p);", 4, 34, "the kernel k has no body"),
        (HEAD + ".global .align 3 .b8 x[4];", 4, 16, "an alignment is a power of two"),
        (HEAD + ".global .b8 x[99999999999999999999999];", 4, 15, "does not fit 64 bits"),
        (HEAD + ".global .b8 x[4] = {1, 2", 4, 25, "expected ',', found the end of the text"),
        (HEAD + "/* no end", 4, 1, "this comment is never closed"),
        (HEAD + ".visible .entry k() { .reg .b32 %r<4> }", 4, 0, ""),
        (HEAD + "\x01", 4, 1, "unexpected character '\\x01'"),
        (HEAD + "é", 4, 1, "unexpected character 'é'"),
    ],
)  # fmt: skip
def test_errors_show_the_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(PtxSyntaxError) as error:
        for function in ptx.parse(text).functions:
            assert function.body is not None
    assert words in str(error.value)
    assert error.value.line == line
    if column:
        assert error.value.column == column
    if text:
        assert str(error.value).startswith(f"ptx:{line}:{error.value.column}: ")
        caret = str(error.value).splitlines()[-1]
        assert caret.endswith("^")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("add.s32 %r1, %r2, ;", "expected an operand, found ';'"),
        ("add.s32 %r1, %r2", "expected ';', found the end of the text"),
        ("}{", "expected a declaration, found"),
        ("@ ; bra L;", "expected a predicate"),
        ("mov.u32 %r1, 0x;", "expected ';'"),
        ("ld.u32 %r1, [%rd1+];", "expected an integer"),
        (".frobnicate 3;", ".frobnicate is not a directive of a body"),
        ("mov.u32 %r1, 99999999999999999999999;", "does not fit 64 bits"),
        ("mov.u32 %r1, 09;", "'09' is not an integer"),
        ("{" * 300 + "}" * 300, "scopes nest too deeply"),
        ("mov.u32 %r1, " + "(" * 100 + ")" * 100 + ";", "operands nest too deeply"),
    ],
)  # fmt: skip
def test_errors_in_a_body_come_when_it_is_read(body: str, words: str) -> None:
    try:
        module = ptx.parse(HEAD + f".entry k() {{ {body} }}")
    except PtxSyntaxError as error:  # unbalanced braces are seen at once
        assert words in str(error)
        return
    with pytest.raises(PtxSyntaxError) as caught:
        assert module.entries["k"].body
    assert words in str(caught.value)


def test_braces_in_comments_and_strings_do_not_count() -> None:
    module = ptx.parse(HEAD + '.entry k() { // }\n /* } */ .pragma "}"; ret; } .entry l() { ret; }')
    assert list(module.entries) == ["k", "l"]
    assert len(flat(module.entries["k"].body or ())) == 1


def test_listing_kernels_does_not_read_bodies() -> None:
    """A body that is no PTX at all does not disturb its neighbours."""
    module = ptx.parse(HEAD + ".entry bad() { what ever ( is [ this } .entry good() { ret; }")
    assert list(module.entries) == ["bad", "good"]
    assert module.entries["good"].body
    with pytest.raises(PtxSyntaxError):
        assert module.entries["bad"].body


def test_large_modules_are_listed_quickly() -> None:
    body = "add.s32 %r1, %r2, %r3;\n" * 20000
    text = HEAD + "".join(f".entry k{n}() {{\n{body}}}\n" for n in range(10))
    start = time.perf_counter()
    module = ptx.parse(text)
    assert len(module.entries) == 10
    assert time.perf_counter() - start < 1.0  # 4.4 MB; about 2 ms on the machine that this was written on


def test_other_spellings() -> None:
    """What LLVM, rustc, Triton and nvcc write differently."""
    text = (
        HEAD
        + """	// .globl	add
.visible .func (.reg .u32 %ret) old (.reg .u32 %a, .reg .u32 %b) { add.u32 %ret, %a, %b; ret; }
.visible .entry add(
	.param .u64 .ptr .align 1 add_param_0,
	.param .align 8 .b8 add_param_1[16]
)
.reqntid 128
.explicitcluster
.reqnctapercluster 1, 1, 1
{
	.reg .b64 %rd<2>;
	ld.param.b64 %rd1, [add_param_0];
	@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
	mov.b32 {%rs1, %rs2}, %r1;
	bar.sync 	0;
	mov.u32 	%r1, %tid.x;
	.loc	1 0 3
	ret;
                                        // -- End function
}
.file	1 "a b.cu"
.file	2 "/x/y.rs", 1234, 567
.weak .global .align 4 .u32 w;
.common .global .b32 c[2];
.global .texref t;
.global .attribute(.managed) .align 4 .b32 m;
.pragma "nounroll";
.alias a, b;
"""
    )
    module = ptx.parse(text)
    kernel = module.entries["add"]
    assert kernel.directive("reqntid") == (128,) and kernel.params[0].pointer == ("generic", 1)
    assert module.files == ((1, "a b.cu"), (2, "/x/y.rs"))
    assert [v.name for v in module.variables] == ["w", "c", "t", "m"]
    load = flat(kernel.body or ())[1]
    assert load.operands == (ast.Vector((ast.Name("%r1"),)), ast.Address((ast.Offset(ast.Name("%rd1"), 0),)))


def test_parse_wants_text() -> None:
    with pytest.raises(TypeError, match="PTX is text, not bytes"):
        ptx.parse(b".version 8.0")  # type: ignore[arg-type]


def test_a_second_definition_of_a_name_is_an_error_and_a_declaration_before_it_is_not() -> None:
    header = ".version 8.0\n.target sm_80\n.address_size 64\n"
    declared = header + ".visible .func f();\n.visible .func f() { ret; }\n"
    assert ptx.parse(declared).function("f").parse_body is not None  # type: ignore[union-attr]
    twice = header + ".visible .entry k() { ret; }\n.visible .entry k() { exit; }\n"
    with pytest.raises(PtxSyntaxError, match="k is defined a second time") as caught:
        ptx.parse(twice)
    assert caught.value.line == 5

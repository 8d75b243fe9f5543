"""The ABI record that a kernel's signature, decorator and body give."""

from __future__ import annotations

import importlib.util
import linecache
from pathlib import Path
from typing import Any

import pytest
from support.assemble import assemble
from support.compiling import compile_kernel_function
from support.sample_kernels import SAMPLES, edges, raw_copy, reverse_block, saxpy, transpose

import interop as io
from abi import Access, BlockKind, CheckLevel, Kernel, Pointer, Slice, Tensor, f32
from interop import simt
from interop.errors import SyntaxError_, TypeError_


def kernel_of(function: Any, **contract: Any) -> Kernel:
    return compile_kernel_function(function, **contract).program.kernel


def test_saxpy_record() -> None:
    kernel = kernel_of(saxpy, **SAMPLES[saxpy])
    assert (kernel.name, kernel.symbol, kernel.language, kernel.convention) == ("saxpy", "saxpy", "python", "interop-1")
    assert kernel.check_level is CheckLevel.TYPED and kernel.doc == "y <- a*x + y."
    assert [(p.name, p.type, p.access) for p in kernel.params] == [
        ("x", Slice(f32), Access.IN),
        ("y", Slice(f32), Access.INOUT),
        ("a", f32, Access.IN),
    ]
    assert [s.offset for p in kernel.params for s in p.slots] == [0, 8, 16, 24, 32]
    assert kernel.launch.block.kind is BlockKind.EXACT and kernel.launch.block.dims == (256, 1, 1)
    assert kernel.launch.grid == ("ceil_div(len(y), block.x)",)
    assert kernel.requires[0].rule == "len(x) >= len(y)"
    assert kernel.source == f"support/sample_kernels.py:{saxpy.__code__.co_firstlineno}"


def test_access_follows_the_body() -> None:
    kernel = kernel_of(raw_copy)
    assert [(p.type, p.access) for p in kernel.params[:3]] == [
        (Pointer(f32), Access.IN),
        (Pointer(f32), Access.OUT),
        (Pointer(io.i8), Access.INOUT),
    ]


def test_an_unwritten_disjoint_parameter_is_an_input() -> None:
    def read(x: io.DisjointSlice[io.f32], y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        y[i] = x[i]

    assert [p.access for p in kernel_of(read).params] == [Access.IN, Access.INOUT]


def test_tensors_have_shape_and_strides_in_the_buffer() -> None:
    kernel = kernel_of(edges, **SAMPLES[edges])
    assert [p.type for p in kernel.params] == [Tensor(f32, 2), Tensor(f32, 2)]
    assert [len(p.slots) for p in kernel.params] == [5, 5]
    assert len(kernel.launch.grid) == 2


def test_small_scalars_are_packed_as_ptx_packs_them() -> None:
    def mixed(flag: io.bool_, h: io.f16, b: io.i8, d: io.f64, y: io.DisjointSlice[io.f32]):
        y[simt.global_index()] = io.f32(h) + io.f32(d) if flag else io.f32(b)

    kernel = kernel_of(mixed)
    assert [(s.offset, s.size) for p in kernel.params for s in p.slots] == [
        (0, 1),
        (2, 2),
        (4, 1),
        (8, 8),
        (16, 8),
        (24, 8),
    ]


@pytest.mark.parametrize(
    "block,kind,dims",
    [
        (None, BlockKind.ANY, (1, 1, 1)),
        (64, BlockKind.EXACT, (64, 1, 1)),
        ((8, 4, 2), BlockKind.EXACT, (8, 4, 2)),
        (io.up_to(512), BlockKind.UP_TO, (512, 1, 1)),
        (io.multiple_of(32), BlockKind.MULTIPLE_OF, (32, 1, 1)),
        (io.Const("B", 96), BlockKind.EXACT, (96, 1, 1)),
    ],
)
def test_block_rules(block: Any, kind: BlockKind, dims: tuple[int, int, int]) -> None:
    def nothing(n: io.i32):
        pass

    found = kernel_of(nothing, block=block).launch.block
    assert (found.kind, found.dims) == (kind, dims)


@pytest.mark.parametrize(
    "block,words",
    [
        (0, "positive integer"),
        (2048, "block.x is 2048; the limit is 1024"),
        ((64, 64), "the block has 4096 threads"),
        ((1, 1, 65), "block.z is 65"),
        ((1, 1, 1, 1), "one to three extents"),
        (2.5, "positive integer, not 2.5"),
        (True, "positive integer, not True"),
    ],
)
def test_impossible_blocks(block: Any, words: str) -> None:
    def nothing(n: io.i32):
        pass

    with pytest.raises(TypeError_, match=words):
        kernel_of(nothing, block=block)


@pytest.mark.parametrize("count", [0, 1025, -3])
def test_impossible_bounds(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 1024 threads"):
        io.up_to(count)


def test_constants_in_blocks_and_rules() -> None:
    kernel = kernel_of(transpose, **SAMPLES[transpose])
    assert kernel.launch.block.dims == (16, 16, 1)
    small = kernel_of(transpose, consts={"TILE": 8}, **SAMPLES[transpose])
    assert small.launch.block.dims == (8, 8, 1) and small.symbol == "transpose_TILE8"


WIDTH = io.Const("WIDTH", 32)


def test_a_constant_in_a_rule_is_its_value() -> None:
    def row(y: io.DisjointSlice[io.f32]):
        i = simt.global_index()
        if i < len(y):
            y[i] = io.f32(WIDTH)

    contract = {"grid": "ceil_div(len(y), WIDTH)", "requires": ["len(y) % WIDTH == 0"]}
    kernel = kernel_of(row, consts={"WIDTH": 64}, **contract)
    assert kernel.launch.grid == ("ceil_div(len(y), 64)",)
    assert kernel.requires[0].rule == "len(y) % 64 == 0"


def test_shared_memory_rule() -> None:
    kernel = kernel_of(reverse_block, **SAMPLES[reverse_block])
    assert kernel.launch.shared == "4 * block.x"


@pytest.mark.parametrize(
    "contract,words",
    [
        ({"grid": "len(z)"}, "unknown name 'z'"),
        ({"grid": "len(x) > 3"}, "is a condition; a number is needed"),
        ({"requires": ["len(x)"]}, "is a number; a condition is needed"),
        ({"requires": ["len(x) = 3"]}, "not part of the rule language"),
        ({"grid": "(1, 2, 3, 4)"}, "one to three rules"),
        ({"requires": [3]}, "a rule is a string"),
        ({"shared": "len(q)"}, "unknown name"),
    ],
)
def test_ill_formed_rules(contract: dict[str, Any], words: str) -> None:
    def nothing(x: io.Slice[io.f32]):
        pass

    with pytest.raises(SyntaxError_, match=words):
        kernel_of(nothing, **contract)


def test_shared_memory_needs_its_rule() -> None:
    with pytest.raises(TypeError_, match=r'shared="4 \* block.x"'):
        kernel_of(reverse_block)


def test_too_many_parameters_for_the_buffer_is_an_error() -> None:
    import abi

    parameters = ", ".join(f"x{n}: io.Tensor[io.f32, 4]" for n in range(60))
    source = f"def wide({parameters}):\n    pass\n"
    linecache.cache["<wide>"] = (len(source), None, source.splitlines(keepends=True), "<wide>")
    namespace: dict[str, Any] = {"io": io}
    exec(compile(source, "<wide>", "exec"), namespace)
    with pytest.raises(abi.Error, match="4096"):
        kernel_of(namespace["wide"])


@pytest.mark.parametrize("name", ["_", "__hidden", "WARP_SZ"])
def test_names_that_ptx_reserves(name: str) -> None:
    with pytest.raises(SyntaxError_, match="reserved in PTX"):
        kernel_of(_named(name))


@pytest.mark.parametrize("name", ["add", "tid", "entry", "printf", "main", "x", "malloc"])
def test_other_names_assemble(name: str) -> None:
    image = compile_kernel_function(_named(name)).program.images[0]
    assert image.symbols == (name,)
    assemble(image.text)


def _named(name: str) -> Any:
    source = (
        f"def {name}(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):\n    y[simt.global_index()] = io.exp(x[0])\n"
    )
    linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(keepends=True), f"<{name}>")
    namespace: dict[str, Any] = {"io": io, "simt": simt}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace[name]


def test_the_image_does_not_depend_on_where_the_source_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import interop as io\n\ndef k(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):\n    y[0 * 1] = x[3]\n"
    source = source.replace("y[0 * 1]", "y[io.simt.global_index()]")
    programs = []
    for folder in ("a", "b/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "placed.py").write_text(source)
        spec = importlib.util.spec_from_file_location("placed", tmp_path / folder / "placed.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.chdir(tmp_path / folder)
        programs.append(compile_kernel_function(module.k).program)
    assert programs[0] == programs[1]
    assert ", ".join(str(b) for b in b"placed.py") in programs[0].images[0].text

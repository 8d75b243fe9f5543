"""Kernels for the export tests, described by hand, with what they compute written in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from support.assemble import assemble_everywhere

import abi
from abi import Access, Block, BlockKind, Kernel, Launch, Origin, Param, Requirement
from abi.layout import assign_slots

WITNESS = Requirement(
    "grid.y == 1 and grid.z == 1 and block.y == 1 and block.z == 1",
    Origin.WITNESS,
    "y is written through a one-dimensional index",
)


@dataclass(frozen=True)
class HandMade:
    """A kernel object as exporting sees it: a name, a program, and a call that computes the result."""

    name: str
    kernel: Kernel
    compute: Callable[..., None]
    image: abi.Image | None = None

    def program(self) -> abi.Program:
        return abi.Program(self.kernel, (self.image or ptx_image(),))

    def __call__(self, *arguments: Any) -> None:
        self.compute(*arguments)


@lru_cache(maxsize=1)
def ptx_image() -> abi.Image:
    """kernels.cu as NVRTC compiles it."""
    from cuda.bindings import nvrtc

    def done(result: tuple[Any, ...]) -> Any:
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) > 1 else None

    source = (Path(__file__).parent / "kernels.cu").read_bytes()
    program = done(nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], []))
    done(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_80"]))
    text = bytearray(done(nvrtc.nvrtcGetPTXSize(program)))
    buffer = bytes(text)
    done(nvrtc.nvrtcGetPTX(program, buffer))
    assemble_everywhere(buffer.rstrip(b"\0").decode())
    symbols = ("saxpy", "scale", "transpose", "widths", "block_sums")
    return abi.Image(abi.ImageKind.PTX, "sm_80", buffer.rstrip(b"\0"), symbols)


def _kernel(
    name: str, params: list[Param], launch: Launch, *requires: Requirement, symbol: str = "", doc: str = ""
) -> Kernel:
    return abi.with_implied(Kernel(name, symbol or name, "CUDA C++", assign_slots(params), launch, requires, doc=doc))


def exactly(x: int, y: int = 1) -> Block:
    return Block(BlockKind.EXACT, (x, y, 1))


def saxpy() -> HandMade:
    params = [
        Param("x", abi.Slice(abi.f32)),
        Param("y", abi.Slice(abi.f32), Access.INOUT),
        Param("a", abi.f32),
    ]
    launch = Launch(exactly(256), ("ceil_div(len(y), block.x)",))
    kernel = _kernel("saxpy", params, launch, Requirement("len(x) >= len(y)"), WITNESS, doc="y <- a*x + y.")

    def compute(x: Any, y: Any, a: float) -> None:
        # The kernel contracts to one fused multiply-add; float64 holds the exact product.
        y[:] = (np.float64(np.float32(a)) * x[: len(y)].astype(np.float64) + y).astype(np.float32)

    return HandMade("saxpy", kernel, compute)


def scale() -> HandMade:
    params = [
        Param("y", abi.Pointer(abi.f32), Access.INOUT),
        Param("a", abi.f32),
        Param("n", abi.u64, fill="len(y)"),
    ]
    launch = Launch(Block(BlockKind.UP_TO, (128, 1, 1)), ("ceil_div(n, block.x)",))
    kernel = _kernel("scale", params, launch, Requirement("n % 2 == 0", note="pairs"), doc="y <- a*y.")

    def compute(y: Any, a: float) -> None:
        y *= np.float32(a)

    return HandMade("scale", kernel, compute)


def transpose() -> HandMade:
    params = [
        Param("src", abi.Tensor(abi.i32, 2)),
        Param("dst", abi.Tensor(abi.i32, 2), Access.OUT),
    ]
    grid = ("ceil_div(dim(src, 1), 16)", "ceil_div(dim(src, 0), 16)")
    rules = [Requirement("dim(src, 0) == dim(dst, 1)"), Requirement("dim(src, 1) == dim(dst, 0)")]

    def compute(src: Any, dst: Any) -> None:
        dst[:] = src.T

    return HandMade("transpose", _kernel("transpose", params, Launch(exactly(16, 16), grid), *rules), compute)


def widths() -> HandMade:
    params = [
        Param("out", abi.Slice(abi.f64), Access.INOUT),
        Param("flag", abi.bool_),
        Param("small", abi.i8),
        Param("middle", abi.u16),
        Param("word", abi.i32),
        Param("large", abi.u64),
        Param("half", abi.f16),
        Param("single", abi.f32),
        Param("double", abi.f64),
        Param("point", abi.Bytes(24, 8)),
    ]
    kernel = _kernel("widths", params, Launch(exactly(32), ("1",)), Requirement("len(out) >= 10"))

    def compute(out: Any, flag: Any, small: Any, middle: Any, word: Any, large: Any, half: Any, *rest: Any) -> None:
        single, double, point = rest
        bits = np.float16(half).view(np.uint16)
        where = np.frombuffer(point, np.float64)
        out[:10] = [flag, small, middle, word, large, bits, np.float32(single), double, point[0], where[2]]

    return HandMade("widths", kernel, compute)


def block_sums() -> HandMade:
    """The kernel called ``new``, whose parameters are ``int`` and ``module``."""
    params = [
        Param("int", abi.Slice(abi.f64)),
        Param("module", abi.Slice(abi.f64), Access.INOUT),
    ]
    launch = Launch(Block(BlockKind.MULTIPLE_OF, (64, 1, 1)), ("ceil_div(len(int), block.x)",), "8 * block.x")
    rule = Requirement("len(module) == ceil_div(len(int), block.x)")
    kernel = _kernel(
        "new", params, launch, rule, symbol="block_sums", doc="Sums of blocks.\n\nEnds a comment: */ and ??/"
    )

    def compute(values: Any, sums: Any) -> None:
        padded = np.zeros(len(sums) * 64)
        padded[: len(values)] = values
        partial = padded.reshape(-1, 64)
        for width in (32, 16, 8, 4, 2, 1):  # in the kernel's order, so that the result is the same to the last bit
            partial = partial[:, :width] + partial[:, width : 2 * width]
        sums[:] = partial[:, 0]

    return HandMade("new", kernel, compute)


def all_kernels() -> list[HandMade]:
    return [saxpy(), scale(), transpose(), widths(), block_sums()]


def idle(name: str, params: list[Param], launch: Launch | None = None) -> HandMade:
    """A kernel that takes anything and does nothing."""
    kernel = _kernel(name, params, launch or Launch(exactly(32), ("1",)))
    declared = []
    for param in kernel.params:
        letter = "f" if param.type in (abi.f32, abi.f64) else "u"
        for s in param.slots:
            place = f"p{len(declared)}"
            simple = f".param .{letter}{8 * s.size} {place}"
            declared.append(simple if s.size == s.align else f".param .align {s.align} .b8 {place}[{s.size}]")
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    text = f"{head}.visible .entry {name}({', '.join(declared)})\n{{\n    ret;\n}}\n"
    image = abi.Image(abi.ImageKind.PTX, "sm_80", text.encode(), (name,), "8.0")
    return HandMade(name, kernel, lambda *_: None, image)

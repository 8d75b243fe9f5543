"""What a launch tells the CPU device of the memory that a kernel may touch: of every kind of argument, hot and slow."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import interop as io
from abi import (
    Access,
    Block,
    BlockKind,
    CheckLevel,
    ExecutionError,
    Image,
    ImageKind,
    Kernel,
    Launch,
    Param,
    Program,
    assign_slots,
    parse_type,
)
from interop.executor.host import HostKernel
from interop.runtime import Launchable, device

HEADER = ".version 8.0 .target sm_80 .address_size 64 "
# Thread i reads element i + shift of x (rows of `row` elements) and writes element i of y.
SHIFTED = """.reg .b64 %rd<8>; .reg .b32 %r<4>; ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y];
 mov.u32 %r0, %tid.x; ld.param.u32 %r1, [shift]; add.s32 %r1, %r0, %r1; mul.wide.s32 %rd2, %r1, 4;
 add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r2, [%rd3]; mul.wide.s32 %rd4, %r0, 4; add.s64 %rd5, %rd1, %rd4;
 st.global.u32 [%rd5], %r2; ret; }"""
LAUNCH = Launch(Block(BlockKind.ANY), (), "0")


def launchable(text: str, params: list[tuple[str, str, Access]], level: str = "typed") -> Launchable:
    placed = assign_slots([Param(n, parse_type(t), a) for n, t, a in params])
    kernel = Kernel("k", "k", "ptx", placed, LAUNCH, check_level=CheckLevel(level))
    return Launchable(lambda: Program(kernel, (Image(ImageKind.PTX, "sm_80", (HEADER + text).encode(), ("k",)),)))


def pointers_kernel(level: str = "typed", type_: str = "ptr<i32>") -> Launchable:
    entry = ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 shift) { "
    return launchable(
        entry + SHIFTED, [("x", type_, Access.IN), ("y", type_, Access.OUT), ("shift", "i32", Access.IN)], level
    )


def tensors_kernel() -> Launchable:
    entry = (
        ".visible .entry k(.param .u64 x, .param .u64 xr, .param .u64 xc, .param .u64 xs, .param .u64 xt,"
        " .param .u64 y, .param .u64 yn, .param .u32 shift) { "
    )
    return launchable(
        entry + SHIFTED,
        [("x", "tensor<i32, 2>", Access.IN), ("y", "slice<i32>", Access.OUT), ("shift", "i32", Access.IN)],
    )


@pytest.mark.parametrize("times", range(4))  # the third call and those behind it take the hot path
def test_an_array_may_be_touched_to_its_end(times: int) -> None:
    k = pointers_kernel()
    base = np.arange(100, dtype=np.int32)
    x, y = base[10:30], np.zeros(20, np.int32)
    for _ in range(times):
        k[1, 20](x, y, 0)
    k[1, 10](x, y, 10)
    assert (y[:10] == base[20:30]).all()
    with pytest.raises(ExecutionError) as error:
        k[1, 20](x, y, 1)
    assert str(error.value).startswith(
        "k: out of bounds: reads 4 bytes right behind the end of x (80 bytes) (ptx line 3), block (0, 0, 0), "
        "thread (19, 0, 0)"
    )
    with pytest.raises(ExecutionError, match="4 bytes before the beginning of x"):
        k[1, 20](x, y, -1)
    with pytest.raises(ExecutionError, match="writes 4 bytes right behind the end of y"):
        k[1, 20](x, y[:19], 0)


def test_a_view_reaches_as_far_as_its_strides() -> None:
    k = tensors_kernel()
    base = np.arange(1000, dtype=np.int32).reshape(20, 50)
    y = np.zeros(8, np.int32)
    for _ in range(4):
        part = base[5:8, 10:20]  # from 5 * 50 + 10 to 7 * 50 + 19
        k[1, 8](part, y, 102)
        assert (y == base[7, 12:20]).all()
        with pytest.raises(ExecutionError, match=r"right behind the end of x \(440 bytes\).*thread \(7, 0, 0\)"):
            k[1, 8](part, y, 103)
        with pytest.raises(ExecutionError, match=r"4 bytes before the beginning of x \(440 bytes\)"):
            k[1, 8](part, y, -1)
    flipped = base[7:4:-1, 10:20]  # the pointer is at its last row
    k[1, 8](flipped, y, -100)
    assert (y == base[5, 10:18]).all()
    k[1, 8](base.T, y, 992)
    assert (y == base.ravel()[992:]).all()
    with pytest.raises(ExecutionError, match="4 bytes before the beginning of x"):
        k[1, 8](flipped, y, -101)


def test_what_is_declared_as_read_is_not_written() -> None:
    entry = ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 shift) { "
    swapped = SHIFTED.replace("[x]", "[t]").replace("[y]", "[x]").replace("[t]", "[y]")
    k = launchable(
        entry + swapped, [("x", "ptr<i32>", Access.IN), ("y", "ptr<i32>", Access.IN), ("shift", "i32", Access.IN)]
    )
    x = np.arange(8, dtype=np.int32)
    with pytest.raises(ExecutionError, match="writes 4 bytes in x, which is only read"):
        k[1, 8](x, x.copy(), 0)


def test_an_integer_for_a_pointer_may_mean_anything() -> None:
    k = pointers_kernel("layout", "ptr")
    base, y = np.arange(100, dtype=np.int32), np.zeros(4, np.int32)
    for _ in range(4):
        k[1, 4](base.ctypes.data, y, 50)
        assert y.tolist() == [50, 51, 52, 53]
    with pytest.raises(ExecutionError, match="reads 4 bytes at the null pointer plus 0"):
        k[1, 4](0, y, 0)
    with pytest.raises(ExecutionError, match="at the null pointer plus 0"):
        k[1, 4](None, y, 0)


def test_an_integer_in_memory_of_the_device_means_that_allocation() -> None:
    k = pointers_kernel("layout", "ptr")
    own, y = io.to_device(np.arange(2048, dtype=np.int32), "cpu"), np.zeros(4, np.int32)
    k[1, 4](own.address + 8, y, 0)
    assert y.tolist() == [2, 3, 4, 5]
    with pytest.raises(ExecutionError, match=r"right behind the end of a buffer \(8192 bytes\)"):
        k[1, 4](own.address + 8, y, 2046)


class Pair(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_longlong)]


STRUCT = """.visible .entry k(.param .align 8 .b8 p[16], .param .u64 y) { .reg .b64 %rd<8>; .reg .b32 %r<4>;
 ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [y]; ld.param.u64 %rd2, [p+8]; shl.b64 %rd2, %rd2, 2;
 add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r0, [%rd3+-4]; st.global.u32 [%rd1], %r0; ret; }"""


def test_a_pointer_in_a_structure_may_lead_anywhere() -> None:
    k = launchable(STRUCT, [("p", "bytes<16, 8>", Access.IN), ("y", "ptr<i32>", Access.OUT)])
    base, y = np.arange(100, dtype=np.int32), np.zeros(1, np.int32)
    for given in (Pair(base.ctypes.data, 7), struct.pack("<QQ", base.ctypes.data, 7)):
        for _ in range(4):
            y[0] = 0
            k[1, 1](given, y)
            assert y[0] == 6
    own = io.to_device(base, "cpu")
    k[1, 1](Pair(own.address, 3), y)
    assert y[0] == 2
    with pytest.raises(ExecutionError, match="out of bounds: reads 4 bytes"):
        k[1, 1](Pair(own.address, 1000), y)


NUMBERS = """.visible .entry k(.param .align 8 .b8 p[16], .param .u64 n, .param .u64 y) { .reg .b64 %rd<8>;
 .reg .b32 %r<4>; ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [y]; ld.param.u64 %rd4, [n]; shl.b64 %rd2, %rd4, 2;
 add.s64 %rd3, %rd1, %rd2; st.global.u64 [%rd3], %rd0; ret; }"""


def test_numbers_that_are_no_addresses_in_the_kernel_leave_the_checks_on() -> None:
    k = launchable(NUMBERS, [("p", "bytes<16, 8>", Access.IN), ("n", "u64", Access.IN), ("y", "ptr<i32>", Access.OUT)])
    y = np.zeros(4, np.int32)
    for _ in range(4):
        k[1, 1](struct.pack("<QQ", 2**47 + 123, 5), 2, y)
        with pytest.raises(ExecutionError, match=r"across the end of y|right behind the end of y"):
            k[1, 1](struct.pack("<QQ", 2**47 + 123, 5), 3, y)
        with pytest.raises(ExecutionError, match="far from every buffer"):
            k[1, 1](struct.pack("<QQ", 2**47 + 123, 5), 2**40, y)
    assert y.tolist() == [0, 0, 123, 2**15]


BYTE_INDEX = """.visible .entry k(.param .u64 x, .param .u64 at) { .reg .b64 %rd<8>; ld.param.u64 %rd0, [x];
 ld.param.u64 %rd1, [at]; add.s64 %rd2, %rd0, %rd1; st.global.u8 [%rd2], 7; ret; }"""


def test_a_scalar_that_might_be_an_address_turns_checks_off_only_when_it_is_large() -> None:
    k = launchable(BYTE_INDEX, [("x", "ptr<u8>", Access.INOUT), ("at", "i64", Access.IN)])
    x = np.zeros(100000, np.uint8)
    for _ in range(4):
        k[1, 1](x[:50], 49)
        with pytest.raises(ExecutionError, match="right behind the end of x"):
            k[1, 1](x[:50], 50)
        with pytest.raises(ExecutionError, match="before the beginning of x"):
            k[1, 1](x[10:50], -1)
        k[1, 1](x[:50], 70000)
    assert x[49] == x[70000] == 7 and x.sum() == 14


def test_the_hot_path_says_the_same_as_the_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    real = HostKernel.run

    def run(
        self: HostKernel, params: bytes, grid: Any, block: Any, shared: int, threads: int, ranges: Any, b: float
    ) -> None:
        said.append(ranges)
        real(self, params, grid, block, shared, threads, ranges, b)

    monkeypatch.setattr(HostKernel, "run", run)
    rng = np.random.default_rng(5)
    base = rng.integers(0, 99, (40, 60)).astype(np.int32)
    own = io.to_device(base, "cpu")
    views = [
        base,
        base[3:9],
        base[::2, 5:7],
        base[30:3:-3, ::-2],
        base.T,
        own,
        own[5:20],
        np.broadcast_to(base[:1], (9, 60)),
    ]
    for x in views:
        k, y = tensors_kernel(), np.zeros(16, np.int32)
        del said[:]
        for _ in range(5):
            k[1, 1](x, y[3:], 0)
        assert len(said) == 5 and said[0] is not None and said == [said[0]] * 5
        assert any(k._hot.configured.values())  # the last ones took the hot path
        begin, size, _, writes, _ = struct.unpack("<QQQII", said[0][:32])
        reach = np.asarray(x)
        low, high = np.lib.array_utils.byte_bounds(reach) if hasattr(np.lib, "array_utils") else np.byte_bounds(reach)
        assert (begin, begin + size, writes) == (low, high, 0)
        begin, size, _, writes, _ = struct.unpack("<QQQII", said[0][32:])
        assert (begin, size, writes) == (y[3:].ctypes.data, 13 * 4, 1)


def test_a_time_budget_of_the_device() -> None:
    k = launchable(".visible .entry k(.param .u64 x) { L: bra L; }", [("x", "ptr<i32>", Access.IN)])
    cpu = device("cpu")
    cpu.time_budget = 0.05  # type: ignore[attr-defined]
    try:
        with pytest.raises(ExecutionError, match=r"k: did not end within its time budget of 0\.05 s"):
            k[4, 32](np.zeros(1, np.int32))
    finally:
        cpu.time_budget = 0  # type: ignore[attr-defined]


def test_kernels_of_every_front_end_run_with_their_checks() -> None:
    """No false alarm in a kernel that this library makes itself."""
    from interop import simt

    @simt.kernel(block=64, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
    def scale(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
        i = simt.global_index()
        if i < len(y):
            y[i] = a * x[i] + y[i]

    for n in (1, 63, 64, 1000):
        x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        for _ in range(4):
            scale(x, y, 2.0)
        assert (y == 8 * np.arange(n) + 1).all()

"""Launches on both devices: results against NumPy, every check before the device, the same words on each.

The variants for ``cpu`` run everywhere, those for ``cuda`` with ``-m gpu``.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from typing import Any

import numpy as np
import pytest
from launch_support import SOURCE, axpy, double2d, host, mirror_ptx, on, poisoned, ptx_kernel, random

import interop as io
from abi import Access, Block, BlockKind, Launch
from interop.runtime import Device, Launchable


@pytest.fixture(scope="module")
def module() -> Any:
    return io.load_cuda(SOURCE)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    return io.device(request.param)


# -- results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 255, 256, 257, 10_000])
def test_python_kernel(device: Device, n: int) -> None:
    x, y = random(n), random(n)
    dx, dy = on(device, x), on(device, y.copy())
    axpy(dx, dy, 2.5)
    expected = np.float64(2.5) * x + y
    assert np.allclose(host(dy), expected, rtol=1e-6, atol=1e-6)
    assert np.array_equal(host(dx), x)


def test_cuda_kernel_by_position_and_by_name(device: Device, module: Any) -> None:
    x, y = random(1000), random(1000)
    for call in (
        lambda k, dx, dy: k[4, 256](dx, dy, 2.0, 1000),
        lambda k, dx, dy: k[4, 256](x=dx, y=dy, a=2.0, n=1000),
        lambda k, dx, dy: k[(4, 1), (256, 1, 1)](dx, dy, n=1000, a=2.0),
        lambda k, dx, dy: k[4][4, 256](dx, dy, 2, np.int64(1000)),
        lambda k, dx, dy: k.on(device)[4, 256](dx, dy, np.float32(2), 1000),
        lambda k, dx, dy: k[4, 256, None, 0](dx, dy, 2.0, 1000),
    ):
        dx, dy = on(device, x), on(device, y.copy())
        call(module.saxpy, dx, dy)
        assert np.allclose(host(dy), np.float64(2) * x + y, rtol=1e-6, atol=1e-6)


def test_strided_views_of_a_tensor_parameter(device: Device) -> None:
    base = random(40, 60)
    for pick in (lambda a: a[::2], lambda a: a[5:], lambda a: a[::-1], lambda a: a[10:30:3]):
        out = poisoned((40, 60), np.float32)
        src, dst = on(device, base), on(device, out.copy())
        double2d(pick(src), pick(dst))
        expected = out.copy()
        pick(expected)[...] = 2 * pick(base)
        assert np.array_equal(host(dst).view(np.uint32), expected.view(np.uint32))


def test_numpy_views_of_a_tensor_parameter() -> None:
    base = random(40, 60)
    for pick in (lambda a: a.T, lambda a: a[:, ::-1], lambda a: a[3:9, 7::2], lambda a: a[:1]):
        out = np.zeros_like(base)
        double2d(pick(base), pick(out))
        assert np.array_equal(pick(out), 2 * pick(base))
    broadcast = np.broadcast_to(base[:1], (40, 60))
    out = np.zeros_like(base)
    double2d(broadcast, out)
    assert np.array_equal(out, 2 * broadcast)


def test_every_block_and_thread_runs_once(device: Device, module: Any) -> None:
    grid, block = (3, 2, 5), (4, 3, 2)
    out = on(device, np.zeros(30 * 24, np.uint32))
    module.where[grid, block](out)
    blocks, threads = np.divmod(np.arange(30 * 24), 24)
    assert np.array_equal(host(out), 1 + blocks * 1000 + threads)


def test_struct_by_value(device: Device, module: Any) -> None:
    record = np.dtype(
        {
            "names": ["a", "b", "c", "d"],
            "formats": ["f4", ("f4", 3), "f8", ("i1", 3)],
            "offsets": [0, 4, 16, 24],
            "itemsize": 32,
        }
    )
    value = np.array((1.5, (2.0, 3.0, 4.0), 5.25, (1, 2, -3)), record)[()]

    class Mixed(ctypes.Structure):
        _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_float * 3), ("c", ctypes.c_double), ("d", ctypes.c_int8 * 3)]

    same = Mixed(1.5, (ctypes.c_float * 3)(2, 3, 4), 5.25, (ctypes.c_int8 * 3)(1, 2, -3))
    for given in (value, bytes(value.tobytes()), same, bytearray(value.tobytes()), memoryview(value.tobytes())):
        out = on(device, poisoned(5, np.float64))
        module.by_value[1, 1](given, out)
        assert host(out).tolist() == [1.5, 2.0, 4.0, 5.25, -3.0]
    with pytest.raises(io.ArgumentTypeError, match="m is bytes<32, 8>, but 31 bytes are given"):
        module.by_value[1, 1](b"x" * 31, on(device, np.zeros(5)))
    with pytest.raises(io.ArgumentTypeError, match="pass bytes, a NumPy structured scalar"):
        module.by_value[1, 1](3, on(device, np.zeros(5)))


def test_null_pointers_are_none(device: Device, module: Any) -> None:
    x = on(device, np.zeros(4, np.float32))
    module.saxpy[1, 32](x, None, 1.0, 0)
    with pytest.raises(io.ArgumentTypeError, match="no argument is an array"):
        module.saxpy[1, 32](None, None, 1.0, 0)
    module.saxpy.on(device)[1, 32](None, None, 1.0, 0)


@pytest.mark.parametrize(
    ("types", "declared", "values", "format_"),
    [
        (["f32", "u8", "f64", "u16", "i64"], [".f32", ".u8", ".f64", ".u16", ".s64"],
         [1.5, 255, -2.25, 65535, -(2**63)],
         "<f B 3x d H 6x q"),
        (["bool", "bool", "i8", "u64"], [".u8", ".u8", ".s8", ".u64"], [True, False, -128, 2**64 - 1], "<B B b 5x Q"),
        (["f16", "bf16", "f32", "i16"], [".b16", ".b16", ".f32", ".s16"], [1.5, 1.0, math.inf, -32768], "<e H f h"),
        (["u32", "i32", "u64"], [".u32", ".s32", ".u64"], [2**32 - 1, -(2**31), 2**31 + 5], "<I i Q"),
    ],
)  # fmt: skip
def test_parameter_buffer_arrives_as_packed(
    device: Device, types: list[str], declared: list[str], values: list[Any], format_: str
) -> None:
    expected = struct.pack(format_, *[0x3F80 if t == "bf16" else v for t, v in zip(types, values)])
    params = {f"p{i}": (t, Access.IN) for i, t in enumerate(types)} | {"out": ("ptr<u8>", Access.OUT)}
    kernel = ptx_kernel(mirror_ptx(declared, len(expected)), "mirror", params)
    out = on(device, np.zeros(len(expected), np.uint8))
    kernel[1, 1](*values, out)
    assert host(out).tobytes() == expected


def test_slices_and_tensors_are_pointer_and_counts(device: Device) -> None:
    declared = [".u64"] * 7
    params = {"s": ("slice<f32>", Access.IN), "t": ("tensor<i16, 2>", Access.IN), "out": ("ptr<u8>", Access.OUT)}
    kernel = ptx_kernel(mirror_ptx(declared, 56), "mirror", params)
    s, t = on(device, np.zeros((3, 5), np.float32)), on(device, np.zeros((8, 6), np.int16))[::2]
    out = on(device, np.zeros(56, np.uint8))
    kernel[1, 1](s, t, out)
    address = (lambda a: a.ctypes.data) if device.kind == "cpu" else (lambda a: a.address)
    assert struct.unpack("<Q Q Q q q q q", host(out).tobytes()) == (address(s), 15, address(t), 4, 6, 12, 1)


def test_hidden_parameters_are_filled(device: Device, module: Any) -> None:
    @io.foreign(module, block=256, grid="ceil_div(n, block.x)", fill={"n": "len(y)"}, requires=["len(x) >= n"])
    def saxpy(x: io.In[io.f32], y: io.InOut[io.f32], a: io.f32, n: io.i64):
        """y <- a*x + y."""

    x, y = random(700), random(700)
    dy = on(device, y.copy())
    saxpy(on(device, x), dy, 3.0)
    assert np.allclose(host(dy), 3 * x.astype(np.float64) + y, rtol=1e-6, atol=1e-6)
    with pytest.raises(io.ArgumentTypeError, match="n is filled in by its rule"):
        saxpy(on(device, x), dy, a=3.0, n=700)


# -- grid, block, shared memory ------------------------------------------------------------------------------------


def test_a_grid_with_a_zero_runs_nothing(device: Device, module: Any) -> None:
    y = on(device, np.full(8, 3.0, np.float32))
    x = on(device, np.ones(8, np.float32))
    for grid in (0, (1, 0), (1, 1, 0)):
        module.saxpy[grid, 32](x, y, 1.0, 8)
    axpy(x[:0], y[:0], 1.0)
    assert host(y).tolist() == [3.0] * 8


@pytest.mark.parametrize(
    ("grid", "words"), [((1, 1, 70000), "grid.z is 70000; the limit is 65535"),
                        ((1, 65536), "grid.y is 65536; the limit is 65535"),
                        (2**31, "grid.x is 2147483648; the limit is 2147483647")],
)  # fmt: skip
def test_grid_limits_name_the_axis(device: Device, module: Any, grid: Any, words: str) -> None:
    with pytest.raises(io.ArgumentRangeError, match=f"where: {words}"):
        module.where[grid, 1](on(device, np.zeros(4, np.uint32)))


@pytest.mark.parametrize(
    ("block", "words"), [((1, 1, 65), "block.z is 65; it must be 1 to 64"), (1025, "block.x is 1025"),
                         (0, "block.x is 0; it must be 1 to 1024"), ((32, 33), "a block has 1056 threads")],
)  # fmt: skip
def test_block_limits(device: Device, module: Any, block: Any, words: str) -> None:
    with pytest.raises(io.ArgumentRangeError, match=words):
        module.where[1, block](on(device, np.zeros(4, np.uint32)))


def test_launch_bounds_limit_the_block(device: Device, module: Any) -> None:
    out = on(device, np.zeros(128, np.int32))
    module.bounded[1, 128](out)
    assert np.array_equal(host(out), np.arange(128))
    with pytest.raises(io.ContractError, match=r"block.x \* block.y \* block.z <= 128, but block = \(129, 1, 1\)"):
        module.bounded[1, 129](out)


@pytest.mark.parametrize("n", [1, 12 * 1024, 12 * 1024 + 1, 40_000])
def test_dynamic_shared_memory(device: Device, module: Any, n: int) -> None:
    x = np.random.default_rng().integers(-1000, 1000, n, np.int32)
    out = on(device, poisoned(1, np.int32))
    module.shared_sum[1, 128, None, 4 * n](on(device, x), out, n)
    assert host(out)[0] == x.sum()


def test_48_kib_dynamic_and_one_static_byte(device: Device, module: Any) -> None:
    out = on(device, poisoned(1, np.int32))
    module.static_and_dynamic[1, 64, None, 48 * 1024](out, 48 * 1024)
    assert host(out)[0] == 255 + 7


def test_too_much_shared_memory_names_both_numbers(device: Device, module: Any) -> None:
    out = on(device, np.zeros(1, np.int32))
    limit = device.limits.shared
    with pytest.raises(io.ArgumentRangeError, match=rf"needs {limit + 4} bytes .*the limit is {limit}"):
        module.shared_sum[1, 32, None, limit + 4](on(device, np.zeros(1, np.int32)), out, 0)


@pytest.mark.parametrize(
    ("config", "words"),
    [((4.0, 256), "grid.x is an integer, but the float 4.0 is given; integers divide with //"),
     (((4, 1.5), 256), "grid.y is an integer"), ((4, 256.0), "block.x is an integer"), ((True, 256), "grid.x"),
     ((-1, 256), "grid.x is -1, which is negative"), (((1, 1, 1, 1), 1), "one to three dimensions"),
     ((1, 1, None, 1.5), "shared is a number of bytes"), ((1, 1, None, -1), "shared is -1"),
     (("4", 1), "grid.x is an integer, but a str"), ((1, 1, None, 0, 0), "takes grid, block, stream and shared")],
)  # fmt: skip
def test_bad_configurations(device: Device, module: Any, config: Any, words: str) -> None:
    with pytest.raises((io.ArgumentTypeError, io.ArgumentRangeError), match=words):
        module.where[config](on(device, np.zeros(4, np.uint32)))


def test_missing_grid_and_block_say_so(device: Device, module: Any) -> None:
    out = on(device, np.zeros(4, np.uint32))
    with pytest.raises(io.ArgumentTypeError, match="where: its description has no block rule, so the call must give"):
        module.where(out)
    with pytest.raises(io.ArgumentTypeError, match="where: its description has no grid rule, so the call must give"):
        module.where[None, 4](out)


def test_block_rules(device: Device) -> None:
    ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nop(.param .u64 p) { ret; }\n"
    x = on(device, np.zeros(1, np.float32))
    for block, good, bad, words in (
        (Block(BlockKind.EXACT, (64, 2, 1)), (64, 2), (128, 1), r"block == \(64, 2, 1\)"),
        (Block(BlockKind.UP_TO, (96, 1, 1)), (32, 3), (97,), "<= 96"),
        (Block(BlockKind.MULTIPLE_OF, (32, 1, 1)), (64, 3), (33,), "block.x % 32 == 0"),
    ):
        kernel = ptx_kernel(ptx, "nop", {"p": ("ptr<f32>", Access.IN)}, Launch(block, ("1",)))
        kernel(x)
        kernel[1, good](x)
        with pytest.raises(io.ContractError, match=f"nop: requires .*{words}.*, but block ="):
            kernel[1, bad](x)


# -- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [((), {}, r"axpy takes 3 arguments \(x, y, a\), not 0; missing: x, y, a"),
     (("x", "y"), {}, "not 2; missing: a"), (("x", "y", 1.0, 2), {}, "not 4"),
     (("x", "y", 1.0), {"a": 2.0}, "a is given twice"), (("x", "y"), {"b": 1.0}, "has no parameter 'b'")],
)  # fmt: skip
def test_argument_count(device: Device, args: tuple[Any, ...], kwargs: dict[str, Any], words: str) -> None:
    arrays = {"x": on(device, np.ones(4, np.float32)), "y": on(device, np.ones(4, np.float32))}
    with pytest.raises(io.ArgumentTypeError, match=words) as caught:
        axpy(*[arrays.get(a, a) if isinstance(a, str) else a for a in args], **kwargs)
    assert isinstance(caught.value, TypeError)
    assert host(arrays["y"]).tolist() == [1.0] * 4


def test_wrong_dtype(device: Device) -> None:
    x, y = on(device, np.ones(4, np.float64)), on(device, np.ones(4, np.float32))
    with pytest.raises(io.ArgumentTypeError, match=r"axpy: x is slice<f32>, but the array holds f64.*np\.float32"):
        axpy(x, y, 1.0)


def test_not_an_array(device: Device) -> None:
    y = on(device, np.ones(4, np.float32))
    for value in (None, 3, [1.0], "x", 2.5):
        with pytest.raises(io.ArgumentTypeError, match="axpy: x is slice<f32>, but"):
            axpy(value, y, 1.0)


def test_rank_of_tensors(device: Device) -> None:
    x = on(device, np.ones((2, 3, 4), np.float32))
    with pytest.raises(io.ArgumentTypeError, match=r"src is tensor<f32, 2>, but the array has 3 dimensions"):
        double2d(x, on(device, np.ones((2, 3), np.float32)))


def test_slices_are_contiguous(device: Device) -> None:
    x, y = on(device, random(8)), on(device, random(4))
    for view in (x[::2], x[::-1][:4]):
        with pytest.raises(io.ArgumentTypeError, match="axpy: x is slice<f32>, but the array is not contiguous"):
            axpy(view, y, 1.0)


def test_slices_take_contiguous_arrays_of_any_rank(device: Device) -> None:
    x, y = random(3, 4), random(4, 3)
    dy = on(device, y.copy())
    axpy(on(device, x), dy, 1.0)
    assert np.allclose(host(dy).ravel(), x.ravel() + y.ravel())


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[:, :3], lambda a: np.flip(a), lambda a: a[:, ::-1]])
def test_numpy_views_are_refused_where_a_slice_is_wanted(view: Any) -> None:
    x = random(4, 4)
    with pytest.raises(io.ArgumentTypeError, match=r"not contiguous.*np\.ascontiguousarray"):
        axpy(view(x), random(4), 1.0)


def test_read_only_arrays() -> None:
    x, y = random(4), random(4)
    x.flags.writeable = y.flags.writeable = False
    with pytest.raises(io.ArgumentTypeError, match="axpy: y is written by the kernel, and the array is read-only"):
        axpy(x, y, 1.0)
    z = random(4)
    expected = x + z
    axpy(x, z, 1.0)
    assert np.allclose(z, expected)


def test_a_written_tensor_must_not_overlap_itself() -> None:
    base = random(8)
    window = np.lib.stride_tricks.as_strided(base, (4, 4), (4, 4))
    with pytest.raises(io.ArgumentTypeError, match="dst is written, and elements of the array share memory"):
        double2d(random(4, 4), window)


def test_unaligned_arrays_are_refused() -> None:
    raw = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32)
    assert raw.ctypes.data % 4 == 1
    with pytest.raises(io.ContractError, match=r"axpy: requires aligned\(x, 4\), but address\(x\) % 4 = 1"):
        axpy(raw, random(4), 1.0)


def test_vector_loads_need_their_alignment(device: Device, module: Any) -> None:
    x = np.arange(20, dtype=np.float32)
    dx, out = on(device, x), on(device, poisoned(4, np.float32))
    if device.kind == "cpu":
        dx = io.to_device(x, device)  # memory that is certainly aligned
    module.load4[1, 4](dx[4:], out)
    assert np.array_equal(host(out), x[4:].reshape(4, 4)[:, 0] + x[4:].reshape(4, 4)[:, 3])
    with pytest.raises(io.ContractError, match=r"load4: requires aligned\(x, 16\), but address\(x\) % 16 = 4"):
        module.load4[1, 4](dx[1:17], out)


def test_scalars(device: Device) -> None:
    x, y = on(device, random(4)), on(device, random(4))
    for value, error in ((1e39, io.ArgumentRangeError), ("1", io.ArgumentTypeError), (None, io.ArgumentTypeError)):
        with pytest.raises(error, match="axpy: a is f32"):
            axpy(x, y, value)
    axpy(x, y, math.nan)
    assert np.isnan(host(y)).all()


def test_arrays_of_two_devices_are_refused(device: Device) -> None:
    if device.kind == "cpu":
        with pytest.raises(io.ArgumentTypeError, match="the call is for cuda:0, but x is on cpu"):
            axpy.on("cuda")(random(4), random(4), 1.0)
        return
    with pytest.raises(io.ArgumentTypeError, match="x is on cuda:0, but y is on cpu"):
        axpy(on(device, random(4)), random(4), 1.0)


def test_kernels_without_arrays_need_a_device(device: Device, module: Any) -> None:
    with pytest.raises(io.ArgumentTypeError, match=r'say kernel.on\("cpu"\)'):
        module.nothing[1, 1]()
    module.nothing.on(device)[1, 1]()
    module.nothing[1, 1].on(device)()
    device.synchronize()


# -- contract ------------------------------------------------------------------------------------------------------


def test_broken_precondition_has_the_rule_and_the_values(device: Device) -> None:
    x, y = on(device, random(3)), on(device, random(4))
    with pytest.raises(io.ContractError) as caught:
        axpy(x, y, 1.0)
    assert str(caught.value) == "axpy: requires len(x) >= len(y), but len(x) = 3, len(y) = 4"
    assert caught.value.values == {"len(x)": 3, "len(y)": 4}
    assert isinstance(caught.value, ValueError)


def test_a_two_dimensional_launch_of_a_one_dimensional_witness_is_refused(device: Device) -> None:
    x, y = on(device, random(300)), on(device, random(300))
    with pytest.raises(io.ContractError, match=r"axpy: requires grid.y == 1, but grid.y = 2 \(simt.global_index"):
        axpy[(1, 2), None](x, y, 1.0)
    with pytest.raises(io.ContractError, match=r"axpy: requires block == \(256, 1, 1\), but block = \(16, 16, 1\)"):
        axpy[1, (16, 16)](x, y, 1.0)


def test_aliased_arguments_are_refused(device: Device) -> None:
    x = on(device, random(8))
    for a, b in ((x, x), (x[:6], x[2:])):
        with pytest.raises(io.ContractError, match=r"axpy: requires disjoint\(y, \*\), but overlap\(y, x\) = "):
            axpy(a, b, 1.0)
    axpy(x[:4], x[4:], 1.0)


def test_grid_rule_that_fails_says_which(device: Device, module: Any) -> None:
    @io.foreign(module, block=32, grid="ceil_div(n, n)")
    def saxpy(x: io.In[io.f32], y: io.InOut[io.f32], a: io.f32, n: io.i64): ...

    x, y = on(device, random(8)), on(device, random(8))
    with pytest.raises(io.ContractError, match=r"saxpy: grid.x = ceil_div\(n, n\) divides by zero: n = 0"):
        saxpy(x, y, 1.0, 0)


# -- images, threads, life time ------------------------------------------------------------------------------------


def test_broken_ptx_names_the_kernel(device: Device) -> None:
    ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry bad(.param .u64 p)\n"
    ptx += "{\n  frobnicate.u32 %r1;\n}\n"
    kernel = ptx_kernel(ptx, "bad", {"p": ("ptr<f32>", Access.IN)})
    with pytest.raises(io.Error, match=r"line 6") as caught:
        kernel[1, 1](on(device, np.zeros(1, np.float32)))
    assert "bad" in str(caught.value)


def test_four_threads_launch_a_cold_kernel(device: Device) -> None:
    loads: list[int] = []

    class Counting(Launchable):
        pass

    module = io.load_cuda(SOURCE.replace("a * x[i]", f"(a + 0.0f * {threading.get_ident() % 97}) * x[i]"))
    program = module.saxpy.program()

    def source() -> Any:
        loads.append(1)
        return program

    kernel = Counting(source)
    results: dict[int, Any] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        x, y = random(500), np.zeros(500, np.float32)
        dx, dy = on(device, x), on(device, y)
        start.wait()
        for _ in range(50):
            kernel[2, 256](dx, dy, float(number), 500)
        results[number] = np.allclose(host(dy), 50 * number * x.astype(np.float64), rtol=1e-4, atol=1e-4)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {1: True, 2: True, 3: True, 4: True}
    assert len(loads) == 1


@pytest.mark.parametrize("allowed", ["cpu", "cuda"])
def test_the_environment_forbids_and_never_redirects(
    device: Device, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = on(device, random(4)), on(device, np.zeros(4, np.float32))
    monkeypatch.setenv("INTEROP_DEVICE", allowed)
    if allowed == device.kind:
        axpy(x, y, 1.0)
        return
    with pytest.raises(io.DeviceError, match=f"{device.key} may not be used: .*INTEROP_DEVICE allows only {allowed}"):
        axpy(x, y, 1.0)
    assert not host(y).any()

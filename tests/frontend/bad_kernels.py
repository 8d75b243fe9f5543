"""Kernels that do not compile, each for one reason. The messages are in ``golden``, under the function's name."""

# ruff: noqa
# mypy: ignore-errors

import numpy as np

import interop as io
from interop import simt
from interop.language import device

TABLE = np.arange(4)
WEIGHTS = [1.0, 2.0]


def write_shifted(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y) - 1:
        y[i + 1] = x[i]


def write_unpacked(dst: io.DisjointTensor[io.f32, 2]):
    p = simt.global_index(2)
    row, col = p
    dst[row, col] = 1.0


def write_thread_index(y: io.DisjointSlice[io.f32]):
    y[simt.thread_index.x] = 1.0


def write_merged(y: io.DisjointSlice[io.f32], n: io.i64):
    i = simt.global_index()
    j = i
    if n > 3:
        j = i + 1
    y[j] = 1.0


def write_wrong_rank(dst: io.DisjointTensor[io.f32, 2]):
    i = simt.global_index()
    dst[i, 0] = 1.0


def write_slice(x: io.Slice[io.f32]):
    x[simt.global_index()] = 1.0


def write_pointer(p: io.Out[io.f32]):
    p[simt.global_index()] = 1.0


def read_neighbour(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i > 0:
        y[i] = y[i - 1]


def wrong_block(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[i] = 0.0


wrong_block.contract = {"block": (32, 8)}


def barrier_in_branch(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    row = simt.thread_index.y
    low = row < 4
    if low:
        simt.barrier()


def barrier_after_return(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i >= len(y):
        return
    simt.barrier()
    y[i] = 0.0


def barrier_in_uneven_loop(y: io.DisjointSlice[io.f32]):
    count = simt.thread_index.x // 2
    for k in range(count):
        simt.barrier()


def barrier_after_break(x: io.Slice[io.f32]):
    s = simt.shared(io.f32, 64)
    for k in range(10):
        if s[k] > 0.0:
            break
        simt.barrier()


@device
def wait_if(flag):
    if flag:
        simt.barrier()


def barrier_in_device_function(x: io.Slice[io.f32]):
    wait_if(simt.thread_index.x == 0)


def divide_integers(y: io.DisjointSlice[io.f32], n: io.i32):
    half = n / 2


def mix_float_and_int(y: io.DisjointSlice[io.f32], n: io.i32):
    i = simt.global_index()
    y[i] = y[i] * n


def mix_signs(a: io.u32, b: io.i32):
    c = a + b


def narrow_store(x: io.Slice[io.f64], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = x[i] + 1.0


def literal_too_large(y: io.DisjointSlice[io.u8]):
    y[simt.global_index()] = 300


def two_types(y: io.DisjointSlice[io.f32], n: io.i32):
    i = simt.global_index()
    if n > 2:
        v = n
    else:
        v = y[i]
    y[i] = v


def type_changes_in_loop(y: io.DisjointSlice[io.f32], x: io.Slice[io.f64]):
    acc = y[simt.global_index()]
    for k in range(3):
        acc = acc + x[k]


def maybe_unassigned(y: io.DisjointSlice[io.f32], n: io.i32):
    if n > 2:
        v = 1.0
    y[simt.global_index()] = v


def capture_array(y: io.DisjointSlice[io.i64]):
    y[simt.global_index()] = TABLE[0]


def capture_list(y: io.DisjointSlice[io.f32]):
    y[simt.global_index()] = WEIGHTS[0]


def undefined_name(y: io.DisjointSlice[io.f32]):
    y[simt.global_index()] = missing + 1.0


def comprehension(y: io.DisjointSlice[io.f32]):
    values = [k for k in range(3)]


def exception(y: io.DisjointSlice[io.f32]):
    try:
        y[simt.global_index()] = 1.0
    except ValueError:
        pass


def no_annotation(x, y: io.DisjointSlice[io.f32]):
    pass


def python_int(n: int):
    pass


def star_arguments(*xs: io.Slice[io.f32]):
    pass


def returns_value(y: io.DisjointSlice[io.f32]):
    return y[0]


@device
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


def recursion(y: io.DisjointSlice[io.i32]):
    y[simt.global_index()] = factorial(y[simt.global_index()])


@device
def sometimes(n):
    if n > 2:
        return n


def device_without_value(y: io.DisjointSlice[io.i32]):
    i = simt.global_index()
    y[i] = sometimes(y[i])


def helper(x):
    return x


def plain_function(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = helper(y[i])


def numpy_function(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = np.sqrt(y[i])


def wrong_rank_read(x: io.Tensor[io.f32, 2], y: io.DisjointSlice[io.f32]):
    y[simt.global_index()] = x[0]


def negative_index(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    y[simt.global_index()] = x[-1]


def float_index(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], t: io.f32):
    y[simt.global_index()] = x[t]


def and_of_numbers(y: io.DisjointSlice[io.f32], n: io.i32, m: io.i32):
    if n and m:
        pass


def bad_rule(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    pass


bad_rule.contract = {"requires": ["len(x) >= len(z)"]}


def unsafe_without_reason(p: io.Out[io.f32]):
    with io.unsafe():
        p[0] = 1.0


def shared_of_runtime_shape(x: io.Slice[io.f32]):
    s = simt.shared(io.f32, len(x))


def pointer_length(p: io.In[io.f32], y: io.DisjointSlice[io.f32]):
    y[simt.global_index()] = io.f32(len(p))


def ünïcode(y: io.DisjointSlice[io.f32]):
    größe = 1.0 if y[0] > 0.0 else None


def write_block_index(x: io.Slice[io.f32], out: io.DisjointSlice[io.f32]):
    s = simt.shared(io.f32, 32)
    s[simt.thread_index.x % 32] = x[0]
    simt.barrier()
    if simt.thread_index.x == 0:
        out[simt.block_index.x] = s[0]


def write_range_loop(y: io.DisjointSlice[io.f32]):
    for i in range(simt.global_index(), len(y), simt.block_dim.x * simt.grid_dim.x):
        y[i] = 1.0


def write_own_stride_loop(y: io.DisjointSlice[io.f32]):
    start = simt.block_index.x * simt.block_dim.x + simt.thread_index.x
    for i in range(start, len(y), simt.block_dim.x * simt.grid_dim.x):
        y[i] += 1.0


def write_own_global_index(y: io.DisjointSlice[io.f32]):
    i = simt.block_index.x * simt.block_dim.x + simt.thread_index.x
    if i < len(y):
        y[i] = 1.0


def write_constant_index(y: io.DisjointSlice[io.f32]):
    y[0] = 1.0


def write_scattered(index: io.Slice[io.i32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(index):
        y[index[i]] = 1.0


def read_neighbour_2d(dst: io.DisjointTensor[io.f32, 2]):
    p = simt.global_index(2)
    row, col = p
    dst[p] = dst[row, col + 1]


def histogram(x: io.Slice[io.i32], bins: io.DisjointSlice[io.i32]):
    i = simt.global_index()
    if i < len(x):
        bins[x[i]] += 1


def sum_into_one(x: io.Slice[io.f32], out: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(x):
        out[0] += x[i]


def numpy_sine(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[i] = np.sin(x[i])


def numpy_unknown(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[i] = np.heaviside(x[i], 0.5)


def numpy_other_name(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[i] = np.arctan2(x[i], y[i])


def index_without_call(y: io.DisjointSlice[io.f32]):
    i = simt.global_index
    if i < len(y):
        y[i] = 0.0


def index_word_as_index(y: io.DisjointSlice[io.f32]):
    y[simt.global_index] = 0.0


def geometry_without_axis(y: io.DisjointSlice[io.f32]):
    i = simt.block_index * simt.block_dim.x
    y[i] = 0.0


def function_without_call(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = y[i] * io.sqrt


def sine_in_simt(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = simt.sin(y[i])


def cuda_thread_index(y: io.DisjointSlice[io.f32]):
    y[simt.threadIdx.x] = 0.0


def cuda_syncthreads(y: io.DisjointSlice[io.f32]):
    simt.syncthreads()


def atomic_add(y: io.DisjointSlice[io.f32]):
    simt.atomic_add(y, 0, 1.0)


def warp_shuffle(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = simt.shfl_down_sync(y[i], 1)


def misspelt_word(y: io.DisjointSlice[io.f32]):
    i = simt.globl_index()
    y[i] = 0.0


def misspelt_function(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    y[i] = io.sqtr(y[i])


def unknown_word(y: io.DisjointSlice[io.f32]):
    y[simt.zzz()] = 0.0


def write_block_index_2d(out: io.DisjointSlice[io.f32]):
    if simt.thread_index.x == 0:
        out[simt.block_index.x] = 1.0


write_block_index_2d.contract = {"block": (32, 8), "grid": (4, 2)}


def write_block_index_guarded(out: io.DisjointSlice[io.f32]):
    if simt.thread_index.x == 0 and simt.thread_index.y == 0:
        out[simt.block_index.x] = 1.0


write_block_index_guarded.contract = {"block": (32, 8), "grid": 4}


def write_constant_index_1d(y: io.DisjointSlice[io.f32]):
    y[0] = 1.0


write_constant_index_1d.contract = {"block": 32, "grid": 2}


def write_constant_index_2d(y: io.DisjointTensor[io.f32, 2]):
    row, col = simt.global_index(2)
    if row < 8 and col < 8:
        y[0, 0] = 1.0


write_constant_index_2d.contract = {"block": (16, 16), "grid": (2, 2)}


def write_stride_loop_own_stop(y: io.DisjointSlice[io.f32], n: io.i32):
    for k in range(simt.global_index(), n, simt.block_dim.x * simt.grid_dim.x):
        y[k] = 1.0


def write_stride_loop_other_step(y: io.DisjointSlice[io.f32], n: io.i32):
    for k in range(simt.global_index(), n, simt.block_dim.x):
        y[k] = 1.0


def write_stride_while(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    while i < len(y):
        y[i] = 2.0
        i += simt.block_dim.x * simt.grid_dim.x


def write_stride_while_used_after(y: io.DisjointSlice[io.f32], z: io.DisjointSlice[io.i64]):
    i = simt.global_index()
    while i < len(y):
        y[i] = 2.0
        i += simt.block_dim.x * simt.grid_dim.x
    z[simt.global_index()] = i


def write_reversed(y: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(y):
        y[len(y) - 1 - i] = 1.0


def sum_of_block(x: io.Slice[io.f32], out: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(x):
        out[simt.block_index.x] = out[simt.block_index.x] + x[i]


def tuple_at_runtime_index(y: io.DisjointSlice[io.f32]):
    weights = (1.0, 2.0, 3.0)
    for c in range(3):
        y[simt.global_index()] += weights[c]


def io_atomic_add(y: io.DisjointSlice[io.f32]):
    io.atomic_add(y, 0, 1.0)


def write_constant_index_guarded(y: io.DisjointSlice[io.f32], z: io.DisjointSlice[io.f32]):
    i = simt.global_index()
    if i < len(z):
        z[i] = 1.0
    if i == 0:
        y[0] = 1.0


def write_constant_index_shared_witness(y: io.DisjointSlice[io.f32]):
    s = simt.shared(io.f32, 32)
    i = simt.global_index()
    s[i] = 1.0
    if i == 0:
        y[0] = 1.0

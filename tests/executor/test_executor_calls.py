"""Calls of all kinds: by name, by address, through tables of functions, with structures, recursion and aliases."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from executor_harness import HEADER, cuda, pointers
from support.assemble import assemble_everywhere

from abi import ExecutionError, ImageError, UnsupportedError
from interop.executor import compile_kernel, compile_object

LEVELS = [(), ("-G",)]

VIRTUAL = """
struct Shape { float side; __device__ Shape(float s) : side(s) {}
  __device__ virtual float area(float x) const = 0; __device__ virtual ~Shape() {} };
struct Square : Shape { __device__ Square(float s) : Shape(s) {}
  __device__ float area(float x) const override { return side * side + x; } };
struct Other : Shape { __device__ Other(float s) : Shape(s) {}
  __device__ float area(float x) const override { BARRIER return 3.0f * side * side - x; } };
extern "C" __global__ void make(Shape** shapes) { int i = threadIdx.x;
  shapes[i] = i % 3 ? (Shape*)new Square(i) : (Shape*)new Other(i); }
extern "C" __global__ void use(Shape** shapes, float* y) { int i = threadIdx.x;
  y[i] = shapes[i]->area(0.5f); delete shapes[i]; }
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("barrier", ["", "__syncwarp(__activemask());"])
def test_virtual_functions_of_objects_that_another_kernel_made(options: tuple[str, ...], barrier: str) -> None:
    """Tables of functions are variables of the module; the objects lie in the heap of the process."""
    text = cuda(VIRTUAL.replace("BARRIER", barrier), *options)
    shapes, y = np.full(96, 2**64 - 1, np.uint64), np.full(96, np.nan, np.float32)
    compile_kernel(text, "make").launch(pointers(shapes), 1, 96)
    compile_kernel(text, "use").launch(pointers(shapes, y), 1, 96)
    i = np.arange(96, dtype=np.float64)
    assert np.array_equal(y, np.where(np.arange(96) % 3, i * i + 0.5, 3 * i * i - 0.5))


POINTERS = """
typedef float (*Function)(float);
__device__ __noinline__ float plus(float x) { return x + 1.0f; }
__device__ __noinline__ float twice(float x) { return x * 2.0f; }
__device__ __noinline__ float summed(float x) { return x + __shfl_xor_sync(~0u, x, 1); }
__device__ Function table[3] = {plus, twice, summed};
__device__ Function* inside[2] = {table + 1, table};
extern "C" __global__ void through(float* y, int which) {
  float x = threadIdx.x; Function f = table[which], g = threadIdx.x < 32 ? plus : twice;
  y[threadIdx.x] = f(x) + 100.0f * g(x) + 10000.0f * inside[0][0](x) + 1000000.0f * inside[1][0](x); }
extern "C" __global__ void put(Function* place) { *place = twice; }
extern "C" __global__ void apply(Function* place, float* y) { y[threadIdx.x] = (*place)(threadIdx.x); }
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_pointers_to_functions(options: tuple[str, ...], which: int) -> None:
    y = np.full(64, np.nan, np.float32)
    parameters = bytes(pointers(y)) + struct.pack("<i", which)
    compile_kernel(cuda(POINTERS, *options), "through").launch(parameters, 1, 64)
    x = np.arange(64, dtype=np.float32)
    f = [x + 1, x * 2, x + (np.arange(64) ^ 1).astype(np.float32)][which]
    g = np.where(np.arange(64) < 32, x + 1, x * 2)
    wanted = f + np.float32(100) * g + np.float32(10000) * (x * 2) + np.float32(1000000) * (x + 1)
    assert np.allclose(y, wanted, rtol=3e-7)


def test_a_pointer_that_one_kernel_stores_is_called_by_another() -> None:
    text = cuda(POINTERS)
    place, y = np.full(1, 2**64 - 1, np.uint64), np.full(32, np.nan, np.float32)
    compile_kernel(text, "put").launch(pointers(place), 1, 1)
    compile_kernel(text, "apply").launch(pointers(place, y), 1, 32)
    assert np.array_equal(y, 2 * np.arange(32, dtype=np.float32))


@pytest.mark.parametrize("address", [0, 1, 17, 1 << 40])
def test_a_call_of_what_is_no_function_stops_the_kernel(address: int) -> None:
    place, y = np.full(1, address, np.uint64), np.zeros(32, np.float32)
    with pytest.raises(ExecutionError, match=rf"a call of 0x{address:x}, which is no function of its kind \(ptx line"):
        compile_kernel(cuda(POINTERS), "apply").launch(pointers(place, y), 1, 32)


FUNCTIONS = """
.func (.param .b32 r) inc(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, %a, 1;
  st.param.b32 [r], %a; ret; }
.func (.param .b32 r) dec(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; sub.s32 %a, %a, 1;
  st.param.b32 [r], %a; ret; }
.func (.param .b32 r) wide(.param .b64 x) { st.param.b32 [r], 7; ret; }
.func nothing() { ret; }
"""


def calling(call: str) -> str:
    """A kernel that makes a call and stores the result; %f holds the address that its parameter chooses."""
    return (
        HEADER
        + FUNCTIONS
        + """.visible .entry k(.param .u64 p, .param .u32 which) { .reg .b64 %f, %p; .reg .b32 %r, %w; .reg .pred %q;
  .param .b32 in, out;
  ld.param.u64 %p, [p]; ld.param.u32 %w, [which]; setp.eq.u32 %q, %w, 0;
  mov.u64 %f, inc; @!%q mov.u64 %f, dec; st.param.b32 [in], 41; """
        + call
        + " ld.param.b32 %r, [out]; st.global.u32 [%p], %r; ret; }"
    )


@pytest.mark.parametrize(
    "call",
    [
        "fs: .calltargets inc, dec; call (out), %f, (in), fs;",
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _); call.uni (out), %f, (in), proto;",
        "proto: .callprototype (.param .b32 _) _ (.param .b32 x); call (out), %f, (in), proto;",
    ],
)
def test_lists_of_targets_and_prototypes(call: str) -> None:
    kernel = compile_kernel(assemble_everywhere(calling(call)), "k")
    for which, wanted in ((0, 42), (1, 40)):
        out = np.full(1, 0xDEAD, np.uint32)
        kernel.launch(bytes(pointers(out)) + struct.pack("<I", which), 1, 1)
        assert out[0] == wanted


def test_a_function_of_another_kind_is_not_called() -> None:
    text = calling(
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _); mov.u64 %f, wide; call (out), %f, (in), proto;"
    )
    with pytest.raises(ExecutionError, match="which is no function of its kind"):
        compile_kernel(text, "k").launch(bytes(pointers(np.zeros(1, np.uint32))) + bytes(4), 1, 1)


def test_a_call_without_arguments_goes_through_a_register_too() -> None:
    text = assemble_everywhere(
        HEADER + ".global .u32 g; .func touch() { st.global.u32 [g], 77; ret; }\n"
        ".visible .entry k(.param .u64 p) { .reg .b64 %f, %p; .reg .b32 %r; mov.u64 %f, touch;"
        " fp: .callprototype _ (); call %f, fp;"
        " ld.param.u64 %p, [p]; ld.global.u32 %r, [g]; st.global.u32 [%p], %r; ret; }"
    )
    out = np.zeros(1, np.uint32)
    compile_kernel(text, "k").launch(pointers(out), 1, 1)
    assert out[0] == 77


def test_an_alias_is_the_function_that_it_names() -> None:
    text = (
        HEADER
        + FUNCTIONS
        + ".visible .func (.param .b32 r) plus_one(.param .b32 x);\n.alias plus_one, inc;\n"
        + """.visible .entry k(.param .u64 p) { .reg .b64 %f, %g, %p; .reg .b32 %r; .reg .pred %q;
  .param .b32 in, out; st.param.b32 [in], 41; call (out), plus_one, (in); ld.param.b32 %r, [out];
  mov.u64 %f, plus_one; mov.u64 %g, inc; setp.eq.u64 %q, %f, %g; @%q add.u32 %r, %r, 1000;
  ld.param.u64 %p, [p]; st.global.u32 [%p], %r; ret; }"""
    )
    out = np.zeros(1, np.uint32)
    compile_kernel(text, "k").launch(pointers(out), 1, 1)
    assert out[0] == 1042


@pytest.mark.parametrize("call", ["call (out), declared, (in);", "mov.u64 %f, declared;"])
def test_what_is_only_declared_is_named(call: str) -> None:
    for linkage in (".extern", ".weak", ".visible"):
        text = HEADER + f"{linkage} .func (.param .b32 r) declared(.param .b32 x);\n" + calling(call)[len(HEADER) :]
        with pytest.raises(UnsupportedError, match="declared"):
            compile_kernel(text, "k")


def test_the_address_of_a_kernel_is_refused() -> None:
    text = HEADER + ".entry other() { ret; }\n.entry k() { .reg .b64 %f; mov.u64 %f, other; ret; }"
    with pytest.raises(UnsupportedError, match="ptx line 5: the address of the kernel other"):
        compile_kernel(text, "k")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("call (out), inc;", "inc takes 1 and returns 1 values"),
        ("call inc, (in);", "inc takes 1 and returns 1 values"),
        ("call (out), wide, (in);", "in is smaller than x"),
        ("call (out), %f, (in), k;", "k is neither a prototype nor a list"),
        ("call (out);", "a call names a function"),
    ],
)  # fmt: skip
def test_malformed_calls_are_refused(call: str, words: str) -> None:
    text = calling("proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (out), %f, (in), proto;")
    text = text.replace("call (out), %f, (in), proto;", call)
    with pytest.raises(ImageError, match=re.escape(words)):
        compile_kernel(text, "k")


def test_variable_arguments() -> None:
    """As LLVM passes them: one array at the end, declared without a size by the callee."""
    text = assemble_everywhere(
        HEADER
        + """.func (.param .b64 r) total(.param .b32 n, .param .align 8 .b8 rest[]) {
  .reg .b32 %n; .reg .b64 %at, %v, %s; .reg .pred %q; ld.param.u32 %n, [n]; mov.b64 %at, rest; mov.u64 %s, 0;
L: setp.eq.u32 %q, %n, 0; @%q bra D; ld.local.u64 %v, [%at]; add.u64 %s, %s, %v; add.u64 %at, %at, 8;
  sub.u32 %n, %n, 1; bra L;
D: st.param.b64 [r], %s; ret; }
.visible .entry k(.param .u64 p) { .reg .b64 %p, %v, %f; .param .b32 n; .param .align 8 .b8 rest[24]; .param .b64 out;
  st.param.b32 [n], 3; st.param.b64 [rest], 100; st.param.b64 [rest+8], 20; st.param.b64 [rest+16], 3;
  call (out), total, (n, rest);
  ld.param.b64 %v, [out]; ld.param.u64 %p, [p]; st.global.u64 [%p], %v;
  mov.u64 %f, total; kind: .callprototype (.param .b64 _) _ (.param .b32 _, .param .align 8 .b8 _[]);
  st.param.b32 [n], 2; call (out), %f, (n, rest), kind; ld.param.b64 %v, [out]; st.global.u64 [%p+8], %v; ret; }"""
    )
    out = np.zeros(2, np.uint64)
    compile_kernel(text, "k").launch(pointers(out), 1, 1)
    assert out.tolist() == [123, 120]


STRUCTURES = """
struct Inner { short a; double b; }; struct Outer { Inner in[2]; char c; float f; };
__device__ __noinline__ Outer change(Outer o, int i) { o.in[i & 1].b += i; o.in[1].a -= 3; o.c++; o.f *= 0.5f; BARRIER
  return o; }
extern "C" __global__ void k(Outer* y, Outer x) { y[threadIdx.x] = change(change(x, threadIdx.x), 1); }
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_structures_are_passed_and_returned_by_value(options: tuple[str, ...], barrier: str) -> None:
    inner = np.dtype([("a", np.int16), ("b", np.float64)], align=True)
    outer = np.dtype([("in", inner, 2), ("c", np.int8), ("f", np.float32)], align=True)
    x, y = np.zeros((), outer), np.frombuffer(bytearray(b"\xa5" * outer.itemsize * 40), outer)
    x["in"]["a"], x["in"]["b"], x["c"], x["f"] = [5, 6], [0.25, 0.75], 9, 3.0
    compile_kernel(cuda(STRUCTURES.replace("BARRIER", barrier), *options), "k").launch(
        bytes(pointers(y)) + x.tobytes(), 1, 40
    )
    i = np.arange(40)
    assert (y["c"] == 11).all() and (y["f"] == 0.75).all()
    assert (y["in"]["a"] == [5, 0]).all()
    assert np.array_equal(y["in"]["b"][:, 0], 0.25 + np.where(i % 2 == 0, i, 0))
    assert np.array_equal(y["in"]["b"][:, 1], 0.75 + np.where(i % 2 == 1, i, 0) + 1)


RECURSION = """
__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ unsigned odd(unsigned n);
__device__ __noinline__ unsigned even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ unsigned odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
extern "C" __global__ void k(unsigned* y) { unsigned t = threadIdx.x; BARRIER y[t] = fib(t) * 2 + even(t * 3); }
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_recursion(options: tuple[str, ...], barrier: str) -> None:
    y = np.full(20, 2**32 - 1, np.uint32)
    compile_kernel(cuda(RECURSION.replace("BARRIER", barrier), *options), "k").launch(pointers(y), 1, 20)
    numbers = [0, 1]
    while len(numbers) < 20:
        numbers.append(numbers[-1] + numbers[-2])
    assert y.tolist() == [2 * f + (3 * t + 1) % 2 for t, f in enumerate(numbers)]


def test_objects_for_programs_have_the_same_tables() -> None:
    """Ahead of time, nothing but the runtime's functions is left open, and the same text gives the same bytes."""
    text = cuda(POINTERS)
    first = compile_object(text, ["through", "apply"], prefix="mix_")
    assert first == compile_object(text, ["through", "apply"], prefix="mix_")


SUSPENDED = """
// A reduction that halves the number of lanes at each level, written as a recursion.
__device__ __noinline__ int halve(int x, int width) {
  if (width == 0) return x;
  return halve(x + __shfl_xor_sync(~0u, x, width), width / 2); }
// All threads of the block take part at each level, and each level is told apart from the next.
__device__ __noinline__ int rounds(int* shared, int depth) {
  int t = threadIdx.x, n = blockDim.x;
  shared[t] = t + depth; __syncthreads();
  int seen = shared[(t + 1) % n]; __syncthreads();
  if (depth == 0) return seen;
  return seen + rounds(shared, depth - 1) + rounds(shared, depth / 2 - (depth > 1)); }
extern "C" __global__ void sums(int* y) { int t = threadIdx.x + blockIdx.x * blockDim.x; y[t] = halve(t, 16); }
extern "C" __global__ void tree(int* y, int depth) { extern __shared__ int shared[];
  y[threadIdx.x + blockIdx.x * blockDim.x] = rounds(shared, depth); }
"""


@pytest.mark.parametrize("options", LEVELS)
def test_recursion_of_functions_that_wait(options: tuple[str, ...]) -> None:
    text = cuda(SUSPENDED, *options)
    y = np.full(192, -1, np.int32)
    compile_kernel(text, "sums").launch(pointers(y), 3, 64, threads=2)
    assert np.array_equal(y, np.arange(192).reshape(6, 32).sum(1).repeat(32))
    kernel = compile_kernel(text, "tree")
    kernel.launch(bytes(pointers(y)) + struct.pack("<i", 6), 4, 48, shared=4 * 48, threads=2)
    t = (np.arange(48) + 1) % 48

    def rounds(depth: int) -> np.ndarray:
        seen = t + depth
        return seen if depth == 0 else seen + rounds(depth - 1) + rounds(depth // 2 - (depth > 1))

    assert np.array_equal(y, np.tile(rounds(6), 4))


def recursive(body: str, end: str = "") -> str:
    """A function f(n) that calls itself n times, with something in between, and a kernel that calls it."""
    return assemble_everywhere(
        HEADER
        + f""".func (.param .b32 r) f(.param .b32 n);
.func (.param .b32 r) f(.param .b32 n) {{ .reg .b32 %n, %m, %v; .reg .b64 %a; .reg .pred %q; .param .b32 x, y;
  ld.param.b32 %n, [n]; mov.u32 %v, 0; setp.eq.u32 %q, %n, 0; @%q bra END; {body}
  sub.u32 %m, %n, 1; st.param.b32 [x], %m; call (y), f, (x); ld.param.b32 %v, [y]; add.u32 %v, %v, 1; {end}
END: st.param.b32 [r], %v; ret; }}
.visible .entry k(.param .u64 p, .param .u32 n) {{ .reg .b64 %p; .reg .b32 %r, %t; .param .b32 x, y;
  ld.param.u64 %p, [p]; ld.param.u32 %r, [n]; mov.u32 %t, %tid.x; mad.wide.u32 %p, %t, 4, %p; add.u32 %r, %r, %t;
  st.param.b32 [x], %r; call (y), f, (x); ld.param.b32 %r, [y]; st.global.u32 [%p], %r; ret; }}"""
    )


def test_threads_return_from_different_depths() -> None:
    out = np.full(32, 2**32 - 1, np.uint32)
    kernel = compile_kernel(recursive("activemask.b32 %m;"), "k")
    kernel.launch(bytes(pointers(out)) + struct.pack("<I", 20), 1, 32)
    assert np.array_equal(out, 20 + np.arange(32))


def test_endless_recursion_of_functions_that_wait_stops_the_kernel() -> None:
    kernel = compile_kernel(recursive("activemask.b32 %m;"), "k")
    out = np.zeros(4, np.uint32)
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"calls itself until the stack is full \(ptx line \d+\), block"):
            kernel.launch(bytes(pointers(out)) + struct.pack("<I", 2**31), 10, 4, threads=2)
        kernel.launch(bytes(pointers(out)) + struct.pack("<I", 500), 1, 4)
        assert out.tolist() == [500, 501, 502, 503]


def test_a_thread_exits_from_deep_inside() -> None:
    """Those that stay do not wait for it at the barrier behind."""
    text = recursive("activemask.b32 %m; setp.eq.u32 %q, %n, 5; mov.u32 %m, %tid.x; and.b32 %m, %m, 1;")
    text = text.replace("and.b32 %m, %m, 1;", "and.b32 %m, %m, 1; setp.eq.and.u32 %q, %m, 1, %q; @%q exit;")
    text = text.replace("ld.param.b32 %r, [y]; st.global", "ld.param.b32 %r, [y]; bar.sync 0; st.global")
    out = np.full(32, 2**32 - 1, np.uint32)
    compile_kernel(text, "k").launch(bytes(pointers(out)) + struct.pack("<I", 9), 1, 32)
    assert np.array_equal(out, np.where(np.arange(32) % 2, 2**32 - 1, 9 + np.arange(32)))


def test_memory_of_the_stack_at_each_level() -> None:
    """Given back level by level: a thousand calls of a depth of 30 use the same memory."""
    text = recursive(
        "alloca.u64 %a, 4096; st.local.u32 [%a+4092], %n; activemask.b32 %m;",
        "ld.local.u32 %m, [%a+4092]; setp.ne.u32 %q, %m, %n; @%q trap;",
    )
    text = text.replace("st.param.b32 [x], %r; call", ".reg .b32 %c; .reg .pred %more; mov.u32 %c, 0; "
                        "MORE: st.param.b32 [x], %r; call")  # fmt: skip
    text = text.replace("st.global.u32 [%p], %r;", "add.u32 %c, %c, 1; setp.lt.u32 %more, %c, 1000; @%more bra MORE;"
                        " st.global.u32 [%p], %r;")  # fmt: skip
    out = np.full(8, 2**32 - 1, np.uint32)
    compile_kernel(assemble_everywhere(text), "k").launch(bytes(pointers(out)) + struct.pack("<I", 30), 1, 8)
    assert np.array_equal(out, 30 + np.arange(8))


def test_virtual_functions_that_call_each_other_and_wait() -> None:
    source = """
struct Node { Node* left; Node* right; __device__ virtual int sum() const = 0; };
struct Leaf : Node { int value; __device__ int sum() const override { __syncthreads(); return value; } };
struct Inner : Node { __device__ int sum() const override { int s = left->sum(); __syncthreads();
  return s + 10 * right->sum(); } };
extern "C" __global__ void k(int* y) { Leaf a, b, c; Inner i, j; a.value = threadIdx.x; b.value = 2; c.value = 3;
  i.left = &a; i.right = &j; j.left = &b; j.right = &c; Node* root = &i; y[threadIdx.x] = root->sum(); }
"""
    y = np.full(40, -1, np.int32)
    compile_kernel(cuda(source, "-G"), "k").launch(pointers(y), 1, 40)
    assert np.array_equal(y, np.arange(40) + 10 * (2 + 10 * 3))

"""C prototypes give types and names to PTX that has none, and may not contradict it."""

from __future__ import annotations

import numpy as np
import pytest

import interop as io
from abi import CheckLevel
from abi.show import python_signature
from interop.importing.prototype import parse_prototypes

SOURCE = """
extern "C" __global__ void scale(float *y, float a, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] *= a;
}
struct P { float x; double y; };
extern "C" __global__ void by_value(const int *p, P q, unsigned char c) {}
"""


@pytest.fixture(scope="module")
def ptx() -> str:
    return io.load_cuda(SOURCE).scale.program().images[0].text


def test_without_a_prototype_only_the_layout_is_known(ptx: str) -> None:
    assert io.load_ptx(ptx).scale.program().kernel.check_level is CheckLevel.LAYOUT


def test_a_prototype_gives_types_and_names(ptx: str) -> None:
    header = """
    /* from scale.h */
    #include <stddef.h>
    extern "C" {
    __global__ void scale(float *__restrict__ y, const float a, size_t n); // y <- a*y
    }
    """
    scale = io.load_ptx(ptx, prototypes=header).scale
    kernel = scale.program().kernel
    assert kernel.check_level is CheckLevel.TYPED
    assert python_signature(kernel) == "scale(y: InOut[f32], a: f32, n: u64)"
    y = np.random.default_rng().random(100, dtype=np.float32)
    expected = y * np.float32(3)
    scale[1, 128](y, 3.0, 100)
    assert np.array_equal(y, expected)
    with pytest.raises(io.ArgumentTypeError, match="y is ptr<f32>"):
        scale[1, 128](y.astype(np.float64), 3.0, 100)


def test_structures_take_their_size_from_the_image(ptx: str) -> None:
    kernel = io.load_ptx(ptx, prototypes="void by_value(const int *p, struct P q, unsigned char c);").by_value
    assert python_signature(kernel.program().kernel).startswith("by_value(p: In[i32], q: ")


@pytest.mark.parametrize(
    "prototype",
    [
        "void scale(float *y, double a, size_t n);",
        "void scale(float *y, float a, unsigned n);",
        "void scale(float *y, float a);",
        "void scale(float y, float a, size_t n);",
    ],
)
def test_a_prototype_that_the_image_contradicts_is_refused_with_both(ptx: str, prototype: str) -> None:
    with pytest.raises(io.AbiMismatch) as caught:
        io.load_ptx(ptx, prototypes=prototype)
    assert prototype in str(caught.value)
    assert ".u64 (8 bytes at 0), .f32 (4 bytes at 8), .u64 (8 bytes at 16)" in str(caught.value)


def test_a_prototype_of_no_kernel_lists_those_there_are(ptx: str) -> None:
    with pytest.raises(io.SymbolNotFound, match="scale"):
        io.load_ptx(ptx, prototypes="void scalee(float *y);")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int f(float *x);", "not the prototype of a kernel"),
        ("void f(float &x);", "not supported"),
        ("void f(void x);", "cannot be void"),
        ("void f(float x y);", "one name"),
        ("void f(int *x); void f(float *x);", "twice, differently"),
        ("void f(", "not the prototype"),
        ("void f(unsigned float x);", "no type 'unsigned float'"),
        ("void f(int float x);", "no type 'int float'"),
        ("void f(short long x);", "no type 'short long'"),
        ("void f(long double x);", "no type 'long double'"),
        ("void f(float x*);", "write the type, then one name"),
        ("void f(*x float);", "not supported"),
    ],
)
def test_what_is_not_a_prototype_is_one_clear_error(text: str, words: str) -> None:
    with pytest.raises(io.Error, match=words):
        parse_prototypes(text)


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("unsigned long long int n", "unsigned long long"),
        ("unsigned n", "unsigned int"),
        ("signed char c", "signed char"),
        ("long", "long"),
        ("uint8_t *", "unsigned char*"),
        ("const float x[4]", "const float*"),
        ("float x[2*3]", "float*"),
        ("float x[4][4]", "float*"),
        ("float *x[4]", "float**"),
        ("float *const p", "float*"),
        ("const char *const *p", "const char**"),
        ("half h", "__half"),
        ("struct P p", "P"),
    ],
)
def test_spellings_of_types(written: str, type_: str) -> None:
    assert [str(t) for t in parse_prototypes(f"void f({written});")["f"].types] == [type_]

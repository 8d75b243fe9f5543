"""Static shared memory has a limit, for all arrays together."""

from __future__ import annotations

import pytest
from support.assemble import assemble
from support.compiling import compile_kernel_function

import interop as io
from interop import simt
from interop.errors import TypeError_


def exactly_full(x: io.Slice[io.f32]):
    a = simt.shared(io.f32, (64, 64))
    b = simt.shared(io.f64, 4096)
    a[0, 0] = x[0]
    b[0] = 1.0


def one_byte_over(x: io.Slice[io.f32]):
    a = simt.shared(io.f32, (64, 64))
    b = simt.shared(io.f64, 4096)
    c = simt.shared(io.u8, 1)
    a[0, 0] = x[0]
    b[0] = 1.0
    c[0] = 1


def one_array_over(x: io.Slice[io.f32]):
    a = simt.shared(io.f32, (128, 97))
    a[0, 0] = x[0]


def test_the_whole_of_it_can_be_used() -> None:
    assemble(compile_kernel_function(exactly_full).program.images[0].text)


def test_one_array_over_the_limit() -> None:
    with pytest.raises(TypeError_, match="takes 49664 bytes; a block has 49152"):
        compile_kernel_function(one_array_over)


def test_arrays_over_the_limit_together() -> None:
    with pytest.raises(TypeError_, match="takes 1 bytes, 49153 with the arrays before it") as caught:
        compile_kernel_function(one_byte_over)
    assert caught.value.location is not None and "simt.shared(io.u8, 1)" in caught.value.location.text

"""The words of the kernel language: annotations, constants, decorators, and what type checkers make of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import abi
import interop as io
from abi import Access, Pointer, Scalar, Slice, Tensor, f32
from interop import simt
from interop.errors import TypeError_
from interop.language import Const, device, multiple_of, unsafe, up_to
from interop.language.definition import KernelDefinition

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "annotation,type_,access,text",
    [
        (io.Slice[io.f32], Slice(f32), Access.IN, "Slice[f32]"),
        (io.DisjointSlice[io.f32], Slice(f32), Access.INOUT, "DisjointSlice[f32]"),
        (io.Tensor[io.f32, 3], Tensor(f32, 3), Access.IN, "Tensor[f32, 3]"),
        (io.DisjointTensor[io.f32, 2], Tensor(f32, 2), Access.INOUT, "DisjointTensor[f32, 2]"),
        (io.In[io.f32], Pointer(f32), Access.IN, "In[f32]"),
        (io.Out[io.f32], Pointer(f32), Access.OUT, "Out[f32]"),
        (io.InOut[io.f32], Pointer(f32), Access.INOUT, "InOut[f32]"),
    ],
)
def test_annotations(annotation: object, type_: abi.Type, access: Access, text: str) -> None:
    assert annotation.type == type_ and annotation.access is access  # type: ignore[attr-defined]
    assert repr(annotation) == text


@pytest.mark.parametrize("arguments", [(), (f32, 2, 3), (f32,), (3, 3), (f32, 0), (f32, 5), (f32, True), (f32, "2")])
def test_malformed_tensor_annotations(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="Tensor"):
        io.Tensor[arguments]  # type: ignore[misc]


def test_types_are_those_of_the_abi() -> None:
    assert io.f32 is abi.f32 and isinstance(io.bool_, Scalar)


def test_words_of_a_body_raise_outside_a_kernel() -> None:
    for call in (simt.global_index, simt.barrier, lambda: io.sqrt(2.0), lambda: unsafe("because")):
        with pytest.raises(abi.UnsupportedError, match="inside a kernel"):
            call()

    @device
    def double(x: object) -> object:
        """Twice."""
        return x

    assert double.__doc__ == "Twice." and double.__name__ == "double"
    with pytest.raises(abi.UnsupportedError, match=r"double\(\) is a device function"):
        double(3)
    with pytest.raises(TypeError, match="decorates a function"):
        device(3)


def test_constants_check_their_arguments() -> None:
    assert (Const("N", 3).name, Const("N", 3).value) == ("N", 3)
    with pytest.raises(ValueError, match="identifier"):
        Const("2N", 3)
    with pytest.raises(TypeError, match="int, float or bool"):
        Const("N", "3")  # type: ignore[arg-type]
    assert repr(up_to(256)) == "up_to(256)" and repr(multiple_of(32)) == "multiple_of(32)"
    with pytest.raises(TypeError, match="number of threads"):
        up_to(2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values,name",
    [
        ({}, "k"),
        ({"N": 32}, "k_N32"),
        ({"N": -1, "A": 0.5}, "k_A0p5_Nm1"),
        ({"FAST": True}, "k_FAST1"),
        ({"EPS": 1e-05}, "k_EPS1em05"),
    ],
)
def test_instances_have_readable_symbols(values: dict[str, float], name: str) -> None:
    def k(n: object) -> None:
        pass

    assert KernelDefinition(k, consts=values).name == name


N = Const("N", 16)
UNUSED = Const("UNUSED", 1)


@device
def by_n(x):  # type: ignore[no-untyped-def]
    return x * N


@simt.kernel(block=64, grid="ceil_div(len(y), block.x)")
def scale(y: io.DisjointSlice[io.i32]):  # type: ignore[no-untyped-def]
    """y <- N*y."""
    i = simt.global_index()
    if i < len(y):
        y[i] = by_n(y[i])


def test_kernel_object() -> None:
    assert scale.name == "scale" and scale.__doc__ == "y <- N*y." and scale.__module__ == __name__
    assert scale.program() is scale.program()
    assert scale.program().kernel.symbol == "scale"
    assert ".visible .entry scale(" in scale.ptx
    assert "scale(y" in repr(scale)


def test_specialize() -> None:
    small = scale.specialize(N=32)
    assert small.name == "scale_N32" and small.program().kernel.symbol == "scale_N32"
    assert ".visible .entry scale_N32(" in small.ptx
    assert scale.specialize(N=32) is small and scale.specialize(N=33) is not small
    with pytest.raises(TypeError_, match="scale has no constant 'M'; its constants are: N"):
        scale.specialize(M=3)
    with pytest.raises(TypeError_, match="a number like 16"):
        scale.specialize(N="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError_, match="a number like 16"):
        scale.specialize(N=True)


def test_four_threads_compile_a_cold_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from interop import frontend

    calls = []
    compile_simt = frontend.compile_simt
    start = threading.Barrier(4)

    def counted(definition: KernelDefinition) -> object:
        calls.append(definition)
        return compile_simt(definition)

    monkeypatch.setattr(frontend, "compile_simt", counted)

    @simt.kernel()
    def cold(y: io.DisjointSlice[io.i32]):  # type: ignore[no-untyped-def]
        i = simt.global_index()
        if i < len(y):
            y[i] = 1

    programs = []

    def launch() -> None:
        start.wait()
        programs.append(cold.program())

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and len({id(p) for p in programs}) == 1


def test_decorating_compiles_nothing() -> None:
    @simt.kernel()
    def broken(y: io.DisjointSlice[io.f32]):  # type: ignore[no-untyped-def]
        y[0] = 1.0

    with pytest.raises(io.RaceError):
        broken.program()


def test_decorator_mistakes() -> None:
    with pytest.raises(TypeError, match="with parentheses"):

        @simt.kernel
        def bare() -> None:
            pass

    with pytest.raises(TypeError, match="requires is a list"):
        simt.kernel(requires="len(x) >= 3")


def test_importing_the_language_loads_no_compiler() -> None:
    program = "import sys, interop as io; from interop import simt; io.Slice[io.f32]; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


TYPED_KERNELS = '''
from interop import language as io
from interop import simt

N = io.Const("N", 16)


@io.device
def twice(x: io.f32) -> io.f32:
    return 2 * x


@simt.kernel(block=256, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
def saxpy(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32) -> None:
    """y <- a*x + y."""
    i = simt.global_index()
    if i < len(y):
        y[i] = a * x[i] + y[i]


@simt.kernel(block=(32, N), shared="4 * block.x")
def edges(src: io.Tensor[io.f32, 2], dst: io.DisjointTensor[io.f32, 2], p: io.Out[io.u8]) -> None:
    s = simt.shared(io.f32, (10, N + 2))
    q = simt.global_index(2)
    row, col = q
    n: io.i32 = 0
    simt.barrier()
    s[simt.thread_index.x, N * 2] = io.f32(n)
    for i in simt.grid_stride(len(src)):
        n += io.i32(i)
    with io.unsafe("one thread"):
        p[0] = 1
    dst[q] = io.sqrt(src[q]) + twice(src.shape[0]) + s[0, 0]


small = saxpy.specialize(N=3)
'''


def test_kernels_are_clean_under_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    path = tmp_path / "typed_kernels.py"
    path.write_text(TYPED_KERNELS)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    mine = [line for line in done.stdout.splitlines() if line.startswith(str(path))]
    assert mine == []

"""CUDA C++ through NVRTC: names, types, results on the CPU device, assembled PTX, and every kind of bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.assemble import ARCHITECTURES, assemble

import interop as io
from abi import CheckLevel, Error
from abi.show import python_signature

pytest.importorskip("cuda.bindings.nvrtc")

ZOO = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/std/cstdint>

struct Pair { float a; double b; };
struct Tiny { char x, y, z; };
enum Mode { PLUS, MINUS };
enum class Small : unsigned char { A, B };

namespace deep { namespace er {
__global__ void scale(float *__restrict__ x, const float *y, unsigned long long n)
{
    unsigned long long i = blockIdx.x * 64ull + threadIdx.x;
    if (i < n) x[i] = 2.0f * y[i];
}
} }

// overloads
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
__global__ void twice(double *x) { x[threadIdx.x] *= 2; }

template <class T, int N> __global__ void blur(const T *x, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T sum = 0;
    for (int k = -N; k <= N; k++) sum += x[min(max(i + k, 0), n - 1)];
    y[i] = sum;
}
template __global__ void blur<double, 1>(const double *, double *, int);

template <class T> struct Wider { using type = double; };
template <class T> __global__ void widen(const T *x, typename Wider<T>::type *y, typename Wider<T>::type a)
{
    y[threadIdx.x] = a * x[threadIdx.x];
}

extern "C" __global__ void scalars(bool flag, char c, unsigned char uc, short s, unsigned short us, int i, unsigned u,
                                   long l, unsigned long ul, float f, double d, Mode mode, Small small, double *out)
{
    double values[] = {(double)flag, (double)c, (double)uc, (double)s, (double)us, (double)i, (double)u, (double)l,
                       (double)ul, f, d, (double)mode, (double)(int)small};
    for (int k = 0; k < 13; k++) out[k] = values[k];
}
extern "C" __global__ void halves(const __half *x, __half *y, __half a, const __nv_bfloat16 *bx, __nv_bfloat16 *by,
                                  __nv_bfloat16 b)
{
    int i = threadIdx.x;
    y[i] = __float2half(__half2float(x[i]) * __half2float(a));
    by[i] = __float2bfloat16(__bfloat162float(bx[i]) * __bfloat162float(b));
}
extern "C" __global__ void structs(Pair p, Tiny t, float3 v, float4 w, double *out)
{
    double values[] = {p.a, p.b, (double)t.x, (double)t.z, v.x, v.z, w.w};
    for (int k = 0; k < 7; k++) out[k] = values[k];
}
extern "C" __global__ void bytes(const unsigned char *x, signed char *y, bool *z)
{
    y[threadIdx.x] = (signed char)x[threadIdx.x];
    z[threadIdx.x] = x[threadIdx.x] > 127;
}
extern "C" __global__ void typedefs(const cuda::std::int64_t *x, cuda::std::uint16_t *y, size_t n)
{
    if (threadIdx.x < n) y[threadIdx.x] = (cuda::std::uint16_t)x[threadIdx.x];
}
static __global__ void hidden(int *x) { x[0] = 42; }
namespace { __global__ void anonymous(int *x) { x[0] = 43; } }
__global__ void __launch_bounds__(96) bounded(volatile int *x) { x[threadIdx.x] = 1; }
"""


@pytest.fixture(scope="module")
def zoo() -> Any:
    return io.load_cuda(ZOO)


def signature(kernel: io.Launchable) -> str:
    return python_signature(kernel.program().kernel)


# -- names and types -----------------------------------------------------------------------------------------------


def test_every_kernel_is_found_with_its_types(zoo: Any) -> None:
    assert {name: signature(k) for name, k in zoo.kernels.items()} == {
        "deep::er::scale": "deep_er_scale(x: InOut[f32], y: In[f32], n: u64)",
        "twice(int*)": "twice_int(x: InOut[i32])",
        "twice(double*)": "twice_double(x: InOut[f64])",
        "blur<double, 1>": "blur_double_1(x: In[f64], y: InOut[f64], n: i32)",
        "scalars": "scalars(flag: bool, c: i8, uc: u8, s: i16, us: u16, i: i32, u: u32, l: i64, ul: u64, f: f32, "
        "d: f64, mode: i32, small: u8, out: InOut[f64])",
        "halves": "halves(x: In[f16], y: InOut[f16], a: f16, bx: In[bf16], by: InOut[bf16], b: bf16)",
        "structs": "structs(p: abi.Bytes(16, 8), t: abi.Bytes(3, 1), v: abi.Bytes(12, 4), w: abi.Bytes(16, 16), "
        "out: InOut[f64])",
        "bytes": "bytes(x: In[u8], y: InOut[i8], z: InOut[bool])",
        "typedefs": "typedefs(x: In[i64], y: InOut[u16], n: u64)",
        "hidden": "hidden(x: InOut[i32])",
        "anonymous": "anonymous(x: InOut[i32])",
        "bounded": "bounded(x: InOut[i32])",
    }
    assert all(k.program().kernel.check_level is CheckLevel.TYPED for k in zoo.kernels.values())
    assert all(k.program().kernel.language == "cuda-c++" for k in zoo.kernels.values())


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("scale", "_ZN4deep2er5scaleEPfPKfy"), ("deep::er::scale", "_ZN4deep2er5scaleEPfPKfy"),
     ("twice(double *)", "_Z5twicePd"), ("scalars", "scalars"), ("blur<double,1>", "_Z4blurIdLi1EEvPKT_PS0_i"),
     ("blur", "_Z4blurIdLi1EEvPKT_PS0_i"), ("_Z5twicePi", "_Z5twicePi")],
)  # fmt: skip
def test_kernels_load_by_the_name_a_person_would_write(name: str, symbol: str) -> None:
    assert io.load_cuda(ZOO).kernel(name).program().kernel.symbol == symbol


def test_attributes_and_dir(zoo: Any) -> None:
    assert zoo.scalars is zoo.kernel("scalars")
    assert {"scale", "twice", "scalars", "blur", "kernels"} <= set(dir(zoo))
    assert not hasattr(zoo, "nothing_of_that_name")
    assert "scalars" in repr(zoo)


def test_an_unknown_kernel_lists_those_there_are_nearest_first(zoo: Any) -> None:
    with pytest.raises(io.SymbolNotFound, match=r"no kernel 'scalrs'; it has: scalars, ") as caught:
        _ = zoo.scalrs
    assert isinstance(caught.value, (KeyError, AttributeError))


def test_an_ambiguous_name_lists_the_candidates(zoo: Any) -> None:
    with pytest.raises(io.SymbolNotFound, match=r"'twice' could be any of: twice\(int\*\), twice\(double\*\)"):
        _ = zoo.twice


def test_templates_are_instantiated_when_asked_for(zoo: Any) -> None:
    x = np.arange(50, dtype=np.float32)
    y = np.full_like(x, np.nan)
    zoo.kernel("blur<float, 3>")[1, 64](x, y, 50)
    padded = np.pad(x.astype(np.float64), 3, mode="edge")
    assert np.allclose(y, sum(padded[k : k + 50] for k in range(7)))
    assert signature(zoo.kernel("blur<float, 3>")) == "blur_float_3(x: In[f32], y: InOut[f32], n: i32)"
    eager = io.load_cuda(ZOO, instances=["blur<int, 2>"])
    assert "blur<int, 2>" in eager.kernels


def test_types_that_depend_on_template_arguments_are_resolved(zoo: Any) -> None:
    kernel = zoo.kernel("widen<float>")
    assert signature(kernel) == "widen_float(x: In[f32], y: InOut[f64], a: f64)"
    x, y = np.arange(8, dtype=np.float32), np.zeros(8)
    kernel[1, 8](x, y, 0.1)
    assert np.array_equal(y, 0.1 * x.astype(np.float64))


@pytest.mark.parametrize(("name", "words"), [("blur", "name an instance"), ("blur<nonsense>", "nonsense")])
def test_templates_that_cannot_be_instantiated(name: str, words: str) -> None:
    module = io.load_cuda("template <class T> __global__ void blur(T *x) { x[0] = 0; }\n")
    with pytest.raises(io.SymbolNotFound, match=words):
        module.kernel(name)


@pytest.mark.parametrize(("name", "value"), [("hidden", 42), ("anonymous", 43)])
def test_kernels_with_internal_linkage(zoo: Any, name: str, value: int) -> None:
    x = np.zeros(1, np.int32)
    zoo.kernel(name)[1, 1](x)
    assert x[0] == value


def test_launch_bounds_become_the_blocks_bound(zoo: Any) -> None:
    with pytest.raises(io.ContractError, match=r"<= 96, but block = \(97, 1, 1\)"):
        zoo.bounded[1, 97](np.zeros(97, np.int32))


def test_pointers_to_vectors_require_their_alignment() -> None:
    module = io.load_cuda(
        "__global__ void f(const float4 *a, double2 *b, float3 *c, uchar4 *d, const longlong2 *e) {}\n"
    )
    rules = [r.rule for r in module.f.program().kernel.requires if r.rule.startswith("aligned")]
    assert rules == ["aligned(a, 16)", "aligned(b, 16)", "aligned(d, 4)", "aligned(e, 16)"]


def test_parameter_names_are_read_where_the_text_is_clear() -> None:
    module = io.load_cuda(
        "#define ARGS float *hidden_by_macro\n"
        "// __global__ void plain(int wrong, int names) {}\n"
        'extern "C" __global__ void plain(const float *in, int count /* , int no */, float (*table)[4]);\n'
        'extern "C" __global__ void plain(const float *in, int count, float (*table)[4]) {}\n'
        'extern "C" __global__ void macro(ARGS) {}\n'
        'extern "C" __global__ void unnamed(float *, int) {}\n'
        'extern "C" __global__ void reserved(int *block, int len) {}\n'
    )
    names = {k: [p.name for p in kernel.program().kernel.params] for k, kernel in module.kernels.items()}
    assert names == {
        "plain": ["in_", "count", "table"], "macro": ["p0"], "unnamed": ["p0", "p1"], "reserved": ["block_", "len_"],
    }  # fmt: skip


def test_an_extern_c_kernel_in_a_namespace_has_its_layout_checked() -> None:
    module = io.load_cuda('namespace a { extern "C" __global__ void f(float *x, int n) { x[0] = n; } }\n')
    kernel = module.f.program().kernel
    assert kernel.check_level in (CheckLevel.TYPED, CheckLevel.LAYOUT)
    x = np.zeros(1, np.float32)
    module.f[1, 1](x, 5)
    assert x[0] == 5


# -- results -------------------------------------------------------------------------------------------------------


def test_scalars_of_every_type_arrive(zoo: Any) -> None:
    out = np.full(13, np.nan)
    values = (True, -128, 255, -(2**15), 2**16 - 1, -(2**31), 2**32 - 1, -(2**53), 2**53, 1.5, 0.1, 1, 1)
    zoo.scalars[1, 1](*values, out)
    assert out.tolist() == [float(v) for v in values]


def test_halves_arrive(zoo: Any) -> None:
    import ml_dtypes

    x = np.random.default_rng().standard_normal(32).astype(np.float16)
    bx = np.random.default_rng().standard_normal(32).astype(ml_dtypes.bfloat16)
    y, by = np.zeros_like(x), np.zeros_like(bx)
    zoo.halves[1, 32](x, y, 1.5, bx, by, np.float32(-2.5))
    assert np.array_equal(y, (x.astype(np.float32) * np.float32(1.5)).astype(np.float16))
    assert np.array_equal(by, (bx.astype(np.float32) * np.float32(-2.5)).astype(ml_dtypes.bfloat16))


def test_structs_by_value_arrive(zoo: Any) -> None:
    pair = np.array((1.25, -7.5), np.dtype([("a", "f4"), ("b", "f8")], align=True))[()]
    tiny = np.array((1, 2, -3), np.dtype([("x", "i1"), ("y", "i1"), ("z", "i1")]))[()]
    vector = np.array([2, 3, 4], np.float32).tobytes()
    wide = np.array([5, 6, 7, 8], np.float32).tobytes()
    out = np.full(7, np.nan)
    zoo.structs[1, 1](pair, tiny, vector, wide, out)
    assert out.tolist() == [1.25, -7.5, 1.0, -3.0, 2.0, 4.0, 8.0]
    with pytest.raises(io.ArgumentTypeError, match="structs: t is bytes<3, 1>, but 4 bytes are given"):
        zoo.structs[1, 1](pair, b"1234", vector, wide, out)


def test_small_elements_and_bools(zoo: Any) -> None:
    x = np.arange(256, dtype=np.uint8)
    y, z = np.zeros(256, np.int8), np.zeros(256, np.bool_)
    zoo.bytes[1, 256](x, y, z)
    assert np.array_equal(y, x.view(np.int8)) and np.array_equal(z, x > 127)


def test_overloads_and_namespaces_run(zoo: Any) -> None:
    x, y = np.arange(5, dtype=np.int32), np.arange(5.0)
    zoo.kernel("twice(int*)")[1, 5](x)
    zoo.kernel("twice(double*)")[1, 5](y)
    assert x.tolist() == y.tolist() == [0, 2, 4, 6, 8]
    source, target = np.random.default_rng().standard_normal(100, np.float32), np.zeros(100, np.float32)
    zoo.scale[2, 64](target, source, 100)
    assert np.array_equal(target, 2 * source)


def test_compile_options() -> None:
    text = "__global__ void f(int *x) { x[0] = VALUE + FLAG; }\n#if __cplusplus >= 202002L\n#define NEW\n#endif\n"
    module = io.load_cuda(text, defines={"VALUE": 40, "FLAG": True}, options=["--use_fast_math"], std="c++20")
    x = np.zeros(1, np.int32)
    module.f[1, 1](x)
    assert x[0] == 41
    assert io.load_cuda("__global__ void g() {}\n", arch="sm_90").g.program().images[0].target == "sm_90"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_ptx_is_assembled_for_every_target(zoo: Any, arch: str) -> None:
    image = zoo.scalars.program().images[0]
    assert assemble(image.data, arch).startswith(b"\x7fELF")


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_its_includes_and_changes(tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 5\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.h").write_text("#define OTHER 6\n")
    source = tmp_path / "kernel.cu"
    source.write_text('#include "value.h"\n#include <other.h>\n__global__ void f(int *x) { x[0] = VALUE + OTHER; }\n')
    x = np.zeros(1, np.int32)
    io.load_cuda(source, include_paths=[tmp_path / "more"]).f[1, 1](x)
    assert x[0] == 11
    (tmp_path / "value.h").write_text("#define VALUE 50\n")
    io.load_cuda(str(source), include_paths=[str(tmp_path / "more")]).f[1, 1](x)
    named = io.load_cuda(source, name="nice.cu", include_paths=[tmp_path / "more"])
    assert named.name == named.f.program().kernel.source == "nice.cu"
    assert x[0] == 56  # a changed header is seen in the same process


def test_compile_errors_are_nvrtcs_own_words(tmp_path: Path) -> None:
    source = tmp_path / "broken.cu"
    source.write_text("__global__ void f(int *x)\n{\n    x[0] = undefined_name;\n}\n")
    with pytest.raises(io.CompileError) as caught:
        io.load_cuda(source)
    assert 'broken.cu(3): error: identifier "undefined_name" is undefined' in str(caught.value)


def test_a_missing_header_prints_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(io.CompileError) as caught:
        io.load_cuda("#include <not_there.h>\n__global__ void f() {}\n", include_paths=[tmp_path])
    text = str(caught.value)
    assert "not_there.h was looked for in:" in text and str(tmp_path) in text
    assert "pass include_paths=[...] with the folder of not_there.h" in text and "pip install" not in text


def test_only_missing_headers_of_cuda_are_said_to_be_installable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advice(header: str) -> str:
        with pytest.raises(io.CompileError) as caught:
            io.load_cuda(f"#include <{header}>\n__global__ void f() {{}}\n")
        return str(caught.value).partition("help: ")[2]

    assert "pip install" not in advice("curand_kernel.h") and "pip install" not in advice("helper_math.h")
    monkeypatch.setattr("interop.importing.nvrtc.cuda_headers", list)
    assert "pip install" in advice("mma.h")
    (tmp_path / "cuda_fp16.h").touch()
    monkeypatch.setattr("interop.importing.nvrtc.cuda_headers", lambda: [str(tmp_path)])
    assert "pip install" not in advice("mma.h") and "pip install" in advice("cub/cub.cuh")


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"nowhere\.cu: no such file \(source text has a newline"):
        io.load_cuda(tmp_path / "nowhere.cu")
    with pytest.raises(Error, match="directory"):
        io.load_cuda(tmp_path)
    latin = tmp_path / "latin.cu"
    latin.write_bytes(b"// ok\n// \xe9\n")
    with pytest.raises(io.ImageError, match="line 2 is not UTF-8"):
        io.load_cuda(latin)
    with pytest.raises(TypeError, match="text or a path"):
        io.load_cuda(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"options is a list: options=\['-O3'\]"):
        io.load_cuda(ZOO, options="-O3")
    with pytest.raises(TypeError, match="instances is a list"):
        io.load_cuda(ZOO, instances="blur<int, 1>")
    with pytest.raises(Error, match="'hopper' is not a CUDA target"):
        io.load_cuda(ZOO, arch="hopper")
    with pytest.raises(io.CompileError, match="invalid value for --gpu-architecture"):
        io.load_cuda("__global__ void f() {}\n", arch="sm_10")
    with pytest.raises(io.CompileError, match="--no-such-option"):
        io.load_cuda("__global__ void f() {}\n", options=["--no-such-option"])


def test_a_source_without_kernels() -> None:
    module = io.load_cuda("__device__ int f() { return 1; }\n")
    assert dict(module.kernels) == {}
    with pytest.raises(io.SymbolNotFound, match="it has no kernels at all"):
        _ = module.f


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    def fail() -> None:
        raise RuntimeError("libnvrtc.so.13 not found")

    monkeypatch.setattr(nvrtc, "nvrtcVersion", fail)
    with pytest.raises(Error, match=r"NVRTC, which was not found \(libnvrtc.so.13 not found\): pip install 'kernel-"):
        io.load_cuda("__global__ void never_compiled() {}\n")


def test_the_same_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from interop.importing import nvrtc

    compiled: list[object] = []
    original = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *a: (compiled.append(a), original(*a))[1])
    text = "__global__ void memoised(int *x) { x[0] = 1; }\n"
    io.load_cuda(text)
    io.load_cuda(text)
    assert len(compiled) == 1


def test_nothing_that_is_made_of_a_file_names_its_folder(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("#include <cassert>\n__global__ void f(int *x) { assert(x[0] == 1); }\n")
    program = io.load_cuda(source, options=["-lineinfo"]).f.program()
    assert program.kernel.source == "k.cu"
    assert str(tmp_path) not in program.images[0].text and "k.cu" in program.images[0].text
    (tmp_path / "k.ptx").write_bytes(program.images[0].data)
    assert io.load_ptx(tmp_path / "k.ptx").f.program().kernel.source == "k.ptx"

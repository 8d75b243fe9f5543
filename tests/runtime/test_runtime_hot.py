"""The hot path against the slow one: same launches, same bytes, same errors; and that it is taken at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import abi
import interop as io
from abi import Access, Block, BlockKind, Image, ImageKind, Kernel, Launch, Param, Program, Requirement, assign_slots
from abi.rule_eval import Environment, Fault, compile_node
from abi.rules import parse, with_implied
from interop import simt
from interop.runtime import Launchable, hot, launchable
from interop.runtime.device import CPU
from interop.runtime.hot_rules import Expression, NotInline, inline


@dataclass
class Recorder:
    """A loaded kernel that writes down its launches, as CPU and GPU would get them."""

    launches: list[tuple[Any, ...]] = field(default_factory=list)
    static_shared: int = 16
    max_threads: int = 512
    failure: Exception | None = None

    def launch(self, grid: Any, block: Any, shared: int, stream: int, params: bytes, memory: None = None) -> None:
        if self.failure is not None:
            raise self.failure
        self.launches.append((tuple(grid), tuple(block), shared, stream, params))


def described(
    params: dict[str, tuple[str, Access]], launch: Launch, requires: tuple[str, ...] = (), fill: Any = None
) -> Kernel:
    placed = assign_slots([Param(n, abi.parse_type(t), a, fill=(fill or {}).get(n)) for n, (t, a) in params.items()])
    return with_implied(Kernel("k", "k", "ptx", placed, launch, tuple(Requirement(r) for r in requires)))


def launchable_of(kernel: Kernel, enabled: bool = True) -> tuple[Launchable, Recorder]:
    program = Program(kernel, (Image(ImageKind.PTX, "sm_80", b"", ("k",)),))
    found, recorder = Launchable(lambda: program), Recorder()
    found._loaded[CPU] = recorder
    found._hot.enabled = enabled
    return found, recorder


IN, OUT, INOUT = Access.IN, Access.OUT, Access.INOUT
EXACT = Block(BlockKind.EXACT, (64, 2, 1))
KERNELS = [
    described({"x": ("slice<f32>", IN), "y": ("slice<f32>", OUT), "a": ("f32", IN)},
              Launch(EXACT, ("ceil_div(len(y), block.x)",)), ("len(x) >= len(y)", "grid.y == 1", "block.z == 1")),
    described({"s": ("tensor<f32, 2>", IN), "d": ("tensor<f32, 2>", INOUT), "n": ("i64", IN)},
              Launch(EXACT, ("ceil_div(dim(d, 1), 32)", "dim(d, 0)")),
              ("dim(s, 0) == dim(d, 0) and n >= stride(s, 0)", "len(s) * n >= 0 or n == -3")),
    described({"x": ("slice<i16>", INOUT), "n": ("i32", IN), "k": ("u8", IN), "b": ("bool", IN)},
              Launch(Block(BlockKind.UP_TO, (128, 2, 1)), ("max(n, 1)",), "4 * block.x + k"),
              ("n % k == 0 or b", "n // k <= len(x)", "not (k == 7)", "aligned(x, 4)")),
    described({"x": ("ptr<f32>", IN), "y": ("ptr<f32>", OUT), "n": ("i64", IN), "m": ("u32", IN)},
              Launch(Block(BlockKind.MULTIPLE_OF, (32, 1, 1)), ("1",)), ("m <= n", "len(x) >= m", "disjoint(y, x)"),
              {"n": "len(y)", "m": "len(x) - 1"}),
    described({"x": ("slice<u8>", OUT), "h": ("f16", IN), "g": ("bf16", IN), "d": ("f64", IN),
               "c": ("bytes<3, 1>", IN)}, Launch(), ("len(x) >= grid.x * block.x",)),
    described({"x": ("slice<i16>", IN), "u": ("u64", IN), "v": ("i64", IN)},
              Launch(EXACT, ("min(u, 5)", "2")), ("u * v <= 9223372036854775807", "u + v != -1")),
]  # fmt: skip
BASE = np.zeros(4096, np.uint8)
START = -BASE.ctypes.data % 64


def memory(dtype: str, offset: int, count: int) -> Any:
    """Elements of one common block of memory, so that arrays overlap now and then."""
    size = np.dtype(dtype).itemsize
    return BASE[START + offset : START + offset + count * size].view(dtype)


@st.composite
def arrays(draw: Any, dtype: str, rank: int) -> Any:
    if draw(st.integers(0, 9)) == 0:
        dtype = draw(st.sampled_from(["f4", "f8", "i2", "u1", ">f4", "?"]))
    rank = rank if draw(st.integers(0, 9)) else draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 5)) for _ in range(rank))
    count = int(np.prod(shape, dtype=int))
    # Mostly apart from one another; sometimes off every alignment.
    offset = draw(st.integers(0, 14)) * 256 + draw(st.sampled_from([0, 0, 0, 0, 0, 4, 2, 1]))
    array = memory(dtype, offset, count).reshape(shape)
    for turn in draw(
        st.lists(st.sampled_from(["T", "reverse", "step", "read-only", "own", "broadcast", "sub"]), max_size=1)
    ):
        if turn == "T":
            array = array.T
        elif turn == "reverse" and rank:
            array = array[::-1]
        elif turn == "step" and rank:
            array = array[::2]
        elif turn == "broadcast" and rank:
            array = np.broadcast_to(array[:1], array.shape)
        elif turn == "read-only":
            array = array[...]
            array.flags.writeable = False
        elif turn == "sub":
            array = array.view(type("Sub", (np.ndarray,), {}))
        elif turn == "own" and array.dtype.isnative:
            array = io.to_device(array, "cpu")
    return array


INTEGERS = st.one_of(
    st.integers(-4, 300), st.sampled_from([2**31, -(2**31), 2**31 - 1, 2**32, 2**62, 2**63, -(2**63), 2**64]),
    st.booleans(), st.sampled_from([np.int32(3), np.uint8(200), 2.0, "3", None, np.zeros(())]),
)  # fmt: skip
FLOATS = st.one_of(
    st.floats(), st.floats(width=16), st.integers(-(2**60), 2**130),
    st.sampled_from([1e39, 65519.9, 65520.0, 3.4028235677973366e38, True]),
    st.sampled_from([np.float32(2.5), np.float64(2), "x", None, 1j]),
)  # fmt: skip
DTYPES = {"f32": "f4", "i16": "i2", "u8": "u1"}


@st.composite
def calls(draw: Any, kernel: Kernel) -> Any:
    """Arguments and configuration: all plausible, one of them odd, or all odd."""
    params = kernel.visible_params
    count = len(params) + 1
    odd = draw(st.sampled_from([(), (), *[(n,) for n in range(count)], range(count)]))
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    args = tuple(draw(values(p) if n in odd else plausible(p, n, shape)) for n, p in enumerate(params))
    return args, draw(
        CONFIGURATIONS if count - 1 in odd else st.sampled_from([None, (1, (64, 2)), (2, (64, 2), None, 8)])
    )


@st.composite
def plausible(draw: Any, param: Param, position: int, shape: tuple[int, int]) -> Any:
    """What the kernels mostly take."""
    type_ = param.type
    if isinstance(type_, abi.Scalar):
        if type_.kind == "bool":
            return draw(st.booleans())
        made = [np.float32, np.int64] if type_.kind == "float" else [np.int32, np.uint8]
        number = draw(st.integers(1, 6))
        if draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(made))(number)
        return draw(st.floats(-100, 100)) if type_.kind == "float" else number
    if isinstance(type_, abi.Bytes):
        return b"abc"
    if not isinstance(type_, abi.Tensor):
        count = shape[0] * (128 if type_ == abi.Slice(abi.u8) else 1)
        array = memory(DTYPES[str(element_of(param))], position * 1024, count)
        return draw(st.sampled_from([array, array, io.to_device(array, "cpu")]))
    rows, columns = shape
    whole = memory("f4", position * 1024, 10 * columns).reshape(10, columns)
    picks = [whole[:rows], whole[: 2 * rows : 2], whole[rows - 1 :: -1][:rows], whole[:, :1][:rows]]
    return draw(st.sampled_from([*picks, io.to_device(whole, "cpu")[: 2 * rows : 2]]))


def element_of(param: Param) -> abi.Scalar:
    type_ = param.type
    element = type_.pointee if isinstance(type_, abi.Pointer) else type_.element  # type: ignore[union-attr]
    assert element is not None
    return element


def values(param: Param) -> Any:
    type_ = param.type
    if isinstance(type_, abi.Scalar):
        return {"float": FLOATS, "bool": st.one_of(st.booleans(), INTEGERS)}.get(type_.kind, INTEGERS)
    if isinstance(type_, abi.Bytes):
        return st.sampled_from([b"abc", b"abc", b"abc", b"ab", bytearray(b"abc"), 3])
    rank = type_.rank if isinstance(type_, abi.Tensor) else 1
    made = arrays(DTYPES[element_of(param).name], rank)
    return st.one_of(made, made, st.sampled_from([None, 7]))


DIMENSIONS = st.one_of(
    st.none(), st.integers(0, 80), st.sampled_from([64, (64, 2), (64, 2, 1), 32]),
    st.tuples(st.integers(1, 70), st.integers(0, 70)),
    st.sampled_from([True, 1.0, (1, 1, 70000), (), 2**32, -1, [2, 1]]),
)  # fmt: skip
CONFIGURATIONS = st.one_of(
    st.none(), st.tuples(DIMENSIONS, DIMENSIONS),
    st.tuples(DIMENSIONS, DIMENSIONS, st.sampled_from([None, io.Stream("cpu"), 0, "s"]),
              st.sampled_from([None, 0, 100, 232432 - 16, 232448, -1, True, 2.5])),
)  # fmt: skip


def outcome(call: Callable[[], None], recorder: Recorder) -> Any:
    """What a call did: the launch that it made, or its error."""
    del recorder.launches[:]
    try:
        call()
    except Exception as error:
        assert not recorder.launches
        return type(error), str(error), error.__cause__, getattr(error, "values", None)
    return list(recorder.launches)


def configured(kernel: Launchable, config: Any) -> Any:
    return kernel if config is None else kernel[config]


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_it_does_what_the_slow_path_does(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    described_ = KERNELS[number]
    fast, fast_record = launchable_of(described_)
    slow, slow_record = launchable_of(described_, enabled=False)
    ways = {"hot": 0, "slow": 0}
    real = launchable.launch

    def counting(*arguments: Any) -> Any:
        ways["slow"] += 1
        return real(*arguments)

    monkeypatch.setattr(launchable, "launch", counting)
    monkeypatch.setattr(hot, "MOST", 1000)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(calls(described_))
    def compare(call: tuple[tuple[Any, ...], Any]) -> None:
        args, config = call
        expected = outcome(lambda: configured(slow, config)(*args), slow_record)
        for _ in range(3):  # the third time through a function of its own, if there is one
            before = ways["slow"]
            assert outcome(lambda: configured(fast, config)(*args), fast_record) == expected
            ways["hot"] += ways["slow"] == before

    compare()
    assert ways["hot"] > 5, ways  # of 450; mostly far more


# -- rules ---------------------------------------------------------------------------------------------------------

LEAVES = {"a": (-(2**31), 2**31), "b": (1, 2**31), "c": (0, 255), "d": (-3, 3)}
PARAMS = [Param(name, abi.i64) for name in LEAVES]
INTEGER_RULES: Any = st.recursive(
    st.sampled_from([*LEAVES, "0", "1", "7", "4294967296"]),
    lambda rules: st.one_of(
        st.tuples(rules, st.sampled_from(["+", "-", "*", "//", "%"]), rules).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max", "ceil_div"]), rules, rules).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        rules.map(lambda r: f"-{r}"),
    ),
    max_leaves=6,
)
COMPARISONS = st.tuples(INTEGER_RULES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), INTEGER_RULES).map(
    lambda t: f"{t[0]} {t[1]} {t[2]}"
)
CONDITIONS: Any = st.recursive(
    COMPARISONS,
    lambda rules: st.one_of(
        st.tuples(rules, st.sampled_from(["and", "or"]), rules).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        rules.map(lambda r: f"not ({r})"),
    ),
    max_leaves=3,
)


@settings(max_examples=600, deadline=None)
@given(st.one_of(INTEGER_RULES, CONDITIONS), st.data())
def test_inline_rules_have_the_checked_value(text: str, data: st.DataObject) -> None:
    node = parse(text, PARAMS).node
    try:
        expression = inline(node, lambda leaf: Expression(leaf.name, *LEAVES[leaf.name]))  # type: ignore[union-attr]
    except NotInline:
        return
    for _ in range(5):
        leaves = {name: data.draw(st.integers(*bounds) | st.sampled_from(bounds)) for name, bounds in LEAVES.items()}
        try:
            expected: Any = compile_node(node)(Environment(leaves))
        except Fault as fault:
            assert fault.problem == "divides by zero" and not expression.total
            with pytest.raises(ZeroDivisionError):
                eval(expression.text, {}, dict(leaves))
            continue
        found = eval(expression.text, {}, dict(leaves))
        assert found == expected
        assert expression.condition or expression.low <= found <= expression.high


def test_what_might_overflow_is_not_inline() -> None:
    with pytest.raises(NotInline):
        inline(parse("a * a * a", PARAMS).node, lambda leaf: Expression("a", -(2**31), 2**31))


# -- how it is used ------------------------------------------------------------------------------------------------


@simt.kernel(block=64, grid="ceil_div(len(y), block.x)", requires=["len(x) >= len(y)"])
def twice(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], offset: io.i64):
    i = simt.global_index()
    if i < len(y):
        y[i] = x[i + offset] + x[i + offset]


def test_results_and_errors_of_a_kernel_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng().standard_normal(100, dtype=np.float32), np.zeros(100, np.float32)
    for _ in range(2):
        twice(x, y, 0)
    slow_calls: list[Any] = []
    monkeypatch.setattr(launchable, "launch", lambda *a: slow_calls.append(a))
    y[...] = np.nan
    twice(x, y, 0)
    assert np.array_equal(y, 2 * x) and not slow_calls
    with pytest.raises(io.ExecutionError, match=r"^twice: .*block \(\d, 0, 0\), thread \("):
        twice(x, y, 50)
    assert not slow_calls
    twice(x[::2], y, 0)
    twice(x, y, offset=0)
    twice(x[:5], y, 0)
    assert len(slow_calls) == 3


def test_numbers_of_numpy_and_of_python() -> None:
    kernel, recorder = launchable_of(KERNELS[5])
    x = memory("i2", 0, 8)
    for _ in range(3):
        kernel(x, np.uint64(3), 5)
    assert len(kernel._hot.plain) == 1 and kernel._hot.plain[0]((x, np.uint64(3), 5), ())
    assert kernel._hot.plain[0]((x, 3, 5), ()) and not kernel._hot.plain[0]((x, np.int8(3), 5), ())
    assert len(set(recorder.launches)) == 1 and len(recorder.launches) == 5


def test_what_a_signal_handler_raises_is_not_taken_for_a_miss() -> None:
    class Interrupted(Exception):
        pass

    class Interrupting(dict[bytes, bytes]):
        def __contains__(self, key: object) -> bool:
            raise Interrupted

    kernel, recorder = launchable_of(KERNELS[5])
    x = memory("i2", 0, 8)
    for _ in range(3):
        kernel(x, 3, 5)
    kernel._hot.plain[0].__globals__["ENVIRONMENT"] = Interrupting()  # type: ignore[attr-defined]
    with pytest.raises(Interrupted):
        kernel(x, 3, 5)
    assert len(recorder.launches) == 3


def test_an_error_of_the_device_has_the_arguments() -> None:
    kernel, recorder = launchable_of(KERNELS[0])
    call = lambda: kernel(memory("f4", 0, 8), memory("f4", 512, 8), 1.0)  # noqa: E731
    for _ in range(3):
        call()
    recorder.failure = abi.DeviceError("no room")
    with pytest.raises(abi.DeviceError, match=r"(?s)k: no room\n  arguments: x = f32\[8\] on cpu.*grid \(1, 1, 1\)"):
        call()


def test_the_environment_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, recorder = launchable_of(KERNELS[0])
    call = lambda: kernel(memory("f4", 0, 8), memory("f4", 512, 8), 1.0)  # noqa: E731
    for _ in range(3):
        call()
    monkeypatch.setenv("INTEROP_DEVICE", "cuda")
    with pytest.raises(io.DeviceError, match="allows only cuda"):
        call()
    monkeypatch.setenv("INTEROP_DEVICE", "cpu")
    call()
    monkeypatch.setenv("INTEROP_DEVICE", "gpu")
    with pytest.raises(io.DeviceError, match="it can be cpu or cuda"):
        call()
    assert len(recorder.launches) == 4


def test_the_functions_can_be_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("INTEROP_DUMP", "ir,launch")
    kernel, _ = launchable_of(KERNELS[0])
    for _ in range(3):
        kernel(memory("f4", 0, 8), memory("f4", 512, 8), 1.0)
    text = capsys.readouterr().err
    assert text.count("def launch(args, given):") == 1 and "gx = -(-n1 // 64)" in text


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\f", "\0", "\udc80"])
def test_names_are_never_source(end: str) -> None:
    name = f"a{end}    launched.append(1){end}    #"
    params = {name: ("i64", IN)}
    kernel, recorder = launchable_of(replace(described(params, Launch(EXACT, ("1",))), name=name))
    for number in range(4):
        kernel.on("cpu")(number)
    assert len(recorder.launches) == 4
    (hots,) = (found for found in kernel._hot.configured.values() if found)
    assert hots[0].__code__.co_names.count("append") == 0  # type: ignore[attr-defined]


def test_forms_of_calls_are_limited_and_can_be_forgotten() -> None:
    kernel, recorder = launchable_of(KERNELS[4])
    for threads in range(1, 40):
        for _ in range(3):
            kernel[1, threads](memory("u1", 0, 64), 1.0, 1.0, 1.0, b"abc")
    assert [len(found) for found in kernel._hot.configured.values()] == [1]
    hot.forget()
    assert not any(kernel._hot.configured.values())
    kernel[1, 1](memory("u1", 0, 64), 1.0, 1.0, 1.0, b"abc")
    assert len(recorder.launches) == 3 * 39 + 1


def test_configurations_are_equal_only_if_their_types_are() -> None:
    kernel, recorder = launchable_of(KERNELS[4])
    args = (memory("u1", 0, 64), 1.0, 1.0, 1.0, b"abc")
    for config in ((1, 32), ((1, 1), (32, 2))):
        for _ in range(3):
            kernel[config](*args)
        assert kernel[config] is kernel[config]
    for bad in ((1.0, 32), (True, 32), (1, 32.0), ((1, True), (32, 2)), ((1, 1), (32, 2.0)), ([1.0], 32)):
        with pytest.raises(io.ArgumentTypeError, match="is an integer, but the"):
            kernel[bad](*args)
    assert len(recorder.launches) == 6


def test_threads_do_not_share_what_they_pack() -> None:
    kernel, recorder = launchable_of(KERNELS[5])
    x = memory("i2", 0, 8)
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for turn in range(300):
            kernel(x, number, turn)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = {(int.from_bytes(p[-16:-8], "little"), int.from_bytes(p[-8:], "little")) for *_, p in recorder.launches}
    assert len(recorder.launches) == 1200 and pairs == {(u, v) for u in range(1, 5) for v in range(300)}


def test_a_rule_that_might_overflow_stays_on_the_slow_path() -> None:
    kernel, recorder = launchable_of(described({"v": ("i64", IN)}, Launch(EXACT, ("1",)), ("v * v * v != 4",)))
    for _ in range(4):
        kernel.on("cpu")(5)
    assert len(recorder.launches) == 4 and not any(kernel._hot.configured.values())
    with pytest.raises(io.ContractError, match="overflows 64 bits"):
        kernel.on("cpu")(2**40)


@pytest.mark.parametrize(
    "rule, n, too_little, enough, text",
    [
        ("4 * n", 256, 8, (1024, 2048), "requires shared >= 4 * n, but shared = 8, n = 256"),
        ("1024", 256, 1023, (1024, 2048), "requires shared >= 1024, but shared = 1023"),
        ("max(len(x), n) * 4", 6, 23, (24, 25),
         "requires shared >= max(len(x), n) * 4, but shared = 23, len(x) = 4, n = 6"),
        ("4 * n", -1, 8, (), "shared = 4 * n is negative: n = -1"),
        ("8 // n", 0, 8, (), "shared = 8 // n divides by zero: n = 0"),
        ("0", 5, None, (0, 8), ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("learned", [False, True])
def test_explicit_shared_memory_is_not_less_than_the_rule_says(
    rule: str, n: int, too_little: int | None, enough: tuple[int, ...], text: str, learned: bool
) -> None:
    kernel = described({"x": ("slice<f32>", INOUT), "n": ("i32", IN)}, Launch(EXACT, ("1",), rule))
    k, recorder = launchable_of(kernel)
    x = np.zeros(4, np.float32)
    if learned:
        for _ in range(4):
            k[None, None, None, 4096](x, 9)
        (paths,) = k._hot.configured.values()
        assert len(paths) == 1 and paths[0]((x, 9), (None, None, None, 4096))
    for size in enough:
        k[None, None, None, size](x, n)
        assert recorder.launches[-1][2] == size
    before = len(recorder.launches)
    if too_little is not None:
        with pytest.raises(io.ContractError) as caught:
            k[None, None, None, too_little](x, n)
        assert str(caught.value) == f"k: {text}"
        assert len(recorder.launches) == before

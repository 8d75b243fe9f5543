"""Rules, inputs and expected results, shared by the Python evaluator, C and C++. Also random rules for the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from abi import Access, ArrayValue, Environment, Param, Pointer, Slice, Tensor, bool_, f32, f64, i8, i32, i64, u32, u64
from abi import rule_ast as ast
from abi.rules import DIVISION_BY_ZERO, OVERFLOW

MIN, MAX = -(2**63), 2**63 - 1

PARAMS = (
    Param("x", Slice(f32)),
    Param("y", Slice(f64), Access.INOUT),
    Param("p", Pointer(f32)),
    Param("t", Tensor(f32, 2)),
    Param("u", Tensor(f64, 3), Access.INOUT),
    Param("n", i64),
    Param("m", i32),
    Param("b", i8),
    Param("k", u32),
    Param("w", u64),
    Param("flag", bool_),
    Param("a", f32),
)

DEFAULTS: dict[str, Any] = {
    "x": ArrayValue(0x1000, (10,), (1,), 4),
    "y": ArrayValue(0x2000, (7,), (1,), 8),
    "p": ArrayValue(0x3000, (5,), (1,), 4),
    "t": ArrayValue(0x4000, (3, 4), (4, 1), 4),
    "u": ArrayValue(0x5000, (2, 3, 4), (12, 4, 1), 8),
    "n": 6,
    "m": -3,
    "b": 2,
    "k": 32,
    "w": 100,
    "flag": True,
    "a": 1.5,
}


@dataclass(frozen=True)
class Case:
    """`expected` is the value, or the text of the problem."""

    rule: str
    expected: int | bool | str
    given: dict[str, Any] = field(default_factory=dict)
    block: tuple[int, int, int] = (256, 2, 1)
    grid: tuple[int, int, int] = (5, 6, 7)

    @property
    def environment(self) -> Environment:
        given = {
            name: replace(value, itemsize=DEFAULTS[name].itemsize) if isinstance(value, ArrayValue) else value
            for name, value in self.given.items()
        }
        return Environment({**DEFAULTS, **given}, self.block, self.grid)


def slice_at(address: int, length: int, itemsize: int = 4) -> ArrayValue:
    return ArrayValue(address, (length,), (1,), itemsize)


TABLE = [
    # leaves
    Case("len(x)", 10),
    Case("len(p)", 5),
    Case("len(t)", 12),
    Case("len(u)", 24),
    Case("dim(u, 2) * 100 + dim(u, 0)", 402),
    Case("stride(u, 0)", 12),
    Case("stride(t, 1)", -4, {"t": ArrayValue(0x4000, (3, 4), (16, -4), 4)}),
    Case("block.x * 1000 + block.y * 10 + block.z", 256021),
    Case("grid.x * 100 + grid.y * 10 + grid.z", 567),
    Case("m", -3),
    Case("flag", True),
    Case("not flag", True, {"flag": False}),
    # precedence and associativity
    Case("1 + 2 * 3", 7),
    Case("(1 + 2) * 3", 9),
    Case("10 - 4 - 3", 3),
    Case("10 - (4 - 3)", 9),
    Case("-2 * -3", 6),
    Case("- - 5", 5),
    Case("100 // 7 // 2", 7),
    Case("not 1 > 2 and 3 > 2", True),
    Case("1 > 2 and 1 > 2 or 2 > 1", True),
    Case("1 > 2 and (1 > 2 or 2 > 1)", False),
    Case("(n > 1) == flag", True),
    Case("(n > 1) != (m > 1)", True),
    # division rounds down, remainder has the divisor's sign, ceil_div rounds up
    Case("7 // 2", 3),
    Case("-7 // 2", -4),
    Case("7 // -2", -4),
    Case("-7 // -2", 3),
    Case("7 % 3", 1),
    Case("-7 % 3", 2),
    Case("7 % -3", -2),
    Case("-7 % -3", -1),
    Case("-6 % 3", 0),
    Case("ceil_div(7, 2)", 4),
    Case("ceil_div(-7, 2)", -3),
    Case("ceil_div(7, -2)", -3),
    Case("ceil_div(-7, -2)", 4),
    Case("ceil_div(8, 2)", 4),
    Case("ceil_div(0, 5)", 0),
    # 64-bit limits
    Case("n + 1", OVERFLOW, {"n": MAX}),
    Case("n + 0", MAX, {"n": MAX}),
    Case("n - 1", OVERFLOW, {"n": MIN}),
    Case("0 - n", OVERFLOW, {"n": MIN}),
    Case("-n", OVERFLOW, {"n": MIN}),
    Case("-n", -MAX, {"n": MAX}),
    Case("n * 2", OVERFLOW, {"n": 2**62}),
    Case("n * 2", MIN, {"n": -(2**62)}),
    Case("n * m", OVERFLOW, {"n": MIN, "m": -1}),
    Case("m * n", OVERFLOW, {"n": MIN, "m": -1}),
    Case("n * n", OVERFLOW, {"n": -(2**62)}),
    Case("n * 0", 0, {"n": MIN}),
    Case("n // -1", OVERFLOW, {"n": MIN}),
    Case("n % -1", 0, {"n": MIN}),
    Case("ceil_div(n, -1)", OVERFLOW, {"n": MIN}),
    Case("ceil_div(n, 2)", 2**62, {"n": MAX}),
    Case("n // 2", -(2**62), {"n": MIN}),
    Case("ceil_div(n, n)", 1, {"n": MIN}),
    Case("9223372036854775807", MAX),
    Case("-9223372036854775807 - 1", MIN),
    Case("w", MAX, {"w": MAX}),
    Case("w", OVERFLOW, {"w": MAX + 1}),
    Case("w >= 0", OVERFLOW, {"w": 2**64 - 1}),
    Case("len(x) > 0", OVERFLOW, {"x": slice_at(0, 2**63, 1)}),
    Case("len(t)", OVERFLOW, {"t": ArrayValue(0, (2**40, 2**40), (1, 1), 4)}),
    Case("len(u)", OVERFLOW, {"u": ArrayValue(0, (2**40, 2**40, 0), (1, 1, 1), 8)}),
    Case("len(u)", 0, {"u": ArrayValue(0, (0, 2**40, 2**40), (1, 1, 1), 8)}),
    # division by zero, and which problem comes first
    Case("1 // (n - 6)", DIVISION_BY_ZERO),
    Case("1 % (n - 6)", DIVISION_BY_ZERO),
    Case("ceil_div(1, n - 6)", DIVISION_BY_ZERO),
    Case("n * n + 1 // (k - 32)", OVERFLOW, {"n": 2**62}),
    Case("1 // (k - 32) + n * n", DIVISION_BY_ZERO, {"n": 2**62}),
    Case("min(1 // (k - 32), n * n)", DIVISION_BY_ZERO, {"n": 2**62}),
    Case("max(1, n * n, 1 // (k - 32))", OVERFLOW, {"n": 2**62}),
    # short circuit hides problems on its right, not on its left
    Case("n == 6 or 1 // (n - 6) > 0", True),
    Case("n != 6 and 1 // (n - 6) > 0", False),
    Case("1 // (n - 6) > 0 or n == 6", DIVISION_BY_ZERO),
    Case("n == 6 and 1 // (n - 6) > 0", DIVISION_BY_ZERO),
    Case("not (n == 6 or 1 // (n - 6) > 0)", False),
    Case("not 1 // (n - 6) > 0", DIVISION_BY_ZERO),
    # minimum and maximum
    Case("min(3, n, m)", -3),
    Case("max(3, n, m)", 6),
    Case("min(n, n)", 6),
    # comparisons
    Case("n < 6", False),
    Case("n <= 6", True),
    Case("n > 6", False),
    Case("n >= 6", True),
    Case("n == 6", True),
    Case("n != 6", False),
    Case("m < k", True),
    # alignment
    Case("aligned(x, 16)", True),
    Case("aligned(x, 16)", False, {"x": slice_at(0x1004, 3)}),
    Case("aligned(x, 1)", True, {"x": slice_at(0x1001, 3)}),
    Case("aligned(p, 4096)", True, {"p": slice_at(0, 0)}),
    Case("aligned(x, 8)", False, {"x": slice_at(2**64 - 1, 0)}),
    # aliasing
    Case("disjoint(x, y)", True),
    Case("disjoint(y, *)", True),
    Case("disjoint(x, y)", False, {"y": slice_at(0x1000 + 39, 1)}),
    Case("disjoint(x, y)", True, {"y": slice_at(0x1000 + 40, 1)}),
    Case("disjoint(x, y)", True, {"y": slice_at(0x1000 - 8, 1, 8)}),
    Case("disjoint(x, y)", False, {"y": slice_at(0x1000 - 7, 1, 8)}),
    Case("disjoint(x, y)", True, {"y": slice_at(0x1000, 0)}),
    Case("disjoint(y, x)", True, {"y": slice_at(0x1010, 0)}),
    Case("disjoint(y, *)", False, {"p": slice_at(0x2000, 1)}),
    Case("disjoint(t, x)", False, {"t": ArrayValue(0x1000 + 36 + 12, (2, 4), (4, -1), 4)}),
    Case("disjoint(t, x)", True, {"t": ArrayValue(0x1000 + 40 + 12, (2, 4), (4, -1), 4)}),
    Case("disjoint(t, x)", False, {"t": ArrayValue(0x1100, (2, 4), (-64, 1), 4)}),
    Case("disjoint(t, x)", True, {"t": ArrayValue(0x1100, (2, 4), (-64, 1), 4), "x": slice_at(0xFF0, 4)}),
    Case("disjoint(t, x)", True, {"t": ArrayValue(0x1000, (3, 0), (1, 1), 4)}),
    Case("disjoint(t, x)", True, {"t": ArrayValue(0x1000, (2**62, 0), (2**62, 2**62), 4)}),
    Case("disjoint(t, x)", OVERFLOW, {"t": ArrayValue(0x1000, (2**40, 2), (2**40, 1), 4)}),
    Case("disjoint(t, x)", OVERFLOW, {"t": ArrayValue(0x1000, (2, 2), (-(2**13), 1), 4)}),
    Case("disjoint(t, x)", OVERFLOW, {"t": ArrayValue(0x1000, (2, 1), (MAX, 1), 4)}),
    Case("disjoint(x, t)", OVERFLOW, {"x": slice_at(2**64 - 4, 2)}),
    Case("disjoint(x, y)", True, {"x": slice_at(2**64 - 9, 2)}),
    Case("disjoint(y, *)", False, {"x": slice_at(0x2000, 1), "p": slice_at(2**64 - 4, 2)}),
    Case("disjoint(y, *)", OVERFLOW, {"x": slice_at(2**64 - 4, 2), "p": slice_at(0x2000, 1)}),
    Case("flag or disjoint(x, y)", True, {"y": slice_at(0x1000, 1)}),
    Case("disjoint(x, y)", False, {"x": slice_at(0, 2**60), "y": slice_at(1, 2**59)}),
]

# -- random rules --------------------------------------------------------------------------------------------------

_edges = st.sampled_from([0, 1, 2, 3, 7, 32, 255, 2**31 - 1, 2**31, 2**32, 2**62, MAX - 1, MAX])
_literals = st.builds(ast.Literal, st.one_of(_edges, st.integers(0, 300)))
_numbers = st.one_of(
    _literals,
    st.sampled_from(
        [
            ast.Name("n"),
            ast.Name("m"),
            ast.Name("b"),
            ast.Name("k", unsigned=True),
            ast.Name("w", unsigned=True),
            ast.Len("x"),
            ast.Len("p"),
            ast.Len("t", 2),
            ast.Dim("t", 1),
            ast.Stride("u", 2),
            ast.LaunchDim("block", "x"),
            ast.LaunchDim("grid", "z"),
        ]
    ),
)
_predicates = st.sampled_from(
    [
        ast.Name("flag", boolean=True),
        ast.Disjoint("x", ("y",)),
        ast.Disjoint("y", ("x", "p", "t", "u"), True),
        ast.Aligned("x", 16),
        ast.Aligned("t", 4),
    ]
)


def integers(depth: int = 4) -> st.SearchStrategy[ast.Node]:
    if depth == 0:
        return _numbers
    inner = integers(depth - 1)
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        _numbers,
        st.builds(ast.Binary, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
        st.builds(ast.Negate, inner),
        st.builds(ast.Call, st.sampled_from(["min", "max"]), several),
        st.builds(lambda a, b: ast.Call("ceil_div", (a, b)), inner, inner),
    )


def conditions(depth: int = 3) -> st.SearchStrategy[ast.Node]:
    numbers = integers(min(depth, 2))
    compared = st.builds(ast.Compare, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers, numbers)
    if depth == 0:
        return st.one_of(_predicates, compared)
    inner = conditions(depth - 1)
    return st.one_of(
        _predicates,
        compared,
        st.builds(ast.Compare, st.sampled_from(["==", "!="]), inner, inner),
        st.builds(ast.Not, inner),
        st.builds(ast.Logic, st.sampled_from(["and", "or"]), inner, inner),
    )


def nodes() -> st.SearchStrategy[ast.Node]:
    return st.one_of(integers(), conditions())


def _wide(low: int, high: int) -> st.SearchStrategy[int]:
    edges = [v for v in (low, low + 1, -1, 0, 1, 2, 16, high - 1, high) if low <= v <= high]
    return st.one_of(st.sampled_from(edges), st.integers(max(low, -20), min(high, 300)), st.integers(low, high))


def _arrays(rank: int, itemsize: int) -> st.SearchStrategy[ArrayValue]:
    near = st.integers(0x1000, 0x1080)
    return st.builds(
        lambda address, shape, strides: ArrayValue(address, tuple(shape), tuple(strides), itemsize),
        st.one_of(near, near, st.sampled_from([0, 2**64 - 8]), st.integers(0, 2**64 - 1)),
        st.lists(st.one_of(st.integers(0, 6), _wide(0, MAX)), min_size=rank, max_size=rank),
        st.lists(st.one_of(st.integers(-6, 6), _wide(MIN, MAX)), min_size=rank, max_size=rank),
    )


def _slices(itemsize: int) -> st.SearchStrategy[ArrayValue]:
    return st.builds(
        lambda address, length: slice_at(address, length, itemsize),
        st.one_of(st.integers(0x1000, 0x1080), st.integers(0, 2**64 - 1)),
        st.one_of(st.integers(0, 20), _wide(0, 2**64 - 1)),
    )


def environments() -> st.SearchStrategy[Environment]:
    launch = st.tuples(*[_wide(1, 2**31 - 1)] * 3)
    arguments = st.fixed_dictionaries(
        {
            "x": _slices(4),
            "y": _slices(8),
            "p": _slices(4),
            "t": _arrays(2, 4),
            "u": _arrays(3, 8),
            "n": _wide(MIN, MAX),
            "m": _wide(-(2**31), 2**31 - 1),
            "b": _wide(-128, 127),
            "k": _wide(0, 2**32 - 1),
            "w": _wide(0, 2**64 - 1),
            "flag": st.booleans(),
        }
    )
    return st.builds(Environment, arguments, launch, launch)

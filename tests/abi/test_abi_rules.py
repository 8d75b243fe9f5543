"""The rule language in Python: parsing, errors, evaluation, messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_table import DEFAULTS, PARAMS, TABLE, Case, environments, nodes, slice_at

from abi import (
    Access,
    ArgumentTypeError,
    ArrayValue,
    Block,
    BlockKind,
    ContractError,
    Environment,
    Error,
    Kernel,
    Launch,
    Origin,
    Param,
    Pointer,
    Requirement,
    RuleError,
    Slice,
    Status,
    assign_slots,
    bool_,
    f32,
    f64,
    i32,
    u8,
    u32,
    u64,
)
from abi import rule_ast as ast
from abi.rule_eval import Fault
from abi.rules import (
    block_message,
    check_block,
    check_requirements,
    check_shared,
    contract_message,
    contract_message_parts,
    default_block,
    evaluate_fills,
    evaluate_grid,
    evaluate_shared,
    mentions_length,
    no_shared_message,
    parse,
    resolve_launch,
    rules_of,
    split_grid,
    with_implied,
)


@pytest.mark.parametrize("case", TABLE, ids=[f"{i}-{c.rule}" for i, c in enumerate(TABLE)])
def test_table_in_python(case: Case) -> None:
    rule = parse(case.rule, PARAMS)
    if isinstance(case.expected, str):
        with pytest.raises(ContractError, match=case.expected) as caught:
            rule.evaluate(case.environment)
        assert case.rule in str(caught.value)
        assert caught.value.status is Status.CONTRACT
    else:
        value = rule.evaluate(case.environment)
        assert value == case.expected
        assert isinstance(value, bool) == isinstance(case.expected, bool)


@given(nodes())
def test_printing_and_parsing_round_trip(node: ast.Node) -> None:
    text = ast.to_text(node)
    rule = parse(text, PARAMS)
    assert rule.node == node
    assert str(rule) == text
    assert rule.is_boolean == ast.is_boolean(node)


@given(nodes(), st.text("() \t", max_size=3))
def test_spaces_and_parentheses_change_nothing(node: ast.Node, noise: str) -> None:
    spaces = "".join(c for c in noise if c.isspace())
    text = ast.to_text(node).replace(" ", f" {spaces}")
    assert parse(f"{spaces}(({text})){spaces}", PARAMS).node == node


@given(nodes(), environments())
@settings(deadline=None)
def test_python_itself_agrees(node: ast.Node, env: Environment) -> None:
    """The rule's text is Python too. Where nothing overflows or divides by zero, Python's own result is right."""
    names = {
        "min": min,
        "max": max,
        "ceil_div": lambda a, b: -(-a // b),
        "len": lambda a: a.length,
        "dim": lambda a, i: a.shape[i],
        "stride": lambda a, i: a.strides[i],
        "aligned": lambda a, n: a.address % n == 0,
        "disjoint": lambda a, *others: not any(touches(a, o) for o in others),
        "block": type("Block", (), dict(zip("xyz", env.block))),
        "grid": type("Grid", (), dict(zip("xyz", env.grid))),
        **env.arguments,
    }
    text = ast.to_text(node).replace("disjoint(y, *)", "disjoint(y, x, p, t, u)")
    try:
        value = parse(ast.to_text(node), PARAMS).evaluate(env)
    except ContractError as error:
        assert "overflows 64 bits" in str(error) or "divides by zero" in str(error)
        return
    assert value == eval(text, {"__builtins__": {}}, names)


def touches(a: ArrayValue, b: ArrayValue) -> bool:
    """Whether the address ranges of two arrays meet, by the definition and not by the implementation."""

    def bounds(array: ArrayValue) -> tuple[int, int] | None:
        if 0 in array.shape:
            return None
        reaches = [(n - 1) * s * array.itemsize for n, s in zip(array.shape, array.strides)]
        return (
            array.address + sum(r for r in reaches if r < 0),
            array.address + sum(r for r in reaches if r > 0) + array.itemsize - 1,
        )

    first, second = bounds(a), bounds(b)
    return first is not None and second is not None and first[0] <= second[1] and second[0] <= first[1]


@given(environments())
def test_extents_hold_every_element(env: Environment) -> None:
    array = env.array("t")
    if max(array.shape) > 6 or max(map(abs, array.strides)) > 100:
        return
    rows, columns = array.shape
    addresses = [
        array.address + 4 * (i * array.strides[0] + j * array.strides[1]) for i in range(rows) for j in range(columns)
    ]
    try:
        begin, end = array.extent
    except Fault:
        assert min(addresses) < 0 or max(addresses) + 4 > 2**64 - 1
        return
    assert (begin, end) == ((min(addresses), max(addresses) + 4) if addresses else (array.address, array.address))


# -- errors --------------------------------------------------------------------------------------------------------

BAD = [
    ("", "expected a value", "", "the rule is empty"),
    ("lenn(x) > 1", "unknown function 'lenn'", "lenn", "len, dim"),
    ("len(xs) > 1", "unknown name 'xs'", "xs", "the parameters are x, "),
    ("nn > 1", "unknown name 'nn'", "nn", "n, x"),
    ("x > 1", "'x' is an array", "x", "write len(x)"),
    ("a > 1", "'a' is f32", "a", ""),
    ("len(n) > 1", "'n' is i64", "n", ""),
    ("dim(x, 0)", "wants a tensor", "x", "write len(x)"),
    ("dim(t, 2)", "has no axis 2", "2", "0 to 1"),
    ("dim(t, n)", "integer literal", "n", ""),
    ("dim(t)", "expected ','", ")", "dim(x, 0)"),
    ("1 < n < 3", "not chained", "<", "write 1 < n and n < ..."),
    ("len(x) + (n < 3)", "'+' wants an integer", "(n < 3)", "do not mix"),
    ("n and m > 1", "'and' wants a condition", "n", "n > 0"),
    ("not n", "'not' wants a condition", "n", "n > 0"),
    ("-flag", "'-' wants an integer", "flag", ""),
    ("flag < (n > 1)", "'<' wants an integer", "flag", ""),
    ("flag == n", "'==' wants an integer", "flag", ""),
    ("min(n)", "two or more", "min(n)", ""),
    ("ceil_div(n, 2, 3)", "two arguments", "ceil_div(n, 2, 3)", ""),
    ("ceil_div(n)", "two arguments", "ceil_div(n)", ""),
    ("min(n, n > 1)", "wants an integer", "n > 1", ""),
    ("n / 2", "'/' is not part", "/", "// (rounds down)"),
    ("n = 2", "'=' is not part", "=", "=="),
    ("n & 2", "'&' is not part", "&", "and"),
    ("x[0] > 1", "'[' is not part", "[", "len(x)"),
    ("n[0] > 1", "'[' is not part", "[", "no subscripts"),
    ("n > 1.5", "not an integer", "1.5", "decimal"),
    ("n > 0x10", "not an integer", "0x10", "decimal"),
    ("n > 9223372036854775808", "overflows 64 bits", "9223372036854775808", "9223372036854775807"),
    ("(n > 1", "expected ')'", "", ""),
    ("n > 1)", "')' is not expected", ")", ""),
    ("n m", "'m' is not expected", "m", "operator"),
    ("block > 1", "unknown name 'block'", "block", "block.x"),
    ("block.w > 1", "no 'w'", "w", "block.x"),
    ("n.x > 1", "'.' is not expected", ".", "block and grid"),
    ("1 + not flag", "binds less tightly", "not", "parentheses"),
    ("disjoint(x, x)", "overlaps itself", "x", "disjoint(x, *)"),
    ("disjoint(*, x)", "name of an array", "*", "disjoint(x, y)"),
    ("disjoint(x)", "expected ','", ")", "disjoint(x, y)"),
    ("disjoint(x, n)", "wants an array", "n", ""),
    ("aligned(x, 3)", "power of two", "3", ""),
    ("aligned(x, 0)", "power of two", "0", ""),
    ("aligned(x, n)", "integer literal", "n", ""),
    ("n, m", "',' is not expected", ",", "one expression"),
    ("π > 3", "'π' is not part", "π", ""),
    ("n > 1 \x00", "not part of the rule language", "?", ""),
    ("and", "expected a value", "and", ""),
]


@pytest.mark.parametrize(("text", "problem", "marked", "advice"), BAD, ids=[b[0] for b in BAD])
def test_bad_rules_have_a_caret_and_advice(text: str, problem: str, marked: str, advice: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text, PARAMS)
    first, shown, carets, *rest = str(caught.value).split("\n")
    assert problem in first
    start, width = carets.index("^"), carets.count("^")
    assert carets == " " * start + "^" * width
    if marked:
        assert shown[start : start + width] == marked
    assert advice in "\n".join(rest)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000,
        "-" * 3000 + "n",
        "not " * 900 + "flag",
        "n" + " + n" * 900,
        "min(" * 900,
        "min(n, " * 500 + "n" + ")" * 500,
        "n " * 100_000,
        "a" * 4000,
        "9" * 4000,
        "flag" + " and flag" * 400,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_rules_are_refused_without_exhausting_the_stack(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text, PARAMS)
    assert len(str(caught.value)) < 10_000


@given(st.text(alphabet=st.sampled_from(list("nx()+-*/%<>=!,. 0129 and or not len dim block.x\n\té")), max_size=60))
@settings(max_examples=300)
def test_any_text_parses_or_is_a_rule_error(text: str) -> None:
    try:
        rule = parse(text, PARAMS)
    except RuleError:
        return
    assert parse(str(rule), PARAMS).node == rule.node


def test_rules_as_deep_as_allowed_parse_print_and_evaluate() -> None:
    node: ast.Node = ast.Name("n")
    for _ in range(47):
        node = ast.Binary("-", ast.Literal(1), node)
    rule = parse(ast.to_text(node), PARAMS)
    assert rule.node == node
    assert rule.evaluate(Environment({"n": 5})) == -4


def test_without_parameters_names_are_checked_at_evaluation() -> None:
    rule = parse("len(x) == n and disjoint(x, *)")
    env = {"x": slice_at(0x1000, 3), "n": 3}
    assert rule.evaluate(Environment(env)) is True
    assert rule.evaluate(Environment({**env, "z": slice_at(0x1004, 1)})) is False
    with pytest.raises(Error, match="'n'"):
        rule.evaluate(Environment({"x": slice_at(0x1000, 3)}))
    with pytest.raises(Error, match="'x' as an array"):
        rule.evaluate(Environment({"x": 3, "n": 3}))
    with pytest.raises(Error, match="'n' as an integer"):
        rule.evaluate(Environment({**env, "n": 3.0}))


def test_leaves_and_values_are_in_order_and_without_repetitions() -> None:
    rule = parse("n < len(x) and len(y) > n and disjoint(y, *) and aligned(x, 8)", PARAMS)
    values = rule.values(Environment({**DEFAULTS, "p": slice_at(0x2004, 1), "x": slice_at(0x1004, 2)}))
    assert list(values.items()) == [
        ("n", 6),
        ("len(x)", 2),
        ("len(y)", 7),
        ("overlap(y, x)", 0),
        ("overlap(y, p)", 4),
        ("overlap(y, t)", 0),
        ("overlap(y, u)", 0),
        ("address(x) % 8", 4),
    ]
    assert [ast.leaf_text(leaf) for leaf in rule.leaves()] == [
        "n",
        "len(x)",
        "len(y)",
        "disjoint(y, *)",
        "aligned(x, 8)",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("n", ("n",)),
        (" (n) ", ("n",)),
        ("(a, b)", ("a", "b")),
        ("(a, b, )", ("a", "b")),
        ("(min(a, b), (c))", ("min(a, b)", "(c)")),
        ("(a + b) * (c)", ("(a + b) * (c)",)),
        ("ceil_div(len(y), block.x)", ("ceil_div(len(y), block.x)",)),
    ],
)
def test_split_grid(text: str, parts: tuple[str, ...]) -> None:
    assert split_grid(text) == parts


# -- a kernel's rules ----------------------------------------------------------------------------------------------


def kernel(**changes: object) -> Kernel:
    params = assign_slots(
        [
            Param("x", Slice(f32)),
            Param("y", Slice(f32), Access.INOUT),
            Param("n", u32, fill="len(y)"),
            Param("a", f32),
        ]
    )
    made = Kernel(
        "saxpy",
        "saxpy",
        "python",
        params,
        Launch(Block(BlockKind.EXACT, (256, 1, 1)), ("ceil_div(n, block.x)",), "4 * block.x"),
        (Requirement("len(x) >= len(y)"), Requirement("grid.y == 1", Origin.WITNESS, "y is written at global_index()")),
    )
    return replace(with_implied(made), **changes)  # type: ignore[arg-type]


def environment(x: int = 1000, y: int = 1000, at: int = 0x100000, **changes: object) -> Environment:
    env = Environment({"x": slice_at(0x1000, x), "y": slice_at(at, y), "a": 2.0}, (256, 1, 1), (4, 1, 1))
    return replace(env, **changes)  # type: ignore[arg-type]


def test_a_launch_that_keeps_the_contract() -> None:
    k, env = kernel(), environment()
    check_requirements(k, env)
    assert evaluate_grid(k, env) == (4, 1, 1)
    assert evaluate_shared(k, env) == 1024
    assert evaluate_fills(k, env) == {"n": 1000}
    assert evaluate_grid(k, environment(y=0)) == (0, 1, 1)


def test_contract_messages() -> None:
    k = kernel()
    with pytest.raises(ContractError) as caught:
        check_requirements(k, environment(x=3, y=4))
    assert str(caught.value) == "saxpy: requires len(x) >= len(y), but len(x) = 3, len(y) = 4"
    assert (caught.value.kernel, caught.value.rule) == ("saxpy", "len(x) >= len(y)")
    assert caught.value.values == {"len(x)": 3, "len(y)": 4}
    with pytest.raises(ContractError) as caught:
        check_requirements(k, environment(grid=(4, 2, 1)))
    assert str(caught.value) == "saxpy: requires grid.y == 1, but grid.y = 2 (y is written at global_index())"
    with pytest.raises(ContractError) as caught:
        check_requirements(k, environment(x=4, y=4, at=0x1008))
    assert str(caught.value) == "saxpy: requires disjoint(y, *), but overlap(y, x) = 8"


def test_arithmetic_problems_break_the_contract_with_the_same_words_everywhere() -> None:
    params = (Param("n", u64), Param("k", u64))
    k = Kernel("f", "f", "c", params, requires=(Requirement("n * n > 0", note="why"), Requirement("n % k == 0")))
    with pytest.raises(ContractError) as caught:
        check_requirements(k, Environment({"n": 2**32, "k": 1}))
    assert str(caught.value) == "f: requires n * n > 0, but it overflows 64 bits: n = 4294967296 (why)"
    with pytest.raises(ContractError) as caught:
        check_requirements(k, Environment({"n": 4, "k": 0}))
    assert str(caught.value) == "f: requires n % k == 0, but it divides by zero: n = 4, k = 0"
    with pytest.raises(ContractError) as caught:
        check_requirements(k, Environment({"n": 2**63, "k": 0}))
    assert str(caught.value) == "f: requires n * n > 0, but it overflows 64 bits: n = (too large) (why)"
    assert caught.value.values == {"n": 2**63}


def test_message_parts_join_to_the_message() -> None:
    for requirement in (Requirement("n > 1"), Requirement("n > 1", note="why")):
        for problem in ("", "overflows 64 bits"):
            before, after = contract_message_parts("f", requirement, problem)
            assert before + "n = 1" + after == contract_message("f", requirement, {"n": 1}, problem)
    assert contract_message("f", Requirement("1 > 2"), {}) == "f: requires 1 > 2"
    assert contract_message("f", Requirement("1 > 2", note="why"), {}) == "f: requires 1 > 2 (why)"


def test_derived_values_out_of_range() -> None:
    with pytest.raises(ContractError) as caught:
        evaluate_fills(kernel(), environment(y=2**32))
    assert str(caught.value) == "saxpy: n = len(y) does not fit u32: len(y) = 4294967296"
    bad_grid = kernel(launch=Launch(grid=("len(x) - len(y)",)))
    with pytest.raises(ContractError) as caught:
        evaluate_grid(bad_grid, environment(x=1, y=3))
    assert str(caught.value) == "saxpy: grid.x = len(x) - len(y) is negative: len(x) = 1, len(y) = 3"
    bad_shared = kernel(launch=Launch(shared="n // (len(x) - 1)"))
    with pytest.raises(ContractError) as caught:
        evaluate_shared(bad_shared, environment(x=1, y=3))
    assert str(caught.value) == "saxpy: shared = n // (len(x) - 1) divides by zero: n = 3, len(x) = 1"


def test_a_kernel_without_a_grid_rule_says_so() -> None:
    with pytest.raises(ArgumentTypeError, match="the call must give a grid"):
        evaluate_grid(kernel(launch=Launch()), environment())


def test_shared_memory_without_a_rule_is_the_callers() -> None:
    unknown = kernel(launch=Launch(grid=("1",), shared=" "))
    assert rules_of(unknown).shared is None
    assert not mentions_length(kernel(requires=(), launch=Launch(shared="")), "x")
    arguments = environment().arguments
    with pytest.raises(ArgumentTypeError) as caught:
        resolve_launch(unknown, arguments, block=(32, 1, 1))
    assert str(caught.value) == no_shared_message(unknown.name)
    assert str(caught.value).endswith(
        ": its description has no rule for dynamic shared memory, so the call must give it"
    )
    with pytest.raises(ArgumentTypeError, match="no rule for dynamic shared memory"):
        evaluate_shared(unknown, environment())
    assert resolve_launch(unknown, arguments, block=(32, 1, 1), shared=512).shared == 512


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"requires": (Requirement("len(x)"),)}, "a condition is wanted"),
        ({"launch": Launch(grid=("len(x) > 1",))}, "an integer is wanted"),
        ({"launch": Launch(grid=("grid.y",))}, "grid.x: 'grid.y' reads grid.y"),
        ({"launch": Launch(grid=("1", "1", "1", "1"))}, "at most 3"),
        ({"launch": Launch(shared="flag")}, "unknown name 'flag'"),
        ({"params": (Param("x", f32, fill="1"),)}, "rules fill integers"),
        ({"params": (Param("x", bool_, fill="1"),)}, "a condition is wanted"),
        ({"params": (Param("n", u8, fill="m"), Param("m", u8, fill="1"))}, "unknown name 'm'"),
        ({"params": (Param("n", u8, fill="grid.x"),)}, "depends on it"),
    ],
)
def test_rules_of_a_kernel_are_type_checked(changes: dict[str, object], words: str) -> None:
    with pytest.raises(RuleError, match="saxpy: ") as caught:
        rules_of(replace(Kernel("saxpy", "saxpy", "python", kernel().params), **changes))  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_bool_and_pointer_parameters_can_be_filled() -> None:
    params = (Param("x", Slice(f32)), Param("big", bool_, fill="len(x) > 2"), Param("scratch", Pointer(), fill="0"))
    made = Kernel("f", "f", "c", params)
    assert evaluate_fills(made, environment(x=3)) == {"big": 1, "scratch": 0}


def test_resolving_a_launch() -> None:
    arguments = environment().arguments
    launch = resolve_launch(kernel(), arguments)
    assert (launch.block, launch.grid, launch.shared) == ((256, 1, 1), (4, 1, 1), 1024)
    assert launch.environment.arguments["n"] == 1000
    explicit = resolve_launch(kernel(), arguments, block=(256, 1, 1), grid=(9, 1, 1), shared=2048)
    assert (explicit.grid, explicit.shared) == ((9, 1, 1), 2048)


def test_an_explicit_launch_is_checked_as_well() -> None:
    """Two dimensions for a kernel that writes through a one-dimensional witness."""
    arguments = environment().arguments
    with pytest.raises(ContractError, match=r"saxpy: requires grid\.y == 1, but grid\.y = 2"):
        resolve_launch(kernel(), arguments, grid=(4, 2, 1))
    with pytest.raises(ContractError, match=r"saxpy: requires block == \(256, 1, 1\), but block = \(16, 16, 1\)"):
        resolve_launch(kernel(), arguments, block=(16, 16, 1))


def test_explicit_shared_memory_is_not_less_than_the_rule_says() -> None:
    params = (Param("x", Slice(f32)), Param("nbins", i32))
    histogram = Kernel("histogram", "histogram", "c", params, replace(kernel().launch, shared="4 * nbins", grid=("1",)))
    arguments = {**environment(x=3).arguments, "nbins": 256}
    for enough in (1024, 4096):
        assert resolve_launch(histogram, arguments, shared=enough).shared == enough
    with pytest.raises(ContractError) as caught:
        resolve_launch(histogram, arguments, shared=8)
    assert str(caught.value) == "histogram: requires shared >= 4 * nbins, but shared = 8, nbins = 256"
    assert caught.value.values == {"shared": 8, "nbins": 256} and caught.value.rule == "shared >= 4 * nbins"
    with pytest.raises(ContractError, match="histogram: shared = 4 \\* nbins is negative: nbins = -1"):
        resolve_launch(histogram, {**arguments, "nbins": -1}, shared=8)
    constant = replace(histogram, launch=replace(histogram.launch, shared="16"))
    with pytest.raises(ContractError, match=r"^histogram: requires shared >= 16, but shared = 15$"):
        resolve_launch(constant, arguments, shared=15)
    check_shared(constant, Environment(arguments), 16)
    none = replace(histogram, launch=replace(histogram.launch, shared="0"))
    assert [resolve_launch(none, arguments, shared=size).shared for size in (0, 8)] == [0, 8]


def test_problems_come_in_the_order_of_every_language() -> None:
    too_long = environment(x=1, y=2**32).arguments

    def first_words(arguments: Mapping[str, object], **given: tuple[int, int, int]) -> str:
        with pytest.raises(ContractError) as caught:
            resolve_launch(kernel(), arguments, **given)  # type: ignore[arg-type]
        return str(caught.value)

    assert first_words(too_long, block=(1, 1, 1)).startswith("saxpy: requires block")
    assert first_words(too_long).startswith("saxpy: n = len(y) does not fit")
    assert first_words(environment(x=1, y=3).arguments).startswith("saxpy: requires len(x)")


def test_a_block_that_nobody_gives() -> None:
    assert default_block(kernel(launch=Launch(Block(BlockKind.UP_TO, (512, 1, 1))))) == (512, 1, 1)
    assert default_block(kernel(launch=Launch(Block(BlockKind.MULTIPLE_OF, (32, 1, 1))))) == (32, 1, 1)
    with pytest.raises(ArgumentTypeError, match="the call must give a block"):
        resolve_launch(kernel(launch=Launch()), environment().arguments)


def test_implied_requirements() -> None:
    k = kernel()
    assert k.requires[-1] == Requirement("disjoint(y, *)", Origin.IMPLIED)
    assert with_implied(k) is k
    alone = replace(k, params=(k.params[1],), requires=(), launch=Launch())
    assert with_implied(alone).requires == ()
    read_only = replace(k, params=k.params[:1] + (Param("p", Pointer(f64)),), requires=(), launch=Launch())
    assert with_implied(read_only).requires == ()
    pointers = replace(
        k, params=(Param("p", Pointer(f32), Access.OUT), Param("q", Pointer())), requires=(), launch=Launch()
    )
    assert [r.rule for r in with_implied(pointers).requires] == ["disjoint(p, *)"]


def test_mentions_length() -> None:
    params = (
        Param("p", Pointer(f32)),
        Param("q", Pointer(f32)),
        Param("r", Pointer(f32)),
        Param("n", u32, fill="len(r)"),
    )
    k = Kernel("f", "f", "c", params, Launch(grid=("len(p)",)), (Requirement("aligned(q, 16)"),))
    assert [mentions_length(k, p.name) for p in params[:3]] == [True, False, True]


@pytest.mark.parametrize(
    ("block", "good", "bad", "rule"),
    [
        (Block(), [(1, 1, 1), (1024, 1, 1)], [], ""),
        (Block(BlockKind.EXACT, (16, 8, 1)), [(16, 8, 1)], [(8, 16, 1), (128, 1, 1)], "block == (16, 8, 1)"),
        (
            Block(BlockKind.UP_TO, (256, 1, 1)),
            [(256, 1, 1), (16, 16, 1), (1, 1, 1)],
            [(257, 1, 1), (32, 16, 1)],
            "block.x * block.y * block.z <= 256",
        ),
        (Block(BlockKind.MULTIPLE_OF, (32, 1, 1)), [(32, 1, 1), (96, 2, 1)], [(100, 1, 1)], "block.x % 32 == 0"),
    ],
)
def test_check_block(
    block: Block, good: list[tuple[int, int, int]], bad: list[tuple[int, int, int]], rule: str
) -> None:
    k = kernel(launch=Launch(block))
    for shape in good:
        check_block(k, shape)
    for shape in bad:
        with pytest.raises(ContractError) as caught:
            check_block(k, shape)
        assert str(caught.value) == f"saxpy: requires {rule}, but block = {shape}"
        # The C format gives the same text.
        assert block_message(k, ("%u", "%u", "%u")) % shape == str(caught.value)

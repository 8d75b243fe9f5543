"""C and C++ give the verdict that Python gives, for the shared table and for random rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from rule_c_harness import run
from rule_table import PARAMS, TABLE, environments, nodes

from abi import Environment, RuleError
from abi.rule_ast import Node, to_text
from abi.rule_eval import Fault, compile_node
from abi.rules import Rule, c_expression, format_values, parse

COMPILERS = {
    "c": (["gcc", "-std=c11", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"], ".c"),
    "c-portable": (
        ["gcc", "-std=c11", "-DINTEROP_RULE_BUILTINS=0", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"],
        ".c",
    ),
    "c++": (["g++", "-std=c++17"], ".cpp"),
}
needs_compiler = pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("g++"), reason="no C and C++ compiler")


def expected(rule: Rule, env: Environment) -> str:
    try:
        return str(int(compile_node(rule.node)(env)))
    except Fault as fault:
        return fault.problem


def compare(results: list[list[str]], pairs: list[tuple[Rule, Environment]]) -> None:
    assert len(results) == len(pairs)
    for (verdict, *leaves), (rule, env) in zip(results, pairs):
        assert verdict == expected(rule, env), (rule, env)
        said = [part.split(" = ")[1] for part in format_values(rule.values(env)).split(", ") if " = " in part]
        assert ["(too large)" if " " in leaf else leaf for leaf in leaves] == said, (rule, env)


@needs_compiler
@pytest.mark.parametrize("name", COMPILERS)
def test_table_in_c(name: str, tmp_path: Path) -> None:
    compiler, suffix = COMPILERS[name]
    pairs = [(parse(case.rule, PARAMS), case.environment) for case in TABLE]
    compare(run(compiler, suffix, pairs, tmp_path), pairs)


def random_pairs() -> list[tuple[Rule, Environment]]:
    pairs: list[tuple[Rule, Environment]] = []

    @seed(20261201)
    @settings(
        max_examples=400, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(nodes(), environments())
    def collect(node: Node, env: Environment) -> None:
        pairs.append((Rule(to_text(node), node), env))

    collect()
    return pairs


@needs_compiler
def test_random_rules_in_c(tmp_path: Path) -> None:
    pairs = random_pairs()
    assert len(pairs) >= 300
    verdicts = {expected(rule, env) for rule, env in pairs}
    assert {"overflows 64 bits", "divides by zero", "0", "1"} <= verdicts  # the sample is not all of one kind
    for name in ("c", "c-portable"):
        compiler, suffix = COMPILERS[name]
        compare(run(compiler, suffix, pairs, tmp_path), pairs)


def test_a_star_without_parameters_does_not_print_as_c() -> None:
    with pytest.raises(RuleError, match="parameters"):
        c_expression(parse("disjoint(x, *)"), lambda leaf: leaf.name)


def test_a_star_with_no_other_array_is_true_in_c() -> None:
    assert c_expression(parse("disjoint(x, *)", PARAMS[:1]), lambda leaf: leaf.name) == "interop_rule_i64(1)"

"""The rule language: launch rules and preconditions, parsed once, evaluated here, printed as C and C++.

>>> from abi import Environment, ArrayValue
>>> rule = parse("len(x) >= 2 * n")
>>> rule.evaluate(Environment({"x": ArrayValue(0, (10,), (1,), 4), "n": 5}))
True

Arithmetic is checked signed 64-bit: overflow and division by zero violate the contract. ``//`` and ``%`` round down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from . import rule_ast as ast
from . import rule_c
from .errors import ArgumentTypeError, ContractError, RuleError
from .records import BlockKind, Kernel, Origin, Param, Requirement
from .rule_ast import INT64_MAX, INT64_MIN, Leaf, Node
from .rule_c import CLeaf, NameOf
from .rule_eval import DIVISION_BY_ZERO, OVERFLOW, ArrayValue, Environment, Evaluator, Fault, compile_node, leaf_values
from .rule_parser import parse_nodes, split_list
from .types import Pointer, Scalar, Slice, Tensor

__all__ = [
    "DIVISION_BY_ZERO",
    "OVERFLOW",
    "ArrayValue",
    "CLeaf",
    "Environment",
    "KernelRules",
    "Rule",
    "bind_hidden",
    "block_message",
    "block_rule",
    "c_expression",
    "check_block",
    "default_block",
    "resolve_launch",
    "ResolvedLaunch",
    "check_requirements",
    "contract_message",
    "contract_message_parts",
    "derived_message",
    "derived_message_parts",
    "evaluate_fills",
    "evaluate_grid",
    "evaluate_shared",
    "is_array",
    "mentions_length",
    "no_block_message",
    "no_grid_message",
    "no_shared_message",
    "parse",
    "rules_of",
    "check_shared",
    "shared_message",
    "shared_message_parts",
    "split_grid",
    "with_implied",
]


@dataclass(frozen=True)
class Rule:
    """A parsed rule. ``text`` is as written; ``str(rule)`` is the normal form.

    >>> str(parse("(a+ 1)*(b)"))
    '(a + 1) * b'
    """

    text: str
    node: Node

    @property
    def is_boolean(self) -> bool:
        """Whether the rule is a condition; else it is an integer."""
        return ast.is_boolean(self.node)

    def evaluate(self, env: Environment) -> int | bool:
        """The rule's value; :class:`ContractError` when arithmetic overflows 64 bits or divides by zero."""
        try:
            return self._evaluator(env)
        except Fault as fault:
            values = self.values(env)
            tail = f": {format_values(values)}" if values else ""
            message = f"{self.text} {fault.problem}{tail}"
            raise ContractError(message, rule=self.text, values=values) from None

    def leaves(self) -> tuple[Leaf, ...]:
        """What the rule reads, in order of appearance, without repetitions."""
        return tuple(dict.fromkeys(ast.leaves(self.node)))

    def values(self, env: Environment) -> dict[str, int]:
        """What each leaf is, in order of appearance: ``{"len(x)": 3, "n": 4}``."""
        result: dict[str, int] = {}
        for leaf in self.leaves():
            result.update(leaf_values(leaf, env))
        return result

    def to_c(self, name_of: NameOf) -> str:
        """The rule as a C expression of type ``interop_rule_value``; see :func:`c_expression`."""
        return rule_c.expression(self.node, name_of)

    def c_values(self, name_of: NameOf) -> list[tuple[str, str]]:
        """What :meth:`values` has, for C: (text, expression of type ``interop_rule_value``) for each leaf."""
        pairs: dict[str, str] = {}
        for leaf in self.leaves():
            pairs.update(rule_c.value_expressions(leaf, name_of))
        return list(pairs.items())

    def __str__(self) -> str:
        return ast.to_text(self.node)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return compile_node(self.node)


def parse(text: str, kernel_params: Sequence[Param] | None = None) -> Rule:
    """The rule written as `text`, its names and types checked against `kernel_params` where those are given.

    >>> parse("len(x) = 3")
    Traceback (most recent call last):
    abi.errors.RuleError: '=' is not part of the rule language
        len(x) = 3
               ^
    equality is ==
    """
    return _parse(text, None if kernel_params is None else tuple(kernel_params))


@lru_cache(maxsize=4096)
def _parse(text: str, params: tuple[Param, ...] | None) -> Rule:
    return Rule(text.strip(), parse_nodes(text, params))


def c_expression(rule: Rule, name_of_leaf: NameOf) -> str:
    """`rule` as a C11 and C++17 expression of type ``interop_rule_value`` (see ``interop/rule.h``).

    `name_of_leaf` says how the host spells each :class:`CLeaf`. The result's ``problem`` is zero, or
    ``INTEROP_RULE_OVERFLOW`` or ``INTEROP_RULE_DIVISION_BY_ZERO``; ``value`` is the integer, or 0 or 1 for a condition.

    >>> c_expression(parse("len(x) >= 3"), lambda leaf: f"{leaf.name}.{leaf.kind}")
    'interop_rule_ge(interop_rule_u64(x.length), interop_rule_i64(INT64_C(3)))'
    """
    return rule.to_c(name_of_leaf)


def split_grid(text: str) -> tuple[str, ...]:
    """A grid written as one text to a rule for each axis.

    >>> split_grid("(ceil_div(n, 32), m)")
    ('ceil_div(n, 32)', 'm')
    """
    return split_list(text)


# -- a kernel's rules ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelRules:
    """All rules of a kernel, parsed and type-checked. ``kernel`` is its name. No grid rules, or None for shared memory:
    the caller gives it."""

    kernel: str
    requires: tuple[tuple[Requirement, Rule], ...]
    grid: tuple[Rule, ...]
    shared: Rule | None
    fills: tuple[tuple[Param, Rule], ...]


@lru_cache(maxsize=1024)
def rules_of(kernel: Kernel) -> KernelRules:
    """The kernel's rules; :class:`RuleError` that names the kernel when one is not well formed."""
    visible = kernel.visible_params
    if len(kernel.launch.grid) > 3:
        raise RuleError(f"{kernel.name}: the grid has {len(kernel.launch.grid)} rules, and a grid has at most 3 axes")
    return KernelRules(
        kernel.name,
        tuple((r, _typed_rule(kernel, "requires", r.rule, kernel.params, True)) for r in kernel.requires),
        tuple(
            _typed_rule(kernel, f"grid.{axis}", text, kernel.params, False, ("grid",))
            for axis, text in zip("xyz", kernel.launch.grid)
        ),
        _typed_rule(kernel, "shared", kernel.launch.shared, kernel.params, False)
        if kernel.launch.shared.strip()
        else None,
        tuple(
            (p, _typed_rule(kernel, f"fill of {p.name}", p.fill, visible, _fill_is_boolean(kernel, p), ("grid",)))
            for p in kernel.params
            if p.fill is not None
        ),
    )


def _typed_rule(
    kernel: Kernel, what: str, text: str, params: tuple[Param, ...], boolean: bool, forbidden: tuple[str, ...] = ()
) -> Rule:
    try:
        rule = parse(text, params)
    except RuleError as error:
        raise RuleError(f"{kernel.name}: {what}: {error}") from None
    if rule.is_boolean != boolean:
        kinds = ("an integer", "a condition")
        raise RuleError(f"{kernel.name}: {what}: '{rule.text}' is {kinds[not boolean]}, and {kinds[boolean]} is wanted")
    for leaf in rule.leaves():
        if isinstance(leaf, ast.LaunchDim) and leaf.base in forbidden:
            raise RuleError(f"{kernel.name}: {what}: '{rule.text}' reads {ast.leaf_text(leaf)}, which depends on it")
    return rule


def _fill_is_boolean(kernel: Kernel, param: Param) -> bool:
    if isinstance(param.type, Pointer) or (isinstance(param.type, Scalar) and param.type.kind in ("int", "uint")):
        return False
    if isinstance(param.type, Scalar) and param.type.kind == "bool":
        return True
    raise RuleError(f"{kernel.name}: '{param.name}' is {param.type}: rules fill integers, bool and pointers only")


def is_array(param: Param) -> bool:
    """Whether `param` is an array: pointer, slice or tensor."""
    return isinstance(param.type, (Pointer, Slice, Tensor))


def with_implied(kernel: Kernel) -> Kernel:
    """`kernel` with ``disjoint(y, *)`` required for each array `y` that it writes, if there is another array.

    Front ends and importers call this last: hosts check the listed requirements and nothing else.
    """
    arrays = [p for p in kernel.visible_params if is_array(p)]
    listed = {r.rule for r in kernel.requires}
    rules = [f"disjoint({p.name}, *)" for p in arrays if p.access.writes and len(arrays) > 1]
    missing = tuple(Requirement(rule, Origin.IMPLIED) for rule in rules if rule not in listed)
    return replace(kernel, requires=kernel.requires + missing) if missing else kernel


def mentions_length(kernel: Kernel, name: str) -> bool:
    """Whether some rule of `kernel` reads ``len(name)``. Typed hosts pass such a pointer as a slice."""
    rules = rules_of(kernel)
    every = [r for _, r in rules.requires] + [*rules.grid] + [r for _, r in rules.fills]
    every += [rules.shared] if rules.shared else []
    return any(isinstance(leaf, ast.Len) and leaf.name == name for rule in every for leaf in rule.leaves())


# -- messages ------------------------------------------------------------------------------------------------------


def format_values(values: Mapping[str, int]) -> str:
    """``len(x) = 3, len(y) = 4``; a value of more than 63 bits reads ``(too large)``, as in C."""
    return ", ".join(
        f"{text} = {value if INT64_MIN <= value <= INT64_MAX else '(too large)'}" for text, value in values.items()
    )


def contract_message_parts(kernel_name: str, requirement: Requirement, problem: str = "") -> tuple[str, str]:
    """What stands before and after the values in :func:`contract_message`; for generated code."""
    after = f" ({requirement.note})" if requirement.note else ""
    cause = f"it {problem}: " if problem else ""
    return f"{kernel_name}: requires {requirement.rule.strip()}, but {cause}", after


def contract_message(kernel_name: str, requirement: Requirement, values: Mapping[str, int], problem: str = "") -> str:
    """The one text for a broken precondition, the same in every host language.

    >>> contract_message("saxpy", Requirement("len(x) >= len(y)"), {"len(x)": 3, "len(y)": 4})
    'saxpy: requires len(x) >= len(y), but len(x) = 3, len(y) = 4'
    """
    before, after = contract_message_parts(kernel_name, requirement, problem)
    return _join(before, values, after, ", but " if not problem else ": ")


def derived_message_parts(kernel_name: str, what: str, rule: str, problem: str) -> tuple[str, str]:
    """What stands before and after the values in :func:`derived_message`; for generated code."""
    return f"{kernel_name}: {what} = {rule} {problem}: ", ""


def derived_message(kernel_name: str, what: str, rule: str, problem: str, values: Mapping[str, int]) -> str:
    """The one text for a grid, shared-memory size or hidden parameter that cannot be computed.

    >>> derived_message("scale", "grid.x", "ceil_div(n, k)", "divides by zero", {"n": 5, "k": 0})
    'scale: grid.x = ceil_div(n, k) divides by zero: n = 5, k = 0'
    """
    before, after = derived_message_parts(kernel_name, what, rule, problem)
    return _join(before, values, after, ": ")


def no_block_message(kernel_name: str) -> str:
    """The one text for a launch without a block of a kernel whose description has no rule for it."""
    return f"{kernel_name}: its description has no block rule, so the call must give a block"


def no_grid_message(kernel_name: str) -> str:
    """The one text for a launch without a grid of a kernel whose description has no rule for it."""
    return f"{kernel_name}: its description has no grid rule, so the call must give a grid"


def no_shared_message(kernel_name: str) -> str:
    """The one text for a launch without dynamic shared memory of a kernel that uses it and has no rule for it.

    >>> no_shared_message("blur")
    'blur: its description has no rule for dynamic shared memory, so the call must give it'
    """
    return f"{kernel_name}: its description has no rule for dynamic shared memory, so the call must give it"


def shared_message_parts(kernel_name: str, rule: str) -> tuple[str, str]:
    """What stands before and after the values in :func:`shared_message`; for generated code. The first value is
    ``shared``, what the call gives."""
    return f"{kernel_name}: requires shared >= {rule}, but ", ""


def shared_message(kernel_name: str, rule: str, given: int, values: Mapping[str, int]) -> str:
    """The one text for a call that gives less dynamic shared memory than the kernel's own rule says that it uses.

    >>> shared_message("histogram", "4 * nbins", 8, {"nbins": 256})
    'histogram: requires shared >= 4 * nbins, but shared = 8, nbins = 256'
    """
    before, after = shared_message_parts(kernel_name, rule)
    read = f", {format_values(values)}" if values else ""
    return f"{before}{format_values({'shared': given})}{read}{after}"


def _join(before: str, values: Mapping[str, int], after: str, separator: str) -> str:
    if values:
        return before + format_values(values) + after
    return before.removesuffix(separator) + after


# -- evaluation for a launch ---------------------------------------------------------------------------------------


def evaluate_fills(kernel: Kernel, env: Environment) -> dict[str, int]:
    """The values of the hidden parameters, by name; :class:`ContractError` when one does not fit its type."""
    return _fill_values(rules_of(kernel), env)


def bind_hidden(kernel: Kernel, env: Environment) -> Environment:
    """`env` with the hidden parameters filled in, so that rules may read them."""
    return _bound(rules_of(kernel), env)


def check_requirements(kernel: Kernel, env: Environment) -> None:
    """Raises :class:`ContractError` with the canonical message for the first requirement that does not hold."""
    rules = rules_of(kernel)
    _require(rules, _bound(rules, env))


def evaluate_grid(kernel: Kernel, env: Environment) -> tuple[int, int, int]:
    """The grid (x, y, z) that follows from the arguments and the block. Zeros are possible: nothing runs then."""
    rules = rules_of(kernel)
    return _grid(rules, _bound(rules, env))


def evaluate_shared(kernel: Kernel, env: Environment) -> int:
    """The bytes of dynamic shared memory that follow from the arguments and the launch configuration.

    :class:`ArgumentTypeError` where the kernel has no rule for them, so that only a caller can say.
    """
    rules = rules_of(kernel)
    return _shared(rules, _bound(rules, env))


def check_shared(kernel: Kernel, env: Environment, given: int) -> None:
    """Raises :class:`ContractError` when `given` bytes of dynamic shared memory are fewer than the kernel's rule says.

    More than that is fine, and so is any size for a kernel that has no rule.
    """
    rules = rules_of(kernel)
    _check_shared(rules, _bound(rules, env), given)


@dataclass(frozen=True)
class ResolvedLaunch:
    """A launch whose contract holds: hidden parameters, block and grid in the environment; shared memory in bytes."""

    environment: Environment
    shared: int

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.environment.grid

    @property
    def block(self) -> tuple[int, int, int]:
        return self.environment.block


def resolve_launch(
    kernel: Kernel,
    arguments: Mapping[str, ArrayValue | int | float | bool],
    *,
    block: tuple[int, int, int] | None = None,
    grid: tuple[int, int, int] | None = None,
    shared: int | None = None,
) -> ResolvedLaunch:
    """Everything that a launch layer derives and checks, in the order of every host language: block, hidden parameters,
    grid, shared memory, requirements. What the caller gives explicitly is checked and not derived: shared memory may be
    more than the kernel's rule says, and not less.

    >>> from abi import Block, Launch, Slice, f32
    >>> launch = Launch(Block(BlockKind.EXACT, (256, 1, 1)), ("ceil_div(len(y), block.x)",))
    >>> kernel = Kernel("fill", "fill", "python", (Param("y", Slice(f32)),), launch)
    >>> resolve_launch(kernel, {"y": ArrayValue(0, (1000,), (1,), 4)}).grid
    (4, 1, 1)
    """
    rules = rules_of(kernel)
    chosen = default_block(kernel) if block is None else block
    check_block(kernel, chosen)
    env = _bound(rules, Environment(arguments, chosen))
    env = Environment(env.arguments, chosen, _grid(rules, env) if grid is None else grid)
    if shared is None:
        size = _shared(rules, env)
    else:
        size = shared
        _check_shared(rules, env, size)
    _require(rules, env)
    return ResolvedLaunch(env, size)


def _bound(rules: KernelRules, env: Environment) -> Environment:
    if all(param.name in env.arguments for param, _ in rules.fills):
        return env
    return replace(env, arguments={**env.arguments, **_fill_values(rules, env)})


def _fill_values(rules: KernelRules, env: Environment) -> dict[str, int]:
    result = {}
    for param, rule in rules.fills:
        limits = (param.type.minimum, param.type.maximum) if isinstance(param.type, Scalar) else (0, INT64_MAX)
        result[param.name] = _derive(rules, param.name, rule, env, limits, f"does not fit {param.type}")
    return result


def _require(rules: KernelRules, env: Environment) -> None:
    for requirement, rule in rules.requires:
        problem = ""
        try:
            if rule._evaluator(env):
                continue
        except Fault as fault:
            problem = fault.problem
        values = rule.values(env)
        message = contract_message(rules.kernel, requirement, values, problem)
        raise ContractError(message, kernel=rules.kernel, rule=rule.text, values=values)


def _grid(rules: KernelRules, env: Environment) -> tuple[int, int, int]:
    if not rules.grid:
        raise ArgumentTypeError(no_grid_message(rules.kernel))
    axes = [
        _derive(rules, f"grid.{axis}", rule, env, (0, INT64_MAX), "is negative")
        for axis, rule in zip("xyz", rules.grid)
    ]
    x, y, z = (axes + [1, 1])[:3]
    return x, y, z


def _shared(rules: KernelRules, env: Environment) -> int:
    if rules.shared is None:
        raise ArgumentTypeError(no_shared_message(rules.kernel))
    return _derive(rules, "shared", rules.shared, env, (0, INT64_MAX), "is negative")


def _check_shared(rules: KernelRules, env: Environment, given: int) -> None:
    if rules.shared is None or given >= _shared(rules, env):
        return
    text, values = rules.shared.text, rules.shared.values(env)
    message = shared_message(rules.kernel, text, given, values)
    raise ContractError(message, kernel=rules.kernel, rule=f"shared >= {text}", values={**values, "shared": given})


def _derive(rules: KernelRules, what: str, rule: Rule, env: Environment, limits: tuple[int, int], outside: str) -> int:
    try:
        value = int(rule._evaluator(env))
        problem = "" if limits[0] <= value <= limits[1] else outside
    except Fault as fault:
        value, problem = 0, fault.problem
    if problem:
        values = rule.values(env)
        message = derived_message(rules.kernel, what, rule.text, problem, values)
        raise ContractError(message, kernel=rules.kernel, rule=rule.text, values=values)
    return value


def default_block(kernel: Kernel) -> tuple[int, int, int]:
    """The block of a call that gives none: the exact one, the bound, or the multiple."""
    block = kernel.launch.block
    if block.kind is BlockKind.ANY:
        raise ArgumentTypeError(no_block_message(kernel.name))
    return block.dims


def block_rule(kernel: Kernel) -> str:
    """The block's rule as messages print it; empty when any block will do.

    A block of `up to` some shape is bounded by its number of threads, as PTX's ``.maxntid`` is.
    """
    block = kernel.launch.block
    x, y, z = block.dims
    return {
        BlockKind.ANY: "",
        BlockKind.EXACT: f"block == ({x}, {y}, {z})",
        BlockKind.UP_TO: f"block.x * block.y * block.z <= {x * y * z}",
        BlockKind.MULTIPLE_OF: f"block.x % {x} == 0",
    }[block.kind]


def block_message(kernel: Kernel, block: tuple[object, object, object]) -> str:
    """The one text for a block that the kernel does not take. Pass ``("%u", "%u", "%u")`` for a C format (a ``%`` of
    the rule is then doubled).

    >>> from abi import Block, Launch
    >>> kernel = Kernel("saxpy", "saxpy", "python", (), Launch(Block(BlockKind.EXACT, (256, 1, 1))))
    >>> block_message(kernel, (128, 1, 1))
    'saxpy: requires block == (256, 1, 1), but block = (128, 1, 1)'
    """
    rule = f"{kernel.name}: requires {block_rule(kernel)}"
    if any(isinstance(b, str) for b in block):
        rule = rule.replace("%", "%%")
    return f"{rule}, but block = ({block[0]}, {block[1]}, {block[2]})"


def check_block(kernel: Kernel, block: tuple[int, int, int]) -> None:
    """Raises :class:`ContractError` with the canonical message when the kernel does not take `block` (x, y, z)."""
    rule = kernel.launch.block
    x, y, z = block
    dx, dy, dz = rule.dims
    holds = {
        BlockKind.ANY: True,
        BlockKind.EXACT: (x, y, z) == (dx, dy, dz),
        BlockKind.UP_TO: x * y * z <= dx * dy * dz,
        BlockKind.MULTIPLE_OF: dx > 0 and x % dx == 0,
    }[rule.kind]
    if not holds:
        values = {"block.x": x, "block.y": y, "block.z": z}
        raise ContractError(block_message(kernel, block), kernel=kernel.name, rule=block_rule(kernel), values=values)

"""Random PTX kernels, each from an integer: the same integer, the same kernel.

A kernel has one result, whatever order its threads run in: each writes its own bytes, atomics commute or stay on the
thread's own bytes, shared memory changes hands at barriers, warp operations name exactly the lanes that are there.
What varies is everything else: control flow (nested, unstructured, irreducible, lanes that leave early), index
arithmetic that wraps, loop trip counts per lane, state spaces, block shapes.

>>> from kernel_ir import ptx_of
>>> ptx_of(generate(7)) == ptx_of(generate(7))
True
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import kernel_control
import kernel_inputs
import kernel_patterns
import kernel_statements
from kernel_ir import Function, Ins, Operand, Program, Variable

Pools = dict[str, tuple[str, ...]]
_FAMILIES = (kernel_statements.CHOICES, kernel_patterns.CHOICES, kernel_control.CHOICES)


@dataclass(frozen=True)
class Context:
    """Where a statement stands.

    :ivar uniform: all threads of the block that still run come here, equally often.
    :ivar mask: the register with the lanes of the warp that are here together; empty when that is not known.
    :ivar exits: how many exits of lanes the mask knows of.
    :ivar weight: how often the statement may run, as an upper bound.
    :ivar masked_loop: an enclosing loop uses masks, which lanes that exit would make wrong.
    """

    uniform: bool = False
    mask: str = ""
    exits: int = 0
    weight: int = 1
    masked_loop: bool = False
    depth: int = 0
    function: bool = False
    leave: str = ""  # the label of the innermost loop's end, while a jump there is allowed
    again: str = ""  # and of its next round
    tracked: str = ""  # the mask of that loop, which a lane that leaves has to be taken from


class Generator:
    """Writes one function's instructions. Registers in `pools` have values at the current place."""

    def __init__(self, rng: random.Random, settings: Settings, features: Counter[str], prefix: str = "") -> None:
        self.rng, self.settings, self.features, self.prefix = rng, settings, features, prefix
        self.code: list[Ins] = []
        self.count: Counter[str] = Counter()
        self.temps: Pools = {c: () for c in "phrdfgu"}  # u: 32-bit registers that are the same in the whole block
        self.variables: Pools = {c: () for c in "phrdfgu"}  # always have a value; may be written again
        self.snapshots: dict[str, Pools] = {}
        self.functions: list[Function] = []
        self.steady: list[str] = []  # 32-bit registers that begin with the same value in all lanes
        self.exits = 0  # changes whenever some lanes of a known mask go elsewhere
        self.left = 0  # exits of lanes among these
        self.dead = False
        self.fixed: dict[str, str] = {}  # registers of the prologue: base addresses, thread numbers
        self.budget = 0

    # ---- writing ----

    def new(self, letter: str) -> str:
        """A register without a value."""
        self.count[letter] += 1
        return f"%{letter}{self.count[letter]}"

    def label(self, hint: str = "L") -> str:
        self.count["label"] += 1
        return f"{self.prefix}{hint}{self.count['label']}"

    def emit(self, op: str, dst: str | tuple[str, ...] = (), *src: Operand, guard: str = "") -> None:
        self.code.append(Ins(op, (dst,) if isinstance(dst, str) else dst, src, guard))
        self.budget -= 1

    def value(self, op: str, letter: str, *src: Operand, keep: bool = True) -> str:
        """An instruction into a new register, which other statements may then read."""
        register = self.new(letter)
        self.emit(op, register, *src)
        if keep:
            self.keep(register)
        return register

    def keep(self, register: str, letter: str = "") -> None:
        letter = letter or register[1]
        self.temps = self.temps | {letter: (*self.temps[letter], register)}

    # ---- choosing ----

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any(self, letter: str) -> str:
        """A register with a value, late ones more often."""
        if letter == "r" and self.steady and self.chance(0.08):
            return self.rng.choice(self.steady)
        recent = self.temps[letter][-8:]
        if recent and self.chance(0.6):
            return self.rng.choice(recent)
        everything = self.temps[letter] + self.variables[letter]
        return self.rng.choice(everything)

    def operand(self, letter: str) -> Operand:
        """A register or, for integers, sometimes a constant."""
        if letter in "hrd" and self.chance(0.2):
            bits = {"h": 16, "r": 32, "d": 64}[letter]
            return self.rng.choice([0, 1, 2, 5, 31, 255, (1 << bits - 1) - 1, -1, -7, self.rng.getrandbits(bits - 1)])
        return self.any(letter)

    def variable(self, letter: str) -> str:
        """A register that may be written."""
        return self.rng.choice(self.variables[letter])

    def target(self, letter: str) -> str:
        """Where a result goes: a variable, or a new register."""
        return self.variable(letter) if self.chance(0.35) else self.new(letter)

    def done(self, register: str) -> None:
        """The register now has a value."""
        letter = register[1]
        if register not in self.variables[letter] and register not in self.temps[letter]:
            self.keep(register)

    # ---- jumps ----

    def jump(self, label: str, guard: str = "") -> None:
        """A branch. The label's place knows what has a value on each way to it."""
        self.emit("bra", (), label, guard=guard)
        self.arrive(label)
        if not guard:
            self.dead = True

    def arrive(self, label: str) -> None:
        known = self.snapshots.get(label)
        self.snapshots[label] = self.temps if known is None else _common(known, self.temps)

    def place(self, label: str) -> None:
        """A label, reached by the jumps so far and from above."""
        known = self.snapshots.get(label)
        if known is not None:
            self.temps = known if self.dead else _common(known, self.temps)
            self.dead = False
        self.emit("label", (), label)

    def scoped(self, work: Callable[[], None]) -> None:
        """Values of the part that `work` writes are not seen behind it."""
        outer = self.temps
        work()
        self.temps = outer

    # ---- statements ----

    def mask(self, context: Context) -> str:
        """The register with the lanes that are here; empty when unknown."""
        return context.mask if context.exits == self.exits else ""

    def block(self, context: Context, statements: int) -> None:
        """Some statements one after the other."""
        for _ in range(statements):
            if self.dead or self.budget <= 0:
                return
            self.statement(context)

    def statement(self, context: Context) -> None:
        choices: list[tuple[float, Callable[[Generator, Context], None]]] = []
        for family in _FAMILIES:
            for name, weight, possible, write in family:
                if possible(self, context):
                    choices.append((weight * self.settings.weights.get(name, 1.0), write))
        weights = [w for w, _ in choices]
        write = self.rng.choices([c for _, c in choices], weights)[0]
        before = len(self.code)
        write(self, context)
        if len(self.code) > before:
            self.features[write.__name__.lstrip("_")] += 1


def _common(a: Pools, b: Pools) -> Pools:
    """What has a value on both ways."""
    result = {}
    for letter, registers in a.items():
        other = set(b[letter])
        result[letter] = tuple(r for r in registers if r in other)
    return result


@dataclass(frozen=True)
class Settings:
    """What one kernel is like."""

    weights: dict[str, float]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    length: int  # elements of the input arrays, a power of two
    raw_nan: bool  # NaN results are used with the payloads that they happen to have
    approximate: bool
    local: bool
    barriers: bool
    warps: bool
    leaving: bool  # lanes may end early

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def total(self) -> int:
        x, y, z = self.grid
        return self.threads * x * y * z


BLOCKS = [
    (1,), (7,), (8,), (13,), (16,), (24,), (31,), (32,), (33,), (40,), (48,), (63,), (64,), (65,), (72,), (96,), (100,),
    (5, 7), (8, 4), (16, 3), (32, 2), (33, 2), (8, 8), (4, 9), (1, 40), (2, 17), (16, 4), (24, 2),
    (3, 5, 2), (4, 4, 4), (8, 2, 3), (1, 1, 33), (2, 3, 7), (16, 2, 2),
]  # fmt: skip
WARP_BLOCKS = [(32,), (64,), (96,), (32, 2), (32, 3), (64, 2), (32, 1, 2), (20,), (40,), (48,), (65,), (100,)]
GRIDS = [(1,), (1,), (2,), (3,), (1, 2), (2, 2), (1, 1, 2)]


def _settings(rng: random.Random) -> Settings:
    def three(extents: tuple[int, ...]) -> tuple[int, int, int]:
        x, y, z = (*extents, 1, 1)[:3]
        return x, y, z

    warps = rng.random() < 0.5
    block = three(rng.choice(WARP_BLOCKS if warps and rng.random() < 0.8 else BLOCKS))
    grid = three(rng.choice(GRIDS))
    threads = block[0] * block[1] * block[2]
    if threads * grid[0] * grid[1] * grid[2] > 256:
        grid = (rng.randint(1, max(1, 256 // threads)), 1, 1)
    # A profile: a few families often, a few never.
    names = [name for family in _FAMILIES for name, *_ in family]
    weights = {name: rng.choice([0.0, 0.3, 1.0, 1.0, 1.0, 3.0]) for name in names} | {"arithmetic": 1.0}
    total = threads * grid[0] * grid[1] * grid[2]
    return Settings(
        weights, grid, block, max(128, 1 << (total + 64).bit_length()), rng.random() < 0.05, rng.random() < 0.12,
        rng.random() < 0.4, rng.random() < 0.5, warps, rng.random() < 0.5,
    )  # fmt: skip


def generate(seed: int, small: bool = False) -> Program:
    """The program of a seed; a `small` one compiles in a fraction of the time."""
    rng = random.Random(seed)
    settings = _settings(rng)
    features: Counter[str] = Counter()
    functions = [_function(rng, settings, features, k) for k in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    g = Generator(rng, settings, features)
    g.functions = functions
    g.budget = rng.choice([50, 80, 110] if small else [60, 100, 150, 150, 220, 400])
    kernel_inputs.prologue(g)
    context = Context(uniform=True, mask=g.fixed["live"] if settings.warps else "")
    while g.budget > 0 and not g.dead:
        g.statement(context)
    kernel_inputs.epilogue(g, context)
    program = kernel_inputs.program(g, seed)
    called = {str(i.src[0]) for f in (program.kernel, *functions) for i in f.body if i.opcode == "call"}
    return replace(program, functions=tuple(f for f in functions if f.name in called), features=features)


def _function(rng: random.Random, settings: Settings, features: Counter[str], index: int) -> Function:
    """A function of a few values; one of those with warp operations has the mask of its lanes as first argument."""
    plain = replace(settings, raw_nan=settings.raw_nan, approximate=False, barriers=False, local=rng.random() < 0.3)
    g = Generator(rng, plain, features, f"f{index}_")
    g.budget = rng.choice([8, 20, 40])
    warp = settings.warps and rng.random() < 0.35
    arguments = ["r", *rng.choices("rdfh", k=rng.randint(0, 3))]
    names = tuple(g.new(letter) for letter in arguments)
    kernel_inputs.function_prologue(g, names[1:] if warp else names)
    variables: tuple[Variable, ...] = ()
    if plain.local:
        variables = (Variable("local", f"floc{index}", 32, 8),)
        kernel_inputs.local_array(g, variables[0].name)
    g.block(Context(mask=names[0] if warp else "", function=True), 40)
    g.dead = False
    results = tuple(g.variable(letter) for letter in rng.choice(["r", "d", "f", "rr"]))
    if len(results) == 2:
        results = results[:1]
    name = f"{'warp' if warp else 'plain'}{index}"
    return Function(name, tuple(g.code), (), names, results, variables)


__all__ = ["Context", "Generator", "Settings", "generate"]

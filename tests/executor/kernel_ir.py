"""The small language of generated kernels: flat lists of PTX instructions, and their text.

A program is data that three parties read: the printer here, the interpreter in :mod:`kernel_interpreter`, and the
shrinker in :mod:`kernel_fuzz`, which deletes instructions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

HEADER = ".version 7.8\n.target sm_80\n.address_size 64\n"

CLASSES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "f": "f32", "g": "f64"}
"""What the first letter of a register's name says of its type."""


@dataclass(frozen=True)
class Mem:
    """A memory operand: a register or a variable, and bytes behind it."""

    base: str
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}{f'+{self.offset}' if self.offset else ''}]"


Operand = str | int | Mem


@dataclass(frozen=True)
class Ins:
    """One instruction. A ``label`` names its label as its only source; a ``call`` begins its sources with the function.

    >>> print(text_of(Ins("add.u32", ("%r1",), ("%r0", 7), "!%p0")))
    @!%p0 add.u32 %r1, %r0, 7;
    """

    op: str
    dst: tuple[str, ...] = ()
    src: tuple[Operand, ...] = ()
    guard: str = ""

    @property
    def opcode(self) -> str:
        return self.op.split(".", 1)[0]


@dataclass(frozen=True)
class Variable:
    """Memory outside of registers. `data` is None where there are no initial values."""

    space: str
    name: str
    size: int
    align: int
    data: bytes | None = None
    extern: bool = False


@dataclass(frozen=True)
class Function:
    """A kernel, whose parameters are (name, type), or a function, whose parameters and results are registers."""

    name: str
    body: tuple[Ins, ...]
    params: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """Global memory that the kernel gets a pointer to. `role`: ``in`` is only read; each byte of ``out`` belongs to the
    thread that touches it first; ``atomic`` is touched by atomics alone; ``loose`` is an ``out`` whose bits may differ
    between implementations."""

    name: str
    role: str
    data: bytes


@dataclass(frozen=True)
class Program:
    """A kernel and everything that a launch of it needs."""

    seed: int
    kernel: Function
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[tuple[str, str, int], ...]  # name, type, value
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0  # bytes of dynamic shared memory
    reqntid: bool = False
    raw_nan: bool = False  # NaN results are used with whatever payload a device gives them
    features: Counter[str] = field(default_factory=Counter)

    def with_bodies(self, bodies: dict[str, tuple[Ins, ...]]) -> Program:
        """The same with other instructions in some functions."""
        functions = tuple(replace(f, body=bodies.get(f.name, f.body)) for f in self.functions)
        kernel = replace(self.kernel, body=bodies.get(self.kernel.name, self.kernel.body))
        return replace(self, kernel=kernel, functions=functions)


def registers(body: tuple[Ins, ...]) -> list[str]:
    """Every register that the instructions name."""
    found: dict[str, None] = {}
    for ins in body:
        for operand in (*ins.dst, *ins.src, ins.guard.lstrip("!")):
            name = operand.base if isinstance(operand, Mem) else operand
            if isinstance(name, str) and name[:1] == "%" and name[1] in CLASSES and name[2:].isdigit():
                found[name] = None
    return sorted(found)


def _group(names: tuple[Operand, ...]) -> str:
    return str(names[0]) if len(names) == 1 else "{" + ", ".join(map(str, names)) + "}"


def text_of(ins: Ins, unique: str = "0") -> str:
    """The PTX of one instruction. `unique` tells the lists of branch targets and the parameters of calls apart."""
    guard = f"@{ins.guard} " if ins.guard else ""
    if ins.opcode == "label":
        return f"{ins.src[0]}:"
    if ins.opcode == "call":
        return _call(ins, unique)
    if ins.opcode == "brx":
        targets = ", ".join(map(str, ins.src[1:]))
        return f"T{unique}: .branchtargets {targets};\n{guard}{ins.op} {ins.src[0]}, T{unique};"
    if ins.opcode == "ld":
        operands = [_group(ins.dst), str(ins.src[0])]
    elif ins.opcode == "st":
        operands = [str(ins.src[0]), _group(ins.src[1:])]
    elif ins.op == "activemask.b32":  # the source is what the interpreter expects it to yield
        operands = list(ins.dst)
    elif ins.op.startswith("mov.b") and (len(ins.dst) > 1 or len(ins.src) > 1):
        operands = [_group(ins.dst), _group(ins.src)]
    else:
        operands = (["|".join(ins.dst)] if ins.dst else []) + [str(o) for o in ins.src]
    return f"{guard}{ins.op}{' ' if operands else ''}{', '.join(operands)};"


def _call(ins: Ins, unique: str) -> str:
    lines = []
    name, arguments = ins.src[0], ins.src[1:]
    for k, a in enumerate(arguments):
        assert isinstance(a, str)
        bits = f"b{_BITS[a[1]]}"
        lines += [f".param .{bits} a{k};", f"st.param.{_move(a)} [a{k}], {a};"]
    for k, r in enumerate(ins.dst):
        lines.append(f".param .b{_BITS[r[1]]} q{k};")
    results = f"({', '.join(f'q{k}' for k in range(len(ins.dst)))}), " if ins.dst else ""
    lines.append(f"{ins.op} {results}{name}, ({', '.join(f'a{k}' for k in range(len(arguments)))});")
    lines += [f"ld.param.{_move(r)} {r}, [q{k}];" for k, r in enumerate(ins.dst)]
    return "{ // call " + unique + "\n" + "\n".join(lines) + "\n}"


_BITS = {"h": 16, "r": 32, "d": 64, "f": 32, "g": 64}


def _move(register: str) -> str:
    return CLASSES[register[1]]


def _declarations(function: Function, named: list[str]) -> list[str]:
    lines = [
        f".reg .{type_} {', '.join(n for n in named if n[1] == letter)};"
        for letter, type_ in CLASSES.items()
        if any(n[1] == letter for n in named)
    ]
    return lines + [_variable(v) for v in function.variables]


def _variable(v: Variable) -> str:
    if v.extern:
        return f".extern .{v.space} .align {v.align} .b8 {v.name}[];"
    values = "" if v.data is None else " = {" + ", ".join(map(str, v.data)) + "}"
    return f".{v.space} .align {v.align} .b8 {v.name}[{v.size}]{values};"


def _body(function: Function) -> list[str]:
    return [text_of(ins, f"{function.name}_{k}") for k, ins in enumerate(function.body)]


def _function(function: Function) -> str:
    results = ", ".join(f".param .b{_BITS[r[1]]} result{k}" for k, r in enumerate(function.results))
    params = ", ".join(f".param .b{_BITS[a[1]]} param{k}" for k, a in enumerate(function.arguments))
    head = f".func {f'({results}) ' if results else ''}{function.name}({params})"
    named = sorted({*registers(function.body), *function.arguments, *function.results})
    loads = [f"ld.param.{_move(a)} {a}, [param{k}];" for k, a in enumerate(function.arguments)]
    stores = [f"st.param.{_move(r)} [result{k}], {r};" for k, r in enumerate(function.results)]
    # A function has one way out, behind which its results are stored: `ret` before it is a jump there.
    lines = [
        line.replace("ret;", f"bra {function.name}_out;") if line.endswith("ret;") else line for line in _body(function)
    ]
    return "\n".join(
        [head, "{", *_declarations(function, named), *loads, *lines, f"{function.name}_out:", *stores, "ret;", "}"]
    )


def ptx_of(program: Program) -> str:
    """The PTX module of a program."""
    kernel = program.kernel
    parts = [HEADER, *(_variable(v) for v in program.variables), *map(_function, program.functions)]
    params = ", ".join(f".param .{type_} {name}" for name, type_ in kernel.params)
    x, y, z = program.block
    exact = f"\n.reqntid {x}, {y}, {z}" if program.reqntid else ""
    parts.append(f".visible .entry {kernel.name}({params}){exact}\n{{")
    parts += [*_declarations(kernel, registers(kernel.body)), *_body(kernel), "}"]
    return "\n".join(parts) + "\n"

"""Writing LLVM IR as text: one function at a time into a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import prelude
from .types import BITS
from .vector_prelude import vector_function


class ModuleText:
    """Collects what one LLVM module consists of."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # of the C runtime's functions
        self.functions: list[str] = []
        self.globals: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._prelude: dict[tuple[str, int], None] = {}

    def declare(self, result: str, name: str, types: Iterable[str], attributes: str = "") -> None:
        """Makes the function `name` known; once is enough."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(types)}){attributes}"

    def require(self, name: str, lanes: int = 1) -> None:
        """Includes a function of the prelude, for one lane or several, and those that it uses."""
        if (name, lanes) not in self._prelude:
            self._prelude[name, lanes] = None
            for used in prelude.USES[name]:
                self.require(used, lanes)

    def text(self) -> str:
        """The module."""
        parts = list(self.globals.values())
        for name, lanes in self._prelude:
            text, declarations = prelude.FUNCTIONS[name], prelude.DECLARATIONS[name]
            if lanes > 1:
                text, _, declarations = vector_function(name, lanes)
            parts.append(text)
            for intrinsic, line in declarations:
                self._declarations.setdefault(intrinsic, line)
        parts += self.functions
        parts += sorted(set(self._declarations.values()))
        parts.append(METADATA)
        return "\n".join(parts) + "\n"


# !0: nothing, for `invariant.load`. !1: the access group of what threads of a block do independently. !2: the loop over
# such threads.
METADATA = """\
!0 = !{}
!1 = distinct !{}
!2 = distinct !{!2, !3}
!3 = !{!"llvm.loop.parallel_accesses", !1}
!4 = !{!"branch_weights", i32 1, i32 1048575}"""


@dataclass
class _Function:
    """The function being written; several builders may write one."""

    entry: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    count: int = 0
    open: bool = False  # whether the current block still lacks its terminator


class Builder:
    """Writes one function. Values are their textual names; types are passed beside them.

    :ivar entry: what goes before everything else: allocas and loads of the context.
    """

    def __init__(self, module: ModuleText, function: _Function | None = None) -> None:
        self.module = module
        self._function = function or _Function()
        self.entry = self._function.entry
        self.lines = self._function.lines

    def temp(self, hint: str = "t") -> str:
        """A new name."""
        self._function.count += 1
        return f"%{hint}{self._function.count}"

    def new_label(self, hint: str = "b") -> str:
        """A new label's name, without ``%``."""
        return self.temp(hint)[1:]

    def label(self, name: str) -> None:
        """Begins the block `name`; falls through into it from an open block."""
        if self._function.open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self._function.open = True

    def line(self, text: str) -> None:
        """One instruction without a result. Behind a terminator it opens a block that nothing reaches."""
        if not self._function.open:
            self.label(self.new_label("dead"))
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """One instruction with a result, whose name is returned."""
        name = self.temp()
        self.line(f"{name} = {text}")
        return name

    def terminate(self, text: str) -> None:
        """Ends the block."""
        self.line(text)
        self._function.open = False

    @property
    def reachable(self) -> bool:
        """Whether what comes next may run: false behind a terminator, until the next label."""
        return self._function.open

    def branch(self, label: str) -> None:
        self.terminate(f"br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str, unlikely: bool = False) -> None:
        weights = ", !prof !4" if unlikely else ""
        self.terminate(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    def switch(self, type_: str, value: str, otherwise: str, cases: Sequence[tuple[int, str]]) -> None:
        """Ends the block with a jump by value: `cases` are (value, label)."""
        listed = " ".join(f"{type_} {number}, label %{label}" for number, label in cases)
        self.terminate(f"switch {type_} {value}, label %{otherwise} [{listed}]")

    # ---- instructions ----

    def binary(self, operation: str, type_: str, a: str, b: str) -> str:
        return self.value(f"{operation} {type_} {a}, {b}")

    def compare(self, predicate: str, type_: str, a: str, b: str) -> str:
        """An integer or, for a floating-point type, an ``fcmp`` comparison."""
        operation = "fcmp" if type_ in ("float", "double") else "icmp"
        return self.value(f"{operation} {predicate} {type_} {a}, {b}")

    def select(self, condition: str, type_: str, a: str, b: str) -> str:
        return self.value(f"select i1 {condition}, {type_} {a}, {type_} {b}")

    def cast(self, operation: str, value: str, from_: str, to: str) -> str:
        return value if from_ == to else self.value(f"{operation} {from_} {value} to {to}")

    def bitcast(self, value: str, from_: str, to: str) -> str:
        return self.cast("bitcast", value, from_, to)

    def negate(self, type_: str, value: str) -> str:
        """A floating-point value with the other sign."""
        return self.value(f"fneg {type_} {value}")

    def extract_value(self, type_: str, value: str, index: int) -> str:
        """One member of a struct that an intrinsic yields."""
        return self.value(f"extractvalue {type_} {value}, {index}")

    def integer_of(self, pointer: str) -> str:
        """The address in a pointer, an ``i64``."""
        return self.value(f"ptrtoint ptr {pointer} to i64")

    def pointer_of(self, address: str) -> str:
        """The pointer to an address, an ``i64``. It may point to anything whose address was taken."""
        return self.value(f"inttoptr i64 {address} to ptr")

    def resize(self, value: str, from_: str, to: str, signed: bool = False) -> str:
        """An integer of another width: truncated or extended."""
        if from_ == to:
            return value
        if BITS[from_] > BITS[to]:
            return self.cast("trunc", value, from_, to)
        return self.cast("sext" if signed else "zext", value, from_, to)

    def offset(self, pointer: str, offset: str | int) -> str:
        """A pointer some bytes further."""
        return pointer if offset == 0 else self.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, type_: str, pointer: str, suffix: str = "") -> str:
        return self.value(f"load {type_}, ptr {pointer}{suffix}")

    def load_relaxed(self, type_: str, pointer: str, align: int) -> str:
        """An atomic load without order."""
        return self.value(f"load atomic {type_}, ptr {pointer} monotonic, align {align}")

    def store(self, type_: str, value: str, pointer: str, suffix: str = "") -> None:
        self.line(f"store {type_} {value}, ptr {pointer}{suffix}")

    def alloca(self, type_: str, align: int = 0) -> str:
        """Memory of the function's frame, reserved at its entry."""
        name = self.temp("m")
        self.entry.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return name

    def dynamic_alloca(self, bytes_: str, align: int) -> str:
        """Memory of the function's frame, as many bytes as an ``i64`` says, from here on."""
        return self.value(f"alloca i8, i64 {bytes_}, align {align}")

    # ---- calls ----

    def call(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Calls any function; its declaration is added to the module. The value's name; empty for ``void``."""
        self.module.declare(result, name, [t for t, _ in arguments])
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.value(text)

    def call_local(self, name: str, arguments: Sequence[tuple[str, str]], result: str = "void") -> str:
        """Calls a function that this module defines. The value's name; empty for ``void``."""
        text = f'call {result} @"{name}"({", ".join(f"{t} {v}" for t, v in arguments)})'
        if result == "void":
            self.line(text)
            return ""
        return self.value(text)

    def intrinsic(self, name: str, type_: str, *values: str, extra: Sequence[tuple[str, str]] = ()) -> str:
        """An LLVM intrinsic of one type: ``intrinsic("fma", "float", a, b, c)``."""
        mangled = {"float": "f32", "double": "f64"}.get(type_, type_)
        return self.call(type_, f"llvm.{name}.{mangled}", [*((type_, v) for v in values), *extra])

    def helper(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """A function of the C runtime: ``helper("float", "add_f32", …)`` is ``interop_cpu_add_f32``."""
        return self.call(result, f"{self.module.prefix}cpu_{name}", arguments)

    def prelude(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """A function of :mod:`interop.executor.prelude`."""
        self.module.require(name)
        return self.value(f"call {result} @interop.{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

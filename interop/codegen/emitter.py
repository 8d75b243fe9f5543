"""A kernel's IR as an LLVM module: parameters, memory, bounds checks, control flow.

The signature follows the convention interop-1: scalars as they are (a bool as a byte), a slice as pointer and length, a
tensor as pointer, extents and strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abi import Pointer, Scalar, Slice, Tensor, bool_, components, i64

from ..errors import Location
from ..ir import ops
from ..ir.ops import Function, Operation, Region, Value
from ..ir.types import Shared, array_element
from .arithmetic import Arithmetic
from .assumptions import assume
from .text import llvm_type, memory_type, quote

# No memory holds 2**62 elements: the bound lets LLVM see that lengths are not negative and sums do not overflow.
_EXTENT = "range(i64 0, 4611686018427387904)"
_LIMITS = {
    "thread_index": ((0, 1024), (0, 1024), (0, 64)),
    "block_dim": ((1, 1025), (1, 1025), (1, 65)),
    "block_index": ((0, 2147483647), (0, 65535), (0, 65535)),
    "grid_dim": ((1, 2147483648), (1, 65536), (1, 65536)),
}
_SREG = {"thread_index": "tid", "block_dim": "ntid", "block_index": "ctaid", "grid_dim": "nctaid"}


@dataclass(frozen=True)
class Array:
    """An array in registers: its base in an address space, extents and strides in elements."""

    base: str
    space: int
    element: Scalar
    dims: tuple[str, ...]
    strides: tuple[str, ...]
    read_only: bool = False


@dataclass
class _Target:
    """Where a Yield, Break, Continue or Return goes, and the values that arrive there by source block."""

    label: str
    arrivals: list[list[tuple[str, str]]]
    reached: bool = False


class Emitter(Arithmetic):
    """Emits one kernel; :meth:`module` gives the text."""

    def __init__(self, function: Function, data_layout: str):
        super().__init__(function.contract)
        self.function = function
        self._layout = data_layout
        self.arrays: dict[Value, Array] = {}
        self.witnesses: dict[Value, tuple[str, ...]] = {}
        self._globals: list[str] = []
        self._strings: dict[str, str] = {}
        self._yields: list[_Target] = []
        self._breaks: list[_Target] = []
        self._continues: list[_Target] = []
        self._returns: list[_Target | None] = [None]
        # An undeclared write through a bare pointer may reach any array: then nothing may be assumed about aliasing.
        self._isolated = not any(p.writable and not p.disjoint for p in function.parameters)

    def module(self) -> str:
        """The module's text."""
        self.blocks.start("entry")
        signature = ", ".join(self._parameters())
        for rule in self.function.assumptions:
            assume(self, rule)
        self._region(self.function.body)
        attributes = self._attributes()
        definition = (
            f"define ptx_kernel void @{self.function.name}({signature}) {attributes} {{\n{self.blocks.text()}\n}}"
        )
        head = [f'target datalayout = "{self._layout}"', 'target triple = "nvptx64-nvidia-cuda"']
        tail = ["!0 = !{}", '!1 = !{!"branch_weights", i32 1048575, i32 1}']
        return "\n".join([*head, *self._globals, *sorted(self.declarations.values()), definition, *tail]) + "\n"

    def _attributes(self) -> str:
        if self.function.block is not None:
            return '"nvvm.reqntid"="' + ",".join(map(str, self.function.block)) + '"'
        return f'"nvvm.maxntid"="{self.function.max_threads}"' if self.function.max_threads else ""

    # -- parameters

    def _parameters(self) -> list[str]:
        texts: list[str] = []
        for number, parameter in enumerate(self.function.parameters):
            type_, value = parameter.value.type, parameter.value
            if isinstance(type_, Scalar):
                name = f"%p{number}"
                texts.append(f"{memory_type(type_)} {name}")
                self.registers[value] = self.blocks.assign(f"trunc i8 {name} to i1") if type_ == bool_ else name
                continue
            assert isinstance(type_, (Pointer, Slice, Tensor))
            parts: dict[str, list[str]] = {"pointer": [], "length": [], "dim": [], "stride": []}
            for index, component in enumerate(components(type_)):
                name = f"%p{number}.{index}"
                parts[component.role].append(name)
                noalias = "noalias " if self._isolated else ""
                kind = {"pointer": f"ptr {noalias}", "length": f"i64 {_EXTENT} ", "dim": f"i64 {_EXTENT} "}
                texts.append(f"{kind.get(component.role, 'i64 ')}{name}")
            base = self.blocks.assign(f"addrspacecast ptr {parts['pointer'][0]} to ptr addrspace(1)")
            dims = tuple(parts["length"] + parts["dim"])
            strides = tuple(parts["stride"]) or ("1",)
            read_only = not parameter.writable and self._isolated
            self.arrays[value] = Array(base, 1, array_element(type_), dims, strides, read_only)
        return texts

    # -- the thread's place

    def geometry(self, kind: str, axis: int) -> str:
        """A special register as i64; a constant where the block is known."""
        block = self.function.block
        high = _LIMITS[kind][axis][1]
        if block is not None and kind == "block_dim":
            return str(block[axis])
        if block is not None and kind == "thread_index":
            high = block[axis]
            if high == 1:
                return "0"
        if kind == "thread_index" and block is None:
            thread, size = self._register(kind, axis), self._register("block_dim", axis)
            self.declare("llvm.assume", "void", "i1")
            inside = self.blocks.assign(f"icmp ult i32 {thread}, {size}")
            self.blocks.add(f"call void @llvm.assume(i1 {inside})")
            return self.blocks.assign(f"zext nneg i32 {thread} to i64")
        return self.blocks.assign(f"zext nneg i32 {self._register(kind, axis, high)} to i64")

    def _register(self, kind: str, axis: int, high: int | None = None) -> str:
        """A special register as i32, with the range that its values have."""
        low, limit = _LIMITS[kind][axis]
        high = limit if high is None else high
        name = self.declare(f"llvm.nvvm.read.ptx.sreg.{_SREG[kind]}.{'xyz'[axis]}", "i32", "")
        bound = high if high < 1 << 31 else high - (1 << 32)
        return self.blocks.assign(f"call range(i32 {low}, {bound}) i32 @{name}()")

    def on_geometry(self, op: ops.Geometry) -> None:
        self.registers[op.result] = self.geometry(op.kind, op.axis)

    def on_globalindex(self, op: ops.GlobalIndex) -> None:
        rank = op.result.type.rank  # type: ignore[union-attr]
        coordinates = []
        for axis in reversed(range(rank)):
            block, size = self.geometry("block_index", axis), self.geometry("block_dim", axis)
            first = self.blocks.assign(f"mul nuw nsw i64 {block}, {size}")
            thread = self.geometry("thread_index", axis)
            coordinates.append(self.blocks.assign(f"add nuw nsw i64 {first}, {thread}"))
        self.witnesses[op.result] = tuple(coordinates)

    def on_strideindex(self, op: ops.StrideIndex) -> None:
        self.witnesses[op.result] = (self.registers[op.index],)

    def on_coordinate(self, op: ops.Coordinate) -> None:
        self.registers[op.result] = self.witnesses[op.witness][op.axis]

    # -- memory

    def on_extent(self, op: ops.Extent) -> None:
        array = self.arrays[op.array]
        self.registers[op.result] = (array.dims if op.what == "dim" else array.strides)[op.axis]

    def on_sharedarray(self, op: ops.SharedArray) -> None:
        type_ = op.result.type
        assert isinstance(type_, Shared)
        element = memory_type(type_.element)
        if op.length:
            self.arrays[op.result] = self._dynamic_shared(type_, self.registers[op.length[0]], op.location)
            return
        name = f"@{self.function.name}_shared_{len(self._globals)}"
        count = type_.bytes // type_.element.size
        self._globals.append(f"{name} = internal addrspace(3) global [{count} x {element}] undef, align 16")
        strides = []
        for axis in range(type_.rank):
            stride = 1
            for extent in type_.shape[axis + 1 :]:
                stride *= extent
            strides.append(str(stride))
        self.arrays[op.result] = Array(name, 3, type_.element, tuple(map(str, type_.shape)), tuple(strides))

    def _dynamic_shared(self, type_: Shared, length: str, location: Location) -> Array:
        """The launch's dynamic shared memory, after a check that the launch brought enough of it."""
        name = f"@{self.function.name}_dynamic_shared"
        self._globals.append(f"{name} = external addrspace(3) global [0 x i8], align 16")
        register = self.declare("llvm.nvvm.read.ptx.sreg.dynamic_smem_size", "i32", "")
        size = self.blocks.assign(f"call i32 @{register}()")
        wide = self.blocks.assign(f"zext i32 {size} to i64")
        capacity = self.blocks.assign(f"udiv i64 {wide}, {type_.element.size}")
        enough = self.blocks.assign(f"icmp ule i64 {length}, {capacity}")
        self.require(enough, "the shared array is larger than the launch's dynamic shared memory", location)
        return Array(name, 3, type_.element, (length,), ("1",))

    def _address(self, op: ops.Load | ops.Store) -> tuple[Array, str]:
        """The array and the address of the element, checked if the operation is."""
        array = self.arrays[op.array]
        indices = self._indices(op.indices)
        if op.checked and array.dims:
            tests = [self.blocks.assign(f"icmp ult i64 {i}, {d}") for i, d in zip(indices, array.dims, strict=True)]
            inside = tests[0]
            for test in tests[1:]:
                inside = self.blocks.assign(f"and i1 {inside}, {test}")
            name = self.function.names.get(op.array)
            self.require(inside, f"an index of {f'{name!r}' if name else 'an array'} is out of range", op.location)
        offset = ""
        for index, stride in zip(indices, array.strides, strict=True):
            part = index if stride == "1" else self.blocks.assign(f"mul nsw i64 {index}, {stride}")
            offset = self.blocks.assign(f"add nsw i64 {offset}, {part}") if offset else part
        pointer = f"ptr addrspace({array.space})"
        return array, self.blocks.assign(
            f"getelementptr inbounds {memory_type(array.element)}, {pointer} {array.base}, i64 {offset}"
        )

    def _indices(self, values: tuple[Value, ...]) -> list[str]:
        if values[0] in self.witnesses:
            return list(self.witnesses[values[0]])
        types = [v.type for v in values]
        return [
            self.convert(self.registers[v], t, i64) for v, t in zip(values, types, strict=True) if isinstance(t, Scalar)
        ]

    def on_load(self, op: ops.Load) -> None:
        array, address = self._address(op)
        invariant = ", !invariant.load !0" if array.read_only else ""
        kind = memory_type(array.element)
        align = array.element.size
        loaded = self.blocks.assign(f"load {kind}, ptr addrspace({array.space}) {address}, align {align}{invariant}")
        if array.element == bool_:
            loaded = self.blocks.assign(f"icmp ne i8 {loaded}, 0")
        self.registers[op.result] = loaded

    def on_store(self, op: ops.Store) -> None:
        value = self.registers[op.value]
        array, address = self._address(op)
        if array.element == bool_:
            value = self.blocks.assign(f"zext i1 {value} to i8")
        kind = memory_type(array.element)
        self.blocks.add(f"store {kind} {value}, ptr addrspace({array.space}) {address}, align {array.element.size}")

    def on_barrier(self, op: ops.Barrier) -> None:
        name = self.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", "i32", " convergent")
        self.blocks.add(f"call void @{name}(i32 0) convergent")

    # -- checks

    def _string(self, text: str) -> str:
        if text not in self._strings:
            name = f"@{self.function.name}_text_{len(self._strings)}"
            constant, length = quote(text)
            self._globals.append(f"{name} = private unnamed_addr constant [{length} x i8] {constant}")
            self._strings[text] = name
        return self._strings[text]

    def require(self, condition: str, message: str, location: Location) -> None:
        """Goes on only if `condition` holds; else the kernel stops, as with a failed assert in CUDA C++."""
        blocks = self.blocks
        good, bad = blocks.label("ok"), blocks.label("fail")
        blocks.add(f"br i1 {condition}, label %{good}, label %{bad}, !prof !1")
        blocks.start(bad)
        name = self.declare("__assertfail", "void", "ptr, ptr, i32, ptr, i64", " nounwind cold")
        texts = [f"ptr {self._string(t)}" for t in (message, location.embedded or location.file, location.function)]
        blocks.add(f"call void @{name}({texts[0]}, {texts[1]}, i32 {location.line}, {texts[2]}, i64 1)")
        # Where __assertfail is a stub that returns, the trap still stops the kernel.
        blocks.add(f"call void @{self.declare('llvm.trap', 'void', '', ' cold noreturn nounwind')}()")
        blocks.add("unreachable")
        blocks.start(good)

    def on_assert(self, op: ops.Assert) -> None:
        self.require(self.registers[op.condition], op.message, op.location)

    # -- control flow

    def _region(self, region: Region) -> None:
        for op in region:
            getattr(self, f"on_{type(op).__name__.lower()}")(op)

    def _target(self, hint: str, count: int) -> _Target:
        return _Target(self.blocks.label(hint), [[] for _ in range(count)])

    def _jump(self, target: _Target, values: Sequence[Value]) -> None:
        self._jump_texts(target, [self.registers[v] for v in values])

    def _jump_texts(self, target: _Target, texts: Sequence[str]) -> None:
        for arrivals, text in zip(target.arrivals, texts, strict=True):
            arrivals.append((text, self.blocks.current))
        target.reached = True
        self.blocks.add(f"br label %{target.label}")

    def _arrive(self, target: _Target, results: Sequence[Value]) -> None:
        """Starts the target's block; its results are phis of what arrived."""
        self.blocks.start(target.label)
        if not target.reached:
            self.blocks.add("unreachable")
            # What the IR still has after this point needs a block to stand in.
            self.blocks.start(self.blocks.label("dead"))
        for result, arrivals in zip(results, target.arrivals, strict=True):
            assert isinstance(result.type, Scalar)
            kind = llvm_type(result.type)
            self.registers[result] = self.blocks.phi(kind, arrivals) if arrivals else "poison"

    def on_if(self, op: ops.If) -> None:
        then, otherwise = self.blocks.label("then"), self.blocks.label("else")
        target = self._target("join", len(op.results_))
        self.blocks.add(f"br i1 {self.registers[op.condition]}, label %{then}, label %{otherwise}")
        self._yields.append(target)
        for label, region in ((then, op.then), (otherwise, op.otherwise)):
            self.blocks.start(label)
            self._region(region)
        self._yields.pop()
        self._arrive(target, op.results_)

    def on_yield(self, op: ops.Yield) -> None:
        self._jump(self._yields[-1], op.values)

    def on_break(self, op: ops.Break) -> None:
        self._jump(self._breaks[-1], op.values)

    def on_continue(self, op: ops.Continue) -> None:
        self._jump(self._continues[-1], op.values)

    def on_return(self, op: ops.Return) -> None:
        target = self._returns[-1]
        if target is None:
            self.blocks.add("ret void")
        else:
            self._jump(target, op.values)

    def on_unreachable(self, op: ops.Unreachable) -> None:
        self.blocks.add("unreachable")

    def on_scope(self, op: ops.Scope) -> None:
        target = self._target("return", len(op.results_))
        self._returns.append(target)
        self._region(op.body)
        self._returns.pop()
        self._arrive(target, op.results_)

    def _header(self, carried: Sequence[Value], header: _Target) -> None:
        """The block where iterations start. Its phis take what Continue hands over, which comes later."""
        self.blocks.start(header.label)
        for value, arrivals in zip(carried, header.arrivals, strict=True):
            assert isinstance(value.type, Scalar)
            self.registers[value] = self.blocks.phi(llvm_type(value.type), arrivals)

    def on_while(self, op: ops.While) -> None:
        header, done = self._target("while", len(op.carried)), self._target("endwhile", len(op.results_))
        self._jump(header, op.initial)
        self._header(op.carried, header)
        for inner in op.condition.operations[:-1]:
            getattr(self, f"on_{type(inner).__name__.lower()}")(inner)
        test = self.registers[op.condition.terminator.operands[0]]
        body = self.blocks.label("body")
        # An endless loop is left by break only; results without an argument have no value on this edge.
        leaving = [self.registers[v] for v in op.carried] + ["poison"] * (len(op.results_) - len(op.carried))
        for arrivals, text in zip(done.arrivals, leaving, strict=True):
            arrivals.append((text, self.blocks.current))
        done.reached = True
        self.blocks.add(f"br i1 {test}, label %{body}, label %{done.label}")
        self._loop_body(op.body, body, header, done)
        self._arrive(done, op.results_)

    def _loop_body(self, region: Region, label: str, header: _Target, done: _Target) -> None:
        self.blocks.start(label)
        self._breaks.append(done)
        self._continues.append(header)
        self._region(region)
        self._breaks.pop()
        self._continues.pop()

    def on_for(self, op: ops.For) -> None:
        """``start < stop`` is tested before each iteration; the step is taken only if it does not pass the end, so
        that it cannot overflow: with a step of one the first test says so already."""
        type_ = op.induction.type
        assert isinstance(type_, Scalar)
        name, registers = llvm_type(type_), self.registers
        start, stop, step = registers[op.start], registers[op.stop], registers[op.step]
        count = len(op.carried)
        header, latch, done = self._target("for", count + 1), self._target("next", count), self._target("endfor", count)
        self._jump_texts(header, [start, *(registers[v] for v in op.initial)])
        self._header((op.induction, *op.carried), header)
        induction = registers[op.induction]
        inside = self._inside(induction, stop, step, type_, op.direction)
        body = self.blocks.label("body")
        carried = [registers[v] for v in op.carried]
        for arrivals, text in zip(done.arrivals, carried, strict=True):
            arrivals.append((text, self.blocks.current))
        done.reached = True
        self.blocks.add(f"br i1 {inside}, label %{body}, label %{done.label}")
        self._loop_body(op.body, body, latch, done)
        self._latch(op, latch, header, done, (name, induction, stop, step))
        self._arrive(done, op.results_)

    def _inside(self, index: str, stop: str, step: str, type_: Scalar, direction: int) -> str:
        name, assign = llvm_type(type_), self.blocks.assign
        sign = "s" if type_.kind == "int" else "u"
        if direction:
            return assign(f"icmp {sign}{'lt' if direction > 0 else 'gt'} {name} {index}, {stop}")
        below = assign(f"icmp {sign}lt {name} {index}, {stop}")
        above = assign(f"icmp {sign}gt {name} {index}, {stop}")
        up = assign(f"icmp {sign}gt {name} {step}, 0")
        return assign(f"select i1 {up}, i1 {below}, i1 {above}")

    def _latch(
        self, op: ops.For, latch: _Target, header: _Target, done: _Target, texts: tuple[str, str, str, str]
    ) -> None:
        name, induction, stop, step = texts
        type_ = op.induction.type
        assert isinstance(type_, Scalar)
        assign = self.blocks.assign
        arguments = [Value(v.type) for v in op.carried]
        self._arrive(latch, arguments)
        values = [self.registers[v] for v in arguments]
        wrap = "nsw" if type_.kind == "int" else "nuw"
        if step not in ("1", "-1"):
            going_on = self.blocks.label("step")
            remaining, size = self._remaining(name, induction, stop, step, op.direction, type_)
            more = assign(f"icmp ult {name} {size}, {remaining}")
            for arrivals, text in zip(done.arrivals, values, strict=True):
                arrivals.append((text, self.blocks.current))
            self.blocks.add(f"br i1 {more}, label %{going_on}, label %{done.label}")
            self.blocks.start(going_on)
        following = assign(f"add {wrap} {name} {induction}, {step}")
        self._jump_texts(header, [following, *values])

    def _remaining(self, name: str, index: str, stop: str, step: str, direction: int, type_: Scalar) -> tuple[str, str]:
        """The distance to the end and the size of a step, both as unsigned numbers."""
        assign = self.blocks.assign
        ahead = assign(f"sub {name} {stop}, {index}") if direction >= 0 else ""
        behind = assign(f"sub {name} {index}, {stop}") if direction <= 0 else ""
        negated = assign(f"sub {name} 0, {step}") if direction <= 0 else ""
        if direction:
            return (ahead, step) if direction > 0 else (behind, negated)
        up = assign(f"icmp {'s' if type_.kind == 'int' else 'u'}gt {name} {step}, 0")
        remaining = assign(f"select i1 {up}, {name} {ahead}, {name} {behind}")
        return remaining, assign(f"select i1 {up}, {name} {step}, {name} {negated}")


def emit_module(function: Function, data_layout: str) -> tuple[str, frozenset[str]]:
    """The LLVM module of a kernel, and the libdevice functions that it calls."""
    emitter = Emitter(function, data_layout)
    text = emitter.module()
    return text, frozenset(emitter.libdevice)


__all__ = ["Array", "Emitter", "Operation", "emit_module"]

"""The source of a hot path: one kernel, one device, one set of argument types, one form of configuration.

The function takes the arguments and the configuration that the call gives, and returns whether it has launched. It
accepts nothing that :mod:`.execute` would not accept, and packs the same bytes. Whatever it is not sure of, it leaves
to the slow path by returning False before anything has happened.
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from abi import ArrayValue, BlockKind, DeviceError, Error, ExecutionError, Pointer, Scalar
from abi import rule_ast as ast
from abi.rule_ast import INT64_MAX
from abi.rules import rules_of

from .arrays import cupy_stream, numpy_scalar, torch_stream
from .device import ENVIRONMENT_VARIABLE, Device, DeviceKey, LoadedKernel
from .execute import overlaps_itself
from .hot_memory import emit_memory
from .hot_rules import TRUE, Expression, NotInline, inline
from .memory import DeviceArray
from .plan import ArgumentPlan, KernelPlan, Kind
from .scalars import FLOAT_LIMITS, bf16_bits
from .stream import stream_handle

LIMIT = 2**31
"""Counts, and integers in rules, above this go to the slow path, so that products of two of them fit 63 bits."""
_EXACT_FLOAT = 2**53
MISSES = (
    TypeError, ValueError, AttributeError, ArithmeticError, LookupError, RuntimeError, BufferError, struct.error, Error,
)  # fmt: skip
"""What reading an odd argument may raise. Others are not ours, such as those that signal handlers raise: they pass."""


class Shape(NamedTuple):
    """Which parts of the configuration a call gives, and the device that it insists on."""

    grid: bool = False
    block: bool = False
    stream: bool = False
    shared: bool = False
    device: DeviceKey | None = None


@dataclass
class Array:
    """What the source calls the values of one array argument. ``dims`` and ``strides`` are those of tensors."""

    position: int
    plan: ArgumentPlan
    itemsize: int
    framework: str
    dims: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return f"p{self.position}"

    @property
    def count(self) -> str:
        return f"n{self.position}"

    @property
    def dense(self) -> str:
        """The condition that a tensor's elements follow one another; extents of one may make it false as well."""
        expected = [
            "1" if axis + 1 == len(self.dims) else f"{self.dims[axis + 1]} * {self.strides[axis + 1]}"
            for axis in range(len(self.dims))
        ]
        return " and ".join(f"{s} == {e}" for s, e in zip(self.strides, expected))


class Source:
    """Collects the lines of one function and the values that they name."""

    def __init__(
        self, plan: KernelPlan, shape: Shape, device: Device, loaded: LoadedKernel, args: tuple[Any, ...]
    ) -> None:
        self.plan, self.shape, self.device, self.loaded, self.args = plan, shape, device, loaded, args
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"DEVICE": device.key}
        self.arrays: dict[str, Array] = {}
        self.integers: dict[str, Expression] = {}
        self.hidden: dict[str, str] = {}
        self.guarded: set[str] = set()
        self.block: tuple[Expression, ...] = ()
        self.grid: tuple[Expression, ...] = ()
        self.shared = Expression("0")

    # -- lines ---------------------------------------------------------------------------------------------------

    def add(self, line: str) -> None:
        self.lines.append(line)

    def miss(self, condition: str) -> None:
        """The slow path takes the call when `condition` holds."""
        self.add(f"if {condition}:")
        self.add("    return False")

    def guard(self, name: str, low: int = -LIMIT) -> None:
        """Bounds an integer that a rule reads."""
        if name not in self.guarded:
            self.guarded.add(name)
            self.miss(f"not {low} <= {name} <= {LIMIT}")

    # -- arguments -----------------------------------------------------------------------------------------------

    def arguments(self) -> None:
        names = [f"v{i}" for i in range(len(self.plan.arguments))]
        said = comment(", ".join(a.name for a in self.plan.arguments))
        self.add(f"{', '.join(names)}, = args  {said}" if names else "() = args")
        for position, (argument, value) in enumerate(zip(self.plan.arguments, self.args)):
            if argument.kind is Kind.SCALAR:
                self._scalar(position, argument.name)
            elif argument.kind is Kind.BYTES:
                if type(value) is not bytes:
                    raise NotInline("a byte block that is not bytes")
                self.miss(f"type(v{position}) is not bytes or len(v{position}) != {argument.size}")
            else:
                self._array(position, argument, value)
        self._alignment()

    def _alignment(self) -> None:
        """Every address is a multiple of the element size: one test for all addresses of a size, a power of two."""
        sizes: dict[int, list[str]] = {}
        for array in self.arrays.values():
            sizes.setdefault(array.itemsize, []).append(array.address)
        for size, addresses in sizes.items():
            if size & (size - 1):
                self.miss(" or ".join(f"{address} % {size}" for address in addresses))
            elif size > 1:
                self.miss(f"({' | '.join(addresses)}) & {size - 1}")

    def _scalar(self, position: int, name: str) -> None:
        type_, value = self.plan.kernel.param(name).type, f"v{position}"
        assert isinstance(type_, Scalar)
        kinds, number = {"int": ("iu", "int"), "uint": ("iu", "int"), "float": ("iuf", "float")}.get(
            type_.kind, ("", "")
        )
        if _is_numpy_number(self.args[position], kinds):
            self.names[f"T{position}"] = type(self.args[position])
            self.add(f"if type({value}) is T{position}:")
            self.add(f"    {value} = {number}({value})")
        if type_.kind == "bool":
            self.miss(f"{value} is not True and {value} is not False")
            self.integers[name] = Expression(value, condition=True)
        elif type_.kind == "float":
            self.miss(
                f"type({value}) is not float and "
                f"(type({value}) is not int or not {-_EXACT_FLOAT} <= {value} <= {_EXACT_FLOAT})"
            )
            limit = FLOAT_LIMITS.get(type_.name)
            if limit is not None:
                self.miss(f"not {-limit!r} < {value} < {limit!r} and {value} - {value} == 0")
            if type_.name == "bf16":
                self.names["BF16_BITS"] = bf16_bits
                self.add(f"{value} = BF16_BITS(float({value}))")
        else:
            low, high = type_.minimum, type_.maximum
            self.miss(f"type({value}) is not int or not {low} <= {value} <= {high}")
            self.integers[name] = Expression(value, low, high)

    def _array(self, position: int, argument: ArgumentPlan, value: Any) -> None:
        read = reader(value)
        if read is None:
            raise NotInline(f"a {type(value).__name__}")
        tensor = argument.kind is Kind.TENSOR
        axes = range(argument.rank if tensor else 0)
        dims, strides = (tuple(f"{letter}{position}_{axis}" for axis in axes) for letter in "ds")
        array = Array(position, argument, read.itemsize, read.framework, dims, strides)
        self.names[f"T{position}"], self.names[f"D{position}"] = type(value), read.dtype
        self.miss(f"type(v{position}) is not T{position}")
        getattr(self, f"_{read.framework}")(array, tensor)
        if tensor:
            self.add(f"n{position} = {' * '.join(dims)}")
        # No elements: what then holds of address and extents, the slow path knows.
        self.miss(f"not 0 < n{position} <= {LIMIT}")
        if tensor and argument.writes:
            self.names["OVERLAPS_ITSELF"] = overlaps_itself
            shape, steps = f"({', '.join(dims)},)", f"({', '.join(strides)},)"
            self.miss(f"not ({array.dense}) and OVERLAPS_ITSELF({shape}, {steps})")
        self.arrays[argument.name] = array

    def _own(self, array: Array, tensor: bool) -> None:
        i = array.position
        self.add(f"w{i} = v{i}._view")
        self.miss(f"w{i}.dtype is not D{i} or w{i}.device is not DEVICE")
        self.add(f"p{i} = w{i}.address")
        if tensor:
            self.add(f"{', '.join(array.dims)}, = w{i}.shape")
            self.add(f"{', '.join(array.strides)}, = w{i}.strides")
        else:
            self.miss(f"not (w{i}._contiguous or w{i}.is_contiguous)")
            self.add(f"n{i} = w{i}._count or w{i}.count")

    def _numpy(self, array: Array, tensor: bool) -> None:
        i = array.position
        self.miss(f"v{i}.dtype != D{i}")
        self.add(f"f{i} = v{i}.flags")
        if array.plan.writes:
            self.miss(f"not f{i}.writeable")
        if not tensor:
            self.miss(f"not f{i}.c_contiguous")
            self.add(f"n{i} = v{i}.size")
        dtype = self.args[i].dtype
        if tensor or dtype.kind not in "biuf" or dtype.isbuiltin != 1:
            self.add(f'p{i} = v{i}.__array_interface__["data"][0]')
        else:
            # A fifth of the time. Only contiguous arrays of NumPy's own types have such a buffer.
            from ..executor._native import ffi

            self.names |= {"CAST": ffi.cast, "UINTPTR": ffi.typeof("uintptr_t"), "BUFFER": ffi.from_buffer}
            self.add(f"p{i} = int(CAST(UINTPTR, BUFFER(v{i})))")
        if not tensor:
            return
        self.add(f"{', '.join(array.dims)}, = v{i}.shape")
        self.add(f"if f{i}.c_contiguous:")
        for axis in reversed(range(len(array.dims))):
            last = axis + 1 == len(array.dims)
            step = "1" if last else f"{array.strides[axis + 1]} * {array.dims[axis + 1]}"
            self.add(f"    {array.strides[axis]} = {step}")
        self.add("else:")
        self._byte_strides(array, "    ")

    def _byte_strides(self, array: Array, indent: str = "") -> None:
        i, size = array.position, array.itemsize
        self.add(f"{indent}{', '.join(array.strides)}, = v{i}.strides")
        self.add(f"{indent}if {' or '.join(f'{s} % {size}' for s in array.strides)}:")
        self.add(f"{indent}    return False")
        for stride in array.strides:
            self.add(f"{indent}{stride} //= {size}")

    def _torch(self, array: Array, tensor: bool) -> None:
        i = array.position
        self.names["TORCH_DEVICE"] = self.args[i].device
        self.miss(f"v{i}.dtype is not D{i} or v{i}.device != TORCH_DEVICE or v{i}.is_neg()")
        # A tensor without memory of its own, sparse or of a transformation, has no address; a fake one has zero.
        self.add(f"p{i} = v{i}.data_ptr()")
        if tensor:
            self.add(f"{', '.join(array.dims)}, = v{i}.shape")
            self.add(f"{', '.join(array.strides)}, = v{i}.stride()")
            self.miss(f"not p{i}")
        else:
            self.miss(f"not p{i} or not v{i}.is_contiguous() or v{i}.is_nested")
            self.add(f"n{i} = v{i}.numel()")

    def _cupy(self, array: Array, tensor: bool) -> None:
        i = array.position
        self.miss(f"v{i}.dtype != D{i}")
        self.add(f"m{i} = v{i}.data")
        self.miss(f"m{i}.device_id != {self.device.index}")
        self.add(f"p{i} = m{i}.ptr")
        if tensor:
            self.add(f"{', '.join(array.dims)}, = v{i}.shape")
            self._byte_strides(array)
        else:
            flag = "_c_contiguous" if hasattr(self.args[i], "_c_contiguous") else "flags.c_contiguous"
            self.miss(f"not v{i}.{flag}")
            self.add(f"n{i} = v{i}.size")

    # -- rules ---------------------------------------------------------------------------------------------------

    def leaf(self, leaf: ast.Leaf) -> Expression:
        """How a rule's leaf is spelled here."""
        if isinstance(leaf, ast.LaunchDim):
            dims = self.block if leaf.base == "block" else self.grid
            if not dims:
                raise NotInline(ast.leaf_text(leaf))
            return dims["xyz".index(leaf.axis)]
        if isinstance(leaf, ast.Name):
            return self._number(leaf)
        array = self.arrays.get(leaf.name)
        if array is None:
            raise NotInline(ast.leaf_text(leaf))
        if isinstance(leaf, ast.Len):
            return Expression(array.count, 1, LIMIT)
        if isinstance(leaf, ast.Aligned):
            return Expression(f"({array.address} % {leaf.bytes} == 0)", condition=True)
        if isinstance(leaf, ast.Disjoint):
            return self._disjoint(leaf, array)
        names = array.dims if isinstance(leaf, ast.Dim) else array.strides
        if leaf.axis >= len(names):
            raise NotInline(ast.leaf_text(leaf))
        if isinstance(leaf, ast.Dim):
            return Expression(names[leaf.axis], 1, LIMIT)
        self.guard(names[leaf.axis])
        return Expression(names[leaf.axis], -LIMIT, LIMIT)

    def _number(self, leaf: ast.Name) -> Expression:
        found = self.integers.get(leaf.name)
        if found is None:
            raise NotInline(leaf.name)
        if found.condition or (found.low >= -LIMIT and found.high <= 2 * LIMIT):
            return found
        self.guard(found.text)
        return Expression(found.text, max(found.low, -LIMIT), min(found.high, LIMIT))

    def _disjoint(self, leaf: ast.Disjoint, mine: Array) -> Expression:
        if leaf.others is None:
            raise NotInline(ast.leaf_text(leaf))
        tests = []
        for name in leaf.others:
            other = self.arrays.get(name)
            if other is None:
                raise NotInline(ast.leaf_text(leaf))
            first, second = sorted((mine, other), key=lambda a: a.position)
            (b0, e0), (b1, e1) = self.extent(first), self.extent(second)
            tests.append(f"({e0} <= {b1} or {e1} <= {b0})")
        return Expression(f"({' and '.join(tests)})", condition=True) if tests else TRUE

    def extent(self, array: Array) -> tuple[str, str]:
        """The names of the first byte of an array and of the first one after it."""
        i, contiguous = array.position, f"p{array.position} + n{array.position} * {array.itemsize}"
        begin, end = (f"b{i}", f"e{i}") if array.dims else (array.address, f"e{i}")
        if end in self.guarded:
            return begin, end
        self.guarded.add(end)
        if not array.dims:
            self.add(f"{end} = {contiguous}")
            return begin, end
        self.names["ArrayValue"] = ArrayValue
        dims, strides = f"({', '.join(array.dims)},)", f"({', '.join(array.strides)},)"
        self.add(f"if {array.dense}:")
        self.add(f"    {begin}, {end} = p{i}, {contiguous}")
        self.add("else:")
        self.add(f"    {begin}, {end} = ArrayValue(p{i}, {dims}, {strides}, {array.itemsize}).extent")
        return begin, end

    # -- block, hidden parameters, grid, shared memory, preconditions --------------------------------------------

    def blocks(self) -> None:
        limits, rule = self.device.limits, self.plan.block
        most = min(limits.threads, self.loaded.max_threads)
        if not self.shape.block:
            x, y, z = rule.dims
            within = all(1 <= n <= limit for n, limit in zip(rule.dims, limits.block))
            if rule.kind is BlockKind.ANY or not within or x * y * z > most:
                raise NotInline("a block that is refused")
            self.block = tuple(Expression(str(n), n, n) for n in rule.dims)
            return
        self.add("bx, by, bz = given[1]")
        x, y, z = limits.block
        self.miss(f"not (1 <= bx <= {x} and 1 <= by <= {y} and 1 <= bz <= {z} and bx * by * bz <= {most})")
        self.block = tuple(Expression(f"b{axis}", 1, n) for axis, n in zip("xyz", limits.block))
        x, y, z = rule.dims
        if rule.kind is BlockKind.EXACT:
            self.miss(f"bx != {x} or by != {y} or bz != {z}")
        elif rule.kind is BlockKind.UP_TO:
            self.miss(f"bx * by * bz > {x * y * z}")
        elif rule.kind is BlockKind.MULTIPLE_OF:
            self.miss(f"bx % {x}")

    def fills(self) -> None:
        filled: dict[str, Expression] = {}
        for number, (param, rule) in enumerate(rules_of(self.plan.kernel).fills):
            name, found = f"h{number}", inline(rule.node, self.leaf)
            self.hidden[param.name] = name
            self.add(f"{name} = {found.text}")
            if found.condition:
                filled[param.name] = Expression(name, condition=True)
                continue
            if isinstance(param.type, Pointer):
                low, high = 0, INT64_MAX
            else:
                assert isinstance(param.type, Scalar)
                low, high = param.type.minimum, param.type.maximum
            if found.low < low or found.high > high:
                self.miss(f"not {low} <= {name} <= {high}")
            filled[param.name] = Expression(name, max(low, found.low), min(high, found.high))
        self.integers.update(filled)  # a fill rule reads only what callers pass; later rules read all

    def grids(self) -> None:
        limits = self.device.limits.grid
        names = [f"g{axis}" for axis in "xyz"]
        ranges = [(1, limit) for limit in limits]
        if self.shape.grid:
            self.add("gx, gy, gz = given[0]")
            self.miss(f"not ({' and '.join(f'1 <= {n} <= {limit}' for n, limit in zip(names, limits))})")
        else:
            rules = rules_of(self.plan.kernel).grid
            if not rules:
                raise NotInline("no grid rule")
            found = [inline(rule.node, self.leaf) for rule in rules] + [Expression("1", 1, 1)] * (3 - len(rules))
            for axis, (expression, limit) in enumerate(zip(found, limits)):
                if expression.constant and 1 <= expression.low <= limit:
                    names[axis], ranges[axis] = expression.text, (expression.low, expression.high)
                    continue
                self.add(f"{names[axis]} = {expression.text}")
                if expression.low < 1 or expression.high > limit:
                    self.miss(f"not 1 <= {names[axis]} <= {limit}")
                ranges[axis] = max(1, expression.low), min(limit, expression.high)
        self.grid = tuple(Expression(name, low, high) for name, (low, high) in zip(names, ranges))

    def shared_memory(self) -> None:
        most = self.device.limits.shared - self.loaded.static_shared
        rule = rules_of(self.plan.kernel).shared
        if self.shape.shared:
            self.add("shared = given[3]")
            found = Expression("shared", -1, INT64_MAX)
            needed = inline(rule.node, self.leaf) if rule is not None else Expression("0")
            if needed.high > 0 or not needed.total:
                self.miss(f"shared < {needed.text}")
            if needed.low < 0:
                self.miss(f"{needed.text} < 0")
        else:
            if rule is None:
                raise NotInline("no rule for shared memory")
            found = inline(rule.node, self.leaf)
            if found.constant and 0 <= found.low <= most:
                self.shared = found
                return
            self.add(f"shared = {found.text}")
        if found.low < 0 or found.high > most:
            self.miss(f"not 0 <= shared <= {most}")
        self.shared = Expression("shared", 0, most)

    def requirements(self) -> None:
        seen = {TRUE.text}
        for _, rule in rules_of(self.plan.kernel).requires:
            found = inline(rule.node, self.leaf)
            if found.text not in seen:
                seen.add(found.text)
                self.miss(f"not {found.text}")

    # -- stream and launch ---------------------------------------------------------------------------------------

    def streams(self) -> str:
        """How the stream is spelled. Streams that would have to be ordered are left to the slow path."""
        if self.shape.stream:
            self.names |= {"STREAM_HANDLE": stream_handle, "TARGET": self.device}
            self.add(f"stream = STREAM_HANDLE(given[2], TARGET, {f'{self.plan.name}: stream'!r})")
            return "stream"
        frameworks = dict.fromkeys(array.framework for array in self.arrays.values())
        current = [f for f in frameworks if f in ("torch", "cupy")]
        if self.device.kind == "cpu" or not current:
            return "0"
        raw = getattr(getattr(sys.modules.get("torch"), "_C", None), "_cuda_getCurrentRawStream", torch_stream)
        self.names |= {"torch_stream": raw, "cupy_stream": cupy_stream}
        self.add(f"stream = {current[0]}_stream({self.device.index})")
        for other in current[1:]:
            self.miss(f"stream != {other}_stream({self.device.index})")
        if "own" in frameworks:
            self.miss("stream")  # our own arrays' work is on the default stream
        return "stream"

    def packed(self) -> str:
        """The machine values in the order of the buffer."""
        values: list[tuple[str, ...]] = []
        for position, argument in enumerate(self.plan.arguments):
            array = self.arrays.get(argument.name)
            if array is None:
                values.append((f"v{position}",))
            else:
                values.append((array.address, *(array.dims + array.strides if array.dims else (array.count,))))
        values += [(self.hidden[param.name],) for param in self.plan.hidden]
        return ", ".join(values[parameter][part] for parameter, part in self.plan.sequence)

    def text(self) -> str:
        """The whole function."""
        self.environment()
        self.arguments()
        self.blocks()
        self.fills()
        self.grids()
        self.shared_memory()
        self.requirements()
        stream = self.streams()
        direct = getattr(self.loaded, "direct", None)
        after = self._launch_direct(stream, direct) if direct is not None else self._launch_through(stream)
        body = [f"        {line}" for line in self.lines]
        head = ["def launch(args, given):", f"    {comment(f'{self.plan.name} on {self.device.key}')}", "    try:"]
        self.names["MISSES"] = MISSES
        return "\n".join([*head, *body, "    except MISSES:", "        return False", *after, ""])

    def environment(self) -> None:
        """The one variable that may forbid the device; the mapping behind :data:`os.environ` is ten times cheaper."""
        mapping, kind = getattr(os.environ, "_data", None), self.device.kind
        variable: str | bytes = os.fsencode(ENVIRONMENT_VARIABLE)
        allowed: tuple[str | bytes, ...] = (b"", os.fsencode(kind))
        if not isinstance(mapping, dict) or os.fsencode("PATH") not in mapping:
            mapping, variable, allowed = os.environ, ENVIRONMENT_VARIABLE, ("", kind)
        self.names |= {"ENVIRONMENT": mapping, "VARIABLE": variable, "ALLOWED": allowed}
        self.miss("VARIABLE in ENVIRONMENT and ENVIRONMENT[VARIABLE] not in ALLOWED")

    def _dimensions(self) -> tuple[str, str]:
        return ", ".join(g.text for g in self.grid), ", ".join(b.text for b in self.block)

    def _launch_direct(self, stream: str, direct: Any) -> list[str]:
        """Through the driver's function at once. Whatever fails has queued nothing: the slow path finds out what."""
        self.names |= direct(self.plan.packer.size)
        self.names["PACK_INTO"] = self.plan.packer.pack_into
        grid, block = self._dimensions()
        if not self.shared.constant:
            self.miss("shared > KERNEL.shared_allowed")
        self.add("try:")
        self.add("    buffer = FREE.pop()")
        self.add("except IndexError:")
        self.add("    buffer = NEW_BUFFER()")
        values = self.packed()
        self.add(f"PACK_INTO(buffer[0], AT{', ' + values if values else ''})")
        # The driver takes None for the default stream without making a handle object.
        handle = "None" if stream == "0" else f"{stream} or None"
        arguments = f"(FUNCTION, {grid}, {block}, {self.shared.text}, {handle}, 0, buffer[1])"
        self.add("here = int(CURRENT()[1]) == CONTEXT")
        return [
            "    if here:",
            f"        failed = LAUNCH{arguments}[0]",
            "    else:",
            f"        failed = LAUNCH_ELSEWHERE{arguments}[0]",
            "    FREE.append(buffer)",
            "    return not failed",
        ]

    def _launch_through(self, stream: str) -> list[str]:
        """Through the loaded kernel's own method, outside the part that may fail without a trace."""
        self.names |= {"LAUNCH": self.loaded.launch, "PACK": self.plan.packer.pack}
        self.names |= {"ExecutionError": ExecutionError, "DeviceError": DeviceError}
        grid, block = self._dimensions()
        memory = emit_memory(self)
        self.add(f"params = PACK({self.packed()})")
        return [
            "    try:",
            f"        LAUNCH(({grid}), ({block}), {self.shared.text}, {stream}, params{memory})",
            "    except ExecutionError:",
            "        raise",
            "    except DeviceError:  # nothing ran: the slow path tells the arguments",
            "        return False",
            "    return True",
        ]


def comment(text: str) -> str:
    """`text` as a comment of one line, whatever a name holds: a line break in it would end the comment.

    >>> comment("saxpy on cpu"), comment("a\\nb")
    ('# saxpy on cpu', "# 'a\\\\nb'")
    """
    return f"# {text if text.isprintable() else ascii(text)}"


def _is_numpy_number(value: Any, kinds: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.number) and value.dtype.kind in tuple(kinds)


@dataclass(frozen=True)
class Reader:
    """How an array is read: by which library's attributes, and the dtype that it must have."""

    framework: str
    dtype: Any
    itemsize: int


def reader(value: Any) -> Reader | None:
    """The reader of arrays of exactly `value`'s type and dtype; None where only the slow path knows."""
    type_ = type(value)
    if type_ is DeviceArray:
        return Reader("own", value.view().dtype, value.view().itemsize)
    torch, numpy, cupy = (sys.modules.get(name) for name in ("torch", "numpy", "cupy"))
    if numpy is not None and type_ is numpy.ndarray:
        return Reader("numpy", value.dtype, value.dtype.itemsize)
    if torch is not None and type_ in (torch.Tensor, getattr(getattr(torch, "nn", None), "Parameter", None)):
        # Complex tensors may be conjugated lazily.
        return None if value.dtype.is_complex else Reader("torch", value.dtype, value.element_size())
    if cupy is not None and type_ is getattr(cupy, "ndarray", None):
        if numpy_scalar(value.dtype) is None:
            return None
        return Reader("cupy", value.dtype, int(value.dtype.itemsize))
    return None

"""The first form of a pipeline: an ordered list of kernel calls over named buffers.

A pipeline is declared once, checked while it is declared, and run any number of times on the device where the arrays
that it is given live.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from abi import SCALARS, Access, ArgumentTypeError, BlockKind, Error, Kernel, Param, Pointer, Scalar, Slice, Tensor
from abi.rules import ArrayValue, Environment, Rule, parse

if TYPE_CHECKING:
    from ..runtime import Launchable
    from ..runtime.plan import ArgumentPlan


MAX_RANK = 8
"""The most dimensions that a tensor parameter can have."""


@dataclass(frozen=True)
class Buffer:
    """A named array of a pipeline. ``shape`` is empty for one that the caller passes to :meth:`Pipeline.run`; else it
    has a rule for each axis and the pipeline allocates the array."""

    name: str
    dtype: Scalar
    rank: int
    shape: tuple[Rule, ...] = ()

    @property
    def is_temporary(self) -> bool:
        return bool(self.shape)


@dataclass(frozen=True)
class ScalarInput:
    """A named number that the caller passes to :meth:`Pipeline.run`."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Formula:
    """A scalar argument computed from the buffers' extents and the scalar inputs when the pipeline runs."""

    rule: Rule


Argument = Buffer | ScalarInput | Formula | int | float | bool | bytes


@dataclass(frozen=True)
class Step:
    """One kernel call of a pipeline."""

    kernel: Launchable
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class StepTiming:
    """What :meth:`Pipeline.profile` measured for one step: wall-clock seconds including the wait for the device."""

    kernel: str
    language: str
    device: str
    seconds: float


class Pipeline:
    """Kernel calls over named buffers, run in the order in which they were added.

    >>> import numpy as np, interop as io
    >>> from interop import simt
    >>> @simt.kernel(block=128, grid="ceil_div(len(y), block.x)", requires=["len(x) == len(y)"])
    ... def double(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    ...     i = simt.global_index()
    ...     if i < len(y):
    ...         y[i] = x[i] + x[i]
    >>> p = io.Pipeline("quadruple")
    >>> x, y = p.buffer("x", io.f32), p.buffer("y", io.f32)
    >>> once = p.buffer("once", io.f32, shape=["len(x)"])   # allocated by the pipeline
    >>> p.add(double, x, once)
    >>> p.add(double, once, y)
    >>> out = p.run(x=np.ones(4, np.float32), y=np.empty(4, np.float32))
    >>> out["y"]
    array([4., 4., 4., 4.], dtype=float32)
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise Error(f"'{name}' cannot name a pipeline: use letters, digits and _")
        self.name = name
        self._inputs: dict[str, Buffer | ScalarInput] = {}
        self._steps: list[Step] = []
        self._written: set[str] = set()

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {', '.join(step.kernel.name for step in self._steps) or 'no steps'}>"

    # -- declaration ---------------------------------------------------------------------------------------------

    def buffer(self, name: str, dtype: Scalar, rank: int = 1, *, shape: Sequence[str] = ()) -> Buffer:
        """Declares an array. Without `shape` the caller passes it to :meth:`run`; with it the pipeline allocates it.

        `shape` has a rule for each axis over the buffers and scalars declared so far, such as ``"dim(src, 0)"``.
        """
        if dtype not in SCALARS.values():
            raise Error(f"buffer '{name}' of pipeline '{self.name}': {dtype!r} is not a dtype; write io.f32, io.i32, …")
        if isinstance(shape, str):
            raise Error(f"buffer '{name}' of pipeline '{self.name}': shape is a list with a rule an axis: ['{shape}']")
        rules = tuple(self._rule(text) for text in shape)
        if not isinstance(rank, int) or not 1 <= (len(rules) or rank) <= MAX_RANK:
            raise Error(f"buffer '{name}' of pipeline '{self.name}': an array has 1 to {MAX_RANK} dimensions")
        buffer = Buffer(name, dtype, len(rules) or rank, rules)
        self._declare(name, buffer)
        return buffer

    def scalar(self, name: str, dtype: Scalar) -> ScalarInput:
        """Declares a number that the caller passes to :meth:`run`."""
        if dtype not in SCALARS.values():
            raise Error(f"scalar '{name}' of pipeline '{self.name}': {dtype!r} is not a dtype; write io.f32, io.i32, …")
        value = ScalarInput(name, dtype)
        self._declare(name, value)
        return value

    def formula(self, rule: str) -> Formula:
        """An integer argument computed at run time, such as ``p.formula("dim(src, 1)")``."""
        return Formula(self._rule(rule))

    def add(self, kernel: Launchable, *arguments: Argument) -> None:
        """Appends the call ``kernel(*arguments)``. The kernel's grid and block follow from its contract.

        Arguments are buffers, scalar inputs, formulas, plain numbers and structures, of which the values are taken
        now. A wrong count, a buffer of another dtype or rank, a temporary read before a step has written it, and a
        kernel whose contract leaves grid, block or shared memory to the call are errors here, before anything runs.
        """
        from ..runtime.plan import make_plan

        if not hasattr(kernel, "program"):
            raise ArgumentTypeError(f"pipeline {self.name}: {kernel!r} is not a kernel")
        described = kernel.program().kernel
        self._check_launch(kernel.name, described)
        params = described.visible_params
        if len(arguments) != len(params):
            wanted = ", ".join(p.name for p in params)
            raise ArgumentTypeError(
                f"pipeline {self.name}: {kernel.name} takes {len(params)} arguments ({wanted}), not {len(arguments)}"
            )
        plans = make_plan(described, kernel.structs).arguments
        taken = [self._take(kernel.name, *each) for each in zip(params, plans, arguments)]
        for param, argument in zip(params, arguments):
            if isinstance(argument, Buffer) and param.access.writes:
                self._written.add(argument.name)
        self._steps.append(Step(kernel, tuple(taken)))

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, *, stream: object = None, **inputs: Any) -> dict[str, Any]:
        """Runs every step in order and returns the buffers that were written, by name.

        The device follows from the arrays as in a plain call. On a GPU the steps are queued on `stream` and this
        returns without waiting.
        """
        values = self._bind(inputs)
        for step in self._steps:
            self._launch(step, values, stream)
        return {name: values[name] for name in self._inputs if name in self._written}

    def profile(self, **inputs: Any) -> tuple[dict[str, Any], list[StepTiming]]:
        """Like :meth:`run`, waiting for the device around each step, with the time that each took."""
        values = self._bind(inputs)
        device = self._device(values)
        timings = []
        for step in self._steps:
            device.synchronize()
            start = time.perf_counter()
            self._launch(step, values, None)
            device.synchronize()
            seconds = time.perf_counter() - start
            language = step.kernel.program().kernel.language
            timings.append(StepTiming(step.kernel.name, language, device.name, seconds))
        return {name: values[name] for name in self._inputs if name in self._written}, timings

    # -- internals -----------------------------------------------------------------------------------------------

    def _declare(self, name: str, value: Buffer | ScalarInput) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise Error(f"'{name}' cannot name a buffer or scalar of pipeline '{self.name}'")
        if name in ("self", "stream"):
            raise Error(f"pipeline '{self.name}': run() has a parameter '{name}' of its own; choose another name")
        if name in self._inputs:
            raise Error(f"pipeline '{self.name}' has a buffer or scalar '{name}' already")
        self._inputs[name] = value

    def _params(self) -> list[Param]:
        """The declared names as parameters, so that rules about them are parsed as a kernel's are."""
        return [
            Param(v.name, Tensor(v.dtype, v.rank)) if isinstance(v, Buffer) else Param(v.name, v.dtype)
            for v in self._inputs.values()
        ]

    def _rule(self, text: str) -> Rule:
        if not isinstance(text, str):
            raise Error(f'pipeline {self.name}: {text!r} is not a rule; rules are texts such as "dim(src, 0)"')
        return parse(text, self._params())

    def _check_launch(self, kernel: str, described: Kernel) -> None:
        launch = described.launch
        known = {
            "block": launch.block.kind is not BlockKind.ANY,
            "grid": bool(launch.grid),
            "shared": bool(launch.shared.strip()),
        }
        missing = [f"{what}=..." for what, is_known in known.items() if not is_known]
        if missing:
            raise ArgumentTypeError(
                f"pipeline {self.name}: the contract of {kernel} leaves {', '.join(missing)} to each call, and a step "
                f"gives none: declare {'it' if len(missing) == 1 else 'them'} in the kernel's @io.foreign(...) or "
                "@simt.kernel(...)"
            )

    def _take(self, kernel: str, param: Param, plan: ArgumentPlan, argument: Argument) -> Argument:
        """The argument once it is checked; numbers and structures as values that nobody can change later."""
        place = f"pipeline {self.name}: {kernel}: parameter '{param.name}'"
        is_array = isinstance(param.type, (Pointer, Slice, Tensor))
        if isinstance(argument, (Buffer, ScalarInput)) and self._inputs.get(argument.name) != argument:
            raise ArgumentTypeError(f"{place}: '{argument.name}' belongs to another pipeline")
        if isinstance(argument, Formula):
            self._rule(argument.rule.text)  # of another pipeline, it may speak of buffers that this one has not
        if isinstance(argument, Buffer) != is_array:
            raise ArgumentTypeError(f"{place} is {param.type}, but {_what(argument)} is given")
        if isinstance(argument, Buffer):
            self._check_buffer(place, param, argument)
        elif isinstance(argument, ScalarInput):
            if isinstance(param.type, Scalar) and (argument.dtype.kind == "float") > (param.type.kind == "float"):
                raise ArgumentTypeError(f"{place} is {param.type}, but scalar '{argument.name}' is {argument.dtype}")
        elif isinstance(param.type, Scalar) and not isinstance(argument, Formula):
            assert plan.convert is not None
            number = plan.convert(argument, place)
            # The machine value of a bf16 is its bits; the call converts once more.
            return float(argument) if param.type.kind == "float" else int(number)
        elif not isinstance(argument, Formula):
            from ..runtime.execute import byte_block

            return byte_block(replace(plan, what=place), argument)
        return argument

    def _check_buffer(self, place: str, param: Param, buffer: Buffer) -> None:
        element = param.type.pointee if isinstance(param.type, Pointer) else getattr(param.type, "element", None)
        if element is not None and element != buffer.dtype:
            raise ArgumentTypeError(f"{place} is {param.type}, but buffer '{buffer.name}' holds {buffer.dtype}")
        if isinstance(param.type, Tensor) and param.type.rank != buffer.rank:
            raise ArgumentTypeError(f"{place} is {param.type}, but buffer '{buffer.name}' has {buffer.rank} dimensions")
        if param.access is not Access.OUT and buffer.is_temporary and not self._is_filled(buffer, param):
            raise Error(
                f"{place} reads buffer '{buffer.name}', which no earlier step writes: add the step that fills it first"
            )

    def _is_filled(self, buffer: Buffer, param: Param) -> bool:
        # A written parameter is `inout` unless every element is proved written, so it may fill a fresh buffer.
        return buffer.name in self._written or param.access.writes

    def _bind(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The value of every buffer and scalar, temporaries allocated on the device of the arrays that were passed."""
        from ..runtime import empty

        wanted = [n for n, v in self._inputs.items() if not (isinstance(v, Buffer) and v.is_temporary)]
        missing = [n for n in wanted if n not in inputs]
        extra = [n for n in inputs if n not in wanted]
        if missing or extra:
            problem = f"'{missing[0]}' is missing" if missing else f"there is no input '{extra[0]}'"
            raise ArgumentTypeError(f"pipeline {self.name}: {problem}; its inputs are {', '.join(wanted)}")
        values = dict(inputs)
        device = self._device(values)
        for name, declared in self._inputs.items():
            if isinstance(declared, Buffer) and declared.is_temporary:
                environment = self._environment(values)
                shape = tuple(int(rule.evaluate(environment)) for rule in declared.shape)
                values[name] = empty(shape, declared.dtype, device)
            elif isinstance(declared, Buffer):
                self._check_rank(declared, values[name])
        return values

    def _check_rank(self, buffer: Buffer, array: Any) -> None:
        shape = getattr(array, "shape", None)
        if shape is None or len(shape) != buffer.rank:
            got = f"an array of shape {tuple(shape)}" if shape is not None else type(array).__name__
            raise ArgumentTypeError(
                f"pipeline {self.name}: '{buffer.name}' is an array with {buffer.rank} dimensions, not {got}"
            )

    def _arrays(self, values: dict[str, Any]) -> list[Any]:
        return [values[n] for n, v in self._inputs.items() if isinstance(v, Buffer) and n in values]

    def _device(self, values: dict[str, Any]) -> Any:
        from ..runtime import device_of

        return device_of(self._arrays(values))

    def _environment(self, values: dict[str, Any]) -> Environment:
        return Environment(dict(self._rule_values(values)))

    def _rule_values(self, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        from ..runtime.arrays import view

        for name, declared in self._inputs.items():
            if name not in values:
                continue
            if isinstance(declared, ScalarInput):
                yield name, values[name]
            else:
                array = view(values[name], f"pipeline {self.name}: {name}")
                yield name, ArrayValue(array.address, array.shape, array.strides, array.itemsize)

    def _launch(self, step: Step, values: dict[str, Any], stream: object) -> None:
        arguments = [self._value(argument, values) for argument in step.arguments]
        if stream is None:
            step.kernel(*arguments)
        else:
            step.kernel[None, None, stream](*arguments)

    def _value(self, argument: Argument, values: dict[str, Any]) -> Any:
        if isinstance(argument, (Buffer, ScalarInput)):
            return values[argument.name]
        if isinstance(argument, Formula):
            return argument.rule.evaluate(self._environment(values))
        return argument


def _what(argument: object) -> str:
    if isinstance(argument, Buffer):
        return "a buffer"
    if isinstance(argument, (ScalarInput, Formula, int, float)):
        return "a number"
    return f"{type(argument).__name__}, which no buffer of the pipeline stands for,"

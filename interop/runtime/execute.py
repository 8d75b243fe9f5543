"""One launch: arguments checked and packed by a plan, rules evaluated, limits compared, the device asked last.

The order of the checks is that of the C runtime, so that the same mistake gives the same message in every host
language: arguments, block, hidden parameters, grid, shared memory, preconditions, limits.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from abi import (
    ArgumentRangeError,
    ArgumentTypeError,
    ArrayValue,
    BlockKind,
    ContractError,
    DeviceError,
    Environment,
    ExecutionError,
    Requirement,
    check_block,
    check_requirements,
    contract_message,
    evaluate_fills,
    evaluate_grid,
    evaluate_shared,
)
from abi.rule_eval import Evaluator, Fault
from abi.rules import check_shared, no_block_message, no_grid_message, no_shared_message

from . import advice
from .arrays import ArrayView, NotAnArray, view
from .cpu_device import CpuKernel
from .device import Device, DeviceKey, Dim3, LoadedKernel, open_device
from .known_memory import known_memory
from .plan import ArgumentPlan, KernelPlan, Kind
from .stream import Stream, foreign_handle, stream_handle
from .structs import check_fields


@dataclass(frozen=True)
class Configuration:
    """What a caller says about a launch; None: it follows from the contract and the arguments."""

    grid: Any = None
    block: Any = None
    stream: Any = None
    shared: Any = None
    device: DeviceKey | None = None


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call: machine values to pack, what rules see, and the arrays behind them."""

    values: list[tuple[Any, ...]]
    environment: dict[str, ArrayValue | int | float | bool]
    views: list[tuple[str, ArrayView]]


Load = Callable[[Device], LoadedKernel]


def launch(
    plan: KernelPlan, load: Load, config: Configuration, args: Sequence[Any], kwargs: dict[str, Any]
) -> DeviceKey | None:
    """Checks everything, then runs or queues the kernel. Nothing runs when anything is wrong.

    :return: where it runs; None where the grid has a zero, so that nothing does.
    """
    given = order(plan, args, kwargs) if kwargs or len(args) != len(plan.arguments) else args
    arguments = read_arguments(plan, given, _stream_hint(config.stream, plan))
    key = device_of_call(plan, arguments, config)
    block = choose_block(plan, config)
    if plan.hidden:
        fill_hidden(plan, arguments, block)
    environment = Environment(arguments.environment, block)
    if config.grid is not None:
        grid = dimensions(plan, "grid", config.grid)
    else:
        grid = grid_from_contract(plan, environment)
    environment = Environment(arguments.environment, block, grid)
    shared = choose_shared(plan, environment, config)
    check_contract(plan, environment)

    device = open_device(key)
    loaded = load(device)
    check_limits(plan, loaded, device, block, grid, shared)
    stream, others = choose_stream(plan, device, arguments, config)
    if 0 in grid:
        return None
    params = plan.pack(arguments.values)
    memory = None
    if isinstance(loaded, CpuKernel):
        memory = known_memory(plan, loaded, loaded.device, arguments.values, arguments.views)
    try:
        for other in others:
            device.order_after(stream, other)
        loaded.launch(grid, block, shared, stream, params, memory)
        for other in others:
            device.order_after(other, stream)
    except ExecutionError:
        raise
    except DeviceError as error:
        raise DeviceError(f"{plan.name}: {error}\n{describe(arguments, given, plan, grid, block, shared)}") from None
    return key


# -- arguments -----------------------------------------------------------------------------------------------------


def order(plan: KernelPlan, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """Positional and named arguments in the order of the parameters."""
    names = [a.name for a in plan.arguments]
    for name in kwargs:
        if name not in plan.positions:
            if any(p.name == name for p in plan.hidden):
                raise ArgumentTypeError(f"{plan.name}: {name} is filled in by its rule and cannot be passed")
            raise ArgumentTypeError(f"{plan.name} has no parameter '{name}'; it takes ({', '.join(names)})")
        if plan.positions[name] < len(args):
            raise ArgumentTypeError(f"{plan.name}: {name} is given twice")
    missing = [name for name in names[len(args) :] if name not in kwargs]
    if len(args) > len(names) or missing:
        count, s = len(names), "" if len(names) == 1 else "s"
        got = len(args) + len(kwargs)
        lacks = f"; missing: {', '.join(missing)}" if missing else ""
        raise ArgumentTypeError(f"{plan.name} takes {count} argument{s} ({', '.join(names)}), not {got}{lacks}")
    return [*args, *(kwargs[name] for name in names[len(args) :])]


def read_arguments(plan: KernelPlan, given: Sequence[Any], stream: int | None) -> Arguments:
    """Every argument checked against its plan."""
    arguments = Arguments([], {}, [])
    for argument, value in zip(plan.arguments, given):
        if argument.kind is Kind.SCALAR:
            assert argument.convert is not None
            number = argument.convert(value, argument.what)
            arguments.values.append((number,))
            arguments.environment[argument.name] = number
        elif argument.kind is Kind.BYTES:
            arguments.values.append((byte_block(argument, value),))
        else:
            _read_array(argument, value, stream, arguments)
    return arguments


def _read_array(argument: ArgumentPlan, value: Any, stream: int | None, arguments: Arguments) -> None:
    name = argument.name
    if argument.kind is Kind.POINTER and (value is None or (argument.integers_too and _is_integer(value))):
        address = 0 if value is None else operator.index(value)
        if not -(2**63) <= address < 2**64:
            raise ArgumentRangeError(f"{argument.what} takes 64 bits, and {address} is given")
        arguments.values.append((address % 2**64,))
        itemsize = argument.element.size if argument.element else 1
        arguments.environment[name] = ArrayValue(address % 2**64, (0,), (1,), itemsize)
        return
    try:
        array = view(value, argument.what, stream)
    except NotAnArray:
        raise ArgumentTypeError(
            f"{argument.what} is {argument.type_text}, but {_shown(value)} is given: {_ADVICE}"
        ) from None
    except advice.UnfitArray as error:
        if argument.writes:
            raise advice.for_written(error) from None
        raise
    _check_array(argument, array)
    arguments.views.append((name, array))
    count = array.count
    if argument.kind is Kind.TENSOR:
        arguments.values.append((array.address, *array.shape, *array.strides))
        arguments.environment[name] = ArrayValue(array.address, array.shape, array.strides, array.itemsize)
        return
    arguments.values.append((array.address, count))
    arguments.environment[name] = ArrayValue(array.address, (count,), (1,), array.itemsize)


_ADVICE = "pass a NumPy array, an array of a GPU library, or interop.to_device(...)"


def _check_array(argument: ArgumentPlan, array: ArrayView) -> None:
    """dtype, rank, layout, write permission and alignment; the message says what to do."""
    what, element = argument.what, argument.element
    if element is not None and array.dtype is not element and array.dtype != element:
        raise ArgumentTypeError(
            f"{what} is {argument.type_text}, but the array holds {array.dtype_name}: "
            f"{advice.converted(argument.name, element, array.framework, argument.writes)}"
        )
    if argument.kind is Kind.TENSOR:
        if len(array.shape) != argument.rank:
            raise ArgumentTypeError(
                f"{what} is {argument.type_text}, but the array has {_axes(len(array.shape))} (shape {array.shape})"
            )
        if argument.writes and overlaps_itself(array.shape, array.strides):
            raise ArgumentTypeError(
                f"{what} is written, and elements of the array share memory (shape {array.shape}, strides "
                f"{array.strides} elements): {advice.copy_back('copy')}"
            )
    elif not array.is_contiguous:
        negative = " and a negative stride" if any(s < 0 for s in array.strides) else ""
        raise ArgumentTypeError(
            f"{what} is {argument.type_text}, but the array is not contiguous{negative} (shape {array.shape}, strides "
            f"{array.strides} elements): {advice.contiguous(argument.name, array.framework, argument.writes)}"
        )
    if argument.writes and array.read_only:
        raise ArgumentTypeError(
            f"{what} is written by the kernel, and the array is read-only: make a writable copy, launch on that, and "
            "use the copy from there on"
        )
    size = element.size if element else array.itemsize
    if size > 1 and array.address % size and array.count:
        # The rule's text and values are those of the C runtime.
        rest = array.address % size
        requirement = Requirement(f"aligned({argument.name}, {size})")
        values = {f"address({argument.name}) % {size}": rest}
        message = contract_message(argument.kernel, requirement, values)
        raise ContractError(message, kernel=argument.kernel, rule=requirement.rule, values=values)


def _axes(rank: int) -> str:
    return f"{rank} dimension" + ("" if rank == 1 else "s")


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two indices may name the same element: each axis must step over all that the smaller ones reach."""
    if 0 in shape:
        return False
    reach = 0
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def byte_block(argument: ArgumentPlan, value: Any) -> bytes:
    """The bytes of a by-value block, exactly as many as it has.

    It may be bytes, a NumPy scalar or 0-dimensional structured array, or a ctypes structure; with the declared fields,
    where the declaration gives them.
    """
    import ctypes

    numpy = sys.modules.get("numpy")
    if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Union, ctypes.Array)):
        data = bytes(value)
    elif numpy is not None and (
        isinstance(value, numpy.generic)
        or (isinstance(value, numpy.ndarray) and value.shape == () and value.dtype.kind == "V")
    ):
        if value.dtype.hasobject or not value.dtype.isnative:
            raise ArgumentTypeError(f"{argument.what}: {value.dtype} cannot be passed as bytes")
        data = value.tobytes()
    else:
        raise ArgumentTypeError(
            f"{argument.what} is {argument.type_text}, but {_shown(value)} is given: pass bytes, a NumPy structured "
            "scalar, or a ctypes.Structure"
        )
    if len(data) != argument.size:
        packed = numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)) and value.dtype.names
        help_ = ": give the dtype align=True, so that it is laid out as C lays it out" if packed else ""
        raise ArgumentTypeError(f"{argument.what} is {argument.type_text}, but {len(data)} bytes are given{help_}")
    if argument.struct is not None:
        check_fields(argument.struct, value, argument.what)
    return data


def _is_integer(value: Any) -> bool:
    if isinstance(value, bool) or hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return not getattr(value, "shape", ())


def _shown(value: Any) -> str:
    type_ = type(value)
    name = type_.__name__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__qualname__}"
    if isinstance(value, (int, float, complex)):
        return f"the {name} {value!r}"
    return "None" if value is None else f"a {name}"


# -- device and stream ---------------------------------------------------------------------------------------------


def device_of_call(plan: KernelPlan, arguments: Arguments, config: Configuration) -> DeviceKey:
    """The device on which the arrays live; an error that names both when there are two."""
    key = config.device
    name = ""
    for other, array in arguments.views:
        if key is None:
            key, name = array.device, other
        elif array.device != key:
            first = f"{name} is on {key}" if name else f"the call is for {key}"
            raise ArgumentTypeError(
                f"{plan.name}: {first}, but {other} is on {array.device}: all arrays of a call live on one device "
                f"(interop.to_device copies)"
            )
    if key is None:
        raise ArgumentTypeError(
            f"{plan.name}: no argument is an array, so no device follows from them: "
            f'say kernel.on("cpu")(...) or kernel.on("cuda")(...)'
        )
    return key


def _stream_hint(stream: Any, plan: KernelPlan) -> int | None:
    """The handle of an explicit stream, for producers that order their own work before ours."""
    if stream is None:
        return None
    if isinstance(stream, Stream):
        return stream.handle
    return foreign_handle(stream, f"{plan.name}: stream")


def choose_stream(
    plan: KernelPlan, device: Device, arguments: Arguments, config: Configuration
) -> tuple[int, list[int]]:
    """The stream of the launch, and the other streams with which it has to be ordered.

    Without an explicit stream it is the current one of the first array's library. An explicit stream is ordered with
    producers whose protocol names a stream; ordering it with PyTorch's or CuPy's current stream is up to the caller, as
    it is for their own operations.
    """
    if config.stream is not None:
        stream = stream_handle(config.stream, device, f"{plan.name}: stream")
        known = [v.stream for _, v in arguments.views if v.framework in ("", "jax")]
    elif device.kind == "cpu":
        return 0, []
    else:
        current = [v.stream for _, v in arguments.views if v.framework in ("torch", "cupy")]
        known = [v.stream for _, v in arguments.views]
        stream = next((s for s in [*current, *known] if s is not None), 0)
    others = dict.fromkeys(s for s in known if s is not None and s != stream)
    return stream, list(others)


# -- block, grid, shared memory, preconditions ---------------------------------------------------------------------


def choose_block(plan: KernelPlan, config: Configuration) -> Dim3:
    """The block: the caller's, else the contract's."""
    if config.block is None:
        if plan.block.kind is BlockKind.ANY:
            raise ArgumentTypeError(
                f"{no_block_message(plan.name)}: kernel[grid, block](...), or its declaration: block=..."
            )
        return plan.block.dims
    block = dimensions(plan, "block", config.block)
    check_block(plan.kernel, block)
    return block


def dimensions(plan: KernelPlan, what: str, value: Any) -> Dim3:
    """A grid or block as (x, y, z); a float in it is an error, whatever its value."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(items) <= 3:
        raise ArgumentTypeError(f"{plan.name}: a {what} has one to three dimensions, not {len(items)}")
    numbers = [1, 1, 1]
    for axis, item in enumerate(items):
        try:
            if isinstance(item, bool):
                raise TypeError
            numbers[axis] = operator.index(item)
        except TypeError:
            hint = "; integers divide with //" if isinstance(item, float) else ""
            raise ArgumentTypeError(
                f"{plan.name}: {what}.{'xyz'[axis]} is an integer, but {_shown(item)} is given{hint}"
            ) from None
        if numbers[axis] < 0:
            raise ArgumentRangeError(f"{plan.name}: {what}.{'xyz'[axis]} is {numbers[axis]}, which is negative")
    x, y, z = numbers
    return x, y, z


def fill_hidden(plan: KernelPlan, arguments: Arguments, block: Dim3) -> None:
    """Computes the parameters that callers do not pass."""
    filled = evaluate_fills(plan.kernel, Environment(arguments.environment, block))
    for param in plan.hidden:
        arguments.values.append((filled[param.name],))
    arguments.environment.update(filled)


def grid_from_contract(plan: KernelPlan, environment: Environment) -> Dim3:
    """The grid that follows from the arguments and the block."""
    axes = [_number(rule, environment) for rule in plan.grid]
    if not axes:
        raise ArgumentTypeError(f"{no_grid_message(plan.name)}: kernel[grid](...), or its declaration: grid=...")
    if min(axes) < 0:
        return evaluate_grid(plan.kernel, environment)  # raises with the full message
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z


def choose_shared(plan: KernelPlan, environment: Environment, config: Configuration) -> int:
    """Bytes of dynamic shared memory: the caller's, which may be more than the contract's; else those."""
    if config.shared is not None:
        given = _shared_bytes(plan, config.shared)
        check_shared(plan.kernel, environment, given)
        return given
    if plan.shared is None:
        raise ArgumentTypeError(
            f"{no_shared_message(plan.name)}: kernel[grid, block, stream, shared](...), or its declaration: shared=..."
        )
    if isinstance(plan.shared, int):
        return plan.shared
    shared = _number(plan.shared, environment)
    return shared if shared >= 0 else evaluate_shared(plan.kernel, environment)  # raises with the full message


def _shared_bytes(plan: KernelPlan, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{plan.name}: shared is a number of bytes, but {_shown(value)} is given") from None
    if number < 0:
        raise ArgumentRangeError(f"{plan.name}: shared is {number}, which is negative")
    return number


def _number(rule: Evaluator, environment: Environment) -> int:
    """The rule's value, and -1 where its arithmetic fails: the caller then asks for the full message."""
    try:
        return rule(environment)
    except Fault:
        return -1


def check_contract(plan: KernelPlan, environment: Environment) -> None:
    """The preconditions, in the order in which the description lists them."""
    for rule in plan.requires:
        if _number(rule, environment) is not True:
            check_requirements(plan.kernel, environment)  # raises with the full message


def check_limits(plan: KernelPlan, loaded: LoadedKernel, device: Device, block: Dim3, grid: Dim3, shared: int) -> None:
    """Block, grid and shared memory against what the device and the kernel allow. Texts are those of the C runtime."""
    limits = device.limits
    for axis in range(3):
        letter = "xyz"[axis]
        if not 1 <= block[axis] <= limits.block[axis]:
            raise ArgumentRangeError(
                f"{plan.name}: block.{letter} is {block[axis]}; it must be 1 to {limits.block[axis]}"
            )
        if grid[axis] > limits.grid[axis]:
            raise ArgumentRangeError(f"{plan.name}: grid.{letter} is {grid[axis]}; the limit is {limits.grid[axis]}")
    threads, most = block[0] * block[1] * block[2], min(limits.threads, loaded.max_threads)
    if threads > most:
        raise ArgumentRangeError(f"{plan.name}: a block has {threads} threads; the limit is {most}")
    if shared + loaded.static_shared > limits.shared:
        raise ArgumentRangeError(
            f"{plan.name}: a block needs {shared + loaded.static_shared} bytes of shared memory "
            f"({loaded.static_shared} static, {shared} dynamic); the limit is {limits.shared}"
        )


def describe(arguments: Arguments, given: Sequence[Any], plan: KernelPlan, grid: Dim3, block: Dim3, shared: int) -> str:
    """The call as messages about driver errors show it."""
    arrays = dict(arguments.views)
    shown = [
        f"{a.name} = {arrays[a.name].describe() if a.name in arrays else repr(value)[:40]}"
        for a, value in zip(plan.arguments, given)
    ]
    return f"  arguments: {', '.join(shown) or 'none'}\n  grid {grid}, block {block}, {shared} bytes of shared memory"

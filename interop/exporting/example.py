"""Stored examples: inputs, and the outputs that the receiver's machine must reproduce."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, SupportsFloat

import numpy as np
from numpy.typing import NDArray

import abi

from .text import listed

Array = NDArray[Any]


class ExportableKernel(Protocol):
    """What exporting asks of a kernel: its name and its program. Every kernel of the launch layer has both."""

    name: str

    def program(self) -> abi.Program: ...


@dataclass(frozen=True)
class Example:
    """Arguments for one call of a kernel, and what the arrays that it writes hold afterwards.

    Without `expected`, the kernel itself is called on copies of the arguments when it is exported. `expected` gives the
    written arrays in the order of the parameters. A receiver's CPU device must then reproduce what a kernel computed to
    the last bit; on a GPU, and against given values, `rtol` and `atol` hold, which default to a few units of the
    element type's precision.

    >>> Example(saxpy, (x, y, 2.0))  # doctest: +SKIP
    """

    kernel: ExportableKernel
    arguments: Sequence[Any]
    expected: Sequence[Array] | None = None
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class StoredArgument:
    """One argument of an example. Scalars have no `expected`; arrays that are only read neither."""

    param: abi.Param
    value: Any
    expected: Array | None = None
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class StoredExample:
    """An example with its results, ready to be written. ``exact_on_cpu``: computed, not given."""

    kernel: abi.Kernel
    arguments: tuple[StoredArgument, ...]
    exact_on_cpu: bool


_TOLERANCES = {"f16": (2e-3, 1e-4), "bf16": (2e-2, 1e-3), "f32": (1e-5, 1e-6), "f64": (1e-12, 1e-14)}


def store(example: Example, kernel: abi.Kernel) -> StoredExample:
    """`example` with its results; :class:`abi.Error` where its arguments do not fit the kernel."""
    params = kernel.visible_params
    missing = missing_rules(kernel)
    if missing:
        what, words = listed([LAUNCH_WORDS[m] for m in missing]), listed([f"{m}=" for m in missing])
        raise abi.Error(
            f"{kernel.name} cannot have stored examples: its contract has no rule for {what}, so nobody could replay "
            f"them; give it {words}"
        )
    if len(example.arguments) != len(params):
        count = len(example.arguments)
        raise abi.ArgumentTypeError(
            f"an example of {kernel.name} has {count} argument{'s' * (count != 1)}; the kernel takes {len(params)}"
        )
    inputs = [_prepare(kernel, p, v) for p, v in zip(params, example.arguments)]
    results = _results(example, kernel, inputs)
    stored = []
    for param, value in zip(params, inputs):
        expected = results.get(param.name)
        rtol, atol = _tolerance(example, param)
        stored.append(StoredArgument(param, value, expected, rtol, atol))
    return StoredExample(
        kernel, tuple(stored), example.expected is None and example.rtol is None and example.atol is None
    )


LAUNCH_WORDS = {"block": "block", "grid": "grid", "shared": "dynamic shared memory"}
"""What :func:`missing_rules` names, in words."""


def missing_rules(kernel: abi.Kernel) -> list[str]:
    """Which of block, grid and shared memory only a caller can give, because no rule says."""
    launch = kernel.launch
    found = {"block": launch.block.kind is not abi.BlockKind.ANY, "grid": launch.grid, "shared": launch.shared.strip()}
    return [what for what, rule in found.items() if not rule]


def element_of(param: abi.Param) -> abi.Scalar | None:
    """The element type of an array parameter."""
    type_ = param.type
    if isinstance(type_, abi.Pointer):
        return type_.pointee
    return type_.element if isinstance(type_, (abi.Slice, abi.Tensor)) else None


def _prepare(kernel: abi.Kernel, param: abi.Param, value: Any) -> Any:
    """A private, contiguous copy of an array; a scalar as it is."""
    what = f"an example of {kernel.name}: {param.name}"
    if isinstance(param.type, abi.Scalar):
        return _scalar(what, param.type, value)
    if isinstance(param.type, abi.Bytes):
        return _block(what, param.type, value)
    if not isinstance(value, np.ndarray):
        raise abi.ArgumentTypeError(f"{what} must be a NumPy array, not {type(value).__name__}")
    element, rank = element_of(param), param.type.rank if isinstance(param.type, abi.Tensor) else None
    if element and not _same_element(value.dtype, element):
        raise abi.ArgumentTypeError(f"{what} has elements of {value.dtype}, not {element}")
    if rank is not None and value.ndim != rank:
        raise abi.ArgumentTypeError(f"{what} has {value.ndim} dimensions, not {rank}")
    if not value.dtype.isnative:
        raise abi.ArgumentTypeError(f"{what} has its bytes in foreign order ({value.dtype}); convert it")
    if isinstance(value, np.ma.MaskedArray):
        raise abi.ArgumentTypeError(f"{what} is a masked array; give its filled() values")
    return without_padding(value)


def without_padding(array: Array) -> Array:
    """A contiguous copy whose bytes between and after the fields are zero.

    NumPy leaves them as the memory was, so that two exports would differ and hold what else the process had there.
    """
    result: Array = np.zeros(array.shape, array.dtype)
    _copy_fields(result, array)
    return result


def _copy_fields(target: Array, source: Array) -> None:
    if source.dtype.names is None:
        target[...] = source
    for name in source.dtype.names or ():
        _copy_fields(target[name], source[name])


# The smallest magnitude that rounds to infinity: half a unit in the last place above the largest finite number.
_FLOAT_LIMITS = {"f16": 65520.0, "bf16": (2 - 2**-8) * 2.0**127, "f32": (2 - 2**-24) * 2.0**127}


def _scalar(what: str, type_: abi.Scalar, value: Any) -> bool | int | float:
    """`value` as the plain number that is stored; an error where the launch layer would not take it either."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise abi.ArgumentTypeError(f"{what} is {type_}, and the example has an array for it")
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        if type_.kind == "float":
            number = float(value)
            if math.isfinite(number) and abs(number) >= _FLOAT_LIMITS.get(type_.name, math.inf):
                raise OverflowError
            return number
        integer = int(value) if isinstance(value, np.bool_) else operator.index(value)
    except (TypeError, ValueError):
        raise abi.ArgumentTypeError(f"{what} is {type_}, and the example has {value!r} for it") from None
    except OverflowError:
        raise abi.ArgumentRangeError(f"{what} is {type_}, and the example's {value!r} is too large for it") from None
    if not type_.minimum <= integer <= type_.maximum:
        raise abi.ArgumentRangeError(f"{what} is {type_}, which the example's {integer} does not fit")
    return bool(integer) if type_.kind == "bool" else integer


def _block(what: str, type_: abi.Bytes, value: Any) -> bytes:
    if isinstance(value, (np.ndarray, np.void)):
        value = without_padding(np.asarray(value))
    try:
        data = memoryview(value).tobytes()  # bytes(3) would be three zeros
    except (TypeError, BufferError):
        raise abi.ArgumentTypeError(f"{what} must be bytes or a buffer, not {type(value).__name__}") from None
    if len(data) != type_.size:
        raise abi.ArgumentTypeError(f"{what} has {len(data)} bytes, not {type_.size}")
    return data


def _same_element(dtype: np.dtype[Any], element: abi.Scalar) -> bool:
    names = {"bool": "bool", "bf16": "bfloat16"}
    kinds = {"int": "int", "uint": "uint", "float": "float"}
    expected = names.get(element.name) or f"{kinds[element.kind]}{element.bits}"
    return dtype.name == expected or (element.name == "bf16" and dtype.name == "uint16")


def _results(example: Example, kernel: abi.Kernel, inputs: Sequence[Any]) -> dict[str, Array]:
    written = [
        p.name for p in kernel.visible_params if p.access.writes and not isinstance(p.type, (abi.Scalar, abi.Bytes))
    ]
    if example.expected is not None:
        if len(example.expected) != len(written):
            count = len(example.expected)
            raise abi.ArgumentTypeError(
                f"an example of {kernel.name} has {count} expected array{'s' * (count != 1)}; the kernel writes "
                f"{len(written)}: {', '.join(written)}"
            )
        results = {name: without_padding(np.asarray(value)) for name, value in zip(written, example.expected)}
    else:
        if not callable(example.kernel):
            raise abi.ArgumentTypeError(
                f"an example of {kernel.name} needs expected=: the kernel cannot be called here"
            )
        call: Callable[..., Any] = example.kernel
        copies = [without_padding(v) if isinstance(v, np.ndarray) else v for v in inputs]
        call(*copies)
        pairs = zip(kernel.visible_params, copies)
        results = {p.name: without_padding(copy) for p, copy in pairs if p.name in written}
    for param, value in zip(kernel.visible_params, inputs):
        found = results.get(param.name)
        if found is not None and (found.shape != value.shape or found.dtype != value.dtype):
            raise abi.ArgumentTypeError(
                f"an example of {kernel.name}: {param.name} is {value.dtype}{list(value.shape)}, and what is expected "
                f"{found.dtype}{list(found.shape)}"
            )
    return results


def _tolerance(example: Example, param: abi.Param) -> tuple[float, float]:
    element = element_of(param)
    rtol, atol = _TOLERANCES.get(element.name if element else "", (0.0, 0.0))
    return (_checked("rtol", rtol, example.rtol), _checked("atol", atol, example.atol))


def _checked(name: str, default: float, given: float | None) -> float:
    """A tolerance as a plain number; the self-test's source holds it as text."""
    if given is None:
        return default
    if isinstance(given, str) or not isinstance(given, SupportsFloat) or not 0 <= float(given) < math.inf:
        raise abi.ArgumentTypeError(f"an example's {name} is a number from 0, not {given!r}")
    return float(given)

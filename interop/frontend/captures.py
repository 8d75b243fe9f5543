"""Names of a kernel's body that are not its own: closures, globals, builtins, and what may be captured from them."""

from __future__ import annotations

import builtins
import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from abi import Scalar

from ..errors import Location, UnsupportedError
from ..language.constants import BlockRule, Const
from ..language.definition import KernelDefinition
from ..language.functions import PYTHON_MATH, DeviceFunction, Intrinsic
from .bindings import Binding, Literal, ObjectBinding, TupleBinding

_BUILTINS = {abs, min, max, len, range, int, float, bool, print, round, sum}


def lookup(function: Callable[..., Any], name: str) -> tuple[bool, object]:
    """Whether `function` sees a non-local `name`, and the object."""
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    if name in closure:
        try:
            return True, closure[name].cell_contents
        except ValueError:
            return False, None
    if name in function.__globals__:
        return True, function.__globals__[name]
    if hasattr(builtins, name):
        return True, getattr(builtins, name)
    return False, None


class Captures:
    """Turns captured Python objects into bindings; ``consts`` holds the values of specialised constants."""

    def __init__(self, consts: Mapping[str, bool | int | float]):
        self._consts = consts

    def const(self, const: Const) -> bool | int | float:
        """The value that `const` has in this instance."""
        return self._consts.get(const.name, const.value)

    def bind(self, name: str, value: object, location: Location) -> Binding:
        """The binding of a captured object; :class:`UnsupportedError` with advice for what cannot be captured."""
        if isinstance(value, Const):
            return Literal(self.const(value))
        if isinstance(value, (bool, int, float)):
            return Literal(_plain(value))
        if isinstance(value, tuple):
            return TupleBinding(tuple(self.bind(name, item, location) for item in value))
        if value is None or isinstance(value, (types.ModuleType, Scalar, Intrinsic, DeviceFunction)):
            return ObjectBinding(value)
        if _hashable(value) and (value in PYTHON_MATH or value in _BUILTINS):
            return ObjectBinding(value)
        if inspect.isroutine(value) or inspect.isclass(value) or type(value).__name__ == "ufunc":
            # Functions and classes are judged where they are used: calling one gives the better message.
            return ObjectBinding(value)
        raise UnsupportedError(
            f"'{name}' is {_article(value)}, which a kernel cannot capture",
            location,
            help=_advice(name, value),
        )


def _plain(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _article(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return "a NumPy array"
    return (
        f"an object of type {kind.__module__}.{kind.__name__}"
        if kind.__module__ != "builtins"
        else f"a {kind.__name__}"
    )


def _advice(name: str, value: object) -> str:
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return f"pass it as an argument: a parameter {name}: io.Slice[...] or io.Tensor[...]"
    if isinstance(value, list):
        return "make it a tuple of numbers: a list may change after the kernel is compiled"
    if isinstance(value, str):
        return "kernels have no strings"
    return "kernels capture numbers, tuples of numbers, io.Const objects, modules and device functions"


def reachable_constants(definition: KernelDefinition) -> list[Const]:
    """The constants that a kernel's body, rules and block name, and those of the device functions that it calls."""
    found: dict[str, Const] = {}
    seen: set[int] = set()
    block = definition.block
    extents = block if isinstance(block, tuple) else (block.count if isinstance(block, BlockRule) else block,)
    grid = definition.grid if isinstance(definition.grid, (tuple, list)) else (definition.grid,)
    found.update({e.name: e for e in (*extents, *grid) if isinstance(e, Const)})
    rules = " ".join([*definition.requires, str(definition.grid), str(definition.shared)])
    names = [*_names(definition.function), *re.findall(r"[A-Za-z_]\w*", rules)]
    pending: list[tuple[Callable[..., Any], list[str]]] = [(definition.function, names)]
    while pending:
        function, wanted = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for value in (lookup(function, name)[1] for name in wanted):
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Const):
                    found.setdefault(item.name, item)
            if isinstance(value, DeviceFunction):
                pending.append((value.function, _names(value.function)))
            elif isinstance(value, types.ModuleType):
                # `config.N` and `helpers.clamp`: attributes of modules are used by name, too.
                for name in wanted:
                    item = getattr(value, name, None)
                    if isinstance(item, Const):
                        found.setdefault(item.name, item)
                    elif isinstance(item, DeviceFunction):
                        pending.append((item.function, _names(item.function)))
    return list(found.values())


def _names(function: Callable[..., Any]) -> list[str]:
    return [*function.__code__.co_names, *function.__code__.co_freevars]

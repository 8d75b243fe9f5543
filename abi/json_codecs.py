"""Codecs between JSON and the records of the description.

One table of fields for each record serves reading, writing and the JSON Schema, so that the three cannot drift apart.
Readers trust nothing: every count, range and type is checked, and errors say where in the document the fault is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from .errors import BundleError, Error
from .types import Type, parse_type

T = TypeVar("T")


class Codec(Protocol):
    """Encodes a value as JSON, decodes it with checks, and describes it as JSON Schema."""

    def encode(self, value: Any) -> Any: ...

    def decode(self, value: Any, path: str) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


def fault(path: str, problem: str) -> BundleError:
    """The error for a fault at `path` of the document, as in ``kernels[0].params[2].type``."""
    return BundleError(f"{path or 'the document'}: {problem}")


def shown(value: object) -> str:
    """`value` for an error message, short whatever it is."""
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:60] + "…"


@dataclass(frozen=True)
class Text:
    """A string. ``pattern`` must match all of it; ``what`` says in words what is expected."""

    what: str = "a text"
    pattern: str = ""
    limit: int = 1 << 20

    def encode(self, value: str) -> str:
        return value

    def decode(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise fault(path, f"expected {self.what}, found {shown(value)}")
        if len(value) > self.limit:
            raise fault(path, f"a text of {len(value)} characters; the limit is {self.limit}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise fault(path, f"expected {self.what}, found {shown(value)}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise fault(path, "the text has half of a surrogate pair") from None
        return value

    def schema(self) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "string", "maxLength": self.limit}
        if self.pattern:
            result["pattern"] = f"^(?:{self.pattern})$"
        return result


@dataclass(frozen=True)
class Integer:
    """An integer from ``minimum`` to ``maximum``."""

    minimum: int
    maximum: int

    def encode(self, value: int) -> int:
        return value

    def decode(self, value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise fault(path, f"expected an integer, found {shown(value)}")
        if not self.minimum <= value <= self.maximum:
            raise fault(path, f"{shown(value)} is not between {self.minimum} and {self.maximum}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class Choice:
    """A member of an enumeration, by value."""

    members: type[Enum]

    def encode(self, value: Enum) -> Any:
        return value.value

    def decode(self, value: Any, path: str) -> Enum:
        known = [m.value for m in self.members]
        if not isinstance(value, str) or value not in known:
            raise fault(path, f"{shown(value)} is not one of {', '.join(known)}")
        return self.members(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": [m.value for m in self.members]}


@dataclass(frozen=True)
class TypeText:
    """A parameter type in its text form."""

    def encode(self, value: Type) -> str:
        return str(value)

    def decode(self, value: Any, path: str) -> Type:
        if not isinstance(value, str) or len(value) > 100:
            raise fault(path, f"expected a type such as slice<f32>, found {shown(value)}")
        try:
            return parse_type(value)
        except Error as error:
            raise fault(path, str(error)) from None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 100, "pattern": "^[a-z][a-z0-9]*(<[a-z0-9, ]+>)?$"}


@dataclass(frozen=True)
class Sequence:
    """A list as a tuple. ``unique`` names the attribute that no two items share."""

    item: Codec
    limit: int
    minimum: int = 0
    unique: str = ""

    def encode(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.item.encode(v) for v in value]

    def decode(self, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise fault(path, f"expected a list, found {shown(value)}")
        if not self.minimum <= len(value) <= self.limit:
            bounds = str(self.limit) if self.minimum == self.limit else f"{self.minimum} to {self.limit}"
            raise fault(path, f"a list of {len(value)} items, where {bounds} are allowed")
        items = tuple(self.item.decode(v, f"{path}[{i}]") for i, v in enumerate(value))
        if self.unique:
            seen: set[str] = set()
            for i, item in enumerate(items):
                name = getattr(item, self.unique)
                if name in seen:
                    raise fault(f"{path}[{i}]", f"a second item with {self.unique} {shown(name)}")
                seen.add(name)
        return items

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(), "minItems": self.minimum, "maxItems": self.limit}


@dataclass(frozen=True)
class Optional_:
    """A value or null."""

    inner: Codec

    def encode(self, value: Any) -> Any:
        return None if value is None else self.inner.encode(value)

    def decode(self, value: Any, path: str) -> Any:
        return None if value is None else self.inner.decode(value, path)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "null"}, self.inner.schema()]}


@dataclass(frozen=True)
class Field:
    """A member of a JSON object: its key, which is the record's attribute too, its codec and what it means."""

    key: str
    codec: Codec
    doc: str


@dataclass(frozen=True)
class Record(Generic[T]):
    """A JSON object for a record. Keys that a reader does not know are ignored; all known keys are required."""

    make: Callable[..., T]
    fields: tuple[Field, ...]
    doc: str

    def encode(self, value: T) -> dict[str, Any]:
        return {f.key: f.codec.encode(getattr(value, f.key)) for f in self.fields}

    def decode(self, value: Any, path: str) -> T:
        if not isinstance(value, dict):
            raise fault(path, f"expected an object, found {shown(value)}")
        arguments = {}
        for f in self.fields:
            where = f"{path}.{f.key}" if path else f.key
            if f.key not in value:
                raise fault(path, f"there is no '{f.key}'")
            arguments[f.key] = f.codec.decode(value[f.key], where)
        return self.make(**arguments)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "description": self.doc,
            "properties": {f.key: {"description": f.doc, **f.codec.schema()} for f in self.fields},
            "required": [f.key for f in self.fields],
        }

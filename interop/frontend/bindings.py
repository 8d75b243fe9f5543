"""What a Python name or expression stands for while a kernel is compiled, and how two of them merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from abi import Scalar, bool_, f32, f64, i32, i64

from ..errors import Location
from ..ir.ops import Value
from ..ir.types import Shared, Witness, array_rank
from .conversion import widens


@dataclass(frozen=True)
class Literal:
    """A compile-time number. Ints and floats are weakly typed: they take the type of what they meet."""

    value: bool | int | float


@dataclass(frozen=True)
class Number:
    """A scalar computed at run time. A ``weak`` one came from literals only and still takes the type that it meets."""

    value: Value
    weak: bool = False

    @property
    def type(self) -> Scalar:
        assert isinstance(self.value.type, Scalar)
        return self.value.type


@dataclass(frozen=True)
class WitnessBinding:
    """A thread-index witness."""

    value: Value

    @property
    def rank(self) -> int:
        assert isinstance(self.value.type, Witness)
        return self.value.type.rank


@dataclass(frozen=True)
class ArrayBinding:
    """A parameter or shared array."""

    value: Value

    @property
    def rank(self) -> int:
        return array_rank(self.value.type)


@dataclass(frozen=True)
class TupleBinding:
    items: tuple[Binding, ...]


@dataclass(frozen=True, eq=False)
class ObjectBinding:
    """A Python object that means something to the compiler: a module, a type, a function of the language."""

    object: object


@dataclass(frozen=True)
class Unassigned:
    """A variable that has no value on some path to here."""

    assigned: Location | None


@dataclass(frozen=True)
class Clash:
    """A variable with different types on two paths."""

    left: str
    right: str
    left_at: Location | None = None
    right_at: Location | None = None


Binding = Union[Literal, Number, WitnessBinding, ArrayBinding, TupleBinding, ObjectBinding, Unassigned, Clash]


def describe(binding: Binding) -> str:
    """A binding's type, in the words of an error message."""
    if isinstance(binding, Literal):
        kind = (
            "a bool" if isinstance(binding.value, bool) else "an int" if isinstance(binding.value, int) else "a float"
        )
        return f"{kind} literal"
    if isinstance(binding, Number):
        return (
            ("a float literal" if binding.type.kind == "float" else "an int literal")
            if binding.weak
            else str(binding.type)
        )
    if isinstance(binding, WitnessBinding):
        return "a thread-index witness" + (f" of rank {binding.rank}" if binding.rank > 1 else "")
    if isinstance(binding, ArrayBinding):
        return (
            f"a shared array ({binding.value.type})"
            if isinstance(binding.value.type, Shared)
            else str(binding.value.type)
        )
    if isinstance(binding, TupleBinding):
        return "a tuple (" + ", ".join(map(describe, binding.items)) + ")"
    if isinstance(binding, ObjectBinding):
        return "None" if binding.object is None else f"{binding.object!r}"
    return "unassigned"


# -- merging: the form that a variable takes where paths meet ----------------------------------------------------------


@dataclass(frozen=True)
class Same:
    """All paths bring the same thing: nothing to merge."""

    binding: Binding


@dataclass(frozen=True)
class Leaf:
    """A scalar of ``type`` that differs by path."""

    type: Scalar
    weak: bool = False


@dataclass(frozen=True)
class Branches:
    """A tuple whose items merge one by one."""

    items: tuple[Form, ...]


Form = Union[Same, Leaf, Branches, Clash]


def same(left: Binding, right: Binding) -> bool:
    """Whether two bindings are the same thing, not merely equal in type."""
    if isinstance(left, ObjectBinding) and isinstance(right, ObjectBinding):
        return left.object is right.object
    if isinstance(left, Literal) and isinstance(right, Literal):
        # 1, 1.0 and True are equal in Python but not the same constant; nor are 0.0 and -0.0.
        return repr(left.value) == repr(right.value)
    if isinstance(left, TupleBinding) and isinstance(right, TupleBinding):
        return len(left.items) == len(right.items) and all(map(same, left.items, right.items))
    return left == right


def default_type(value: bool | int | float) -> Scalar:
    """The type of a literal where nothing else decides: i32 (i64 when it does not fit), f32."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return i32 if i32.minimum <= value <= i32.maximum else i64
    return f32


def leaf_of(binding: Binding) -> Leaf | None:
    """A scalar binding as a leaf; a witness decays to its index."""
    if isinstance(binding, Literal):
        if isinstance(binding.value, bool):
            return Leaf(bool_)
        return Leaf(i64 if isinstance(binding.value, int) else f64, weak=True)
    if isinstance(binding, Number):
        return Leaf(binding.type, binding.weak)
    if isinstance(binding, WitnessBinding) and binding.rank == 1:
        return Leaf(i64)
    return None


def form_of(binding: Binding) -> Form:
    """The form of one binding alone, for a variable that a loop may change."""
    if isinstance(binding, TupleBinding):
        return Branches(tuple(map(form_of, binding.items)))
    if isinstance(binding, WitnessBinding):
        return Same(binding)
    return leaf_of(binding) or Same(binding)


def _merge_leaves(left: Leaf, right: Leaf) -> Leaf | None:
    if left == right:
        return left
    if left.weak and right.weak:
        return Leaf(f64, weak=True)
    if left.weak or right.weak:
        weak, strong = (left, right) if left.weak else (right, left)
        takes = (
            strong.type.kind == "float" if weak.type.kind == "float" else strong.type.kind in ("int", "uint", "float")
        )
        return strong if takes else None
    return None


def merge(form: Form, binding: Binding) -> Form:
    """The form of a variable that has `form` on the paths so far and `binding` on one more."""
    if isinstance(form, Clash):
        return form
    if isinstance(form, Same) and same(form.binding, binding):
        return form
    plain = _plain(form)
    other = decay(binding)
    if isinstance(plain, Branches) and isinstance(other, TupleBinding) and len(plain.items) == len(other.items):
        items = tuple(map(merge, plain.items, other.items))
        clash = next((item for item in items if isinstance(item, Clash)), None)
        return clash or Branches(items)
    leaf = leaf_of(other)
    if isinstance(plain, Leaf) and leaf is not None:
        merged = _merge_leaves(plain, leaf)
        if merged is not None:
            return merged
    return Clash(describe_form(form), describe(binding))


def decay(binding: Binding) -> Binding:
    """A witness of rank 2 or 3 seen as the tuple of its indices; anything else is itself."""
    if isinstance(binding, WitnessBinding) and binding.rank > 1:
        return TupleBinding(tuple(Number(Value(i64)) for _ in range(binding.rank)))
    return binding


def _plain(form: Form) -> Form:
    if not isinstance(form, Same):
        return form
    binding = decay(form.binding)
    if isinstance(binding, TupleBinding):
        return Branches(tuple(Same(item) for item in binding.items))
    return leaf_of(binding) or form


def describe_form(form: Form) -> str:
    """A form in the words of an error message."""
    if isinstance(form, Same):
        return describe(form.binding)
    if isinstance(form, Leaf):
        return describe(Number(Value(form.type), form.weak))
    if isinstance(form, Branches):
        return "a tuple (" + ", ".join(map(describe_form, form.items)) + ")"
    return "unassigned"


def settle(form: Form, literals: tuple[Binding, ...]) -> Form:
    """`form` with every weak leaf given its default type; `literals` are the bindings that met in it."""
    if isinstance(form, Leaf) and form.weak:
        if form.type.kind == "float":
            return Leaf(f32)
        values = [b.value for b in literals if isinstance(b, Literal)]
        return Leaf(i64 if any(default_type(v) == i64 for v in values) else i32)
    if isinstance(form, Branches):
        columns = [tuple(b.items[n] for b in literals if isinstance(b, TupleBinding)) for n in range(len(form.items))]
        return Branches(tuple(map(settle, form.items, columns)))
    return form


def accepts(leaf: Leaf, binding: Binding) -> bool:
    """Whether a value of `binding` can be handed to `leaf` without a change of meaning."""
    other = leaf_of(binding)
    return other is not None and (
        other.type == leaf.type or other.weak or (leaf.weak and widens(other.type, leaf.type))
    )


def values_of(binding: Binding) -> set[Value]:
    """The IR values that a binding refers to."""
    if isinstance(binding, TupleBinding):
        return {v for item in binding.items for v in values_of(item)}
    return {binding.value} if isinstance(binding, (Number, WitnessBinding, ArrayBinding)) else set()


def escaping(form: Form, outside: set[Value]) -> Form:
    """`form` for a variable that leaves its region: what does not come from outside becomes a plain result."""
    if isinstance(form, Branches):
        return Branches(tuple(escaping(item, outside) for item in form.items))
    if not isinstance(form, Same) or values_of(form.binding) <= outside:
        return form
    plain = _plain(form)
    if isinstance(plain, Branches):
        return Branches(tuple(escaping(item, outside) for item in plain.items))
    if isinstance(plain, Leaf):
        return plain
    return Clash(describe(form.binding), "gone outside the loop or function that made it")

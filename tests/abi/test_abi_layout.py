"""Slots and packing, against ctypes' struct layout."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abi import (
    SCALARS,
    Bytes,
    Error,
    Param,
    Pointer,
    Slice,
    Slot,
    Tensor,
    Type,
    UnsupportedError,
    assign_slots,
    bool_,
    buffer_size,
    components,
    f32,
    f64,
    i8,
    i32,
    packing,
    parse_type,
)

scalars = st.sampled_from(list(SCALARS.values()))
aligns = st.sampled_from([1, 2, 4, 8, 16])
types: st.SearchStrategy[Type] = st.one_of(
    scalars,
    st.builds(Pointer, st.one_of(st.none(), scalars)),
    st.builds(Slice, scalars),
    st.builds(Tensor, scalars, st.integers(1, 8)),
    st.builds(lambda count, align: Bytes(count * align, align), st.integers(1, 9), aligns),
)


@given(types)
def test_type_text_round_trip(type_: Type) -> None:
    assert parse_type(str(type_)) == type_


@given(st.text(max_size=30))
def test_any_text_is_a_type_or_an_error(text: str) -> None:
    try:
        type_ = parse_type(text)
    except Error:
        return
    assert parse_type(str(type_)) == type_


def machine_type(size: int, align: int) -> type:
    """A ctypes type of the given size and alignment."""
    whole = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
    if align in whole:
        return whole[align] if size == align else whole[align] * (size // align)
    return type("Wide", (ctypes.Structure,), {"_fields_": [("v", ctypes.c_longdouble * (size // 16))]})


@given(st.lists(types, max_size=12), st.sampled_from(["interop-1", "c"]))
def test_layout_is_that_of_a_c_struct(kinds: list[Type], convention: str) -> None:
    params = assign_slots([Param(f"p{i}", t) for i, t in enumerate(kinds)], convention)
    fields = [
        (f"p{i}_{j}", machine_type(c.size, c.align)) for i, t in enumerate(kinds) for j, c in enumerate(components(t))
    ]
    struct = type("Parameters", (ctypes.Structure,), {"_fields_": fields})
    offsets = [getattr(struct, name).offset for name, _ in fields]
    assert [s.offset for p in params for s in p.slots] == offsets
    packed = [(c, offset, size) for p in params for c, offset, size in packing(p)]
    assert [(c.role, c.axis) for c, _, _ in packed] == [(c.role, c.axis) for t in kinds for c in components(t)]
    assert [offset for _, offset, _ in packed] == offsets
    assert [size for _, _, size in packed] == [ctypes.sizeof(t) for _, t in fields]
    end = offsets[-1] + ctypes.sizeof(fields[-1][1]) if fields else 0
    assert buffer_size(params) == end


def test_saxpy() -> None:
    x, y, a = assign_slots([Param("x", Slice(f32)), Param("y", Slice(f32)), Param("a", f32)])
    assert x.slots == (Slot(0, 8, 8), Slot(8, 8, 8))
    assert y.slots == (Slot(16, 8, 8), Slot(24, 8, 8))
    assert a.slots == (Slot(32, 4, 4),)
    assert buffer_size((x, y, a)) == 36


def test_small_and_wide_scalars_by_turns() -> None:
    """`float, float3, double` and a bool: offsets follow alignment, not the order of someone's struct."""
    params = assign_slots(
        [Param("a", f32), Param("v", Bytes(12, 4)), Param("d", f64), Param("b", bool_), Param("n", i32)]
    )
    assert [p.slots[0].offset for p in params] == [0, 4, 16, 24, 28]


def test_an_aggregate_slot_holds_several_values() -> None:
    slice_ = Param("x", Slice(f32), slots=(Slot(16, 16, 8),))
    assert [(c.role, offset, size) for c, offset, size in packing(slice_)] == [("pointer", 16, 8), ("length", 24, 8)]
    tensor = Param("t", Tensor(f32, 1), slots=(Slot(0, 8, 8), Slot(8, 16, 8)))
    assert [offset for _, offset, _ in packing(tensor)] == [0, 8, 16]


@pytest.mark.parametrize(
    "slots", [(), (Slot(0, 8, 8),), (Slot(0, 4, 4), Slot(8, 8, 8)), (Slot(0, 8, 8), Slot(8, 8, 8), Slot(16, 8, 8))]
)
def test_slots_that_do_not_fit_are_an_error(slots: tuple[Slot, ...]) -> None:
    with pytest.raises(Error, match=r"'x' \(slice<f32>\) does not fit"):
        packing(Param("x", Slice(f32), slots=slots))


def test_the_limit_names_sizes_and_the_largest_parameter() -> None:
    assign_slots([Param("big", Bytes(4096, 8))])
    with pytest.raises(Error, match=r"take 4097 bytes, and the limit is 4096.*'big'"):
        assign_slots([Param("big", Bytes(4096, 8)), Param("c", i8)])


def test_an_unknown_convention_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"'pascal'.*interop-1"):
        assign_slots([Param("x", f32)], "pascal")

"""PTX around a case: inputs from a buffer, outputs to another, eight bytes a value."""

from __future__ import annotations

from collections.abc import Sequence

from .case import Case, Operand

_MEMORY = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "u16x2": "b32", "s16x2": "b32", "tf32": "b32"}
SLOT = 8
"""Bytes of a value in the buffers."""
SCRATCH = 64
"""Bytes of scratch memory of a thread."""


def _register(type_: str) -> str:
    return {"u8": "u16", "s8": "s16", "b8": "b16"}.get(type_, _MEMORY.get(type_, type_))


def _load(operand: Operand, offset: int) -> str:
    if operand.type == "pred":
        return f"ld.global.u32 %r0, [%row+{offset}]; setp.ne.u32 %{operand.name}, %r0, 0;"
    return f"ld.global.{_MEMORY.get(operand.type, operand.type)} %{operand.name}, [%row+{offset}];"


def _store(operand: Operand, offset: int) -> str:
    if operand.type == "pred":
        return f"selp.u32 %r0, 1, 0, %{operand.name}; st.global.u32 [%row+{offset}], %r0;"
    return f"st.global.{_MEMORY.get(operand.type, operand.type)} [%row+{offset}], %{operand.name};"


def kernel(case: Case, symbol: str) -> str:
    """The kernel of a case: ``(u64 ins, u64 outs, u64 scratch, u32 count)``."""
    registers = [f".reg .{_register(o.type)} %{o.name};" for o in (*case.ins, *case.outs)]
    guard = "" if case.together else "setp.ge.u32 %past, %i, %n; @%past bra END;"
    lines = [
        f".visible .entry {symbol}(.param .u64 ins, .param .u64 outs, .param .u64 scratch, .param .u32 count) {{",
        ".reg .u32 %i, %lane, %n, %ct, %nt, %t; .reg .b32 %r<10>; .reg .b64 %q<10>; .reg .pred %past, %p<10>;",
        ".reg .u64 %row, %m, %base;",
        " ".join(registers),
        case.declarations,
        "mov.u32 %ct, %ctaid.x; mov.u32 %nt, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %ct, %nt, %t;",
        "ld.param.u32 %n, [count];",
        # Only where it is used: a kernel that knows its lanes needs whole warps on the CPU device.
        "mov.u32 %lane, %laneid;" if "%lane" in case.text else "",
        guard,
        "ld.param.u64 %base, [scratch]; cvta.to.global.u64 %base, %base;",
        f"mad.wide.u32 %m, %i, {SCRATCH}, %base;",
        f"ld.param.u64 %row, [ins]; mad.wide.u32 %row, %i, {SLOT * len(case.ins)}, %row;",
        *(_load(o, SLOT * k) for k, o in enumerate(case.ins)),
        case.text,
        f"ld.param.u64 %row, [outs]; mad.wide.u32 %row, %i, {SLOT * len(case.outs)}, %row;",
        *(_store(o, SLOT * k) for k, o in enumerate(case.outs)),
        "END: ret;",
        "}",
    ]
    return "\n".join(line for line in lines if line)


def module(cases: Sequence[Case], target: str) -> str:
    """A module with the kernels ``case0``, ``case1``, … of `cases`."""
    header = f".version 8.2\n.target {target}\n.address_size 64\n"
    return header + "\n".join(kernel(case, f"case{k}") for k, case in enumerate(cases)) + "\n"

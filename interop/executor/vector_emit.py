"""One kernel for several lanes as LLVM IR: the strand's code, the loop over strands or the coroutine, the record.

A strand is a run of lanes along x. The last of a row may be partly filled; `live` says which of its lanes there are.
"""

from __future__ import annotations

from dataclasses import replace

from interop.ptx import Module

from .analysis import Plan
from .builder import ModuleText
from .emit import BLOCK, block_loop, coroutine_frame, kernel_parameters, parameters_attribute, record_text
from .storage import Storage
from .vector_builder import VectorBuilder
from .vector_control import VectorPlan
from .vector_flatten import Unsuitable
from .vector_kinds import analyse
from .vector_plan import WARPS, WHOLE, plan_vector, refuse_parted_barriers
from .vector_translator import Mismatch, VectorTranslator

_STRAND = "i32 %tid.x, i32 %tid.y, i32 %tid.z, i32 %live.lanes"
_ATTEMPTS = 200


def emit_vector_kernel(
    module: Module, base: Plan, lanes: int, whole: bool, text: ModuleText, storage: Storage, record: str
) -> VectorPlan:
    """Adds the kernel for `lanes` lanes; :class:`Unsuitable` when it is one for the one-lane path.

    :param whole: for launches whose rows are whole strands alone.
    """
    plan = plan_vector(module, base, lanes, whole)
    forced: set[int] = set()
    for _ in range(_ATTEMPTS):
        plan.checks.sites = 0
        try:
            functions = _coroutine(plan, text, storage) if plan.coroutine else _loop(plan, text, storage)
        except Mismatch as found:
            # The analysis was more hopeful than the handlers: what this register holds is taken as any value.
            forced.add(found.number)
            plan = replace(plan, kinds=analyse(plan.flow, forced, lanes, whole))
            refuse_parted_barriers(plan.flow, plan.kinds)
            continue
        text.functions += functions
        flags = (WARPS if plan.warps else 0) | (WHOLE if whole else 0)
        text.functions.append(record_text(plan, storage, record, _variant(plan), flags))
        return plan
    raise Unsuitable("its registers do not settle")


def _variant(plan: VectorPlan) -> str:
    """How the names of the kernel's parts end."""
    return f".v{plan.lanes}{'w' if plan.whole else ''}"


def _translate(plan: VectorPlan, text: ModuleText, storage: Storage) -> VectorBuilder:
    builder = VectorBuilder(text, plan.lanes)
    narrow = "" if plan.lanes == 32 else f"trunc i32 %live.lanes to i{plan.lanes}"
    if plan.whole:
        narrow = f"add i{plan.lanes} 0, -1"
    builder.entry += [
        "  %tid.x.first = add i32 %tid.x, 0",
        f"  %live = {narrow or 'add i32 %live.lanes, 0'}",
    ]
    t = VectorTranslator(builder, storage, plan)
    for name, memory in kernel_parameters(t, plan.function).items():
        t.parameter(name, memory)
    builder.label("start")
    t.kernel()
    builder.label("finish")
    return builder


def _loop(plan: VectorPlan, text: ModuleText, storage: Storage) -> list[str]:
    """A kernel without barriers: its code, inlined into a loop over the strands of a block."""
    builder = _translate(plan, text, storage)
    builder.terminate("ret void")
    parameters = parameters_attribute(plan)
    name = f"{plan.function.name}{_variant(plan)}"
    body = [
        f'define internal void @"body.{name}"({BLOCK}, {parameters}, {_STRAND}) alwaysinline #0 {{',
        "entry:",
        *builder.entry,
        "  br label %start",
        *builder.lines,
        "}",
    ]
    return ["\n".join(body), _strands(plan, name, parameters)]


def _strands(plan: VectorPlan, name: str, parameters: str) -> str:
    """The loop over the strands."""
    all_lanes = -1 if plan.lanes == 32 else (1 << plan.lanes) - 1

    def strand(extent: str) -> list[str]:
        return [
            f"  %left = sub i32 {extent}, %x",
            f"  %whole = icmp uge i32 %left, {plan.lanes}",
            "  %clamped = and i32 %left, 31",
            "  %end = shl i32 1, %clamped",
            "  %some = sub i32 %end, 1",
            f"  %live = select i1 %whole, i32 {all_lanes}, i32 %some",
            f'  call void @"body.{name}"(ptr %blk, ptr %params, i32 %x, i32 %y, i32 %z, i32 %live)',
        ]

    return block_loop(plan, name, parameters, plan.lanes, strand)


def _coroutine(plan: VectorPlan, text: ModuleText, storage: Storage) -> list[str]:
    """A kernel with barriers: a coroutine that the C scheduler starts for each strand."""
    builder = _translate(plan, text, storage)
    name = f"{plan.function.name}{_variant(plan)}"
    head = f'define internal ptr @"run.{name}"({BLOCK}, ptr %params, ptr %thr, {_STRAND}) presplitcoroutine #0 {{'
    return ["\n".join([head, *coroutine_frame(text, builder)])]

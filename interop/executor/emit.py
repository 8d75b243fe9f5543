"""One kernel as LLVM IR: its own code, the functions that it calls, and the record that the C runtime launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interop.ptx import Function, Module

from .analysis import Plan
from .builder import Builder, ModuleText
from .program import define_program, text_constant
from .records import ABI, BLOCK_BYTES
from .records import BlockField as Field
from .scopes import Memory
from .storage import Storage, parameter_offsets
from .translator import Translator

_THREAD = "i32 %tid.x, i32 %tid.y, i32 %tid.z"
BLOCK = f"ptr align 8 dereferenceable({BLOCK_BYTES}) %blk"
"""The block as a parameter, known to be readable, so that loads from it move out of conditions and loops."""


VERSION = "version."
"""How the records of versions for several lanes begin."""


def emit_kernel(plan: Plan, text: ModuleText, storage: Storage, record: str, versions: Sequence[str] = ()) -> None:
    """Adds the kernel to the LLVM module; `record` is the symbol of its ``interop_cpu_kernel``, `versions` those of its
    versions for several lanes."""
    kernel = plan.function
    for function in plan.reachable:
        if function.name in plan.nested:
            text.functions.append(_nested(plan, text, storage, function))
        elif function is not kernel and function.name not in plan.inlined:
            text.functions.append(_function(plan, text, storage, function))
    body = _coroutine(plan, text, storage) if plan.coroutine else _loop(plan, text, storage)
    text.functions += body
    text.functions.append(record_text(plan, storage, record, versions=versions))


def kernel_parameters(t: Translator, kernel: Function) -> dict[str, Memory]:
    """Where each parameter lies in the buffer."""
    offsets, _ = parameter_offsets(kernel.params)
    found = {}
    for param, offset in zip(kernel.params, offsets):
        pointer = f"%param.{offset}"
        t.b.entry.append(f"  {pointer} = getelementptr i8, ptr %params, i64 {offset}")
        found[param.name] = Memory("param", param, pointer)
    return found


def parameters_attribute(plan: Plan) -> str:
    """The parameter buffer as an argument of a function."""
    _, size = parameter_offsets(plan.function.params)
    return f"ptr noalias readonly align 8 {f'dereferenceable({size}) ' if size else ''}%params"


def _function(plan: Plan, text: ModuleText, storage: Storage, function: Function) -> str:
    """A function that cannot suspend."""
    builder = Builder(text)
    t = Translator(builder, storage, plan, False, False)
    names, bound = _passed(function)
    builder.label("start")
    if function.name in plan.recursive:
        # A device has a stack of fixed size and stops the kernel at its end; here the process would be lost.
        t.check_stack(function.line, "0")
    t.body(function, bound, "leave")
    builder.label("leave")
    builder.terminate("ret void")
    arguments = "".join(f", ptr {name}" for name in names)
    # A call at the end would become a jump, and endless recursion a loop that nothing stops.
    calls = ' "disable-tail-calls"="true"' if function.name in plan.recursive else ""
    name = f'@"func.{plan.function.name}.{function.name}"'
    return "\n".join(
        [
            f"define internal void {name}({BLOCK}, {_THREAD}{arguments}) #0{calls} {{",
            "entry:",
            *builder.entry,
            "  br label %start",
            *builder.lines,
            "}",
        ]
    )


def _passed(function: Function) -> tuple[list[str], dict[str, Memory]]:
    """The names of the pointers that a function takes, and what they stand for in its body."""
    variables = (*function.params, *function.results)
    names = [f"%arg{k}" for k in range(len(variables))]
    return names, {v.name: Memory("param", v, name) for v, name in zip(variables, names)}


def _loop(plan: Plan, text: ModuleText, storage: Storage) -> list[str]:
    """A kernel whose threads never wait: its code, inlined into a loop over the threads of a block."""
    name = plan.function.name
    builder = Builder(text)
    t = Translator(builder, storage, plan, False, plan.independent)
    params = kernel_parameters(t, plan.function)
    builder.label("start")
    t.body(plan.function, params, "leave")
    builder.label("leave")
    builder.terminate("ret void")
    parameters = parameters_attribute(plan)
    body = [
        f'define internal void @"body.{name}"({BLOCK}, {parameters}, {_THREAD}) alwaysinline #0 {{',
        "entry:",
        *builder.entry,
        "  br label %start",
        *builder.lines,
        "}",
    ]
    thread = [f'  call void @"body.{name}"(ptr %blk, ptr %params, i32 %x, i32 %y, i32 %z)']
    return ["\n".join(body), block_loop(plan, name, parameters, 1, lambda extent: thread)]


def block_loop(plan: Plan, name: str, parameters: str, step: int, threads: Callable[[str], list[str]]) -> str:
    """The function ``run.name``: a loop over the threads of a block in steps along x, which is innermost. `threads`
    yields the code of one step for the block's extent along x. Iterations may run side by side where the plan says so.
    """
    if plan.exact_block:
        extents = [str(n) for n in plan.exact_block]
        loads = []
    else:
        extents = ["%nx", "%ny", "%nz"]
        loads = [
            line
            for axis, extent in enumerate(extents)
            for line in (
                f"  {extent}.at = getelementptr i8, ptr %blk, i64 {int(Field.NTID) + 4 * axis}",
                f"  {extent} = load i32, ptr {extent}.at, !invariant.load !0",
            )
        ]
    parallel = ", !llvm.loop !2" if plan.independent else ""
    return "\n".join(
        [
            f'define internal void @"run.{name}"({BLOCK}, {parameters}) #0 {{',
            "entry:",
            *loads,
            "  br label %planes",
            "planes:",
            "  %z = phi i32 [ 0, %entry ], [ %z.next, %plane.end ]",
            "  br label %rows",
            "rows:",
            "  %y = phi i32 [ 0, %planes ], [ %y.next, %row.end ]",
            "  br label %threads",
            "threads:",
            "  %x = phi i32 [ 0, %rows ], [ %x.next, %threads ]",
            *threads(extents[0]),
            f"  %x.next = add nuw nsw i32 %x, {step}",
            f"  %x.more = icmp ult i32 %x.next, {extents[0]}",
            f"  br i1 %x.more, label %threads, label %row.end{parallel}",
            "row.end:",
            "  %y.next = add nuw nsw i32 %y, 1",
            f"  %y.more = icmp ult i32 %y.next, {extents[1]}",
            "  br i1 %y.more, label %rows, label %plane.end",
            "plane.end:",
            "  %z.next = add nuw nsw i32 %z, 1",
            f"  %z.more = icmp ult i32 %z.next, {extents[2]}",
            "  br i1 %z.more, label %planes, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )


_COROUTINE = {
    "llvm.coro.id": ("token", ["i32", "ptr", "ptr", "ptr"]),
    "llvm.coro.size.i64": ("i64", []),
    "llvm.coro.begin": ("ptr", ["token", "ptr"]),
    "llvm.coro.suspend": ("i8", ["token", "i1"]),
    "llvm.coro.free": ("ptr", ["token", "ptr"]),
    "llvm.coro.end": ("void", ["ptr", "i1", "token"]),
}


def _coroutine(plan: Plan, text: ModuleText, storage: Storage) -> list[str]:
    """A kernel with barriers or warp operations: a coroutine that the C scheduler starts for each thread."""
    name = plan.function.name
    builder = Builder(text)
    t = Translator(builder, storage, plan, True, False)
    params = kernel_parameters(t, plan.function)
    builder.label("start")
    t.body(plan.function, params, "leave")
    builder.label("leave")
    head = f'define internal ptr @"run.{name}"({BLOCK}, ptr %params, ptr %thr, {_THREAD}) presplitcoroutine #0 {{'
    return ["\n".join([head, *coroutine_frame(text, builder)])]


def _nested(plan: Plan, text: ModuleText, storage: Storage, function: Function) -> str:
    """A function that may suspend and may come to call itself: a coroutine that its callers start."""
    builder = Builder(text)
    t = Translator(builder, storage, plan, True, False)
    names, bound = _passed(function)
    builder.label("start")
    t.check_stack(function.line, "0")
    t.body(function, bound, "leave")
    builder.label("leave")
    builder.helper("void", "call_return", [("ptr", "%thr")])
    arguments = "".join(f", ptr {name}" for name in names)
    name = f"coro.{plan.function.name}.{function.name}"
    head = f'define internal ptr @"{name}"({BLOCK}, ptr %thr, {_THREAD}{arguments}) presplitcoroutine #0 {{'
    text.declare("ptr", f"{text.prefix}cpu_call_frame", ["ptr", "ptr", "i32", "i64"])
    text.declare("void", f"{text.prefix}cpu_call_end", ["ptr", "ptr"])
    line = f"i32 {function.line}"
    frame = f"  %frame = call ptr @{text.prefix}cpu_call_frame(ptr %blk, ptr %thr, {line}, i64 %size)"
    end = f"  call void @{text.prefix}cpu_call_end(ptr %blk, ptr %memory)"
    return "\n".join([head, *coroutine_frame(text, builder, frame, end)])


def coroutine_frame(text: ModuleText, builder: Builder, frame: str = "", end: str = "") -> list[str]:
    """What `builder` has written, which ends where the function does, as the body of a coroutine. `frame` takes memory
    for it, from the block's arena if not said otherwise; `end` gives that back."""
    for intrinsic, (result, types) in _COROUTINE.items():
        text.declare(result, intrinsic, types)
    if not frame:
        text.declare("ptr", f"{text.prefix}cpu_frame", ["ptr", "i64"])
        frame = f"  %frame = call ptr @{text.prefix}cpu_frame(ptr %blk, i64 %size)"
    return [
        "entry:",
        "  %id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)",
        "  %size = call i64 @llvm.coro.size.i64()",
        frame,
        "  %coroutine = call ptr @llvm.coro.begin(token %id, ptr %frame)",
        *builder.entry,
        "  br label %start",
        *builder.lines,
        "  %last = call i8 @llvm.coro.suspend(token none, i1 true)",
        "  switch i8 %last, label %suspend [i8 0, label %resumed.late i8 1, label %cleanup]",
        "resumed.late:",
        "  unreachable",
        "cleanup:",
        "  %memory = call ptr @llvm.coro.free(token %id, ptr %coroutine)",
        *([end] if end else []),
        "  br label %suspend",
        "suspend:",
        "  call void @llvm.coro.end(ptr %coroutine, i1 false, token none)",
        "  ret ptr %coroutine",
        "}",
    ]


def record_text(
    plan: Plan, storage: Storage, record: str, variant: str = "", flags: int = 0, versions: Sequence[str] = ()
) -> str:
    """The constant ``interop_cpu_kernel`` and what it points to; `variant` ends the names of the kernel's parts.
    `versions` are records of the same kernel for several lanes, which are not seen outside."""
    kernel = plan.function
    name = f"{kernel.name}{variant}"
    _, size = parameter_offsets(kernel.params)
    block = ", ".join(f"i32 {n}" for n in plan.exact_block or (0, 0, 0))
    fields = [
        f"i32 {ABI}",
        f"i32 {plan.lanes}",
        f'ptr @"name.{name}"',
        f"i32 {size}",
        f"i32 {storage.static_bytes}",
        f"[3 x i32] [{block}]",
        f"i32 {flags}",
        f'ptr @"run.{name}"',
        f'ptr @"program.{name}"',
    ]
    types = "{ i32, i32, ptr, i32, i32, [3 x i32], i32, ptr, ptr }"
    linkage = "internal " if record.startswith(VERSION) else ""
    return "\n".join(
        [
            text_constant(f"name.{name}", kernel.name),
            define_program(plan, storage, name, versions),
            f'@"{record}" = {linkage}constant {types} {{ {", ".join(fields)} }}, align 8',
        ]
    )


def module_variables(module: Module, prefix: str) -> tuple[ModuleText, list[str]]:
    """An LLVM module with every variable of the PTX module, under `prefix`; and their names."""
    text = ModuleText("")
    return text, Storage.for_module(module, text, prefix).define_all()

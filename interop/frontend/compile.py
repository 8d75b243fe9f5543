"""A kernel's way from its Python source to an ABI record and PTX: :func:`compile_simt` is the table of contents."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

import abi
from abi import BlockKind, CheckLevel, Image, ImageKind, Kernel, Origin, Param, Requirement
from abi.layout import assign_slots
from abi.rules import Rule, with_implied

from ..codegen import check_target, generate
from ..errors import SyntaxError_, UnsupportedError
from ..ir import Function, ops, print_function, verify
from ..language.definition import KernelDefinition
from ..passes import run_passes
from .annotations import kernel_parameters
from .captures import Captures
from .contract import Contract, accesses, launch_record, parameter_record, witness_requirements
from .core import Frame
from .inlining import Inlining, _without_docstring, local_names
from .source import Source

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True)
class Compiled:
    """A kernel with what was made on the way."""

    program: abi.Program
    function: Function
    llvm: str


def compile_simt(definition: KernelDefinition, target: str = "sm_80") -> Compiled:
    """Compiles a SIMT kernel; a :class:`interop.errors.CompileError` says what is wrong with the source."""
    min_cc = check_target(target)
    source = Source(definition.function, definition.caller_locals)
    captures = Captures(definition.consts)

    parameters = kernel_parameters(source)
    contract = Contract(definition, source, captures, [parameter_record(p) for p in parameters])
    launch = launch_record(contract, min_cc)
    requires = contract.requires()

    function = lower(definition, source, captures, parameters, launch, requires)
    _dump("ir", definition.name, lambda: print_function(function))
    verify(function)
    run_passes(function, launch.grid)

    llvm, ptx = generate(function, target)
    _dump("llvm", definition.name, lambda: llvm)
    _dump("ptx", definition.name, lambda: ptx)

    kernel = describe(definition, source, function, launch, requires)
    image = _image(kernel, ptx, target, min_cc)
    _verify(kernel, image)
    return Compiled(abi.Program(kernel, (image,)), function, llvm)


def lower(
    definition: KernelDefinition,
    source: Source,
    captures: Captures,
    parameters: tuple[ops.Parameter, ...],
    launch: abi.Launch,
    requires: tuple[Rule, ...],
) -> Function:
    """The body as IR."""
    if not _SYMBOL.match(definition.name):
        raise SyntaxError_(f"'{definition.name}' is not an ASCII identifier", source.definition(), help="rename it")
    if definition.name in ("_", "WARP_SZ") or definition.name.startswith("__"):
        raise SyntaxError_(f"the name '{definition.name}' is reserved in PTX", source.definition(), help="rename it")
    compiler = Inlining(captures)
    compiler.parameters = {p.value: p for p in parameters}
    compiler.has_shared_rule = definition.shared is not None
    variables = {p.name: compiler.parameter_binding(p) for p in parameters}
    frame = Frame(source, variables, {}, local_names(source.tree))
    compiler.names.update({p.value: p.name for p in parameters})
    compiler.frames.append(frame)
    try:
        compiler.statements(_without_docstring(source.tree.body))
    except RecursionError:
        help = "split long expressions and deep nests into variables and device functions"
        raise UnsupportedError("the kernel is nested too deeply", source.definition(), help=help) from None
    end = source.location(source.tree.body[-1])
    compiler.emit(ops.Return(end, ()))
    block = launch.block
    return Function(
        definition.name,
        parameters,
        compiler.finish(compiler.block, end),
        source.definition(),
        block.dims if block.kind is BlockKind.EXACT else None,
        block.dims[0] * block.dims[1] * block.dims[2] if block.kind is BlockKind.UP_TO else None,
        definition.contract,
        requires,
        compiler.names,
    )


def describe(
    definition: KernelDefinition, source: Source, function: Function, launch: abi.Launch, requires: tuple[Rule, ...]
) -> Kernel:
    """The kernel's ABI record."""
    access = accesses(function)
    params: tuple[Param, ...] = tuple(parameter_record(p, access[p.name]) for p in function.parameters)
    written = tuple(Requirement(rule.text, Origin.WRITTEN) for rule in requires)
    listed = {r.rule for r in written}
    implied = tuple(r for r in witness_requirements(function) if r.rule not in listed)
    kernel = Kernel(
        name=definition.name,
        symbol=definition.name,
        language="python",
        params=assign_slots(params, "interop-1"),
        launch=launch,
        requires=written + implied,
        convention="interop-1",
        check_level=CheckLevel.TYPED,
        source=f"{source.embedded}:{source.definition().line}",
        doc=source.docstring,
    )
    return with_implied(kernel)


def _image(kernel: Kernel, ptx: str, target: str, min_cc: tuple[int, int]) -> Image:
    version = re.search(r"^\.version\s+(\d+\.\d+)", ptx, re.MULTILINE)
    isa = version[1] if version else ""
    return Image(ImageKind.PTX, target, ptx.encode(), (kernel.symbol,), isa, min_cc)


def _verify(kernel: Kernel, image: Image) -> None:
    """The description has to match what LLVM made of it: checked for every kernel, always."""
    from abi.verify import verify as verify_image

    verify_image(kernel, image)


def _dump(stage: str, name: str, text: object) -> None:
    """``INTEROP_DUMP=ir,llvm,ptx`` prints each kernel's stages on standard error."""
    wanted = os.environ.get("INTEROP_DUMP", "")
    if stage in (part.strip() for part in wanted.split(",")):
        assert callable(text)
        print(f"--- {stage} of {name}\n{text()}", file=sys.stderr)

"""LLVM IR to machine code: target machines, the order of passes, objects."""

from __future__ import annotations

import platform
import threading
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm

from abi import Error, UnsupportedError

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Instruction-set levels that objects are compiled for."""

TRIPLE = "x86_64-unknown-linux-gnu"

lock = threading.RLock()
"""LLVM's global context is shared by the process."""


@dataclass(frozen=True)
class Target:
    """A CPU as LLVM names it."""

    cpu: str
    features: str = ""

    @property
    def vector_width(self) -> int:
        """Bits of the vectors to prefer. Wide ones pay off here: kernels are all loops."""
        return 512 if self.cpu == "x86-64-v4" or "+avx512f" in self.features else 256

    @property
    def vector_lanes(self) -> bool:
        """Whether code for several lanes pays off: masks and gathers without AVX2 are one lane after the other."""
        return self.cpu not in ("x86-64", "x86-64-v2")


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def host() -> Target:
    """The machine that this process runs on; :class:`UnsupportedError` when that is no x86-64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise UnsupportedError(f"the CPU device needs an x86-64 processor, this machine is {platform.machine()}")
    with lock:
        _initialize()
        return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def level(name: str) -> Target:
    """An instruction-set level; :class:`UnsupportedError` for a name that is none."""
    if name not in LEVELS:
        raise UnsupportedError(f"'{name}' is not an instruction-set level of the CPU device: {', '.join(LEVELS)}")
    return Target(name)


def machine(target: Target) -> llvm.TargetMachine:
    """Position-independent code of the small model: the same for objects that are linked and for those loaded here."""
    _initialize()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small"
    )


def attributes(target: Target) -> str:
    """Attribute group 0, which every translated function has."""
    features = f' "target-features"="{target.features}"' if target.features else ""
    width = target.vector_width
    return (
        f'attributes #0 = {{ nounwind "target-cpu"="{target.cpu}"{features} "prefer-vector-width"="{width}"'
        f' "min-legal-vector-width"="{width}" }}\n'
    )


def compile_ir(text: str, target: Target, coroutines: bool, variables_only: bool = False) -> bytes:
    """Optimises LLVM IR and returns an ELF object. The same input gives the same bytes."""
    with lock:
        tm = machine(target)
        try:
            module = llvm.parse_assembly(text + attributes(target))
            module.verify()
        except RuntimeError as problem:
            raise Error(f"internal error of the CPU device: LLVM refuses the translation: {problem}") from problem
        module.triple = TRIPLE
        module.data_layout = str(tm.target_data)
        if not variables_only:
            _optimize(module, tm, coroutines)
        return bytes(tm.emit_object(module))


def _optimize(module: llvm.ModuleRef, tm: llvm.TargetMachine, coroutines: bool) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(tm, tuning)
    if coroutines:
        # Registers become values before the coroutine is split, so that only what lives across a suspension goes into
        # the frame; and it is split before anything else, or LLVM moves computation past the suspension and spills it.
        early = llvm.create_new_module_pass_manager()
        early.add_sroa_pass()
        early.add_simplify_cfg_pass()
        early.add_dead_code_elimination_pass()
        early.run(module, builder)
        splitter = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=0))
        splitter.getModulePassManager().run(module, splitter)
    builder.getModulePassManager().run(module, builder)

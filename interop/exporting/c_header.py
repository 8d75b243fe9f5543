"""``NAME.h``: the C interface of an exported library."""

from __future__ import annotations

from collections.abc import Sequence

import abi

from .example import LAUNCH_WORDS, missing_rules
from .model import Argument, KernelModel
from .shim import template
from .text import COLUMNS, c_string, call, doc_comment, listed, wrapped

_ACCESS = {abi.Access.IN: "read", abi.Access.OUT: "written", abi.Access.INOUT: "read and written"}


def c_header(name: str, version: str, interface_hash: str, models: Sequence[KernelModel]) -> str:
    """The text of ``NAME.h``."""
    return template(
        "templates/bundle.h.in",
        **api_functions(name, f"{name.upper()}_API ", ";"),
        NAME=name,
        UPPER=name.upper(),
        VERSION=version,
        HASH=interface_hash,
        SIGNATURES=_signatures_macro(name, models),
        BYTES="".join(_byte_block(size, align) for size, align in _byte_blocks(models)),
        KERNELS="\n".join(_declarations(name, model) for model in models),
    )


def api_functions(name: str, before: str, after: str) -> dict[str, str]:
    """The heads of the longer functions that every library has, by their word in the templates."""
    module = f"const {name}_module *module"
    copy = [module, "interop_stream stream"]
    api = {
        "LOAD_CHECKED": ["interop_device which", "const char *hash", "const char *signatures", f"{name}_module **out"],
        "ALLOC": [module, "size_t bytes", "void **out"],
        "COPY_IN": [*copy, "void *device", "const void *host", "size_t bytes"],
        "COPY_OUT": [*copy, "void *host", "const void *device", "size_t bytes"],
        "SYNCHRONIZE": copy,
    }
    head = f"{before}interop_status {name}_"
    return {key: call(head + key.lower(), arguments, after) for key, arguments in api.items()}


def _signatures_macro(name: str, models: Sequence[KernelModel]) -> str:
    """One string of a line for each kernel, continued as clang-format aligns it."""
    lines = [f"#define {name.upper()}_SIGNATURES", *(f"    {c_string(m.signature + chr(10))}" for m in models)]
    return "\n".join([*(f"{line:<{COLUMNS - 1}}\\" for line in lines[:-1]), lines[-1]])


def _byte_blocks(models: Sequence[KernelModel]) -> list[tuple[int, int]]:
    types = [a.param.type for m in models for a in m.visible]
    return sorted({(t.size, t.align) for t in types if isinstance(t, abi.Bytes)})


def _byte_block(size: int, align: int) -> str:
    """A type that several exported headers may define alike."""
    name = f"interop_bytes_{size}_{align}"
    return (
        f"#ifndef {name.upper()}\n#define {name.upper()}\n"
        f"/** {size} bytes by value, laid out as the kernel's own type. */\n"
        f"typedef struct {name} {{\n    INTEROP_ALIGNAS({align}) unsigned char bytes[{size}];\n}} {name};\n#endif\n\n"
    )


def _declarations(name: str, model: KernelModel) -> str:
    api = f"{name.upper()}_API interop_status "
    plain = [f"const {name}_module *module", "interop_stream stream", *(a.c_declaration for a in model.visible)]
    explicit = [plain[0], "const interop_launch_config *config", *plain[2:]]
    return "\n".join(
        [
            doc_comment(kernel_documentation(model)),
            call(f"{api}{name}_{model.name}", plain, ";"),
            "",
            doc_comment(_explicit_documentation(name, model)),
            call(f"{api}{name}_{model.name}_ex", explicit, ";"),
            "",
        ]
    )


def _explicit_documentation(name: str, model: KernelModel) -> list[str]:
    """What the form with a launch configuration adds, and what must be in it."""
    text = f"{name}_{model.name}() with an explicit launch configuration, which is checked like the arguments."
    missing = missing_rules(model.kernel)
    if missing:
        text += f" It must give {listed([LAUNCH_WORDS[m] for m in missing])}, for which the kernel has no rule."
    else:
        text += " A `config` that is NULL is the contract's, on the default stream."
    return wrapped(text, COLUMNS - 3)


def kernel_documentation(model: KernelModel, width: int = COLUMNS - 3) -> list[str]:
    """The docstring and the contract, as the lines of a comment, none longer than `width`."""
    return wrapped("\n".join(_documentation(model)), width)


def _documentation(model: KernelModel) -> list[str]:
    kernel = model.kernel
    lines = (kernel.doc.strip().splitlines()) or [f"The kernel {kernel.name}."]
    rules = [r.rule + (f" ({r.note})" if r.note else "") for r in kernel.requires]
    if rules:
        lines += ["", "Requires:"] + [f"  - {rule}" for rule in rules]
    lines += ["", f"Launch: {launch_text(kernel)}. Written in {kernel.language}."]
    filled = ", ".join(f"{p.name} = {rule.text}" for p, rule in model.rules.fills if _is_mentioned(model, p.name))
    lines += [f"In these rules {filled}."] if filled else []
    if kernel.check_level is not abi.CheckLevel.TYPED:
        lines.append(f"Checked as far as the image tells: its parameters are known by {kernel.check_level.value} only.")
    return [*lines, "", *(_parameter_line(a) for a in model.visible)]


def launch_text(kernel: abi.Kernel) -> str:
    """Block, grid and shared memory in words."""
    block, x, y, z = kernel.launch.block, *kernel.launch.block.dims
    blocks = {
        abi.BlockKind.ANY: "block given by the caller",
        abi.BlockKind.EXACT: f"block ({x}, {y}, {z})",
        abi.BlockKind.UP_TO: f"block of up to {x * y * z} threads",
        abi.BlockKind.MULTIPLE_OF: f"block.x a multiple of {x}",
    }
    grid = f"grid ({', '.join(kernel.launch.grid)})" if kernel.launch.grid else "grid given by the caller"
    rule = kernel.launch.shared.strip()
    shared = {"0": "", "": ", shared memory given by the caller"}.get(rule, f", shared memory {rule} bytes")
    return f"{blocks[block.kind]}, {grid}{shared}"


def _is_mentioned(model: KernelModel, name: str) -> bool:
    """Whether a rule that callers see reads the parameter `name`."""
    rules = [*(rule for _, rule in model.rules.requires), *model.rules.grid]
    rules += [model.rules.shared] if model.rules.shared else []
    return any(getattr(leaf, "name", None) == name for rule in rules for leaf in rule.leaves())


def _parameter_line(argument: Argument) -> str:
    words = {
        "slice": f"elements on the module's device, {_ACCESS[argument.param.access]}",
        "tensor": f"a strided array on the module's device, {_ACCESS[argument.param.access]}",
        "pointer": f"an address on the module's device, {_ACCESS[argument.param.access]}; its extent is not checked",
        "scalar": "by value",
    }
    return f"@param {argument.name} {words[argument.form]}"

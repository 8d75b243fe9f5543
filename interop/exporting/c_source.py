"""``src/NAME.c``: the checked kernel functions, and ``src/NAME_images.c``: the images and tables that they stand on."""

from __future__ import annotations

from collections.abc import Sequence

import abi
from abi.rules import Rule

from .c_header import api_functions
from .images import DeviceImage, HostObject
from .model import Argument, KernelModel, buffer_fields
from .shim import template
from .text import COLUMNS, c_string, call, integer_literal, nested_call, nested_initialiser

_BLOCK = {
    abi.BlockKind.ANY: "INTEROP_BLOCK_ANY",
    abi.BlockKind.EXACT: "INTEROP_BLOCK_EXACT",
    abi.BlockKind.UP_TO: "INTEROP_BLOCK_UP_TO",
    abi.BlockKind.MULTIPLE_OF: "INTEROP_BLOCK_MULTIPLE_OF",
}


def c_source(name: str, models: Sequence[KernelModel]) -> str:
    """The text of ``src/NAME.c``."""
    kernels = "\n".join(_kernel(name, model) for model in models)
    return template("templates/bundle.c.in", NAME=name, KERNELS=kernels, **api_functions(name, "", ""))


def _kernel(name: str, model: KernelModel) -> str:
    plain = [f"const {name}_module *module", "interop_stream stream", *(a.c_declaration for a in model.visible)]
    explicit = [plain[0], "const interop_launch_config *config", *plain[2:]]
    forward = ["module", "&config", *(a.name for a in model.visible)]
    return "\n".join(
        [
            f"/* ---- {model.kernel.name} ---- */\n",
            *_buffer_type(model),
            call(f"interop_status {name}_{model.name}_ex", explicit, ""),
            "{",
            *_body(model),
            "}\n",
            call(f"interop_status {name}_{model.name}", plain, ""),
            "{",
            "    const interop_launch_config config = {NULL, NULL, 0, stream, false};",
            call(f"    return {name}_{model.name}_ex", forward, ";"),
            "}\n",
        ]
    )


def _buffer_type(model: KernelModel) -> list[str]:
    """The parameter buffer as a struct whose layout the C compiler checks."""
    fields = buffer_fields(model)
    if not fields:
        return []
    struct = f"params_of_{model.name}"
    checks = [
        f'INTEROP_STATIC_ASSERT(offsetof({struct}, {member}) == {offset}, "{model.name}: {member} lies elsewhere");'
        for _, offset, member, _ in fields
    ]
    return [f"typedef struct {struct} {{", *(f"    {field[0]};" for field in fields), f"}} {struct};", *checks, ""]


def _body(model: KernelModel) -> list[str]:
    fields = buffer_fields(model)
    lines = [f"    {a.c_type}{'' if a.c_type.endswith('*') else ' '}{a.name};" for a in _hidden(model)]
    lines += [f"    params_of_{model.name} params;"] if fields else []
    lines += ["    interop_launch launch;"]
    lines += [f"    INTEROP_TRY(runtime_begin(&launch, &bundle, module, {model.index}, config));"]
    lines += [f"    INTEROP_TRY({_array_check(a)});" for a in model.visible if a.is_array]
    lines += _launch(model)
    for requirement, rule in model.rules.requires:
        head, note = f"INTEROP_REQUIRE(launch, {c_string(rule.text)},", f"{c_string(requirement.note)},"
        head += f" {note}" if len(head) + len(note) < COLUMNS - 5 else f"\n        {note}"
        lines += _statement(head, model.expression(rule), model.leaves(rule))
    lines += ["    INTEROP_TRY(runtime_check_limits(&launch));"]
    if not fields:
        return [*lines, "    return runtime_run(&launch, NULL, 0);"]
    lines += ["    memset(&params, 0, sizeof params);"]
    lines += [f"    params.{member} = {value};" for _, _, member, value in fields]
    return [*lines, f"    return runtime_run(&launch, &params, {model.param_bytes});"]


def _hidden(model: KernelModel) -> list[Argument]:
    return [a for a in model.arguments if a.form == "hidden"]


def _array_check(argument: Argument) -> str:
    name, size = c_string(argument.param.name), argument.element_size
    if argument.form == "slice":
        return f"runtime_check_slice(&launch, {name}, {argument.name}.data, {argument.name}.length, {size})"
    if argument.form == "tensor":
        value = f"{argument.name}.data, {argument.rank}, {argument.name}.shape, {argument.name}.strides"
        written = "false" if argument.const else "true"
        return f"runtime_check_tensor(&launch, {name}, {value}, {size}, {written})"
    return f"runtime_check_pointer(&launch, {name}, {argument.name}, {size})"


def _launch(model: KernelModel) -> list[str]:
    """Block, hidden parameters, grid and shared memory, in the order in which their rules may read one another."""
    launch = model.kernel.launch
    dims = ", ".join(map(str, launch.block.dims))
    lines = [f"    INTEROP_TRY(runtime_check_block(&launch, {_BLOCK[launch.block.kind]}, {dims}));"]
    for param, rule in model.rules.fills:
        lines += _fill(model, model.by_name[param.name], rule)
    if not launch.grid:
        lines += ["    if (!launch.grid_given)", "        return runtime_no_grid(&launch);"]
    else:
        lines += ["    if (!launch.grid_given) {"]
        for axis, rule in enumerate(model.rules.grid):
            lines += _derive(model, f"launch.grid[{axis}]", f"grid.{'xyz'[axis]}", rule, "        ")
        lines += [f"        launch.grid[{axis}] = 1;" for axis in range(len(launch.grid), 3)] + ["    }"]
    if model.rules.shared is None:
        lines += ["    if (!launch.shared_given)", "        return runtime_no_shared(&launch);"]
    elif launch.shared.strip() != "0":
        lines += _shared(model, model.rules.shared)
    return lines


def _shared(model: KernelModel, rule: Rule) -> list[str]:
    """The kernel indexes as much shared memory as its rule says: a caller may give more, not less."""
    needed = "interop_shared"  # no parameter is called so
    leaves = ['{"shared", interop_rule_i64(launch.shared)}', *model.leaves(rule)]
    head = f'INTEROP_REQUIRE(launch, {c_string(f"shared >= {rule.text}")}, "",'
    return [
        "    {",
        f"        int64_t {needed};",
        *_derive(model, needed, "shared", rule, "        "),
        "        if (!launch.shared_given)",
        f"            launch.shared = {needed};",
        *_statement(head, f"interop_rule_i64(launch.shared >= {needed})", leaves, "        "),
        "    }",
    ]


def _derive(model: KernelModel, target: str, what: str, rule: Rule, indent: str) -> list[str]:
    head = f'INTEROP_DERIVE(launch, {target}, "{what}", {c_string(rule.text)}, 0, INT64_MAX, "is negative",'
    return _statement(head, model.expression(rule), model.leaves(rule), indent)


def _fill(model: KernelModel, argument: Argument, rule: Rule) -> list[str]:
    """Sets a hidden parameter from its rule, with a check against its type's range."""
    type_ = argument.param.type
    if isinstance(type_, abi.Pointer):
        low, high, cast = 0, (1 << 63) - 1, f"({argument.element_c} *)(uintptr_t)"
    else:
        assert isinstance(type_, abi.Scalar)
        low, high, cast = type_.minimum, min(type_.maximum, (1 << 63) - 1), f"({argument.c_type})"
    value = "interop_fill"  # no parameter is called so
    limits = f"{integer_literal(low)}, {integer_literal(high)}"
    name = argument.param.name
    head = (
        f'INTEROP_DERIVE(launch, {value}, "{name}", {c_string(rule.text)}, {limits}, '
        f"{c_string(f'does not fit {type_}')},"
    )
    body = _statement(head, model.expression(rule), model.leaves(rule), "        ")
    return ["    {", f"        int64_t {value};", *body, f"        {argument.name} = {cast}{value};", "    }"]


def _statement(head: str, expression: str, leaves: Sequence[str], indent: str = "    ") -> list[str]:
    """A check over several lines: what it says, what it computes, what its message shows."""
    deeper = indent + "    "
    lines = [f"{indent}{head}", *nested_call(expression, deeper)]
    lines[-1] += ","
    for leaf in leaves[:-1]:
        lines += nested_initialiser(leaf, deeper)
    return [*lines, f"{deeper}{leaves[-1]});"]


def images_source(
    name: str,
    interface_hash: str,
    models: Sequence[KernelModel],
    images: Sequence[DeviceImage],
    objects: Sequence[HostObject],
) -> str:
    """The text of ``src/NAME_images.c``. `objects` are ordered by level, best first."""
    levels = [o.level for o in objects]
    return template(
        "templates/bundle_images.c.in",
        NAME=name,
        UPPER=name.upper(),
        DATA="\n".join(_image_data(index, image) for index, image in enumerate(images)),
        IMAGES=_image_table(images),
        IMAGE_COUNT=str(len(images)),
        CPU_DECLARATIONS=_cpu_declarations(name, models, levels),
        KERNEL_TABLES="\n".join(_kernel_tables(name, m, images, levels) for m in models),
        KERNELS="\n".join(_kernel_row(m, images) for m in models),
        KERNEL_COUNT=str(len(models)),
        LEVELS=", ".join(c_string(level) for level in levels) or "NULL",
        LEVEL_COUNT=str(len(levels)),
        HASH=interface_hash,
    )


def _image_data(index: int, image: DeviceImage) -> str:
    """The bytes as numbers; PTX gets the zero that ends it."""
    data = image.image.data + (b"\0" if image.image.kind is abi.ImageKind.PTX else b"")
    rows = [", ".join(map(str, data[i : i + 24])) + "," for i in range(0, len(data), 24)]
    body = "\n".join(f"    {row}" for row in rows)
    return f"static const unsigned char image_{index}[] = {{\n{body}\n}};\n"


def _image_table(images: Sequence[DeviceImage]) -> str:
    if not images:
        return "    {INTEROP_IMAGE_PTX, 0, 0, false, NULL, NULL, NULL, 0},"
    rows = []
    for index, item in enumerate(images):
        kind = "INTEROP_IMAGE_PTX" if item.image.kind is abi.ImageKind.PTX else "INTEROP_IMAGE_CUBIN"
        exact = "true" if item.exact else "false"
        where = f"image_{index}, {len(item.image.data)}"
        texts = f"{c_string(item.image.target)}, {c_string(item.image.isa)}"
        rows.append(f"    {{{kind}, {item.arch[0]}, {item.arch[1]}, {exact}, {texts}, {where}}},")
    return "\n".join(rows)


def cpu_symbol(name: str, symbol: str, level: str) -> str:
    """What the executor calls a kernel's record in an object."""
    return f"{name}_cpu_{symbol}_{level.replace('-', '_')}"


def _cpu_declarations(name: str, models: Sequence[KernelModel], levels: Sequence[str]) -> str:
    symbols = dict.fromkeys(cpu_symbol(name, m.kernel.symbol, level) for m in models for level in levels)
    return "\n".join(f"extern const interop_cpu_kernel {symbol};" for symbol in symbols)


def _kernel_tables(name: str, model: KernelModel, images: Sequence[DeviceImage], levels: Sequence[str]) -> str:
    indices = ", ".join(str(i) for i, image in enumerate(images) if model.index in image.kernels)
    rows = [f"    &{cpu_symbol(name, model.kernel.symbol, level)}," for level in levels]
    return "\n".join(
        [
            f"static const uint32_t images_of_{model.name}[] = {{{indices or '0'}}};",
            f"static const interop_cpu_kernel *const objects_of_{model.name}[] = {{",
            f"#if {name.upper()}_CPU_OBJECTS",
            *(rows or ["    NULL,"]),
            "#else",
            "    NULL,",
            "#endif",
            "};",
            "",
        ]
    )


def _kernel_row(model: KernelModel, images: Sequence[DeviceImage]) -> str:
    count = sum(model.index in image.kernels for image in images)
    names = f"{c_string(model.kernel.name)}, {c_string(model.kernel.symbol)}"
    return f"    {{{names}, images_of_{model.name}, {count}, objects_of_{model.name}}},"

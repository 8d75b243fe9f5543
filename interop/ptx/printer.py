"""The syntax tree as PTX text. What it prints parses to an equal tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import ast


def print_module(module: ast.Module) -> str:
    """The whole module as PTX."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    lines += [f'.file {number} "{name}"' for number, name in module.files]
    # Functions are declared before variables that hold their addresses, and variables before bodies that use them.
    lines += [print_function(f) for f in module.functions if f.body is None]
    lines += [print_variable(v) + ";" for v in module.variables]
    lines += [print_function(f) for f in module.functions if f.body is not None]
    lines += [f".alias {alias}, {aliasee};" for alias, aliasee in module.aliases]
    return "\n".join(lines) + "\n"


def print_function(function: ast.Function) -> str:
    """One function, with its body when it has one."""
    head = f".{function.linkage} " if function.linkage else ""
    head += ".entry " if function.is_entry else ".func "
    if function.results:
        head += f"({', '.join(map(print_variable, function.results))}) "
    head += f"{function.name}({', '.join(map(print_variable, function.params))})"
    head += _directives(function.directives)
    if function.body is None:
        return head + ";"
    return "\n".join([head, "{", *_statements(function.body, "\t"), "}"])


def _directives(directives: Iterable[tuple[str, tuple[int, ...]]]) -> str:
    return "".join(f" .{name} {', '.join(map(str, arguments))}".rstrip() for name, arguments in directives)


def print_variable(variable: ast.Variable) -> str:
    """A declaration without the ``;``."""
    parts = [f".{variable.linkage}"] if variable.linkage else []
    parts.append(f".{variable.space}")
    if variable.align is not None:
        parts.append(f".align {variable.align}")
    if variable.vector > 1:
        parts.append(f".v{variable.vector}")
    parts.append(f".{variable.type}")
    if variable.pointer:
        space, align = variable.pointer
        parts.append(".ptr" + ("" if space == "generic" else f" .{space}") + f" .align {align}")
    parts.append(variable.name + "".join(f"[{'' if dim is None else dim}]" for dim in variable.dims))
    text = " ".join(parts)
    if variable.initializer is not None:
        values = ", ".join(map(print_operand, variable.initializer))
        text += f" = {{{values}}}" if variable.dims or variable.vector > 1 else f" = {values}"
    return text


def _statements(statements: Iterable[ast.Statement], indent: str) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.Block):
            yield indent + "{"
            yield from _statements(statement.statements, indent + "\t")
            yield indent + "}"
        elif isinstance(statement, ast.Label):
            yield statement.name + ":"
        else:
            yield indent + print_statement(statement)


def print_statement(
    statement: ast.Instruction | ast.Registers | ast.Variable | ast.Pragma | ast.Targets | ast.Prototype,
) -> str:
    """One statement that fits a line.

    >>> print_statement(ast.Instruction("add", ("s32",), (ast.Name("%r1"), ast.Name("%r2"), ast.Integer(4))))
    'add.s32 %r1, %r2, 4;'
    """
    if isinstance(statement, ast.Instruction):
        guard = ""
        if statement.guard:
            guard = f"@{'!' if statement.guard.negated else ''}{statement.guard.register} "
        return f"{guard}{statement.name} {', '.join(map(print_operand, statement.operands))}".rstrip() + ";"
    if isinstance(statement, ast.Registers):
        vector = f".v{statement.vector} " if statement.vector > 1 else ""
        count = "" if statement.count is None else f"<{statement.count}>"
        return f".reg {vector}.{statement.type} {statement.name}{count};"
    if isinstance(statement, ast.Variable):
        return print_variable(statement) + ";"
    if isinstance(statement, ast.Pragma):
        return f'.pragma "{statement.text}";'
    if isinstance(statement, ast.Prototype):
        results = f"({', '.join(map(print_variable, statement.results))}) " if statement.results else ""
        params = ", ".join(map(print_variable, statement.params))
        return f"{statement.name}: .callprototype {results}_ ({params}){_directives(statement.directives)};"
    return f"{statement.name}: .{statement.kind} {', '.join(statement.labels)}".rstrip() + ";"


def print_operand(operand: ast.Operand) -> str:
    """One operand.

    >>> print_operand(ast.Address((ast.Offset(ast.Name("%rd1"), -4),)))
    '[%rd1+-4]'
    """
    if isinstance(operand, ast.Name):
        return operand.text
    if isinstance(operand, ast.Integer):
        return f"{operand.value}{'U' if operand.unsigned else ''}"
    if isinstance(operand, ast.Float):
        return f"0f{operand.bits:08X}" if operand.width == 32 else f"0d{operand.bits:016X}"
    if isinstance(operand, ast.Offset):
        return f"{print_operand(operand.base)}+{operand.offset}"
    if isinstance(operand, ast.Generic):
        return f"generic({print_operand(operand.base)})"
    if isinstance(operand, ast.Masked):
        return f"0x{operand.mask:X}({print_operand(operand.base)})"
    if isinstance(operand, ast.Not):
        return f"!{print_operand(operand.base)}"
    if isinstance(operand, ast.Minus):
        return f"-{print_operand(operand.base)}"
    if isinstance(operand, ast.Pair):
        return f"{print_operand(operand.first)}|{print_operand(operand.second)}"
    brackets = {ast.Address: "[]", ast.Vector: "{}", ast.Group: "()"}[type(operand)]
    return brackets[0] + ", ".join(map(print_operand, operand.items)) + brackets[1]

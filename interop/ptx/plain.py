"""Plain statements, read with one regular expression each: most of what compilers write.

A statement is either read here to exactly what the parser would have made of it, or left to the parser, which also
raises all errors. Every scan ends where the parser's own reading of the statement ends or before, so that hostile text
still costs linear time.
"""

from __future__ import annotations

import re

from . import ast
from .errors import PtxSyntaxError
from .lexer import Lexer
from .operands import parse_operand

INSTRUCTION = re.compile(
    r"""
    (?P<space> \s* (?: //[^\n]*\n \s* )* )
    (?: @ (?P<guard> !?[A-Za-z_$%][\w$]* ) \s+ )?
    (?P<name> [A-Za-z_$%][\w$]* (?: \.\w+ (?: ::\w+ )* )* )
    (?: \s+ (?P<operands> [^;:"/(]* ) )? ;
    """,
    re.VERBOSE | re.ASCII,
)
"""Comments and space, then an instruction."""

OTHER = re.compile(
    r"""
    (?P<space> \s* (?: //[^\n]*\n \s* )* )
    (?:
      (?P<label> [A-Za-z_$%][\w$]* (?: \.\w+ (?: ::\w+ )* )* ) :
      (?! \s* (?: \.[bc] | / ) )   # no list of targets, no prototype, no comment in front of one
    | \.reg \s+ \. (?P<type> \w+ ) \s+ (?P<family> [A-Za-z_$%][\w$]* ) (?: < (?P<count> [1-9]\d{0,8} ) > )? \s* ;
    | \.loc [ \t]+ (?P<file> \d{1,9} ) [ \t]+ (?P<line> \d{1,9} ) [ \t] [^\n]*
    )
    """,
    re.VERBOSE | re.ASCII,
)
"""Comments and space, then a label, a register declaration or a ``.loc``."""

MOST = 1 << 16  # operands and names that are kept; a text has few distinct ones
_NESTED = re.compile(r"(?: [^,{}\[\]] | \{[^{}\[\]]*\} | \[[^{}\[\]]*(?:\{[^{}\[\]]*\}[^{}\[\]]*)*\] )+", re.VERBOSE)

# The operands that are nearly all of them, and what is in them.
_COMMON = re.compile(
    r"""
    ( [A-Za-z_$%][\w$]* (?: \.\w+ )* )
    | ( 0 | -?[1-9]\d{0,17} )
    | \[ ( [A-Za-z_$%][\w$]* ) (?: \+ ( 0 | -?[1-9]\d{0,17} ) )? \]
    """,
    re.VERBOSE | re.ASCII,
)

_names: dict[str, tuple[str, tuple[str, ...]]] = {}
_operands: dict[str, ast.Operand] = {}
_guards: dict[str, ast.Guard] = {}


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Opcode and modifiers of a dotted name.

    >>> split_name("ld.global.f32")
    ('ld', ('global', 'f32'))
    """
    found = _names.get(name)
    if found is None:
        opcode, *modifiers = name.split(".")
        if len(_names) >= MOST:
            _names.clear()
        found = _names[name] = (opcode, tuple(modifiers))
    return found


def read_operands(text: str) -> tuple[ast.Operand, ...] | None:
    """The operands in `text`; None where the parser has to look.

    >>> read_operands("%r1, 5")
    (Name(text='%r1'), Integer(value=5, unsigned=False))
    """
    try:
        return tuple([_operands[piece] for piece in text.split(", ")])
    except KeyError:
        pass
    if "{" in text or "[" in text:
        pieces = _NESTED.findall(text)
        if len(",".join(pieces)) != len(text):
            return None
    else:
        pieces = text.split(",")
    found = []
    for piece in pieces:
        operand = _operands.get(piece.strip())
        if operand is None:
            operand = _read(piece.strip())
            if operand is None:
                return None
        found.append(operand)
    return tuple(found)


def read_guard(text: str) -> ast.Guard:
    """A guard without its ``@``: ``%p1`` or ``!%p1``."""
    found = _guards.get(text)
    if found is None:
        if len(_guards) >= MOST:
            _guards.clear()
        found = _guards[text] = ast.Guard(text.lstrip("!"), text[0] == "!")
    return found


def _read(piece: str) -> ast.Operand | None:
    operand: ast.Operand
    match = _COMMON.fullmatch(piece)
    if match:
        name, number, base, offset = match.groups()
        if name:
            operand = ast.Name(name)
        elif number:
            operand = ast.Integer(int(number))
        else:
            register = _operands.get(base) or ast.Name(base)
            operand = ast.Address((ast.Offset(register, int(offset)) if offset else register,))
    else:
        try:
            lexer = Lexer(piece)
            operand = parse_operand(lexer)
        except PtxSyntaxError:
            return None
        if lexer.token.kind != "end":
            return None
    if len(_operands) >= MOST:
        _operands.clear()
    _operands[piece] = operand
    return operand

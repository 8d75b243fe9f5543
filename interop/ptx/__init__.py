"""The PTX reader: text of any compiler to a syntax tree, and back.

>>> from interop import ptx
>>> module = ptx.parse(".version 8.0\\n.target sm_80\\n.entry k(.param .u64 p) { ret; }")
>>> module.entries["k"].params[0].type
'u64'
>>> module.entries["k"].body
(Instruction(opcode='ret', modifiers=(), operands=(), guard=None, line=3, source_line=0, source_file=0),)
"""

from . import ast
from .ast import Function, Instruction, Module, Variable
from .errors import PtxSyntaxError
from .parser import parse
from .printer import print_function, print_module, print_operand, print_statement

__all__ = [
    "Function", "Instruction", "Module", "PtxSyntaxError", "Variable", "ast", "parse", "print_function",
    "print_module", "print_operand", "print_statement",
]  # fmt: skip

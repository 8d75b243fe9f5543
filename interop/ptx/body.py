"""Parsing of bodies: statements, scopes, instructions."""

from __future__ import annotations

import gc

from . import ast
from .declarations import SPACES, parse_directives, parse_parameters, parse_registers, parse_variables
from .lexer import Lexer
from .literals import parse_integer
from .operands import parse_operands
from .plain import INSTRUCTION, OTHER, read_guard, read_operands, split_name

_MAX_SCOPES = 256
_TARGETS = {".branchtargets", ".calltargets"}


class BodyParser:
    """Parses the inside of one body: ``text[start:end]``. Scopes are a stack of its own, not recursion."""

    def __init__(self, text: str, start: int, end: int, line: int) -> None:
        """`line` is that of `start`."""
        self._text, self._start, self._end = text, start, end
        self._lexer = Lexer(text, start, end, line)
        self._stack: list[list[ast.Statement]] = [[]]
        self._source = (0, 0)

    def parse(self) -> tuple[ast.Statement, ...]:
        """All statements."""
        # A tree has hundreds of thousands of objects and no cycles: collections meanwhile double the time for nothing.
        pause = gc.isenabled()
        if pause:
            gc.disable()
        try:
            return self._parse()
        finally:
            if pause:
                gc.enable()

    def _parse(self) -> tuple[ast.Statement, ...]:
        """The plain statements at once, the others token by token."""
        lexer, position = self._lexer, self._start
        while True:
            position = self._plain(position)
            lexer.move(position)
            if lexer.token.kind == "end":
                break
            if lexer.accept("{"):
                if len(self._stack) > _MAX_SCOPES:
                    raise lexer.error("scopes nest too deeply")
                self._stack.append([])
            elif lexer.token.kind == "}":
                if len(self._stack) == 1:
                    raise lexer.error("this '}' closes nothing")
                lexer.next()
                block = ast.Block(tuple(self._stack.pop()))
                self._stack[-1].append(block)
            else:
                self._statement()
            position = lexer.token.position
        if len(self._stack) > 1:
            raise lexer.error("a '{' is never closed")
        return tuple(self._stack[0])

    def _plain(self, position: int) -> int:
        """Reads plain statements from `position` on; where the first other one begins."""
        text, end, out = self._text, self._end, self._stack[-1]
        match_instruction, new_draft, instruction = INSTRUCTION.match, ast.InstructionDraft, ast.Instruction
        file, source_line = self._source
        line, counted = self._lexer.line_of(position), position
        while True:
            match = match_instruction(text, position, end)
            if match is None:
                behind = self._plain_other(position, line, counted)
                if behind is None:
                    return position
                line, counted = self._lexer.line_of(position), position  # so that no newline is counted twice
                position = behind
                file, source_line = self._source
                continue
            space, guard, name, operand_text = match.groups()
            operands = read_operands(operand_text) if operand_text else ()
            if operands is None:
                return position
            begin = position + len(space)
            line += text.count("\n", counted, begin)
            counted = begin
            draft = new_draft()
            draft.opcode, draft.modifiers = split_name(name)
            draft.operands = operands
            draft.guard = read_guard(guard) if guard else None
            draft.line = line
            draft.source_line = source_line
            draft.source_file = file
            draft.__class__ = instruction  # type: ignore[assignment]
            out.append(draft)  # type: ignore[arg-type]
            position = match.end()

    def _plain_other(self, position: int, line: int, counted: int) -> int | None:
        """Reads a label, a register declaration or a source line at `position`; where it ends, None where none is."""
        match = OTHER.match(self._text, position, self._end)
        if match is None:
            return None
        space, label, type_, family, count, file, source_line = match.groups()
        line += self._text.count("\n", counted, position + len(space))
        if file:
            self._source = (int(file), int(source_line))
        elif label:
            self._stack[-1].append(ast.Label(label, line))
        elif type_ in ast.TYPE_BITS:
            self._stack[-1].append(ast.Registers(type_, family, int(count) if count else None, 1, line))
        else:
            return None
        return match.end()

    def _statement(self) -> None:
        lexer, out = self._lexer, self._stack[-1]
        kind, text, position = lexer.token
        if kind == "word":
            line = lexer.line()
            lexer.next()
            if lexer.token.kind == ":":
                lexer.next()
                self._label(text, line)
            else:
                out.append(self._instruction(text, None, line))
        elif kind == "@":
            line = lexer.line()
            lexer.next()
            negated = lexer.accept("!")
            register = lexer.expect_kind("word", "a predicate").text
            name = lexer.expect_kind("word", "an instruction").text
            out.append(self._instruction(name, ast.Guard(register, negated), line))
        elif kind == "dotted":
            self._directive(text)
        elif kind == ";":
            lexer.next()
        else:
            raise lexer.error(f"expected an instruction, found {lexer.found()}", position)

    def _label(self, name: str, line: int) -> None:
        lexer = self._lexer
        if lexer.accept(".callprototype"):
            results = parse_parameters(lexer)
            lexer.expect("_")
            params = parse_parameters(lexer)
            directives = parse_directives(lexer)
            lexer.expect(";")
            self._stack[-1].append(ast.Prototype(name, params, results, directives))
            return
        if lexer.token.text not in _TARGETS:
            self._stack[-1].append(ast.Label(name, line))
            return
        kind = lexer.next().text[1:]
        labels: list[str] = []
        while lexer.token.kind not in (";", "end"):
            token = lexer.next()
            if token.kind == "word":
                labels.append(token.text)
        lexer.expect(";")
        self._stack[-1].append(ast.Targets(kind, name, tuple(labels)))

    def _instruction(self, name: str, guard: ast.Guard | None, line: int) -> ast.Instruction:
        opcode, modifiers = split_name(name)
        operands = parse_operands(self._lexer, opcode == "call")
        file, source_line = self._source
        return ast.Instruction(opcode, modifiers, operands, guard, line, source_line, file)

    def _directive(self, text: str) -> None:
        lexer, out = self._lexer, self._stack[-1]
        if text == ".reg":
            lexer.next()
            out.extend(parse_registers(lexer))
        elif text in SPACES:
            lexer.next()
            out.extend(parse_variables(lexer, SPACES[text]))
        elif text == ".loc":
            lexer.next()
            file, last = parse_integer(lexer), lexer.token.position
            self._source = (file, parse_integer(lexer))
            lexer.skip_line(last)
        elif text == ".pragma":
            lexer.next()
            out.append(ast.Pragma(lexer.expect_kind("string", "a string").text[1:-1]))
            while lexer.accept(","):
                out.append(ast.Pragma(lexer.expect_kind("string", "a string").text[1:-1]))
            lexer.expect(";")
        elif text in (".extern", ".visible", ".weak", ".common"):
            lexer.next()
            space = lexer.next()
            if space.text not in SPACES:
                raise lexer.error(f"expected a state space behind {text}", space.position)
            out.extend(parse_variables(lexer, SPACES[space.text], text[1:]))
        elif text in (".file", ".section"):
            lexer.skip_line()
        else:
            raise lexer.error(f"{text} is not a directive of a body")

"""Text to nodes of the rule language: tokenizer, precedence-climbing parser, name and type checks.

Rules come from files that others wrote, so length and depth are bounded: no input exhausts the stack.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import rule_ast as ast
from .errors import RuleError
from .records import Param
from .types import Pointer, Scalar, Slice, Tensor

MAX_LENGTH = 4096
"""Characters of a rule."""
MAX_DEPTH = 48
"""Operators above one another in a rule's tree."""
MAX_AXIS = 7

_TOKEN = re.compile(r"[ \t\r\n]*(?:([0-9]+[A-Za-z0-9_.]*)|([A-Za-z_][A-Za-z0-9_]*)|(//|<=|>=|==|!=|[-+*%<>(),.])|(\S))")
_WORDS = ("and", "or", "not")
_FUNCTIONS = ("len", "dim", "stride", "min", "max", "ceil_div", "disjoint", "aligned")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_INSTEAD = {
    "/": "integers divide with // (rounds down) or ceil_div(a, b) (rounds up)",
    "=": "equality is ==",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not'",
    "~": "write 'not'",
    "[": "rules have no subscripts: write dim(x, 0) or len(x)",
}


@dataclass(frozen=True)
class _Token:
    kind: str  # "number", "name", "op" or "end"
    text: str
    start: int


@dataclass(frozen=True)
class _Typed:
    """A node, where it stands in the text, and how deep its tree is."""

    node: ast.Node
    start: int
    end: int
    depth: int = 1


def parse_nodes(text: str, params: Sequence[Param] | None) -> ast.Node:
    """The tree of `text`; :class:`RuleError` with a caret and advice when it is not a rule."""
    if len(text) > MAX_LENGTH:
        raise RuleError(f"a rule of {len(text)} characters: the limit is {MAX_LENGTH}\n    {_window(text, 0, 1)[0]}")
    parser = _Parser(text, params)
    result = parser.expression(ast.OR)
    token = parser.peek()
    if token.kind != "end":
        raise parser.error(f"'{token.text}' is not expected here", token, _advice_after(token))
    return result.node


def split_list(text: str) -> tuple[str, ...]:
    """``"(a, b)"`` to ``("a", "b")``; a text that is one rule stays one. For grid rules written as a tuple."""
    stripped = text.strip()
    if not (stripped.startswith("(") and stripped.endswith(")")):
        return (stripped,)
    parts, depth, begin = [], 0, 1
    for position, character in enumerate(stripped):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(stripped) - 1:
            return (stripped,)  # the first parenthesis closes early: "(a + b) * (c)"
        if character == "," and depth == 1:
            parts.append(stripped[begin:position].strip())
            begin = position + 1
    last = stripped[begin:-1].strip()
    return tuple(parts + [last]) if last or not parts else tuple(parts)


class _Parser:
    def __init__(self, text: str, params: Sequence[Param] | None) -> None:
        self.text = text
        self.params = None if params is None else {p.name: p for p in params}
        self.nesting = 0
        self.tokens = self._tokenize()
        self.index = 0

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _tokenize(self) -> list[_Token]:
        tokens, position = [], 0
        while match := _TOKEN.match(self.text, position):
            kind = ("number", "name", "op", "bad")[(match.lastindex or 1) - 1]
            token = _Token(kind, match.group(match.lastindex or 1), match.start(match.lastindex or 1))
            if kind == "bad":
                raise self.error(
                    f"'{_printable(token.text)}' is not part of the rule language", token, _INSTEAD.get(token.text, "")
                )
            tokens.append(token)
            position = match.end()
        return [*tokens, _Token("end", "the end", len(self.text.rstrip()))]

    def peek(self) -> _Token:
        return self.tokens[self.index]

    def take(self) -> _Token:
        token = self.tokens[self.index]
        self.index += token.kind != "end"
        return token

    def accept(self, *texts: str) -> _Token | None:
        token = self.peek()
        return self.take() if token.kind in ("op", "name") and token.text in texts else None

    def expect(self, text: str, advice: str = "") -> _Token:
        token = self.accept(text)
        if token is None:
            found = self.peek()
            raise self.error(f"expected '{text}', found {_quoted(found)}", found, advice)
        return token

    def error(self, problem: str, place: _Token | _Typed, advice: str = "") -> RuleError:
        end = place.end if isinstance(place, _Typed) else place.start + max(len(place.text), 1)
        if isinstance(place, _Token) and place.kind == "end":
            end = place.start + 1
        shown, begin, width = _window(self.text, place.start, end)
        message = f"{problem}\n    {shown}\n    {' ' * begin}{'^' * width}"
        return RuleError(f"{message}\n{advice}" if advice else message)

    # -- expressions -----------------------------------------------------------------------------------------------

    def expression(self, level: int) -> _Typed:
        """Precedence climbing: everything that binds at `level` or tighter."""
        self.nesting += 1
        if self.nesting > 2 * MAX_DEPTH + 2:  # an operator's right operand in parentheses counts twice
            raise self.error(f"the rule is nested more than {MAX_DEPTH} deep", self.peek())
        left = self._prefix(level)
        while (found := self._operator(level)) is not None:
            token, own = found
            right = self.expression(own + 1)
            left = self._combine(left, token, right)
        self.nesting -= 1
        return left

    def _prefix(self, level: int) -> _Typed:
        token = self.peek()
        if token.text == "not" and token.kind == "name":
            if level > ast.NOT:
                raise self.error(
                    "'not' binds less tightly than the operator before it", token, "put parentheses round it"
                )
            self.take()
            operand = self._boolean(self.expression(ast.NOT), "not")
            return self._deeper(ast.Not(operand.node), token.start, operand)
        if self.accept("-"):
            operand = self._integer(self.expression(ast.UNARY), "-")
            return self._deeper(ast.Negate(operand.node), token.start, operand)
        return self._atom()

    def _operator(self, level: int) -> tuple[_Token, int] | None:
        token = self.peek()
        if token.kind not in ("op", "name"):
            return None
        own = ast.BINARY_LEVEL.get(token.text) or ast.LOGIC_LEVEL.get(token.text)
        if own is None and token.text in _COMPARISONS:
            own = ast.COMPARISON
        if own is None or own < level:
            return None
        self.take()
        return token, own

    def _combine(self, left: _Typed, token: _Token, right: _Typed) -> _Typed:
        op = token.text
        node: ast.Node
        if op in ast.LOGIC_LEVEL:
            node = ast.Logic(op, self._boolean(left, op).node, self._boolean(right, op).node)
        elif op in ast.BINARY_LEVEL:
            node = ast.Binary(op, self._integer(left, op).node, self._integer(right, op).node)
        else:
            node = self._comparison(left, token, right)
        return self._deeper(node, left.start, left, right)

    def _comparison(self, left: _Typed, token: _Token, right: _Typed) -> ast.Node:
        follower = self.peek()
        if follower.kind == "op" and follower.text in _COMPARISONS:
            middle = self.text[right.start : right.end]
            first = f"{self.text[left.start : left.end]} {token.text} {middle}"
            raise self.error("comparisons are not chained", follower, f"write {first} and {middle} {follower.text} ...")
        both = ast.is_boolean(left.node), ast.is_boolean(right.node)
        if both == (True, True) and token.text in ("==", "!="):
            return ast.Compare(token.text, left.node, right.node)
        return ast.Compare(token.text, self._integer(left, token.text).node, self._integer(right, token.text).node)

    def _deeper(self, node: ast.Node, start: int, *parts: _Typed) -> _Typed:
        result = _Typed(node, start, parts[-1].end, 1 + max(p.depth for p in parts))
        if result.depth > MAX_DEPTH:
            raise self.error(f"the rule has more than {MAX_DEPTH} operators above one another", result)
        return result

    def _boolean(self, part: _Typed, op: str) -> _Typed:
        if not ast.is_boolean(part.node):
            raise self.error(f"'{op}' wants a condition, and this is an integer", part, "compare it, as in n > 0")
        return part

    def _integer(self, part: _Typed, op: str) -> _Typed:
        if ast.is_boolean(part.node):
            raise self.error(
                f"'{op}' wants an integer, and this is a condition", part, "integers and conditions do not mix"
            )
        return part

    # -- atoms -----------------------------------------------------------------------------------------------------

    def _atom(self) -> _Typed:
        token = self.take()
        if token.text == "(" and token.kind == "op":
            inner = self.expression(ast.OR)
            close = self.expect(")")
            return _Typed(inner.node, token.start, close.start + 1, inner.depth)
        if token.kind == "number":
            return _Typed(ast.Literal(self._number(token)), token.start, token.start + len(token.text))
        if token.kind == "name" and token.text not in _WORDS:
            follower = self.peek()
            if follower.kind == "op" and follower.text == "(":
                return self._call(token)
            if token.text in ("block", "grid") and follower.kind == "op" and follower.text == ".":
                return self._launch_dim(token)
            return _Typed(self._scalar(token), token.start, token.start + len(token.text))
        raise self.error(f"expected a value, found {_quoted(token)}", token, _advice_missing(token))

    def _number(self, token: _Token) -> int:
        if not token.text.isdigit():
            raise self.error(f"'{token.text}' is not an integer", token, "rules have decimal integers only")
        value = int(token.text) if len(token.text) <= 40 else ast.INT64_MAX + 1
        if value > ast.INT64_MAX:
            raise self.error("the number overflows 64 bits", token, f"the largest is {ast.INT64_MAX}")
        return value

    def _launch_dim(self, base: _Token) -> _Typed:
        self.expect(".")
        axis = self.take()
        if axis.text not in ("x", "y", "z"):
            raise self.error(
                f"{base.text} has no '{axis.text}'", axis, f"write {base.text}.x, {base.text}.y or {base.text}.z"
            )
        return _Typed(ast.LaunchDim(base.text, axis.text), base.start, axis.start + 1)

    def _scalar(self, token: _Token) -> ast.Node:
        if self.params is None:
            return ast.Name(token.text)
        param = self._param(token)
        if isinstance(param.type, Scalar):
            if param.type.kind == "float":
                raise self.error(f"'{param.name}' is {param.type}: rules read integers only", token)
            return ast.Name(param.name, param.type.kind == "bool", param.type.kind == "uint")
        if isinstance(param.type, (Pointer, Slice, Tensor)):
            raise self.error(
                f"'{param.name}' is an array ({param.type}), not a number", token, f"write len({param.name})"
            )
        raise self.error(f"'{param.name}' is {param.type}: rules cannot read it", token)

    def _param(self, token: _Token) -> Param:
        assert self.params is not None
        param = self.params.get(token.text)
        if param is None:
            known = _nearest(token.text, list(self.params))
            advice = f"the parameters are {', '.join(known)}" if known else "the kernel has no parameters"
            if token.text in ("block", "grid"):
                advice = _advice_axes(token.text)
            raise self.error(f"unknown name '{token.text}'", token, advice)
        return param

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, function: _Token) -> _Typed:
        name = function.text
        if name not in _FUNCTIONS:
            raise self.error(
                f"unknown function '{name}'", function, f"the functions are {', '.join(_nearest(name, _FUNCTIONS))}"
            )
        self.expect("(")
        if name in ("min", "max", "ceil_div"):
            return self._arithmetic_call(function)
        node: ast.Node
        array, param = self._array(name)
        if name == "len":
            rank = param.type.rank if param is not None and isinstance(param.type, Tensor) else None
            node = ast.Len(array.text, rank)
        elif name == "disjoint":
            node = self._disjoint(array)
        elif name == "aligned":
            node = ast.Aligned(array.text, self._alignment())
        else:
            node = self._extent(name, array, param)
        close = self.expect(")", f"{name} is written {_USAGE[name]}")
        return _Typed(node, function.start, close.start + 1)

    def _arithmetic_call(self, function: _Token) -> _Typed:
        arguments = [self._integer(self.expression(ast.OR), function.text)]
        while self.accept(","):
            arguments.append(self._integer(self.expression(ast.OR), function.text))
        close = self.expect(")", "arguments are separated by commas")
        result = _Typed(
            ast.Call(function.text, tuple(a.node for a in arguments)),
            function.start,
            close.start + 1,
            1 + max(a.depth for a in arguments),
        )
        if len(arguments) < 2 or (function.text == "ceil_div" and len(arguments) > 2):
            wanted = "two arguments" if function.text == "ceil_div" else "two or more arguments"
            raise self.error(f"{function.text} takes {wanted}, not {len(arguments)}", result)
        if result.depth > MAX_DEPTH:
            raise self.error(f"the rule has more than {MAX_DEPTH} operators above one another", result)
        return result

    def _array(self, function: str) -> tuple[_Token, Param | None]:
        token = self.take()
        if token.kind != "name" or token.text in _WORDS:
            problem = f"{function} wants the name of an array, found {_quoted(token)}"
            raise self.error(problem, token, f"it is written {_USAGE[function]}")
        if self.params is None:
            return token, None
        param = self._param(token)
        if not isinstance(param.type, (Pointer, Slice, Tensor)):
            raise self.error(f"{function} wants an array, and '{param.name}' is {param.type}", token)
        return token, param

    def _extent(self, name: str, array: _Token, param: Param | None) -> ast.Node:
        if param is not None and not isinstance(param.type, Tensor):
            raise self.error(
                f"{name} wants a tensor, and '{array.text}' is {param.type}", array, f"write len({array.text})"
            )
        self.expect(",", f"{name} is written {_USAGE[name]}")
        token = self.take()
        if token.kind != "number":
            raise self.error(f"the axis is an integer literal, found {_quoted(token)}", token)
        axis = self._number(token)
        rank = param.type.rank if param is not None and isinstance(param.type, Tensor) else MAX_AXIS + 1
        if axis >= rank:
            raise self.error(f"'{array.text}' has no axis {axis}", token, f"its axes are 0 to {rank - 1}")
        return ast.Dim(array.text, axis) if name == "dim" else ast.Stride(array.text, axis)

    def _disjoint(self, array: _Token) -> ast.Node:
        self.expect(",", f"disjoint is written {_USAGE['disjoint']}")
        if self.accept("*"):
            if self.params is None:
                return ast.Disjoint(array.text, None, True)
            arrays = [
                p.name for p in self.params.values() if isinstance(p.type, (Pointer, Slice, Tensor)) and not p.hidden
            ]
            return ast.Disjoint(array.text, tuple(n for n in arrays if n != array.text), True)
        other, _ = self._array("disjoint")
        if other.text == array.text:
            raise self.error(f"'{array.text}' always overlaps itself", other, f"write disjoint({array.text}, *)")
        return ast.Disjoint(array.text, (other.text,))

    def _alignment(self) -> int:
        self.expect(",", f"aligned is written {_USAGE['aligned']}")
        token = self.take()
        if token.kind != "number":
            raise self.error(f"the alignment is an integer literal, found {_quoted(token)}", token)
        value = self._number(token)
        if value < 1 or value & (value - 1):
            raise self.error("an alignment is a power of two", token)
        return value


_USAGE = {
    "len": "len(x)",
    "dim": "dim(x, 0)",
    "stride": "stride(x, 0)",
    "disjoint": "disjoint(x, y) or disjoint(x, *)",
    "aligned": "aligned(x, 16)",
}


def _quoted(token: _Token) -> str:
    return token.text if token.kind == "end" else f"'{token.text}'"


def _advice_axes(base: str) -> str:
    return f"write {base}.x, {base}.y or {base}.z"


def _advice_missing(token: _Token) -> str:
    return "the rule is empty" if token.kind == "end" and token.start == 0 else ""


def _advice_after(token: _Token) -> str:
    if token.kind == "op" and token.text == ".":
        return "only block and grid have .x, .y and .z"
    if token.kind == "op" and token.text == ",":
        return "a rule is one expression"
    return "an operator is missing before it" if token.kind in ("name", "number") else ""


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    """`known`, those that look like `name` first, the others in their own order; at most 12."""
    close = difflib.get_close_matches(name[:100], known, n=3, cutoff=0.5)
    return [*close, *(k for k in known if k not in close)][:12]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _window(text: str, start: int, end: int) -> tuple[str, int, int]:
    """One printable line of `text` round [start, end): the line, where the part begins in it, its width."""
    begin = max(0, start - 60) if len(text) > 100 else 0
    stop = min(len(text), begin + 100)
    head, tail = ("…" if begin else ""), ("…" if stop < len(text) else "")
    width = max(1, min(end, stop + 1) - start)
    return f"{head}{_printable(text[begin:stop])}{tail}", start - begin + len(head), width

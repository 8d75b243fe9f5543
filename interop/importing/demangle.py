"""Names and parameter types out of mangled C++ symbols (the Itanium ABI, which nvcc, NVRTC and clang share).

A kernel's symbol carries the types of its parameters, so this reads types as a tree, not only as text. What kernels'
symbols hold is covered: namespaces, templates with types and literals, substitutions, pointers, function types.
Anything else is :class:`NotDemangled`, and callers then treat the symbol as opaque.

https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

BUILTINS: dict[str, str] = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_D_BUILTINS = {"Dn": "std::nullptr_t", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Dh": "_Float16"}
_STANDARD = {
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream", "So": "std::ostream",
    "Sd": "std::iostream",
}  # fmt: skip
_SUFFIXES = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll",
             "unsigned long long": "ull"}  # fmt: skip


_LONGEST = 10_000
"""Characters of a type's text."""


class NotDemangled(ValueError):
    """The symbol is not mangled, or in a way that is not covered."""


@dataclass(frozen=True)
class Named:
    """A builtin, class or enumeration type; ``builtin`` tells the first from the others."""

    name: str
    builtin: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Qualified:
    """``const`` or ``volatile`` of a type."""

    inner: CType
    const: bool
    volatile: bool

    def __str__(self) -> str:
        words = "const " * self.const + "volatile " * self.volatile
        return f"{self.inner} {words.strip()}" if isinstance(self.inner, Indirect) else f"{words}{self.inner}"


@dataclass(frozen=True)
class Indirect:
    """A pointer (``*``) or reference (``&``, ``&&``)."""

    target: CType
    mark: str

    def __str__(self) -> str:
        if isinstance(self.target, Function):
            return f"{self.target.result} ({self.mark})({_listed(self.target.params)})"
        if isinstance(self.target, Array):
            return f"{self.target.element} ({self.mark})[{self.target.count}]"
        return f"{self.target}{self.mark}"


@dataclass(frozen=True)
class Array:
    element: CType
    count: str

    def __str__(self) -> str:
        return f"{self.element} [{self.count}]"


@dataclass(frozen=True)
class Function:
    result: CType
    params: tuple[CType, ...]

    def __str__(self) -> str:
        return f"{self.result} ({_listed(self.params)})"


CType = Union[Named, Qualified, Indirect, Array, Function]
"""A C++ type."""


@dataclass(frozen=True)
class Symbol:
    """A function: its qualified name with template arguments, and its parameters."""

    name: str
    params: tuple[CType, ...]
    template_args: tuple[CType, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({_listed(self.params)})"


def demangle(symbol: str) -> Symbol:
    """The function that `symbol` stands for.

    >>> str(demangle("_ZN2ns4blurIfLi3EEEvPKT_PS1_m"))
    'ns::blur<float, 3>(const float*, float*, unsigned long)'
    """
    if not symbol.startswith("_Z"):
        raise NotDemangled(symbol)
    parser = _Parser(symbol, 2)
    try:
        found = parser.encoding()
    except (IndexError, ValueError, RecursionError):
        raise NotDemangled(symbol) from None
    if parser.position != len(symbol) and symbol[parser.position] not in ".$":
        raise NotDemangled(symbol)
    return found


def readable(symbol: str) -> str:
    """`symbol` as a person writes it, or itself where it is not mangled.

    >>> readable("_Z4blurPf"), readable("blur")
    ('blur(float*)', 'blur')
    """
    try:
        return str(demangle(symbol))
    except NotDemangled:
        return symbol


def _listed(types: tuple[CType, ...]) -> str:
    return ", ".join(map(str, types))


class _Parser:
    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.substitutions: list[CType] = []
        self.template_args: tuple[CType, ...] = ()
        self._sizes: dict[int, int] = {}

    def candidate(self, type_: CType) -> CType:
        """Remembers a type that later ones may refer to.

        References let a short symbol stand for a text of exponential length, which nobody wrote: such are refused.
        """
        if self._size(type_) > _LONGEST:
            raise NotDemangled(self.text)
        self._sizes[id(type_)] = self._size(type_)
        self.substitutions.append(type_)
        return type_

    def _size(self, type_: CType) -> int:
        known = self._sizes.get(id(type_))
        if known is not None:
            return known
        if isinstance(type_, Named):
            return len(type_.name)
        if isinstance(type_, Function):
            return self._size(type_.result) + sum(self._size(p) + 2 for p in type_.params) + 4
        inner = type_.inner if isinstance(type_, Qualified) else None
        inner = type_.target if isinstance(type_, Indirect) else inner
        inner = type_.element if isinstance(type_, Array) else inner
        assert inner is not None
        return self._size(inner) + 16

    # -- characters

    def peek(self, count: int = 1) -> str:
        return self.text[self.position : self.position + count]

    def accept(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise NotDemangled(self.text)

    def number(self) -> int:
        start = self.position
        while self.peek().isdigit():
            self.position += 1
        return int(self.text[start : self.position])

    def sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, ``A_`` is 11: the numbers of substitutions."""
        end = self.text.index("_", self.position)
        digits = self.text[self.position : end]
        self.position = end + 1
        return int(digits, 36) + 1 if digits else 0

    # -- functions

    def encoding(self) -> Symbol:
        name, arguments = self.name()
        self.template_args = arguments
        if self.position == len(self.text) or self.peek() in "E.":
            raise NotDemangled(self.text)  # a variable
        if arguments:
            self.type()  # a template's symbol has the result type as well
        params = self._types_until_end()
        return Symbol(name, params, arguments)

    def _types_until_end(self) -> tuple[CType, ...]:
        params: list[CType] = []
        while self.position < len(self.text) and self.peek() not in "E.$":
            params.append(self.type())
        is_void = len(params) == 1 and params[0] == Named("void", True)
        return () if is_void else tuple(params)

    # -- names

    def name(self) -> tuple[str, tuple[CType, ...]]:
        """A qualified name and the template arguments at its end."""
        if self.accept("N"):
            return self._nested()
        if self.accept("Z"):
            raise NotDemangled(self.text)  # local to a function
        if self.peek(2) == "St":
            self.position += 2
            base, known = f"std::{self.unqualified()}", False
        elif self.peek() == "S":
            base, known = str(self.substitution()), True
        else:
            base, known = self.unqualified(), False
        if not known and self.peek() == "I":
            self.candidate(Named(base))
        if self.peek() == "I":
            arguments = self.arguments()
            return f"{base}<{_listed(arguments)}>", arguments
        return base, ()

    def _nested(self) -> tuple[str, tuple[CType, ...]]:
        while self.peek() in ("r", "V", "K"):
            self.position += 1
        current, arguments = "", tuple[CType, ...]()
        while not self.accept("E"):
            known = False
            if self.peek(2) == "St":
                self.position += 2
                current, known = "std", True
            elif self.peek() == "S":
                current, known = str(self.substitution()), True
            elif self.peek() == "T":
                current = str(self.template_parameter())
            elif self.peek() == "I":
                arguments = self.arguments()
                current = f"{current}<{_listed(arguments)}>"
            else:
                part = self.unqualified()
                current, arguments = f"{current}::{part}" if current and part else current or part, ()
            if not known and self.peek() != "E":
                self.candidate(Named(current))
        return current, arguments

    def unqualified(self) -> str:
        """One identifier; empty for an anonymous namespace."""
        self.accept("L")
        if self.accept("Ul"):
            while not self.accept("E"):
                self.type()
            return f"{{lambda#{self.sequence() + 1}}}"
        if not self.peek().isdigit():
            raise NotDemangled(self.text)
        length = self.number()
        word = self.peek(length)
        if len(word) != length:
            raise NotDemangled(self.text)
        self.position += length
        while self.accept("B"):  # ABI tags
            self.position += self.number()
        return "" if word.startswith("_GLOBAL__N_") else word

    # -- templates and substitutions

    def arguments(self) -> tuple[CType, ...]:
        self.expect("I")
        found: list[CType] = []
        while not self.accept("E"):
            found.extend(self._argument())
        return tuple(found)

    def _argument(self) -> list[CType]:
        if self.accept("L"):
            return [self._literal()]
        if self.accept("J"):
            pack: list[CType] = []
            while not self.accept("E"):
                pack.extend(self._argument())
            return pack
        return [self.type()]

    def _literal(self) -> CType:
        if self.accept("_Z"):
            inner = self.encoding()
            self.expect("E")
            return Named(f"&{inner.name}")
        type_ = str(self.type())
        sign = "-" if self.accept("n") else ""
        value = f"{sign}{self.number()}"
        self.expect("E")
        if type_ == "bool":
            return Named("true" if value == "1" else "false")
        return Named(value + _SUFFIXES[type_] if type_ in _SUFFIXES else f"({type_}){value}")

    def template_parameter(self) -> CType:
        self.expect("T")
        index = self.sequence()
        if index >= len(self.template_args):
            raise NotDemangled(self.text)
        return self.template_args[index]

    def substitution(self) -> CType:
        if self.peek(2) in _STANDARD:
            self.position += 2
            return Named(_STANDARD[self.text[self.position - 2 : self.position]])
        self.expect("S")
        return self.substitutions[self.sequence()]

    # -- types

    def type(self) -> CType:
        letter, two = self.peek(), self.peek(2)
        if letter in BUILTINS:
            self.position += 1
            return Named(BUILTINS[letter], True)
        if two in _D_BUILTINS:
            self.position += 2
            return Named(_D_BUILTINS[two], True)
        if self.accept("DF16b"):
            return Named("__bf16", True)
        if self.accept("DF16_"):
            return Named("_Float16", True)
        if letter == "S" and two != "St":
            found = self.substitution()
            if self.peek() != "I":
                return found
            found = Named(f"{found}<{_listed(self.arguments())}>")
        else:
            found = self._compound(letter)
        return self.candidate(found)

    def _compound(self, letter: str) -> CType:
        """A type that later ones may refer to."""
        if letter in ("r", "V", "K"):
            self.accept("r")
            volatile, const = self.accept("V"), self.accept("K")
            inner = self.type()
            return Qualified(inner, const, volatile) if const or volatile else inner
        if letter in ("P", "R", "O"):
            self.position += 1
            return Indirect(self.type(), {"P": "*", "R": "&", "O": "&&"}[letter])
        if letter == "F":
            self.position += 1
            self.accept("Y")
            result = self.type()
            params = self._types_until_end()
            self.expect("E")
            return Function(result, params)
        if letter == "A":
            self.position += 1
            count = str(self.number())
            self.expect("_")
            return Array(self.type(), count)
        if letter == "T":
            return self.template_parameter()
        if letter == "u":
            self.position += 1
            return Named(self.unqualified(), True)
        if letter.isdigit() or letter == "N" or self.peek(2) == "St":
            return Named(self.name()[0])
        raise NotDemangled(self.text)

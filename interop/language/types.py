"""The parameter types that kernels are annotated with: ``Slice[f32]``, ``DisjointTensor[f32, 2]``, ``In[f32]`` …

Indexing one of the words gives an :class:`Annotation`, which says what is passed and what the kernel may do with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from abi import Access, Pointer, Scalar, Slice, Tensor, Type

MAX_RANK = 4
"""The largest rank of a tensor parameter."""


@dataclass(frozen=True)
class Annotation:
    """A parameter's type as written. ``access`` says what is allowed, not what the kernel does in the end."""

    word: str
    type: Type
    access: Access

    def __repr__(self) -> str:
        if isinstance(self.type, Scalar):
            return str(self.type)
        if isinstance(self.type, Tensor):
            return f"{self.word}[{self.type.element}, {self.type.rank}]"
        element = self.type.pointee if isinstance(self.type, Pointer) else getattr(self.type, "element", None)
        return f"{self.word}[{element}]"


@dataclass(frozen=True)
class ParameterWord:
    """One of the words: ``Slice``, ``Tensor``, ``In`` …; ``word[...]`` makes the annotation.

    >>> import interop as io
    >>> io.DisjointTensor[io.f32, 2]
    DisjointTensor[f32, 2]
    """

    name: str
    kind: str
    access: Access

    def __getitem__(self, arguments: object) -> Annotation:
        parts = arguments if isinstance(arguments, tuple) else (arguments,)
        element = parts[0] if parts else None
        wants = (
            "two arguments, an element type and a rank" if self.kind == "tensor" else "one argument, an element type"
        )
        if len(parts) != (2 if self.kind == "tensor" else 1):
            raise TypeError(f"{self.name}[...] takes {wants}, as in {self._example()}")
        if not isinstance(element, Scalar):
            raise TypeError(f"{self.name}[...]: {element!r} is not an element type; write {self._example()}")
        if self.kind == "tensor":
            rank = parts[1]
            if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MAX_RANK:
                raise TypeError(f"{self.name}[...]: the rank is a number from 1 to {MAX_RANK}, not {rank!r}")
            return Annotation(self.name, Tensor(element, rank), self.access)
        type_: Type = Slice(element) if self.kind == "slice" else Pointer(element)
        return Annotation(self.name, type_, self.access)

    def _example(self) -> str:
        return f"io.{self.name}[io.f32, 2]" if self.kind == "tensor" else f"io.{self.name}[io.f32]"

    def __repr__(self) -> str:
        return self.name


Slice_ = ParameterWord("Slice", "slice", Access.IN)
DisjointSlice = ParameterWord("DisjointSlice", "slice", Access.INOUT)
Tensor_ = ParameterWord("Tensor", "tensor", Access.IN)
DisjointTensor = ParameterWord("DisjointTensor", "tensor", Access.INOUT)
In = ParameterWord("In", "pointer", Access.IN)
Out = ParameterWord("Out", "pointer", Access.OUT)
InOut = ParameterWord("InOut", "pointer", Access.INOUT)

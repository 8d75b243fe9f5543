"""The parameter types that kernels are annotated with: ``Slice[f32]``, ``DisjointTensor[f32, 2]``, ``In[f32]`` …

Indexing one of the words gives an :class:`Annotation`, which says what is passed and what the kernel may do with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

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
    doc: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.doc:
            object.__setattr__(self, "__doc__", self.doc)
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__qualname__", self.name)

    def __call__(self, *arguments: object, **keywords: object) -> NoReturn:
        shown = ", ".join(map(str, arguments)) if arguments and isinstance(arguments[0], Scalar) else ""
        written = f"io.{self.name}[io.{shown}]" if shown else self._example()
        raise TypeError(f"{self.name} takes its arguments in brackets: write {written}")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"'{self.name}' is not iterable")

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


Slice_ = ParameterWord(
    "Slice",
    "slice",
    Access.IN,
    """``x: io.Slice[io.f32]``: a contiguous array that the kernel only reads.

    In the body ``x[i]`` reads with a bounds check, and ``len(x)`` is the number of elements. The caller passes an array
    of any rank that is contiguous; a kernel receives its address and its number of elements.
    """,
)
DisjointSlice = ParameterWord(
    "DisjointSlice",
    "slice",
    Access.INOUT,
    """``y: io.DisjointSlice[io.f32]``: a contiguous array of which each thread writes its own elements.

    It is indexed by a witness: ``i = simt.global_index()``, then ``y[i] = …`` and ``y[i]``. Where the kernel writes it,
    a plain integer is a compile error, because another thread may hold the same one. A launch checks that no other
    argument overlaps it.
    """,
)
Tensor_ = ParameterWord(
    "Tensor",
    "tensor",
    Access.IN,
    """``a: io.Tensor[io.f32, 2]``: a strided array of 1 to 4 dimensions that the kernel only reads.

    ``a[row, col]`` reads with a bounds check; ``a.shape`` and ``a.strides`` (in elements) are tuples. The caller passes
    any array of that rank, views with steps and transposes included.
    """,
)
DisjointTensor = ParameterWord(
    "DisjointTensor",
    "tensor",
    Access.INOUT,
    """``dst: io.DisjointTensor[io.f32, 2]``: a strided array of which each thread writes its own elements.

    It is indexed by a witness of its rank: ``p = simt.global_index(2)``, then ``dst[p] = …``; ``p.row`` and ``p.col``
    are plain integers for reading other arrays.
    """,
)
In = ParameterWord(
    "In",
    "pointer",
    Access.IN,
    """``x: io.In[io.f32]``: a bare pointer to memory that the kernel only reads, as C's ``const float *``.

    It has no length, so that accesses cannot be checked; the caller passes an array. For kernels that C code calls with
    bare pointers, and in declarations of foreign kernels.
    """,
)
Out = ParameterWord(
    "Out",
    "pointer",
    Access.OUT,
    """``y: io.Out[io.f32]``: a bare pointer to memory that the kernel writes and does not read.

    The author promises that every element is written: callers may pass memory that holds nothing yet.
    """,
)
InOut = ParameterWord(
    "InOut",
    "pointer",
    Access.INOUT,
    """``y: io.InOut[io.f32]``: a bare pointer to memory that the kernel reads and writes, as C's ``float *``.

    It has no length, so that accesses cannot be checked; the caller passes an array.
    """,
)

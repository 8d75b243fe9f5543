"""What messages tell a caller to do about an array that does not fit.

An array that is read may be converted on the way in. One that is written may not: a copy made inside the call would
take the results and vanish.
"""

from __future__ import annotations

from abi import ArgumentTypeError, Scalar

_NUMPY_NAMES = {"bool": "bool", "bf16": "ml_dtypes.bfloat16"}
_WORDS = {"i": "int", "u": "uint", "f": "float"}


class UnfitArray(ArgumentTypeError):
    """An array that cannot be passed as it is. ``fix`` is an expression that makes one of it that can."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}: pass {fix}")
        self.problem = problem


def for_written(error: UnfitArray) -> ArgumentTypeError:
    """The same error for an array that the kernel writes."""
    return ArgumentTypeError(f"{error.problem}: {copy_back('copy that can be passed')}")


def copy_back(kind: str) -> str:
    """What to do instead of passing a copy: ``kind`` says what the copy has to be.

    >>> copy_back("contiguous copy")
    'make a contiguous copy, launch on that, and copy the result back'
    """
    return f"make a {kind}, launch on that, and copy the result back"


def converted(name: str, element: Scalar, framework: str, written: bool) -> str:
    """What to do about an array of another element type.

    >>> from abi import f32
    >>> converted("x", f32, "numpy", False), converted("y", f32, "torch", True)
    ('pass x.astype(np.float32)', 'make a copy of type f32, launch on that, and copy the result back')
    """
    if written:
        return copy_back(f"copy of type {element}")
    word = element.name if element.name == "bool" else f"{_WORDS.get(element.name[0], 'bfloat')}{element.bits}"
    if framework == "torch":
        return f"pass {name}.to(torch.{word})"
    library = "cupy" if framework == "cupy" else "np"
    return f"pass {name}.astype({_NUMPY_NAMES.get(element.name) or f'{library}.{word}'})"


def contiguous(name: str, framework: str, written: bool) -> str:
    """What to do about an array that is not contiguous.

    >>> contiguous("x", "numpy", False), contiguous("x", "torch", False)
    ('pass np.ascontiguousarray(x)', 'pass x.contiguous()')
    """
    if written:
        return copy_back("contiguous copy")
    if framework == "torch":
        return f"pass {name}.contiguous()"
    return f"pass {'cupy' if framework == 'cupy' else 'np'}.ascontiguousarray({name})"

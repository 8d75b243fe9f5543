"""The thread-level IR: operations, types, printer, verifier."""

from .ops import Function, Operation, Parameter, Region, Value, walk
from .printer import print_function
from .types import Shared, Witness
from .verifier import VerificationError, verify

__all__ = [
    "Function", "Operation", "Parameter", "Region", "Shared", "Value", "VerificationError", "Witness",
    "print_function", "verify", "walk",
]  # fmt: skip

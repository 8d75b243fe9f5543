"""Thread-level IR to LLVM IR to PTX."""

from .ptx import check_target, generate

__all__ = ["check_target", "generate"]

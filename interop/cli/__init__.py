"""The command line: ``interop doctor | inspect | config``."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``interop`` command; a user's mistake is one line on stderr and exit status 1."""
    import sys

    from abi import Error

    from .app import app

    try:
        app()
    except Error as error:
        print(f"interop: error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


__all__ = ["main"]

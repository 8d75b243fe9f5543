"""The command line: ``interop doctor | inspect | config``."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``interop`` command; a user's mistake is one line on stderr and exit status 1."""
    import io
    import sys

    from abi import Error

    from .app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ gets a question mark
    try:
        app()
    except (Error, OSError) as error:  # OSError: what is printed goes to a full disk
        # A compiler's message begins with the word already.
        print(f"interop: error: {str(error).removeprefix('error: ')}", file=sys.stderr)
        raise SystemExit(1) from None


__all__ = ["main"]

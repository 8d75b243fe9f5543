"""``python -m interop`` is the ``interop`` command."""

from .cli import main

main()

"""The status numbers as a C header, from the one table in :mod:`abi`."""

from __future__ import annotations

import abi

_HEAD = """\
/* Status numbers, the same in every language. Generated from the table in abi/errors.py; a number never changes. */
#ifndef INTEROP_STATUS_H
#define INTEROP_STATUS_H

typedef enum interop_status {
"""
_TAIL = """\
} interop_status;

/* What a status says in general; the failing library's last_error() says it in particular. */
static inline const char *interop_status_text(interop_status status)
{
    switch (status) {
"""


def status_header() -> str:
    """The text of ``interop/status.h``.

    >>> "INTEROP_OK = 0" in status_header()
    True
    """
    names = {status: "INTEROP_OK" if status == 0 else f"INTEROP_ERROR_{status.name}" for status in abi.Status}
    members = ",\n".join(f"    {name} = {int(status)}" for status, name in names.items())
    cases = "".join(
        f'    case {name}:\n        return "{abi.STATUS_TEXT[status]}";\n' for status, name in names.items()
    )
    return f'{_HEAD}{members}\n{_TAIL}{cases}    }}\n    return "a status of a newer version";\n}}\n\n#endif\n'

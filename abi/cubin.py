"""Reads the parameter records of a cubin (an ELF file) without a driver.

Each kernel has a section ``.nv.info.<symbol>`` of attributes; attribute 0x17 (EIATTR_KPARAM_INFO) is one parameter: its
ordinal, offset and size. Alignment and type are not recorded.
"""

from __future__ import annotations

import struct

from .errors import ImageError
from .records import Slot

_ELF_MACHINE_CUDA = 190
_SIZED = 4  # attribute format: a 16-bit size and that many bytes; all other formats are four bytes in all
_KPARAM_INFO = 0x17
_CBANK_PARAM_SIZE = 0x19
_PREFIX = ".nv.info."


def read_cubin_params(data: bytes) -> dict[str, tuple[Slot, ...] | None] | None:
    """Each kernel's parameters by symbol (alignment is recorded as 1); None for a kernel whose records are of a form
    that is not known. None in all for an ELF file that is not a cubin's."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError, OverflowError, UnicodeDecodeError):
        raise ImageError("the cubin is damaged: its sections lie outside the file") from None


def _read(data: bytes) -> dict[str, tuple[Slot, ...] | None] | None:
    if data[:4] != b"\x7fELF":
        raise ImageError("the cubin is damaged: it is not an ELF file")
    if data[4:6] != b"\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _ELF_MACHINE_CUDA:
        return None
    sections = _sections(data)
    result: dict[str, tuple[Slot, ...] | None] = {}
    for name, (offset, size) in sections.items():
        symbol = name[len(_PREFIX) :]
        if name.startswith(_PREFIX) and f".text.{symbol}" in sections:
            if offset + size > len(data):
                raise IndexError
            result[symbol] = _parameters(data[offset : offset + size])
    return result


def _sections(data: bytes) -> dict[str, tuple[int, int]]:
    """Offset and size of each section by name."""
    (table,) = struct.unpack_from("<Q", data, 40)
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * entry_size) for i in range(count)]
    names_at = headers[names_index][4]
    result = {}
    for name, _, _, _, offset, size in headers:
        end = data.index(b"\0", names_at + name)
        result[data[names_at + name : end].decode("utf-8")] = (offset, size)
    return result


def _parameters(info: bytes) -> tuple[Slot, ...] | None:
    found: dict[int, Slot] = {}
    declared, position = 0, 0
    while position + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, position)
        position += 4
        if form != _SIZED:
            declared = value if attribute == _CBANK_PARAM_SIZE else declared
            continue
        if attribute == _KPARAM_INFO and value == 12:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", info, position)
            found[ordinal] = Slot(offset, packed >> 18, 1)
        position += value
    slots = [found[i] for i in sorted(found)]
    end = max((s.offset + s.size for s in slots), default=0)
    complete = sorted(found) == list(range(len(found))) and (declared == 0 or end == declared)
    return tuple(slots) if complete else None

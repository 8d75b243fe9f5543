"""THE launch layer: devices, memory, streams, argument checks and packing, launches.

One path for every kernel of every origin on both devices. Importing this package touches no driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from abi import ArgumentTypeError

from .arrays import NotAnArray, view
from .device import ENVIRONMENT_VARIABLE, Device, DeviceKey, Limits, LoadedKernel, device, devices, open_device
from .launchable import ConfiguredLaunch, Launchable
from .memory import DeviceArray, empty, to_device
from .stream import Stream, synchronize


def device_of(arrays: Iterable[Any]) -> Device:
    """The one device on which all of `arrays` live; an error that names both when there are two.

    >>> import numpy as np
    >>> device_of([np.zeros(3), np.ones(2)]).kind
    'cpu'
    """
    key: DeviceKey | None = None
    for array in arrays:
        try:
            found = view(array, "an argument").device
        except NotAnArray:
            raise ArgumentTypeError(f"a {type(array).__name__} is not an array") from None
        if key is not None and found != key:
            raise ArgumentTypeError(f"arrays are on {key} and on {found}: all arrays of a call live on one device")
        key = found
    if key is None:
        raise ArgumentTypeError("there are no arrays, so no device follows from them")
    return open_device(key)


__all__ = [
    "ENVIRONMENT_VARIABLE", "ConfiguredLaunch", "Device", "DeviceArray", "DeviceKey", "Launchable", "Limits",
    "LoadedKernel", "Stream", "device", "device_of", "devices", "empty", "synchronize", "to_device",
]  # fmt: skip

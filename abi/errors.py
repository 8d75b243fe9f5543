"""The exceptions of every part and the numbered status table that C, C++ and Rust hosts share.

A :class:`Status` number never changes its meaning and is never reused; new ones are appended. Each Python exception
class names the status that the same mistake has in the other host languages, so that a caller may translate either way.
"""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What a host-language call returns. ``OK`` is zero; everything else comes with a thread-local message."""

    OK = 0
    ARGUMENT_TYPE = 1
    ARGUMENT_RANGE = 2
    CONTRACT = 3
    DEVICE = 4
    SYMBOL_NOT_FOUND = 5
    ABI_MISMATCH = 6
    INCOMPATIBLE = 7
    BUNDLE = 8
    UNSUPPORTED = 9
    OUT_OF_MEMORY = 10
    EXECUTION = 11
    INTERNAL = 12


STATUS_TEXT: dict[Status, str] = {
    Status.OK: "no error",
    Status.ARGUMENT_TYPE: "an argument has the wrong type",
    Status.ARGUMENT_RANGE: "an argument is out of range",
    Status.CONTRACT: "a precondition of the kernel does not hold",
    Status.DEVICE: "the device or its driver reported an error",
    Status.SYMBOL_NOT_FOUND: "the image has no kernel of that name",
    Status.ABI_MISMATCH: "the description does not match the image",
    Status.INCOMPATIBLE: "no image runs on this device",
    Status.BUNDLE: "the bundle is missing, damaged or of an unknown version",
    Status.UNSUPPORTED: "not supported",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.EXECUTION: "the kernel stopped with an error",
    Status.INTERNAL: "internal error",
}
"""One line for each status, the same in every language."""


class Error(Exception):
    """Base of everything that the libraries `abi` and `interop` raise on a user's mistake."""

    status: Status = Status.INTERNAL


class LaunchError(Error):
    """A kernel could not be launched; nothing ran."""

    status = Status.DEVICE


class ArgumentTypeError(LaunchError, TypeError):
    """An argument has the wrong type, dtype, rank, layout or count."""

    status = Status.ARGUMENT_TYPE


class ArgumentRangeError(LaunchError, OverflowError):
    """A scalar does not fit the parameter's declared width, or a grid or block its limit."""

    status = Status.ARGUMENT_RANGE


class ContractError(LaunchError, ValueError):
    """A precondition of the kernel does not hold. The message has the rule's text and the values.

    :ivar kernel: the kernel's name.
    :ivar rule: the rule's text, as in the description.
    :ivar values: what each leaf of the rule was, in order of appearance: ``{"len(x)": 3, "len(y)": 4}``.
    """

    status = Status.CONTRACT

    def __init__(self, message: str, *, kernel: str = "", rule: str = "", values: dict[str, int] | None = None):
        super().__init__(message)
        self.kernel = kernel
        self.rule = rule
        self.values = dict(values or {})


class DeviceError(LaunchError):
    """The device or its driver reported an error; the message carries the driver's own error name."""

    status = Status.DEVICE


class ExecutionError(DeviceError):
    """The kernel started and stopped with an error: a trap, a failed assertion, an access out of range, a deadlock."""

    status = Status.EXECUTION


class ImageError(Error):
    """An image (PTX, cubin, object) cannot be used."""

    status = Status.INCOMPATIBLE


class SymbolNotFound(ImageError, KeyError):
    """The image has no kernel of that name; the message lists those it has, nearest first."""

    status = Status.SYMBOL_NOT_FOUND

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class AbiMismatch(ImageError):
    """A description and an image disagree about the parameters; the message prints both layouts."""

    status = Status.ABI_MISMATCH


class Incompatible(ImageError):
    """No image fits the device, or the image is newer than the driver."""

    status = Status.INCOMPATIBLE


class BundleError(Error):
    """A bundle is missing, damaged, or of an unknown version."""

    status = Status.BUNDLE


class RuleError(Error, ValueError):
    """A launch rule or precondition is not well formed. The message has the rule, a caret and advice."""

    status = Status.CONTRACT


class UnsupportedError(Error, NotImplementedError):
    """The thing asked for is well formed but not supported; the message names it."""

    status = Status.UNSUPPORTED

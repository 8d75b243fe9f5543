"""What :func:`load_cuda` and :func:`load_ptx` return: kernels under the names that a person would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import abi
from abi import Image, ImageKind, SymbolNotFound
from abi.verify import not_found_message

from ..runtime import Launchable

Instantiate = Callable[[str], "Launchable | None"]
"""Makes the kernel of a C++ name expression, such as ``blur<float, 3>``; None when there is no such kernel."""


class NoSuchKernel(SymbolNotFound, AttributeError):
    """A module has no kernel of that name."""


class AmbiguousKernel(NoSuchKernel):
    """A module has several kernels to which a name might refer."""


class Module:
    """Kernels of one source or image. ``module.blur`` or ``module["image::blur<float, 3>"]`` is a kernel.

    A kernel's name is its C++ name with namespaces and template arguments; overloads have their parameter types as
    well. The last part of a name is enough where only one kernel has it. ``list(module)`` has the names.
    """

    def __init__(self, name: str, programs: Iterable[abi.Program], instantiate: Instantiate | None = None) -> None:
        self._name = name
        self._kernels = {p.kernel.name: Launchable(constant(p), name=p.kernel.name) for p in programs}
        self._symbols = {k.program().kernel.symbol: k for k in self._kernels.values()}
        self._instantiate = instantiate

    @property
    def name(self) -> str:
        """The file's name, or ``<source>``."""
        return self._name

    @property
    def kernels(self) -> Mapping[str, Launchable]:
        """Every kernel by name."""
        return MappingProxyType(self._kernels)

    def kernel(self, name: str) -> Launchable:
        """The kernel called `name`; a template's instance is compiled when it is asked for.

        :raises SymbolNotFound: the message lists the kernels that there are, nearest first.
        """
        matches = self.candidates(name)
        if len(matches) > 1:
            names = [m.name for m in matches]
            raise AmbiguousKernel(
                f"{self._name}: '{name}' could be any of: {', '.join(names)}; write the whole name: "
                f'module["{names[0]}"], or symbol="{names[0]}" in a declaration'
            )
        found = matches[0] if matches else None
        if found is None and self._instantiate is not None:
            found = self._instantiate(name)
            if found is not None:
                self._kernels[name] = found
        if found is None:
            raise NoSuchKernel(f"{self._name}: {not_found_message(name, list(self._kernels))}")
        return found

    def candidates(self, name: str) -> list[Launchable]:
        """Every loaded kernel to which `name` may refer: more than one for an overload's name without parameters."""
        exact = self._kernels.get(name) or self._symbols.get(name)
        if exact is not None:
            return [exact]
        wanted = normal(name)
        return [kernel for known, kernel in self._kernels.items() if wanted in _forms(known)]

    def __getitem__(self, name: str) -> Launchable:
        """``module["blur<float, 3>"]``: the same as :meth:`kernel`."""
        if not isinstance(name, str):
            raise TypeError(f"a module of kernels is indexed by a kernel's name, not by {type(name).__name__}")
        return self.kernel(name)

    def __iter__(self) -> Iterator[str]:
        """The names of the kernels."""
        return iter(list(self._kernels))

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        """Whether :meth:`kernel` finds `name` among the kernels that are loaded. Compiles nothing."""
        return isinstance(name, str) and len(self.candidates(name)) == 1

    def __getattr__(self, name: str) -> Launchable:
        if name.startswith("__"):
            raise AttributeError(f"a module of kernels has no attribute '{name}'")
        return self.kernel(name)

    def __dir__(self) -> list[str]:
        short = {normal(name).split("(")[0].split("<")[0].rsplit("::", 1)[-1] for name in self._kernels}
        return sorted({*super().__dir__(), *short})

    def __repr__(self) -> str:
        return f"<kernels of {self._name}: {', '.join(self._kernels) or 'none'}>"


def normal(name: str) -> str:
    """A C++ name without the spaces that do not matter.

    >>> normal("blur< float,3 >")
    'blur<float,3>'
    """
    return re.sub(r"\s*([<>,()*&:])\s*", r"\1", name.strip())


def _forms(name: str) -> set[str]:
    """The ways in which a person may write a kernel's name: whole, without parameters, arguments or namespaces."""
    whole = normal(name)
    bare = whole.split("(")[0] if not whole.startswith("(") else whole
    plain = bare.split("<")[0]
    forms = {whole, bare, plain}
    return forms | {_last_part(form) for form in forms}


def _last_part(name: str) -> str:
    head = name.split("(")[0].split("<")[0]
    return name[head.rfind("::") + 2 :] if "::" in head else name


def constant(program: abi.Program) -> Callable[[], abi.Program]:
    """A function that returns `program`."""
    return lambda: program


def ptx_image(ptx: str, header: abi.PtxHeader, symbols: Iterable[str]) -> Image:
    """The image record of a PTX text."""
    return Image(ImageKind.PTX, header.target, ptx.encode(), tuple(symbols), header.version, min_cc(header.target))


def min_cc(target: str) -> tuple[int, int]:
    """The compute capability of a target.

    >>> min_cc("sm_90a")
    (9, 0)
    """
    match = re.match(r"sm_(\d+)(\d)[af]?$", target)
    if not match:
        raise abi.ImageError(f"'{target}' is not a CUDA target; targets look like sm_80 and sm_90a")
    return int(match[1]), int(match[2])

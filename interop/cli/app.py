"""The commands and their options; each command's work is in a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="interop",
    help="Kernels written once, called from Python, C and C++.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        import interop

        typer.echo(interop.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Kernels written once, called from Python, C and C++."""


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is there, what is missing and what to do. Exit status 1 only if something required is missing."""
    from .doctor import examine, print_findings, print_json

    findings = examine()
    (print_json if json else print_findings)(findings)
    if any(finding.required and finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="A .cu, .ptx or .py file, or a bundle (folder or bundle.kabi.json).")],
) -> None:
    """Show each kernel's signature in C and Python, its contract and its parameter layout.

    A .py file is run to find its kernels, as an import would run it.
    """
    from .inspect import reports

    for number, report in enumerate(reports(path)):
        typer.echo(f"\n{report}" if number else report)


@app.command()
def config(
    cmakedir: Annotated[
        bool, typer.Option("--cmakedir", help="For -Dinterop_DIR=…: find_package(interop) gives interop::headers.")
    ] = False,
    includedir: Annotated[
        bool, typer.Option("--includedir", help="The folder of the headers that all exported folders share.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="The version of this package.")] = False,
) -> None:
    """Print where this package keeps the C and C++ headers and the CMake package for them.

    An exported folder has copies of its own and needs neither.
    """
    import interop

    from ..exporting.shim import shim_path

    answers = []
    if cmakedir:
        answers.append(str(shim_path() / "cmake"))
    if includedir:
        answers.append(str(shim_path() / "include"))
    if version:
        answers.append(interop.__version__)
    if not answers:
        typer.echo("interop config: give --cmakedir, --includedir or --version", err=True)
        raise typer.Exit(2)
    typer.echo("\n".join(answers))

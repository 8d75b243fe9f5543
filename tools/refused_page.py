"""Writes ``docs/refused.md``: what the CPU device refuses, each with the error that it gives.

python3 tools/refused_page.py           # writes the page
python3 tools/refused_page.py --check   # fails when the page is not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "refused.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "executor")]

from opcode_samples import FORMS, MODULES, SAMPLES, kernel  # noqa: E402

from abi import UnsupportedError  # noqa: E402
from interop.executor import compile_kernel  # noqa: E402
from interop.executor.opcodes import INSTRUCTIONS, why_refused  # noqa: E402

_INTRODUCTION = """\
# What the CPU device refuses

The CPU device translates the instructions of the PTX ISA 9.0 that sm_80 has, and of later devices those that have a
meaning outside of their hardware. What is listed here is an `UnsupportedError` when the kernel is translated, before
anything runs, and the error names the instruction and its line. Nothing is skipped silently.

`tools/refused_page.py` writes this page: it tries an instruction for each name of the ISA, and shows the errors.
"""


def error_of(text: str) -> str:
    """The error that translating the kernel `k` of a text gives, without the line; empty when there is none."""
    try:
        compile_kernel(text, "k")
    except UnsupportedError as error:
        return re.sub(r"^ptx line \d+: ", "", str(error))
    return ""


def _reason(error: str) -> str:
    """What stands behind the instruction in an error."""
    return error.split(" is not supported by the CPU device: ")[-1]


def page() -> str:
    """The page's text."""
    lines = [_INTRODUCTION, "## Instructions", ""]
    names = [(section, name) for section, found in INSTRUCTIONS.items() for name in found]
    translated = [name for _, name in names if not why_refused(name)]
    lines += [
        f"Of {len(names)} instructions, {len(translated)} are translated. The others:",
        "",
        "| section | instruction | the error says |",
        "|---|---|---|",
    ]
    for section, name in names:
        if why_refused(name):
            lines.append(f"| {section} | `{name}` | {_reason(error_of(kernel(SAMPLES[name])))} |")
    lines += ["", "The whole error, for instance:", "", "```", error_of(kernel(SAMPLES["tex"])), "```", ""]
    lines += ["## Forms of instructions", "", "| written | the error says |", "|---|---|"]
    for text in FORMS.values():
        lines.append(f"| `{text.rstrip(';')}` | {_reason(error_of(kernel(text)))} |")
    lines += ["", "## Modules", "", "| what | the error |", "|---|---|"]
    for what, text in MODULES.items():
        lines.append(f"| {what} | {error_of(text)} |")
    lines += ["", "## All instructions that are translated", ""]
    for section, found in INSTRUCTIONS.items():
        kept = [f"`{name}`" for name in found if not why_refused(name)]
        if kept:
            lines += [f"- {section}: {', '.join(kept)}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

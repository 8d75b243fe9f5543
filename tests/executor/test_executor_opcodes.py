"""Every instruction of the PTX ISA is either translated, or refused by its name and with a reason."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from opcode_samples import FORMS, MODULES, SAMPLES, kernel
from support.assemble import AssemblyError, assemble

from abi import UnsupportedError
from interop.executor import compile_kernel
from interop.executor.opcodes import INSTRUCTIONS, REFUSED, why_refused
from interop.executor.table import instruction_table

NAMES = [name for names in INSTRUCTIONS.values() for name in names]


def test_each_name_has_a_sample_that_begins_with_it() -> None:
    assert len(set(NAMES)) == len(NAMES) and set(NAMES) == set(SAMPLES)
    for name, sample in SAMPLES.items():
        written = sample.split(" ")[0] if name != "brx.idx" else "brx.idx"
        have = written.rstrip(";").replace("::", ".").split(".")
        missing = [part for part in name.split(".") if part not in have]
        assert not missing and have[0] == name.split(".")[0], (name, sample)


def test_each_opcode_that_is_translated_is_one_of_the_isa() -> None:
    """`shfl` and `vote` are in the ISA with `.sync` alone; what begins with `%` the translator makes for itself."""
    translated = {opcode for opcode in instruction_table() if not opcode.startswith("%")}
    assert {name.split(".")[0] for name in NAMES} >= translated


@pytest.mark.parametrize("name", NAMES)
def test_each_instruction_is_translated_or_refused_with_a_reason(name: str) -> None:
    text = kernel(SAMPLES[name])
    reason = why_refused(name)
    if not reason:
        compile_kernel(text, "k")
        return
    with pytest.raises(UnsupportedError) as error:
        compile_kernel(text, "k")
    assert str(error.value).startswith(f"ptx line 8: `{SAMPLES[name].split(' ')[0].rstrip(';')}")
    assert str(error.value).endswith(f"is not supported by the CPU device: {reason}")


@pytest.mark.parametrize("start", range(0, len(NAMES), 24))
def test_the_samples_are_ptx(start: int) -> None:
    """An assembler takes each for one of the devices."""
    for name in NAMES[start : start + 24]:
        problems = []
        for target in ("sm_80", "sm_90a", "sm_100a"):
            try:
                assemble(kernel(SAMPLES[name], target=target), target)
                break
            except AssemblyError as problem:
                problems.append(str(problem)[:300])
        assert len(problems) < 3, problems


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_refused_forms_have_a_reason(form: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        compile_kernel(kernel(form), "k")
    text = str(error.value)
    assert "is not supported by the CPU device: " in text or "the CPU device does not" in text or "has no" in text


@pytest.mark.parametrize("text", MODULES.values(), ids=MODULES)
def test_refused_modules(text: str) -> None:
    with pytest.raises(UnsupportedError):
        compile_kernel(text, "k")


def test_every_refusal_is_of_an_instruction_of_the_isa() -> None:
    for entry in REFUSED:
        assert any(name == entry or name.startswith(entry + ".") for name in NAMES), entry


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    """``python tools/refused_page.py`` writes it."""
    path = Path(__file__).resolve().parents[2] / "tools" / "refused_page.py"
    spec = importlib.util.spec_from_file_location("refused_page", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == module.PAGE.read_text(encoding="utf-8")

"""The demangler against c++filt, and on input that is not mangled at all."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.importing.demangle import NotDemangled, demangle, readable

SYMBOLS = [
    "_Z4fillPf",
    "_Z3addPKfS0_Pfi",
    "_ZN1a1b1kEPfPKiy",
    "_ZN1a1kEPK6__half13__nv_bfloat16P6float4PVi",
    "_ZN1a1tIdLi4EEEvPT_PKS1_S1_",
    "_ZN1a2tqINS_1QIiEEEEvPNS1_IT_EES4_S4_",
    "_ZN1a2ttIbEEvPT_S1_",
    "_Z11interop_sigIPFv1P1E1FbcPPfPFviEPvPKvPS0_6float3nEEvv",
    "_Z5applyIZ4mainEUlvE_EvT_",
    "_Z1kIiLb1ELj7ELm8ELin3EEvT_",
    "_Z3foov",
    "_Z3barahstijlmxynofd",
    "_Z1fPA10_f",
    "_Z1fRKiOf",
    "_ZN2ns1CIfE4stepEPS1_",
    "_ZSt4swapIiEvRT_S1_",
    "_Z1fSt6vectorIiSaIiEE",
    "_Z4packIJifdEEvPT_",
    "_Z1gIXadL_Z3foovEEEvv",
]


def plain(text: str) -> str:
    """Without the differences of style: `const` before or after, result types of templates, spaces."""
    text = re.sub(r"^void (?=\S+[<(])", "", text)
    text = re.sub(r"\(anonymous namespace\)::", "", text)
    text = re.sub(r"\b([\w:]+|[\w:]+<[^<>]*>) (const|volatile)\b", r"\2 \1", text)
    return re.sub(r"\s+", "", text).replace("(void)", "()")


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs c++filt (binutils)")
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_agrees_with_cxxfilt_or_gives_up(symbol: str) -> None:
    wanted = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout.strip()
    try:
        found = str(demangle(symbol))
    except NotDemangled:
        # Local names, expressions and packs in patterns are not covered, and must not be guessed.
        assert any(mark in symbol for mark in ("IZ", "IX", "IJ"))
        return
    assert plain(found) == plain(wanted)


def test_types_are_a_tree() -> None:
    first, second = demangle("_Z1kPKfi").params
    assert (str(first), str(second)) == ("const float*", "int")
    assert [str(t) for t in demangle("_Z1kPKPKf").params] == ["const float* const*"]


@pytest.mark.parametrize("text", ["", "blur", "_Z", "_Zfoo", "_Z99blur", "_ZN1a", "_Z4fillS9_", "_Z1kT_", "_Z1k", "?x"])
def test_what_is_not_mangled(text: str) -> None:
    with pytest.raises(NotDemangled):
        demangle(text)
    assert readable(text) == text


@given(st.text("_ZNIESKPVTLJFvifdjm0123456789abxy", max_size=40))
def test_any_text_is_demangled_or_refused(text: str) -> None:
    with contextlib.suppress(NotDemangled):
        demangle("_Z" + text)


def test_short_symbols_of_exponential_length_are_refused() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    nested = "_Z1k" + "1AIiiE" + "".join(f"1AIS{digits[2 * i]}_S{digits[2 * i]}_E" for i in range(15))
    assert readable(nested) == nested

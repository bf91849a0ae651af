"""Names are folded where the difference seldom matters."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from arbo.text.names import normalize_name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Wilson Disease", "WILSON disease"),
        ("Wilson's disease", "Wilson disease"),
        ("Wilson’s disease", "Wilson disease"),
        ("tumours", "tumor"),
        ("haemorrhage", "hemorrhage"),
        ("oedema", "edema"),
        ("Sjögren", "Sjogren"),
        ("Sjo\u0308gren", "Sj\u00f6gren"),
        ("type-2", "type 2"),
        ("ﬁbroma", "fibroma"),
        ("neuropathies", "neuropathy"),
        ("boxes", "box"),
        ("abscesses", "abscess"),
        ("  a   b\n c ", "a b c"),
        ("straße", "STRASSE"),
    ],
)
def test_folded_alike(one: str, other: str) -> None:
    assert normalize_name(one) == normalize_name(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("type 1", "type 2"),
        ("Ω fever", "α fever"),
        ("virus", "vir"),
        ("arthritis", "arthriti"),
        ("病気", "天気"),
        ("as", "a"),
    ],
)
def test_kept_apart(one: str, other: str) -> None:
    assert normalize_name(one) != normalize_name(other)


@pytest.mark.parametrize("name", ["", "   ", "\u0301"])
def test_what_shows_nothing_is_nothing(name: str) -> None:
    assert normalize_name(name) == ""


@pytest.mark.parametrize("name", ["?!", "---", "+ +", "___"])
def test_what_has_no_letters_stays_itself(name: str) -> None:
    assert normalize_name(name) == name


@given(st.text())
def test_any_text_gives_words_without_blanks_around(name: str) -> None:
    folded = normalize_name(name)
    assert folded == " ".join(folded.split())
    if any(character.isalnum() for character in folded):
        assert all(character.isalnum() or not character.isascii() for character in folded.replace(" ", ""))

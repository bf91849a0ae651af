"""Names are found by their words: the same matches as those of a dictionary of all names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo import Corpus, Document, Entity, KnowledgeBase
from arbo.encoders.word_index import WordIndex
from arbo.spans.dictionary import Dictionary
from arbo.spans.finding import DictionaryFinder
from arbo.text.names import normalize_name

ODD = (
    "Tylenol\u2122, Crohn\u02bcs disease, Crohn's disease, The Down syndrome, Down syndrome, of May, The May, ALL, AS, "
    "a, APC, APCs, CATS, CATSs, CATs, cat, 5\u2103 x, a_b, a_b the, \u00bd, \u00bd The, 34, 1-2-dichloroethane, __, "
    "l'il\u00e9ite, ile\u0301ite, cancer of the breast, breast cancer, \u809d\u764c, tumours, tumor, DOE, does it, "
    "\u0149foo, WHO, The Who, fever may syndrome, fever, syndrome, SSs, SS, haemo, hemo, \u2460 type, it's, "
    "\uff23\uff21\uff34, stra\u00dfe, STRASSE"
)
PART = st.sampled_from([*ODD.split(", "), *ODD.replace(",", "").split()])
NAMES = st.lists(st.lists(PART, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(entities=st.lists(NAMES, max_size=6), texts=st.lists(st.lists(PART, max_size=6).map(" ".join), max_size=4))
def test_the_matches_are_those_of_all_names(entities: list[list[str]], texts: list[str]) -> None:
    kb = KnowledgeBase(Entity(f"D{i}", names[0], tuple(names[1:])) for i, names in enumerate(entities))
    finder, whole = DictionaryFinder(abbreviations=False), Dictionary.of(kb, normalize=normalize_name)
    for text in texts:
        proposed = finder.propose(Corpus([Document("d", text)]), kb)
        expected = [((m.begin, m.end), row) for m in whole.matches(text) for row in m.entities]
        assert [(p.spans[0], p.entity) for p in proposed] == expected


def test_only_names_with_the_words_of_a_text_are_read() -> None:
    kb = KnowledgeBase([Entity("D1", "liver fever"), Entity("D2", "fever", ("the Flu",)), Entity("D3", "of The Down")])
    index = WordIndex.of(kb)
    rows = [index.rows_with(words).tolist() for words in ([], ["fever"], ["Fevers", "livers"], ["liver"], ["flu"])]
    assert rows == [[2], [1, 2], [0, 1, 2], [2], [1, 2]], "names of small words are always read"


def test_an_index_holds_the_words_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase([Entity("D1", "liver fever", ("\u809d\u764c",)), Entity("D2", "fever")])
    stored = arbo.build_index(kb, tmp_path / "index")
    parts = [WordIndex.of(kb).arrays(), stored.stored.arrays("words") if stored.stored else {}]
    assert all(np.array_equal(parts[0][name], parts[1][name]) for name in {**parts[0], **parts[1]})
    monkeypatch.setattr(WordIndex, "of", None)
    found = arbo.find_mentions(arbo.DictionaryFinder(), [Document("d", "fever of the liver fever")], stored)
    assert [mention.text for mention in found.mentions] == ["fever", "liver fever"]

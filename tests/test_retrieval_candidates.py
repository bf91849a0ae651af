"""Candidates: found, kept in one file, refused where they do not fit, completed by gold, united."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kb_of
from hypothesis import given, strategies as st
from rerankers import indifferent

import arbo
from arbo.data.gold import Gold
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import DataError, UsageError
from arbo.retrieval.reranking import Candidates, rerank

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.union import is_gold, union, with_gold

NONE = -np.inf


def candidates(*rows: list[int], k: int | None = None) -> Candidates:
    """Candidates with descending scores."""
    k = max(map(len, rows), default=0) if k is None else k
    entities = np.array([row + [-1] * (k - len(row)) for row in rows], np.int32).reshape(len(rows), k)
    scores = np.where(entities >= 0, -np.arange(k, dtype=np.float32), NONE)
    return Candidates(entities, scores, "documents", "kb", {"encoder": "made up"})


ROW = st.lists(st.integers(0, 9), unique=True, max_size=5)


def test_those_of_a_linker_are_the_nearest_entities() -> None:
    documents, kb = arbo.load_sample()
    found = arbo.Linker(kb).candidates(documents, k=3)
    assert found.entities.shape == (len(documents.mentions), 3)
    links = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=3)).link(documents).links
    for entities, scores, link in zip(found.entities, found.scores, links, strict=True):
        assert [(kb.entities[row].id, float(score)) for row, score in zip(entities, scores, strict=True)] == list(
            link.candidates
        )
    found.check(documents, kb)


def test_entities_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a linker that encodes the entities first keeps them for the linker, but not for another encoder."""
    documents, kb = arbo.load_sample()
    encode, encoded = NgramEncoder.named, list[Any]()
    monkeypatch.setattr(NgramEncoder, "named", lambda *given: encoded.append(given) or encode(*given))
    linker = arbo.Linker(kb)
    once, again = (linker.candidates(documents[:2], k=3) for _ in range(2))
    linker.configured(config=arbo.LinkerConfig(k=2)).link(documents[:2])
    linker.undivided().candidates(["RV Petrel"], k=3)
    assert len(encoded) == 1
    assert np.array_equal(once.entities, again.entities)
    assert np.array_equal(once.scores, again.scores)
    replace(linker, encoder=NgramEncoder()).link(documents[:2])
    linker.configured(kb=arbo.KnowledgeBase(kb.entities[1:])).link(documents[:2])
    assert len(encoded) == 3


def test_nothing_and_what_cannot_be_candidates() -> None:
    documents, kb = arbo.Corpus([arbo.Document("d", "nothing")]), arbo.load_sample()[1]
    assert len(arbo.Linker(kb).candidates(documents)) == 0
    assert len(Gold.of(documents, kb).entities) == 0
    for make, words in (
        (lambda: arbo.Linker().candidates(documents), "this linker has none"),
        (lambda: arbo.Linker(kb).candidates(documents, k=0), "candidates must be an integer of at least 1"),
        (lambda: Candidates(np.array([[1, 2]]), np.array([[0.5]]), "d", "kb", {}), r"not \(1, 2\) and \(1, 1\)"),
        (lambda: Candidates(np.array([[1.0]]), np.array([[0.5]]), "d", "kb", {}), "rows of .*, not float64"),
        (lambda: union(candidates([1]), replace(candidates([1]), knowledge_base="other")), r"\[1\] were made .*other"),
        (union, "at least one"),
    ):
        with pytest.raises((UsageError, ValueError), match=words):
            make()


def test_another_fingerprint_is_refused() -> None:
    documents, kb = arbo.load_sample()
    found, fewer, other = arbo.Linker(kb).candidates(documents, k=2), documents[1:], arbo.KnowledgeBase(kb.entities[1:])
    for some, of, words in (
        (fewer, kb, f"other documents .*{documents.fingerprint}.*{fewer.fingerprint}"),
        (documents, other, f"another knowledge base .*{kb.fingerprint}.*{other.fingerprint}"),
    ):
        with pytest.raises(DataError, match=words):
            found.check(some, of)
        with pytest.raises(DataError, match=words):
            rerank(indifferent(), found, some, of)


def test_gold_rows() -> None:
    kb = kb_of(
        arbo.Entity("A", "a", alternative_ids=("X",), domain="one"),
        arbo.Entity("B", "b", alternative_ids=("X",), domain="two"),
        arbo.Entity("C", "c", domain="two"),
    )
    golds = [("X",), ("C", "X"), ("elsewhere",), (), None]
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 1),), "a", gold=gold) for i, gold in enumerate(golds))
    found = Gold.of(arbo.Corpus([arbo.Document("d", "a", mentions, "two")]), kb).entities
    assert found.tolist() == [[1, -1], [2, 1], [-1, -1], [-1, -1], [-1, -1]]


@given(st.lists(st.tuples(ROW, st.lists(st.integers(0, 9), unique=True, max_size=3)), max_size=6))
def test_gold_is_injected_where_it_is_missed(mentions: list[tuple[list[int], list[int]]]) -> None:
    own = candidates(*(row for row, _ in mentions), k=5)
    table = np.array([gold + [-1] * (3 - len(gold)) for _, gold in mentions], np.int32).reshape(len(mentions), 3)
    completed = with_gold(own, table)
    for (before, gold), after in zip(mentions, completed.entities.tolist(), strict=True):
        expected = [*before[:4], gold[0]] if gold and not set(before) & set(gold) else before
        assert [row for row in after if row >= 0] == expected
    assert is_gold(completed.entities, table).any(axis=1).tolist() == [bool(gold) for _, gold in mentions]


@given(st.integers(0, 4).flatmap(lambda n: st.lists(st.lists(ROW, min_size=n, max_size=n), min_size=1, max_size=3)))
def test_a_union_takes_turns(sets: list[list[list[int]]]) -> None:
    both = union(*(candidates(*rows, k=5) for rows in sets))
    assert both.k == 5 * len(sets)
    for mention, found in enumerate(both.entities.tolist()):
        turns = [rows[mention][turn] for turn in range(5) for rows in sets if turn < len(rows[mention])]
        expected = list(dict.fromkeys(turns))
        assert found == expected + [-1] * (both.k - len(expected))


@pytest.mark.parametrize("train", [None, slice(30)])
def test_scores_are_those_of_the_links(train: slice | None) -> None:
    documents, kb = arbo.load_sample()
    trained = None if train is None else documents[train]
    config = arbo.LinkerConfig(method="independent", entity_threshold=None)
    linker = arbo.Linker(kb, config=config)
    expected = linker.link(documents).evaluate(train=trained).linking
    scores = linker.candidates(documents, k=16).evaluate(documents, kb, train=trained)
    assert scores.as_dict() == expected.as_dict()
    assert (scores.seen is None) == (train is None)

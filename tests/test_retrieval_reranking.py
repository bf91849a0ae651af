"""The second stage: what a reranker makes of candidates and of a retrieval."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import Sample
from hypothesis import given, strategies as st
from rerankers import Oracle, indifferent, knows_gold, small

import arbo
from arbo.data.gold import Gold
from arbo.errors import DataError
from arbo.retrieval.candidates import Candidates, is_gold, with_gold
from arbo.retrieval.reranking import rerank

NONE = -np.inf


Retrieved = tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]


@pytest.fixture(scope="module")
def retrieved(sample: Sample) -> Retrieved:
    """The sample, with candidates."""
    documents, kb = sample
    return documents, kb, arbo.Linker(kb).candidates(documents, k=5)


def test_probabilities_by_hand() -> None:
    documents, kb, found = small([[0.9, 0.8, 0.7], [0.5, 0.4], [0.3], []])
    said = {"E0": 0.0, "E1": np.log(2), "E2": np.log(5)}
    own = Oracle(lambda item, entity: said[entity.id])
    after = rerank(own, found, documents, kb)
    assert after.entities.tolist() == [[2, 1, 0], [1, 0, -1], [0, -1, -1], [-1, -1, -1]]
    expected = [[5 / 8, 2 / 8, 1 / 8], [2 / 3, 1 / 3, NONE], [1, NONE, NONE], [NONE] * 3]
    np.testing.assert_allclose(after.scores, expected, rtol=1e-6)
    assert after.made_by == {"encoder": "none", "reranker": {"encoder": "oracle"}, "skip_margin": None}
    # What is no candidate is never read.
    assert sorted(own.asked) == [("m0", "E0"), ("m0", "E1"), ("m0", "E2"), ("m1", "E0"), ("m1", "E1"), ("m2", "E0")]


@given(st.lists(st.lists(st.integers(-3, 3).map(float), max_size=5), min_size=1, max_size=5))
def test_any_scores(rows: list[list[float]]) -> None:
    documents, kb, found = small([[1.0 - i for i in range(len(row))] for row in rows])
    own = Oracle(lambda item, entity: rows[int(item.mention.id[1:])][int(entity.id[1:])])
    after = rerank(own, found, documents, kb)
    for row, entities, scores in zip(rows, after.entities.tolist(), after.scores, strict=True):
        assert entities[: len(row)] == sorted(range(len(row)), key=lambda place: -row[place])
        weight = np.exp(sorted(row, reverse=True))
        np.testing.assert_allclose(scores[: len(row)], weight / weight.sum(), rtol=1e-5)


def test_the_score_of_the_first_stage_is_added() -> None:
    documents, kb, found = small([[0.9, 0.5, 0.25], [0.5]])
    given = with_gold(found, np.array([[1], [2]]))
    assert given.entities.tolist() == [[0, 1, 2], [0, 2, -1]]
    own = replace(Oracle(lambda item, entity: {"E0": 0.0, "E1": 1.0, "E2": 2.0}[entity.id]), retrieval_weight=2.0)
    after = rerank(own, given, documents, kb)
    weight = np.exp([2.5, 2.0, 1.8])
    np.testing.assert_allclose(after.scores[0], weight / weight.sum(), rtol=1e-6)
    assert after.entities[0].tolist() == [2, 1, 0]
    np.testing.assert_allclose(after.scores[1], [1 / (1 + np.exp(-2)), 1 - 1 / (1 + np.exp(-2)), NONE], rtol=1e-6)


def test_another_number_of_scores() -> None:
    class Other(Oracle):
        def score(self, *given: Any) -> Any:
            return np.zeros(3)

    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(DataError, match=r"scores of the shape \(3,\), not \(2,\)"):
        rerank(Other(lambda item, entity: 0.0), found, documents, kb)


@pytest.mark.parametrize(("said", "weight"), [(np.nan, 0), (-np.inf, 0), (1e39, 0), (3e38, 1e38), (0.0, 1e30)])
def test_scores_that_are_no_numbers_or_beyond_float32(said: float, weight: float) -> None:
    documents, kb, found = small([[0.9, 0.5]])
    own = Oracle(lambda item, entity: said if entity.id == "E0" else 0.0, retrieval_weight=weight)
    if not said:
        found = replace(found, scores=found.scores * np.float32([1e30, 1]))
    added = f", after adding {weight:g} times the score from retrieval" if weight else ";"
    with pytest.raises(DataError, match=re.escape(f"NaN or infinity for 1 of 2 pairs{added}")):
        rerank(own, found, documents, kb)


def test_stale_candidates_are_refused(retrieved: Retrieved) -> None:
    documents, kb, found = retrieved
    with pytest.raises(DataError, match="made with other documents"):
        rerank(indifferent(), found, documents[1:], kb)
    with pytest.raises(DataError, match="made with another knowledge base"):
        rerank(indifferent(), found, documents, arbo.KnowledgeBase(kb.entities[1:]))


def test_an_oracle_that_sees_gold_is_always_right(retrieved: Retrieved) -> None:
    documents, kb, found = retrieved
    gold = Gold.of(documents, kb).entities
    after = rerank(knows_gold(), with_gold(found, gold), documents, kb)
    assert is_gold(after.entities[:, :1], gold)[:, 0].tolist() == (gold >= 0).any(axis=1).tolist()
    assert after.made_by["gold"] == "injected"


def test_a_reranked_retrieval_has_the_thresholds_of_who_makes_the_edges() -> None:
    documents, kb = arbo.load_sample()
    first = arbo.Linker(kb)
    second = first.configured(reranker=indifferent())
    found, entities = (one.retrieve(documents, k=2, discover=False) for one in (first, second))
    assert entities.threshold == (0.5, found.threshold[1])
    assert (entities.mentions.ids == found.mentions.ids).all()
    assert (entities.mentions.dissimilarity == found.mentions.dissimilarity).all()
    assert entities.settings == {**found.settings, "reranker": indifferent().settings, "skip_margin": None}
    assert (entities.similarity(entities.entities.dissimilarity) <= 1).all()

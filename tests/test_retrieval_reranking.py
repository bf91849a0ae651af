"""The second stage: rerankers, functions among them, and the mentions that they are spared."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rerankers import Oracle, indifferent, is_right, knows_gold, small

import arbo
from arbo.data import MentionInput, mention_inputs
from arbo.errors import DataError, UsageError
from arbo.retrieval.reranking import FunctionReranker, ScoreMemory, margins, rerank
from arbo.retrieval.retrieval import PairScores

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.early_exit import skipping
from library.union import is_gold, with_gold

NONE = -np.inf


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
    with pytest.raises(DataError, match=r"scores of the shape \(3,\), not \(2,\).*return one for each pair"):
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


def test_a_reranked_retrieval_has_the_thresholds_of_who_makes_the_edges() -> None:
    documents, kb = arbo.load_sample()
    first = arbo.Linker(kb)
    second = first.configured(reranker=replace(indifferent(), threshold=0.4))
    found, entities = (one.retrieve(documents, k=2) for one in (first, second))
    assert entities.threshold == (0.4, found.threshold[1])
    assert (entities.mentions.ids == found.mentions.ids).all()
    assert (entities.mentions.dissimilarity == found.mentions.dissimilarity).all()
    assert entities.settings == {**found.settings, "reranker": indifferent().settings, "skip_margin": None}
    assert (entities.similarity(entities.entities.dissimilarity) <= 1).all()


def knowing(mentions: Sequence[MentionInput], candidates: Sequence[Sequence[arbo.Entity]]) -> list[list[float]]:
    """Return the scores of `rerankers.knows_gold`."""
    return [
        [20.0 * is_right(item.mention, entity) for entity in entities]
        for item, entities in zip(mentions, candidates, strict=True)
    ]


def test_a_function_is_a_reranker() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=knowing)
    result, expected = linker.link(documents), arbo.Linker(kb, reranker=knows_gold()).link(documents)
    assert result.link_table == expected.link_table
    assert result.manifest["encoder"]["reranker"]["function"].endswith("knowing")
    arbo.Linker(kb, reranker=knowing, config=arbo.LinkerConfig(skip_margin=2.0)).link(documents)


def test_a_function_reads_mentions_with_their_documents_once_and_may_change_its_lists() -> None:
    documents, kb, candidates = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[tuple[str, str, list[str]]] = []

    def function(mentions: Any, lists: Any) -> Any:
        asked.extend((m.mention.id, m.document.text, [e.id for e in es]) for m, es in zip(mentions, lists, strict=True))
        scores = [list(range(len(entities))) for entities in lists]
        for entities in lists:
            entities.reverse()
        mentions.clear()
        lists.clear()
        return scores

    found = rerank(function, candidates, documents, kb)
    assert asked == [("m0", "x", ["E0", "E1", "E2"]), ("m1", "x", ["E0", "E1"])]
    assert found.entities.tolist() == [[2, 1, 0], [1, 0, -1]]
    weighted = rerank(FunctionReranker(function, retrieval_weight=10.0), candidates, documents, kb)
    assert weighted.entities.tolist() == [[0, 1, 2], [0, 1, -1]]


def test_a_function_chooses_among_all_candidates_of_a_mention_that_has_a_new_one() -> None:
    documents, kb, _ = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[str] = []

    def last(mentions: Any, lists: Any) -> Any:
        asked.extend(item.mention.id for item in mentions)
        return [np.arange(len(entities)) == len(entities) - 1 for entities in lists]

    inputs = mention_inputs(documents, expand_abbreviations=False)
    known = PairScores(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0.0, 1.0, 0.0, 1.0]))
    own = ScoreMemory(FunctionReranker(last), known=known)
    given: Any = own.score(inputs, kb, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]))
    assert given.tolist() == [0, 0, 1, 0, 1]
    assert asked == ["m0"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "returned None; return 2 lists, one for each mention"),
        ([[1.0, 2.0]], r"returned \[\[1.0, 2.0\]\]; return 2 lists"),
        ([[1.0, 2.0], [1.0]], r"m1.*returned \[1.0\] for 2 candidates; return a finite number for each"),
        ([[1.0, 2.0], 3.0], r"m1.*returned 3.0 for 2 candidates"),
        ([[1.0, float("nan")], [1.0, 2.0]], r"m0.*\[1.0, nan\] for 2 candidates"),
        ([["yes", "no"], [1.0, 2.0]], r"m0.*\['yes', 'no'\] for 2 candidates"),
    ],
)
def test_wrong_scores(given: Any, said: str) -> None:
    documents, kb, candidates = small([[3.0, 1.0], [5.0, 1.0]])
    with pytest.raises(DataError, match=said):
        rerank(lambda *_: given, candidates, documents, kb)


def test_what_cannot_score_is_refused() -> None:
    for wrong in (1, "cross", arbo.CrossEncoder):
        with pytest.raises(UsageError, match="cannot score candidates; give a function of mentions"):
            arbo.Linker(arbo.KnowledgeBase(), reranker=wrong)


def test_what_the_encoder_is_sure_of_is_not_read() -> None:
    documents, kb, found = small([[0.9, 0.5], [0.9, 0.75], [0.9], []])
    np.testing.assert_allclose(margins(found.scores), [0.4, 0.15, np.inf, np.inf], rtol=1e-6)
    own = Oracle(lambda item, entity: float(entity.id == "E1"))
    after = rerank(own, found, documents, kb, skip_margin=float(margins(found.scores)[0]))
    assert {mention for mention, _ in own.asked} == {"m1"}
    assert after.entities.tolist() == [[0, 1], [1, 0], [0, -1], [-1, -1]]
    assert after.scores[0].tolist() == [1, 0]


@pytest.mark.parametrize("skip_margin", [-1, float("inf"), float("nan"), "0.1", True])
def test_margins_that_cannot_be_meant(skip_margin: Any) -> None:
    with pytest.raises(UsageError, match="skip_margin must be"):
        arbo.LinkerConfig(skip_margin=skip_margin)
    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(UsageError, match="skip_margin must be"):
        rerank(indifferent(), found, documents, kb, skip_margin=skip_margin)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.booleans(), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0.0, 0.2, 1.0]),
)
def test_the_margin_is_the_best_of_all(mentions: list[tuple[float, bool, bool, bool]], most_lost: float) -> None:
    documents, kb, found = small([[1.0, 1.0 - margin] for margin, *_ in mentions])
    own = Oracle(lambda item, entity: float(mentions[int(item.mention.id[1:])][1] == (entity.id == "E1")))
    # Gold is the first, the second, or neither.
    gold = np.array([[int(second)] if has_gold else [-1] for _, _, has_gold, second in mentions])

    def accuracy(skip_margin: float | None) -> float:
        first = rerank(own, found, documents, kb, skip_margin=skip_margin).entities[:, :1]
        return float(is_gold(first, gold).sum()) / max(1, int((gold >= 0).sum()))

    chosen = skipping(found, rerank(own, found, documents, kb), gold, most_lost=most_lost)
    assert chosen.accuracy == pytest.approx(accuracy(chosen.margin))
    assert chosen.lost == pytest.approx(accuracy(None) - accuracy(chosen.margin))
    possible = [m for m in (0.0, 0.25, 0.5, 1.0) if m in {one[0] for one in mentions}]
    allowed = [margin for margin in possible if accuracy(None) - accuracy(margin) <= most_lost + 1e-9]
    assert chosen.margin == (min(allowed) if allowed else None)
    assert chosen.skipped == sum(margin >= min(allowed, default=9) for margin, *_ in mentions) / len(mentions)

"""Rerankers that are functions, such as those that ask a large language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rerankers import indifferent, is_right, knows_gold, small

import arbo
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.errors import DataError, UsageError
from arbo.retrieval.function_reranker import FunctionReranker
from arbo.retrieval.reranking import rerank
from arbo.retrieval.score_memory import PairScores, ScoreMemory


def knowing(mentions: Sequence[MentionInput], candidates: Sequence[Sequence[arbo.Entity]]) -> list[list[float]]:
    """Return the scores of `rerankers.knows_gold`."""
    return [
        [20.0 * is_right(item.mention, entity) for entity in entities]
        for item, entities in zip(mentions, candidates, strict=True)
    ]


def test_a_function_is_a_reranker() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=knowing)  # type: ignore[arg-type]
    result, expected = linker.link(documents), arbo.Linker(kb, reranker=knows_gold()).link(documents)
    assert result.link_table == expected.link_table
    found = arbo.Linker(kb).candidates(documents, k=16)
    one, other = (rerank(own, found, documents, kb) for own in (knowing, knows_gold()))
    assert np.array_equal(one.entities, other.entities)
    assert np.array_equal(one.scores, other.scores)
    arbo.Linker(kb, reranker=knowing, config=arbo.LinkerConfig(skip_margin=2.0)).link(documents)  # type: ignore[arg-type]


def test_a_function_reads_mentions_with_their_documents_once() -> None:
    documents, kb, candidates = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[tuple[str, str, list[str]]] = []

    def function(mentions: Any, lists: Any) -> Any:
        asked.extend((m.mention.id, m.document.text, [e.id for e in es]) for m, es in zip(mentions, lists, strict=True))
        return [range(len(entities)) for entities in lists]

    found = rerank(function, candidates, documents, kb)
    assert asked == [("m0", "x", ["E0", "E1", "E2"]), ("m1", "x", ["E0", "E1"])]
    assert found.entities.tolist() == [[2, 1, 0], [1, 0, -1]]
    weighted = rerank(FunctionReranker(function, retrieval_weight=10.0), candidates, documents, kb)
    assert weighted.entities.tolist() == [[0, 1, 2], [0, 1, -1]]


def test_a_run_keeps_the_scores_of_a_function(tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    read: list[str] = []

    def function(mentions: Any, lists: Any) -> Any:
        read.extend(item.mention.id for item in mentions)
        return knowing(mentions, lists)

    linker = arbo.Linker(kb, reranker=function)  # type: ignore[arg-type]
    linker.link(documents[:5]).save(tmp_path / "run")
    read.clear()
    grown = linker.add(arbo.Result.load(tmp_path / "run"), documents[5:7])
    assert read
    assert set(read) <= {mention.id for mention in documents[5:7].mentions}
    assert grown.link_table == linker.link(documents[:7]).link_table
    assert grown.manifest["encoder"]["reranker"]["function"].endswith("<locals>.function")


def test_a_function_chooses_among_all_candidates_of_a_mention_that_has_a_new_one() -> None:
    documents, kb, _ = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[str] = []

    def last(mentions: Any, lists: Any) -> Any:
        asked.extend(item.mention.id for item in mentions)
        return [np.arange(len(entities)) == len(entities) - 1 for entities in lists]

    inputs = mention_inputs(documents, expand_abbreviations=False)
    own = ScoreMemory(
        FunctionReranker(last), PairScores(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0.0, 1.0, 0.0, 1.0]))
    )
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
    kb = arbo.load_sample()[1]
    for wrong in (1, "cross", arbo.CrossEncoder):
        with pytest.raises(UsageError, match="cannot score candidates; give a function of mentions"):
            arbo.Linker(kb, reranker=wrong)  # type: ignore[arg-type]
    assert arbo.Linker(kb, reranker=indifferent()).reranker is not None


def test_a_function_may_change_its_lists() -> None:
    documents, kb, candidates = small([[3.0, 2.0, 1.0], [5.0, 1.0]])

    def function(mentions: Any, lists: Any) -> Any:
        scores = [list(range(len(entities))) for entities in lists]
        for entities in lists:
            entities.reverse()
        mentions.clear()
        lists.clear()
        return scores

    assert rerank(function, candidates, documents, kb).entities.tolist() == [[2, 1, 0], [1, 0, -1]]

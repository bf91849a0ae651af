"""Linking accuracy and candidate recall: by hand, by brute force, and with hostile arrays."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import linking_scores
from eval.linking import LinkingCounts

# 0: gold 7; 1: gold 4 or 5; 2: gold 6 or outside; 3: outside; 4: NIL without an id; 5: not annotated
GOLD = {"gold_indptr": [0, 1, 3, 5, 6, 6, 6], "gold_indices": [7, 4, 5, 6, -1, -1]}
ANNOTATED = [True, True, True, True, True, False]
PREDICTED = [7, 5, -1, -1, 7, 7]
CANDIDATES = [[7, 1, 2], [1, 2, 5], [3, 6, -1], [1, 2, 3], [7, 4, 5], [-1, -1, -1]]


@st.composite
def cases(draw):
    rows = draw(st.lists(st.lists(st.integers(-1, 5), max_size=3), max_size=8))
    n = len(rows)

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    predicted = column(st.integers(-1, 5))
    candidates = column(st.lists(st.integers(-1, 5), min_size=4, max_size=4))
    return rows, predicted, np.array(candidates, int).reshape(n, 4), np.array(column(st.booleans()), bool)


def csr(rows):
    return np.cumsum([0, *map(len, rows)]), np.array([i for row in rows for i in row], int)


def test_what_each_mention_counts_for():
    scores = linking_scores(**GOLD, predicted=PREDICTED, annotated=ANNOTATED, candidates=CANDIDATES, k=[1, 3])
    assert scores.overall == LinkingCounts(mentions=4, in_kb=3, correct=2, found=(1, 3), k=(1, 3))
    assert (scores.accuracy, scores.accuracy_in_kb) == (2 / 4, 2 / 3)
    assert scores.recall == {1: 1 / 4, 3: 3 / 4}
    assert scores.overall.recall_in_kb == {1: 1 / 3, 3: 1}
    assert (scores.no_concept, scores.not_annotated) == (1, 1)
    assert scores.seen is scores.unseen is None


def test_seen_and_unseen_share_the_mentions_out():
    seen = [True, False, True, False, True, False]
    scores = linking_scores(**GOLD, predicted=PREDICTED, candidates=CANDIDATES, k=[2], seen=seen)
    assert scores.seen == LinkingCounts(mentions=2, in_kb=2, correct=1, found=(2,), k=(2,))
    assert scores.unseen == LinkingCounts(mentions=2, in_kb=1, correct=1, found=(0,), k=(2,))


def test_without_flags_an_empty_row_is_not_annotated():
    scores = linking_scores(**GOLD, predicted=PREDICTED)
    assert (scores.no_concept, scores.not_annotated) == (0, 2)


def test_nil_is_never_right_for_a_gold_id_outside():
    scores = linking_scores([0, 1], [-1], [-1], candidates=[[-1]], k=[1])
    assert scores.overall == LinkingCounts(mentions=1, in_kb=0, correct=0, found=(0,), k=(1,))


def test_it_prints_and_serialises():
    scores = linking_scores(**GOLD, predicted=PREDICTED, candidates=CANDIDATES, k=[1], seen=[True] * 6)
    assert str(scores).splitlines() == [
        "all: accuracy 0.5000 (2/4), in KB 0.6667 (2/3), recall@1 0.2500",
        "seen: accuracy 0.5000 (2/4), in KB 0.6667 (2/3), recall@1 0.2500",
        "unseen: accuracy 0.0000 (0/0), in KB 0.0000 (0/0), recall@1 0.0000",
        "left out: 0 NIL without an id, 2 not annotated",
    ]
    figures = json.loads(json.dumps(scores.as_dict()))
    assert (figures["accuracy"], figures["recall"], figures["seen"]["correct"]) == (0.5, {"1": 0.25}, 2)


def test_no_mentions():
    scores = linking_scores([0], [], [], candidates=np.zeros((0, 3), int), k=[1])
    assert (scores.accuracy, scores.recall) == (0.0, {1: 0.0})


@given(cases())
def test_brute_force(case):
    rows, predicted, candidates, seen = case
    scores = linking_scores(*csr(rows), predicted, candidates=candidates, k=[1, 2, 4], seen=seen)
    for counts, group in ((scores.overall, seen | True), (scores.seen, seen), (scores.unseen, ~seen)):
        mentions = [i for i, row in enumerate(rows) if row and group[i]]
        gold = {i: set(rows[i]) - {-1} for i in mentions}
        assert counts == LinkingCounts(
            mentions=len(mentions),
            in_kb=sum(bool(gold[i]) for i in mentions),
            correct=sum(predicted[i] in gold[i] for i in mentions),
            found=tuple(sum(not gold[i].isdisjoint(candidates[i, :k]) for i in mentions) for k in (1, 2, 4)),
            k=(1, 2, 4),
        )


@given(cases())
def test_recall_rises_with_k_and_is_the_accuracy_of_the_first_candidate_at_1(case):
    rows, _, candidates, _ = case
    scores = linking_scores(*csr(rows), candidates[:, 0], candidates=candidates, k=[1, 2, 3, 4])
    recall = list(scores.recall.values())
    assert recall == sorted(recall)
    assert recall[0] == scores.accuracy <= scores.accuracy_in_kb <= 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"predicted": [1]}, ValueError, "predicted has 1 mentions, gold_indptr describes 6"),
        ({"predicted": [0.5] * 6}, TypeError, "predicted holds float64, not integers"),
        ({"predicted": [0, 0, -2, 0, 0, 0]}, ValueError, "predicted holds -2 at position 2"),
        ({"predicted": np.zeros((6, 1), int)}, ValueError, r"predicted has 2 axes \(6, 1\), not 1"),
        ({"gold_indptr": []}, ValueError, "gold_indptr must go from 0 to 6, .* not nowhere"),
        (
            {"gold_indptr": [0, 1, 3, 5, 6, 6, 7]},
            ValueError,
            "from 0 to 6, .* not from 0 to 7",
        ),
        ({"gold_indptr": [0, 3, 1, 5, 6, 6, 6]}, ValueError, "gold_indptr falls after position 1"),
        (
            {"annotated": [False] * 6},
            ValueError,
            "4 mentions have gold ids .* first mention 0",
        ),
        ({"annotated": [True]}, ValueError, "annotated has 1 values for 6 mentions"),
        ({"seen": [1] * 6}, TypeError, "seen holds int64, not booleans"),
        ({"k": [4]}, ValueError, r"k=\[4\] must lie in 1..3"),
        ({"k": [0]}, ValueError, r"k=\[0\] must lie in 1..3"),
        ({"k": [1], "candidates": None}, ValueError, r"recall at k=\[1\] needs candidates"),
        ({"k": [1], "candidates": CANDIDATES[:2]}, ValueError, "candidates has 2 rows"),
        ({"k": [1], "candidates": [[1, 2, -9]] * 6}, ValueError, "candidates holds -9 at position 0, 2"),
    ],
)
def test_arrays_that_are_refused(change, error, message):
    arguments = GOLD | {"predicted": PREDICTED, "candidates": CANDIDATES} | change
    with pytest.raises(error, match=message):
        linking_scores(**arguments)

"""Linking outcomes, accuracy, candidate recall and means over groups: by hand, by brute force, with hostile arrays."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eval import LinkingCounts, LinkingScores, linking_outcomes, linking_scores

# 0: gold 7; 1: gold 4 or 5; 2: gold 6 or outside; 3: outside; 4: NIL without an id; 5: not annotated
GOLD = {"gold_indptr": [0, 1, 3, 5, 6, 6, 6], "gold_indices": [7, 4, 5, 6, -1, -1]}
ANNOTATED = [True, True, True, True, True, False]
PREDICTED = [7, 5, -1, -1, 7, 7]
CANDIDATES = [[7, 1, 2], [1, 2, 5], [3, 6, -1], [1, 2, 3], [7, 4, 5], [-1, -1, -1]]


@st.composite
def grouped(draw):
    rows = draw(st.lists(st.lists(st.integers(-1, 5), max_size=3), max_size=8))
    labels = st.sampled_from(["a", "b", ("c", 1), 4, None])
    columns = st.integers(-1, 5), st.lists(st.integers(-1, 5), min_size=4, max_size=4), labels
    predicted, candidates, label = (draw(st.lists(one, min_size=len(rows), max_size=len(rows))) for one in columns)
    return rows, predicted, np.array(candidates, int).reshape(len(rows), 4), label


def csr(rows):
    return np.cumsum([0, *map(len, rows)]), np.array([i for row in rows for i in row], int)


def by_brute_force(mentions, rows, predicted, candidates, ks):
    """Counts of those of some mentions that have a concept."""
    ids = {i: set(rows[i]) - {-1} for i in mentions if rows[i]}
    retrieved = [i for i in ids if ids[i] & set(candidates[i].tolist())]
    return LinkingCounts(
        mentions=len(ids),
        in_kb=sum(map(bool, ids.values())),
        correct=sum(predicted[i] in ids[i] for i in ids),
        found=tuple(sum(not ids[i].isdisjoint(candidates[i, :k]) for i in ids) for k in ks),
        k=tuple(ks),
        retrieved=len(retrieved),
        correct_retrieved=sum(predicted[i] in ids[i] for i in retrieved),
    )


def test_what_each_mention_counts_for():
    scores = linking_scores(**GOLD, predicted=PREDICTED, annotated=ANNOTATED, candidates=CANDIDATES, k=[1, 3])
    assert scores == LinkingScores(
        4, 3, 2, found=(1, 3), k=(1, 3), retrieved=3, correct_retrieved=2, no_concept=1, not_annotated=1
    )
    assert (scores.accuracy, scores.accuracy_in_kb, scores.accuracy_normalized) == (2 / 4, 2 / 3, 2 / 3)
    assert scores.recall == {1: 1 / 4, 3: 3 / 4}
    assert scores.recall_in_kb == {1: 1 / 3, 3: 1}
    assert scores.seen is scores.unseen is None
    assert scores.macro == {}


def test_without_candidates_nothing_is_normalised():
    scores = linking_scores(**GOLD, predicted=PREDICTED, groups={"type": [*"aabbcc"]})
    assert (scores.mentions, scores.in_kb, scores.correct, scores.retrieved) == (4, 3, 2, None)
    assert scores.accuracy_normalized is scores.macro["type"].accuracy_normalized is None
    assert "normalized" not in str(scores)
    empty = linking_scores(**GOLD, predicted=PREDICTED, candidates=np.zeros((6, 0), int))
    assert (empty.retrieved, empty.accuracy_normalized) == (0, 0.0)


def test_it_prints_what_has_a_concept_and_serialises():
    given = {"predicted": PREDICTED, "candidates": CANDIDATES, "k": [1], "seen": [True] * 6}
    scores = linking_scores(**GOLD, **given, groups={"type": ["a", "a", "b", "b", "c", None], "domain": [None] * 6})
    all_, _, _, left_out = str(scores).splitlines()  # seen and mean by type; neither unseen nor domain
    assert all_ == "all: accuracy 0.5000 (2/4), in KB 0.6667 (2/3), normalised 0.6667 (2/3), recall@1 0.2500"
    assert left_out == "left out: 0 NIL without an id, 2 not annotated"
    figures = json.loads(json.dumps(scores.as_dict()))
    assert (figures["accuracy"], figures["recall"], figures["seen"]["correct"]) == (0.5, {"1": 0.25}, 2)
    assert (figures["accuracy_normalized"], figures["retrieved"]) == (2 / 3, 3)
    assert figures["macro"]["type"]["accuracy"] == 0.5
    assert figures["macro"]["type"]["groups"]["a"]["correct"] == 2


@given(grouped(), st.randoms(use_true_random=False))
def test_a_macro_average_is_the_mean_of_the_ratios_that_have_a_denominator(case, random):
    rows, predicted, candidates, labels = case
    outcomes = linking_outcomes(*csr(rows), predicted, candidates=candidates)
    macro = outcomes.macro(labels, k=[1, 3])
    assert list(macro.groups) == [label for label in dict.fromkeys(labels) if label is not None]
    for label, counts in macro.groups.items():
        mentions = [i for i, other in enumerate(labels) if other == label]
        assert counts == by_brute_force(mentions, rows, predicted, candidates, [1, 3])
    counted = [counts for counts in macro.groups.values() if counts.mentions]
    retrieved = [counts for counts in counted if counts.retrieved]

    def mean(ratios):
        return float(sum(ratios, Fraction(0)) / max(len(ratios), 1))

    assert macro.accuracy == pytest.approx(mean([Fraction(c.correct, c.mentions) for c in counted]))
    assert macro.accuracy_normalized == pytest.approx(
        mean([Fraction(c.correct_retrieved, c.retrieved) for c in retrieved])
    )
    assert macro.recall == pytest.approx(
        {k: mean([Fraction(c.found[i], c.mentions) for c in counted]) for i, k in enumerate((1, 3))}
    )
    order = random.sample(range(len(rows)), len(rows))
    shuffled = linking_outcomes(
        *csr([rows[i] for i in order]), [predicted[i] for i in order], candidates=candidates[order]
    ).macro([labels[i] for i in order], k=[1, 3])
    assert shuffled == macro  # to the last bit, whatever the order


@pytest.mark.parametrize(
    "kind", [np.array, lambda labels: np.array(labels, str), lambda labels: np.array(labels, object), iter]
)
def test_labels_of_any_kind(kind):
    groups = linking_outcomes(**GOLD, predicted=PREDICTED).macro(kind([3, 1, 3, 1, 2, 2])).groups
    assert list(map(int, groups)) == [3, 1, 2]
    assert [counts.mentions for counts in groups.values()] == [2, 2, 0]
    json.dumps(list(groups)[:2])  # Python's own kinds


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"predicted": [1]}, ValueError, "predicted has length 1, not 6"),
        ({"predicted": [0.5] * 6}, TypeError, "predicted holds float64, not integers"),
        ({"predicted": [0, 0, -2, 0, 0, 0]}, ValueError, "predicted holds -2 at position 2"),
        ({"gold_indptr": [0, 1, 3, 5, 6, 6, 7]}, ValueError, "from 0 to 6, .* but goes from 0 to 7"),
        ({"gold_indptr": [0, 3, 1, 5, 6, 6, 6]}, ValueError, "gold_indptr decreases after position 1"),
        ({"gold_indices": [7, 4, 5, 6, -1, -2]}, ValueError, "gold_indices holds -2 at position 5"),
        ({"annotated": [False] * 6}, ValueError, "False for mention 0 .* gold ids .such mentions: 4"),
        ({"seen": [1] * 6}, TypeError, "seen holds int64, not booleans"),
        ({"k": [1, 4]}, ValueError, r"k=\[1, 4\] has 4, but a mention has 3 candidates"),
        ({"k": [1, 0]}, ValueError, "k holds 0 at position 1; the smallest value allowed is 1"),
        ({"k": [1], "candidates": None}, ValueError, r"recall at k=\[1\] needs candidates"),
        ({"candidates": CANDIDATES[:2]}, ValueError, "candidates has length 2, not 6"),
        ({"candidates": [[1], [1, 2]]}, ValueError, "candidates has rows of different lengths; give .* pad short rows"),
        ({"k": [1], "candidates": [[1, 2, -9]] * 6}, ValueError, "candidates holds -9 at position 0, 2"),
        ({"groups": {"type": ["a"]}}, ValueError, r"groups\['type'\] has length 1, not 6"),
        ({"groups": {"type": "aabbcc"}}, TypeError, r"groups\['type'\] is of type str, not an array or a list"),
    ],
)
def test_arrays_that_are_refused(change, error, message):
    arguments = GOLD | {"predicted": PREDICTED, "candidates": CANDIDATES} | change
    with pytest.raises(error, match=message):
        linking_scores(**arguments)

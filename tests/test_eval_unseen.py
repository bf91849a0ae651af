"""Coreference over all mentions, and over those of unseen entities: by selection, and with hostile labels."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import adjusted_rand_score

from eval import (
    Contingency,
    adjusted_rand_index,
    clustering_scores,
    counts_from_contingency,
    scores_from_counts,
    unseen_scores,
)

cases = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.integers(0, 4)))


@given(cases)
def test_each_setting_is_a_selection(rows):
    true, pred, alone = ([row[column] for row in rows] for column in (0, 1, 3))
    seen = np.array([row[2] for row in rows], bool)
    unseen = [i for i, flag in enumerate(seen) if not flag]
    alone = [alone[i] for i in unseen]
    scores = unseen_scores(true, pred, seen, score=adjusted_rand_index, labels_pred_unseen_only=alone)
    chosen = [true[i] for i in unseen]
    assert scores == {
        "all": pytest.approx(adjusted_rand_score(true, pred)),
        "all_unseen": pytest.approx(adjusted_rand_score(chosen, [pred[i] for i in unseen])),
        "unseen_only": pytest.approx(adjusted_rand_score(chosen, alone)),
    }


@given(cases)
def test_where_nothing_was_seen_the_settings_are_one(rows):
    true, pred = [row[0] for row in rows], [row[1] for row in rows]
    scores = unseen_scores(true, pred, [False] * len(rows), score=clustering_scores, labels_pred_unseen_only=pred)
    assert scores["all"] == scores["all_unseen"] == scores["unseen_only"] == clustering_scores(true, pred)


def test_any_score_of_labels_will_do():
    def coreference(true, pred):
        return scores_from_counts(counts_from_contingency(Contingency.from_labels(true, pred)))

    scores = unseen_scores([*"aabbc"], [0, 0, 0, 1, 1], [False, False, False, True, True], score=coreference)
    assert scores["all"]["muc"]["counts"] == [1, 2, 1, 3]
    assert scores["all_unseen"]["b3"]["counts"] == pytest.approx([3, 3, 5 / 3, 3])
    assert scores["unseen_only"] is None


def test_where_everything_was_seen_nothing_is_left():
    scores = unseen_scores([0, 1], [0, 0], [True, True], score=adjusted_rand_index, labels_pred_unseen_only=[])
    assert scores == {"all": 0, "all_unseen": 1, "unseen_only": 1}


def test_labels_of_any_kind():
    """Negative, tuples and strings; a truth and a prediction have nothing to do with one another."""
    scores = unseen_scores([(1, 2), "b", "b"], [-1, -7, -7], [True, False, False], score=adjusted_rand_index)
    assert (scores["all"], scores["all_unseen"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "alone", "error", "message"),
    [
        (([0, 1], [0], [True, True]), None, ValueError, "labels_true has length 2, but labels_pred has 1"),
        (([0, 1], [0, 1], [True]), None, ValueError, "seen has length 1, not 2"),
        (([0, 1], [0, 1], [0, 1]), None, TypeError, "seen holds int64, not booleans"),
        ((["b", "c"], [0, 1], {"c"}), None, TypeError, "seen is of type set; give one boolean per mention"),
        ((["b", "c"], [0, 1], {"c": 3}), None, TypeError, "seen is of type dict; give one boolean per mention"),
        (([0, float("nan")], [0, 1], [True, False]), None, ValueError, "labels_true has missing .* position 1"),
        (([0, 1], [None, 1], [True, False]), None, ValueError, "labels_pred has missing .* position 0"),
        (
            ([[], 1], [0, 1], [True, False]),
            None,
            TypeError,
            r"labels_true\[0\] is \[\], a list, which cannot be hashed",
        ),
        (([0, 1], [0, 1], [True, False]), [0, 1], ValueError, "labels_pred_unseen_only has length 2, not 1"),
        (([0, 1], [0, 1], [True, False]), [None], ValueError, "labels_pred_unseen_only has missing labels"),
    ],
)
def test_labels_that_are_refused(arguments, alone, error, message):
    with pytest.raises(error, match=message):
        unseen_scores(*arguments, score=adjusted_rand_index, labels_pred_unseen_only=alone)


@pytest.mark.parametrize("score", ["ari", None])
def test_a_score_that_is_no_function_is_refused(score):
    with pytest.raises(TypeError, match=f"score is {score!r}, not a function of true and predicted labels"):
        unseen_scores([], [], [], score=score)

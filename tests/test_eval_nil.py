"""NIL precision, recall and F1."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from eval import NilScores, gold_is_nil, nil_scores

flags = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans())).map(
    lambda rows: [*rows, (False, False, True)]  # scikit-learn needs a mention
)


@given(flags)
def test_scikit_learn_agrees(rows):
    gold, predicted, annotated = np.array(rows).T
    scores = nil_scores(gold, predicted, annotated=annotated)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = precision_recall_fscore_support(
            gold[annotated], predicted[annotated], labels=[True], average="micro", zero_division=0
        )
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected[:3])
    assert scores.mentions + scores.not_annotated == len(rows)


def test_counts_are_kept():
    gold, predicted = [True, True, False, True], [True, False, True, True]
    scores = nil_scores(gold, predicted, annotated=[True, True, True, False])
    assert scores == NilScores(mentions=3, gold=2, predicted=2, correct=1, not_annotated=1)
    assert json.loads(json.dumps(scores.as_dict()))["f1"] == 0.5


def test_nothing_is_nil_and_nothing_is_0():
    scores = nil_scores([False], [False])
    assert (scores.precision, scores.recall, scores.f1) == (0, 0, 0)
    assert nil_scores([], []).mentions == 0


def test_which_mentions_are_nil_in_truth():
    """A gold id in the KB beside one outside is not NIL; NIL without an id is, if it was annotated."""
    indptr, indices = [0, 1, 3, 4, 4, 4], [7, -1, 6, -1]
    annotated = [True, True, True, True, False]
    assert gold_is_nil(indptr, indices, annotated=annotated).tolist() == [False, False, True, True, False]
    assert gold_is_nil(indptr, indices).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([True], [True, False]), ValueError, "predicted_nil has 2 values for 1 mentions"),
        (([1], [True]), TypeError, "gold_nil holds int64, not booleans"),
        (([[True]], [True]), ValueError, r"gold_nil has 2 axes \(1, 1\), not 1"),
    ],
)
def test_arrays_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        nil_scores(*arguments)

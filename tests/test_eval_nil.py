"""NIL precision, recall and F1, at one threshold and at all of them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eval import linking_outcomes, nil_as_class, nil_curve, nil_scores, threshold_curve

values = st.one_of(
    st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.25, 0.5]),
    st.floats(-1, 1),
    st.floats(allow_nan=False, max_value=1e308),
)
scored = st.lists(st.tuples(st.booleans(), values, st.booleans()), max_size=12).map(
    lambda rows: (
        np.array([gold for gold, _, _ in rows], bool),
        np.array([score for _, score, _ in rows], float),
        np.array([annotated for _, _, annotated in rows], bool),
    )
)


@given(scored)
def test_the_best_threshold_is_the_middle_of_the_scores_that_it_parts(case):
    gold, score, annotated = case
    best = nil_curve(gold, score, annotated=annotated).best
    at_best = nil_scores(gold, score < best.threshold, annotated=annotated)
    assert best == pytest.approx((best.threshold, at_best.precision, at_best.recall, at_best.f1), rel=1e-15)
    known = score[annotated]
    for threshold in [-np.inf, *known, np.inf]:
        other = nil_scores(gold, score < threshold, annotated=annotated)
        assert other.f1 <= best.f1 + 1e-15
        if threshold < best.threshold and other.f1 >= best.f1 - 1e-15:  # an equal one calls as many NIL
            assert other.predicted == at_best.predicted
    below, above = known[known < best.threshold], known[known >= best.threshold]
    if len(below) and len(above):
        low, high = float(below.max()), float(above.min())
        assert low < best.threshold <= high
        if np.isfinite(low):
            assert best.threshold == pytest.approx(low / 2 + high / 2, rel=1e-15, abs=1e-320)
        assert np.isfinite(best.threshold)
    else:
        assert best.threshold == (np.inf if len(below) else -np.inf)


@given(st.lists(st.tuples(st.booleans(), st.floats(-4, 4) | st.integers(-2, 2)), max_size=12))
def test_what_is_above_a_threshold_is_what_lies_below_its_mirror_image(pairs):
    truth, score = np.array([pair[0] for pair in pairs], bool), np.array([pair[1] for pair in pairs], float)
    curve, mirrored = threshold_curve(truth, score), nil_curve(truth, -score)
    assert curve.threshold.tolist() == (-mirrored.threshold).tolist()
    assert not np.signbit(curve.threshold[curve.threshold == 0]).any()
    assert curve.predicted.tolist() == [int((score > at).sum()) for at in curve.threshold]
    assert curve.correct.tolist() == [int((truth & (score > at)).sum()) for at in curve.threshold]
    assert curve.best[1:] == mirrored.best[1:]


def test_neighbours_among_the_floats_are_still_parted():
    low, high = 1.0, np.nextafter(1.0, 2)
    assert nil_curve([True, False], [low, high]).best.threshold == high
    assert nil_curve([True, False], [-1.7e308, 1.7e308]).best.threshold == 0
    assert nil_curve([True, False], [1.6e308, 1.7e308]).best.threshold == pytest.approx(1.65e308)


FINITE = r"at position 1 \(from 0\); give finite numbers"


@pytest.mark.parametrize(
    ("score", "arguments", "error", "message"),
    [
        (nil_scores, ([True], [True, False]), ValueError, "predicted_nil has length 2, not 1"),
        (nil_scores, ([[True]], [True]), ValueError, r"gold_nil has shape \(1, 1\); give a flat list of bool"),
        (nil_curve, ([True, False], [0.5]), ValueError, "score has length 1, not 2; give one number"),
        (nil_curve, ([True, False], [0.5, float("nan")]), ValueError, "score has nan at position 1 .* or -inf for"),
        (nil_curve, ([True, False], [float("inf"), 0.5]), ValueError, "score has inf at position 0 .* or -inf for"),
        (nil_curve, ([True], [True]), TypeError, "score holds bool, not numbers"),
        (nil_curve, ([True], ["0.5"]), TypeError, "score holds <U3, not numbers"),
        *(
            (threshold_curve, ([True, False], [0.5, odd]), ValueError, FINITE)
            for odd in (float("nan"), float("inf"), -float("inf"))
        ),
    ],
)
def test_arrays_that_are_refused(score, arguments, error, message):
    with pytest.raises(error, match=message):
        score(*arguments)


def test_a_score_that_is_not_annotated_is_checked_too():
    with pytest.raises(ValueError, match="score has nan at position 0"):
        nil_curve([True, True], [float("nan"), 0.5], annotated=[False, True])
    with pytest.raises(ValueError, match="annotated has length 1, not 2"):
        nil_curve([True, True], [0.1, 0.5], annotated=[True])


@st.composite
def linked(draw):
    """Gold ids of mentions, what is predicted, whether NIL, and three candidates each, among few entities."""
    gold = draw(st.lists(st.one_of(st.none(), st.lists(st.integers(-1, 4), max_size=3)), max_size=8))
    each = {"min_size": len(gold), "max_size": len(gold)}
    predicted = draw(st.lists(st.integers(-1, 4), **each))
    called = draw(st.lists(st.booleans(), **each))
    candidates = draw(st.lists(st.permutations(range(5)).map(lambda order: order[:3]), **each))
    return gold, predicted, called, candidates


@given(linked())
def test_all_classes_mention_by_mention(case):
    gold, predicted, called, candidates = case
    indptr = np.cumsum([0, *(len(ids or ()) for ids in gold)])
    indices = np.array([id_ for ids in gold for id_ in ids or ()], int)
    annotated = np.array([ids is not None for ids in gold], bool)
    outcomes = linking_outcomes(
        indptr, indices, np.array(predicted, int), annotated=annotated, candidates=np.array(candidates).reshape(-1, 3)
    )
    found = nil_as_class(outcomes, np.array(called, bool)).count(k=[1, 2, 3])
    hits = {1: 0, 2: 0, 3: 0}
    correct = 0
    for ids, entity, is_called, listed in zip(gold, predicted, called, candidates, strict=True):
        if ids is None:
            continue
        classes = {id_ for id_ in ids if id_ >= 0} or {"NIL"}
        correct += ("NIL" if is_called else entity) in classes
        for k in hits:
            hits[k] += not classes.isdisjoint(["NIL"] if is_called else listed[:k])
    assert (found.mentions, found.in_kb, found.correct) == (annotated.sum(), annotated.sum(), correct)
    assert dict(zip(found.k, found.found, strict=True)) == hits

"""Scores of linking, NIL and spans: by hand, by brute force, with hostile arrays."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eval import linking_outcomes, linking_scores, nil_as_class, nil_curve, nil_scores, span_scores, threshold_curve
from eval.linking import LinkingCounts, LinkingScores
from eval.spans import SpanCounts

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


def mean(ratios):
    return float(sum(ratios, Fraction(0)) / max(len(ratios), 1))


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


def test_what_each_mention_counts_for_with_candidates_and_without():
    scores = linking_scores(**GOLD, predicted=PREDICTED, annotated=ANNOTATED, candidates=CANDIDATES, k=[1, 3])
    left_out = {"no_concept": 1, "not_annotated": 1}
    assert scores == LinkingScores(4, 3, 2, found=(1, 3), k=(1, 3), retrieved=3, correct_retrieved=2, **left_out)
    assert (scores.accuracy, scores.accuracy_in_kb, scores.accuracy_normalized) == (2 / 4, 2 / 3, 2 / 3)
    assert (scores.recall, scores.recall_in_kb) == ({1: 1 / 4, 3: 3 / 4}, {1: 1 / 3, 3: 1})
    assert scores.seen is scores.unseen is None
    assert scores.macro == {}
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
    assert (figures["macro"]["type"]["accuracy"], figures["macro"]["type"]["groups"]["a"]["correct"]) == (0.5, 2)


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

    normalized = mean([Fraction(c.correct_retrieved, c.retrieved) for c in retrieved])
    recall = {k: mean([Fraction(c.found[i], c.mentions) for c in counted]) for i, k in enumerate((1, 3))}
    assert macro.accuracy == pytest.approx(mean([Fraction(c.correct, c.mentions) for c in counted]))
    assert (macro.accuracy_normalized, macro.recall) == (pytest.approx(normalized), pytest.approx(recall))
    order = random.sample(range(len(rows)), len(rows))
    rows, predicted, labels = ([one[i] for i in order] for one in (rows, predicted, labels))
    shuffled = linking_outcomes(*csr(rows), predicted, candidates=candidates[order])
    assert shuffled.macro(labels, k=[1, 3]) == macro  # to the last bit, whatever the order


@pytest.mark.parametrize("kind", [np.array, partial(np.array, dtype=str), partial(np.array, dtype=object), iter])
def test_labels_of_any_kind(kind):
    groups = linking_outcomes(**GOLD, predicted=PREDICTED).macro(kind([3, 1, 3, 1, 2, 2])).groups
    assert (list(map(int, groups)), [counts.mentions for counts in groups.values()]) == ([3, 1, 2], [2, 2, 0])
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


values = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.25, 0.5]) | st.floats(-1, 1) | st.floats(-np.inf, 1e308)
scored = st.lists(st.tuples(st.booleans(), values, st.booleans()), max_size=12).map(
    lambda rows: [np.array([row[i] for row in rows], kind) for i, kind in enumerate((bool, float, bool))]
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
    truth, score = (np.array([pair[i] for pair in pairs], kind) for i, kind in enumerate((bool, float)))
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


NAN = float("nan")


@pytest.mark.parametrize(
    ("score", "arguments", "error", "message"),
    [
        (nil_scores, ([True], [True, False]), ValueError, "predicted_nil has length 2, not 1"),
        (nil_scores, ([[True]], [True]), ValueError, r"gold_nil has shape \(1, 1\); give a flat list of bool"),
        (nil_curve, ([True, False], [0.5]), ValueError, "score has length 1, not 2; give one number"),
        (nil_curve, ([True, False], [0.5, NAN]), ValueError, "score has nan at position 1 .* or -inf for"),
        (nil_curve, ([True, False], [float("inf"), 0.5]), ValueError, "score has inf at position 0 .* or -inf for"),
        (nil_curve, ([True], [True]), TypeError, "score holds bool, not numbers"),
        (partial(nil_curve, annotated=[False, True]), ([True] * 2, [NAN, 0.5]), ValueError, "has nan at position 0"),
        (partial(nil_curve, annotated=[True]), ([True] * 2, [0, 0.5]), ValueError, "annotated has length 1, not 2"),
        (nil_curve, ([True], ["0.5"]), TypeError, "score holds <U3, not numbers"),
        (threshold_curve, ([True, False], [0.5, NAN]), ValueError, "has nan at position 1"),
    ],
)
def test_arrays_about_nil_that_are_refused(score, arguments, error, message):
    with pytest.raises(error, match=message):
        score(*arguments)


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


fragments = st.tuples(st.integers(0, 12), st.integers(1, 4)).map(lambda at: (at[0], at[0] + at[1]))
items = st.lists(st.lists(fragments, min_size=1, max_size=4), max_size=4)
cases = st.integers(0, 6).flatmap(lambda n: st.tuples(*(st.lists(items, min_size=n, max_size=n) for _ in "12")))


def tokens(mention):
    return frozenset(token for start, end in mention for token in range(start, end))


def counted(gold, predicted):
    """Counts of one item, by sets."""
    gold, predicted = ({tokens(mention) for mention in side} for side in (gold, predicted))
    gold_tokens, predicted_tokens = (frozenset().union(*side) for side in (gold, predicted))
    return SpanCounts(
        *map(len, (gold_tokens, predicted_tokens, gold_tokens & predicted_tokens, gold, predicted, gold & predicted)),
        gold_overlapping=sum(any(mention & other for other in predicted) for mention in gold),
        predicted_overlapping=sum(any(mention & other for other in gold) for mention in predicted),
    )


@given(cases)
def test_macro_is_the_mean_over_the_items_with_a_denominator(case):
    counts = list(map(counted, *case))

    expected = (
        mean([Fraction(c.shared_tokens, c.predicted_tokens) for c in counts if c.predicted_tokens]),
        mean([Fraction(c.shared_tokens, c.gold_tokens) for c in counts if c.gold_tokens]),
        mean([Fraction(2 * c.shared_tokens, n) for c in counts if (n := c.gold_tokens + c.predicted_tokens)]),
    )
    assert span_scores(*case).macro == pytest.approx(expected)


@given(cases, st.randoms(use_true_random=False))
def test_how_tokens_are_written_means_nothing(case, random):
    """Fragments cut into tokens and shuffled, mentions twice: the same counts, of items in any order."""
    order = random.sample(range(len(case[0])), len(case[0]))

    def rewritten(side):
        twice = ([*([(t, t + 1) for t in tokens(mention)] for mention in side[i]), *side[i]] for i in order)
        return [random.sample(item, len(item)) for item in twice]

    expected = span_scores(*case).items[order]
    assert span_scores(*map(rewritten, case)).items.tolist() == expected.tolist()


def test_spans_of_several_fragments_by_hand():
    """Gold: tokens 3 and 7; predicted: 3 and 7 as two mentions, which overlap it but do not equal it."""
    scores = span_scores([[[(3, 4), (7, 8)]]], [[[(3, 4)], [(7, 8)]]])
    assert scores.micro == scores.macro == scores.overlap == (1, 1, 1)
    assert (scores.exact, scores.counts) == ((0, 0, 0), SpanCounts(2, 2, 2, 1, 2, 0, 1, 2))
    mention = [(2 * i, 2 * i + 1) for i in range(1000)]
    gold = [[mention, mention[:-1], mention[:512], mention[1:]]]
    predicted = [[mention[::-1], [*mention[:-1], (5000, 5001)], mention[:511], mention[1:]]]
    assert span_scores(gold, predicted).counts[3:6] == (4, 4, 2)
    scores = span_scores([[[(0, 4)]]], [[[(0, 2)]]])
    assert str(scores).splitlines()[0] == "tokens: precision 1.0000, recall 0.5000, F1 0.6667"
    figures = json.loads(json.dumps(scores.as_dict()))
    assert (figures["items"], figures["gold_tokens"], figures["micro"]["recall"]) == (1, 4, 0.5)


def test_collections_of_any_kind():
    odd = iter([[[(np.int32(0), np.uint64(2)), [3, 4]]]])
    for gold in (np.array([[[[0, 2], [3, 4]]]]), [{((0, 2), (3, 4))}], odd):
        assert span_scores(gold, [[[(0, 2), (3, 4)]]]).exact == (1, 1, 1)


@pytest.mark.parametrize(
    ("gold", "error", "message"),
    [
        ([[[(0, 1)]], []], ValueError, "gold has length 2, but predicted has 1"),
        ([[[(0, 1)], [(4, 6), (5, 5)]]], ValueError, r"gold\[0\]\[1\] is .*, .* 0 <= start < end < 2\^32"),
        *(
            ([[mention]], ValueError, r"gold\[0\]\[0\] is .*, not a mention \(a list of one or more integer pairs")
            for mention in (
                *([(2, 1)], [(-1, 1)], [(0, 2**32)], [(0, 2**70)], [(0, 1, 2)], [(0, 1), (2,), (3, 4, 5)], []),
                *([(0, 1.5)], [(0, float("nan"))], [(0, None)], [("0", "1")], (0, 1), 0),
            )
        ),
        ([None], TypeError, r"gold\[0\] is None, not an item"),
        ([(mention for mention in [[(0, 1)]])], TypeError, r"gold\[0\] is <generator .*, not an item"),
        ("ab", TypeError, "gold is of type str, not a list of items"),
    ],
)
def test_items_that_are_refused(gold, error, message):
    with pytest.raises(error, match=message):
        span_scores(gold, [[]])

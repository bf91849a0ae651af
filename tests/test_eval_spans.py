"""Spans by token and by mention: by hand, by brute force on sets of tokens, and with hostile items."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eval import SpanCounts, span_scores

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
        gold_tokens=len(gold_tokens),
        predicted_tokens=len(predicted_tokens),
        shared_tokens=len(gold_tokens & predicted_tokens),
        gold_mentions=len(gold),
        predicted_mentions=len(predicted),
        shared_mentions=len(gold & predicted),
        gold_overlapping=sum(any(mention & other for other in predicted) for mention in gold),
        predicted_overlapping=sum(any(mention & other for other in gold) for mention in predicted),
    )


@given(cases)
def test_macro_is_the_mean_over_the_items_with_a_denominator(case):
    counts = list(map(counted, *case))

    def mean(ratios):
        return float(sum(ratios, Fraction(0)) / max(len(ratios), 1))

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
        return [
            random.sample(again := [*([(t, t + 1) for t in tokens(mention)] for mention in item), *item], len(again))
            for item in (side[i] for i in order)
        ]

    expected = span_scores(*case).items[order]
    assert span_scores(*map(rewritten, case)).items.tolist() == expected.tolist()


def test_a_discontinuous_mention_by_hand():
    """Gold: tokens 3 and 7; predicted: 3 and 7 as two mentions, which overlap it but do not equal it."""
    scores = span_scores([[[(3, 4), (7, 8)]]], [[[(3, 4)], [(7, 8)]]])
    assert scores.micro == scores.macro == scores.overlap == (1, 1, 1)
    assert scores.exact == (0, 0, 0)
    assert scores.counts == SpanCounts(2, 2, 2, 1, 2, 0, 1, 2)


def test_mentions_of_many_fragments_are_told_apart_by_the_last_one():
    mention = [(2 * i, 2 * i + 1) for i in range(1000)]
    gold = [[mention, mention[:-1], mention[:512], mention[1:]]]
    predicted = [[mention[::-1], [*mention[:-1], (5000, 5001)], mention[:511], mention[1:]]]
    assert span_scores(gold, predicted).counts[3:6] == (4, 4, 2)


@pytest.mark.parametrize(
    "gold",
    [np.array([[[[0, 2], [3, 4]]]]), [{((0, 2), (3, 4))}], iter([[[(np.int32(0), np.uint64(2)), [3, 4]]]])],
    ids=type,
)
def test_collections_of_any_kind(gold):
    assert span_scores(gold, [[[(0, 2), (3, 4)]]]).exact == (1, 1, 1)


def test_it_prints_and_serialises():
    scores = span_scores([[[(0, 4)]]], [[[(0, 2)]]])
    assert str(scores).splitlines()[0] == "tokens: precision 1.0000, recall 0.5000, F1 0.6667"
    figures = json.loads(json.dumps(scores.as_dict()))
    assert (figures["items"], figures["gold_tokens"], figures["micro"]["recall"]) == (1, 4, 0.5)


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

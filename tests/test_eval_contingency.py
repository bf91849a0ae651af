"""The table below all metrics: labels of any kind, lists of clusters, hostile input."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import Contingency
from eval.alignment import best_alignment
from eval.exact import sum_of_fractions
from eval.labels import encode_labels

NAN = float("nan")


def cells(table):
    where = zip(table.row.tolist(), table.column.tolist(), strict=True)
    return Counter(dict(zip(where, table.count.tolist(), strict=True)))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
def test_cells_are_the_pairs_counted(pairs):
    true, pred = [a for a, _ in pairs], [b for _, b in pairs]
    table = Contingency.from_labels(np.array(true, int), np.array(pred, int))
    rows, columns = sorted(set(true)), sorted(set(pred))
    assert cells(table) == Counter((rows.index(a), columns.index(b)) for a, b in pairs)
    assert table.row_size.tolist() == [true.count(a) for a in rows]
    assert table.column_size.tolist() == [pred.count(b) for b in columns]
    assert table.n_shared == len(pairs)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-128, 127, -128], np.int8),
        np.array([0, 2**63 - 1, 0]),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64),
        np.array([True, False, True]),
        np.array([0.5, -np.inf, 0.5]),
        np.array(["b", "a", "b"]),
        np.array([(1, 2), None, (1, 2)], dtype=object)[[0, 0, 0]][:0],
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], "datetime64[D]"),
        ["1", 1, "1"],
        [("doc", 1), frozenset({2}), ("doc", 1)],
        (label for label in "aba"),
    ],
    ids=lambda labels: getattr(getattr(labels, "dtype", None), "name", type(labels).__name__),
)
def test_labels_of_any_hashable_kind(labels):
    codes, n_classes = encode_labels(labels)
    assert (codes.tolist(), n_classes) in [([0, 1, 0], 2), ([1, 0, 1], 2), ([], 0)]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.array([1.0, NAN, NAN]), ValueError, "labels has 2 missing labels .* at position 1"),
        ([1, NAN], ValueError, "1 missing labels .* at position 1"),
        (["a", None], ValueError, "1 missing labels .* at position 1"),
        (np.array(["NaT"], "datetime64[s]"), ValueError, "1 missing labels .* at position 0"),
        (np.ma.masked_equal([1, 2, 1], 2), ValueError, "1 missing labels .* at position 1"),
        (np.zeros((2, 3), int), ValueError, r"2 dimensions \(2, 3\)"),
        (np.array(1), ValueError, "0 dimensions"),
        (["a", ["b"]], TypeError, r"labels\[1\] is \['b'\], a list, which cannot be hashed"),
        ("aab", TypeError, "labels is a str"),
        ({1, 2}, TypeError, "labels is a set"),
        ({"mention": 1}, TypeError, "labels is a dict"),
    ],
)
def test_labels_that_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        encode_labels(labels)


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="labels_true has 2 items, labels_pred has 3"):
        Contingency.from_labels([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ([["a", "b"], ["c"], ["b"]], ValueError, "mention 'b' is twice in the key: in clusters 0 and 2"),
        ([["a", "a"]], ValueError, "mention 'a' is twice in the key: in clusters 0 and 0"),
        ([["a"], [["b"]]], TypeError, r"key\[1\] holds \['b'\], a list, which cannot be hashed"),
        ([["a"], "bc"], TypeError, r"key\[1\] is 'bc', a string, not a cluster: write \['bc'\]"),
        ("abc", TypeError, "key is a str, not a list of clusters"),
        ({"cluster": ["a"]}, TypeError, "key is a dict, not a list of clusters"),
        ([0, 0, 1], TypeError, r"key\[0\] is 0, not a cluster"),
        ([[1.0, NAN]], ValueError, "key has a mention whose id is NaN"),
    ],
)
def test_clusters_that_are_refused(key, error, message):
    with pytest.raises(error, match=message):
        Contingency.from_clusters(key, [["a"]])
    with pytest.raises(error, match=message.replace("key", "response")):
        Contingency.from_clusters([["a"]], key)


def test_clusters_may_be_any_iterable_and_empty_ones_say_nothing():
    expected = Contingency.from_clusters([[1, 2], [3]], [[1], [2, 4]])
    table = Contingency.from_clusters(
        (iter(cluster) for cluster in ([1, 2], [], [3])), [np.array([1]), frozenset(), range(2, 5, 2)]
    )
    assert cells(table) == cells(expected) == {(0, 0): 1, (0, 1): 1}
    assert table.row_size.tolist() == [2, 1]
    assert table.column_size.tolist() == [1, 2]


def test_a_million_clusters_need_no_matrix():
    n = 10**6
    table = Contingency.from_labels(np.arange(n), np.arange(n)[::-1])
    assert len(table.count) == len(table.row_size) == n


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50))))
def test_sums_of_fractions_are_rounded_once(terms):
    from fractions import Fraction

    exact = sum((Fraction(a, b) for a, b in terms), Fraction())
    a, b = (np.array([term[i] for term in terms], np.int64) for i in (0, 1))
    assert sum_of_fractions(a, b) == float(exact)


@given(st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(1, 9), max_size=20))
def test_the_best_alignment_is_as_heavy_as_the_dense_assignment(edges):
    from scipy.optimize import linear_sum_assignment

    dense = np.zeros((6, 6), int)
    for (i, j), weight in edges.items():
        dense[i, j] = weight
    row, column = dense.nonzero()
    weight = dense[row, column]
    best = best_alignment(row, column, weight)
    assert len(set(row[best])) == len(set(column[best])) == len(best)
    assert weight[best].sum() == dense[linear_sum_assignment(dense, maximize=True)].sum()


@pytest.mark.parametrize("side", [30, 300])
def test_alignment_where_no_edge_stands_out(side):
    """All pairs overlap alike, or in a chain: the sparse assignment has to decide."""
    row, column = (axis.ravel() for axis in np.indices((side, side)))
    assert len(best_alignment(row, column, np.ones(side * side))) == side
    steps = np.arange(2 * side)
    chain = best_alignment((steps + 1) // 2, steps // 2, np.linspace(1, 2, 2 * side))
    assert chain.tolist() == list(range(1, 2 * side, 2))


def test_alignment_by_brute_force():
    weight = np.array([[3, 2, 0], [2, 0, 2], [0, 2, 3]])
    row, column = weight.nonzero()
    best = max(
        sum(weight[i, j] for i, j in enumerate(choice))
        for choice in product(range(3), repeat=3)
        if len(set(choice)) == 3
    )
    assert weight[row, column][best_alignment(row, column, weight[row, column])].sum() == best

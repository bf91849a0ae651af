"""The table below all metrics: labels of any kind, lists of clusters, hostile input."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eval import Contingency
from eval.arrays import encode_labels
from eval.coreference import sum_of_fractions

NAN = float("nan")


class NeverEqual:
    """Like pandas' NA: it can be hashed, and whether it equals anything cannot be said."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise TypeError("boolean value is ambiguous")


def cells(table):
    where = zip(table.row.tolist(), table.column.tolist(), strict=True)
    return Counter(dict(zip(where, table.count.tolist(), strict=True)))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-128, 127, -128], np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64),
        np.array([(1, 2), None, (1, 2)], dtype=object)[[0, 0, 0]][:0],
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], "datetime64[D]"),
        ["1", 1, "1"],
        [("doc", 1), frozenset({2}), ("doc", 1)],
        (label for label in "aba"),
    ],
    ids=lambda labels: getattr(getattr(labels, "dtype", None), "name", type(labels).__name__),
)
def test_labels_of_any_hashable_kind(labels):
    assert encode_labels(labels).tolist() in [[0, 1, 0], [1, 0, 1], []]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.array([1.0, NAN, NAN]), ValueError, "missing labels .*: 2 in all, .* at position 1"),
        ([1, NAN], ValueError, "missing labels .*: 1 in all, .* at position 1"),
        (np.array(["NaT"], "datetime64[s]"), ValueError, "missing labels .*: 1 in all, .* at position 0"),
        (np.zeros((2, 3), int), ValueError, r"labels has shape \(2, 3\)"),
        (["a", ["b"]], TypeError, "unhashable type: 'list'"),
        ("aab", TypeError, "labels is of type str"),
    ],
)
def test_labels_that_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        encode_labels(labels)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ([["a", "b"], ["c"], ["b"]], ValueError, "mention 'b' is twice in the key: in clusters 0 and 2"),
        ([["a"], [["b"]]], TypeError, "unhashable type: 'list'"),
        ([["a"], "bc"], TypeError, r"key\[1\] is 'bc', not a cluster"),
        ("abc", TypeError, "key is of type str, not a list of clusters"),
        ([0, 0, 1], TypeError, r"key\[0\] is 0, not a cluster"),
        ([[1.0, NAN]], ValueError, "key has a mention whose id is NaN"),
        ([["a", NAN], [NAN]], ValueError, "mention nan is twice in the key: in clusters 0 and 1"),
        ([["b", NeverEqual()]], TypeError, "boolean value is ambiguous"),
    ],
)
def test_clusters_that_are_refused(key, error, message):
    with pytest.raises(error, match=message):
        Contingency.from_clusters(key, [["a"]])
    with pytest.raises(error, match=message.replace("key", "response")):
        Contingency.from_clusters([["a"]], key)


MENTIONS = st.integers(-2, 9) | st.sampled_from("abcd") | st.tuples(st.integers(0, 2)) | st.floats(0, 2, width=16)


@given(*[st.dictionaries(MENTIONS, st.integers(0, 4)) for _ in ("key", "response")])
def test_cells_are_the_clusters_intersected(key, response):
    key, response = ([{m for m in owner if owner[m] == i} for i in range(5)] for owner in (key, response))
    table = Contingency.from_clusters(key, (sorted(cluster, key=repr) for cluster in response))
    rows, columns = ([cluster for cluster in side if cluster] for side in (key, response))
    shared = {(i, j): len(a & b) for i, a in enumerate(rows) for j, b in enumerate(columns) if a & b}
    assert cells(table) == shared
    assert table.row_size.tolist() == [len(cluster) for cluster in rows]
    assert table.column_size.tolist() == [len(cluster) for cluster in columns]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50))))
def test_sums_of_fractions_are_rounded_once(terms):
    from fractions import Fraction

    exact = sum((Fraction(a, b) for a, b in terms), Fraction())
    a, b = (np.array([term[i] for term in terms], np.int64) for i in (0, 1))
    assert sum_of_fractions(a, b) == float(exact)

"""The best alignment against dense assignments: ties, rings, trees, clusterings that share nothing."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linear_sum_assignment

import eval.alignment as alignment
from eval import Contingency, counts_from_contingency
from eval.alignment import best_alignment
from eval.coreference import sum_of_fractions


def in_rounds(row, column, weight):
    return matched(alignment._partners_in_rounds(row, column, weight, 10**9), row, column)


def one_by_one(row, column, weight):
    return matched(alignment._partners_one_by_one(row, column, weight), row, column)


def matched(partner, row, column):
    return np.flatnonzero(partner[row] == column)


WAYS = pytest.mark.parametrize("align", [best_alignment, in_rounds, one_by_one])


def weighed(align, row, column, weight):
    """Weigh the alignment, which must be one."""
    best = align(row, column, weight)
    assert len(set(row[best])) == len(set(column[best])) == len(best)
    return weight[best].sum()


def dense_best(row, column, weight):
    dense = np.zeros((row.max() + 1, column.max() + 1))
    dense[row, column] = weight
    return dense[linear_sum_assignment(dense, maximize=True)].sum()


@st.composite
def overlaps(draw):
    cells = st.tuples(st.integers(0, 7), st.integers(0, 7))
    weights = draw(st.sampled_from([st.just(1), st.integers(1, 3), st.sampled_from([2 / n for n in range(2, 12)])]))
    edges = draw(st.dictionaries(cells, weights, min_size=1, max_size=40))
    row, column = (np.unique([cell[i] for cell in edges], return_inverse=True)[1] for i in (0, 1))
    return row, column, np.array(list(edges.values()), float)


@WAYS
@given(edges=overlaps())
def test_as_heavy_as_the_dense_assignment(align, edges):
    assert weighed(align, *edges) == pytest.approx(dense_best(*edges), abs=1e-12)


@WAYS
@pytest.mark.parametrize("is_ring", [False, True], ids=["chain", "ring"])
@pytest.mark.parametrize("n", [4, 60, 2000])
def test_a_chain_and_a_ring(align, n, is_ring):
    """Every second edge or its neighbours: nothing can be settled far from the ends, and a ring has none."""
    steps = np.arange(n)
    row, column = (steps + 1) // 2, steps // 2
    row = row % (n // 2) if is_ring else row
    rising = np.linspace(1, 2, n)
    assert weighed(align, row, column, rising) == pytest.approx(rising[1::2].sum(), rel=1e-12)
    assert weighed(align, row, column, np.ones(n)) == n // 2


@given(st.data(), st.integers(1, 40))
def test_a_forest_needs_no_assignment(data, n_edges):
    """Each new cluster hangs on one that is there already."""
    sides, edges = [0, 1], [(0, 1)]
    for new in range(2, n_edges + 1):
        edges.append((data.draw(st.integers(0, new - 1)), new))
        sides.append(1 - sides[edges[-1][0]])
    row, column = (np.array([edge[sides[edge[0]] != side] for edge in edges]) for side in (0, 1))
    weight = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(edges), max_size=len(edges))), float)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(alignment, "_assign")
        assert weighed(best_alignment, row, column, weight) == dense_best(row, column, weight)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[5], [3, 4, 5, 6, 7, 8]], ids=["even", "uneven"])
def test_thousands_of_clusters_left_over(sizes, monkeypatch):
    """The order of the edges means nothing, and both assignments agree, to the last bit."""
    rng = np.random.default_rng(0)
    n = 100_000
    true = rng.permutation(np.repeat(np.arange(n), rng.choice(sizes, n))[:n])
    moved = np.flatnonzero(rng.random(n) < 0.6)
    pred = true.copy()
    pred[moved] = true[rng.permutation(moved)]
    table = Contingency.from_labels(true, pred)
    sizes = table.row_size[table.row] + table.column_size[table.column]
    edges = table.row, table.column, 2 * table.count / sizes
    best = one_by_one(*edges)
    expected = sum_of_fractions(2 * table.count[best], sizes[best])
    monkeypatch.delattr(alignment, "_partners_one_by_one")
    assert counts_from_contingency(table)["ceafe"][0] == expected
    order = rng.permutation(len(table.count))
    shuffled = Contingency(table.row[order], table.column[order], table.count[order], table.row_size, table.column_size)
    assert counts_from_contingency(shuffled)["ceafe"][0] == expected
    assert counts_from_contingency(shuffled.transposed)["ceafm"][0] == counts_from_contingency(table)["ceafm"][0]

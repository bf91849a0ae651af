"""Metrics of clusters against golden values; `differential.clusters` compares them with definitions."""

import json
import math
import warnings
from collections import Counter
from fractions import Fraction
from itertools import chain, combinations, permutations

import numpy as np
import pytest
import sklearn
from hypothesis import given, strategies as st
from scipy.cluster import hierarchy
from scipy.optimize import linear_sum_assignment
from sklearn import metrics

import eval as ours
import eval.alignment as alignment
from eval.alignment import best_alignment
from eval.arrays import encode_labels
from eval.clustering import pair_counts_from_contingency
from eval.coreference import METRICS, sum_of_fractions


def pair_counts(true, pred):
    return pair_counts_from_contingency(ours.Contingency.from_labels(true, pred))


def flat(scores):
    """The scores with the three of `pairwise` beside the others."""
    of_pairs = {f"pairwise_{k}": v for k, v in scores["pairwise"].items()}
    return {k: v for k, v in scores.items() if k != "pairwise"} | of_pairs


def from_sklearn(true, pred):
    is_old = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7)
    is_perfect = len(set(true)) == len(set(pred)) == len(set(zip(true, pred, strict=True)))
    names = {"ari": "adjusted_rand", "rand": "rand", "ami": "adjusted_mutual_info"}
    names |= {name: name for name in ("fowlkes_mallows", "homogeneity", "completeness", "v_measure")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn suspects numbers with many values
        scores = {name: getattr(metrics, f"{theirs}_score")(true, pred) for name, theirs in names.items()}
        for how in ("arithmetic", "geometric", "min", "max"):
            scores[f"nmi_{how}"] = metrics.normalized_mutual_info_score(true, pred, average_method=how)
    # Before 1.7, scikit-learn gave 0 for singletons that agree.
    return scores | ({"ami": 1.0} if is_old and is_perfect else {})


def test_large_clusters_agree_with_scikit_learn_and_pairs_do_not_overflow():
    """Windows around the mean, narrower than the whole distribution, hold all the information expected."""
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1, 2, 3], [9000, 6000, 3000, 2000])
    pred = np.where(rng.random(len(true)) < 0.01, rng.integers(0, 4, len(true)), 0)
    expected = from_sklearn(true, pred)
    assert ours.clustering_scores(true, pred)["ami"] == pytest.approx(expected["ami"], abs=1e-9)
    n = 3 * 10**6
    true, pred = np.zeros(n, np.int8), np.repeat(np.array([0, 1], np.int8), n // 2)
    half = 2 * math.comb(n // 2, 2)
    assert pair_counts(true, pred) == ours.PairCounts(half, 0, math.comb(n, 2) - half, 0)
    assert ours.adjusted_rand_index(true, pred) == 0.0


@given(st.lists(st.integers(0, 6), max_size=40))
def test_identity_is_1_but_for_pairs_where_there_are_none(true):
    scores = flat(ours.clustering_scores(true, true))
    of_pairs = {"pairwise_precision", "pairwise_recall", "pairwise_f1", "fowlkes_mallows"}
    if len(set(true)) == len(true):
        assert {scores.pop(name) for name in of_pairs} == {0.0}
    assert set(scores.values()) == {1.0}


@st.composite
def sides(draw, max_mentions=12):
    """A key and a response over overlapping mentions."""
    side = st.dictionaries(st.integers(0, max_mentions), st.integers(0, 5), max_size=max_mentions)
    return tuple(clusters_of(draw(side)) for _ in ("key", "response"))


def clusters_of(owner):
    return [[m for m in owner if owner[m] == cluster] for cluster in sorted(set(owner.values()))]


def ratios(score):
    return [score["recall"], score["precision"], score["f1"]]


def test_golden_values(shared):
    for line in shared("golden/coref_metrics.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        scores = ours.coreference_scores(case["key"], case["response"])
        assert scores["conll"] == pytest.approx(case["expected"].pop("conll"), abs=1e-9), case["name"]
        for metric, expected in case["expected"].items():
            where = f"{case['name']} {metric}"
            values = [expected["r"], expected["p"], expected["f1"]]
            assert ratios(scores[metric]) == pytest.approx(values, abs=1e-9), where
            for got, count in zip(scores[metric]["counts"], case["counts"][metric], strict=True):
                assert got == (count if isinstance(count, int) else pytest.approx(count, abs=1e-9)), where
        if (expected := case["clustering"]) is not None:
            true, pred = ({m: i for i, own in enumerate(case[side]) for m in own} for side in ("key", "response"))
            pairs = expected.pop("pairwise")
            expected |= {f"pairwise_{k}": pairs[v] for k, v in [("precision", "p"), ("recall", "r"), ("f1", "f1")]}
            labels = list(true.values()), [pred[mention] for mention in true]
            assert flat(ours.clustering_scores(*labels)) == pytest.approx(expected, abs=1e-9), case["name"]
            assert pair_counts(*labels) == ours.PairCounts(*map(pairs.get, ours.PairCounts._fields)), case["name"]


def recall_by_definition(metric, key, response):
    """Numerator and denominator of a recall, as the sets say it."""
    key, response = [set(k) for k in key], [set(r) for r in response]
    size = sum(map(len, key))
    if metric == "muc":
        parts = [sum(bool(k & r) for r in response) + len(k - set().union(*response)) for k in key]
        return sum(len(k) - p for k, p in zip(key, parts, strict=True)), size - len(key)
    if metric == "b3":
        return sum(len(k & r) / len(k) for k in key for r in response for m in k & r), size
    if metric in ("ceafm", "ceafe"):
        padded = response + [set()] * len(key)

        def worth(k, r):
            return len(k & r) if metric == "ceafm" else 2 * len(k & r) / (len(k) + len(r))

        best = max(sum(map(worth, key, chosen)) for chosen in permutations(padded, len(key)))
        return best, size if metric == "ceafm" else len(key)
    assert metric == "lea"

    def resolved(k):
        if len(k) == 1:
            return float(k in response)
        links = [{*pair} for pair in combinations(k, 2)]
        return sum(link <= r for link in links for r in response) / len(links)

    return sum(len(k) * resolved(k) for k in key), size


@given(sides())
def test_blanc_by_brute_force(pair):
    def links(clusters):
        owner = {m: i for i, cluster in enumerate(clusters) for m in cluster}
        pairs = {frozenset(pair) for pair in combinations(owner, 2)}
        linked = {pair for pair in pairs if len({owner[m] for m in pair}) == 1}
        return linked, pairs - linked

    expected = [[len(k & r), len(k), len(k & r), len(r)] for k, r in zip(*map(links, pair), strict=True)]
    assert ours.coreference_counts(*pair)["blanc"] == [*chain(*expected)]


@given(sides())
def test_identity_is_1_but_where_nothing_is_counted(pair):
    key, _ = pair
    scores = ours.coreference_scores(key, key)
    n = sum(map(len, key))
    nothing = {"muc": n == len(key), "blanc": n < 2}  # no links
    for name in METRICS:
        expected = 0.0 if nothing.get(name, n == 0) else 1.0
        assert ratios(scores[name]) == pytest.approx([expected] * 3), name


@given(st.lists(sides(), min_size=1, max_size=3))
def test_documents_add(documents):
    """Pooled counts are those of all clusters together, but for BLANC, whose links end with the document."""
    counts = sum(ours.coreference_counts(*document) for document in documents)
    key, response = ([[(d, m) for m in own] for d, of in enumerate(documents) for own in of[i]] for i in (0, 1))
    together = ours.coreference_counts(key, response)
    for name in ("muc", "b3", "ceafm", "ceafe", "lea"):
        assert counts[name] == pytest.approx(together[name], abs=1e-12), name
    assert counts["blanc"][:4] == together["blanc"][:4]
    assert counts["blanc"][5] <= together["blanc"][5]
    assert ours.scores_from_counts(counts)["muc"] == ours.scores_from_counts(together)["muc"]


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
        ours.Contingency.from_clusters(key, [["a"]])
    with pytest.raises(error, match=message.replace("key", "response")):
        ours.Contingency.from_clusters([["a"]], key)


MENTIONS = st.integers(-2, 9) | st.sampled_from("abcd") | st.tuples(st.integers(0, 2)) | st.floats(0, 2, width=16)


@given(*[st.dictionaries(MENTIONS, st.integers(0, 4)) for _ in ("key", "response")])
def test_cells_are_the_clusters_intersected(key, response):
    key, response = ([{m for m in owner if owner[m] == i} for i in range(5)] for owner in (key, response))
    table = ours.Contingency.from_clusters(key, (sorted(cluster, key=repr) for cluster in response))
    rows, columns = ([cluster for cluster in side if cluster] for side in (key, response))
    shared = {(i, j): len(a & b) for i, a in enumerate(rows) for j, b in enumerate(columns) if a & b}
    assert (cells(table), table.row_size.tolist()) == (shared, [len(cluster) for cluster in rows])
    assert table.column_size.tolist() == [len(cluster) for cluster in columns]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50))))
def test_sums_of_fractions_are_rounded_once(terms):
    exact = sum((Fraction(a, b) for a, b in terms), Fraction())
    a, b = (np.array([term[i] for term in terms], np.int64) for i in (0, 1))
    assert sum_of_fractions(a, b) == float(exact)


def by(partners, *limit):
    """Align by one of the ways that are tried."""
    return lambda row, column, weight: np.flatnonzero(partners(row, column, weight, *limit)[row] == column)


in_rounds, one_by_one = by(alignment._partners_in_rounds, 10**9), by(alignment._partners_one_by_one)


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
    table = ours.Contingency.from_labels(true, pred)
    sizes = table.row_size[table.row] + table.column_size[table.column]
    edges = table.row, table.column, 2 * table.count / sizes
    best = one_by_one(*edges)
    expected = sum_of_fractions(2 * table.count[best], sizes[best])
    monkeypatch.delattr(alignment, "_partners_one_by_one")
    assert ours.counts_from_contingency(table)["ceafe"][0] == expected
    order = rng.permutation(len(table.count))
    of_cells = (values[order] for values in (table.row, table.column, table.count))
    shuffled = ours.Contingency(*of_cells, table.row_size, table.column_size)
    assert ours.counts_from_contingency(shuffled)["ceafe"][0] == expected
    plain, turned = (ours.counts_from_contingency(one)["ceafm"][0] for one in (table, shuffled.transposed))
    assert plain == turned


def clusters_at(threshold, n, left, right, height):
    """Label the leaves by naive union."""
    node = list(range(n))
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if height[i] <= threshold:
            node = [n + i if at in (a, b) else at for at in node]
    return node


def by_label(labels):
    """Clusters as lists of items."""
    return [[i for i, other in enumerate(labels) if other == label] for label in set(labels)]


def purity_by_pairs(labels, left, right, height):
    """The definition: a cut for every pair of a class, the first that holds both."""
    purities = []
    thresholds = sorted(set(height))
    known = [i for i, label in enumerate(labels) if label >= 0]
    for i, j in combinations(known, 2):
        if labels[i] == labels[j]:
            cuts = (clusters_at(threshold, len(labels), left, right, height) for threshold in thresholds)
            first = next((cut for cut in cuts if cut[i] == cut[j]), None)
            together = [] if first is None else [labels[x] for x in known if first[x] == first[i]]
            purities.append(together.count(labels[i]) / len(together) if together else 0.0)
    return float(np.mean(purities)) if purities else 0.0


def assert_each_cut_is_right(cuts, places, labels, left, right, height):
    known = np.flatnonzero(np.asarray(labels) >= 0)
    truth = np.asarray(labels)[known].tolist()
    for place in places:
        cut = np.asarray(clusters_at(cuts.threshold[place], len(labels), left, right, height))[known].tolist()
        scores = ours.clustering_scores(truth, cut)
        assert (cuts.clusters[place], cuts.ari[place]) == (len(set(cut)), pytest.approx(scores["ari"], abs=1e-14))
        assert {name: getattr(cuts.pairwise, name)[place] for name in cuts.pairwise._fields} == scores["pairwise"]
        of_clusters = ours.coreference_scores(by_label(truth), by_label(cut))
        for curves, score in ((getattr(cuts, metric), of_clusters[metric]) for metric in ("b3", "muc", "lea")):
            for name in curves._fields:
                assert getattr(curves, name)[place] == pytest.approx(score[name], abs=1e-12)


def conll_by_cut(labels, left, right, height):
    """CoNLL of every cut, each by itself."""
    known = [i for i, label in enumerate(labels) if label >= 0]
    for threshold in [-np.inf, *sorted(set(height))]:
        cut = clusters_at(threshold, len(labels), left, right, height)
        truth, found = ([by[i] for i in known] for by in (labels, cut))
        yield ours.coreference_scores(by_label(truth), by_label(found))["conll"]


def assert_conll_is_right(labels, left, right, height):
    every = np.array([*conll_by_cut(labels, left, right, height)])
    scored = ours.all_cuts(labels, left, right, height).conll()
    best = every >= every.max() - 1e-13
    np.testing.assert_allclose(scored[best], every[best], rtol=0, atol=1e-12)
    np.testing.assert_allclose(scored, np.where(np.isnan(scored), np.nan, every), rtol=0, atol=1e-12)
    return scored


@pytest.mark.slow
def test_conll_of_a_larger_tree_needs_few_alignments():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(120), rng.integers(1, 5, 120))
    tree = hierarchy.linkage(labels[:, None] + rng.normal(0, 0.2, (len(labels), 3)), "single")
    sides = (tree[:, i].astype(int).tolist() for i in (0, 1))
    scored = assert_conll_is_right(labels.tolist(), *sides, tree[:, 2].tolist())
    assert np.isfinite(scored).sum() < len(scored) / 2


def test_two_classes_of_a_million_alternating():
    """Every merge joins a pair of one class with all that came before: B-cubed precision falls and must not drift."""
    n = 10**6
    left = np.concatenate([[0], np.arange(n, 2 * n - 2)])
    cuts = ours.all_cuts(np.arange(n) % 2, left, np.arange(1, n), np.arange(n - 1))
    size = np.arange(1, n + 1)
    squares = (size // 2) ** 2 + ((size + 1) // 2) ** 2
    np.testing.assert_allclose(cuts.b3.precision, (squares / size + n - size) / n, rtol=1e-14)


@pytest.mark.parametrize("labels", [[], [-1], [-1, -1]])
def test_without_a_leaf_that_has_a_class(labels):
    cuts = ours.all_cuts(labels, [], [], [])
    assert (cuts.threshold.tolist(), cuts.clusters.tolist(), cuts.ari.tolist()) == ([-np.inf], [0], [1.0])
    assert cuts.b3.f1.tolist() == cuts.muc.f1.tolist() == cuts.pairwise.f1.tolist() == [0.0]


@pytest.mark.parametrize(
    ("left", "right", "height", "message"),
    [
        ([0], [1, 2], [1.0], "left has length 1, right 2"),
        ([0], [1], [1.0, 2.0], r"height the shape \(2,\)"),
        ([0, 3], [1, 2], [2.0, 1.0], r"height\[1\] is 1.0; heights must be finite and ascending"),
        ([0, 3], [1, 2], [1.0, np.nan], r"height\[1\] is nan"),
        ([0, 4], [1, 2], [1.0, 1.0], "merge 1 .* joins the nodes 4 and 2, but the largest node before it is 3"),
        ([0, 3], [3, 2], [1.0, 1.0], "merge 0 .* joins the nodes 0 and 3, but the largest node before it is 2"),
        ([0, 0], [1, 2], [1.0, 1.0], "node 0 is joined 2 times"),
        ([-1], [1], [1.0], "left holds -1 at position 0"),
        ([0, 2, 4, 6], [1, 3, 5, 7], [1.0] * 4, "merge 2 .* joins the nodes 4 and 5"),
    ],
)
def test_arrays_that_are_no_tree(left, right, height, message):
    with pytest.raises(ValueError, match=message):
        ours.all_cuts([0, 0, 1], left, right, height)

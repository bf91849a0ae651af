"""Clustering metrics against golden values; `differential.clusters` compares them with scikit-learn."""

import json
import math
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, strategies as st
from sklearn import metrics

from eval import Contingency, PairCounts, adjusted_rand_index, clustering_scores
from eval.clustering import pair_counts_from_contingency


def pair_counts(true, pred):
    return pair_counts_from_contingency(Contingency.from_labels(true, pred))


def flat(scores):
    """The scores with the three of `pairwise` beside the others."""
    return {k: v for k, v in scores.items() if k != "pairwise"} | {
        f"pairwise_{k}": v for k, v in scores["pairwise"].items()
    }


def from_sklearn(true, pred):
    is_old = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7)
    is_perfect = len(set(true)) == len(set(pred)) == len(set(zip(true, pred, strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn suspects numbers with many values
        return {
            "ari": metrics.adjusted_rand_score(true, pred),
            "rand": metrics.rand_score(true, pred),
            # Before 1.7, scikit-learn gave 0 for singletons that agree.
            "ami": 1.0 if is_old and is_perfect else metrics.adjusted_mutual_info_score(true, pred),
            "homogeneity": metrics.homogeneity_score(true, pred),
            "completeness": metrics.completeness_score(true, pred),
            "v_measure": metrics.v_measure_score(true, pred),
            "fowlkes_mallows": metrics.fowlkes_mallows_score(true, pred),
        } | {
            f"nmi_{average}": metrics.normalized_mutual_info_score(true, pred, average_method=average)
            for average in ("arithmetic", "geometric", "min", "max")
        }


def test_golden_values(shared):
    for line in shared("golden/coref_metrics.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        expected = case["clustering"]
        if expected is None:
            continue
        true, pred = (
            {mention: i for i, cluster in enumerate(case[side]) for mention in cluster} for side in ("key", "response")
        )
        pairs = expected.pop("pairwise")
        expected |= {f"pairwise_{k}": pairs[v] for k, v in [("precision", "p"), ("recall", "r"), ("f1", "f1")]}
        labels = list(true.values()), [pred[mention] for mention in true]
        assert flat(clustering_scores(*labels)) == pytest.approx(expected, abs=1e-9), case["name"]
        assert pair_counts(*labels) == PairCounts(*(pairs[name] for name in PairCounts._fields)), case["name"]


def test_scikit_learn_agrees_on_large_clusters():
    """Windows around the mean, narrower than the whole distribution, hold all the information expected."""
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1, 2, 3], [9000, 6000, 3000, 2000])
    pred = np.where(rng.random(len(true)) < 0.01, rng.integers(0, 4, len(true)), 0)
    expected = from_sklearn(true, pred)
    assert clustering_scores(true, pred)["ami"] == pytest.approx(expected["ami"], abs=1e-9)


@given(st.lists(st.integers(0, 6), max_size=40))
def test_identity_is_1_but_for_pairs_where_there_are_none(true):
    scores = flat(clustering_scores(true, true))
    of_pairs = {"pairwise_precision", "pairwise_recall", "pairwise_f1", "fowlkes_mallows"}
    if len(set(true)) == len(true):
        assert {scores.pop(name) for name in of_pairs} == {0.0}
    assert set(scores.values()) == {1.0}


def test_pair_counts_of_three_million_do_not_overflow():
    n = 3 * 10**6
    true, pred = np.zeros(n, np.int8), np.repeat(np.array([0, 1], np.int8), n // 2)
    half = 2 * math.comb(n // 2, 2)
    assert pair_counts(true, pred) == PairCounts(half, 0, math.comb(n, 2) - half, 0)
    assert adjusted_rand_index(true, pred) == 0.0

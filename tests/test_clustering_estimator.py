"""The scikit-learn estimator: scikit-learn's own checks, the engine and scikit-learn as oracles, hostile input."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, Array, every_method, every_metric, gaussian
from sklearn.utils.estimator_checks import parametrize_with_checks

import clustering
from clustering import ArborescenceClustering, Graph, Method, partition
from clustering.knn import nearest
from clustering.vectors import Metric, Vectors

every_form = pytest.mark.parametrize("form", FORMS)


def form_of(matrix: Any, form: str) -> Any:
    return sp.csr_array(matrix) if form == "sparse" else matrix


def in_order(labels: Array) -> list[int]:
    """Number labels by first appearance, the slow way: equal lists are equal clusterings."""
    seen: dict[int, int] = {}
    return [seen.setdefault(label, len(seen)) for label in labels.tolist()]


def fitted(X: Any, *args: Any, entities: Any = None, **options: Any) -> ArborescenceClustering:  # noqa: N803
    return ArborescenceClustering(*args, **options).fit(X, entities=entities)


DOT = {"n_neighbors": 2, "threshold": (0.1, 0.2), "method": "minimax", "metric": "dot"}
HOW = {}, DOT, {"method": "independent", "threshold": 0.2}


@parametrize_with_checks([ArborescenceClustering(**how) for how in HOW])
def test_scikit_learn_checks(estimator: ArborescenceClustering, check: Any) -> None:
    check(estimator)


def test_every_public_name_is_there() -> None:
    assert set(dir(clustering)) == set(clustering.__all__)
    for name in clustering.__all__:
        assert getattr(clustering, name) is not None
    with pytest.raises(AttributeError, match="module 'clustering' has no attribute 'Nobody'"):
        clustering.Nobody  # noqa: B018


@every_form
@every_metric
@every_method
@pytest.mark.parametrize("threshold", [None, 0.4, (0.2, 0.5)])
def test_it_is_the_partition_of_the_graph(method: Method, metric: Metric, form: str, threshold: Any) -> None:
    X, E = form_of(gaussian(120, 6), form), form_of(gaussian(15, 6, 1), form)  # noqa: N806
    estimator = fitted(X, 4, entities=E, threshold=threshold, method=method, metric=metric)
    samples, known = Vectors.of(X), Vectors.of(E)
    others = nearest(samples, samples, 4, metric=metric, self_ids=np.arange(120))
    graph = Graph.from_neighbors(others, nearest(samples, known, 1, metric=metric), n_entities=15)
    expected = partition(graph, method, threshold)
    np.testing.assert_array_equal(estimator.entity_, expected.entity)
    np.testing.assert_array_equal(estimator.partition_.parent, expected.parent)
    assert (estimator.labels_.tolist(), estimator.partition_.n_entities) == (in_order(expected.labels[15:]), 15)


def test_a_zero_vector_is_at_dissimilarity_one_to_everything() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 0.0]])  # noqa: N806
    assert fitted(X, 3, threshold=0.9).labels_.tolist() == [0, 1, 1, 2]
    assert fitted(X, 3, threshold=1).labels_.tolist() == [0, 0, 0, 0]
    assert fitted(X, 0, threshold=0.9, entities=[[1.0, 0.0]]).entity_.tolist() == [-1, 0, 0, -1]


@every_form
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_not_finite_names_the_rows_and_whose_they_are(form: str, bad: float) -> None:
    X = gaussian(30, 3).astype(float)  # noqa: N806
    broken = X.copy()
    broken[[4, 17], [0, 2]] = bad
    with pytest.raises(ValueError, match=r"^NaN, infinity .* in 2 row\(s\): 4, 17 \(from 0\)$"):
        fitted(form_of(broken, form))
    with pytest.raises(ValueError, match=r"^entities: NaN, infinity .* in 2 row\(s\): 4, 17 \(from 0\)$"):
        fitted(form_of(X, form), entities=form_of(broken, form))


def test_entities_that_do_not_match() -> None:
    X = gaussian(5, 3)  # noqa: N806
    other, forms = "3 dimensions, but the corpus has 4", "both be dense or both be sparse"
    wrong = (X, gaussian(2, 4), other), (X, X[0], "2D array"), (X, sp.csr_array(X), forms), (sp.csr_array(X), X, forms)
    for samples, entities, words in wrong:
        with pytest.raises(ValueError, match=words):
            fitted(samples, entities=entities)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": -1}, "'n_neighbors' .* must be an int in the range \\[0, inf\\)"),
        ({"metric": "euclidean"}, "'metric' .* Got 'euclidean'"),
        ({"threshold": float("nan")}, "'threshold' .* Got nan"),
        ({"threshold": (0.1, float("nan"))}, "is not a number"),
    ],
)
def test_parameters_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(gaussian(5, 3), **options)

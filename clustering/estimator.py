"""The engine as a scikit-learn estimator: vectors in, cluster labels out."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from .arrays import Ids, Threshold
from .graph import Graph
from .knn import nearest
from .methods import METHODS, Method
from .partitions import partition
from .vectors import METRICS, Metric, Vectors

# `Vectors.of` refuses values that are not finite, and names their rows.
_CHECKS: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32, np.float16], "ensure_all_finite": False}


class ArborescenceClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster samples around known entities, and cluster unreached samples with each other.

    Each sample is connected with its nearest entity and its nearest other samples; the graph is cut so that no cluster
    has two entities. Without entities, every method gives the connected components: single linkage of the graph of
    nearest neighbours, cut at the threshold. **Without a threshold, no distance is too large**: every sample is linked
    to an entity if there are any, and otherwise each connected component is one cluster.

    Parameters
    ----------
    n_neighbors : int, default=8
        Number of other samples to connect each sample with; may exceed the number of samples. With 0, samples are
        connected only with their nearest entity.
    threshold : float, (float, float) or None, default=None
        Largest dissimilarity of edges, or one limit for edges between an entity and a sample and one for edges between
        samples. None means no limit.
    method : {"arborescence", "minimax", "undirected", "independent"}, default="arborescence"
        See `clustering.partition`.
    metric : {"cosine", "dot"}, default="cosine"
        Dissimilarity ``1 - cosine`` (1 for a zero vector), or minus the inner product.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample, 0 .. n_clusters - 1 in order of first appearance.
    entity_ : ndarray of shape (n_samples,)
        Row of the entity in the sample's cluster, from 0; -1 if there is none.
    partition_ : clustering.Partition
        The clusters with paths and bottlenecks, in which the samples are the mentions.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has names that are all strings.

    Notes
    -----
    Vectors are compared as float32. The neighbour search is exact, in O(n_samples (n_samples + n_entities) n_features)
    time; the rest is nearly linear in the number of edges. Ties are broken by row number.

    Examples
    --------
    >>> from clustering import ArborescenceClustering
    >>> X = [[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [-1.0, 0.0]]
    >>> ArborescenceClustering(threshold=0.1).fit_predict(X).tolist()
    [0, 0, 1, 2]
    >>> linked = ArborescenceClustering(threshold=0.1).fit(X, entities=[[0.0, 1.0], [1.0, 0.0]])
    >>> linked.entity_.tolist()
    [1, 1, 0, -1]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 0, None, closed="left")],
        "threshold": [Interval(Real, None, None, closed="both"), tuple, None],
        "method": [StrOptions(set(METHODS))],
        "metric": [StrOptions(set(METRICS))],
    }

    def __init__(
        self,
        n_neighbors: int = 8,
        *,
        threshold: Threshold = None,
        method: Method = "arborescence",
        metric: Metric = "cosine",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.method = method
        self.metric = metric

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: None = None, *, entities: Any = None) -> Self:  # noqa: N803
        """Cluster the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        entities : {array-like, sparse matrix} of shape (n_entities, n_features), default=None
            The entities, dense or sparse like `X`; may have no rows.

        Returns
        -------
        self
        """
        samples = Vectors.of(validate_data(self, X, **_CHECKS))
        k = min(self.n_neighbors, samples.n - 1)
        others = nearest(samples, samples, k, metric=self.metric, self_ids=np.arange(samples.n))
        if entities is None:
            graph = Graph.from_neighbors(others)
        else:
            given = check_array(entities, ensure_min_samples=0, input_name="entities", estimator=self, **_CHECKS)
            try:
                known = Vectors.of(given)
            except ValueError as error:
                raise ValueError(f"entities: {error}") from None
            graph = Graph.from_neighbors(others, nearest(samples, known, 1, metric=self.metric), n_entities=known.n)
        self.partition_ = partition(graph, self.method, self.threshold)
        self.entity_: Ids = self.partition_.entity
        labels = self.partition_.labels[self.partition_.n_entities :]
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        self.labels_: Ids = np.argsort(np.argsort(first))[place]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

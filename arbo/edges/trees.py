"""Boosted trees as arrays: fitted by scikit-learn, kept without pickle, and evaluated by numba."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from arbo.engine import Floats, in_parallel, kernel
from arbo.errors import DataError

_MANY = 50_000


def blocks(n: int, size: int = 20_000) -> list[slice]:
    """Return slices that divide ``n`` pairs into blocks, each of which a thread may take."""
    return [slice(begin, begin + size) for begin in range(0, n, size)]


class Trees(NamedTuple):
    """A forest of binary trees, one after the other; children have higher numbers than their parent."""

    feature: npt.NDArray[np.int32]  # (nodes,) the column that a node compares; -1 for a leaf
    threshold: npt.NDArray[np.float64]  # (nodes,) go left if the feature is at most this number
    left: npt.NDArray[np.int32]  # (nodes,) the child on the left
    right: npt.NDArray[np.int32]  # (nodes,) that on the right
    missing_left: npt.NDArray[np.bool_]  # (nodes,) go left if the feature is NaN
    value: npt.NDArray[np.float64]
    """(nodes,) the log-odds that a leaf adds; of another node, the mean over the training pairs that came there."""
    roots: npt.NDArray[np.int32]  # (trees,) the root of each tree
    slope: float
    offset: float  # the log-odds are ``slope`` times the sum of the leaves, plus ``offset``

    @classmethod
    def fit(
        cls,
        features: Floats,
        correct: npt.NDArray[np.bool_],
        *,
        trees: int = 200,
        leaves: int = 31,
        weight: npt.NDArray[np.float64] | None = None,
    ) -> Self:
        """Fit trees of at most ``leaves`` leaves that predict from the features of a pair whether it is correct."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        unknown = np.isnan(features).all(axis=0)  # which scikit-learn cannot sort into bins
        model = HistGradientBoostingClassifier(
            max_iter=trees, max_leaf_nodes=leaves, l2_regularization=1.0, early_stopping=False, random_state=0
        )
        # Threads wait for each other at every level of every tree, which costs more than it gains with few pairs.
        with threadpool_limits(None if len(features) > _MANY else 1, user_api="openmp"):
            model.fit(np.where(unknown, np.float32(0), features), correct, sample_weight=weight)
        grown = [tree.nodes for (tree,) in model._predictors]
        size = np.array([*map(len, grown)])
        nodes, roots = np.concatenate(grown), np.cumsum(size) - size
        leaf = nodes["is_leaf"] > 0
        left, right = (np.where(leaf, 0, nodes[side] + np.repeat(roots, size)) for side in ("left", "right"))
        value, count = nodes["value"].astype(np.float64), nodes["count"].astype(np.float64)
        for node in np.flatnonzero(~leaf)[::-1]:  # children have higher numbers
            below = [left[node], right[node]]
            value[node] = np.average(value[below], weights=count[below])
        feature = np.where(leaf, -1, nodes["feature_idx"])
        finite = np.minimum(nodes["num_threshold"], np.finfo(np.float64).max)  # infinity parts NaN from all numbers
        columns = [feature, finite, left, right, nodes["missing_go_to_left"] > 0, value, roots]
        return cls._of(columns, 1.0, float(model._baseline_prediction.ravel()[0]))

    def calibrated(self, features: Floats, correct: npt.NDArray[np.bool_]) -> Self:
        """Return trees with log-odds fitted, by Platt's logistic regression, to pairs that `fit` has not seen."""
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(C=1e6).fit(self.scores(features)[:, None], correct)
        slope, offset = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
        return self._replace(slope=self.slope * slope, offset=self.offset * slope + offset)

    def scores(self, features: Floats) -> npt.NDArray[np.float64]:
        """Return the log-odds of pairs; (pairs,)."""
        return self.slope * self._added(features, np.zeros((len(features), 1)), False)[:, 0] + self.offset

    def shares(self, features: Floats) -> npt.NDArray[np.float64]:
        """Divide the log-odds of pairs among the features that the trees compare; (pairs, features).

        A feature's share is the sum of the changes of the mean at the nodes that compare it (Saabas).
        """
        return self.slope * self._added(features, np.zeros(features.shape), True)

    def _added(self, features: Floats, total: npt.NDArray[np.float64], by_feature: bool) -> npt.NDArray[np.float64]:
        in_parallel(lambda part: _add(features[part], self[:7], total[part], by_feature), blocks(len(features)))
        return total

    @classmethod
    def from_dict(cls, values: object, n_features: int, *, file: str) -> Self:
        """Make trees from the values that `as_dict` returned; ``file`` names their source in errors.

        Raises:
            DataError: the trees are incomplete, have a path that does not end in a leaf, compare a feature beyond the
                first ``n_features``, or add a number that is not finite.
        """
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            by_name: dict[str, Any] = dict(values)  # type: ignore[call-overload]
            columns = [np.asarray(by_name[name]) for name in cls._fields[:7]]
            trees = cls._of(columns, float(by_name["slope"]), float(by_name["offset"]))
            if trees._is_sound(n_features):
                return trees
        raise DataError("the edge model is damaged; train it again with arbo train edges", file=file)

    @classmethod
    def _of(cls, columns: Sequence[npt.NDArray[Any]], slope: float, offset: float) -> Self:
        kinds: list[Any] = [np.int32, np.float64, np.int32, np.int32, np.bool_, np.float64, np.int32]
        typed: Any = [column.astype(kind) for column, kind in zip(columns, kinds, strict=True)]
        return cls._make([*typed, slope, offset])

    def _is_sound(self, n_features: int) -> bool:
        """Return whether each way through a tree ends, compares known features and adds finite numbers."""
        nodes = np.arange(self.feature.size)
        if any(column.shape != nodes.shape for column in self[:6]) or self.roots.ndim != 1:
            return False
        inner = self.feature >= 0
        children = np.stack([self.left, self.right])[:, inner]
        return bool(
            (children > nodes[inner]).all()
            and (children < len(nodes)).all()
            and ((self.roots >= 0) & (self.roots < len(nodes))).all()
            and (self.feature < n_features).all()
            and np.isfinite([*self.value, self.slope, self.offset]).all()
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the trees as lists, ready for JSON."""
        return {name: np.asarray(value).tolist() for name, value in self._asdict().items()}


@kernel
def _add(features: Any, trees: Any, total: Any, by_feature: bool) -> None:
    """Add the changes of the mean to the columns of their features, or the leaves to a single column."""
    feature, threshold, left, right, missing_left, value, roots = trees
    for row in range(len(features)):
        for root in roots:
            node = root
            while feature[node] >= 0:
                number = features[row, feature[node]]
                goes_left = missing_left[node] if np.isnan(number) else number <= threshold[node]
                child = left[node] if goes_left else right[node]
                if by_feature:
                    total[row, feature[node]] += value[child] - value[node]
                node = child
            if not by_feature:
                total[row, 0] += value[node]

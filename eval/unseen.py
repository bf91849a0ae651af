"""Clusters of mentions whose entity does not occur in training, in the three settings of the ArboEL paper."""

from collections.abc import Callable
from typing import Generic, TypedDict, TypeVar

import numpy.typing as npt

from .arrays import IntArray, Labels, boolean_array, encode_labels

T = TypeVar("T")


class UnseenScores(TypedDict, Generic[T]):
    """The result of `unseen_scores`: the result of `score` for each setting."""

    all: T
    all_unseen: T
    unseen_only: T | None


def unseen_scores(
    labels_true: Labels,
    labels_pred: Labels,
    seen: npt.ArrayLike,
    *,
    score: Callable[[IntArray, IntArray], T],
    labels_pred_unseen_only: Labels | None = None,
) -> UnseenScores[T]:
    """Compute the agreement of two clusterings, over all mentions and over mentions of unseen entities.

    With ``M`` the mentions and ``U`` those of them whose true entity does not occur in training:

    ===============  ============  ==============  ==============================================
    setting          clustered     evaluated       a cluster of unseen mentions
    ===============  ============  ==============  ==============================================
    ``all``          ``M``         ``M``
    ``all_unseen``   ``M``         ``U``           may have been brought together by seen mentions
    ``unseen_only``  ``U``         ``U``           stands on their similarity alone
    ===============  ============  ==============  ==============================================

    Source: Agarwal et al. 2022, Entity linking via explicit mention-mention coreference modeling,
    https://aclanthology.org/2022.naacl-main.343, section 3.5 and table 5 (adjusted Rand index).

    The true entity of each mention and its cluster are (mentions,); ``seen``, (mentions,), tells whether the entity
    occurs in training. ``score`` is a function of true and predicted labels, such as `adjusted_rand_index` or
    `clustering_scores`. `unseen_only` needs the clusters of the unseen mentions alone, in their order, and is None
    without them.

    Raises:
        ValueError: lengths differ, or a label is missing (NaN or None).
        TypeError: flags are not booleans, a label cannot be hashed, or `score` is not a function.

    A seen mention of ``c`` joins two entities, which stay apart without it:

    >>> from eval import adjusted_rand_index
    >>> unseen_scores(["a", "a", "b", "c"], [0, 0, 0, 0], [False, False, False, True],
    ...               score=adjusted_rand_index, labels_pred_unseen_only=[0, 0, 1])
    {'all': 0.0, 'all_unseen': 0.0, 'unseen_only': 1.0}
    """
    if not callable(score):
        raise TypeError(f"score is {score!r}, not a function of true and predicted labels such as adjusted_rand_index")
    true = encode_labels(labels_true, name="labels_true").codes
    pred = encode_labels(labels_pred, name="labels_pred").codes
    if len(true) != len(pred):
        raise ValueError(f"labels_true has {len(true)} mentions, labels_pred has {len(pred)}")
    unseen = ~boolean_array(seen, name="seen", length=len(true))
    only = None
    if labels_pred_unseen_only is not None:
        alone = encode_labels(labels_pred_unseen_only, name="labels_pred_unseen_only").codes
        if len(alone) != unseen.sum():
            raise ValueError(f"labels_pred_unseen_only has {len(alone)} mentions, {unseen.sum()} are unseen")
        only = score(true[unseen], alone)
    return {"all": score(true, pred), "all_unseen": score(true[unseen], pred[unseen]), "unseen_only": only}

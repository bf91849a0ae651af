"""The plan of an epoch: the positive and negatives of each mention."""

from typing import NamedTuple, Self

import numpy as np

from arbo.engine import Ids
from arbo.training.config import TrainingConfig
from arbo.training.data import Snapshot, TrainingSet
from arbo.training.dual.negatives import in_batch, near, random
from arbo.training.dual.positives import pick_positives

_POSITIVES, _NEGATIVES = 1, 2  # 0 is the order, see `arbo.training.loop`


def asks_the_model(config: TrainingConfig, owner: Ids) -> bool:
    """Return whether the choice of positives or negatives depends on vectors; ``owner`` is as in `Snapshot.unread`."""
    has_one_text = bool((np.diff(owner) > 0).all())
    return config.positives != "entity" or not has_one_text or config.negatives in ("knn", "mixed", "in-batch+knn")


def _rng(config: TrainingConfig, what: int, step: int) -> np.random.Generator:
    return np.random.default_rng([config.seed, what, step])


class Plan(NamedTuple):
    """The positive and negatives of each mention, chosen with one snapshot of the model, as nodes of `Snapshot`."""

    positive: Ids  # (mentions,) -1 for a mention that is not trained on
    negative: Ids  # (mentions, negatives) -1 for none; without those of the batch

    @classmethod
    def of(cls, data: TrainingSet, snapshot: Snapshot, config: TrainingConfig, step: int) -> Self:
        """Choose positives and negatives; ``step`` and the seed of ``config`` seed random choices."""
        positive = pick_positives(snapshot, config.positives, _rng(config, _POSITIVES, step))
        queries, n = data.queries, config.n_negatives
        chosen = np.empty((len(queries), 0), np.int64)
        if config.negatives in ("knn", "in-batch+knn"):
            n_mentions = n if not len(data.kb) else 0 if config.positives == "entity" else n // 2
            chosen = near(snapshot, data.rivals, queries, n_entities=n - n_mentions, n_mentions=n_mentions)
        elif config.negatives in ("random", "mixed"):
            n_hard = round(config.hard_share * n) if config.negatives == "mixed" else 0
            hard = near(snapshot, data.rivals, queries, n_entities=n_hard, n_mentions=0)
            near_ones = np.where(hard >= 0, snapshot.entities.owner[hard], -1)
            rng = _rng(config, _NEGATIVES, step)
            chosen = np.hstack([hard, random(snapshot, data.rivals, queries, n - n_hard, rng, but=near_ones)])
        negative = np.full((len(positive), chosen.shape[1]), -1)
        negative[queries] = chosen
        return cls(positive, negative)

    def nodes(self, data: TrainingSet, owner: Ids, batch: Ids, config: TrainingConfig, step: int) -> Ids:
        """Return the positive and the negatives of each mention of a batch; (batch, 1 + negatives)."""
        positive, negative = self.positive[batch], self.negative[batch]
        if config.negatives.startswith("in-batch"):
            shared = in_batch(owner, data.rivals, batch, positive)
            if config.negatives == "in-batch-mixed":
                shared = _rng(config, _NEGATIVES, step).permuted(shared, axis=1)
            negative = np.hstack([shared, np.where(np.isin(negative, positive), -1, negative)])
        return np.column_stack([positive, negative])

"""Training of the cross-encoder of an edge model, which reads the pairs that the trees leave doubtful.

Trees are too sure about pairs that they learnt from. So two other sets of trees choose the training pairs: each learns
from one half of the training documents, divided by topic if they have one, and tells which pairs of the other half are
doubtful. The cross-encoder learns these by binary cross-entropy. How much its score counts is fitted to doubtful pairs
of the development documents.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from arbo.edges.doubtful import LogOdds, Reader, doubtful
from arbo.edges.model import EdgeModel
from arbo.edges.trees import Trees
from arbo.encoders.cross import PairEncoder
from arbo.encoders.templates import TokenRow
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.training.config import DoubtfulConfig, RunOptions
from arbo.training.frame import training
from arbo.training.loop import Trainer
from arbo.training.pairs import Compared


@dataclass(eq=False)
class PairTrainer(Trainer[PairEncoder, Ids]):
    """Trains a cross-encoder of mention pairs, for `with_reader`."""

    data: Compared

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the mentions, and return the function that scores rows."""
        self.pairs = self.model.mention_pairs(self.data.retrieval.inputs)
        return self._scores

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Take the pairs at the indices ``rows``."""
        return mentions[rows]

    def loss_of(self, step: int, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some pairs."""
        first, second = self.data.first[batch[rows]], self.data.second[batch[rows]]
        scores = self.prepared(self.pairs.spell(self.pairs.mentions.row[first], self.pairs.entities.row[second]))
        correct = torch.from_numpy(self.data.correct[batch[rows]]).to(scores)
        return binary_cross_entropy_with_logits(scores, correct, reduction="sum")

    def _scores(self, rows: list[TokenRow]) -> Tensor:
        return self.model.tower.encode_apart(rows, self.model.config.pooling)[:, 0, 0]


def with_reader(
    model: EdgeModel,
    start: PairEncoder,
    train: Compared,
    dev: Compared,
    *,
    out: PathLike,
    job: dict[str, Any],
    config: DoubtfulConfig,
    options: RunOptions,
) -> EdgeModel:
    """Train a cross-encoder for the doubtful pairs of a model, and write both to a folder.

    Only a run with the same values in ``job`` can resume an interrupted one. Raise DataError if there are no doubtful
    pairs to learn from, or one half of the training documents does not have both right and wrong pairs.
    """
    chosen = _drawn(doubtful(unseen(train, dev)), config)
    if not len(chosen):
        raise DataError("no pair is doubtful, so a cross-encoder has nothing to learn; leave it out (--cross)")
    log_odds = model.mentions.scores(dev.features)
    read = _drawn(doubtful(log_odds), config)
    with training(out, job, config, options) as workplace:
        trainer = PairTrainer(start, train.taken(chosen), None, config, workplace)
        trainer.run()
        if workplace.is_first:
            encoder = trainer.final.copy()
            scores = encoder.compare(dev.retrieval.inputs, dev.first[read], dev.second[read], options.announce)
            summary = {"model": start.name, "pairs": len(chosen), "doubtful": len(doubtful(log_odds)) / len(log_odds)}
            reader = Reader.fit(encoder, log_odds[read], scores, dev.correct[read])
            replace(model, trained={**model.trained, "cross": summary}, reader=reader).save(workplace.target)
    return EdgeModel.load(workplace.target)


def unseen(pairs: Compared, dev: Compared) -> LogOdds:
    """Return the log-odds of pairs by trees that learnt from the other half of the documents; (pairs,).

    The log-odds of a pair with a mention in each half are NaN. ``dev`` calibrates the trees. Raise DataError if the
    pairs of one half are all correct or all wrong.
    """
    documents = [item.document for item in pairs.retrieval.inputs]
    groups = [str(document.metadata.get("topic", document.id)) for document in documents]
    if len(set(groups)) < 2:
        groups = [document.id for document in documents]
    half = np.unique(groups, return_inverse=True)[1] % 2
    within = [np.flatnonzero((half[pairs.first] == part) & (half[pairs.second] == part)) for part in (0, 1)]
    log_odds = np.full(len(pairs.first), np.nan)
    for learnt, others in (within, within[::-1]):
        correct = pairs.correct[learnt]
        if correct.all() or not correct.any():
            raise DataError(
                "a cross-encoder learns from both halves of the training documents (or of their topics), and each half "
                "needs pairs that mean the same and pairs that do not; give more documents, or leave it out (--cross)"
            )
        trees = Trees.fit(pairs.features[learnt], correct).calibrated(dev.features, dev.correct)
        log_odds[others] = trees.scores(pairs.features[others])
    return log_odds


def _drawn(pairs: Ids, config: DoubtfulConfig) -> Ids:
    """Draw as many pairs as the settings allow, in their order."""
    if len(pairs) <= config.pairs:
        return pairs
    return np.sort(np.random.default_rng(config.seed).choice(pairs, config.pairs, replace=False))

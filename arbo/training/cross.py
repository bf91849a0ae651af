"""Training of cross-encoders, which learn to tell the gold entity from the other candidates of a first stage.

The model scores all candidates of a mention; if the gold entity is not among them, it replaces the last candidate. The
loss is the cross-entropy of the gold entity in the softmax over the candidates. Of several gold entities, the first one
counts; the others, and entities with the same text as the first, are not used as negatives. Candidates are found anew
when an interrupted training continues.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arbo.data import learnt_from
from arbo.encoders.cross import CrossEncoder
from arbo.engine import Floats, Ids, LinkingScores
from arbo.errors import UsageError
from arbo.linker import Linker
from arbo.retrieval.reranking import Candidates, gaps_filled, rerank
from arbo.training.config import RerankingConfig, RunOptions
from arbo.training.data import TrainingSet, job_of, sets_of
from arbo.training.frame import check_start, training
from arbo.training.loop import Trainer
from arbo.training.losses import cross_entropy


@dataclass(eq=False)
class RerankingTrainer(Trainer[CrossEncoder, Ids]):
    """Trains a cross-encoder, for `train_reranker`."""

    data: TrainingSet
    dev: Callable[[CrossEncoder], LinkingScores] | None
    config: RerankingConfig
    candidates: Candidates  # of all mentions of the documents
    best = "accuracy"  # the share of mentions with a gold id whose first candidate is correct

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the training data, and return the function that scores the candidates of mentions."""
        self.nodes, self.retrieval = gold_first(self.data, self.candidates)
        used = np.unique(self.nodes[self.nodes >= 0])
        self.texts = self.model.texts(self.data.inputs, self.data.kb.of_rows(used))
        self.text = self.texts[1].row[np.searchsorted(used, self.nodes)]  # that of each node, and
        self.exists = self.nodes >= 0  # whether to compare with it; not if it is that of the gold entity
        self.exists[:, 1:] &= self.text[:, 1:] != self.text[:, :1]
        return self.scored

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Take the mentions at the indices ``rows``; their candidates are the same in every step."""
        return mentions[rows]

    def loss_of(self, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some mentions."""
        scores, exists = self.prepared(batch[rows]), torch.from_numpy(self.exists[batch[rows]])
        return cross_entropy(scores, exists.to(scores.device)).sum()

    def scored(self, mentions: Ids) -> Tensor:
        """Score mentions with their entities, with gradients, and add the first stage's scores; (mentions, 1 + k)."""
        mention, place = np.nonzero(self.exists[mentions])
        row = mentions[mention]
        rows = self.model.spell(self.texts, self.texts[0].row[row], self.text[row, place])
        values = self.model.tower.encode_apart(rows, self.model.config.pooling)[:, 0]
        retrieval = torch.from_numpy(np.float32(self.model.retrieval_weight) * self.retrieval[mentions])
        at = (torch.from_numpy(mention).to(values.device), torch.from_numpy(place).to(values.device))
        return retrieval.to(values).index_put(at, values, accumulate=True)

    def development_scores(self) -> dict[str, float]:
        """Score the reranked candidates of the development documents."""
        assert self.dev is not None
        scores = self.dev(self.model)
        return {"accuracy": scores.accuracy, "accuracy_normalized": scores.accuracy_normalized or 0.0}


def gold_first(data: TrainingSet, candidates: Candidates) -> tuple[Ids, Floats]:
    """Return each mention's gold entity and its other candidates, -1 for none, and their scores; (mentions, 1 + k)."""
    entities, scores, gold = candidates.entities[data.rows], candidates.scores[data.rows], data.gold.first
    missed = np.flatnonzero((gold >= 0) & ~(entities == gold[:, None]).any(axis=1))
    place = np.minimum((entities[missed] >= 0).sum(axis=1), candidates.k - 1)
    entities[missed, place], scores[missed, place] = gold[missed], -np.inf
    scores = gaps_filled(scores)
    gold_score = np.where(entities == gold[:, None], scores, -np.inf).max(axis=1)
    is_gold = (entities[:, :, None] == data.gold.entities[:, None]).any(axis=2)
    nodes = np.column_stack([gold, np.where(is_gold, -1, entities)])
    return nodes, np.column_stack([np.where(gold >= 0, gold_score, 0), scores])


def train_reranker(
    reranker: CrossEncoder,
    linker: Linker,
    documents: Iterable[Any],
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    config: RerankingConfig | None = None,
    options: RunOptions | None = None,
) -> CrossEncoder:
    """Train a cross-encoder to choose among the candidates of a first stage, and write it to a folder.

    See `arbo.train` for further arguments and errors. The configuration of the ``reranker`` (`CrossEncoder.of`) sets
    the number of candidates per mention. The encoder of the ``linker`` finds them in the linker's knowledge base.
    ``dev`` selects the model whose first candidate is correct most often. Raise UsageError also if the linker has a
    reranker or no knowledge base, or there are fewer than 2 candidates or entities.
    """
    kb = check_start(out, linker.kb)
    config = config or RerankingConfig()
    k, expand = reranker.config.candidates, linker.config.expand_abbreviations
    if linker.reranker is not None:
        raise UsageError("this linker has a reranker; use a linker with an encoder alone")
    if min(k, len(kb)) < 2:
        wrong = f"a cross-encoder chooses from at least 2 candidates, not {min(k, len(kb))}"
        raise UsageError(f"{wrong}; set candidates to 2 or more, or give a larger knowledge base")
    corpora, data = sets_of(documents, dev, kb, expand_abbreviations=expand)
    reranker = replace(reranker, learnt=learnt_from(corpora["documents"].tables, reranker.learnt))
    retrieval: dict[str, Any] = {"k": k, "encoder": linker.encoder.settings}
    what = {"reranker": reranker.settings, "candidates": retrieval, "expand_abbreviations": expand}

    def scores(model: CrossEncoder) -> LinkingScores:
        announce = workplace.options.announce
        best = rerank(model, candidates["dev"], corpora["dev"], kb, expand_abbreviations=expand, announce=announce)
        return best.evaluate(corpora["dev"], kb)

    with training(out, job_of(corpora, kb, config, **what), config, options) as workplace:
        candidates = {name: linker.candidates(corpus, k=k) for name, corpus in corpora.items()}
        looks, first_stage = None if dev is None else scores, candidates["documents"]
        RerankingTrainer(reranker, data["documents"], looks, config, workplace, first_stage).run()
    return CrossEncoder.from_pretrained(workplace.target)

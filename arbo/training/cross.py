"""Training of cross-encoders, which learn to tell the gold entity from the other candidates of a first stage.

The model scores all candidates of a mention; if the gold entity is not among them, it replaces the last candidate. The
loss is the cross-entropy of the gold entity in the softmax over the candidates. Of several gold entities, the first one
counts; the others, and entities with the same text as the first, are not used as negatives. Candidates are found anew
when an interrupted training continues.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data import KnowledgeBase, MentionInput
from arbo.data.fingerprint import learnt_from
from arbo.encoders.cross import CrossEncoder
from arbo.engine import Bools, Floats, Ids, LinkingScores
from arbo.errors import UsageError
from arbo.linker import Linker
from arbo.retrieval.reranking import Candidates, gaps_filled, is_gold, rerank, with_gold
from arbo.training.config import RerankingConfig, RunOptions
from arbo.training.data import TrainingSet, corpora_of, job_of, training_sets
from arbo.training.frame import check_start, training
from arbo.training.loop import Trainer
from arbo.training.losses import cross_entropy


@dataclass(frozen=True, eq=False, slots=True)
class RerankingSet:
    """Mentions with gold ids, and entities to compare each with; mentions without a gold entity are not trained on."""

    inputs: Sequence[MentionInput]  # the mentions that have gold ids
    kb: KnowledgeBase
    nodes: Ids  # (mentions, 1 + k) indices of entities, the gold entity's first; -1 for none
    retrieval: Floats  # (mentions, 1 + k) the first stage's score of each entity, see `gaps_filled`

    @classmethod
    def of(cls, data: TrainingSet, candidates: Candidates) -> Self:
        """Put the gold entity of each annotated mention before its other ``candidates``, which are of all mentions."""
        entities, scores = candidates.entities[data.rows], candidates.scores[data.rows]
        positive = data.gold.first[:, None]
        compared = with_gold(replace(candidates, entities=entities, scores=scores), positive)
        negatives = np.where(is_gold(compared.entities, data.gold.entities), -1, compared.entities)
        scores = gaps_filled(compared.scores)
        gold_score = np.where(compared.entities == positive, scores, -np.inf).max(
            axis=1, initial=-np.inf, keepdims=True
        )
        retrieval = np.hstack([np.where(positive >= 0, gold_score, 0), scores])
        return cls(data.inputs, data.kb, np.hstack([positive, negatives]), retrieval.astype(np.float32))

    @property
    def queries(self) -> Ids:
        """The mentions that are trained on."""
        return np.flatnonzero(self.nodes[:, 0] >= 0)


@dataclass(eq=False)
class RerankingTrainer(Trainer[CrossEncoder, Ids]):
    """Trains a cross-encoder, for `train_reranker`."""

    data: RerankingSet
    dev: Callable[[CrossEncoder], LinkingScores] | None
    config: RerankingConfig
    best = "accuracy"  # the share of mentions with a gold id whose first candidate is correct

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the training data, and return the function that scores the candidates of mentions."""
        self.used = np.unique(self.data.nodes[self.data.nodes >= 0])
        used_kb = KnowledgeBase(self.data.kb.entities[i] for i in self.used)
        self.pairs = self.model.pairs(self.data.inputs, used_kb)
        return self.scored

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Take the mentions at the indices ``rows``; their candidates are the same in every step."""
        return mentions[rows]

    def loss_of(self, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some mentions."""
        scores, (_, exists) = self.prepared(batch[rows]), self.compared(batch[rows])
        return cross_entropy(scores, torch.from_numpy(exists).to(scores.device)).sum()

    def compared(self, mentions: Ids) -> tuple[Ids, Bools]:
        """Return the texts of the entities to compare mentions with, the gold one first, and which of them exist.

        Both have the shape (mentions, 1 + k). Entities with the text of the gold one are left out.
        """
        nodes = self.data.nodes[mentions]
        text = self.pairs.entities.row[np.searchsorted(self.used, nodes)]
        exists = nodes >= 0
        exists[:, 1:] &= text[:, 1:] != text[:, :1]
        return text, exists

    def scored(self, mentions: Ids) -> Tensor:
        """Score mentions with their entities, with gradients, and add the first stage's scores; (mentions, 1 + k)."""
        text, exists = self.compared(mentions)
        mention, place = np.nonzero(exists)
        rows = self.pairs.spell(self.pairs.mentions.row[mentions[mention]], text[mention, place])
        values = self.model.tower.encode_apart(rows, self.model.config.pooling)[:, 0]
        retrieval = torch.from_numpy(np.float32(self.model.retrieval_weight) * self.data.retrieval[mentions])
        at = (torch.from_numpy(mention).to(values.device), torch.from_numpy(place).to(values.device))
        return retrieval.to(values).index_put(at, values, accumulate=True)

    def development_scores(self) -> dict[str, float]:
        """Score the reranked candidates of the development documents."""
        assert self.dev is not None
        scores = self.dev(self.model)
        return {"accuracy": scores.accuracy, "accuracy_normalized": scores.accuracy_normalized or 0.0}


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
    corpora = corpora_of(documents, dev)
    reranker = replace(reranker, learnt=learnt_from(corpora["documents"].tables, reranker.learnt))
    data = training_sets(corpora, kb, expand_abbreviations=expand)
    retrieval: dict[str, Any] = {"k": k, "encoder": linker.encoder.settings}
    what = {"reranker": reranker.settings, "candidates": retrieval, "expand_abbreviations": expand}

    def scores(model: CrossEncoder) -> LinkingScores:
        announce = workplace.options.announce
        best = rerank(model, candidates["dev"], corpora["dev"], kb, expand_abbreviations=expand, announce=announce)
        return best.evaluate(corpora["dev"], kb)

    with training(out, job_of(corpora, kb, config, **what), config, options) as workplace:
        candidates = {name: linker.candidates(corpus, k=k) for name, corpus in corpora.items()}
        compared = RerankingSet.of(data["documents"], candidates["documents"])
        RerankingTrainer(reranker, compared, None if dev is None else scores, config, workplace).run()
    return CrossEncoder.from_pretrained(workplace.target)

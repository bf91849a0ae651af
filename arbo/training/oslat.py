"""The trainings of OSLAT: of names, and of label attention with its linking head.

Both contrast a name with some of its synonyms, and with names of other entities. Negatives are never names of a correct
entity, or spelt like one.

*Self-alignment* (section 3.1) compares the output of two further layers, which are discarded after training.
*Label attention* (section 3.2) draws the text's vector for one name (`arbo.spans.model`) towards its vectors for the
synonyms, and away from its vectors for other names. So a name learns to attend to its mentions, although only the
entities of a text are given. The *linking head* (section 3.3) learns from the same queries to score the entity of the
text above the others, by the focal loss. Its gradient stops at the transformer, as attention would otherwise no longer
find spans. The paper trains the head afterwards.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arbo.data import Corpus, KnowledgeBase, codes_of, learnt_from
from arbo.encoders.dual import DualEncoder
from arbo.engine import Ids, ranges
from arbo.errors import DataError, UsageError
from arbo.spans.model import LabelAttention, Pieces, entity_in_text, label_attention, name_scores
from arbo.training.config import OslatTraining, RunOptions, SelfAlignmentConfig
from arbo.training.data import job_of
from arbo.training.frame import check_start, training
from arbo.training.loop import Model, Trainer
from arbo.training.losses import comparable, focal_loss, nt_xent

_TEMPERATURE, _DIM = 0.07, 128  # sections 3.1 and 6.1: of the loss, and of the vectors of self-alignment
_EVEN, _SCALE = 0.5, 10.0  # in training the logit of a score, a cosine, is ``_SCALE * (score - _EVEN)``


class Contrasts:
    """Training data: queries, each with a correct entity.

    A query is a name or, with sentences, a sentence and an entity in it. Names of an entity that differ only in case or
    white space count as one.
    """

    def __init__(self, kb: KnowledgeBase, pieces: Pieces | None = None) -> None:
        """Take all names of a knowledge base, or sentences and their entities; raise DataError if nothing is taught."""
        self.kb, (names, owner) = kb, kb.names()
        spelling = codes_of(" ".join(name.casefold().split()) for name in names)
        self.place = np.sort(np.unique(owner * (len(names) + 1) + spelling, return_index=True)[1])
        self.spelling, self.owner = spelling[self.place], owner[self.place]
        self.start = np.searchsorted(self.owner, np.arange(len(kb) + 1))
        self.size = np.diff(self.start)
        # Of each query: its context, ascending, whose entities are never negatives; its entity; a name, or -1.
        self.context, self.entity, self.name = self.owner, self.owner, np.arange(len(self.owner))
        if pieces is not None:
            self.context, self.entity = pieces.entities(kb)
            self.name = np.full(len(self.entity), -1)
        self.queries, self.entities = np.flatnonzero(self.size[self.entity] > 1), np.unique(self.entity)
        if not len(self.queries) or len(self.entities) < 2:
            rule = f"of {len(self.entities):,} entities, one must have two names that differ, and another be there"
            advice = "add aliases, entities or documents, or check their ids and domains"
            raise DataError(f"nothing to train on: {rule}; {advice}")

    def names_of(self, entities: Ids) -> Ids:
        """List the names of some entities, as rows of ``place``, ``spelling`` and ``owner``."""
        return ranges(self.start[entities], self.size[entities])

    def sampled(self, queries: Ids, config: SelfAlignmentConfig, step: int) -> Ids:
        """Sample names to compare, by ``step`` and the seed of ``config``; (queries, 2 + positives + negatives).

        A row has the query, a name of its entity (its own if it is one), positives and negatives, padded with -1. All
        rows take their negatives from one sample, in which all entities count equally.
        """
        rng, other_rng = (np.random.default_rng([config.seed, what, step]) for what in (1, 2))
        others = self.names_of(self.entities)
        others = others[np.argsort(other_rng.exponential(size=len(others)) * self.size[self.owner[others]])]
        others = others[np.sort(np.unique(self.spelling[others], return_index=True)[1])]
        n = 2 + config.n_positives
        rows = np.full((len(queries), n + config.n_negatives), -1)
        for row, query in zip(rows, queries, strict=True):
            names = rng.permutation(self.names_of(self.entity[[query]]))
            names = names[np.argsort(names != self.name[query], kind="stable")][: n - 1]
            beside = slice(*np.searchsorted(self.context, self.context[query] + np.arange(2)))
            avoided = self.spelling[self.names_of(np.unique(self.entity[beside]))]
            negatives = others[: len(avoided) + config.n_negatives]
            negatives = negatives[~np.isin(self.spelling[negatives], avoided)][: config.n_negatives]
            row[0], row[1 : 1 + len(names)], row[n : n + len(negatives)] = query, names, negatives
        return rows


@dataclass(eq=False)
class ContrastiveTrainer(Trainer[Model, Ids]):
    """Base class of trainers for models that encode names."""

    data: Contrasts
    config: SelfAlignmentConfig

    def names(self, encoder: DualEncoder) -> Callable[[Ids], Tensor]:
        """Collect all names, and return the function that encodes names, (...), as (..., dim); -1 is any name."""
        texts, place = encoder.entity_texts(self.data.kb), self.data.place

        def vectors_of(name: Ids) -> Tensor:
            distinct, row = np.unique(texts.row[place[np.maximum(name, 0)]], return_inverse=True)
            vectors = texts.tower.encode_apart(texts.spell(distinct), encoder.config.pooling)
            return vectors[torch.from_numpy(row.reshape(name.shape)).to(vectors.device)]

        return vectors_of

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Sample the positives and negatives of a batch, and take some of its queries."""
        return self.data.sampled(mentions, self.config, step)[rows]

    def loss_of(self, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some queries; each part of a batch encodes the negatives again."""
        return self.contrasted(self.prepared(batch[rows]), batch[rows]).sum()

    def contrasted(self, vectors: Tensor, batch: Ids) -> Tensor:
        """Return the loss of each query; ``vectors``, (queries, names, dim), are anchor, positives and negatives."""
        vectors = comparable(vectors.float(), "cosine")
        scores = torch.einsum("qd,qkd->qk", vectors[:, 0], vectors[:, 1:])
        exists = torch.from_numpy(batch[:, 2:] >= 0).to(scores.device)
        return nt_xent(scores / _TEMPERATURE, exists, self.config.n_positives)


@dataclass(eq=False)
class SelfAlignmentTrainer(ContrastiveTrainer[DualEncoder]):
    """Trains an encoder by self-alignment, with two further layers, for `train_self_alignment`."""

    def __post_init__(self) -> None:
        dim = self.model.entity_tower.dim
        with torch.random.fork_rng():
            torch.manual_seed(self.config.seed)
            layers = torch.nn.Linear(dim, dim), torch.nn.ReLU(), torch.nn.Linear(dim, _DIM)
        self.head = torch.nn.Sequential(*layers).to(self.model.entity_tower.model.device)
        super().__post_init__()

    @property
    def module(self) -> torch.nn.ModuleList:
        """The modules of the encoder, and the two layers."""
        return torch.nn.ModuleList([*self.model.module, self.head])

    def reading(self) -> Callable[..., Tensor]:
        """Collect the names, and return the function that computes the vectors that the loss compares."""
        vectors_of = self.names(self.model)
        return lambda batch: self.head(vectors_of(batch[:, 1:]))


def train_self_alignment(
    encoder: DualEncoder,
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    config: SelfAlignmentConfig | None = None,
    options: RunOptions | None = None,
) -> DualEncoder:
    """Train an encoder to map the names of an entity to similar vectors, and write it to a folder.

    See `arbo.train` for further arguments and errors. Raise DataError also if no entity has two names, or all names are
    of one, and UsageError if the encoder has two towers, or the entity view ``whole``.
    """
    check_start(out, kb)
    config = config or SelfAlignmentConfig()
    if not encoder.shared or encoder.config.entity_view != "names":
        wrong = "names are aligned one by one with one tower"
        raise UsageError(f"{wrong}; start from such an encoder with entity_view names")
    data = Contrasts(kb)
    start = replace(encoder, config=replace(encoder.config, entity_threshold=None, mention_threshold=None), cache=None)
    with training(out, job_of({}, kb, config, encoder=encoder.settings), config, options) as workplace:
        SelfAlignmentTrainer(start, data, None, config, workplace).run()
    return DualEncoder.from_pretrained(workplace.target)


@dataclass(eq=False)
class OslatTrainer(ContrastiveTrainer[LabelAttention]):
    """Trains label attention and its linking head, for `train_oslat`."""

    pieces: Pieces

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names, and return the function that reads those of a batch; (queries, names, dim + 1).

        It computes the vector that the text of each query has for each name and, as its last component, the score.
        """
        model, data, vectors_of = self.model, self.data, self.names(self.model.name_encoder)
        rows = [model.token_row(text)[0] for text in self.pieces.texts]

        def read(batch: Ids) -> Tensor:
            text, place = np.unique(data.context[batch[:, 0]], return_inverse=True)
            tokens, row = model.transformer.encode([rows[i] for i in text], None), torch.from_numpy(place)
            ends = torch.tensor([(rows[i].begin, rows[i].end) for i in text[place]], device=tokens.device)
            at = torch.arange(tokens.shape[1], device=tokens.device)
            mask = (ends[:, :1] <= at) & (at < ends[:, 1:])
            vectors = vectors_of(batch[:, 1:])
            said = entity_in_text(label_attention(vectors, tokens[row], mask), tokens[row])
            score = name_scores(model.tower.projection, said.detach(), vectors.detach())
            return torch.cat([said, score[..., None]], dim=-1)

        return read

    def loss_of(self, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some queries: of label attention, and the mean focal loss over the entities of the names.

        The score of an entity is the highest score of its names in the batch; only that of the query is in the text.
        """
        part = batch[rows]
        read = self.prepared(part)
        owner = torch.from_numpy(np.where(part[:, 1:] >= 0, self.data.owner[part[:, 1:]], -1)).to(read.device)
        same = owner[:, :, None] == owner[:, None, :]
        best = torch.where(same, read[..., -1][:, None, :], -torch.inf).amax(dim=2)
        weight = (owner >= 0) / same.sum(dim=2)  # each entity counts once
        focal = focal_loss(_SCALE * (best - _EVEN), owner == owner[:, :1])
        return (self.contrasted(read[..., :-1], part) + (focal * weight).sum(dim=1) / weight.sum(dim=1)).sum()


def train_oslat(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    config: OslatTraining | None = None,
    options: RunOptions | None = None,
) -> LabelAttention:
    """Train label attention and its linking head, and write the model to a folder.

    See `arbo.train` for further arguments and errors. The best start is a transformer that `train_self_alignment` has
    trained. The positions of mentions are not used. Entities with only one name are left out. Raise DataError also if
    no entity in the documents has two names, or they have only one entity.
    """
    check_start(out, kb)
    config, corpus = config or OslatTraining(), Corpus.of(documents)
    pieces = Pieces.of(corpus)
    data = Contrasts(kb, pieces)
    start = replace(model, learnt=learnt_from(corpus.tables, model.learnt)).with_threshold(_EVEN)
    with training(out, job_of({"documents": corpus}, kb, config, model=model.settings), config, options) as workplace:
        OslatTrainer(start, data, None, config, workplace, pieces).run()
    return LabelAttention.from_pretrained(workplace.target)

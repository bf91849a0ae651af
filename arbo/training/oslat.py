"""The trainings of OSLAT: of names, and of label attention with its linking head.

Both contrast a name with some of its synonyms, and with names of other entities. Negatives are never names of a correct
entity, or spelt like one. They are sampled for all names of a batch together, so that it encodes little more than as
many names as one query needs.

*Self-alignment* (section 3.1) draws names of one entity together and names of different entities apart. The loss
compares the output of two further layers, which are discarded after training. Documents are not needed.

*Label attention* (section 3.2): all names of an entity should attend to the same place of a text. The queries on a text
are a name of an entity in it, some of its synonyms, and names of other entities. The text's vector for the first name
(`arbo.spans.model`) is drawn towards its vectors for the synonyms, and away from its vectors for the other names. So a
name learns to attend to its mentions, although only the entities of a text are given, and not their positions.

The *linking head* (section 3.3) learns from the same queries to score the entity of the text above the others, by the
focal loss; the score of an entity is the highest score of its names. Its gradient stops at the transformer, as
attention would otherwise no longer find spans. The paper trains the head afterwards; here both are one training.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data import Corpus, KnowledgeBase
from arbo.data.arrow import codes_of
from arbo.data.fingerprint import learnt_from
from arbo.encoders.dual import DualEncoder
from arbo.engine import Ids, ranges
from arbo.errors import DataError, UsageError
from arbo.spans.model import LabelAttention, entity_in_text, label_attention, name_scores
from arbo.spans.model_finder import Pieces
from arbo.training.config import ContrastiveConfig, OslatTraining, RunOptions, SelfAlignmentConfig
from arbo.training.data import job_of
from arbo.training.frame import check_start, training
from arbo.training.loop import Model, Trainer
from arbo.training.losses import comparable, focal_loss, nt_xent

# Seeds of what a step samples; 0 is the order, see `arbo.training.loop`.
_POSITIVES, _NEGATIVES = 1, 2
EVEN, _SCALE = 0.5, 10.0  # in training the logit of a score, a cosine, is ``_SCALE * (score - EVEN)``


@dataclass(frozen=True, eq=False, slots=True)
class Synonyms:
    """The set of names of each entity; names of an entity that differ only in case or white space count as one."""

    place: Ids  # (names,) the index of each name in `KnowledgeBase.names`, ascending; a name is a row of this array
    spelling: Ids  # (names,) a code for the spelling, the same for names that differ only in case or white space
    owner: Ids  # (names,) the entity of each name, ascending
    start: Ids  # (entities + 1,) the names of entity ``e`` are those from ``start[e]`` to ``start[e + 1]``

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Self:
        """Take the names of all entities."""
        names, owner = kb.names()
        spelling = codes_of(" ".join(name.casefold().split()) for name in names)
        place = np.sort(np.unique(owner * (len(names) + 1) + spelling, return_index=True)[1])
        start = np.searchsorted(owner[place], np.arange(len(kb) + 1))
        return cls(place, spelling[place], owner[place], start)

    def of_entities(self, entities: Ids) -> Ids:
        """List the names of some entities, as rows of these arrays."""
        return ranges(self.start[entities], self.start[entities + 1] - self.start[entities])

    def draw(self, entity: Ids, first: Ids, n: int, rng: np.random.Generator) -> Ids:
        """Sample ``n`` distinct names of each entity, beginning with the name ``first``, if any; (entities, n), or -1.

        ``first`` (entities,) is -1 for none.
        """
        drawn = np.full((len(entity), n), -1)
        for row, one in enumerate(entity):
            names = rng.permutation(np.arange(self.start[one], self.start[one + 1]))
            drawn[row, : min(n, len(names))] = names[np.argsort(names != first[row], kind="stable")][:n]
        return drawn

    def draw_others(self, entities: Ids, avoided: Sequence[Ids], n: int, rng: np.random.Generator) -> Ids:
        """Sample distinct names for each anchor, without the spellings that it avoids; (anchors, n), padded with -1.

        One sample serves all anchors: names of ``entities``, which are distinct, in the order of exponential times. A
        rate is 1 divided by the number of names of the entity, so that all entities count equally.
        """
        names, size = self.of_entities(entities), np.diff(self.start)[entities]
        names = names[np.argsort(rng.exponential(size=len(names)) * np.repeat(size, size))]
        first = np.sort(np.unique(self.spelling[names], return_index=True)[1])
        names, drawn = names[first[: n + max(map(len, avoided), default=0)]], np.full((len(avoided), n), -1)
        for row, spellings in enumerate(avoided):
            some = names[~np.isin(self.spelling[names], spellings)][:n]
            drawn[row, : len(some)] = some
        return drawn


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Training data: queries, each with a correct entity, whose names must not be its negatives.

    A query is a name or, with ``texts``, a sentence and an entity in it. The positions of mentions are not used.
    """

    kb: KnowledgeBase
    synonyms: Synonyms
    entity: Ids  # (all queries,) the row of the correct entity
    context: Ids  # (all queries,) ascending; the entities of queries with the same context are never negatives
    name: Ids  # (all queries,) the name that a query is; -1 to sample one
    texts: tuple[str, ...] = ()  # with texts, the context of a query is its text

    @classmethod
    def of_names(cls, kb: KnowledgeBase) -> Self:
        """Take all names of a knowledge base as queries; raise DataError if no query has positives and negatives."""
        owner = (synonyms := Synonyms.of(kb)).owner
        return cls(kb, synonyms, owner, owner, np.arange(len(owner)))._checked()

    @classmethod
    def of_texts(cls, corpus: Corpus, kb: KnowledgeBase) -> Self:
        """Collect the sentences of annotated documents; gold ids without an entity in their domain are left out.

        Raise DataError if no document has an entity, or no query positives and negatives.
        """
        pieces = Pieces.of(corpus)
        text, entity = pieces.entities(kb)
        return cls(kb, Synonyms.of(kb), entity, text, np.full(len(text), -1), pieces.texts)._checked()

    def _checked(self) -> Self:
        n, problem = f"{len(self.entities):,}", ""
        every = self.synonyms.spelling[self.synonyms.of_entities(self.entities)]
        if self.texts and not len(self.entity):
            problem = f"no text (of {len(self.texts):,}) has an entity of the knowledge base; check ids and domains"
        elif not len(self.queries):
            problem = f"no entity (of {n}) has two names that differ; add aliases to the knowledge base"
        elif not any(len(np.setdiff1d(every, self.avoided(query[None])[0])) for query in self.queries):
            problem = f"names need names of other entities, and there are none (of {n}); add documents or entities"
        if problem:
            raise DataError(f"nothing to train on: {problem}")
        return self

    @property
    def queries(self) -> Ids:
        """The queries to train on: those whose entity has synonyms."""
        return np.flatnonzero(np.diff(self.synonyms.start)[self.entity] > 1)

    @cached_property
    def entities(self) -> Ids:
        """The distinct entities of all queries, whose names are negatives."""
        return np.unique(self.entity)

    def sampled(self, queries: Ids, config: ContrastiveConfig, step: int) -> Ids:
        """Sample names to compare; ``step`` and the seed of ``config`` determine them.

        The shape is (queries, 2 + positives + negatives): the query, a name of its entity (its own if it is one), its
        positives and its negatives, padded with -1.
        """
        rng, other_rng = (np.random.default_rng([config.seed, what, step]) for what in (_POSITIVES, _NEGATIVES))
        names = self.synonyms.draw(self.entity[queries], self.name[queries], config.n_positives + 1, rng)
        others = self.synonyms.draw_others(self.entities, self.avoided(queries), config.n_negatives, other_rng)
        return np.column_stack([queries, names, others])

    def avoided(self, queries: Ids) -> list[Ids]:
        """List, for each query, the spellings that must not be its negatives."""
        begin, end = (np.searchsorted(self.context, self.context[queries], side) for side in ("left", "right"))
        rows = (
            self.synonyms.of_entities(np.unique(self.entity[slice(*ends)])) for ends in zip(begin, end, strict=True)
        )
        return [self.synonyms.spelling[names] for names in rows]


@dataclass(eq=False)
class ContrastiveTrainer(Trainer[Model, Ids]):
    """Base class of trainers for models that encode names."""

    data: Contrasts
    config: ContrastiveConfig

    def names(self, encoder: DualEncoder) -> Callable[[Ids], Tensor]:
        """Collect all names, and return the function that encodes names, (...), as (..., dim); each one once.

        For -1, no name, the vector is that of the first name.
        """
        texts, place = encoder.entity_texts(self.data.kb), self.data.synonyms.place

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
        """Return the loss of each query of a batch (`Contrasts.sampled`); (queries,).

        ``vectors`` has the shape (queries, 1 + positives + negatives, dim): the anchor, positives and negatives.
        """
        vectors = comparable(vectors.float(), "cosine")
        scores = torch.einsum("qd,qkd->qk", vectors[:, 0], vectors[:, 1:])
        exists = torch.from_numpy(batch[:, 2:] >= 0).to(scores.device)
        return nt_xent(scores / self.config.temperature, exists, self.config.n_positives)


@dataclass(eq=False)
class SelfAlignmentTrainer(ContrastiveTrainer[DualEncoder]):
    """Trains an encoder by self-alignment, with two further layers, for `train_self_alignment`."""

    config: SelfAlignmentConfig

    def __post_init__(self) -> None:
        dim = self.model.entity_tower.dim
        with torch.random.fork_rng():
            torch.manual_seed(self.config.seed)
            layers = torch.nn.Linear(dim, dim), torch.nn.ReLU(), torch.nn.Linear(dim, self.config.projection)
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

    See `arbo.train` for further arguments and errors.

    Raises:
        DataError: no entity has two names, or all names are of one entity.
        UsageError: the encoder has two towers, or the entity view ``whole``.
    """
    check_start(out, kb)
    config = config or SelfAlignmentConfig()
    if not encoder.shared:
        raise UsageError("the encoder has a separate tower for mentions; start from an encoder with one tower for both")
    if encoder.config.entity_view != "names":
        raise UsageError("self-alignment needs one vector per name; choose entity_view 'names'")
    data = Contrasts.of_names(kb)
    start = replace(encoder, config=replace(encoder.config, entity_threshold=None, mention_threshold=None), cache=None)
    with training(out, job_of({}, kb, config, encoder=encoder.settings), config, options) as workplace:
        SelfAlignmentTrainer(start, data, None, config, workplace).run()
    return DualEncoder.from_pretrained(workplace.target)


@dataclass(eq=False)
class OslatTrainer(ContrastiveTrainer[LabelAttention]):
    """Trains label attention and its linking head, for `train_oslat`."""

    config: OslatTraining

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names, and return the function that reads those of a batch, with gradients.

        It computes the vector that the text of each query has for each name (`entity_in_text`), and as its last
        component the score (`name_scores`); (queries, names, dim + 1). No gradient flows from scores to vectors.
        """
        model, data, vectors_of = self.model, self.data, self.names(self.model.name_encoder)
        rows = [row for row, _ in model.token_rows(data.texts)]

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
        part, config = batch[rows], self.config
        read = self.prepared(part)
        owner = torch.from_numpy(np.where(part[:, 1:] >= 0, self.data.synonyms.owner[part[:, 1:]], -1)).to(read.device)
        same = owner[:, :, None] == owner[:, None, :]
        best = torch.where(same, read[..., -1][:, None, :], -torch.inf).amax(dim=2)
        weight = (owner >= 0) / same.sum(dim=2)  # each entity counts once
        focal = focal_loss(_SCALE * (best - EVEN), owner == owner[:, :1], config.alpha, config.gamma)
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
    trained. Documents are read by the sentence; the positions of mentions are not used. Entities with only one name are
    left out. The minimum score of an entity is that of even odds in training.

    Raise DataError also if no entity in the documents has two names, or if every text has all entities of the
    documents.
    """
    check_start(out, kb)
    config, corpus = config or OslatTraining(), Corpus.of(documents)
    data = Contrasts.of_texts(corpus, kb)
    start = replace(model, learnt=learnt_from(corpus.tables, model.learnt)).with_threshold(EVEN)
    job = job_of({"documents": corpus}, kb, config, model=model.settings)
    with training(out, job, config, options) as workplace:
        OslatTrainer(start, data, None, config, workplace).run()
    return LabelAttention.from_pretrained(workplace.target)

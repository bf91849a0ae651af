"""The trainings of OSLAT: of names, and of label attention with its linking head.

Both contrast names with some of their synonyms, and with names of other entities, see `arbo.training.contrasts`.

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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arbo.data import KnowledgeBase
from arbo.data.learnt import learnt_from
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.encoder_config import Pooling
from arbo.encoders.model_folder import TowerModel
from arbo.encoders.pretrained import linear_of
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Ids
from arbo.errors import UsageError
from arbo.spans.model import LabelAttention, entity_in_text, label_attention, name_scores
from arbo.spans.model_finder import ModelFinder
from arbo.training.config import ContrastiveConfig, OslatTraining, RunOptions, SelfAlignmentConfig
from arbo.training.contrasts import Contrasts, Synonyms
from arbo.training.data import PURPOSES, corpora_of, job_of
from arbo.training.frame import check_start, training
from arbo.training.loop import Trainer
from arbo.training.losses import comparable, focal_loss, nt_xent

Model = TypeVar("Model", bound=TowerModel)

EVEN, _SCALE = 0.5, 10.0  # in training the logit of a score, a cosine, is ``_SCALE * (score - EVEN)``


def contrastive_losses(vectors: Tensor, batch: Ids, config: ContrastiveConfig) -> Tensor:
    """Return the loss of each query of a batch (`Contrasts.sampled`); (queries,).

    ``vectors`` has the shape (queries, 1 + positives + negatives, dim): the anchor, its positives and its negatives.
    """
    vectors = comparable(vectors.float(), "cosine")
    scores = torch.einsum("qd,qkd->qk", vectors[:, 0], vectors[:, 1:])
    exists = torch.from_numpy(batch[:, 2:] >= 0).to(scores.device)
    return nt_xent(scores / config.temperature, exists, config.n_positives)


def read_names(tower: Tower, texts: Texts, synonyms: Synonyms, name: Ids, pooling: Pooling) -> Tensor:
    """Return the vectors of names of ``synonyms``, (..., dim); a name that occurs several times is encoded once.

    ``name`` (...) has the indices of names; for -1, no name, the vector is that of the first name.
    """
    distinct, row = np.unique(texts.row[synonyms.place[np.maximum(name, 0)]], return_inverse=True)
    vectors = tower.encode_apart(texts.spell(distinct), pooling)
    return vectors[torch.from_numpy(row.reshape(name.shape)).to(vectors.device)]


@dataclass(eq=False)
class ContrastiveTrainer(Trainer[Model, Ids]):
    """Base class of trainers for models that encode names."""

    data: Contrasts
    config: ContrastiveConfig

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Sample the positives and negatives of a batch, and take some of its queries."""
        return self.data.sampled(mentions, self.config, step)[rows]

    def loss_of(self, step: int, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some queries; each part of a batch encodes the negatives again."""
        return contrastive_losses(self.prepared(batch[rows]), batch[rows], self.config).sum()


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

    @property
    def chosen(self) -> Mapping[str, Any]:
        """The weights of the two layers."""
        return {name: value.cpu().numpy() for name, value in self.head.state_dict().items()}

    def resume(self, chosen: Mapping[str, Any]) -> None:
        """Restore the two layers."""
        self.head.load_state_dict({name: torch.from_numpy(value) for name, value in chosen.items()})

    def reading(self) -> Callable[..., Tensor]:
        """Collect the names, and return the function that computes the vectors that the loss compares."""
        tower, pooling = self.model.entity_tower, self.model.config.pooling
        texts, synonyms = self.model.entity_texts(self.data.kb), self.data.synonyms

        def read(batch: Ids) -> Tensor:
            vectors: Tensor = self.head(read_names(tower, texts, synonyms, batch[:, 1:], pooling))
            return vectors

        return read


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


def _tokens(tower: Tower, rows: list[TokenRow]) -> tuple[Tensor, Tensor]:
    """Encode the tokens of texts, (texts, tokens, dim), and return which of them exist."""
    vectors: dict[int, Tensor] = {}
    for batch in tower.batches(rows):
        encoded = tower.encode([rows[i] for i in batch], None)
        vectors |= {i: text[rows[i].begin : rows[i].end] for i, text in zip(batch, encoded, strict=True)}
    tokens = pad_sequence([vectors[i] for i in range(len(rows))], True)
    length = torch.tensor([row.end - row.begin for row in rows], device=tokens.device)
    return tokens, torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]


@dataclass(eq=False)
class OslatTrainer(ContrastiveTrainer[LabelAttention]):
    """Trains label attention and its linking head, for `train_oslat`."""

    config: OslatTraining

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names, and return the function that reads those of a batch, with gradients.

        It computes the vector that the text of each query has for each name (`entity_in_text`), and as its last
        component the score (`name_scores`); (queries, names, dim + 1). No gradient flows from scores to vectors.
        """
        model, data = self.model, self.data
        tower, names = model.transformer, model.names(data.kb)
        rows = [row for row, _ in model.token_rows(data.texts)]

        def read(batch: Ids) -> Tensor:
            text, place = np.unique(data.context[batch[:, 0]], return_inverse=True)
            tokens, mask = _tokens(tower, [rows[i] for i in text])
            row = torch.from_numpy(place).to(tokens.device)
            vectors = read_names(tower, names, data.synonyms, batch[:, 1:], model.config.pooling)
            said = entity_in_text(label_attention(vectors, tokens[row], mask[row]), tokens[row])
            score = name_scores(model.head, said.detach(), vectors.detach())
            return torch.cat([said, score[..., None]], dim=-1)

        return read

    def loss_of(self, step: int, batch: Ids, rows: slice) -> Tensor:
        """Sum the losses of some queries, that of label attention and that of the head."""
        part = batch[rows]
        read = self.prepared(part)
        owner = torch.from_numpy(np.where(part[:, 1:] >= 0, self.data.synonyms.owner[part[:, 1:]], -1)).to(read.device)
        losses = contrastive_losses(read[..., :-1], part, self.config)
        return (losses + head_losses(read[..., -1], owner, self.config)).sum()


def head_losses(scores: Tensor, owner: Tensor, config: OslatTraining) -> Tensor:
    """Return the mean focal loss over the entities that are compared with each query's text; (queries,).

    The score of an entity is the highest score of its names in the batch; only the entity of the query is in the text.
    ``scores`` and ``owner``, the entity of each name or -1, have the shape (queries, names).
    """
    same = owner[:, :, None] == owner[:, None, :]
    best = torch.where(same, scores[:, None, :], -torch.inf).amax(dim=2)
    weight = (owner >= 0) / same.sum(dim=2)  # each entity counts once
    losses = focal_loss(_SCALE * (best - EVEN), owner == owner[:, :1], config.alpha, config.gamma)
    return (losses * weight).sum(dim=1) / weight.sum(dim=1)


def train_oslat(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    expand_abbreviations: bool = True,
    config: OslatTraining | None = None,
    options: RunOptions | None = None,
) -> LabelAttention:
    """Train label attention and its linking head, and write the model to a folder.

    See `arbo.train` for further arguments and errors. The best start is a transformer that `train_self_alignment` has
    trained; a linking head of ``model`` is replaced. Documents are read by the sentence; the positions of mentions are
    not used. Entities with only one name are left out.

    ``dev`` sets the minimum score of an entity for a finder (`ModelFinder`), which looks for candidates by the long
    forms of abbreviations unless ``expand_abbreviations`` is false. Without ``dev``, it is that of even odds in
    training.

    Raise DataError also if no entity in the documents has two names, or if every text has all entities of the
    documents.
    """
    check_start(out, kb)
    config, corpora = config or OslatTraining(), corpora_of(documents, dev)
    data = {name: Contrasts.of_texts(corpus, kb, purpose=PURPOSES[name]) for name, corpus in corpora.items()}
    model = replace(model, learnt=learnt_from(corpora["documents"], model.learnt))
    job = job_of(corpora, kb, config, model=model.settings, expand_abbreviations=expand_abbreviations)

    def finish(model: LabelAttention) -> LabelAttention:
        finder = ModelFinder(model, abbreviations=expand_abbreviations)
        return model if dev is None else finder.tuned(corpora["dev"], kb, announce=workplace.options.announce).model

    with training(out, job, config, options) as workplace:
        dim = model.transformer.dim
        head = linear_of({"weight": torch.eye(dim)}, dim)  # changes no score
        start = model.with_head(head.to(model.tower.model.device)).with_threshold(EVEN)
        OslatTrainer(start, data["documents"], None, config, workplace).run(finish)
    return LabelAttention.from_pretrained(workplace.target)

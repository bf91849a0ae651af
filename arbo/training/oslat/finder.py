"""Training of label attention and its linking head: where a text mentions an entity, and whether it does (OSLAT).

*Label attention* (section 3.2): all names of an entity should attend to the same place of a text. The queries on a text
are a name of an entity in it, some of its synonyms, and names of other entities. The text's vector for the first name
(`arbo.spans.model`) is drawn towards its vectors for the synonyms, and away from its vectors for the other
names. So a name learns to attend to its mentions, although only the entities of a text are given, and not their
positions.

The *linking head* (section 3.3) learns from the same queries to score the entity of the text above the others, by the
focal loss; the score of an entity is the highest score of its names. Its gradient stops at the transformer, as
attention would otherwise no longer find spans. The paper trains the head afterwards; here both are one training.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arbo.data import KnowledgeBase
from arbo.encoders.dual import Texts
from arbo.encoders.templates import TokenRow
from arbo.spans.model import LabelAttention, entity_in_text, label_attention, name_scores
from arbo.spans.model_finder import ModelFinder
from arbo.training.config import OslatTraining, RunOptions
from arbo.training.data import PURPOSES, corpora_of, job_of
from arbo.training.frame import check_start, training
from arbo.training.losses import focal_loss
from arbo.training.oslat.contrastive import (
    Contrast,
    ContrastiveTrainer,
    check_contrasts,
    contrast,
    contrastive_losses,
    read_names,
)
from arbo.training.oslat.synonyms import Contrasts, Others

EVEN, _SCALE = 0.5, 10.0  # in training the logit of a score, a cosine, is ``_SCALE * (score - EVEN)``


@dataclass(frozen=True, eq=False, slots=True)
class AttentiveReader:
    """Computes the vectors of texts for names (`entity_in_text`) and their scores (`name_scores`), with gradients."""

    model: LabelAttention
    data: Contrasts
    names: Texts
    rows: list[TokenRow]  # (texts,)

    @classmethod
    def of(cls, model: LabelAttention, data: Contrasts) -> Self:
        """Collect texts and names."""
        return cls(model, data, model.names(data.kb), [row for row, _ in model.token_rows(data.texts)])

    def read(self, batch: Contrast) -> Tensor:
        """Compute the vector that the text of each query has for each name, and as its last component the score.

        The shape is (queries, names, dim + 1). No gradient flows from scores to vectors.
        """
        tower, pooling = self.model.transformer, self.model.config.pooling
        text, place = np.unique(self.data.context[batch.query], return_inverse=True)
        tokens, mask = self._tokens([self.rows[i] for i in text])
        row = torch.from_numpy(place).to(tokens.device)
        names = read_names(tower, self.names, self.data.synonyms, batch.name, pooling)
        said = entity_in_text(label_attention(names, tokens[row], mask[row]), tokens[row])
        score = name_scores(self.model.head, said.detach(), names.detach())
        return torch.cat([said, score[..., None]], dim=-1)

    def _tokens(self, rows: list[TokenRow]) -> tuple[Tensor, Tensor]:
        """Encode the tokens of texts, (texts, tokens, dim), and return which of them exist."""
        vectors = self.model.transformer.encode_apart(rows, "tokens")
        length = torch.tensor([row.end - row.begin for row in rows], device=vectors.device)
        tokens = pad_sequence([text[row.begin : row.end] for text, row in zip(vectors, rows, strict=True)], True)
        return tokens, torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]


@dataclass(eq=False)
class OslatTrainer(ContrastiveTrainer[LabelAttention]):
    """Trains label attention and its linking head, for `train_oslat`."""

    data: Contrasts
    dev: Contrasts | None
    config: OslatTraining
    best = "likelihood"

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names, and return the function that reads them."""
        return AttentiveReader.of(self.model, self.data).read

    def loss_of(self, step: int, batch: Contrast, rows: slice) -> Tensor:
        """Sum the losses of some queries, that of label attention and that of the head."""
        part = batch.part(rows)
        read = self.prepared(part)
        attention = contrastive_losses(read[..., :-1], part, self.config)
        return (attention + head_losses(read[..., -1], part, self.owner_of(part), self.config)).sum()

    def owner_of(self, batch: Contrast) -> Tensor:
        """Return the entity of each name of a batch; (queries, names), -1 for none."""
        owner = np.where(batch.name >= 0, self.data.synonyms.owner[batch.name], -1)
        return torch.from_numpy(owner).to(self.accelerator.device)

    def development_scores(self) -> dict[str, float]:
        """Return the mean loss of label attention, and the likelihood of a synonym among negatives.

        Negatives are names of the entities of these texts, the same each time. The likelihood is a geometric mean.
        """
        assert self.dev is not None
        data, config, module, losses = self.dev, self.config, self.model.module, []
        reader, others = AttentiveReader.of(self.model, data), Others.of(data.synonyms, data.entities)
        queries = data.queries
        module.eval()
        with torch.inference_mode():
            for begin in range(0, len(queries), config.micro_batch):
                batch = contrast(data, others, queries[begin : begin + config.micro_batch], config, begin)
                losses.append(contrastive_losses(reader.read(batch)[..., :-1], batch, config).cpu())
        module.train()
        loss = float(torch.cat(losses).double().mean())
        return {"dev_loss": loss, "likelihood": math.exp(-loss)}


def head_losses(scores: Tensor, batch: Contrast, owner: Tensor, config: OslatTraining) -> Tensor:
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

    ``dev`` selects the model with the highest likelihood of synonyms among negatives, and sets the minimum score of an
    entity for a finder (`ModelFinder`), which looks for candidates by the long forms of abbreviations unless
    ``expand_abbreviations`` is false. Without ``dev``, the minimum score is that of even odds in training.

    Raise DataError also if no entity in the documents has two names, or if every text has all entities of the
    documents.
    """
    check_start(out, kb)
    config, corpora, data = config or OslatTraining(), corpora_of(documents, dev), {}
    for name, corpus in corpora.items():
        data[name] = Contrasts.of_texts(corpus, kb, purpose=PURPOSES[name])
        check_contrasts(data[name], PURPOSES[name])
    job = job_of(corpora, kb, config=config, model=model.settings, expand_abbreviations=expand_abbreviations)
    with training(out, job, config, options) as workplace:
        start = model.with_head(_identity(model)).with_threshold(EVEN)
        trainer = OslatTrainer(start, data["documents"], data.get("dev"), config, workplace)
        trainer.run()
        if workplace.is_first:
            finder = ModelFinder(trainer.final, abbreviations=expand_abbreviations)
            if dev is not None:
                finder = finder.tuned(corpora["dev"], kb, announce=workplace.options.announce)
            finder.model.save_pretrained(workplace.target)
    return LabelAttention.from_pretrained(workplace.target)


def _identity(model: LabelAttention) -> torch.nn.Linear:
    """Return a linking head that changes no score."""
    dim = model.transformer.dim
    linear = torch.nn.Linear(dim, dim, bias=False)
    torch.nn.init.eye_(linear.weight)
    return linear.to(model.tower.model.device)

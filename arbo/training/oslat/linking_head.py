"""Training of the linking head, which decides whether an entity is in a text (OSLAT, section 3.3).

The transformer is frozen, as its attention would otherwise no longer find spans, so texts and names are encoded only
once. Each step samples new negatives from the names of all entities of the knowledge base except those in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arbo.data import Corpus, KnowledgeBase
from arbo.encoders.pretrained import PROJECTION, load_linear
from arbo.engine import Bools, Floats, Ids, threshold_curve
from arbo.progress import Announce, quiet
from arbo.spans.finding import PairFinder
from arbo.spans.label_attention import entity_in_text, label_attention, name_scores
from arbo.spans.model import LabelAttention
from arbo.text.sentences import Splitter, whole
from arbo.training.config import HeadKind, LinkingHeadConfig, RunOptions
from arbo.training.data import corpora_of, job_of
from arbo.training.frame import Workplace, check_start, training
from arbo.training.loop import Trainer
from arbo.training.losses import focal_loss
from arbo.training.oslat.contrastive import NEGATIVES, annotated_texts
from arbo.training.oslat.synonyms import AnnotatedTexts, Others


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """Texts, and the names to look for in each text."""

    text: Ids  # (texts,)
    name: Ids  # (texts, names) -1 for none
    owner: Ids  # (texts, names) the entity of each name, -1 for none
    is_there: Bools  # (texts, names) whether the name belongs to an entity in the text

    def __len__(self) -> int:
        return len(self.text)

    def part(self, rows: slice | Ids) -> Asked:
        """Take some of the texts."""
        return Asked(self.text[rows], self.name[rows], self.owner[rows], self.is_there[rows])


@dataclass(frozen=True, eq=False, slots=True)
class Encoded:
    """Vectors of texts and names from a frozen model."""

    data: AnnotatedTexts
    scaled: bool
    tokens: list[Tensor]  # (tokens, dim) for each text
    names: Tensor  # (names, dim) in the order of `Synonyms`
    others: Others

    @classmethod
    def of(cls, model: LabelAttention, data: AnnotatedTexts, announce: Announce = quiet) -> Self:
        """Encode all texts and names once, in evaluation mode."""
        tokens = [own for own, _ in model.token_vectors(data.texts, announce)]
        names = model.name_vectors(data.kb, announce)[0][torch.from_numpy(data.synonyms.place)]
        others = Others.of(data.synonyms, np.arange(len(data.kb)))
        return cls(data, model.config.scaled, tokens, names, others)

    @property
    def queries(self) -> Ids:
        """The texts that have an entity."""
        return np.unique(self.data.text)

    def asked(self, texts: Ids, n: int, rng: np.random.Generator) -> Asked:
        """Choose the names to look for in each text: all names of its entities, and ``n`` sampled names of others."""
        synonyms, data = self.data.synonyms, self.data
        own = [synonyms.of_entities(data.entity[data.start[text] : data.start[text + 1]]) for text in texts]
        others = self.others.draw([synonyms.spelling[names] for names in own], n, rng)
        width = max(map(len, own), default=0)
        there = np.full((len(own), width), -1)
        for row, names in zip(there, own, strict=True):
            row[: len(names)] = names
        names = np.hstack([there, others])
        owner = np.where(names >= 0, synonyms.owner[names], -1)
        return Asked(texts, names, owner, (names >= 0) & (np.arange(names.shape[1]) < width))

    def read(self, text: Ids, name: Ids) -> tuple[Tensor, Tensor]:
        """Return the text's vector for each name, and the vector of the name; (texts, names, dim) both."""
        tokens = pad_sequence([self.tokens[i] for i in text], batch_first=True)
        length = torch.tensor([len(self.tokens[i]) for i in text], device=tokens.device)
        mask = torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]
        names = self.names[torch.from_numpy(np.maximum(name, 0))]
        return entity_in_text(label_attention(names, tokens, mask, scaled=self.scaled), tokens), names


_EVEN, _SCALE = 0.5, 10.0  # in training the logit of a cosine is ``_SCALE * (cosine - _EVEN)``


@dataclass(frozen=True, eq=False, slots=True)
class LinkingHead:
    """The linear layer alone, as the loop trains it; see `name_scores`."""

    linear: torch.nn.Linear
    config: None = None

    @classmethod
    def of(cls, dim: int, kind: HeadKind, device: torch.device) -> Self:
        """Make an untrained head: the identity (``comparison``), or even odds for all texts (``linear``)."""
        if kind == "linear":
            linear = torch.nn.Linear(dim, 1)
            torch.nn.init.zeros_(linear.weight)
            torch.nn.init.zeros_(linear.bias)
        else:
            linear = torch.nn.Linear(dim, dim, bias=False)
            torch.nn.init.eye_(linear.weight)
        return cls(linear.to(device))

    @classmethod
    def from_pretrained(cls, model: Path, config: None, /) -> Self:
        """Load what `save_pretrained` wrote."""
        return cls(load_linear(model / PROJECTION))

    def save_pretrained(self, folder: Path, /) -> None:
        """Write the weights."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.linear.state_dict(), folder / PROJECTION)

    def copy(self) -> Self:
        """Return a copy with its own weights."""
        return replace(self, linear=deepcopy(self.linear))

    @property
    def module(self) -> torch.nn.Linear:
        """The module with weights."""
        return self.linear


class Decisions(NamedTuple):
    """Scores of entities in texts, and whether the entities are there."""

    score: Floats  # (asked,)
    is_there: Bools  # (asked,)


@dataclass(eq=False)
class LinkingHeadTrainer(Trainer[LinkingHead, Asked]):
    """Trains a linking head, for `train_linking_head`."""

    data: Encoded
    dev: Encoded | None
    config: LinkingHeadConfig
    best = "f1"  # that of deciding whether an entity is in a text

    def reading(self) -> Callable[..., Tensor]:
        """Return the function that scores names; (texts, names)."""
        linear = self.model.linear

        def read(asked: Asked) -> Tensor:
            return _scores(linear, self.data, asked.text, asked.name)

        return read

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Asked:
        """Sample the names for the texts of a batch, and take some of the texts."""
        rng = np.random.default_rng([self.config.seed, NEGATIVES, step])
        return self.data.asked(mentions, self.config.n_negatives, rng).part(rows)

    def loss_of(self, step: int, batch: Asked, rows: slice) -> Tensor:
        """Sum the losses of some texts.

        The loss of a text is the mean over its entities and the sampled entities. The score of an entity is the
        highest score of its names: of all its names if it is in the text, otherwise of its sampled names. For a
        ``linear`` head, the loss is the mean over names.
        """
        part = batch.part(rows)
        logits = self.prepared(part)
        owners, is_there = (torch.from_numpy(array).to(logits.device) for array in (part.owner, part.is_there))
        weight = (owners >= 0).float()
        if self.config.kind == "comparison":
            logits, share = best_names(_SCALE * (logits - _EVEN), owners)
            weight = weight * share
        losses = focal_loss(logits, is_there, self.config.alpha, self.config.gamma) * weight
        return (losses.sum(dim=1) / weight.sum(dim=1)).sum()

    def development_scores(self) -> dict[str, float]:
        """Score the development texts, with the best threshold for them."""
        assert self.dev is not None
        found = decisions(self.model.linear, self.dev, self.config)
        return {"f1": threshold_curve(found.is_there, found.score).best.f1}


def decisions(head: torch.nn.Linear, data: Encoded, config: LinkingHeadConfig) -> Decisions:
    """Score, for each text, its entities and about ``n_negatives`` others, which are the same in each call.

    The score of an entity is the score of its best name.
    """
    rng, synonyms = np.random.default_rng([config.seed, NEGATIVES]), data.data.synonyms
    score: list[Floats] = []
    is_there: list[Bools] = []
    for text in data.queries[:, None]:
        drawn = data.asked(text, config.n_negatives, rng)
        entity = np.unique(drawn.owner[drawn.owner >= 0])
        names = synonyms.of_entities(entity)
        with torch.inference_mode():
            found = _scores(head, data, text, names[None])[0]
        first = np.searchsorted(synonyms.owner[names], entity)
        score.append(np.maximum.reduceat(found.cpu().numpy(), first))
        is_there.append(np.isin(entity, drawn.owner[drawn.is_there]))
    return Decisions(np.concatenate(score), np.concatenate(is_there))


def train_linking_head(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    config: LinkingHeadConfig | None = None,
    options: RunOptions | None = None,
) -> LabelAttention:
    """Train only the linking head of a label-attention model, and write the model with its head to a folder.

    See `arbo.train` for further arguments and errors. Training starts from a new head, even if the model has one.
    Documents without an entity are left out, as they may be unannotated. ``dev`` selects the head that best tells the
    entities of a text from others (by F1), and sets the minimum score of an entity, see `PairFinder.tuned`. Without
    ``dev``, the minimum score is that of even odds in training.
    """
    check_start(out, kb)
    config, corpora = config or LinkingHeadConfig(), corpora_of(documents, dev)
    data = annotated_texts(corpora, kb)
    with training(out, job_of(corpora, kb, config=config, model=model.settings), config, options) as workplace:
        trained = fit_head(model, data, config, workplace)
        if workplace.is_first:
            if dev is not None:
                announce = workplace.options.announce
                trained = with_tuned_threshold(trained, corpora["dev"], kb, split=whole, announce=announce)
            trained.save_pretrained(workplace.target)
    return LabelAttention.from_pretrained(workplace.target)


def with_tuned_threshold(
    model: LabelAttention,
    dev: Corpus,
    kb: KnowledgeBase,
    *,
    split: Splitter,
    expand_abbreviations: bool = True,
    announce: Announce = quiet,
) -> LabelAttention:
    """Return the model with the best minimum score for a finder on development documents; see `PairFinder.tuned`."""
    finder = PairFinder(model, model.threshold, split=split, abbreviations=expand_abbreviations)
    return model.with_threshold(finder.tuned(dev, kb, announce=announce).threshold)


def fit_head(
    model: LabelAttention, data: Mapping[str, AnnotatedTexts], config: LinkingHeadConfig, workplace: Workplace
) -> LabelAttention:
    """Train a linking head in the training folder, and return the model with it, with the threshold of even odds."""
    encoded = {name: Encoded.of(model, texts, workplace.options.announce) for name, texts in data.items()}
    device = model.tower.model.device
    head = LinkingHead.of(model.transformer.dim, config.kind, device)
    trainer = LinkingHeadTrainer(head, encoded["documents"], encoded.get("dev"), config, workplace)
    trainer.run()
    even = 0.0 if config.kind == "linear" else _EVEN
    return model.with_head(trainer.kept.copy().linear.to(device)).with_threshold(even)


def best_names(scores: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each name, the best score of all names of its entity (owner), and 1 / the number of these names.

    The arguments and both results have the shape (texts, names).
    """
    same = owners[:, :, None] == owners[:, None, :]
    return torch.where(same, scores[:, None, :], -torch.inf).amax(dim=2), 1 / same.sum(dim=2)


def _scores(head: torch.nn.Linear, data: Encoded, text: Ids, name: Ids) -> Tensor:
    said, names = (vectors.to(head.weight.device) for vectors in data.read(text, name))
    return name_scores(head, said, names)

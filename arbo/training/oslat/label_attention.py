"""Training of label attention: what a text says of an entity is the same by whichever of its names one asks.

OSLAT, section 3.2. A text is asked by a name of an entity in it, by some of its synonyms, and by names of other
entities; what it says of the first (`arbo.spans.label_attention`) is drawn towards what it says of the synonyms, and
away from what it says of the others. So a name comes to look where the text speaks of it, though nobody says where:
the entities of a text are all that is read of its annotation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.texts import Texts
from arbo.engine import Metric
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.label_attention import entity_in_text, label_attention
from arbo.spans.model import LabelAttention
from arbo.spans.windows import TextTokens
from arbo.training.config import LabelAttentionTraining
from arbo.training.data import corpora_of, job_of
from arbo.training.frame import check_out, training
from arbo.training.options import RunOptions
from arbo.training.oslat.annotated_texts import AnnotatedTexts, annotated_texts
from arbo.training.oslat.contrastive import Contrast, ContrastiveTrainer, contrast, contrastive_losses, read_names
from arbo.training.oslat.synonyms import Others


@dataclass(frozen=True, eq=False, slots=True)
class AttentiveReader:
    """Turns pairs of a text and an entity into what the text says of names, with gradients."""

    model: LabelAttention
    data: AnnotatedTexts
    names: Texts
    tokens: list[TextTokens]
    """(texts,)"""

    @classmethod
    def of(cls, model: LabelAttention, data: AnnotatedTexts) -> AttentiveReader:
        """Collect texts and names."""
        return cls(model, data, model.names(data.kb), model.reader(data.texts))

    def read(self, batch: Contrast) -> Tensor:
        """Ask the text of each pair by the names that it is compared by; (pairs, names, dim)."""
        tower, config = self.model.transformer, self.model.config
        text, place = np.unique(self.data.text[batch.query], return_inverse=True)
        tokens, mask = self._tokens([self.tokens[i] for i in text])
        row = torch.from_numpy(place).to(tokens.device)
        names = read_names(tower, self.names, self.data.synonyms, batch.name, config.pooling)
        weights = label_attention(names, tokens[row], mask[row], scaled=config.scaled)
        return entity_in_text(weights, tokens[row])

    def _tokens(self, texts: list[TextTokens]) -> tuple[Tensor, Tensor]:
        """Make the vectors of the tokens of texts, (texts, tokens, dim), and say which there are."""
        rows = list(chain.from_iterable(text.rows for text in texts))
        vectors = self.model.transformer.encode_apart(rows, "tokens")
        first = np.cumsum([0, *(len(text.rows) for text in texts)]).tolist()
        width = [vectors.shape[1]] * len(rows)
        place = np.full((len(texts), max(1, *(len(text.place) for text in texts))), -1)
        for own, text, window in zip(place, texts, first[:-1], strict=True):
            own[: len(text.place)] = text.flat(width, window)
        at = torch.from_numpy(place).to(vectors.device)
        flat = vectors.flatten(0, 1) if rows else vectors.new_zeros(1, vectors.shape[2])
        return flat[at.clamp(min=0)], at >= 0


@dataclass(eq=False)
class LabelAttentionTrainer(ContrastiveTrainer[LabelAttention]):
    """A training of label attention under way: `train_label_attention` makes one and runs it."""

    data: AnnotatedTexts
    dev: AnnotatedTexts | None
    config: LabelAttentionTraining

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names."""
        return AttentiveReader.of(self.model, self.data).read

    @property
    def metric(self) -> Metric:
        """As the configuration says."""
        return metric_of(self.config)

    @property
    def best(self) -> str:
        """How likely synonyms are among negatives."""
        return "likelihood"

    def development_scores(self) -> dict[str, float]:
        """Contrast the names of the entities in the development texts, the same way each time."""
        assert self.dev is not None
        loss = development_loss(self.model, self.dev, self.config)
        return {"dev_loss": loss, "likelihood": math.exp(-loss)}


def metric_of(config: LabelAttentionTraining) -> Metric:
    """Say how vectors are compared."""
    return "cosine" if config.normalized else "dot"


def development_loss(model: LabelAttention, data: AnnotatedTexts, config: LabelAttentionTraining) -> float:
    """Return the mean loss over pairs of texts and entities, in evaluation mode.

    It asks for no span, as the training does not. Its ``exp(-loss)`` is the likelihood of a synonym among negatives
    (geometric mean). Negatives are names of the entities of these texts.
    """
    reader, others, losses = AttentiveReader.of(model, data), Others.of(data.synonyms, data.entities), []
    training, queries = model.module.training, data.queries
    model.module.eval()
    with torch.inference_mode():
        for begin in range(0, len(queries), config.micro_batch):
            batch = contrast(data, others, queries[begin : begin + config.micro_batch], config, begin)
            losses.append(contrastive_losses(reader.read(batch), batch, config, metric_of(config)).cpu())
    model.module.train(training)
    return float(torch.cat(losses).double().mean())


def train_label_attention(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    config: LabelAttentionTraining | None = None,
    options: RunOptions | None = None,
) -> LabelAttention:
    """Train a transformer to attend to the mentions of entities in texts, and write it to a folder, without a head.

    See `arbo.train` for arguments and errors. Each document is one text; the positions of mentions are not used.
    Entities with only one name are left out. ``dev`` selects the model with the highest likelihood of synonyms, see
    `development_loss`.

    Raises:
        DataError: also if no entity in the documents has synonyms, or if they contain only one entity.

    """
    check_out(out)
    config, corpora = config or LabelAttentionTraining(), corpora_of(documents, dev)
    data = annotated_texts(corpora, kb, contrastable=True)
    with training(out, job_of(corpora, kb, config=config, model=model.settings), config, options) as workplace:
        start = model.with_head(None).with_threshold(LabelAttentionConfig().entity_threshold)
        trainer = LabelAttentionTrainer(start, data["documents"], data.get("dev"), config, workplace)
        trainer.run()
        if workplace.is_first:
            trainer.kept.save_pretrained(workplace.target)
    return LabelAttention.from_pretrained(workplace.target)

"""Training of label attention: all names of an entity should attend to the same place of a text.

OSLAT, section 3.2. The queries on a text are a name of an entity in it, some of its synonyms, and names of other
entities. The text's vector for the first name (`arbo.spans.label_attention`) is drawn towards its vectors for the
synonyms, and away from its vectors for the other names. So a name learns to attend to its mentions, although only the
entities of a text are given, and not their positions.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data import KnowledgeBase
from arbo.encoders.dual import Texts
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.label_attention import entity_in_text, label_attention
from arbo.spans.model import LabelAttention
from arbo.spans.windows import TextTokens
from arbo.training.config import LabelAttentionTraining, RunOptions
from arbo.training.data import corpora_of, job_of
from arbo.training.frame import check_start, training
from arbo.training.oslat import contrastive
from arbo.training.oslat.contrastive import Contrast, ContrastiveTrainer
from arbo.training.oslat.synonyms import AnnotatedTexts, Others


@dataclass(frozen=True, eq=False, slots=True)
class AttentiveReader:
    """Computes the vectors of texts for names (`entity_in_text`), with gradients."""

    model: LabelAttention
    data: AnnotatedTexts
    names: Texts
    tokens: list[TextTokens]  # (texts,)

    @classmethod
    def of(cls, model: LabelAttention, data: AnnotatedTexts) -> Self:
        """Collect texts and names."""
        return cls(model, data, model.names(data.kb), model.reader(data.texts))

    def read(self, batch: Contrast) -> Tensor:
        """Compute the vector that the text of each pair has for each name to compare; (pairs, names, dim)."""
        tower, config = self.model.transformer, self.model.config
        text, place = np.unique(self.data.text[batch.query], return_inverse=True)
        tokens, mask = self._tokens([self.tokens[i] for i in text])
        row = torch.from_numpy(place).to(tokens.device)
        names = contrastive.read_names(tower, self.names, self.data.synonyms, batch.name, config.pooling)
        weights = label_attention(names, tokens[row], mask[row], scaled=config.scaled)
        return entity_in_text(weights, tokens[row])

    def _tokens(self, texts: list[TextTokens]) -> tuple[Tensor, Tensor]:
        """Encode the tokens of texts, (texts, tokens, dim), and return which of them exist."""
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
    """Trains label attention, for `train_label_attention`."""

    data: AnnotatedTexts
    dev: AnnotatedTexts | None
    config: LabelAttentionTraining
    best = "likelihood"

    def reading(self) -> Callable[..., Tensor]:
        """Collect texts and names, and return the function that computes the vectors of texts for names."""
        return AttentiveReader.of(self.model, self.data).read

    def development_scores(self) -> dict[str, float]:
        """Return the mean loss over pairs of texts and entities, and the likelihood of a synonym among negatives.

        Negatives are names of the entities of these texts, the same each time. The likelihood is a geometric mean.
        """
        assert self.dev is not None
        data, config, module, losses = self.dev, self.config, self.model.module, []
        reader, others = AttentiveReader.of(self.model, data), Others.of(data.synonyms, data.entities)
        queries = data.queries
        module.eval()
        with torch.inference_mode():
            for begin in range(0, len(queries), config.micro_batch):
                batch = contrastive.contrast(data, others, queries[begin : begin + config.micro_batch], config, begin)
                losses.append(contrastive.contrastive_losses(reader.read(batch), batch, config).cpu())
        module.train()
        loss = float(torch.cat(losses).double().mean())
        return {"dev_loss": loss, "likelihood": math.exp(-loss)}


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
    """Train a transformer to attend to the mentions of entities in texts; write it to a folder, without a linking head.

    See `arbo.train` for further arguments and errors. Each document is one text; the positions of mentions are not
    used. Entities with only one name are left out. ``dev`` selects the model with the highest likelihood of synonyms
    among negatives. Raise DataError also if no entity in the documents has two names, or if every text has all
    entities of the documents.
    """
    check_start(out, kb)
    config, corpora = config or LabelAttentionTraining(), corpora_of(documents, dev)
    data = contrastive.annotated_texts(corpora, kb, contrastable=True)
    with training(out, job_of(corpora, kb, config=config, model=model.settings), config, options) as workplace:
        start = model.with_head(None).with_threshold(LabelAttentionConfig().entity_threshold)
        trainer = LabelAttentionTrainer(start, data["documents"], data.get("dev"), config, workplace)
        trainer.run()
        if workplace.is_first:
            trainer.kept.save_pretrained(workplace.target)
    return LabelAttention.from_pretrained(workplace.target)

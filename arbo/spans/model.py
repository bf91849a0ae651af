"""OSLAT: a transformer that reads sentences and names separately, and finds the mentions of an entity by attention.

One transformer reads both. The vector of a name attends to the tokens of a sentence (`label_attention`). The
weights show where the entity is, the weighted sum is its vector in the sentence, and the similarity of that vector to
the name shows whether the sentence mentions the entity at all. The weights of an entity are the mean over its names,
and its score is the maximum over its names. The entity need not occur in the training data, and training needs no
annotated spans.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data import KnowledgeBase
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.model_folder import OneTower
from arbo.encoders.pretrained import linear_of
from arbo.encoders.templates import Speller, Template, TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Floats, Ids, pairs_of
from arbo.progress import Announce, quiet
from arbo.settings import Count, Finite, Settings
from arbo.text.words import Offsets

_NAME_LENGTH = 32  # maximum number of tokens of a name
_TEMPLATE = Template.parse("[CLS] {text} [SEP]", ("text",), focus="text")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class LabelAttentionConfig(Settings):
    """Settings of label attention; the pooling is that of the OSLAT paper."""

    format: ClassVar[str] = "arbo-label-attention"

    pooling: Literal["mean", "cls"] = "mean"
    """Vector of a name: the mean of its token vectors (section 3), or the vector of the first token (section 3.1)."""
    max_length: Count = 256
    """Maximum number of tokens of a sentence, including special tokens; longer sentences are truncated."""
    entity_threshold: Finite = 0.5
    """Minimum score of an entity in a sentence; training sets that of even odds."""


class Look(NamedTuple):
    """The attention of some entities to one text."""

    text: int  # the index of the text
    pairs: Ids  # (pairs,) indices of the pairs of this text and an entity
    score: Floats  # (pairs,) the score of each entity
    weights: Floats  # (pairs, tokens) the attention of each entity
    tokens: Offsets  # (tokens, 2) the offsets of the tokens


# Without slots: `cached_property` keeps its values in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class LabelAttention(OneTower[LabelAttentionConfig]):
    """Finds whether and where texts mention entities: OSLAT (Li et al. 2022).

    Load a model with `from_pretrained`, or make one with `of` and train it with `arbo.train_oslat`. The projection of
    the tower is the linking head (see `name_scores`), which maps nothing before training.
    """

    kind: ClassVar[str] = "label-attention"
    settings_class: ClassVar[type[Settings]] = LabelAttentionConfig

    def __post_init__(self) -> None:
        self.tower.check_length(self.config.max_length)
        _ = self._speller  # raises an error if the maximum length is too small

    @classmethod
    def of(cls, tower: Tower, config: LabelAttentionConfig | None = None) -> Self:
        """Make an untrained model from any transformer; its linking head, in place of a projection, is the identity."""
        width = tower.model.config.hidden_size
        head = linear_of({"weight": torch.eye(width)}, width).to(tower.model.device)
        return cls(Tower.of(tower.model, tower.tokenizer, head), config or LabelAttentionConfig())

    def with_threshold(self, threshold: float) -> Self:
        """Return the same model with another minimum score of an entity, ``entity_threshold``."""
        return replace(self, config=replace(self.config, entity_threshold=threshold))

    def looks(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Iterator[Look]:
        """Yield the attention of the entity in row ``entity[i]`` to ``texts[text[i]]``; ``text`` is ascending.

        Each text and each name is read once. A text without tokens has the score 0. Raise the errors of `Tower.embed`.
        """
        used, place = np.unique(entity, return_inverse=True)
        named = self.name_encoder.encode_entities(kb.of_rows(used), announce)
        names = torch.from_numpy(named.matrix[named.row]).to(self.tower.model.device)
        groups = np.split(np.arange(len(text)), np.flatnonzero(np.diff(text)) + 1) if len(text) else []
        for pairs in announce("reading texts")(groups, len(groups)):
            i = int(text[pairs[0]])
            row, offsets = self.token_row(texts[i])
            tokens = torch.from_numpy(self.transformer.embed([row], None))[row.begin : row.end].to(names.device)
            name, pair = pairs_of(named.owner, place[pairs])
            with torch.inference_mode():
                weights = label_attention(names[name], tokens, tokens.new_ones(len(tokens)))
                score = name_scores(self.tower.projection, entity_in_text(weights, tokens), names[name])
                sizes = np.bincount(pair).tolist()
                best = torch.stack([part.max() for part in torch.split(score, sizes)])
                means = torch.stack([part.mean(dim=0) for part in torch.split(weights, sizes)])
            yield Look(i, pairs, best.cpu().numpy(), means.cpu().numpy(), offsets)

    def token_row(self, text: str) -> tuple[TokenRow, Offsets]:
        """Tokenise a text: its tokens are ``ids[begin:end]`` of the row; offsets, (tokens, 2), are in code points."""
        plain, room = _SPACE.sub(" ", text), self._speller.room  # some tokenizers make a line end a token
        ((ids, offsets),) = self._speller.spell_with_offsets([plain])
        return self._speller.row({"text": ids[:room]}), offsets[:room]

    @cached_property
    def transformer(self) -> Tower:
        """The tower, without the head."""
        return replace(self.tower, projection=None)

    @cached_property
    def _speller(self) -> Speller:
        return Speller.of(self.tower.tokenizer, _TEMPLATE, self.config.max_length)

    @cached_property
    def name_encoder(self) -> DualEncoder:
        """The encoder of names."""
        reading = EncoderConfig(pooling=self.config.pooling, max_length=_NAME_LENGTH)
        return DualEncoder(self.transformer, self.transformer, reading)


def label_attention(names: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Compute the attention of names to the tokens of texts, equation 2: ``softmax_k(h_e . h_k)``, in float32.

    h_e is the vector of the name of an entity e, and h_k that of token k. The weights of a name sum to 1 over the
    tokens in ``mask``, and others are 0. The mask covers only the text's own tokens: not [CLS], which represents the
    whole text and would draw all attention. ``names`` has the shape (..., names, dim), ``tokens`` (..., tokens, dim),
    ``mask`` (..., tokens), and the result (..., names, tokens).
    """
    with torch.autocast(names.device.type, enabled=False):  # autocast would round the products
        products = torch.einsum("...nd,...td->...nt", names.float(), tokens.float())
    counts = mask.bool().unsqueeze(-2)
    weights = torch.softmax(products.masked_fill(~counts, torch.finfo(torch.float32).min), dim=-1)
    return torch.where(counts, weights, 0.0)


def entity_in_text(weights: Tensor, tokens: Tensor) -> Tensor:
    """Sum the vectors of a text's tokens by their weights, equation 3: the vector of a name in the text, in float32.

    ``weights`` (..., names, tokens) comes from `label_attention`, ``tokens`` has the shape (..., tokens, dim), and the
    result (..., names, dim).
    """
    with torch.autocast(tokens.device.type, enabled=False):
        return torch.einsum("...nt,...td->...nd", weights, tokens.float())


def name_scores(head: Any, said: Tensor, names: Tensor) -> Tensor:
    """Score whether texts mention the entities of names, in float32; (..., names).

    The score is the cosine of what the linear layer ``head`` makes of ``said``, from `entity_in_text`, and of
    ``names``, (..., names, dim) both. (The head of section 3.3 scores the former alone; it ranks entities worse.)
    """
    with torch.autocast(said.device.type, enabled=False):
        return torch.cosine_similarity(head(said), head(names.float()), dim=-1)

"""OSLAT: a transformer that reads texts and names separately, and finds the mentions of an entity by attention.

One transformer reads both. The vector of a name attends to the text's tokens (`arbo.spans.label_attention`). The
weights show where the entity is, the weighted sum is its vector in the text, and the similarity of that vector to the
name shows whether the text mentions the entity at all. The weights of an entity are the mean over its names, and its
score is the maximum over its names. The entity need not occur in the training data, and training needs no annotated
spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, Unpack

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.model_folder import OneTower, load_single
from arbo.encoders.tower import Loading, Tower
from arbo.engine import Floats, Ids, pairs_of
from arbo.errors import UsageError
from arbo.files import PathLike
from arbo.progress import Announce, quiet
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.extraction import Attention
from arbo.spans.label_attention import entity_in_text, label_attention, name_scores
from arbo.spans.windows import TextReader
from arbo.text.checks import Span, check_text

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SLICE = 256
"""Number of texts whose token vectors are in memory at once."""

# Number of pairs of a text to compare at once; with ten names each and a text of 500 tokens, they take 200 MB.
_PAIRS = 1024


class Look(NamedTuple):
    """The attention of the names of some entities to one text."""

    pairs: Ids  # (pairs,) indices of the pairs of text and entity
    first: Ids  # (pairs,) the first name of each pair; the names of a pair are adjacent
    names: Tensor  # (names, dim)
    weights: Tensor  # (names, tokens)
    tokens: Tensor  # (tokens, dim)
    offsets: npt.NDArray[np.int64]  # (tokens, 2)


# Without slots: `cached_property` keeps the readers in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class LabelAttention(OneTower):
    """Finds whether and where texts mention entities: OSLAT (Li et al. 2022).

    Load a model with `from_pretrained`, or make one with `of` and train it with `arbo.train_oslat`. The folder
    ``cache`` keeps the vectors of names, see `DualEncoder`.
    """

    tower: Tower
    """The transformer; its projection is the linking head (see `name_scores`), which is None before training."""
    config: LabelAttentionConfig
    cache: Path | None = None
    name: str = ""
    """The folder or hub name from which it was loaded."""
    kind: ClassVar[str] = "label-attention"

    def __post_init__(self) -> None:
        self.tower.check_length(self.config.max_length)
        _ = self.reader, self._names  # these raise an error if a window is too small

    @classmethod
    def of(cls, tower: Tower, config: LabelAttentionConfig | None = None) -> Self:
        """Make an untrained model from any transformer, without a linking head.

        Raise UsageError if the tower has a projection; label attention compares unprojected vectors.
        """
        if tower.projection is not None:
            raise UsageError(
                f"the model projects its vectors to {tower.dim} dimensions, but label attention compares unprojected "
                "vectors; use a model without a projection"
            )
        return cls(tower, config or LabelAttentionConfig())

    @classmethod
    def from_pretrained(
        cls,
        model: PathLike,
        config: LabelAttentionConfig | None = None,
        *,
        cache: PathLike | None = None,
        **how: Unpack[Loading],
    ) -> Self:
        """Load what `save_pretrained` wrote, with the saved configuration unless another is given; see `Tower.load`.

        Raise DataError also for another kind of model, a missing or changed file, or a model that a newer arbo saved.
        """
        tower, saved = load_single(model, LabelAttentionConfig, **how)
        return cls(tower, config or saved, None if cache is None else Path(cache), fspath(model))

    def copy(self) -> Self:
        """Return a copy with its own weights, in evaluation mode and without cache."""
        return replace(self, tower=self.tower.copy(), cache=None)

    def with_head(self, head: torch.nn.Linear | None) -> Self:
        """Return the same model with another linking head, or without one."""
        return replace(self, tower=Tower.of(self.tower.model, self.tower.tokenizer, head))

    def with_threshold(self, threshold: float) -> Self:
        """Return the same model with another minimum score of an entity, ``entity_threshold``."""
        return replace(self, config=replace(self.config, entity_threshold=threshold))

    @property
    def head(self) -> torch.nn.Linear | None:
        """The linking head, see `name_scores`."""
        return self.tower.projection

    def attention(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Attention:
        """Compute the attention of the entity in row ``entity[i]`` to ``texts[text[i]]``: the mean over its names.

        Each text and each name is read once; a long text is read in windows. Raise the errors of `Tower.embed`, and
        DataError for an invalid text.
        """
        weights: list[Floats] = [np.empty(0, np.float32)] * len(text)
        offsets: list[npt.NDArray[np.int64]] = [np.empty((0, 2), np.int64)] * len(text)
        for look in self.looks(texts, kb, text, entity, announce):
            count = np.diff(np.append(look.first, len(look.weights)))
            means = np.add.reduceat(look.weights.cpu().numpy(), look.first) / np.float32(count[:, None])
            for pair, mean in zip(look.pairs.tolist(), means, strict=True):
                weights[pair], offsets[pair] = mean, look.offsets
        start = np.cumsum([0, *map(len, weights)])
        begin, end = np.concatenate([np.empty((0, 2), np.int64), *offsets]).T
        return Attention(start, begin, end, np.concatenate([np.empty(0, np.float32), *weights]))

    def spans(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> list[tuple[Span, ...]]:
        """Find the spans of the entity in row ``entity[i]`` in ``texts[text[i]]``; none, one or several.

        See `attention`, and `arbo.spans.extraction.spans_of` with the threshold of the configuration.
        """
        found = self.attention(texts, kb, text, entity, announce)
        config = self.config
        return found.spans(texts, text, threshold=config.attention_threshold, by_token=config.by_token)

    def score(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score whether ``texts[text[i]]`` mentions the entity in row ``entity[i]``: the best of its names; (pairs,).

        See `attention` and `name_scores`: scores are cosines, or logits if the head scores only the vector from the
        text. For a text without tokens every score is 0, or the bias of such a head.
        """
        import torch

        scores = np.empty(len(text), np.float32)
        for look in self.looks(texts, kb, text, entity, announce):
            with torch.inference_mode():
                found = name_scores(self.head, entity_in_text(look.weights, look.tokens), look.names)
            scores[look.pairs] = np.maximum.reduceat(found.cpu().numpy(), look.first)
        return scores

    def looks(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Iterator[Look]:
        """Yield the attention of pairs of texts and entities, grouped by text; see `attention`."""
        import torch

        used, place = np.unique(entity, return_inverse=True)
        names, owner = self.name_vectors(KnowledgeBase(kb.entities[row] for row in used), announce)
        by_text = np.argsort(text, kind="stable")
        asked, begin = np.unique(text[by_text], return_index=True)
        for i in asked.tolist():
            check_text(texts[i], f"text {i}")
        pairs = dict(zip(asked.tolist(), np.split(by_text, begin)[1:], strict=True))
        order = sorted(pairs, key=lambda i: len(texts[i]))
        read = self.token_vectors([texts[i] for i in order], announce)
        for one, (tokens, offsets) in zip(order, read, strict=True):
            mask = tokens.new_ones(len(tokens))
            for first in range(0, len(pairs[one]), _PAIRS):
                own = pairs[one][first : first + _PAIRS]
                name, pair = pairs_of(owner, place[own])
                with torch.inference_mode():
                    own_names = names[name]
                    weights = label_attention(own_names, tokens, mask, scaled=self.config.scaled)
                yield Look(own, np.searchsorted(pair, np.arange(len(own))), own_names, weights, tokens, offsets)

    def name_vectors(self, kb: KnowledgeBase, announce: Announce = quiet) -> tuple[Tensor, Ids]:
        """Return the vectors of all names, as (names, dim), and the entity of each name, in ascending order."""
        import torch

        found = self._names.encode_entities(kb, announce)
        return torch.from_numpy(found.matrix[found.row]).to(self.tower.model.device), found.owner

    def token_vectors(
        self, texts: Sequence[str], announce: Announce = quiet
    ) -> Iterator[tuple[Tensor, npt.NDArray[np.int64]]]:
        """Yield the vectors of the tokens of each text, (tokens, dim), and their offsets, (tokens, 2).

        Special tokens are left out.
        """
        import torch

        slices = range(0, len(texts), SLICE)
        for i in announce("reading texts")(slices, len(slices)):
            read = self.reader(texts[i : i + SLICE])
            rows = list(chain.from_iterable(own.rows for own in read))
            vectors = torch.from_numpy(self.transformer.embed(rows, "tokens")).to(self.tower.model.device)
            length = [len(row.ids) for row in rows]
            first = np.cumsum([0, *(len(own.rows) for own in read)]).tolist()
            for own, window in zip(read, first[:-1], strict=True):
                yield vectors[torch.from_numpy(own.flat(length, window))], own.offsets

    def names(self, kb: KnowledgeBase) -> Texts:
        """Collect the texts of the entities: all of their names."""
        return self._names.entity_texts(kb)

    @cached_property
    def reader(self) -> TextReader:
        """Turns texts into tokens."""
        return TextReader.of(self.tower.tokenizer, self.config.max_length)

    @cached_property
    def transformer(self) -> Tower:
        """The tower, without the head."""
        return replace(self.tower, projection=None)

    @cached_property
    def _names(self) -> DualEncoder:
        return DualEncoder(self.transformer, self.transformer, self.config.reading, self.cache)

"""OSLAT: a transformer that reads sentences and names separately, and finds the mentions of an entity by attention.

One transformer reads both. The vector of a name attends to the tokens of a sentence (`label_attention`). The weights
show where the entity is, the weighted sum is its vector in the sentence, and the similarity of that vector to the name
shows whether the sentence mentions the entity at all. An entity has the mean weights and the largest score of its
names. The entity need not occur in the training data, and training needs no annotated spans.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, product
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data import Corpus, Gold, KnowledgeBase
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.model_folder import OneTower
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.pretrained import linear_of
from arbo.encoders.templates import Speller, Template, TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Floats, Ids, pairs_of
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import EncodedKb
from arbo.settings import Count, Finite, Settings
from arbo.spans.finding import Proposal, nearest_entities
from arbo.text.checks import Span
from arbo.text.words import APOSTROPHES, Offsets, content_words, offsets_of, passages

_NAME_LENGTH = 32  # maximum number of tokens of a name
_TEMPLATE = Template.parse("[CLS] {text} [SEP]", ("text",), focus="text")
_SPACE = re.compile(r"\s")
_TIE = re.compile(rf"(?:[{APOSTROPHES}]s?)?[\s\u00ad\u2010\u2011-]*")


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


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """The sentences of documents (see `passages`), and their places."""

    documents: Corpus
    texts: tuple[str, ...]
    document: Ids  # (pieces,) the index of the document, ascending
    begin: Ids  # (pieces,) start of the piece in the document

    @classmethod
    def of(cls, documents: Corpus) -> Self:
        """Cut documents into sentences."""
        places = [(row, *ends) for row, document in enumerate(documents) for ends in passages(document.text).tolist()]
        texts = tuple(documents[row].text[begin:end] for row, begin, end in places)
        home, begins, _ = np.array(places, np.int64).reshape(-1, 3).T
        return cls(documents, texts, home, begins)

    def entities(self, kb: KnowledgeBase) -> tuple[Ids, Ids]:
        """Return the pairs of a piece and an entity that is annotated in it, as (pieces, entities), ordered by both.

        A mention belongs to each piece with which it shares a character, and counts for each of its gold ids that is in
        the knowledge base and in the domain of the document.
        """
        ends, gold = self.begin + np.array([*map(len, self.texts)], np.int64), iter(Gold.of(self.documents, kb).lists)
        pairs: set[tuple[int, int]] = set()
        for row, document in enumerate(self.documents):
            here = np.arange(*np.searchsorted(self.document, (row, row + 1)))
            for mention in document.mentions:
                entities = next(gold)
                for begin, end in mention.spans:
                    touched = here[(self.begin[here] < end) & (begin < ends[here])]
                    pairs.update(product(touched.tolist(), entities))
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


@dataclass(frozen=True, slots=True)
class ModelFinder:
    """Proposes the entities that a model finds in a sentence, among candidates near it; one mention of each."""

    model: LabelAttention
    candidates: int = 32
    """Number of candidate entities for each sentence."""
    abbreviations: bool = True
    """Whether candidates are looked for by the long forms of abbreviations that a document defines."""
    _names: list[EncodedKb] = field(default_factory=list, init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions of the entities whose score is at least the threshold of the model."""
        pieces = Pieces.of(documents)
        text, entity = self.candidates_of(pieces, kb, announce)
        for look in self.model.looks(pieces.texts, kb, text, entity, announce):
            likely = np.flatnonzero(look.score >= self.model.threshold)
            rows = spans_of(pieces.texts[look.text], look.tokens, look.weights[likely])
            document, origin = int(pieces.document[look.text]), int(pieces.begin[look.text])
            for place, spans in zip(likely.tolist(), rows, strict=True):
                if moved := tuple((origin + begin, origin + end) for begin, end in spans):
                    yield Proposal(document, moved, int(entity[look.pairs[place]]), float(look.score[place]))

    def candidates_of(self, pieces: Pieces, kb: KnowledgeBase, announce: Announce = quiet) -> tuple[Ids, Ids]:
        """Return the candidates of sentences as pairs, (sentences, entities), ordered by sentence and dissimilarity.

        They are the entities in the document's domain with the names nearest to the sentence, by character n-grams.
        """
        begins = zip(pieces.document.tolist(), pieces.begin.tolist(), pieces.texts, strict=True)
        places = [(row, begin, begin + len(text)) for row, begin, text in begins]
        if not self._names or self._names[0].kb is not kb:
            self._names[:] = [EncodedKb(kb, NgramEncoder())]  # for the next documents
        names, k = self._names[0], min(self.candidates, len(kb))
        how: Any = {"abbreviations": self.abbreviations, "announce": announce}
        near = nearest_entities(pieces.documents, places, names, k, **how).ids
        text, column = np.nonzero(near >= 0)
        return text, near[text, column].astype(np.int64)


def spans_of(text: str, tokens: Offsets, weight: Floats, threshold: float = 0.05) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: the words to which each entity attends, without stop words.

    The weight of a word is the sum over the tokens that it touches; words at or above the threshold are kept (section
    6.1 compares it with each token). Adjacent kept words are joined into one span if only white space, hyphens or an
    apostrophe (perhaps with an s) separate them. ``tokens`` has the offsets of the tokens, (tokens, 2), and ``weight``
    the attention of the entities, (entities, tokens).

    >>> tokens = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]])
    >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
    >>> spans_of("pain and swelling in knee", tokens, weight)
    [((0, 4), (21, 25)), ((9, 17), (21, 25))]
    """
    words = content_words(text)
    begins, ends = offsets_of(words).T
    touched = (tokens[:, :1] < ends) & (begins < tokens[:, 1:])
    rows = []
    for is_kept in weight @ touched >= threshold:
        spans: list[Span] = []
        for begin, end in compress(words, is_kept):
            is_tied = spans and _TIE.fullmatch(text, spans[-1][1], begin)
            spans.append((spans.pop()[0] if is_tied else begin, end))
        rows.append(tuple(spans))
    return rows

"""Preselect the entities that a text might mention, by comparing names with its words, for a slower reader."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from arbo.data import Corpus, KnowledgeBase, Mention, MentionInput
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import encoded
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Ids, Weights, ratio
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import GroupedEntities, nearest_within, rows_of_entities, with_entities
from arbo.spans.pieces import Pairs, Pieces, pieces
from arbo.text.abbreviations import expander
from arbo.text.sentences import Splitter, passages, unwrapped
from arbo.text.words import windows

MOST_WORDS = 6
"""Maximum number of words of a run that is compared with names."""
_NEAREST = 8  # number of nearest entities of each run of words
_AT_ONCE = 1 << 15  # number of runs to encode at once, which bounds the memory


@dataclass(frozen=True, eq=False, slots=True)
class Preselection:
    """The entities that each piece of a document might mention, ordered by piece and dissimilarity."""

    pieces: Pieces
    text: Ids  # (pairs,) rows of ``pieces.corpus``, ascending
    entity: Ids
    dissimilarity: Weights  # (pairs,) between the entity and the nearest run of words, ascending within a piece

    @property
    def rank(self) -> Ids:
        """(pairs,) the rank of each entity in its piece, from 0."""
        return np.arange(len(self.text)) - np.searchsorted(self.text, self.text)


EncodedNames = tuple[Encoder, GroupedEntities]
"""An encoder fitted to the names of a knowledge base, and the entities of each domain."""


def encoded_names(kb: KnowledgeBase, encoder: Encoder, announce: Announce = quiet) -> EncodedNames:
    """Return the encoder fitted to the names of a knowledge base, and its entities by domain, ready to be searched."""
    fitted, entities = encoded(kb, encoder, announce)
    return fitted, GroupedEntities(entities, rows_of_entities(kb, None))


def preselect(
    documents: Corpus,
    kb: KnowledgeBase,
    n: int = 32,
    *,
    names: EncodedNames | None = None,
    split: Splitter = passages,
    expand_abbreviations: bool = True,
    announce: Announce = quiet,
) -> Preselection:
    """Find up to ``n`` entities for each piece of documents: the entities nearest to its runs of one to six words.

    A run begins and ends with a content word; with ``expand_abbreviations``, abbreviations that the document defines
    are replaced by their long forms. The search for the eight nearest entities of each run is exact; it takes as long
    as linking all runs as mentions.

    Only entities of the document's domain are compared. The documents' mentions are kept for `preselection_recall`.
    ``names`` come from `encoded_names`, by default with character n-grams.
    """
    cut = pieces(documents, split)
    maker, entities = encoded_names(kb, NgramEncoder(), announce) if names is None else names
    runs = _runs(documents, cut, expand_abbreviations=expand_abbreviations)
    text, entity, dissimilarity = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    while some := list(islice(runs, _AT_ONCE)):
        found = nearest_within(
            with_entities([run.document.domain for _, run in some], entities.rows),
            maker.encode_mentions([run for _, run in some], announce),
            entities,
            min(_NEAREST, len(kb)),
            metric=maker.metric,
            search="exact",
            progress=announce("candidates"),
        )
        row, column = np.nonzero(found.ids >= 0)
        text.append(np.array([piece for piece, _ in some], np.int64)[row])
        entity.append(found.ids[row, column].astype(np.int64))
        dissimilarity.append(found.dissimilarity[row, column])
    chosen = _best(np.concatenate(text), np.concatenate(entity), np.concatenate(dissimilarity), n)
    return Preselection(cut, *chosen)


def preselection_recall(found: Preselection, kb: KnowledgeBase) -> dict[int, float]:
    """Return, for k = 1, 2, 4, ..., the share of the pieces' gold entities among the first k preselected entities.

    An entity counts once for each piece, and only if the knowledge base has it. The last k is the size of the longest
    list.
    """
    gold = Pairs.of(found.pieces.corpus, kb)
    rank_of = dict(zip(zip(found.text.tolist(), found.entity.tolist(), strict=True), found.rank.tolist(), strict=True))
    n = 1 + int(found.rank.max(initial=0))
    rank = np.array([rank_of.get(pair, n) for pair in zip(gold.text.tolist(), gold.entity.tolist(), strict=True)])
    return {
        k: ratio(int((rank < k).sum()), len(gold))
        for k in sorted({*(2**i for i in range(n.bit_length())), n})
        if k <= n
    }


def _runs(documents: Corpus, cut: Pieces, *, expand_abbreviations: bool) -> Iterator[tuple[int, MentionInput]]:
    expand: Callable[[str], str] = str
    last = -1
    for row, piece in enumerate(cut.corpus):
        if cut.document[row] != last:
            last = int(cut.document[row])
            expand = expander(documents[last].text) if expand_abbreviations else str
        for begin, end in windows(unwrapped(piece.text), MOST_WORDS).tolist():
            run = piece.text[begin:end]
            mention = Mention(f"{piece.id}:{begin}-{end}", piece.id, ((begin, end),), run)
            yield row, MentionInput(expand(run), mention, piece)


def _best(text: Ids, entity: Ids, dissimilarity: Weights, n: int) -> tuple[Ids, Ids, Weights]:
    """Return the ``n`` nearest entities of each text, each once; ties go to the first rows."""
    order = np.lexsort((dissimilarity, entity, text))
    text, entity, dissimilarity = text[order], entity[order], dissimilarity[order]
    is_new = np.ones(len(text), np.bool_)
    is_new[1:] = (text[1:] != text[:-1]) | (entity[1:] != entity[:-1])
    text, entity, dissimilarity = text[is_new], entity[is_new], dissimilarity[is_new]
    order = np.lexsort((entity, dissimilarity, text))
    kept = order[np.arange(len(text)) - np.searchsorted(text, text) < n]
    return text[kept], entity[kept], dissimilarity[kept]

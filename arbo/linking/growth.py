"""What a run keeps so that it can grow, and the checks that it grows as it was made.

The arrays, with rows in the order of `Corpus.order`: ``mentions`` and ``mention_dissimilarity``, the nearest other
mentions; ``entities`` and ``entity_dissimilarity``, the nearest rows of the knowledge base;
``vectors`` and ``vector_row``, unless the encoder is that of n-grams, whose vectors are soon made again; and
``encoder.*``, the fitted state of that encoder, unless it was fitted to a knowledge base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from scipy.sparse import issparse

from arbo.data.corpus import Corpus
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.encoder import Encoder
from arbo.encoders.model_folder import same_model
from arbo.encoders.ngrams import Frequencies, NgramEncoder
from arbo.engine import Embeddings, Ids, Neighbors, Vectors
from arbo.errors import UsageError
from arbo.linking.config import LinkerConfig
from arbo.progress import Announce
from arbo.results.run import Run
from arbo.retrieval.growth import Earlier
from arbo.retrieval.retrieval import Retrieval

Arrays = Mapping[str, npt.NDArray[Any]]

_FROZEN = "encoder."


class Mentions(NamedTuple):
    """Mentions in the order of `Corpus.order`, and how to encode them."""

    encoder: Encoder
    """The encoder, fitted."""
    inputs: list[MentionInput]
    encode: Callable[[], Embeddings]
    """Returns their vectors, always the same."""

    @classmethod
    def of(cls, inputs: Sequence[MentionInput], order: Ids, encoder: Encoder, announce: Announce) -> Self:
        """Make mentions whose vectors the encoder gives in the order of ``inputs``."""
        encode = cache(lambda: encoder.encode_mentions(inputs, announce).taken(order))
        return cls(encoder, [inputs[row] for row in order.tolist()], encode)


def kept(mentions: Mentions, found: Retrieval, given: Encoder) -> Arrays | None:
    """Return the arrays that a run keeps; None if its vectors or its encoder cannot be kept.

    ``given`` is the encoder before it was fitted.
    """
    vectors, encoder = mentions.encode(), mentions.encoder
    arrays = {
        "mentions": found.mentions.ids,
        "mention_dissimilarity": found.mentions.dissimilarity,
        "entities": found.entities.ids,
        "entity_dissimilarity": found.entities.dissimilarity,
    }
    if isinstance(encoder, NgramEncoder) and encoder.frequencies is not None:
        state = {} if found.n_entities else encoder.frequencies.arrays()
        return arrays | {f"{_FROZEN}{name}": array for name, array in state.items()}
    if encoder is not given or not isinstance(vectors, Vectors) or issparse(vectors.matrix):
        return None
    used, row = np.unique(vectors.row, return_inverse=True)  # what was removed is not kept
    matrix = vectors.matrix if len(used) == len(vectors.matrix) else vectors.matrix[used]
    return {**arrays, "vectors": matrix, "vector_row": row.astype(np.int32)}


def arrays_of(run: Run) -> Arrays:
    """Return the arrays that a run keeps; raise UsageError if it has none."""
    if run.correction_table is not None:
        raise UsageError(
            "a run that obeys corrections cannot grow yet; link or discover all documents again, with the corrections"
        )
    if run.kept is None:
        raise UsageError(
            "the run cannot grow: an earlier arbo made it, or it has a reranker, approximate search, token vectors or "
            "no texts; link or discover all documents again"
        )
    return run.kept()


def check_same(run: Run, config: LinkerConfig, encoder: Mapping[str, Any], kb: KnowledgeBase | None) -> None:
    """Raise UsageError unless a run was made with these settings and this knowledge base (None to discover)."""
    made, was = run.manifest["encoder"], run.manifest["knowledge_base"]
    same = {
        "settings": LinkerConfig.from_dict(run.manifest["config"]).as_dict() == config.as_dict(),
        "encoder or edges": same_model({**made, "mentions": None}, {**encoder, "mentions": None}),
        "knowledge base": (was and was["fingerprint"]) == (kb and kb.fingerprint),
    }
    if other := [name for name, is_same in same.items() if not is_same]:
        raise UsageError(
            f"the run was made with other {' and '.join(other)}; use the same, or link all documents again"
        )


def resumed(
    run: Run, before: Corpus, now: Corpus, arrays: Arrays, encoder: Encoder, announce: Announce
) -> tuple[Mentions, Earlier]:
    """Return the mentions of documents, and the lists in ``arrays`` of those that the run has.

    Args:
        run: the run.
        before: its documents.
        now: those that stay, and new ones.
        arrays: what the run keeps.
        encoder: the encoder, fitted if there is a knowledge base.
        announce: see `arbo.progress`.

    """
    frozen = {name.removeprefix(_FROZEN): array for name, array in arrays.items() if name.startswith(_FROZEN)}
    if frozen and isinstance(encoder, NgramEncoder):
        encoder = replace(encoder, frequencies=Frequencies.from_arrays(frozen))
    number = {before.mentions[row].id: place for place, row in enumerate(before.order.tolist())}
    inputs, order = _inputs(run, before, now), now.order
    row = np.array([number.get(inputs[place].mention.id, -1) for place in order.tolist()], np.int64)
    mentions = Neighbors(arrays["mentions"], arrays["mention_dissimilarity"])
    earlier = Earlier(mentions, Neighbors(arrays["entities"], arrays["entity_dissimilarity"]), row)
    made = Mentions.of(inputs, order, encoder, announce)
    if "vectors" not in arrays:
        return made, earlier
    return made._replace(encode=cache(partial(_joined, arrays, row, inputs, order, encoder, announce))), earlier


def _joined(
    arrays: Arrays, row: Ids, inputs: list[MentionInput], order: Ids, encoder: Encoder, announce: Announce
) -> Vectors:
    """Return the kept vectors of the mentions that the run has, and make those of the others, in the given order."""
    matrix, rows = arrays["vectors"], np.empty(len(row), np.int32)
    rows[row >= 0] = arrays["vector_row"][row[row >= 0]]
    new = np.sort(order[row < 0])
    if len(new):
        made = encoder.encode_mentions([inputs[place] for place in new.tolist()], announce)
        assert isinstance(made, Vectors)
        rows[row < 0] = len(matrix) + made.row[np.searchsorted(new, order[row < 0])]
        matrix = np.vstack([matrix, made.matrix])
    return Vectors(matrix, rows, np.arange(len(row), dtype=np.int32), len(row))


def _inputs(run: Run, before: Corpus, now: Corpus) -> list[MentionInput]:
    """Return the mentions in the order of their documents; those of the run keep the names that were compared."""
    table = run.mention_table
    names = pc.coalesce(table["expansion"], table["text"]).to_pylist()
    name_of = dict(zip(table["mention_id"].to_pylist(), names, strict=True))
    there, expand = {document.id for document in before}, run.manifest["config"]["expand_abbreviations"]
    inputs: list[MentionInput] = []
    for document in now:
        if document.id in there:
            inputs += (MentionInput(name_of[mention.id], mention, document) for mention in document.mentions)
        else:
            inputs += mention_inputs(Corpus([document]), expand_abbreviations=expand)
    return inputs


def without(corpus: Corpus, ids: Iterable[str]) -> Corpus:
    """Return a corpus without the documents and mentions with these ids; raise UsageError for an unknown id."""
    gone = {ids} if isinstance(ids, str) else set(ids)
    known = {document.id for document in corpus} | {mention.id for mention in corpus.mentions}
    if unknown := sorted(gone - known):
        some = ", ".join(map(repr, unknown[:3]))
        raise UsageError(f"the run has no document or mention {some}; arbo show lists the ids")
    kept_documents = (document for document in corpus if document.id not in gone)
    return corpus.of_documents(
        document
        if gone.isdisjoint(mention.id for mention in document.mentions)
        else replace(document, mentions=tuple(one for one in document.mentions if one.id not in gone))
        for document in kept_documents
    )

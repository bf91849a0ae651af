"""What a run keeps so that it can grow, and the checks that it grows as it was made.

The arrays, with rows in the order of `Corpus.order`: ``mentions`` and ``mention_dissimilarity``, the nearest other
mentions; ``entities`` and ``entity_dissimilarity``, the nearest rows of the knowledge base; ``vectors`` and
``vector_row`` or, with n-grams, whose vectors are made again in little time, the fitted state ``encoder.*``; and
``kb.*``, hashes of the entities of the knowledge base. Further arrays are those of `arbo.linking.span_edits`,
`arbo.retrieval.score_memory` and `arbo.results.graphs`. A run that cannot grow keeps its graph.

The n-grams of a run stay those that it was fitted to, so that growing it equals its refit. A run whose knowledge base
was exchanged for another release therefore differs from a new one in the weights of n-grams; the drift says when a new
one is advisable.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from scipy.sparse import issparse

from arbo.data import Corpus, KnowledgeBase, names_of
from arbo.data.arrow import numbers
from arbo.data.inputs import Inputs
from arbo.data.releases import Exchange, Keys
from arbo.data.tables import names_in, numbered, with_expansions
from arbo.encoders.encoder import Encoder
from arbo.encoders.model_folder import same_model
from arbo.encoders.ngrams import Frequencies, NgramEncoder
from arbo.engine import Embeddings, Ids, Neighbors, Vectors
from arbo.errors import UsageError
from arbo.linking.config import LinkerConfig
from arbo.linking.run_documents import with_rows
from arbo.progress import Announce
from arbo.results.graphs import only_graph
from arbo.results.result import Result
from arbo.results.run import Run, rows_in
from arbo.retrieval.groups import SearchAll
from arbo.retrieval.growth import EarlierSearch
from arbo.retrieval.reranking import Reranker
from arbo.retrieval.retrieval import Find, Retrieval
from arbo.retrieval.score_memory import PairScores, ScoreMemory, known_scores

Arrays = Mapping[str, npt.NDArray[Any]]

_FROZEN = "encoder."
"""What the names of the arrays of an encoder's state begin with."""
_MOST_UNSEEN = 0.25
"""A new run is advised if more of the n-grams in added names are unseen, see `benchmarks/growth.py`."""


class Mentions(NamedTuple):
    """Mentions in the order of `Corpus.order`, and how to encode them."""

    encoder: Encoder
    """The encoder, fitted."""
    inputs: Inputs
    encode: Callable[[], Embeddings]
    """Returns their vectors, always the same."""
    find: Find | None = None
    """Searches their neighbours if some are known."""
    known: PairScores | None = None
    """Known scores of a reranker, see `ScoreMemory`."""

    @classmethod
    def of(cls, inputs: Inputs, ordered: Inputs, encoder: Encoder, announce: Announce) -> Self:
        """Make the ``ordered`` mentions; the encoder encodes them in the order of ``inputs``, all of a corpus."""
        encode = cache(lambda: encoder.encode_mentions(inputs, announce).taken(ordered.rows))
        return cls(encoder, ordered, encode)


class _KeptArrays:
    """Collects arrays when it is called, so that a result that nobody saves needs none; it is pickled as the arrays."""

    def __init__(self, collect: Callable[[], Arrays]) -> None:
        self._collect = cache(collect)

    def __call__(self) -> dict[str, npt.NDArray[Any]]:
        return dict(self._collect())

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (dict, self())


def kept_arrays(
    mentions: Mentions,
    nearest: Retrieval,
    encoder: Encoder,
    kb: KnowledgeBase | None,
    others: Arrays,
    reranker: ScoreMemory | None,
) -> Callable[[], dict[str, npt.NDArray[Any]]]:
    """Return a function that collects the arrays that a run keeps; only its graph if vectors or encoder cannot be kept.

    ``encoder`` is that before it was fitted; ``others`` are those of `Edited.arrays` and `graph_arrays`.
    """
    fitted = mentions.encoder
    counts = fitted.frequencies if isinstance(fitted, NgramEncoder) else None
    vectors = mentions.encode() if counts is None and nearest.search == "exact" else None
    dense = vectors if fitted is encoder and isinstance(vectors, Vectors) and not issparse(vectors.matrix) else None
    grows = nearest.search == "exact" and (counts is not None or dense is not None)
    lists, candidates = nearest.mentions, nearest.entities

    def collect() -> Arrays:
        arrays = {
            "mentions": lists.ids,
            "mention_dissimilarity": lists.dissimilarity,
            "entities": candidates.ids,
            "entity_dissimilarity": candidates.dissimilarity,
            **({} if kb is None else _key_arrays(kb)),
            **others,
            **({} if reranker is None else reranker.arrays()),
        }
        if not grows:
            return only_graph(arrays)
        if counts is not None:
            return arrays | {f"{_FROZEN}{name}": array for name, array in counts.arrays().items()}
        assert dense is not None
        used, row = np.unique(dense.row, return_inverse=True)  # without the vectors of removed mentions
        matrix = dense.matrix if len(used) == len(dense.matrix) else dense.matrix[used]
        return {**arrays, "vectors": matrix, "vector_row": row.astype(np.int32)}

    return _KeptArrays(collect)


def arrays_of(run: Run) -> Arrays:
    """Return the arrays that a run keeps; raise UsageError if it has none."""
    arrays = {} if run.arrays is None else run.arrays()
    if not any(name == "vectors" or name.startswith(_FROZEN) for name in arrays):
        raise UsageError(
            "the run cannot grow: it was made with approximate search or token vectors, or saved without texts; link "
            "or discover all documents again"
        )
    return arrays


def check_same(
    run: Run,
    config: LinkerConfig,
    settings: Mapping[str, Any],
    reranker: Reranker | None,
    kb: KnowledgeBase | None,
    *,
    exchange: bool,
) -> None:
    """Raise UsageError unless a run was made with the same, and with a knowledge base or not.

    ``settings`` are those of the encoder and the edge model; with ``exchange``, the knowledge base may be another one.
    """
    made, was = run.manifest["encoder"], run.manifest["knowledge_base"]
    is_other = was is not None and kb is not None and not _is_same(was, kb)
    if is_other and not exchange:
        raise UsageError("the run was made with another knowledge base; use the same, or `add` with the new one first")
    free = {"mentions": None, **({"entities": None} if is_other else {})}
    before = {name: value for name, value in made.items() if name not in ("reranker", "skip_margin")}
    scores, scores_now = made.get("reranker"), None if reranker is None else reranker.settings
    same = {
        "other settings": LinkerConfig.from_dict(run.manifest["config"]).as_dict() == config.as_dict(),
        "another encoder or edge model": same_model({**before, **free}, {**settings, **free}),
        "another reranker": (scores is None) == (scores_now is None) and same_model(scores or {}, scores_now or {}),
        "another knowledge base": (was is None) == (kb is None),
    }
    if other := [name for name, is_same in same.items() if not is_same]:
        raise UsageError(f"the run was made with {' and '.join(other)}; use the same, or link all documents again")


def remembered_mentions(
    run: Run,
    documents: Corpus,
    arrays: Arrays,
    encoder: Encoder,
    kb: KnowledgeBase | None,
    announce: Announce,
    search_all: SearchAll,
    *,
    anew: bool,
) -> Mentions:
    """Return the mentions of documents, which know the neighbours, vectors and scores that a run keeps of them.

    Args:
        run: the run.
        documents: its documents now, see `arbo.linking.run_documents`.
        arrays: the arrays that the run keeps.
        encoder: the encoder, fitted if there is a knowledge base.
        kb: the present knowledge base.
        announce: see `arbo.progress`.
        search_all: searches for unknown neighbours, see `arbo.retrieval.groups`.
        anew: whether the neighbours of all mentions are searched again.
    """
    encoder = frozen(encoder, arrays)
    expand = run.manifest["config"]["expand_abbreviations"]
    expanded = documents.of_tables(with_expansions(documents.tables, expand=expand))
    documents, earlier = with_rows(expanded, run)
    inputs, order = Inputs(documents), documents.order
    row = _rows_in_lists(run, earlier[order])
    entity_rows = _entity_rows_now(run, arrays, encoder, kb)
    mentions = Mentions.of(inputs, inputs.taken(order), encoder, announce)
    mentions = mentions._replace(known=known_scores(arrays, row, entity_rows))
    vectors: Callable[[Ids], Vectors]
    near: Callable[[Ids, float], Ids] | None = None
    if isinstance(encoder, NgramEncoder):
        vectors = partial(_ngram_vectors, encoder, mentions.inputs, announce)
        near = partial(encoder.near, names_of(mentions.inputs))
    else:
        encode = cache(partial(_kept_and_new_vectors, arrays, row, inputs, order, encoder, announce))
        mentions, vectors = mentions._replace(encode=encode), lambda rows: encode().taken(rows)
    if anew:
        return mentions
    mention_lists = Neighbors(arrays["mentions"], arrays["mention_dissimilarity"])
    entity_lists = Neighbors(arrays["entities"], arrays["entity_dissimilarity"])
    search = EarlierSearch(mention_lists, entity_lists, row, vectors, near, entity_rows, search_all)
    return mentions._replace(find=search.nearest_within)


def _rows_in_lists(run: Run, rows: Ids) -> Ids:
    """Return the rows of mentions in the lists of a run, given their rows in its table; -1 stays."""
    number = np.full(len(run.mention_table) + 1, -1, np.int64)
    number[numbered(run.mention_table)] = np.arange(len(run.mention_table))
    return number[rows]


def _ngram_vectors(encoder: NgramEncoder, mentions: Any, announce: Announce, rows: Ids) -> Vectors:
    return encoder.encode_mentions(mentions.taken(rows), announce)


def _kept_and_new_vectors(
    arrays: Arrays, row: Ids, inputs: Inputs, order: Ids, encoder: Encoder, announce: Announce
) -> Vectors:
    """Return the vectors of all mentions in ``order``: those that the run keeps, and the encoder's of new mentions."""
    matrix, rows = arrays["vectors"], np.empty(len(row), np.int32)
    rows[row >= 0] = arrays["vector_row"][row[row >= 0]]
    new = np.sort(order[row < 0])
    if len(new):
        vectors = encoder.encode_mentions(inputs.taken(new), announce)
        assert isinstance(vectors, Vectors)
        rows[row < 0] = len(matrix) + vectors.row[np.searchsorted(new, order[row < 0])]
        matrix = np.vstack([matrix, vectors.matrix])
    return Vectors(matrix, rows, np.arange(len(row), dtype=np.int32), len(row))


def _key_arrays(kb: KnowledgeBase) -> Arrays:
    """Return the hashes of a knowledge base, as arrays that a run keeps."""
    return {f"kb.{name}": array for name, array in kb.keys._asdict().items()}


def _is_same(was: Mapping[str, Any] | None, kb: KnowledgeBase) -> bool:
    """Return whether a run's manifest describes this knowledge base."""
    return was is not None and was["fingerprint"] == kb.fingerprint


def _entity_rows_now(run: Run, arrays: Arrays, encoder: Encoder, kb: KnowledgeBase | None) -> Ids:
    """Return the row of each entity of a run in the present knowledge base, ascending; -1 if it must be searched again.

    With n-grams, these are entities that are gone or have changed; with another encoder, which may not give the same
    vector twice, all entities of another knowledge base.
    """
    if kb is None:
        return np.empty(0, np.int64)
    was = run.manifest["knowledge_base"]
    if _is_same(was, kb):
        return np.arange(len(kb))
    if not isinstance(encoder, NgramEncoder):
        return np.full(was["entities"], -1)
    return Exchange(Keys(arrays["kb.ids"], arrays["kb.contents"]), kb.keys).unchanged()


def frozen(encoder: Encoder, arrays: Arrays) -> Encoder:
    """Return an encoder of n-grams with the state that a run keeps; another encoder has no such state."""
    state = {name.removeprefix(_FROZEN): array for name, array in arrays.items() if name.startswith(_FROZEN)}
    if not (state and isinstance(encoder, NgramEncoder)):
        return encoder
    return replace(encoder, frequencies=Frequencies.from_arrays(state))


def fitted_to(run: Run) -> str | None:
    """Return the fingerprint of the knowledge base to whose names the encoder of a run was fitted."""
    was = run.manifest["knowledge_base"]
    return None if was is None else was.get("fitted", was["fingerprint"])


def with_release_notes(before: Run, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> Result:
    """Return a grown run whose manifest has the release of its n-grams, the replaced ids, and the drift.

    ``encoder`` is that of the linker, which is not fitted.
    """
    manifest = dict(after.manifest)
    if kb is not None:
        was, now = (dict(run.manifest["knowledge_base"]) for run in (before, after))
        if (fitted := fitted_to(before)) != kb.fingerprint:
            now["fitted"] = fitted
        replaced = was.get("replaced", {}) if _is_same(was, kb) else _replaced(before, kb)
        if replaced:
            now["replaced"] = replaced
        manifest["knowledge_base"] = now
    if drift := _drift(before, after, encoder, kb):
        manifest["drift"] = drift
        if (most := max(drift.values())) > _MOST_UNSEEN:
            verb = "discover" if kb is None else "link"
            unseen = f"{most:.0%} of the n-grams in added names are unseen, so that their weights no longer fit; "
            manifest["warnings"] = [*manifest["warnings"], f"{unseen}`arbo {verb}` all documents again"]
    return replace(after, manifest=manifest)


def _replaced(before: Run, kb: KnowledgeBase) -> dict[str, str]:
    """Return the ids that a run names and one entity of a release has as alternative ids, and the ids of these."""
    named = before.entity_table["entity_id"].to_pylist()
    known = (*before.manifest["knowledge_base"].get("replaced", ()), *named)
    ids = [id_ for id_ in known if len(kb.rows(id_)) == 1]  # of several, none replaces it
    (current,) = kb.taken(("id",), np.array([kb.index(id_) for id_ in ids], np.int64))
    return {id_: other for id_, other in zip(ids, current.to_pylist(), strict=True) if id_ != other}


def _drift(before: Run, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> dict[str, float]:
    """Return the shares of unseen n-grams in the names of new mentions and, after an exchange, of entities."""
    if not isinstance(encoder, NgramEncoder) or after.arrays is None:
        return {}
    fitted = frozen(encoder, after.arrays())
    assert isinstance(fitted, NgramEncoder)
    names = names_in(after.mention_table.take(numbers(np.flatnonzero(rows_in(before, after) < 0))))
    drift = {"mentions": fitted.unseen(pc.unique(names).to_pylist())}
    if kb is not None and fitted_to(before) != kb.fingerprint:
        drift["entities"] = fitted.unseen(kb.names().names)
    return drift

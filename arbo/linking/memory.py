"""The memory of a run: what it keeps so that it can grow, its documents, and the checks that it grows as it was made.

The arrays, with rows in the order of `Corpus.order`: ``mentions`` and ``mention_dissimilarity``, the nearest other
mentions; ``entities`` and ``entity_dissimilarity``, the nearest rows of the knowledge base; ``vectors`` and
``vector_row`` or, with n-grams, whose vectors are made again in little time, the fitted state ``encoder.*``; ``kb.*``,
hashes of the entities of the knowledge base; of a list, ``names.*``, the fields of `EarlierNames`; and of learnt edges,
``texts.*``, those of `FirstTexts`. Further arrays are those of `arbo.corrections.edits`, `arbo.retrieval.reranking` and
`arbo.results.graphs`. A run that cannot grow keeps its graph.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.corrections.edits import uncorrected
from arbo.data import Corpus, KnowledgeBase, mention_inputs
from arbo.data.arrow import Arrays, json_strings, numbers, rows_among, strings
from arbo.data.corpus import Inputs
from arbo.data.releases import Exchange, Keys
from arbo.data.tables import Tables, check_ids, metadata_in, names_in, numbered, rows_with
from arbo.encoders.encoder import Encoder, same_model
from arbo.encoders.index import searchable
from arbo.encoders.ngrams import Frequencies, NgramEncoder
from arbo.engine import Ids, Neighbors, Vectors
from arbo.errors import DataError, UsageError
from arbo.linking.config import LinkerConfig
from arbo.progress import Announce
from arbo.results.result import Result
from arbo.results.run import Run, rows_in
from arbo.retrieval.groups import EncodedKb, SearchAll
from arbo.retrieval.reranking import Reranker, known_scores
from arbo.retrieval.retrieval import FROZEN, EarlierSearch, Mentions

_MOST_UNSEEN = 0.25  # a new run is advised if more of the n-grams in added names are unseen, see `benchmarks/growth.py`


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """A run that grows, with the arrays that it keeps."""

    run: Run
    arrays: Arrays
    anew: bool  # whether the neighbours of all mentions are searched again

    @classmethod
    def of(cls, run: Run, *, anew: bool = False) -> Self:
        """Read the arrays of a run; raise UsageError if it cannot grow."""
        arrays = run.arrays()
        if not any(name == "vectors" or name.startswith(FROZEN) for name in arrays):
            wrong = "the run cannot grow: it was saved without texts, or its encoder is fitted to the names"
            raise UsageError(f"{wrong}; link or discover all documents again")
        return cls(run, arrays, anew)

    @property
    def _base(self) -> Any:
        """What the manifest says of the knowledge base; None in discovery."""
        return self.run.manifest["knowledge_base"]

    @property
    def documents(self) -> Corpus:
        """The documents of the run as they came, with a column ``row``, null for mentions of edited documents."""
        run, manifest = self.run, self.run.manifest
        mentions = run.mention_table.drop_columns(["gold_entities"])
        mentions = mentions.append_column("row", numbers(np.arange(len(mentions))))
        notes, *others = manifest["notes"]["documents"], manifest.get("index"), manifest.get("graph")
        return uncorrected(Corpus(replace(run.tables, mentions=mentions), notes, *others), self.arrays)

    def check(
        self,
        config: LinkerConfig,
        settings: Mapping[str, Any],
        reranker: Reranker | None,
        kb: KnowledgeBase | None,
        *,
        exchange: bool,
    ) -> None:
        """Raise UsageError unless the run was made with the same, and with a knowledge base or not.

        ``settings`` are those of the encoder and the edge model; with ``exchange``, the knowledge base may be another.
        """
        made, was = self.run.manifest["encoder"], self._base
        is_other = was is not None and kb is not None and not self.has_same(kb)
        if is_other and not exchange:
            raise UsageError("the run was made with another knowledge base; use the same, or `add` with the new first")
        free = {"mentions": None, **({"entities": None} if is_other else {})}
        before = {name: value for name, value in made.items() if name not in ("reranker", "skip_margin")}
        scores, scores_now = made.get("reranker"), None if reranker is None else reranker.settings
        same = {
            "other settings": LinkerConfig.from_dict(self.run.manifest["config"]) == config,
            "another encoder or edge model": same_model({**before, **free}, {**settings, **free}),
            "another reranker": (scores is None) == (scores_now is None) and same_model(scores or {}, scores_now or {}),
            "another knowledge base": (was is None) == (kb is None),
        }
        if other := [name for name, is_same in same.items() if not is_same]:
            raise UsageError(f"the run was made with {' and '.join(other)}; use the same, or link all documents again")

    def has_same(self, kb: KnowledgeBase) -> bool:
        """Return whether the run was made with this knowledge base."""
        return self._base is not None and self._base["fingerprint"] == kb.fingerprint

    @property
    def fitted_to(self) -> str | None:
        """The fingerprint of the knowledge base to whose names the encoder of the run was fitted."""
        return None if self._base is None else self._base.get("fitted", self._base["fingerprint"])

    def fitted(self, encoder: Encoder) -> Encoder:
        """Return an encoder of n-grams with the state that the run keeps; another encoder has no such state."""
        state = {name.removeprefix(FROZEN): array for name, array in self.arrays.items() if name.startswith(FROZEN)}
        if not (state and isinstance(encoder, NgramEncoder)):
            return encoder
        return replace(encoder, frequencies=Frequencies.from_arrays(state))

    def entities(self, entities: EncodedKb | None) -> EncodedKb | None:
        """Return the entities as the encoder of the run encodes them."""
        if entities is None or self.fitted_to == entities.kb.fingerprint:
            return entities
        encoder, kb, announce = entities.encoder, entities.kb, entities.announce
        if (fitted := self.fitted(encoder)) is encoder:
            return entities
        return EncodedKb(kb, encoder, announce, (fitted, searchable(kb, fitted, announce)))

    def mentions(
        self, documents: Corpus, encoder: Encoder, kb: KnowledgeBase | None, announce: Announce, search_all: SearchAll
    ) -> Mentions:
        """Return the mentions of documents, which know the neighbours, vectors and scores that the run keeps of them.

        The documents have changed from `documents`; the encoder is fitted if there is a knowledge base.
        """
        encoder, arrays = self.fitted(encoder), self.arrays
        expand = self.run.manifest["config"]["expand_abbreviations"]
        documents, earlier = with_rows(documents, self.run)
        inputs, order = mention_inputs(documents, expand_abbreviations=expand, kb=kb), documents.order
        in_lists = np.full(len(self.run.mention_table) + 1, -1, np.int64)  # the row of each mention of the run
        kept, links = earlier[order][earlier[order] >= 0], self.run.link_rows
        places = kept if len(kept) == len(in_lists) - 1 else numbered(self.run.mention_table)
        in_lists[places] = np.arange(len(places))
        row, entity_rows = in_lists[earlier[order]], self._entity_rows(encoder, kb)
        mentions = Mentions.of(inputs, order, encoder, announce)._replace(known=known_scores(arrays, row, entity_rows))
        vectors: Callable[[Ids], Vectors]
        near: Callable[[Ids, float], Ids] | None = None
        if isinstance(encoder, NgramEncoder):
            own, encode_own = mentions.inputs, partial(encoder.encode_mentions, announce=announce)
            near, vectors = partial(encoder.near, own.names), lambda rows: encode_own(own.taken(rows))
        else:
            encode = cache(partial(_all_vectors, arrays, row, inputs, order, encoder, announce))
            mentions, vectors = mentions._replace(encode=encode), lambda rows: encode().taken(rows)
        if self.anew:
            return mentions
        mention_lists = Neighbors(arrays["mentions"], arrays["mention_dissimilarity"])
        entity_lists = Neighbors(arrays["entities"], arrays["entity_dissimilarity"])
        shown = "nearest" in links.column_names if isinstance(links, pa.Table) else None  # others may keep all runs
        known = (lambda rows, names: links.select(names).take(numbers(places[rows]))) if shown else None
        search = EarlierSearch(mention_lists, entity_lists, row, vectors, near, entity_rows, search_all, known)
        return mentions._replace(earlier=search)

    def _entity_rows(self, encoder: Encoder, kb: KnowledgeBase | None) -> Ids:
        """Return the row of each entity of the run in the present base, ascending; -1 if it must be searched again."""
        if kb is None or self._base is None:
            return np.empty(0, np.int64)
        if self.has_same(kb):
            return np.arange(len(kb))
        if not isinstance(encoder, NgramEncoder):  # it may not give the same vector twice
            return np.full(self._base["entities"], -1)
        return Exchange(Keys(self.arrays["kb.ids"], self.arrays["kb.contents"]), kb.keys).unchanged()

    def with_notes(self, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> Result:
        """Return the grown run, whose manifest then has the release of its n-grams, the replaced ids, and the drift."""
        manifest = after.manifest
        if "reading" in self.run.manifest:
            manifest["reading"] = self.run.manifest["reading"]
        if kb is not None and self._base is not None:
            now = manifest["knowledge_base"]
            if self.fitted_to != kb.fingerprint:
                now["fitted"] = self.fitted_to
            if replaced := self._base.get("replaced", {}) if self.has_same(kb) else self._replaced(kb):
                now["replaced"] = replaced
        if drift := self._drift(after, encoder, kb):
            manifest["drift"] = drift
            if (most := max(drift.values())) > _MOST_UNSEEN:
                verb = "discover" if kb is None else "link"
                unseen = f"{most:.0%} of the n-grams in added names are unseen, so that their weights no longer fit; "
                manifest["warnings"] = [*manifest["warnings"], f"{unseen}`arbo {verb}` all documents again"]
        return after

    def _replaced(self, kb: KnowledgeBase) -> dict[str, str]:
        """Return the ids in the run that one entity of a release has as alternative ids, and the ids of these."""
        known = (*self._base.get("replaced", ()), *self.run.entity_table["entity_id"].to_pylist())
        ids = [id_ for id_ in known if len(kb.rows(id_)) == 1]  # of several, none replaces it
        (current,) = kb.taken(("id",), np.array([kb.index(id_) for id_ in ids], np.int64))
        return {id_: other for id_, other in zip(ids, current.to_pylist(), strict=True) if id_ != other}

    def _drift(self, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> dict[str, float]:
        """Return the shares of unseen n-grams in the names of new mentions and, after an exchange, of entities."""
        fitted = self.fitted(encoder)
        if not isinstance(fitted, NgramEncoder):
            return {}
        names = names_in(after.mention_table.take(numbers(np.flatnonzero(rows_in(self.run, after) < 0))))
        drift = {"mentions": fitted.unseen(pc.unique(names).to_pylist())}
        if kb is not None and self.fitted_to != kb.fingerprint:
            drift["entities"] = fitted.unseen(kb.names().names)
        return drift


def _all_vectors(arrays: Arrays, row: Ids, inputs: Inputs, order: Ids, encoder: Encoder, announce: Announce) -> Vectors:
    """Return the vectors of all mentions in ``order``: those that the run keeps, and the encoder's of new mentions."""
    matrix, rows = arrays["vectors"], np.empty(len(row), np.int32)
    rows[row >= 0] = arrays["vector_row"][row[row >= 0]]
    if len(new := np.sort(order[row < 0])):
        vectors = encoder.encode_mentions(inputs.taken(new), announce)
        assert isinstance(vectors, Vectors)
        rows[row < 0] = len(matrix) + vectors.row[np.searchsorted(new, order[row < 0])]
        matrix = np.vstack([matrix, vectors.matrix]) if len(matrix) else vectors.matrix  # which may have another width
    return Vectors(matrix, rows, np.arange(len(row), dtype=np.int32), len(row))


def check_release(run: Run, kb: KnowledgeBase | None) -> None:
    """Raise UsageError if more than half of the entities of a run are gone from a knowledge base, or have changed."""
    was = run.manifest["knowledge_base"]
    if was is None or kb is None or was["fingerprint"] == kb.fingerprint:
        return
    if "kb.ids" not in (arrays := run.arrays()):  # such as of a run that cannot grow
        return
    counts = Exchange(Keys(arrays["kb.ids"], arrays["kb.contents"]), kb.keys).counts
    n, others = was["entities"], counts.get("gone", 0) + counts.get("changed", 0)
    if others > n / 2:
        sources = (kb.source, f"{len(kb):,} entities"), (run.manifest.get("kb_source"), f"{n:,} entities")
        now, before = (source["path"] if source else f"a knowledge base of {size}" for source, size in sources)
        wrong = f"{now} is another knowledge base than that of the run, {before}"
        advice = "give that of the run (--kb) or, if the other shall take its place, `arbo add --yes`"
        hint = f"{advice} (in Python, add(..., other_kb=True))"
        raise UsageError(f"{wrong}: {others:,} of {n:,} entities are gone or have changed; {hint}")


def extended(documents: Corpus, further: Iterable[Any]) -> Corpus:
    """Return these documents and further ones; raise DataError if the id of a further one is known already.

    Names whose ids are numbers of rows are numbered on, as labels too, if the index of the documents has one level. An
    index gets the names of that of the documents. Documents that are all nodes of a graph stay so.
    """
    more, known = Corpus.of(further), documents.tables.documents["document_id"]
    ids: list[str] = more.tables.documents["document_id"].to_pylist()
    if ids == more.tables.mentions["mention_id"].to_pylist() == [*map(str, range(len(ids)))]:
        first = max([len(known), *(1 + int(id_) for id_ in known.to_pylist() if id_.isdecimal() and len(id_) < 19)])
        new = strings(ids := [*map(str, range(first, first + len(ids)))])
        more = _with(_with(more, "documents", document_id=new), "mentions", document_id=new, mention_id=new)
        if len(documents.index_names) == 1 and not more.index_names:
            (key,), was = documents.index_names, metadata_in(documents.tables.mentions[:1])
            kind = next((one for one in (int, float) if was and type(was[0].get(key)) is one), str)
            rows = zip(metadata_in(more.tables.mentions), ids, strict=True)
            more = _with(more, "mentions", metadata=json_strings({key: kind(id_), **row} for row, id_ in rows))
    if again := sorted(rows_with(ids, known)):
        others = f", and {len(again) - 1:,} others," if len(again) > 1 else ""
        wrong = f"the run has this document{others} already"
        raise DataError(f"{wrong}; leave out what it has, or remove that from the run first", id=again[0])
    if {*more.index_names} != {*documents.index_names} and len(more.index_names) == len(documents.index_names):
        name_of = dict(zip(more.index_names, documents.index_names, strict=True))
        named = ({name_of.get(key, key): row[key] for key in row} for row in metadata_in(more.tables.mentions))
        more = _with(more, "mentions", metadata=json_strings(named))
    tables = Tables.joined([documents.tables, more.tables])
    if rows_with(more.tables.mentions["mention_id"].to_pylist(), documents.tables.mentions["mention_id"]):
        check_ids(tables)
    graph = None if len(more) else documents.graph
    return Corpus(tables, Counter(documents.notes) + Counter(more.notes), documents.index_names, graph)


def _with(corpus: Corpus, what: Literal["documents", "mentions"], **columns: pa.Array) -> Corpus:
    """Return a corpus with other values in columns of a table."""
    table: pa.Table = getattr(corpus.tables, what)
    table = pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **columns})
    return corpus.of_tables(replace(corpus.tables, **{what: table}))


def without(documents: Corpus, ids: Iterable[str]) -> Corpus:
    """Return the documents without the documents and mentions that have these ids.

    Raise UsageError for an unknown id, and for one of both a document and a mention of another document.
    """
    gone, tables = {ids} if isinstance(ids, str) else {*ids}, documents.tables
    mentions, places = tables.mentions, rows_with(gone, tables.documents["document_id"])
    rows = rows_with(gone, mentions["mention_id"])
    if unknown := sorted(gone - places.keys() - rows.keys(), key=str):
        some = ", ".join(map(repr, unknown[:3]))
        hint = "arbo show lists the ids, and a correction with 'drop' removes a mention that another one added"
        raise UsageError(f"the run has no document or mention {some}; {hint}")
    homes = {id_: mentions["document_id"][rows[id_]].as_py() for id_ in places.keys() & rows.keys()}
    if both := sorted(id_ for id_, home in homes.items() if home != id_):
        raise UsageError(f"{both[0]!r} is a document and a mention of {homes[both[0]]!r}; give all mentions of one")
    stays = np.ones(len(mentions), np.bool_)
    stays[[*rows.values()]] = False
    left = np.delete(np.arange(len(documents)), [*places.values()])
    return documents.of_tables(tables.of_mentions(stays).taken(left))


def with_rows(documents: Corpus, run: Run) -> tuple[Corpus, Ids]:
    """Return the documents without the column ``row``, and the row of each mention in the run, -1 if not as there."""
    mentions = documents.tables.mentions
    rows: Ids = pc.fill_null(mentions["row"], -1).to_numpy().copy()
    new = np.flatnonzero(rows < 0)
    known = rows_among(mentions["mention_id"].take(numbers(new)), run.mention_table["mention_id"])
    new, known = new[known >= 0], known[known >= 0]
    fields = ["document_id", "spans", "type"]
    now, was = mentions.select(fields).take(numbers(new)), run.mention_table.select(fields).take(numbers(known))
    rows[new] = np.where([one == other for one, other in zip(now.to_pylist(), was.to_pylist(), strict=True)], known, -1)
    return documents.of_tables(replace(documents.tables, mentions=mentions.drop_columns(["row"]))), rows

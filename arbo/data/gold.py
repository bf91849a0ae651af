"""Gold annotations as arrays: the correct entities of each mention, NIL, classes, and seen mentions.

A gold id counts as NIL if the knowledge base has no entity with this id or alternative id in the domain of the
mention. All scores, tuning and training use this module.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, compress
from typing import Self

import numpy as np
import pyarrow as pa

from arbo.data.corpus import Corpus
from arbo.data.gold_ids import changes, known_ids
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.tables import PLACEHOLDERS, labels_in
from arbo.engine import Bools, Ids

RECALL_AT = (1, 2, 4, 8, 16, 32, 64)  # lengths of candidate lists for which recall is reported

_LIKE_NIL = frozenset({"", "cui-less", *PLACEHOLDERS.to_pylist()})
_ENOUGH = 0.1  # share of missing ids that cross-references with a prefix must match to be recommended
_FEW = 9  # up to this number, all mentions may well mean one entity


@dataclass(frozen=True, eq=False, slots=True)
class Gold:
    """The gold annotations of mentions.

    >>> from arbo.data.documents import Entity
    >>> kb = KnowledgeBase([Entity("D1", "flu", alternative_ids=("X9",)), Entity("D2", "cold")])
    >>> mentions = [{"spans": [[0, 1]], "entities": ids} for ids in (["X9", "D2"], ["D7"], [], None)]
    >>> gold = Gold.of(Corpus.of([{"id": "d", "text": "a b c d", "mentions": mentions}]), kb)
    >>> gold.first.tolist(), gold.is_nil.tolist(), gold.classes.tolist()
    ([0, -1, -1, -1], [False, True, True, False], [0, 1, -1, -1])
    """

    ids: Sequence[Sequence[str] | None]
    """(mentions,) annotated ids, as `known_ids` makes them: None without an annotation, empty if NIL without an id."""
    labels: Sequence[Sequence[str] | None]
    """(mentions,) annotated ids or, without any, the gold cluster: `Mention.labels`."""
    indptr: Ids
    """(mentions + 1,) ``rows[indptr[m] : indptr[m + 1]]`` belongs to mention ``m``."""
    rows: Ids
    """(correct entities,) rows of the knowledge base; those of a mention are distinct and in the order of its ids."""
    entity_of: Callable[[str], int | None]
    """Maps an id or alternative id to the row of its entity; None if no entity or several entities have it."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Notes on the annotated ids that were split or joined."""

    @classmethod
    def of(cls, documents: Corpus | pa.Table, kb: KnowledgeBase | None = None) -> Self:
        """Look up the gold ids of documents, or of a table of mentions, in a knowledge base.

        Without a knowledge base, no id has an entity, and a mention without ids has its gold cluster as its id.
        """
        mentions = documents.tables.mentions if isinstance(documents, Corpus) else documents
        base = KnowledgeBase() if kb is None else kb
        known = cache(partial(known_ids, has=None if kb is None else kb.__contains__))
        written = [of_mention and tuple(of_mention) for of_mention in mentions["gold"].to_pylist()]
        ids = [of_mention and known(of_mention) for of_mention in written]
        labels = [own or label for own, label in zip(ids, labels_in(mentions), strict=True)]

        def entity_of(id_: str) -> int | None:
            rows = base.rows(id_)
            return rows[0] if len(rows) == 1 else None

        rows_within = cache(base.rows_within)
        domains = mentions["domain"].to_pylist()
        rows = [rows_within(of_mention or (), domain) for of_mention, domain in zip(ids, domains, strict=True)]
        return cls(labels if kb is None else ids, labels, *_joined(rows), entity_of, changes(written, ids))

    @classmethod
    def of_ids(
        cls,
        ids: Sequence[Sequence[str] | None],
        labels: Sequence[Sequence[str] | None],
        entities: Sequence[Sequence[str]],
        row_of: dict[str, int],
    ) -> Self:
        """Make gold annotations from the columns of a run.

        ``ids`` and ``labels`` are the fields of this class. ``entities`` has the ids of the correct entities of each
        mention, as the knowledge base writes them; ``row_of`` maps the id of each entity in the run to its row.
        """
        known = dict(row_of)
        ids = [own and known_ids(tuple(own)) for own in ids]
        labels = [own or label for own, label in zip(ids, labels, strict=True)]
        for of_mention, inside in zip(ids, entities, strict=True):
            if of_mention and len(of_mention) == len(inside) == 1:
                known[of_mention[0]] = row_of[inside[0]]
        return cls(ids, labels, *_joined([[row_of[id_] for id_ in inside] for inside in entities]), known.get)

    @property
    def annotated(self) -> Bools:
        """(mentions,) whether the mention is annotated."""
        return np.array([ids is not None for ids in self.ids], np.bool_)

    @property
    def has_id(self) -> Bools:
        """(mentions,) whether the annotation has an id."""
        return np.array([bool(ids) for ids in self.ids], np.bool_)

    @property
    def mention(self) -> Ids:
        """(correct entities,) the index of the mention to which each correct entity belongs."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.indptr))

    @property
    def in_kb(self) -> Bools:
        """(mentions,) whether the mention has a correct entity in the knowledge base."""
        return np.diff(self.indptr) > 0

    @property
    def is_nil(self) -> Bools:
        """(mentions,) whether the mention is annotated, but has no correct entity in the knowledge base."""
        return self.annotated & ~self.in_kb

    @property
    def accepted(self) -> tuple[Ids, Ids]:
        """The correct entities in CSR form: (mentions + 1,) offsets and (accepted,) rows of the knowledge base.

        A mention with gold ids but without a correct entity has the single row -1.
        """
        outside = self.has_id & ~self.in_kb
        indptr = self.indptr + np.concatenate([[0], np.cumsum(outside)])
        return indptr, np.insert(self.rows, self.indptr[:-1][outside], -1)

    @property
    def lists(self) -> list[list[int]]:
        """(mentions,) rows of the correct entities of each mention, in the order of its ids."""
        return [rows.tolist() for rows in np.split(self.rows, self.indptr[1:-1])] if len(self.ids) else []

    @property
    def entities(self) -> Ids:
        """(mentions, largest number of correct entities, or 1) their rows, in the order of the ids, padded with -1."""
        table = np.full((len(self.ids), int(np.diff(self.indptr).max(initial=1))), -1, np.int32)
        table[self.mention, np.arange(len(self.rows)) - self.indptr[self.mention]] = self.rows
        return table

    @property
    def first(self) -> Ids:
        """(mentions,) the row of the first correct entity, or -1 if there is none."""
        return self.entities[:, 0]

    @property
    def classes(self) -> Ids:
        """(mentions,) a code for the class of each mention, or -1 if it has none.

        The class is the set of correct entities; without any, the set of gold ids; without any, the gold cluster.
        """
        number: dict[frozenset[int | str], int] = {}
        both = zip(self.lists, self.labels, strict=True)
        keys = (frozenset[int | str](rows or labels or ()) for rows, labels in both)
        return np.array([number.setdefault(key, len(number)) if key else -1 for key in keys], np.int64)

    def doubt(self) -> str | None:
        """Return a warning about a gold id that probably means NIL, or None if there is no such id.

        No entity, or more than one, has such an id. It looks like NIL and several mentions have it; or it is the id of
        at least ten mentions, and of more than half of the mentions with gold ids.
        """
        n = int(self.has_id.sum())
        for id_, count in Counter(id_ for ids in self.ids for id_ in ids or ()).most_common():
            is_nil = count > 1 and id_.strip("<>[]() ").casefold() in _LIKE_NIL
            if (is_nil or count > max(_FEW, n / 2)) and self.entity_of(id_) is None:
                many = f"{count:,} of {n:,} mentions with gold ids have the id {id_!r:.60}"
                advice = "if the id means NIL, give them an empty list of ids instead"
                return f"{many}, so they count as one entity; {advice}"
        return None

    def missing(self, documents: Corpus, kb: KnowledgeBase) -> str | None:
        """Return a warning if most mentions with gold ids have no entity, with the likeliest cause; else None."""
        if self.in_kb.sum() >= self.has_id.sum() / 2:
            return None
        there, every = (Counter(compress(documents.types, chosen)) for chosen in (self.in_kb, self.has_id))
        fitting = sorted(kind for kind, count in every.items() if kind is not None and there[kind] >= count / 2)
        absent = Counter(chain.from_iterable(ids or () for ids in compress(self.ids, ~self.in_kb)))
        if fitting:
            cause = f"the ids of {', '.join(fitting)} are there: try {' '.join(f'--types {kind}' for kind in fitting)}"
        else:
            id_, other = next(iter(absent)), kb.entities[0].id
            examples = f"the documents have {id_!r}, for example, the knowledge base {other!r}"
            cause = _through_xrefs(absent, kb) or f"check that the ids match: {examples}"
        share = 1 - self.in_kb.sum() / self.has_id.sum()
        return f"{share:.0%} of the mentions with gold ids have only ids missing from the knowledge base; {cause}"

    def seen(self, train: Corpus) -> Bools:
        """Return (mentions,) whether a mention in ``train`` has the same gold id, or another id of the same entity."""
        golds = train.tables.mentions["gold"].drop_null().to_pylist()
        trained = {id_ for gold in golds for id_ in known_ids(tuple(gold), lambda one: self.entity_of(one) is not None)}
        rows = [row for id_ in trained if (row := self.entity_of(id_)) is not None]
        by_entity = np.bincount(self.mention[np.isin(self.rows, rows)], minlength=len(self.ids)) > 0
        return by_entity | np.array([not trained.isdisjoint(ids or ()) for ids in self.ids], np.bool_)


def _joined(lists: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Concatenate lists; return the offset of each list, and all values."""
    return np.cumsum([0, *map(len, lists)]), np.array([number for numbers in lists for number in numbers], np.int64)


def _through_xrefs(missing: Counter[str], kb: KnowledgeBase) -> str | None:
    """Return the prefix of cross-references that match enough of the missing ids, as advice."""
    counts: Counter[str] = Counter()
    for (xrefs,) in kb.columns("xrefs"):
        for xref in xrefs:
            prefix, _, concept = xref.partition(":")
            counts[prefix] += missing.get(xref, missing.get(concept, 0))
    prefix, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count < _ENOUGH * missing.total():
        return None
    return f"cross-references of its entities match {count:,} of these ids: try --set kb_xrefs={prefix}"

"""Statistics of the parts of a data set: what papers state about their corpora.

Parts are corpora with names, the training part first. An entity is one of the knowledge base; an id that it lacks, or
any gold id or gold cluster without a knowledge base, counts as an entity too. A mention of several entities counts for
each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.gold import Bools, Gold, Ints
from arbo.data.knowledge_base import KnowledgeBase
from arbo.metrics import Cell, Table, ratio

_MOST = 20  # number of types, and of domains, in the table; `as_dict` has all


class Frequent(NamedTuple):
    """An entity with many mentions."""

    id: str
    name: str
    """Its name or, without an entity in the knowledge base, the text of most of its mentions."""
    mentions: int


@dataclass(frozen=True, slots=True)
class PartStats:
    """Counts and means of one part; `types` and `domains` count mentions and begin with the most frequent."""

    documents: int
    mentions: int
    annotated: int
    """Mentions with a gold id or gold cluster."""
    nil: int
    """Mentions that are annotated as NIL, without an id."""
    outside: int | None
    """Annotated mentions without an entity in the knowledge base; None without a knowledge base."""
    entities: int
    entities_outside: int | None
    """Entities that the knowledge base lacks."""
    unseen_entities: int | None
    """Entities without a mention in the first part (zero-shot); None for the first part itself."""
    unseen_mentions: int | None
    """Annotated mentions whose entities are all unseen."""
    across: int
    """Entities with mentions in several documents."""
    sizes: dict[str, int]
    """Number of entities by the number of their mentions: `1`, `2-3`, `4-7` and so on."""
    largest: int
    """Number of mentions of the most frequent entity."""
    characters: float
    """Mean length of a document, like the three below."""
    words: float
    """Words are separated by white space."""
    mention_characters: float
    mention_words: float
    discontinuous: int
    """Mentions of several spans."""
    nested: int
    """Mentions inside a longer mention, from the first character to the last."""
    types: dict[str, int]
    domains: dict[str, int]
    frequent: tuple[Frequent, ...]
    """The entities with most mentions."""


@dataclass(frozen=True, eq=False, slots=True)
class CorpusStats:
    """The statistics of each part by its name; see `corpus_stats`."""

    parts: Mapping[str, PartStats]
    overlap: Mapping[str, Mapping[str, float]]
    """Share of the entities of one part that have a mention in another part."""
    kb: int | None
    """Number of entities of the knowledge base."""

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        parts = {
            name: asdict(part) | {"frequent": [own._asdict() for own in part.frequent]}
            for name, part in self.parts.items()
        }
        return {"parts": parts, "overlap": self.overlap, "kb_entities": self.kb}

    def tables(self) -> list[Table]:
        """Return the figures with a column for each part, the overlaps, and the most frequent entities."""
        told = "" if self.kb is None else f"{self.kb:,} entities in the knowledge base"
        tables = [_table(told, ("", *self.parts), [*_lines(self.parts.values())])]
        if len(self.parts) > 1:
            shares = [(name, *(f"{own[other]:.1%}" for other in self.parts)) for name, own in self.overlap.items()]
            tables.append(_table("Entities of a line's part that also occur in a column's", ("", *self.parts), shares))
        rows = [
            (name, own.id, own.name, f"{own.mentions:,}") for name, part in self.parts.items() for own in part.frequent
        ]
        return [*tables, _table("Most frequent entities", ("part", "id", "name", "mentions"), rows, n_texts=3)]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))


def corpus_stats(
    parts: Mapping[str, Iterable[Any]], kb: KnowledgeBase | None = None, *, frequent: int = 5
) -> CorpusStats:
    """Count documents, mentions, entities and what they share, in each part of a data set.

    ``parts`` maps names such as ``train`` to documents; entities of the first part count as seen. ``frequent`` is the
    number of entities with most mentions to name.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> found = corpus_stats({"train": documents[:45], "test": documents[45:]}, kb)
    >>> found.parts["test"].entities, found.parts["test"].unseen_entities
    (131, 23)
    """
    number: dict[str, int] = {}
    corpora = {name: Corpus.of(part) for name, part in parts.items()}
    named = {name: _Named.of(corpus, kb, number) for name, corpus in corpora.items()}
    entities = {name: np.unique(own.entity) for name, own in named.items()}
    ids = [*number]
    first = next(iter(parts), None)
    return CorpusStats(
        {
            name: PartStats(
                **_texts(corpora[name]),
                **own.counts(),
                **_unseen(own, None if name == first else entities[first]),
                frequent=own.most(frequent, ids),
            )
            for name, own in named.items()
        },
        {
            one: {
                other: ratio(int(np.isin(own, others, assume_unique=True).sum()), len(own))
                for other, others in entities.items()
            }
            for one, own in entities.items()
        },
        None if kb is None else len(kb),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Named:
    """Pairs of a mention and an entity that it means; an entity is a row or, from the number of rows on, an id."""

    corpus: Corpus
    kb: KnowledgeBase | None
    gold: Gold
    mention: Ints
    entity: Ints

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase | None, number: dict[str, int]) -> _Named:
        """Look up the gold ids of a corpus; ``number`` grows by the ids without an entity."""
        gold, n = Gold.of(corpus, kb), 0 if kb is None else len(kb)
        others = [
            (mention, n + number.setdefault(id_, len(number)))
            for mention in np.flatnonzero(np.diff(gold.indptr) == 0).tolist()
            for id_ in gold.labels[mention] or ()
        ]
        rest = np.array(others, np.int64).reshape(-1, 2)
        mention, entity = np.concatenate([gold.mention, rest[:, 0]]), np.concatenate([gold.rows, rest[:, 1]])
        return cls(corpus, kb, gold, mention, entity)

    def counts(self) -> dict[str, Any]:
        """Return what is counted of mentions with entities, and of entities."""
        labels, n = self.gold.labels, 0 if self.kb is None else len(self.kb)
        entities, sizes = np.unique(self.entity, return_counts=True)
        steps = np.bincount(np.log2(sizes).astype(np.int64)).tolist()
        home = np.repeat(np.arange(len(self.corpus)), [len(document.mentions) for document in self.corpus])
        homes = np.unique(np.stack([self.entity, home[self.mention]]), axis=1)[0]
        return {
            "annotated": len(np.unique(self.mention)),
            "nil": sum(own is not None and not own for own in labels),
            "outside": None if self.kb is None else len(np.unique(self.mention[self.entity >= n])),
            "entities": len(entities),
            "entities_outside": None if self.kb is None else int((entities >= n).sum()),
            "across": int((np.unique(homes, return_counts=True)[1] > 1).sum()),
            "sizes": {f"{1 << i}-{(2 << i) - 1}" if i else "1": count for i, count in enumerate(steps)},
            "largest": int(sizes.max(initial=0)),
        }

    def most(self, n: int, ids: list[str]) -> tuple[Frequent, ...]:
        """Return the entities with most mentions; equally frequent ones are in the order of their ids."""
        entities, sizes = np.unique(self.entity, return_counts=True)
        least = np.sort(sizes)[-n:].min(initial=len(self.entity)) if n else len(self.entity) + 1
        rows = np.flatnonzero(sizes >= least).tolist()
        found = [Frequent(*self._told(int(entities[row]), ids), int(sizes[row])) for row in rows]
        return tuple(sorted(found, key=lambda own: (-own.mentions, own.id))[:n])

    def _told(self, entity: int, ids: list[str]) -> tuple[str, str]:
        n = 0 if self.kb is None else len(self.kb)
        if self.kb is not None and entity < n:
            known = self.kb.entities[entity]
            return known.id, known.name
        texts = Counter(self.corpus.mentions[mention].text for mention in self.mention[self.entity == entity].tolist())
        return ids[entity - n], min(texts, key=lambda text: (-texts[text], text))


def _texts(corpus: Corpus) -> dict[str, Any]:
    """Return what is counted of texts, spans, types and domains."""
    mentions = corpus.mentions
    types = Counter(mention.type for mention in mentions if mention.type is not None)
    domains: Counter[str] = Counter()
    for document in corpus:
        if document.domain is not None:
            domains[document.domain] += len(document.mentions)
    return {
        "documents": len(corpus),
        "mentions": len(mentions),
        "characters": ratio(sum(len(document.text) for document in corpus), len(corpus)),
        "words": ratio(sum(len(document.text.split()) for document in corpus), len(corpus)),
        "mention_characters": ratio(sum(len(mention.text) for mention in mentions), len(mentions)),
        "mention_words": ratio(sum(len(mention.text.split()) for mention in mentions), len(mentions)),
        "discontinuous": sum(len(mention.spans) > 1 for mention in mentions),
        "nested": int(_nested(corpus).sum()),
        "types": dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        "domains": dict(sorted(domains.items(), key=lambda item: (-item[1], item[0]))),
    }


def _nested(corpus: Corpus) -> Bools:
    """Return (mentions,) whether a mention lies inside another mention of its document that is longer."""
    sizes = [len(document.text) + 1 for document in corpus]
    origin = np.repeat(np.cumsum([0, *sizes])[:-1], [len(document.mentions) for document in corpus])
    begin = origin + np.array([mention.start for mention in corpus.mentions], np.int64)
    end = origin + np.array([mention.end for mention in corpus.mentions], np.int64)
    # From left to right, the longer first: what is nested ends no later than a different mention before it.
    spans, of = np.unique(np.stack([begin, -end]), axis=1, return_inverse=True)
    furthest = np.maximum.accumulate(np.concatenate([[-1], -spans[1]]))[:-1]
    found: Bools = (furthest >= -spans[1])[of.reshape(-1)]
    return found


def _unseen(own: _Named, seen: Ints | None) -> dict[str, int | None]:
    if seen is None:
        return {"unseen_entities": None, "unseen_mentions": None}
    known = np.isin(own.entity, seen)
    return {
        "unseen_entities": len(np.unique(own.entity[~known])),
        "unseen_mentions": len(np.setdiff1d(own.mention, own.mention[known])),
    }


_FIGURES = (
    ("documents", "documents", None),
    ("mentions", "mentions", None),
    ("mentions with a gold id or cluster", "annotated", "mentions"),
    ("mentions annotated as NIL", "nil", "mentions"),
    ("mentions missing from the knowledge base", "outside", "mentions"),
    ("mentions of unseen entities", "unseen_mentions", "annotated"),
    ("discontinuous mentions", "discontinuous", "mentions"),
    ("nested mentions", "nested", "mentions"),
    ("entities", "entities", None),
    ("entities missing from the knowledge base", "entities_outside", "entities"),
    ("unseen entities", "unseen_entities", "entities"),
    ("entities in several documents", "across", "entities"),
    ("mentions of the most frequent entity", "largest", "annotated"),
    ("characters in a document", "characters", None),
    ("words in a document", "words", None),
    ("characters in a mention", "mention_characters", None),
    ("words in a mention", "mention_words", None),
)
"""The name of each line, the field, and the field of which it is a part."""


def _lines(parts: Collection[PartStats]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the main table; a figure that applies to no part is left out."""
    for name, field, whole in _FIGURES:
        values = [getattr(part, field) for part in parts]
        wholes = [getattr(part, whole) if whole else 0 for part in parts]
        if any(value is not None for value in values):
            yield name, *map(_shown, values, wholes)
    for size in max((part.sizes for part in parts), key=len, default={}):
        name = f"entities with {size} mention{'s' * (size != '1')}"
        yield name, *(_shown(part.sizes.get(size, 0), part.entities) for part in parts)
    for kind in ("type", "domain"):
        counts = [getattr(part, f"{kind}s") for part in parts]
        total = sum(map(Counter, counts), Counter[str]())
        for value in sorted(total, key=lambda value: (-total[value], value))[:_MOST]:
            yield f"mentions of {kind} {value}", *(_shown(own.get(value, 0), 0) for own in counts)


def _shown(value: float | None, whole: int) -> str:
    if value is None:
        return ""
    return (f"{value:,.1f}" if isinstance(value, float) else f"{value:,}") + (
        f" ({value / whole:.1%})" if whole else ""
    )


def _table(title: str, names: tuple[str, ...], rows: list[tuple[str, ...]], *, n_texts: int = 1) -> Table:
    is_number = tuple(place >= n_texts for place in range(len(names)))
    return Table(title, names, is_number, [tuple(map(Cell, row)) for row in rows], [])

"""Statistics of the parts of a data set: what papers state about their corpora.

Parts are corpora with names, the training part first. An entity is one of the knowledge base. If a mention has none
there, each of its gold ids counts as an entity; without gold ids, its gold cluster does. An unknown id beside a known
one counts for nothing, as in `Gold.classes`. A mention of several entities counts for each of them. An entity is unseen
(zero-shot) if no mention of the first part means it, and a mention is unseen if all its entities are. A mention is
nested if it lies inside a longer one, from the first character to the last.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.gold import Bools, Gold, Ints
from arbo.metrics import Table, ratio

_MOST = 20  # number of types, and of domains, in the table; `as_dict` has all


@dataclass(frozen=True, slots=True)
class PartStats:
    """The statistics of one part; `types` and `domains` count mentions and begin with the most frequent."""

    figures: dict[str, float]
    """Counts and mean lengths by name, such as ``entities_unseen``; words are separated by white space."""
    sizes: dict[str, int]
    """Number of entities by the number of their mentions: `1`, `2-3`, `4-7` and so on."""
    types: dict[str, int]
    domains: dict[str, int]
    frequent: list[dict[str, Any]]
    """Id, name (without an entity, the text of most mentions) and number of mentions of the most frequent entities."""


@dataclass(frozen=True, eq=False, slots=True)
class CorpusStats:
    """The statistics of each part by its name; see `corpus_stats`."""

    parts: Mapping[str, PartStats]
    overlap: Mapping[str, Mapping[str, float]]
    """Share of the entities of one part that also occur in another part."""
    in_no_other: Mapping[str, float]
    """Share of the entities of each part that occur in no other part."""

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        rest = ("sizes", "types", "domains", "frequent")
        parts = {name: part.figures | {key: getattr(part, key) for key in rest} for name, part in self.parts.items()}
        return {"parts": parts, "overlap": self.overlap, "in_no_other": self.in_no_other}

    def __str__(self) -> str:
        names = ("", *self.parts)
        tables = [Table.of_texts("", names, _lines(self.parts.values()))]
        if len(self.parts) > 1:
            shares = {name: (*own.values(), self.in_no_other[name]) for name, own in self.overlap.items()}
            texts = ((name, *(f"{share:.1%}" for share in own)) for name, own in shares.items())
            title = "Share of the entities of a line's part that occur in a column's part; last, in none of the others"
            tables.append(Table.of_texts(title, (*names, "no other"), texts))
        rows = [(name, *map(str, own.values())) for name, part in self.parts.items() for own in part.frequent]
        if rows:
            tables.append(Table.of_texts("Most frequent entities", ("part", "id", "name", "mentions"), rows, 3))
        return "\n\n".join(map(str, tables))


def corpus_stats(
    parts: Mapping[str, Iterable[Any]], kb: KnowledgeBase | None = None, *, frequent: int = 5
) -> CorpusStats:
    """Count documents, mentions, entities and what they share, in each part of a data set.

    ``parts`` maps names such as ``train`` to documents, the training part first. ``frequent`` is the number of most
    frequent entities to name.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> figures = corpus_stats({"train": documents[:45], "test": documents[45:]}, kb).parts["test"].figures
    >>> figures["entities"], figures["entities_unseen"]
    (131, 23)
    """
    number: dict[str, int] = {}
    named = {name: _Named.of(Corpus.of(part), kb, number) for name, part in parts.items()}
    entities = {name: np.unique(own.entity) for name, own in named.items()}
    seen, ids = next(iter(entities.values()), None), [*number]
    everywhere, n = np.unique(np.concatenate([np.empty(0, np.int64), *entities.values()]), return_counts=True)
    return CorpusStats(
        {name: own.stats(None if entities[name] is seen else seen, ids, frequent) for name, own in named.items()},
        {
            one: {other: ratio(len(np.intersect1d(own, others)), len(own)) for other, others in entities.items()}
            for one, own in entities.items()
        },
        {name: ratio(int(np.isin(own, everywhere[n == 1]).sum()), len(own)) for name, own in entities.items()},
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Named:
    """Pairs of a mention and an entity that it means; an entity is a row or, from the number of rows on, an id."""

    corpus: Corpus
    kb: KnowledgeBase
    nil: Bools
    mention: Ints
    entity: Ints

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase | None, number: dict[str, int]) -> Self:
        """Look up the gold ids of a corpus; ``number`` grows by the ids without an entity."""
        gold, base = Gold.of(corpus, kb), kb or KnowledgeBase()
        others = [
            (mention, len(base) + number.setdefault(id_, len(number)))
            for mention in np.flatnonzero(~gold.in_kb).tolist()
            for id_ in dict.fromkeys(gold.labels[mention] or ())
        ]
        rest = np.array(others, np.int64).reshape(-1, 2)
        nil = np.array([own.gold is not None and not own.gold for own in corpus.mentions], np.bool_)
        pairs = np.concatenate([gold.mention, rest[:, 0]]), np.concatenate([gold.rows, rest[:, 1]])
        return cls(corpus, base, nil, *pairs)

    def stats(self, seen: Ints | None, ids: list[str], frequent: int) -> PartStats:
        """Return the statistics; ``seen`` are the entities of the first part, None for this part itself."""
        entities, sizes = np.unique(self.entity, return_counts=True)
        steps = np.bincount(np.log2(sizes).astype(np.int64)).tolist()
        mentions, domains = self.corpus.mentions, Counter[str]()
        for document in self.corpus:
            domains[document.domain or ""] += len(document.mentions)
        # Of the entities as frequent as the last, those with the first ids.
        enough = sizes >= np.sort(sizes)[::-1][:frequent].min(initial=len(self.entity) + 1)
        counted = zip(sizes[enough].tolist(), entities[enough].tolist(), strict=True)
        most = sorted((-n, self._id(entity, ids), entity) for n, entity in counted)[:frequent]
        return PartStats(
            self._counts(entities, sizes) | self._places(entities, seen) | _lengths(self.corpus),
            {f"{1 << i}-{(2 << i) - 1}" if i else "1": count for i, count in enumerate(steps)},
            _ranked(Counter(mention.type or "" for mention in mentions)),
            _ranked(domains),
            [{"id": id_, "name": self._name(entity), "mentions": -n} for n, id_, entity in most],
        )

    def _counts(self, entities: Ints, sizes: Ints) -> dict[str, float]:
        home = np.repeat(np.arange(len(self.corpus)), [len(document.mentions) for document in self.corpus])
        homes = np.unique(self.entity * len(self.corpus) + home[self.mention]) // max(len(self.corpus), 1)
        return {
            "documents": len(self.corpus),
            "mentions": len(self.corpus.mentions),
            "mentions_with_entity": len(np.unique(self.mention)),
            "mentions_annotated_as_nil": int(self.nil.sum()),
            "mentions_discontinuous": sum(len(mention.spans) > 1 for mention in self.corpus.mentions),
            "mentions_nested": int(_nested(self.corpus).sum()),
            "mentions_of_most_frequent_entity": int(sizes.max(initial=0)),
            "entities": len(entities),
            "entities_in_several_documents": int((np.unique(homes, return_counts=True)[1] > 1).sum()),
        }

    def _places(self, entities: Ints, seen: Ints | None) -> dict[str, float]:
        """Count what the knowledge base, if there is one, and the first part, if it is another, lack."""
        found: dict[str, float] = {}
        for word, known in (("outside_kb", np.arange(len(self.kb)) if len(self.kb) else None), ("unseen", seen)):
            if known is not None:
                there = np.unique(self.mention[np.isin(self.entity, known)])
                found[f"mentions_{word}"] = len(np.setdiff1d(self.mention, there))
                found[f"entities_{word}"] = len(np.setdiff1d(entities, known))
        return found

    def _id(self, entity: int, ids: list[str]) -> str:
        return self.kb.entities[entity].id if entity < len(self.kb) else ids[entity - len(self.kb)]

    def _name(self, entity: int) -> str:
        if entity < len(self.kb):
            return self.kb.entities[entity].name
        texts = Counter(self.corpus.mentions[row].text for row in self.mention[self.entity == entity].tolist())
        return next(iter(_ranked(texts)))


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return {name: n for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if name}


def _lengths(corpus: Corpus) -> dict[str, float]:
    found = {}
    for kind, texts in (("document", corpus.documents), ("mention", corpus.mentions)):
        found[f"characters_per_{kind}"] = float(ratio(sum(len(own.text) for own in texts), len(texts)))
        found[f"words_per_{kind}"] = float(ratio(sum(len(own.text.split()) for own in texts), len(texts)))
    return found


def _nested(corpus: Corpus) -> Bools:
    """Return (mentions,) whether a mention lies inside another mention of its document that is longer."""
    sizes = [len(document.text) + 1 for document in corpus]
    origin = np.repeat(np.cumsum([0, *sizes])[:-1], [len(document.mentions) for document in corpus])
    begin = origin + np.array([mention.start for mention in corpus.mentions], np.int64)
    end = origin + np.array([mention.end for mention in corpus.mentions], np.int64)
    # From left to right, the longer first: what is nested ends no later than a different mention before it.
    total = sum(sizes) + 1
    keys, of = np.unique(begin * total + (total - end), return_inverse=True)
    ends = total - keys % total
    nested: Bools = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1] >= ends
    return nested[of]


def _lines(parts: Collection[PartStats]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the main table: all figures, with shares of all mentions or entities."""
    for name in dict.fromkeys(name for part in parts for name in part.figures):
        yield name.replace("_", " "), *(_shown(part.figures, name) for part in parts)
    for size in max((part.sizes for part in parts), key=len, default={}):
        yield f"entities with {size} mention{'s' * (size != '1')}", *(f"{part.sizes.get(size, 0):,}" for part in parts)
    for kind in ("types", "domains"):
        counts = [getattr(part, kind) for part in parts]
        for value in [*_ranked(sum(map(Counter, counts), Counter[str]()))][:_MOST]:
            yield f"mentions of {kind[:-1]} {value}", *(f"{own.get(value, 0):,}" for own in counts)


def _shown(figures: Mapping[str, float], name: str) -> str:
    value = figures.get(name, "")
    if isinstance(value, int) and "_" in name:
        return f"{value:,} ({ratio(value, int(figures['entities' if 'entities' in name else 'mentions'])):.1%})"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if name in figures else ""

"""A small learnt reranker of dictionary names: gradient boosting over what n-grams, vectors and the document say."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import arbo
from arbo.text.names import normalize_name
from library.biosyn import Ids, Query, plain

Lists = Mapping[str, tuple[Sequence[str], Sequence[float]]]
"""The nearest names of each part of a query, and their scores, best first."""
Cosine = Callable[[Sequence[str], Sequence[str]], Any]
"""Returns the cosines of pairs of names."""
TEXT: tuple[str, ...] = ("n-grams", "behind", "place", "same words", "query covered", "name covered", "words missing")
TEXT += ("words added", "same last word", "same first word", "words")
KNOWN = ("in MEDIC", "annotated", "annotated so", "share", "entity annotated", "entities", "names", "best", "sum")
DENSE = ("cosine", "cosine behind", "cosine of the entity")
DOCUMENT = ("named in the document", "near in the document")
NAMES = (*TEXT, *KNOWN, *DENSE, *DOCUMENT)
GROUPS = {
    "learnt, n-grams": (*TEXT, *KNOWN),
    "learnt, n-grams and MiniLM": (*TEXT, *KNOWN, *DENSE),
    "learnt, in the document": NAMES,
}
"""The features that a learnt reranker sees."""
SETTINGS = {
    "max_iter": 150,
    "learning_rate": 0.08,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 40,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}


class Pairs(NamedTuple):
    """Candidates of parts: (pairs, features), and the number of the query, the part and the name of each."""

    features: Any
    whose: list[tuple[int, str, str]]

    def column(self, name: str) -> Any:
        """Return a feature."""
        return self.features[:, NAMES.index(name)]


@dataclass(frozen=True, slots=True)
class Known:
    """A dictionary, and how often its names and entities were annotated."""

    dictionary: Mapping[str, Ids]
    in_kb: frozenset[str]
    entity_of: Mapping[str, int]
    """The entity of each id; an alternative id is that of the first entity."""
    names: Counter[str]
    pairs: Counter[tuple[str, int]]
    entities: Counter[int]
    weight: Callable[[str], float]
    """Tells how rare a word is in the dictionary."""

    @classmethod
    def of(cls, kb: arbo.KnowledgeBase, dictionary: Mapping[str, Ids], annotated: Iterable[Query]) -> "Known":
        """Count the names of annotated queries."""
        entity_of: dict[str, int] = {}
        for alternatives in (False, True):
            for row, entity in enumerate(kb):
                for id_ in entity.alternative_ids if alternatives else (entity.id,):
                    entity_of.setdefault(id_, row)
        names: Counter[str] = Counter()
        pairs: Counter[tuple[str, int]] = Counter()
        entities: Counter[int] = Counter()
        for query in annotated:
            name, own = " ".join(query.parts), {entity_of[id_] for id_ in query.ids}
            names[name] += 1
            entities.update(own)
            pairs.update((name, row) for row in own)
        in_kb = frozenset(plain(name) for entity in kb for name in (entity.name, *entity.aliases))
        holding, n = Counter(word for name in dictionary for word in set(words(name))), len(dictionary)
        return cls(dictionary, in_kb, entity_of, names, pairs, entities, lambda word: math.log(n / (1 + holding[word])))

    def rows(self, name: str) -> frozenset[int]:
        """Return the entities that a name may mean."""
        return frozenset(self.entity_of[id_] for id_ in self.dictionary.get(name, ()))

    def most_annotated(self, name: str) -> int:
        """Return the entity that was annotated most often with a name, the first of equals; -1 for no name."""
        return max(sorted(self.rows(name)), key=lambda row: self.pairs[name, row], default=-1)


@cache
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in one spelling."""
    return tuple(normalize_name(name).split())


def described_pairs(queries: Sequence[Query], lists: Lists, known: Known, cosine: Cosine) -> Pairs:
    """Describe each candidate of each part by `NAMES`."""
    context = Context(queries, lists, known)
    texts = {
        part: np.hstack([_texts(part, *lists[part], known), _dense(part, lists[part][0], known, cosine)])
        for part in {part for query in queries for part in query.parts if part in lists}
    }
    rows: list[Any] = []
    whose = []
    for number, query in enumerate(queries):
        exact, near = context.beside(query)
        for part in query.parts:
            for place, name in enumerate(lists[part][0] if part in lists else ()):
                own = known.rows(name)
                rows.append((*texts[part][place], sum(exact[row] for row in own), sum(near[row] for row in own)))
                whose.append((number, part, name))
    return Pairs(np.array(rows, np.float32), whose)


class Context:
    """What the names of a document's mentions may mean: the mention's own name, and the name nearest to it."""

    def __init__(self, queries: Iterable[Query], lists: Lists, known: Known) -> None:
        self._of: defaultdict[str, dict[tuple[str, ...], tuple[set[int], set[int]]]] = defaultdict(dict)
        for query in queries:
            exact = {row for part in query.parts for row in known.rows(part)}
            near = {row for part in query.parts if part in lists for row in known.rows(lists[part][0][0])}
            self._of[query.document.id][query.parts] = exact, near

    def beside(self, query: Query) -> tuple[Counter[int], Counter[int]]:
        """Count the entities that other names in the document of a query have, and those that are near to one."""
        exact, near = Counter[int](), Counter[int]()
        for parts, (own, about) in self._of[query.document.id].items():
            if parts != query.parts:
                exact.update(own)
                near.update(about)
        return exact, near


def _texts(part: str, names: Sequence[str], scores: Sequence[float], known: Known) -> Any:
    """Describe names by words, n-grams and annotations; (names, `TEXT` and `KNOWN`)."""
    asked = words(part)
    wanted = sum(map(known.weight, asked)) or 1.0
    of_row: defaultdict[int, list[float]] = defaultdict(list)
    for name, score in zip(names, scores, strict=False):
        for row in known.rows(name):
            of_row[row].append(score)
    found = []
    for place, (name, score) in enumerate(zip(names, scores, strict=False)):
        own, rows, times = words(name), known.rows(name), known.names[name]
        shared, held = set(asked) & set(own), [of_row[row] for row in rows]
        weight, so = sum(map(known.weight, shared)), max(known.pairs[name, row] for row in rows)
        text: tuple[Any, ...] = (score, scores[0] - score, place, sorted(asked) == sorted(own), weight / wanted)
        text += (weight / (sum(map(known.weight, own)) or 1.0), len(set(asked) - shared), len(set(own) - shared))
        text += (asked[-1:] == own[-1:], asked[:1] == own[:1], len(asked))
        entity = max(known.entities[row] for row in rows)
        counted = (name in known.in_kb, times, so, so / times if times else -1.0, entity, len(rows))
        found.append((*text, *counted, max(map(len, held)), max(map(max, held)), max(map(sum, held))))
    return np.array(found, np.float32)


def _dense(part: str, names: Sequence[str], known: Known, cosine: Cosine) -> Any:
    """Describe names by vectors; (names, `DENSE`)."""
    given = cosine([part] * len(names), names)
    best: defaultdict[int, float] = defaultdict(lambda: -1.0)
    for name, value in zip(names, given.tolist(), strict=True):
        for row in known.rows(name):
            best[row] = max(best[row], value)
    return np.column_stack([given, given.max() - given, [max(best[row] for row in known.rows(name)) for name in names]])


def learnt(pairs: Sequence[tuple[Pairs, Any]], seen: Sequence[str]) -> Callable[[Pairs], Any]:
    """Learn from pairs and whether each is right; return a function that gives pairs their probability."""
    columns = [NAMES.index(name) for name in seen]
    model = HistGradientBoostingClassifier(**SETTINGS)
    model.fit(np.vstack([own.features[:, columns] for own, _ in pairs]), np.concatenate([truth for _, truth in pairs]))
    return lambda own: model.predict_proba(own.features[:, columns])[:, 1]

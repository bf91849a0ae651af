"""Homonyms (names that several entities share), generic names, and the addition of names.

A single-word name is generic if it is the head of the names of many other entities, since texts then use it for any of
these, as in "the disease". The head is the last word, or the last word before the first comma ("Wilson disease",
"Syndrome, Marfan"); words are compared after `normalize_name`. "Many" means at least 8 % of all entities and at least
20: in the Disease Ontology, ``disease`` and ``syndrome`` (9 %), but not ``carcinoma`` (7 %).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from arbo.data import Corpus, Gold, KnowledgeBase, grouped, mention_inputs
from arbo.data.entity_table import with_columns
from arbo.errors import DataError, listed
from arbo.text.names import normalize_name, normalize_names, signs_of

SHARE, LEAST = 0.08, 20


class Example(NamedTuple):
    """A name in all its spellings or an id, and the ids of the entities that have it."""

    values: tuple[str, ...]
    entities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the first ten values, the number of entities, and the ids of the first ten entities."""
        return {"values": self.values[:10], "count": len(self.entities), "entities": self.entities[:10]}

    def __str__(self) -> str:
        values = listed((json.dumps(value, ensure_ascii=False) for value in self.values), 3)
        return f"{values}: {listed(self.entities, 3)}"


Spellings = Mapping[str, list[tuple[str, int]]]
"""Names as they are written and the rows of their entities, by the result of `normalize_name` and their signs."""


def spellings(kb: KnowledgeBase) -> Spellings:
    """Group all names by the result of `normalize_name` and their signs; rows ascend."""
    names, rows = kb.names()
    keys = (" ".join(parts).strip() for parts in zip(normalize_names(names), map(signs_of, names), strict=True))
    return grouped(zip(keys, zip(names, rows.tolist(), strict=True), strict=True))


def ids_of(kb: KnowledgeBase) -> tuple[set[str], dict[str, list[int]]]:
    """Return the entities' own ids, and the rows that have each other alternative id, ascending."""
    ids, rows = {id_ for (id_,) in kb.columns("id")}, enumerate(kb.columns("alternative_ids"))
    return ids, grouped((id_, row) for row, (others,) in rows for id_ in dict.fromkeys(others) if id_ not in ids)


def homonyms(kb: KnowledgeBase, names: Spellings) -> Iterator[tuple[Example, int]]:
    """Yield each name that several entities share, and the number of entities whose preferred name it is."""
    preferred = [name for (name,) in kb.columns("name")]
    for written in names.values():
        if written[0][1] != written[-1][1]:
            preferring = {row for name, row in written if name == preferred[row]}
            yield example_of(kb, (row for _, row in written), *(name for name, _ in written)), len(preferring)


def example_of(kb: KnowledgeBase, rows: Iterable[int], *values: str) -> Example:
    """Return an example of the entities in these rows, which share these values."""
    return Example(tuple(dict.fromkeys(values)), tuple(kb.table["id"][row].as_py() for row in dict.fromkeys(rows)))


def generic_names(kb: KnowledgeBase, names: Spellings) -> Iterator[Example]:
    """Yield the generic names (see `arbo.kb.names`) in all their spellings, with the entities that have them."""
    headed: defaultdict[str, set[int]] = defaultdict(set)
    for form, written in names.items():
        for name, row in written if " " in form else ():
            first, comma, _ = name.partition(", ")
            headed[(normalize_name(first) if comma else form).rpartition(" ")[2]].add(row)
    for form, written in names.items():
        if len(headed.get(form, set()) - {row for _, row in written}) >= max(LEAST, SHARE * len(kb)):
            yield example_of(kb, (row for _, row in written), *(name for name, _ in written))


def with_names_of(kb: KnowledgeBase, documents: Iterable[Any], *, expand_abbreviations: bool = True) -> KnowledgeBase:
    """Return the entities; each name of a mention becomes an alias of the one entity that it means most often.

    Ties go to the first entity. Other entities of the same domain lose this alias; preferred names stay. Names that
    differ only in case or white space are the same. Of several gold ids of a mention, the first that the knowledge base
    has counts. Raise DataError if no mention has an entity of the knowledge base in the domain of its document.

    >>> from arbo import Entity
    >>> mentions = [{"spans": [[0, 6]], "entities": ["D1"]}, {"spans": [[10, 13]], "entities": ["D1"]}]
    >>> document = {"id": "1", "text": "Grippe is flu.", "mentions": mentions}
    >>> kb = KnowledgeBase([Entity("D1", "Flu"), Entity("D2", "Cold", aliases=("Grippe", "Rhinitis"))])
    >>> [entity.aliases for entity in with_names_of(kb, [document])]
    [('Grippe',), ('Rhinitis',)]
    """
    names: dict[tuple[str | None, str], str] = {}
    entities = defaultdict[tuple[str | None, str], Counter[int]](Counter)
    corpus = Corpus.of(documents)
    inputs = mention_inputs(corpus, expand_abbreviations=expand_abbreviations)
    gold = Gold.of(corpus, kb).first.tolist()
    for written, domain, entity in zip(inputs.names, inputs.column("domain"), gold, strict=True):
        if entity >= 0 and (name := " ".join(written.split())):
            key = domain, _key(name)
            names.setdefault(key, name)
            entities[key][entity] += 1
    if not entities:
        wrong = f"no names to add: none of {len(inputs):,} mentions has an entity of the domain of its document"
        raise DataError(f"{wrong}; check the annotations, the ids and the domains")
    entity_of = {key: min(count, key=lambda row: (-count[row], row)) for key, count in entities.items()}
    added = grouped((entity, names[key]) for key, entity in entity_of.items())
    lists = []
    for row, (preferred, aliases, domain) in enumerate(kb.columns("name", "aliases", "domain")):
        kept = [alias for alias in aliases if entity_of.get((domain, _key(alias)), row) == row]
        known = set(map(_key, (preferred, *kept)))
        lists.append([*kept, *(name for name in added[row] if _key(name) not in known)])
    return kb.changed(with_columns(kb.table, aliases=lists))


def _key(name: str) -> str:
    return " ".join(name.casefold().split())

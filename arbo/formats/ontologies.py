"""Share code between readers of ontologies: short ids, and the ids of obsolete terms."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from arbo.data import Entity

_OBO = re.compile(r"https?://purl\.obolibrary\.org/obo/([A-Za-z]\w*)_([A-Za-z0-9]+)")


class Obsolete(NamedTuple):
    """The ids of an obsolete term, its own first, and the ids of the terms that replace it."""

    ids: tuple[str, ...]
    replacements: tuple[str, ...]


def short_id(iri: str) -> str:
    """Return the short id of a term of an OBO ontology, and any other id as it is.

    >>> short_id("http://purl.obolibrary.org/obo/GO_0008150"), short_id("MESH:D1"), short_id("http://a.org/b_1")
    ('GO:0008150', 'MESH:D1', 'http://a.org/b_1')
    """
    match = _OBO.fullmatch(iri)
    return f"{match[1]}:{match[2]}" if match else iri


def with_replaced(entities: Iterable[Entity], obsolete: Iterable[Obsolete], notes: Counter[str]) -> list[Entity]:
    """Add the ids of each obsolete term to the entity at the end of its chain of single replacements."""
    every, obsolete = list(entities), list(obsolete)
    live = {entity.id for entity in every}
    successor = {ids[0]: replacements[0] for ids, replacements in obsolete if len(replacements) == 1}
    merged: defaultdict[str, list[str]] = defaultdict(list)
    for ids, _ in obsolete:
        end = _follow(ids[0], successor, live)
        if end is not None:
            merged[end] += ids
            notes["obsolete terms mapped to their replacement"] += 1
    return [
        replace(entity, alternative_ids=tuple(dict.fromkeys((*entity.alternative_ids, *merged[entity.id]))))
        if entity.id in merged
        else entity
        for entity in every
    ]


def _follow(term_id: str, successor: Mapping[str, str], live: set[str]) -> str | None:
    seen: set[str] = set()
    while term_id not in live:
        if term_id in seen or term_id not in successor:
            return None
        seen.add(term_id)
        term_id = successor[term_id]
    return term_id

"""Add the names in annotated documents to a knowledge base as aliases.

Documents use names that no dictionary lists, and names that a dictionary gives to another entity. A name becomes an
alias of the entity with which it is annotated most often; ties go to the first entity of the knowledge base. The name
is removed from the aliases of all other entities of the domain. Names that differ only in case or white space are the
same. A preferred name is never removed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from arbo.data.corpus import Corpus
from arbo.data.entities import Entity
from arbo.data.gold import Gold
from arbo.data.inputs import mention_inputs
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError


def with_names_of(kb: KnowledgeBase, documents: Corpus, *, expand_abbreviations: bool = True) -> KnowledgeBase:
    """Return the entities; each name of a mention becomes an alias of the one entity that it means most often.

    Other entities of the same domain lose this alias; preferred names stay. Of several gold ids of a mention, the first
    that the knowledge base has counts. With ``expand_abbreviations``, abbreviations that a document defines are
    replaced by their long forms, as in linking. Raise DataError if no mention has an entity of the knowledge base in
    the domain of its document.

    >>> mentions = [{"spans": [[0, 6]], "entities": ["D1"]}, {"spans": [[10, 13]], "entities": ["D1"]}]
    >>> document = {"id": "1", "text": "Grippe is flu.", "mentions": mentions}
    >>> kb = KnowledgeBase([Entity("D1", "Flu"), Entity("D2", "Cold", aliases=("Grippe", "Rhinitis"))])
    >>> [entity.aliases for entity in with_names_of(kb, Corpus.of([document]))]
    [('Grippe',), ('Rhinitis',)]
    """
    names: dict[tuple[str | None, str], str] = {}
    entities: defaultdict[tuple[str | None, str], Counter[int]] = defaultdict(Counter)
    inputs = mention_inputs(documents, expand_abbreviations=expand_abbreviations)
    for item, entity in zip(inputs, Gold.of(documents, kb).first.tolist(), strict=True):
        name = " ".join(item.name.split())
        if entity >= 0 and name:
            key = item.document.domain, _key(name)
            names.setdefault(key, name)
            entities[key][entity] += 1
    if not entities:
        raise DataError(
            f"no names to add: none of {len(inputs):,} mentions has a gold id that is in the knowledge base and in the "
            "domain of its document; check the annotations, the ids and the domains"
        )
    holder = {key: min(count, key=lambda row: (-count[row], row)) for key, count in entities.items()}
    added: defaultdict[int, list[str]] = defaultdict(list)
    for key, entity in holder.items():
        added[entity].append(names[key])

    def named(row: int, entity: Entity) -> Entity:
        kept = [alias for alias in entity.aliases if holder.get((entity.domain, _key(alias)), row) == row]
        known = set(map(_key, (entity.name, *kept)))
        new = (name for name in added[row] if _key(name) not in known)
        return replace(entity, aliases=(*kept, *new))

    return kb.changed(named(row, entity) for row, entity in enumerate(kb))


def _key(name: str) -> str:
    return " ".join(name.casefold().split())

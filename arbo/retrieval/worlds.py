"""Worlds: the mentions and entities that are compared with each other, by domain and by mapped types.

Types of mentions can be mapped to types of entities (`LinkerConfig.map_types`), so that a mention of a chemical is
neither linked to a disease nor joins the cluster of one. Types that the map joins, directly or through others, form a
group; all other types, and mentions and entities without types, form one more. Mentions are compared only with mentions
and entities of their domain and group. An entity of several groups is in that of its first mapped type.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError

TypePairs = tuple[tuple[str, str], ...]
"""Pairs of a mention type and an entity type."""


class Worlds(NamedTuple):
    """The world of each mention and of each entity."""

    mentions: Sequence[Hashable]
    entities: Sequence[Hashable]


def worlds_of(inputs: Sequence[MentionInput], kb: KnowledgeBase | None, pairs: TypePairs) -> Worlds:
    """Return the worlds of mentions and entities.

    Raises:
        UsageError: no mention has a mapped type, or no entity has any of the types that a mention type is mapped to.

    """
    entities = () if kb is None else kb.entities
    if not pairs:
        return Worlds([item.document.domain for item in inputs], [entity.domain for entity in entities])
    groups = _groups(pairs)
    number = {type_: place for place, group in enumerate(groups) for type_ in group}
    of_mention = [number.get(("mention", item.mention.type or "")) for item in inputs]
    of_entity = [
        next((number["entity", type_] for type_ in entity.types if ("entity", type_) in number), None)
        for entity in entities
    ]
    if of_mention and not any(group is not None for group in of_mention):
        raise _no("mention", (one for one, _ in pairs), (item.mention.type for item in inputs))
    for missing in range(len(groups)) if kb is not None else ():
        if missing not in of_entity:
            mapped = (type_ for kind, type_ in sorted(groups[missing]) if kind == "entity")
            raise _no("entity", mapped, (type_ for entity in entities for type_ in entity.types))
    return Worlds(
        [(item.document.domain, group) for item, group in zip(inputs, of_mention, strict=True)],
        [(entity.domain, group) for entity, group in zip(entities, of_entity, strict=True)],
    )


def _groups(pairs: TypePairs) -> list[set[tuple[str, str]]]:
    """Return the groups of types that pairs join, each type as (``mention`` or ``entity``, type)."""
    groups: list[set[tuple[str, str]]] = []
    for one, other in pairs:
        pair = {("mention", one), ("entity", other)}
        joined = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair] + [pair.union(*joined)]
    return groups


def type_pairs(given: Any) -> TypePairs:
    """Return the pairs of a map from mention types to one or several entity types, of pairs, or of ``A=a,B=b``.

    Raises:
        UsageError: the value is none of these.

    >>> type_pairs({"Disease": ["disease", "symptom"], "Chemical": "drug"})
    (('Disease', 'disease'), ('Disease', 'symptom'), ('Chemical', 'drug'))
    >>> type_pairs("Disease=disease, Chemical=drug")
    (('Disease', 'disease'), ('Chemical', 'drug'))

    """
    told = given
    if isinstance(given, str):
        given = [[type_.strip() for type_ in pair.split("=")] for pair in given.split(",")]
    try:
        pairs = given.items() if isinstance(given, Mapping) else given
        rows = [(one, [others] if isinstance(others, str) else list(others)) for one, others in pairs]
    except (TypeError, ValueError):
        rows = [(None, [])]
    if not all(others and all(type_ and isinstance(type_, str) for type_ in (one, *others)) for one, others in rows):
        raise UsageError(
            "map_types must map mention types to entity types, such as 'Drug=drug' or {'Drug': 'drug'}, "
            f"not {told!r:.80}"
        )
    return tuple((one, other) for one, others in rows for other in others)


def _no(what: str, mapped: Iterable[str], there: Iterable[str | None]) -> UsageError:
    present = ", ".join(sorted({type_ for type_ in there if type_ is not None})[:12]) or "none"
    return UsageError(f"map_types: no {what} has the type {' or '.join(dict.fromkeys(mapped))}; types here: {present}")

"""Worlds: the mentions and entities that are compared with each other, by domain and by mapped types.

Types of mentions can be mapped to types of entities (`LinkerConfig.map_types`), so that a mention of a chemical is
neither linked to a disease nor joins the cluster of one. Types that the map joins, directly or through other types,
form a group; all other mentions and entities form a further group. Mentions are compared only with mentions and
entities of their own domain and group. An entity with types of several groups belongs to the group of its first mapped
type.
"""

import re
from collections.abc import Hashable, Iterable, Sequence

from arbo.data import KnowledgeBase, MentionInput
from arbo.data.inputs import domains_of
from arbo.errors import UsageError, listed
from arbo.retrieval.domains import Rows, rows_by


def mention_worlds(inputs: Sequence[MentionInput], map_types: str | None, *, some: bool = True) -> list[Hashable]:
    """Return the world of each mention: its domain and, with ``map_types``, the group of its type.

    Raise UsageError if ``map_types`` is malformed or, with ``some``, if no mention has a mapped type.
    """
    domains: list[Hashable] = list(domains_of(inputs))
    if map_types is None:
        return domains
    pairs = type_pairs(map_types)
    group_of = _groups(pairs)
    groups = [group_of.get(("mention", item.mention.type or "")) for item in inputs]
    if some and set(groups) == {None}:
        raise _unknown("mention", (one for one, _ in pairs), (item.mention.type for item in inputs))
    return list(zip(domains, groups, strict=True))


def entity_worlds(kb: KnowledgeBase, map_types: str | None) -> dict[Hashable, Rows]:
    """Return the ascending rows of the entities of each world.

    Raise UsageError if a group of mapped types has no entity, or if ``map_types`` is malformed.
    """
    if map_types is None:
        return rows_by(domain for (domain,) in kb.columns("domain"))
    pairs = type_pairs(map_types)
    group_of = _groups(pairs)
    worlds = rows_by(
        (domain, next((group_of["entity", type_] for type_ in types if ("entity", type_) in group_of), None))
        for domain, types in kb.columns("domain", "types")
    )
    there = {world[1] for world in worlds if isinstance(world, tuple)}
    if lost := [other for _, other in pairs if group_of["entity", other] not in there]:
        raise _unknown("entity", lost, (type_ for (types,) in kb.columns("types") for type_ in types))
    return worlds


def unmapped(inputs: Sequence[MentionInput], map_types: str | None) -> str | None:
    """Describe the mentions without a mapped type, if there are some."""
    if map_types is None:
        return None
    mapped = {one for one, _ in type_pairs(map_types)}
    others = [item.mention.type or "" for item in inputs if item.mention.type not in mapped]
    kinds = [kind or "empty" for kind in sorted(set(others))]
    named = ", ".join(kinds[:5]) + (", ..." if len(kinds) > 5 else "")
    told = "they are compared only with each other and with entities without a mapped type"
    return f"{len(others):,} of {len(inputs):,} mentions have no mapped type ({named}): {told}" if others else None


def type_pairs(map_types: str) -> list[tuple[str, str]]:
    """Return the pairs of a mention type and an entity type; raise UsageError if the text is malformed.

    >>> type_pairs("Chemical=drug, Disease=disease")
    [('Chemical', 'drug'), ('Disease', 'disease')]
    >>> type_pairs("T103=Element, Ion, or Isotope,T038=Mental Process")
    [('T103', 'Element, Ion, or Isotope'), ('T038', 'Mental Process')]
    """
    pairs = [[type_.strip() for type_ in pair.split("=")] for pair in re.split(",(?=[^,]*=|$)", map_types)]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise UsageError(
            "map_types must be like 'Chemical=drug,Disease=disease' (type of mentions=type of entities), not "
            f"{map_types!r:.80}"
        )
    return [(one, other) for one, other in pairs]


def _groups(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the code of the group of each type; a type is (``mention`` or ``entity``, name)."""
    group_of: dict[tuple[str, str], int] = {}
    for number, (one, other) in enumerate(pairs):
        pair = [("mention", one), ("entity", other)]
        joined = {group_of[type_] for type_ in pair if type_ in group_of}
        group_of |= dict.fromkeys([*pair, *(type_ for type_, group in group_of.items() if group in joined)], number)
    return group_of


def _unknown(kind: str, mapped: Iterable[str], there: Iterable[str | None]) -> UsageError:
    known = sorted({type_ for type_ in there if type_ is not None})
    mapped = " or ".join(dict.fromkeys(mapped))
    return UsageError(f"map_types: no {kind} has the type {mapped}; {kind} types found: {listed(known, 12) or 'none'}")

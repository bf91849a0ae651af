"""The homonyms of a knowledge base: names that several entities share."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from arbo.text.names import normalize_name

if TYPE_CHECKING:
    from arbo.data.knowledge_base import KnowledgeBase


class Holders(NamedTuple):
    """A name (in all its spellings), an id or a cross-reference; and the ids of the entities that have it.

    >>> print(Holders(("skin", "Skins"), tuple(f"E{number}" for number in range(5000))))
    "skin", "Skins": E0, E1, E2 and 4,997 more
    """

    values: tuple[str, ...]
    entities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the first ten values, the number of entities, and the ids of the first ten entities."""
        return {"values": self.values[:10], "count": len(self.entities), "entities": self.entities[:10]}

    def __str__(self) -> str:
        return f"{_first([json.dumps(value, ensure_ascii=False) for value in self.values])}: {_first(self.entities)}"


class Homonym(NamedTuple):
    """A name that several entities share, and the number of entities whose preferred name it is."""

    holders: Holders
    preferred_by: int


class Spelling(NamedTuple):
    """A name as written, and the row of its entity."""

    name: str
    row: int


Spellings = Mapping[str, list[Spelling]]


def spellings(kb: KnowledgeBase) -> Spellings:
    """Group all names by the result of `normalize_name`; rows ascend."""
    found: defaultdict[str, list[Spelling]] = defaultdict(list)
    for name, row in zip(*kb.names(), strict=True):
        found[normalize_name(name)].append(Spelling(name, row))
    return found


def homonyms(kb: KnowledgeBase, names: Spellings) -> Iterator[Homonym]:
    """Yield the names that several entities share."""
    for written in names.values():
        if written[0].row != written[-1].row:
            preferring = {row for name, row in written if name == kb.entities[row].name}
            held = holders(kb, (row for _, row in written), *(name for name, _ in written))
            yield Homonym(held, len(preferring))


def holders(kb: KnowledgeBase, rows: Iterable[int], *values: str) -> Holders:
    """Return the distinct ids of the entities in these rows, and the distinct values that they share."""
    return Holders(tuple(dict.fromkeys(values)), tuple(kb.entities[row].id for row in dict.fromkeys(rows)))


def _first(texts: Sequence[str], shown: int = 3) -> str:
    more = len(texts) - shown
    return ", ".join(texts[:shown]) + (f" and {more:,} more" if more > 0 else "")

"""Counts of a knowledge base."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from arbo.data import KnowledgeBase
from arbo.errors import listed
from arbo.kb.names import homonyms, ids_of, spellings


@dataclass(frozen=True, slots=True)
class KnowledgeBaseStats:
    """The result of `KnowledgeBase.stats`; `types`, `domains` and `xref_prefixes` begin with the highest count."""

    entities: int
    names: int
    """Number of names and aliases; a repeated name of an entity counts once."""
    distinct_names: int
    """Number of names that still differ after `normalize_name`."""
    ambiguous_names: int
    """Number of distinct names that several entities share."""
    definitions: int
    """Number of entities with a definition."""
    types: dict[str, int]
    domains: dict[str, int]
    xref_prefixes: dict[str, int]
    """Number of cross-references by the prefix before the colon, or by the empty string if there is no colon."""
    alternative_ids: int
    """Number of distinct alternative ids that are no entity's own id."""
    shared_alternative_ids: int
    """Number of these alternative ids that several entities have."""
    notes: dict[str, int]
    """Counts of irregularities in the source."""

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the figures as rows of text, each with a name, a value and the most frequent of its kinds."""
        rows = []
        for name, value in self.as_dict().items():
            counts = value if isinstance(value, dict) else {}
            kinds = listed((f"{kind or 'none'} ({count:,})" for kind, count in counts.items()), 5)
            rows.append((name.replace("_", " "), f"{len(value) if isinstance(value, dict) else value:,}", kinds))
        return rows


def stats(kb: KnowledgeBase) -> KnowledgeBaseStats:
    """Return the counts of a knowledge base."""
    names = spellings(kb)
    _, holders = ids_of(kb)
    return KnowledgeBaseStats(
        entities=len(kb),
        names=len(kb.names().names),
        distinct_names=len(names),
        ambiguous_names=sum(1 for _ in homonyms(kb, names)),
        definitions=sum(bool(text and text.strip()) for (text,) in kb.columns("definition")),
        types=_counted(type_ for (types,) in kb.columns("types") for type_ in types),
        domains=_counted(domain for (domain,) in kb.columns("domain") if domain is not None),
        xref_prefixes=_counted(
            xref.partition(":")[0] if ":" in xref else "" for (xrefs,) in kb.columns("xrefs") for xref in xrefs
        ),
        alternative_ids=len(holders),
        shared_alternative_ids=sum(len(rows) > 1 for rows in holders.values()),
        notes=dict(kb.notes),
    )


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())

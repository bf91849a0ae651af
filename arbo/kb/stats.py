"""Statistics of a knowledge base."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from arbo.data import KnowledgeBase
from arbo.errors import listed
from arbo.kb.names import Holders, homonyms, spellings


@dataclass(frozen=True, slots=True)
class NameLength:
    """Lengths of the names, in characters."""

    mean: float
    median: float
    max: int


@dataclass(frozen=True, slots=True)
class KnowledgeBaseStats:
    """The result of `KnowledgeBase.stats`; `types`, `domains` and `xref_prefixes` begin with the highest count.

    `definitions`, `types` and `domains` count entities. `most_named` and `name_length` are None without entities.
    """

    entities: int
    names: int
    """Number of names and aliases; a repeated name of an entity counts once."""
    distinct_names: int
    """Number of names that still differ after `normalize_name`."""
    names_per_entity: float
    most_names: int
    most_named: str | None
    """Id of the entity with the most names."""
    name_length: NameLength | None
    ambiguous_names: int
    """Number of distinct names that several entities share."""
    most_ambiguous: tuple[Holders, ...]
    definitions: int
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
        return asdict(self) | {"most_ambiguous": [example.as_dict() for example in self.most_ambiguous]}

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the figures as rows of text, each with a name, a value and a remark."""
        xrefs = sum(self.xref_prefixes.values())
        rows = [
            ("entities", f"{self.entities:,}", ""),
            ("names", f"{self.names:,}", f"{self.distinct_names:,} differ by more than case, accents and plural"),
        ]
        if self.name_length is not None:
            length = self.name_length
            most = f"at most {self.most_names:,} ({self.most_named})"
            rows += [
                ("names per entity", f"{self.names_per_entity:.1f}", most),
                ("name length", f"{length.mean:.1f}", f"characters; median {length.median:g}, at most {length.max:,}"),
            ]
        ambiguous = _share(self.ambiguous_names, self.distinct_names, "names")
        rows += [
            ("ambiguous names", f"{self.ambiguous_names:,}", ambiguous),
            ("definitions", f"{self.definitions:,}", _share(self.definitions, self.entities, "entities")),
            ("types", f"{len(self.types):,}", _most(self.types)),
            ("domains", f"{len(self.domains):,}", _most(self.domains)),
            ("cross-references", f"{xrefs:,}", _most(self.xref_prefixes)),
            ("alternative ids", f"{self.alternative_ids:,}", f"{self.shared_alternative_ids:,} of several entities"),
        ]
        return rows + [("while reading", f"{count:,}", note) for note, count in self.notes.items()]


def stats(kb: KnowledgeBase, *, examples: int = 5) -> KnowledgeBaseStats:
    """Return the statistics of a knowledge base, with up to ``examples`` ambiguous names."""
    names, rows = kb.names()
    lengths = [len(name) for name in names]
    fullest = Counter(rows).most_common(1)
    found = spellings(kb)
    ambiguous = sorted((held for held, _ in homonyms(kb, found)), key=lambda held: -len(held.entities))
    alternative = [id_ for id_, row in kb.row_of.items() if kb.entities[row].id != id_]
    return KnowledgeBaseStats(
        entities=len(kb),
        names=len(names),
        distinct_names=len(found),
        names_per_entity=len(names) / len(kb) if len(kb) else 0.0,
        most_names=fullest[0][1] if fullest else 0,
        most_named=kb.entities[fullest[0][0]].id if fullest else None,
        name_length=NameLength(sum(lengths) / len(lengths), median(lengths), max(lengths)) if lengths else None,
        ambiguous_names=len(ambiguous),
        most_ambiguous=tuple(ambiguous[:examples]),
        definitions=sum(bool(entity.definition and entity.definition.strip()) for entity in kb),
        types=_counted(type_ for entity in kb for type_ in entity.types),
        domains=_counted(entity.domain for entity in kb if entity.domain is not None),
        xref_prefixes=_counted(xref.partition(":")[0] if ":" in xref else "" for entity in kb for xref in entity.xrefs),
        alternative_ids=len(alternative),
        shared_alternative_ids=sum(len(kb.rows(id_)) > 1 for id_ in alternative),
        notes=dict(kb.notes),
    )


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _share(part: int, whole: int, of: str) -> str:
    return f"{part / whole:.1%} of the {of}" if whole else ""


def _most(counts: dict[str, int]) -> str:
    return listed((f"{name or 'none'} ({count:,})" for name, count in counts.items()), 5)

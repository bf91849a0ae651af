"""Make out-of-KB data sets: withhold entities from a knowledge base, so that their mentions become NIL.

Documents do not change: a gold id that is missing from the knowledge base counts as NIL. This is the method of Wiatrak
et al. 2022 (Proxy-based zero-shot entity linking by effective candidate retrieval, section 5.1 and appendix D). They
withheld entities of `PEL_NIL` for MedMentions, and checked that NIL mentions are neither easier nor harder than
other mentions: their entities and names occur in training as often, and their entities are defined as often.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from arbo.data import Corpus, Entity, KnowledgeBase, Mention
from arbo.data.gold import Gold
from arbo.errors import UsageError, listed
from arbo.metrics import Table, ratio

PEL_NIL = {
    "Mental Process": "T041",
    "Health Care Activity": "T058",
    "Laboratory Procedure": "T059",
    "Diagnostic Procedure": "T060",
    "Medical Device": "T074",
    "Regulation or Law": "T089",
    "Organization": "T092",
    "Health Care Related Organization": "T093",
    "Professional Society": "T094",
    "Professional or Occupational Group": "T097",
    "Element, Ion, or Isotope": "T196",
}
"""The eleven semantic types of UMLS that the paper withholds, with their ids; the paper prints the first twice."""


@dataclass(frozen=True, slots=True)
class Check:
    """Counts over the mentions of one part of a data set; training means the first part."""

    mentions: int
    """Number of mentions with an entity in the whole knowledge base."""
    entities: int
    """Number of distinct entities of these mentions."""
    entities_seen: int
    """Number of these entities that have a mention in training."""
    mentions_seen: int
    """Number of mentions whose entity has a mention in training."""
    names_seen: int
    """Number of mentions with the same text as a training mention of any entity; case is ignored."""
    defined: int
    """Number of these entities that have a definition."""
    definition_length: float
    """Median length of the definitions in characters; 0 if there are none."""

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """The numerator and the denominator of each ratio, by its name."""
        return {
            "entities_seen_share": (self.entities_seen, self.entities),
            "mentions_seen_share": (self.mentions_seen, self.mentions),
            "names_seen_share": (self.names_seen, self.mentions),
            "defined_share": (self.defined, self.entities),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios by name, ready for JSON."""
        return asdict(self) | {name: ratio(*counts) for name, counts in self.shares.items()}


@dataclass(frozen=True, slots=True)
class PartChecks:
    """The checks of a part of a data set."""

    nil: Check
    """Mentions that became NIL, since all their entities are withheld."""
    all: Check


@dataclass(frozen=True, eq=False, slots=True)
class NilSplit:
    """A knowledge base without some of its entities, and checks of the new NIL mentions; see `nil_split`."""

    kb: KnowledgeBase
    """The remaining entities."""
    withheld: KnowledgeBase
    checks: Mapping[str, PartChecks]
    """The checks of each part of the documents, by the name of the part; the first part is for training."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, ready for JSON."""
        checks = {name: {"nil": part.nil.as_dict(), "all": part.all.as_dict()} for name, part in self.checks.items()}
        return {"entities": len(self.kb), "withheld": len(self.withheld), "checks": checks}

    def table(self) -> Table:
        """Return the checks as a table: NIL mentions, then all mentions, for each part."""
        columns = ("entities seen", "mentions seen", "names seen", "entities defined", "characters")
        rows = [
            (name, kind, *_figures(check))
            for name, part in self.checks.items()
            for kind, check in (("NIL", part.nil), ("all", part.all))
        ]
        title = f"{len(self.withheld):,} of {len(self.withheld) + len(self.kb):,} entities withheld"
        seen = f"seen: occurs in {next(iter(self.checks), 'training')}, ignoring case in names; "
        remarks = (
            f"{seen}characters: median length of the definitions",
            "if NIL differs much from all, a system can recognise NIL mentions by this difference",
        )
        return Table.of_texts(title, ("", "", "mentions", "entities", *columns), rows, 2, remarks)

    def __str__(self) -> str:
        return str(self.table())


def nil_split(
    kb: KnowledgeBase,
    documents: Mapping[str, Iterable[Any]],
    *,
    types: str | Iterable[str] = (),
    ids: str | Iterable[str] = (),
    branches: str | Iterable[str] = (),
    parents: Mapping[str, Sequence[str]] | None = None,
) -> NilSplit:
    """Withhold entities from a knowledge base, and compare the new NIL mentions with all mentions.

    >>> from arbo import Entity, KnowledgeBase
    >>> kb = KnowledgeBase([Entity("A", "organ"), Entity("B", "kidney"), Entity("C", "fever")])
    >>> split = nil_split(kb, {}, branches="A", parents={"B": ["A"]})
    >>> [entity.name for entity in split.kb], [entity.name for entity in split.withheld]
    (['fever'], ['organ', 'kidney'])

    Args:
        kb: the whole knowledge base.
        documents: maps the name of each part (such as ``train``) to its documents; the training part comes first.
        types: withhold entities with one of these types; ``"pel-nil"`` stands for all in `PEL_NIL` that entities
            have, and an id in it for its name, unless entities have the id as a type.
        ids: withhold entities with one of these ids or alternative ids.
        branches: withhold entities with one of these ids or alternative ids, and all their descendants.
        parents: maps each id or alternative id to the ids of its parents; required with ``branches``.
            `arbo.formats.obo.read_obo_parents` reads them from OBO files.

    Raises:
        UsageError: a type or id is unknown, required ``parents`` are missing, or none or all entities are withheld.
    """
    types, ids, branches = _set(types), _set(ids), _set(branches)
    if not (types or ids or branches):
        raise UsageError("withhold some types, ids or branches (--withhold-type, --withhold-id or --withhold-branch)")
    if branches and parents is None:
        raise UsageError("branches need the parents of each id; pass parents=read_obo_parents(file), for example")
    of_types = kb.of_types(_named(kb, types)) if types else ()
    gone = {*(kb.row_of[entity.id] for entity in of_types), *_rows(kb, ids)}
    gone |= _below(kb, _rows(kb, branches), parents or {})
    if not 0 < len(gone) < len(kb):
        raise UsageError(f"{len(gone):,} of {len(kb):,} entities would be withheld; withhold and keep at least one")
    parts = {name: Corpus.of(part) for name, part in documents.items()}
    return NilSplit(
        remaining(kb, gone),
        KnowledgeBase(entity for row, entity in enumerate(kb) if row in gone),
        _checks(kb, gone, parts),
    )


def _set(values: str | Iterable[str]) -> set[str]:
    return {values} if isinstance(values, str) else set(values)


def _named(kb: KnowledgeBase, types: set[str]) -> set[str]:
    """Replace `pel-nil` by the types of the set, and their ids by their names unless an entity has the id as a type."""
    present = {type_ for (own,) in kb.columns("types") for type_ in own}
    name_of = {id_: name for name, id_ in PEL_NIL.items() if id_ not in present}
    sets = {type_ for type_ in types if type_.lower() == "pel-nil"}
    of_sets = present & {*PEL_NIL, *PEL_NIL.values()} if sets else set()
    if sets and not of_sets:
        known = listed(sorted(present), 12) or "none"
        raise UsageError(f"no entity has a type of pel-nil, a set of types of UMLS; types of entities: {known}")
    return of_sets | {name_of.get(type_, type_) for type_ in types - sets}


def _rows(kb: KnowledgeBase, ids: set[str]) -> set[int]:
    if missing := sorted(id_ for id_ in ids if id_ not in kb):
        raise UsageError(f"no entity has the id or alternative id {' or '.join(missing)}")
    return {row for id_ in ids for row in kb.rows(id_)}


def _below(kb: KnowledgeBase, tops: set[int], parents: Mapping[str, Sequence[str]]) -> set[int]:
    """Return the rows of these entities and of all their descendants, even if reached through ids without an entity."""
    children: defaultdict[int | str, set[int | str]] = defaultdict(set)
    for id_, above in parents.items():
        for parent in above:
            for node in kb.rows(parent) or (parent,):
                children[node].update(kb.rows(id_) or (id_,))
    found: set[int | str] = {*tops}
    waiting = [*found]
    while waiting:
        new = children[waiting.pop()] - found  # a circle ends here
        found |= new
        waiting += new
    return {node for node in found if isinstance(node, int)}


def remaining(kb: KnowledgeBase, gone: Collection[int]) -> KnowledgeBase:
    """Return the entities but those in the rows ``gone``; no id means an entity that it did not mean before."""
    return KnowledgeBase(_answering_alike(kb, row) for row in range(len(kb)) if row not in gone)


def _answering_alike(kb: KnowledgeBase, row: int) -> Entity:
    """Return an entity without other entities' own ids among its alternative ids, since those may be withheld."""
    entity = kb.entities[row]
    ids = tuple(id_ for id_ in entity.alternative_ids if row in kb.rows(id_))
    return entity if ids == entity.alternative_ids else replace(entity, alternative_ids=ids)


def _checks(kb: KnowledgeBase, gone: set[int], parts: Mapping[str, Corpus]) -> dict[str, PartChecks]:
    of_part = {
        name: [(mention, {*rows}) for mention, rows in zip(part.mentions, Gold.of(part, kb).lists, strict=True) if rows]
        for name, part in parts.items()
    }
    training = next(iter(of_part.values()), [])
    entities = {row for _, rows in training for row in rows}
    names = {mention.text.casefold() for mention, _ in training}

    def check(mentions: list[tuple[Mention, set[int]]]) -> Check:
        own = {row for _, rows in mentions for row in rows}
        lengths = [len(text) for row in own if (text := (kb.entities[row].definition or "").strip())]
        return Check(
            mentions=len(mentions),
            entities=len(own),
            entities_seen=len(own & entities),
            mentions_seen=sum(not rows.isdisjoint(entities) for _, rows in mentions),
            names_seen=sum(mention.text.casefold() in names for mention, _ in mentions),
            defined=len(lengths),
            definition_length=median(lengths) if lengths else 0.0,
        )

    return {
        name: PartChecks(check([(mention, rows) for mention, rows in mentions if rows <= gone]), check(mentions))
        for name, mentions in of_part.items()
    }


def _figures(check: Check) -> Iterator[str]:
    yield f"{check.mentions:,}"
    yield f"{check.entities:,}"
    for part, whole in check.shares.values():
        yield f"{part / whole:.1%}" if whole else ""
    yield f"{check.definition_length:g}"

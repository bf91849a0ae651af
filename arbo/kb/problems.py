"""Problems of a knowledge base, and how to fix them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from arbo.kb.homonyms import Holders, Homonym, Spellings, holders, homonyms, spellings
from arbo.kb.names import generic_names

if TYPE_CHECKING:
    from arbo.data.knowledge_base import KnowledgeBase

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem: an error loses data or makes an entity impossible to find, while a warning does not."""

    kind: str
    severity: Severity
    count: int
    """Number of occurrences."""
    wrong: str
    mend: str
    examples: tuple[Holders, ...] = ()
    """Examples, sorted by the number of their entities, largest first."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields by name, ready for JSON."""
        return asdict(self) | {"examples": [example.as_dict() for example in self.examples]}


def problems(kb: KnowledgeBase, *, examples: int = 3) -> tuple[Problem, ...]:
    """Return the problems of a knowledge base, errors first; see `KnowledgeBase.problems`."""
    held = _held(kb)
    found = []
    for note, count in kb.notes.items():
        if note in _NOTES:
            kind, severity, mend = _NOTES[note]
            found.append(Problem(kind, severity, count, note, mend))
    for kind, severity, wrong, mend, find in _CHECKS:
        cases = sorted(find(kb, held), key=lambda case: -len(case.entities))
        if cases:
            found.append(Problem(kind, severity, len(cases), wrong, mend, tuple(cases[:examples])))
    if not len(kb):
        found.append(Problem("empty", "error", 1, "no entities", "check the path and the format"))
    return tuple(sorted(found, key=lambda problem: problem.severity))


# Notes of readers that are problems, with kind, severity and solution. Other notes, as on obsolete terms, are not.
_NOTES: dict[str, tuple[str, Severity, str]] = {
    "malformed entities skipped": ("malformed-entity", "error", "correct the lines that the reader named"),
    "malformed synonyms ignored": ("malformed-synonym", "error", 'write `synonym: "text" EXACT []`'),
    "malformed definitions ignored": ("malformed-definition", "error", 'write `def: "text" []`'),
    "terms named by their id": ("no-name", "warning", "give them names; texts do not mention ids"),
    "empty aliases dropped": ("empty-alias", "warning", "leave them out"),
    "duplicate entities dropped": ("duplicate-entity", "warning", "write each entity once"),
}


class _Held(NamedTuple):
    """Values that several checks need, computed once."""

    names: Spellings
    indistinguishable: list[Holders]
    homonyms: list[Homonym]  # homonyms whose entities differ in other names


def _held(kb: KnowledgeBase) -> _Held:
    names = spellings(kb)
    alike = list(_alike(kb, names))
    told = {group.entities for group in alike}
    return _Held(names, alike, [homonym for homonym in homonyms(kb, names) if homonym.holders.entities not in told])


def _alike(kb: KnowledgeBase, names: Spellings) -> Iterator[Holders]:
    """Yield the groups of entities that have the same names."""
    names_of: defaultdict[int, list[str]] = defaultdict(list)
    for name, written in names.items():
        for row in dict.fromkeys(spelling.row for spelling in written):
            names_of[row].append(name)
    alike: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for row, own in names_of.items():
        alike[frozenset(own)].append(row)
    return (holders(kb, rows, *(kb.entities[row].name for row in rows)) for rows in alike.values() if len(rows) > 1)


Find = Callable[["KnowledgeBase", _Held], Iterable[Holders]]
_CHECKS: list[tuple[str, Severity, str, str, Find]] = []
"""Kind, severity, fault and solution of each problem, and the function that finds its cases."""


def _check(kind: str, severity: Severity, wrong: str, mend: str) -> Callable[[Find], Find]:
    """Add the decorated function, which finds the cases of a problem, to `_CHECKS`."""

    def enter(find: Find) -> Find:
        _CHECKS.append((kind, severity, wrong, mend, find))
        return find

    return enter


@_check(
    "unreachable",
    "error",
    "entities without a visible name: only combining marks or zero-width characters",
    "give them visible names",
)
def _unreachable(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    seen = {row for name, written in held.names.items() if any(map(str.isprintable, name)) for _, row in written}
    return (Holders((entity.name,), (entity.id,)) for row, entity in enumerate(kb) if row not in seen)


@_check("padded-id", "error", "ids that begin or end with white space: annotations will not match them", "strip them")
def _padded_ids(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    for row, entity in enumerate(kb):
        yield from (holders(kb, [row], id_) for id_ in (entity.id, *entity.alternative_ids) if id_ != id_.strip())


@_check(
    "indistinguishable",
    "warning",
    "groups of entities whose names differ only in case, accents, punctuation or plural",
    "merge them, or give each a distinct name",
)
def _indistinguishable(kb: KnowledgeBase, held: _Held) -> list[Holders]:
    return held.indistinguishable


@_check(
    "same-name",
    "warning",
    "preferred names that several entities share, although their other names differ",
    "choose different preferred names; ties go to the first entity",
)
def _same_names(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return (homonym.holders for homonym in held.homonyms if homonym.preferred_by > 1)


@_check(
    "name-is-alias",
    "warning",
    "preferred names that are also an alias of another entity",
    "drop the alias unless texts use it; by default the entity with the preferred name wins",
)
def _names_that_are_aliases(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return (homonym.holders for homonym in held.homonyms if homonym.preferred_by == 1)


@_check(
    "shared-alias",
    "warning",
    "aliases that several entities share",
    "drop aliases that identify no entity; ties go to the first entity",
)
def _shared_aliases(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return (homonym.holders for homonym in held.homonyms if homonym.preferred_by == 0)


@_check(
    "generic-name",
    "warning",
    "single-word names that end the names of many other entities, so that texts use them for any of these",
    "link without them (--no-generic-names), or remove them (arbo kb remove-names --generic)",
)
def _generic_names(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return generic_names(kb, held.names)


@_check(
    "single-character",
    "warning",
    "names of a single character",
    "drop them unless your texts use them; they match all abbreviations of a single character",
)
def _single_characters(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    written = (spelling for same in held.names.values() for spelling in same)
    return (holders(kb, [row], name) for name, row in written if len(name.strip()) == 1)


@_check("number", "warning", "names that are only digits", "drop or complete them; they match any such number")
def _numbers(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    numbers = (name for name in held.names if name.replace(" ", "").isdigit() and len(name) > 1)
    return (holders(kb, [row], name) for number in numbers for name, row in held.names[number])


@_check(
    "alternative-id-taken",
    "warning",
    "alternative ids that are also another entity's own id, which takes precedence",
    "drop the alternative id, or the other entity if it was merged",
)
def _alternative_ids_taken(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    for entity in kb:
        for id_ in dict.fromkeys(entity.alternative_ids):
            if id_ != entity.id and kb[id_].id == id_:
                yield Holders((id_,), (entity.id,))


@_check(
    "alternative-id-shared",
    "warning",
    "alternative ids that several entities share: each entity counts as correct",
    "keep each id for one entity, unless the mapping is meant to be many to many",
)
def _alternative_ids_shared(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return (holders(kb, rows, id_) for id_ in kb.row_of if len(rows := kb.rows(id_)) > 1)


@_check("id-with-blanks", "warning", "ids with white space inside: several formats cannot store them", "rename them")
def _ids_with_blanks(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    return (Holders((entity.id,), (entity.id,)) for entity in kb if len(entity.id.split()) > 1)


@_check("empty-definition", "warning", "empty definitions", "write null, or leave them out")
def _empty_definitions(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    empty = (entity for entity in kb if entity.definition is not None and not entity.definition.strip())
    return (Holders((entity.name,), (entity.id,)) for entity in empty)


@_check(
    "xref-without-prefix",
    "warning",
    "cross-references without the form PREFIX:ID",
    "complete them, or drop them; --kb-xrefs cannot use them",
)
def _xrefs_without_prefix(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    for entity in kb:
        for xref in entity.xrefs:
            prefix, _, concept = xref.partition(":")
            if not (prefix.strip() and concept.strip()):
                yield Holders((xref,), (entity.id,))


@_check("repeated-xref", "warning", "repeated cross-references of an entity", "write each once")
def _repeated_xrefs(kb: KnowledgeBase, held: _Held) -> Iterator[Holders]:
    for entity in kb:
        seen: set[str] = set()
        for xref in entity.xrefs:
            if xref in seen:
                yield Holders((xref,), (entity.id,))
            seen.add(xref)

"""Counts of a knowledge base, and its problems and how to fix them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

from arbo.data import KnowledgeBase, grouped
from arbo.errors import listed
from arbo.kb.names import Example, Spellings, example_of, generic_names, homonyms, ids_of, spellings


def figures_of(kb: KnowledgeBase) -> dict[str, Any]:
    """Count what is in a knowledge base; counts by kind begin with the highest.

    A name that an entity repeats counts once; names are distinct after `normalize_name`, and ambiguous if several
    entities share them. ``alternative_ids`` are no entity's own id. Without a colon, the prefix of an xref is "".
    """
    names = spellings(kb)
    _, holders = ids_of(kb)
    prefixes = (xref.partition(":")[0] if ":" in xref else "" for (xrefs,) in kb.columns("xrefs") for xref in xrefs)
    return {
        "entities": len(kb),
        "names": len(kb.names().names),
        "distinct_names": len(names),
        "ambiguous_names": sum(1 for _ in homonyms(kb, names)),
        "definitions": sum(bool(text and text.strip()) for (text,) in kb.columns("definition")),
        "types": _counted(type_ for (types,) in kb.columns("types") for type_ in types),
        "domains": _counted(domain for (domain,) in kb.columns("domain") if domain is not None),
        "xref_prefixes": _counted(prefixes),
        "alternative_ids": len(holders),
        "shared_alternative_ids": sum(len(rows) > 1 for rows in holders.values()),
        "notes": dict(kb.notes),
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def figure_cells(name: str, value: Any) -> tuple[str, str, str]:
    """Return a figure as the cells of a row: its name, its value and, of counts by kind, the most frequent kinds."""
    counts = value if isinstance(value, dict) else {}
    kinds = listed((f"{kind or 'none'} ({count:,})" for kind, count in counts.items()), 5)
    return name.replace("_", " "), f"{len(value) if isinstance(value, dict) else value:,}", kinds


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem: an error loses data, or leaves an entity or id that nothing can match; a warning may not."""

    kind: str
    severity: str
    count: int
    wrong: str
    solution: str
    examples: tuple[Example, ...] = ()  # examples, sorted by the number of their entities, largest first

    def as_dict(self) -> dict[str, Any]:
        """Return all fields by name, ready for JSON."""
        return asdict(self) | {"examples": [example.as_dict() for example in self.examples]}


def problems_of(kb: KnowledgeBase) -> tuple[Problem, ...]:
    """Return the problems of each kind, errors first."""
    names = spellings(kb)
    generic = (("generic-name", case) for case in generic_names(kb, names))
    cases = grouped(chain(generic, _shared_names(kb, names), _ids(kb)))
    problems = []
    for kind, (wrong, solution) in _KINDS.items():
        if count := len(cases[kind]) or kb.notes.get(wrong, 0) or (kind == "empty" and not len(kb)):
            examples = sorted(cases[kind], key=lambda case: -len(case.entities))[:3]
            severity = "error" if kind in ("empty", "padded-id") or kind.startswith("malformed") else "warning"
            problems.append(Problem(kind, severity, int(count), wrong, solution, tuple(examples)))
    return tuple(sorted(problems, key=lambda problem: problem.severity))


_KINDS: dict[str, tuple[str, str]] = {
    # notes of readers; others, as on obsolete terms, are no problem
    "malformed-entity": ("malformed entities skipped", "correct the places that the warnings named"),
    "malformed-line": ("malformed lines skipped", "correct the places that the warnings named"),
    "malformed-synonym": ("malformed synonyms ignored", 'write `synonym: "text" EXACT []`'),
    "malformed-definition": ("malformed definitions ignored", 'write `def: "text" []`'),
    "no-name": ("terms named by their id", "give the terms names, since texts do not mention ids"),
    "empty-alias": ("empty aliases dropped", "leave them out"),
    "duplicate-entity": ("duplicate entities dropped", "write each entity once"),
    "empty": ("no entities", "check the path and the format"),
    "padded-id": ("ids that begin or end with white space: annotations will not match them", "strip them"),
    "indistinguishable": (
        "groups of entities whose names differ only in case, accents, punctuation, plural or the order of words",
        "merge them if they are one; otherwise only exact spelling tells them apart",
    ),
    "same-name": (
        "preferred names that several entities share, although their other names differ",
        "choose different preferred names; ties go to the first entity",
    ),
    "name-is-alias": (
        "preferred names that are also an alias of another entity",
        "drop the alias unless texts use it; by default the entity with the preferred name wins",
    ),
    "shared-alias": (
        "aliases that several entities share",
        "drop aliases that identify no entity; ties go to the first entity",
    ),
    "generic-name": (
        "single-word names that end the names of many other entities, so that texts use them for any of these",
        "leave them out (--set generic_names=false, of arbo link and arbo kb edit)",
    ),
    "alternative-id-taken": (
        "alternative ids that are also another entity's own id, which takes precedence",
        "drop the alternative id, or the other entity if it was merged",
    ),
    "alternative-id-shared": (
        "alternative ids that several entities share: each entity counts as correct",
        "keep each id for one entity, unless the mapping is meant to be many to many",
    ),
}
"""Fault and solution of each kind of problem, in the order in which they are reported."""


def _shared_names(kb: KnowledgeBase, names: Spellings) -> Iterator[tuple[str, Example]]:
    """Yield the groups of entities that have the same names, and the homonyms whose entities differ in others."""
    words_of = {form: " ".join(sorted({*form.split()})) for form in names}  # search knows no order and no repetition
    by_words = grouped((words_of[form], one) for form, written in names.items() for one in written)
    names = {words: sorted(written, key=itemgetter(1)) for words, written in by_words.items()}
    named = ((row, name) for name, written in names.items() for row in dict.fromkeys(row for _, row in written))
    alike = grouped((frozenset(shared), row) for row, shared in grouped(named).items())
    reported = set()
    for rows in alike.values():
        if len(rows) > 1:
            case = example_of(kb, rows, *(kb.entities[row].name for row in rows))
            reported.add(case.entities)
            yield "indistinguishable", case
    for case, preferred_by in homonyms(kb, names):
        if case.entities not in reported:
            yield ("shared-alias", "name-is-alias", "same-name")[min(preferred_by, 2)], case


def _ids(kb: KnowledgeBase) -> Iterator[tuple[str, Example]]:
    ids, holders = ids_of(kb)
    for row, (own, others) in enumerate(kb.columns("id", "alternative_ids")):
        for id_ in (own, *others):
            if id_ != id_.strip():
                yield "padded-id", example_of(kb, [row], id_)
        for id_ in dict.fromkeys(others):
            if id_ != own and id_ in ids:
                yield "alternative-id-taken", example_of(kb, [row], id_)
    for id_, rows in holders.items():
        if len(rows) > 1:
            yield "alternative-id-shared", example_of(kb, rows, id_)

"""Share code between readers of ontologies: flags, and the ids of obsolete terms."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.formats.files import Paths, Piece, read_items


class Obsolete(NamedTuple):
    """The ids of an obsolete term, its own first, and the ids of the terms that replace it."""

    ids: tuple[str, ...]
    replacements: tuple[str, ...]


def is_true(value: object) -> bool:
    """Return whether a flag is set: true, "true", "True", 1 or "1"."""
    return str(value).strip().lower() in ("true", "1")


def read_entities(
    path: Paths,
    suffixes: tuple[str, ...],
    pieces: Callable[[Path, Records[Entity]], Iterable[Piece]],
    build: Callable[[Piece, Records[Entity]], Entity | Obsolete | None],
    on_error: OnError = "fail",
) -> KnowledgeBase:
    """Read the entities of files, see `read_items`; ``build`` returns `Obsolete` for a term that is obsolete.

    Each entity has the ids of obsolete terms whose chain of single replacements ends in it.
    """
    obsolete: list[Obsolete] = []

    def build_live(piece: Piece, records: Records[Entity]) -> Entity | None:
        if not isinstance(made := build(piece, records), Obsolete):
            return made
        obsolete.append(made)
        return None

    records = read_items(path, suffixes, pieces, build_live, Records("entities", on_error))
    records.notes["obsolete terms ignored"] += len(obsolete)
    successor = {ids[0]: replacements[0] for ids, replacements in obsolete if len(replacements) == 1}
    merged: defaultdict[str, list[str]] = defaultdict(list)
    for ids, _ in obsolete:
        end, seen = ids[0], set[str]()
        while end not in records.ids and end in successor and end not in seen:
            seen.add(end)
            end = successor[end]
        if end in records.ids:
            merged[end] += ids
            records.notes["obsolete terms mapped to their replacement"] += 1
    kb = KnowledgeBase(records)
    return kb.with_alternative_ids(merged.get(id_, ()) for (id_,) in kb.columns("id")) if merged else kb

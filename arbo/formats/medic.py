"""Read the format of MEDIC, the disease vocabulary of CTD, with one concept per line.

    D010190|260350||Pancreatic Neoplasms|Cancer of Pancreas|...

The fields are id, alternative ids, an empty field, the preferred name, and synonyms. Corpora write ids with or without
the name of their source, so each id is accepted in both forms: `260350` (digits, from OMIM) also as `OMIM:260350`, and
`D010190` (C or D and digits, from MeSH) also as `MESH:D010190`. If an alternative id is another concept's own id, both
forms mean that other concept.
"""

import re
from collections.abc import Container

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.formats.files import Piece, line_pieces, read_items

SUFFIXES = (".txt",)

_OMIM = re.compile(r"[0-9]+")
_MESH = re.compile(r"[CD][0-9]+")


def read_medic(path: PathLike, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a MEDIC file, or all `.txt` files of a folder."""
    records = read_items(path, SUFFIXES, line_pieces, _entity, Records("entities", on_error))
    return KnowledgeBase((_with_prefixes(entity, records.ids) for entity in records), records.notes)


def _entity(piece: Piece, _: object) -> Entity:
    ids, bars, names = piece.content.partition("||")
    entity_id, *alternatives = ids.split("|")
    if not bars:
        raise DataError("expected id|alternative ids||name|synonyms, but the line has no ||", id=entity_id[:60])
    name, *aliases = names.split("|")
    return Entity(entity_id, name, tuple(aliases), alternative_ids=tuple(alternatives))


def _with_prefixes(entity: Entity, ids: Container[str]) -> Entity:
    bare = [entity.id, *entity.alternative_ids]
    prefixed = (_prefixed(name) for name in bare if name == entity.id or name not in ids)
    alternatives = (*entity.alternative_ids, *(name for name in prefixed if name is not None))
    return Entity(entity.id, entity.name, entity.aliases, alternative_ids=alternatives)


def _prefixed(bare: str) -> str | None:
    if _OMIM.fullmatch(bare):
        return f"OMIM:{bare}"
    return f"MESH:{bare}" if _MESH.fullmatch(bare) else None

"""Read the format of MEDIC, the disease vocabulary of CTD, with one concept per line.

    D010190|260350||Pancreatic Neoplasms|Cancer of Pancreas|...

The fields are id, alternative ids, an empty field, the preferred name, and synonyms. Corpora write ids with or without
the name of their source, so each id is accepted in both forms: `260350` (digits, from OMIM) also as `OMIM:260350`, and
`D010190` (C or D and digits, from MeSH) also as `MESH:D010190`. If an alternative id is another concept's own id, both
forms mean that other concept.
"""

import re

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError
from arbo.formats.files import Paths, Piece, line_pieces, read_items

SUFFIXES = (".txt",)

_OMIM = re.compile(r"[0-9]+")
_MESH = re.compile(r"[CD][0-9]+")


def read_entities(path: Paths, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a MEDIC file, or all `.txt` files of a folder."""
    kb = KnowledgeBase(read_items(path, SUFFIXES, line_pieces, _entity, Records("entities", on_error)))
    ids = {id_ for (id_,) in kb.columns("id")}
    return kb.with_alternative_ids(
        filter(None, (_prefixed(name) for name in (id_, *others) if name == id_ or name not in ids))
        for id_, others in kb.columns("id", "alternative_ids")
    )


def _entity(piece: Piece, _: object) -> Entity:
    ids, bars, names = piece.content.partition("||")
    entity_id, *alternatives = ids.split("|")
    if not bars:
        raise DataError("expected id|alternative ids||name|synonyms, but the line has no ||", id=entity_id[:60])
    name, *aliases = names.split("|")
    return Entity(entity_id, name, tuple(aliases), alternative_ids=tuple(alternatives))


def _prefixed(bare: str) -> str | None:
    if _OMIM.fullmatch(bare):
        return f"OMIM:{bare}"
    return f"MESH:{bare}" if _MESH.fullmatch(bare) else None

"""Read the format of MEDIC, the disease vocabulary of CTD, with one concept per line.

    D010190|260350||Pancreatic Neoplasms|Cancer of Pancreas|...

The fields are id, alternative ids, an empty field, the preferred name, and synonyms. Corpora write ids with or without
the name of their source, so each id is accepted in both forms: `260350` (digits, from OMIM) also as `OMIM:260350`,
`D010190` (C or D and digits, from MeSH) also as `MESH:D010190`, and `C0030297` (seven digits) as `UMLS:C0030297`. If an
alternative id is another concept's own id, both forms mean that other concept. Lines with the same ids, as in the
dictionaries of BioSyn and SapBERT (`id||name`), are one entity, named by the first.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError
from arbo.formats.files import Block, Paths, Piece, read_items, read_lines

SUFFIXES = (".txt",)

_SOURCES = {"OMIM": re.compile(r"[0-9]+"), "UMLS": re.compile(r"C[0-9]{7}"), "MESH": re.compile(r"[CD][0-9]+")}


def read_entities(path: Paths, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a MEDIC file, or all `.txt` files of a folder."""
    kb = KnowledgeBase(read_items(path, SUFFIXES, _pieces, _entity, Records("entities", on_error)))
    ids = {id_ for (id_,) in kb.columns("id")}
    return kb.with_alternative_ids(
        filter(None, (_prefixed(name) for name in (id_, *others) if name == id_ or name not in ids))
        for id_, others in kb.columns("id", "alternative_ids")
    )


def _pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the lines with the same ids."""
    lines: defaultdict[str, Block] = defaultdict(list)
    for number, line in read_lines(file):
        if line.strip():
            lines[line.partition("||")[0]].append((number, line))
    return (Piece((ids, block), file, block[0][0]) for ids, block in lines.items())


def _entity(piece: Piece, _: object) -> Entity:
    ids, block = piece.content
    entity_id, *alternatives = ids.split("|")
    if "||" not in block[0][1]:
        raise DataError("expected id|alternative ids||name|synonyms, but the line has no ||", id=entity_id[:60])
    name, *aliases = dict.fromkeys(name for _, line in block for name in line.partition("||")[2].split("|"))
    return Entity(entity_id, name, tuple(aliases), alternative_ids=tuple(alternatives))


def _prefixed(bare: str) -> str | None:
    return next((f"{source}:{bare}" for source, ids in _SOURCES.items() if ids.fullmatch(bare)), None)

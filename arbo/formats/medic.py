"""Read the format of MEDIC, the disease vocabulary of CTD, with one concept per line.

    D010190|260350||Pancreatic Neoplasms|Cancer of Pancreas|...

The fields are id, alternative ids, an empty field, the preferred name, and synonyms. Corpora write ids with or without
the name of their source, so each id is accepted in both forms: `260350` (digits, from OMIM) also as `OMIM:260350`,
`D010190` (C or D and digits, from MeSH) also as `MESH:D010190`, and `C0030297` (seven digits) as `UMLS:C0030297`. If an
alternative id is another concept's own id in the file, both forms mean that other. Lines with the same ids, as in the
dictionaries of BioSyn and SapBERT (`id||name`), are one entity, named by the first.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from arbo.data import Entity, grouped
from arbo.errors import DataError
from arbo.formats.files import Piece, read_lines

SUFFIXES = (".txt",)

_SOURCES = {"OMIM": r"[0-9]+", "UMLS": r"C[0-9]{7}", "MESH": r"(?!C[0-9]{7}\Z)[CD][0-9]+"}


def pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the lines with the same ids, and the concepts' own ids."""
    lines = grouped((line.partition("||")[0], (number, line)) for number, line in read_lines(file) if line.strip())
    own = {ids.partition("|")[0] for ids in lines}
    return (Piece((ids.split("|"), block, own), file, block[0][0]) for ids, block in lines.items())


def entity(piece: Piece, _: object) -> Entity:
    """Make the entity of a concept."""
    (entity_id, *others), block, own = piece.content
    if "||" not in block[0][1]:
        raise DataError("expected id|alternative ids||name|synonyms, but the line has no ||", id=entity_id[:60])
    name, *aliases = dict.fromkeys(name for _, line in block for name in line.partition("||")[2].split("|"))
    bare = [entity_id, *(id_ for id_ in others if id_ not in own)]
    prefixed = [f"{source}:{id_}" for id_ in bare for source, ids in _SOURCES.items() if re.fullmatch(ids, id_)]
    return Entity(entity_id, name, tuple(aliases), alternative_ids=tuple(dict.fromkeys(others + prefixed)))

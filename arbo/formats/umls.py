"""Read UMLS in its Rich Release Format: a folder with MRCONSO.RRF, MRSTY.RRF and, optionally, MRDEF.RRF.

    C0016382|ENG|P|L0016382|PF|S0042357|Y|A0058910|||D005483|MSH|MH|D005483|Flushing|0|N|256|
    C0016382|T184|A2.2.2|Sign or Symptom|AT17683123|256|
    C0016382|A0058910|AT38137289||MSH|A transitory reddening of the face ...|N|256|

An entity is a concept with an unsuppressed English name (`LAT` ENG); `notes` counts concepts without one.
Its name is the preferred form of the preferred term (`TS` P, `STT` PF, `ISPREF` Y), or the name that comes closest to
this; its other distinct names are aliases. Its definition is the first unsuppressed definition of an English name. Its
types are the names of its semantic types (`STY`). `UMLS:C0016382`, as MedMentions writes it, is an alternative id.

The rows of a concept must be adjacent in MRCONSO.RRF, as they are in the releases. The type `ST21pv` stands for the 21
types of MedMentions ST21pv (Mohan and Li 2019, who also select vocabularies, which this reader does not).
"""

from collections import defaultdict, namedtuple
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError, UsageError
from arbo.formats.files import Paths, each_path, file_named, read_lines

ST21PV = frozenset({
    "T005", "T007", "T017", "T022", "T031", "T033", "T037", "T038", "T058", "T062", "T074", "T082", "T091", "T092",
    "T097", "T098", "T103", "T168", "T170", "T201", "T204",
})  # fmt: skip
"""The semantic types of MedMentions ST21pv."""

_COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
}
_ENGLISH, _NOT_SUPPRESSED = "ENG", "N"

_Atom = namedtuple("_Atom", "line CUI LAT TS STT ISPREF AUI STR SUPPRESS")
"""A name of a concept: its line, and the columns of MRCONSO that the reader uses."""


def read_entities(
    path: Paths, *, types: str | Iterable[str] | None = None, on_error: OnError = "fail"
) -> KnowledgeBase:
    """Read the concepts of a folder, or only those of some semantic types (`STY` or `TUI`) and of the types below them.

    Raise UsageError for a type that no concept has, so that the types below it are unknown, and DataError if
    MRCONSO.RRF or MRSTY.RRF is missing, or a line is malformed.
    """
    records: Records[Entity] = Records("entities", on_error)
    for folder in each_path(path):
        names, semantic, described = (file_named(f"{table}.RRF", folder) for table in _COLUMNS)
        if names is None or semantic is None:
            missing = "MRSTY" if names else "MRCONSO"
            wrong = f"{missing}.RRF or {missing}.RRF.gz is missing; give the folder that contains it"
            raise DataError(wrong, file=str(folder))
        types_of = _types(semantic, types, records)
        definitions = defaultdict[str, list[tuple[str, str]]](list)
        columns = ("CUI", "AUI", "DEF", "SUPPRESS")
        for _, cui, atom, text, suppressed in _rows(described, "MRDEF", columns, records) if described else ():
            if suppressed == _NOT_SUPPRESSED and text.strip() and (types is None or cui in types_of):
                definitions[cui].append((atom, text))
        for cui, rows in groupby(_rows(names, "MRCONSO", _Atom._fields[1:], records), itemgetter(1)):
            if types is not None and cui not in types_of:
                continue
            atoms = [_Atom(*row) for row in rows if row[2] == _ENGLISH]
            if all(atom.SUPPRESS != _NOT_SUPPRESSED for atom in atoms):
                records.notes["concepts without an English name"] += 1
                continue
            line = atoms[0].line
            with records.record(names, line):
                records.add(_entity(atoms, types_of.get(cui, ()), definitions.get(cui, ())), names, line)
    return KnowledgeBase(records)


def _entity(atoms: list[_Atom], types: tuple[str, ...], definitions: Iterable[tuple[str, str]]) -> Entity:
    cui = atoms[0].CUI
    named = [atom for atom in atoms if atom.SUPPRESS == _NOT_SUPPRESSED]
    name = min(named, key=lambda atom: (atom.TS != "P", atom.STT != "PF", atom.ISPREF != "Y")).STR
    english = {atom.AUI for atom in atoms}
    return Entity(
        cui,
        name,
        aliases=tuple(alias for alias in dict.fromkeys(atom.STR for atom in named) if alias != name),
        definition=next((text for atom, text in definitions if atom in english), None),
        types=types,
        alternative_ids=(f"UMLS:{cui}",),
    )


def _types(file: Path, chosen: str | Iterable[str] | None, records: Records[Entity]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the semantic types of each concept, or only of concepts with a wanted type or one below."""
    types_of: dict[str, tuple[str, ...]] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}  # millions of concepts, hundreds of combinations
    tree: dict[str, str] = {}  # the tree number of each type, by its id and by its name
    for line, cui, tui, number, name in _rows(file, "MRSTY", ("CUI", "TUI", "STN", "STY"), records):
        if not name:
            with records.record(file, line, kind="lines"):
                raise DataError("a semantic type without a name (STY)", id=cui)
            continue
        if number:
            tree.setdefault(tui, number)
            tree.setdefault(name, number)
        types = tuple(dict.fromkeys((*types_of.get(cui, ()), name)))
        types_of[cui] = shared.setdefault(types, types)
    if chosen is None:
        return types_of
    given = {chosen} if isinstance(chosen, str) else set(chosen)
    sets = {type_ for type_ in given if type_.upper() == "ST21PV"}
    below = _with_all_below(given - sets | (ST21PV if sets else set()), tree)
    return {cui: types for cui, types in types_of.items() if not below.isdisjoint(types)}


def _with_all_below(types: set[str], tree: Mapping[str, str]) -> set[str]:
    """Return semantic types and all types below them, according to the tree numbers of ids and names of types."""
    if missing := sorted(types - tree.keys()):
        wrong = f"no concept has the semantic type {', '.join(missing)} with a tree number (STN)"
        advice = "check the ids or names (such as T047); in a part of a release, give the types that are there"
        raise UsageError(f"{wrong}, so the types below it are unknown; {advice}")
    tops = {tree[type_] for type_ in types}
    above = tuple(top if len(top) == 1 else f"{top}." for top in tops)  # A1.21 is below A1, but not below A1.2
    return {type_ for type_, number in tree.items() if number in tops or number.startswith(above)}


def _rows(file: Path, table: str, columns: Iterable[str], records: Records[Entity]) -> Iterator[tuple[Any, ...]]:
    known = _COLUMNS[table].split()
    pick = itemgetter(*map(known.index, columns))
    for number, line in read_lines(file):
        values = line.split("|")
        if len(values) == len(known) + 1 and not values[-1]:
            yield number, *pick(values)
        elif line.strip():
            with records.record(file, number, kind="lines"):
                form = f"a line of {table}.RRF has {len(known)} columns ({_COLUMNS[table]}), each closed by a bar (|)"
                raise DataError(f"{form}; this line has {line.count('|')} bars", id=values[0][:60])

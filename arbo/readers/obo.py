r"""OBO, the flat format of ontologies: one entity a live term.

- `synonym` of every scope (EXACT, RELATED, ...) and the old `exact_synonym` etc.: aliases;
- `def`: the quoted part is the definition; `xref`: the id before the first blank;
- `namespace`, else the `default-namespace` of the file: the type;
- `alt_id`: alternative ids. An obsolete term is no entity; when it names exactly one replacement, its id and
  alternative ids become alternative ids of the live term at the end of that chain of replacements;
- a term without a name is named by its id, a synonym or definition without quotes is left out: both counted.

Runs of white space count as one blank, `\` escapes are resolved. A term that comes twice with equal content
is kept once; with different content it is an error.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from obonet.read import get_sections

from arbo.errors import DataError
from arbo.knowledge_base import Entity, KnowledgeBase
from arbo.readers.files import PathLike, data_files, read_lines
from arbo.readers.records import Records

SUFFIXES = (".obo",)

_SYNONYM_TAGS = ("synonym", "exact_synonym", "narrow_synonym", "broad_synonym", "related_synonym")
_TAGS = {
    *("default-namespace", "id", "name", "def", "xref", "namespace", "alt_id", "is_obsolete", "replaced_by"),
    *_SYNONYM_TAGS,
}
_QUOTED = re.compile(r'"((?:[^"\\]++|\\.)*+)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}

Term = Mapping[str, Any]


def read_obo(path: PathLike) -> KnowledgeBase:
    """Read an OBO file, or all `.obo` files of a folder."""
    records: Records[Entity] = Records("entities")
    obsolete: list[Term] = []
    for file in data_files(path, SUFFIXES):
        for line, term in _terms(file):
            if term.get("is_obsolete") == "true":
                obsolete.append(term)
                records.notes["obsolete terms ignored"] += 1
                continue
            with records.record(file, line):
                records.add(_entity(term, records.notes), file, line)
    entities = _with_replaced(list(records), obsolete, records.notes)
    return KnowledgeBase(entities, records.notes)


def _terms(file: Path) -> Iterator[tuple[int, Term]]:
    """Yield every term with the line it begins on; duplicates too, which obonet's graph would merge."""
    starts: list[int] = []
    _, terms, _, header = get_sections(_lines_for_obonet(file, starts))
    default = header.get("default-namespace", [None])[-1]
    for line, term in zip(starts, terms, strict=True):
        yield line, {"namespace": default, **term}


def _lines_for_obonet(file: Path, starts: list[int]) -> Iterator[str]:
    """Yield the header and the terms, reduced to the tags read here; note the line each term begins on.

    obonet splits a line by a regular expression that is quadratic in runs of blanks, takes ` !` in a quoted
    text for a comment, a stanza of unknown kind for the header, and warns where there is no header.
    """
    yield "!\n"
    wanted = True
    for number, line in read_lines(file):
        line = " ".join(line.split())
        tag, colon, _ = line.partition(":")
        if line.startswith("["):
            wanted = line.startswith("[Term]")
            if wanted:
                starts.append(number)
                yield from ("\n", "[Term]\n")
        elif not line or line.startswith("!"):
            continue
        elif not (tag and colon):
            raise DataError("expected a line of the form `tag: value`", file=str(file), line=number)
        elif wanted and tag in _TAGS:
            yield _shielded(line) + "\n"


def _shielded(line: str) -> str:
    """Escape what would begin a comment inside the quoted part of a line."""
    quoted = _QUOTED.match(line, line.find('"')) if " !" in line else None
    if quoted is None:
        return line
    return line[: quoted.start()] + quoted[0].replace(" !", r" \!") + line[quoted.end() :]


def _entity(term: Term, notes: Counter[str]) -> Entity:
    term_id = _plain(term.get("id"))
    name = _plain(term.get("name"))
    if not name:
        notes["terms named by their id"] += 1
    synonyms = [_quoted(value) for tag in _SYNONYM_TAGS for value in term.get(tag, ())]
    if malformed := synonyms.count(None):
        notes["malformed synonyms ignored"] += malformed
    definition = _quoted(term["def"]) if "def" in term else None
    if "def" in term and definition is None:
        notes["malformed definitions ignored"] += 1
    return Entity(
        id=term_id,
        name=name or term_id,
        aliases=tuple(synonym for synonym in synonyms if synonym is not None),
        definition=definition or None,
        types=() if term["namespace"] is None else (_plain(term["namespace"]),),
        alternative_ids=_ids(term.get("alt_id", ())),
        xrefs=_ids(term.get("xref", ())),
    )


def _with_replaced(entities: list[Entity], obsolete: list[Term], notes: Counter[str]) -> list[Entity]:
    """Return the entities, each with the ids of the obsolete terms that it replaces."""
    live = {entity.id for entity in entities}
    successor = {}
    for term in obsolete:
        replacements = _ids(term.get("replaced_by", ()))
        if len(replacements) == 1:
            successor[_plain(term.get("id"))] = replacements[0]
    merged: defaultdict[str, list[str]] = defaultdict(list)
    for term in obsolete:
        term_id = _plain(term.get("id"))
        end = _follow(term_id, successor, live)
        if end is not None:
            merged[end] += [term_id, *_ids(term.get("alt_id", ()))]
            notes["obsolete terms led to their replacement"] += 1
    return [
        replace(entity, alternative_ids=tuple(dict.fromkeys((*entity.alternative_ids, *merged[entity.id]))))
        for entity in entities
    ]


def _follow(term_id: str, successor: Mapping[str, str], live: set[str]) -> str | None:
    seen: set[str] = set()
    while term_id not in live:
        if term_id in seen or term_id not in successor:
            return None
        seen.add(term_id)
        term_id = successor[term_id]
    return term_id


def _ids(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct ids of values that may go on with a comment: `UMLS:C0000 "a name"`."""
    ids = (_plain(value).partition(" ")[0] for value in values)
    return tuple(dict.fromkeys(name for name in ids if name))


def _quoted(value: str) -> str | None:
    match = _QUOTED.match(value)
    return _plain(match[1]) if match else None


def _plain(value: str | None) -> str:
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value or "").strip()

r"""Read OBO, the flat format of ontologies: each term that is not obsolete is an entity.

- Its aliases are all `synonym` values of any scope (EXACT, RELATED, ...), and of older tags such as `exact_synonym`.
- Its definition is the quoted part of `def`. A quote inside a quoted text need not be escaped, if one is its end.
- Its xrefs are the ids in `xref`, up to a blank, or with blanks before the colon (`KEGG COMPOUND:C1`). If more follows
  than a quoted description, modifiers and a comment, the id was cut, which is counted.
- Its type is `namespace` or, without one, the `default-namespace` of the file.
- Its alternative ids are all `alt_id` values. If an obsolete term names exactly one replacement, its id and alternative
  ids become alternative ids of the live term at the end of that chain of replacements.
- A term without a name takes its id as its name, and a synonym or definition without quotes is left out; both cases
  are counted, and so are stanzas other than terms.

Runs of white space count as one space, and `\` escapes are resolved. Modifiers after a value are `{name=...}`; other
braces belong to the value. Two different values of `id`, `name`, `def`, `namespace` or `is_obsolete` in one term are an
error. Terms that a term `is_a` are kept as `parents` in its metadata; other relations are ignored.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from arbo.data import Entity, Records
from arbo.errors import DataError
from arbo.formats.files import Piece, read_lines
from arbo.formats.ontologies import Obsolete, is_true

SUFFIXES = (".obo",)

_HEADER, _TERM = "", "[Term"
_SINGLE = ("id", "name", "def", "namespace", "is_obsolete")
_SYNONYM_TAGS = ("synonym", "exact_synonym", "narrow_synonym", "broad_synonym", "related_synonym")
_TAGS = {*_SINGLE, *_SYNONYM_TAGS, "alt_id", "default-namespace", "is_a", "replaced_by", "xref"}
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_QUOTE = re.compile(r'\\.|(")')
_MOST_QUOTES = 50
_XREFS = rf'\[(?:[^]"\\]|\\.|{_QUOTED})*+\]'
_MODIFIERS = rf'\{{[^\s"={{}}]++=(?:[^"{{}}\\]|\\.|{_QUOTED})*+\}}'
_TRAILER = re.compile(rf"(?:(?:^| ){_MODIFIERS})?(?:(?:^| )!.*)?\Z", re.S)
_SCOPE = r'(?: (?i:exact|broad|narrow|related)(?: [^\s"\[\]{}!]++)?)?'
_AFTER_TEXT = re.compile(rf"{_SCOPE}(?: ?{_XREFS})?(?: ?{_MODIFIERS})?(?: ?!.*)?\Z", re.S)
"""Scope and type of a synonym, ids in brackets, modifiers, and a comment."""
_WORD = r'(?:[^\s:"{!\\]|\\.)++'
_ID = re.compile(rf"(?:(?:{_WORD} )+{_WORD}:|(?![{{!]))(?:[^\s\\]|\\.)++")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}

Tags = dict[str, list[str]]


def pieces(file: Path, records: Records[Entity]) -> Iterator[Piece]:
    """Yield the lines of each term, and the default namespace; raise DataError for a file without a `[Term]`."""
    namespace, has_terms = [""], False
    begin, kind, lines = 1, _HEADER, list[tuple[int, str]]()
    lines_of_file = ((number, line.strip()) for number, line in read_lines(file))
    for number, line in chain(lines_of_file, [(0, "[")]):  # the last one ends the last stanza
        if not line.startswith("["):
            lines += [(number, line)] if line and not line.startswith("!") else []
            continue
        if kind == _HEADER:
            with records.record(file, begin):
                namespace = _tags(lines).get("default-namespace", namespace)[-1:]
        elif kind == _TERM:
            has_terms = True
            yield Piece((namespace, lines), file, begin)
        else:
            records.notes["stanzas other than [Term] left out"] += 1
        begin, kind, lines = number, line.partition("]")[0], []
    if not has_terms:
        raise DataError("the file has no [Term]; check that it is OBO", file=str(file))


def _tags(lines: Iterable[tuple[int, str]]) -> Tags:
    """Return the values of each tag that this module uses."""
    tags: Tags = {}
    for number, line in lines:
        tag, colon, value = line.partition(":")
        if not (tag and colon):
            raise DataError("expected a line of the form `tag: value`", line=number, id=_value(tags, "id") or None)
        if tag not in _TAGS:
            continue
        values = tags.setdefault(tag, [])
        values.append(" ".join(value.split()))
        if tag in _SINGLE and values[-1] != values[0]:
            problem = f"a second `{tag}` in one term; drop one, or write a line [Term] between two terms"
            raise DataError(problem, line=number, id=_value(tags, "id") or None)
    return tags


def entity(piece: Piece, records: Records[Entity]) -> Entity | Obsolete:
    """Make the entity of a term, unless it is obsolete."""
    default, lines = piece.content
    term, notes = {"namespace": default} | _tags(lines), records.notes
    others = _ids(term.get("alt_id", ()), notes)
    if is_true(_value(term, "is_obsolete")):
        return Obsolete((_value(term, "id"), *others), _ids(term.get("replaced_by", ()), notes))
    term_id, name, namespace = (_value(term, tag) for tag in ("id", "name", "namespace"))
    notes["terms named by their id"] += not name
    synonyms = [_quoted(value) for tag in _SYNONYM_TAGS for value in term.get(tag, ())]
    notes["malformed synonyms ignored"] += synonyms.count(None)
    definition = _quoted(term["def"][0]) if "def" in term else None
    notes["malformed definitions ignored"] += "def" in term and definition is None
    return Entity(
        id=term_id,
        name=name or term_id,
        aliases=tuple(synonym for synonym in synonyms if synonym is not None),
        definition=definition or None,
        types=(namespace,) if namespace else (),
        alternative_ids=others,
        xrefs=_ids(term.get("xref", ()), notes),
        metadata={"parents": parents} if (parents := [*_ids(term.get("is_a", ()), notes)]) else {},
    )


def _value(term: Tags, tag: str) -> str:
    """Return the value of a tag that may occur once, without modifiers and comment; empty if the term has none."""
    return _plain(_TRAILER.sub("", term.get(tag, [""])[0], count=1))


def _ids(values: Iterable[str], notes: Counter[str]) -> tuple[str, ...]:
    """Return the distinct ids in values such as `UMLS:C0000 "a name"`; count those that are cut at a blank."""
    ids: dict[str, None] = {}
    for match in filter(None, map(_ID.match, values)):
        ids[_plain(match[0])] = None
        rest = match.string[match.end() + 1 :]
        if rest and (rest[0] not in '"{!' or match[0].endswith(":")):
            notes["ids cut at a blank"] += 1
    return tuple(ids)


def _quoted(value: str) -> str | None:
    """Return the text from the first quote to the first one after which only what may follow a text follows."""
    if not value.startswith('"'):
        return None
    ends = [match.end() for match in _QUOTE.finditer(value, 1) if match[1]][:_MOST_QUOTES]
    ends = [end for end in ends if len(ends) == 1 or _AFTER_TEXT.match(value, end)]
    return _plain(value[1 : ends[0] - 1]) if ends else None


def _plain(value: str) -> str:
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value).strip()

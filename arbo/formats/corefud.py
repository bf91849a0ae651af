"""Read CorefUD 1.x: coreference in CoNLL-U, with brackets under `Entity` in the last of its ten columns.

    # newdoc id = d
    # global.Entity = eid-etype-head-other
    1    The    _  _  _  _  0  _  _  Entity=(e12-person-2
    2    mayor  _  _  _  _  0  _  _  Entity=e12)

``# newdoc`` begins a document, named by its id, or by the file and a number. Words are the lines with numbers, those of
empty nodes (`3.1`) too; a blank in a word becomes a no-break space. The text has a space between words and a line end
between sentences. ``(e12-person-2`` begins a mention of entity `e12` of a type, whose head is its second word;
``# global.Entity`` names the fields. ``e12)`` ends the mention of `e12` that began last; ``(e7--1)`` is of one word.
From ``(e12[1/2]-person-1`` to ``e12[1/2])`` is the first of two pieces of a mention. The gold id is `name/eid`.
Multiword tokens, other fields and columns, bridging and split antecedents are left out. Source:
https://ufal.mff.cuni.cz/corefud.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from arbo.data import Document, Marked, Records
from arbo.data.documents import marked_document
from arbo.errors import DataError
from arbo.formats.files import Block, Piece, blocks
from arbo.text.words import lay_out

SUFFIXES = (".conllu",)

_FIELDS, _OLD_FIELDS = "eid-etype-head-other", {"GRP": "eid", "entity": "etype"}
_COMMENT = re.compile(r"#\s*(newdoc|global\.Entity)\b(?:\s+id)?(?:\s*=\s*(.*\S))?")
_BRACKET, _BRACKETS = re.compile(r"(\()?([^()]+)(\))?"), re.compile(r"(?:\([^()]++\)?|[^()]++\))+")
_PIECE, _HEAD = re.compile(r"(.+?)(?:\[([0-9]{1,8})/([0-9]{1,8})\])?"), re.compile(r"[1-9][0-9]{0,7}")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


class Headed(NamedTuple):
    """A mention as its words, numbers from 0 in the document, and its head, one of them."""

    words: tuple[int, ...]
    head: int


class _Mention(NamedTuple):
    line: int
    eid: str
    type: str | None
    head: int
    pieces: list[list[int]]
    """The first and the last word of each; of an open piece only the first."""

    @property
    def headed(self) -> Headed:
        words = sorted({word for first, last in self.pieces for word in range(first, last + 1)})
        return Headed((*words,), words[self.head - 1 if self.head <= len(words) else 0])


def pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the fields of entities and the sentences of each document; the name is its id."""
    name = stem = file.name.partition(".")[0]
    n, fields, sentences = 0, _FIELDS, list[Block]()
    for block in blocks(file, None):
        said = _said(block.content)
        if "newdoc" in said:
            if sentences:
                yield Piece((fields, sentences), file, sentences[0][0][0], name)
            n, sentences = n + 1, []
            name = said["newdoc"] or f"{stem}:{n}"
        fields = said.get("global.Entity", fields)
        sentences.append(block.content)
    if sentences:
        yield Piece((fields, sentences), file, sentences[0][0][0], name)


def _said(block: Block) -> dict[str, str]:
    return {match[1]: match[2] or "" for _, line in block if (match := _COMMENT.match(line))}


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of its sentences; `head` of the metadata of a mention is the number of its head in it, from 1."""
    sentences = [*_sentences(piece, records)]
    text, places = lay_out([[form.replace(" ", "\xa0") for _, form, _ in rows] for rows in sentences])
    spans, marked = [*chain.from_iterable(places)], list[Marked]()
    for mention in _mentions(piece, sentences, records):
        words, head = mention.headed
        at = tuple((spans[first][0], spans[last][1]) for first, last in mention.pieces)
        gold = (f"{piece.name}/{mention.eid}",)
        marked.append(Marked(at, mention.type, gold, metadata={"head": words.index(head) + 1}))
    marked.sort(key=lambda one: (one.spans[0][0], -one.spans[-1][1]))
    return marked_document(piece.name, text, marked)


def clusters(piece: Piece, records: Records[Any]) -> tuple[str, list[list[Headed]]]:
    """Return the name of a document, and the mentions of its entities in the order of their first brackets."""
    entities: dict[str, list[Headed]] = {}
    for mention in _mentions(piece, [*_sentences(piece, records)], records):
        entities.setdefault(mention.eid, []).append(mention.headed)
    return piece.name, [*entities.values()]


def _sentences(piece: Piece, records: Records[Any]) -> Iterator[list[tuple[int, str, str]]]:
    """Yield the sentences with words: of each word the line, the form and the brackets."""
    for block in piece.content[1]:
        rows = []
        for line, text in block:
            columns = text.split("\t")
            with records.record(piece.file, line, kind="lines"):
                if not text.startswith("#") and (len(columns) != 10 or not columns[1].strip()):
                    raise DataError("expected the ten columns of CoNLL-U, separated by tabs", id=piece.name)
                if _NUMBER.fullmatch(columns[0]):
                    brackets = dict(one.partition("=")[::2] for one in columns[9].split("|")).get("Entity", "")
                    rows.append((line, columns[1].strip(), brackets))
        if rows:
            yield rows


def _mentions(piece: Piece, sentences: list[list[tuple[int, str, str]]], records: Records[Any]) -> list[_Mention]:
    """Return the mentions of a document in the order in which they begin."""
    fields = [_OLD_FIELDS.get(name, name) for name in piece.content[0].split("-")]
    mentions, waiting = list[_Mention](), defaultdict[tuple[str, int, int, bool], list[_Mention]](list)
    for at, (line, _, column) in enumerate(chain.from_iterable(sentences)):
        with records.record(piece.file, line, kind="lines"):
            if column and not _BRACKETS.fullmatch(column):
                raise DataError(f"expected brackets such as `(e1-person-1`, not {column!r:.60}", id=piece.name)
            for opens, content, closes in _BRACKET.findall(column):
                values = dict(zip(fields, content.split("-"), strict=False)) if opens else {"eid": content}
                if (place := _PIECE.fullmatch(values.get("eid", ""))) is None:
                    raise DataError(f"the bracket {content!r:.60} has no eid", id=piece.name)
                eid, nth, n_pieces = place[1], int(place[2] or 1), int(place[3] or 1)
                if opens and nth == 1:
                    head = int(values["head"]) if _HEAD.fullmatch(values.get("head", "")) else 1
                    mentions.append(_Mention(line, eid, values.get("etype") or None, head, []))
                    waiting[eid, n_pieces, 0, False].append(mentions[-1])
                for is_open in [False] * bool(opens) + [True] * bool(closes):
                    if not (begun := waiting[eid, n_pieces, nth - (not is_open), is_open]):
                        raise DataError(f"entity {eid} continues a mention here that has not begun", id=piece.name)
                    mention = begun.pop()
                    if is_open:
                        mention.pieces[-1].append(at)
                    else:
                        mention.pieces.append([at])
                    if nth < n_pieces or not is_open:
                        waiting[eid, n_pieces, nth, not is_open].append(mention)
    for mention in sorted(chain.from_iterable(waiting.values()), key=lambda one: one.line):
        mentions.remove(mention)
        with records.record(piece.file, mention.line, kind="lines"):
            raise DataError(f"entity {mention.eid} begins a mention here that does not end", id=piece.name)
    return mentions

"""Read and write CorefUD 1.x: coreference in CoNLL-U, with brackets under `Entity` in the last of its ten columns.

    # newdoc id = d
    # global.Entity = eid-etype-head-other
    # sent_id = d-1
    1    The    _  _  _  _  0  _  _  Entity=(e12-person-2
    2    mayor  _  _  _  _  0  _  _  Entity=e12)

``# newdoc`` begins a document, named by its id, or by the file and a number. Words are the lines with numbers, those of
empty nodes (`3.1`) too; a blank in a word becomes a no-break space, and a blank again when it is written. The text has
a space between words and a line end between sentences. ``(e12-person-2`` begins a mention of entity `e12` of a type,
whose head is its second word; ``# global.Entity`` names the fields. ``e12)`` ends the mention of `e12` that began last;
``(e7--1)`` is of one word. From ``(e12[1/2]-person-1`` to ``e12[1/2])`` is the first of two pieces of a mention. The
gold id is `name/eid`. Multiword tokens, other fields and columns, bridging and split antecedents are left out. Source:
https://ufal.mff.cuni.cz/corefud.

The writer makes an entity of the mentions of a document with the same ids. Other texts have the words of
`arbo.formats.conll`, and the head of a mention is its first word.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from arbo.data import Document, Marked, Records, grouped, marked_document
from arbo.errors import DataError
from arbo.files import PathLike, write_lines
from arbo.formats.conll import place_brackets, word_spans
from arbo.formats.files import Block, Piece, blocks, check_id, runs_of
from arbo.text.checks import Span
from arbo.text.words import lay_out

SUFFIXES = (".conllu",)

_FIELDS, _OLD_FIELDS = "eid-etype-head-other", {"GRP": "eid", "entity": "etype"}
_COMMENT = re.compile(r"#\s*(newdoc|global\.Entity|sent_id)\b(?:\s+id)?(?:\s*=\s*(.*\S))?")
_BRACKET, _BRACKETS = re.compile(r"(\()?([^()]+)(\))?"), re.compile(r"(?:\([^()]++\)?|[^()]++\))+")
_PIECE, _HEAD = re.compile(r"(.+?)(?:\[([0-9]{1,8})/([0-9]{1,8})\])?"), re.compile(r"[1-9][0-9]{0,7}")
_EID, _TYPE, _DOCUMENT_ID = re.compile(r"[^-=|()\[\],<:\s]+"), re.compile(r"[^-=|()\s]+"), re.compile(r"[^\r\n]+")
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
    begins: list[int]  # the first word of each piece
    ends: list[int]  # the last word of each, but of an open one

    @property
    def headed(self) -> Headed:
        pieces = zip(self.begins, self.ends, strict=True)
        words = sorted({word for first, last in pieces for word in range(first, last + 1)})
        return Headed((*words,), words[self.head - 1 if self.head <= len(words) else 0])


def pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the fields of entities and the sentences of each document; the name is its id."""
    name = stem = file.name.partition(".")[0]
    n, fields, sentences = 0, _FIELDS, list[Block]()
    for block in chain(blocks(file, None), [Piece([(0, "# newdoc")], file)]):  # the last one ends the last document
        if "newdoc" in (said := _said(block.content)):
            if sentences:
                yield Piece((fields, sentences), file, sentences[0][0][0], name)
            n, sentences = n + 1, []
            name = said["newdoc"] or f"{stem}:{n}"
        fields = said.get("global.Entity", fields)
        sentences.append(block.content)


def _said(block: Block) -> dict[str, str]:
    return {match[1]: match[2] or "" for _, line in block if (match := _COMMENT.match(line))}


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of its sentences; `head` of the metadata of a mention is the number of its head in it, from 1.

    The `sentences` of the document are their ids, and after tabs the numbers of their words.
    """
    sentences = [*_sentences(piece, records)]
    text, places = lay_out([[form.replace(" ", "\xa0") for _, _, form, _ in rows] for _, *rows in sentences])
    spans, marked = [*chain.from_iterable(places)], list[Marked]()
    for mention in _mentions(piece, sentences, records):
        words, head = mention.headed
        at = tuple((spans[first][0], spans[last][1]) for first, last in zip(mention.begins, mention.ends, strict=True))
        gold = (f"{piece.name}/{mention.eid}",)
        marked.append(Marked(at, mention.type, gold, metadata={"head": words.index(head) + 1}))
    marked.sort(key=lambda one: (one.spans[0][0], -one.spans[-1][1]))
    numbers = ["\t".join([id_, *(number for _, number, _, _ in rows)]) for id_, *rows in sentences]
    return marked_document(piece.name, text, marked, metadata={"sentences": numbers})


def clusters(piece: Piece, records: Records[Any]) -> tuple[str, list[list[Headed]]]:
    """Return the name of a document, and the mentions of its entities in the order of their first brackets."""
    mentions = _mentions(piece, [*_sentences(piece, records)], records)
    return piece.name, [*grouped((mention.eid, mention.headed) for mention in mentions).values()]


def _sentences(piece: Piece, records: Records[Any]) -> Iterator[list[Any]]:
    """Yield each sentence with words: its id, and of each word the line, the number, the form and the brackets."""
    for block in piece.content[1]:
        rows: list[Any] = [_said(block).get("sent_id", "")]
        for line, text in block:
            columns = text.split("\t")
            with records.record(piece.file, line, kind="lines"):
                if not text.startswith("#") and (len(columns) != 10 or not columns[1].strip()):
                    raise DataError("expected the ten columns of CoNLL-U, separated by tabs", id=piece.name)
                if _NUMBER.fullmatch(columns[0]):
                    brackets = dict(one.partition("=")[::2] for one in columns[9].split("|")).get("Entity", "")
                    rows.append((line, columns[0], columns[1].strip(), brackets))
        if rows[1:]:
            yield rows


def _mentions(piece: Piece, sentences: list[list[Any]], records: Records[Any]) -> list[_Mention]:
    """Return the mentions of a document in the order in which they begin."""
    fields = [_OLD_FIELDS.get(name, name) for name in piece.content[0].split("-")]
    mentions, waiting = list[_Mention](), defaultdict[tuple[str, int, int, bool], list[_Mention]](list)
    for at, (line, _, _, column) in enumerate(row for _, *rows in sentences for row in rows):
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
                    mentions.append(_Mention(line, eid, values.get("etype") or None, head, [], []))
                    waiting[eid, n_pieces, 0, False].append(mentions[-1])
                for is_open in [False] * bool(opens) + [True] * bool(closes):
                    if not (begun := waiting[eid, n_pieces, nth - (not is_open), is_open]):
                        raise DataError(f"entity {eid} continues a mention here that has not begun", id=piece.name)
                    mention = begun.pop()
                    (mention.ends if is_open else mention.begins).append(at)
                    if nth < n_pieces or not is_open:
                        waiting[eid, n_pieces, nth, not is_open].append(mention)
    for mention in sorted(chain.from_iterable(waiting.values()), key=lambda one: one.line):
        mentions.remove(mention)
        with records.record(piece.file, mention.line, kind="lines"):
            raise DataError(f"entity {mention.eid} begins a mention here that does not end", id=piece.name)
    return mentions


def write_corefud(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write documents, of each the mentions with the same ids as an entity; count what the format cannot hold."""
    notes, used = Counter[str](), set[str]()
    write_lines((line for document in documents for line in _lines(document, used, notes)), path)
    return notes


def _lines(document: Document, used: set[str], notes: Counter[str]) -> Iterator[str]:
    """Yield the lines of a document; ``used`` are the ids of entities so far, each of which is in one document."""
    yield f"# newdoc id = {check_id(document.id, _DOCUMENT_ID, of=document.id)}"
    yield f"# global.Entity = {_FIELDS}"
    text, known = document.text, document.metadata.get("sentences")
    words = word_spans(document, {edge for mention in document.mentions for edge in chain(*mention.spans)}, notes)
    brackets, sentences = _brackets(document, words, used, notes), list[list[int]]()
    for at, (start, _) in enumerate(words):
        if not at or "\n" in text[words[at - 1][1] : start]:
            sentences.append([])
        sentences[-1].append(at)
    yield from [""] * (not words)
    for n, sentence in enumerate(sentences):
        id_, *numbers = known[n].split("\t") if isinstance(known, list) and len(known) == len(sentences) else [""]
        yield f"# sent_id = {id_ or f'{document.id}-{n + 1}'}"
        numbers = numbers if len(numbers) == len(sentence) else [*map(str, range(1, len(sentence) + 1))]
        for at, number in zip(sentence, numbers, strict=True):
            form, head = text[slice(*words[at])].replace("\xa0", " "), "_" if "." in number else "0"
            misc = f"Entity={''.join(brackets[at])}" if at in brackets else "_"
            yield "\t".join((number, form, *"____", head, *"__", misc))
        yield ""


def _brackets(document: Document, words: list[Span], used: set[str], notes: Counter[str]) -> dict[int, list[str]]:
    starts, ends = [start for start, _ in words], [end for _, end in words]
    eids, places = dict[tuple[str, ...], str](), dict[tuple[str, tuple[Span, ...]], str]()
    for mention in document.mentions:
        parts = ((bisect_left(starts, start), bisect_right(ends, end)) for start, end in mention.spans)
        inside, labels = sorted({at for part in parts for at in range(*part)}), tuple(sorted({*(mention.labels or ())}))
        notes["mentions without an id or a word left out"] += not (labels and inside)
        if labels and inside:
            eids[labels] = eids.get(labels) or _eid(labels, document.id, used)
            kind = mention.type if mention.type and _TYPE.fullmatch(mention.type) else ""
            notes["types that the format cannot hold left out"] += kind != (mention.type or "")
            place, head = (eids[labels], runs_of(inside)), mention.metadata.get("head")
            notes["repeated mentions left out"] += place in places
            head = head if isinstance(head, int) and 0 < head <= len(inside) else 1
            places.setdefault(place, f"-{kind}-{head}")
    beginnings = defaultdict[str, list[tuple[Span, str]]](list)
    for (eid, runs), about in sorted(places.items()):
        for nth, run in enumerate(runs, 1):
            name = eid + f"[{nth}/{len(runs)}]" * (len(runs) > 1)
            beginnings[name].append((run, f"({name}{about}"))
    brackets = defaultdict[int, list[str]](list)
    for name, spans in beginnings.items():
        place_brackets(name, sorted(spans, key=lambda one: (one[0][0], -one[0][1])), brackets, notes)
    return brackets


def _eid(labels: tuple[str, ...], document_id: str, used: set[str]) -> str:
    """Return the id that an entity had in CorefUD, or else a new one."""
    eid, n = labels[0].removeprefix(f"{document_id}/") if len(labels) == 1 else "", len(used)
    while not _EID.fullmatch(eid) or eid in used:
        n += 1
        eid = f"e{n}"
    used.add(eid)
    return eid

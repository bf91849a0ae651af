"""Read and write coreference as CoNLL-2011/2012: one word per line, chains as brackets in the last column.

    #begin document (bc/cctv/00/cctv_0000); part 000
    bc/cctv/00/cctv_0000  0  0  The    (12
    bc/cctv/00/cctv_0000  0  1  mayor  12)|(7)
    #end document

Tabs separate columns, or spaces if a line has no tab. The fourth column is the word; in a line with fewer than five
columns, the word is unknown and becomes `_`. The text consists of the words, with a space between words and a line end
between sentences, which blank lines separate. Each part is a separate document, `name/part`. The gold id of a mention
is its chain, `name/part/chain`, since a chain belongs to one part.

``(12`` begins a mention of chain 12, ``12)`` ends the mention of chain 12 that began last, and ``(7)`` is a mention of
one word; ``-``, ``_`` and ``*`` mean that there are none. Mentions may nest and cross, and the ``|`` may be left out.
As in the reference scorer, the brackets of a word are read in a fixed order: first one-word mentions, then beginnings,
then ends. A mention with the same span and chain as another is dropped and counted. Mentions are in reading order; if
two begin at the same word, the longer comes first. The format has no types.

The writer makes a chain of the mentions with the same ids. The number of a chain has no meaning outside its document;
chains that come from CoNLL keep their numbers. Each line of the text is a sentence. Texts are split into words at white
space and, if a mention begins or ends inside such a word, also at punctuation, so that each mention consists of whole
words. Files with the same mentions have the same words.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any

from arbo.data import Document, Marked, Records, grouped, marked_document
from arbo.errors import DataError
from arbo.formats.files import Block, Piece, check_id, hull, one_line, read_lines
from arbo.text.checks import Span
from arbo.text.words import lay_out, words

SUFFIXES = (".conll", "_conll")

_BEGIN = re.compile(r"#\s*begin document ?(.*)")
_END = re.compile(r"#\s*end document")
_BRACKET = re.compile(r"(\()?([^()|\s]++)(\))?")
_BRACKETS = re.compile(r"(?:(?:\([^()|\s]++\)?|[^()|\s]++\))\|?)+")
_NAME = re.compile(r"\((.*)\);(?: *part +(\S+))?")
_DOCUMENT_ID = re.compile(r"[^\t\r\n]+")
_PART = re.compile(r"(.+)/([0-9]+)")
_WORD = re.compile(r"[^ \t\r\n]+")
_CHAIN = re.compile(r"[^()|\s]+")


def pieces(file: Path, records: Records[Any]) -> Iterator[Piece]:
    """Yield the lines of each document, including its `#begin` and `#end` lines."""
    part: Block = []
    for number, line in chain(read_lines(file), [(0, "#begin document")]):  # the last one ends the last document
        begins = line.startswith("#") and _BEGIN.match(line)
        if part and (begins or _END.match(part[-1][1])):
            yield Piece(part, file, part[0][0])
            part = []
        if part or begins:
            part.append((number, line))
        elif line.strip() and not _is_comment(line):
            with records.record(file, number, kind="lines"):
                other = "jsonl" if line.lstrip().startswith(("{", "[")) else "hipe"
                begin = "a document begins with `#begin document (name)`"
                raise DataError(f"a word outside a document; {begin}; is it `{other}`?")


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of its lines."""
    file, document_id = piece.file, _document_id(piece)
    sentences: list[list[str]] = [[]]
    brackets: list[tuple[int, str]] = []
    for number, line in _words(piece, document_id, records):
        columns = _columns(line)
        if not line.strip():
            sentences.append([])
        elif len(columns) < 2:
            with records.record(file, number, kind="lines"):
                problem = "expected several columns, the last with the brackets of the word's chains"
                raise DataError(problem, id=document_id)
        else:
            word = columns[3] if len(columns) > 4 else ""
            records.notes["lines without a word"] += not word
            sentences[-1].append(word or "_")
            brackets.append((number, columns[-1]))
    text, places = lay_out([*filter(None, sentences)])
    spans = list(chain.from_iterable(places))
    chains = _chains(brackets, document_id, file, records)
    repeated = [(spans[first][0], -spans[last][1], name) for name, some in chains.items() for first, last in some]
    distinct = sorted(set(repeated))
    records.notes["repeated mentions dropped"] += len(repeated) - len(distinct)
    marked = (Marked(((start, -end),), gold=(f"{document_id}/{name}",)) for start, end, name in distinct)
    return marked_document(document_id, text, marked)


def clusters(piece: Piece, records: Records[Any]) -> tuple[str, list[list[Span]]]:
    """Return the id of a document, and its chains as spans of words.

    A span is the first and the last word of a mention, from 0, and chains are in the order of their first brackets.
    """
    document_id = _document_id(piece)
    words = [(number, _columns(line)[-1]) for number, line in _words(piece, document_id, records) if line.strip()]
    return document_id, [*_chains(words, document_id, piece.file, records).values()]


def _document_id(piece: Piece) -> str:
    """Return the name of a document, or `name/part`."""
    header = _BEGIN.sub(r"\1", piece.content[0][1]).strip()
    named = _NAME.fullmatch(header)
    return "/".join(part for part in named.groups() if part is not None) if named else header


def _words(piece: Piece, document_id: str, records: Records[Any]) -> Block:
    """Return the lines of words and the blank lines of a document; raise DataError if its end is missing."""
    if not _END.match(piece.content[-1][1]):
        raise DataError("`#end document` is missing; add this line, or download the whole file again", id=document_id)
    lines = [(number, line) for number, line in piece.content[1:-1] if not _is_comment(line)]
    records.notes["comments ignored"] += len(piece.content) - 2 - len(lines)
    return lines


def _is_comment(line: str) -> bool:
    return line.startswith("#") and "\t" not in line


def _columns(line: str) -> list[str]:
    line = line.rstrip(" \t")
    return line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]


def _chains(words: Block, document_id: str, file: Path | str, records: Records[Any]) -> dict[str, list[Span]]:
    """Return the first and the last word of the mentions of each chain, from the line and the brackets of each word."""
    chains: dict[str, list[Span]] = {}
    begun: defaultdict[str, list[Span]] = defaultdict(list)  # word and line of the mentions that have not ended
    for at, (number, column) in enumerate(words):
        if column in ("-", "_", "*"):
            continue
        with records.record(file, number, kind="lines"):
            if not _BRACKETS.fullmatch(column):
                raise DataError(f"expected brackets such as `(1`, `1)` or `(1)|(2`, not {column!r:.60}", id=document_id)
            brackets = _BRACKET.findall(column)
            for opens, name, closes in sorted(brackets, key=lambda one: (not (one[0] and one[2]), one[2])):
                mentions = chains.setdefault(name, [])
                if opens and closes:
                    mentions.append((at, at))
                elif opens:
                    begun[name].append((at, number))
                elif begun[name]:
                    mentions.append((begun[name].pop()[0], at))
                else:
                    raise DataError(f"chain {name} ends a mention here that has not begun", id=document_id)
    for (_, number), name in sorted((place, name) for name, places in begun.items() for place in places):
        with records.record(file, number, kind="lines"):
            raise DataError(f"chain {name} begins a mention here that does not end", id=document_id)
    return chains


def document_lines(document: Document, notes: Counter[str]) -> Iterator[str]:
    """Yield the part of a document; raise DataError for an id with a tab or a line end."""
    named = _PART.fullmatch(check_id(document.id, _DOCUMENT_ID, of=document.id))
    name, part = named.groups() if named else (document.id, "0")
    yield f"#begin document ({name});" + (f" part {part}" if named else "")
    spans = word_spans(document, {edge for one in document.mentions for edge in (one.start, one.end)}, notes)
    brackets = _brackets(document, spans, notes)
    before = number = 0
    for at, (start, end) in enumerate(spans):
        if at and "\n" in document.text[before:start]:
            yield ""
            number = 0
        yield f"{name}\t{int(part)}\t{number}\t{document.text[start:end]}\t{'|'.join(brackets.get(at, '-'))}"
        before, number = end, number + 1
    yield "\n#end document"


def word_spans(document: Document, edges: Set[int], notes: Counter[str]) -> list[Span]:
    """Return the words of a text: between white space or, if not all edges of mentions are there, also punctuation."""
    text = document.text
    cuts = {edge for match in _WORD.finditer(text) for edge in match.span()}
    if not edges <= cuts:
        cuts |= edges | set(words(text).ravel().tolist())
        notes["texts split at punctuation, so that mentions begin and end with a word"] += 1
    return [(start, end) for start, end in pairwise(sorted(cuts)) if one_line(text[start:end]).strip(" ")]


def _brackets(document: Document, words: list[Span], notes: Counter[str]) -> dict[int, list[str]]:
    starts, ends = [start for start, _ in words], [end for _, end in words]
    places = []
    for mention in document.mentions:
        start, end = hull(mention, notes)
        first, last = bisect_left(starts, start), bisect_right(ends, end) - 1
        if mention.labels and first <= last:
            places.append((first, -last, tuple(sorted(set(mention.labels)))))
    notes["mentions without an id or a word left out"] += len(document.mentions) - len(places)
    notes["repeated mentions left out"] += len(places) - len(set(places))
    # Of two that begin together the longer comes first.
    chains = grouped((ids, (first, -last)) for first, last, ids in sorted(set(places)))
    brackets: defaultdict[int, list[str]] = defaultdict(list)
    for name, spans in zip(_names(document.id, list(chains)), chains.values(), strict=True):
        place_brackets(name, [(span, f"({name}") for span in spans], brackets, notes)
    return brackets


def place_brackets(
    name: str, beginnings: Sequence[tuple[Span, str]], brackets: defaultdict[int, list[str]], notes: Counter[str]
) -> None:
    """Add the brackets of a chain to those of words: the beginning of each of its sorted spans, and ``name)``."""
    crossing = sum(begin < first <= end < last for (begin, end), (first, last) in combinations(dict(beginnings), 2))
    notes["mentions crossing another of their chain, which readers take as nested"] += crossing
    for (first, last), beginning in beginnings:
        brackets[first].append(beginning + ")" * (first == last))
        if first < last:
            brackets[last].insert(0, f"{name})")


def _names(document_id: str, chains: list[tuple[str, ...]]) -> list[str]:
    """Return the names that the chains had in CoNLL, or else consecutive numbers."""
    names = [ids[0].removeprefix(f"{document_id}/") for ids in chains]
    if all(map(_CHAIN.fullmatch, names)) and chains == [(f"{document_id}/{name}",) for name in names]:
        return names
    return [str(number) for number in range(len(chains))]

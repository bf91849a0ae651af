"""Read coreference in the format of CoNLL-2011/2012: one word per line, chains as brackets in the last column.

    #begin document (bc/cctv/00/cctv_0000); part 000
    bc/cctv/00/cctv_0000  0  0  The    (12
    bc/cctv/00/cctv_0000  0  1  mayor  12)|(7)
    #end document

Tabs separate columns, or spaces if a line has no tab. The fourth column is the word; in a line with fewer than five
columns, the word is unknown and becomes `_`. The text consists of the words, with a space between words and a line end
between sentences, which blank lines separate. Each part is a separate document, `name/part`. The gold id of a mention
is its chain, `name/part/chain`, since a chain belongs to one part.

`eval.conll` explains the brackets. A mention with the same span and chain as another is dropped and counted. The
format has no types and no mention ids; `mention_ids` makes ids from document and span. Mentions are in reading order;
if two begin at the same word, the longer comes first.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from arbo.data import Corpus, Document, DocumentRecords, OnError, Records
from arbo.data.documents import marked_document
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.metrics import BracketError, Chains, columns_of, is_comment
from arbo.readers.files import Block, read_blocks, read_lines
from arbo.text.sentences import lay_out

SUFFIXES = (".conll", "_conll")

_BEGIN, _END = "#begin document", "#end document"
_NAME = re.compile(r"\((.*)\);(?: *part +(\S+))?")


class _Word(NamedTuple):
    line: int
    text: str | None
    brackets: str


def read_conll(path: PathLike, *, on_error: OnError = "fail") -> Corpus:
    """Read a CoNLL file, or all files of a folder that end in `.conll` or `_conll`."""
    return Corpus(read_blocks(path, SUFFIXES, _parts, _document, DocumentRecords(on_error)))


def _parts(file: Path, records: Records[Document]) -> Iterator[Block]:
    """Yield the lines of each document, including its `#begin` and `#end` lines."""
    part: Block = []
    for number, line in read_lines(file):
        if line.startswith(_BEGIN):
            if part:
                yield part
            part = [(number, line)]
        elif line.startswith(_END) and part:
            yield [*part, (number, line)]
            part = []
        elif part:
            part.append((number, line))
        elif line.strip() and not is_comment(line):
            with records.record(file, number, kind="lines"):
                raise DataError(f"a word outside a document; a document begins with `{_BEGIN} (name); part 000`")
    if part:
        yield part


def _document(lines: Block, file: Path, records: Records[Document]) -> Document:
    document_id = _document_id(lines[0][1].removeprefix(_BEGIN).strip())
    if not lines[-1][1].startswith(_END):
        raise DataError(f"`{_END}` is missing; add this line, or download the whole file again", id=document_id)
    sentences: list[list[_Word]] = [[]]
    for number, line in lines[1:-1]:
        if is_comment(line):
            records.notes["comments ignored"] += 1
        elif line.strip():
            with records.record(file, number, kind="lines"):
                sentences[-1].append(_word(number, line, document_id))
        elif sentences[-1]:
            sentences.append([])
    if unknown := sum(word.text is None for words in sentences for word in words):
        records.notes["lines without a word"] += unknown
    text, places = lay_out([[word.text or "_" for word in words] for words in sentences if words])
    spans = list(chain.from_iterable(places))
    chains = _chains(list(chain.from_iterable(sentences)), document_id, file, records)
    found = [
        ((spans[first][0], spans[last][1]), name)
        for name, mentions in chains.mentions.items()
        for first, last in mentions
    ]
    distinct = sorted(set(found), key=lambda mention: (mention[0][0], -mention[0][1], mention[1]))
    if len(distinct) < len(found):
        records.notes["repeated mentions dropped"] += len(found) - len(distinct)
    return marked_document(document_id, text, [((span,), None, (f"{document_id}/{name}",)) for span, name in distinct])


def _document_id(header: str) -> str:
    named = _NAME.fullmatch(header)
    if named is None:
        return header
    return named[1] if named[2] is None else f"{named[1]}/{named[2]}"


def _word(number: int, line: str, document_id: str) -> _Word:
    columns = columns_of(line)
    if len(columns) < 2:
        raise DataError("expected several columns, the last with the brackets of the word's chains", id=document_id)
    return _Word(number, columns[3] or None if len(columns) > 4 else None, columns[-1])


def _chains(words: Sequence[_Word], document_id: str, file: Path, records: Records[Document]) -> Chains:
    chains = Chains()
    for at, word in enumerate(words):
        try:
            chains.read(at, word.brackets)
        except BracketError as error:
            with records.record(file, word.line, kind="lines"):
                raise DataError(str(error), id=document_id) from None
    for at, name in chains.unclosed:
        with records.record(file, words[at].line, kind="lines"):
            raise DataError(f"chain {name} begins a mention here that does not end", id=document_id)
    return chains

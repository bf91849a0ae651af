"""Read and write PubTator: title, abstract and tab-separated mentions, with one block for each document.

    8701013|t|Famotidine-associated delirium.
    8701013|a|Famotidine is a histamine H2-receptor antagonist ...
    8701013 <tab> 0 <tab> 10 <tab> Famotidine <tab> Chemical <tab> D015738

The text is the title, a space, and the abstract; offsets refer to this text. Blank lines and titles begin new blocks.

- Several ids, `D1|D2` or `D1+D2`: each is an acceptable gold id; white space around ids is dropped. `1,2` and `1;2`
  are split where ids are compared, see `arbo.data.gold_ids`.
- The id `-1` means NIL (gold `()`). An empty or missing id column means not annotated (gold None).
- A seventh column (the parts of a composite mention) is ignored and counted. Relations (`PMID <tab> CID <tab> id <tab>
  id`, in BioRED with a fifth column) are kept, without the PMID, as `relation lines` in the metadata of the document.

The format does not mark titles in texts, so the writer takes the first sentence or line, whichever is shorter, as the
title. Offsets do not depend on this.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from arbo.data import Document, Marked, Records, compare, ids_in, marked_document, span_between
from arbo.errors import DataError
from arbo.formats.files import Block, Piece, blocks, check_id, hull, kept_lines, one_line
from arbo.text.words import sentences

SUFFIXES = (".txt", ".pubtator")

_NIL, _RELATIONS = "-1", "relation lines"
_HEADER = {letter: re.compile(rf"([^|\t]*)\|{letter}\|") for letter in "ta"}
_DOCUMENT_ID = re.compile(r"[^|\t\r\n\ufeff]+")
_FIRST_LINE = re.compile(r"\s*\S[^\n]*")
_ID = re.compile(r"(?!-1$)\S([^\t\r\n]*\S)?")

pieces = partial(blocks, begins=_HEADER["t"].match)


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of a block."""
    block = piece.content
    document_id, title = _expect_header(block, 0, "t")
    abstract_id, abstract = _expect_header(block, 1, "a")
    if abstract_id != document_id:
        problem = f"the abstract after this title belongs to {abstract_id!r:.60}; correct the id, or add its title"
        raise DataError(problem, id=document_id)
    text = f"{title} {abstract}"
    mentions, relations = list[Marked](), list[str]()
    for number, line in block[2:]:
        with records.record(piece.file, number, kind="lines"):
            if (one := _annotation(line.split("\t"), document_id, text, records.notes)) is not None:
                mentions.append(one)
            else:
                relations.append(line.partition("\t")[2])
    return marked_document(document_id, text, mentions, metadata={_RELATIONS: relations} if relations else {})


def _expect_header(block: Block, position: int, letter: str) -> tuple[str, str]:
    """Return id and text of a line `ID|letter|text`; raise DataError for any other line."""
    number, line = block[min(position, len(block) - 1)]
    if (header := _HEADER[letter].match(line) if position < len(block) else None) is None:
        problem = f"expected ID|{letter}|text; a document has a title (t), then an abstract (a), then its mentions"
        raise DataError(problem, line=number)
    return header[1], line[header.end() :]


def _annotation(columns: list[str], document_id: str, text: str, notes: Counter[str]) -> Marked | None:
    """Return the mention of a line; None for a relation."""
    if len(columns) not in (4, 5, 6, 7):
        form = "a mention has the columns id, start, end, text, type and, optionally, concept ids and parts"
        raise DataError(f"{form}; a relation has 4 or 5 columns, but this line has {len(columns)}", id=document_id)
    if columns[0] != document_id:
        problem = f"the line belongs to document {columns[0]!r:.60}, not to this one; write it below that document"
        raise DataError(problem, id=document_id)
    if len(columns) == 4 or (len(columns) == 5 and columns[1][:1].isalpha()):
        return None
    span = span_between(columns[1], columns[2], text, of=document_id)
    compare(columns[3], (span,), text, notes, of=document_id)
    notes["seventh columns ignored"] += len(columns) == 7
    ids = ids_in("".join(columns[5:6]), "|+")
    return Marked((span,), columns[4] or None, tuple(one for one in ids if one != _NIL) if ids else None)


def document_lines(document: Document, notes: Counter[str]) -> Iterator[str]:
    """Yield the block of a document; `|` joins acceptable ids, `-1` is NIL. Raise DataError for an id without place."""
    name, text = check_id(document.id, _DOCUMENT_ID, of=document.id), one_line(document.text)
    notes["texts whose tabs and line ends became blanks"] += text != document.text
    first = _FIRST_LINE.match(document.text)
    end = int(sentences(first[0])[0, 1]) if first else 0
    title, abstract = (text[:end], text[end + 1 :]) if text[end : end + 1] == " " else (text, "")
    notes["texts that got a blank at the end"] += title == text
    yield f"{name}|t|{title}"
    yield f"{name}|a|{abstract}"
    for mention in document.mentions:
        start, end = hull(mention, notes)
        ids = "|".join(check_id(id_, _ID, of=mention.id) for id_ in mention.gold or ()) or _NIL
        is_split = bool(mention.gold) and ids_in(ids, "|+") != mention.gold
        notes["ids with `|` or `+`, which readers split unless the knowledge base has them"] += is_split
        kind = one_line(mention.type or "")
        notes["types whose tabs and line ends became blanks, and empty ones"] += (kind or None) != mention.type
        yield "\t".join([name, str(start), str(end), text[start:end], kind, *[ids] * (mention.gold is not None)])
    yield from (f"{name}\t{relation}" for relation in kept_lines(document, _RELATIONS))
    yield ""

"""Read the tables of HIPE-2022: a header, one token per line, mentions as IOB tags, and links to Wikidata.

    TOKEN <tab> NE-COARSE-LIT <tab> ... <tab> NEL-LIT <tab> NEL-METO <tab> MISC
    # hipe2022:document_id = cu31924087948174_0054
    Odysseus <tab> B-pers <tab> ... <tab> Q47231 <tab> _ <tab> NoSpaceAfter

A comment with `document_id` begins a document; other comments (`# key = value`, without a tab) and blank lines are
ignored. The text consists of the tokens, each followed by a line end if MISC contains `EndOfSentence`, by nothing if it
contains `NoSpaceAfter`, and otherwise by a space.

NE-COARSE-LIT contains mentions and types. An `I-` tag that does not continue a mention of its type begins a mention,
as in the task's own scorer, and `notes` counts it. NEL-LIT contains the gold ids: a QID is a gold id (in `Q1|Q2`, both
are acceptable), `NIL` means gold `()`, and `_` means not annotated (None). The first token of a mention decides;
`notes` counts mentions whose tokens disagree. Nested mentions (NE-NESTED) have no links; they are ignored and counted.
Metonymic and fine-grained columns are not read.

Without such a header, as in CoNLL-2003, a line has a word, perhaps further columns, and a tag (IOB or IOBES, perhaps
without a type), after which a tab and a link may stand; spaces also separate columns. A blank line ends a sentence, and
`-DOCSTART-` begins a document. Documents are named after the file and, if there are several, their line.
"""

import re
from collections import namedtuple
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from arbo.data import Document, Marked, Records, marked_document
from arbo.errors import DataError
from arbo.formats.files import Piece, read_lines

SUFFIXES = (".tsv", ".conll", ".bio", ".iob")

_TAG = "NE-COARSE-LIT"
_REQUIRED = ("TOKEN", _TAG, "NEL-LIT")
_DOCUMENT_ID = re.compile(r"#\s*(?:\S+:)?document_id\s*=(.*)")
_NO_MENTION, _TAGGED = {"O", "_", ""}, re.compile(r"[BI](-.+)?")
_NO_LINK = {"_", "-", ""}
_NIL = "NIL"
_WORD = re.compile(r"(\S+)(?:[ \t]\S*)*?[ \t](O|[BIES](?:-\S+)?)(?:\t([^\t]*))?\s*")
_OF_WORDS, _IOBES, _BEGIN = [*_REQUIRED, "MISC"], {"O": "O", "I": "I", "E": "I"}, "-DOCSTART-"

_Token = namedtuple("_Token", "text type begins link nested after")
"""A token; ``after`` stands between it and the next one."""


def pieces(file: Path, records: Records[Document]) -> Iterator[Piece]:
    """Yield the tokens of each document; the name is its id."""
    header: list[str] = []
    block: Piece | None = None
    stem = file.name.partition(".")[0]
    for number, line in read_lines(file):
        if not header and (_WORD.fullmatch(line) or line.startswith((_BEGIN, "# "))):
            header = _OF_WORDS
        if header is _OF_WORDS:
            if not line.strip() and block is not None and block.content:
                block.content[-1] = block.content[-1]._replace(after="\n")
            if line.startswith(_BEGIN):
                line = f"# document_id = {stem}:{number}"
            elif word := _WORD.fullmatch(line):
                block = block or Piece([], file, number, stem)
                text, tag, link = word.groups("_")
                line = "\t".join((text, _IOBES.get(tag[0], "B") + tag[1:], link, "_"))
        if not line.strip():
            continue
        if not header:
            header = line.split("\t")
            if missing := " and no ".join(name for name in _REQUIRED if name not in header):
                raise DataError(f"the header has no column {missing}", file=str(file), line=number)
        elif line.startswith("#") and "\t" not in line:
            if named := _DOCUMENT_ID.match(line):
                if block is not None:
                    yield block
                block = Piece([], file, number, named[1].strip())
        else:
            with records.record(file, number, kind="lines"):
                if block is None:
                    raise DataError("a token before any document; a document begins with `# document_id = ...`")
                block.content.append(_token(line.split("\t"), header, block.name))
    if block is not None:
        yield block


def _token(values: list[str], header: list[str], document_id: str) -> _Token:
    if len(values) != len(header):
        raise DataError(f"expected {len(header)} columns, or a word and a tag, not {len(values)}", id=document_id)
    row = dict(zip(header[::-1], values[::-1], strict=True))  # of two columns of one name, the first
    text, tag, link = (row[name] for name in _REQUIRED)
    label = None if tag in _NO_MENTION else tag[2:]
    if label is not None and not _TAGGED.fullmatch(tag):
        raise DataError(f"expected O, B-type or I-type in {_TAG}, not {tag!r:.30}", id=document_id)
    if not text:
        raise DataError("the token is empty", id=document_id)
    nested, misc = row.get("NE-NESTED", "").startswith("B-"), row.get("MISC", "")
    after = "\n" if "EndOfSentence" in misc else "" if "NoSpaceAfter" in misc else " "
    return _Token(text, label, tag.startswith("B"), link, nested, after)


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of its tokens."""
    tokens, notes = piece.content, records.notes
    begins = [*accumulate((len(token.text + token.after) for token in tokens), initial=0)]
    text = "".join(token.text + token.after for token in tokens)
    notes["nested mentions ignored"] += sum(token.nested for token in tokens)
    runs: list[list[int]] = []
    for at, token in enumerate(tokens):
        if token.type is not None:
            if token.begins or not at or tokens[at - 1].type != token.type:
                notes["mentions beginning with an I- tag"] += not token.begins
                runs.append([])
            runs[-1].append(at)
    mentions = []
    for run in runs:
        first, last = run[0], run[-1]
        span = begins[first], begins[last] + len(tokens[last].text)
        link, *others = (token.link for token in tokens[first : last + 1])
        notes["mentions whose tokens disagree on the link"] += not {*others} <= {link}
        gold = () if link == _NIL else None if link in _NO_LINK else (*dict.fromkeys(filter(None, link.split("|"))),)
        mentions.append(Marked((span,), tokens[first].type or None, gold))
    return marked_document(piece.name, text.removesuffix(tokens[-1].after) if tokens else "", mentions)

"""Read the format of ECB+ and GUM: words in `X_corpus.txt`, mentions in `X_Entity_gold_mentions.json` beside it.

    36_1ecb <tab> 0 <tab> 3 <tab> Perry <tab> HUM17
    [{"doc_id": "36_1ecb", "sent_id": 0, "tokens_number": [3], "coref_chain": "HUM17", "mention_type": "HUM"}, ...]

The columns of the corpus are the document, the sentence, the index of the word in the sentence, and the word. Further
columns are ignored, since one chain for each word cannot describe nested mentions. Blank lines are ignored. The text
consists of the words, with a space between words and a line end between sentences. Events are in
`X_Event_gold_mentions.json`: the format `ecbplus` reads the entities, `ecbplus-events` the events.

`tokens_number` lists the words of a mention; if they are not consecutive, the mention has several spans. `mention_type`
is the type. The gold id is the chain, `coref_chain`; each `Singleton_...` is a separate chain. In GUM, where no chain
extends beyond a document, the chain is the gold cluster, and `identity`, a Wikipedia title, is the gold id. The
metadata of a document of ECB+ hold its `topic`, the number at the beginning of its id. Other keys are ignored.
"""

import re
from collections import defaultdict, namedtuple
from collections.abc import Iterator
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from arbo.data import Corpus, Document, Marked, OnError, Records, marked_document
from arbo.data.objects import a_kind, fields, string
from arbo.errors import DataError
from arbo.formats.files import Paths, Piece, file_named, parse_whole, read_items, read_lines, read_text, runs_of
from arbo.text.checks import Span
from arbo.text.words import lay_out

_CORPUS = "_corpus.txt"

Numbered = tuple[int, dict[str, Any]]

_TEXT = a_kind("a string", lambda value: isinstance(value, str | None))
_INTEGERS = a_kind(
    "a list of integers, not empty",
    lambda values: isinstance(values, list) and values != [] and all(type(value) is int for value in values),
)
_MENTION = {"doc_id": string, "sent_id": a_kind("an integer", lambda value: type(value) is int)}
_MENTION |= {"tokens_number": _INTEGERS, **dict.fromkeys(("mention_type", "identity", "coref_chain"), _TEXT)}
_ECBPLUS_ID = re.compile(r"([0-9]+)_[0-9]+ecb(plus)?")
_INTEGER = re.compile(r"[0-9]{1,18}")

_Word = namedtuple("_Word", "line document_id sentence number text")


def read_documents(path: Paths, kind: str = "ecbplus", *, on_error: OnError = "fail") -> Corpus:
    """Read the mentions of entities or events in a corpus file, or in all `_corpus.txt` files of a folder."""
    pieces = partial(_pieces, kind="Entity" if kind == "ecbplus" else "Event")
    return Corpus(read_items(path, (_CORPUS,), pieces, _document, Records("documents", on_error)))


def _pieces(file: Path, records: Records[Document], kind: str) -> Iterator[Piece]:
    """Yield the words of each document, its mentions and their file."""
    stem, ending, _ = file.name.rpartition(_CORPUS)
    if not ending:
        raise DataError(f"expected a folder, or a file that ends in {_CORPUS}", file=str(file))
    name = f"{stem}_{kind}_gold_mentions.json"
    if (source := file_named(name, file.parent)) is None:
        raise DataError(f"the file with the mentions is missing; it must be {name} in the same folder", file=str(file))
    by_document = _mentions(source, records)
    for document_id, words in groupby(_words(file, records), key=attrgetter("document_id")):
        first, *more = words
        yield Piece(([first, *more], by_document.pop(document_id, []), source), file, first.line)
    for document_id in by_document:
        with records.record(source, 1):
            raise DataError(f"{file.name} has no such document; add it, or drop its mentions", id=document_id)


def _words(file: Path, records: Records[Document]) -> Iterator[_Word]:
    for number, line in read_lines(file):
        if not line.strip():
            continue
        columns = line.split("\t")
        with records.record(file, number, kind="lines"):
            if len(columns) < 4 or not columns[3]:
                form = "document, sentence, number of the word, word (not empty)"
                raise DataError(f"expected at least 4 tab-separated columns: {form}")
            document_id, sentence, position, text = columns[:4]
            if not (_INTEGER.fullmatch(sentence) and _INTEGER.fullmatch(position)):
                problem = f"sentence and word must be integers, not {sentence!r:.30} and {position!r:.30}"
                raise DataError(problem, id=document_id)
            yield _Word(number, document_id, int(sentence), int(position), text)


def _mentions(source: Path, records: Records[Document]) -> dict[str, list[Numbered]]:
    """Return the objects of the mention file by document, numbered from 1."""
    if not isinstance(mentions := parse_whole(read_text(source), source), list):
        raise DataError("expected a JSON list of mentions", file=str(source))
    by_document: defaultdict[str, list[Numbered]] = defaultdict(list)
    for number, mention in enumerate(mentions, start=1):
        with records.record(source, 1, kind="mentions"):
            values = fields(mention, f"mention {number}", _MENTION, required=("doc_id", "sent_id", "tokens_number"))
            by_document[values["doc_id"]].append((number, values))
    return by_document


def _document(piece: Piece, records: Records[Document]) -> Document:
    words, mentions, source = piece.content
    document_id = words[0].document_id
    text, places = lay_out([[word.text for word in some] for _, some in groupby(words, attrgetter("sentence"))])
    where: dict[tuple[int, int], Span] = {}
    for word, place in zip(words, chain.from_iterable(places), strict=True):
        if where.setdefault((word.sentence, word.number), place) != place:
            raise DataError(f"sentence {word.sentence} has word {word.number} twice", line=word.line, id=document_id)
    marked: list[Marked] = []
    for number, mention in mentions:
        with records.record(source, 1, kind="mentions"):
            sentence, own = mention["sent_id"], sorted({*mention["tokens_number"]})
            if missing := [word for word in own if (sentence, word) not in where]:
                problem = f"mention {number}: the corpus has no word {missing[0]} in sentence {sentence}"
                raise DataError(problem, id=document_id)
            spans = tuple((where[sentence, first][0], where[sentence, last][1]) for first, last in runs_of(own))
            label, group, identity = (mention.get(key) or None for key in ("mention_type", "coref_chain", "identity"))
            gold, cluster = (identity, group) if "identity" in mention else (group, None)
            marked.append(Marked(spans, label, gold and (gold,), cluster=cluster))
    topic = _ECBPLUS_ID.fullmatch(document_id)
    return marked_document(document_id, text, marked, None, {} if topic is None else {"topic": topic[1]})

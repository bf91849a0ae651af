"""Read ZeShEL (Logeswaran et al. 2019): wikis on sixteen worlds, whose pages are both documents and entities.

    documents/lego.json    {"document_id": "0A1B", "title": "Ann Droid", "text": "Ann Droid Ann Droid is a robot ..."}
    mentions/test.json     {"mention_id": "7C2D", "context_document_id": "0A1B", "corpus": "lego", "start_index": 6,
                            "end_index": 6, "text": "robot", "label_document_id": "3E4F", "category": "LOW_OVERLAP"}

Each line is one object; other keys are kept as metadata of the mention or entity. The domain of documents and entities
is their world (see `arbo.retrieval.groups`).

The entities are the pages in a world's file, or in all files of the folder `documents`. The file's name is the domain;
the text, without the title at its beginning, is the definition. `world/line`, with lines counted from 0, is an
alternative id, as BLINK (Wu et al. 2020) refers to entities.

The documents are the pages with a mention in a file of mentions, or in all files of a folder; their texts are in the
folder `documents` next to the folder of the mentions. `start_index` and `end_index` count words separated by white
space, from 0, and the end is inclusive. `label_document_id` is the gold id; it is null or absent if the mention is not
annotated. `category`, the overlap of the mention with its entity's title, is the type. A repeated mention is kept once
if its content is equal, and is an error if its content differs. If `text` differs from the words only in white space,
the words count, and `notes` counts the difference; any other difference is an error.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from arbo.data import Corpus, Document, Entity, Mention, OnError, Records
from arbo.data.objects import Convert, fields, parse, string, whole_number
from arbo.errors import DataError
from arbo.formats.files import Paths, Piece, data_files, line_pieces, read_items

SUFFIXES = (".json",)

_TOKEN = re.compile(r"\S+")


class _Marked(NamedTuple):
    id: str
    document_id: str
    world: str
    first: int
    last: int
    text: str
    label: str | None
    category: str | None
    metadata: Mapping[str, Any]


Places = Mapping[str, tuple[Path | str, int | None]]


def read_documents(path: Paths, *, on_error: OnError = "fail") -> Corpus:
    """Read the documents of a file of mentions, or of all `.json` files of a folder; texts are in ``../documents``."""
    places: dict[str, tuple[Path | str, int | None]] = {}

    def build(piece: Piece, _: object) -> _Marked:
        mention = _marked(piece.content)
        places.setdefault(mention.id, (piece.file, piece.line))
        return mention

    marked: Records[_Marked] = read_items(path, SUFFIXES, line_pieces, build, Records("mentions", on_error))
    by_page: defaultdict[tuple[str, str], list[_Marked]] = defaultdict(list)
    for mention in marked:
        by_page[mention.world, mention.document_id].append(mention)
    records: Records[Document] = Records("documents", on_error)
    folders = dict.fromkeys(file.absolute().parent.parent / "documents" for file in data_files(path, SUFFIXES))
    for folder in folders:
        if not folder.is_dir():
            raise DataError("the folder of the texts is missing; put it beside that of the mentions", file=str(folder))
    worlds = {_world(file): file for file in data_files([*folders], SUFFIXES)}
    texts = _texts(by_page, worlds, records)
    for (world, document_id), mentions in by_page.items():
        first = places[mentions[0].id]
        with records.record(*first):
            if world not in worlds:
                raise DataError(f"{folder} has no file for the world {world!r:.60}; add it", id=mentions[0].id)
            if (world, document_id) not in texts:
                raise DataError(f"{worlds[world]} has no document {document_id!r:.60}", id=mentions[0].id)
            records.add(_document(texts[world, document_id], mentions, places, marked), *first)
    return Corpus(records, marked.notes + records.notes)


def _world(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".json")


def _texts(
    pairs: Iterable[tuple[str, str]], worlds: Mapping[str, Path], records: Records[Document]
) -> dict[tuple[str, str], str]:
    of_world: defaultdict[str, set[str]] = defaultdict(set)
    for world, document_id in pairs:
        of_world[world].add(document_id)
    texts: dict[tuple[str, str], str] = {}
    for world, ids in of_world.items():
        for line, file, number, _ in line_pieces(worlds[world], records) if world in worlds else ():
            with records.record(file, number):
                page = _page(line)
                id_, text = page["document_id"], page["text"]
                if id_ in ids and texts.setdefault((world, id_), text) != text:
                    raise DataError("two different documents have this id; change one id", id=id_)
    return texts


def _document(text: str, mentions: list[_Marked], places: Places, marked: Records[_Marked]) -> Document:
    tokens = [token.span() for token in _TOKEN.finditer(text)]
    placed = []
    for mention in mentions:
        with marked.record(*places[mention.id]):
            placed.append(_mention(mention, text, tokens, marked))
    return Document(mentions[0].document_id, text, tuple(placed), mentions[0].world)


def _mention(mention: _Marked, text: str, tokens: list[tuple[int, int]], marked: Records[_Marked]) -> Mention:
    if not 0 <= mention.first <= mention.last < len(tokens):
        wrong = f"words {mention.first} to {mention.last} do not fulfil 0 <= start_index <= end_index < {len(tokens)}"
        raise DataError(f"{wrong}, the number of words of document {mention.document_id!r}", id=mention.id)
    covered = [text[start:end] for start, end in tokens[mention.first : mention.last + 1]]
    if " ".join(covered) != mention.text:
        if covered != mention.text.split():
            wrong = f"the text of the mention differs from words {mention.first} to {mention.last} of its document"
            raise DataError(f"{wrong}; words are separated by white space and counted from 0", id=mention.id)
        marked.notes["mention texts that differ from their words in white space"] += 1
    span = tokens[mention.first][0], tokens[mention.last][1]
    gold = None if mention.label is None else (mention.label,)
    inside = text[slice(*span)]
    return Mention(mention.id, mention.document_id, (span,), inside, mention.category, gold, metadata=mention.metadata)


def entity(piece: Piece, _: object) -> Entity:
    """Make an entity of a line, in a file that is named after its world."""
    page, world = _page(piece.content), _world(Path(piece.file))
    title, others = page["title"], (f"{world}/{(piece.line or 1) - 1}",)
    definition = _without_title(page["text"], title)
    return Entity(
        page["document_id"], title, (), definition, alternative_ids=others, domain=world, metadata=page["metadata"]
    )


def _without_title(text: str, title: str) -> str | None:
    """Return the text without the title at its beginning; None if nothing is left."""
    heading, begun = "".join(title.split()), ""
    for token in _TOKEN.finditer(text):
        begun += token[0]
        if len(begun) >= len(heading):
            break
    rest = text[token.end() :] if begun == heading != "" else text
    return rest.strip() or None


def _page(line: str) -> dict[str, Any]:
    return _values(line, "a document", _PAGE, "document_id", _PAGE)


def _marked(line: str) -> _Marked:
    values = _values(line, "a mention", _MENTION, "mention_id", _MENTION.keys() - {"label_document_id", "category"})
    return _Marked._make([*(values.get(key) for key in _MENTION), values["metadata"]])  # keys in the order of fields


def _values(line: str, what: str, known: Mapping[str, Convert], id_key: str, required: Iterable[str]) -> dict[str, Any]:
    record = parse(line)
    name = record.get(id_key) if isinstance(record, dict) else None
    of = name if isinstance(name, str) else None
    return fields(record, what, known, required=tuple(key for key in known if key in required), of=of)


_PAGE: Mapping[str, Convert] = {"document_id": string, "title": string, "text": string}

_MENTION: Mapping[str, Convert] = {
    "mention_id": string,
    "context_document_id": string,
    "corpus": string,
    "start_index": whole_number,
    "end_index": whole_number,
    "text": string,
    "label_document_id": string,
    "category": string,
}

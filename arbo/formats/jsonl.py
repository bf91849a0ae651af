r"""Read and write JSON lines, arbo's own format for documents and entities, with one object per line.

A document (`id` and `text` are required):

    {"id": "d1", "text": "Left and right kidney.", "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["UBERON:0004538"]}], "domain": null}

`spans` (required) lists pairs of start and end, counted in Unicode code points; the end is exclusive. Several pairs
make a discontinuous mention. `entities` lists all acceptable gold ids; it is `[]` if the mention is annotated as NIL,
and null or absent if the mention is not annotated. `cluster` is the gold cluster, within the document or across
documents. `type`, `cluster` and `domain` may be null or absent; `score` is the score of a finder, see
`arbo.spans.finding`. If a mention has a `text`, it must equal the text at its spans, except for white space.

An entity (`id` and `name` are required):

    {"id": "D010190", "name": "Pancreatic Neoplasms", "aliases": ["Cancer of Pancreas"], "definition": null,
     "types": ["Disease"], "alternative_ids": ["MESH:D010190"], "xrefs": ["DOID:1793"], "domain": null}

In the file, each object is on one line. Further keys of documents, mentions and entities are metadata; a repeated key
is an error. Strings are kept exactly as written, including line ends such as `\r\n`.

A cluster, as `arbo score` reads it and the writer of clusters makes it (`mentions` is required):

    {"document": "d1", "mentions": ["m1", 2, [0, 4]]}

A mention is a string, an integer, or a list of these such as the span `[0, 4]`; `1` and `"1"` are two mentions. Without
`document`, the cluster belongs to the document `""`. A line without mentions adds its document, but no cluster.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from arbo.data import Corpus, Document, Entity, OnError, Records, Tables, grouped
from arbo.data.objects import any_list, document_line, fields, parse, string, to_document, to_entity
from arbo.data.plain_lines import tables_of_lines
from arbo.data.tables import check_ids
from arbo.errors import DataError
from arbo.files import PathLike, write_lines
from arbo.formats.files import Paths, Piece, data_files, line_pieces, read_items, unpacked

SUFFIXES = (".jsonl",)
_AT_ONCE = 1 << 18  # bytes of lines that are parsed at once


def read_documents(path: Paths, on_error: OnError) -> Corpus:
    """Read documents: as columns if all lines are plain, or else one by one, which names the place of an error."""
    files, records = data_files(path, SUFFIXES), Records[Document]("documents", on_error)
    if all(map(Path.is_file, files)):  # a pipe can be read only once
        with suppress(DataError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            check_ids(tables := Tables.joined([*map(tables_of_lines, chain(*map(_lines, files)))]))
            return Corpus(tables)
    return Corpus(read_items(path, SUFFIXES, line_pieces, document, records))


def _lines(file: Path) -> Iterator[str]:
    """Yield some lines after the others, as a text without the last line end."""
    with unpacked(file) as stream:
        while lines := stream.read(_AT_ONCE) + stream.readline():
            yield lines.removesuffix(b"\n").decode("utf-8")


def document(piece: Piece, _: object) -> Document:
    """Make a document of a line."""
    return to_document(parse(piece.content))


def entity(piece: Piece, _: object) -> Entity:
    """Make an entity of a line."""
    return to_entity(parse(piece.content))


def clusters(piece: Piece, _: object) -> tuple[str, list[list[Hashable]]]:
    """Return the document of a line, and its only cluster; lists become tuples."""
    values = fields(parse(piece.content), "a cluster", _CLUSTER, required=("mentions",))
    for key in values["metadata"]:
        raise DataError(f"unknown key {key!r:.60}; known: {', '.join(_CLUSTER)}")
    return values.get("document", ""), [[*map(_mention, values["mentions"])]]


_CLUSTER = {"document": string, "mentions": any_list}


def _mention(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_mention, value))
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise DataError(f"a mention is a string, an integer or a list of these, not {json.dumps(value):.60}")


def document_lines(document: Document, _: object) -> Iterator[str]:
    """Yield the line of a document, which holds everything."""
    yield document_line(document)


def write_clusters(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write `{"mentions": [mention ids]}` for each cluster of mentions with the same gold ids or gold cluster."""
    mentions = (mention for document in documents for mention in document.mentions)
    clusters = grouped((frozenset(mention.labels or ()), mention.id) for mention in mentions)
    notes = Counter({"mentions without an id left out": len(clusters.pop(frozenset(), ()))})
    write_lines((json.dumps({"mentions": ids}, ensure_ascii=False) for ids in clusters.values()), path)
    return notes

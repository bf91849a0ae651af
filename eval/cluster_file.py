r"""Clusters as JSON lines: one cluster per line, with the document that it belongs to.

::

    {"document": "d1", "mentions": ["m1", "m2"]}
    {"document": "d1", "mentions": ["m3"]}
    {"document": "d2", "mentions": [[0, 1], [4, 4]]}
    {"document": "d3", "mentions": []}

A mention is named by a string, an integer, or a list of these such as ``[start, end]``, which is read as a tuple; ``1``
and ``"1"`` are two mentions. A cluster whose `document` is missing or null belongs to the document named ``""``. A line
without mentions adds no cluster, but its document counts even if it has no other line.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from .documents import ClusteredDocuments, Mentions
from .files import FileFormatError, PathLike, read_lines

_KEYS = ("document", "mentions")


def read_clusters(path: PathLike) -> ClusteredDocuments:
    """Read JSON lines such as ``{"document": "d1", "mentions": ["m1", "m2"]}``, one cluster per line.

    The first of repeated mentions in a document counts. Raise FileFormatError if a line is not a cluster in JSON, or
    the file is empty or not text, and OSError if it cannot be read. An error in a line names line and column; for
    valid JSON that is not a cluster, the column is where the object begins.
    """
    documents: dict[str, list[Mentions]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if line and not line.isspace():
            document, mentions = _cluster(line, partial(FileFormatError, path=path, line=number))
            documents.setdefault(document, []).append(mentions)
    return ClusteredDocuments.first_of_each(documents)


def _cluster(line: str, malformed: Callable[..., FileFormatError]) -> tuple[str, Mentions]:
    begin = len(line) - len(line.lstrip()) + 1
    try:
        record = json.loads(line, object_pairs_hook=_object)
        if not isinstance(record, dict):
            example = '{"document": "d1", "mentions": ["m1", "m2"]}'
            raise TypeError(f"expected an object such as {example}, not {line:.60}")
        return _document(record), _mentions(record)
    except json.JSONDecodeError as error:
        guess = "; is this CoNLL?" if line.startswith("#") else ""
        problem = f"not JSON: {error.msg}; each line is one complete object{guess}"
        raise malformed(problem, column=error.colno) from None
    except TypeError as error:
        raise malformed(str(error), column=begin) from None
    except RecursionError:
        raise malformed("a list or an object is nested too deeply", column=begin) from None
    except ValueError:
        raise malformed("a number has thousands of digits; write it as a string", column=begin) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise TypeError(f"the key {key!r:.60} occurs twice in one object; keep one")
    return record


def _document(record: dict[str, Any]) -> str:
    for key in record:
        if key not in _KEYS:
            raise TypeError(f"unknown key {key!r:.60}; known: {', '.join(_KEYS)}")
    document = record.get("document")
    if document is None:
        return ""
    if not isinstance(document, str):
        raise TypeError(f"'document' must be a string (in quotes), not {document!r:.60}")
    if not document.isprintable() and any("\ud800" <= character <= "\udfff" for character in document):
        raise TypeError(f"'document' {document!r:.60} has a lone surrogate; write the character itself")
    return document


def _mentions(record: dict[str, Any]) -> Mentions:
    mentions = record.get("mentions")
    if not isinstance(mentions, list):
        problem = f"must be a list of mentions, not {mentions!r:.60}" if "mentions" in record else "is missing"
        raise TypeError(f"'mentions' {problem}")
    return [*map(_mention, mentions)]


def _mention(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_mention, value))
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise TypeError(f"a mention is a string, an integer or a list of these, not {json.dumps(value):.60}")

"""The clusters of many documents: read from JSON lines, paired and counted by document."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from .contingency import Clusters, Contingency
from .coreference import CoreferenceCounts, Counts, counts_from_contingency, recall_precision_f1, scores_from_counts

Mentions: TypeAlias = list[Hashable]
# Yields the names of the documents unchanged; it also gets the number of documents.
Progress: TypeAlias = Callable[[Iterable[str], int], Iterable[str]]

_KEYS = ("document", "mentions")
REPEATED = "repeated mentions left out; the first of each counts"


class FileFormatError(ValueError):
    """An invalid file: the problem, and its line and column.

    `line` and `column` count from 1, columns in characters; None if the problem has no place.

    >>> print(FileFormatError("chain 3 does not end", line=7, column=12))
    line 7, column 12: chain 3 does not end
    """

    def __init__(self, problem: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


@dataclass(frozen=True)
class ClusteredDocuments:
    """The content of a file: the clusters of each document by its name, each mention once."""

    documents: dict[str, list[Mentions]]
    """in the order of the file; a document without clusters has an empty list"""
    notes: dict[str, int]
    """irregularities and their counts, to report to the user"""
    n_words: dict[str, int] = field(default_factory=dict)
    """the number of words of each document; empty if the file has no words"""

    @classmethod
    def first_of_each(
        cls,
        documents: Mapping[str, Iterable[Sequence[Hashable]]],
        notes: Mapping[str, int] = {},
        n_words: Mapping[str, int] = {},
    ) -> Self:
        """Keep the first of the mentions with the same id in a document, and count the others in `notes`.

        The first is the one in the first cluster with the mention. A cluster that becomes empty is left out.

        >>> ClusteredDocuments.first_of_each({"d": [["a", "b", "a"], ["b"], ["c", "a"]]})
        ClusteredDocuments(documents={'d': [['a', 'b'], ['c']]}, notes={'repeated mentions left out; the first \
of each counts': 3}, n_words={})
        """
        first_mentions: dict[str, list[Mentions]] = {}
        n_repeated = 0
        for name, clusters in documents.items():
            seen: set[Hashable] = set()
            first_mentions[name] = []
            for cluster in clusters:
                first = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
                seen.update(first)
                n_repeated += len(cluster) - len(first)
                if first:
                    first_mentions[name].append(first)
        more = {REPEATED: n_repeated} if n_repeated else {}
        return cls(first_mentions, {**notes, **more}, dict(n_words))


class DocumentCounts(NamedTuple):
    """The counts of one document, or of several together."""

    mentions: Counts  # mention detection: numerator and denominator of recall, then of precision
    coreference: CoreferenceCounts

    def as_dict(self) -> dict[str, Any]:
        """Return the ratios of mentions and coreference with their counts, ready for JSON."""
        return {"mentions": recall_precision_f1(self.mentions), "coreference": scores_from_counts(self.coreference)}


@dataclass(frozen=True)
class PairedCounts:
    """The result of `coreference_by_document`."""

    documents: dict[str, DocumentCounts]  # every document of the key, in its order
    missing: tuple[str, ...]  # documents of the key that are missing from the response, counted as empty responses
    ignored: tuple[str, ...]  # documents that only the response has

    @property
    def total(self) -> DocumentCounts:
        """The sum of the counts of all documents."""
        nothing, documents = _count([], []), self.documents.values()
        mentions = [sum(counts) for counts in zip(nothing.mentions, *(of.mentions for of in documents), strict=True)]
        return DocumentCounts(mentions, sum((of.coreference for of in documents), nothing.coreference))


def coreference_by_document(
    key: Mapping[str, Clusters], response: Mapping[str, Clusters], *, progress: Progress = lambda names, _: names
) -> PairedCounts:
    """Return the counts of every document of the key; mentions are compared only within a document.

    As in the CoNLL reference scorer, the documents of the key are scored: a document missing from the response counts
    as an empty response, and a document only in the response is ignored. Each side maps documents to their clusters, as
    the `documents` of `read_conll` and `read_clusters` do. ``progress`` gets the names of the documents and their
    number, and yields the names one by one. Raise TypeError if a side is not a mapping, and the errors of
    `coreference_scores`.

    >>> counts = coreference_by_document({"d1": [["a", "b"]], "d2": [["a"]]}, {"d1": [["a", "b", "c"]], "d3": []})
    >>> counts.documents["d1"].mentions, counts.total.coreference["b3"]
    ([2, 2, 2, 3], [2.0, 3, 1.3333333333333333, 3])
    >>> counts.missing, counts.ignored
    (('d2',), ('d3',))
    """
    problem = "is not a mapping from each document to its clusters; for one document see `coreference_counts`"
    for side, documents in (("key", key), ("response", response)):
        if not isinstance(documents, Mapping):
            raise TypeError(f"{side} {problem}")
    return PairedCounts(
        documents={name: _count(key[name], response.get(name, ())) for name in progress(key, len(key))},
        missing=tuple(name for name in key if name not in response),
        ignored=tuple(name for name in response if name not in key),
    )


def _count(key: Clusters, response: Clusters) -> DocumentCounts:
    table = Contingency.from_clusters(key, response)
    shared = table.n_shared
    mentions: Counts = [shared, int(table.row_size.sum()), shared, int(table.column_size.sum())]
    return DocumentCounts(mentions, counts_from_contingency(table))


def read_clusters(lines: Iterable[str]) -> ClusteredDocuments:
    """Read JSON lines such as ``{"document": "d1", "mentions": ["m1", "m2"]}``, one cluster per line.

    ``lines`` may be an open file; blank ones are ignored.
    A mention is named by a string, an integer, or a list of these such as ``[start, end]``, which is read as a tuple;
    ``1`` and ``"1"`` are two mentions. A cluster whose `document` is missing or null belongs to the document ``""``. A
    line without mentions adds no cluster, but its document counts even if it has no other line. The first of repeated
    mentions in a document counts.

    Raise FileFormatError, with line and column, if a line is not a cluster in JSON; for valid JSON that is not a
    cluster, the column is where the object begins.
    """
    documents: dict[str, list[Mentions]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        begin = len(line) - len(line.lstrip()) + 1
        try:
            document, mentions = _cluster(line)
        except json.JSONDecodeError as error:
            guess = "; is this CoNLL?" if line.startswith("#") else ""
            problem = f"not JSON: {error.msg}; each line is one complete object{guess}"
            raise FileFormatError(problem, line=number, column=error.colno) from None
        except TypeError as error:
            raise FileFormatError(str(error), line=number, column=begin) from None
        except (RecursionError, ValueError):
            problem = "too deeply nested, or a number of thousands of digits"
            raise FileFormatError(problem, line=number, column=begin) from None
        documents.setdefault(document, []).append(mentions)
    return ClusteredDocuments.first_of_each(documents)


def _cluster(line: str) -> tuple[str, Mentions]:
    record = json.loads(line)
    if not isinstance(record, dict):
        example = '{"document": "d1", "mentions": ["m1", "m2"]}'
        raise TypeError(f"expected an object such as {example}, not {line:.60}")
    for key in record:
        if key not in _KEYS:
            raise TypeError(f"unknown key {key!r:.60}; known: {', '.join(_KEYS)}")
    document, mentions = map(record.get, _KEYS)
    if not isinstance(document, str | None):
        raise TypeError(f"'document' must be a string (in quotes), not {document!r:.60}")
    if not isinstance(mentions, list):
        problem = f"must be a list of mentions, not {mentions!r:.60}" if "mentions" in record else "is missing"
        raise TypeError(f"'mentions' {problem}")
    return document or "", [*map(_mention, mentions)]


def _mention(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_mention, value))
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise TypeError(f"a mention is a string, an integer or a list of these, not {json.dumps(value):.60}")

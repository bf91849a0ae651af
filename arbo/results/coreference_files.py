"""Coreference of files: read, paired by document and scored, with notes about what does not fit."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from arbo.data import Records
from arbo.engine import (
    Cell,
    Contingency,
    CoreferenceCounts,
    Line,
    Report,
    Resampling,
    Table,
    coreference_lines,
    counts_from_contingency,
    recall_precision_f1,
    scores_from_counts,
    text_of,
)
from arbo.errors import DataError, listed
from arbo.formats import conll, jsonl
from arbo.formats.files import line_pieces
from arbo.progress import bars

ClusterFormat = Literal["conll", "jsonl"]
Clusters = Mapping[str, Sequence[Sequence[Hashable]]]
"""The clusters of each document, by its name."""
Tell = Callable[[str], None]


class ClusterFile(NamedTuple):
    """The content of a file of clusters."""

    documents: Clusters
    """in the order of the file, each mention once; a document without clusters has an empty list"""
    notes: Mapping[str, int]
    """irregularities and their counts"""
    n_words: Mapping[str, int]
    """the number of words of each document; empty for JSON lines"""


class PairedCounts(NamedTuple):
    """The counts of a response against a key."""

    documents: dict[str, CoreferenceCounts]
    """of every document of the key, in its order, with those of the mentions"""
    missing: tuple[str, ...]
    """documents of the key that are missing from the response, counted as empty responses"""
    ignored: tuple[str, ...]
    """documents that only the response has"""

    @property
    def total(self) -> CoreferenceCounts:
        """The sum of the counts of all documents."""
        return sum(self.documents.values(), _counts([], []))


@dataclass(frozen=True, slots=True)
class FileScores:
    """The scores of files against a key."""

    pairs: Mapping[str, PairedCounts]
    """The counts of each system by document."""
    report: Report

    def as_dict(self, paths: Mapping[str, Path], per_document: bool) -> dict[str, Any]:
        """Return the scores of each system, and perhaps of each document, ready for JSON."""
        return {
            name: {
                "response": str(paths[name]),
                **_scores(pair.total),
                "missing_documents": list(pair.missing),
                "ignored_documents": list(pair.ignored),
                **({"documents": {key: _scores(of) for key, of in pair.documents.items()}} if per_document else {}),
            }
            for name, pair in self.pairs.items()
        }

    @property
    def table(self) -> Table:
        """A row for each document of the key: all scores of one system, or the CoNLL F1 of several."""
        several, (first, *_) = len(self.pairs) > 1, self.pairs.values()
        rows = {
            document: {
                name if several else line.name: text_of(line.score)
                for name, pair in self.pairs.items()
                for line in _lines([pair.documents[document]])
            }
            for document in first.documents
        }  # of several systems, the last line is CoNLL
        names = dict.fromkeys(name for row in rows.values() for name in row)
        cells = [tuple(map(Cell, (document, *row.values()))) for document, row in rows.items()]
        title = f"{'CoNLL F1' if several else 'Scores'} by document"
        return Table(title, ("", *names), (False, *(True for _ in names)), cells, [])


def score_files(
    key: Path,
    responses: Mapping[str, Path],
    format_: ClusterFormat | None = None,
    *,
    singletons: bool = True,
    seed: int = 0,
    tell: Tell,
    warn: Tell,
) -> FileScores:
    """Score the clusters of files, by the name of their system, against those of a key.

    ``singletons`` says whether clusters of one mention count. ``tell`` takes notes, and ``warn`` warnings.
    """

    def read(path: Path) -> ClusterFile:
        clustered = read_clusters(path, format_, singletons=singletons)
        for note, count in clustered.notes.items():
            tell(f"{path.name}: {count:,} {note}")
        if not any(clustered.documents.values()):
            where = ": no chain in the last column of any word" if clustered.n_words else ""
            warn(f"{path.name}: no mentions{where}")
        return clustered

    true, pairs = read(key), dict[str, PairedCounts]()
    for name, path in responses.items():
        response = read(path)
        _warn_of_shifts(name, true, response, warn)
        pairs[name] = paired_counts(true.documents, response.documents)
        _tell_unpaired(name, pairs[name], tell, warn)
    first, *others = pairs
    n = len(pairs[first].documents)
    if n == 1:
        tell(f"{key.name}: one document; intervals and significance tests need two or more")
    title = f"{'F1' if others else first} against {key.name}, {_counted(n)}"
    by_name = {name: _lines(pair.documents.values()) for name, pair in pairs.items()}
    return FileScores(pairs, Report.of(by_name, title=title, how=Resampling(seed=seed)))


def read_clusters(file: Path, format_: ClusterFormat | None = None, *, singletons: bool = True) -> ClusterFile:
    """Read the clusters of a file by document, perhaps without those of one mention.

    The name of a document of CoNLL is the text after ``#begin document``, including blanks at its end; its mentions are
    spans of words. Of repeated mentions in a document, the first counts: the one in the first cluster with the mention.
    The reference scorer 8.01 differs for unusual files. It keeps repeated mentions that are not in the key, counts
    comments inside a document as words, ignores text that is not a bracket, searches a whole line without tabs and not
    only its last column, and reads only the last of several documents with the same name.

    Raise DataError, with file and line, if the file cannot be read or is malformed, or has no documents.
    """
    documents, n_words, records = dict[str, list[Sequence[Hashable]]](), dict[str, int](), Records[Any]("documents")
    if (format_ or ("jsonl" if file.name.lower().endswith((".jsonl", ".jsonl.gz")) else "conll")) == "jsonl":
        for piece in line_pieces(file, records):
            with records.record(piece.file, piece.line):
                name, mentions = jsonl.cluster(piece)
                documents.setdefault(name, []).append(mentions)
    else:
        for piece in conll.pieces(file, records):
            with records.record(piece.file, piece.line):
                name, chains, size = conll.clusters(piece, records)
                if name in documents:
                    raise DataError("an earlier document has the same name; rename one", id=name)
                documents[name], n_words[name] = [*chains], size
    if not documents:
        raise DataError("the file has no documents; arbo export --to clusters writes them", file=str(file))
    first = {name: [*_first_of_each(clusters)] for name, clusters in documents.items()}
    n_all, n_first = (sum(len(one) for clusters in of.values() for one in clusters) for of in (documents, first))
    records.notes["repeated mentions left out; the first of each counts"] += n_all - n_first
    least = 1 if singletons else 2
    kept = {name: [one for one in clusters if len(one) >= least] for name, clusters in first.items()}
    return ClusterFile(kept, +records.notes, n_words)


def _first_of_each(clusters: Iterable[Sequence[Hashable]]) -> Iterator[list[Hashable]]:
    seen: set[Hashable] = set()
    for cluster in clusters:
        first = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
        seen.update(first)
        if first:
            yield first


def paired_counts(key: Clusters, response: Clusters) -> PairedCounts:
    """Return the counts of every document of the key; mentions are compared only within a document.

    As in the CoNLL reference scorer, a document missing from the response counts as an empty response, and a document
    only in the response is ignored.
    """
    names = bars("scoring")(key, len(key))
    return PairedCounts(
        documents={name: _counts(key[name], response.get(name, ())) for name in names},
        missing=tuple(name for name in key if name not in response),
        ignored=tuple(name for name in response if name not in key),
    )


def _counts(key: Collection[Sequence[Hashable]], response: Collection[Sequence[Hashable]]) -> CoreferenceCounts:
    """Count the coreference of a document, and under `mentions` which mentions both sides have."""
    table = Contingency.from_clusters(key, response)
    mentions: list[float] = [table.n_shared, int(table.row_size.sum()), table.n_shared, int(table.column_size.sum())]
    return CoreferenceCounts(counts_from_contingency(table), mentions=mentions)


def _scores(counts: CoreferenceCounts) -> dict[str, Any]:
    return {"mentions": recall_precision_f1(counts["mentions"]), "coreference": scores_from_counts(counts)}


def _warn_of_shifts(name: str, key: ClusterFile, response: ClusterFile, warn: Tell) -> None:
    """Warn of documents whose number of words differs from the key, since a missing line shifts all later mentions."""
    other = [
        f"{document!r:.60} ({n:,}, in the key {key.n_words[document]:,})"
        for document, n in response.n_words.items()
        if n != key.n_words.get(document, n)
    ]
    if other:
        warn(
            f"{name}: the number of words differs from the key in {_counted(len(other))}, so mentions may be shifted; "
            f"check for missing lines: {listed(other, 3)}"
        )


def _tell_unpaired(name: str, pair: PairedCounts, tell: Tell, warn: Tell) -> None:
    """Tell documents that only one file has, and warn if the files seem to have different documents."""
    n_missing, n_documents = len(pair.missing), len(pair.documents)
    if pair.missing:
        tell(
            f"{name}: lacks {n_missing:,} of the {_counted(n_documents)} of the key, which count as empty responses: "
            f"{listed((f'{one!r:.60}' for one in pair.missing), 3)}"
        )
    if pair.ignored:
        ignored = listed((f"{one!r:.60}" for one in pair.ignored), 3)
        tell(f"{name}: {_counted(len(pair.ignored))} ignored, not in the key: {ignored}")
    right, in_key, _, in_response = pair.total["mentions"]
    if not right and in_key and in_response:
        warn(f"{name}: no mention is in the key; check that both files have the same documents and words")
    elif n_missing == n_documents:
        warn(f"{name}: all documents of the key are missing; check that the names of the documents agree")


def _counted(n: int) -> str:
    return f"{n:,} document{'s' * (n != 1)}"


def _lines(documents: Collection[CoreferenceCounts]) -> list[Line]:
    counts = [document["mentions"] for document in documents]
    right, in_key, _, in_response = map(sum, zip(*counts, strict=True))
    over = f"{right:,} right, {in_key:,} in the key, {in_response:,} in the response"
    return [Line.of_counts("mentions", counts, over=over), *coreference_lines([*documents])]

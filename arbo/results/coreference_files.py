"""Coreference of files: read, paired by document and scored, with notes about what does not fit."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from arbo.engine import (
    Cell,
    ClusteredDocuments,
    DocumentCounts,
    FileFormatError,
    Line,
    PairedCounts,
    Report,
    Resampling,
    Table,
    coreference_by_document,
    coreference_lines,
    read_clusters,
    read_conll,
    text_of,
)
from arbo.errors import DataError, listed
from arbo.formats.files import read_text
from arbo.progress import bars

ClusterFormat = Literal["conll", "jsonl"]
Tell = Callable[[str], None]


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
                **pair.total.as_dict(),
                "missing_documents": list(pair.missing),
                "ignored_documents": list(pair.ignored),
                **({"documents": {key: of.as_dict() for key, of in pair.documents.items()}} if per_document else {}),
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
    read = partial(_read, format_=format_, singletons=singletons, tell=tell, warn=warn)
    true, pairs = read(key), dict[str, PairedCounts]()
    for name, path in responses.items():
        response = read(path)
        _warn_of_shifts(name, true, response, warn)
        pairs[name] = coreference_by_document(true.documents, response.documents, progress=bars("scoring"))
        _tell_unpaired(name, pairs[name], tell, warn)
    first, *others = pairs
    n = len(pairs[first].documents)
    if n == 1:
        tell(f"{key.name}: one document; intervals and significance tests need two or more")
    title = f"{'F1' if others else first} against {key.name}, {_counted(n)}"
    by_name = {name: _lines(pair.documents.values()) for name, pair in pairs.items()}
    return FileScores(pairs, Report.of(by_name, title=title, how=Resampling(seed=seed)))


def _read(path: Path, format_: ClusterFormat | None, *, singletons: bool, tell: Tell, warn: Tell) -> ClusteredDocuments:
    """Read a file, perhaps without clusters of one mention, and tell irregularities."""
    if format_ is None:
        format_ = "jsonl" if path.name.lower().endswith((".jsonl", ".jsonl.gz")) else "conll"
    if path.is_dir():
        raise DataError("cannot be read: Is a directory; arbo export --to clusters writes a file", file=str(path))
    lines = read_text(path).split("\n")
    if not any(map(str.strip, lines)):
        raise DataError("the file is empty", file=str(path))
    try:
        clustered = read_clusters(lines) if format_ == "jsonl" else read_conll(lines)
    except FileFormatError as error:
        raise DataError(f"{path}{', ' if error.line else ': '}{error}") from None
    for note, count in clustered.notes.items():
        tell(f"{path.name}: {count:,} {note}")
    if not any(clustered.documents.values()):
        where = ": no chain in the last column of any word" if format_ == "conll" else ""
        warn(f"{path.name}: no mentions{where}")
    if singletons:
        return clustered
    several = {name: [one for one in clusters if len(one) > 1] for name, clusters in clustered.documents.items()}
    return replace(clustered, documents=several)


def _warn_of_shifts(name: str, key: ClusteredDocuments, response: ClusteredDocuments, warn: Tell) -> None:
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
    right, in_key, _, in_response = pair.total.mentions
    if not right and in_key and in_response:
        warn(f"{name}: no mention is in the key; check that both files have the same documents and words")
    elif n_missing == n_documents:
        warn(f"{name}: all documents of the key are missing; check that the names of the documents agree")


def _counted(n: int) -> str:
    return f"{n:,} document{'s' * (n != 1)}"


def _lines(documents: Collection[DocumentCounts]) -> list[Line]:
    counts = [document.mentions for document in documents]
    right, in_key, _, in_response = map(sum, zip(*counts, strict=True))
    over = f"{right:,} right, {in_key:,} in the key, {in_response:,} in the response"
    mentions = Line.of_counts("mentions", counts, over=over)
    return [mentions, *coreference_lines([document.coreference for document in documents])]

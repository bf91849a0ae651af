"""Coreference of files and runs: read, paired by document and scored, with notes about what does not fit."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from arbo.engine import (
    ClusteredDocuments,
    DocumentCounts,
    FileFormatError,
    Line,
    PairedCounts,
    Report,
    Resampling,
    coreference_by_document,
    coreference_lines,
    lines_of_codes,
    read_clusters,
    read_conll,
)
from arbo.errors import DataError
from arbo.formats import Ids
from arbo.progress import Announce, quiet
from arbo.results.lines import MOST_WITH_INTERVALS
from arbo.results.result import Result

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
        return {name: _as_dict(paths[name], pair, per_document) for name, pair in self.pairs.items()}

    def by_document(self) -> dict[str, dict[str, list[Line]]]:
        """Return the lines of each system by document."""
        documents = next(iter(self.pairs.values())).documents
        return {
            document: {name: _lines([pair.documents[document]]) for name, pair in self.pairs.items()}
            for document in documents
        }


def score_files(
    key: Path,
    responses: Mapping[str, Path],
    format_: ClusterFormat | None = None,
    *,
    singletons: bool = True,
    seed: int = 0,
    tell: Tell,
    warn: Tell,
    announce: Announce = quiet,
) -> FileScores:
    """Score the clusters of files or run folders against those of a key.

    Args:
        key: the file with the true clusters, or the run folder of annotated documents.
        responses: a file or run folder for each system.
        format_: the format of all files; None guesses it.
        singletons: whether clusters of one mention count.
        seed: the random seed of intervals and significance tests.
        tell: takes notes, such as documents that only one file has.
        warn: takes warnings, such as files without mentions.
        announce: shows progress.
    """

    def read(path: Path, ids: Ids) -> ClusteredDocuments:
        return _read(path, format_, ids, singletons=singletons, tell=tell, warn=warn)

    true = read(key, "gold")
    found = {name: read(path, "links") for name, path in responses.items()}
    pairs = {}
    for name, response in found.items():
        _warn_of_shifts(name, true, response, warn)
        pairs[name] = coreference_by_document(true.documents, response.documents, progress=announce("scoring"))
        _tell_unpaired(name, pairs[name], tell, warn)
    where = _documents_of(key) if [*true.documents] == [""] and key.is_dir() else {}
    lines = lines_across(true, found, where) if where else None
    return FileScores(pairs, _report(pairs, lines, key.name, seed, tell))


def _report(
    pairs: Mapping[str, PairedCounts], lines: dict[str, list[Line]] | None, key: str, seed: int, tell: Tell
) -> Report:
    """Make the report of all systems; tell if the key has too few documents for intervals."""
    first, *others = pairs
    n, across = len(pairs[first].documents), [*pairs[first].documents] == [""]
    if across and lines is None:
        tell(f"{key} does not say in which documents its mentions are; intervals need a run folder as KEY")
    elif n == 1 and lines is None:
        tell(f"{key}: one document; intervals and significance tests need two or more")
    by_name = lines or {name: _lines(pair.documents.values()) for name, pair in pairs.items()}
    title = f"{'F1' if others else first} against {key}, {'clusters across documents' if across else _counted(n)}"
    return Report.of(by_name, title=title, how=Resampling(seed=seed))


def _documents_of(run: Path) -> dict[Hashable, str]:
    table = Result.load(run).mention_table
    return dict(zip(*(table[name].to_pylist() for name in ("mention_id", "document_id")), strict=True))


def _exported(run: Path, format_: ClusterFormat | None, ids: Ids, folder: str, tell: Tell) -> Path:
    """Write the clusters of a run, or its gold clusters, to a file in ``folder``."""
    file = Path(folder, f"{run.name}.{format_ or 'jsonl'}")
    notes = Result.load(run).export(file, "conll" if format_ == "conll" else "clusters", ids=ids)
    for note, count in notes.items():
        tell(f"{run.name}: {count:,} {note}")
    return file


def _read(
    path: Path, format_: ClusterFormat | None, ids: Ids, *, singletons: bool, tell: Tell, warn: Tell
) -> ClusteredDocuments:
    """Read a file or a run, perhaps without clusters of one mention, and tell irregularities."""
    if path.is_dir():
        with TemporaryDirectory() as folder:
            file = _exported(path, format_, ids, folder, tell)
            return _read(file, format_, ids, singletons=singletons, tell=tell, warn=warn)
    if format_ is None:
        format_ = "jsonl" if path.name.lower().endswith((".jsonl", ".jsonl.gz")) else "conll"
    try:
        found = read_clusters(path) if format_ == "jsonl" else read_conll(path)
    except FileFormatError as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}; check the path", file=str(path)) from error
    for note, count in found.notes.items():
        tell(f"{path.name}: {count:,} {note}")
    if not any(found.documents.values()):
        where = ": no chain in the last column of any word" if format_ == "conll" else ""
        warn(f"{path.name}: no mentions{where}")
    if singletons:
        return found
    kept = {name: [one for one in clusters if len(one) > 1] for name, clusters in found.documents.items()}
    return replace(found, documents=kept)


def _warn_of_shifts(name: str, key: ClusteredDocuments, response: ClusteredDocuments, warn: Tell) -> None:
    """Warn of documents whose number of words differs from the key, since a missing line shifts all later mentions."""
    other = [
        f"{document!r:.60} ({n:,}, in the key {key.n_words[document]:,})"
        for document, n in response.n_words.items()
        if n != key.n_words.get(document, n)
    ]
    if other:
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        warn(
            f"{name}: the number of words differs from the key in {_counted(len(other))}, so mentions may be shifted; "
            f"check for missing lines: {shown}"
        )


def _tell_unpaired(name: str, pair: PairedCounts, tell: Tell, warn: Tell) -> None:
    """Tell documents that only one file has, and warn if the files seem to have different documents."""
    n_missing, n_documents = len(pair.missing), len(pair.documents)
    if pair.missing:
        tell(
            f"{name}: lacks {n_missing:,} of the {_counted(n_documents)} of the key, which count as empty responses: "
            f"{_some(pair.missing)}"
        )
    if pair.ignored:
        tell(f"{name}: {_counted(len(pair.ignored))} ignored, not in the key: {_some(pair.ignored)}")
    stripped = {document.strip() for document in pair.ignored}
    alike = [document for document in pair.missing if document.strip() in stripped]
    right, in_key, _, in_response = pair.total.mentions
    if alike:
        warn(f"{name}: names that differ from the key's only in blanks do not match: {_some(alike)}")
    elif not right and in_key and in_response:
        warn(f"{name}: no mention is in the key; check that both files have the same documents and words")
    elif n_missing == n_documents:
        warn(f"{name}: all documents of the key are missing; check that the names of the documents agree")


def _counted(n: int) -> str:
    return f"{n:,} document{'s' * (n != 1)}"


def _some(documents: Sequence[str]) -> str:
    return ", ".join(f"{document!r:.60}" for document in documents[:3]) + (", ..." if len(documents) > 3 else "")


def _lines(documents: Collection[DocumentCounts]) -> list[Line]:
    counts = [document.mentions for document in documents]
    mentions = Line.of_counts("mentions", counts, over=_over(*map(sum, zip(*counts, strict=True))))
    return [mentions, *coreference_lines([document.coreference for document in documents])]


def lines_across(
    key: ClusteredDocuments, found: Mapping[str, ClusteredDocuments], where: Mapping[Hashable, str]
) -> dict[str, list[Line]]:
    """Return the lines of a report on clusters across documents; ``where`` gives the document of each mention."""
    sides = [side.documents.get("", []) for side in (key, *found.values())]
    place = {mention: i for i, mention in enumerate(dict.fromkeys(chain(*chain(*sides))))}
    number = {document: i for i, document in enumerate(dict.fromkeys(where.get(mention, "") for mention in place))}
    document = np.array([number[where.get(mention, "")] for mention in place], np.int64)
    if len(place) > MOST_WITH_INTERVALS:
        document[:] = 0  # with one document there is no interval
    codes = np.full((len(sides), len(place)), -1)
    for own, clusters in zip(codes, sides, strict=True):
        own[[place[mention] for mention in chain(*clusters)]] = np.repeat(range(len(clusters)), [*map(len, clusters)])
    true = codes[0]
    lines = {}
    for name, pred in zip(found, codes[1:], strict=True):
        flags = ((true >= 0) & (pred >= 0), true >= 0, (true >= 0) & (pred >= 0), pred >= 0)
        counts = np.column_stack([np.bincount(document, flag, len(number)) for flag in flags])
        mentions = Line.of_counts("mentions", counts, over=_over(*counts.sum(axis=0).astype(int)))
        lines[name] = [mentions, *lines_of_codes(true, pred, document, ari=False)]
    return lines


def _over(right: int, in_key: int, _: int, in_response: int) -> str:
    return f"{right:,} right, {in_key:,} in the key, {in_response:,} in the response"


def _as_dict(path: Path, pair: PairedCounts, per_document: bool) -> dict[str, Any]:
    documents = {name: counts.as_dict() for name, counts in pair.documents.items()} if per_document else None
    return {
        "response": str(path),
        **pair.total.as_dict(),
        "missing_documents": list(pair.missing),
        "ignored_documents": list(pair.ignored),
        **({} if documents is None else {"documents": documents}),
    }

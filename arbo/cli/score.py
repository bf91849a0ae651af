"""The verb `score`."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import arbo
from arbo.cli import console, options, reporting
from arbo.errors import DataError

if TYPE_CHECKING:
    from arbo.engine import ClusteredDocuments, DocumentCounts, Line, PairedCounts, Report
    from arbo.formats import Ids


ClusterFormat = Literal["conll", "jsonl"]
_RESPONSES = "Response files or run folders, one for each system, also as NAME=PATH; each is compared with the first."
_FORMAT = "Format of all files. [default: jsonl for .jsonl, .jsonl.gz and runs, else conll]"
_PER_DOCUMENT = (
    "Also show the scores of each document: for one system, the F1 of all metrics; for several, the CoNLL "
    "F1; with --json, all scores."
)


def score(
    key: Annotated[
        Path, Argument(metavar="KEY", help="File with the true clusters, or the run folder of annotated documents.")
    ],
    responses: Annotated[list[Path], Argument(metavar="RESPONSE", help=_RESPONSES)],
    format_: Annotated[ClusterFormat | None, Option("--format", case_sensitive=False, help=_FORMAT)] = None,
    per_document: Annotated[bool, Option("--per-document", help=_PER_DOCUMENT)] = False,
    remove_singletons: reporting.RemoveSingletons = False,
    save: reporting.Save = None,
    seed: reporting.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Score coreference: MUC, B-cubed, CEAF, LEA, BLANC and CoNLL F1 of one system or several.

    `arbo score key.conll ours.conll`, or `arbo score key.conll baseline.conll ours.conll --save table.md`.

    The values equal those of the CoNLL reference scorer 8.01 and, for LEA, of its authors' scorer. Confidence intervals
    come from resampled documents. With several systems, stars mark scores that differ significantly from those of the
    first.

    **conll** is the layout of CoNLL-2011/2012: one word per line, chains as brackets such as `(12|(7)` in the last
    column, and each document between `#begin document NAME` and `#end document`.

    **jsonl** has one cluster per line: `{"document": "d1", "mentions": ["m1", "m2"]}`. A mention is a string, an
    integer, or a list such as `[0, 4]`: the span in CoNLL from the first word of a document to the fifth, so that the
    two formats can be mixed.

    A **run folder** as KEY stands for its gold clusters, and as RESPONSE for its predicted clusters. They span
    documents, as in `arbo export --to clusters`, and intervals come from random halves of the documents of KEY. With
    `--format conll`, clusters are split by document.

    The documents of KEY are scored. A document that is missing from the response counts as an empty response, and a
    document that is missing from KEY is ignored. Only the first of repeated mentions counts. Notes on stderr report
    these cases, files without mentions, and documents whose number of words differs from KEY.
    """
    names = reporting.name_systems(responses)
    reporting.check_outputs([key, *names.values()], save)
    true = _read(key, format_, "gold", singletons=not remove_singletons)
    found = {name: _read(path, format_, "links", singletons=not remove_singletons) for name, path in names.items()}
    pairs = {name: _counts(name, true, response) for name, response in found.items()}
    where = _documents_of(key) if [*true.documents] == [""] and key.is_dir() else {}
    lines = lines_across(true, found, where) if where else None
    report = _report(pairs, lines, key.name, seed)
    reporting.save_report(report, save)
    if as_json:
        systems = {name: _as_dict(names[name], pair, per_document) for name, pair in pairs.items()}
        console.print_json({"key": str(key), **reporting.of_systems(systems), "report": report.as_dict()})
        return
    console.show(report)
    if per_document:
        documents = {
            document: {name: _lines([pair.documents[document]]) for name, pair in pairs.items()}
            for document in next(iter(pairs.values())).documents
        }
        title = "CoNLL F1 by document" if len(pairs) > 1 else "F1 by document"
        console.show(f"\n{reporting.table_of_groups(documents, title, 'CoNLL')}")


def _report(pairs: Mapping[str, PairedCounts], lines: dict[str, list[Line]] | None, key: str, seed: int) -> Report:
    """Make the report of all systems; tell if the key has too few documents for intervals."""
    from arbo.engine import Report, Resampling

    first, *others = pairs
    n, across = len(pairs[first].documents), [*pairs[first].documents] == [""]
    if across and lines is None:
        console.say(f"{key} does not say in which documents its mentions are; intervals need a run folder as KEY")
    elif n == 1 and lines is None:
        console.say(f"{key}: one document; intervals and significance tests need two or more")
    by_name = lines or {name: _lines(pair.documents.values()) for name, pair in pairs.items()}
    title = f"{'F1' if others else first} against {key}, {'clusters across documents' if across else _counted(n)}"
    return Report.of(by_name, title=title, how=Resampling(seed=seed))


def _documents_of(run: Path) -> dict[Hashable, str]:
    table = arbo.Result.load(run).mention_table
    return dict(zip(*(table[name].to_pylist() for name in ("mention_id", "document_id")), strict=True))


def _exported(run: Path, format_: ClusterFormat | None, ids: Ids, folder: str) -> Path:
    """Write the clusters of a run, or its gold clusters, to a file in ``folder``."""
    file = Path(folder, f"{run.name}.{format_ or 'jsonl'}")
    notes = arbo.Result.load(run).export(file, "conll" if format_ == "conll" else "clusters", ids=ids)
    console.say_notes(notes, f"{run.name}: ")
    return file


def _read(path: Path, format_: ClusterFormat | None, ids: Ids, *, singletons: bool) -> ClusteredDocuments:
    """Read a file or a run, perhaps without clusters of one mention, and print notes about irregularities."""
    from arbo.engine import FileFormatError, read_clusters, read_conll

    if path.is_dir():
        with TemporaryDirectory() as folder:
            return _read(_exported(path, format_, ids, folder), format_, ids, singletons=singletons)
    if format_ is None:
        format_ = "jsonl" if path.name.lower().endswith((".jsonl", ".jsonl.gz")) else "conll"
    try:
        found = read_clusters(path) if format_ == "jsonl" else read_conll(path)
    except FileFormatError as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}; check the path", file=str(path)) from error
    console.say_notes(found.notes, f"{path.name}: ")
    if not any(found.documents.values()):
        where = ": no chain in the last column of any word" if format_ == "conll" else ""
        console.warn(f"{path.name}: no mentions{where}")
    if singletons:
        return found
    kept = {name: [one for one in clusters if len(one) > 1] for name, clusters in found.documents.items()}
    return replace(found, documents=kept)


def _counts(name: str, key: ClusteredDocuments, response: ClusteredDocuments) -> PairedCounts:
    """Count each document of the key, and print the documents that key and response do not share."""
    from arbo.engine import coreference_by_document
    from arbo.progress import bars

    _tell_shifted(name, key, response)
    pair = coreference_by_document(key.documents, response.documents, progress=bars("scoring"))
    _tell_unpaired(name, pair)
    return pair


def _tell_shifted(name: str, key: ClusteredDocuments, response: ClusteredDocuments) -> None:
    """Warn of documents whose number of words differs from the key, since a missing line shifts all later mentions."""
    other = [
        f"{document!r:.60} ({n:,}, in the key {key.n_words[document]:,})"
        for document, n in response.n_words.items()
        if n != key.n_words.get(document, n)
    ]
    if other:
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        console.warn(
            f"{name}: the number of words differs from the key in {_counted(len(other))}, so mentions may be shifted; "
            f"check for missing lines: {shown}"
        )


def _tell_unpaired(name: str, pair: PairedCounts) -> None:
    """Print documents that only one file has, and warn if the files seem to have different documents."""
    n_missing, n_documents = len(pair.missing), len(pair.documents)
    if pair.missing:
        console.say(
            f"{name}: lacks {n_missing:,} of the {_counted(n_documents)} of the key, which count as empty responses: "
            f"{_some(pair.missing)}"
        )
    if pair.ignored:
        console.say(f"{name}: {_counted(len(pair.ignored))} ignored, not in the key: {_some(pair.ignored)}")
    stripped = {document.strip() for document in pair.ignored}
    alike = [document for document in pair.missing if document.strip() in stripped]
    right, in_key, _, in_response = pair.total.mentions
    if alike:
        console.warn(f"{name}: names that differ from the key's only in blanks do not match: {_some(alike)}")
    elif not right and in_key and in_response:
        console.warn(f"{name}: no mention is in the key; check that both files have the same documents and words")
    elif n_missing == n_documents:
        console.warn(f"{name}: all documents of the key are missing; check that the names of the documents agree")


def _counted(n: int) -> str:
    return f"{n:,} document{'s' * (n != 1)}"


def _some(documents: Sequence[str]) -> str:
    return ", ".join(f"{document!r:.60}" for document in documents[:3]) + (", ..." if len(documents) > 3 else "")


def _lines(documents: Collection[DocumentCounts]) -> list[Line]:
    from arbo.engine import Line, coreference_lines

    counts = [document.mentions for document in documents]
    mentions = Line.of_counts("mentions", counts, over=_over(*map(sum, zip(*counts, strict=True))))
    return [mentions, *coreference_lines([document.coreference for document in documents])]


def lines_across(
    key: ClusteredDocuments, found: Mapping[str, ClusteredDocuments], where: Mapping[Hashable, str]
) -> dict[str, list[Line]]:
    """Return the lines of a report on clusters across documents; ``where`` gives the document of each mention."""
    import numpy as np

    from arbo.engine import Line, lines_of_codes
    from arbo.results.lines import MOST_WITH_INTERVALS

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

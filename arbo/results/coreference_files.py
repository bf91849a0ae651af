"""Clusters of files by document, and the counts of one file against another."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arbo.data import Records, grouped
from arbo.engine import Contingency, CoreferenceCounts, best_alignment, counts_from_contingency
from arbo.errors import DataError
from arbo.formats import ClusterFormat, conll, corefud, jsonl
from arbo.formats.files import ending, line_pieces
from arbo.progress import bars

Clusters = Mapping[str, Sequence[Sequence[Hashable]]]
"""The clusters of each document, by its name, each mention once; [] for a document without clusters."""
_Chains = Collection[Sequence[Hashable]]


class PairedCounts(NamedTuple):
    """The counts of a response against a key."""

    documents: dict[str, CoreferenceCounts]  # of every document of the key, in its order, with those of the mentions
    missing: tuple[str, ...]  # documents of the key that are missing from the response, counted as empty responses
    ignored: tuple[str, ...]  # documents that only the response has

    @property
    def total(self) -> CoreferenceCounts:
        """The sum of the counts of all documents."""
        return sum(self.documents.values(), _counts([], []))


def read_clusters(
    file: Path, format_: ClusterFormat | None = None, *, singletons: bool = True, heads: bool = True
) -> tuple[Clusters, Mapping[str, int]]:
    """Read the clusters of a file by document, perhaps without those of one mention, and count its irregularities.

    Mentions of CoNLL are spans of words; of CorefUD, words with their head or, without ``heads``, words. Of repeated
    mentions in a document, the one in the first cluster with it counts. The reference scorer 8.01 differs for unusual
    files: it keeps repeated mentions that are not in the key, counts comments as words, ignores text that is not a
    bracket, searches a whole line without tabs, and reads only the last of several documents with the same name.

    Raise DataError, with file and line, if the file cannot be read or is malformed, or has no documents.
    """
    documents, records = dict[str, list[Sequence[Hashable]]](), Records[Any]("documents")
    kind = format_ or {"jsonl": "jsonl", "conllu": "corefud"}.get(ending(file), "conll")
    module: Any = {"jsonl": jsonl, "corefud": corefud}.get(kind, conll)
    for piece in getattr(module, "pieces", line_pieces)(file, records):
        with records.record(piece.file, piece.line):
            name, chains = module.clusters(piece, records)
            if name in documents and kind != "jsonl":
                raise DataError("an earlier document has the same name; rename one", id=name)
            some = ([one if heads else getattr(one, "words", one) for one in chain] for chain in chains)
            documents.setdefault(name, []).extend(some)
    if not documents:
        raise DataError("the file has no documents; arbo export --to clusters writes them", file=str(file))
    first = {name: [*_first_of_each(clusters)] for name, clusters in documents.items()}
    n_all, n_first = (sum(len(one) for clusters in of.values() for one in clusters) for of in (documents, first))
    records.notes["repeated mentions left out; the first of each counts"] += n_all - n_first
    least = 1 if singletons else 2
    return {name: [one for one in clusters if len(one) >= least] for name, clusters in first.items()}, +records.notes


def _first_of_each(clusters: Iterable[Sequence[Hashable]]) -> Iterator[list[Hashable]]:
    seen: set[Hashable] = set()
    for cluster in clusters:
        first = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
        seen.update(first)
        if first:
            yield first


def paired_counts(key: Clusters, response: Clusters) -> PairedCounts:
    """Return the counts of every document of the key; mentions are compared only within a document.

    As the CoNLL scorer does, count a document missing from the response as empty, and ignore one that only it has.
    """
    documents = {name: _counts(key[name], response.get(name, ())) for name in bars("scoring")(key, len(key))}
    missing = tuple(name for name in key if name not in response)
    return PairedCounts(documents, missing, tuple(name for name in response if name not in key))


def _counts(key: _Chains, response: _Chains) -> CoreferenceCounts:
    """Count the coreference of a document, and under `mentions` which mentions both sides have."""
    table = Contingency.from_clusters(key, matched_by_heads(key, response))
    mentions: list[float] = [table.n_shared, int(table.row_size.sum()), table.n_shared, int(table.column_size.sum())]
    return CoreferenceCounts(counts_from_contingency(table), mentions=mentions)


def matched_by_heads(key: _Chains, response: _Chains) -> _Chains:
    """Replace mentions of CorefUD that the key does not have by others of the key with the same heads, one to one.

    Together they share the largest parts of the words of these. So does the CorefUD scorer since CRAC 2023.
    """
    sides = [{one for some in side for one in some if isinstance(one, corefud.Headed)} for side in (key, response)]
    rows, columns = sorted(sides[0] - sides[1]), sorted(sides[1] - sides[0])
    with_head = grouped((mention.head, row) for row, mention in enumerate(rows))
    pairs = [(row, column) for column, mention in enumerate(columns) for row in with_head[mention.head]]
    shares = [len({*rows[row].words} & {*columns[column].words}) / len(rows[row].words) for row, column in pairs]
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    best = ends[best_alignment(ends[:, 0], ends[:, 1], np.array(shares))].tolist()
    same: dict[Hashable, Hashable] = {columns[column]: rows[row] for row, column in best}
    return [[same.get(one, one) for one in some] for some in response] if same else response

"""What views look up in a run, computed once, so that a view of 10^6 mentions reads only a few rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.explore.cuts import cuts_of
from arbo.explore.trees import Tree
from arbo.results.result import Result
from arbo.results.run import Bools, Floats, Ints


class Words:
    """Finds strings in the rows of columns; equal rows are compared once."""

    def __init__(self, *columns: pa.ChunkedArray) -> None:
        joined = pc.binary_join_element_wise(*columns, "\x1f", null_handling="skip")
        coded = pc.utf8_lower(joined).combine_chunks().dictionary_encode()
        self._values, self._codes = coded.dictionary, coded.indices.to_numpy()

    def having(self, words: str) -> Bools:
        """Return which rows have a string in one of the columns; case is ignored."""
        pattern = pc.utf8_lower(pa.scalar(words)).as_py()
        rows: Bools = pc.match_substring(self._values, pattern).to_numpy(zero_copy_only=False)[self._codes]
        return rows


class Lookups:
    """A run, and what views look up in it; all is computed when it is made."""

    def __init__(self, run: Result) -> None:
        tables = {"mention_table": run.mention_table, "link_rows": run.link_table, "cluster_table": run.cluster_table}
        self.run = run = replace(run, **{name: table.combine_chunks() for name, table in tables.items()})
        mentions, links, clusters = run.mention_table, run.link_table, run.cluster_table
        self.nil: Bools = pc.is_null(links["entity_id"]).to_numpy()
        self.documents = run.document_ids
        counts = (
            np.bincount(rows, minlength=len(self.documents))
            for rows in (run.document_rows, run.document_rows[self.nil])
        )
        self.per_document: tuple[Ints, ...] = tuple(counts)
        """The numbers of mentions and of NIL mentions of each document."""
        margin = pc.fill_null(links["margin"], float("inf")).to_numpy()
        self.by_margin: Ints = np.argsort(margin, kind="stable")
        self.words = Words(mentions["text"], links["entity_name"], mentions["expansion"])
        self.document_words = Words(pa.chunked_array([self.documents]))
        self.cluster_words = Words(clusters["name"])
        self.sizes: Ints = clusters["size"].to_numpy().astype(np.int64)
        self.cluster_nil: Bools = pc.is_null(clusters["entity_id"]).to_numpy()
        self.nearest, self.nearness = self._nearest()
        self.cluster_orders: dict[str, Ints] = {
            "order": np.arange(len(self.sizes)),
            "size": np.argsort(-self.sizes, kind="stable"),
            "nearness": np.argsort(self.nearness, kind="stable"),
            "name": pc.sort_indices(pc.utf8_lower(clusters["name"])).to_numpy().astype(np.int64),
        }
        self.members(0)
        self.tree = Tree.of(run, cuts_of(run))
        self.run.row_of  # noqa: B018 (computed here rather than at the first question)

    def members(self, place: int) -> Ints:
        """Return the rows of the mentions of the cluster at a place, ascending."""
        order, start = self.run.rows_of_cluster
        return order[start[place] : start[place + 1]] if len(start) > place + 1 else order[:0]

    def place_of_cluster(self, id_: str, column: str = "cluster_id") -> int:
        """Return the place of a cluster by its id, or by its entity's id (``entity_id``); -1 if it is unknown."""
        return int(pc.index(self.run.cluster_table[column], id_).as_py())

    def place_of_document(self, id_: str) -> int:
        """Return the place of a document; -1 for an unknown id."""
        return int(pc.index(self.documents, id_).as_py())

    def _nearest(self) -> tuple[pa.Array, Floats]:
        """Return the id of the nearest entity of each NIL cluster, and its dissimilarity.

        Null and infinity if its members have no candidate, and for clusters of entities.
        """
        links = self.run.link_table
        lists, scores = (links[name].combine_chunks() for name in ("candidates", "candidate_scores"))
        start = lists.offsets.to_numpy().astype(np.int64)
        rows = np.flatnonzero((np.diff(start) > 0) & self.nil)
        first, cluster = start[rows], self.run.cluster_rows[rows]
        score = scores.values.to_numpy(zero_copy_only=False)[first].astype(np.float64)
        best = np.lexsort((rows, -score, cluster))
        best = best[np.unique(cluster[best], return_index=True)[1]]
        near, distance = np.full(len(self.sizes), -1), np.full(len(self.sizes), np.inf)
        near[cluster[best]] = first[best]
        distance[cluster[best]] = self.run.offset - score[best]
        return lists.values.take(pa.array(near, mask=near < 0)), distance

"""The tables of a run, and its links and clusters as views of the tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import OnDemand, numbers, rows_among
from arbo.data.documents import Mention
from arbo.data.tables import labels_in, mention_in
from arbo.files import PathLike
from arbo.results.rows import ROWS_SHOWN, table_of
from arbo.results.run_folder import ARRAYS, CORRECTIONS, load_arrays, load_run

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Item = TypeVar("Item", bound="Link | Cluster")


@dataclass(frozen=True, slots=True, repr=False)
class Link:
    """The decision on one mention."""

    mention: Mention
    expansion: str | None
    """The mention's text with abbreviations replaced by their long forms; None if no abbreviation is replaced."""
    entity: str | None
    """Id of the entity; None for NIL."""
    entity_name: str | None
    cluster: str
    """Id of the cluster: the entity's id, or a new id that all mentions of a discovered entity share."""
    score: float | None
    """Similarity of mention and entity, or the entity's probability by a reranker or edge model; None for NIL."""
    margin: float | None
    """Similarity or probability of the nearest entity minus that of the second nearest; None without a second."""
    bottleneck: float | None
    """Dissimilarity of the heaviest edge on the path from the entity; infinite for NIL, None if people decided on all
    edges."""
    parent: str | None
    """Id of the entity or mention from which the mention is reached; None for NIL."""
    parent_is_mention: bool
    step: float | None
    """Dissimilarity of the edge from the parent; None for NIL, or if people decided on the edge."""
    candidates: tuple[tuple[str, float], ...]
    """Ids of the nearest entities, and their similarities or probabilities (see ``score``); nearest first."""
    nearest: str | None = None
    """With an edge model, the parent or, for NIL, the nearest mention of the cluster; otherwise None."""
    reasons: tuple[tuple[str, float], ...] = ()
    """With an edge model, the features that counted most for the edge from ``nearest``, and their log-odds."""
    confidence: float | None = None
    """Probability that the link is correct; None for NIL, or if `Linker.tune` has not fitted the confidence."""
    corrected: bool = False
    """Whether a correction that was obeyed names the mention."""
    follows: str | None = None
    """The mention whose correction decided on this one too; None without one."""

    @property
    def name(self) -> str:
        """The name that was compared: the mention's text, with abbreviations replaced by their long forms."""
        return self.expansion or self.mention.text

    @property
    def row(self) -> dict[str, Any]:
        """The decision as a flat row."""
        own = ("entity", "entity_name", "cluster", "score", "margin", "confidence")
        where = {"mention": self.mention.id, "document": self.mention.document_id, "text": self.mention.text}
        return where | {name: getattr(self, name) for name in own}

    def __repr__(self) -> str:
        return f"Link({', '.join(f'{name}={value!r}' for name, value in self.row.items())})"


@dataclass(frozen=True, slots=True, repr=False)
class Cluster:
    """Mentions of one entity, known or discovered."""

    id: str
    entity: str | None
    """Id of its entity; None for a discovered cluster."""
    name: str
    """Name of its entity; for a discovered cluster, the most frequent name of its mentions."""
    mentions: tuple[Mention, ...]
    weakest_join: float | None
    """Dissimilarity of the heaviest edge that holds the cluster together or, under average linkage, the average
    dissimilarity of its last two parts; None for a cluster of a known entity or of one mention."""

    @property
    def row(self) -> dict[str, Any]:
        """The cluster as a flat row, with up to three distinct texts of its mentions."""
        texts = dict.fromkeys(mention.text for mention in self.mentions[:50])
        own = {"cluster": self.id, "entity": self.entity, "name": self.name, "mentions": len(self.mentions)}
        return own | {"weakest_join": self.weakest_join, "examples": list(texts)[:3]}

    def __repr__(self) -> str:
        return f"Cluster({self.id!r}, entity={self.entity!r}, name={self.name!r}, {len(self.mentions)} mentions)"


class Rows(OnDemand[Item]):
    """Links or clusters, which are shown as a table."""

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:3]] + ["..."] * (len(self) > 3)
        return f"[{', '.join(shown)}] ({len(self):,} in all)"

    def _repr_html_(self) -> str:
        return table_of([item.row for item in self[:ROWS_SHOWN]], total=len(self)).to_html()


_SAME_NAMES = ("entity_name", "score", "margin", "bottleneck", "parent", "parent_is_mention", "step")
"""Fields of links that are columns of their table."""


# Without slots: cached properties keep their values in the instance's dictionary.
@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Links, NIL decisions and clusters of a collection of mentions, as tables and as views of them.

    The tables of mentions and of links have a row for each mention, the other tables a row for each cluster, each
    document, and each entity that is a link or a candidate; `arbo.linking.tables` and `arbo.linking.links` describe
    their columns. `arbo.Result` adds methods to explain, evaluate and save a run.
    """

    mention_table: pa.Table
    link_rows: Any
    """`link_table`, or what makes its rows and columns as a table gives them: `arbo.linking.links.Links`."""
    cluster_table: pa.Table
    manifest: dict[str, Any]
    """Origin of the result: configuration, encoder, content hashes, counts, and the seconds of each stage."""
    document_table: pa.Table
    entity_table: pa.Table
    """The entities that are links or candidates."""
    correction_table: pa.Table | None = None
    """The corrections and what became of them; None without corrections."""
    arrays: Callable[[], Mapping[str, npt.NDArray[Any]]] | None = None
    """Returns the graph of the run, and the arrays by which it can grow, see `arbo.linking.growth`; None without."""

    @classmethod
    def read(cls, folder: PathLike) -> Self:
        """Read a run folder, see `arbo.results.run_folder.load_run`."""
        tables, manifest = load_run(folder)
        arrays = partial(load_arrays, folder, manifest) if ARRAYS in manifest["files"] else None
        mentions, links, clusters, documents, entities = (
            tables[name] for name in ("mentions", "links", "clusters", "documents", "entities")
        )
        return cls(mentions, links, clusters, manifest, documents, entities, tables.get(CORRECTIONS), arrays)

    @property
    def link_table(self) -> pa.Table:
        """The table of links; that of a fresh result is made when it is asked for, and then takes its place."""
        if not isinstance(self.link_rows, pa.Table):
            object.__setattr__(self, "link_rows", self.link_rows.slice())
        return self.link_rows

    @cached_property
    def n_nil(self) -> int:
        """Number of mentions without an entity of the knowledge base."""
        count: int = self.link_rows.select(["entity_id"])["entity_id"].null_count
        return count

    @property
    def links(self) -> Sequence[Link]:
        """The link of each mention, in the order of the documents."""
        return Rows(self.mention_table.num_rows, self._link)

    @property
    def clusters(self) -> Sequence[Cluster]:
        """All clusters: first the clusters of entities, then the discovered clusters, largest first."""
        return Rows(self.cluster_table.num_rows, self._cluster)

    @property
    def discovered(self) -> Sequence[Cluster]:
        """The clusters without an entity of the knowledge base, largest first."""
        first = self.cluster_table["entity_id"].length() - self.cluster_table["entity_id"].null_count
        return Rows(self.cluster_table.num_rows - first, lambda place: self._cluster(first + place))

    @property
    def labels(self) -> list[list[str] | None]:
        """(mentions,) the `Mention.labels` of each mention."""
        return labels_in(self.mention_table)

    def link_of(self, mention_id: str) -> Link:
        """Return the link of the mention with this id; raise KeyError for an unknown id."""
        return self._link(self._row_of_mention(mention_id))

    def cluster_of(self, link: Link | str) -> Cluster:
        """Return the cluster of a link, or of the mention with this id; raise KeyError for an unknown id."""
        mention_id = link.mention.id if isinstance(link, Link) else str(link)  # a label of a Series may be a number
        return self._cluster(int(self.cluster_rows[self._row_of_mention(mention_id)]))

    def text_of(self, document_id: str) -> str | None:
        """Return the text of a document, or None if the run has no texts; raise KeyError for an unknown id."""
        row = self._row_of_document[document_id]
        if not self.has_texts:
            return None
        text: str = self.document_table["text"][row].as_py()
        return text

    @cached_property
    def document_ids(self) -> pa.Array:
        """The ids of the documents."""
        return self.document_table["document_id"].combine_chunks()

    @property
    def has_texts(self) -> bool:
        """Whether the run has the texts of the documents."""
        return "text" in self.document_table.column_names

    @cached_property
    def _row_of_document(self) -> dict[str, int]:
        return {id_: row for row, id_ in enumerate(self.document_ids.to_pylist())}

    @property
    def offset(self) -> float:
        """The sum of similarity and dissimilarity."""
        return float(self.manifest["offset"])

    def names_of(self, entity_id: str) -> list[str]:
        """Return the preferred name and the aliases of an entity; an empty list if the run does not have it."""
        row = pc.index(self.entity_table["entity_id"], entity_id).as_py()
        return [] if row < 0 else [self.entity_table["name"][row].as_py(), *self.entity_table["aliases"][row].as_py()]

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Maps the id of each mention to its row."""
        return {id_: row for row, id_ in enumerate(self.mention_table["mention_id"].to_pylist())}

    def _row_of_mention(self, mention_id: str) -> int:
        if mention_id not in self.row_of:
            raise KeyError(f"no mention has the id {mention_id!r}")
        return self.row_of[mention_id]

    @cached_property
    def cluster_rows(self) -> np.ndarray:
        """(mentions,) the row of each mention's cluster."""
        return rows_among(self.link_rows.select(["cluster_id"])["cluster_id"], self.cluster_table["cluster_id"])

    @cached_property
    def parent_rows(self) -> np.ndarray:
        """(mentions,) the row of the mention from which each mention is reached; -1 for an entity, and for NIL."""
        links = self.link_rows.select(["parent", "parent_is_mention"])
        is_mention = links["parent_is_mention"].to_numpy()
        if not is_mention.any():
            return np.full(len(is_mention), -1)
        return np.where(is_mention, rows_among(links["parent"], self.mention_table["mention_id"]), -1)

    def path_of(self, row: int) -> list[int]:
        """Return the rows of the mentions on the path from the entity to the mention in a row, which comes last.

        In links that people changed, the path may run in a circle: it ends at the first mention that it has already.
        """
        path: dict[int, None] = {}
        while row >= 0 and row not in path:
            path[row] = None
            row = int(self.parent_rows[row])
        return [*path][::-1]

    @cached_property
    def rows_of_cluster(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all mentions, sorted by cluster, and the offset of each cluster among them."""
        cluster = self.cluster_rows
        order = np.argsort(cluster, kind="stable")
        return order, np.searchsorted(cluster[order], np.arange(self.cluster_table.num_rows + 1))

    def _mention(self, row: int) -> Mention:
        return mention_in(_row(self.mention_table, row))

    def _link(self, row: int) -> Link:
        values = _row(self.link_table, row)
        return Link(
            mention=self._mention(row),
            expansion=self.mention_table["expansion"][row].as_py(),
            entity=values["entity_id"],
            cluster=values["cluster_id"],
            **{name: values[name] for name in _SAME_NAMES},
            candidates=tuple(zip(values["candidates"], values["candidate_scores"], strict=True)),
            nearest=values.get("nearest"),
            reasons=tuple(zip(values.get("reasons", ()), values.get("reason_log_odds", ()), strict=True)),
            confidence=values.get("confidence"),
            corrected=values.get("corrected", False),
            follows=values.get("follows"),
        )

    def _cluster(self, place: int) -> Cluster:
        values = _row(self.cluster_table, place)
        order, start = self.rows_of_cluster
        rows = self.mention_table.take(numbers(order[start[place] : start[place + 1]]))
        mentions = tuple(map(mention_in, rows.to_pylist()))
        return Cluster(values["cluster_id"], values["entity_id"], values["name"], mentions, values["weakest_join"])


def compared_in(mentions: pa.Table) -> pa.ChunkedArray:
    """Return the name of each mention of a table that was compared."""
    return pc.coalesce(mentions["expansion"], mentions["text"])


def rows_in(a: Run, b: Run) -> npt.NDArray[np.int64]:
    """Return the row of each mention of a later run ``b`` in an earlier one, ``a``, by id; -1 for a new mention."""
    was, now = (run.mention_table["mention_id"] for run in (a, b))
    if now.slice(0, len(was)).equals(was):  # none was removed
        return np.append(np.arange(len(was)), np.full(len(now) - len(was), -1))
    return np.asarray(pc.index_in(now, was.combine_chunks()).fill_null(-1).to_numpy(), np.int64)


def entities_in(links: pa.Table, *more: pa.Array) -> pa.Array:
    """Return the distinct ids in ``more`` and of the entities that are links or candidates."""
    linked, near = links["entity_id"].drop_null(), pc.list_flatten(links["candidates"])
    return pc.unique(pa.concat_arrays([*more, linked.combine_chunks(), near.combine_chunks()]))


def _row(table: pa.Table, row: int) -> dict[str, Any]:
    return {name: table[name][row].as_py() for name in table.column_names}

"""The tables of a run, and its links and clusters as views of the tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import Arrays, Bools as Bools, Ints as Ints, OnDemand, numbers, rows_among
from arbo.data.columns import LEVELS, evidence_line
from arbo.data.tables import Tables, labels_in, mentions_in
from arbo.files import PathLike
from arbo.results.run_folder import ARRAYS, load_arrays, load_run
from arbo.results.schema import Cluster as Cluster, Link as Link, views_of

if TYPE_CHECKING:
    from arbo.engine import Table

Floats = npt.NDArray[np.float64]
Item = TypeVar("Item", bound=Link | Cluster)
ROWS_SHOWN = 20


class Rows(OnDemand[Item]):
    """Links or clusters, which are made some at a time, and shown as a table."""

    together = 64

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:3]] + ["..."] * (len(self) > 3)
        return f"[{', '.join(shown)}] ({len(self):,} in all)"

    def _repr_html_(self) -> str:
        return table_of([item.row for item in self[:ROWS_SHOWN]], total=len(self)).to_html()


# Without slots: cached properties keep their values in the instance's dictionary.
@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Links, NIL decisions and clusters of a collection of mentions, as tables and as views of them.

    The first fields are the tables of `arbo.results.schema`, in its order. Those of mentions and of links have a row
    for each mention, the others for each cluster, each document, each entity that is a link or a candidate, and each
    correction. `arbo.Result` adds methods to explain, evaluate and save a run.
    """

    mention_table: pa.Table
    link_rows: Any
    """`link_table`, or what makes its rows and columns as a table gives them: `arbo.linking.tables.Links`."""
    cluster_table: pa.Table
    document_table: pa.Table
    entity_table: pa.Table
    correction_table: pa.Table | None
    """None without corrections."""
    manifest: dict[str, Any]
    """Origin of the result: configuration, encoder, content hashes, counts, and the seconds of each stage."""
    arrays: Callable[[], Arrays] = dict
    """Returns the graph of the run, and the arrays by which it can grow, see `arbo.linking.memory`; {} without."""

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read a run; raise DataError if there is none, a newer arbo wrote it, or a file is missing or changed."""
        tables, manifest = load_run(folder)
        arrays = partial(load_arrays, folder, manifest) if ARRAYS in manifest["files"] else dict
        mentions, links, clusters, documents, entities, corrections = tables.values()
        return cls(mentions, links, clusters, documents, entities, corrections, manifest, arrays)

    @property
    def link_table(self) -> pa.Table:
        """The table of links; that of a fresh result is made when it is asked for, and then takes its place."""
        if not isinstance(self.link_rows, pa.Table):
            object.__setattr__(self, "link_rows", self.link_rows.slice())
        return self.link_rows

    @cached_property
    def n_nil(self) -> int:
        """Number of mentions without an entity of the knowledge base."""
        return int(self.link_rows.select(["entity_id"])["entity_id"].null_count)

    @cached_property
    def links(self) -> Sequence[Link]:
        """The link of each mention, in the order of the documents."""
        return Rows(self.mention_table.num_rows, self._links)

    @cached_property
    def clusters(self) -> Sequence[Cluster]:
        """All clusters: first the clusters of entities, then the discovered clusters, largest first."""
        return Rows(self.cluster_table.num_rows, self._clusters)

    @cached_property
    def discovered(self) -> Sequence[Cluster]:
        """The clusters without an entity of the knowledge base, largest first."""
        n = self.cluster_table["entity_id"].null_count
        first = self.cluster_table.num_rows - n
        return Rows(n, lambda begin, length: self._clusters(first + begin, length))

    @property
    def labels(self) -> npt.NDArray[np.object_]:
        """(mentions,) the id of the cluster of each mention, in the order of the documents; of names, of the rows."""
        return np.array(self.link_rows.select(["cluster_id"])["cluster_id"].to_pylist(), object)

    @property
    def gold_labels(self) -> list[list[str] | None]:
        """(mentions,) the `Mention.labels` of each mention."""
        return labels_in(self.mention_table)

    def link_of(self, mention_id: str) -> Link:
        """Return the link of the mention with this id; raise KeyError for an unknown id."""
        return self.links[self.row_of[mention_id]]

    def cluster_of(self, link: Link | str) -> Cluster:
        """Return the cluster of a link, or of the mention with this id; raise KeyError for an unknown id."""
        mention_id = link.mention.id if isinstance(link, Link) else str(link)  # a label of a Series may be a number
        return self.clusters[int(self.cluster_rows[self.row_of[mention_id]])]

    def text_of(self, document_id: str) -> str | None:
        """Return the text of a document, or None if the run has no texts; raise KeyError for an unknown id."""
        if (row := pc.index(self.document_table["document_id"], document_id).as_py()) < 0:
            raise KeyError(document_id)
        return self.texts(np.array([row]))[0] if self.has_texts else None

    def texts(self, rows: Ints) -> list[str]:
        """Return the texts of documents; raise KeyError if the run has no texts."""
        return list(self.document_table["text"].take(numbers(rows)).to_pylist())

    @cached_property
    def has_texts(self) -> bool:
        """Whether the run has the texts of the documents."""
        return "text" in self.document_table.column_names

    @property
    def tables(self) -> Tables:
        """The documents and the mentions, which are in the order of the documents; their texts may be missing."""
        sizes = np.bincount(self.document_rows, minlength=len(self.document_table))
        return Tables(self.document_table, self.mention_table, sizes)

    @property
    def choices(self) -> list[str]:
        """What was chosen for these documents and why, a line each, with the option that overrides it."""
        manifest, lines = self.manifest, []
        if manifest["config"].get("treat_as") == "list":
            lines.append(
                "the documents are names alone: equal names are one, a model of names weighs other pairs, and clusters "
                f"merge up to the average dissimilarity {manifest['threshold']['nil']:g} (--as text, --threshold)"
            )
        gaps, limits = manifest.get("gaps", {}), manifest.get("limits", {})
        if gaps and not manifest["config"].get("kb_complete"):
            (gap, limit), *others = zip(gaps.values(), limits.values(), strict=True)
            lacks = f"about {gap:.0%} of the mentions" if gap >= 0.005 else "hardly any mention"
            types = ((type_, *of) for type_, of in zip([*gaps][1:], others, strict=True) if of[1] != limit)
            by_type = "; ".join(f"of type {type_}, {share:.0%} and {reach:.2f}" for type_, share, reach in types)
            lines.append(
                f"estimate: the knowledge base lacks the entity of {lacks}, so that links reach up to dissimilarity "
                f"{limit:.2f}{by_type and f' ({by_type})'} (--threshold; --set kb_complete=true if it lacks none)"
            )
        if self.evidence:
            model = manifest["encoder"]["edges"]
            columns = "; ".join(evidence_line(**column) for column in self.evidence)
            reach = f"; estimate: {model['reach']:.0%} of right pairs were compared" if model.get("reach") else ""
            lines.append(f"evidence, in log-odds: names {model['shift']:+.1f}; {columns}{reach}")
        return lines

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """The columns that weigh pairs: name, kind, levels, and the shares of these in pairs that are one, and not."""
        columns = self.manifest["encoder"].get("edges", {}).get("columns", ())
        return [{**column, "levels": LEVELS[column["kind"]]} for column in columns]

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """The corrections: ``record`` (the object), ``file, line``, ``status`` and ``reason``.

        The status is ``obeyed``; ``replaced`` by a later line; ``waiting`` for what is missing: a mention, a document,
        an entity, or text at its spans; or ``conflict`` with other lines or mentions. `Linker.link` accepts them again
        as ``[one["record"] for one in ...]``.
        """
        rows = [] if self.correction_table is None else self.correction_table.to_pylist()
        return [{**row, "record": json.loads(row["record"])} for row in rows]

    def names_of(self, entity_id: str) -> list[str]:
        """Return the preferred name and the aliases of an entity; an empty list if the run does not have it."""
        row = pc.index(self.entity_table["entity_id"], entity_id).as_py()
        return [] if row < 0 else [self.entity_table["name"][row].as_py(), *self.entity_table["aliases"][row].as_py()]

    @cached_property
    def several(self) -> dict[str, list[str]]:
        """Maps each entity that corrections made of several to the ids of these."""
        if "several" not in self.entity_table.column_names:
            return {}
        rows = self.entity_table.filter(self.entity_table["several"].is_valid())
        return dict(zip(rows["entity_id"].to_pylist(), rows["several"].to_pylist(), strict=True))

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Maps the id of each mention to its row."""
        return {id_: row for row, id_ in enumerate(self.mention_table["mention_id"].to_pylist())}

    @cached_property
    def document_rows(self) -> np.ndarray:
        """(mentions,) the row of each mention's document."""
        homes, ids = self.mention_table["document_id"], self.document_table["document_id"]
        return np.arange(len(ids)) if homes.equals(ids) else rows_among(homes, ids)

    @cached_property
    def cluster_rows(self) -> np.ndarray:
        """(mentions,) the row of each mention's cluster."""
        return rows_among(self.link_rows.select(["cluster_id"])["cluster_id"], self.cluster_table["cluster_id"])

    @cached_property
    def parent_rows(self) -> np.ndarray:
        """(mentions,) the row of the mention from which each mention is reached; -1 for an entity, and for NIL."""
        links = self.link_rows.select(["parent", "parent_is_mention"])
        is_mention = links["parent_is_mention"].to_numpy()
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
        order = np.argsort(self.cluster_rows, kind="stable")
        return order, np.searchsorted(self.cluster_rows[order], np.arange(self.cluster_table.num_rows + 1))

    def _links(self, begin: int, length: int) -> list[Link]:
        links, mentions = (table.slice(begin, length) for table in (self.link_table, self.mention_table))
        others = {"mention": mentions_in(mentions), "expansion": mentions["expansion"].to_pylist()}
        return views_of("links", links, others)

    def _clusters(self, begin: int, length: int) -> list[Cluster]:
        order, start = self.rows_of_cluster
        ends = start[begin : begin + length + 1]
        mentions = mentions_in(self.mention_table.take(numbers(order[ends[0] : ends[-1]])))
        members = [tuple(mentions[first:last]) for first, last in pairwise((ends - ends[0]).tolist())]
        return views_of("clusters", self.cluster_table.slice(begin, length), {"mentions": members})


def rows_in(a: Run, b: Run) -> Ints:
    """Return the row of each mention of a later run ``b`` in an earlier one, ``a``, by id; -1 for a new mention."""
    now, was = (run.mention_table["mention_id"] for run in (b, a))
    n = len(was) if now.slice(0, len(was)).equals(was) else 0  # all but the last are those of `a`
    return np.append(np.arange(n), rows_among(now.slice(n), was))


def table_of(rows: Sequence[Mapping[str, object]], title: str = "", total: int = 0) -> "Table":
    """Make a table of rows; ``total`` is the number of all rows, if ``rows`` has only some."""
    from arbo.engine import Cell, Table

    names = tuple(rows[0]) if rows else ()
    is_number = tuple(any(isinstance(row[name], int | float) for row in rows) for name in names)
    cells = [tuple(Cell(cell(value)) for value in row.values()) for row in rows]
    header = tuple(name.replace("_", " ") for name in names)
    return Table(title, header, is_number, cells, [f"and {total - len(rows):,} more"] if total > len(rows) else [])


def cell(value: object) -> str:
    """Format a value: None as nothing, a list without brackets, a float with three decimals."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)

"""The graph that a run was partitioned from, as the arrays that the run keeps.

Without a model that weighs edges and without corrections, the lists of neighbours are the graph. Otherwise the edges
are ``graph.source``, ``graph.target``, ``graph.weight`` and ``graph.entities`` (their number), and what people
decided as ``decided.*``, the fields of `Decisions`. Mentions have the order of `Corpus.order`.
"""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Arrays, names_in, numbered, numbers, rows_among
from arbo.errors import UsageError
from arbo.results.run import Floats, Ints, Run, rows_in

if TYPE_CHECKING:
    from arbo.engine import Decisions, Graph

_MENTIONS, _ENTITIES = ("mentions", "mention_dissimilarity"), ("entities", "entity_dissimilarity")
_EDGES = ("graph.source", "graph.target", "graph.weight")
_next_joins: WeakKeyDictionary[Run, tuple[Ints, Floats]] = WeakKeyDictionary()


def graph_arrays(graph: "Graph", decisions: "Decisions | None") -> Arrays:
    """Return the arrays from which `graph_of` makes this graph, and the decisions."""
    edges = dict(zip(_EDGES, (graph.source, graph.target, graph.weight), strict=True))
    decided = {} if decisions is None else {f"decided.{key}": values for key, values in decisions._asdict().items()}
    return {**edges, "graph.entities": np.array(graph.n_entities), **decided}


def only_graph(arrays: Arrays) -> Arrays:
    """Return those of the arrays that make the graph, which say of texts only which are alike."""
    chosen = {name: array for name, array in arrays.items() if name.startswith(("graph.", "decided."))}
    return chosen or {name: arrays[name] for name in _MENTIONS} | {name: arrays[name][:, :1] for name in _ENTITIES}


def graph_of(run: Run) -> "tuple[Graph, Decisions | None] | None":
    """Return the graph of a run and the decisions that it obeys; None if the run lacks it."""
    from arbo.engine import Decisions, Graph  # which takes a while; most verbs need no graph

    arrays = run.arrays()
    if "graph.source" in arrays:
        n_entities = int(arrays["graph.entities"])
        edges, n_nodes = (arrays[name] for name in _EDGES), n_entities + run.mention_table.num_rows
        graph = Graph.from_edges(*edges, n_entities=n_entities, n_nodes=n_nodes)
        decided = (arrays[f"decided.{key}"] for key in Decisions._fields)
        return graph, Decisions(*decided) if "decided.root" in arrays else None
    weighed = {"edges", "reranker"} & run.manifest["encoder"].keys()
    if "mentions" not in arrays or weighed or run.correction_table is not None:
        return None
    near, weight = (arrays[name][:, : run.manifest["config"]["k"]] for name in _MENTIONS)
    entity, nearest = (arrays[name][:, :1] for name in _ENTITIES)
    return Graph.from_neighbors((near, weight), (entity, nearest), n_entities=int(entity.max(initial=-1)) + 1), None


def edges_of(run: Run) -> tuple[Ints, Any]:
    """Return the rows of each two mentions with an edge, (2, pairs), and their similarity; most similar first."""
    if (kept := graph_of(run)) is None:
        raise UsageError("the run does not have its graph; link or discover the documents again")
    graph, row = kept[0], numbered(run.mention_table)
    inside = (graph.source >= graph.n_entities) & (graph.target >= graph.n_entities)
    ends = np.sort([row[node[inside] - graph.n_entities] for node in (graph.source, graph.target)], axis=0)
    weight = graph.weight[inside].astype(np.float32)
    nearest = np.lexsort((*ends[::-1], weight))
    _, first = np.unique(ends[0, nearest] * len(row) + ends[1, nearest], return_index=True)
    nearest = nearest[np.sort(first)]  # of a pair, the lighter edge alone
    offset = np.float32(run.manifest["offset"])
    return ends[:, nearest], np.minimum(offset - weight[nearest], offset or np.inf)  # equal names are nearer than 0


def next_joins(run: Run) -> tuple[Ints, Floats]:
    """Return which cluster each discovered one would join next at a higher threshold, and the dissimilarity of this.

    Both are (clusters,); -1 and NaN if the graph of the run joins a cluster to no other, or is not kept.
    """
    from arbo.engine import average_tree, merge_tree

    if run in _next_joins:
        return _next_joins[run]
    n = len(run.cluster_table)
    other, height = np.full(n, -1), np.full(n, np.nan)
    if n and (kept := graph_of(run)) is not None:
        tree = (average_tree if run.manifest["config"].get("nil_linkage") == "average" else merge_tree)(kept[0])
        cluster = run.cluster_rows[numbered(run.mention_table)]
        ends = np.column_stack([cluster[tree.source], cluster[tree.target]])
        is_beyond = ends[:, 0] != ends[:, 1]
        ends = ends[is_beyond]
        joined, first = np.unique(ends, return_index=True)
        other[joined], height[joined] = ends[:, ::-1].ravel()[first], tree.height[is_beyond][first // 2]
    return _next_joins.setdefault(run, (other, height))


def pairs(run: Run) -> pa.Table:
    """Return an Arrow table of the pairs of mentions that have an edge in the graph of the run, nearest first.

    Its columns are ``mention_id_1, mention_id_2, name_1, name_2, score``. Pairs beyond the mention threshold are there
    only with an edge model or average linkage. Raise UsageError if the run does not have its graph.
    """
    ends, score = edges_of(run)
    columns = {"mention_id": run.mention_table["mention_id"], "name": names_in(run.mention_table)}
    both = {f"{name}_{n}": cells.take(numbers(end)) for name, cells in columns.items() for n, end in enumerate(ends, 1)}
    return pa.table({**both, "score": numbers(score)})


def additions(before: Run, after: Run) -> pa.Table:
    """Return the names that a run has beside an earlier one, and their clusters in that; see `Linker.find`."""
    new, (ends, similarity) = rows_in(before, after) < 0, edges_of(after)
    nearest = np.full(len(new), np.nan, np.float32)
    joins = new[ends[0]] < new[ends[1]]  # new mentions come last
    nearest[ends[1, joins][::-1]] = similarity[joins][::-1]
    rows = numbers(np.flatnonzero(new))
    links, name = after.link_table.take(rows), after.cluster_table["name"].take(numbers(after.cluster_rows[new]))
    cluster = rows_among(links["cluster_id"], before.cluster_table["cluster_id"])
    known_name = before.cluster_table["name"].take(numbers(cluster, missing=cluster < 0))
    score = pc.coalesce(links["score"], numbers(nearest[new], missing=np.isnan(nearest[new])))
    is_known = pc.or_(links["entity_id"].is_valid(), known_name.is_valid())
    columns = {"cluster_id": links["cluster_id"], "cluster_name": pc.coalesce(known_name, name), "score": score}
    known = {key: pc.if_else(is_known, values, None) for key, values in columns.items()}
    return pa.table({"name": names_in(after.mention_table).take(rows), **known})

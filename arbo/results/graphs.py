"""The graph that a run was partitioned from, as the arrays that the run keeps.

Without a model that weighs edges and without corrections, the lists of neighbours are the graph. Otherwise the edges
are ``graph.source``, ``graph.target``, ``graph.weight`` and ``graph.entities`` (their number), and what people
decided as ``decided.*``, the fields of `Decisions`. Mentions have the order of `Corpus.order`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arbo.results.run import Run

if TYPE_CHECKING:
    from arbo.engine import Decisions, Graph

Array = npt.NDArray[Any]
_MENTIONS, _ENTITIES = ("mentions", "mention_dissimilarity"), ("entities", "entity_dissimilarity")
_EDGES = ("graph.source", "graph.target", "graph.weight")


def graph_arrays(graph: Graph, decisions: Decisions | None) -> dict[str, Array]:
    """Return the arrays from which `graph_of` makes this graph, and the decisions."""
    edges = dict(zip(_EDGES, (graph.source, graph.target, graph.weight), strict=True))
    decided = {} if decisions is None else {f"decided.{key}": values for key, values in decisions._asdict().items()}
    return {**edges, "graph.entities": np.array(graph.n_entities), **decided}


def only_graph(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return those of the arrays that make the graph, which say of texts only which are alike."""
    chosen = {name: array for name, array in arrays.items() if name.startswith(("graph.", "decided."))}
    lists = {name: arrays[name] for name in _MENTIONS} | {name: arrays[name][:, :1] for name in _ENTITIES}
    return chosen or lists


def graph_of(run: Run) -> tuple[Graph, Decisions | None] | None:
    """Return the graph of a run and the decisions that it obeys; None if the run lacks it."""
    from arbo.engine import Decisions, Graph  # which takes a while; most verbs need no graph

    arrays = {} if run.arrays is None else run.arrays()
    if "graph.source" in arrays:
        n_entities = int(arrays["graph.entities"])
        edges, n_nodes = (arrays[name] for name in _EDGES), n_entities + run.mention_table.num_rows
        graph = Graph.from_edges(*edges, n_entities=n_entities, n_nodes=n_nodes)
        if "decided.root" not in arrays:
            return graph, None
        return graph, Decisions(*(arrays[f"decided.{key}"] for key in Decisions._fields))
    weighed = {"edges", "reranker"} & run.manifest["encoder"].keys()
    if "mentions" not in arrays or weighed or run.correction_table is not None:
        return None
    k = run.manifest["config"]["k"]
    near, weight = (arrays[name][:, :k] for name in _MENTIONS)
    entity, nearest = (arrays[name][:, :1] for name in _ENTITIES)
    return Graph.from_neighbors((near, weight), (entity, nearest), n_entities=int(entity.max(initial=-1)) + 1), None

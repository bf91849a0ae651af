"""Read and write the graph of LightRAG in GraphML; entities are merged by the rules of its `amerge_entities`.

Descriptions, sources and files of merged entities are joined, other values are those of the entity that stands for
them, and of relations of one pair the largest weight. A relation between merged entities is left out. LightRAG keeps
entities in further stores too: `await rag.amerge_entities(**merge)` for each item of `merges.json` changes them all.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx

from arbo.errors import DataError
from arbo.formats.files import check_entities, read_text
from arbo.formats.graph import Graph, Groups, Node

_GRAPH, _SEPARATOR = "graph_chunk_entity_relation.graphml", "<SEP>"
_SEPARATORS = {"description": _SEPARATOR, "source_id": _SEPARATOR, "file_path": _SEPARATOR, "keywords": ","}
"""What LightRAG writes between the values of merged entities or relations."""


def graph_in(folder: Path) -> Graph:
    """Read the graph of a folder, with the entities in the order of the file."""
    try:
        check_entities(read_text(folder / _GRAPH), folder / _GRAPH)
        graph = nx.read_graphml(folder / _GRAPH)
    except (OSError, SyntaxError, nx.NetworkXError, ValueError, KeyError) as error:
        reason = f"unknown value {error}" if isinstance(error, KeyError) else error
        raise DataError(f"the graph cannot be read ({reason}); save it again", file=str(folder / _GRAPH)) from None
    nodes = [
        Node.of(name, name, of.get("entity_type"), [*filter(None, str(of.get("source_id", "")).split(_SEPARATOR))])
        for name, of in graph.nodes(data=True)
    ]
    return nodes, partial(_write, graph)


def _write(old: Any, out: Path, rows_of: Groups) -> None:
    names, new = list(old), nx.Graph(**old.graph)
    groups = [[names[row] for row in rows] for rows in rows_of]
    new_of = {name: group[0] for group in groups for name in group}
    for first, *others in groups:
        new.add_node(first, **old.nodes[first])
        for name in others:
            new.add_node(first, **_joined(new.nodes[first], old.nodes[name]))
    for one, two, values in old.edges(data=True):
        ends = new_of[one], new_of[two]
        if ends[0] != ends[1] or one == two:
            new.add_edge(*ends, **_joined(new.edges[ends] if new.has_edge(*ends) else {}, values))
    nx.write_graphml(new, out / _GRAPH)
    calls = [{"source_entities": others, "target_entity": first} for first, *others in groups if others]
    (out / "merges.json").write_text(json.dumps(calls, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _joined(kept: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    values = {**more, **kept}
    for name, separator in _SEPARATORS.items():
        if name in kept and name in more:
            parts = (part for text in (kept[name], more[name]) for part in str(text).split(separator) if part)
            values[name] = separator.join(dict.fromkeys(parts))
    if "weight" in kept and "weight" in more:
        values["weight"] = max(kept["weight"], more["weight"])
    return values

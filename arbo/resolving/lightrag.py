"""The graph of LightRAG: entities and relations in GraphML, merged by the rules of its `amerge_entities`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx

from arbo.errors import DataError
from arbo.formats.files import check_entities, read_head
from arbo.resolving.resolution import Resolution

GRAPH = "graph_chunk_entity_relation.graphml"
_SEPARATOR = "<SEP>"
_SEPARATORS = {"description": _SEPARATOR, "source_id": _SEPARATOR, "file_path": _SEPARATOR, "keywords": ","}
"""What LightRAG writes between the values of merged entities or relations."""


def read_lightrag(folder: Path) -> list[dict[str, Any]]:
    """Read the entities of a folder, in the order of the file."""
    kinds = ("entity_type", "description")
    graph = _graph(folder)
    return [{"entity_id": name, **{kind: of.get(kind) for kind in kinds}} for name, of in graph.nodes(data=True)]


def write_lightrag(folder: Path, out: Path, found: Resolution) -> None:
    """Write the merged graph, and `merges.json`, the arguments of `amerge_entities` for each merge.

    LightRAG keeps entities in further stores too: `await rag.amerge_entities(**merge)` for each item of `merges.json`
    changes them all. Descriptions, sources and files are joined, other values are those of the canonical entity, and of
    relations of one pair the largest weight. A relation between entities that are merged is left out.
    """
    old = _graph(folder)
    names = list(old)
    new_of = {name: names[row] for name, row in zip(names, found.canonical, strict=True)}
    new = nx.Graph()
    for name in sorted(names, key=lambda name: name != new_of[name]):
        new.add_node(new_of[name], **_joined(new.nodes[new_of[name]] if new_of[name] in new else {}, old.nodes[name]))
    for one, two, values in old.edges(data=True):
        ends = new_of[one], new_of[two]
        if ends[0] != ends[1] or one == two:
            new.add_edge(*ends, **_joined(new.edges[ends] if new.has_edge(*ends) else {}, values))
    nx.write_graphml(new, out / GRAPH)
    calls = [
        {"source_entities": [names[row] for row in rows if row != kept], "target_entity": names[kept]}
        for kept, rows, *_ in found.merges
    ]
    (out / "merges.json").write_text(json.dumps(calls, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _joined(kept: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    values = {**more, **kept}
    for name, separator in _SEPARATORS.items():
        if name in kept and name in more:
            values[name] = separator.join(dict.fromkeys(_parts((kept[name], more[name]), separator)))
    if "weight" in kept and "weight" in more:
        values["weight"] = max(kept["weight"], more["weight"])
    return values


def _parts(texts: Iterable[str], separator: str) -> Iterable[str]:
    return (part for text in texts for part in str(text).split(separator) if part)


def _graph(folder: Path) -> Any:
    try:
        check_entities(read_head(folder / GRAPH), folder / GRAPH)
        return nx.read_graphml(folder / GRAPH)
    except (OSError, SyntaxError, nx.NetworkXError, ValueError, KeyError) as error:
        reason = f"unknown value {error}" if isinstance(error, KeyError) else error
        raise DataError(f"the graph cannot be read ({reason}); save it again", file=str(folder / GRAPH)) from None

"""Read OBO graphs, ontologies as JSON: each labelled class that is not deprecated is an entity.

    {"graphs": [{"nodes": [{"id": "http://purl.obolibrary.org/obo/HP_0001250", "type": "CLASS", "lbl": "Seizure",
        "meta": {"definition": {"val": "..."}, "synonyms": [{"pred": "hasExactSynonym", "val": "Fit"}]}}]}]}

The entities are those of `arbo.formats.obo`: the id of this node is `HP:0001250`; aliases are synonyms of any scope;
the type is the namespace; and the ids of a deprecated class with one replacement (`IAO_0100001`) become alternative ids
of the class that replaces it. Nodes without a label, which other ontologies define, and nodes other than classes are
left out and counted; a node without a type is a class if no node of its graph has one. Of edges, `is_a` alone is read.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arbo.data import Entity, Records, grouped
from arbo.data.objects import fields, mapping, string
from arbo.errors import DataError
from arbo.formats.files import Piece, json_pieces
from arbo.formats.ontologies import Obsolete, is_true

SUFFIXES = (".json",)

_USED = ("IAO_0100001", "default-namespace", "deprecated", "hasAlternativeId", "hasOBONamespace")
_OBO = re.compile(r"\Ahttps?://purl\.obolibrary\.org/obo/([A-Za-z]\w*)_([A-Za-z0-9]+)\Z")
_NODE = {"id": string, "type": string, "lbl": string, "meta": mapping}


def pieces(file: Path, records: Records[Entity]) -> Iterator[Piece]:
    """Yield each node with the default namespace of its graph; raise DataError for a file without `graphs`."""
    for value, *_ in json_pieces(file, records):
        graphs = value.get("graphs") if isinstance(value, dict) else None
        for graph in graphs if isinstance(graphs, list) else [None]:
            if not isinstance(graph, dict) or not isinstance(nodes := graph.get("nodes", 0), list | None):
                wrong = "the file has no list `graphs` with lists `nodes`; check that it is an OBO graph"
                raise DataError(wrong, file=str(file))
            default = _properties(graph.get("meta"), "graph")["default-namespace"][-1:]
            of_class = "CLASS" if any(isinstance(node, dict) and node.get("type") for node in nodes or ()) else None
            edges = graph["edges"] if isinstance(graph.get("edges"), list) else ()
            is_a = (edge for edge in edges if isinstance(edge, dict) and edge.get("pred") == "is_a")
            above = grouped((str(edge.get("sub")), _short_id(str(edge.get("obj")))) for edge in is_a)
            for n, node in enumerate(nodes or (), 1):
                yield Piece((node, default, of_class, above), f"{file}, node {n}")


def entity(piece: Piece, records: Records[Entity]) -> Entity | Obsolete | None:
    """Make the entity of a node, given with the default namespace and the type of classes of its graph."""
    (node, default, of_class, above), notes = piece.content, records.notes
    values = fields(node, "a node", _NODE, required=("id",))
    meta, term_id = values.get("meta") or {}, _short_id(values["id"])
    properties = _properties(meta, term_id)
    others = tuple(dict.fromkeys(map(_short_id, properties["hasAlternativeId"])))
    if any(map(is_true, (meta.get("deprecated"), *properties["deprecated"]))):
        return Obsolete((term_id, *others), tuple(map(_short_id, properties["IAO_0100001"])))
    if values.get("type") != of_class or not values.get("lbl"):
        lacks = "without a label" if values.get("type") == of_class else "other than classes"
        notes[f"nodes {lacks} left out"] += 1
        return None
    return Entity(
        id=term_id,
        name=values["lbl"],
        aliases=tuple(_values(meta, "synonyms", term_id)),
        definition="".join(_values({"definition": [meta.get("definition")]}, "definition", term_id)) or None,
        types=tuple(dict.fromkeys(properties["hasOBONamespace"] or default)),
        alternative_ids=others,
        xrefs=tuple(dict.fromkeys(_values(meta, "xrefs", term_id))),
        metadata={"parents": above[values["id"]]} if values["id"] in above else {},
    )


def _short_id(iri: str) -> str:
    """Return the short id of a term of an OBO ontology, and any other id as it is."""
    return _OBO.sub(r"\1:\2", iri)


def _properties(meta: Any, term_id: str) -> defaultdict[str, list[str]]:
    """Return the values of each property that is used, by the end of its address."""
    properties: defaultdict[str, list[str]] = defaultdict(list)
    given = meta.get("basicPropertyValues") if isinstance(meta, dict) else None
    for one in given if isinstance(given, list) else ():
        name = re.split(r"[#/]", str(one.get("pred")))[-1] if isinstance(one, dict) else ""
        if name in _USED:
            properties[name] += _values({name: [one]}, name, term_id)
    return properties


def _values(meta: dict[str, Any], key: str, term_id: str) -> list[str]:
    """Return the texts of a list of objects with a `val`; null stands for none."""
    given = meta.get(key) or []
    some = [one for one in given if one is not None] if isinstance(given, list) else [given]
    if not all(isinstance(one, dict) and isinstance(one.get("val"), str | None) for one in some):
        raise DataError(f"{key!r} of a node must have objects with a string `val`; correct the file", id=term_id)
    return [one["val"].strip() for one in some if one.get("val") is not None]

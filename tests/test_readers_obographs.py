"""OBO graphs: the entities are those of the same ontology in OBO."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import arbo
from arbo.formats import read_knowledge_base
from arbo.formats.obo import read_obo
from arbo.formats.obographs import read_obographs

OBO = "http://purl.obolibrary.org/obo/"
IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
NODES: list[dict[str, Any]] = [
    {
        "id": f"{OBO}HP_0001250",
        "lbl": "Seizure",
        "type": "CLASS",
        "meta": {
            "definition": {"val": "An abnormal discharge.", "xrefs": ["HPO:x"]},
            "synonyms": [{"pred": "hasExactSynonym", "val": "Fit"}, {"pred": "hasRelatedSynonym", "val": "Convulsion"}],
            "xrefs": [{"val": "UMLS:C0036572"}, {"val": "UMLS:C0036572"}],
            "basicPropertyValues": [
                {"pred": f"{IN_OWL}hasOBONamespace", "val": "human_phenotype"},
                {"pred": f"{IN_OWL}hasAlternativeId", "val": "HP:0001275"},
            ],
        },
    },
    {"id": f"{OBO}HP_2", "lbl": "Fever", "type": "CLASS"},
    {"id": f"{OBO}BFO_1"},
    {"id": f"{OBO}RO_1", "lbl": "part of", "type": "PROPERTY"},
    *(
        {
            "id": f"{OBO}HP_{n}",
            "lbl": f"obsolete {n}",
            "type": "CLASS",
            "meta": {"deprecated": True, "basicPropertyValues": [{"pred": f"{OBO}IAO_0100001", "val": target}]},
        }
        for n, target in ((3, f"{OBO}HP_4"), (4, "HP:2"))
    ),
]
GRAPH = {
    "graphs": [
        {
            "id": f"{OBO}hp.owl",
            "meta": {"basicPropertyValues": [{"pred": f"{IN_OWL}default-namespace", "val": "hp"}]},
            "nodes": NODES,
            "edges": [{"sub": f"{OBO}HP_2", "pred": "is_a", "obj": f"{OBO}HP_0001250"}],
        }
    ]
}


def save(folder: Path, value: Any) -> Path:
    path = folder / "kb.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))
    return path


def test_labels_synonyms_ids_and_replacements(tmp_path: Path) -> None:
    told: list[str] = []
    kb = read_knowledge_base(save(tmp_path, GRAPH), told=told.append)
    assert told == ["obographs"]
    assert [*kb] == [
        arbo.Entity(
            "HP:0001250",
            "Seizure",
            ("Fit", "Convulsion"),
            "An abnormal discharge.",
            ("human_phenotype",),
            ("HP:0001275",),
            ("UMLS:C0036572",),
        ),
        arbo.Entity("HP:2", "Fever", types=("hp",), alternative_ids=("HP:3", "HP:4")),
    ]
    assert kb.notes == {
        "nodes without a label left out": 1,
        "nodes other than classes left out": 1,
        "obsolete terms ignored": 2,
        "obsolete terms mapped to their replacement": 2,
    }


def as_graph(kb: arbo.KnowledgeBase) -> dict[str, Any]:
    """Write a knowledge base as an OBO graph, by the schema of obographs."""

    def node(one: arbo.Entity) -> dict[str, Any]:
        values = [("hasOBONamespace", kind) for kind in one.types]
        values += [("hasAlternativeId", id_) for id_ in one.alternative_ids]
        meta: dict[str, Any] = {
            "synonyms": [{"pred": "hasExactSynonym", "val": alias} for alias in one.aliases],
            "xrefs": [{"val": xref} for xref in one.xrefs],
            "basicPropertyValues": [{"pred": f"{IN_OWL}{pred}", "val": value} for pred, value in values],
        }
        if one.definition is not None:
            meta["definition"] = {"val": one.definition}
        return {"id": f"{OBO}{one.id.replace(':', '_', 1)}", "lbl": one.name, "type": "CLASS", "meta": meta}

    return {"graphs": [{"nodes": [node(one) for one in kb]}]}


@pytest.mark.parametrize("file", ["craft/ontologies/CL.obo.gz", "gsc_plus/hp_2013-11-30.obo.gz"])
def test_an_ontology_is_the_same_in_both_formats(shared: Callable[[str], Path], tmp_path: Path, file: str) -> None:
    kb = read_obo(shared(f"data/{file}"))
    again = read_obographs(save(tmp_path, as_graph(kb)))
    assert len(again) > 2000
    assert [*again] == [*kb]


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"lbl": "x"}, "a node needs the key 'id'"),
        (5, "a node must be a JSON object, not a number"),
        ({"id": "A:1", "lbl": 5}, "'A:1': 'lbl' of a node must be a string"),
        ({"id": "A:1", "lbl": "x", "meta": []}, "'A:1': 'meta' of a node must be an object"),
        ({"id": "A:1", "lbl": "x", "meta": {"synonyms": {}}}, "'A:1': 'synonyms' of a node must have objects"),
        ({"id": "A:1", "lbl": "x", "meta": {"synonyms": ["y"]}}, "'A:1': 'synonyms' of a node must have objects"),
        ({"id": "A:1", "lbl": "x", "meta": {"definition": {"val": 3}}}, "'A:1': 'definition' of a node must have"),
        ({"id": "HP:2", "lbl": "x"}, "'HP:2': this id is already taken, with different content"),
    ],
)
def test_a_malformed_node_is_named(tmp_path: Path, node: Any, told: str) -> None:
    path = save(tmp_path, {"graphs": [{"nodes": [*NODES, node]}]})
    with pytest.raises(arbo.DataError) as caught:
        read_obographs(path)
    assert str(caught.value).startswith(f"{path}, node 7")
    assert told in str(caught.value)
    kb = read_obographs(path, on_error="skip")
    assert (len(kb), kb.notes["malformed entities skipped"]) == (2, 1)


@pytest.mark.parametrize(
    "content", [{}, {"graphs": {}}, {"graphs": [5]}, {"graphs": [{}]}, [1], '{"graphs": [', "[" * 99_999]
)
def test_what_is_no_graph_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(arbo.DataError, match=r"kb\.json"):
        read_obographs(save(tmp_path, content), on_error="skip")

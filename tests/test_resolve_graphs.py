"""Knowledge graphs with merged entities: GraphRAG, LightRAG, Neo4j, and the verb."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Run

import arbo
from arbo.resolving.folders import resolve_graph

pytest.importorskip("rapidfuzz")

HOLMES = "a consulting detective who lives in Baker Street"
ENTITIES = [
    ("SHERLOCK HOLMES", "PERSON", HOLMES, ["u1", "u2"]),
    ("HOLMES, SHERLOCK", "PERSON", f"{HOLMES} in London", ["u2", "u3"]),
    ("BAKER STREET", "GEO", "a street where the detective lives", ["u1"]),
    ("WATSON", "PERSON", "a doctor who writes stories", ["u3"]),
]
LINKS = [
    ("SHERLOCK HOLMES", "BAKER STREET", "lives in", 2.0, ["u1"]),
    ("BAKER STREET", "HOLMES, SHERLOCK", "is the home of", 3.0, ["u2"]),
    ("HOLMES, SHERLOCK", "SHERLOCK HOLMES", "is", 1.0, ["u2"]),
    ("WATSON", "HOLMES, SHERLOCK", "is a friend of", 4.0, ["u3"]),
]


@pytest.fixture
def graphrag(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    names = "title", "type", "description", "text_unit_ids"
    entities = [
        {"id": f"e{row}", "human_readable_id": row, **dict(zip(names, values, strict=True))}
        | {"frequency": len(values[3]), "degree": 9, "x": 0.0}
        for row, values in enumerate(ENTITIES)
    ]
    names = "source", "target", "description", "weight", "text_unit_ids"
    links = [
        {"id": f"r{row}", **dict(zip(names, values, strict=True)), "combined_degree": 9}
        for row, values in enumerate(LINKS)
    ]
    units = [
        {"id": "u1", "entity_ids": ["e0", "e2"], "relationship_ids": ["r0"]},
        {"id": "u2", "entity_ids": ["e1", "e0"], "relationship_ids": ["r1", "r2"]},
        {"id": "u3", "entity_ids": ["e1", "e3"], "relationship_ids": ["r3"]},
    ]
    for name, rows in {"entities": entities, "relationships": links, "text_units": units, "documents": units}.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def test_entities_of_graphrag_are_merged_and_relationships_redirected(graphrag: Path, tmp_path: Path) -> None:
    found = resolve_graph(graphrag, tmp_path / "merged")
    assert [merge.rows for merge in found.merges] == [(0, 1)]
    entities, links, units = (
        pq.read_table(tmp_path / "merged" / f"{name}.parquet").to_pylist()
        for name in ("entities", "relationships", "text_units")
    )
    assert [row["title"] for row in entities] == ["SHERLOCK HOLMES", "BAKER STREET", "WATSON"]
    assert entities[0] == {
        "id": "e0",
        "human_readable_id": 0,
        "title": "SHERLOCK HOLMES",
        "type": "PERSON",
        "description": f"{HOLMES}\n{HOLMES} in London",
        "text_unit_ids": ["u1", "u2", "u3"],
        "frequency": 3,
        "degree": 2,
        "x": 0.0,
    }
    told = [(row["source"], row["target"], row["weight"], row["combined_degree"]) for row in links]
    assert told == [("SHERLOCK HOLMES", "BAKER STREET", 5.0, 3), ("WATSON", "SHERLOCK HOLMES", 4.0, 3)]
    assert links[0]["description"] == "lives in\nis the home of"
    assert [row["entity_ids"] for row in units] == [["e0", "e2"], ["e0"], ["e0", "e3"]]
    assert [row["relationship_ids"] for row in units] == [["r0"], ["r0"], ["r3"]]
    assert (tmp_path / "merged/documents.parquet").read_bytes() == (graphrag / "documents.parquet").read_bytes()
    before = pq.read_schema(graphrag / "relationships.parquet")
    assert pq.read_schema(tmp_path / "merged/relationships.parquet").equals(before)


def test_relationships_of_an_ambiguous_title_stay_with_the_first(graphrag: Path, tmp_path: Path) -> None:
    table = pq.read_table(graphrag / "entities.parquet").to_pylist()
    table.append(table[3] | {"id": "e9", "type": "GEO", "description": "a town in Arkansas"})
    pq.write_table(pa.Table.from_pylist(table), graphrag / "entities.parquet")
    resolve_graph(graphrag, tmp_path / "merged")
    titles = pq.read_table(tmp_path / "merged/entities.parquet")["title"].to_pylist()
    links = pq.read_table(tmp_path / "merged/relationships.parquet")
    assert titles.count("WATSON") == 2
    assert set(links["source"].to_pylist()) | set(links["target"].to_pylist()) <= set(titles)


@pytest.fixture
def lightrag(tmp_path: Path) -> Path:
    graph = nx.Graph()
    for name, kind, text, units in ENTITIES:
        graph.add_node(name, entity_id=name, entity_type=kind, description=text, source_id="<SEP>".join(units))
    for source, target, text, weight, units in LINKS:
        if not graph.has_edge(source, target):
            words = f"{text.split()[-1]},shared"
            graph.add_edge(source, target, description=text, weight=weight, keywords=words, source_id=units[0])
    folder = tmp_path / "rag"
    folder.mkdir()
    nx.write_graphml(graph, folder / "graph_chunk_entity_relation.graphml")
    return folder


def test_the_graph_of_lightrag_is_merged_by_its_rules(lightrag: Path, tmp_path: Path) -> None:
    resolve_graph(lightrag, tmp_path / "merged")
    graph = nx.read_graphml(tmp_path / "merged/graph_chunk_entity_relation.graphml")
    assert sorted(graph) == ["BAKER STREET", "SHERLOCK HOLMES", "WATSON"]
    node = graph.nodes["SHERLOCK HOLMES"]
    assert node["description"] == f"{HOLMES}<SEP>{HOLMES} in London"
    assert node["source_id"] == "u1<SEP>u2<SEP>u3"
    edge = graph.edges["SHERLOCK HOLMES", "BAKER STREET"]
    assert (edge["weight"], edge["keywords"]) == (3.0, "in,shared,of")
    assert not list(nx.selfloop_edges(graph))
    calls = json.loads((tmp_path / "merged/merges.json").read_text("utf-8"))
    assert calls == [{"source_entities": ["HOLMES, SHERLOCK"], "target_entity": "SHERLOCK HOLMES"}]


class Database:
    """Stands for a driver of Neo4j: it has nodes, and keeps the ids that are merged."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self._pool = SimpleNamespace(pool_config=SimpleNamespace(user_agent=""))
        self.nodes, self.merged, self.queries = nodes, [], []  # type: ignore[var-annotated]

    def execute_query(self, query: str, values: Any = None, *, database_: str | None = None) -> Any:
        self.queries.append((query, database_))
        if values is None:
            return self.nodes, None, None
        self.merged.append(values["ids"])
        return [], None, None


def test_the_resolver_for_neo4j_merges_nodes_of_the_same_labels() -> None:
    pytest.importorskip("neo4j_graphrag")
    from arbo.resolving.neo4j import ArboResolver

    nodes = [
        {"id": f"4:{row}", "labels": ["__Entity__", kind], "properties": {"name": name, "description": text}}
        for row, (name, kind, text, _) in enumerate(ENTITIES)
    ]
    nodes += [{"id": "4:9", "labels": ["__Entity__", "GEO"], "properties": {"name": "SHERLOCK HOLMES"}}]
    nodes += [{"id": "4:8", "labels": ["__Entity__"], "properties": {}}]
    nodes += [{"id": "4:7", "labels": ["__Entity__"], "properties": {"name": "SHERLOCK HOLMES"}}]
    database = Database(nodes)
    resolver = ArboResolver(database, "WHERE entity.new", neo4j_database="graph")
    stats = asyncio.run(resolver.run())
    assert (stats.number_of_nodes_to_resolve, stats.number_of_created_nodes) == (6, 1)
    assert database.merged == [["4:0", "4:1"]]
    assert "MATCH (entity:__Entity__) WHERE entity.new\n" in database.queries[0][0]
    assert {name for _, name in database.queries} == {"graph"}
    assert asyncio.run(ArboResolver(Database([])).run()).number_of_nodes_to_resolve == 0


def test_the_verb_writes_merges_and_tells_them(run: Run, graphrag: Path, tmp_path: Path) -> None:
    done = run("resolve", graphrag, "--out", tmp_path / "merged")
    assert "SHERLOCK HOLMES: SHERLOCK HOLMES, HOLMES, SHERLOCK" in done.out
    assert "Resolution(4 rows, 3 entities)" in done.out
    with (tmp_path / "merged/merges.csv").open() as stream:
        assert [row["canonical_row"] for row in csv.DictReader(stream)] == ["0", "0", "2", "3"]


def test_the_verb_takes_a_table_and_prints_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("Label,Kind\nSmith Ada,p\nADA SMITH,p\nBob Jones,p\n")
    done = run(
        "resolve", tmp_path / "table.csv", "--name", "Label", "--type", "Kind", "--out", tmp_path / "a", "--json"
    )
    told = json.loads(done.out)
    assert (told["rows"], told["entities"], told["merges"][0]["rows"]) == (3, 2, [0, 1])
    assert told["merges"][0]["canonical_name"] == "Smith Ada"


def test_nothing_is_overwritten_and_faults_are_told(graphrag: Path, tmp_path: Path) -> None:
    with pytest.raises(arbo.UsageError, match="is not empty"):
        resolve_graph(graphrag, graphrag)
    with pytest.raises(arbo.UsageError, match=r"neither entities\.parquet nor graph_chunk"):
        resolve_graph(tmp_path, tmp_path / "out")
    (graphrag / "relationships.parquet").write_bytes(b"no table")
    with pytest.raises(arbo.DataError, match="the table cannot be read"):
        resolve_graph(graphrag, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "graph_chunk_entity_relation.graphml").write_text("<graphml")
    with pytest.raises(arbo.DataError, match="the graph cannot be read"):
        resolve_graph(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.drop_columns("source"), "there is no column 'source'; the columns are id, target"),
        (lambda table: table.set_column(2, "target", [["B", None, "C", None]]), "row 2 has no value in the column 'ta"),
    ],
)
def test_relationships_without_an_end_are_told_before_resolving(
    graphrag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, told: str
) -> None:
    file = graphrag / "relationships.parquet"
    pq.write_table(change(pq.read_table(file)), file)
    monkeypatch.setattr("arbo.resolving.folders.resolve", None)
    with pytest.raises(arbo.DataError, match=told) as caught:
        resolve_graph(graphrag, tmp_path / "out")
    assert caught.value.file == str(file)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (">4.0<", ">abc<", "could not convert string to float: 'abc'"),
        ('attr.type="double"', 'attr.type="number"', "unknown value 'number'"),
        ("<graphml ", '<!DOCTYPE graphml [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><graphml ', "made of other entities"),
    ],
)
def test_faults_of_graphml_are_told(lightrag: Path, tmp_path: Path, old: str, new: str, told: str) -> None:
    file = lightrag / "graph_chunk_entity_relation.graphml"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(arbo.DataError, match=told) as caught:
        resolve_graph(lightrag, tmp_path / "out")
    assert caught.value.file == str(file)

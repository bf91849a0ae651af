"""Knowledge graphs of GraphRAG, LightRAG and Neo4j: their nodes are discovered, and merged nodes written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Run

import arbo
from arbo.formats.graph import Node, read_documents

ENTITIES = [
    ("SHERLOCK HOLMES", "PERSON", "a detective", ["u1", "u2"]),
    ("HOLMES, SHERLOCK", "person", "a detective in London", ["u2", "u3"]),
    ("BAKER STREET", "GEO", "a street", ["u1"]),
    ("WATSON", "PERSON", "a doctor", ["u3"]),
    ("Watson", "GEO", "a town in Arkansas", ["u3"]),
]
LINKS = [
    ("SHERLOCK HOLMES", "BAKER STREET", "lives in", 2.0, ["u1"]),
    ("BAKER STREET", "HOLMES, SHERLOCK", "is the home of", 3.0, ["u2"]),
    ("HOLMES, SHERLOCK", "SHERLOCK HOLMES", "is", 1.0, ["u2"]),
    ("WATSON", "HOLMES, SHERLOCK", "is a friend of", None, ["u3"]),
    ("WATSON", "WATSON", "knows", 1.0, ["u3"]),
]
GRAPHML = "graph_chunk_entity_relation.graphml"


def merged(folder: Path, out: Path, **options: Any) -> dict[str, int]:
    """Discover a graph and write it with merged nodes."""
    documents = arbo.read_documents(folder, **options)
    result = arbo.Linker().discover(documents)
    result.save(out.parent / "run")
    return arbo.Result.load(out.parent / "run").export(out, documents.graph["format"])


def tables(folder: Path, *names: str) -> list[list[dict[str, Any]]]:
    return [pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names]


@pytest.fixture
def graphrag(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    entities, links = list[dict[str, Any]](), list[dict[str, Any]]()
    for row, (title, kind, text, units) in enumerate(ENTITIES):
        own = {"id": f"e{row}", "title": title, "type": kind, "description": text, "text_unit_ids": units}
        entities.append(own | {"frequency": len(units), "degree": 9, "x": 0.0, "own": None, "parts": [{"a": row}]})
    names = "source", "target", "description", "weight", "text_unit_ids"
    for row, values in enumerate(LINKS):
        links.append({"id": f"r{row}", **dict(zip(names, values, strict=True)), "combined_degree": 9})
    of = {"u1": ("e0 e2", ["r0", "other"]), "u2": ("e1 e0", ["r1", "r2"]), "u3": ("e1 e3 e4", None)}
    units = [{"id": id_, "entity_ids": own.split(), "relationship_ids": ties} for id_, (own, ties) in of.items()]
    content: dict[str, list[dict[str, Any]]] = {"entities": entities, "relationships": links, "text_units": units}
    content |= {"documents": units, "communities": units, "covariates": [{"subject_id": "HOLMES, SHERLOCK"}]}
    for name, rows in content.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def test_entities_of_graphrag_are_merged_and_the_rest_stays(graphrag: Path, tmp_path: Path) -> None:
    notes = merged(graphrag, out := tmp_path / "merged")
    left_out = "tables left out, which GraphRAG makes again: communities.parquet"
    assert notes == {"nodes merged into others": 1, left_out: 1}
    entities, links, units, claims = tables(out, "entities", "relationships", "text_units", "covariates")
    assert [row["title"] for row in entities] == ["SHERLOCK HOLMES", "BAKER STREET", "WATSON", "Watson"]
    joined = {"description": "a detective\na detective in London", "text_unit_ids": ["u1", "u2", "u3"], "frequency": 3}
    (before,) = tables(graphrag, "entities")
    assert entities[0] == before[0] | joined | {"degree": 2}
    ends = "SHERLOCK HOLMES > BAKER STREET", "WATSON > SHERLOCK HOLMES", "WATSON > WATSON"
    assert tuple(f"{row['source']} > {row['target']}" for row in links) == ends
    assert [(row["weight"], row["combined_degree"]) for row in links] == [(5.0, 3), (None, 4), (1.0, 4)]
    assert links[0]["description"] == "lives in\nis the home of"
    assert [row["entity_ids"] for row in units] == [["e0", "e2"], ["e0"], ["e0", "e3", "e4"]]
    assert [row["relationship_ids"] for row in units] == [["r0", "other"], ["r0"], None]
    assert claims == [{"subject_id": "SHERLOCK HOLMES"}]
    assert (out / "documents.parquet").read_bytes() == (graphrag / "documents.parquet").read_bytes()
    for name in ("entities", "relationships", "text_units"):
        assert pq.read_schema(out / f"{name}.parquet").equals(pq.read_schema(graphrag / f"{name}.parquet"))


def test_texts_of_nodes_are_evidence(graphrag: Path, lightrag: Path, tmp_path: Path) -> None:
    for folder in (graphrag, lightrag):
        documents = arbo.read_documents(folder)
        assert documents.graph["evidence"] == "text_units:set"
        result = arbo.Linker().discover(documents)
        assert result.manifest["config"]["evidence"] == "text_units:set"
        assert result.evidence[0]["levels"] == ("some in common", "none in common")
        assert arbo.Linker(config={"treat_as": "text"}).discover(documents).manifest["config"]["evidence"] is None
    pq.write_table(pq.read_table(file := graphrag / "entities.parquet").drop_columns(["text_unit_ids"]), file)
    assert arbo.Linker().discover(arbo.read_documents(graphrag)).evidence == []


@pytest.mark.parametrize("case", ["graphrag_null_description", "graphrag_list_description"])
def test_columns_without_values_and_of_lists_travel(shared: Callable[[str], Path], tmp_path: Path, case: str) -> None:
    merged(shared(f"cases/{case}"), tmp_path / "merged")
    ((first, other), (link,)) = tables(tmp_path / "merged", "entities", "relationships")
    assert (first["title"], other["title"]) == ("ANN LEE", "BOB")
    assert first["description"] == (None if "null" in case else ["a", "b", "c"])
    assert (first["text_unit_ids"], link["weight"]) == (["u0", "u1"], 2.0)


@pytest.mark.parametrize("kind", ["null", "dictionary", "list of lists", "missing"])
def test_no_type_of_a_column_that_is_not_needed_ends_an_export(graphrag: Path, tmp_path: Path, kind: str) -> None:
    for name in ("entities", "relationships", "text_units"):
        table = pq.read_table(file := graphrag / f"{name}.parquet")
        for column in {*table.column_names} - {"title", "source", "target", "type"}:
            place, n = table.column_names.index(column), len(table)
            values = {"null": pa.nulls(n), "dictionary": pa.array(["a"] * n).dictionary_encode()}
            values["list of lists"] = pa.array([[["a"]]] * n)
            values["missing"] = pa.nulls(n)
            table = table.set_column(place, column if kind != "missing" else f"own_{column}", values[kind])
        pq.write_table(table, file)
    merged(graphrag, tmp_path / "merged")
    for name in ("entities", "relationships", "text_units"):
        after = pq.read_table(tmp_path / "merged" / f"{name}.parquet")
        assert after.schema.equals(pq.read_schema(graphrag / f"{name}.parquet"))
        assert len(after) == {"entities": 4, "relationships": 3, "text_units": 3}[name]


@pytest.fixture
def lightrag(tmp_path: Path) -> Path:
    graph = nx.Graph()
    for name, kind, text, units in ENTITIES[:4]:
        graph.add_node(name, entity_id=name, entity_type=kind, description=text, source_id="<SEP>".join(units))
    for source, target, text, weight, units in LINKS:
        if not graph.has_edge(source, target):
            words = f"{text.split()[-1]},shared"
            graph.add_edge(source, target, description=text, weight=weight or 0.5, keywords=words, source_id=units[0])
    folder = tmp_path / "rag"
    folder.mkdir()
    nx.write_graphml(graph, folder / GRAPHML)
    return folder


def test_the_graph_of_lightrag_is_merged_by_its_rules(lightrag: Path, tmp_path: Path) -> None:
    merged(lightrag, tmp_path / "merged")
    graph = nx.read_graphml(tmp_path / "merged" / GRAPHML)
    assert sorted(graph) == ["BAKER STREET", "SHERLOCK HOLMES", "WATSON"]
    node = graph.nodes["SHERLOCK HOLMES"]
    assert (node["description"], node["source_id"]) == ("a detective<SEP>a detective in London", "u1<SEP>u2<SEP>u3")
    edge = graph.edges["SHERLOCK HOLMES", "BAKER STREET"]
    assert (edge["weight"], edge["keywords"]) == (3.0, "in,shared,of")
    assert [*nx.selfloop_edges(graph)] == [("WATSON", "WATSON")]
    calls = json.loads((tmp_path / "merged/merges.json").read_text("utf-8"))
    assert calls == [{"source_entities": ["HOLMES, SHERLOCK"], "target_entity": "SHERLOCK HOLMES"}]


def test_types_compare_without_case_and_a_placeholder_is_none(shared: Callable[[str], Path], tmp_path: Path) -> None:
    merged(shared("cases/lightrag_types"), tmp_path / "merged")
    graph = nx.read_graphml(tmp_path / "merged" / GRAPHML)
    assert [*graph.nodes(data="entity_type")] == [('"ANN LEE"', "person"), ("System Admin", "role")]
    assert list(graph.edges(data="weight")) == [('"ANN LEE"', "System Admin", 2.5)]


def test_a_node_without_a_type_has_that_of_its_name_and_near_names_stay_apart(shared: Callable[[str], Path]) -> None:
    nodes = [("Lee, Ann", "Person"), ("ANN LEE", None)]
    nodes += [("Paris", "geo"), ("paris", " PERSON"), ("PARIS", "Unknown"), ("Rio", "None")]
    made = [Node.of(str(row), *node) for row, node in enumerate(nodes)]
    corpus = read_documents("g", lambda _: (made, print), "lightrag")
    assert [document.domain for document in corpus] == ["person", "person", "geo", "person", None, None]
    assert [*corpus.types] == ["Person", None, "geo", "PERSON", "Unknown", "None"]
    names = shared("cases/resolve_letters_and_signs.csv").read_text("utf-8").splitlines()[1:]
    names += ["Queensland, Australia", "Australia"]
    assert len(arbo.Linker().discover(names).clusters) == len(names)


NODES = """:ID,name,age:int,note,:LABEL
1,Ann Lee,3,"",__Entity__;Person
2,"Lee, Ann",,"a ""b""
c",Person;__Entity__
3,Bob,4,x,Person
4,,5,,Chunk
5,ANN LEE,6,,Ship
"""
KNOWS = """:START_ID,:END_ID,:TYPE,w:double
1,3,KNOWS,1.0
2,3,KNOWS,
2,1,IS,2
3,2,KNOWS,7
3,1,LIKES,
3,3,IS,
2,2,IS,
,2,IS,
"""


@pytest.fixture
def neo4j(tmp_path: Path) -> Path:
    folder = tmp_path / "import"
    folder.mkdir()
    for name, text in {"nodes": NODES, "knows": KNOWS, "none": ":START_ID,:END_ID\n", "own": "a,b\n1\n"}.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_nodes_of_neo4j_are_merged_and_other_rows_stay(neo4j: Path, tmp_path: Path) -> None:
    merged(neo4j, out := tmp_path / "merged")
    assert (out / "nodes.csv").read_text() == (
        NODES.splitlines()[0] + '\n"1","Ann Lee","3","","__Entity__;Person"\n"3","Bob","4","x","Person"\n'
        '"4",,"5",,"Chunk"\n"5","ANN LEE","6",,"Ship"\n'
    )
    links = [line.replace('"', "") for line in (out / "knows.csv").read_text().splitlines()[1:]]
    assert links == ["1,3,KNOWS,1.0", "3,1,KNOWS,7", "3,1,LIKES,", "3,3,IS,", "1,1,IS,", ",1,IS,"]
    assert all((out / name).read_bytes() == (neo4j / name).read_bytes() for name in ("none.csv", "own.csv"))


def test_ids_of_neo4j_may_have_spaces_and_other_delimiters(neo4j: Path, tmp_path: Path) -> None:
    (neo4j / "nodes.csv").write_text("id:ID(P);name:string;:LABEL\n1;Ann Lee;X\n2;Lee Ann;X\n")
    (neo4j / "ships.csv").write_text("id:ID(S){label:Ship};name\n1;Ann Lee\n")
    (neo4j / "knows.csv").write_text(":END_ID(S);:START_ID(P)\n1;2\n")
    assert arbo.read_documents(neo4j).types == ["X|P", "X|P", "S"]
    merged(neo4j, out := tmp_path / "merged")
    assert (out / "nodes.csv").read_text().splitlines()[1:] == ['"1";"Ann Lee";"X"']
    assert (out / "knows.csv").read_text().splitlines()[1:] == ['"1";"1"']


def test_the_command_reads_and_writes_a_graph(run: Run, graphrag: Path, tmp_path: Path) -> None:
    done = run("discover", graphrag, "--out", tmp_path / "run")
    assert "output: read as graphrag" in done.err
    done = run("export", tmp_path / "run", "--to", "graphrag", "--out", tmp_path / "merged")
    assert "1 node merged into others" in done.err
    assert len(tables(tmp_path / "merged", "entities")[0]) == 4
    other = run("export", tmp_path / "run", "--to", "neo4j", "--out", tmp_path / "a")
    assert "of a graph in the format neo4j" in other.err
    again = run("export", tmp_path / "run", "--to", "graphrag", "--out", tmp_path / "merged")
    assert "is not an empty folder" in again.err


def test_corrections_and_types_decide_what_is_merged(graphrag: Path, tmp_path: Path) -> None:
    documents = arbo.read_documents(graphrag / "entities.parquet", types="GEO")
    result = arbo.Linker().discover(documents, [{"same": ["e2", "e4"]}])
    result.export(tmp_path / "merged", "graphrag")
    titles = [row["title"] for row in tables(tmp_path / "merged", "entities")[0]]
    assert titles == ["SHERLOCK HOLMES", "HOLMES, SHERLOCK", "BAKER STREET", "WATSON"]
    grown = arbo.Linker().add(arbo.Linker().discover(documents), (), [{"same": ["e2", "e4"]}])
    grown.export(tmp_path / "b", "graphrag")
    assert tables(tmp_path / "b", "entities") == tables(tmp_path / "merged", "entities")


def test_a_graph_that_has_changed_is_refused(graphrag: Path, tmp_path: Path) -> None:
    result = arbo.Linker().discover(arbo.read_documents(graphrag))
    table = pq.read_table(file := graphrag / "entities.parquet")
    for changed in (table.slice(1), table.set_column(1, "title", pa.array([*"abcde"]))):
        pq.write_table(changed, file)
        with pytest.raises(arbo.DataError, match="the graph has changed since the run was made"):
            result.export(tmp_path / "merged", "graphrag")
    assert not (tmp_path / "merged").exists()
    with pytest.raises(arbo.UsageError, match="a graph is one folder, not 2 paths"):
        arbo.read_documents([graphrag, graphrag], "graphrag")


def without(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns(name)


NOT_UTF8 = pa.array([b"\xff"] * len(ENTITIES)).view(pa.string())


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("relationships", without("source"), "there is no column 'source'; the columns are id, target"),
        ("relationships", lambda table: table.set_column(2, "target", [[*"BC", None, *"CD"]]), "row 3 has no value in"),
        ("entities", without("title"), "there is no column 'title'; the columns are id, type"),
        ("entities", lambda table: table.set_column(1, "title", [NOT_UTF8]), "the Parquet file is damaged, .*UTF8"),
        ("entities", lambda table: table.set_column(1, "title", [[*"abc", " ", "d"]]), "node 4, 'e3': the node has"),
    ],
)
def test_faults_of_graphrag_are_placed(graphrag: Path, file: str, change: Any, words: str) -> None:
    path = graphrag / f"{file}.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(arbo.DataError, match=words):
        arbo.read_documents(graphrag)
    if "node" in words:
        assert len(arbo.read_documents(graphrag, on_error="skip")) == 4
    path.write_bytes(b"PAR1 no table")
    with pytest.raises(arbo.DataError, match=rf"{file}\.parquet: the Parquet file is damaged"):
        arbo.read_documents(graphrag)


DOCTYPE = f'<!--{"-x" * 2**16}--><!DOCTYPE graphml [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><graphml '
FURTHER = "further.csv"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (GRAPHML, ">3.0<", ">abc<", "could not convert string to float: 'abc'"),
        (GRAPHML, 'attr.type="double"', 'attr.type="number"', "unknown value 'number'"),
        (GRAPHML, "<graphml ", DOCTYPE, "made of others"),
        (GRAPHML, "</graphml>", "", "no element found"),
        (FURTHER, None, ":START_ID,:TYPE\n1,KNOWS\n", "relationships need the columns :START_ID and :END_ID"),
        (FURTHER, None, ":ID,name\n1,a,b\n", "the file cannot be read .*Expected 2 columns, got 3"),
        (FURTHER, None, ":ID,name\n1,a\n1,b\n", "'1'"),
    ],
)
def test_faults_of_text_are_placed(lightrag: Path, neo4j: Path, file: str, old: Any, new: str, words: str) -> None:
    folder = lightrag if file == GRAPHML else neo4j
    if old is not None:
        text = (folder / file).read_text("utf-8")
        assert old in text
        new = text.replace(old, new)
    (folder / file).write_text(new, "utf-8")
    with pytest.raises(arbo.DataError, match=words) as caught:
        arbo.read_documents(folder)
    assert str(caught.value.file).startswith(str(folder))

"""`Result.export`, `Result.to_pandas` and `arbo export`: what a run hands on, and what reads it."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from builders import document, linker
from conftest import Run, Sample

import arbo
from arbo.engine import scores_from_counts
from arbo.formats import writer
from arbo.results.coreference_files import paired_counts, read_clusters
from arbo.results.export import documents_of, flat_table

HOSTILE = ["=cmd()", "+1", "-2", "@x", "\tx", "\rx", "\uff1dx", 'quo"te, comma', "line\nend", "tab\tin", "", None, "a"]


def test_a_row_has_a_mention_its_sentence_and_its_link(result: arbo.Result) -> None:
    frame = result.to_pandas()
    assert list(frame["mention_id"]) == [link.mention.id for link in result.links]
    row = frame.set_index("mention_id").loc["D06-3"]
    assert row["path"] == "fungal root rot of marsh sorrel -> Root rot -> sorrel root rot"
    assert row["text"] in row["sentence"]
    assert "sorrel root rot" in row["sentence"]
    assert (row["entity_id"], row["cluster_name"], row["nil"]) == ("DS:0001", "fungal root rot of marsh sorrel", False)
    nil = frame[frame["nil"]]
    assert list(nil["cluster_id"]) == [link.cluster for link in result.links if link.entity is None]
    assert nil["path"].isna().all()
    assert list(frame)[9:12] == ["confidence", "score", "margin"]


def test_paths_are_those_of_the_explanations(result: arbo.Result) -> None:
    for link, path in zip(result.links, flat_table(result)["path"].to_pylist(), strict=True):
        steps = [step.name for step in result.explain(link).path]
        shown = steps if len(steps) <= 9 else [steps[0], "...", *steps[-8:]]
        assert path == (None if link.entity is None else " -> ".join(shown))


def test_of_a_long_path_the_last_steps_are_shown() -> None:
    found = linker(arbo.KnowledgeBase([arbo.Entity("E", "fever")])).link([document("d", *["fever"] * 12)])
    links = found.link_table
    chain = {"parent": pa.array(["E", *(f"d-{n}" for n in range(11))]), "parent_is_mention": [False] + [True] * 11}
    for name, values in chain.items():
        links = links.set_column(links.column_names.index(name), name, pa.array(values))
    paths = flat_table(replace(found, link_rows=links))["path"].to_pylist()
    assert paths[:8] == [" -> ".join(["fever"] * (n + 2)) for n in range(8)]
    assert set(paths[8:]) == {" -> ".join(["fever", "...", *["fever"] * 8])}


def test_a_sentence_holds_its_whole_mention() -> None:
    text = "  One is. Two was.\n\nThree."
    spans = {"a": (2, 5), "b": (6, 13), "c": (20, 26), "d": (0, 2), "e": (18, 20)}
    mentions = [{"id": id_, "spans": [list(span)]} for id_, span in spans.items()]
    blank = {"id": "blank", "text": " ", "mentions": [{"id": "f", "spans": [[0, 1]]}]}
    found = arbo.Linker().discover([{"id": "d", "text": text, "mentions": mentions}, blank])
    assert flat_table(found)["sentence"].to_pylist() == ["One is.", "One is. Two was.", "Three.", "  ", "\n\n", " "]


def test_further_columns_are_kept(result: arbo.Result, tmp_path: Path) -> None:
    n, documents = result.link_table.num_rows, result.document_table
    own = [json.dumps({"index": row, "score": "high", "mixed": [row] if row % 2 else "x"}) for row in range(n)]
    years = [json.dumps({"year": 1990 + row}) if row else None for row in range(len(documents))]
    mentions = result.mention_table.append_column("metadata", pa.array(own))
    documents = documents.append_column("metadata", pa.array(years))
    frame = (wider := replace(result, mention_table=mentions, document_table=documents)).to_pandas()
    assert frame.index.tolist() == list(range(n))
    assert (set(frame["own_score"]), frame["mixed"].tolist()[:2]) == ({"high"}, ['"x"', "[1]"])
    assert frame["year"].isna().tolist() == (frame["document_id"] == "D01").tolist()
    assert frame["year"].max() == 1990 + len(documents) - 1
    assert frame["confidence"].tolist() == result.link_table["confidence"].to_pylist()
    assert wider.export(tmp_path / "links.csv", "csv") == {}
    assert list(pd.read_csv(tmp_path / "links.csv").columns) == [*flat_table(wider).column_names, "reviewed"]


def test_a_column_never_replaces_another_and_long_integers_survive(tmp_path: Path) -> None:
    mention = {"id": "m", "spans": [[0, 3]], "nil": -(2**70), "cluster_name": "m"}
    rows = [{"id": "d", "text": "flu", "mentions": [mention], "nil": 2**80, "cluster_name": "n", "own_nil": 3}]
    found = arbo.Linker().discover(rows)
    row = found.to_pandas().loc[0]
    assert (row["own_nil"], row["own_own_nil"], row["own_own_own_nil"]) == (str(-(2**70)), str(2**80), 3)
    assert (row["own_cluster_name"], row["own_own_cluster_name"]) == ("m", "n")
    assert found.export(tmp_path / "links.tsv", "tsv") == {}


@pytest.mark.parametrize(("format_", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_no_cell_of_csv_is_a_formula_and_tsv_is_as_it_was(tmp_path: Path, format_: str, delimiter: str) -> None:
    table = pa.table({"=text": HOSTILE, "number": [-1.5] * len(HOSTILE), "ids": [["-1", "b"]] * len(HOSTILE)})
    notes, raw = writer(format_)(table, tmp_path / "out"), (tmp_path / "out").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf") == (format_ == "csv")
    rows = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), delimiter=delimiter))
    guard = "'" if format_ == "csv" else ""
    assert rows[0] == [f"{guard}=text", "number", "ids"]
    guarded = [f"{guard}{text}" if place < 7 else text or "" for place, text in enumerate(HOSTILE)]
    assert ([row[0] for row in rows[1:]], {tuple(row[1:]) for row in rows[1:]}) == (guarded, {("-1.5", f"{guard}-1|b")})
    told = "cells beginning like a formula got a ' in front (=text, ids); tsv keeps them as they are"
    assert +notes == ({told: 7 + len(HOSTILE)} if guard else {})


def test_an_id_that_csv_changes_is_told(run: Run, tmp_path: Path) -> None:
    linker(arbo.KnowledgeBase([arbo.Entity("-7", "fever")])).link([document("@d", "fever")]).save(tmp_path / "run")
    done = run("export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "links.csv")
    named = "(mention_id, document_id, entity_id, cluster_id)"
    assert f"4 cells beginning like a formula got a ' in front {named}; tsv keeps" in done.told


def test_the_runner_up_is_the_best_candidate_but_the_link(result: arbo.Result) -> None:
    rows = result.to_pandas().replace({float("nan"): None})
    columns = zip(*(rows[f"runner_up_{name}"] for name in ("id", "name", "score")), strict=True)
    for link, shown in zip(result.links, columns, strict=True):
        others = [candidate for candidate in link.candidates if candidate[0] != link.entity]
        id_, score = next(iter(others), (None, None))
        assert shown == (id_, result.names_of(id_)[0] if id_ else None, score)
    assert "runner_up_id" not in arbo.Linker().discover([document("d", "flu")]).to_pandas()


def test_the_documents_of_a_run_are_those_that_were_linked(result: arbo.Result, sample: Sample) -> None:
    assert documents_of(result, "gold") == sample[0]
    linked = documents_of(result, "links")
    assert [m.gold for m in linked.mentions] == [(link.cluster,) for link in result.links]
    assert linked.of_types("Vessel").mentions


def test_exported_links_are_scored_as_the_run_is(result: arbo.Result, tmp_path: Path) -> None:
    known = [d for d in documents_of(result, "gold") if all(m.gold for m in d.mentions)]
    gold = linker(arbo.load_sample()[1]).link(known)

    def counted(to: str, suffix: str) -> Any:
        files = {ids: tmp_path / f"{ids}.{suffix}" for ids in ("gold", "links")}
        for ids, file in files.items():
            gold.export(file, to, ids=ids)
        return paired_counts(*(read_clusters(file)[0] for file in files.values())).total

    together, by_document = counted("clusters", "jsonl"), counted("conll", "conll")
    assert scores_from_counts(together)["conll"] == pytest.approx(gold.evaluate().coreference["conll"])
    right, in_key, _, in_response = by_document["mentions"]
    assert right == in_key == in_response == gold.link_table.num_rows


def test_discovered_entities_are_left_out_on_request(result: arbo.Result, tmp_path: Path) -> None:
    result.export(tmp_path / "out.jsonl", "jsonl", ids="entities")
    gold = [mention.gold for mention in arbo.read_documents(tmp_path / "out.jsonl").mentions]
    assert gold == [() if link.entity is None else (link.entity,) for link in result.links]
    result.export(tmp_path / "out.txt", "pubtator", ids="entities")
    assert (tmp_path / "out.txt").read_text("utf-8").count("\t-1\n") == result.n_nil


def test_a_run_without_texts_exports_tables_alone(result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run", texts=False)
    bare = arbo.Result.load(tmp_path / "run")
    with pytest.raises(arbo.UsageError, match=r"the run has no texts, .*without texts=false"):
        bare.export(tmp_path / "out.conll", "conll")
    n = bare.link_table.num_rows
    assert bare.export(tmp_path / "out.csv", "csv") == {"mentions without a sentence: the run has no texts": n}


def test_what_cannot_be_exported_is_refused(result: arbo.Result, tmp_path: Path) -> None:
    with pytest.raises(arbo.UsageError, match=r"unknown format 'docx'; known: csv, .*, neo4j"):
        result.export(tmp_path / "out", "docx")
    with pytest.raises(arbo.UsageError, match="ids 'link' is not one of links, entities, gold"):
        result.export(tmp_path / "out", "jsonl", ids="link")
    with pytest.raises(arbo.UsageError, match="tables and graphs have the ids of the run; leave --ids link out"):
        result.export(tmp_path / "out", "csv", ids="link")
    with pytest.raises(arbo.UsageError, match="no mention of the run is annotated"):
        arbo.Linker().discover([document("d", "flu")]).export(tmp_path / "out", "jsonl", ids="gold")


def test_a_run_without_mentions(tmp_path: Path) -> None:
    empty = arbo.Linker().discover([document("d")])
    assert empty.to_pandas().empty
    for to in ("csv", "jsonl", "pubtator", "conll", "brat"):
        empty.export(tmp_path / to, to)
    assert (tmp_path / "conll").read_text("utf-8") == "#begin document (d);\n\n#end document\n"


def test_the_command_line(run: Run, result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    done = run("export", tmp_path / "run", "--to", "CSV", "--out", tmp_path / "links.csv")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("run of 584 mentions written to ")
    made = run("export", tmp_path / "run", "--to", "conll", "--out", tmp_path / "ours", "--ids", "gold", "--json").json
    assert made["notes"]["discontinuous mentions written from first to last offset"] == 4
    assert (made["to"], made["mentions"]) == ("conll", 584)
    told = run("export", tmp_path / "run", "--to", "pubtator", "--out", tmp_path / "docs.txt").told
    assert told == "4 discontinuous mentions written from first to last offset"
    inside = run("export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "run" / "links.csv")
    assert (inside.code, "would change the input" in inside.told) == (2, True)


def test_ids_are_written_in_a_chosen_vocabulary(run: Run, tmp_path: Path) -> None:
    entities = [("D1", "flu", ["mesh:D7", "MESH:D8"]), ("D2", "cold", ["OMIM:1"]), ("MESH:D9", "cough", ["MESH:D0"])]
    rows = [{"id": id_, "name": name, "alternative_ids": ids} for id_, name, ids in entities]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arbo.Corpus([document("d", "flu", "cold", "cough", "qqqq", "flu")]).to_jsonl(tmp_path / "d.jsonl")
    base = ["--kb", tmp_path / "kb.jsonl", "--threshold", 0.5]
    assert run("link", tmp_path / "d.jsonl", *base, "--out", tmp_path / "run").code == 0

    def exported(to: str, ids: str) -> Any:
        return run("export", tmp_path / "run", "--to", to, "--ids", ids, "--out", tmp_path / f"out.{to}")

    assert exported("jsonl", "MESH").told == "1 own id written, for lack of an id of MESH"
    gold = [mention.gold for mention in arbo.read_documents(tmp_path / "out.jsonl").mentions]
    assert gold == [("mesh:D7",), ("D2",), ("MESH:D9",), ("new-d-3",), ("mesh:D7",)]
    exported("brat", "omim")
    assert "OMIM:1\tcold" in (tmp_path / "out.brat" / "d.ann").read_text()
    assert "no entity of the run has an id that begins with DOID:" in exported("jsonl", "DOID").told


def test_gold_clusters_are_exported_beside_gold_ids(tmp_path: Path) -> None:
    made = document("d", ("flu", ("E1",)), "flu", "cold")
    own = tuple(replace(mention, cluster=name) for mention, name in zip(made.mentions, ("c1", "c1", "c2"), strict=True))
    documents = [replace(made, mentions=own)]
    for run in (arbo.Linker().discover(documents), arbo.Linker([{"id": "E1", "name": "flu"}]).link(documents)):
        assert run.to_pandas()["gold_cluster"].tolist() == ["c1", "c1", "c2"]
        assert run.export(tmp_path / "gold.jsonl", "jsonl", ids="gold") == {}
        assert list(arbo.read_documents(tmp_path / "gold.jsonl")) == documents
        run.export(tmp_path / "key.jsonl", "clusters", ids="gold")
        assert read_clusters(tmp_path / "key.jsonl")[0] == {"": [["d-0"], ["d-1"], ["d-2"]]}
        run.export(tmp_path / "links.jsonl", "jsonl")
        linked = arbo.read_documents(tmp_path / "links.jsonl").mentions
        assert [(m.gold, m.cluster) for m in linked] == [((link.cluster,), None) for link in run.links]
        assert run.export(tmp_path / "gold.txt", "pubtator", ids="gold")["gold clusters left out"] == 3
        assert "gold clusters left out" not in run.export(tmp_path / "links.txt", "pubtator")


def test_domains_are_counted_where_they_are_lost(tmp_path: Path) -> None:
    found = arbo.Linker().discover([document("d", "flu", domain="wiki")])
    assert found.export(tmp_path / "out.jsonl", "jsonl") == {}
    assert arbo.read_documents(tmp_path / "out.jsonl")[0].domain == "wiki"
    assert found.export(tmp_path / "out", "brat")["documents whose domain is left out"] == 1

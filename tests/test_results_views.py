"""Flat tables of a run: which mentions and clusters are shown, and what of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from builders import document
from conftest import Run, Sample

import arbo
from arbo.results.views import cluster_view, mention_view, selected, wrong_kinds


def test_all_mentions_are_there_as_in_the_documents(result: arbo.Result, sample: Sample) -> None:
    table = mention_view(result, selected(result)).to_pylist()
    mentions = sample[0].mentions
    assert [row["mention_id"] for row in table] == [m.id for m in mentions]
    assert [(row["start"], row["end"]) for row in table] == [(m.start, m.end) for m in mentions]
    assert [row["entity_id"] for row in table] == [link.entity for link in result.links]


def test_a_selection_is_what_a_loop_would_choose(result: arbo.Result) -> None:
    links = list(result.links)
    how: dict[str, Any]
    for how, fits in (
        ({"nil": True}, lambda at: at.entity is None),
        ({"words": "PETREL"}, lambda at: "petrel" in f"{at.mention.text}|{at.entity_name}|{at.expansion}".lower()),
        ({"nil": True, "words": "a"}, lambda at: at.entity is None and "a" in f"{at.name}|{at.mention.text}".lower()),
    ):
        expected = [at.mention.id for at in links if fits(at)]
        assert expected, how
        assert mention_view(result, selected(result, **how))["mention_id"].to_pylist() == expected


def test_the_least_certain_come_first(result: arbo.Result) -> None:
    by_margin = replace(result, link_rows=result.link_table.drop_columns(["confidence"]))
    for run, column in ((result, "confidence"), (by_margin, "margin")):
        values = mention_view(run, selected(run, doubtful=True))[column].to_pylist()
        known = [value for value in values if value is not None]
        assert known == sorted(known)
        assert values[: len(known)] == known


def wrong_rows(run: arbo.Result) -> list[dict[str, Any]]:
    kinds = wrong_kinds(run)
    return mention_view(run, np.flatnonzero(kinds >= 0), kinds).to_pylist()


def test_wrong_links_come_by_their_reason(tmp_path: Path, run: Run) -> None:
    kb = arbo.KnowledgeBase(
        [arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fevre"), arbo.Entity("E3", "kelp", ("seaweed",))]
    )
    golds = {
        "marsh fever": ["E1", "E2", "E3", None],
        "seaweed": ["E3", "E1", None],
        "marsh fevers of the coast": ["E2"],
        "unheard": ["E3", None],
    }
    documents = [document(f"{text}-{gold}", (text, [gold or "E9"])) for text, some in golds.items() for gold in some]
    found = arbo.Linker(kb, config=arbo.LinkerConfig(k=0, entity_threshold=0.6, candidates=2)).link(documents)
    assert {(row["document_id"], row["wrong"]) for row in wrong_rows(found)} == {
        ("marsh fever-E2", "name of another entity"),
        ("marsh fever-E3", "name of another entity"),
        ("seaweed-E1", "name of another entity"),
        ("marsh fevers of the coast-E2", "outranked"),
        ("unheard-E3", "NIL"),
        ("marsh fever-None", "not in the knowledge base"),
        ("seaweed-None", "not in the knowledge base"),
    }
    found.save(tmp_path / "run")
    head, *lines = (line.split("\t") for line in run("show", tmp_path / "run", "--wrong").out.splitlines())
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert [(row["document_id"], row["wrong"], row["gold"]) for row in rows[3:5]] == [
        ("marsh fevers of the coast-E2", "outranked", "E2"),
        ("unheard-E3", "NIL", "E3"),
    ]
    assert len(run("show", tmp_path / "run", "--wrong", "--nil", "--json").json["mentions"]) == 1
    several = [{"mention": "d-0", "entity": ["E2", "E3"]}]
    assert wrong_rows(arbo.Linker(kb).link([document("d", ("marsh fever", ["E3"]))], several)) == []
    arbo.Linker(kb).link(["kelp"]).save(tmp_path / "plain")
    assert "no gold annotations" in run("show", tmp_path / "plain", "--wrong").err


def test_clusters_of_mentions(result: arbo.Result) -> None:
    rows = selected(result, nil=True)
    table = cluster_view(result, np.unique(result.cluster_rows[rows])).to_pylist()
    assert [row["cluster_id"] for row in table] == [cluster.id for cluster in result.discovered]
    for row, cluster in zip(table, result.discovered, strict=True):
        assert row["size"] == len(cluster.mentions)
        assert set(row["examples"]) <= {mention.text for mention in cluster.mentions}
        assert row["examples"]


def test_a_run_without_mentions() -> None:
    empty = arbo.Linker().discover([document("d")])
    rows = selected(empty, doubtful=True, words="x")
    assert len(mention_view(empty, rows)) == 0
    assert len(cluster_view(empty, empty.cluster_rows[rows])) == 0
    assert rows.dtype == np.int64


def test_a_discontinuous_mention_has_its_first_and_last_offset() -> None:
    mention = {"id": "m", "spans": [[9, 14], [0, 4]]}
    found = arbo.Linker().discover([{"id": "d", "text": "left and right kidney", "mentions": [mention]}])
    (row,) = mention_view(found, selected(found)).to_pylist()
    assert (row["start"], row["end"]) == (0, 14)


def test_the_command_line(run: Run, result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    piped = run("show", tmp_path / "run", "--limit", 2).ok()
    header, *lines = piped.out.splitlines()
    assert header.split("\t")[:3] == ["mention_id", "document_id", "start"]
    assert len(lines) == 2
    assert len(run("show", tmp_path / "run").out.splitlines()) == 1 + len(result.links)
    shown = run("show", tmp_path / "run", "--nil", "--json").json
    assert set(shown) == {"mentions", "clusters", "evidence"}
    assert all(row["entity_id"] is None for row in shown["mentions"])
    assert len(shown["clusters"]) == len(result.discovered)
    clusters = run("show", tmp_path / "run", "--clusters", "--text", "petrel").out.splitlines()
    assert clusters[0].startswith("cluster_id\tentity_id\tname\tsize")
    refused = run("show", tmp_path / "run", "nobody")
    words = "no mention has the id, document, cluster, entity or text 'nobody'"
    assert (refused.code, words in refused.told) == (2, True)

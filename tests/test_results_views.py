"""Flat tables of a run: which mentions and clusters are shown, and what of them."""

from pathlib import Path
from typing import Any

import numpy as np
from builders import document
from conftest import Run, Sample

import arbo
from arbo.results.views import cluster_view, clusters_of, mention_view, selected


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
    margins = mention_view(result, selected(result, lowest_margin=True))["margin"].to_pylist()
    known = [margin for margin in margins if margin is not None]
    assert known == sorted(known)
    assert margins[: len(known)] == known


def test_clusters_of_mentions(result: arbo.Result) -> None:
    rows = selected(result, nil=True)
    table = cluster_view(result, clusters_of(result, rows)).to_pylist()
    assert [row["cluster_id"] for row in table] == [cluster.id for cluster in result.discovered]
    for row, cluster in zip(table, result.discovered, strict=True):
        assert row["size"] == len(cluster.mentions)
        assert set(row["examples"]) <= {mention.text for mention in cluster.mentions}
        assert row["examples"]


def test_a_run_without_mentions() -> None:
    empty = arbo.Linker().discover([document("d")])
    rows = selected(empty, lowest_margin=True, words="x")
    assert len(mention_view(empty, rows)) == 0
    assert len(cluster_view(empty, clusters_of(empty, rows))) == 0
    assert rows.dtype == np.int64


def test_a_discontinuous_mention_has_its_first_and_last_offset() -> None:
    mention = {"id": "m", "spans": [[9, 14], [0, 4]]}
    found = arbo.Linker().discover([{"id": "d", "text": "left and right kidney", "mentions": [mention]}])
    (row,) = mention_view(found, selected(found)).to_pylist()
    assert (row["start"], row["end"]) == (0, 14)


def test_the_command_line(run: Run, result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    piped = run("show", tmp_path / "run", "--limit", 2)
    assert piped.code == 0, piped.err
    header, *lines = piped.out.splitlines()
    assert header.split("\t")[:3] == ["mention_id", "document_id", "start"]
    assert len(lines) == 2
    assert len(run("show", tmp_path / "run").out.splitlines()) == 1 + len(result.links)
    shown = run("show", tmp_path / "run", "--nil", "--json").json
    assert set(shown) == {"mentions", "clusters"}
    assert all(row["entity_id"] is None for row in shown["mentions"])
    assert len(shown["clusters"]) == len(result.discovered)
    clusters = run("show", tmp_path / "run", "--clusters", "--text", "petrel").out.splitlines()
    assert clusters[0].startswith("cluster_id\tentity_id\tname\tsize")
    refused = run("show", tmp_path / "run", "nobody")
    words = "no mention has the id, document, cluster, entity or text 'nobody'"
    assert (refused.code, words in refused.told) == (2, True)

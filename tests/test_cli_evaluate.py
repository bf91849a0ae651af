"""`arbo evaluate` and `arbo explain`: the verbs that read runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli_builders import linking, sample_files
from conftest import Run

import arbo
from arbo.data.corpus import Corpus
from arbo.engine import coreference_scores_from_labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_seen_and_unseen(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    train = ["--train", folder / "train.jsonl", "--format", "jsonl"]
    scores = run("evaluate", tmp_path / "run", *train, "--json").json["linking"]
    assert scores["seen"]["mentions"] > 0  # type: ignore[index]
    assert scores["unseen"]["mentions"] > 0  # type: ignore[index]
    total = scores["seen"]["mentions"] + scores["unseen"]["mentions"]  # type: ignore[index]
    assert total == scores["mentions"]  # type: ignore[index]


@pytest.mark.slow
def test_topics_are_scored_alone(run: Run, tmp_path: Path) -> None:
    documents, _ = arbo.load_sample()
    topics = [replace(document, metadata={"topic": i % 3}) for i, document in enumerate(documents)]
    Corpus(topics).to_jsonl(tmp_path / "docs.jsonl")
    run("discover", tmp_path / "docs.jsonl", "--set", "by_topic=true", "--out", tmp_path / "a")
    run("discover", tmp_path / "docs.jsonl", "--out", tmp_path / "b")
    links = arbo.Result.load(tmp_path / "a").links
    conll = []
    for topic in range(3):
        own = {document.id for document in topics[topic::3]}
        of_topic = [link for link in links if link.mention.document_id in own]
        sides = [(" ".join(sorted(link.mention.gold)), link.cluster) for link in of_topic if link.mention.gold]
        conll.append(coreference_scores_from_labels(*zip(*sides, strict=True))["conll"])
    told = run("evaluate", tmp_path / "a", "--set", "by_topic=true", "--json").json["topics"]
    assert [told[str(topic)]["coreference"]["conll"] for topic in range(3)] == conll  # type: ignore[index]
    assert "B-cubed" in run("evaluate", tmp_path / "a", "--set", "by_topic=true").out.partition("Scores by topic")[2]
    shown = (
        run("evaluate", tmp_path / "a", tmp_path / "b", "--set", "by_topic=true")
        .out.partition("CoNLL by topic")[2]
        .split()
    )
    assert shown[:4] == ["a", "b", "0", f"{conll[0]:.4f}"]


def test_by_topic_needs_topics(run: Run, folder: Path, tmp_path: Path) -> None:
    run("discover", folder / "test.jsonl", "--format", "jsonl", "--out", tmp_path / "run")
    outcome = run("evaluate", tmp_path / "run", "--set", "by_topic=true")
    assert outcome.code == 2
    assert "have no topic in their metadata" in outcome.err


@pytest.mark.slow
def test_runs_are_compared(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "linked")
    run("discover", folder / "test.jsonl", "--format", "jsonl", "--out", tmp_path / "found")
    runs = [tmp_path / "linked", tmp_path / "found"]
    shown = run("evaluate", *runs, "--save", tmp_path / "table.md", "--save", tmp_path / "table.tex")
    assert shown.code == 0
    assert "against linked" in shown.out
    assert "| ARI |" in (tmp_path / "table.md").read_text("utf-8")
    assert "\\toprule" in (tmp_path / "table.tex").read_text("utf-8")
    scores = run("evaluate", *runs, "--set", "seed=3", "--json").json
    assert scores["systems"]["found"]["linking"] is None  # type: ignore[index]
    assert scores["report"]["systems"]["found"]["ARI"]["against_first"]["p_value"] < 1  # type: ignore[index]
    run("link", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "other")
    other = run("evaluate", tmp_path / "linked", tmp_path / "other")
    assert other.code == 2
    assert "compare only results of the same documents" in other.err


@pytest.mark.slow
def test_curves_are_drawn(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder), "--out", tmp_path / "run")
    assert run("evaluate", tmp_path / "run", "--plot", tmp_path / "nil.svg").code == 0
    assert (tmp_path / "nil.svg").read_text("utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("option", "file", "wrong"),
    [
        ("--save", "table.html", "ending must be one of .csv"),
        ("--plot", "curve.pdf", "ending must be one of .png"),
        ("--save", "nowhere/table.md", "does not exist"),
        ("--save", "run/manifest.json", "would change the input"),
    ],
)
@pytest.mark.slow
def test_outputs_are_checked_before_the_work(
    run: Run, folder: Path, tmp_path: Path, option: str, file: str, wrong: str
) -> None:
    run("link", *linking(folder), "--out", tmp_path / "run")
    outcome = run("evaluate", tmp_path / "run", option, tmp_path / file)
    assert outcome.code == 2
    assert wrong in outcome.err
    assert outcome.out == ""
    assert run("evaluate", tmp_path / "run").code == 0
    gold = Path(shutil.copy(folder / "test.jsonl", tmp_path / "gold.json"))
    refused = run("evaluate", tmp_path / "run", "--train", gold, "--format", "jsonl", "--save", gold)
    assert (refused.code, "would change the input" in refused.told) == (2, True)


def test_a_curve_of_nothing_comes_after_the_table(run: Run, folder: Path, tmp_path: Path) -> None:
    mention = arbo.Mention("m", "d", ((0, 9),), "RV Petrel", gold=("DS:0001",))
    Corpus.of([arbo.Document("d", "RV Petrel", (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    run("link", tmp_path / "docs.jsonl", *linking(folder)[1:], "--out", tmp_path / "run")
    outcome = run("evaluate", tmp_path / "run", "--plot", tmp_path / "nil.png")
    assert outcome.code == 2
    assert "accuracy" in outcome.out
    assert "with gold mentions that are NIL; leave --plot out" in outcome.err


def test_a_spoiled_run_is_3(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    (tmp_path / "run" / "links.parquet").write_bytes(b"PAR1")
    outcome = run("evaluate", tmp_path / "run")
    assert outcome.code == 3
    assert "links.parquet" in outcome.err


def test_mentions_are_explained_by_document_entity_or_text(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    result = arbo.Result.load(tmp_path / "run")
    mention = result.links[0].mention
    of_document = [link.mention.id for link in result.links if link.mention.document_id == mention.document_id]
    listed = run("explain", tmp_path / "run", mention.document_id)
    assert listed.code == 0
    assert f"{len(of_document)} mentions of {mention.document_id}" in listed.err
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["mention_id", *of_document]
    every = run("explain", tmp_path / "run", mention.document_id, "--json")
    assert [one["mention"] for one in json.loads(every.out)["explanations"]] == of_document
    alike = [link.mention.id for link in result.links if link.mention.text.lower() == mention.text.lower()]
    called = run("explain", tmp_path / "run", mention.text.upper(), "--json")
    assert {one["mention"] for one in json.loads(called.out)["explanations"]} >= set(alike)
    for cluster in result.clusters:
        if len(cluster.mentions) == 1:
            alone = run("explain", tmp_path / "run", cluster.id)
            assert alone.out.strip() == str(result.explain(cluster.mentions[0].id)).strip()
            break
    else:
        pytest.fail("no cluster of one mention")
    assert str(result.explain(cluster.id)) == str(result.explain(cluster.mentions[0].id))
    with pytest.raises(arbo.UsageError, match=f"{len(of_document)} mentions of '{mention.document_id}'; choose one by"):
        result.explain(mention.document_id)


def test_an_unknown_mention_is_2(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    outcome = run("explain", tmp_path / "run", "nobody")
    assert (outcome.code, outcome.out) == (2, "")
    assert "'nobody'" in outcome.err
    assert run("evaluate", tmp_path / "run", "--format", "jsonl").code == 2

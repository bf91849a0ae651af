"""The verbs that read runs: `evaluate`, `explain`, `add` and `diff`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import data_arguments, save_data
from cli_builders import linking, sample_files
from conftest import Run, Sample

import arbo
from arbo.data.corpus import Corpus
from arbo.engine import coreference_scores_from_labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


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
        .out.partition("CoNLL F1 by topic")[2]
        .split()
    )
    assert shown[:4] == ["a", "b", "0", f"{conll[0]:.4f}"]


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


@pytest.fixture
def grown(tmp_path: Path, sample: Sample, run: Run) -> Path:
    """Return a grown with the sample in two parts, and a run on the first part."""
    documents, kb = sample
    save_data(tmp_path, documents[:60], kb)
    Corpus.of(documents[60:]).to_jsonl(tmp_path / "more.jsonl")
    assert run("link", *data_arguments(tmp_path), "--out", tmp_path / "one", "--k", 3).code == 0
    return tmp_path


def test_runs_grow_shrink_and_are_refitted(grown: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    base = ["--kb", grown / "kb.jsonl"]
    told = run("add", grown / "one", grown / "more.jsonl", *base, "--out", grown / "two")
    assert told.code == 0, told.err
    assert "mentions: " in told.out
    assert f"arbo diff {grown / 'two'}\n" in told.out
    two = arbo.Result.load(grown / "two")
    assert two.link_table == arbo.Linker(kb, config=arbo.LinkerConfig(k=3)).link(documents).link_table
    refit = run("add", "--anew", grown / "two", *base, "--out", grown / "three", "--json").json
    assert (refit["clusters"], refit["mentions"]) == ([], [])
    ids = [document.id for document in documents[60:]]
    removed = (word for id_ in ids for word in ("--remove", id_))
    assert run("add", grown / "three", *removed, *base, "--out", grown / "four").code == 0
    assert arbo.Result.load(grown / "four").link_table == arbo.Result.load(grown / "one").link_table


def test_a_run_knows_the_run_of_which_it_was_made(grown: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "two runs" in run("diff", grown / "one").err
    monkeypatch.chdir(grown)
    assert run("add", "one", "more.jsonl", "--out", "two").code == 0
    assert arbo.Result.load("two").manifest["parent"]["path"] == "one"
    told = run("diff", "one", "two", "--json").json
    assert told["clusters"]
    assert run("diff", "two", "--json").json == told
    monkeypatch.chdir("/")
    assert run("diff", grown / "two", "--json").json == told  # beside the run
    arbo.Result.load(grown / "two").save(grown / "one")
    refused = run("diff", grown / "two")
    assert refused.code == 2
    assert f"is no longer there, or has changed; give its place: `arbo diff PLACE {grown / 'two'}`" in refused.told
    assert refused.told.count("two was made") == 1
    assert "not known" not in refused.told


def test_types_that_the_run_has_not_are_told(tmp_path: Path, run: Run) -> None:
    for name, types in (("one", ["Disease"]), ("more", ["Disease", "Chemical", "Chemical"]), ("none", ["", "Gene"])):
        mentions = [{"spans": [[i, i + 1]], **({"type": kind} if kind else {})} for i, kind in enumerate(types)]
        text = json.dumps({"id": name, "text": "abc", "mentions": mentions})
        (tmp_path / f"{name}.jsonl").write_text(text + "\n", "utf-8")
    assert run("discover", tmp_path / "one.jsonl", "--out", tmp_path / "run").code == 0
    add = ["add", tmp_path / "run", tmp_path / "more.jsonl", "--out", tmp_path / "run2"]
    told = " ".join(run(*add).err.split())
    assert "2 of 3 new mentions have a type that the run has not (Chemical); --types Disease leaves them out" in told
    assert "that the run has not" not in run(*add, "--types", "Disease").err
    assert run("discover", tmp_path / "none.jsonl", "--out", tmp_path / "run").code == 0
    assert "that the run has not" not in run(*add).err


def test_a_run_finds_its_knowledge_base_and_follows_a_new_release(grown: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    told = run("add", grown / "one", grown / "more.jsonl", "--out", grown / "two")
    assert told.code == 0, told.err
    own = arbo.Linker(kb, config=arbo.LinkerConfig(k=3))
    assert arbo.Result.load(grown / "two").link_table == own.link(documents).link_table

    release = arbo.KnowledgeBase([*kb.entities[3:], arbo.Entity("N1", "kelp lung")])
    release.to_jsonl(grown / "kb.jsonl")
    for verb in (["add", grown / "two", grown / "more.jsonl"], ["add", "--anew", grown / "two"]):
        told = run(*verb, "--out", grown / "three")
        assert told.code == 2
        assert "kb.jsonl has changed since" in told.err
    told = run("add", grown / "two", "--kb", grown / "kb.jsonl", "--out", grown / "three")
    assert told.code == 0, told.err
    assert "knowledge base: 1 new, 3 gone\n" in told.out
    assert run("add", "--anew", grown / "three", "--out", grown / "four", "--json").json["mentions"] == []
    assert "\tcause\t" in run("diff", grown / "two", grown / "three").out.splitlines()[0]

    (grown / "kb.jsonl").unlink()
    told = run("add", grown / "three", "--remove", documents[0].id, "--out", grown / "four")
    assert told.code == 2
    assert "is no longer at" in told.err


def test_another_file_is_read_like_the_knowledge_base_of_the_run(grown: Path, sample: Sample, run: Run) -> None:
    """The cross-references are those of the run, whether its file has moved, has changed, or was only named again."""
    documents, kb = sample
    kb = arbo.KnowledgeBase(
        [
            replace(kb.entities[0], xrefs=("MSH:D1",)),
            *kb.entities[1:],
            arbo.Entity("M1", "hay fever", xrefs=("MSH:D2",)),
        ]
    )
    kb.to_jsonl(grown / "kb.jsonl")
    reading = ["--kb-xrefs", "MSH", "--set", "generic_names=false"]
    assert run("link", *data_arguments(grown), *reading, "--out", grown / "one").code == 0
    (grown / "kb.jsonl").rename(grown / "moved.jsonl")
    moved, out = ["--kb", grown / "moved.jsonl"], ["--out", grown / "two"]
    for verb in (
        ["add", grown / "one", "--remove", documents[0].id],
        ["add", "--anew", grown / "one"],
        ["add", grown / "one"],
    ):
        told = run(*verb, *moved, *out)
        assert told.code == 0, told.err
        two, one = (arbo.Result.load(grown / name).manifest["knowledge_base"] for name in ("two", "one"))
        assert two["fingerprint"] == one["fingerprint"]
    arbo.KnowledgeBase(kb.entities[:-1]).to_jsonl(grown / "kb.jsonl")
    advised = run("add", "--anew", grown / "one", "--out", grown / "three").err.replace("\n", " ").split("`")[1]
    assert run(*advised.replace("NEW", str(grown / "three")).split()[1:]).code == 0
    assert arbo.Result.load(grown / "three").manifest["kb_source"]["xrefs"] == ["MSH"]
    again = run("add", grown / "three", grown / "more.jsonl", "--set", "kb_xrefs=HULL", "--out", grown / "four")
    assert again.code == 0, again.err
    assert arbo.Result.load(grown / "four").manifest["kb_source"]["xrefs"] == ["HULL"]
    assert run("discover", grown / "docs.jsonl", "--out", grown / "five").code == 0
    refused = run("add", grown / "five", grown / "more.jsonl", "--set", "kb_xrefs=MSH", "--out", grown / "six")
    assert (refused.code, "has no knowledge base; leave --kb" in refused.err) == (2, True)

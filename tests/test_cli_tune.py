"""`arbo tune`, and `--config` of what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_builders import linking, sample_files
from conftest import Run

import arbo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_tune_then_link(run: Run, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "tuned.json"
    tuned = run("tune", *linking(folder, docs="train.jsonl"), "--out", file, "--json")
    assert tuned.code == 0
    content = json.loads(file.read_text("utf-8"))
    assert content["config"] == tuned.json["config"]
    assert content["tuning"]["objective"] == tuned.json["objective"] == "accuracy_with_nil"
    run("link", *linking(folder, docs="test.jsonl"), "--config", file, "--out", tmp_path / "run")
    config = arbo.LinkerConfig.from_json(file)
    assert arbo.Result.load(tmp_path / "run").manifest["config"] == config.as_dict()
    documents, kb = arbo.load_sample()
    assert (
        arbo.Result.load(tmp_path / "run").link_table == arbo.Linker(kb, config=config).link(documents[45:]).link_table
    )

    options = ["--k", 1, "--method", "undirected", "--threshold", "0.3,none"]
    run("link", *linking(folder), "--config", file, "--out", tmp_path / "run", *options)
    manifest = arbo.Result.load(tmp_path / "run").manifest
    changed = {"k": 1, "method": "undirected", "entity_threshold": 0.3, "mention_threshold": None}
    assert manifest["config"] == config.as_dict() | changed


def test_tune_discovery(run: Run, folder: Path, tmp_path: Path) -> None:
    docs = [folder / "all.jsonl", "--format", "jsonl"]
    tuned = run("tune", *docs, "--out", tmp_path / "tuned.json", "--json")
    assert tuned.json["objective"] == "ari"
    run("discover", *docs, "--config", tmp_path / "tuned.json", "--out", tmp_path / "run")
    scored = run("evaluate", tmp_path / "run", "--json")
    assert scored.json["clustering"]["ari"] == pytest.approx(tuned.json["score"])  # type: ignore[index]


def test_objective_and_method_are_chosen(run: Run, folder: Path, tmp_path: Path) -> None:
    docs, out = [folder / "train.jsonl", "--format", "jsonl"], ["--out", tmp_path / "tuned.json", "--json"]
    tuned = run("tune", *docs, "--objective", "conll", *out)
    assert tuned.json["objective"] == "conll"
    run("discover", *docs, "--config", tmp_path / "tuned.json", "--out", tmp_path / "run")
    scored = run("evaluate", tmp_path / "run", "--json").json["coreference"]
    assert scored["conll"] == pytest.approx(tuned.json["score"])  # type: ignore[index]
    held = run("tune", *linking(folder, docs="train.jsonl"), "--method", "undirected", *out)
    assert held.json["config"]["method"] == "undirected"  # type: ignore[index]
    for wrong in (["--method", "minimax"], ["--objective", "nil_f1"]):
        assert run("tune", *docs, *wrong, *out).code == 2


@pytest.mark.slow
def test_a_transformer_tunes_links_and_discovers(
    run: Run, folder: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    reader = tmp_path / "reader.json"
    reader.write_text('{"mention": "[CLS] {left} {mention} {right} [SEP]", "pooling": "mention", "context": 5}')
    model = ("--encoder", bert_folder, "--set", f"@{reader}")
    tuned = tmp_path / "tuned.json"
    assert run("tune", *linking(folder, docs="train.jsonl"), *model, "--out", tuned).code == 0
    assert list((tmp_path / "home" / "arbo").rglob("*.safetensors")), "embeddings are kept by default"
    # The file remembers the encoder, weights and all.
    linked = run("link", *linking(folder, docs="test.jsonl"), "--config", tuned, "--out", tmp_path / "run")
    assert linked.code == 0, linked.err
    settings = arbo.Result.load(tmp_path / "run").manifest["encoder"]
    assert settings["model"] == str(bert_folder)
    assert settings["config"]["context"] == 5
    for other in ((), ("--encoder", "ngram"), ("--encoder", bert_folder)):
        spoilt = json.loads(tuned.read_text("utf-8"))
        if not other:
            spoilt["encoder"]["weights"] = ["0" * 64]
        (tmp_path / "spoilt.json").write_text(json.dumps(spoilt))
        if other == ("--encoder", bert_folder):
            other = (*other, "--set", f"@{tmp_path / 'other.json'}")
            (tmp_path / "other.json").write_text('{"pooling": "cls"}')
        wrong = run("link", *linking(folder), "--config", tmp_path / "spoilt.json", *other, "--out", tmp_path / "no")
        assert wrong.code == 2
        assert ("tuned with another encoder" if other else "has changed since") in wrong.err
        assert not (tmp_path / "no").exists()
    cache = tmp_path / "cache"
    found = run(
        "discover",
        folder / "all.jsonl",
        "--format",
        "jsonl",
        *model,
        "--set",
        f"cache={cache}",
        "--out",
        tmp_path / "found",
    )
    assert found.code == 0
    assert list(cache.rglob("*.safetensors"))


def test_tune_replaces_an_earlier_tuning_and_nothing_else(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    refused = run("tune", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "thesis.txt")
    assert (refused.code, "`arbo tune` did not write it" in refused.told) == (2, True)
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "mine"
    for _ in range(2):
        assert run("tune", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "tuned.json").code == 0


def test_topics_are_not_compared(run: Run, tmp_path: Path) -> None:
    rows = [
        {
            "id": f"d{i}",
            "text": "marsh fever",
            "topic": i % 2,
            "mentions": [{"spans": [[0, 11]], "entities": [f"{i % 2}"]}],
        }
        for i in range(4)
    ]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    run("discover", tmp_path / "docs.jsonl", "--set", "by_topic=true", "--out", tmp_path / "run")
    clusters = arbo.Result.load(tmp_path / "run").clusters
    assert {frozenset(m.document_id for m in c.mentions) for c in clusters} == {
        frozenset(("d0", "d2")),
        frozenset(("d1", "d3")),
    }
    tuned = run(
        "tune",
        tmp_path / "docs.jsonl",
        "--set",
        "by_topic=true",
        "--objective",
        "b3",
        "--out",
        tmp_path / "t.json",
        "--json",
    )
    assert tuned.json["score"] == 1

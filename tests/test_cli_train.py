"""The verbs of `arbo train`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import linking
from conftest import Run
from training_builders import log_of

import arbo
from arbo.training.presets import RERANKING_PRESETS

pytest.importorskip("torch")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the sample as files, in two parts."""
    documents, kb = arbo.load_sample()
    kb.to_jsonl(tmp_path / "kb.jsonl")
    for name, part in (("train", documents[:60]), ("dev", documents[60:]), ("few", documents[:6])):
        part.to_jsonl(tmp_path / f"{name}.jsonl")
    (tmp_path / "own.json").write_text('{"n_negatives": 4, "batch_size": 4, "n_positives": 1}', "utf-8")
    return tmp_path


def test_an_encoder_is_trained_then_links(folder: Path, bert_folder: Path, run: Run) -> None:
    (folder / "config.json").write_text('{"batch_size": 40, "micro_batch": 40, "epochs": 1, "n_negatives": 2}', "utf-8")
    out, dev = folder / "model", ["--dev", folder / "dev.jsonl", "--encoder", bert_folder, "--json"]
    options = [f"@{folder / 'config.json'}", "best=recall@16", "steps=2", "epochs=2"]
    command = ["train", "encoder", *linking(folder, "train.jsonl"), *dev, "--out", out]
    done = run(*command, *(word for option in options for word in ("--set", option))).ok()
    assert done.json["model"] == str(out)
    expected = {"batch_size": 40, "steps": 2, "best": "recall@16"}
    assert done.json["training"].items() >= expected.items()
    last = log_of(out)[-1]
    assert f"step 2: loss {last['loss']:.3f}" in done.err
    assert f"recall@1 {last['recall@1']:.3f}" in done.err
    assert f"recall@16 {last['recall@16']:.3f}" in done.err
    assert "mentions with a gold id have an entity of the knowledge base" in done.err
    assert "check that the ids match" not in done.err
    assert not (folder / "model.training").exists()
    run("link", *linking(folder, "dev.jsonl"), "--encoder", out, "--out", folder / "run", "--json").ok()
    weights = arbo.DualEncoder.from_pretrained(out).settings
    assert arbo.Result.load(folder / "run").manifest["encoder"] == weights


def test_an_encoder_is_trained_without_a_knowledge_base(folder: Path, bert_folder: Path, run: Run) -> None:
    out = folder / "model"
    command = ["train", "encoder", folder / "train.jsonl", "--encoder", bert_folder, "--out", out, "--json"]
    done = run(*command, "--dev", folder / "dev.jsonl", "--set", "steps=2").ok()
    expected = {"positives": "arborescence", "best": "ari"}
    assert done.json["training"].items() >= expected.items()
    assert f"ari {log_of(out)[-1]['ari']:.3f}, b3" in done.err
    assert run("discover", folder / "dev.jsonl", "--encoder", out, "--out", folder / "run").code == 0
    assert run(*command, "--set", "positives=entity").code == 2


def test_align_then_attend(folder: Path, bert_folder: Path, run: Run) -> None:
    docs, kb = linking(folder, "few.jsonl")[:3], linking(folder)[3:]
    aligned, model = folder / "aligned", folder / "model"
    done = run("train", "names", *kb, "--encoder", bert_folder, "--out", aligned, "--set", "steps=1", "--json").ok()
    assert done.json["training"] == json.loads(json.dumps(arbo.SelfAlignmentConfig(steps=1).as_dict()))
    assert arbo.DualEncoder.from_pretrained(aligned).config == arbo.EncoderConfig(pooling="cls")
    command = ["train", "finder", *docs, *kb, "--encoder", aligned, "--out", model, "--json"]
    done = run(*command, "--set", "steps=1", "--set", f"@{folder / 'own.json'}", "--set", "max_length=64").ok()
    trained = arbo.LabelAttention.from_pretrained(model)
    assert trained.tower.projection is not None
    config = replace(arbo.LabelAttentionConfig(), pooling="cls", max_length=64, entity_threshold=trained.threshold)
    assert trained.config == config
    assert [done.json["training"][name] for name in ("n_negatives", "n_positives", "steps")] == [4, 1, 1]
    found = run("find", *docs, *kb, "--finder", model, "--json").ok()
    assert found.json["documents"] == 6
    assert all(mention["score"] >= trained.threshold for mention in found.json["found"])
    linked = run("link", *docs, *kb, "--find-mentions", model, "--out", folder / "run", "--json").ok()
    assert linked.json["mentions"] == found.json["mentions"]


def test_a_reranker_is_trained_then_links(folder: Path, run: Run, bert_folder: Path) -> None:
    documents, _ = arbo.load_sample()
    arbo.Corpus.of(documents[:2]).to_jsonl(folder / "train.jsonl")
    arbo.Corpus.of(documents[80:82]).to_jsonl(folder / "dev.jsonl")
    (folder / "own.json").write_text('{"learning_rate": 0.001, "epochs": 3, "max_length": 48}', "utf-8")
    command = ["train", "reranker", *linking(folder, "train.jsonl"), "--encoder", bert_folder]
    command += ["--out", folder / "cross", "--set", "candidates=3", "--preset", "pel"]
    own = ["--set", f"@{folder / 'own.json'}", "--set", "steps=2", "--dev", folder / "dev.jsonl"]
    made = run(*command, *own, "--json").ok()
    training, reads = RERANKING_PRESETS["pel"]
    expected = replace(training, learning_rate=0.001, epochs=3, steps=2)
    assert made.json["training"] == json.loads(json.dumps(expected.as_dict()))
    trained = arbo.CrossEncoder.from_pretrained(folder / "cross")
    assert trained.config == replace(reads, candidates=3, max_length=48)
    last = log_of(folder / "cross")[-1]
    assert f"step 2: loss {last['loss']:.3f}; on the development documents accuracy {last['accuracy']:.3f}" in made.told
    assert "have an entity of the knowledge base, and are trained on" in made.told
    run("link", *linking(folder, "dev.jsonl"), "--reranker", folder / "cross", "--out", folder / "run").ok()
    manifest = arbo.Result.load(folder / "run").manifest
    assert manifest["encoder"]["reranker"]["weights"] == trained.settings["weights"]
    refused = run(*command, "--set", "negatives=knn")
    assert (refused.code, "unknown setting 'negatives'" in refused.told) == (2, True)

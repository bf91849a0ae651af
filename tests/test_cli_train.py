"""The verbs of `arbo train`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run
from training_builders import log_of

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders.cross import CrossEncoder
from arbo.encoders.cross_config import CROSS_PRESETS
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.model import LabelAttention
from arbo.training.config import SelfAlignmentConfig
from arbo.training.presets import RERANKING_PRESETS

pytest.importorskip("torch")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """Write the sample as files, in two parts."""
    assert run("demo", "--files", tmp_path, "--out", tmp_path / "demo").code == 0
    lines = (tmp_path / "documents.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:60]), "utf-8")
    (tmp_path / "dev.jsonl").write_text("".join(lines[60:]), "utf-8")
    (tmp_path / "few.jsonl").write_text("".join(lines[:6]), "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 64}', "utf-8")
    (tmp_path / "own.json").write_text('{"n_negatives": 4, "batch_size": 4, "gamma": 1}', "utf-8")
    return tmp_path


def linking(folder: Path, docs: str) -> list[object]:
    return [folder / docs, "--format", "jsonl", "--kb", folder / "entities.jsonl", "--kb-format", "jsonl"]


def test_an_encoder_is_trained_then_links(folder: Path, bert_folder: Path, run: Run) -> None:
    (folder / "config.json").write_text('{"batch_size": 40, "micro_batch": 40, "epochs": 1, "n_negatives": 2}', "utf-8")
    out = folder / "model"
    command = ["train", "encoder", *linking(folder, "train.jsonl"), "--dev", folder / "dev.jsonl"]
    command += ["--encoder", bert_folder]
    command += ["--set", f"@{folder / 'config.json'}", "--set", "best=recall@16"]
    done = run(*command, "--set", "steps=2", "--set", "epochs=2", "--out", out, "--json")
    assert done.code == 0, done.err
    assert done.json["model"] == str(out)
    assert done.json["training"]["batch_size"] == 40
    assert done.json["training"]["steps"] == 2
    last = json.loads((folder / "model.log.jsonl").read_text("utf-8").splitlines()[-1])
    assert f"step 2: loss {last['loss']:.3f}" in done.err
    assert f"recall@1 {last['recall@1']:.3f}" in done.err
    assert f"recall@16 {last['recall@16']:.3f}" in done.err
    assert done.json["training"]["best"] == "recall@16"
    assert "mentions with a gold id have an entity of the knowledge base" in done.err
    assert "check that the ids match" not in done.err
    assert not (folder / "model.training").exists()
    linked = run("link", *linking(folder, "dev.jsonl"), "--encoder", out, "--out", folder / "run", "--json")
    assert linked.code == 0, linked.err
    weights = arbo.DualEncoder.from_pretrained(out).settings
    assert arbo.Result.load(folder / "run").manifest["encoder"] == weights


def test_align_then_attend(folder: Path, bert_folder: Path, run: Run) -> None:
    docs = [folder / "few.jsonl", "--format", "jsonl"]
    kb = ["--kb", folder / "entities.jsonl", "--kb-format", "jsonl"]
    aligned, model = folder / "aligned", folder / "model"
    given_ = ["train", "names", *kb, "--encoder", bert_folder, "--out", aligned]
    done = run(*given_, "--set", "steps=1", "--json")
    assert done.code == 0, done.err
    assert done.json["training"] == json.loads(json.dumps(SelfAlignmentConfig(steps=1).as_dict()))
    assert arbo.DualEncoder.from_pretrained(aligned).config == arbo.EncoderConfig(pooling="cls")
    given_ = ["train", "finder", *docs, *kb, "--encoder", aligned, "--out", model, "--set", "steps=1"]
    given_ += ["--set", f"@{folder / 'own.json'}", "--set", f"@{folder / 'reads.json'}", "--dev", docs[0]]
    done = run(*given_, "--json")
    assert done.code == 0, done.err
    assert "on the development documents likelihood " in done.told
    trained = LabelAttention.from_pretrained(model)
    assert trained.head is not None
    config = replace(LabelAttentionConfig(), pooling="cls", max_length=64, entity_threshold=trained.threshold)
    assert trained.config == config
    assert [done.json["training"][name] for name in ("n_negatives", "gamma", "steps")] == [4, 1, 1]
    found = run("find", *docs, *kb, "--finder", model, "--json")
    assert found.code == 0, found.err
    assert found.json["documents"] == 6
    assert all(mention["score"] >= trained.threshold for mention in found.json["found"])
    linked = run("link", *docs, *kb, "--find-mentions", model, "--out", folder / "run", "--json")
    assert linked.code == 0, linked.err
    assert linked.json["mentions"] == found.json["mentions"]


def test_a_reranker_is_trained_then_links(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:2]).to_jsonl(tmp_path / "train.jsonl")
    Corpus.of(documents[80:82]).to_jsonl(tmp_path / "dev.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "own.json").write_text('{"learning_rate": 0.001, "epochs": 3}', "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 48}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    command = ["train", "reranker", tmp_path / "train.jsonl", *given, "--encoder", bert_folder]
    command += ["--set", "candidates=3", "--preset", "pel", "--set", f"@{tmp_path / 'reads.json'}"]
    command += ["--out", tmp_path / "cross"]
    own = ["--set", f"@{tmp_path / 'own.json'}", "--set", "steps=2", "--dev", tmp_path / "dev.jsonl"]
    made = run(*command, *own, "--json")
    assert made.code == 0, made.err
    expected = replace(RERANKING_PRESETS["pel"], learning_rate=0.001, epochs=3, steps=2)
    assert made.json["training"] == json.loads(json.dumps(expected.as_dict()))
    trained = CrossEncoder.from_pretrained(tmp_path / "cross")
    assert trained.config == replace(CROSS_PRESETS["pel"], candidates=3, max_length=48)
    last = log_of(tmp_path / "cross")[-1]
    assert f"step 2: loss {last['loss']:.3f}; on the development documents accuracy {last['accuracy']:.3f}" in made.told
    assert "have an entity of the knowledge base, and are trained on" in made.told
    linked = run("link", tmp_path / "dev.jsonl", *given, "--reranker", tmp_path / "cross", "--out", tmp_path / "run")
    assert linked.code == 0, linked.err
    manifest = arbo.Result.load(tmp_path / "run").manifest
    assert manifest["encoder"]["reranker"]["weights"] == trained.settings["weights"]
    (tmp_path / "own.json").write_text('{"negatives": "knn"}', "utf-8")
    refused = run(*command, "--set", f"@{tmp_path / 'own.json'}")
    assert (refused.code, "unknown setting 'negatives'" in refused.told) == (2, True)

"""The verb `arbo train reranker`."""

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
from arbo.training.presets import RERANKING_PRESETS

pytestmark = pytest.mark.slow


def test_train_then_link(run: Run, bert_folder: Path, tmp_path: Path) -> None:
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


def test_the_next_command_is_told(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:1]).to_jsonl(tmp_path / "train.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "reads.json").write_text('{"max_length": 32}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--encoder", bert_folder]
    given += [
        "--set",
        "candidates=2",
        "--set",
        "steps=1",
        "--set",
        f"@{tmp_path / 'reads.json'}",
        "--out",
        tmp_path / "cross",
    ]
    done = run("train", "reranker", tmp_path / "train.jsonl", *given)
    assert done.code == 0, done.err
    assert f"next: arbo link DOCS --encoder ngram --reranker {tmp_path / 'cross'}" in " ".join(done.out.split())

"""The verb `arbo train-reranker`."""

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
    command = ["train-reranker", tmp_path / "train.jsonl", *given, "--encoder", bert_folder]
    command += ["--k", 3, "--preset", "pel", "--encoder-config", tmp_path / "reads.json"]
    command += ["--out", tmp_path / "cross"]
    own = ["--config", tmp_path / "own.json", "--steps", 2, "--dev", tmp_path / "dev.jsonl"]
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
    told = run(*command, *own, "--run", tmp_path / "run")
    assert told.code == 3
    assert f"{tmp_path / 'run'}: a reranker ordered these candidates" in told.told
    (tmp_path / "own.json").write_text('{"negatives": "knn"}', "utf-8")
    refused = run(*command, "--config", tmp_path / "own.json")
    assert refused.code == 3
    assert "unknown setting: 'negatives'" in refused.told


def test_the_first_stage_of_a_run(run: Run, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:1]).to_jsonl(tmp_path / "train.jsonl")
    Corpus.of(documents[80:81]).to_jsonl(tmp_path / "dev.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "reads.json").write_text('{"max_length": 32}', "utf-8")
    (tmp_path / "other.json").write_text('{"context": 3}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    first = ["--encoder", bert_folder, "--encoder-config", tmp_path / "other.json"]
    found = tmp_path / "found"
    assert run("link", tmp_path / "train.jsonl", *given, *first, "--out", found).code == 0
    command = ["train-reranker", tmp_path / "train.jsonl", *given, "--encoder", bert_folder, "--steps", 1, "--k", 2]
    command += ["--encoder-config", tmp_path / "reads.json", "--out", tmp_path / "cross"]
    done = run(*command, "--run", found)
    assert done.code == 0, done.err
    assert f"next: arbo link DOCS --encoder {bert_folder} --reranker" in " ".join(done.out.split())
    for wrong, code, said in (
        (["--run", found, "--candidates-of", "ngram"], 3, f"{found}: these candidates come from another encoder"),
        (["--run", found, "--run", tmp_path / "." / "found"], 2, "--run names the same run twice"),
        (["--run", found, "--no-abbreviations"], 2, "the runs of --run expanded abbreviations"),
        (
            ["--run", found, "--k", 17],
            3,
            f"{found}: too few candidates: 16 per mention, but the cross-encoder reads 17",
        ),
    ):
        refused = run(*command, *wrong)
        assert refused.code == code, refused.err
        assert said in refused.told
    refused = run("train-reranker", tmp_path / "dev.jsonl", *command[2:], "--run", found)
    assert refused.code == 3
    assert f"{found}: the candidates were made with other documents" in refused.told
    arbo.KnowledgeBase(kb.entities[1:]).to_jsonl(tmp_path / "kb.jsonl")
    refused = run(*command, "--run", found)
    assert refused.code == 2
    assert f"{found}: the run was made with another knowledge base" in refused.told


def test_the_next_command_is_told(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:1]).to_jsonl(tmp_path / "train.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "reads.json").write_text('{"max_length": 32}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--encoder", bert_folder]
    given += ["--k", 2, "--steps", 1, "--encoder-config", tmp_path / "reads.json", "--out", tmp_path / "cross"]
    done = run("train-reranker", tmp_path / "train.jsonl", *given)
    assert done.code == 0, done.err
    assert f"next: arbo link DOCS --encoder ngram --reranker {tmp_path / 'cross'}" in " ".join(done.out.split())

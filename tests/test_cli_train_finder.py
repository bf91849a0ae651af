"""The verbs `arbo train-names` and `arbo train-finder`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run

import arbo
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.model import LabelAttention
from arbo.training.config import SelfAlignmentConfig
from arbo.training.presets import FINDER_PRESETS


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    assert run("demo", "--files", tmp_path, "--out", tmp_path / "demo").code == 0
    lines = (tmp_path / "documents.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:6]), "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 64}', "utf-8")
    (tmp_path / "own.json").write_text('{"n_negatives": 4, "batch_size": 4, "gamma": 1}', "utf-8")
    return tmp_path


@pytest.mark.slow
def test_align_then_attend(folder: Path, bert_folder: Path, run: Run) -> None:
    docs = [folder / "train.jsonl", "--format", "jsonl"]
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
    assert "likelihood of synonyms" in done.told
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


@pytest.mark.slow
def test_the_preset_of_the_paper(folder: Path, bert_folder: Path, run: Run) -> None:
    kb = [
        "--kb",
        folder / "entities.jsonl",
        "--encoder",
        bert_folder,
        "--preset",
        "oslat",
        "--set",
        "steps=2",
        "--json",
    ]
    names = run("train", "names", *kb, "--out", folder / "aligned")
    assert names.code == 0, names.err
    assert names.json["training"] == FINDER_PRESETS["oslat"].alignment.as_dict() | {"steps": 2}
    kb += ["--set", f"@{folder / 'own.json'}", "--set", f"@{folder / 'reads.json'}"]
    done = run("train", "finder", folder / "train.jsonl", *kb, "--out", folder / "model")
    assert done.code == 0, done.err
    of = FINDER_PRESETS["oslat"]
    assert done.json["training"] == of.training.as_dict() | {"n_negatives": 4, "batch_size": 4, "gamma": 1, "steps": 2}
    trained = LabelAttention.from_pretrained(folder / "model")
    assert trained.config == of.model.changed_by({"max_length": 64})


def test_options_that_mean_nothing_are_unknown(run: Run) -> None:
    for kind, option in (("finder", "--edges"), ("finder", "--candidates-of"), ("names", "--dev")):
        refused = run("train", kind, option, "x")
        assert refused.code == 2
        assert "No such option" in refused.told
        assert option in refused.told

"""The verb `arbo train encoder`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run

import arbo
from arbo.data.corpus import Corpus
from arbo.training.config import PresetName
from arbo.training.presets import PRESETS

pytest.importorskip("torch")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """Write the sample as files, in two parts."""
    assert run("demo", "--files", tmp_path, "--out", tmp_path / "demo").code == 0
    lines = (tmp_path / "documents.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:60]), "utf-8")
    (tmp_path / "dev.jsonl").write_text("".join(lines[60:]), "utf-8")
    return tmp_path


def linking(folder: Path, docs: str) -> list[object]:
    return [folder / docs, "--format", "jsonl", "--kb", folder / "entities.jsonl", "--kb-format", "jsonl"]


def test_train_then_link(folder: Path, bert_folder: Path, run: Run) -> None:
    (folder / "config.json").write_text('{"batch_size": 40, "micro_batch": 40, "epochs": 1, "n_negatives": 2}', "utf-8")
    out = folder / "model"
    command = [
        "train",
        "encoder",
        *linking(folder, "train.jsonl"),
        "--dev",
        folder / "dev.jsonl",
        "--encoder",
        bert_folder,
    ]
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


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"postives": "1nn"}', "postives"),
        ('{"positives": "2nn"}', "2nn"),
        ('{"batch_size": 0}', "batch_size"),
        ("[1]", "config.json"),
        ("{", "config.json"),
    ],
)
def test_a_wrong_configuration_is_named(folder: Path, bert_folder: Path, run: Run, config: str, said: str) -> None:
    (folder / "config.json").write_text(config, "utf-8")
    command = ["train", "encoder", *linking(folder, "train.jsonl"), "--encoder", bert_folder, "--out", folder / "model"]
    refused = run(*command, "--set", f"@{folder / 'config.json'}")
    assert refused.code in (2, 3)
    assert said in refused.err
    assert not (folder / "model.training").exists()


def test_a_folder_that_is_something_else_is_left_alone(folder: Path, bert_folder: Path, run: Run) -> None:
    out = folder / "thesis"
    out.mkdir()
    (out / "chapter.txt").write_text("mine", "utf-8")
    refused = run("train", "encoder", *linking(folder, "train.jsonl"), "--encoder", bert_folder, "--out", out)
    assert refused.code == 2
    assert "not a model" in refused.err
    assert (out / "chapter.txt").read_text("utf-8") == "mine"


def test_ids_that_mostly_do_not_match_are_told(folder: Path, bert_folder: Path, run: Run) -> None:
    entities = [json.loads(line) for line in (folder / "entities.jsonl").read_text("utf-8").splitlines()]
    renamed = [entity | {"id": f"X{entity['id']}" if place else entity["id"]} for place, entity in enumerate(entities)]
    lines = "".join(json.dumps(entity | {"alternative_ids": []}) + "\n" for entity in renamed)
    (folder / "entities.jsonl").write_text(lines, "utf-8")
    command = ["train", "encoder", *linking(folder, "train.jsonl"), "--encoder", bert_folder, "--out", folder / "model"]
    done = run(*command, "--set", "steps=1", "--set", "positives=entity", "--set", "negatives=random")
    assert "check that the ids match" in done.err
    assert done.code in (0, 3)  # none at all is an error


def test_what_cannot_train_is_refused_and_no_limit_is_told(folder: Path, bert_folder: Path, run: Run) -> None:
    command = [
        "train",
        "encoder",
        *linking(folder, "train.jsonl"),
        "--encoder",
        bert_folder,
        "--out",
        folder / "limits",
    ]
    refused = run(*command, "--set", "best=ari")
    assert (refused.code, "best chooses the model by its score on --dev" in refused.told) == (2, True)
    refused = run(*command, "--set", "negatives=in-batch", "--set", "batch_size=1")
    assert (refused.code, "with negatives 'in-batch', a batch of one mention has none" in refused.told) == (2, True)
    trained = arbo.DualEncoder.from_pretrained(bert_folder)
    unlimited = replace(trained, config=replace(trained.config, entity_threshold=2.0, mention_threshold=0.25))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arbo, "train", lambda *_, **__: unlimited)
        told = " ".join(run(*command, "--set", "steps=1", "--set", "expand_abbreviations=false").out.split())
    assert "default thresholds none (entity) and 0.250 (mention)" in told
    assert f"--encoder {folder / 'limits'} --set expand_abbreviations=false ..." in told


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_where_the_settings_start(run: Run, bert_folder: Path, tmp_path: Path, name: PresetName) -> None:
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:2]).to_jsonl(tmp_path / "docs.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "own.json").write_text('{"batch_size": 4, "epochs": 3, "n_negatives": 2}', "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 48}', "utf-8")
    given = [tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    given += ["--encoder", bert_folder, "--preset", name, "--set", f"@{tmp_path / 'own.json'}", "--set", "steps=1"]
    made = run(
        "train", "encoder", *given, "--set", f"@{tmp_path / 'reads.json'}", "--out", tmp_path / "model", "--json"
    )
    assert made.code == 0, made.err
    preset = PRESETS[name]
    expected = replace(preset.training, batch_size=4, epochs=3, n_negatives=2, steps=1)
    assert made.json["training"] == json.loads(json.dumps(expected.as_dict()))
    trained = arbo.DualEncoder.from_pretrained(tmp_path / "model")
    assert trained.config == replace(preset.encoder, max_length=48)
    assert not trained.shared
    (tmp_path / "own.json").write_text('{"batch": 4}', "utf-8")
    assert "unknown setting 'batch'" in run("train", "encoder", *given, "--out", tmp_path / "other").told


def test_names_of_parts_may_be_capitals(run: Run) -> None:
    assert "'Pel'" not in run("train", "encoder", "--preset", "Pel").err
    assert "'proxies' is not one of 'arboel', 'pel'" in run("train", "encoder", "--preset", "proxies").told

"""Presets: what they are, and that everything in them can be changed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import pytest
from conftest import Run

import arbo
from arbo.cli import training
from arbo.cli.models import load_encoder
from arbo.data.corpus import Corpus
from arbo.training.config import LossName, NegativeStrategy, PositiveStrategy
from arbo.training.presets import PRESETS, PresetName


def test_what_the_papers_say() -> None:
    arboel, pel, fgsm, amh = (PRESETS[name] for name in ("arboel", "pel", "pel-fgsm", "amh-dual"))
    assert (
        asdict(arboel.training).items()
        >= {
            "positives": "arborescence",
            "negatives": "knn",
            "loss": "arborescence",
            "learning_rate": 3e-5,
            "warmup": 0.1,
            "epochs": 5,
            "batch_size": 128,
            "optimizer": "adam",
            "clip": 1.0,
            "n_negatives": 10,
        }.items()
    )
    assert arboel.encoder == arbo.EncoderConfig.in_context()
    assert (
        asdict(pel.training).items()
        >= {
            "learning_rate": 1e-5,
            "warmup": 0.25,
            "epochs": 7,
            "batch_size": 32,
            "optimizer": "adamw",
            "clip": 1.0,
            "alpha": 32,
            "margin": 0,
            "hard_share": 0.5,
            "n_negatives": 64,
        }.items()
    )
    assert (pel.encoder.pooling, pel.encoder.metric, pel.encoder.max_length) == ("mean", "cosine", 128)
    assert fgsm.encoder == pel.encoder
    changed = {"regulariser": "fgsm", "n_negatives": 32, "micro_batch": 2}
    assert fgsm.training == replace(pel.training, epsilon=0.01, adversarial_weight=1.0, **changed)
    assert (amh.training.batch_size, amh.training.learning_rate, amh.training.optimizer) == (64, 2e-5, "adam")
    assert (amh.training.negatives, amh.training.n_negatives, amh.training.mixup) == ("in-batch-hard", 10, 0.3)
    assert (amh.encoder.pooling, amh.encoder.metric) == ("cls", "dot")
    for name, pooling in (("amh-mean", "mean"), ("amh-som", "tokens")):
        assert PRESETS[name].training == amh.training
        assert PRESETS[name].encoder == replace(amh.encoder, pooling=pooling)


def test_the_command_line_knows_all_names() -> None:
    assert list(PRESETS) == list(get_args(PresetName))
    assert [*PRESETS, "self-alignment", "oslat"] == [name.value for name in training.Presets]
    for names, known in (
        (training.Positives, PositiveStrategy),
        (training.Negatives, NegativeStrategy),
        (training.Losses, LossName),
    ):
        assert {name.value for name in names} == set(get_args(known))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["amh-dual", "amh-som"])
def test_a_preset_is_where_the_settings_start(run: Run, bert_folder: Path, tmp_path: Path, name: PresetName) -> None:
    pytest.importorskip("torch")
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:2]).to_jsonl(tmp_path / "docs.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "own.json").write_text('{"batch_size": 4, "epochs": 3, "n_negatives": 2}', "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 48}', "utf-8")
    given = [tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    given += ["--encoder", bert_folder, "--preset", name, "--config", tmp_path / "own.json", "--steps", 1]
    made = run("train", *given, "--encoder-config", tmp_path / "reads.json", "--out", tmp_path / "model", "--json")
    assert made.code == 0, made.err
    preset = PRESETS[name]
    expected = replace(preset.training, batch_size=4, epochs=3, n_negatives=2, steps=1)
    assert made.json["training"] == json.loads(json.dumps(expected.as_dict()))
    trained = arbo.DualEncoder.from_pretrained(tmp_path / "model")
    assert trained.config == replace(preset.encoder, max_length=48)
    assert not trained.shared
    (tmp_path / "own.json").write_text('{"batch": 4}', "utf-8")
    assert "unknown: 'batch'" in run("train", *given, "--out", tmp_path / "other").told


def test_single_fields_of_a_trained_model_are_changed(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = arbo.EncoderConfig.in_context(max_length=48, entity_threshold=-3.0, mention_threshold=-4.0)
    arbo.DualEncoder.from_pretrained(bert_folder, saved).save_pretrained(tmp_path / "model")
    file = tmp_path / "reads.json"
    for text, expected in (
        ('{"context": 5}', replace(saved, context=5)),
        ('{"pooling": "tokens"}', replace(saved, pooling="tokens", entity_threshold=None, mention_threshold=None)),
        (
            '{"metric": "cosine", "entity_threshold": 0.3}',
            replace(saved, metric="cosine", entity_threshold=0.3, mention_threshold=None),
        ),
    ):
        file.write_text(text, "utf-8")
        encoder = load_encoder(str(tmp_path / "model"), file, tmp_path / "cache", None)
        assert isinstance(encoder, arbo.DualEncoder)
        assert encoder.config == expected

"""Settings of trainings, and the presets of papers."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import arbo
from arbo.encoders.cross_config import CROSS_PRESETS
from arbo.errors import DataError, UsageError
from arbo.pipeline.named_linker import encoder_like, tuned_encoder
from arbo.spans.config import LabelAttentionConfig
from arbo.training import config
from arbo.training.config import OslatTraining, RerankingConfig, SelfAlignmentConfig, TrainingConfig
from arbo.training.presets import FINDER_PRESETS, PRESETS, RERANKING_PRESETS


@pytest.mark.parametrize(
    ("schedule", "end"), [("linear", 0.0), ("exponential", 0.01), ("constant", 1.0), ("late-exponential", 0.01)]
)
def test_the_learning_rate_rises_and_falls(schedule: Any, end: float) -> None:
    settings = TrainingConfig(schedule=schedule, learning_rate=2.0, warmup=0.25)
    rates = [settings.learning_rate_at(step, 100) for step in range(101)]
    assert max(rates) == 2.0
    assert rates[-1] == pytest.approx(2 * end)
    assert (np.diff(rates[25:]) <= 0).all()
    if schedule == "late-exponential":
        assert rates[:26] == [2.0] * 26
        assert np.diff(np.log(rates[25:])) == pytest.approx(np.log(0.01) / 75)
    else:
        assert (np.diff(rates[:25]) > 0).all()


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (TrainingConfig, {"positives": "best"}, "positives"),
        (TrainingConfig, {"epochs": 0}, "epochs"),
        (TrainingConfig, {"hard_share": 2}, "hard_share"),
        (TrainingConfig, {"learning_rate": float("nan")}, "learning_rate"),
        (TrainingConfig, {"clip": -1}, "clip"),
        (TrainingConfig, {"batch_size": True}, "batch_size"),
        (TrainingConfig, {"weight_decay": -0.1}, "weight_decay"),
        (TrainingConfig, {"precision": "int8"}, "precision"),
        (TrainingConfig, {"mixup": 0}, "mixup"),
        (TrainingConfig, {"mixup_gradient": 1}, "mixup_gradient"),
        (TrainingConfig, {"epsilon": None}, "epsilon"),
        (RerankingConfig, {"micro_batch": 1.5}, "micro_batch"),
        (RerankingConfig, {"regulariser": "dropout"}, "regulariser"),
        (OslatTraining, {"regulariser": "fgsm"}, "'fgsm' is not one of none"),
        (LabelAttentionConfig, {"pooling": "tokens"}, "not one of mean, cls"),
        (LabelAttentionConfig, {"max_length": 0}, "max_length must be"),
        (LabelAttentionConfig, {"attention_threshold": 1.5}, "from 0 to 1"),
        (LabelAttentionConfig, {"entity_threshold": float("nan")}, "a finite number"),
    ],
)
def test_invalid_settings(kind: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kind(**settings)


def test_the_settings_of_another_training_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"positives": "1nn"}', "utf-8")
    assert TrainingConfig.from_json(tmp_path / "a.json") == TrainingConfig(positives="1nn")
    with pytest.raises(DataError, match="unknown setting: 'positives'"):
        RerankingConfig.from_json(tmp_path / "a.json")


# Presets

_MARKED_MENTION = "[CLS] {left} [Ms] {mention} [Me] {right} [SEP]"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            PRESETS["arboel"].training,
            "arborescence knn arborescence 3e-05 0.1 5 128 adam 1.0 10",
        ),
        (PRESETS["pel"].training, "entity mixed proxy 1e-05 0.25 7 32 adamw 1.0 64"),
        (PRESETS["pel-fgsm"].training, "entity mixed proxy 1e-05 0.25 7 32 adamw 1.0 32"),
        (PRESETS["amh-dual"].training, "entity in-batch-hard bce 2e-05 0.1 5 64 adam 1.0 10"),
        (RERANKING_PRESETS["arboel"], "2e-05 0.1 5 2 adam 1.0"),
        (RERANKING_PRESETS["pel"], "2e-05 0.2 5 4 adamw 1.0"),
        (FINDER_PRESETS["oslat"].alignment, "0.002 0.1 20 32 adam 1.0 50 0.07 late-exponential"),
        (FINDER_PRESETS["oslat"].training, "0.0002 0.1 10 32 adam 1.0 100 0.07 late-exponential 0.25 2.0"),
    ],
)
def test_the_settings_of_papers(settings: Any, said: str) -> None:
    names = ["learning_rate", "warmup", "epochs", "batch_size", "optimizer", "clip", "n_negatives"]
    if isinstance(settings, TrainingConfig):
        names = ["positives", "negatives", "loss", *names]
    else:
        names += ["temperature", "schedule", "alpha", "gamma"]
    fields = asdict(settings)
    if isinstance(settings, RerankingConfig):
        del fields["schedule"]
    assert " ".join(str(fields[name]) for name in names if name in fields) == said


def test_the_rest_of_the_presets() -> None:
    arboel, pel, fgsm, amh = (PRESETS[name] for name in ("arboel", "pel", "pel-fgsm", "amh-dual"))
    assert arboel.encoder == arbo.EncoderConfig.in_context()
    assert (pel.training.alpha, pel.training.margin, pel.training.hard_share) == (32, 0, 0.5)
    assert (pel.encoder.pooling, pel.encoder.metric, pel.encoder.max_length) == ("mean", "cosine", 128)
    assert pel.encoder.mention == _MARKED_MENTION
    assert pel.encoder.entity == f"[CLS] {CROSS_PRESETS['pel'].entity}"
    assert pel.encoder.entity == "[CLS] {name} [SEP] {types} [SEP] {description} [SEP]"
    assert fgsm.encoder == pel.encoder
    changed = {"regulariser": "fgsm", "n_negatives": 32, "micro_batch": 2}
    assert fgsm.training == replace(pel.training, epsilon=0.01, adversarial_weight=1.0, **changed)
    assert (amh.training.mixup, amh.encoder.pooling, amh.encoder.metric) == (0.3, "cls", "dot")
    for name, pooling in (("amh-mean", "mean"), ("amh-som", "tokens")):
        assert PRESETS[name] == amh._replace(encoder=replace(amh.encoder, pooling=pooling))
    # The defaults of OSLAT are those of the paper but for the warm-up, over which the rate rises.
    late = {"schedule": "late-exponential"}
    reads = LabelAttentionConfig(pooling="mean", attention_threshold=0.05)
    assert SelfAlignmentConfig().schedule == OslatTraining().schedule == "exponential"
    assert FINDER_PRESETS["oslat"] == (replace(SelfAlignmentConfig(), **late), replace(OslatTraining(), **late), reads)
    assert list(PRESETS) == list(get_args(config.PresetName))
    assert list(FINDER_PRESETS) == list(get_args(config.FinderPresetName))
    assert list(RERANKING_PRESETS) == list(get_args(config.RerankingPresetName)) == list(CROSS_PRESETS)


def test_single_fields_of_a_trained_model_are_changed(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = arbo.EncoderConfig.in_context(max_length=48, entity_threshold=-3.0, mention_threshold=-4.0)
    arbo.DualEncoder.from_pretrained(bert_folder, saved).save_pretrained(tmp_path / "model")
    for fields, changes in (
        ({"context": "5"}, {"context": 5}),
        ({"pooling": "tokens"}, {"pooling": "tokens", "entity_threshold": None, "mention_threshold": None}),
        (
            {"metric": "cosine", "entity_threshold": "0.3"},
            {"metric": "cosine", "entity_threshold": 0.3, "mention_threshold": None},
        ),
    ):
        encoder = tuned_encoder(None, str(tmp_path / "model"), fields, tmp_path / "cache")
        assert isinstance(encoder, arbo.DualEncoder)
        assert encoder.config == replace(saved, **changes)
    with pytest.raises(UsageError, match="cache needs a transformer, not ngram; choose a transformer, or"):
        encoder_like({}, cache=tmp_path)

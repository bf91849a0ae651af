"""Settings of trainings, and the presets of papers."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import arbo
from arbo.encoders.cross import CrossEncoderConfig
from arbo.errors import DataError, UsageError
from arbo.pipeline.saved_run import encoder_like
from arbo.spans.model import LabelAttentionConfig
from arbo.training import config
from arbo.training.config import OslatTraining, RerankingConfig, SelfAlignmentConfig, TrainingConfig
from arbo.training.presets import PRESETS, RERANKING_PRESETS


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
        (TrainingConfig, {"regulariser": "dropout"}, "regulariser"),
        (RerankingConfig, {"positives": "1nn"}, "unknown setting 'positives'|unexpected keyword"),
        (LabelAttentionConfig, {"pooling": "tokens"}, "not one of mean, cls"),
        (LabelAttentionConfig, {"max_length": 0}, "max_length must be"),
        (LabelAttentionConfig, {"attention_threshold": 1.5}, "from 0 to 1"),
        (LabelAttentionConfig, {"entity_threshold": float("nan")}, "a finite number"),
        (CrossEncoderConfig, {"pooling": "mention"}, "pooling 'mention' is not one of cls, mean"),
        (CrossEncoderConfig, {"entity": "[CLS] {name} [SEP]"}, r"leave out its \[CLS\]"),
        (CrossEncoderConfig, {"entity": "{mention}"}, "is no plain field"),
        (CrossEncoderConfig, {"candidates": 0}, "at least 1"),
        (CrossEncoderConfig, {"entity_threshold": 1.5}, "from 0 to 1"),
        (CrossEncoderConfig, {"max_length": 0}, "max_length must be"),
        (CrossEncoderConfig, {"retrieval_weight": -1}, "retrieval_weight must be a number of at least 0"),
        (arbo.EncoderConfig, {"mention": "[CLS]"}, r"leaves out \{mention\}"),
        (arbo.EncoderConfig, {"entity": "{mention}"}, r"\{mention\} is no plain field"),
        (arbo.EncoderConfig, {"mention": None}, "mention must be a string"),
        (arbo.EncoderConfig, {"entity": 5}, "entity must be a string"),
        (arbo.EncoderConfig, {"entity_view": "name"}, "entity_view 'name' is not one of names, whole"),
        (arbo.EncoderConfig, {"pooling": "max"}, "pooling 'max' is not one of cls, mean, mention"),
        (arbo.EncoderConfig, {"metric": "euclid"}, "metric 'euclid' is not one of cosine, dot"),
        (arbo.EncoderConfig, {"context": -1}, "context must be an integer of at least 0 or None, not -1"),
        (arbo.EncoderConfig, {"within_line": 1}, "within_line must be true or false, not 1"),
        (arbo.EncoderConfig, {"max_length": 0}, "max_length must be an integer of at least 1, not 0"),
        (arbo.EncoderConfig, {"entity_threshold": float("nan")}, "entity_threshold must be a finite number or None"),
        (arbo.EncoderConfig, {"mention_threshold": float("inf")}, "mention_threshold must be"),
    ],
)
def test_invalid_settings(kind: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises((UsageError, TypeError), match=words):
        kind(**settings)
    with pytest.raises(DataError, match=f"own.json.*({words})"):
        kind.from_dict(settings, file="own.json")


_MARKED_MENTION = "[CLS] {left} [Ms] {mention} [Me] {right} [SEP]"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (PRESETS["arboel"][0], "arborescence knn arborescence 3e-05 0.1 5 128 adam 1.0 10"),
        (PRESETS["pel"][0], "entity mixed proxy 1e-05 0.25 7 32 adamw 1.0 64"),
        (PRESETS["amh-dual"][0], "entity in-batch-hard bce 2e-05 0.1 5 64 adam 1.0 10"),
        (RERANKING_PRESETS["arboel"][0], "2e-05 0.1 5 2 adam 1.0"),
        (RERANKING_PRESETS["pel"][0], "2e-05 0.2 5 4 adamw 1.0"),
        (SelfAlignmentConfig(), "0.002 0.1 20 32 adam 1.0 50 0.07 exponential"),
        (OslatTraining(), "0.0002 0.1 10 32 adam 1.0 100 0.07 exponential 0.25 2.0"),
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
    (_, arboel), (pel, pel_reads), (amh, amh_reads) = (PRESETS[name] for name in ("arboel", "pel", "amh-dual"))
    assert arboel == arbo.EncoderConfig.in_context()
    assert (arboel.metric, arboel.entity_view, arboel.pooling) == ("dot", "whole", "cls")
    assert (pel.scale, pel.margin, pel.hard_share) == (None, 0, 0.5)
    assert (pel_reads.pooling, pel_reads.metric, pel_reads.max_length) == ("mean", "cosine", 128)
    assert pel_reads.mention == _MARKED_MENTION
    assert pel_reads.entity == f"[CLS] {RERANKING_PRESETS['pel'][1].entity}"
    assert pel_reads.entity == "[CLS] {name} [SEP] {types} [SEP] {description} [SEP]"
    assert (amh.mixup, amh_reads.pooling, amh_reads.metric) == (0.3, "cls", "dot")
    assert PRESETS["amh-mean"] == (amh, replace(amh_reads, pooling="mean"))
    assert LabelAttentionConfig() == LabelAttentionConfig(pooling="mean", attention_threshold=0.05)
    assert list(PRESETS) == list(get_args(config.PresetName))
    assert list(RERANKING_PRESETS) == list(get_args(config.RerankingPresetName))


def test_single_fields_of_a_trained_model_are_changed(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = arbo.EncoderConfig.in_context(max_length=48, entity_threshold=-3.0, mention_threshold=-4.0)
    arbo.DualEncoder.from_pretrained(bert_folder, saved).save_pretrained(tmp_path / "model")
    for fields, changes in (
        ({"context": "5"}, {"context": 5}),
        ({"pooling": "mean"}, {"pooling": "mean", "entity_threshold": None, "mention_threshold": None}),
        (
            {"metric": "cosine", "entity_threshold": "0.3"},
            {"metric": "cosine", "entity_threshold": 0.3, "mention_threshold": None},
        ),
    ):
        encoder = encoder_like({}, str(tmp_path / "model"), fields, tmp_path / "cache")
        assert encoder.config == replace(saved, **changes)
    with pytest.raises(UsageError, match="cache needs a transformer, not ngram; choose a transformer, or"):
        encoder_like({}, cache=tmp_path)

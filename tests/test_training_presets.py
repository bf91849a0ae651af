"""Presets: what they are, and that everything in them can be changed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import pytest

import arbo
from arbo.encoders.cross_config import CROSS_PRESETS
from arbo.errors import UsageError
from arbo.pipeline.named_linker import encoder_like, tuned_encoder
from arbo.training.config import (
    FinderPresetName,
    OslatTraining,
    PresetName,
    RerankingPresetName,
    SelfAlignmentConfig,
)
from arbo.training.presets import FINDER_PRESETS, PRESETS, RERANKING_PRESETS


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
    assert pel.encoder.mention == "[CLS] {left} [Ms] {mention} [Me] {right} [SEP]"
    assert pel.encoder.entity == f"[CLS] {CROSS_PRESETS['pel'].entity}"
    assert pel.encoder.entity == "[CLS] {name} [SEP] {types} [SEP] {description} [SEP]"
    assert fgsm.encoder == pel.encoder
    changed = {"regulariser": "fgsm", "n_negatives": 32, "micro_batch": 2}
    assert fgsm.training == replace(pel.training, epsilon=0.01, adversarial_weight=1.0, **changed)
    assert (amh.training.batch_size, amh.training.learning_rate, amh.training.optimizer) == (64, 2e-5, "adam")
    assert (amh.training.negatives, amh.training.n_negatives, amh.training.mixup) == ("in-batch-hard", 10, 0.3)
    assert (amh.encoder.pooling, amh.encoder.metric) == ("cls", "dot")
    for name, pooling in (("amh-mean", "mean"), ("amh-som", "tokens")):
        assert PRESETS[name].training == amh.training
        assert PRESETS[name].encoder == replace(amh.encoder, pooling=pooling)


def test_the_defaults_of_oslat_are_those_of_the_paper_but_for_the_warm_up() -> None:
    """Appendix B has a constant rate over the first tenth of the steps and an exponential decay from there on."""
    alignment, attention = SelfAlignmentConfig(), OslatTraining()
    for own, epochs, rate, n in ((alignment, 20, 2e-3, 50), (attention, 10, 2e-4, 100)):
        assert (own.epochs, own.learning_rate, own.n_negatives, own.temperature) == (epochs, rate, n, 0.07)
        assert (own.batch_size, own.optimizer, own.schedule) == (32, "adam", "exponential")
        assert own.warmup == 0.1  # arbo's: the rate rises over the first tenth
    assert (attention.alpha, attention.gamma) == (0.25, 2.0)
    with pytest.raises(UsageError, match="'fgsm' is not one of none"):
        OslatTraining(regulariser="fgsm")
    late = {"schedule": "late-exponential"}
    reads = arbo.LabelAttentionConfig(pooling="mean", attention_threshold=0.05)
    assert FINDER_PRESETS["oslat"] == (replace(alignment, **late), replace(attention, **late), reads)


def test_all_names_are_presets() -> None:
    assert list(PRESETS) == list(get_args(PresetName))
    assert list(FINDER_PRESETS) == list(get_args(FinderPresetName))
    assert list(RERANKING_PRESETS) == list(get_args(RerankingPresetName)) == list(CROSS_PRESETS)


def test_single_fields_of_a_trained_model_are_changed(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = arbo.EncoderConfig.in_context(max_length=48, entity_threshold=-3.0, mention_threshold=-4.0)
    arbo.DualEncoder.from_pretrained(bert_folder, saved).save_pretrained(tmp_path / "model")
    for fields, expected in (
        ({"context": "5"}, replace(saved, context=5)),
        ({"pooling": "tokens"}, replace(saved, pooling="tokens", entity_threshold=None, mention_threshold=None)),
        (
            {"metric": "cosine", "entity_threshold": "0.3"},
            replace(saved, metric="cosine", entity_threshold=0.3, mention_threshold=None),
        ),
    ):
        encoder = tuned_encoder(None, str(tmp_path / "model"), fields, tmp_path / "cache")
        assert isinstance(encoder, arbo.DualEncoder)
        assert encoder.config == expected


def test_a_cache_needs_a_transformer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cache needs a transformer, not ngram; choose a transformer, or"):
        encoder_like({}, cache=tmp_path)

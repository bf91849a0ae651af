"""Settings of trainings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import QUICK

import arbo
from arbo.errors import DataError, UsageError
from arbo.training.config import WITHOUT_KB, RunOptions, TrainingConfig


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


def test_the_learning_rate_rises_and_falls() -> None:
    for schedule, end in (("linear", 0.0), ("exponential", 0.01), ("constant", 1.0)):
        config = TrainingConfig(schedule=schedule, learning_rate=2.0, warmup=0.25)  # type: ignore[arg-type]
        rates = [config.learning_rate_at(step, 100) for step in range(101)]
        assert max(rates) == 2.0
        assert rates[-1] == pytest.approx(2 * end)
        assert (np.diff(rates[:25]) > 0).all()
        assert (np.diff(rates[25:]) <= 0).all()


def test_a_late_decay_begins_at_the_full_rate() -> None:
    config = TrainingConfig(schedule="late-exponential", learning_rate=2.0, warmup=0.1)
    rates = [config.learning_rate_at(step, 100) for step in range(101)]
    assert rates[:11] == [2.0] * 11
    assert np.diff(np.log(rates[10:])) == pytest.approx(np.log(0.01) / 90)


@pytest.mark.parametrize(
    "wrong",
    [
        {"positives": "best"},
        {"epochs": 0},
        {"steps": 0},
        {"hard_share": 2},
        {"learning_rate": 0},
        {"learning_rate": float("nan")},
        {"clip": -1},
        {"seed": -1},
        {"batch_size": True},
        {"weight_decay": -0.1},
        {"precision": "int8"},
        {"regulariser": "dropout"},
        {"alpha": 0},
        {"margin": -0.1},
        {"mixup": 0},
        {"mixup_gradient": 1},
        {"epsilon": None},
        {"adversarial_weight": -1},
    ],
)
def test_settings_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


def test_settings_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(QUICK.as_dict()), "utf-8")
    assert TrainingConfig.from_json(tmp_path / "a.json") == QUICK
    (tmp_path / "b.json").write_text('{"epoch": 3}', "utf-8")
    with pytest.raises(DataError, match="unknown setting: 'epoch'"):
        TrainingConfig.from_json(tmp_path / "b.json")


def test_checkpoints_must_come() -> None:
    with pytest.raises(UsageError, match="checkpoint_every must be at least 1 step, not 0"):
        RunOptions(checkpoint_every=0)


def test_a_training_without_a_knowledge_base_has_near_negatives_alone() -> None:
    assert TrainingConfig().negatives == "in-batch+knn"
    assert replace(WITHOUT_KB, positives="entity", negatives="in-batch+knn", best="recall@1") == TrainingConfig()

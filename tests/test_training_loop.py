"""The training loop: it learns, repeats, goes on after a kill, and stops without harm."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import arbo
from arbo.errors import DataError, UsageError

torch = pytest.importorskip("torch")

from arbo.encoders.tower import Tower  # noqa: E402
from arbo.training.config import NegativeStrategy, PositiveStrategy, TrainingConfig  # noqa: E402
from arbo.training.loop import TrainingError, train  # noqa: E402
from arbo.training.losses import LOSSES  # noqa: E402

QUICK = TrainingConfig(
    positives="entity", negatives="random", n_negatives=4, epochs=1, batch_size=32, scale=20.0, learning_rate=1e-3
)


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


def encoder(tower: Tower, **options: Any) -> arbo.DualEncoder:
    return arbo.DualEncoder(tower, tower, arbo.EncoderConfig(**options))


def log_of(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in out.with_name(f"{out.name}.log.jsonl").read_text("utf-8").splitlines()]


def weights(model: arbo.DualEncoder) -> list[Any]:
    return [value.detach().clone() for value in model.module.state_dict().values()]


@pytest.mark.slow
def test_a_tiny_model_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    reads = arbo.EncoderConfig.in_context(max_length=48, context=5, pooling="mention", metric="cosine")
    start = arbo.DualEncoder(bert, bert, reads).with_markers()
    config = TrainingConfig(epochs=5, batch_size=32, scale=20.0, learning_rate=1e-3)
    trained = train(start, documents[:60], kb, out=tmp_path / "model", dev=documents[60:], config=config)

    def recall(model: arbo.DualEncoder) -> float:
        linking = arbo.Linker(kb, model).link(documents[60:]).evaluate().linking
        assert linking is not None
        return linking.recall[1]

    assert recall(trained) > recall(start) + 0.1
    again = arbo.DualEncoder.from_pretrained(tmp_path / "model")
    assert recall(again) == recall(trained)
    assert again.config.entity_threshold is not None
    best = max(line["recall@1"] for line in log_of(tmp_path / "model") if "recall@1" in line)
    assert best == pytest.approx(recall(trained), abs=1e-9)


@pytest.mark.parametrize("positives", get_args(PositiveStrategy))
@pytest.mark.parametrize("negatives", get_args(NegativeStrategy))
def test_all_parts_go_together(
    bert: Tower, tmp_path: Path, sample: Any, positives: PositiveStrategy, negatives: NegativeStrategy
) -> None:
    documents, _, kb = sample
    config = replace(QUICK, positives=positives, negatives=negatives, steps=2)
    train(encoder(bert), documents, kb, out=tmp_path / "model", config=config)
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))


def test_a_seed_repeats(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    runs = {
        name: train(encoder(bert), documents, kb, dev=dev, out=tmp_path / name, config=replace(QUICK, seed=seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    }
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b") != log_of(tmp_path / "c")
    assert all(map(torch.equal, weights(runs["a"]), weights(runs["b"])))


@pytest.mark.parametrize("micro_batch", [1, 5, 31])
def test_parts_of_a_batch_give_the_same_gradients(bert: Tower, tmp_path: Path, sample: Any, micro_batch: int) -> None:
    documents, _, kb = sample
    still = encoder(without_dropout(bert))
    config = replace(QUICK, negatives="in-batch", steps=3)
    train(still, documents, kb, out=tmp_path / "whole", config=config)
    train(still, documents, kb, out=tmp_path / "parts", config=replace(config, micro_batch=micro_batch))
    for whole, parts in zip(log_of(tmp_path / "whole"), log_of(tmp_path / "parts"), strict=True):
        assert parts == pytest.approx(whole, rel=1e-3)


def without_dropout(tower: Tower) -> Tower:
    copy = tower.copy()
    for module in copy.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return copy


def test_the_encoder_that_is_given_is_not_changed(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    start = encoder(bert)
    before = weights(start)
    trained = train(start, documents, kb, out=tmp_path / "model", config=replace(QUICK, steps=2))
    assert all(map(torch.equal, weights(start), before))
    assert not all(map(torch.equal, weights(trained), before))


class Killed(BaseException):
    """What no handler expects."""


@pytest.mark.parametrize("after", [0, 1, 4, 5, 7])
def test_an_interrupted_training_goes_on_with_the_same_losses(
    bert: Tower, tmp_path: Path, sample: Any, after: int
) -> None:
    documents, dev, kb = sample
    config = replace(QUICK, positives="1rand", negatives="mixed", epochs=2, batch_size=32, refresh=2)
    whole = train(encoder(bert), documents, kb, dev=dev, out=tmp_path / "whole", config=config, checkpoint_every=2)

    def killing(what: str) -> Any:
        def show(items: Iterable[Any], total: int) -> Iterator[Any]:
            for done, item in enumerate(items):
                if what.startswith("training") and done == after:
                    raise Killed
                yield item

        return show

    options: dict[str, Any] = {"dev": dev, "out": tmp_path / "parts", "config": config, "checkpoint_every": 2}
    with pytest.raises(Killed):
        train(encoder(bert), documents, kb, **options, announce=killing)
    assert not (tmp_path / "parts").exists()
    parts = train(encoder(bert), documents, kb, **options)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert all(map(torch.equal, weights(parts), weights(whole)))
    assert not (tmp_path / "parts.training").exists()


@pytest.mark.slow
def test_kill_9_in_the_middle_of_an_epoch(bert_folder: Path, bert: Tower, tmp_path: Path) -> None:
    code = f"""
import sys, torch, arbo
from arbo.training.config import TrainingConfig
from arbo.training.losses import LOSSES  # noqa: E402
from arbo.training.loop import train
torch.set_num_threads(1)
documents, kb = arbo.load_sample()
encoder = arbo.DualEncoder.from_pretrained({str(bert_folder)!r}, device="cpu")
config = TrainingConfig(positives="entity", negatives="in-batch", epochs=4, batch_size=16, learning_rate=1e-3)
train(encoder, documents[:40], kb, out=sys.argv[1], config=config, checkpoint_every=3)
"""
    command = [sys.executable, "-c", code]
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    process = subprocess.Popen([*command, tmp_path / "parts"], stderr=subprocess.DEVNULL)
    log = tmp_path / "parts.training" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.is_file() and log.read_text("utf-8").count("\n") >= 8):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*command, tmp_path / "parts"], check=True, capture_output=True)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


def test_another_training_is_not_continued(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample

    def fail(what: str) -> Any:
        raise Killed

    with pytest.raises(Killed):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK, announce=fail)
    with pytest.raises(UsageError, match="is of another training"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=replace(QUICK, seed=5))


def test_nothing_else_is_taken_for_a_training(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    (tmp_path / "model.training").mkdir()
    with pytest.raises(UsageError, match="is in the way"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_model(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, dev, kb = sample
    good, steps = LOSSES["arborescence"], iter(range(10**6))

    def spoilt(scores: Any, exists: Any) -> Any:
        return good(scores, exists) * (1 if next(steps) < 7 else float("nan"))

    monkeypatch.setitem(LOSSES, "arborescence", spoilt)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="step 8: the loss is nan"):
        train(encoder(bert), documents, kb, dev=dev, out=tmp_path / "model", config=replace(QUICK, epochs=5))
    kept = arbo.DualEncoder.from_pretrained(tmp_path / "model.training" / "best")
    assert all(value.isfinite().all() for value in weights(kept))


def test_no_gold_id_in_the_knowledge_base(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, _ = sample
    kb = arbo.KnowledgeBase([arbo.Entity("Z1", "nothing of the kind")])
    with pytest.raises(DataError, match="nothing to train on"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)


def test_one_entity_with_one_mention(bert: Tower, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")])
    mention = arbo.Mention("m", "d", ((0, 5),), "marsh", gold=("E1",))
    documents = [arbo.Document("d", "marsh", (mention,))]
    for negatives in get_args(NegativeStrategy):
        config = replace(QUICK, positives="arborescence", negatives=negatives)
        train(encoder(bert), documents, kb, dev=documents, out=tmp_path / negatives, config=config)
        assert log_of(tmp_path / negatives)[-1]["loss"] == 0  # nothing to be pushed away from


def test_the_learning_rate_rises_and_falls() -> None:
    for schedule, end in (("linear", 0.0), ("exponential", 0.01), ("constant", 1.0)):
        config = TrainingConfig(schedule=schedule, learning_rate=2.0, warmup=0.25)  # type: ignore[arg-type]
        rates = [config.learning_rate_at(step, 100) for step in range(101)]
        assert max(rates) == 2.0
        assert rates[-1] == pytest.approx(2 * end)
        assert (np.diff(rates[:25]) > 0).all()
        assert (np.diff(rates[25:]) <= 0).all()


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
    ],
)
def test_settings_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


def test_settings_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(QUICK.as_dict()), "utf-8")
    assert TrainingConfig.from_json(tmp_path / "a.json") == QUICK
    (tmp_path / "b.json").write_text('{"epoch": 3}', "utf-8")
    with pytest.raises(DataError, match="unknown: 'epoch'"):
        TrainingConfig.from_json(tmp_path / "b.json")

"""The folder of a training: whose it is, who works in it, and what is left of it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from training_builders import QUICK, Killed, accelerator_of, dying, encoder, log_of, weights

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import UsageError
from arbo.training import frame
from arbo.training.checkpoints import LOCK, locked
from arbo.training.dual.trainer import train
from arbo.training.loop import TrainingError
from arbo.training.losses import LOSSES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


def test_a_training_that_ends_while_another_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    folder, flock, mkdir = tmp_path / "model.training", fcntl.flock, Path.mkdir

    def end() -> None:
        shutil.rmtree(folder)

    def end_and_begin() -> None:
        end()
        mkdir(folder)
        (folder / LOCK).touch()

    def before(act: Any, happens: Any) -> Any:
        return lambda *given, **named: (happens(), act(*given, **named))[1]

    def after(act: Any, happens: Any) -> Any:
        return lambda *given, **named: (act(*given, **named), happens())[0]

    for owner, name, act in (
        (Path, "mkdir", after(mkdir, end)),
        (fcntl, "flock", before(flock, end)),
        (fcntl, "flock", before(flock, end_and_begin)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, act)
            with (
                pytest.raises(UsageError, match=r"another process is training .* need ACCELERATE_USE_CPU=true"),
                locked(folder),
            ):
                raise AssertionError("let in")
    with locked(folder):
        assert (folder / LOCK).is_file()


def test_other_processes_wait_for_the_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(frame, "Accelerator", lambda **named: given.update(named))
    accelerator_of(QUICK)
    kind = frame.InitProcessGroupKwargs
    (limit,) = [handler.timeout for handler in given["kwargs_handlers"] if isinstance(handler, kind)]
    assert limit >= timedelta(days=1)


def test_another_training_is_not_continued(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample

    with pytest.raises(Killed):
        train(
            encoder(bert),
            documents,
            kb,
            out=tmp_path / "model",
            config=QUICK,
            options=arbo.RunOptions(announce=dying(0)),
        )
    for changed, named in (({"seed": 5}, "seed"), ({"epochs": 2, "loss": "proxy"}, "loss, epochs|epochs, loss")):
        with pytest.raises(UsageError, match=rf"belongs to another training run, which differs in ({named}) \("):
            train(encoder(bert), documents, kb, out=tmp_path / "model", config=replace(QUICK, **changed))
    with pytest.raises(UsageError, match="belongs to another training run, which differs in documents"):
        train(encoder(bert), documents[1:], kb, out=tmp_path / "model", config=QUICK)


def test_nothing_else_is_taken_for_a_training(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    (tmp_path / "model.training").mkdir()
    (tmp_path / "model.training" / "own").touch()
    with pytest.raises(UsageError, match=r"model\.training exists and is not a training folder; move it"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)


def test_nothing_that_is_there_is_lost(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    (tmp_path / "model.log.jsonl").touch()
    with pytest.raises(UsageError, match=r"model\.log\.jsonl exists without its model"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "own").touch()
    with pytest.raises(UsageError, match="not a model folder of arbo"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)
    assert not (tmp_path / "model.training").exists()


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
    (best,) = (tmp_path / "model.training").glob("best-*")
    kept = arbo.DualEncoder.from_pretrained(best)
    assert all(value.isfinite().all() for value in weights(kept))


def test_tensorboard(bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, _, kb = sample
    config, shown = replace(QUICK, steps=2), []
    options = arbo.RunOptions(tensorboard=tmp_path / "board")
    run = partial(train, encoder(bert), documents, kb, out=tmp_path / "model", config=config, options=options)

    class Writer:
        def __init__(self, folder: Path, purge_step: int) -> None:
            shown.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            shown.append((name, value, step))

        def flush(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        run()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    run()
    assert shown[0] == (tmp_path / "board", 1)
    assert [entry for entry in shown if entry[0] == "loss"] == [
        ("loss", line["loss"], line["step"]) for line in log_of(tmp_path / "model")
    ]


def test_trainings_need_a_knowledge_base(tmp_path: Path) -> None:
    documents, _ = arbo.load_sample()
    out = tmp_path / "model"
    for train_model in (arbo.train_label_attention, arbo.train_linking_head, arbo.train_oslat):
        with pytest.raises(UsageError, match=r"needs a knowledge base, not NoneType; read one, .* KnowledgeBase\.of"):
            train_model(None, documents, None, out=out)  # type: ignore[operator]
    with pytest.raises(UsageError, match="needs a knowledge base, not list"):
        arbo.train_self_alignment(None, [], out=out)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a knowledge base, not list"):
        arbo.train(None, documents, [], out=out)  # type: ignore[arg-type]

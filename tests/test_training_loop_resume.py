"""A training that is interrupted goes on with the same losses, wherever it was."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import SafetensorError
from training_builders import QUICK, Killed, dying, encoder, log_of, torch, train_from_folder, weights

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet
from arbo.training import checkpoints as files, loop
from arbo.training.checkpoints import checkpoints
from arbo.training.config import TrainingConfig
from arbo.training.dual import trainer as dual
from arbo.training.dual.trainer import train

pytestmark = pytest.mark.slow

SMALL = replace(QUICK, positives="1rand", negatives="mixed", epochs=2, batch_size=10, refresh=2)


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


@pytest.fixture(scope="module")
def small(bert: Tower, sample: Any) -> Any:
    """Begin a small training, or go on with it; everything in it that can be interrupted is."""
    documents, dev, kb = sample

    def run(out: Path, announce: Announce = quiet, config: TrainingConfig = SMALL) -> arbo.DualEncoder:
        options = arbo.RunOptions(checkpoint_every=2, announce=announce)
        return train(encoder(bert), documents[:4], kb, dev=dev[:5], out=out, config=config, options=options)

    return run


class Unbroken(NamedTuple):
    """What the small training comes to if nothing interrupts it."""

    out: Path
    trained: arbo.DualEncoder
    moves: int
    """Files and folders that were moved and removed."""


@pytest.fixture(scope="module")
def unbroken(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    out = tmp_path_factory.mktemp("unbroken") / "model"
    with dead_after(10**6, out.parent) as moves:
        return Unbroken(out, small(out), next(moves))


def assert_as_unbroken(unbroken: Unbroken, out: Path, trained: arbo.DualEncoder) -> None:
    assert log_of(out) == log_of(unbroken.out)
    assert all(map(torch.equal, weights(trained), weights(unbroken.trained)))
    assert trained.config == unbroken.trained.config
    left = {path.name for path in out.parent.iterdir() if not path.name.startswith(".arbo-partial-")}
    assert left == {out.name, f"{out.name}.log.jsonl"}


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_an_interrupted_training_goes_on_with_the_same_losses(
    small: Any, unbroken: Unbroken, tmp_path: Path, after: int
) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed):
        small(out, announce=dying(after))
    assert not out.exists()
    assert_as_unbroken(unbroken, out, small(out))


@contextmanager
def dead_after(moves: int, folder: Path) -> Iterator[Iterator[int]]:
    """From so many moves and removals in a folder on let none happen any more, as if the process had been killed."""
    done = itertools.count()

    def dying(act: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if Path(given[0]).is_relative_to(folder) and next(done) >= moves:
                raise Killed
            return act(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "replace"), (os, "rename"), (shutil, "rmtree"), (shutil, "copyfile")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        yield done


@pytest.mark.parametrize("place", [0, 2, 8, 20, -7, -5, -4, -3, -2, -1])
def test_killed_between_any_two_files(small: Any, unbroken: Unbroken, tmp_path: Path, place: int) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed), dead_after(place % unbroken.moves, tmp_path):
        small(out)
    assert_as_unbroken(unbroken, out, small(out))


@pytest.mark.parametrize(
    "error",
    [SafetensorError("I/O error: No space left on device (os error 28)"), OSError(28, "No space left on device")],
)
def test_a_full_disk_is_told_and_the_earlier_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Model:
        def save_pretrained(self, folder: Path, /) -> None:
            folder.mkdir()

    def full(*_: Any) -> None:
        raise error

    adam = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    files.save_checkpoint(tmp_path, files.State(1), Model(), adam, {})
    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(UsageError, match=r"cannot write a checkpoint in .*No space left on device.*goes on"):
        files.save_checkpoint(tmp_path, files.State(2), Model(), adam, {})
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000001"]
    monkeypatch.undo()
    for _ in range(2):  # the second is at a step that is there already
        files.save_checkpoint(tmp_path, files.State(2), Model(), adam, {})
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000002"]


def test_the_best_model_that_the_checkpoint_speaks_of_is_kept(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(*values: float) -> None:
        scores = iter(values)
        monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})

    best = []
    monkeypatch.setattr(dual, "_with_thresholds", lambda trained, _: best.append(weights(trained)) or trained)
    score(0.2, 0.1)
    small(tmp_path / "first")
    score(0.1, 0.2)  # but before the better one is in a checkpoint the process is killed, and then goes on elsewhere,
    save = loop.save_checkpoint

    def save_early(folder: Path, state: Any, *others: Any) -> None:
        if state.best == 0.2:
            raise Killed
        save(folder, state, *others)

    monkeypatch.setattr(loop, "save_checkpoint", save_early)
    with pytest.raises(Killed):
        small(tmp_path / "model")
    monkeypatch.setattr(loop, "save_checkpoint", save)
    score(0.05)  # where rounding makes it the worse one
    small(tmp_path / "model")
    assert all(map(torch.equal, *best))


def test_a_training_that_needs_less_memory_goes_on(small: Any, unbroken: Unbroken, tmp_path: Path) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed), dead_after(12, tmp_path):
        small(out)
    small(out, config=replace(SMALL, micro_batch=3))
    assert [line["step"] for line in log_of(out)] == [line["step"] for line in log_of(unbroken.out)]


def test_a_damaged_checkpoint(small: Any, tmp_path: Path) -> None:
    out, folder = tmp_path / "model", tmp_path / "model.training"
    with pytest.raises(Killed), dead_after(12, tmp_path):
        small(out)
    for name in ("optimizer.safetensors", "plan.safetensors", "state.json"):
        damaged = checkpoints(folder)[-1] / name
        damaged.write_bytes(damaged.read_bytes()[:9])
        with pytest.raises(DataError, match=r"cannot be read .* delete the folder"):
            small(out)


def test_kill_9_in_the_middle_of_an_epoch(bert_folder: Path, bert: Tower, tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from training_builders import train_from_folder
train_from_folder({str(bert_folder)!r}, sys.argv[1])
"""
    train_from_folder(str(bert_folder), str(tmp_path / "whole"))
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "parts"], stderr=subprocess.DEVNULL)
    log = tmp_path / "parts.training" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.is_file() and log.read_text("utf-8").count("\n") >= 8):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    train_from_folder(str(bert_folder), str(tmp_path / "parts"))
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


def test_two_processes_do_not_train_in_one_folder(small: Any, unbroken: Unbroken, tmp_path: Path) -> None:
    out = tmp_path / "model"

    def killed_while_another_begins(what: str) -> Any:
        if what.startswith("training"):
            before = sorted(path.name for path in out.with_name("model.training").iterdir())
            with pytest.raises(UsageError, match=r"another process is training in .* or choose another --out"):
                small(out)
            with pytest.raises(UsageError, match="another process"):  # not: belongs to another training, delete it
                small(out, config=replace(SMALL, seed=5))
            assert sorted(path.name for path in out.with_name("model.training").iterdir()) == before
            raise Killed
        return quiet(what)

    with pytest.raises(Killed):
        small(out, announce=killed_while_another_begins)
    assert_as_unbroken(unbroken, out, small(out))  # a lock is not left behind


def test_a_file_system_without_locks(
    small: Any, unbroken: Unbroken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def fail(*given: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert_as_unbroken(unbroken, tmp_path / "model", small(tmp_path / "model"))
    assert "cannot lock" in caplog.text


def test_the_order_is_drawn_once_an_epoch(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, epochs = loop.order_of, []
    monkeypatch.setattr(loop, "order_of", lambda *given: epochs.append(given[2]) or draw(*given))
    small(tmp_path / "model")
    assert epochs == [0, 1]
    assert len(log_of(tmp_path / "model")) > 4


def test_gradients_do_not_depend_on_a_race_of_threads() -> None:
    row = torch.from_numpy(np.random.default_rng(0).integers(0, 50, 200_000))
    weight = torch.randn(len(row), 8, generator=torch.Generator().manual_seed(0))
    found = set()
    for _ in range(20):
        vectors = torch.zeros(50, 8, requires_grad=True)
        with loop._repeatable(vectors.device):
            (vectors[row] * weight).sum().backward()
        assert vectors.grad is not None
        found.add(vectors.grad.numpy().tobytes())
    assert len(found) == 1
    assert not torch.are_deterministic_algorithms_enabled()
    assert loop.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]

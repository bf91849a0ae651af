"""What all trainings share: they resume after a kill, repeat, and stop at NaN."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from builders import edit_json, sample_files
from conftest import Run
from safetensors import SafetensorError
from training_builders import (
    DOCUMENTS,
    KB,
    PARTS,
    QUICK,
    QUICK_CROSS,
    QUICK_OSLAT,
    READS,
    Killed,
    cross,
    dying,
    encoder,
    log_of,
    sample,
    torch,
    weights,
)

import arbo
from arbo.data.fingerprint import learnt_from, warnings_of
from arbo.encoders.tower import Tower
from arbo.errors import ArboError, DataError, UsageError
from arbo.training import frame as files, loop
from arbo.training.config import WITHOUT_KB
from arbo.training.dual import trainer as dual
from arbo.training.frame import checkpoints
from arbo.training.losses import LOSSES

pytestmark = pytest.mark.slow

SMALL = replace(QUICK, positives="1rand", negatives="mixed", epochs=2, batch_size=10, refresh=2)
MIXED_UP: dict[str, Any] = {"micro_batch": 3, "mixup": 0.3}


class Kind(NamedTuple):
    """A kind of training: its settings, and what trains a tower with them; further arguments have names."""

    config: Any
    train: Callable[..., Any]


def dual_training(tower: Tower, kb: bool = True, **given: Any) -> Any:
    documents, dev, entities = sample()
    return arbo.train(encoder(tower), documents[:4], entities if kb else None, dev=dev[:5], **given)


def cross_training(tower: Tower, linker: arbo.Linker | None = None, candidates: int = 3, **given: Any) -> Any:
    documents, dev, kb = sample()
    start = cross(tower, candidates=candidates)
    return arbo.train_reranker(start, linker or arbo.Linker(kb), documents[:1], dev=dev[:1], **given)


def names_training(tower: Tower, **given: Any) -> Any:
    start = arbo.DualEncoder(tower, tower, arbo.EncoderConfig(pooling="cls", entity_threshold=0.3))
    trained = arbo.train_self_alignment(start, KB, **given)
    assert trained.config == arbo.EncoderConfig(pooling="cls")
    return trained


def finder_training(tower: Tower, **given: Any) -> Any:
    return arbo.train_oslat(arbo.LabelAttention.of(tower, READS), DOCUMENTS, KB, **given)


KINDS = {
    "dual": Kind(SMALL, dual_training),
    **{f"dual, {name}": Kind(replace(QUICK, batch_size=6, steps=3, **of), dual_training) for name, of in PARTS.items()},
    "dual, no kb": Kind(
        replace(WITHOUT_KB, loss="arborescence", steps=3, batch_size=8, learning_rate=1e-3, refresh=2, **MIXED_UP),
        partial(dual_training, kb=False),
    ),
    "cross": Kind(replace(QUICK_CROSS, epochs=2, optimizer="adamw", precision="bfloat16"), cross_training),
    "names": Kind(arbo.SelfAlignmentConfig(epochs=3, batch_size=8, n_negatives=6, learning_rate=1e-3), names_training),
    "finder": Kind(replace(QUICK_OSLAT, epochs=2), finder_training),
}


class Unbroken(NamedTuple):
    """What a training comes to if nothing interrupts it."""

    out: Path
    trained: Any
    moves: int
    """Files and folders that were moved and removed."""


@pytest.fixture(scope="session")
def unbroken(bert: Tower, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Unbroken]:
    """Train each kind once."""

    @cache
    def of(name: str) -> Unbroken:
        out = tmp_path_factory.mktemp("unbroken") / "model"
        before = weights(encoder(bert))
        with dead_after(10**6, out.parent) as moves:
            trained = begin(name, bert, out)
        assert all(map(torch.equal, weights(encoder(bert)), before))  # the start is not changed
        assert not all(map(torch.equal, weights(trained), before))
        return Unbroken(out, trained, next(moves))

    return of


def test_a_trained_model_knows_what_it_learnt_from(unbroken: Callable[[str], Unbroken]) -> None:
    documents, _, kb = sample()
    for name, learnt in {"dual": documents[:4], "cross": documents[:1], "finder": DOCUMENTS, "names": []}.items():
        out, trained, _ = unbroken(name)
        assert trained.learnt == learnt_from(arbo.Corpus.of(learnt).tables)
        assert type(trained).from_pretrained(out).copy().learnt == trained.learnt
    warned = [
        arbo.Linker(kb, *encoder, reranker=reranker).link(documents[:5]).warnings
        for encoder, reranker in (((unbroken("dual").trained,), None), ((), unbroken("cross").trained))
    ]
    words = "of 5 documents are among those that the"
    assert [f"4 {words} encoder" in str(warned[0]), f"1 {words} reranker" in str(warned[1])] == [True, True]
    assert not warnings_of(arbo.Corpus.of(documents[4:9]).tables, {"it": unbroken("dual").trained})


def begin(name: str, bert: Tower, out: Path, announce: Any = arbo.progress.quiet, **changes: Any) -> Any:
    """Begin a training, or go on with it."""
    options = arbo.RunOptions(checkpoint_every=2, announce=announce)
    return KINDS[name].train(bert, out=out, config=replace(KINDS[name].config, **changes), options=options)


def assert_as_unbroken(unbroken: Unbroken, out: Path, trained: Any) -> None:
    assert log_of(out) == log_of(unbroken.out)
    assert all(map(torch.equal, weights(trained), weights(unbroken.trained)))
    assert trained.config == unbroken.trained.config
    left = {path.name for path in out.parent.iterdir() if not path.name.startswith(".arbo-partial-")}
    assert left == {out.name, f"{out.name}.log.jsonl"}


@pytest.mark.parametrize("name", KINDS)
def test_an_interrupted_training_goes_on_with_the_same_losses(
    bert: Tower, tmp_path: Path, unbroken: Any, name: str
) -> None:
    out, whole = tmp_path / "model", unbroken(name)
    for after in (0, 2):
        with pytest.raises(Killed):
            begin(name, bert, out, dying(after))
        assert not out.exists()
    with open(tmp_path / "model.training" / "log.jsonl", "a") as log:
        log.write('{"step": 3, "lo')  # killed while writing
    for changes, named in (({"seed": 5}, "seed"), ({"warmup": 0.5, "batch_size": 7}, "batch_size, warmup")):
        with pytest.raises(UsageError, match=rf"belongs to another training run, which differs in {named} \("):
            begin(name, bert, out, **changes)
    assert_as_unbroken(whole, out, begin(name, bert, out))
    lines = log_of(out)
    assert len(lines) > 2
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in lines)


@pytest.mark.parametrize("name", ["dual", "cross", "names", "finder"])
def test_the_seed_decides(bert: Tower, tmp_path: Path, unbroken: Any, name: str) -> None:
    begin(name, bert, tmp_path / "model", seed=1, steps=1)
    assert log_of(tmp_path / "model")[0]["loss"] != log_of(unbroken(name).out)[0]["loss"]


def test_documents_and_the_first_stage_are_part_of_a_training(bert: Tower, tmp_path: Path) -> None:
    documents, _, kb = sample()
    config = replace(QUICK_CROSS, steps=1)
    run = partial(arbo.train, encoder(bert), out=tmp_path / "model", config=QUICK)
    rerank = partial(cross_training, bert, out=tmp_path / "cross")
    for begun in (partial(run, documents, kb), partial(rerank, config=config)):
        with pytest.raises(Killed):
            begun(options=arbo.RunOptions(announce=dying(0)))
    with pytest.raises(UsageError, match="belongs to another training run, which differs in documents"):
        run(documents[1:], kb)
    for changes in (
        {"candidates": 4},
        {"linker": arbo.Linker(kb, arbo.NgramEncoder(alias_weight=0.1))},
        {"linker": arbo.Linker(kb, config=arbo.LinkerConfig(expand_abbreviations=False))},
    ):
        with pytest.raises(UsageError, match="belongs to another training"):
            rerank(config=config, **changes)
    rerank(config=replace(config, micro_batch=1))


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


@pytest.mark.parametrize("place", [8, -3, -1])
def test_killed_between_any_two_files(bert: Tower, unbroken: Any, tmp_path: Path, place: int) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed), dead_after(place % unbroken("dual").moves, tmp_path):
        begin("dual", bert, out)
    assert_as_unbroken(unbroken("dual"), out, begin("dual", bert, out))


@pytest.mark.parametrize("error", [SafetensorError("I/O error: No space left on device"), OSError(28, "No space left")])
def test_a_full_disk_is_reported_and_the_earlier_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*_: Any) -> None:
        raise error

    save = partial(files.save_checkpoint, tmp_path)
    rest: Any = torch.nn.Linear(1, 1), torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]), {}
    save(files.State(1), *rest)
    with monkeypatch.context() as patch:
        patch.setattr(files, "save_file", full)
        with pytest.raises(UsageError, match=r"cannot write a checkpoint in .*No space left.*goes on"):
            save(files.State(2), *rest)
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000001"]
    for _ in range(2):  # the second is at a step that is there already
        save(files.State(2), *rest)
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000002"]


def test_the_best_model_of_the_checkpoint_is_written(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(*values: float) -> None:
        scores = iter(values)
        monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})

    best = []
    monkeypatch.setattr(dual, "_with_thresholds", lambda trained, _: best.append(weights(trained)) or trained)
    score(0.2, 0.1)
    begin("dual", bert, tmp_path / "first")
    score(0.1, 0.2)  # but before the better one is in a checkpoint the process is killed, and then goes on elsewhere,
    save = loop.save_checkpoint

    def save_early(folder: Path, state: Any, *others: Any) -> None:
        if state.best == 0.2:
            raise Killed
        save(folder, state, *others)

    monkeypatch.setattr(loop, "save_checkpoint", save_early)
    with pytest.raises(Killed):
        begin("dual", bert, tmp_path / "model")
    monkeypatch.setattr(loop, "save_checkpoint", save)
    score(0.05)  # where rounding makes it the worse one
    begin("dual", bert, tmp_path / "model")
    assert all(map(torch.equal, *best))


def test_a_smaller_micro_batch_goes_on_and_a_damaged_checkpoint_does_not(
    bert: Tower, unbroken: Any, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed), dead_after(12, tmp_path):
        begin("dual", bert, out)
    for name in ("weights.safetensors", "optimizer.safetensors", "plan.safetensors", "state.json"):
        damaged = checkpoints(tmp_path / "model.training")[-1] / name
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:9])
        with pytest.raises(DataError, match=r"cannot be read .* delete the folder"):
            begin("dual", bert, out)
        damaged.write_bytes(whole)
    begin("dual", bert, out, micro_batch=3)
    assert [line["step"] for line in log_of(out)] == [line["step"] for line in log_of(unbroken("dual").out)]


def test_two_processes_do_not_train_in_one_folder(bert: Tower, unbroken: Any, tmp_path: Path) -> None:
    out = tmp_path / "model"

    def killed_while_another_begins(what: str) -> Any:
        if what.startswith("training"):
            before = sorted(path.name for path in out.with_name("model.training").iterdir())
            for changes in ({}, {"seed": 5}):  # not: belongs to another training, delete it
                with pytest.raises(UsageError, match=r"another process is training .* need ACCELERATE_USE_CPU=true"):
                    begin("names", bert, out, **changes)
            assert sorted(path.name for path in out.with_name("model.training").iterdir()) == before
            raise Killed
        return arbo.progress.quiet(what)

    with pytest.raises(Killed):
        begin("names", bert, out, killed_while_another_begins)
    assert_as_unbroken(unbroken("names"), out, begin("names", bert, out))  # a lock is not left behind


def test_a_file_system_without_locks(
    bert: Tower, unbroken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", fail)
    assert_as_unbroken(unbroken("names"), tmp_path / "model", begin("names", bert, tmp_path / "model"))
    assert "cannot lock" in caplog.text


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("model.training/own", r"model\.training exists and is not a training folder; move it"),
        ("model.log.jsonl", r"model\.log\.jsonl exists without its model"),
        ("model/own", "not a dual-encoder that arbo saved"),
    ],
)
def test_nothing_that_is_there_is_lost(bert: Tower, tmp_path: Path, there: str, words: str) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).touch()
    with pytest.raises(UsageError, match=words):
        begin("dual", bert, tmp_path / "model")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [there]


def test_a_loss_that_is_no_number_stops_and_leaves_the_last_good_model(
    bert: Tower, tmp_path: Path, unbroken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, steps = LOSSES["arborescence"], iter(range(10**6))
    epoch = next(line["step"] for line in log_of(unbroken("dual").out) if "recall@1" in line)

    def spoilt(scores: Any, exists: Any) -> Any:
        return good(scores, exists) * (1 if next(steps) < epoch else float("nan"))

    monkeypatch.setitem(LOSSES, "arborescence", spoilt)
    with pytest.raises(ArboError, match=f"step {epoch + 1}: the loss is nan"):
        begin("dual", bert, tmp_path / "model")
    (best,) = (tmp_path / "model.training").glob("best-*")
    assert all(value.isfinite().all() for value in weights(arbo.DualEncoder.from_pretrained(best)))


def test_gradients_do_not_depend_on_a_race_of_threads() -> None:
    row = torch.from_numpy(np.random.default_rng(0).integers(0, 50, 200_000))
    weight = torch.randn(len(row), 8, generator=torch.Generator().manual_seed(0))
    sums, before = set(), torch.get_num_threads()
    torch.set_num_threads(2)  # one has no race
    for _ in range(20):
        vectors = torch.zeros(50, 8, requires_grad=True)
        with loop._repeatable(vectors.device):
            (vectors[row] * weight).sum().backward()
        sums.add(vectors.grad.numpy().tobytes())
    torch.set_num_threads(before)
    assert len(sums) == 1
    assert not torch.are_deterministic_algorithms_enabled()
    assert loop.deterministic.fill_uninitialized_memory


_TOLD = """
import os

from arbo.cli import main
from arbo.training.dual.trainer import DualTrainer

batch = DualTrainer.batch


def told(self, step, mentions, rows):
    with open(f"rank{os.environ['RANK']}", "a") as file:
        print(len(rows), file=file)
    return batch(self, step, mentions, rows)


DualTrainer.batch = told
main()
"""
"""`arbo`, which tells how many mentions of each batch a process takes."""


@pytest.mark.skipif(not getattr(torch.distributed, "is_gloo_available", bool)(), reason="torch has no gloo")
def test_two_processes_train_as_one(
    bert_folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample_files(tmp_path))
    sample().train[:12].to_jsonl("few.jsonl")
    sample().dev[:4].to_jsonl("dev.jsonl")
    shutil.copytree(bert_folder, tmp_path / "bert")
    edit_json(tmp_path / "bert" / "config.json", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (tmp_path / "told.py").write_text(_TOLD, "utf-8")
    words = ["train", "encoder", "few.jsonl", "--kb", "kb.jsonl", "--dev", "dev.jsonl", "--encoder", "bert"]
    words += ["--set", "steps=3", "--set", "batch_size=16", "--set", "learning_rate=0.001", "--out"]
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    run(*words, "one").ok()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "told.py"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *words, "two"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert (tmp_path / f"rank{rank}").read_text("utf-8").split() == ["8"] * 3
    one, two = (log_of(tmp_path / out) for out in ("one", "two"))
    assert [line["step"] for line in two] == [line["step"] for line in one]
    for name in ("loss", "gradient"):
        assert [line[name] for line in two] == pytest.approx([line[name] for line in one], rel=1e-3)
    assert not (tmp_path / "two.training").exists()
    assert arbo.DualEncoder.from_pretrained(tmp_path / "two").config.entity_threshold is not None

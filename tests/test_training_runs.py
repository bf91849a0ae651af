"""What all trainings share: they resume after a kill, repeat, and stop at NaN; and what cannot be trained."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import training_builders as tb
from builders import edit_json, sample_files
from conftest import Run
from safetensors import SafetensorError
from training_builders import Killed, cross, document, dying, encoder, log_of, marked, sample, tiny, torch, weights

import arbo
from arbo.data.fingerprint import learnt_from, warnings_of
from arbo.encoders.tower import Tower
from arbo.errors import ArboError, DataError, UsageError
from arbo.training import frame as files, loop
from arbo.training.config import WITHOUT_KB
from arbo.training.dual import trainer as dual
from arbo.training.frame import checkpoints
from arbo.training.losses import LOSSES
from arbo.training.presets import PRESETS

TRAIN, DEV, BASE = sample()

pytestmark = pytest.mark.slow

SMALL = replace(tb.QUICK, positives="1rand", negatives="mixed", epochs=2, batch_size=10, refresh=2)


def dual_training(tower: Tower, kb: bool = True, **given: Any) -> Any:
    return arbo.train(encoder(tower), TRAIN[:4], BASE if kb else None, dev=DEV[:5], **given)


def cross_training(tower: Tower, linker: arbo.Linker | None = None, candidates: int = 3, **given: Any) -> Any:
    start = cross(tower, candidates=candidates)
    return arbo.train_reranker(start, linker or arbo.Linker(BASE), TRAIN[:1], dev=DEV[:1], **given)


def context_training(tower: Tower, **given: Any) -> Any:
    return arbo.train(encoder(tower, **tb.AROUND), TRAIN[:4], dev=DEV[:5], **given)


def names_training(tower: Tower, **given: Any) -> Any:
    trained = arbo.train_self_alignment(encoder(tower, pooling="cls", entity_threshold=0.3), tb.KB, **given)
    assert trained.config == arbo.EncoderConfig(pooling="cls")
    return trained


def finder_training(tower: Tower, **given: Any) -> Any:
    return arbo.train_oslat(arbo.LabelAttention.of(tower, tb.READS), tb.DOCUMENTS, tb.KB, **given)


MIXED_UP: dict[str, Any] = {"micro_batch": 3, "mixup": 0.3, "refresh": 2, "batch_size": 8, "learning_rate": 1e-3}
KINDS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "dual": (SMALL, dual_training),
    **{f"dual, {key}": (replace(tb.QUICK, batch_size=6, steps=3, **tb.PARTS[key]), dual_training) for key in tb.PARTS},
    "dual, no kb": (replace(WITHOUT_KB, loss="arborescence", steps=3, **MIXED_UP), partial(dual_training, kb=False)),
    "context": (replace(PRESETS["context"][0], batch_size=9, steps=3, learning_rate=1e-3), context_training),
    "cross": (replace(tb.QUICK_CROSS, epochs=2, optimizer="adamw", precision="bfloat16"), cross_training),
    "names": (arbo.SelfAlignmentConfig(epochs=3, batch_size=8, n_negatives=6, learning_rate=1e-3), names_training),
    "finder": (replace(tb.QUICK_OSLAT, epochs=2), finder_training),
}
"""Of each kind of training its settings, and what trains a tower with them; further arguments have names."""

Unbroken = namedtuple("Unbroken", "out trained moves")
"""What a training comes to if nothing interrupts it, and how many files and folders were moved and removed."""


@pytest.fixture(scope="session")
def unbroken(bert: Tower, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Unbroken]:
    @cache
    def of(name: str) -> Unbroken:
        out, before = tmp_path_factory.mktemp("unbroken") / "model", weights(encoder(bert))
        with dead_after(10**6, out.parent) as moves:
            trained = begin(name, bert, out)
        assert all(map(torch.equal, weights(encoder(bert)), before))  # the start is not changed
        assert not all(map(torch.equal, weights(trained), before))
        return Unbroken(out, trained, next(moves))

    return of


def test_a_trained_model_knows_what_it_learnt_from(unbroken: Callable[[str], Unbroken]) -> None:
    for name, learnt in {"dual": TRAIN[:4], "cross": TRAIN[:1], "finder": tb.DOCUMENTS, "names": []}.items():
        out, trained, _ = unbroken(name)
        assert trained.learnt == learnt_from(arbo.Corpus.of(learnt).tables)
        assert type(trained).from_pretrained(out).copy().learnt == trained.learnt
    for linker, words in (
        (arbo.Linker(BASE, unbroken("dual").trained), "4 of 5 documents are among those that the encoder"),
        (arbo.Linker(BASE, reranker=unbroken("cross").trained), "1 of 5 documents are among those that the reranker"),
    ):
        assert words in str(linker.link(TRAIN[:5]).warnings)
    assert not warnings_of(arbo.Corpus.of(TRAIN[4:9]).tables, {"it": unbroken("dual").trained})


def begin(name: str, bert: Tower, out: Path, announce: Any = arbo.progress.quiet, **changes: Any) -> Any:
    (config, train), options = KINDS[name], arbo.RunOptions(checkpoint_every=2, announce=announce)
    return train(bert, out=out, config=replace(config, **changes), options=options)


def assert_as_unbroken(unbroken: Unbroken, out: Path, trained: Any) -> None:
    assert log_of(out) == log_of(unbroken.out)
    assert all(map(torch.equal, weights(trained), weights(unbroken.trained)))
    assert trained.config == unbroken.trained.config
    left = {path.name for path in out.parent.iterdir() if not path.name.startswith(".arbo-partial-")}
    assert left == {out.name, f"{out.name}.log.jsonl"}


@pytest.mark.parametrize("name", KINDS)
def test_an_interrupted_training_goes_on_unchanged(bert: Tower, tmp_path: Path, unbroken: Any, name: str) -> None:
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
    begin(name, bert, tmp_path / "other", seed=1, steps=1)
    assert log_of(tmp_path / "other")[0]["loss"] != lines[0]["loss"]  # the seed decides


def test_documents_and_the_first_stage_are_part_of_a_training(bert: Tower, tmp_path: Path) -> None:
    config = replace(tb.QUICK_CROSS, steps=1)
    run = partial(arbo.train, encoder(bert), out=tmp_path / "model", config=tb.QUICK)
    rerank = partial(cross_training, bert, out=tmp_path / "cross")
    for begun in (partial(run, TRAIN, BASE), partial(rerank, config=config)):
        with pytest.raises(Killed):
            begun(options=arbo.RunOptions(announce=dying(0)))
    with pytest.raises(UsageError, match="belongs to another training run, which differs in documents"):
        run(TRAIN[1:], BASE)
    for changes in (
        {"candidates": 4},
        {"linker": arbo.Linker(BASE, arbo.NgramEncoder(alias_weight=0.1))},
        {"linker": arbo.Linker(BASE, config=arbo.LinkerConfig(expand_abbreviations=False))},
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
    with pytest.raises(Killed), dead_after(place % unbroken("dual").moves, tmp_path):
        begin("dual", bert, tmp_path / "model")
    assert_as_unbroken(unbroken("dual"), tmp_path / "model", begin("dual", bert, tmp_path / "model"))


@pytest.mark.parametrize("error", [SafetensorError("I/O error: No space left on device"), OSError(28, "No space left")])
def test_a_full_disk_keeps_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    save = partial(files.save_checkpoint, tmp_path)
    rest: Any = torch.nn.Linear(1, 1), torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]), {}
    save(files.State(1), *rest)
    with monkeypatch.context() as patch:
        patch.setattr(files, "save_file", Mock(side_effect=error))
        with pytest.raises(UsageError, match=r"cannot write a checkpoint in .*No space left.*goes on"):
            save(files.State(2), *rest)
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000001"]
    for _ in range(2):  # the second is at a step that is there already
        save(files.State(2), *rest)
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000002"]


def test_the_best_of_the_checkpoint_is_written(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_smaller_micro_batch_goes_on_and_no_damaged_checkpoint(bert: Tower, unbroken: Any, tmp_path: Path) -> None:
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


def test_a_file_system_without_locks(bert: Tower, unbroken: Any, tmp_path: Path, caplog: Any) -> None:
    failed = OSError(errno.ENOSYS, "Function not implemented")
    with patch.object(pytest.importorskip("fcntl"), "flock", side_effect=failed):
        assert_as_unbroken(unbroken("names"), tmp_path / "model", begin("names", bert, tmp_path / "model"))
    assert "cannot lock" in caplog.text


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("model.training/own", r"model\.training exists and is not a training folder; move it"),
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
    good, epoch = LOSSES["arborescence"], next(i["step"] for i in log_of(unbroken("dual").out) if "recall@1" in i)
    factor = itertools.chain([1] * epoch, itertools.repeat(float("nan")))
    monkeypatch.setitem(LOSSES, "arborescence", lambda *given: good(*given) * next(factor))
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
def test_two_processes_are_one(bert_folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


TWO, ALONE = marked((("A",), None), (("A",), None)), marked((("A",), None), (None, "A2"), (None, None))
LONELY = arbo.Corpus([document("d", "the marsh fever", ["E0"])])
ONE_ENTITY = arbo.KnowledgeBase([arbo.Entity("E0", "fever", aliases=("marsh",))])
ONE_NAME = arbo.KnowledgeBase([arbo.Entity("E", "fever", aliases=("FEVER",)), arbo.Entity("F", "cancer")])
OTHER = arbo.KnowledgeBase([arbo.Entity(f"Z{i}", "nothing of the kind") for i in range(2)])
ELSEWHERE = arbo.Corpus(replace(document, domain="elsewhere") for document in sample().dev)


def dual_of(documents: Any = None, kb: Any = None, start: Any = encoder, dev: Any = None, **changes: Any) -> Any:
    """Return a function that trains a dual-encoder, without a knowledge base unless ``documents`` is None."""
    config = replace(WITHOUT_KB if documents is not None and kb is None else tb.QUICK, **changes)
    documents, kb = (sample().train, kb or sample().kb) if documents is None else (documents, kb)
    return lambda bert, out: arbo.train(start(bert), documents, kb, out=out, dev=dev, config=config)


def cross_of(linker: arbo.Linker, dev: Any = None, **changes: Any) -> Any:
    return lambda bert, out: arbo.train_reranker(cross(bert, **changes), linker, sample().train, out=out, dev=dev)


def names_of(kb: Any, start: Any = encoder) -> Any:
    return lambda bert, out: arbo.train_self_alignment(start(bert), kb, out=out)


def finder_of(documents: Any, kb: Any) -> Any:
    return lambda bert, out: arbo.train_oslat(arbo.LabelAttention.of(bert, tb.READS), documents, kb, out=out)


def two_towers(bert: Tower) -> arbo.DualEncoder:
    return encoder(bert).with_two_towers()


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (dual_of(TWO, []), r"needs a knowledge base, not list; read one, .* KnowledgeBase\.of"),
        (names_of([]), "needs a knowledge base, not list"),
        (finder_of(tb.DOCUMENTS, None), "needs a knowledge base, not NoneType"),
        (dual_of(negatives="in-batch", batch_size=1), "a batch of one mention has none; choose a larger batch_size"),
        (dual_of(marked((None, None)), tb.KB), r"nothing to train on: no mention \(of 1\) has a gold id; annotate"),
        (dual_of(kb=OTHER), "nothing to train on: no annotated mention"),
        (dual_of(dev=ELSEWHERE), "nothing to choose the best model by"),
        (dual_of(TWO, positives="entity"), "positives 'entity' needs a knowledge base; without one, choose for"),
        (dual_of(TWO, negatives="mixed"), "negatives 'mixed' needs a knowledge base"),
        (
            dual_of(TWO, positives="all", negatives="knn"),
            "need an encoder that reads as preset",
        ),
        (dual_of(TWO, best="recall@16"), "best 'recall@16' needs a knowledge base; without one, choose .* 'ari'"),
        (dual_of(TWO, start=two_towers), "two towers needs a knowledge base; without one"),
        (dual_of(ALONE), r"nothing to train on: no annotated mention \(of 2\)"),
        (dual_of(marked((None, None))), r"no mention \(of 1\) has a gold id or gold cluster; annotate"),
        (dual_of(TWO, dev=ALONE), "nothing to choose the best model by: .* cluster of another"),
        (cross_of(arbo.Linker()), "training needs a knowledge base"),
        (lambda bert, out: cross_of(arbo.Linker(sample().kb, reranker=cross(bert)))(bert, out), "has a reranker"),
        (cross_of(arbo.Linker(sample().kb), candidates=1), "at least 2 candidates, not 1; set candidates"),
        (cross_of(arbo.Linker(list(sample().kb)[:1])), "at least 2 candidates, not 1; .* a larger knowledge base"),
        (cross_of(arbo.Linker(OTHER)), "nothing to train on"),
        (cross_of(arbo.Linker(sample().kb), dev=ELSEWHERE), "nothing to choose the best model by"),
        (finder_of([document("d", "mention", ["E3"])], tb.KB), "nothing to train on: of 1 entities"),
        (finder_of([document("d", "mention", ["E9"])], tb.KB), "nothing to train on: of 0 entities"),
        (finder_of(tb.DOCUMENTS[2:3], ONE_ENTITY), "nothing to train on: of 1 entities"),
        (finder_of(LONELY, tb.KB), "nothing to train on: of 1 entities"),
        (names_of(ONE_ENTITY), "nothing to train on: of 1 entities"),
        (names_of(ONE_NAME), "nothing to train on: of 2 entities"),
        (names_of(tb.KB, two_towers), "aligned one by one with one tower"),
        (names_of(tb.KB, partial(encoder, entity_view="whole")), "with entity_view names"),
    ],
)
def test_what_cannot_be_trained(bert: Tower, tmp_path: Path, train: Any, words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        train(bert, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_knowledge_base_smaller_than_the_candidates(bert: Tower, tmp_path: Path) -> None:
    documents, kb = tiny([("E1",), ("E2", "E3"), None])
    start, out = cross(bert, candidates=64), tmp_path / "cross"
    trained = arbo.train_reranker(start, arbo.Linker(kb), documents, dev=documents, out=out, config=tb.QUICK_CROSS)
    assert trained.config.candidates == 64

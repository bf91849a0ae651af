"""The training loop: it learns, repeats, goes on after a kill, and stops without harm."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

import arbo
from arbo.errors import DataError, UsageError

torch = pytest.importorskip("torch")

from accelerate import Accelerator  # noqa: E402
from accelerate.utils import InitProcessGroupKwargs  # noqa: E402

from arbo.encoders.tower import Tower  # noqa: E402
from arbo.progress import quiet  # noqa: E402
from arbo.retrieval import mention_inputs  # noqa: E402
from arbo.training import loop  # noqa: E402
from arbo.training.checkpoints import LOCK, checkpoints, locked  # noqa: E402
from arbo.training.config import NegativeStrategy, PositiveStrategy, TrainingConfig  # noqa: E402
from arbo.training.data import TrainingSet  # noqa: E402
from arbo.training.dual import trainer as dual  # noqa: E402
from arbo.training.dual.batches import Batch, Reader  # noqa: E402
from arbo.training.dual.development import development_scores  # noqa: E402
from arbo.training.dual.plan import Plan  # noqa: E402
from arbo.training.dual.snapshot import Snapshot  # noqa: E402
from arbo.training.dual.trainer import DualTrainer, train  # noqa: E402
from arbo.training.loop import TrainingError, accelerator_of  # noqa: E402
from arbo.training.losses import LOSSES  # noqa: E402
from arbo.training.presets import PRESETS  # noqa: E402

pytestmark = pytest.mark.slow

QUICK = TrainingConfig(
    positives="entity",
    negatives="random",
    n_negatives=4,
    loss="arborescence",
    scale=20.0,
    epochs=1,
    batch_size=32,
    learning_rate=1e-3,
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


def test_a_tiny_model_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    reads = arbo.EncoderConfig.in_context(max_length=48, context=5, pooling="mention", metric="cosine")
    start = arbo.DualEncoder(bert, bert, reads).with_markers()
    config = replace(PRESETS["arboel"].training, n_negatives=6, epochs=3, batch_size=32, learning_rate=1e-3)
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
    config = replace(QUICK, positives=positives, negatives=negatives, batch_size=8, steps=2)
    train(encoder(bert), documents[:6], kb, out=tmp_path / "model", config=config)
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))


PARTS: dict[str, dict[str, Any]] = {
    "proxy": {"loss": "proxy", "negatives": "mixed"},
    "fgsm": {"loss": "proxy", "negatives": "in-batch", "regulariser": "fgsm", "micro_batch": 3},
    "mixup": {"loss": "bce", "negatives": "in-batch-hard", "mixup": 0.3},
    "all": {
        "loss": "bce",
        "negatives": "in-batch-hard",
        "mixup": 0.3,
        "regulariser": "fgsm",
        "micro_batch": 3,
        "precision": "bfloat16",
    },
}


@pytest.mark.parametrize("parts", PARTS)
def test_the_parts_of_other_papers_train_and_go_on_after_a_kill(
    bert: Tower, tmp_path: Path, sample: Any, parts: str
) -> None:
    documents, _, kb = sample
    config = replace(QUICK, batch_size=6, steps=3, **PARTS[parts])
    run = partial(train, encoder(bert), documents[:3], kb, config=config, checkpoint_every=1)

    def killing(what: str) -> Any:
        def show(items: Iterable[Any], total: int) -> Iterator[Any]:
            if what.startswith("training"):
                yield from itertools.islice(items, 1)
                raise Killed
            yield from items

        return show

    trained = run(out=tmp_path / "whole")
    with pytest.raises(Killed):
        run(out=tmp_path / "parts", announce=killing)
    again = run(out=tmp_path / "parts")
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert all(map(torch.equal, weights(trained), weights(again)))
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "whole"))


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_parts_of_other_papers_do_not_depend_on_the_micro_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, pooling: Any
) -> None:
    monkeypatch.setattr(torch.Tensor, "sign", lambda number: (100 * number).tanh())  # see test_training_fgsm.py
    documents, _, kb = sample
    found = []
    for micro_batch in (2, 10**6):
        settings = PARTS["all"] | {"micro_batch": micro_batch, "precision": "float32", "positives": "entity"}
        start = encoder(without_dropout(bert), pooling=pooling)
        it, batch = trainer_of(start, documents[:1], kb, tmp_path, **settings)
        it.add_gradients(0, batch, 1.0)
        found.append(gradients(it))
    assert float((found[0] - found[1]).norm()) < 1e-3 * float(found[1].norm())


@pytest.mark.parametrize("two_towers", [False, True])
@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_a_step_over_tokens_is_what_its_definition_says(
    bert: Tower, tmp_path: Path, sample: Any, two_towers: bool, metric: Any
) -> None:
    """Loss and gradient of one mention and one node at a time, without any padding."""
    documents, _, kb = sample
    start = encoder(without_dropout(bert), pooling="tokens", metric=metric)
    start = start.with_two_towers() if two_towers else start
    changes = {"positives": "entity", "negatives": "in-batch", "loss": "cross-entropy", "scale": 0.3}
    it, batch = trainer_of(start, documents[:2], kb, tmp_path, micro_batch=3, **changes)
    assert len({len(text.row.ids) for text in batch.texts}) > 2
    loss = it.add_gradients(0, batch, 1.0)
    own = gradients(it)
    it.optimizer.zero_grad()

    def tokens(place: int) -> Any:
        found = batch.texts[place].tower.model(torch.tensor([batch.texts[place].row.ids])).last_hidden_state[0]
        return torch.nn.functional.normalize(found, dim=1) if metric == "cosine" else found

    whole = torch.zeros(())
    for mention, nodes, exists in zip(batch.mention, batch.node, batch.exists, strict=True):
        query = tokens(mention)
        scores = torch.stack([(query @ tokens(node).T).max(dim=1).values.sum() for node in nodes[exists]])
        whole = whole - torch.log_softmax(0.3 * scores, dim=0)[0]
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert float((own - gradients(it)).norm()) < 1e-3 * float(own.norm())


@pytest.mark.parametrize("negatives", get_args(NegativeStrategy))
def test_tokens_are_trained_with_all_negatives(bert: Tower, tmp_path: Path, sample: Any, negatives: Any) -> None:
    documents, dev, kb = sample
    config = replace(QUICK, negatives=negatives, batch_size=8, steps=2, scale=1.0, loss="bce", mixup=0.3)
    run = partial(train, encoder(bert, pooling="tokens", metric="dot"), documents[:4], kb, dev=dev[:3], config=config)
    trained = run(out=tmp_path / "model")
    assert trained.config.pooling == "tokens"
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))
    again = arbo.Linker(kb, arbo.DualEncoder.from_pretrained(tmp_path / "model"))
    assert again.link(dev[:3]).link_table == arbo.Linker(kb, trained).link(dev[:3]).link_table


@pytest.mark.parametrize("positives", [name for name in get_args(PositiveStrategy) if name != "entity"])
def test_trees_of_mentions_need_one_vector_of_each(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, positives: Any
) -> None:
    documents, _, kb = sample
    monkeypatch.setattr(Tower, "encode", lambda *given: pytest.fail("something was read"))
    with pytest.raises(UsageError, match=f"positives '{positives}' .*: choose positives 'entity', or another pooling"):
        train(
            encoder(bert, pooling="tokens"),
            documents,
            kb,
            out=tmp_path / "m",
            config=replace(QUICK, positives=positives),
        )
    assert not list(tmp_path.iterdir())


def test_a_seed_repeats(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    runs = {
        name: train(
            encoder(bert), documents[:6], kb, dev=dev[:4], out=tmp_path / name, config=replace(QUICK, seed=seed)
        )
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    }
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b") != log_of(tmp_path / "c")
    assert all(map(torch.equal, weights(runs["a"]), weights(runs["b"])))


@pytest.mark.parametrize("micro_batch", [1, 5, 31])
def test_parts_of_a_batch_give_the_same_gradients(bert: Tower, tmp_path: Path, sample: Any, micro_batch: int) -> None:
    documents, _, kb = sample
    still = encoder(without_dropout(bert))
    config = replace(QUICK, negatives="in-batch", steps=2)
    train(still, documents, kb, out=tmp_path / "whole", config=config)
    train(still, documents, kb, out=tmp_path / "parts", config=replace(config, micro_batch=micro_batch))
    for whole, parts in zip(log_of(tmp_path / "whole"), log_of(tmp_path / "parts"), strict=True):
        assert parts == pytest.approx(whole, rel=1e-3)


def trainer_of(
    start: arbo.DualEncoder, documents: Iterable[Any], kb: Any, folder: Path, **changes: Any
) -> tuple[DualTrainer, Batch]:
    """Make a trainer in training mode, and a batch of all mentions."""
    config = replace(QUICK, **{"positives": "1rand"} | changes)
    data = TrainingSet.of(arbo.Corpus.of(documents), kb)
    accelerator = accelerator_of(config)
    trainer = DualTrainer(start, data, None, config, folder, accelerator, quiet, 1, None, lambda figures: None)
    trainer.plan = Plan.of(data, Snapshot.of(data, trainer.encoder), config, 0)
    trainer.model.train()
    return trainer, trainer.reader.batch(
        data.queries, trainer.plan.nodes(data, trainer.reader.owner, data.queries, trainer.config, 0)
    )


def gradients(trainer: DualTrainer) -> Any:
    return torch.cat(
        [weight.grad.flatten() for weight in trainer.encoder.module.parameters() if weight.grad is not None]
    )


@pytest.mark.parametrize("two_towers", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradients_through_their_cache(
    bert: Tower, tmp_path: Path, sample: Any, two_towers: bool, precision: Any
) -> None:
    """With dropout: as if all parts were in memory at once, each with the dropout that it has."""
    documents, _, kb = sample
    start = encoder(bert).with_two_towers() if two_towers else encoder(bert)
    n_parts = 3
    micro_batch = -(-len(TrainingSet.of(arbo.Corpus.of(documents[:4]), kb).queries) // n_parts)
    it, batch = trainer_of(start, documents[:4], kb, tmp_path, micro_batch=micro_batch, precision=precision)
    loss = it.add_gradients(5, batch, 1.0)
    cached = gradients(it)
    it.optimizer.zero_grad()
    parts = []
    for i in range(n_parts):
        torch.manual_seed(int(np.random.SeedSequence([it.config.seed, 5, i]).generate_state(1)[0]))
        parts.append(it.model(batch, slice(i, None, n_parts)))
    at_once = torch.stack([parts[i % n_parts][i // n_parts] for i in range(len(batch.texts))])
    pairs = it.reader.pairs(batch, at_once, slice(None))
    whole = LOSSES["arborescence"](it.config.scale * pairs.scores, pairs.exists).sum()
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    tolerance = 1e-5 if precision == "float32" else 1e-2
    assert float((cached - gradients(it)).norm()) < tolerance * float(cached.norm())


@pytest.mark.parametrize("micro_batch", [1, 7, 10**6])
def test_a_text_of_a_batch_gets_its_gradient_once(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, micro_batch: int
) -> None:
    documents, _, kb = sample
    encode, read = Tower.encode, []

    def watched(tower: Tower, rows: Any, pooling: Any) -> Any:
        if torch.is_grad_enabled():
            read.append([tuple(row.ids) for row in rows])
        return encode(tower, rows, pooling)

    for negatives in ("in-batch", "knn"):
        changes = {"micro_batch": micro_batch, "negatives": negatives}
        it, batch = trainer_of(encoder(bert), documents[:4], kb, tmp_path, **changes)
        read.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Tower, "encode", watched)
            it.add_gradients(0, batch, 1.0)
        n_mentions, n_texts = len(batch.mention), len(batch.texts)
        distinct = [tuple(text.row.ids) for text in batch.texts]
        assert len(set(distinct)) == n_texts
        assert sorted(row for rows in read for row in rows) == sorted(distinct)
        n_parts = min(-(-n_mentions // micro_batch), n_texts)
        assert max(map(len, read)) <= -(-n_texts // n_parts)  # what is in memory at once


@pytest.mark.parametrize("batch_size", [1, 5])
def test_processes_share_a_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    documents, _, kb = sample
    still = encoder(without_dropout(bert))
    config = replace(QUICK, batch_size=batch_size, micro_batch=2, steps=1)
    backward, n_backward = Accelerator.backward, []
    monkeypatch.setattr(Accelerator, "backward", lambda *given: n_backward.append(1) or backward(*given))
    train(still, documents, kb, out=tmp_path / "whole", config=config)
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    shares = []
    for rank in (0, 1):
        n_backward.clear()
        monkeypatch.setattr(Accelerator, "process_index", rank)
        train(still, documents, kb, out=tmp_path / str(rank), config=config)
        shares.append(log_of(tmp_path / str(rank))[0]["loss"])
        assert n_backward  # without which the other process would wait for ever
    assert sum(shares) == pytest.approx(log_of(tmp_path / "whole")[0]["loss"], rel=1e-5)


def of_two_processes(monkeypatch: pytest.MonkeyPatch, of_a_step: Callable[[], Any]) -> Any:
    """Make the mean of what two processes make of a step, as they take it of their gradients before they step."""
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(Accelerator, "process_index", rank)
        shares.append(of_a_step())
    return sum(shares) / 2


@pytest.mark.parametrize("micro_batch", [2, 10**6])
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, micro_batch: int
) -> None:
    """As they take the mean of their gradients before they step."""
    documents, _, kb = sample

    def of_a_step() -> Any:
        changes = {"micro_batch": micro_batch, "negatives": "in-batch", "clip": None}
        it, _ = trainer_of(encoder(without_dropout(bert)), documents[:4], kb, tmp_path, **changes)
        it.step(0, it.data.queries)
        return gradients(it)

    whole = of_a_step()
    assert float((of_two_processes(monkeypatch, of_a_step) - whole).norm()) < 1e-4 * float(whole.norm())


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


@pytest.fixture(scope="module")
def small(bert: Tower, sample: Any) -> Any:
    """Begin a small training, or go on with it; everything in it that can be interrupted is."""
    documents, dev, kb = sample

    def run(out: Path, **options: Any) -> arbo.DualEncoder:
        return train(encoder(bert), documents[:4], kb, **{"dev": dev[:5], "out": out, "checkpoint_every": 2} | options)

    return partial(run, config=SMALL)


SMALL = replace(QUICK, positives="1rand", negatives="mixed", epochs=2, batch_size=10, refresh=2)


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
    def killing(what: str) -> Any:
        def show(items: Iterable[Any], total: int) -> Iterator[Any]:
            for done, item in enumerate(items):
                if what.startswith("training") and done == after:
                    raise Killed
                yield item

        return show

    out = tmp_path / "model"
    with pytest.raises(Killed):
        small(out, announce=killing)
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
from test_training_loop import train_from_folder
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


def train_from_folder(folder: str, out: str) -> None:
    torch.set_num_threads(1)
    documents, kb = arbo.load_sample()
    config = TrainingConfig(positives="entity", negatives="in-batch", epochs=4, batch_size=16, learning_rate=1e-3)
    start = arbo.DualEncoder.from_pretrained(folder, device="cpu")
    train(start, documents[:20], kb, out=out, config=config, checkpoint_every=3)


def test_two_processes_do_not_train_in_one_folder(small: Any, unbroken: Unbroken, tmp_path: Path) -> None:
    out = tmp_path / "model"

    def killed_while_another_begins(what: str) -> Any:
        if what.startswith("training"):
            before = sorted(path.name for path in out.with_name("model.training").iterdir())
            with pytest.raises(UsageError, match=r"another process is training in .* or name another --out"):
                small(out)
            with pytest.raises(UsageError, match="another process"):  # not: is of another training, delete it
                small(out, config=replace(SMALL, seed=5))
            assert sorted(path.name for path in out.with_name("model.training").iterdir()) == before
            raise Killed
        return quiet(what)

    with pytest.raises(Killed):
        small(out, announce=killed_while_another_begins)
    assert_as_unbroken(unbroken, out, small(out))  # a lock is not left behind


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


def test_a_file_system_without_locks(
    small: Any, unbroken: Unbroken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def fail(*given: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert_as_unbroken(unbroken, tmp_path / "model", small(tmp_path / "model"))
    assert "cannot be locked (Function not implemented)" in caplog.text


def test_other_processes_wait_for_the_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(loop, "Accelerator", lambda **named: given.update(named))
    accelerator_of(QUICK)
    (limit,) = [handler.timeout for handler in given["kwargs_handlers"] if isinstance(handler, InitProcessGroupKwargs)]
    assert limit >= timedelta(days=1)


def test_what_a_look_embedded_is_not_embedded_again(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, dev, kb = sample
    embed, scores = Tower.embed, iter([0.1, 0.3, 0.2])
    n_texts: list[int] = []  # since the last event
    events: list[tuple[str, int]] = []

    def watched(tower: Tower, rows: Any, *given: Any, **named: Any) -> Any:
        n_texts.append(len(rows))
        return embed(tower, rows, *given, **named)

    def noted(owner: Any, name: str) -> None:
        act = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            result = act(*given, **named)
            events.append((name, sum(n_texts)))
            n_texts.clear()
            return result

        monkeypatch.setattr(owner, name, call)

    kept = []
    monkeypatch.setattr(Tower, "embed", watched)
    monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})
    for owner, name in ((Snapshot, "of"), (dual, "_with_thresholds")):
        noted(owner, name)
    save = loop.save_checkpoint

    def saved(folder: Path, *given: Any) -> None:
        save(folder, *given)
        kept.append(sorted(int(path.name) for path in (folder / "embeddings").iterdir()))

    monkeypatch.setattr(loop, "save_checkpoint", saved)
    config = replace(QUICK, epochs=3, batch_size=10**6, negatives="knn")
    train(encoder(bert), documents[:4], kb, dev=dev[:5], out=tmp_path / "model", config=config)
    n_names = len({name.casefold() for name in kb.names().names})
    assert [name for name, _ in events] == ["of"] * 6 + ["_with_thresholds"]
    numbers = [number for _, number in events]
    for whole in (0, 1, 3, 5):  # the first plan, and each look
        assert numbers[whole] > n_names / 2
    for found in (2, 4):  # the other plans have mentions of their own to embed
        assert numbers[found] <= len(TrainingSet.of(arbo.Corpus.of(documents[:4]), kb).inputs)
    assert numbers[6] == 0
    assert kept == [[1], [2], [2, 3]]


def test_the_order_is_drawn_once_an_epoch(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, epochs = loop.order_of, []
    monkeypatch.setattr(loop, "order_of", lambda *given: epochs.append(given[2]) or draw(*given))
    small(tmp_path / "model")
    assert epochs == [0, 1]
    assert len(log_of(tmp_path / "model")) > 4


def test_another_training_is_not_continued(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample

    def fail(what: str) -> Any:
        raise Killed

    with pytest.raises(Killed):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK, announce=fail)
    for changed, named in (({"seed": 5}, "seed"), ({"epochs": 2, "loss": "proxy"}, "loss, epochs|epochs, loss")):
        with pytest.raises(UsageError, match=rf"is of another training, with other ({named}) \("):
            train(encoder(bert), documents, kb, out=tmp_path / "model", config=replace(QUICK, **changed))
    with pytest.raises(UsageError, match="is of another training, with other documents"):
        train(encoder(bert), documents[1:], kb, out=tmp_path / "model", config=QUICK)


def test_nothing_else_is_taken_for_a_training(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    (tmp_path / "model.training").mkdir()
    (tmp_path / "model.training" / "own").touch()
    with pytest.raises(UsageError, match=r"model\.training is in the way"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)


def test_nothing_that_is_there_is_lost(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    (tmp_path / "model.log.jsonl").touch()
    with pytest.raises(UsageError, match=r"model\.log\.jsonl is in the way"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "own").touch()
    with pytest.raises(UsageError, match="not a model that arbo saved"):
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


def test_no_annotation_at_all(bert: Tower, tmp_path: Path, sample: Any) -> None:
    _, _, kb = sample
    bare = [{"id": "d", "text": "fever", "mentions": [{"spans": [[0, 5]]}]}]
    with pytest.raises(DataError, match="nothing to train on: none of 1 mentions is annotated"):
        train(encoder(bert), bare, kb, out=tmp_path / "model", config=QUICK)


def test_no_gold_id_in_the_knowledge_base(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, _ = sample
    kb = arbo.KnowledgeBase([arbo.Entity("Z1", "nothing of the kind")])
    with pytest.raises(DataError, match="nothing to train on"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=QUICK)


def test_no_gold_id_of_the_development_documents(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    with pytest.raises(DataError, match="nothing to choose the best model by"):
        train(encoder(bert), documents, kb, dev=in_domain(dev, "elsewhere"), out=tmp_path / "model", config=QUICK)


def in_domain(documents: Iterable[arbo.Document], domain: str) -> list[arbo.Document]:
    return [replace(document, domain=domain) for document in documents]


def test_domains_keep_to_themselves(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    two = arbo.KnowledgeBase(
        [replace(entity, id=f"{domain}{entity.id}", domain=domain) for domain in "ab" for entity in kb]
    )

    def of(documents: Iterable[arbo.Document], domain: str, ids: str) -> list[arbo.Document]:
        return [
            replace(
                document,
                id=f"{domain}{ids}{document.id}",
                domain=domain,
                mentions=tuple(
                    replace(
                        mention,
                        id=f"{domain}{ids}{mention.id}",
                        document_id=f"{domain}{ids}{document.id}",
                        gold=None if mention.gold is None else tuple(f"{ids}{id_}" for id_ in mention.gold),
                    )
                    for mention in document.mentions
                ),
            )
            for document in documents
        ]

    alone = TrainingSet.of(arbo.Corpus.of(of(documents, "a", "a")), two)
    data = TrainingSet.of(
        arbo.Corpus.of([*of(documents, "a", "a"), *of(documents, "b", "b"), *of(documents, "a", "b")]), two
    )
    n = len(alone.inputs)
    assert (data.entity[:n] == alone.entity).all()
    assert (data.entity[n : 2 * n] == np.where(alone.entity < 0, -1, alone.entity + len(kb))).all()
    assert (data.entity[2 * n :] == -1).all()  # what they are of is in another domain
    scores = [development_scores(some, Snapshot.of(some, encoder(bert))) for some in (alone, data)]
    in_one = TrainingSet.of(arbo.Corpus.of(documents), kb)
    assert scores[0] == development_scores(in_one, Snapshot.of(in_one, encoder(bert)))
    for k in (1, 64):
        assert scores[1][f"recall@{k}"] == pytest.approx(scores[0][f"recall@{k}"] * 2 / 3)
    config = replace(QUICK, positives="arborescence", negatives="knn", steps=2)
    train(encoder(bert), of(documents, "b", "b"), two, out=tmp_path / "model", config=config)


@pytest.fixture
def homonyms() -> TrainingSet:
    """Mentions m1 to m4, and entities A to E, of the same names, in part but for case."""
    names = {"A": "fever", "B": "Fever", "C": "kidney", "D": "MARSH", "E": "cancer"}
    kb = arbo.KnowledgeBase([arbo.Entity(id_, name) for id_, name in names.items()])
    text = "marsh Marsh kidney cancer"
    spans = {"m1": (0, 5, "A"), "m2": (6, 11, "C"), "m3": (12, 18, "C"), "m4": (19, 25, "E")}
    mentions = [arbo.Mention(id_, "d", ((a, b),), text[a:b], gold=(gold,)) for id_, (a, b, gold) in spans.items()]
    return TrainingSet.of(arbo.Corpus.of([arbo.Document("d", text, tuple(mentions))]), kb)


@pytest.mark.parametrize("two_towers", [False, True])
def test_a_negative_that_reads_as_the_positive_or_the_mention_is_none(
    bert: Tower, homonyms: TrainingSet, two_towers: bool
) -> None:
    start = encoder(bert).with_two_towers() if two_towers else encoder(bert)
    a, b, c, d, m2, m3 = 0, 1, 2, 3, 6, 7
    batch = Reader.of(start, homonyms).batch(
        np.array([0, 2]), np.array([[a, b, c, d, m2, m3, -1], [c, a, b, d, m2, m3, 8]])
    )
    # What the tower of entities makes of the mention's name is not the mention's vector.
    assert batch.exists.tolist() == [
        [True, False, True, two_towers, False, True, False],
        [True, True, True, True, True, False, True],
    ]
    assert len(batch.texts) == (6 if two_towers else 4)
    assert (batch.mention[1] == batch.node[1, 0]) == (not two_towers)


@pytest.mark.parametrize(("pooling", "n_texts"), [("cls", 1), ("mean", 1), ("mention", 2), ("tokens", 1)])
def test_where_the_mention_is_counts_for_its_own_pooling_alone(bert: Tower, pooling: Any, n_texts: int) -> None:
    kb, text = arbo.KnowledgeBase([arbo.Entity("A", "fever")]), "kidney fever"
    spans = {"m1": (0, 6), "m2": (7, 12)}
    mentions = [arbo.Mention(id_, "d", ((a, b),), text[a:b], gold=("A",)) for id_, (a, b) in spans.items()]
    data = TrainingSet.of(arbo.Corpus.of([arbo.Document("d", text, tuple(mentions))]), kb)
    reads = arbo.EncoderConfig(mention="[CLS] {left} {mention} {right} [SEP]", pooling=pooling)
    reader = Reader.of(arbo.DualEncoder(bert, bert, reads), data)
    batch = reader.batch(np.array([0, 1]), np.array([[2], [1]]))
    assert len(batch.texts) == n_texts
    expected = bert.embed(reader.mentions.spell(reader.mentions.row), pooling)
    found = reader.encode(batch, slice(None)).detach().numpy()[batch.mention]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


def test_texts_are_read_in_batches_that_fill_the_device(
    bert: Tower, sample: Any, batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, _, kb = sample
    data = TrainingSet.of(arbo.Corpus.of(documents), kb)
    reader = Reader.of(encoder(bert), data)
    batch = reader.batch(data.queries, np.arange(len(data.queries))[:, None])
    for budget in (40, 10**6):
        monkeypatch.setattr(Tower, "tokens_a_batch", budget)
        with batches(bert) as shapes:
            vectors = reader.encode(batch, slice(None))
        assert sum(n for n, _ in shapes) == len(vectors) == len(batch.texts)
        assert all(n * longest <= budget or n == 1 for n, longest in shapes)
        assert (len(shapes) == 1) == (budget == 10**6)


def test_scores_are_not_rounded_in_bfloat16(bert: Tower, sample: Any) -> None:
    documents, _, kb = sample
    reader = Reader.of(encoder(bert, metric="dot"), TrainingSet.of(arbo.Corpus.of(documents), kb))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        batch = reader.batch(np.arange(4), np.arange(20).reshape(4, 5))
        scores = reader.pairs(batch, reader.encode(batch, slice(None)), slice(None)).scores
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, scores.bfloat16().float())


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_each_precision_in_one_process_from_weights_of_any(
    bert: Tower, bert_folder: Path, tmp_path: Path, sample: Any, precision: Any
) -> None:
    documents, _, kb = sample
    coarse = arbo.DualEncoder.from_pretrained(bert_folder, device="cpu", precision="bfloat16")
    config = replace(QUICK, steps=2, precision=precision)
    trained = train(coarse, documents, kb, out=tmp_path / "model", config=config)
    assert {value.dtype for value in trained.module.parameters()} == {torch.float32}
    figures = log_of(tmp_path / "model")
    train(encoder(bert), documents, kb, out=tmp_path / "fine", config=replace(config, precision="float32"))
    losses = [[line["loss"] for line in lines] for lines in (figures, log_of(tmp_path / "fine"))]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_the_thresholds_are_those_that_linking_does_best_with(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    trained = train(encoder(bert), documents, kb, dev=dev, out=tmp_path / "model", config=replace(QUICK, steps=2))
    tuning = arbo.Linker(kb, trained).tune(dev).tuning
    assert tuning is not None
    own = arbo.LinkerConfig()
    best = max(trial.score for trial in tuning.trials if (trial.method, trial.k) == (own.method, own.k))
    assert arbo.Linker(kb, trained).link(dev).evaluate().accuracy_with_nil == pytest.approx(best)


def test_tensorboard(bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, _, kb = sample
    config, shown = replace(QUICK, steps=2), []

    class Writer:
        def __init__(self, folder: Path, purge_step: int) -> None:
            shown.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            shown.append((name, value, step))

        def flush(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        train(encoder(bert), documents, kb, out=tmp_path / "model", config=config, tensorboard=tmp_path / "board")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    train(encoder(bert), documents, kb, out=tmp_path / "model", config=config, tensorboard=tmp_path / "board")
    assert shown[0] == (tmp_path / "board", 1)
    assert [entry for entry in shown if entry[0] == "loss"] == [
        ("loss", line["loss"], line["step"]) for line in log_of(tmp_path / "model")
    ]


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
    with pytest.raises(DataError, match="unknown: 'epoch'"):
        TrainingConfig.from_json(tmp_path / "b.json")


def test_what_the_start_embeds_comes_from_its_cache(
    bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, kb = arbo.load_sample()
    start = arbo.DualEncoder.from_pretrained(bert_folder, cache=tmp_path / "cache")
    start.encode_entities(kb)
    start.encode_mentions(mention_inputs(documents, expand_abbreviations=True))
    embedded: list[int] = []
    embed = Tower.embed
    monkeypatch.setattr(
        Tower, "embed", lambda self, rows, *more: embedded.append(len(rows)) or embed(self, rows, *more)
    )
    config = replace(PRESETS["arboel"].training, steps=1, batch_size=4, micro_batch=4, n_negatives=2)
    arbo.train(start, documents, kb, config=config, out=tmp_path / "model")
    assert not sum(embedded)

"""Training of cross-encoders: what is compared, the loss and its gradient, and a training from end to end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import arbo
from arbo.candidates import Candidates
from arbo.encoders import CROSS_PRESETS, CrossEncoder, CrossEncoderConfig
from arbo.errors import DataError, UsageError
from arbo.readers.jsonl import write_jsonl
from arbo.reranker import rerank

torch = pytest.importorskip("torch")

from test_training_loop import Killed, gradients, log_of, of_two_processes, weights, without_dropout  # noqa: E402

from arbo.cli import reranking as verb  # noqa: E402
from arbo.encoders.tower import Tower  # noqa: E402
from arbo.progress import quiet  # noqa: E402
from arbo.training.config import RerankingConfig  # noqa: E402
from arbo.training.cross import PairReader, RerankingSet, RerankingTrainer, Retrieved, train_reranker  # noqa: E402
from arbo.training.loop import accelerator_of  # noqa: E402
from arbo.training.presets import RERANKING_PRESETS  # noqa: E402

pytestmark = pytest.mark.slow

READS = CrossEncoderConfig(max_length=48, context=3, candidates=5)
QUICK = RerankingConfig(epochs=1, batch_size=4, micro_batch=3, learning_rate=1e-3)


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:4], documents[80:84], kb


def cross(tower: Tower, **changes: Any) -> CrossEncoder:
    return CrossEncoder.of(tower, replace(READS, **changes)).with_markers()


def trainer_of(
    start: CrossEncoder, documents: Iterable[Any], kb: arbo.KnowledgeBase, folder: Path, **changes: Any
) -> RerankingTrainer:
    """Make a trainer in training mode."""
    corpus = arbo.Corpus.of(documents)
    candidates = Candidates.of(arbo.Linker(kb), corpus, k=start.config.candidates)
    return trainer_on(start, Retrieved(corpus, kb, candidates, True), folder, **changes)


def trainer_on(start: CrossEncoder, given: Retrieved, folder: Path, **changes: Any) -> RerankingTrainer:
    config, data = replace(QUICK, **changes), RerankingSet.of(given)
    accelerator = accelerator_of(config)
    trainer = RerankingTrainer(start, data, None, config, folder, accelerator, quiet, 1, None, lambda figures: None)
    trainer.model.train()
    return trainer


# What is compared


def tiny(gold: list[tuple[str, ...] | None]) -> tuple[arbo.Corpus, arbo.KnowledgeBase]:
    """Mentions with gold ids, and entities E0 to E4."""
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 5),), "fever", gold=ids) for i, ids in enumerate(gold))
    names = ("fever", "kidney", "marsh", "cancer", "left kidney")
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", name) for i, name in enumerate(names)])
    return arbo.Corpus([arbo.Document("d", "fever", mentions)]), kb


def retrieved(gold: list[tuple[str, ...] | None], entities: list[list[int]]) -> Retrieved:
    documents, kb = tiny(gold)
    rows = np.array(entities, np.int32)
    scores = np.where(rows >= 0, -np.arange(rows.shape[1]), -np.inf)
    return Retrieved(documents, kb, Candidates(rows, scores, documents.fingerprint, kb.fingerprint, {}), True)


@pytest.mark.parametrize(
    ("gold", "candidates", "compared"),
    [
        (("E1",), [0, 1, 2], [1, 0, -1, 2]),
        (("E4",), [0, 1, 2], [4, 0, 1, -1]),  # in place of the last
        (("E4",), [0, 1, -1], [4, 0, 1, -1]),  # there is room
        (("E4",), [-1, -1, -1], [4, -1, -1, -1]),  # nothing was found
        (("E2",), [2, -1, -1], [2, -1, -1, -1]),
        (("E1", "E0"), [0, 1, 2], [1, -1, -1, 2]),  # no gold entity is pushed away,
        (("E4", "E0"), [0, 1, 2], [4, -1, 1, -1]),  # and the first one is the positive
        (("elsewhere",), [0, 1, 2], None),
        (("elsewhere", "E2"), [0, 1, 2], [2, 0, 1, -1]),
        ((), [0, 1, 2], None),
        (None, [0, 1, 2], None),
    ],
)
def test_the_gold_entity_comes_first_and_takes_the_place_of_the_last(
    gold: tuple[str, ...] | None, candidates: list[int], compared: list[int] | None
) -> None:
    data = RerankingSet.of(retrieved([("E0",), gold], [[0, 1, 2], candidates]))
    found = [data.nodes[place].tolist() for place in data.queries]
    assert found == [[0, -1, 1, 2], *([] if compared is None else [compared])]


def test_an_entity_that_reads_as_the_gold_one_is_none(bert: Tower) -> None:
    given = retrieved([("E0",)], [[0, 1, 2]])
    twins = arbo.KnowledgeBase(
        [replace(entity, name="fever") if place == 1 else entity for place, entity in enumerate(given.kb)]
    )
    data = replace(RerankingSet.of(given), kb=twins)
    batch = PairReader.of(cross(bert), data).batch(data.queries)
    assert batch.exists.tolist() == [[True, False, False, True]]
    assert len(batch.rows) == 2


def test_a_mention_with_nothing_to_choose_from_teaches_nothing(bert: Tower, tmp_path: Path) -> None:
    given = retrieved([("E0",), ("E1",)], [[0, -1], [-1, -1]])
    trainer = trainer_on(cross(bert), given, tmp_path)
    assert trainer.add_gradients(0, trainer.data.queries, 0.5) == 0
    assert not gradients(trainer).any()


# The loss and its gradient


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("micro_batch", "budget"), [(1, 10**6), (3, 90), (10**6, 400)])
def test_a_step_is_what_its_definition_says(
    bert: Tower,
    tmp_path: Path,
    sample: Any,
    monkeypatch: pytest.MonkeyPatch,
    pooling: Any,
    micro_batch: int,
    budget: int,
) -> None:
    """Loss and gradient in float64, one pair at a time, without any padding."""
    documents, _, kb = sample
    start = cross(without_dropout(bert), pooling=pooling)
    trainer = trainer_of(start, documents[:2], kb, tmp_path, micro_batch=micro_batch)
    monkeypatch.setattr(Tower, "tokens_a_batch", budget)
    queries = trainer.data.queries
    loss = trainer.add_gradients(0, queries, 1 / len(queries))
    own = gradients(trainer)
    exact = start.copy()
    exact.module.double()

    def score(mention: int, entity: int) -> Any:
        pairs = exact.pairs([trainer.data.inputs[mention]], arbo.KnowledgeBase([kb.entities[entity]]))
        (row,) = pairs.spell(np.array([0]), np.array([0]))
        hidden = exact.tower.model(input_ids=torch.tensor([row.ids])).last_hidden_state[0]
        return exact.tower.projection(hidden[0] if pooling == "cls" else hidden.mean(dim=0))[0]  # type: ignore[misc]

    whole = torch.zeros((), dtype=torch.float64)
    for mention in queries:
        gold, *others = (entity for entity in trainer.data.nodes[mention].tolist() if entity >= 0)
        right = score(mention, gold)
        scores = torch.stack([right, *(score(mention, entity) for entity in others)])
        whole = whole + (scores.exp().sum().log() - right) / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    assert float((own.double() - expected).norm()) < 1e-4 * float(expected.norm())


def test_pairs_of_like_length_go_through_the_model_together(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, batches: Any
) -> None:
    documents, _, kb = sample
    trainer = trainer_of(cross(bert), documents[:2], kb, tmp_path)
    monkeypatch.setattr(Tower, "tokens_a_batch", 200)
    batch = trainer.reader.batch(trainer.data.queries)
    with batches(trainer.encoder.tower) as shapes:
        scores = trainer.reader.encode(batch)
    assert sum(n for n, _ in shapes) == batch.exists.sum() == len(batch.rows)
    assert all(n * longest <= 200 or n == 1 for n, longest in shapes)
    assert [longest for _, longest in shapes] == sorted(longest for _, longest in shapes)
    assert ((scores != 0).numpy() == batch.exists).all()


def test_copies_are_worse(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    start = cross(without_dropout(bert))
    trainer = trainer_of(start, documents[:1], kb, tmp_path, regulariser="fgsm", epsilon=1e-3, adversarial_weight=0.5)
    batch = trainer.reader.batch(trainer.data.queries)
    clean, copies = trainer.reader.encode(batch), trainer.reader.perturbed(batch, 1e-3, 0)
    change = (copies - clean).detach().numpy()
    assert (change[:, 0] < 0).all()
    assert (change[:, 1:][batch.exists[:, 1:]] > 0).all()
    assert torch.equal(trainer.reader.perturbed(batch, 0.0, 0), clean)
    exists = torch.from_numpy(batch.exists)
    plain, worse = (
        -torch.log_softmax(scores.masked_fill(~exists, -torch.inf), dim=1)[:, 0].sum() for scores in (clean, copies)
    )
    assert float(trainer.loss_of(batch, 0, 0).detach()) == pytest.approx(
        float((plain + 0.5 * worse).detach()), rel=1e-5
    )
    assert worse > plain


@pytest.mark.parametrize("regulariser", ["none", "fgsm"])
@pytest.mark.parametrize("micro_batch", [1, 10**6])
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, micro_batch: int, regulariser: Any
) -> None:
    documents, _, kb = sample
    monkeypatch.setattr(torch.Tensor, "sign", lambda number: (100 * number).tanh())  # see test_training_fgsm.py

    def of_a_step() -> Any:
        changes = {"micro_batch": micro_batch, "regulariser": regulariser, "clip": None}
        it = trainer_of(cross(without_dropout(bert)), documents[:1], kb, tmp_path, **changes)
        it.step(0, it.data.queries)
        return gradients(it)

    whole = of_a_step()
    assert float((of_two_processes(monkeypatch, of_a_step) - whole).norm()) < 1e-3 * float(whole.norm())


# From end to end


def test_a_tiny_cross_encoder_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    dev, linker, out = documents[60:], arbo.Linker(kb), tmp_path / "cross"
    reads = CrossEncoderConfig(mention="[CLS] {mention} [SEP]", entity="{name} [SEP]", max_length=32, candidates=4)
    start = CrossEncoder.of(without_dropout(bert), reads)
    before = [value.clone() for value in start.module.state_dict().values()]
    config = replace(QUICK, epochs=2, batch_size=4, micro_batch=4)
    trained = train_reranker(start, linker, documents[:60], dev=dev, out=out, config=config)
    assert all(map(torch.equal, start.module.state_dict().values(), before))
    candidates = Candidates.of(linker, dev, k=4)

    def scores(model: CrossEncoder) -> Any:
        return rerank(model, candidates, dev, kb).evaluate(dev, kb)

    assert scores(trained).recall[1] > scores(start).recall[1] + 0.1
    looks = [line for line in log_of(out) if "accuracy" in line]
    assert max(line["accuracy"] for line in looks) == pytest.approx(scores(trained).accuracy, abs=1e-9)
    best = max(looks, key=lambda line: line["accuracy"])
    assert best["accuracy_normalized"] == pytest.approx(scores(trained).accuracy_normalized, abs=1e-9)
    assert trained.config == reads
    assert trained.settings["weights"] == CrossEncoder.from_pretrained(out).settings["weights"]
    assert {path.name for path in tmp_path.iterdir()} == {"cross", "cross.log.jsonl"}


@pytest.mark.parametrize("changes", [{}, {"regulariser": "fgsm", "optimizer": "adamw", "micro_batch": 1}])
def test_an_interrupted_training_goes_on_with_the_same_losses(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    documents, dev, kb = sample
    config = replace(QUICK, epochs=2, batch_size=4, **changes)

    def run(out: str, dying_after: int | None = None) -> CrossEncoder:
        def announce(what: str) -> Any:
            def show(items: Iterable[Any], total: int) -> Iterator[Any]:
                if what.startswith("training") and dying_after is not None:
                    yield from itertools.islice(items, dying_after)
                    raise Killed
                yield from items

            return show

        linker = arbo.Linker(kb, announce=announce)
        return train_reranker(
            cross(bert, candidates=3),
            linker,
            documents[:1],
            dev=dev[:1],
            out=tmp_path / out,
            config=config,
            checkpoint_every=2,
        )

    trained = run("whole")
    for dying_after in (1, 2):
        with pytest.raises(Killed):
            run("parts", dying_after)
    with monkeypatch.context() as patch:
        patch.setattr(Candidates, "of", lambda *given, **named: pytest.fail("candidates were found again"))
        again = run("parts")
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert len(log_of(tmp_path / "whole")) > 3
    assert all(map(torch.equal, weights(trained), weights(again)))  # type: ignore[arg-type]


@pytest.fixture
def interrupted(bert: Tower, tmp_path: Path, sample: Any) -> Any:
    """Interrupt a training before its first step, and begin it again, changed."""
    documents, dev, kb = sample

    def fail(what: str) -> Any:
        if what.startswith("training"):
            raise Killed
        return quiet(what)

    def run(**changes: Any) -> CrossEncoder:
        given = {"start": cross(bert), "linker": arbo.Linker(kb), "config": replace(QUICK, steps=1)} | changes
        start, linker = given.pop("start"), given.pop("linker")
        return train_reranker(start, linker, documents[:1], dev=dev[:1], out=tmp_path / "cross", **given)

    with pytest.raises(Killed):
        run(linker=arbo.Linker(kb, announce=fail))
    return run


@pytest.mark.parametrize("name", ["documents", "dev"])
def test_stale_candidates_are_refused(interrupted: Any, tmp_path: Path, sample: Any, name: str) -> None:
    documents, dev, kb = sample
    file = tmp_path / "cross.training" / f"candidates-{name}.parquet"
    whole = file.read_bytes()
    other = arbo.KnowledgeBase(list(kb)[:50])
    for linker, corpus, said in (
        (arbo.Linker(kb), documents[1:2], "other documents"),
        (arbo.Linker(other), {"documents": documents, "dev": dev}[name][:1], "another knowledge base"),
    ):
        Candidates.of(linker, corpus, k=5).save(file)
        with pytest.raises(DataError, match=f"{file.name}: .*{said}.*: delete the file"):
            interrupted()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"no file of candidates .*: delete the file"):
        interrupted()
    file.unlink()
    interrupted()
    assert not file.parent.exists()


def test_candidates_of_a_run(bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, dev, kb = sample
    linker = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=8))
    found = {name: Candidates.of_result(linker.link(corpus), kb) for name, corpus in (("dev", dev), ("all", documents))}
    once = replace(QUICK, steps=2)
    searched, given = (tmp_path / name for name in ("searched", "given"))
    train_reranker(cross(bert), linker, documents, dev=dev, config=once, out=searched)
    with monkeypatch.context() as patch:
        patch.setattr(Candidates, "of", lambda *given, **named: pytest.fail("candidates were found again"))
        train_reranker(cross(bert), linker, documents, dev=dev, candidates=found, config=once, out=given)
    assert log_of(given) == log_of(searched)


def test_given_candidates_that_do_not_fit(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    linker, other = arbo.Linker(kb), arbo.Linker(kb, arbo.NgramEncoder(alias_weight=0.1))

    def of(linker: arbo.Linker, k: int = 5) -> Candidates:
        return Candidates.of(linker, documents, k=k)

    good = of(linker)
    chosen = linker.configured(reranker=cross(bert, candidates=2))
    for given, error, said in (
        ({"mine": Candidates.of(linker, dev[:1], k=5)}, DataError, "mine: .*made with other documents"),
        ({"mine": replace(good, knowledge_base="other")}, DataError, "mine: .*another knowledge base"),
        ({"mine": of(linker, k=4)}, DataError, "mine: 4 candidates of each mention, and the cross-encoder reads 5"),
        ({"mine": of(other)}, DataError, r"mine: .*of another first stage \(ngram\)"),
        ({"mine": of(chosen)}, DataError, "mine: a reranker put these"),
        ({"mine": good, "again": good}, UsageError, "again: candidates of the same documents were given before"),
    ):
        with pytest.raises(error, match=said):
            train_reranker(cross(bert), linker, documents, candidates=given, out=tmp_path / "cross", config=QUICK)
    assert not list(tmp_path.iterdir())


def test_what_was_given_is_part_of_the_training(interrupted: Any, sample: Any) -> None:
    documents, _, kb = sample
    found = Candidates.of(arbo.Linker(kb), documents[:1], k=9)
    with pytest.raises(UsageError, match=r"is of another training, with other candidates of documents \("):
        interrupted(candidates={"mine": found})


def test_the_best_of_more_are_taken(interrupted: Any, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    many = {
        "docs": Candidates.of(arbo.Linker(kb), documents[:1], k=9),
        "dev": Candidates.of(arbo.Linker(kb), dev[:1], k=9),
    }
    (folder := tmp_path / "cross.training").rename(tmp_path / "aside")

    def fail(what: str) -> Any:
        raise Killed

    with pytest.raises(Killed):
        interrupted(linker=arbo.Linker(kb, announce=fail), candidates=many)
    for name, own in zip(("documents", "dev"), many.values(), strict=True):
        kept = Candidates.load(folder / f"candidates-{name}.parquet")
        assert kept.fingerprint == own.first(5).fingerprint
    worse = replace(many["docs"], scores=many["docs"].scores - np.float32(1))
    with pytest.raises(UsageError, match=r"with other candidates of documents \("):
        interrupted(candidates=many | {"docs": worse})
    with pytest.raises(UsageError, match=r"with other candidates of documents, candidates of dev \("):
        interrupted()
    interrupted(candidates={name: own.first(7) for name, own in many.items()})


def test_another_first_stage_is_another_training(interrupted: Any, bert: Tower, sample: Any) -> None:
    _, _, kb = sample
    for changes in (
        {"start": cross(bert, candidates=4)},
        {"linker": arbo.Linker(kb, arbo.NgramEncoder(alias_weight=0.1))},
        {"linker": arbo.Linker(kb, config=arbo.LinkerConfig(expand_abbreviations=False))},
        {"config": replace(QUICK, seed=3)},
    ):
        with pytest.raises(UsageError, match="is of another training"):
            interrupted(**changes)
    interrupted(config=replace(QUICK, steps=1, micro_batch=1))


@pytest.mark.parametrize("regulariser", ["none", "fgsm"])
def test_a_coarser_precision_changes_little(bert: Tower, tmp_path: Path, sample: Any, regulariser: Any) -> None:
    documents, _, kb = sample
    losses = []
    for precision in ("float32", "bfloat16"):
        start = cross(without_dropout(bert), candidates=3)
        trainer = trainer_of(start, documents[:1], kb, tmp_path, precision=precision, regulariser=regulariser)
        losses.append(trainer.step(0, trainer.data.queries[:2])["loss"])
        assert {weight.dtype for weight in trainer.encoder.module.parameters()} == {torch.float32}
    assert losses[1] != losses[0] == pytest.approx(losses[1], rel=0.05)


def test_what_cannot_be_trained(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    elsewhere = arbo.KnowledgeBase([arbo.Entity(f"Z{i}", "nothing of the kind") for i in range(2)])
    moved = [replace(document, domain="elsewhere") for document in dev]
    for start, linker, given, error, said in (
        (cross(bert), arbo.Linker(), {}, UsageError, "this linker has none"),
        (cross(bert, candidates=1), arbo.Linker(kb), {}, UsageError, "nothing to choose"),
        (cross(bert), arbo.Linker(list(kb)[:1]), {}, UsageError, "candidates=5 of 1 entities: .*nothing to choose"),
        (cross(bert), arbo.Linker(kb, reranker=cross(bert)), {}, UsageError, "this linker has a reranker"),
        (cross(bert), arbo.Linker(elsewhere), {}, DataError, "nothing to train on"),
        (cross(bert), arbo.Linker(kb), {"dev": moved}, DataError, "nothing to choose the best model by"),
        (cross(bert), arbo.Linker(kb), {"checkpoint_every": 0}, UsageError, "checkpoint_every"),
    ):
        with pytest.raises(error, match=said):
            train_reranker(start, linker, documents, out=tmp_path / "cross", **given)
    assert not list(tmp_path.iterdir())


def test_a_knowledge_base_smaller_than_the_candidates(bert: Tower, tmp_path: Path) -> None:
    documents, kb = tiny([("E1",), ("E2", "E3"), None])
    trained = train_reranker(
        cross(bert, candidates=64), arbo.Linker(kb), documents, dev=documents, out=tmp_path / "cross", config=QUICK
    )
    assert trained.config.candidates == 64


# Settings


def test_what_the_papers_say() -> None:
    arboel, pel = RERANKING_PRESETS["arboel"], RERANKING_PRESETS["pel"]
    assert (arboel.batch_size, arboel.learning_rate, arboel.epochs, arboel.clip) == (2, 2e-5, 5, 1.0)
    assert (pel.batch_size, pel.learning_rate, pel.epochs, pel.clip) == (4, 2e-5, 5, 1.0)
    assert (pel.warmup, pel.optimizer) == (0.2, "adamw")
    assert RERANKING_PRESETS.keys() == CROSS_PRESETS.keys() == {name.value for name in verb.RerankerPresets}


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"micro_batch": 1.5}, {"warmup": 2}, {"regulariser": "dropout"}, {"clip": 0}]
)
def test_settings_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RerankingConfig(**wrong)


def test_a_dual_encoders_settings_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(QUICK.as_dict()), "utf-8")
    assert RerankingConfig.from_json(tmp_path / "a.json") == QUICK
    (tmp_path / "b.json").write_text('{"positives": "1nn"}', "utf-8")
    with pytest.raises(DataError, match="unknown: 'positives'"):
        RerankingConfig.from_json(tmp_path / "b.json")


# The verb


def test_train_then_link(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    write_jsonl(documents[:2], tmp_path / "train.jsonl")
    write_jsonl(documents[80:82], tmp_path / "dev.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "own.json").write_text('{"learning_rate": 0.001, "epochs": 3}', "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 48}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    command = ["train-reranker", tmp_path / "train.jsonl", *given, "--encoder", bert_folder]
    command += ["--k", 3, "--preset", "pel", "--encoder-config", tmp_path / "reads.json"]
    command += ["--out", tmp_path / "cross"]
    own = ["--config", tmp_path / "own.json", "--steps", 2, "--dev", tmp_path / "dev.jsonl"]
    made = run(*command, *own, "--json")
    assert made.code == 0, made.err
    expected = replace(RERANKING_PRESETS["pel"], learning_rate=0.001, epochs=3, steps=2)
    assert made.json["training"] == json.loads(json.dumps(expected.as_dict()))
    trained = CrossEncoder.from_pretrained(tmp_path / "cross")
    assert trained.config == replace(CROSS_PRESETS["pel"], candidates=3, max_length=48)
    last = log_of(tmp_path / "cross")[-1]
    assert f"step 2: loss {last['loss']:.3f}; on the development documents accuracy {last['accuracy']:.3f}" in made.told
    assert "have it in the knowledge base: they are trained on" in made.told
    linked = run("link", tmp_path / "dev.jsonl", *given, "--reranker", tmp_path / "cross", "--out", tmp_path / "run")
    assert linked.code == 0, linked.err
    manifest = arbo.Result.load(tmp_path / "run").manifest
    assert manifest["encoder"]["reranker"]["weights"] == trained.settings["weights"]
    told = run(*command, *own, "--run", tmp_path / "run")
    assert told.code == 3
    assert f"{tmp_path / 'run'}: a reranker put these candidates" in told.told
    (tmp_path / "own.json").write_text('{"negatives": "knn"}', "utf-8")
    refused = run(*command, "--config", tmp_path / "own.json")
    assert refused.code == 3
    assert "unknown: 'negatives'" in refused.told


def test_the_first_stage_of_a_run(run: Run, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    documents, kb = arbo.load_sample()
    write_jsonl(documents[:1], tmp_path / "train.jsonl")
    write_jsonl(documents[80:81], tmp_path / "dev.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "reads.json").write_text('{"max_length": 32}', "utf-8")
    (tmp_path / "other.json").write_text('{"context": 3}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl"]
    first = ["--encoder", bert_folder, "--encoder-config", tmp_path / "other.json"]
    found = tmp_path / "found"
    assert run("link", tmp_path / "train.jsonl", *given, *first, "--out", found).code == 0
    command = ["train-reranker", tmp_path / "train.jsonl", *given, "--encoder", bert_folder, "--steps", 1, "--k", 2]
    command += ["--encoder-config", tmp_path / "reads.json", "--out", tmp_path / "cross"]
    done = run(*command, "--run", found)
    assert done.code == 0, done.err
    assert f"next: arbo link DOCS --encoder {bert_folder} --reranker" in " ".join(done.out.split())
    for wrong, code, said in (
        (["--run", found, "--candidates-of", "ngram"], 3, f"{found}: these candidates are of another first stage"),
        (["--run", found, "--run", tmp_path / "." / "found"], 2, "--run names the same run twice"),
        (["--run", found, "--k", 17], 3, f"{found}: 16 candidates of each mention, and the cross-encoder reads 17"),
    ):
        refused = run(*command, *wrong)
        assert refused.code == code, refused.err
        assert said in refused.told
    refused = run("train-reranker", tmp_path / "dev.jsonl", *command[2:], "--run", found)
    assert refused.code == 3
    assert f"{found}: the candidates were made with other documents" in refused.told
    arbo.KnowledgeBase(kb.entities[1:]).to_jsonl(tmp_path / "kb.jsonl")
    refused = run(*command, "--run", found)
    assert refused.code == 2
    assert f"{found}: the run was made with another knowledge base" in refused.told


def test_the_next_command_is_told(run: Run, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    write_jsonl(documents[:1], tmp_path / "train.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "reads.json").write_text('{"max_length": 32}', "utf-8")
    given = ["--format", "jsonl", "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--encoder", bert_folder]
    given += ["--k", 2, "--steps", 1, "--encoder-config", tmp_path / "reads.json", "--out", tmp_path / "cross"]
    done = run("train-reranker", tmp_path / "train.jsonl", *given)
    assert done.code == 0, done.err
    assert f"next: arbo link DOCS --encoder ngram --reranker {tmp_path / 'cross'}" in " ".join(done.out.split())

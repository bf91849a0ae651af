"""Cross-encoders in training: what is compared, the loss and its gradient."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import QUICK_CROSS, cross, gradients, of_two_processes, tiny, torch, without_dropout, workplace

import arbo
from arbo.encoders.cross import CrossEncoder
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.retrieval.candidates import Candidates
from arbo.training.config import RerankingConfig
from arbo.training.cross import PairReader, RerankingSet, RerankingTrainer, Retrieved
from arbo.training.presets import RERANKING_PRESETS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:4], documents[80:84], kb


def trainer_of(
    start: CrossEncoder, documents: Iterable[Any], kb: arbo.KnowledgeBase, folder: Path, **changes: Any
) -> RerankingTrainer:
    """Make a trainer in training mode."""
    corpus = arbo.Corpus.of(documents)
    candidates = arbo.Linker(kb).candidates(corpus, k=start.config.candidates)
    return trainer_on(start, Retrieved(corpus, kb, candidates, True), folder, **changes)


def trainer_on(start: CrossEncoder, given: Retrieved, folder: Path, **changes: Any) -> RerankingTrainer:
    config, data = replace(QUICK_CROSS, **changes), RerankingSet.of(given)
    trainer = RerankingTrainer(start, data, None, config, workplace(folder, config))
    trainer.prepared.train()
    return trainer


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
    with batches(trainer.model.tower) as shapes:
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
    assert float(trainer.loss_of(0, trainer.data.queries, slice(0, None)).detach()) == pytest.approx(
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


@pytest.mark.parametrize("regulariser", ["none", "fgsm"])
def test_a_coarser_precision_changes_little(bert: Tower, tmp_path: Path, sample: Any, regulariser: Any) -> None:
    documents, _, kb = sample
    losses = []
    for precision in ("float32", "bfloat16"):
        start = cross(without_dropout(bert), candidates=3)
        trainer = trainer_of(start, documents[:1], kb, tmp_path, precision=precision, regulariser=regulariser)
        losses.append(trainer.step(0, trainer.data.queries[:2])["loss"])
        assert {weight.dtype for weight in trainer.model.module.parameters()} == {torch.float32}
    assert losses[1] != losses[0] == pytest.approx(losses[1], rel=0.05)


def test_what_the_papers_say() -> None:
    arboel, pel = RERANKING_PRESETS["arboel"], RERANKING_PRESETS["pel"]
    assert (arboel.batch_size, arboel.learning_rate, arboel.epochs, arboel.clip) == (2, 2e-5, 5, 1.0)
    assert (pel.batch_size, pel.learning_rate, pel.epochs, pel.clip) == (4, 2e-5, 5, 1.0)
    assert (pel.warmup, pel.optimizer) == (0.2, "adamw")


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"micro_batch": 1.5}, {"warmup": 2}, {"regulariser": "dropout"}, {"clip": 0}]
)
def test_settings_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RerankingConfig(**wrong)


def test_a_dual_encoders_settings_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(QUICK_CROSS.as_dict()), "utf-8")
    assert RerankingConfig.from_json(tmp_path / "a.json") == QUICK_CROSS
    (tmp_path / "b.json").write_text('{"positives": "1nn"}', "utf-8")
    with pytest.raises(DataError, match="unknown setting: 'positives'"):
        RerankingConfig.from_json(tmp_path / "b.json")

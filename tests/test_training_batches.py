"""Batches: which texts and pairs are read, and which are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import (
    cross,
    cross_trainer,
    encoder,
    gradients,
    sample,
    tiny_retrieved,
    torch,
)

import arbo
from arbo.encoders.tower import Tower
from arbo.training.cross import PairReader, RerankingSet
from arbo.training.data import TrainingSet
from arbo.training.dual.batches import Reader

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def homonyms() -> TrainingSet:
    """Mentions m1 to m4, and entities A to E, of the same names, in part but for case."""
    names = {"A": "fever", "B": "Fever", "C": "kidney", "D": "MARSH", "E": "cancer"}
    return marked("marsh Marsh kidney cancer", names, [(0, 5, "A"), (6, 11, "C"), (12, 18, "C"), (19, 25, "E")])


def marked(text: str, names: dict[str, str], spans: list[tuple[int, int, str]]) -> TrainingSet:
    kb = arbo.KnowledgeBase([arbo.Entity(id_, name) for id_, name in names.items()])
    mentions = (arbo.Mention(f"m{a}", "d", ((a, b),), text[a:b], gold=(gold,)) for a, b, gold in spans)
    return TrainingSet.of(arbo.Corpus.of([arbo.Document("d", text, tuple(mentions))]), kb)


@pytest.mark.parametrize("two_towers", [False, True])
def test_a_negative_with_the_text_of_the_positive_or_the_mention_is_dropped(
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


def test_an_entity_with_the_text_of_the_gold_one_is_dropped(bert: Tower) -> None:
    retrieved = tiny_retrieved([("E0",)], [[0, 1, 2]])
    twins = [replace(entity, name="fever") if row == 1 else entity for row, entity in enumerate(retrieved.kb)]
    data = replace(RerankingSet.of(retrieved), kb=arbo.KnowledgeBase(twins))
    batch = PairReader.of(cross(bert), data).batch(data.queries)
    assert batch.exists.tolist() == [[True, False, False, True]]
    assert len(batch.rows) == 2


@pytest.mark.parametrize(("pooling", "n_texts"), [("cls", 1), ("mean", 1), ("mention", 2), ("tokens", 1)])
def test_only_the_pooling_of_mentions_reads_a_text_once_a_mention(bert: Tower, pooling: Any, n_texts: int) -> None:
    data = marked("kidney fever", {"A": "fever"}, [(0, 6, "A"), (7, 12, "A")])
    reads = arbo.EncoderConfig(mention="[CLS] {left} {mention} {right} [SEP]", pooling=pooling)
    reader = Reader.of(arbo.DualEncoder(bert, bert, reads), data)
    batch = reader.batch(np.array([0, 1]), np.array([[2], [1]]))
    assert len(batch.texts) == n_texts
    expected = bert.embed(reader.mentions.spell(reader.mentions.row), pooling)
    vectors = reader.encode(batch, slice(None)).detach().numpy()[batch.mention]
    np.testing.assert_allclose(np.concatenate(vectors), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["dual", "cross"])
@pytest.mark.parametrize("budget", [40, 200, 10**6])
def test_texts_of_like_length_are_read_together(
    bert: Tower, tmp_path: Path, batches: Any, monkeypatch: pytest.MonkeyPatch, kind: str, budget: int
) -> None:
    documents, _, kb = sample()
    monkeypatch.setattr(Tower, "tokens_a_batch", budget)
    if kind == "dual":
        data = TrainingSet.of(documents, kb)
        reader, tower = Reader.of(encoder(bert), data), bert
        batch = reader.batch(data.queries, np.arange(len(data.queries))[:, None])
        n_texts = len(batch.texts)
        with batches(tower) as shapes:
            assert len(reader.encode(batch, slice(None))) == n_texts
    else:
        trainer = cross_trainer(cross(bert), documents[:2], kb, tmp_path)
        pairs = trainer.reader.batch(trainer.data.queries)
        n_texts = len(pairs.rows)
        with batches(trainer.model.tower) as shapes:
            scores = trainer.reader.encode(pairs)
        assert ((scores != 0).numpy() == pairs.exists).all()
        assert pairs.exists.sum() == n_texts
    assert sum(n for n, _ in shapes) == n_texts
    assert all(n * longest <= budget or n == 1 for n, longest in shapes)
    assert [longest for _, longest in shapes] == sorted(longest for _, longest in shapes)
    assert (len(shapes) == 1) == (budget == 10**6)


def test_scores_are_not_rounded_in_bfloat16(bert: Tower) -> None:
    documents, _, kb = sample()
    reader = Reader.of(encoder(bert, metric="dot"), TrainingSet.of(documents, kb))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        batch = reader.batch(np.arange(4), np.arange(20).reshape(4, 5))
        scores = reader.pairs(batch, reader.encode(batch, slice(None)), slice(None)).scores
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, scores.bfloat16().float())


@pytest.mark.parametrize(
    ("gold", "candidates", "compared"),
    [
        (("E1",), [0, 1, 2], [1, 0, -1, 2]),
        (("E4",), [0, 1, 2], [4, 0, 1, -1]),  # in place of the last
        (("E4",), [0, 1, -1], [4, 0, 1, -1]),  # there is room
        (("E4",), [-1, -1, -1], [4, -1, -1, -1]),  # no candidate
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
    data = RerankingSet.of(tiny_retrieved([("E0",), gold], [[0, 1, 2], candidates]))
    nodes = [data.nodes[place].tolist() for place in data.queries]
    assert nodes == [[0, -1, 1, 2], *([] if compared is None else [compared])]


def test_a_mention_with_nothing_to_choose_from_teaches_nothing(bert: Tower, tmp_path: Path) -> None:
    trainer = cross_trainer(cross(bert), tiny_retrieved([("E0",), ("E1",)], [[0, -1], [-1, -1]]), None, tmp_path)
    assert trainer.add_gradients(0, trainer.data.queries, 0.5) == 0
    assert not gradients(trainer).any()

"""Batches of dual-encoders: which texts are read, and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from training_builders import encoder, torch

import arbo
from arbo.encoders.tower import Tower
from arbo.training.data import TrainingSet
from arbo.training.dual.batches import Reader

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


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

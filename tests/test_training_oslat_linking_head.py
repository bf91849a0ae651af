"""The linking head of OSLAT: its loss, its threshold, and how it begins."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import DOCUMENTS, KB, READS, document, torch, workplace

from arbo.encoders.tower import Tower
from arbo.errors import UsageError
from arbo.spans.finding import PairFinder
from arbo.spans.label_attention import name_scores
from arbo.spans.model import LabelAttention
from arbo.spans.pieces import Pairs
from arbo.spans.preselection import preselect
from arbo.text.sentences import passages
from arbo.training.config import LinkingHeadConfig
from arbo.training.oslat.linking_head import (
    Encoded,
    LinkingHead,
    LinkingHeadTrainer,
    best_names,
    decisions,
    train_linking_head,
    with_tuned_threshold,
)
from arbo.training.oslat.synonyms import AnnotatedTexts

HEAD = LinkingHeadConfig(epochs=2, batch_size=4, n_negatives=5, learning_rate=1e-2)


def test_a_names_loss_is_that_of_the_best_of_its_entity() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.3, -0.5, 0.2], [-1.0, -2.0, 7.0, 0.0, 0.5]], requires_grad=True)
    owners = torch.tensor([[3, 3, 0, 2, 0], [5, 5, -1, 4, -1]])
    best, share = best_names(scores, owners)
    there = owners >= 0
    torch.testing.assert_close(best[there], torch.tensor([0.9, 0.9, 0.3, -0.5, 0.3, -1.0, -1.0, 0.0]))
    assert share[there].tolist() == [0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 1]
    (best * share * there).sum().backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0, 1, 1, 1, 0], [1, 0, 0, 1, 0]]


def test_how_heads_begin() -> None:
    said, names = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    comparison, linear = (LinkingHead.of(8, kind, torch.device("cpu")).linear for kind in ("comparison", "linear"))
    torch.testing.assert_close(name_scores(comparison, said, names), name_scores(None, said, names))
    assert not name_scores(linear, said, names).any()
    with torch.autocast("cpu", torch.bfloat16):
        assert name_scores(comparison, said, names.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(("kind", "even"), [("comparison", 0.5), ("linear", 0.0)])
def test_a_head_is_trained_without_development_texts(bert: Tower, tmp_path: Path, kind: Any, even: float) -> None:
    start = LabelAttention.of(bert, replace(READS, entity_threshold=0.9))
    trained = train_linking_head(start, DOCUMENTS, KB, out=tmp_path / "out", config=replace(HEAD, kind=kind))
    assert trained.threshold == even
    assert trained.head is not None
    assert trained.head.out_features == (1 if kind == "linear" else 64)


@pytest.mark.parametrize("kind", ["comparison", "linear"])
def test_the_loss_of_a_head_is_that_of_its_definition(bert: Tower, tmp_path: Path, kind: Any) -> None:
    config = replace(HEAD, kind=kind, batch_size=3, micro_batch=2)
    data = Encoded.of(LabelAttention.of(bert, READS), AnnotatedTexts.of(DOCUMENTS, KB))
    head = LinkingHead.of(64, kind, torch.device("cpu"))
    torch.manual_seed(2)
    torch.nn.init.normal_(head.linear.weight, std=0.3)
    trainer = LinkingHeadTrainer(head, data, None, config, workplace(tmp_path, config))
    linear = deepcopy(head.linear).double().requires_grad_(False)
    texts = np.array([0, 1, 3])
    batch = trainer.batch(0, texts, np.arange(3))
    loss = trainer.add_gradients(0, batch, 1 / 3)
    expected = []
    for text, names, there in zip(texts.tolist(), batch.name, batch.is_there, strict=True):
        scores: dict[int, list[float]] = {}
        tokens = data.tokens[text].double()
        for name in names[names >= 0].tolist():
            vector = data.names[name].double()
            said = torch.softmax(tokens @ vector, dim=0) @ tokens
            if kind == "linear":
                logit = float(linear(said))
            else:
                logit = 10 * (float(torch.cosine_similarity(linear(said), linear(vector), dim=0)) - 0.5)
            scores.setdefault(int(data.data.synonyms.owner[name]), []).append(logit)
        right = set(data.data.synonyms.owner[names[there & (names >= 0)]].tolist())
        judged = [
            (1 / (1 + np.exp(-logit)), entity in right)
            for entity, own in scores.items()
            for logit in (own if kind == "linear" else [max(own)])
        ]
        losses = [-0.25 * (1 - p) ** 2 * np.log(p) if yes else -0.75 * p**2 * np.log(1 - p) for p, yes in judged]
        expected.append(np.mean(losses))
    assert loss == pytest.approx(np.mean(expected), rel=1e-5)
    assert trainer.model.linear.weight.grad is not None
    assert trainer.model.linear.weight.grad.any()


def test_the_threshold_is_chosen_on_what_a_finder_asks(bert: Tower) -> None:
    torch.manual_seed(1)
    model = LabelAttention.of(bert, READS).with_head(torch.nn.Linear(64, 1))
    tuned = with_tuned_threshold(model, DOCUMENTS, KB, split=passages)
    finder = PairFinder(model, 0.0)
    asked = preselect(DOCUMENTS, KB, finder.candidates)
    score = model.score([piece.text for piece in asked.pieces.corpus], KB, asked.text, asked.entity)
    gold = Pairs.of(asked.pieces.corpus, KB)
    pairs = set(zip(gold.text.tolist(), gold.entity.tolist(), strict=True))

    def f1(threshold: float) -> float:
        said = score >= threshold
        right = pairs & set(zip(asked.text[said].tolist(), asked.entity[said].tolist(), strict=True))
        return 2 * len(right) / (int(said.sum()) + len(pairs))

    assert f1(tuned.threshold) == max(map(f1, score))
    assert finder.tuned(DOCUMENTS, KB).threshold == tuned.threshold
    with pytest.raises(UsageError, match="no document has a gold entity"):
        finder.tuned([document("d", "fever", ["E9"])], KB)


@pytest.mark.parametrize("dim", [1, 4])
def test_the_head_sees_what_the_model_scores(bert: Tower, dim: int) -> None:
    torch.manual_seed(1)
    model = LabelAttention.of(bert, READS).with_head(linear := torch.nn.Linear(64, dim))
    data = AnnotatedTexts.of(DOCUMENTS, KB)
    found = decisions(linear, Encoded.of(model, data), replace(HEAD, n_negatives=50))
    text, entity = np.repeat([0, 1, 2, 3, 5], 6), np.tile(np.arange(6), 5)
    gold = {(int(t), int(e)) for t, e in zip(data.text, data.entity, strict=True)}
    scores = model.score(data.texts, KB, text, entity)
    asked = [
        (score, (t, e) in gold)
        for score, t, e in zip(scores, text.tolist(), entity.tolist(), strict=True)
        if (t, e) in gold or not {name.lower() for name in (KB.entities[e].name, *KB.entities[e].aliases)} & _right(t)
    ]
    # E0 and E1 share a name: where one is right the other is asked for by its other names.
    assert found.is_there.sum() == len(gold) == sum(is_there for _, is_there in asked)
    np.testing.assert_allclose(
        np.sort(found.score[found.is_there]), np.sort([s for s, there in asked if there]), atol=1e-5
    )
    assert set(np.round([s for s, there in asked if not there], 4)) <= set(np.round(found.score, 4))


def _right(text: int) -> set[str]:
    gold = {id_ for mention in DOCUMENTS[text].mentions for id_ in mention.gold or () if id_ in KB}
    return {name.lower() for id_ in gold for name in (KB[id_].name, *KB[id_].aliases)}

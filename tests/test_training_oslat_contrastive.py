"""The contrastive trainings of OSLAT: their losses, what is contrasted, and a step against its definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from training_builders import (
    DOCUMENTS,
    KB,
    QUICK_ATTENTION,
    READS,
    document,
    gradients,
    of_two_processes,
    torch,
    without_dropout,
    workplace,
)

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.model import LabelAttention
from arbo.training.config import SelfAlignmentConfig
from arbo.training.losses import focal_loss, multi_similarity, nt_xent
from arbo.training.oslat.contrastive import Contrast, contrastive_losses
from arbo.training.oslat.label_attention import LabelAttentionTrainer, train_label_attention
from arbo.training.oslat.self_alignment import Aligning, SelfAlignmentTrainer, train_self_alignment
from arbo.training.oslat.synonyms import AnnotatedTexts, NamesAlone, Others, Synonyms

LONELY = document("d", "the marsh fever", ["E0"])


def trainer_of(model: LabelAttention, corpus: arbo.Corpus, folder: Path, **changes: Any) -> LabelAttentionTrainer:
    config, data = replace(QUICK_ATTENTION, **changes), AnnotatedTexts.of(corpus, KB)
    it = LabelAttentionTrainer(model, data, None, config, workplace(folder, config))
    it.prepared.train()
    return it


@pytest.mark.parametrize("n_positives", [0, 1, 3])
def test_each_positive_is_contrasted_with_all_negatives(n_positives: int) -> None:
    rng = np.random.default_rng(0)
    scores = 10 * rng.normal(size=(50, n_positives + 4))
    exists = rng.random(scores.shape) < 0.6
    exists[0, n_positives:] = False
    given_ = torch.from_numpy(scores).float().requires_grad_()
    losses = nt_xent(given_, torch.from_numpy(exists), n_positives)
    losses.sum().backward()
    assert given_.grad is not None
    assert torch.isfinite(given_.grad).all()
    assert not given_.grad[~torch.from_numpy(exists)].any()
    for row, there, loss in zip(scores, exists, losses.detach(), strict=True):
        rest = np.exp(row[n_positives:][there[n_positives:]]).sum()
        own = np.exp(row[:n_positives][there[:n_positives]])
        assert float(loss) == pytest.approx(np.mean(-np.log(own / (own + rest))) if len(own) else 0, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("n_positives", [0, 2])
def test_the_multi_similarity_loss(n_positives: int) -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(-1, 1, size=(50, n_positives + 4))
    exists = rng.random(scores.shape) < 0.6
    exists[0] = False
    given_ = torch.from_numpy(scores).float().requires_grad_()
    losses = multi_similarity(given_, torch.from_numpy(exists), n_positives)
    losses.sum().backward()
    assert given_.grad is not None
    assert torch.isfinite(given_.grad).all()
    assert not given_.grad[~torch.from_numpy(exists)].any()
    for row, there, loss in zip(scores, exists, losses.detach(), strict=True):
        near, far = row[:n_positives][there[:n_positives]], row[n_positives:][there[n_positives:]]
        expected = np.log1p(np.exp(-2 * (near - 0.5)).sum()) / 2 + np.log1p(np.exp(50 * (far - 0.5)).sum()) / 50
        assert float(loss) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_names_may_be_aligned_by_multi_similarity() -> None:
    vectors = torch.from_numpy(np.random.default_rng(2).normal(size=(1, 4, 5))).float()
    batch = Contrast(np.array([0]), np.array([[0, 1, 2, 3]]))
    cosine = torch.nn.functional.cosine_similarity(vectors[:, :1], vectors[:, 1:], dim=2)
    config = SelfAlignmentConfig(loss="multi-similarity", n_positives=1, n_negatives=2)
    expected = multi_similarity(cosine, torch.ones(1, 3, dtype=torch.bool), 1)
    torch.testing.assert_close(contrastive_losses(vectors, batch, config), expected)
    with pytest.raises(UsageError, match="loss 'margin' is not one of nt-xent, multi-similarity"):
        SelfAlignmentConfig(loss="margin")  # type: ignore[arg-type]


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.5, 0.0)])
def test_the_focal_loss(alpha: float, gamma: float) -> None:
    logits = np.array([-80.0, -3, -0.1, 0, 2, 50])
    for yes in (True, False):
        p = 1 / (1 + np.exp(-logits if yes else logits))
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = -(alpha if yes else 1 - alpha) * (1 - p) ** gamma * np.log(p)
        found = focal_loss(torch.tensor(logits).float(), torch.full((6,), yes), alpha, gamma)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-7)


KBS = st.lists(st.lists(st.sampled_from("aAbcdef"), min_size=1, max_size=4), min_size=1, max_size=6)


@given(sets=KBS, n=st.integers(1, 8), seed=st.integers(0, 99), avoided=st.lists(st.integers(0, 5), max_size=3))
def test_negatives_are_others_and_as_many_as_there_are(
    sets: list[list[str]], n: int, seed: int, avoided: list[int]
) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(str(i), own[0], aliases=tuple(own[1:])) for i, own in enumerate(sets)])
    synonyms, (names, _) = Synonyms.of(kb), kb.names()
    own = np.unique([i % len(sets) for i in avoided]).astype(int)
    drawn = Others.of(synonyms, np.arange(len(kb))).draw(
        [synonyms.spellings(own), synonyms.spellings(own[:1])], n, np.random.default_rng(seed)
    )
    for row, entities in zip(drawn, (own, own[:1]), strict=True):
        found = [names[synonyms.place[i]].lower() for i in row[row >= 0]]
        wrong = {name.lower() for entity in entities for name in sets[entity]}
        left = {name.lower() for own_ in sets for name in own_} - wrong
        assert len(found) == len(set(found)) == min(n, len(left))
        assert set(found) <= left


def test_an_entity_with_many_names_is_drawn_no_more_often() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("few", "x"), arbo.Entity("many", "a", aliases=tuple("bcdefgh"))])
    synonyms = Synonyms.of(kb)
    others, rng = Others.of(synonyms, np.arange(2)), np.random.default_rng(0)
    first = [synonyms.owner[others.draw([np.empty(0, np.int64)], 1, rng)[0, 0]] for _ in range(1000)]
    assert 450 < sum(first) < 550


def test_gold_is_never_among_the_negatives(bert: Tower, tmp_path: Path) -> None:
    it = trainer_of(LabelAttention.of(bert, READS), DOCUMENTS, tmp_path, n_negatives=50)
    names, data = KB.names(), it.data
    assert data.n_alone == 1
    for step in range(20):
        batch = it.batch(step, data.queries, np.arange(len(data.queries)))
        for query, row in zip(batch.query, batch.name, strict=True):
            own = [names.names[data.synonyms.place[i]] for i in row[: 1 + it.config.n_positives] if i >= 0]
            assert len({name.lower() for name in own}) == len(own) >= 2
            entity = KB.entities[data.entity[query]]
            assert set(own) <= {entity.name, *entity.aliases}
            others = {names.names[data.synonyms.place[i]].lower() for i in row[1 + it.config.n_positives :] if i >= 0}
            gold = {e for d in DOCUMENTS[int(data.text[query])].mentions for e in d.gold or () if e in KB}
            right = {name.lower() for e in gold for name in (KB[e].name, *KB[e].aliases)}
            every = {name.lower() for e in KB for name in (e.name, *e.aliases)}
            assert others == every - right


def test_one_name_is_drawn_towards_nothing(bert: Tower, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no entity \(of 1\) has two names"):
        train_label_attention(
            LabelAttention.of(bert, READS), [document("d", "mention", ["E3"])], KB, out=tmp_path / "out"
        )
    with pytest.raises(DataError, match=r"no text \(of 1\) has an entity"):
        AnnotatedTexts.of(arbo.Corpus([document("d", "mention", ["E9"])]), KB)


def test_one_entity_is_pushed_away_from_nothing(bert: Tower, tmp_path: Path) -> None:
    alone = arbo.KnowledgeBase([arbo.Entity("E0", "fever", aliases=("marsh",))])
    model, encoder = LabelAttention.of(bert, READS), arbo.DualEncoder(bert, bert, arbo.EncoderConfig())
    for kb in (alone, KB):  # of several the one in the documents, if these are given
        with pytest.raises(DataError, match="nothing to train on: names need names of other entities"):
            train_label_attention(model, DOCUMENTS[2:3] if kb is alone else [LONELY], kb, out=tmp_path / "out")
        with pytest.raises(DataError, match="nothing to align: names need names of other entities"):
            train_self_alignment(encoder, kb, documents=[LONELY], out=tmp_path / "out")
    with pytest.raises(DataError, match="nothing to choose the best model by"):
        train_label_attention(model, DOCUMENTS, KB, dev=[LONELY], out=tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_seen_entities_alone_are_aligned(bert: Tower, tmp_path: Path) -> None:
    seen = AnnotatedTexts.of(DOCUMENTS[:2], KB).entities
    data = NamesAlone(Synonyms.of(KB), seen)
    assert seen.tolist() == [0, 1, 2, 4]
    assert set(data.synonyms.owner[data.queries]) == {0, 1, 2, 4}
    assert set(data.synonyms.owner[Others.of(data.synonyms, seen).name]) <= set(seen)
    rows = data.anchors(data.queries, 2, np.random.default_rng(0))
    assert (rows[:, 0] == data.queries).all()
    for row in rows:
        own = row[row >= 0]
        assert len(set(own)) == len(own) >= 2
        assert len(set(data.synonyms.owner[own])) == 1


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"normalized": False, "micro_batch": 2, "temperature": 5.0}])
@pytest.mark.parametrize("reads", [READS, replace(READS, pooling="cls", scaled=True, max_length=6)])
def test_a_step_is_what_its_definition_says(
    bert: Tower, tmp_path: Path, changes: dict[str, Any], reads: LabelAttentionConfig
) -> None:
    """Loss and gradient in float64, one text and one name at a time, without any padding."""
    it = trainer_of(LabelAttention.of(without_dropout(bert), reads), DOCUMENTS, tmp_path, **changes)
    queries, config = it.data.queries, it.config
    batch = it.batch(0, queries, np.arange(len(queries)))
    loss = it.add_gradients(0, batch, 1 / len(queries))
    own = gradients(it)  # type: ignore[arg-type]
    exact = it.model.copy()
    exact.module.double()

    def hidden(ids: list[int]) -> Any:
        return exact.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0]

    def said(text: int, name: int) -> Any:
        (read,) = exact.reader([it.data.texts[text]])
        tokens = torch.cat([hidden(row.ids) for row in read.rows])[read.flat([len(row.ids) for row in read.rows])]
        (row,) = exact.names(KB).spell(exact.names(KB).row[it.data.synonyms.place[[name]]])
        vector = hidden(row.ids)[0] if reads.pooling == "cls" else hidden(row.ids).mean(dim=0)
        weight = torch.softmax(tokens @ vector / (64**0.5 if reads.scaled else 1), dim=0)
        found = weight @ tokens
        return found / found.norm() if config.normalized else found

    whole = torch.zeros((), dtype=torch.float64)
    for query, row in zip(batch.query, batch.name, strict=True):
        text, n = it.data.text[query], 1 + config.n_positives
        anchor = said(text, row[0])
        right = torch.stack([anchor @ said(text, name) for name in row[1:n] if name >= 0]) / config.temperature
        wrong = torch.stack([anchor @ said(text, name) for name in row[n:] if name >= 0]) / config.temperature
        each = [-torch.log_softmax(torch.cat([score[None], wrong]), dim=0)[0] for score in right]
        whole = whole + torch.stack(each).mean() / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert float((own.double() - expected).norm()) < 1e-3 * float(expected.norm())


@pytest.mark.slow
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_a_step() -> Any:
        model = LabelAttention.of(without_dropout(bert), READS)
        it = trainer_of(model, DOCUMENTS, tmp_path, micro_batch=2, clip=None)
        it.step(0, it.data.queries)
        return gradients(it)  # type: ignore[arg-type]

    whole = of_a_step()
    assert float((of_two_processes(monkeypatch, of_a_step) - whole).norm()) < 1e-3 * float(whole.norm())


@pytest.mark.slow
def test_self_alignment_contrasts_what_the_head_makes(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(batch_size=4, n_negatives=4, n_positives=2, micro_batch=3, projection=8)
    encoder = arbo.DualEncoder(tower := without_dropout(bert), tower, arbo.EncoderConfig(pooling="cls"))
    data = NamesAlone(Synonyms.of(KB), np.arange(len(KB)))
    aligning = Aligning.of(encoder, 8, 0)
    it = SelfAlignmentTrainer(aligning, data, None, config, workplace(tmp_path, config), KB)
    it.prepared.train()
    batch = it.batch(0, data.queries[:6], np.arange(6))
    loss = it.add_gradients(0, batch, 1 / 6)
    vectors = torch.from_numpy(encoder.encode_entities(KB).matrix)[encoder.encode_entities(KB).row]  # type: ignore[arg-type]
    with torch.no_grad():
        made = torch.nn.functional.normalize(aligning.head(vectors[data.synonyms.place]), dim=1).double()
    whole = 0.0
    for row in batch.name:
        right, wrong = ([name for name in part if name >= 0] for part in (row[1:3], row[3:]))
        rest = torch.exp(made[wrong] @ made[row[0]] / 0.07).sum()
        own = torch.exp(made[right] @ made[row[0]] / 0.07)
        whole += float(-torch.log(own / (own + rest)).mean()) / 6
    assert loss == pytest.approx(whole, rel=1e-4)
    assert all(weight.grad is not None and weight.grad.any() for weight in it.model.head.parameters())

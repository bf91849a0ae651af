"""The trainings of OSLAT: their losses, what is contrasted, a step against its definition, and what is learnt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from training_builders import (
    DOCUMENTS,
    KB,
    QUICK_OSLAT,
    READS,
    document,
    gradients,
    log_of,
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
from arbo.spans.model_finder import ModelFinder
from arbo.training.config import SelfAlignmentConfig
from arbo.training.losses import focal_loss, nt_xent
from arbo.training.oslat.finder import OslatTrainer, train_oslat
from arbo.training.oslat.self_alignment import Aligning, SelfAlignmentTrainer, train_self_alignment
from arbo.training.oslat.synonyms import AnnotatedTexts, NamesAlone, Others, Synonyms

LONELY = document("d", "the marsh fever", ["E0"])


def trainer_of(tower: Tower, reads: LabelAttentionConfig, folder: Path, **changes: Any) -> OslatTrainer:
    config, data = replace(QUICK_OSLAT, **changes), AnnotatedTexts.of(DOCUMENTS, KB)
    torch.manual_seed(2)
    model = LabelAttention.of(tower, reads).with_head(torch.nn.Linear(64, 64, bias=False))
    it = OslatTrainer(model, data, None, config, workplace(folder, config))
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
    it = trainer_of(bert, READS, tmp_path, n_negatives=50)
    names, data = KB.names(), it.data
    assert len(data.queries) == len(data.entity) - 1  # one entity has no synonym
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


ALONE = arbo.KnowledgeBase([arbo.Entity("E0", "fever", aliases=("marsh",))])
ONE_NAME = arbo.KnowledgeBase([arbo.Entity("E", "fever", aliases=("FEVER",)), arbo.Entity("F", "cancer")])


@pytest.mark.parametrize(
    ("documents", "kb", "dev", "wrong"),
    [
        ([document("d", "mention", ["E3"])], KB, None, r"nothing to train on: no entity \(of 1\) has two names"),
        ([document("d", "mention", ["E9"])], KB, None, r"nothing to train on: no text \(of 1\) has an entity"),
        (DOCUMENTS[2:3], ALONE, None, "nothing to train on: names need names of other entities"),
        ([LONELY], KB, None, "nothing to train on: names need names of other entities"),
        (DOCUMENTS, KB, [LONELY], "nothing to choose the best model by: names need names of other entities"),
        (None, ALONE, None, "nothing to align: names need names of other entities"),
        (None, ONE_NAME, None, r"nothing to align: no entity \(of 2\) has two names that differ"),
    ],
)
def test_nothing_to_learn(bert: Tower, tmp_path: Path, documents: Any, kb: Any, dev: Any, wrong: str) -> None:
    encoder = arbo.DualEncoder(bert, bert, arbo.EncoderConfig())
    train = partial(train_self_alignment, encoder, kb)
    if documents is not None:
        train = partial(train_oslat, LabelAttention.of(bert, READS), documents, kb, dev=dev)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=wrong):
        train(out=tmp_path / "out")
    with pytest.raises(UsageError, match="separate tower for mentions"):
        train_self_alignment(encoder.with_two_towers(), KB, out=tmp_path / "two")
    assert not any(tmp_path.iterdir())


def test_each_name_is_compared_with_its_synonyms() -> None:
    data = NamesAlone(Synonyms.of(KB))
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
    it = trainer_of(without_dropout(bert), reads, tmp_path, **changes)
    queries, config = it.data.queries, it.config
    batch = it.batch(0, queries, np.arange(len(queries)))
    loss = it.add_gradients(0, batch, 1 / len(queries))
    own = gradients(it)  # type: ignore[arg-type]
    exact = it.model.copy()
    exact.module.double()

    def hidden(ids: list[int]) -> Any:
        return exact.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0]

    def read(text: int, name: int) -> tuple[Any, Any]:
        """Return the vector of the name in the text, and the score of the name."""
        ((row, _),) = exact.token_rows([it.data.texts[text]])
        tokens = hidden(row.ids)[row.begin : row.end]
        (row,) = exact.names(KB).spell(exact.names(KB).row[it.data.synonyms.place[[name]]])
        vector = hidden(row.ids)[0] if reads.pooling == "cls" else hidden(row.ids).mean(dim=0)
        weight = torch.softmax(tokens @ vector / (64**0.5 if reads.scaled else 1), dim=0)
        found = weight @ tokens
        mapped = (exact.head(one.detach()) for one in (found, vector))  # type: ignore[misc]
        return found / found.norm() if config.normalized else found, torch.cosine_similarity(*mapped, dim=0)

    whole = torch.zeros((), dtype=torch.float64)
    for query, row in zip(batch.query, batch.name, strict=True):
        text, n = it.data.text[query], 1 + config.n_positives
        seen = {name: read(text, name) for name in row.tolist() if name >= 0}
        anchor = seen[row[0]][0]
        right = torch.stack([anchor @ seen[name][0] for name in row[1:n].tolist() if name >= 0]) / config.temperature
        wrong = torch.stack([anchor @ seen[name][0] for name in row[n:].tolist() if name >= 0]) / config.temperature
        each = [-torch.log_softmax(torch.cat([score[None], wrong]), dim=0)[0] for score in right]
        best: dict[int, Any] = {}  # the score of an entity is that of its best name
        for name, (_, score) in seen.items():
            owner = int(it.data.synonyms.owner[name])
            best[owner] = torch.maximum(best.get(owner, score), score)
        p = {owner: torch.sigmoid(10 * (score - 0.5)) for owner, score in best.items()}
        there = int(it.data.entity[query])
        head = [
            -0.25 * (1 - q) ** 2 * q.log() if owner == there else -0.75 * q**2 * (1 - q).log() for owner, q in p.items()
        ]
        whole = whole + (torch.stack(each).mean() + torch.stack(head).mean()) / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert float((own.double() - expected).norm()) < 1e-3 * float(expected.norm())


@pytest.mark.slow
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_a_step() -> Any:
        it = trainer_of(without_dropout(bert), READS, tmp_path, micro_batch=2, clip=None)
        it.step(0, it.data.queries)
        return gradients(it)  # type: ignore[arg-type]

    whole = of_a_step()
    assert float((of_two_processes(monkeypatch, of_a_step) - whole).norm()) < 1e-3 * float(whole.norm())


@pytest.mark.slow
def test_self_alignment_contrasts_what_the_head_makes(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(batch_size=4, n_negatives=4, n_positives=2, micro_batch=3, projection=8)
    encoder = arbo.DualEncoder(tower := without_dropout(bert), tower, arbo.EncoderConfig(pooling="cls"))
    data = NamesAlone(Synonyms.of(KB))
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


@pytest.mark.slow
def test_the_positions_of_mentions_do_not_count(bert: Tower, tmp_path: Path) -> None:
    scrambled = [document(d.id, d.text, [m.gold[0] for m in d.mentions][::-1], 1) for d in DOCUMENTS]  # type: ignore[index]
    assert arbo.Corpus(scrambled).fingerprint != DOCUMENTS.fingerprint
    for place, documents in enumerate((DOCUMENTS, scrambled)):
        out = tmp_path / str(place)
        train_oslat(LabelAttention.of(bert, READS), documents, KB, out=out, dev=documents, config=QUICK_OSLAT)
    assert log_of(tmp_path / "0") == log_of(tmp_path / "1")


@pytest.mark.parametrize("expand", [True, False])
def test_the_threshold_is_that_of_a_finder_that_expands_alike(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expand: bool
) -> None:
    def tuned(finder: ModelFinder, *_: object, **__: object) -> ModelFinder:
        return replace(finder, model=finder.model.with_threshold(0.75 if finder.abbreviations else 0.25))

    monkeypatch.setattr(ModelFinder, "tuned", tuned)
    start, config = LabelAttention.of(bert, replace(READS, entity_threshold=0.9)), replace(QUICK_OSLAT, steps=1)
    how: Any = {"out": tmp_path / "out", "expand_abbreviations": expand, "config": config}
    assert train_oslat(start, DOCUMENTS, KB, dev=DOCUMENTS, **how).threshold == (0.75 if expand else 0.25)
    assert train_oslat(start, DOCUMENTS, KB, **how).threshold == 0.5


@pytest.mark.slow
def test_a_tiny_model_learns_where_to_look(bert: Tower, tmp_path: Path) -> None:
    """Names of an entity have no letter in common, each text has one of them, and nobody says which word it is."""
    names = [("fever", "marsh"), ("kidney", "left"), ("cancer", "syndrome"), ("patients", "disease")]
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", own[0], aliases=own[1:]) for i, own in enumerate(names)])
    rng, documents, words = np.random.default_rng(0), [], []
    for place in range(80):
        entities = rng.permutation(len(names))[:2].tolist()
        words.append({entity: names[entity][rng.integers(2)] for entity in entities})
        text = " ".join(rng.permutation([*words[-1].values(), *rng.choice(["the", "of", "in", "and"], 4)]))
        documents.append(document(str(place), text, [f"E{entity}" for entity in entities]))
    tower = without_dropout(bert)
    encoder = arbo.DualEncoder(tower, tower, arbo.EncoderConfig())
    align = SelfAlignmentConfig(epochs=40, batch_size=8, n_negatives=6, learning_rate=1e-3)
    aligned = train_self_alignment(encoder, kb, out=tmp_path / "aligned", config=align)
    trained = train_oslat(
        LabelAttention.of(without_dropout(aligned.mention_tower), READS),
        documents[:50],
        kb,
        out=tmp_path / "out",
        dev=documents[50:60],
        config=replace(QUICK_OSLAT, epochs=15, batch_size=16, n_negatives=8),
    )
    texts = [one.text for one in documents[60:]]
    text, entity = np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20)
    right = [words[60 + i].get(e) for i, e in zip(text.tolist(), entity.tolist(), strict=True)]

    def mass(model: LabelAttention) -> float:
        """Return the mean weight of the word that stands for the entity, where one does."""
        shares = []
        for look in model.looks(texts, kb, text, entity):
            own = zip((right[pair] for pair in look.pairs), look.weights, strict=True)
            shares += [weights[texts[look.text].split().index(word)] for word, weights in own if word]
        return float(np.mean(shares))

    assert mass(trained) > mass(LabelAttention.of(tower, READS)) + 0.2
    is_there = np.array([word is not None for word in right])
    assert ((trained.score(texts, kb, text, entity) >= trained.threshold) == is_there).mean() > 0.9
    spans = trained.spans(texts, kb, text, entity)
    found = [word in [texts[i][b:e] for b, e in own] for i, word, own in zip(text, right, spans, strict=True) if word]
    assert np.mean(found) > 0.75
    for log in (log_of(tmp_path / "out"), log_of(tmp_path / "aligned")):
        assert log[-1]["loss"] < log[0]["loss"] / 4

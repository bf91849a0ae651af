"""A step of each training: which texts it reads, and its loss and gradient against their definitions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_builders as tb
from builders import batches
from training_builders import cross, dual_trainer, encoder, gradients, sample, torch, trainer_of, without_dropout

import arbo
from arbo.encoders.tower import Tower
from arbo.training.config import SelfAlignmentConfig
from arbo.training.cross import gold_first
from arbo.training.data import TrainingSet
from arbo.training.losses import LOSSES, Pairs, comparable, mention_losses
from arbo.training.oslat import Contrasts, SelfAlignmentTrainer

TRAIN, _, BASE = sample()

pytestmark = pytest.mark.slow


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    assert float((found.double() - expected.double()).norm()) <= tolerance * float(expected.norm())


PROXY = {"loss": "proxy", "scale": 4.0}
PLAIN = {"loss": "cross-entropy", "scale": 0.3}


WAYS = [(PROXY, False, "cosine", 1), (PROXY, True, "cosine", 2), (PROXY, False, "dot", 10**6)]
WAYS += [(PLAIN, False, "dot", 3), (PLAIN, True, "cosine", 3), (PLAIN, False, "cosine", 10**6)]


@pytest.mark.parametrize(("settings", "two_towers", "metric", "micro_batch"), WAYS)
def test_a_step_of_a_dual_encoder_by_definition(
    bert: Tower, tmp_path: Path, settings: dict[str, Any], two_towers: bool, metric: Any, micro_batch: int
) -> None:
    """Loss and gradient, one mention and one node at a time, without any padding."""
    start = encoder(without_dropout(bert), metric=metric)
    start = start.with_two_towers() if two_towers else start
    changes = {"positives": "entity", "negatives": "in-batch", "micro_batch": micro_batch, **settings}
    it, batch = trainer_of(start, TRAIN[:2], BASE, tmp_path, **changes)
    assert len({len(text.row.ids) for text in batch.texts}) > 2
    loss, own = it.add_gradients(0, batch, 1.0), gradients(it)
    it.optimizer.zero_grad()

    def vector(text: Any) -> Any:
        return comparable(text.tower.model(torch.tensor([text.row.ids])).last_hidden_state[0].mean(0), metric)

    total = torch.zeros(())
    for mention, nodes, exists in zip(batch.mention, batch.node, batch.exists, strict=True):
        anchor = vector(batch.texts[mention])
        scores = torch.stack([anchor @ vector(batch.texts[node]) for node in nodes[exists]])[None]
        pairs = Pairs(torch.ones(1, 1), scores[..., None], scores.isfinite())
        total = total + mention_losses(pairs, it.config, metric)[0]
    total.backward()
    assert loss == pytest.approx(float(total.detach()), rel=1e-4)
    assert_near(own, gradients(it), 1e-3)


def test_the_micro_batch_does_not_change_a_step(bert: Tower, tmp_path: Path) -> None:
    steps = []
    for micro_batch in (2, 10**6):
        settings = tb.PARTS["all"] | {"micro_batch": micro_batch, "precision": "float32", "positives": "entity"}
        it, batch = trainer_of(encoder(without_dropout(bert)), TRAIN[:1], BASE, tmp_path, **settings)
        it.add_gradients(0, batch, 1.0)
        steps.append(gradients(it))
    assert_near(*steps, 1e-3)


@pytest.mark.parametrize("two_towers", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradients_through_their_cache(bert: Tower, tmp_path: Path, two_towers: bool, precision: Any) -> None:
    """With dropout: as if all parts were in memory at once, each with the dropout that it has."""
    start = encoder(bert).with_two_towers() if two_towers else encoder(bert)
    n_parts = 3
    micro_batch = -(-len(TrainingSet.of(TRAIN[:4], BASE).queries) // n_parts)
    it, batch = trainer_of(start, TRAIN[:4], BASE, tmp_path, micro_batch=micro_batch, precision=precision)
    loss, cached = it.add_gradients(5, batch, 1.0), gradients(it)
    it.optimizer.zero_grad()
    parts = []
    for i in range(n_parts):
        torch.manual_seed(int(np.random.SeedSequence([it.config.seed, 5, i]).generate_state(1)[0]))
        parts.append(it.prepared(batch, slice(i, None, n_parts)))
    at_once = torch.stack([parts[i % n_parts][i // n_parts] for i in range(len(batch.texts))])
    pairs = it.pairs(batch, at_once, slice(None))
    whole = LOSSES["arborescence"](it.config.scale * pairs.scores, pairs.exists).sum()
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    assert_near(cached, gradients(it), 1e-5 if precision == "float32" else 1e-2)


@pytest.mark.parametrize(("negatives", "micro_batch"), [("in-batch", 7), ("knn", 1), ("knn", 10**6)])
def test_a_text_of_a_batch_gets_its_gradient_once(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_batch: int, negatives: str
) -> None:
    it, batch = trainer_of(encoder(bert), TRAIN[:4], BASE, tmp_path, micro_batch=micro_batch, negatives=negatives)
    encode, seen = Tower.encode, []
    monkeypatch.setattr(Tower, "encode", lambda *of: seen.append((of[1], torch.is_grad_enabled())) or encode(*of))
    it.add_gradients(0, batch, 1.0)
    read = [[tuple(row.ids) for row in rows] for rows, has_gradient in seen if has_gradient]
    distinct, n_texts = {tuple(text.row.ids) for text in batch.texts}, len(batch.texts)
    assert (len(distinct), sorted(row for rows in read for row in rows)) == (n_texts, sorted(distinct))
    n_parts = min(-(-len(batch.mention) // micro_batch), n_texts)
    assert max(map(len, read)) <= -(-n_texts // n_parts)  # what is in memory at once


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("micro_batch", "budget"), [(1, 10**6), (3, 90), (10**6, 400)])
def test_a_step_of_a_cross_encoder_by_definition(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: Any, micro_batch: int, budget: int
) -> None:
    """Loss and gradient in float64, one pair at a time, without any padding."""
    start = cross(without_dropout(bert), pooling=pooling)
    trainer = tb.cross_trainer(start, TRAIN[:2], BASE, tmp_path, micro_batch=micro_batch)
    monkeypatch.setattr(Tower, "tokens_a_batch", budget)
    queries = trainer.data.queries
    loss, exact = trainer.add_gradients(0, queries, 1 / len(queries)), start.copy()
    exact.module.double()

    def score(mention: int, entity: int) -> Any:
        texts = exact.texts([trainer.data.inputs[mention]], arbo.KnowledgeBase([BASE.entities[entity]]))
        (row,) = exact.spell(texts, np.array([0]), np.array([0]))
        hidden = exact.tower.model(input_ids=torch.tensor([row.ids])).last_hidden_state[0]
        return exact.tower.projection(hidden[0] if pooling == "cls" else hidden.mean(dim=0))[0]

    whole = torch.zeros((), dtype=torch.float64)
    for mention in queries:
        scores = [score(mention, entity) for entity in trainer.nodes[mention].tolist() if entity >= 0]
        whole = whole + (torch.stack(scores).exp().sum().log() - scores[0]) / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    assert_near(gradients(trainer), expected, 1e-4)


@pytest.mark.parametrize("changes", [{}, {"micro_batch": 2}])
@pytest.mark.parametrize("reads", [tb.READS, replace(tb.READS, pooling="cls", max_length=6)])
def test_a_step_of_label_attention_by_definition(bert: Tower, tmp_path: Path, changes: Any, reads: Any) -> None:
    """Loss and gradient in float64, one text and one name at a time, without any padding."""
    it = tb.oslat_trainer(without_dropout(bert), reads, tmp_path, **changes)
    queries, config = it.data.queries, it.config
    batch = it.batch(0, queries, np.arange(len(queries)))
    loss, exact = it.add_gradients(0, batch, 1 / len(queries)), it.model.copy()
    exact.module.double()

    def hidden(ids: list[int]) -> Any:
        return exact.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0]

    def read(text: int, name: int) -> tuple[Any, Any]:
        """Return the vector of the name in the text, and the score of the name."""
        row, _ = exact.token_row(it.pieces.texts[text])
        tokens, names = hidden(row.ids)[row.begin : row.end], exact.name_encoder.entity_texts(tb.KB)
        (row,) = names.spell(names.row[it.data.place[[name]]])
        vector = hidden(row.ids)[0] if reads.pooling == "cls" else hidden(row.ids).mean(dim=0)
        said = torch.softmax(tokens @ vector, dim=0) @ tokens
        mapped = (exact.tower.projection(one.detach()) for one in (said, vector))
        return said / said.norm(), torch.cosine_similarity(*mapped, dim=0)

    whole = torch.zeros((), dtype=torch.float64)
    for query, row in zip(batch[:, 0], batch[:, 1:], strict=True):
        text, n = it.data.context[query], 1 + config.n_positives
        seen = {name: read(text, name) for name in row.tolist() if name >= 0}
        anchor = seen[row[0]][0]
        parts = ([anchor @ seen[name][0] for name in part.tolist() if name >= 0] for part in (row[1:n], row[n:]))
        right, wrong = (torch.stack(part) / 0.07 for part in parts)
        each = [-torch.log_softmax(torch.cat([score[None], wrong]), dim=0)[0] for score in right]
        best: dict[int, Any] = {}  # the score of an entity is that of its best name
        for name, (_, score) in seen.items():
            owner = int(it.data.owner[name])
            best[owner] = torch.maximum(best.get(owner, score), score)
        p = {owner: torch.sigmoid(10 * (score - 0.5)) for owner, score in best.items()}
        there = int(it.data.entity[query])
        head = [-0.75 * q**2 * (1 - q).log() for owner, q in p.items() if owner != there]
        head.append(-0.25 * (1 - p[there]) ** 2 * p[there].log())
        whole = whole + (torch.stack(each).mean() + torch.stack(head).mean()) / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert_near(gradients(it), expected, 1e-3)


def test_a_step_of_self_alignment_by_definition(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(batch_size=4, n_negatives=4, n_positives=2, micro_batch=3)
    start = arbo.DualEncoder(tower := without_dropout(bert), tower, arbo.EncoderConfig(pooling="cls"))
    data = Contrasts(tb.KB)
    it = SelfAlignmentTrainer(start, data, None, config, tb.workplace(tmp_path, config))
    it.prepared.train()
    batch = it.batch(0, data.queries[:6], np.arange(6))
    loss, names = it.add_gradients(0, batch, 1 / 6), start.encode_entities(tb.KB)
    vectors = torch.from_numpy(names.matrix)[names.row]
    with torch.no_grad():
        made = torch.nn.functional.normalize(it.head(vectors[data.place]), dim=1).double()
    whole = 0.0
    for row in batch[:, 1:]:
        right, wrong = ([name for name in part if name >= 0] for part in (row[1:3], row[3:]))
        rest = torch.exp(made[wrong] @ made[row[0]] / 0.07).sum()
        own = torch.exp(made[right] @ made[row[0]] / 0.07)
        whole += float(-torch.log(own / (own + rest)).mean()) / 6
    assert loss == pytest.approx(whole, rel=1e-4)
    assert all(weight.grad is not None and weight.grad.any() for weight in it.head.parameters())


SIZES = [("cross", {"micro_batch": 1}), ("oslat", {"micro_batch": 2}), ("dual", {"micro_batch": 10**6})]
SIZES.append(("dual", {"micro_batch": 2, "negatives": "in-batch"}))


@pytest.mark.parametrize(("kind", "changes"), SIZES)
@pytest.mark.parametrize("n_queries", [1, None])
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, changes: dict[str, Any], n_queries: Any
) -> None:
    """Processes average their gradients before they step; one without a query of the batch takes part too."""
    tower, losses = without_dropout(bert), []

    def of_a_step() -> Any:
        it: Any
        if kind == "dual":
            it, _ = trainer_of(encoder(tower), TRAIN[:4], BASE, tmp_path, clip=None, **changes)
        elif kind == "cross":
            it = tb.cross_trainer(cross(tower), TRAIN[:1], BASE, tmp_path, clip=None, **changes)
        else:
            it = tb.oslat_trainer(tower, tb.READS, tmp_path, clip=None, **changes)
        reduce: list[int] = []
        backward = it.accelerator.backward
        it.accelerator.backward = lambda loss: reduce.append(1) or backward(loss)
        losses.append(it.step(0, it.data.queries[:n_queries])["loss"])
        assert reduce  # without which the other process would wait for ever
        return gradients(it)

    whole = of_a_step()
    assert_near(tb.of_two_processes(monkeypatch, of_a_step), whole, 1e-3)
    assert sum(losses[1:]) == pytest.approx(losses[0], rel=1e-4)


def marked(text: str, names: dict[str, str], spans: list[tuple[int, int, str]]) -> TrainingSet:
    kb = arbo.KnowledgeBase([arbo.Entity(id_, name) for id_, name in names.items()])
    mentions = (arbo.Mention(f"m{a}", "d", ((a, b),), text[a:b], gold=(gold,)) for a, b, gold in spans)
    return TrainingSet.of(arbo.Corpus.of([arbo.Document("d", text, tuple(mentions))]), kb)


@pytest.mark.parametrize("two_towers", [False, True])
def test_a_negative_of_the_same_text_is_dropped(bert: Tower, tmp_path: Path, two_towers: bool) -> None:
    """Mentions m1 to m4, and entities A to E, of the same names, in part but for case."""
    names = {"A": "fever", "B": "Fever", "C": "kidney", "D": "MARSH", "E": "cancer"}
    homonyms = marked("marsh Marsh kidney cancer", names, [(0, 5, "A"), (6, 11, "C"), (12, 18, "C"), (19, 25, "E")])
    start = encoder(bert).with_two_towers() if two_towers else encoder(bert)
    a, b, c, d, m2, m3 = 0, 1, 2, 3, 6, 7
    nodes = np.array([[a, b, c, d, m2, m3, -1], [c, a, b, d, m2, m3, 8]])
    batch = dual_trainer(start, homonyms, tmp_path).batch_of(np.array([0, 2]), nodes)
    # What the tower of entities makes of the mention's name is not the mention's vector.
    assert batch.exists.tolist() == [[1, 0, 1, two_towers, 0, 1, 0], [1, 1, 1, 1, 1, 0, 1]]
    assert (len(batch.texts), batch.mention[1] == batch.node[1, 0]) == (6 if two_towers else 4, not two_towers)


def test_an_entity_with_the_text_of_the_gold_one_is_dropped(bert: Tower, tmp_path: Path) -> None:
    data, candidates = tb.tiny_compared([("E0",)], [[0, 1, 2]])
    twins = [replace(entity, name="fever") if row == 1 else entity for row, entity in enumerate(data.kb)]
    trainer = tb.cross_trainer(cross(bert), (replace(data, kb=arbo.KnowledgeBase(twins)), candidates), None, tmp_path)
    assert trainer.exists[trainer.data.queries].tolist() == [[True, False, False, True]]


@pytest.mark.parametrize(("pooling", "n_texts"), [("cls", 1), ("mean", 1), ("mention", 2)])
def test_only_pooling_of_mentions_reads_a_text_twice(bert: Tower, tmp_path: Path, pooling: Any, n_texts: int) -> None:
    data = marked("kidney fever", {"A": "fever"}, [(0, 6, "A"), (7, 12, "A")])
    reads = arbo.EncoderConfig(mention="[CLS] {left} {mention} {right} [SEP]", pooling=pooling)
    it = dual_trainer(arbo.DualEncoder(bert, bert, reads), data, tmp_path)
    batch = it.batch_of(np.array([0, 1]), np.array([[2], [1]]))
    assert len(batch.texts) == n_texts
    expected = bert.embed(it.mentions.spell(it.mentions.row), pooling)
    np.testing.assert_allclose(it.encode(batch, slice(None)).detach().numpy()[batch.mention], expected, atol=1e-5)


@pytest.mark.parametrize("budget", [40, 200, 10**6])
def test_equal_lengths_go_together(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    monkeypatch.setattr(Tower, "tokens_a_batch", budget)
    data = TrainingSet.of(TRAIN, BASE)
    it = dual_trainer(encoder(bert), data, tmp_path)
    batch = it.batch_of(data.queries, np.arange(len(data.queries))[:, None])
    with batches(it.model.mention_tower) as shapes:
        assert len(it.encode(batch, slice(None))) == len(batch.texts)
    assert sum(n for n, _ in shapes) == len(batch.texts)
    assert all(n * longest <= budget or n == 1 for n, longest in shapes)
    assert [longest for _, longest in shapes] == sorted(longest for _, longest in shapes)
    assert (len(shapes) == 1) == (budget == 10**6)


def test_scores_are_not_rounded_in_bfloat16(bert: Tower, tmp_path: Path) -> None:
    it = dual_trainer(encoder(bert, metric="dot"), TrainingSet.of(TRAIN, BASE), tmp_path)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        batch = it.batch_of(np.arange(4), np.arange(20).reshape(4, 5))
        scores = it.pairs(batch, it.encode(batch, slice(None)), slice(None)).scores
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, scores.bfloat16().float())


def test_the_gold_entity_comes_first_and_takes_the_place_of_the_last() -> None:
    for gold, candidates, compared in (
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
    ):
        data, among = tb.tiny_compared([("E0",), gold], [[0, 1, 2], candidates])
        nodes = gold_first(data, among)[0][data.queries].tolist()
        assert nodes == [[0, -1, 1, 2], *([] if compared is None else [compared])]


def test_a_mention_with_nothing_to_choose_from_teaches_nothing(bert: Tower, tmp_path: Path) -> None:
    trainer = tb.cross_trainer(cross(bert), tb.tiny_compared([("E0",), ("E1",)], [[0, -1], [-1, -1]]), None, tmp_path)
    assert trainer.add_gradients(0, trainer.data.queries, 0.5) == 0
    assert not gradients(trainer).any()

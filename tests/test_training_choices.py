"""Settings of trainings, presets of papers; positives, negatives and mixup against brute force in float64."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import networkx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import arbo
from arbo.encoders.cross import CrossEncoderConfig
from arbo.errors import DataError, UsageError
from arbo.pipeline.saved_run import encoder_like
from arbo.spans.model import LabelAttentionConfig
from arbo.training import config
from arbo.training.config import NegativeStrategy, OslatTraining, PositiveStrategy, RerankingConfig, TrainingConfig
from arbo.training.data import Rivals, Snapshot, TrainingSet
from arbo.training.dual.plan import Plan, asks_the_model, near, pick_positives, random
from arbo.training.presets import PRESETS, RERANKING_PRESETS
from clustering.vectors import Vectors

_ENDS = {"linear": 0.0, "exponential": 0.01, "constant": 1.0, "late-exponential": 0.01}


@pytest.mark.parametrize(("schedule", "end"), _ENDS.items())
def test_the_learning_rate_rises_and_falls(schedule: Any, end: float) -> None:
    settings = TrainingConfig(schedule=schedule, learning_rate=2.0, warmup=0.25)
    rates = [settings.learning_rate_at(step, 100) for step in range(101)]
    assert (max(rates), rates[-1]) == (2.0, pytest.approx(2 * end))
    assert (np.diff(rates[25:]) <= 0).all()
    if schedule == "late-exponential":
        assert rates[:26] == [2.0] * 26
        assert np.diff(np.log(rates[25:])) == pytest.approx(np.log(0.01) / 75)
    else:
        assert (np.diff(rates[:25]) > 0).all()


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (TrainingConfig, {"epochs": 0}, "epochs"),
        (TrainingConfig, {"hard_share": 2}, "hard_share"),
        (TrainingConfig, {"batch_size": True}, "batch_size"),
        (TrainingConfig, {"mixup": 0}, "mixup"),
        (TrainingConfig, {"epsilon": None}, "epsilon"),
        (RerankingConfig, {"micro_batch": 1.5}, "micro_batch"),
        (RerankingConfig, {"positives": "1nn"}, "unknown setting 'positives'|unexpected keyword"),
        (LabelAttentionConfig, {"pooling": "tokens"}, "not one of mean, cls"),
        (CrossEncoderConfig, {"pooling": "mention"}, "pooling 'mention' is not one of cls, mean"),
        (CrossEncoderConfig, {"entity": "[CLS] {name} [SEP]"}, r"leave out its \[CLS\]"),
        (CrossEncoderConfig, {"entity": "{mention}"}, "is no plain field"),
        (CrossEncoderConfig, {"candidates": 0}, "at least 1"),
        (CrossEncoderConfig, {"entity_threshold": 1.5}, "from 0 to 1"),
        (CrossEncoderConfig, {"retrieval_weight": -1}, "retrieval_weight must be a number of at least 0"),
        (arbo.EncoderConfig, {"mention": "[CLS]"}, r"leaves out \{mention\}"),
        (arbo.EncoderConfig, {"entity": "{mention}"}, r"\{mention\} is no plain field"),
        (arbo.EncoderConfig, {"mention": None}, "mention must be a string"),
        (arbo.EncoderConfig, {"metric": "euclid"}, "metric 'euclid' is not one of cosine, dot"),
        (arbo.EncoderConfig, {"context": -1}, "context must be an integer of at least 0 or None, not -1"),
        (arbo.EncoderConfig, {"within_line": 1}, "within_line must be true or false, not 1"),
        (arbo.EncoderConfig, {"mention_threshold": float("inf")}, "mention_threshold must be a finite number or None"),
    ],
)
def test_invalid_settings(kind: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises((UsageError, TypeError), match=words):
        kind(**settings)
    with pytest.raises(DataError, match=f"own.json.*({words})"):
        kind.from_dict(settings, file="own.json")


def test_every_setting_is_checked() -> None:
    ours = (TrainingConfig, RerankingConfig, OslatTraining, arbo.SelfAlignmentConfig)
    for kind in (*ours, LabelAttentionConfig, CrossEncoderConfig, arbo.EncoderConfig):
        for name in kind.__dataclass_fields__:
            for value in (float("nan"), "nothing", *[-1][: "threshold" not in name]):
                with pytest.raises(UsageError, match=f"{name}|leaves out"):
                    kind(**{name: value})


def test_the_settings_of_papers() -> None:
    for settings, said in (
        (PRESETS["arboel"][0], "arborescence knn arborescence 3e-05 0.1 5 128 adam 1.0 10"),
        (PRESETS["pel"][0], "entity mixed proxy 1e-05 0.25 7 32 adamw 1.0 64"),
        (PRESETS["amh-dual"][0], "entity in-batch-hard bce 2e-05 0.1 5 64 adam 1.0 10"),
        (RERANKING_PRESETS["arboel"][0], "2e-05 0.1 5 2 adam 1.0"),
        (RERANKING_PRESETS["pel"][0], "2e-05 0.2 5 4 adamw 1.0"),
        (arbo.SelfAlignmentConfig(), "0.002 0.1 20 32 adam 1.0 50 exponential"),
        (OslatTraining(), "0.0002 0.1 10 32 adam 1.0 100 exponential"),
    ):
        names = ["learning_rate", "warmup", "epochs", "batch_size", "optimizer", "clip", "n_negatives"]
        if isinstance(settings, TrainingConfig):
            names = ["positives", "negatives", "loss", *names]
        else:
            names += ["schedule"]
        fields = asdict(settings)
        if isinstance(settings, RerankingConfig):
            del fields["schedule"]
        assert " ".join(str(fields[name]) for name in names if name in fields) == said


def test_the_rest_of_the_presets() -> None:
    (_, arboel), (pel, pel_reads), (amh, amh_reads) = (PRESETS[name] for name in ("arboel", "pel", "amh-dual"))
    assert arboel == arbo.EncoderConfig.in_context()
    assert (arboel.metric, arboel.entity_view, arboel.pooling) == ("dot", "whole", "cls")
    assert (pel.scale, pel.margin, pel.hard_share) == (None, 0, 0.5)
    assert (pel_reads.pooling, pel_reads.metric, pel_reads.max_length) == ("mean", "cosine", 128)
    assert pel_reads.mention == "[CLS] {left} [Ms] {mention} [Me] {right} [SEP]"
    assert pel_reads.entity == f"[CLS] {RERANKING_PRESETS['pel'][1].entity}"
    assert pel_reads.entity == "[CLS] {name} [SEP] {types} [SEP] {description} [SEP]"
    assert (amh.mixup, amh_reads.pooling, amh_reads.metric) == (0.3, "cls", "dot")
    assert PRESETS["amh-mean"] == (amh, replace(amh_reads, pooling="mean"))
    assert LabelAttentionConfig() == LabelAttentionConfig(pooling="mean")
    assert list(PRESETS) == list(get_args(config.PresetName))
    assert list(RERANKING_PRESETS) == list(get_args(config.RerankingPresetName))


def test_single_fields_of_a_trained_model_are_changed(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = arbo.EncoderConfig.in_context(max_length=48, entity_threshold=-3.0, mention_threshold=-4.0)
    unset = {"mention_threshold": None}
    arbo.DualEncoder.from_pretrained(bert_folder, saved).save_pretrained(tmp_path / "model")
    for fields, changes in (
        ({"context": "5"}, {"context": 5}),
        ({"pooling": "mean"}, {"pooling": "mean", "entity_threshold": None, **unset}),
        ({"metric": "cosine", "entity_threshold": "0.3"}, {"metric": "cosine", "entity_threshold": 0.3, **unset}),
    ):
        encoder = encoder_like({}, str(tmp_path / "model"), fields, tmp_path / "cache")
        assert encoder.config == replace(saved, **changes)
    with pytest.raises(UsageError, match="cache needs a transformer, not ngram; choose a transformer, or"):
        encoder_like({}, cache=tmp_path)


seeds = st.integers(0, 2**32)


class Case:
    """A small training set: entities with one to three texts, mentions with one gold id or two, or one outside."""

    def __init__(self, seed: int, *, in_domains: bool = False) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n_entities, n_mentions, dim = int(rng.integers(2, 6)), int(rng.integers(1, 14)), 4
        self.owner = np.sort(np.r_[np.arange(self.n_entities), rng.integers(self.n_entities, size=4)])
        self.texts = rng.normal(size=(len(self.owner), dim)).astype(np.float32)
        self.mentions = rng.normal(size=(n_mentions, dim)).astype(np.float32)
        self.rows = rows = [[int(rng.integers(self.n_entities))] for _ in range(n_mentions)]
        for row in rows:
            if rng.random() < 0.2:
                row.append((row[0] + 1) % self.n_entities)
            if rng.random() < 0.2:
                row[:] = [self.n_entities + int(rng.integers(2))]  # an id that the knowledge base lacks
            if rng.random() < 0.1:
                row.append(row[0])  # an id twice
        self.domains = [str(rng.integers(2)) if in_domains else None for _ in rows]
        self.entity_domains = [str(rng.integers(2)) if in_domains else None for _ in range(self.n_entities)]
        self.rivals = Rivals.of(rows, self.domains, self.entity_domains)
        primary = np.array([row[0] if row[0] < self.n_entities else -1 for row in rows])
        self.metric = ["dot", "cosine"][seed % 2]
        vectors = Vectors.of(self.texts, self.owner, n=self.n_entities), Vectors.of(self.mentions)
        self.snapshot = Snapshot(*vectors, primary, self.metric)

    def weight(self, a: int, b: int) -> float:
        """Dissimilarity of two nodes."""
        nodes = np.vstack([self.texts, self.mentions]).astype(np.float64)
        x, y = nodes[a], nodes[b]
        return float(1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y) if self.metric == "cosine" else -x @ y)

    def node(self, mention: int) -> int:
        return len(self.texts) + mention

    def wrong(self, mention: int) -> list[int]:
        """Entities that can be its negatives."""
        own = self.domains[mention]
        return [e for e, domain in enumerate(self.entity_domains) if domain == own and e not in self.rows[mention]]

    def others(self, mention: int) -> list[int]:
        """Mentions that can be its negatives."""
        own, gold = self.domains[mention], set(self.rows[mention])
        return [o for o, domain in enumerate(self.domains) if domain == own and not gold & set(self.rows[o])]

    def may_be_negative(self, mention: int, node: int) -> bool:
        if node < len(self.texts):
            return self.owner[node] in self.wrong(mention)
        return node - len(self.texts) in self.others(mention)

    def text(self, mention: int, entity: int) -> int:
        return min(np.flatnonzero(self.owner == entity), key=lambda text: self.weight(text, self.node(mention)))


def parents_by_definition(case: Case, edges: list[tuple[int, int]], cluster: list[int], entity: int) -> dict[int, int]:
    """Positives in the minimum spanning tree of the entity's edges to the cluster and some edges between mentions."""
    graph = networkx.Graph()
    for m in cluster:
        graph.add_edge("entity", m, weight=case.weight(case.text(m, entity), case.node(m)))
    for a, b in edges:
        graph.add_edge(a, b, weight=case.weight(case.node(a), case.node(b)))
    parent = dict(networkx.bfs_predecessors(networkx.minimum_spanning_tree(graph), "entity"))
    return {m: case.text(m, entity) if parent[m] == "entity" else case.node(parent[m]) for m in cluster}


@given(seeds, st.sampled_from(get_args(PositiveStrategy)[:-1]))
def test_positives(seed, strategy):
    case = Case(seed)
    picked = pick_positives(case.snapshot, strategy, np.random.default_rng(seed))
    assert (picked[case.snapshot.gold < 0] == -1).all()
    for entity in range(case.n_entities):
        cluster = np.flatnonzero(case.snapshot.gold == entity).tolist()
        if not cluster:
            continue
        nearest = {
            m: min((o for o in cluster if o != m), key=lambda o: case.weight(case.node(m), case.node(o)), default=None)
            for m in cluster
        }
        if strategy == "entity":
            expected = {m: case.text(m, entity) for m in cluster}
        elif strategy == "arborescence":
            everything = [(a, b) for a in cluster for b in cluster if a < b]
            expected = parents_by_definition(case, everything, cluster, entity)
        elif strategy == "1nn":
            expected = {}
            for m in cluster:
                three, edges = ([m], []) if nearest[m] is None else ([m, nearest[m]], [(m, nearest[m])])
                expected[m] = parents_by_definition(case, edges, three, entity)[m]
        else:  # a random mention of the cluster on the way from the entity, or the entity
            for m in cluster:
                edge = case.weight(case.text(m, entity), case.node(m))
                if picked[m] != case.text(m, entity):
                    other = picked[m] - len(case.texts)
                    assert other in set(cluster) - {m}
                    assert case.weight(case.node(m), picked[m]) < edge
                    assert case.weight(case.text(other, entity), picked[m]) < edge
            continue
        assert {m: int(picked[m]) for m in cluster} == expected


@given(seeds, st.sampled_from(get_args(PositiveStrategy)[1:-1]))
def test_positives_of_clusters_without_an_entity(seed, strategy):
    case = Case(seed)
    with_entity = pick_positives(case.snapshot, strategy, np.random.default_rng(seed))
    lonely = 9 + np.arange(len(case.rows))
    known = case.snapshot.gold >= 0
    gold = np.where(known, case.snapshot.gold, np.where(case.rng.random(len(case.rows)) < 0.8, 7, lonely))
    snapshot = replace(case.snapshot, gold=np.where(known | (np.bincount(gold)[gold] > 1), gold, -1))
    picked = pick_positives(snapshot, strategy, np.random.default_rng(seed))
    assert (picked[known] == with_entity[known]).all()
    cluster = np.flatnonzero(snapshot.gold == 7).tolist()
    assert (picked[~known & (snapshot.gold < 0)] == -1).all()
    edges = {(a, b): case.weight(case.node(a), case.node(b)) for a in cluster for b in cluster if a != b}
    nearest = {m: min((o for o in cluster if o != m), key=lambda o: edges[m, o]) for m in cluster if edges}
    parents = {m: int(picked[m]) - len(case.texts) for m in cluster if edges}
    if strategy == "1nn":
        assert parents == nearest
    elif strategy == "1rand":
        assert all(parent in cluster and parent != m for m, parent in parents.items())
    else:
        graph = networkx.Graph()
        chosen = edges if strategy == "arborescence" else {(m, o): edges[m, o] for m, o in nearest.items()}
        graph.add_weighted_edges_from((a, b, weight) for (a, b), weight in chosen.items())
        tree = {frozenset(edge) for edge in networkx.minimum_spanning_tree(graph).edges}
        assert {frozenset(pair) for pair in parents.items()} == tree  # each root takes its nearest: an edge of the tree


@given(seeds, st.integers(0, 6), st.booleans())
def test_random_negatives_are_wrong_and_differ(seed, n, in_domains):
    case = Case(seed, in_domains=in_domains)
    mentions = np.arange(len(case.rows))
    but = np.array([[*case.rng.permutation(case.wrong(m)).tolist(), -1, -1][:2] for m in mentions.tolist()])
    drawn = random(case.snapshot, case.rivals, mentions, n, np.random.default_rng(seed), but=but.reshape(-1, 2))
    for m, row in zip(mentions.tolist(), drawn.tolist(), strict=True):
        wrong = set(case.wrong(m)) - set(but[m].tolist())
        entities = [case.owner[text] for text in row if text >= 0]
        assert set(entities) <= wrong
        assert len(set(entities)) == len(entities) == min(n, len(wrong))
        assert row == [text for text in row if text >= 0] + [-1] * (n - len(entities))


def test_random_negatives_are_uniform_over_entities_not_texts():
    owner = np.r_[np.zeros(20, int), 1, 2, 3]
    snapshot = Snapshot(Vectors.of(np.eye(23), owner), Vectors.of(np.ones((4000, 23))), np.full(4000, 3), "dot")
    rivals = Rivals.of([[3]] * 4000, [None] * 4000, [None] * 4)
    drawn = random(snapshot, rivals, np.arange(4000), 1, np.random.default_rng(0), but=np.empty((4000, 0), int))
    assert np.bincount(owner[drawn[:, 0]]).tolist() == pytest.approx([4000 / 3] * 3, rel=0.1)


@pytest.mark.parametrize("n", [1, 9, 200])
def test_mixed_negatives_are_near_ones_and_others_none_twice(n):
    documents, kb = arbo.load_sample()
    data, rng = TrainingSet.of(documents, kb), np.random.default_rng(0)
    vectors = [Vectors.of(rng.normal(size=(size, 8))) for size in (len(kb), len(data.inputs))]
    snapshot = Snapshot(*vectors, data.gold.first, "dot")
    plan = Plan.of(data, snapshot, TrainingConfig(negatives="mixed", n_negatives=n, hard_share=0.3), 0)
    nearest = near(snapshot, data.rivals, data.queries, n_entities=round(0.3 * n), n_mentions=0)
    assert (plan.negative[data.queries, : nearest.shape[1]] == nearest).all()
    for m, row in zip(data.queries.tolist(), plan.negative[data.queries].tolist(), strict=True):
        nodes = [node for node in row if node >= 0]
        gold = {entity for id_ in data.inputs[m].mention.gold or () for entity in kb.rows(id_)}
        assert len(set(nodes)) == len(nodes) == min(n, len(kb) - len(gold))
        assert not gold & set(nodes)


def test_partly_random_negatives_of_a_batch_are_drawn_anew_each_step():
    everything, rivals = np.arange(40), Rivals.of([[i] for i in range(40)], [None] * 40, [None] * 40)
    data, plan = SimpleNamespace(rivals=rivals), Plan(everything, np.empty((40, 0), int))

    def nodes(negatives, step):
        config = TrainingConfig(negatives=negatives, n_negatives=5)
        return plan.nodes(data, everything, everything, config, step)[:, 1:]

    plain, drawn = nodes("in-batch", 0), nodes("in-batch-mixed", 0)
    assert (drawn == nodes("in-batch-mixed", 0)).all()
    assert (drawn != nodes("in-batch-mixed", 1)).any()
    assert (np.sort(drawn) == np.sort(plain)).all()
    assert len({int(row[row >= 0][0]) for row in drawn}) > 10


@given(seeds, st.booleans(), st.booleans(), st.sampled_from(["in-batch", "knn", "in-batch+knn"]), st.integers(1, 6))
def test_negatives_of_the_batch_and_near_ones(seed, in_domains, to_mentions, negatives, n):
    case = Case(seed, in_domains=in_domains)
    queries = np.flatnonzero(case.snapshot.gold >= 0)
    data = SimpleNamespace(rivals=case.rivals, queries=queries, kb=range(case.n_entities))
    config = TrainingConfig(positives="1nn" if to_mentions else "entity", negatives=negatives, n_negatives=n)
    plan, batch = Plan.of(data, case.snapshot, config, 0), case.rng.permutation(queries)[: 1 + len(queries) // 2]
    n_mentions = n // 2 if to_mentions else 0
    for m, row in zip(batch.tolist(), plan.nodes(data, case.owner, batch, config, 0).tolist(), strict=True):
        others = plan.positive[batch].tolist() if "in-batch" in negatives else []
        shared = {node for node in others if case.may_be_negative(m, node)}
        texts = sorted((case.text(m, e) for e in case.wrong(m)), key=lambda t: case.weight(t, case.node(m)))
        mates = sorted(map(case.node, case.others(m)), key=lambda o: case.weight(o, case.node(m)))
        near_ones = {*texts[: n - n_mentions], *mates[:n_mentions]} if "knn" in negatives else set()
        nodes = [node for node in row[1:] if node >= 0]
        assert (row[0], set(nodes)) == (plan.positive[m], shared | near_ones)
        assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize("negatives", get_args(NegativeStrategy))
@pytest.mark.parametrize("positives", ["entity", "arborescence"])
def test_what_asks_no_model_is_planned_without_it(positives: PositiveStrategy, negatives: NegativeStrategy) -> None:
    """One text an entity; a model that says something else changes the plan exactly where it is asked."""
    documents, kb = arbo.load_sample()
    data = TrainingSet.of(documents, kb)
    owner, config = np.arange(len(kb)), TrainingConfig(positives=positives, negatives=negatives)

    rng, snapshots = np.random.default_rng(0), [Snapshot.unread(data, owner, "dot")]
    for _ in range(2):
        entities, mentions = (Vectors.of(rng.normal(size=(n, 4))) for n in (len(kb), len(data.inputs)))
        snapshots.append(Snapshot(entities, mentions, data.gold.first, "dot"))
    asks = asks_the_model(config, owner)
    assert asks == (positives != "entity" or negatives in ("knn", "mixed", "in-batch+knn"))
    first, second = ([column.tolist() for column in Plan.of(data, one, config, 3)] for one in snapshots[1:])
    assert asks == (first != second)
    assert asks or first == [column.tolist() for column in Plan.of(data, snapshots[0], config, 3)]
    assert asks_the_model(config, np.array([0, 0, *owner[1:]]))  # which of two names is near

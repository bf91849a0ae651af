"""Training on gold clusters: without a knowledge base, and of mentions whose entity the knowledge base lacks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from training_builders import Killed, dying, encoder, log_of

import arbo
from arbo.encoders.tower import Tower
from arbo.engine import Graph, coreference_scores_from_labels, merge_tree, silent
from arbo.errors import DataError, UsageError
from arbo.retrieval.groups import among_mentions, nearest_within
from arbo.training.checkpoints import load_plan
from arbo.training.config import WITHOUT_KB
from arbo.training.data import Snapshot, TrainingSet
from arbo.training.dual.plan import Plan
from arbo.training.dual.positives import Mates
from arbo.training.dual.trainer import development_scores, train
from clustering.vectors import Vectors

KB = arbo.KnowledgeBase([arbo.Entity("E0", "fever"), arbo.Entity("E1", "cold")])
SMALL = replace(WITHOUT_KB, loss="arborescence", epochs=2, batch_size=8, learning_rate=1e-3, warmup=0.0)


def corpus(*rows: tuple[Any, str | None], domain: str | None = None, name: str = "d") -> arbo.Corpus:
    """Make a document with a mention of each pair of gold ids and gold cluster."""
    text = " ".join(f"w{i:03}" for i in range(len(rows)))
    mentions = tuple(
        arbo.Mention(f"{name}{i}", name, ((5 * i, 5 * i + 4),), f"w{i:03}", gold=gold, cluster=cluster)
        for i, (gold, cluster) in enumerate(rows)
    )
    return arbo.Corpus([arbo.Document(name, text, mentions, domain)])


def clusters(data: TrainingSet) -> list[list[int]]:
    """Return the mentions of each group that is trained on."""
    groups = [np.flatnonzero(data.cluster == number).tolist() for number in np.unique(data.cluster[data.cluster >= 0])]
    return sorted(groups)


def test_gold_ids_or_clusters_are_the_clusters() -> None:
    rows = [(("A",), "c"), (("A",), None), (None, "c"), (None, "c"), ((), "z"), (None, None), (("B", "A"), None)]
    data = TrainingSet.of(corpus(*rows), arbo.KnowledgeBase(), clusters=True)
    assert len(data.inputs) == 6
    assert clusters(data) == [[0, 1], [2, 3]]  # the last but one is alone, the last has other ids
    apart = [[bool(data.rivals.are_apart(np.array([a]), np.array([b]))[0]) for b in range(6)] for a in range(6)]
    assert {(a, b) for a in range(6) for b in range(a + 1, 6) if apart[a][b]} == {(m, 4) for m in range(4)} | {(4, 5)}


def test_domains_have_clusters_of_their_own() -> None:
    rows = [(("A",), None), (("A",), None)]
    documents = [*corpus(*rows, domain="a", name="d"), *corpus(*rows, domain="b", name="e")]
    data = TrainingSet.of(arbo.Corpus(documents), arbo.KnowledgeBase(), clusters=True)
    assert clusters(data) == [[0, 1], [2, 3]]


def test_a_knowledge_base_and_clusters_that_it_lacks() -> None:
    rows = [(("E0",), "c"), (("E0",), None), (("X",), None), (("X",), None), (None, "k"), (None, "k"), (None, "c")]
    documents = corpus(*rows)
    without = TrainingSet.of(documents, KB)
    assert len(without.inputs) == 4
    assert without.queries.tolist() == [0, 1]
    data = TrainingSet.of(documents, KB, clusters=True)
    assert clusters(data) == [[0, 1], [2, 3], [4, 5]]
    assert data.cluster[:2].tolist() == [0, 0]
    assert data.classes[6] not in data.classes[:6]
    mention, entity = np.array([6, 6, 4]), np.array([0, 1, 0])
    assert data.rivals.is_wrong(mention, entity).tolist() == [False, True, True]  # its chain has the entity


def test_negatives_without_entities_are_mentions() -> None:
    rows = [(("A",), None), (("A",), None), (("B",), None), (None, "c"), (None, "c")]
    data = TrainingSet.of(corpus(*rows), arbo.KnowledgeBase(), clusters=True)
    mentions = Vectors.of(np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.5, 0.5], [0.0, 1.0]]))
    snapshot = Snapshot(Vectors.of(np.zeros((0, 2)), n=0), mentions, data.cluster, "dot")
    plan = Plan.of(data, snapshot, replace(WITHOUT_KB, n_negatives=3), 0)
    assert plan.positive.tolist() == [1, 0, -1, 4, 3]
    assert [sorted(row) for row in plan.negative[data.queries].tolist()] == [[2, 3, 4], [2, 3, 4], [0, 1, 2], [0, 1, 2]]


TWO = corpus((("A",), None), (("A",), None))
ALONE = corpus((("A",), None), (None, "A2"), (None, None))


@pytest.mark.parametrize(
    ("documents", "given", "changes", "wrong"),
    [
        (
            TWO,
            {},
            {"positives": "entity"},
            "positives 'entity' needs a knowledge base; without one, choose for",
        ),
        (TWO, {}, {"negatives": "mixed"}, "negatives 'mixed' needs a knowledge base"),
        (TWO, {}, {"best": "recall@16"}, "best 'recall@16' needs a knowledge base; without one, choose 'ari'"),
        (TWO, {"edges": "english"}, {"positives": "1nn"}, "needs the positives 'arborescence', not '1nn'; choose them"),
        (TWO, {"pooling": "tokens"}, {}, "the pooling 'tokens' gives one per token; choose another pooling"),
        (TWO, {"two_towers": True}, {}, "two towers needs a knowledge base; without one"),
        (ALONE, {}, {}, r"nothing to train on: no two annotated mentions \(of 2\)"),
        (corpus((None, None)), {}, {}, r"no mention \(of 1\) has a gold id or gold cluster; annotate"),
        (TWO, {"dev": ALONE}, {}, "nothing to choose the best model by: no two"),
    ],
)
def test_what_cannot_be_trained(
    bert: Tower, tmp_path: Path, documents: Any, given: dict[str, Any], changes: Any, wrong: str
) -> None:
    start = encoder(bert, **{name: value for name, value in given.items() if name == "pooling"})
    start = start.with_two_towers() if "two_towers" in given else start
    edges = arbo.EdgeModel.load("english") if "edges" in given else None
    how: dict[str, Any] = {"dev": given.get("dev"), "edges": edges, "config": replace(WITHOUT_KB, **changes)}
    with pytest.raises((UsageError, DataError), match=wrong):
        train(start, documents, out=tmp_path / "m", **how)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    """Return documents, whose gold ids are kept as clusters by half of the mentions, and others."""
    documents, kb = arbo.load_sample()
    halved = [
        replace(
            document,
            mentions=tuple(
                replace(mention, gold=None, cluster=mention.gold[0]) if place % 2 and mention.gold else mention
                for place, mention in enumerate(document.mentions)
            ),
        )
        for document in documents
    ]
    return arbo.Corpus(halved[:40]), documents[80:], kb


def test_learnt_edges_of_clusters_are_those_of_linking() -> None:
    documents, _ = arbo.load_sample()
    edges = arbo.EdgeModel.load("english")
    data = TrainingSet.of(documents[:20], arbo.KnowledgeBase(), clusters=True)
    mates = Mates.of(data, edges)
    pairs = list(zip(mates.first.tolist(), mates.second.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) > 50
    assert all(data.cluster[a] == data.cluster[b] >= 0 for a, b in pairs)
    found = arbo.Linker(edges=edges).retrieve(documents[:20], k=500, discover=True)
    assert [item.mention for item in found.inputs] == [item.mention for item in data.inputs]
    weight = dict(zip(pairs, mates.weight.tolist(), strict=True))
    target, place = np.nonzero(found.mentions.ids >= 0)
    source = found.mentions.ids[target, place]
    inside = (data.cluster[source] == data.cluster[target]) & (data.cluster[source] >= 0)
    for a, b, w in zip(
        *(x[inside].tolist() for x in (source, target, found.mentions.dissimilarity[target, place])), strict=True
    ):
        assert weight[(a, b) if (a, b) in weight else (b, a)] == w


@pytest.mark.slow
def test_learnt_edges_choose_the_positives(bert: Tower, tmp_path: Path, sample: Any) -> None:
    edges = arbo.EdgeModel.load("english")
    run = partial(train, encoder(bert), sample[0], out=tmp_path / "model", config=replace(SMALL, steps=3))
    with pytest.raises(Killed):
        run(edges=edges, options=arbo.RunOptions(checkpoint_every=1, announce=dying(1)))
    (checkpoint,) = (file.parent for file in (tmp_path / "model.training").glob("**/plan.safetensors"))
    data = TrainingSet.of(sample[0], arbo.KnowledgeBase(), clusters=True)
    mates = Mates.of(data, edges)
    positive = load_plan(checkpoint, Plan).positive
    tied = {frozenset(pair) for pair in zip(mates.first.tolist(), mates.second.tolist(), strict=True)}
    chosen = {frozenset((m, int(positive[m]))) for m in np.flatnonzero(mates.nearest(len(positive)) >= 0).tolist()}
    assert len(chosen) > 50
    assert chosen <= tied
    with pytest.raises(UsageError, match="belongs to another training run, which differs in edges"):
        run()


@pytest.mark.slow
@pytest.mark.parametrize("positives", ["arborescence", "1nn", "1rand", "1nn-cluster", "1rand-cluster"])
@pytest.mark.parametrize("negatives", ["knn", "in-batch", "in-batch-hard", "in-batch+knn"])
def test_all_parts_train_without_entities(
    bert: Tower, tmp_path: Path, sample: Any, positives: Any, negatives: Any
) -> None:
    config = replace(SMALL, positives=positives, negatives=negatives, steps=2)
    train(encoder(bert), sample[0], out=tmp_path / "model", config=config)
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))


@pytest.mark.slow
def test_the_best_model_and_its_threshold_are_those_of_discovery(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, _ = sample
    for best in ("ari", "b3", "conll"):
        trained = train(encoder(bert), documents, dev=dev, out=tmp_path / best, config=replace(SMALL, best=best))
        looks = [line for line in log_of(tmp_path / best) if "ari" in line]
        assert [set(line) >= {"ari", "b3", "conll"} and "recall@1" not in line for line in looks] == [True, True]
        data = TrainingSet.of(dev, arbo.KnowledgeBase(), clusters=True)
        own = development_scores(data, Snapshot.of(data, trained))
        assert own[best] == max(line[best] for line in looks)
    tuning = arbo.Linker(None, trained).tune(dev).tuning
    assert tuning is not None
    assert trained.config.entity_threshold is None
    score = max(trial.score for trial in tuning.trials if trial.k == arbo.LinkerConfig().k)
    clustering = arbo.Linker(None, trained).discover(dev).evaluate().clustering
    assert clustering is not None
    assert clustering["ari"] == pytest.approx(score)


@pytest.mark.slow
def test_a_tiny_model_learns_clusters(bert: Tower, tmp_path: Path) -> None:
    documents, _ = arbo.load_sample()
    start = encoder(bert)
    config = replace(SMALL, epochs=4, batch_size=32)
    trained = train(start, documents[:60], out=tmp_path / "model", config=config)
    data = TrainingSet.of(documents[:60], arbo.KnowledgeBase(), clusters=True)
    before, after = (development_scores(data, Snapshot.of(data, model)) for model in (start, trained))
    assert all(after[name] > before[name] + 0.02 for name in ("ari", "b3", "conll"))


def test_conll_is_that_of_the_best_cut() -> None:
    rng = np.random.default_rng(0)
    rows = [((f"E{number}",), None) for number in rng.integers(12, size=300)]
    data = TrainingSet.of(corpus(*rows), arbo.KnowledgeBase(), clusters=True)
    vectors = np.eye(12)[data.classes] + rng.normal(size=(300, 12)) / 2
    snapshot = Snapshot(Vectors.of(np.zeros((0, 12)), n=0), Vectors.of(vectors), data.cluster, "cosine")
    scores = development_scores(data, snapshot)
    search: dict[str, Any] = {"metric": "cosine", "search": "exact", "progress": silent}
    near = nearest_within(among_mentions([None] * 300), snapshot.mentions, snapshot.mentions, 8, **search)
    tree = merge_tree(Graph.from_neighbors(near))
    every = [coreference_scores_from_labels(data.classes, tree.cut(height)) for height in (-np.inf, *tree.height)]
    assert scores["conll"] == pytest.approx(max(cut["conll"] for cut in every))
    assert scores["b3"] == pytest.approx(max(cut["b3"]["f1"] for cut in every))


@pytest.mark.slow
def test_the_verb_without_a_knowledge_base(bert_folder: Path, tmp_path: Path, run: Run, sample: Any) -> None:
    sample[0].to_jsonl(tmp_path / "train.jsonl")
    sample[1].to_jsonl(tmp_path / "dev.jsonl")
    command = ["train", "encoder", tmp_path / "train.jsonl", "--encoder", bert_folder, "--out", tmp_path / "model"]
    done = run(*command, "--dev", tmp_path / "dev.jsonl", "--set", "steps=2", "--json")
    assert done.code == 0, done.err
    assert done.json["training"]["positives"] == "arborescence"
    assert done.json["training"]["best"] == "ari"
    assert "mentions without an entity that share a gold id or gold cluster, and are trained on: " in done.err
    assert f"ari {log_of(tmp_path / 'model')[-1]['ari']:.3f}, b3" in done.err
    found = run("discover", tmp_path / "dev.jsonl", "--encoder", tmp_path / "model", "--out", tmp_path / "run")
    assert found.code == 0, found.err
    refused = run(*command, "--set", "positives=entity")
    assert refused.code == 2
    assert "positives 'entity' needs a knowledge base" in refused.told
    refused = run(*command, "--set", "positives=1nn", "--edges", "english")
    assert refused.code == 2
    assert "needs the positives 'arborescence', not '1nn'" in refused.told
    assert run(*command, "--edges", "english", "--set", "steps=1").code == 0
    assert run(*command, "--preset", "arboel", "--set", "steps=1", "--set", "batch_size=2").code == 0

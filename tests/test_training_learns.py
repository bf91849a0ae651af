"""Trainings from end to end: what they are taught, that they learn it, and how the best model is chosen."""

from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from training_builders import QUICK, QUICK_CROSS, encoder, log_of, marked, sample, torch, without_dropout

import arbo
from arbo.data import mention_inputs
from arbo.encoders.cross import CrossEncoder, CrossEncoderConfig
from arbo.encoders.tower import Tower
from arbo.engine import Graph, coreference_scores_from_labels, merge_tree, silent
from arbo.retrieval.groups import among_mentions, nearest_within
from arbo.retrieval.reranking import rerank
from arbo.training import loop
from arbo.training.config import WITHOUT_KB, NegativeStrategy, PositiveStrategy
from arbo.training.data import Snapshot, TrainingSet
from arbo.training.dual import trainer as dual
from arbo.training.dual.plan import Plan
from arbo.training.dual.trainer import development_scores, train
from arbo.training.presets import PRESETS
from clustering.vectors import Vectors

NO_KB = arbo.KnowledgeBase()
CLUSTERS = replace(WITHOUT_KB, loss="arborescence", epochs=2, batch_size=8, learning_rate=1e-3, warmup=0.0)


def clusters(data: TrainingSet) -> list[list[int]]:
    """Return the mentions of each group that is trained on."""
    groups = [np.flatnonzero(data.cluster == number).tolist() for number in np.unique(data.cluster[data.cluster >= 0])]
    return sorted(groups)


def test_gold_ids_or_clusters_are_the_clusters() -> None:
    rows = [(("A",), "c"), (("A",), None), (None, "c"), (None, "c"), ((), "z"), (None, None), (("B", "A"), None)]
    data = TrainingSet.of(marked(*rows), NO_KB, clusters=True)
    assert len(data.inputs) == 6
    assert clusters(data) == [[0, 1], [2, 3]]  # the last but one is alone, the last has other ids
    apart = [[bool(data.rivals.are_apart(np.array([a]), np.array([b]))[0]) for b in range(6)] for a in range(6)]
    assert {(a, b) for a in range(6) for b in range(a + 1, 6) if apart[a][b]} == {(m, 4) for m in range(4)} | {(4, 5)}
    same = [(("A",), None), (("A",), None)]
    documents = [*marked(*same, domain="a", name="d"), *marked(*same, domain="b", name="e")]
    assert clusters(TrainingSet.of(arbo.Corpus(documents), NO_KB, clusters=True)) == [[0, 1], [2, 3]]  # of one domain


def test_a_knowledge_base_and_clusters_that_it_lacks() -> None:
    rows = [(("E0",), "c"), (("E0",), None), (("X",), None), (("X",), None), (None, "k"), (None, "k"), (None, "c")]
    documents = marked(*rows)
    kb = arbo.KnowledgeBase([arbo.Entity("E0", "fever"), arbo.Entity("E1", "cold")])
    without = TrainingSet.of(documents, kb)
    assert len(without.inputs) == 4
    assert without.queries.tolist() == [0, 1]
    data = TrainingSet.of(documents, kb, clusters=True)
    assert clusters(data) == [[0, 1], [2, 3], [4, 5]]
    assert data.cluster[:2].tolist() == [0, 0]
    assert data.gold.classes[6] not in data.gold.classes[:6]
    mention, entity = np.array([6, 6, 4]), np.array([0, 1, 0])
    assert data.rivals.is_wrong(mention, entity).tolist() == [False, True, True]  # its chain has the entity


def test_negatives_without_entities_are_mentions() -> None:
    rows = [(("A",), None), (("A",), None), (("B",), None), (None, "c"), (None, "c")]
    data = TrainingSet.of(marked(*rows), NO_KB, clusters=True)
    mentions = Vectors.of(np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.5, 0.5], [0.0, 1.0]]))
    snapshot = Snapshot(Vectors.of(np.zeros((0, 2)), n=0), mentions, data.cluster, "dot")
    plan = Plan.of(data, snapshot, replace(WITHOUT_KB, n_negatives=3), 0)
    assert plan.positive.tolist() == [1, 0, -1, 4, 3]
    assert [sorted(row) for row in plan.negative[data.queries].tolist()] == [[2, 3, 4]] * 2 + [[0, 1, 2]] * 2


@cache
def halved() -> arbo.Corpus:
    """Documents in which half of the mentions have their gold id as a cluster."""
    return arbo.Corpus(
        replace(
            document,
            mentions=tuple(
                replace(mention, gold=None, cluster=mention.gold[0]) if place % 2 and mention.gold else mention
                for place, mention in enumerate(document.mentions)
            ),
        )
        for document in arbo.load_sample()[0][:20]
    )


@pytest.mark.slow
@pytest.mark.parametrize("has_kb", [True, False])
def test_all_parts_go_together(bert: Tower, tmp_path: Path, has_kb: bool) -> None:
    """Each way of positives with some way of negatives, and each of negatives."""
    documents, _, kb = sample()
    of_entities = set() if has_kb else {"entity", "random", "mixed", "in-batch-mixed"}
    positives, negatives = (
        [name for name in get_args(kind) if name not in of_entities] for kind in (PositiveStrategy, NegativeStrategy)
    )
    for place, (first, second) in enumerate(zip(cycle(positives), negatives * 2, strict=False)):
        mixed = has_kb and place >= len(negatives)  # plain first
        start = encoder(bert, metric="dot") if mixed else encoder(bert)
        changes: Any = {"scale": 1.0, "loss": "bce", "mixup": 0.3} if mixed else {"positives": first}
        config = replace(QUICK if has_kb else CLUSTERS, negatives=second, batch_size=8, steps=1, **changes)
        out = tmp_path / str(place)
        train(start, documents[:4] if has_kb else halved(), kb if has_kb else None, out=out, config=config)
        assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(out)), (first, second)


@pytest.mark.slow
def test_a_tiny_model_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    reads = arbo.EncoderConfig.in_context(max_length=48, context=5, pooling="mention", metric="cosine")
    start = arbo.DualEncoder(bert, bert, reads).with_markers()
    config = replace(PRESETS["arboel"][0], n_negatives=6, epochs=2, batch_size=16, learning_rate=1e-3)
    dev = documents[75:]
    trained = train(start, documents[:30], kb, out=tmp_path / "model", dev=dev, config=config)

    def recall(model: arbo.DualEncoder) -> float:
        linking = arbo.Linker(kb, model).link(dev).evaluate().linking
        return linking.recall[1]

    assert recall(trained) > recall(start) + 0.1
    again = arbo.DualEncoder.from_pretrained(tmp_path / "model")
    assert recall(again) == recall(trained)
    best = max(line["recall@1"] for line in log_of(tmp_path / "model") if "recall@1" in line)
    assert best == pytest.approx(recall(trained), abs=1e-9)
    trials, own = arbo.Linker(kb, trained).tune(dev).tuning.trials, arbo.LinkerConfig()
    best = max(trial.score for trial in trials if (trial.method, trial.k) == (own.method, own.k))
    assert arbo.Linker(kb, trained).link(dev).evaluate().accuracy_with_nil == pytest.approx(best)  # by its thresholds


@pytest.mark.slow
def test_a_tiny_model_learns_clusters(bert: Tower, tmp_path: Path) -> None:
    documents = arbo.load_sample()[0][:60]
    trained = train(encoder(bert), documents, out=tmp_path / "m", config=replace(CLUSTERS, epochs=4, batch_size=32))
    data = TrainingSet.of(documents, NO_KB, clusters=True)
    before, after = (development_scores(data, Snapshot.of(data, model)) for model in (encoder(bert), trained))
    assert all(after[name] > before[name] + 0.02 for name in ("ari", "b3", "conll"))


@pytest.mark.slow
def test_the_best_model_and_its_threshold_are_those_of_discovery(bert: Tower, tmp_path: Path) -> None:
    few, dev = halved()[:8], sample().dev
    data = TrainingSet.of(dev, NO_KB, clusters=True)
    for best in ("ari", "b3", "conll"):
        trained = train(encoder(bert), few, dev=dev, out=tmp_path / best, config=replace(CLUSTERS, best=best))
        looks = [line for line in log_of(tmp_path / best) if "ari" in line]
        assert [set(line) >= {"ari", "b3", "conll"} and "recall@1" not in line for line in looks] == [True, True]
        assert development_scores(data, Snapshot.of(data, trained))[best] == max(line[best] for line in looks)
    tuning = arbo.Linker(None, trained).tune(dev).tuning
    assert trained.config.entity_threshold is None
    score = max(trial.score for trial in tuning.trials if trial.k == arbo.LinkerConfig().k)
    clustering = arbo.Linker(None, trained).discover(dev).evaluate().clustering
    assert clustering["ari"] == pytest.approx(score)


def test_conll_is_that_of_the_best_cut() -> None:
    rng = np.random.default_rng(0)
    data = TrainingSet.of(marked(*[((f"E{n}",), None) for n in rng.integers(12, size=300)]), NO_KB, clusters=True)
    vectors = np.eye(12)[data.gold.classes] + rng.normal(size=(300, 12)) / 2
    snapshot = Snapshot(Vectors.of(np.zeros((0, 12)), n=0), Vectors.of(vectors), data.cluster, "cosine")
    scores = development_scores(data, snapshot)
    search: dict[str, Any] = {"metric": "cosine", "progress": silent}
    near = nearest_within(among_mentions([None] * 300), snapshot.mentions, snapshot.mentions, 8, **search)
    tree = merge_tree(Graph.from_neighbors(near))
    every = [coreference_scores_from_labels(data.gold.classes, tree.cut(height)) for height in (-np.inf, *tree.height)]
    assert scores["conll"] == pytest.approx(max(cut["conll"] for cut in every))
    assert scores["b3"] == pytest.approx(max(cut["b3"]["f1"] for cut in every))


@pytest.mark.slow
def test_what_was_embedded_is_not_embedded_again(
    bert: Tower, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, dev, kb = sample()
    scores, save, embed = iter([0.1, 0.3, 0.2]), loop.save_checkpoint, Tower.embed
    n_texts, left = list[int](), list[list[int]]()

    def watched(tower: Tower, rows: Any, *given: Any, **named: Any) -> Any:
        n_texts.append(len(rows))
        return embed(tower, rows, *given, **named)

    def saved(folder: Path, *given: Any) -> None:
        save(folder, *given)
        left.append(sorted(int(path.name) for path in (folder / "embeddings").glob("*")))

    cache = arbo.DualEncoder.from_pretrained(bert_folder, cache=tmp_path / "cache")
    cache.encode_entities(kb)
    cache.encode_mentions(mention_inputs(documents, expand_abbreviations=True))
    monkeypatch.setattr(Tower, "embed", watched)
    monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})
    monkeypatch.setattr(loop, "save_checkpoint", saved)
    config = replace(QUICK, epochs=3, batch_size=10**6, negatives="knn")
    train(encoder(bert), documents[:4], kb, dev=dev[:5], out=tmp_path / "model", config=config)
    n_names = len({name.casefold() for name in kb.names().names})
    n_mentions = sum(len(TrainingSet.of(some, kb).inputs) for some in (documents[:4], dev[:5]))
    # The first plan and three looks embed the names; later plans embed mentions alone, and thresholds nothing.
    assert 3 * n_names < sum(n_texts) <= 4 * n_names + 3 * n_mentions
    assert left == [[1], [2], [2, 3]]
    n_texts.clear()
    train(cache, documents, kb, out=tmp_path / "cached", config=replace(config, steps=1, micro_batch=4))
    assert sum(n_texts) == 0  # what the start embeds comes from its cache


@pytest.mark.slow
def test_domains_are_apart(bert: Tower) -> None:
    documents, _, kb = sample()
    two = arbo.KnowledgeBase([replace(entity, id=d + entity.id, domain=d) for d in "ab" for entity in kb])

    def of(domain: str, ids: str) -> list[arbo.Document]:
        """Move the documents to a domain; their gold ids are of the entities in the domain ``ids``."""
        made, key = [], domain + ids
        for own in documents:
            mentions = (
                replace(m, id=key + m.id, document_id=key + own.id, gold=m.gold and tuple(ids + id_ for id_ in m.gold))
                for m in own.mentions
            )
            made.append(replace(own, id=key + own.id, domain=domain, mentions=tuple(mentions)))
        return made

    alone = TrainingSet.of(arbo.Corpus.of(of("a", "a")), two)
    data = TrainingSet.of(arbo.Corpus.of([*of("a", "a"), *of("b", "b"), *of("a", "b")]), two)
    n = len(alone.inputs)
    assert (data.gold.first[:n] == alone.gold.first).all()
    assert (data.gold.first[n : 2 * n] == np.where(alone.gold.first < 0, -1, alone.gold.first + len(kb))).all()
    assert (data.gold.first[2 * n :] == -1).all()  # the entities are in another domain
    in_one = TrainingSet.of(documents, kb)
    single, whole, expected = (
        development_scores(some, Snapshot.of(some, encoder(bert))) for some in (alone, data, in_one)
    )
    assert single == expected
    for k in (1, 64):
        assert whole[f"recall@{k}"] == pytest.approx(single[f"recall@{k}"] * 2 / 3)


@pytest.mark.slow
def test_each_precision_in_one_process_from_weights_of_any(bert: Tower, bert_folder: Path, tmp_path: Path) -> None:
    documents, _, kb = sample()
    coarse = arbo.DualEncoder.from_pretrained(bert_folder, device="cpu", precision="bfloat16")
    losses = []
    for start, precision in ((coarse, "bfloat16"), (encoder(bert), "float32"), (coarse, "float32")):
        out = tmp_path / f"model{len(losses)}"
        config = replace(QUICK, steps=2, precision=precision)
        trained = train(start, documents, kb, out=out, config=config)
        assert {value.dtype for value in trained.module.parameters()} == {torch.float32}
        losses.append([line["loss"] for line in log_of(out)])
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[2] == pytest.approx(losses[1], rel=0.05)


@pytest.mark.slow
def test_one_entity_with_one_mention(bert: Tower, tmp_path: Path) -> None:
    kb, documents = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")]), marked((("E1",), None))
    for negatives in get_args(NegativeStrategy):
        config, out = replace(QUICK, positives="arborescence", negatives=negatives), tmp_path / negatives
        train(encoder(bert), documents, kb, dev=documents, out=out, config=config)
        assert log_of(out)[-1]["loss"] == 0  # nothing to be pushed away from


@pytest.mark.slow
def test_a_tiny_cross_encoder_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    dev, linker, out = documents[75:], arbo.Linker(kb), tmp_path / "cross"
    reads = CrossEncoderConfig(mention="[CLS] {mention} [SEP]", entity="{name} [SEP]", max_length=32, candidates=4)
    start = CrossEncoder.of(without_dropout(bert), reads)
    config = replace(QUICK_CROSS, epochs=2, batch_size=4, micro_batch=4)
    trained = arbo.train_reranker(start, linker, documents[:60], dev=dev, out=out, config=config)
    candidates = linker.candidates(dev, k=4)
    before, after = (rerank(model, candidates, dev, kb).evaluate(dev, kb) for model in (start, trained))
    assert after.recall[1] > before.recall[1] + 0.1
    best = max((line for line in log_of(out) if "accuracy" in line), key=lambda line: line["accuracy"])
    assert best["accuracy"] == pytest.approx(after.accuracy, abs=1e-9)
    assert best["accuracy_normalized"] == pytest.approx(after.accuracy_normalized, abs=1e-9)
    assert trained.config == reads
    assert trained.settings["weights"] == CrossEncoder.from_pretrained(out).settings["weights"]

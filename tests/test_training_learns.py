"""Trainings from end to end: what they are taught, that they learn it, and how the best model is chosen."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import cycle, starmap
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import training_builders as tb
from builders import scores_of
from hypothesis import given, strategies as st
from training_builders import document, encoder, log_of, marked, oslat_trainer, sample, torch, without_dropout

import arbo
import eval as metrics
from arbo.data import mention_inputs
from arbo.edges.features import MENTION_FEATURES
from arbo.encoders.cross import CrossEncoder, CrossEncoderConfig
from arbo.encoders.tower import Tower
from arbo.engine import Graph, merge_tree, silent, threshold_curve
from arbo.retrieval.groups import among_mentions, nearest_within
from arbo.retrieval.reranking import rerank
from arbo.spans.model import LabelAttention, spans_of
from arbo.training import loop
from arbo.training.config import WITHOUT_KB, NegativeStrategy, PositiveStrategy, SelfAlignmentConfig
from arbo.training.data import Snapshot, TrainingSet
from arbo.training.dual import trainer as dual
from arbo.training.dual.context import Windows, half_of
from arbo.training.dual.plan import Plan
from arbo.training.dual.trainer import development_scores, train
from arbo.training.edges import Compared
from arbo.training.losses import supervised_contrastive
from arbo.training.oslat import Contrasts
from arbo.training.presets import PRESETS
from clustering.vectors import Vectors

TRAIN, DEV, BASE = sample()
SAMPLE, _ = arbo.load_sample()

NO_KB = arbo.KnowledgeBase()
CLUSTERS = replace(WITHOUT_KB, loss="arborescence", epochs=2, batch_size=8, learning_rate=1e-3, warmup=0.0)


def clusters(data: TrainingSet) -> list[list[int]]:
    """Return the mentions of each group that is trained on."""
    return sorted(np.flatnonzero(data.cluster == one).tolist() for one in np.unique(data.cluster[data.cluster >= 0]))


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
    documents, kb = marked(*rows), arbo.KnowledgeBase([arbo.Entity("E0", "fever"), arbo.Entity("E1", "cold")])
    without = TrainingSet.of(documents, kb)
    assert (len(without.inputs), without.queries.tolist()) == (4, [0, 1])
    data = TrainingSet.of(documents, kb, clusters=True)
    assert (clusters(data), data.cluster[:2].tolist()) == ([[0, 1], [2, 3], [4, 5]], [0, 0])
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
    documents = arbo.load_sample()[0][:20]

    def own(at: int, mention: arbo.Mention) -> arbo.Mention:
        return replace(mention, gold=None, cluster=mention.gold[0]) if at % 2 and mention.gold else mention

    return arbo.Corpus(replace(one, mentions=tuple(starmap(own, enumerate(one.mentions)))) for one in documents)


@pytest.mark.slow
@pytest.mark.parametrize("has_kb", [True, False])
def test_all_parts_go_together(bert: Tower, tmp_path: Path, has_kb: bool) -> None:
    """Each way of positives with some way of negatives, and each of negatives."""
    of_entities = {"all"} if has_kb else {"all", "entity", "random", "mixed", "in-batch-mixed"}
    ways = (PositiveStrategy, NegativeStrategy)
    positives, negatives = ([name for name in get_args(kind) if name not in of_entities] for kind in ways)
    for place, (first, second) in enumerate(zip(cycle(positives), negatives * 2, strict=False)):
        mixed = has_kb and place >= len(negatives)  # plain first
        start = encoder(bert, metric="dot") if mixed else encoder(bert)
        changes: Any = {"scale": 1.0, "loss": "bce", "mixup": 0.3} if mixed else {"positives": first}
        config = replace(tb.QUICK if has_kb else CLUSTERS, negatives=second, batch_size=8, steps=1, **changes)
        out = tmp_path / str(place)
        train(start, TRAIN[:4] if has_kb else halved(), BASE if has_kb else None, out=out, config=config)
        assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(out)), (first, second)


@pytest.mark.slow
def test_a_tiny_model_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    reads = arbo.EncoderConfig.in_context(max_length=48, context=5, pooling="mention", metric="cosine")
    start = arbo.DualEncoder(bert, bert, reads).with_markers()
    config = replace(PRESETS["arboel"][0], n_negatives=6, epochs=2, batch_size=16, learning_rate=1e-3)
    dev = SAMPLE[75:]
    trained = train(start, SAMPLE[:30], BASE, out=tmp_path / "model", dev=dev, config=config)
    models = (start, trained, arbo.DualEncoder.from_pretrained(tmp_path / "model"))
    before, after, again = (arbo.Linker(BASE, model).link(dev).evaluate().linking.recall[1] for model in models)
    assert again == after > before + 0.1
    best = max(line["recall@1"] for line in log_of(tmp_path / "model") if "recall@1" in line)
    assert best == pytest.approx(after, abs=1e-9)
    trials, own = arbo.Linker(BASE, trained).tune(dev).tuning.trials, arbo.LinkerConfig()
    best = max(trial.score for trial in trials if (trial.method, trial.k) == (own.method, own.k))
    assert arbo.Linker(BASE, trained).link(dev).evaluate().accuracy_with_nil == pytest.approx(best)  # by its thresholds


@pytest.mark.slow
def test_a_tiny_model_learns_clusters(bert: Tower, tmp_path: Path) -> None:
    documents = arbo.load_sample()[0][:60]
    trained = train(encoder(bert), documents, out=tmp_path / "m", config=replace(CLUSTERS, epochs=4, batch_size=32))
    data = TrainingSet.of(documents, NO_KB, clusters=True)
    before, after = (development_scores(data, Snapshot.of(data, model)) for model in (encoder(bert), trained))
    assert all(after[name] > before[name] + 0.02 for name in ("ari", "b3", "conll"))


def test_half_of_the_documents_have_whole_clusters() -> None:
    documents = [*SAMPLE[:30], *(one for n in "abc" for i in "12" for one in marked((None, n), name=n + i))]
    chosen = {one.id for one in half_of(arbo.Corpus(documents))}
    assert len(chosen) == 18
    assert all((f"{n}1" in chosen) == (f"{n}2" in chosen) for n in "abc")


def test_mates_are_contrasted_with_all_others() -> None:
    scores, mates = np.random.default_rng(0).normal(size=(6, 6)), {0: [2, 3], 2: [0, 3], 3: [0, 2]}
    share = scores - np.log(np.exp(scores - np.diag(np.full(6, np.inf))).sum(axis=1, keepdims=True))
    loss = supervised_contrastive(torch.from_numpy(scores), torch.tensor([0, 1, 0, 0, -1, -1])).item()
    assert loss == pytest.approx(-np.mean([share[row, of].mean() for row, of in mates.items()]))


def test_a_mention_is_read_in_the_window_that_has_it_in_the_middle(bert: Tower) -> None:
    inputs = mention_inputs(arbo.Corpus(SAMPLE[:30]), expand_abbreviations=False)
    windows = Windows.of(encoder(bert, **tb.AROUND).spellers[0], inputs)
    own = bert.tokenizer([item.mention.text for item in inputs], add_special_tokens=False)["input_ids"]
    read = [windows.rows[row].ids[slice(*span)] for row, *span in zip(*windows[1:], strict=True)]
    assert np.mean([one == other for one, other in zip(own, read, strict=True)]) > 0.8  # others end within a word
    assert max(len(row.ids) for row in windows.rows) == 24
    assert (np.abs(windows.begin + windows.end - 24) <= 12).mean() > 0.8  # but for those at an end of their document


@pytest.mark.slow
def test_a_model_learns_in_context_and_edges_learn_what_it_says(bert: Tower, tmp_path: Path) -> None:
    settings = replace(PRESETS["context"][0], batch_size=16, learning_rate=1e-3, epochs=4)
    trained = train(encoder(bert, **tb.AROUND), TRAIN, out=tmp_path / "m", config=settings)
    losses = [line["loss"] for line in log_of(tmp_path / "m")]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    compared = Compared.of(arbo.Linker(encoder=trained), TRAIN)
    similarity = compared.features[:, MENTION_FEATURES.index("similarity")]
    assert 0.2 < np.isnan(similarity).mean() < 0.9  # unknown in the half that the encoder learnt from
    assert similarity[~np.isnan(similarity)].max() <= 1 + 1e-6


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
    assert arbo.Linker(None, trained).discover(dev).evaluate().clustering["ari"] == pytest.approx(score)


def test_conll_is_that_of_the_best_cut() -> None:
    rng = np.random.default_rng(0)
    data = TrainingSet.of(marked(*[((f"E{n}",), None) for n in rng.integers(12, size=300)]), NO_KB, clusters=True)
    vectors = np.eye(12)[data.gold.classes] + rng.normal(size=(300, 12)) / 2
    snapshot = Snapshot(Vectors.of(np.zeros((0, 12)), n=0), Vectors.of(vectors), data.cluster, "cosine")
    scores = development_scores(data, snapshot)
    search: dict[str, Any] = {"metric": "cosine", "progress": silent}
    near = nearest_within(among_mentions([None] * 300), snapshot.mentions, snapshot.mentions, 8, **search)
    tree = merge_tree(Graph.from_neighbors(near))
    tables = (metrics.Contingency.from_labels(data.gold.classes, tree.cut(at)) for at in (-np.inf, *tree.height))
    every = [metrics.scores_from_counts(metrics.counts_from_contingency(table)) for table in tables]
    assert scores["conll"] == pytest.approx(max(cut["conll"] for cut in every))
    assert scores["b3"] == pytest.approx(max(cut["b3"]["f1"] for cut in every))


@pytest.mark.slow
def test_all_is_embedded_once(bert: Tower, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, save, embed = iter([0.1, 0.3, 0.2]), loop.save_checkpoint, Tower.embed
    n_texts, left = list[int](), list[list[int]]()

    def saved(folder: Path, *given: Any) -> None:
        left.append(save(folder, *given) or sorted(int(path.name) for path in (folder / "embeddings").glob("*")))

    cache = arbo.DualEncoder.from_pretrained(bert_folder, cache=tmp_path / "cache")
    cache.encode_entities(BASE)
    cache.encode_mentions(mention_inputs(TRAIN, expand_abbreviations=True))
    monkeypatch.setattr(Tower, "embed", lambda *of, **named: n_texts.append(len(of[1])) or embed(*of, **named))
    monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})
    monkeypatch.setattr(loop, "save_checkpoint", saved)
    config = replace(tb.QUICK, epochs=3, batch_size=10**6, negatives="knn")
    train(encoder(bert), TRAIN[:4], BASE, dev=DEV[:5], out=tmp_path / "model", config=config)
    n_names = len({name.casefold() for name in BASE.names().names})
    n_mentions = sum(len(TrainingSet.of(some, BASE).inputs) for some in (TRAIN[:4], DEV[:5]))
    # The first plan and three looks embed the names; later plans embed mentions alone, and thresholds nothing.
    assert 3 * n_names < sum(n_texts) <= 4 * n_names + 3 * n_mentions
    assert left == [[1], [2], [2, 3]]
    n_texts.clear()
    train(cache, TRAIN, BASE, out=tmp_path / "cached", config=replace(config, steps=1, micro_batch=4))
    assert sum(n_texts) == 0  # what the start embeds comes from its cache


@pytest.mark.slow
def test_domains_are_apart(bert: Tower) -> None:
    two = arbo.KnowledgeBase([replace(entity, id=d + entity.id, domain=d) for d in "ab" for entity in BASE])

    def of(domain: str, ids: str) -> list[arbo.Document]:
        """Move the documents to a domain; their gold ids are of the entities in the domain ``ids``."""
        made, key = [], domain + ids
        for own in TRAIN:
            gold = [m.gold and tuple(ids + id_ for id_ in m.gold) for m in own.mentions]
            pairs = zip(own.mentions, gold, strict=True)
            mentions = (replace(m, id=key + m.id, document_id=key + own.id, gold=of) for m, of in pairs)
            made.append(replace(own, id=key + own.id, domain=domain, mentions=tuple(mentions)))
        return made

    alone = TrainingSet.of(arbo.Corpus.of(of("a", "a")), two)
    data = TrainingSet.of(arbo.Corpus.of([*of("a", "a"), *of("b", "b"), *of("a", "b")]), two)
    n = len(alone.inputs)
    assert (data.gold.first[:n] == alone.gold.first).all()
    assert (data.gold.first[n : 2 * n] == np.where(alone.gold.first < 0, -1, alone.gold.first + len(BASE))).all()
    assert (data.gold.first[2 * n :] == -1).all()  # the entities are in another domain
    in_one = TrainingSet.of(TRAIN, BASE)
    single, whole = (development_scores(some, Snapshot.of(some, encoder(bert))) for some in (alone, data))
    assert single == development_scores(in_one, Snapshot.of(in_one, encoder(bert)))
    for k in (1, 64):
        assert whole[f"recall@{k}"] == pytest.approx(single[f"recall@{k}"] * 2 / 3)


@pytest.mark.slow
def test_each_precision_in_one_process_from_weights_of_any(bert: Tower, bert_folder: Path, tmp_path: Path) -> None:
    coarse, losses = arbo.DualEncoder.from_pretrained(bert_folder, device="cpu", precision="bfloat16"), []
    for start, precision in ((encoder(bert), "float32"), (coarse, "bfloat16"), (coarse, "float32")):
        out = tmp_path / f"model{len(losses)}"
        trained = train(start, TRAIN, BASE, out=out, config=replace(tb.QUICK, steps=2, precision=precision))
        assert {value.dtype for value in trained.module.parameters()} == {torch.float32}
        losses.append([line["loss"] for line in log_of(out)])
        assert losses[-1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.slow
def test_one_entity_with_one_mention(bert: Tower, tmp_path: Path) -> None:
    kb, documents = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")]), marked((("E1",), None))
    for negatives in get_args(NegativeStrategy):
        config, out = replace(tb.QUICK, positives="arborescence", negatives=negatives), tmp_path / negatives
        train(encoder(bert), documents, kb, dev=documents, out=out, config=config)
        assert log_of(out)[-1]["loss"] == 0  # nothing to be pushed away from


@pytest.mark.slow
def test_a_tiny_cross_encoder_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    dev, linker, out = SAMPLE[75:], arbo.Linker(BASE), tmp_path / "cross"
    reads = CrossEncoderConfig(mention="[CLS] {mention} [SEP]", entity="{name} [SEP]", max_length=32, candidates=4)
    start = CrossEncoder.of(without_dropout(bert), reads)
    config = replace(tb.QUICK_CROSS, epochs=2, batch_size=4, micro_batch=4)
    trained = arbo.train_reranker(start, linker, SAMPLE[:60], dev=dev, out=out, config=config)
    candidates = linker.candidates(dev, k=4)
    before, after = (rerank(model, candidates, dev, BASE).evaluate(dev, BASE) for model in (start, trained))
    assert after.recall[1] > before.recall[1] + 0.1
    best = max((line for line in log_of(out) if "accuracy" in line), key=lambda line: line["accuracy"])
    assert best["accuracy"] == pytest.approx(after.accuracy, abs=1e-9)
    assert best["accuracy_normalized"] == pytest.approx(after.accuracy_normalized, abs=1e-9)
    assert trained.config == reads
    assert trained.settings["weights"] == CrossEncoder.from_pretrained(out).settings["weights"]


@given(
    sets=st.lists(st.lists(st.sampled_from("aAbcdef"), min_size=1, max_size=4), min_size=1, max_size=6),
    n=st.integers(1, 8),
    seed=st.integers(0, 99),
    together=st.integers(1, 3),
)
def test_negatives_are_others_and_as_many_as_are(sets: list[list[str]], n: int, seed: int, together: int) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(str(i), own[0], aliases=tuple(own[1:])) for i, own in enumerate(sets)])
    with suppress(arbo.DataError):  # nothing is taught
        data, names = Contrasts(kb), kb.names().names
        data.context = data.owner // together
        for query, *row in data.sampled(data.queries, SelfAlignmentConfig(n_negatives=n, seed=seed), 0):
            negatives = [names[data.place[i]].lower() for i in row[9:] if i >= 0]
            entities = np.flatnonzero(np.arange(len(sets)) // together == data.context[query])
            wrong = {name.lower() for entity in entities for name in sets[entity]}
            left = {name.lower() for own in sets for name in own} - wrong
            assert len(negatives) == len(set(negatives)) == min(n, len(left))
            assert set(negatives) <= left


def test_an_entity_with_many_names_is_drawn_no_more_often() -> None:
    entities = [arbo.Entity("few", "x"), arbo.Entity("many", "a", tuple("bcdefgh")), arbo.Entity("own", "y", ("z",))]
    data, config = Contrasts(arbo.KnowledgeBase(entities)), SelfAlignmentConfig(n_negatives=1)
    first = [data.owner[data.sampled(data.queries[-1:], config, step)[0, -1]] for step in range(1000)]
    assert 450 < Counter(first)[1] < 550


def test_names_are_contrasted_with_their_synonyms_and_with_no_gold_name(bert: Tower, tmp_path: Path) -> None:
    it = oslat_trainer(bert, tb.READS, tmp_path, n_negatives=50)
    all_names, data, n = tb.KB.names().names, it.data, 1 + it.config.n_positives
    assert len(data.queries) == len(data.entity) - 1  # one entity has no synonym
    every = {name.lower() for e in tb.KB for name in (e.name, *e.aliases)}
    for step in range(20):
        batch = it.batch(step, data.queries, np.arange(len(data.queries)))
        for query, *row in batch:
            own, others = ([all_names[data.place[i]] for i in part if i >= 0] for part in (row[:n], row[n:]))
            assert len({name.lower() for name in own}) == len(own) >= 2
            entity = tb.KB.entities[data.entity[query]]
            assert set(own) <= {entity.name, *entity.aliases}
            gold = {e for d in tb.DOCUMENTS[int(data.context[query])].mentions for e in d.gold or () if e in tb.KB}
            right = {name.lower() for e in gold for name in (tb.KB[e].name, *tb.KB[e].aliases)}
            assert {name.lower() for name in others} == every - right
    names = Contrasts(tb.KB)
    rows = names.sampled(names.queries, SelfAlignmentConfig(n_positives=2), 0)[:, 1:4]
    assert (rows[:, 0] == names.queries).all()
    for row in rows:
        own = row[row >= 0]
        assert len(set(own)) == len(own) >= 2
        assert len(set(names.owner[own])) == 1


@pytest.mark.slow
def test_the_positions_of_mentions_do_not_count(bert: Tower, tmp_path: Path) -> None:
    scrambled = [document(d.id, d.text, [m.gold[0] for m in d.mentions][::-1], 1) for d in tb.DOCUMENTS]
    assert arbo.Corpus(scrambled).fingerprint != tb.DOCUMENTS.fingerprint
    for place, documents in enumerate((tb.DOCUMENTS, scrambled)):
        out = tmp_path / str(place)
        arbo.train_oslat(LabelAttention.of(bert, tb.READS), documents, tb.KB, out=out, config=tb.QUICK_OSLAT)
    assert log_of(tmp_path / "0") == log_of(tmp_path / "1")


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
    start = arbo.DualEncoder(tower, tower, arbo.EncoderConfig())
    align = SelfAlignmentConfig(epochs=40, batch_size=8, n_negatives=6, learning_rate=1e-3)
    aligned = arbo.train_self_alignment(start, kb, out=tmp_path / "aligned", config=align)
    how: Any = {"out": tmp_path / "out", "config": replace(tb.QUICK_OSLAT, epochs=15, batch_size=16, n_negatives=8)}
    model = LabelAttention.of(without_dropout(aligned.mention_tower), tb.READS)
    trained, texts = arbo.train_oslat(model, documents[:50], kb, **how), [one.text for one in documents[60:]]
    text, entity = np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20)
    right = [words[60 + i].get(e) for i, e in zip(text.tolist(), entity.tolist(), strict=True)]

    def looks(model: LabelAttention) -> tuple[float, float]:
        """Return the mean weight of the word that stands for the entity, and how often it is in the spans."""
        shares, hits = [], []
        for look in model.looks(texts, kb, text, entity):
            words, spans = texts[look.text].split(), spans_of(texts[look.text], look.tokens, look.weights)
            for pair, weights, own in zip(look.pairs, look.weights, spans, strict=True):
                if word := right[pair]:
                    shares.append(weights[words.index(word)])
                    hits.append(word in [texts[look.text][b:e] for b, e in own])
        return float(np.mean(shares)), float(np.mean(hits))

    assert looks(trained)[0] > looks(LabelAttention.of(tower, tb.READS))[0] + 0.2
    assert looks(trained)[1] > 0.75
    is_there = np.array([word is not None for word in right])
    assert threshold_curve(is_there, scores_of(trained, texts, kb, text, entity)).best.f1 > 0.9
    for log in (log_of(tmp_path / "out"), log_of(tmp_path / "aligned")):
        assert log[-1]["loss"] < log[0]["loss"] / 4

"""Learnt edges: facts, pairs, features, trees and the model."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import sample_edges
from conftest import Run
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score

import arbo
from arbo.data import mention_inputs
from arbo.data.corpus import Corpus
from arbo.data.fingerprint import learnt_from, warnings_of
from arbo.data.gold import Gold
from arbo.edges.features import ENTITY_FEATURES, MENTION_FEATURES, Facts, mention_features, mention_pairs
from arbo.edges.trees import Trees
from arbo.engine import Neighbors
from arbo.errors import DataError
from arbo.retrieval.groups import fill
from arbo.training.edges import Compared, known_elsewhere, named_examples, thinned


def corpus(*texts: str) -> Corpus:
    """Documents in which the mentions stand in brackets."""
    documents = []
    for number, text in enumerate(texts):
        places = [(m.start() - 2 * i, m.end() - 2 * i - 2) for i, m in enumerate(re.finditer(r"\[.*?\]", text))]
        mentions = [{"spans": [place], "type": "person"} for place in places]
        documents.append({"id": f"d{number}", "text": re.sub(r"[\[\]]", "", text), "mentions": mentions})
    return Corpus.of(documents)


def facts_of(*texts: str) -> Facts:
    return Facts.of(mention_inputs(corpus(*texts), expand_abbreviations=False))


NONE = Neighbors(np.empty((0, 1), np.int32), np.empty((0, 1), np.float32))
TEXT = "[Ada Lovelace] met [the Countess of Blessington]. [She] wrote. [Lovelace's notes] are [hers]."


def test_facts_say_what_a_mention_is_and_where_and_if_it_names_nothing() -> None:
    of = facts_of(TEXT, "[Ada]").columns
    assert of["document"].tolist() == [0, 0, 0, 0, 0, 1]
    assert of["place"].tolist() == [0, 1, 2, 3, 4, 0]
    assert of["sentence"].tolist() == [0, 0, 1, 2, 2, 0]
    assert of["pronoun"].tolist() == [0, 0, 5, 0, 5, 0]
    assert of["start"].tolist() == [0, 1, 0, 0, 0, 0]
    assert of["class"].tolist() == [1] * 6
    nameless = facts_of("[She] joined [the company] of [the Countess], [a company], [Lovelace] and [this]").nameless
    assert nameless.tolist() == [True, True, False, False, False, True]


def test_pairs_are_those_of_brute_force_and_nameless_mentions_stay_in_documents() -> None:
    rng = np.random.default_rng(3)
    words = ["Ada", "Bell", "Core", "Dorn", "she"]
    texts = [" , ".join(f"[{' '.join(rng.choice(words, 2))}]" for _ in range(90)) for _ in range(2)]
    facts = facts_of(*texts)
    first, second = mention_pairs(facts, np.zeros(180, np.int64), NONE._replace(ids=np.full((180, 1), -1, np.int32)))
    content = [set(row.indices) for row in facts.names.content]
    expected = set()
    for later in range(180):
        before = [one for one in range(later) if one // 90 == later // 90]
        expected |= {(one, later) for one in before[-60:]}
        for word in content[later]:
            expected |= {(one, later) for one in [one for one in before if word in content[one]][-40:]}
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == expected
    assert len(first) == len(expected)
    facts = facts_of("[Ada] and [she]", "[Ada] and [she]")
    neighbors = Neighbors(np.array([[2], [3], [0], [1]], np.int32), np.zeros((4, 1), np.float32))
    for world, expected in (([0] * 4, [(0, 1), (0, 2), (2, 3)]), ([0, 0, 1, 1], [(0, 1), (2, 3)])):
        pairs = mention_pairs(facts, np.array(world), neighbors)
        assert list(zip(*map(np.ndarray.tolist, pairs), strict=True)) == expected


def test_features_compare_words_and_places_of_two_documents_alone() -> None:
    alone = facts_of(TEXT, "[Lovelace, Ada]")
    rows = mention_features(alone, np.array([0, 0, 0]), np.array([2, 3, 5]))
    of = dict(zip(MENTION_FEATURES, rows.T, strict=True))
    assert of["sentences"].tolist()[:2] == [1, 2]
    assert np.isnan(of["sentences"][2])
    assert of["same_words"].tolist() == [0, 0, 1]
    assert of["same_text"].tolist() == [0, 0, 0]
    assert of["shared"].tolist() == [0, 1, 2]
    assert of["second_pronoun"].tolist() == [5, 0, 0]
    assert of["names"].tolist()[:2] == [1, 1]
    among = facts_of("[Ada] [Ada]", TEXT, "[She] and [Ada Lovelace]", "[Lovelace, Ada]")
    few = mention_features(alone, np.array([0, 1, 0]), np.array([3, 4, 5]))
    np.testing.assert_array_equal(few, mention_features(among, np.array([2, 3, 2]), np.array([5, 6, 9])))
    documents = facts_of(*(f"the [Ada] {words}" for words in ("red ant", "ant red bee", "bee", "bee cow", "cow dog")))
    near = documents.with_stories().near
    assert near is not None
    assert ((near @ near.T).toarray()[0] > 0).tolist() == [True, True, True, True, False]  # though 0 and 2 share none


@functools.cache
def fitted() -> tuple[Trees, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, len(MENTION_FEATURES))).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    correct = np.nan_to_num(features[:, 0]) + np.nan_to_num(features[:, 3]) > 0
    return Trees.fit(features, correct, trees=20, leaves=7), features, correct


def test_trees_give_the_probabilities_of_scikit_learn_and_shares_add_up() -> None:
    trees, features, correct = fitted()
    how = {"max_iter": 20, "max_leaf_nodes": 7, "l2_regularization": 1.0, "early_stopping": False, "random_state": 0}
    model = HistGradientBoostingClassifier(**how).fit(features, correct)
    np.testing.assert_allclose(expit(trees.scores(features)), model.predict_proba(features)[:, 1], rtol=1e-12)
    rare = correct & (np.arange(len(correct)) % 3 == 0)
    calibrated = trees.calibrated(features, rare)
    assert expit(calibrated.scores(features)).mean() == pytest.approx(rare.mean(), abs=1e-3)
    assert (np.argsort(calibrated.scores(features)) == np.argsort(trees.scores(features))).all()
    trees = trees.calibrated(features, correct)
    mean = trees.slope * trees.value[trees.roots].sum() + trees.offset
    shares = trees.shares(features)
    np.testing.assert_allclose(shares.sum(axis=1) + mean, trees.scores(features), atol=1e-9)
    assert np.abs(shares).mean(axis=0).argsort()[-2:].tolist() in ([0, 3], [3, 0])


def test_lists_hold_the_lightest_edges() -> None:
    source, target = np.array([1, 2, 3, 0]), np.array([0, 0, 0, 3])
    found = Neighbors.empty(4, 2)
    fill(found, target, source, np.array([0.5, 0.25, 0.5, 0.1], np.float32))
    assert found.ids.tolist() == [[2, 1], [-1, -1], [-1, -1], [0, -1]]
    assert np.isinf(found.dissimilarity).sum() == 5


def test_a_model_is_saved_and_read_back(tmp_path: Path) -> None:
    trees, features, _ = fitted()
    arbo.EdgeModel(trees, None, {"pairs": 600}).save(tmp_path / "edges.json")
    read = arbo.EdgeModel.load(tmp_path / "edges.json")
    assert read.entities is None
    assert read.trained == {"pairs": 600}
    np.testing.assert_array_equal(read.mentions.scores(features), trees.scores(features))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", "run", "not an edge model"),
        ("format_version", 99, "newer arbo"),
        ("features", {}, "other features"),
        *((k, value, "damaged") for k, value in (("mentions", None), ("roots", 10**6), ("left", 0), ("value", None))),
        ("feature", len(ENTITY_FEATURES) + 99, "damaged"),
    ],
)
def test_a_damaged_model_is_refused(tmp_path: Path, key: str, value: Any, said: str) -> None:
    file = tmp_path / "edges.json"
    arbo.EdgeModel(fitted()[0], None, {}).save(file)
    content = json.loads(file.read_text("utf-8"))
    if key in content:
        content[key] = value
    else:
        content["mentions"][key] = [value] * len(content["mentions"][key])
    file.write_text(json.dumps(content), "utf-8")
    with pytest.raises(DataError, match=f"edges.json.*{said}"):
        arbo.EdgeModel.load(file)


def test_learnt_edges_replace_those_of_the_encoder(learnt: arbo.EdgeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    retrieval = arbo.Linker(kb).retrieve(documents, k=4)
    model = arbo.EdgeModel(fitted()[0], None, {"pairs": 600})
    found = model.applied(retrieval, kb, 3)
    assert found.mentions.ids.shape == (len(documents.mentions), 3)
    assert found.threshold == (retrieval.threshold[0], 0.5)
    assert found.settings["edges"]["pairs"] == 600
    np.testing.assert_array_equal(found.entities.ids, retrieval.entities.ids)
    linker = arbo.Linker(kb, edges=learnt)
    whole = linker.retrieve(documents, k=4)
    monkeypatch.setattr("arbo.edges.model._BLOCK", 100)
    parts = linker.retrieve(documents, k=4)
    np.testing.assert_array_equal(parts.mentions.dissimilarity, whole.mentions.dissimilarity)
    np.testing.assert_array_equal(parts.entities.dissimilarity, whole.entities.dissimilarity)


@pytest.mark.parametrize("linking", [True, False])
def test_direction_of_edges_within_a_document(linking: bool) -> None:
    texts = ["[Ada Lovelace] met [Bell]. [She] and [the company] saw [Lovelace] and [Ada].", "[Ada] and [Bell]"]
    documents, kb = corpus(*texts), arbo.KnowledgeBase([arbo.Entity("1", "Ada"), arbo.Entity("2", "Bell")])
    retrieval = arbo.Linker(kb if linking else None).retrieve(documents, k=7)
    found = arbo.EdgeModel(fitted()[0], None, {}).applied(retrieval, kb if linking else None, 7).mentions
    target, place = np.nonzero(found.ids >= 0)
    edges = set(zip(found.ids[target, place].tolist(), target.tolist(), strict=True))
    forward = {(one, other) for other in range(6) for one in range(other)} | {(6, 7)}
    to_nameless = {(4, 2), (5, 2), (4, 3), (5, 3)}
    to_names = {(4, 0), (5, 0), (4, 1), (5, 1), (1, 0), (5, 4), (7, 6)}
    within = {(one, other) for one, other in edges if (one < 6) == (other < 6)}
    assert within == forward | to_nameless | (set() if linking else to_names)
    assert {(0, 6), (6, 0)} <= edges


def test_learnt_edges_link_better_than_names_alone_in_any_order(learnt: arbo.EdgeModel) -> None:
    documents, kb = arbo.load_sample()
    linker, some = arbo.Linker(kb, edges=learnt, config=arbo.LinkerConfig()), documents[60:]
    names, edges, backwards = arbo.Linker(kb).link(some), linker.link(some), linker.link(Corpus(reversed(some)))
    one, other = names.evaluate().as_dict(), edges.evaluate().as_dict()
    assert other["linking"]["accuracy"] > one["linking"]["accuracy"] + 0.03
    assert other["clustering"]["ari"] > one["clustering"]["ari"] + 0.1
    linked = [{(link.mention.id, link.entity) for link in run.links} for run in (edges, backwards)]
    assert linked[0] == linked[1]


def test_what_learnt_edges_cannot_do(learnt: arbo.EdgeModel) -> None:
    documents = corpus("[Ada] met [Bell].", "[Ada] wrote.")
    with pytest.raises(DataError, match="0 of 0 pairs of two mentions mean the same, but training needs pairs"):
        arbo.train_edges(documents, documents)
    with pytest.raises(arbo.UsageError, match="a reranker and an edge model together; leave out one of them"):
        arbo.Linker(arbo.KnowledgeBase(), reranker=lambda *_: [], edges=learnt)


def test_the_command_line_trains_tunes_and_discovers(tmp_path: Path, run: Run) -> None:
    documents, dev = arbo.load_sample()[0], tmp_path / "dev.jsonl"
    documents[:60].to_jsonl(tmp_path / "train.jsonl")
    documents[60:].to_jsonl(dev)
    edges, tuned = tmp_path / "edges.json", tmp_path / "tuned.json"
    for _ in range(2):  # what arbo wrote is replaced
        trained = run("train", "edges", tmp_path / "train.jsonl", "--dev", dev, "--out", edges).ok()
    assert "pairs; written to" in trained.out
    assert "are compared: found by place" in trained.out
    assert [run("tune", dev, "--edges", edges, "--out", tuned).code for _ in range(2)] == [0, 0]
    options = ("--config", tuned, "--out", tmp_path / "run")
    assert run("discover", dev, "--edges", edges, *options).code == 0
    assert arbo.Result.load(tmp_path / "run").manifest["encoder"]["edges"]["fingerprint"]
    known = "60 of 60 documents are among those that the edge model was trained on"
    for command in (
        ("discover", tmp_path / "train.jsonl", "--edges", edges, "--out", tmp_path / "known"),
        ("evaluate", tmp_path / "known"),
        ("tune", tmp_path / "train.jsonl", "--edges", edges, "--out", tmp_path / "known.json"),
        ("evaluate", tmp_path / "run"),
    ):
        assert run(*command).err.count(known) == (tmp_path / "run" not in command)
    other = run("discover", dev, *options)
    assert (other.code, "tuned with an edge model" in other.told, "give --edges the" in other.told) == (2, True, True)
    text = tuned.read_text("utf-8")
    for content, words in (
        ('{"config": {}}', "tuned without an edge model, so its thresholds would not fit; leave --edges out, or tune"),
        (re.sub('"fingerprint": "[^"]*"', '"fingerprint": "other"', text), "tuned with another edge model, or with"),
    ):
        tuned.write_text(content)
        told = run("discover", dev, "--edges", edges, *options)
        assert (told.code, words in told.told) == (2, True), told.told


def test_training_pairs_mentions_as_linking_does_and_thins_large_worlds() -> None:
    documents, kb = arbo.load_sample()
    kinds = sorted({type_ for entity in kb for type_ in entity.types})
    mapped = ",".join(f"{kind}={kind}" for kind in kinds[:2])
    linkers = [arbo.Linker(kb, config=arbo.LinkerConfig(map_types=types)) for types in (None, mapped)]
    free, divided = (len(Compared.of(linker, documents).correct) for linker in linkers)
    assert divided < free
    world = np.array([0] * 10 + [1] * 4)
    correct = np.arange(14) % 5 == 0
    kept = thinned(world, correct, 6)
    assert kept[correct].all()
    assert np.bincount(world[kept]).tolist() == [6, 4]
    assert thinned(world, correct, 1)[:10].sum() == 2
    assert thinned(world[:0], correct[:0], 1).size == 0


def test_names_of_other_documents_teach_and_own_names_do_not() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("Q1", "first"), arbo.Entity("Q2", "second")])
    both = [{"spans": [[0, 4]], "entities": ["Q1"]}, {"spans": [[5, 9]], "entities": ["Q2"]}]
    documents = Corpus.of([{"id": f"d{i}", "text": f"Ada{i} Bell", "mentions": both} for i in range(4)])
    letters = ENTITY_FEATURES.index("letters")
    halves, (held_out,) = named_examples(arbo.Linker(kb), documents, documents)
    assert sum(len(correct) for _, correct in halves) == len(held_out[1]) == 16
    assert sum((features[correct, letters] > 0.99).sum() for features, correct in halves) == 4  # "Bell"
    assert (held_out[0][held_out[1], letters] > 0.99).sum() == 8
    assert named_examples(arbo.Linker(kb), documents[:1], documents) == ([], [])
    mention = {"spans": [[18, 20]], "entities": ["Q1"]}
    documents = Corpus.of([{"id": f"d{i}", "text": "quartz fever (QF) QF", "mentions": [mention]} for i in range(4)])
    for expand in (True, False):  # the names are those that the linker reads
        linker = arbo.Linker(kb.entities[:1], config=arbo.LinkerConfig(expand_abbreviations=expand))
        _, (held_out,) = named_examples(linker, documents, documents)
        assert (held_out[0][:, letters] > 0.99).all()


def test_a_candidate_is_as_near_as_to_the_nearest_mention_of_its_document() -> None:
    kb = [arbo.Entity("Q1", "Ada Bell"), arbo.Entity("Q2", "Bo Bell")]
    documents = corpus("[Ada Bell] came. [Bell] left.", "[Bell] slept.")
    retrieval = arbo.Linker(arbo.KnowledgeBase(kb)).retrieve(documents, k=0)
    facts, rows = Facts.of(retrieval.inputs), np.arange(3)
    alone, near = (one.evidence(np.zeros(3, np.int32), rows) for one in facts.with_documents(retrieval))
    assert near[:, 0].tolist() == [alone[0, 0], alone[0, 0], alone[2, 0]]
    assert near[1, 1] > 0.2 > alone[1, 1]


def test_chains_of_single_documents_say_nothing_about_other_documents() -> None:
    def line(id_: str, *labels: dict[str, object]) -> dict[str, object]:
        mentions = [{"spans": [[4 * n, 4 * n + 3]], **label} for n, label in enumerate(labels)]
        return {"id": id_, "text": "Ada Ada Ada", "mentions": mentions, "domain": id_[0]}

    chains = [line("a1", {"cluster": "x"}, {"cluster": "y"}, {"entities": ["Q1"]}), line("a2", {"cluster": "z"})]
    across = [line("b1", {"cluster": "u"}), line("b2", {"cluster": "u"}, {"cluster": "v"})]
    documents = Corpus.of([*chains, *across])
    found = arbo.Linker().retrieve(documents, k=4)
    known = known_elsewhere(found, Gold.of(documents))
    assert known.tolist() == [False, False, True, False, True, True, True]
    *_, features, correct = Compared.of(arbo.Linker(), documents)
    assert (len(features), int(correct.sum())) == (3 + 1 + 3, 1)


def test_a_model_brings_its_settings_for_a_knowledge_base(learnt: arbo.EdgeModel, tmp_path: Path, run: Run) -> None:
    documents, kb = arbo.load_sample()
    edges, dev, out = tmp_path / "edges.json", tmp_path / "dev.jsonl", tmp_path / "run"
    learnt.save(edges)
    documents[60:].to_jsonl(dev)
    kb.to_jsonl(tmp_path / "kb.jsonl")
    chosen = arbo.LinkerConfig.from_dict(learnt.config)
    assert chosen.confidence
    assert arbo.Linker(kb, edges=edges).config == chosen != arbo.LinkerConfig() == arbo.Linker(edges=edges).config
    assert run("link", dev, "--kb", tmp_path / "kb.jsonl", "--edges", edges, "--k", 3, "--out", out).code == 0
    assert arbo.Result.load(out).manifest["config"] == replace(chosen, k=3).as_dict()
    assert run("discover", dev, "--edges", edges, "--out", out).code == 0
    assert arbo.Result.load(out).manifest["config"] == arbo.LinkerConfig().as_dict()
    edges.write_text(edges.read_text("utf-8").replace('"config": {', '"config": {"x": 1, '), "utf-8")
    assert "edges.json" in run("link", dev, "--kb", tmp_path / "kb.jsonl", "--edges", edges, "--out", out).told


def test_explanations_name_the_features_that_counted(learnt: arbo.EdgeModel, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    result = arbo.Linker(kb, edges=learnt, config=arbo.LinkerConfig()).link(documents[60:])
    result.save(tmp_path / "run")
    read = arbo.Result.load(tmp_path / "run")
    linked = next(link for link in read.links if link.parent_is_mention)
    assert (len(linked.reasons), linked.nearest) == (3, linked.parent)
    assert {name for name, _ in linked.reasons} <= set(MENTION_FEATURES)
    text = str(read.explain(linked))
    assert f"edge from {linked.parent} by log-odds: {linked.reasons[0][0]} {linked.reasons[0][1]:+.2f}" in text
    assert ", probability " in text
    assert str(result.explain(linked.mention.id)) == text
    from_entity = next(link for link in read.links if link.parent and not link.parent_is_mention)
    assert {name for name, _ in from_entity.reasons} <= set(ENTITY_FEATURES)
    found = next(one for one in read.discovered if len(one.mentions) > 1)
    assert any("by log-odds: " in str(read.explain(mention.id)) for mention in found.mentions)


def test_learnt_edges_know_more_than_letters() -> None:
    documents, _ = arbo.load_sample()
    model, new = sample_edges(), documents[60:]
    *_, features, correct = Compared.of(arbo.Linker(), new)
    letters = features[:, MENTION_FEATURES.index("letters")]
    learnt = average_precision_score(correct, model.mentions.scores(features))
    assert learnt > average_precision_score(correct, letters) + 0.05
    found = arbo.Linker(edges=model).discover(new)
    assert found.manifest["encoder"]["edges"] == model.settings
    assert found.evaluate().as_dict()["coreference"]["conll"] > 0.7
    assert model.trained["recall"]["all"] > 0.5
    (warning,) = arbo.Linker(edges=model).discover(documents[58:62]).warnings
    assert warning.startswith("2 of 4 documents are among those that the edge model was trained on, or of the same")


def test_hashes_of_documents_stay_the_same() -> None:
    """Models that were saved before are compared by them."""
    learnt = learnt_from(corpus("[Ada] wrote.", " ", "[Bell] \t rang.").tables)
    first = learnt_from(corpus("[Ada]  wrote.\n").tables)
    assert learnt == learnt_from(corpus("[Bell] rang.").tables, first) == "Fw4WU+Cam0/waqyK"
    model = type("Model", (), {"learnt": learnt})()
    assert warnings_of(corpus("[x]").tables, {"a": model, "b": None}) == []
    (warning,) = warnings_of(corpus("Bell rang.", "x", "").tables, {"the encoder": model})
    assert warning.startswith("1 of 3 documents are among those that the encoder was trained on, or of the same c")
    for damaged in ("A", "AAAA", "ü", 5):
        with pytest.raises(DataError, match="a model has damaged hashes of the documents that it learnt from"):
            warnings_of(corpus("x").tables, {"the encoder": type("Model", (), {"learnt": damaged})()})

"""The tagger: its sums over labellings by brute force, its features, its training, its file, and the command line."""

import json
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linking, sample_files
from conftest import Run
from hypothesis import given, strategies as st

import arbo
from arbo.data.corpus import Corpus
from arbo.errors import DataError
from arbo.spans.evaluation import found_scores
from arbo.spans.finding import find
from arbo.spans.tagger import BEGIN, INSIDE, NEVER, OUTSIDE, Chains, KnownNames, Tokens
from arbo.training.tagger import _places_in_parts, fit


def score_of(labels: tuple[int, ...], scores: Any, pairs: Any) -> Any:
    own = scores[np.arange(len(labels)), labels].sum() + sum(pairs[pair] for pair in pairwise(labels))
    return own + NEVER * (labels[0] == INSIDE)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_sums_and_best_labels_by_brute_force(sizes: list[int], seed: int) -> None:
    rng, sentence = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    scores, pairs = rng.normal(size=(len(sentence), 3)), rng.normal(size=(3, 3))
    pairs[OUTSIDE, INSIDE] = NEVER
    total, labels, expected = Chains.of(sentence).marginals(scores, pairs)
    best, right = Chains.of(sentence).best(scores, pairs), np.zeros((3, 3))
    logs = 0.0
    for begin, size in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False):
        part, ways = scores[begin : begin + size], list(product(range(3), repeat=size))
        values = np.array([score_of(way, part, pairs) for way in ways])
        shares = np.exp(values - values.max())
        logs += values.max() + np.log(shares.sum())
        shares /= shares.sum()
        assert tuple(best[begin : begin + size]) == ways[int(values.argmax())]
        of_labels = sum(share * np.eye(3)[list(way)] for share, way in zip(shares, ways, strict=True))
        np.testing.assert_allclose(labels[begin : begin + size], of_labels, atol=1e-9)
        for share, way in zip(shares, ways, strict=True):
            np.add.at(right, (way[:-1], way[1:]), share)
    assert total == pytest.approx(logs)
    np.testing.assert_allclose(expected, right, atol=1e-9)


def test_weights_have_the_best_likelihood() -> None:
    """At the best weights, the expected labels of each feature differ from the true ones by the penalty alone."""
    rng = np.random.default_rng(0)
    columns, gold = rng.integers(0, 9, (60, 3)), rng.choice([OUTSIDE, BEGIN], 60)
    chains = Chains.of(np.repeat(np.arange(12), 5))
    weights, pairs = fit(columns, gold, chains, arbo.Linker().announce)
    _, labels, _ = chains.marginals(weights[columns].sum(axis=1), pairs)
    off = np.zeros((9, 3))
    for column in columns.T:
        np.add.at(off, column, np.eye(3)[gold] - labels)
    np.testing.assert_allclose(off, weights[:9], atol=0.02)
    assert not weights[9:].any()


TEXTS = ["Marsh fever (MF) is rare. MF, a fever!", "", "Crohn's disease\n\nand ill-\u00e9t\u00e9 9"]
TEXTS.append("x" * 3000 + " . \U0001f912")
DOCUMENTS = Corpus.of({"id": str(row), "text": text} for row, text in enumerate(TEXTS))
KB = arbo.KnowledgeBase([arbo.Entity("E0", "marsh fever", ("Fever, Marsh",)), arbo.Entity("E1", "Crohn's disease")])


def test_tokens_and_labels() -> None:
    tokens, joined = Tokens.of(DOCUMENTS), " ".join(TEXTS)
    assert [joined[begin:end] for begin, end in tokens.offsets] == tokens.words
    labels = tokens.labels([(0, 0, 11), (0, 13, 15), (2, 0, 8), (1, 0, 0)])
    assert [tokens.words[place] for place in np.flatnonzero(labels == BEGIN)] == ["Marsh", "MF", "Crohn"]
    assert [tokens.words[place] for place in np.flatnonzero(labels == INSIDE)] == ["fever", "'", "s"]
    known = KnownNames.of(KB, abbreviations=True)
    columns = tokens.columns(known, labels)
    for row in range(len(DOCUMENTS)):  # the features of a document do not depend on others
        alone, of = Tokens.of(DOCUMENTS[row : row + 1]), tokens.document == row
        assert (alone.columns(known, labels[of]) == columns[of]).all()
    assert Tokens.of(DOCUMENTS[1:2]).columns(known, np.empty(0, np.int64)).shape[0] == 0


def test_in_training_no_document_gives_its_own_names_to_the_dictionary() -> None:
    texts, own = [f"the zq{letter} of marsh fever" for letter in "abcdefa"], [{"spans": [[4, 7]]}]
    corpus = Corpus.of({"id": str(row), "text": text, "mentions": own} for row, text in enumerate(texts))
    places = sorted(_places_in_parts(corpus, KnownNames.of(KB, abbreviations=True), [text[4:7] for text in texts]))
    assert [place for place in places if place[1] == 4] == [(0, 4, 7), (6, 4, 7)]
    assert [row for row, begin, _ in places if begin == 11] == [*range(7)]


@pytest.fixture(scope="session")
def tagger(sample: tuple[Corpus, arbo.KnowledgeBase]) -> arbo.Tagger:
    documents, kb = sample
    return arbo.train_tagger(documents[:60], kb)


def f1(finder: Any, documents: Corpus, kb: arbo.KnowledgeBase) -> float:
    found = find(finder, documents, kb)
    entities = [kb.entities[proposal.entity].id for proposal in found.proposals]
    return found_scores(documents, found.corpus, kb, entities).mentions.exact.f1


def test_a_tagger_finds_more_than_the_dictionary(tagger: arbo.Tagger, sample: Any) -> None:
    documents, kb = sample
    assert f1(tagger, documents[60:], kb) > f1(arbo.DictionaryFinder(), documents[60:], kb) + 0.05
    sure = find(replace(tagger, threshold=0.8), documents[60:], kb).proposals
    assert sure == tuple(one for one in find(tagger, documents[60:], kb).proposals if one.score >= 0.8)
    assert not find(tagger, DOCUMENTS[1:2], kb).proposals


def test_a_tagger_is_what_was_saved(tagger: arbo.Tagger, sample: Any, tmp_path: Path) -> None:
    documents, kb = sample
    tagger.save(tmp_path / "tagger")
    again = arbo.Tagger.load(tmp_path / "tagger")
    assert find(again, documents[60:], kb).proposals == find(tagger, documents[60:], kb).proposals
    values = json.loads((tmp_path / "tagger").read_text("utf-8"))
    for changes, words in (
        ({"format": "arbo-edges"}, "this is not a tagger"),
        ({"weights": values["weights"][1:]}, "weights are damaged"),
        ({"pairs": [["a"]]}, "weights are damaged"),
        ({"names": None}, "no valid names"),
    ):
        (tmp_path / "bad").write_text(json.dumps({**values, **changes}), "utf-8")
        with pytest.raises(DataError, match=words):
            arbo.Tagger.load(tmp_path / "bad")
    with pytest.raises(DataError, match="documents have none"):
        arbo.train_tagger(DOCUMENTS, kb)


def test_a_base_that_has_the_names_already_is_named(sample: Any) -> None:
    documents, kb = sample[0][:40], sample[1]
    known = arbo.learn(arbo.Linker(kb.with_names_of(documents)), documents, tunes=False)
    assert known.lines[0].startswith("no names: the knowledge base has those of all documents")
    with pytest.raises(arbo.UsageError, match="the linker has none"):
        arbo.learn(arbo.Linker(), documents)
    mention = {"spans": [[0, 3]], "entities": ["A"]}
    same = [{"id": str(number), "text": "Ada", "mentions": [mention]} for number in range(30)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", "Ada"), arbo.Entity("B", "Babbage")])
    learnt = arbo.learn(arbo.Linker(kb), same)  # no pair of mentions is wrong
    assert (learnt.linker.edges, [line.split(":")[0] for line in learnt.lines[1:]]) == (None, ["names", "thresholds"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample: Any) -> Path:
    """The sample, of which 60 documents teach, 20 are linked and 10 are added."""
    folder = sample_files(tmp_path_factory.mktemp("learnt"))
    for name, part in (("teach", slice(30, 90)), ("some", slice(20)), ("more", slice(20, 30)), ("few", slice(2))):
        sample[0][part].to_jsonl(folder / f"{name}.jsonl")
    (folder / "none.jsonl").write_text("", "utf-8")
    return folder


def test_a_tagger_is_trained_then_finds(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    train = ["train", "finder", *linking(folder, "teach.jsonl"), "--out"]
    assert run(*train, folder / "tagger", "--json").ok().json["names"] > 100
    monkeypatch.chdir(folder)
    for docs in ("some.jsonl", "teach.jsonl"):
        linked = run("link", *linking(folder, docs), "--find-mentions", "tagger", "--out", folder / "run")
        assert arbo.Result.load(folder / "run").manifest["reading"]["finder"] == str(folder / "tagger")
        assert ("documents are among those that the finder was trained on" in linked.ok().told) == (docs[0] == "t")
    done = run(*train, folder / "other", "--set", "steps=2")
    assert (done.code, "need --encoder, since a tagger has none" in done.told) == (2, True)


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("teach.jsonl", ["names", "thresholds", "edges"]),
        ("teach.jsonl --threshold 0.4", ["names"]),
        ("teach.jsonl --corrections none.jsonl --preview", ["names", "thresholds", "edges"]),
        ("teach.jsonl --find-mentions dictionary", ["names", "thresholds", "edges", "tagger"]),
        ("few.jsonl", ["too"]),
    ],
)
def test_a_run_learns_from_documents_and_grows(folder: Path, run: Run, words: str, steps: list[str]) -> None:
    more = [folder / word if word.endswith(".jsonl") else word for word in words.split()]
    out = folder / "-".join(["learnt", *steps, str(len(more))])
    done = run("link", *linking(folder, "some.jsonl"), "--out", out, "--learn-from", *more).ok()
    assert re.findall(r"learnt (\w+)", " ".join(done.told.split())) == steps
    assert out.exists() == Path(f"{out}.kb.jsonl").exists() == ("--preview" not in words)
    if "edges" in steps and out.exists():
        manifest = arbo.Result.load(out).manifest
        kept = {"edges": f"{out}.edges.json"} | ({"finder": f"{out}.finder"} if "tagger" in steps else {})
        assert manifest["reading"].items() >= kept.items()
        assert manifest["kb_source"]["path"] == f"{out}.kb.jsonl"
        run("add", out, folder / "more.jsonl", "--out", folder / "grown").ok()
        assert len(arbo.Result.load(folder / "grown").links) > len(arbo.Result.load(out).links)

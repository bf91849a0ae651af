"""Words that name a given entity: the split by entities, scores against brute force, the rule-based baseline."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from conftest import Run
from hypothesis import given, settings, strategies as st

from arbo import Corpus, Document, Entity, KnowledgeBase, Mention, load_sample
from arbo.readers import read_documents
from arbo.spans.baselines import Fuzzy
from arbo.spans.entity_split import EntitySplit, documents_of, entity_split
from arbo.spans.finding import DictionaryFinder, PairFinder
from arbo.spans.given import given_scores, given_spans
from arbo.spans.pieces import Pairs, pieces
from arbo.spans.union import UnionFinder
from arbo.text.sentences import passages, sentences
from arbo.text.words import content_words

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.oslat.rule_based import rule_based
from library.oslat.scores import text_linking_scores

KB = KnowledgeBase(
    [Entity("D1", "cancer of the breast", ("breast cancer", "cancer")), Entity("D2", "fever", ("hay fever", "+++"))]
)
TEXTS = ["Breast-cancer, cancer in fevers.", "", "of the", "Hay  fever! Hay\r\nFEVER \U0001f600"]


def pairs(*given: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    text, entity = np.array(given, np.int64).reshape(-1, 2).T
    return text, entity


def test_rule_based_finds_the_longest_names() -> None:
    found = rule_based(TEXTS, KB, *pairs((3, 1), (0, 0), (0, 1), (1, 0), (2, 1), (0, 0)))
    assert found == [((0, 10), (17, 22)), ((0, 13), (15, 21)), (), (), (), ((0, 13), (15, 21))]


# The split --------------------------------------------------------------------------------------------


def corpus_of(entities: list[list[int]]) -> tuple[Corpus, KnowledgeBase]:
    """Texts that name entities, each in a mention, some in two."""
    kb = KnowledgeBase(Entity(f"E{i}", f"name {i}") for i in range(30))
    made = []
    for row, own in enumerate(entities):
        mentions = [
            Mention(f"{row}:{i}", str(row), ((i, i + 1),), "x", gold=(f"E{e}",)) for i, e in enumerate([*own, *own[:1]])
        ]
        made.append(Document(str(row), "x" * 9, tuple(mentions)))
    return Corpus(made), kb


collections = st.lists(st.lists(st.integers(0, 29), max_size=5, unique=True), min_size=5, max_size=120).filter(any)


def pairs_in(corpus: Corpus) -> set[tuple[str, str]]:
    return {(m.document_id, id_) for m in corpus.mentions for id_ in m.gold or ()}


@settings(max_examples=40)
@given(collections, st.integers(0, 3))
def test_every_split_keeps_its_promises(entities: list[list[int]], seed: int) -> None:
    corpus, kb = corpus_of(entities)
    split = entity_split(corpus, kb, seed=seed)
    test = {
        (corpus[int(t)].id, kb.entities[e].id) for t, e in zip(split.test.text, split.test.entity.tolist(), strict=True)
    }
    train, everything = pairs_in(split.train), pairs_in(corpus)
    assert pairs_in(documents_of(split.test, kb)) == test
    assert test | train == everything
    assert not test & train
    assert all(document.mentions for document in split.train)
    unseen = {kb.entities[row].id for row in split.unseen.tolist()}
    frequency = Counter(e for _, e in everything)
    assert len(unseen) == round(0.1 * len(frequency))
    assert {e for _, e in train} == set(frequency) - unseen
    for e, n in frequency.items():
        n_test = sum(id_ == e for _, id_ in test)
        assert n_test == (n if e in unseen else max(0, min(n // 10, n - 5)))


def test_unseen_entities_come_from_all_frequencies_and_the_seed_decides() -> None:
    corpus, kb = corpus_of([[e] for e in range(30) for _ in range(30 - e)])
    frequent = Counter[int]()
    for seed in range(40):
        split = entity_split(corpus, kb, unseen=1 / 6, seed=seed)
        thirds = Counter(row // 10 for row in split.unseen.tolist())
        assert [thirds[third] for third in range(3)] == [1, 2, 2]
        frequent.update(split.unseen.tolist())
    assert set(frequent) == set(range(30))
    again, other = (entity_split(corpus, kb, unseen=1 / 6, seed=seed) for seed in (7, 8))
    split = entity_split(corpus, kb, unseen=1 / 6, seed=7)
    assert split.train == again.train
    assert split.test.text.tolist() == again.test.text.tolist() != other.test.text.tolist()
    with pytest.raises(ValueError, match="check that the ids and the domains match"):
        entity_split(corpus, KnowledgeBase([Entity("X", "x")]))


# Scores -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> tuple[EntitySplit, KnowledgeBase]:
    documents, kb = load_sample()
    return entity_split(pieces(documents, sentences).corpus, kb, unseen=0.5, test=0.5, least=1), kb


def test_extraction_by_brute_force(sample: tuple[EntitySplit, KnowledgeBase]) -> None:
    split, kb = sample
    test, seen = split.test, ~np.isin(split.test.entity, split.unseen)
    found = rule_based([document.text for document in test.corpus], kb, test.text, test.entity)
    scores = given_scores(test, found, seen).groups
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for i, row in enumerate(test.text.tolist()):
        units = content_words(test.corpus[row].text)

        def touched(spans: object, units: list[tuple[int, int]] = units) -> set[int]:
            return {u for u, (a, b) in enumerate(units) for c, d in spans if a < d and c < b}  # type: ignore[attr-defined]

        gold, predicted = touched([span for mention in test.mentions[i] for span in mention]), touched(found[i])
        kind = "disjoint" if any(len(mention) > 1 for mention in test.mentions[i]) else "contiguous"
        group = "seen" if seen[i] else "unseen"
        for at in ((kind, group), ("all", group), (kind, "all"), ("all", "all")):
            counts[at] = [a + b for a, b in zip(counts[at], map(len, (gold, predicted, gold & predicted)), strict=True)]
    assert counts["all", "seen"][2]
    assert counts["all", "unseen"][2]
    assert len(scores) == 9
    for at, scored in scores.items():
        assert list(scored.counts[:3]) == counts[at]
    with pytest.raises(ValueError, match="shorter"):
        given_scores(test, [], seen)


def test_both_finders_look_for_given_entities() -> None:
    pytest.importorskip("rapidfuzz")
    mentions = tuple(Mention(f"m{e}", "d", ((0, 5),), "Fever", gold=(e,)) for e in ("D1", "D2"))
    given_ = Pairs.of(Corpus([Document("d", "Fever, hay fevers and breast cancr", mentions)]), KB)
    exact, fuzzy = DictionaryFinder(), PairFinder(Fuzzy(), 0.8)
    assert given_spans(exact, given_, KB) == [(), ((0, 5), (7, 17))]
    assert given_spans(fuzzy, given_, KB) == [((22, 34),), ((0, 5), (7, 17))]
    assert given_spans(UnionFinder(exact, fuzzy), given_, KB) == given_spans(fuzzy, given_, KB)


def test_from_a_split_to_scores(tmp_path: Path, run: Run) -> None:
    documents, kb = load_sample()
    documents.to_jsonl(tmp_path / "docs.jsonl")
    kb.to_jsonl(tmp_path / "kb.jsonl")
    of, out = ["--kb", tmp_path / "kb.jsonl", "--json"], tmp_path / "split"
    done = run("entity-split", tmp_path / "docs.jsonl", *of, "--unseen", 0.2, "--seed", 3, "--out", out)
    assert done.code == 0, done.err
    cut = pieces(documents, passages).corpus
    split = entity_split(cut, kb, unseen=0.2, seed=3)
    assert read_documents(out / "train.jsonl", "jsonl") == split.train
    assert (done.json["unseen_entities"], done.json["test_pairs"]) == (len(split.unseen), len(split.test))
    known = KnowledgeBase.from_jsonl(out / "kb.jsonl")
    assert {e.id for e in kb} - {e.id for e in known} == {kb.entities[row].id for row in split.unseen.tolist()}
    scored = run("spans", out / "test.jsonl", *of, "--given-entities", "--train", out / "train.jsonl")
    assert scored.code == 0, scored.err
    seen = ~np.isin(split.test.entity, split.unseen)
    expected = given_scores(split.test, given_spans(DictionaryFinder(), split.test, kb), seen).as_dict()
    assert scored.json == {"pairs": len(split.test), "groups": json.loads(json.dumps(expected))}
    micro = expected["all, unseen"]["micro"]
    shown = run("spans", out / "test.jsonl", *of[:2], "--given-entities", "--train", out / "train.jsonl").out
    assert f"{micro['precision']:.4f} {micro['recall']:.4f} {micro['f1']:.4f}" in shown
    refused = run("entity-split", tmp_path / "docs.jsonl", *of, "--unseen", 0.9, "--out", out)
    assert (refused.code, "--unseen" in refused.told) == (2, True)
    for options, told in (
        (["--train", out], "--train needs --given-entities"),
        (["--given-entities", "--out", "x"], "only scores"),
        (["--given-entities", "--limit", 3], "leave --limit out"),
        (["--given-entities", "--finder", "dictionary+model", "--find-threshold", 99], "they are given; leave it out"),
    ):
        refused = run("spans", out / "test.jsonl", *of, *options)
        assert (refused.code, told in refused.told) == (2, True)


class ByTable:
    """Scores as a table says."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def score(self, texts: object, kb: object, text: np.ndarray, entity: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.table[text, entity].astype(np.float32)
        return found


@given(st.data())
def test_text_linking_by_brute_force(data: st.DataObject) -> None:
    corpus, kb = corpus_of([[0, 3], [1], [], [2, 4, 5]])
    gold = Pairs.of(corpus, kb)
    universe = np.array([5, 0, 1, 2, 3, 4, *range(6, 6 + data.draw(st.integers(0, 8)))])
    row = st.lists(st.integers(0, 3), min_size=30, max_size=30)
    table = np.array(data.draw(st.lists(row, min_size=4, max_size=4)))
    scores = text_linking_scores(gold, kb, ByTable(table), universe, gold.entity < 2)
    for k, recall in scores.recall.items():
        hits = [
            e in sorted(universe.tolist(), key=lambda other, t=t: (-table[t, other], other))[:k]
            for t, e in zip(gold.text.tolist(), gold.entity.tolist(), strict=True)
        ]
        assert recall == pytest.approx(sum(hits) / len(hits))
    assert set(scores.recall) == {k for k in (1, 5, 10) if k <= len(universe)}

"""The experiment of OSLAT: its split by entities, and its scores against brute force."""

import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from arbo import Corpus, Document, Entity, KnowledgeBase, Mention, load_sample
from arbo.text.words import content_words, sentences

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from library.oslat.entity_split import documents_of, entity_split
from library.oslat.pairs import Pairs, pieces
from library.oslat.rule_based import rule_based
from library.oslat.scores import given_scores, linked_scores


def corpus_of(entities: list[list[int]], spans: Any = ((0, 1),)) -> tuple[Corpus, KnowledgeBase]:
    """Texts that name entities, each in a mention, some in two."""
    kb = KnowledgeBase(Entity(f"E{i}", f"name {i}") for i in range(30))
    made = []
    for row, own in enumerate(entities):
        text = " ".join("x" * len(spans))
        mentions = (Mention(f"{row}:{i}", str(row), spans, text, gold=(f"E{e}",)) for i, e in enumerate(own + own[:1]))
        made.append(Document(str(row), "x" * 9, tuple(mentions)))
    return Corpus(made), kb


def pairs_in(corpus: Corpus) -> set[tuple[str, str]]:
    return {(m.document_id, id_) for m in corpus.mentions for id_ in m.gold or ()}


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 29), max_size=5, unique=True), min_size=5, max_size=120).filter(any))
def test_unseen_entities_and_a_tenth_of_the_others_are_tested(entities: list[list[int]]) -> None:
    corpus, kb = corpus_of(entities)
    split = entity_split(corpus, kb, seed=len(entities))
    train, test, everything = pairs_in(split.train), pairs_in(documents_of(split.test, kb)), pairs_in(corpus)
    assert (test | train, test & train) == (everything, set())
    unseen = {kb.entities[row].id for row in split.unseen.tolist()}
    frequency = Counter(e for _, e in everything)
    assert len(unseen) == round(0.1 * len(frequency))
    assert {e for _, e in train} == set(frequency) - unseen
    for e, n in frequency.items():
        assert sum(id_ == e for _, id_ in test) == (n if e in unseen else max(0, min(n // 10, n - 5)))


def test_words_of_given_entities_by_brute_force() -> None:
    documents, kb = load_sample()
    split = entity_split(pieces(documents, sentences).corpus, kb, unseen=0.5, test=0.5, least=1)
    test, seen = split.test, ~np.isin(split.test.entity, split.unseen)
    spans = rule_based([document.text for document in test.corpus], kb, test.text, test.entity)
    counts: dict[tuple[str, str], Any] = defaultdict(lambda: np.zeros(3, int))
    for i, row in enumerate(test.text.tolist()):
        words = content_words(test.corpus[row].text)
        gold, predicted = (
            {place for place, (a, b) in enumerate(words) for c, d in some if a < d and c < b}
            for some in (sum(test.mentions[i], ()), spans[i])
        )
        kind = "disjoint" if any(len(mention) > 1 for mention in test.mentions[i]) else "contiguous"
        for group in ((a, b) for a in (kind, "all") for b in ("seen" if seen[i] else "unseen", "all")):
            counts[group] += [len(gold), len(predicted), len(gold & predicted)]
    assert counts["all", "seen"].all()
    assert counts["all", "unseen"].all()
    scores = given_scores(test, spans, seen)
    assert len(scores) == 9
    assert {group: list(scored.counts[:3]) for group, scored in scores.items() if group in counts} == {
        group: count.tolist() for group, count in counts.items()
    }


class ByTable:
    """Scores as a table says."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def score(self, texts: object, kb: object, text: np.ndarray, entity: np.ndarray, announce: object) -> np.ndarray:
        return np.float32(self.table[text, entity])


@given(st.data())
def test_ranks_of_linked_entities_by_brute_force(data: st.DataObject) -> None:
    corpus, kb = corpus_of([[0, 3], [1], [], [*range(6, 14)], [*range(12, 20)]])
    apart = corpus_of([[], [], [], [], [], [2, 4, 5]], ((0, 1), (3, 4)))[0][5:]
    domains = data.draw(st.lists(st.sampled_from("vw"), min_size=36, max_size=36))
    kb = KnowledgeBase(replace(entity, domain=domain) for entity, domain in zip(kb, domains[:30], strict=True))
    corpus = Corpus(replace(d, domain=domain) for d, domain in zip([*corpus, *apart], domains[30:], strict=True))
    gold = Pairs.of(corpus, kb)
    row = st.lists(st.integers(0, 3), min_size=30, max_size=30)
    scorer = ByTable(np.array(data.draw(st.lists(row, min_size=6, max_size=6))))
    scores = linked_scores(scorer, gold, kb, gold.entity < 2)
    hits: dict[tuple[tuple[str, str], int], list[bool]] = defaultdict(list)
    for text, entity, mentions in zip(gold.text.tolist(), gold.entity.tolist(), gold.mentions, strict=True):
        others = [other for other in set(gold.entity.tolist()) if domains[other] == corpus[text].domain]
        best = sorted(others, key=lambda other, text=text: (-scorer.table[text, other], other))
        kind = "disjoint" if len(mentions[0]) > 1 else "contiguous"
        for group in ((a, b) for a in (kind, "all") for b in ("seen" if entity < 2 else "unseen", "all")):
            for k in (1, 5, 10):
                hits[group, k].append(entity in best[:k])
    assert {*scores} == {group for group, _ in hits}
    for (group, k), own in hits.items():
        assert scores[group][f"@{k}"] == pytest.approx(sum(own) / len(own))

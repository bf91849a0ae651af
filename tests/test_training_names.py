"""Trainings of OSLAT: what is contrasted, and that a model learns where to look."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import scores_of
from hypothesis import given, strategies as st
from training_builders import DOCUMENTS, KB, QUICK_OSLAT, READS, document, log_of, oslat_trainer, without_dropout

import arbo
from arbo.encoders.tower import Tower
from arbo.engine import threshold_curve
from arbo.spans.model import LabelAttention
from arbo.spans.model_finder import spans_of
from arbo.training.config import SelfAlignmentConfig
from arbo.training.oslat import Contrasts, Synonyms


@given(
    sets=st.lists(st.lists(st.sampled_from("aAbcdef"), min_size=1, max_size=4), min_size=1, max_size=6),
    n=st.integers(1, 8),
    seed=st.integers(0, 99),
    avoided=st.lists(st.integers(0, 5), max_size=3),
)
def test_negatives_are_others_and_as_many_as_there_are(
    sets: list[list[str]], n: int, seed: int, avoided: list[int]
) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(str(i), own[0], aliases=tuple(own[1:])) for i, own in enumerate(sets)])
    synonyms, (names, _) = Synonyms.of(kb), kb.names()
    own = np.unique([i % len(sets) for i in avoided]).astype(int)
    spellings = [synonyms.spelling[synonyms.of_entities(some)] for some in (own, own[:1])]
    drawn = synonyms.draw_others(np.arange(len(kb)), spellings, n, np.random.default_rng(seed))
    for row, entities in zip(drawn, (own, own[:1]), strict=True):
        negatives = [names[synonyms.place[i]].lower() for i in row[row >= 0]]
        wrong = {name.lower() for entity in entities for name in sets[entity]}
        left = {name.lower() for own_ in sets for name in own_} - wrong
        assert len(negatives) == len(set(negatives)) == min(n, len(left))
        assert set(negatives) <= left


def test_an_entity_with_many_names_is_drawn_no_more_often() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("few", "x"), arbo.Entity("many", "a", aliases=tuple("bcdefgh"))])
    synonyms = Synonyms.of(kb)
    rng, none = np.random.default_rng(0), [np.empty(0, np.int64)]
    first = [synonyms.owner[synonyms.draw_others(np.arange(2), none, 1, rng)[0, 0]] for _ in range(1000)]
    assert 450 < Counter(first)[1] < 550


def test_names_are_contrasted_with_their_synonyms_and_with_no_gold_name(bert: Tower, tmp_path: Path) -> None:
    it = oslat_trainer(bert, READS, tmp_path, n_negatives=50)
    all_names, data, n = KB.names().names, it.data, 1 + it.config.n_positives
    assert len(data.queries) == len(data.entity) - 1  # one entity has no synonym
    every = {name.lower() for e in KB for name in (e.name, *e.aliases)}
    for step in range(20):
        batch = it.batch(step, data.queries, np.arange(len(data.queries)))
        for query, *row in batch:
            own, others = ([all_names[data.synonyms.place[i]] for i in part if i >= 0] for part in (row[:n], row[n:]))
            assert len({name.lower() for name in own}) == len(own) >= 2
            entity = KB.entities[data.entity[query]]
            assert set(own) <= {entity.name, *entity.aliases}
            gold = {e for d in DOCUMENTS[int(data.context[query])].mentions for e in d.gold or () if e in KB}
            right = {name.lower() for e in gold for name in (KB[e].name, *KB[e].aliases)}
            assert {name.lower() for name in others} == every - right
    names = Contrasts.of_names(KB)
    rows = names.sampled(names.queries, SelfAlignmentConfig(n_positives=2), 0)[:, 1:4]
    assert (rows[:, 0] == names.queries).all()
    for row, avoided in zip(rows, names.avoided(names.queries), strict=True):
        own = row[row >= 0]
        assert len(set(own)) == len(own) >= 2
        (owner,) = set(names.synonyms.owner[own])
        assert set(avoided) == set(names.synonyms.spelling[names.synonyms.owner == owner])


@pytest.mark.slow
def test_the_positions_of_mentions_do_not_count(bert: Tower, tmp_path: Path) -> None:
    scrambled = [document(d.id, d.text, [m.gold[0] for m in d.mentions][::-1], 1) for d in DOCUMENTS]
    assert arbo.Corpus(scrambled).fingerprint != DOCUMENTS.fingerprint
    for place, documents in enumerate((DOCUMENTS, scrambled)):
        out = tmp_path / str(place)
        arbo.train_oslat(LabelAttention.of(bert, READS), documents, KB, out=out, config=QUICK_OSLAT)
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
    model, config = (
        without_dropout(aligned.mention_tower),
        replace(QUICK_OSLAT, epochs=15, batch_size=16, n_negatives=8),
    )
    how: Any = {"out": tmp_path / "out", "config": config}
    trained = arbo.train_oslat(LabelAttention.of(model, READS), documents[:50], kb, **how)
    texts = [one.text for one in documents[60:]]
    text, entity = np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20)
    right = [words[60 + i].get(e) for i, e in zip(text.tolist(), entity.tolist(), strict=True)]

    def looks(model: LabelAttention) -> tuple[float, float]:
        """Return the mean weight of the word that stands for the entity, and how often it is in the spans."""
        shares, hits = [], []
        for look in model.looks(texts, kb, text, entity):
            words = texts[look.text].split()
            spans = spans_of(texts[look.text], look.tokens, look.weights)
            for pair, weights, own in zip(look.pairs, look.weights, spans, strict=True):
                if word := right[pair]:
                    shares.append(weights[words.index(word)])
                    hits.append(word in [texts[look.text][b:e] for b, e in own])
        return float(np.mean(shares)), float(np.mean(hits))

    assert looks(trained)[0] > looks(LabelAttention.of(tower, READS))[0] + 0.2
    assert looks(trained)[1] > 0.75
    is_there = np.array([word is not None for word in right])
    assert threshold_curve(is_there, scores_of(trained, texts, kb, text, entity)).best.f1 > 0.9
    for log in (log_of(tmp_path / "out"), log_of(tmp_path / "aligned")):
        assert log[-1]["loss"] < log[0]["loss"] / 4

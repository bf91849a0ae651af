"""OSLAT from end to end: trainings that are interrupted or learn."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import (
    DOCUMENTS,
    KB,
    QUICK_ATTENTION,
    READS,
    Killed,
    document,
    dying,
    log_of,
    torch,
    weights,
    without_dropout,
)

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet
from arbo.spans.finding import PairFinder
from arbo.spans.model import LabelAttention
from arbo.text.sentences import passages, whole
from arbo.training.config import LinkingHeadConfig, SelfAlignmentConfig
from arbo.training.oslat.self_alignment import train_self_alignment
from arbo.training.oslat.stages import train_oslat

HEAD = LinkingHeadConfig(epochs=2, batch_size=4, n_negatives=5, learning_rate=1e-2)


FILLERS = ["the", "of", "in", "and"]


def test_documents_are_read_by_the_sentence(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []

    def first(model: LabelAttention, documents: arbo.Corpus, kb: arbo.KnowledgeBase, **given: Any) -> None:
        read.extend([document.text for document in corpus] for corpus in (documents, given["dev"]))
        raise Killed

    monkeypatch.setattr("arbo.training.oslat.stages.train_label_attention", first)
    given_ = [document("d", "Marsh fever. The left kidney", ["E0"]), document("e", "cancer", ["E2"])]
    for split, cut in ((passages, ["Marsh fever.", "The left kidney", "cancer"]), (whole, [d.text for d in given_])):
        with pytest.raises(Killed):
            train_oslat(
                LabelAttention.of(bert, READS), given_, KB, out=tmp_path / split.__name__, dev=given_, split=split
            )
        assert read[-2:] == [cut, cut]


@pytest.mark.parametrize("expand", [True, False])
def test_the_threshold_is_that_of_a_finder_that_expands_alike(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expand: bool
) -> None:
    def tuned(finder: PairFinder, *_: object, **__: object) -> PairFinder:
        return replace(finder, threshold=0.75 if finder.abbreviations else 0.25)

    monkeypatch.setattr(PairFinder, "tuned", tuned)
    given_: Any = {"attention": replace(QUICK_ATTENTION, steps=1), "head": replace(HEAD, steps=1), "dev": DOCUMENTS}
    start, out = LabelAttention.of(bert, READS), tmp_path / "out"
    trained = train_oslat(start, DOCUMENTS, KB, out=out, expand_abbreviations=expand, **given_)
    assert trained.threshold == (0.75 if expand else 0.25)


@pytest.mark.slow
def test_spans_are_not_looked_at(bert: Tower, tmp_path: Path) -> None:
    scrambled = [document(d.id, d.text, [m.gold[0] for m in d.mentions][::-1], 1) for d in DOCUMENTS]  # type: ignore[index]
    assert arbo.Corpus(scrambled).fingerprint != DOCUMENTS.fingerprint
    for place, documents in enumerate((DOCUMENTS, scrambled)):
        run = partial(train_oslat, LabelAttention.of(bert, READS), documents, KB, attention=QUICK_ATTENTION, head=HEAD)
        run(out=tmp_path / str(place), dev=documents)
    assert log_of(tmp_path / "0") == log_of(tmp_path / "1")
    first, second = (tmp_path / f"{i}.attention.log.jsonl" for i in (0, 1))
    assert first.read_text() == second.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("dying_in", ["attention", "head"])
def test_an_interrupted_training_goes_on_with_the_same_losses(bert: Tower, tmp_path: Path, dying_in: str) -> None:
    def run(out: str, announce: Announce = quiet) -> LabelAttention:
        return train_oslat(
            LabelAttention.of(bert, READS),
            DOCUMENTS,
            KB,
            out=tmp_path / out,
            dev=DOCUMENTS[:3],
            attention=replace(QUICK_ATTENTION, epochs=2),
            head=HEAD,
            options=arbo.RunOptions(checkpoint_every=1, announce=announce),
        )

    trained = run("whole")
    with pytest.raises(Killed):
        run("parts", dying(1, training=["attention", "head"].index(dying_in) + 1))
    again = run("parts")
    for log in ("log.jsonl", "attention.log.jsonl"):
        assert (tmp_path / f"parts.{log}").read_text() == (tmp_path / f"whole.{log}").read_text()
    assert all(map(torch.equal, weights(trained), weights(again)))  # type: ignore[arg-type]
    assert trained.config == again.config
    names = {"whole", "whole.log.jsonl", "whole.attention.log.jsonl"}
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("whole")} == names


@pytest.mark.slow
def test_self_alignment_goes_on_and_makes_an_encoder(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(epochs=3, batch_size=8, n_negatives=6, learning_rate=1e-3)
    start = arbo.DualEncoder(bert, bert, arbo.EncoderConfig(pooling="cls", entity_threshold=0.3))

    run = partial(train_self_alignment, start, KB, config=config)
    trained = run(out=tmp_path / "whole")
    with pytest.raises(Killed):
        run(out=tmp_path / "parts", options=arbo.RunOptions(checkpoint_every=2, announce=dying(3)))
    again = run(out=tmp_path / "parts")
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert all(map(torch.equal, weights(trained), weights(again)))
    assert trained.config == arbo.EncoderConfig(pooling="cls")
    with pytest.raises(UsageError, match="separate tower for mentions"):
        train_self_alignment(start.with_two_towers(), KB, out=tmp_path / "two")
    lonely = arbo.KnowledgeBase([arbo.Entity("E", "fever", aliases=("FEVER",)), arbo.Entity("F", "cancer")])
    with pytest.raises(DataError, match=r"no entity \(of 2\) has two names that differ"):
        train_self_alignment(start, lonely, out=tmp_path / "lonely")


@pytest.mark.slow
def test_a_tiny_model_learns_where_to_look(bert: Tower, tmp_path: Path) -> None:
    """Names of an entity have no letter in common, each text has one of them, and nobody says which word it is."""
    names = [("fever", "marsh"), ("kidney", "left"), ("cancer", "syndrome"), ("patients", "disease")]
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", own[0], aliases=own[1:]) for i, own in enumerate(names)])
    rng, documents, words = np.random.default_rng(0), [], []
    for place in range(80):
        entities = rng.permutation(len(names))[:2].tolist()
        words.append({entity: names[entity][rng.integers(2)] for entity in entities})
        text = " ".join(rng.permutation([*words[-1].values(), *rng.choice(FILLERS, 4)]))
        documents.append(document(str(place), text, [f"E{entity}" for entity in entities]))
    tower = without_dropout(bert)
    encoder = arbo.DualEncoder(tower, tower, arbo.EncoderConfig())
    align = SelfAlignmentConfig(epochs=40, batch_size=8, n_negatives=6, learning_rate=1e-3)
    aligned = train_self_alignment(encoder, kb, out=tmp_path / "aligned", config=align)
    trained = train_oslat(
        LabelAttention.of(without_dropout(aligned.mention_tower), READS),
        documents[:50],
        kb,
        out=tmp_path / "out",
        dev=documents[50:60],
        attention=replace(QUICK_ATTENTION, epochs=15, batch_size=16, n_negatives=8, learning_rate=5e-4),
        head=replace(HEAD, epochs=20, batch_size=8, learning_rate=0.01),
    )
    texts = [one.text for one in documents[60:]]
    text, entity = np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20)
    right = [words[60 + i].get(e) for i, e in zip(text.tolist(), entity.tolist(), strict=True)]

    def mass(model: LabelAttention) -> float:
        """Return the mean weight of the word that stands for the entity, where one does."""
        found = model.attention(texts, kb, text, entity)
        at = [texts[i].split().index(word) if word else -1 for i, word in zip(text.tolist(), right, strict=True)]
        return float(np.mean([found.weight[found.start[pair] + at[pair]] for pair in range(len(at)) if right[pair]]))

    assert mass(trained) > mass(LabelAttention.of(tower, READS)) + 0.2
    is_there = np.array([word is not None for word in right])
    assert ((trained.score(texts, kb, text, entity) >= trained.threshold) == is_there).mean() > 0.9
    spans = trained.spans(texts, kb, text, entity)
    found = [word in [texts[i][b:e] for b, e in own] for i, word, own in zip(text, right, spans, strict=True) if word]
    assert np.mean(found) > 0.75
    lines = [json.loads(line) for line in (tmp_path / "out.attention.log.jsonl").read_text().splitlines()]
    for log in (lines, log_of(tmp_path / "aligned")):
        assert log[-1]["loss"] < log[0]["loss"] / 4
